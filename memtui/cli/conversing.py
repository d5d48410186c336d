"""What commands ask of an engine about conversations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from memtui.model import Ranking
from memtui.model.conversations import (
    ConversationListing,
    MemoryCall,
    Replayed,
    TranscriptSource,
    Turn,
)


class ReadConversation(Protocol):
    """One transcript that was read."""

    @property
    def listing(self) -> ConversationListing:
        """What a list shows of it, with everything counted."""

    @property
    def turns(self) -> Sequence[Turn]:
        """Every entry in the file's order, texts cut to their beginning."""

    @property
    def malformed(self) -> Sequence[tuple[int, str]]:
        """The lines that are no record, each with why."""

    def wholes(self, *, cancelled: Callable[[], bool] = lambda: False) -> Iterator[Turn]:
        """Every turn with its whole text; reads the file again."""


class ConversationEngine(Protocol):
    """The part of an engine that knows conversations."""

    def conversations(self) -> Sequence[ConversationListing]:
        """Every transcript of this memory, newest first."""

    def count_conversations(
        self,
        listings: Sequence[ConversationListing],
        counted: Callable[[ConversationListing], None],
        *,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Read those whose turns nobody has counted, and tell each when it is."""

    def conversation(
        self, path: str, *, cancelled: Callable[[], bool] = lambda: False
    ) -> ReadConversation:
        """Read one transcript."""

    def transcript_sources(self) -> Sequence[TranscriptSource]:
        """The places of transcripts, and how much of each the index holds."""

    def memory_calls(
        self,
        paths: Sequence[str] | None = None,
        *,
        found: Callable[[Sequence[MemoryCall]], None] = lambda calls: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Sequence[MemoryCall]:
        """The searches of the memory in some transcripts, or in all, newest first."""

    def replay(self, call: MemoryCall, *, ranking: Ranking | None = None) -> Replayed:
        """Ask the present index with the present parameters, and compare."""
