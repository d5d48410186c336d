"""The port between the services and an index, whoever made it.

An adapter is one class for the memory (`Index`) and one for a look at its rows (`Reading`). What
an index cannot do it leaves as it is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct, field

from memtui.errors import IndexUnusable, IsCancelled
from memtui.memory.documents import utc_time
from memtui.model import (
    CandidatePool,
    Chunk,
    Document,
    IndexStatus,
    Leg,
    LegStatus,
    Numbers,
    ProviderState,
    Ranked,
    Ranking,
    Reason,
    SkippedFile,
)
from memtui.model.browsing import MemoryFile
from memtui.model.conversations import TranscriptKind
from memtui.model.inquiry import KeywordExplanation, LegPlace, Place, WordTable
from memtui.retrieval.connection import Connection

# These modules import this one, or numpy.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memtui.embedding.provider import Provider, ProviderIdentity
    from memtui.engine.providers.failover import ProviderFailover
    from memtui.index.transcripts.discovery import TranscriptPlace, TranscriptScope
    from memtui.index.transcripts.reading import TranscriptRow

T = TypeVar("T")
Partial = Callable[[CandidatePool], None]
Progressed = Callable[[int, int], None]
"""Is told how much is done, and of how much."""
_MOST_BLANKS: Final = 10_000
"""Blank lines of a text for lines that no chunk holds; a longer gap is told in one line."""


class SearchRequest(Struct, frozen=True):
    """A search that was asked for; `typing` makes the last word a prefix.

    What is asked `verbatim` has words alone: an agent's own query knows nothing of filters.
    """

    text: str
    ranking: Ranking
    typing: bool = False
    verbatim: bool = False
    asked_at: float = field(default_factory=perf_counter)
    """In seconds of that clock."""


class SourceText(Struct, frozen=True):
    """A note or transcript as it is on disk now."""

    path: str
    lines: list[str]
    state: str
    """`current`, `changed` (since it was indexed) or `gone`."""
    detail: str = ""
    """One line about `state`; empty when current."""
    on_disk: list[str] | None = None
    """The file as it is now, where `lines` are the indexed ones: what differs can be shown."""


class RecentFile(Struct, frozen=True):
    """A note that changed, or a conversation that went on, lately."""

    path: str
    mtime: datetime
    beginning: str = ""
    """The first characters of its text, or some of them."""
    title: str = ""
    """Of a conversation the beginning of what the user said first."""


class RebuildCost(Struct, frozen=True):
    files: int = 0
    chunks: int = 0
    cached: int = 0
    """Chunks whose vector is in the cache and need not be embedded."""
    tokens_estimate: int = 0
    """Tokens of the chunks that would be embedded, at four characters a token."""
    remote: bool = False
    price: float | None = None
    """The price of the tokens, in `currency`; `None` where none is known."""
    currency: str = ""
    """ISO 4217; empty where nothing is charged, and for the user's own price."""
    as_of: str = ""
    """The day or month of the price list; empty where the price is of none."""
    provider: str = ""
    """The provider that would make the vectors; empty: none."""
    model: str = ""
    address: str = ""
    """The host that text would be sent to; empty when it stays in this program."""
    withheld: tuple[SkippedFile, ...] = ()
    """Chunks, as `path:line`, whose text would not be sent."""


class FileStanding(Struct, frozen=True):
    """One file, on disk and in the index."""

    path: str
    reason: Reason = Reason.OK
    """The reason why it does not belong to the memory; `OK` when it does."""
    detail: str = ""
    """One line about `reason`, or about how the file changed."""
    numbers: Numbers = {}
    stale: bool = False
    """True if the index holds another version than the disk."""
    lines: tuple[str, ...] | None = None
    """The text as it is now, where it was read because it changed."""
    checked: bool = True
    """False when nobody knows where the file would be."""


