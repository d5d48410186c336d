"""What an engine is asked for, by service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from memtui.engine.words_to_try import MOST_WORDS, WordsToTry
from memtui.model import CandidatePool, Chunk, IndexStatus, Leg, Ranked, Ranking

if TYPE_CHECKING:
    from memtui.embedding.choice import EmbeddingChoice
    from memtui.engine.insight import Places
    from memtui.engine.least import LeastChanges
    from memtui.engine.source import RebuildCost, RecentFile, SourceText
    from memtui.index.reader import ChunkRange
    from memtui.model import ProbeResult, ProviderListing
    from memtui.model.browsing import (
        AnsweredQuery,
        CareReport,
        ChunkRecord,
        DayTotals,
        MemoryFile,
        Neighbours,
    )
    from memtui.model.inquiry import (
        Inquiry,
        KeywordExplanation,
        LegPlace,
        Passages,
        Place,
        WordChanges,
    )
    from memtui.ranking.counterfactual import Parameter
    from memtui.retrieval.query import Query

Cancelled = Callable[[], bool]
Progressed = Callable[[int, int], None]


def _never() -> bool:
    return False


def _untold(done: int, total: int) -> None:
    return None


class _Service:
    def __init__(self, machine: Any) -> None:
        self._machine = machine


class Search(_Service):
    """Searches, and ranks what they found again."""

    def ask(self, text: str, *, ranking: Ranking | None = None, typing: bool = False) -> Ranked:
        """Search and wait for the whole answer.

        Raises `IndexMissing` before the first index, `IndexUnusable` when it cannot be read.
        """
        options = {"typing": typing} if typing else {}
        return cast("Ranked", self._machine.search(text, ranking=ranking, **options))

    def submit(self, text: str, *, ranking: Ranking | None = None, typing: bool = True) -> int:
        """Ask for a search and return its sequence number; the latest wins.

        `SearchReady` events follow, perhaps one with the quicker leg alone first, or one
        `SearchFailed`; nothing follows a search that a newer one superseded.
        """
        return cast("int", self._machine.submit(text, ranking=ranking, typing=typing))

    def rerank(self, pool: CandidatePool, ranking: Ranking) -> Ranked:
        """Rank a pool again; no I/O, quick enough for the thread that draws."""
        return cast("Ranked", self._machine.rerank(pool, ranking))

    def parse(self, text: str) -> Query:
        """Take a query apart, for the screen: its terms, filters and problems."""
        return cast("Query", self._machine.parse(text))


class Explain(_Service):
    """Answers questions about one chunk: its terms, its ranks, why it is not shown.

    Reads the index on the engine thread, files and model on the caller's. Methods raise
    `IndexMissing` once the engine is closed, and `IndexUnusable` for an index that cannot be read.
    """

    def keyword_terms(self, ranked: Ranked, chunk_id: str) -> KeywordExplanation | None:
        """Open the keyword leg down to the terms; `None` for a chunk that is not indexed."""
        return cast("KeywordExplanation | None", self._machine.keyword_terms(ranked, chunk_id))

    def leg_places(self, ranked: Ranked, chunk_id: str) -> Places:
        """Return the place of a chunk in each leg among all chunks, however few the pool takes."""
        return cast("Places", self._machine.leg_places(ranked, chunk_id))

    def inquire(self, ranked: Ranked, chunk_id: str) -> Inquiry:
        """Say why a chunk is in the list or not, through every station and stage."""
        return cast("Inquiry", self._machine.inquire(ranked, chunk_id))

    def inquire_at(self, ranked: Ranked, place: Place) -> Inquiry:
        """Say why a file, or a line of it, is in the list or not.

        Of a file without a line, the chunk that comes nearest to the list. Paths may be written
        as people write them; see `memtui.engine.places`.
        """
        return cast("Inquiry", self._machine.inquire_at(ranked, place))

    def passages(self, ranked: Ranked, chunk_id: str) -> Passages:
        """Return the passages of a chunk nearest to the query: an illustration.

        It is made by a model on this machine; no sentence of a note is sent to a service for it.
        """
        return cast("Passages", self._machine.passages(ranked, chunk_id))

    def words_to_try(self, ranked: Ranked, chunk_id: str, limit: int = MOST_WORDS) -> WordsToTry:
        """Return the chunk's most distinctive words that the query lacks, the rarest first.

        No word where each changed query would have to be sent to a service.
        """
        return cast("WordsToTry", self._machine.words_to_try(ranked, chunk_id, limit))

    def least_changes(
        self,
        ranked: Ranked,
        ranking: Ranking,
        chunk_id: str,
        places: Mapping[Leg, LegPlace],
        *,
        progress: Callable[[Parameter], None] | None = None,
    ) -> LeastChanges:
        """Find the least change of each parameter alone that brings a chunk in, by searching.

        See `memtui.engine.least.find_changes`. Raises what a search raises.
        """
        # Imported late: the solver needs numpy, and nothing before it does.
        from memtui.engine.least import find_changes

        chunks = self._machine.status().chunks
        return find_changes(
            self._machine.search,
            ranked,
            ranking,
            chunk_id,
            places,
            chunks=chunks,
            progress=progress,
        )

    def word_changes(
        self,
        ranked: Ranked,
        ranking: Ranking,
        chunk: Chunk,
        terms: KeywordExplanation | None,
        *,
        progress: Callable[[str], None] | None = None,
    ) -> WordChanges:
        """Find words that, added to the query or left out of it, bring a chunk in.

        See `memtui.engine.query_words.word_changes`. Raises what a search raises.
        """
        from memtui.engine.query_words import word_changes

        return word_changes(
            self._machine.search,
            self.words_to_try,
            ranked,
            ranking,
            chunk,
            terms,
            progress=progress,
        )


class Browse(_Service):
    """Shows what can be looked at without a query: files, days, one chunk, care.

    Files are read on the caller's thread, the index on the engine thread. Long answers ask
    `cancelled` and raise `memtui.errors.Cancelled` when it turns true.
    """

    def files(self) -> Sequence[MemoryFile]:
        """Return every file that discovery finds or the index holds, by path."""
        return cast("Sequence[MemoryFile]", self._machine.memory_files())

    def file_of(self, path: str) -> Path | None:
        """Return the place of a file of the index on disk; `None` for rows of a database."""
        return cast("Path | None", self._machine.file_of(path))

    def paths(self) -> Sequence[str]:
        """Return every file that the index holds, by path; empty before the first index."""
        return cast("Sequence[str]", self._machine.paths())

    def recent(self, limit: int = 20) -> Sequence[RecentFile]:
        """Return the files that were written last; empty before the first index."""
        return cast("Sequence[RecentFile]", self._machine.recent(limit))

    def source(self, path: str) -> SourceText:
        """Read a note or transcript and say whether it is still what was indexed; off the loop.

        Line N of a transcript stands for line N of its file, in one readable line.
        """
        return cast("SourceText", self._machine.source(path))

    def chunk_ranges(self, path: str) -> Sequence[ChunkRange]:
        """Return the lines of each chunk of a file."""
        return cast("Sequence[ChunkRange]", self._machine.chunk_ranges(path))

    def chunks_of(self, path: str) -> Sequence[Chunk]:
        """Return the chunks of a file in the order of their lines; empty for one not indexed."""
        return cast("Sequence[Chunk]", self._machine.chunks_of(path))

    def chunk_record(self, chunk_id: str) -> ChunkRecord | None:
        """Return everything that the index holds about one chunk; `None` when it is gone."""
        return cast("ChunkRecord | None", self._machine.chunk_record(chunk_id))

    def neighbours(self, chunk_id: str, limit: int = 10) -> Neighbours:
        """Return the chunks most like one chunk, by vector, by words, and its near-duplicates."""
        return cast("Neighbours", self._machine.neighbours(chunk_id, limit))

    def answered_queries(
        self,
        chunk_id: str,
        queries: Sequence[str],
        *,
        ranking: Ranking | None = None,
        cancelled: Cancelled = _never,
        progressed: Progressed = _untold,
    ) -> Sequence[AnsweredQuery]:
        """Return the queries that a chunk answers in the top k, best rank first; asks each."""
        return cast(
            "Sequence[AnsweredQuery]",
            self._machine.answered_queries(
                chunk_id, queries, ranking=ranking, cancelled=cancelled, progressed=progressed
            ),
        )

    def recalled(
        self,
        queries: Sequence[str],
        *,
        ranking: Ranking | None = None,
        cancelled: Cancelled = _never,
        progressed: Progressed = _untold,
    ) -> Mapping[str, int]:
        """Count how often each file's chunks are in the top k for the queries; asks each."""
        return cast(
            "Mapping[str, int]",
            self._machine.recalled(
                queries, ranking=ranking, cancelled=cancelled, progressed=progressed
            ),
        )

    def days(self, recalled: Mapping[str, int] | None = None) -> Sequence[DayTotals]:
        """Return the days that dated files are of, oldest first; `recalled` is summed per day."""
        return cast("Sequence[DayTotals]", self._machine.days(recalled))

    def care(
        self, *, cancelled: Cancelled = _never, progressed: Progressed = _untold
    ) -> CareReport:
        """Look through the whole memory for what needs care; nothing is written."""
        return cast("CareReport", self._machine.care(cancelled=cancelled, progressed=progressed))


