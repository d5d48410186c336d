"""The part of an engine that knows conversations; see `memtui.tui.door_conversations`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from memtui.model import Ranked, Ranking
from memtui.model.conversations import (
    ConversationListing,
    MemoryCall,
    Replayed,
    TranscriptKind,
    TranscriptSource,
)

# What reads transcripts is imported when somebody asks for them: a search does without.
if TYPE_CHECKING:
    from memtui.engine.conversations.library import Indexed, Library
    from memtui.engine.conversations.reading import OpenConversation
    from memtui.engine.conversations.replay import PathNames, Surroundings
    from memtui.index.database import Connection
    from memtui.index.reader import ChunkRange
    from memtui.index.transcripts.discovery import Located
    from memtui.index.transcripts.scope import TranscriptScope
    from memtui.model import ProviderListing

T = TypeVar("T")


def _never() -> bool:
    return False


class Conversations:
    """Lists and reads conversations, and asks again what was asked in them.

    Reads transcripts on the caller's thread, the index on the engine's. Long answers ask
    `cancelled` and raise `Cancelled` when it turns true. Nothing is written, and every text is
    masked.
    """

    root: Path
    ranking: Ranking
    _transcripts: TranscriptScope
    _programs: tuple[TranscriptKind, ...] = tuple(TranscriptKind)
    """Whose conversations can belong to this memory."""

    _names: PathNames | None = None

    if TYPE_CHECKING:

        def search(
            self, text: str, *, ranking: Ranking | None = None, typing: bool = False
        ) -> Ranked:
            """Search and wait for the whole answer."""

        def chunk_ranges(self, path: str) -> Sequence[ChunkRange]:
            """Where the chunks of a file are."""

        def paths(self) -> Sequence[str]:
            """Every file that the index holds, by path."""

    @abstractmethod
    def _indexed_transcripts(self) -> Mapping[str, Indexed]:
        """What the index holds of each transcript, by path."""

    @cached_property
    def _library(self) -> Library:
        from memtui.engine.conversations.library import Library

        return Library(
            lambda: self._transcripts,
            self._indexed_transcripts,
            locate=self._locate,
            programs=self._programs,
            goes=self._text_goes,
        )

    def _text_goes(self) -> str:
        """Where the text of what is indexed goes; empty where memtui does not index it."""
        return ""

    def _locate(self, scope: TranscriptScope) -> Sequence[Located]:
        """The places of this memory's transcripts and what is in them, opted in or not."""
        from memtui.engine.conversations.library import everywhere

        return everywhere(scope)

    def conversations(self) -> Sequence[ConversationListing]:
        """Every transcript on this machine that is of this memory, newest first.

        From the index and the beginning of each file: what takes reading is `None`.
        """
        return self._library.listings()

    def count_conversations(
        self,
        listings: Sequence[ConversationListing],
        counted: Callable[[ConversationListing], None],
        *,
        cancelled: Callable[[], bool] = _never,
    ) -> None:
        """Read those whose turns nobody has counted, and tell each when it is."""
        self._library.count(listings, counted, cancelled)

    def conversation(
        self, path: str, *, cancelled: Callable[[], bool] = _never
    ) -> OpenConversation:
        """Read one transcript; raises `MemtuiError` for one that is gone or cannot be read."""
        return self._library.open(path, cancelled)

    def transcript_sources(self) -> Sequence[TranscriptSource]:
        """The places of transcripts, opted in or not, and how much of each the index holds."""
        return self._library.sources()

    def memory_calls(
        self,
        paths: Sequence[str] | None = None,
        *,
        found: Callable[[Sequence[MemoryCall]], None] = lambda calls: None,
        cancelled: Callable[[], bool] = _never,
    ) -> Sequence[MemoryCall]:
        """The searches of the memory in some transcripts, or in all, newest first.

        `found` is told those of each transcript as soon as it is read.
        """
        return self._library.calls(paths, found, cancelled)

    def replay(self, call: MemoryCall, *, ranking: Ranking | None = None) -> Replayed:
        """Ask the present index with the present parameters, and compare.

        What came back then and what comes back now is in the rows, each place exactly once; why
        it could not be asked is the `problem` of the answer.
        """
        from memtui.engine.conversations.replay import replay

        return replay(self, call, ranking or self.ranking, self._surroundings())

    def _surroundings(self) -> Surroundings:
        from memtui.engine.conversations.replay import PathNames, Surroundings

        paths = tuple(self.paths())
        if self._names is None or self._names.paths != paths:
            self._names = PathNames(self.root, paths)
        # Looked for once for all the places of an answer, and only if one asks.
        return Surroundings(self._names, self.root, cache(self._library.paths))


class Conversing(Conversations):
    """Conversations over memtui's own index; a part of `Engine`."""

    if TYPE_CHECKING:

        def _read(self, read: Callable[[Connection], T]) -> T | None:
            """Read the index on the engine thread; `None` when there is none yet."""

        def providers(self) -> tuple[ProviderListing, ...]:
            """Every provider that can be chosen; quick."""

    def _text_goes(self) -> str:
        from memtui.engine.conversations.egress import hosts_of, text_goes

        return text_goes(hosts_of(self.providers()))

    def _indexed_transcripts(self) -> Mapping[str, Indexed]:
        from memtui.engine.conversations.library import Indexed
        from memtui.index.transcripts.reading import transcript_rows

        rows = self._read(transcript_rows) or {}
        return {
            path: Indexed(row.chunks, row.facts, (row.size, row.mtime_ns))
            for path, row in rows.items()
        }