class IndexedFile(Struct, frozen=True):
    """The file of an index at a place; `several` files where it is not clear which is meant."""

    place: Place
    """With the path as the index stores it."""
    row: Any = None
    """The adapter's own row of the file; `None` where it has none."""
    chunks: Sequence[Chunk] = ()
    """In the order of their lines."""
    source: str = ""
    several: tuple[str, ...] = ()

    @property
    def is_held(self) -> bool:
        """True if the index has a row or a chunk of it."""
        return self.row is not None or bool(self.chunks)


class ChunkFacts(Struct, frozen=True):
    """The facts that the index holds of one chunk under one search."""

    chunk: Chunk
    terms: KeywordExplanation | None = None
    places: Mapping[Leg, LegPlace] = {}
    vector: Reason = Reason.OK
    """The reason why its vector cannot be compared with the query's: there is none, it is zero, or
    of another model."""
    filters: tuple[str, ...] = ()
    """The filters of the query that leave it out, as they were typed."""
    gone: bool = False
    """The list still has it, the index no longer."""


class Words(Struct, frozen=True):
    """The full-text table of an index, and how a text gets into it."""

    connection: Connection
    table: str
    tokenizer: str
    """The table's `tokenize` option."""
    spelled: Callable[[str], str]
    """Return the content of the text column for a text."""


class StoredVector(Struct, frozen=True):
    """A chunk's vector as it is stored, shape (dims,); `None` with the reason there is none."""

    values: NDArray[np.floating] | None
    state: Reason
    provider: str
    """The provider of the vectors of the index; empty when there is none."""
    dimensions: int | None


class Vectors(Struct, frozen=True):
    """Vectors that may be compared: `rowids` int64 (n,), `matrix` (n, dims), unit or not."""

    rowids: NDArray[np.int64]
    matrix: NDArray[np.floating]
    live: NDArray[np.bool_]
    """(n,): which rows may be found."""


def refused(pool: CandidatePool, leg: Leg) -> Reason | None:
    """Return why a leg did not answer; `None` when it did."""
    state = pool.states[leg]
    if state.status is LegStatus.OK:
        return None
    return Reason.INDEX_FAILED if state.reason is Reason.OK else state.reason