class ProviderService(_Service):
    """Lists, probes, weighs and switches embedding providers."""

    def available(self) -> tuple[ProviderListing, ...]:
        """Return every provider that can be chosen, in order; quick, loads and asks nothing."""
        return cast("tuple[ProviderListing, ...]", self._machine.providers())

    def cost(self, choice: EmbeddingChoice) -> RebuildCost:
        """Return what a rebuild with a provider would take; reads the index and the cache."""
        return cast("RebuildCost", self._machine.provider_cost(choice))

    def probe(self, choice: EmbeddingChoice) -> ProbeResult:
        """Ask a provider for the vector of one word; loads it beside the one that answers.

        Blocks up to the time limit of a query, so not on a thread that draws. Raises
        `SettingsError` for a name or model that does not exist.
        """
        return cast("ProbeResult", self._machine.probe_provider(choice))

    def switch(self, choice: EmbeddingChoice) -> None:
        """Choose another provider for this run, and make its index while the old one answers.

        Raises `SettingsError` for a name or model that does not exist; nothing is changed then.
        """
        self._machine.switch_provider(choice)


class IndexService(_Service):
    """Keeps the index up to date, and says how it is."""

    def sync(self, wait: bool = False) -> None:
        """Bring the index up to date; with `wait`, return when that is done."""
        self._machine.sync(wait)

    def rebuild(self, wait: bool = False) -> None:
        """Build a new generation from the files; searches use the old one until it is live."""
        self._machine.rebuild(wait)

    def rebuild_cost(self) -> RebuildCost:
        """Return what `rebuild` would take; reads the index and the cache."""
        return cast("RebuildCost", self._machine.rebuild_cost())

    def cancel(self) -> None:
        """Stop a running search, sync or rebuild; what was committed stays."""
        self._machine.cancel()

    def hold(self) -> None:
        """Have what is being indexed wait a moment, because somebody types."""
        self._machine.hold_indexing()

    def require_writer(self) -> None:
        """Raise `WriterLocked` when another process writes this index."""
        self._machine.require_writer()

    def status(self) -> IndexStatus:
        """Return a snapshot of the index; never waits for the disk."""
        return cast("IndexStatus", self._machine.status())

    def refresh_status(self) -> None:
        """Look at the files and the index now, for the `status` calls until the next sync.

        Raises `IndexUnusable` when there is an index that cannot be read.
        """
        self._machine.refresh_status()

    def examine(self) -> None:
        """Compare an agent's index with the files anew, in the background."""
        self._machine.examine()
