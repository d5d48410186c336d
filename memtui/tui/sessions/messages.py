"""What the workers of the sessions screen find, as messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from memtui.model.conversations import (
    ConversationListing,
    MemoryCall,
    Replayed,
    TranscriptSource,
)
from memtui.tui.sessions.borders import Borders, Edge

if TYPE_CHECKING:
    from memtui.engine.conversations.reading import OpenConversation


@dataclass
class ConversationsFound(Message):
    """The transcripts were looked for; `error` says why that was not possible."""

    listings: Sequence[ConversationListing]
    sources: Sequence[TranscriptSource]
    error: str = ""
    seconds: float = 0.0
    """How long it took."""


@dataclass
class ConversationsCounted(Message):
    """Some transcripts were read to their end; `is_all` once none is left to be read."""

    listings: Sequence[ConversationListing]
    is_all: bool


@dataclass
class ConversationRead(Message):
    """A transcript was read; without a conversation `error` says why it could not be."""

    path: str
    conversation: OpenConversation | None
    borders: Borders
    edges: Sequence[Edge]
    problems: Mapping[int, str]
    error: str = ""


Stat = tuple[tuple[int, int], ...]
"""Size in bytes and mtime in ns of each file that holds a conversation."""


@dataclass
class ConversationStat(Message):
    """What holds the conversation in the reader was looked at."""

    listing: ConversationListing
    """As it was read."""
    stat: Stat


@dataclass
class WholeRead(Message):
    """The whole text of a turn was read."""

    conversation: OpenConversation
    """What was read."""
    at: int
    text: str
    error: str = ""
    is_for_match: bool = False
    """It is shown for what is looked for in it."""


@dataclass
class TextFound(Message):
    """The turns that hold a text."""

    conversation: OpenConversation
    """What was looked through."""
    text: str
    places: Sequence[int]
    error: str = ""


@dataclass
class CallsFound(Message):
    """Searches of the memory; `is_all` once every transcript was read."""

    ticket: int
    calls: Sequence[MemoryCall]
    is_all: bool
    error: str = ""


@dataclass
class CallReplayed(Message):
    """A search of the memory was asked again."""

    ticket: int
    key: str
    """Which of the searches listed it is."""
    replayed: Replayed