class Reading(ABC):
    """One look at an index: everything of one moment, on the engine thread."""

    words: Words | None = None
    """The full-text table; `None` for an index without one."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Return how many chunks there are."""

    @abstractmethod
    def row_of(self, chunk_id: str) -> int | None:
        """Return the row of a chunk; `None` when it is gone."""

    @abstractmethod
    def chunks(self, rowids: Iterable[int]) -> Mapping[int, Chunk]:
        """Read chunks by row; those that are gone are missing from the answer."""

    def chunk(self, chunk_id: str) -> tuple[int, Chunk] | None:
        """Return the row and the chunk of an id; `None` when it is gone."""
        rowid = self.row_of(chunk_id)
        chunk = self.chunks([rowid]).get(rowid) if rowid is not None else None
        return (rowid, chunk) if rowid is not None and chunk is not None else None

    def in_order(self, rowids: Iterable[int]) -> list[int]:
        """Sort rows of equal scores, as the legs do."""
        return sorted(rowids)

    @abstractmethod
    def rows_of(self, path: str) -> Sequence[int]:
        """Return the rows of a file's chunks, in the order of their lines."""

    def changed(self, chunk: Chunk) -> datetime | None:
        """Return when the chunk's file changed last, as far as the index or the disk says."""
        return utc_time(chunk.mtime_ns / 1e9)

    @abstractmethod
    def vector(self, rowid: int) -> StoredVector:
        """Return the vector of a chunk."""

    @abstractmethod
    def vectors(self, rowid: int) -> Vectors | Reason:
        """Return the vectors that those of one row may be compared with; why not, otherwise."""

    @abstractmethod
    def paths(self) -> Sequence[str]:
        """Return the path of every file, sorted."""

    @abstractmethod
    def recent(self, limit: int) -> Sequence[RecentFile]:
        """Return the files that were written last."""

    def chunks_of(self, path: str) -> Sequence[Chunk]:
        """Return the chunks of a file, in the order of their lines."""
        chunks = self.chunks(rows := self.rows_of(path))
        return [chunks[row] for row in rows if row in chunks]

    def indexed_text(self, path: str) -> str:
        """Return the text of a file as its chunks hold it; of a conversation, masked.

        A line that no chunk holds is blank, as far as that makes sense.
        """
        parts: dict[tuple[int, int], str] = {}
        for chunk in self.chunks_of(path):
            place = max(1, chunk.start_line), chunk.end_line
            # Parts of one chunk have its lines; pieces of one long line overlap: no parts.
            if place not in parts:
                parts[place] = chunk.text
            elif chunk.start_line < chunk.end_line:
                parts[place] += chunk.text
        lines: dict[int, str] = {}
        for (start, _), text in parts.items():
            # What an earlier chunk holds of a line begins where the line does.
            for number, line in enumerate(text.split("\n"), start=start):
                lines.setdefault(number, line)
        shown, last, blanks = list[str](), 0, _MOST_BLANKS
        for number in sorted(lines):
            gap = number - last - 1
            if gap <= blanks:
                blanks -= gap
                shown += [""] * gap
            else:
                shown.append(f"… no chunk holds the lines {last + 1}–{number - 1} …")
            shown.append(lines[number])
            last = number
        return "\n".join(shown)

    @abstractmethod
    def file_at(self, place: Place, source: str | None = None) -> IndexedFile:
        """Return what the index holds of exactly the path of a place."""

    @abstractmethod
    def facts(self, ranked: Ranked, chunk_id: str) -> ChunkFacts | None:
        """Return everything that a search says of a chunk; `None` when the index lacks it."""

    def word_matches(self, ranked: Ranked, chunk_id: str) -> WordTable:
        """Compare the words of a query with those of the best passage of a candidate."""
        return Reason.NO_PIECES


class Legs(ABC):
    """The legs of an index; on the engine thread."""

    @abstractmethod
    def retrieve(
        self, request: SearchRequest, cancelled: IsCancelled, partial: Partial | None
    ) -> CandidatePool:
        """Ask both legs; `partial` takes a pool with the quicker leg alone.

        Raises `Cancelled` when `cancelled` turns true, `IndexMissing` before the first index,
        `IndexUnusable` for a broken one.
        """

    def interrupt(self) -> None:
        """Stop a running statement; from any thread."""


class Files(ABC):
    """The files of a memory, on disk and in its index; any thread."""

    notes_missing = ""
    """The reason why no note can be read, in one line; empty when they can."""

    @abstractmethod
    def entries(self, cancelled: IsCancelled) -> list[MemoryFile]:
        """Return every file on disk or in the index, by path; raises `Cancelled`."""

    @abstractmethod
    def documents(self, cancelled: IsCancelled) -> Iterator[Document | SkippedFile]:
        """Read the notes as they are on disk now, by path; of one that cannot be read, say why."""

    def path_of(self, path: str) -> Path | None:
        """Return where a file is on disk; `None` for what is no file of its own."""
        return None

    @abstractmethod
    def source(self, path: str) -> SourceText:
        """Read a note or transcript and compare it with what was indexed.

        Line N of a transcript stands for line N of its file, in one readable line.
        """

    @abstractmethod
    def standing(self, path: str, indexed: IndexedFile | None) -> FileStanding:
        """Look at one file on disk; `indexed` is what the index has of it."""

    def paths_on_disk(self) -> Collection[str]:
        """Return the path of every file on disk, those that are left out as well."""
        return ()


