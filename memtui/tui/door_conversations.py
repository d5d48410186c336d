"""The engine as the sessions screens use it: conversations, their sources, what was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from memtui.model import Ranking

if TYPE_CHECKING:
    from memtui.model.conversations import (
        ConversationListing,
        MemoryCall,
        Replayed,
        TranscriptSource,
        Turn,
    )


class Conversation(Protocol):
    """One transcript, read by its line offsets: long texts are on disk until they are asked for."""

    @property
    def listing(self) -> ConversationListing:
        """What a list shows of it, with everything counted."""

    @property
    def turns(self) -> Sequence[Turn]:
        """Every entry in the file's order, texts cut to their beginning; `size` is the whole's."""

    @property
    def malformed(self) -> Sequence[tuple[int, str]]:
        """The lines that are no record, each with why."""

    def whole(self, at: int) -> Turn:
        """The turn at a place in `turns` with its whole text; reads the file."""

    def find(self, text: str, *, cancelled: Callable[[], bool] = lambda: False) -> Sequence[int]:
        """The places in `turns` whose whole text holds `text`, in any case; reads the file."""


class ConversationDoor(Protocol):
    """Conversations and what was asked of the memory in them; reads files, off the loop.

    Long answers ask `cancelled` and raise `memtui.errors.Cancelled` when it turns true.
    """

    def conversations(self) -> Sequence[ConversationListing]:
        """Every transcript on this machine that is of this memory, newest first.

        From the index and the beginning of each file: what takes reading is `None`.
        """

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
    ) -> Conversation:
        """Read one transcript; raises `MemtuiError` for one that is gone or cannot be read."""

    def transcript_sources(self) -> Sequence[TranscriptSource]:
        """The places of transcripts, opted in or not, and how much of each the index holds."""

    def use_transcripts(self, names: Sequence[str]) -> None:
        """Index these sources from now on, and no others; the index follows."""

    def memory_calls(
        self,
        paths: Sequence[str] | None = None,
        *,
        found: Callable[[Sequence[MemoryCall]], None] = lambda calls: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Sequence[MemoryCall]:
        """The searches of the memory in some transcripts, or in all, newest first.

        `found` is told those of each transcript as soon as it is read.
        """

    def replay(self, call: MemoryCall, *, ranking: Ranking | None = None) -> Replayed:
        """Ask the present index with the present parameters, and compare."""