class TranscriptStore(ABC):
    """The transcripts of one memory; any thread."""

    scope: TranscriptScope
    """The transcripts that are opted in; changes while the memory is open."""
    programs: tuple[TranscriptKind, ...] = tuple(TranscriptKind)
    """Whose conversations can belong to this memory."""

    @abstractmethod
    def locate(self) -> Sequence[TranscriptPlace]:
        """Return the places of transcripts and what is in them, opted in or not."""

    @abstractmethod
    def indexed(self) -> Mapping[str, TranscriptRow]:
        """Return what the index holds of each transcript, by path."""

    def destinations(self) -> str:
        """Say where the text of what is indexed goes; empty where memtui does not index it."""
        return ""

    def run_of(self, name: str, indexed: int) -> str:
        """Return what `TranscriptSource.for_run` says of a source that has so many indexed."""
        return ""

    def take_written(self) -> TranscriptScope:
        """Return the scope with what the settings files say by now; what is for this run stays."""
        return self.scope

    @abstractmethod
    def use_sources(self, names: Sequence[str]) -> None:
        """Index these sources from now on, and no others."""


class Index(ABC):
    """A memory that can be searched; any thread where nothing else is said."""

    root: Path
    ranking: Ranking
    """The configured ranking."""
    legs: Legs
    providers: ProviderFailover | None = None
    """The providers; `None` where the provider cannot be chosen."""
    chunk_tokens = 400
    """Most tokens that a chunk of the index holds."""

    @property
    @abstractmethod
    def files(self) -> Files:
        """The files of the memory."""

    @property
    @abstractmethod
    def transcripts(self) -> TranscriptStore:
        """The conversations behind the memory."""

    def read_only(self) -> IndexUnusable:
        """Return the error for whoever wants to change an index that is only read."""
        return IndexUnusable("memtui only reads this index")

    def sync(self, *, rebuild: bool = False, wait: bool = False) -> None:
        """Bring the index up to date; with `wait`, return when that is done.

        With `rebuild` a new generation is built from the files, and searches use the old one until
        it is live. An index that others write is compared with the files in the background instead.
        """
        if rebuild:
            raise self.read_only()

    def require_writer(self) -> None:
        """Raise `WriterLocked` when another process writes this index."""
        raise self.read_only()

    def cancel(self) -> None:
        """Stop a running sync or rebuild; what was committed stays."""

    def hold(self) -> None:
        """Let what is being indexed wait a moment, because somebody types."""

    @abstractmethod
    def read(
        self, function: Callable[[Reading], T], about: CandidatePool | None = None
    ) -> T | None:
        """Look at the rows on the engine thread; `None` before the first index.

        `about` is the pool whose search is asked about. Raises `IndexMissing` once closed.
        """

    def measure(
        self, identity: ProviderIdentity | None, *, withholds: bool = False
    ) -> tuple[RebuildCost, Collection[int]]:
        """Count what a rebuild with a provider needs; return the lengths of the texts to be sent.

        Those that it `withholds` are only named. Asked where `providers` is not `None`.
        """
        return RebuildCost(), ()

    @abstractmethod
    def stamp(self) -> Hashable:
        """Return another value whenever the index has changed; `None` without an index."""

    def query_text(self, query: str) -> str:
        """Return what of a query is embedded."""
        return query

    def other_queries(self, pool: CandidatePool) -> Reason:
        """Say why other queries cannot be searched as this one was; asks no service."""
        return Reason.OK

    def local_model(self) -> tuple[Provider | None, ProviderState]:
        """Return a model on this machine, or `None` and why there is none."""
        return None, self.status().provider

    @abstractmethod
    def status(self) -> IndexStatus:
        """Return a snapshot; never waits for the disk."""

    def refresh_status(self, *, brief: bool = False) -> None:
        """Compare the files with the index now; `brief`: not who writes it.

        Raises `IndexUnusable`.
        """

    def wait_idle(self, timeout: float) -> bool:
        """Wait until nothing goes on beside the searches; false after `timeout` seconds."""
        return True

    def stop(self) -> None:
        """Tell everything that runs to stop; nothing is waited for."""

    def close(self) -> None:
        """Stop what goes on and close the files; the engine thread has ended."""
