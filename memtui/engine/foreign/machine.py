"""The engine over another program's index: searches as that program does, and changes nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from memtui.bus import Bus, ForeignExamined
from memtui.embedding.choice import EmbeddingChoice
from memtui.engine.conversations.stores import AgentTranscripts
from memtui.engine.foreign import reading, statuses
from memtui.engine.foreign.browsing import ForeignBrowsing
from memtui.engine.foreign.explaining import EmbeddedModel, ForeignExplaining
from memtui.engine.foreign.facts import ForeignFacts, query_vectors_of, read_facts
from memtui.engine.foreign.profile import agent_ranking
from memtui.engine.foreign.retriever import (
    Asked,
    ForeignIndex,
    ForeignRetriever,
    QueryVectorFinder,
)
from memtui.engine.foreign.target import ForeignTarget
from memtui.engine.mailbox import SearchRequest
from memtui.engine.query_vectors import GivenVectors
from memtui.engine.searching import Partial, SearchLoop
from memtui.engine.source import RebuildCost, RecentFile, SourceText
from memtui.errors import Cancelled, IndexUnusable, MemtuiError
from memtui.index.reader import ChunkRange
from memtui.model import CandidatePool, IndexStatus, Ranked, Ranking
from memtui.model.status import ProbeResult, ProviderListing, Truth
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import for_mode
from memtui.retrieval.openclaw.release import release_of
from memtui.retrieval.query import split_filters

FIRST_ANSWER_SECONDS = 1.0
"""So long the truth report waits for the first search, which whoever opens an index waits for."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ForeignMachine(ForeignExplaining, ForeignBrowsing):
    """An index that is searched exactly as its own program does; use `ForeignMachine.open`.

    Answers to `submit` come as events on `bus`. Everything that would write raises
    `IndexUnusable`: the index belongs to another program.
    """

    def __init__(
        self,
        facts: ForeignFacts,
        index: ForeignIndex,
        vectors: QueryVectorFinder,
        *,
        bus: Bus,
        now: Callable[[], datetime],
    ) -> None:
        self.facts = facts
        self.bus = bus
        self.now = now
        self.root = facts.target.workspace or facts.target.database.parent
        self.ranking = agent_ranking(facts.choice.profile, facts.search)
        """What the agent is configured for, used when a search names no ranking."""
        self.transcripts = AgentTranscripts(facts, self._read)
        self._index = index
        self._vectors = vectors
        self._retriever = ForeignRetriever(
            index, release_of(facts.choice.profile), vectors, facts.target.workspace
        )
        self._embedded = EmbeddedModel()
        self._loop = SearchLoop(self, bus)
        self._truth: Truth | None = None
        self._counts: statuses.Counts | None = None
        self._problem = ""
        self._examining = threading.Event()
        self._closed = threading.Event()
        self._answered = threading.Event()
        self._examiner: threading.Thread | None = None

    @classmethod
    def open(
        cls,
        target: ForeignTarget,
        *,
        bus: Bus | None = None,
        now: Callable[[], datetime] | None = None,
        given: GivenVectors | None = None,
        env: Mapping[str, str] | None = None,
        profile: str | None = None,
        examine: bool = True,
    ) -> ForeignMachine:
        """Open an index, choose its profile, and start the threads.

        `given` are vectors of queries from a file; `profile` replaces the one that is chosen.
        With `examine` the truth report is made in the background. Raises `IndexMissing`,
        `IndexUnusable`.
        """
        index = ForeignIndex(target.database)
        try:
            facts = index.read(lambda opened: read_facts(opened, target, profile))
            variables = os.environ if env is None else env
            vectors = query_vectors_of(index, facts, given, variables)
            engine = cls(facts, index, vectors, bus=bus or Bus(), now=now or _utc_now)
            engine._counts = index.read(statuses.count)
        except BaseException:
            index.close()
            raise
        # The engine thread opens the file again: a connection belongs to one thread.
        index.close()
        engine._loop.start()
        if examine:
            engine.examine()
        return engine

    # --- search ---------------------------------------------------------------------------

    def search(self, text: str, *, ranking: Ranking | None = None, typing: bool = False) -> Ranked:
        """Search and wait for the whole answer."""
        request = SearchRequest(0, text, ranking or self.ranking, typing)
        pool = self._loop.call(lambda: self.retrieve(request, lambda: False, None)).result()
        return self.rerank(pool, request.ranking)

    def submit(self, text: str, *, ranking: Ranking | None = None, typing: bool = True) -> int:
        """Ask for a search and return its sequence number; the latest wins."""
        return self._loop.submit(text, ranking or self.ranking, typing=typing)

    def hold_indexing(self) -> None:
        """Do nothing: the agent's program indexes, not this one."""

    def rerank(self, pool: CandidatePool, ranking: Ranking) -> Ranked:
        """Rank a pool again, without any I/O."""
        return self._loop.timed(pool, ranking)

    def retrieve(
        self, request: SearchRequest, cancelled: Callable[[], bool], partial: Partial | None
    ) -> CandidatePool:
        """Ask both legs, on the engine thread; see `Searcher`."""
        ranking = for_mode(request.ranking, self.facts.mode)
        text, filters = split_filters(request.text)
        scope, mode = self.facts.scope, self.facts.mode
        asked = Asked(text, ranking, mode, scope, typing=request.typing, filters=filters)

        def typed(pool: CandidatePool) -> CandidatePool:
            return replace(pool, query=request.text)

        told = partial if partial is None else lambda part: partial(typed(part))
        try:
            return typed(self._retriever.retrieve(asked, cancelled, told))
        finally:
            self._answered.set()

    def rank(self, pool: CandidatePool, ranking: Ranking) -> Ranked:
        """Rank a pool at this moment, as the release does with the legs that could search."""
        return rank(pool, for_mode(ranking, pool.search_mode), now=self.now())

    def interrupt(self) -> None:
        """Stop a running statement; from any thread."""
        self._index.interrupt()

    # --- the index ------------------------------------------------------------------------

    def status(self) -> IndexStatus:
        """A snapshot, without any I/O."""
        return statuses.compose(
            self.facts,
            counts=self._counts,
            truth=self._truth,
            examining=self._examining.is_set(),
            backend=self._retriever.backend,
            problem=self._problem,
            now=self.now(),
        )

    def examine(self) -> None:
        """Make the truth report anew in the background; `ForeignExamined` follows."""
        if self._examining.is_set() or self._closed.is_set():
            return
        self._examining.set()
        self._examiner = threading.Thread(target=self._examine, name="memtui-examine", daemon=True)
        self._examiner.start()

    def refresh_status(self) -> None:
        """Make the truth report now, on this thread; raises `IndexUnusable`."""
        self._truth, self._counts = self._look(deep=True)

    def sync(self, wait: bool = False) -> None:
        """Look at the index again; nothing of it is changed."""
        self.examine()

    def rebuild(self, wait: bool = False) -> None:
        """Refuse: the index belongs to another program."""
        raise IndexUnusable(
            "this index belongs to the agent's program: memtui only reads it",
            hint="openclaw memory index --force builds it again",
        )

    def rebuild_cost(self) -> RebuildCost:
        """Nothing: there is no rebuild."""
        return RebuildCost(0, 0, 0, 0, False)

    def providers(self) -> tuple[ProviderListing, ...]:
        """Nothing to choose: the vectors of this index are of the agent's provider."""
        return ()

    def provider_cost(self, choice: EmbeddingChoice) -> RebuildCost:
        """Nothing: there is no going over to another provider."""
        return RebuildCost(0, 0, 0, 0, False)

    def switch_provider(self, choice: EmbeddingChoice) -> None:
        """Refuse, as `rebuild` does."""
        self.rebuild()

    def probe_provider(self, choice: EmbeddingChoice) -> ProbeResult:
        """Refuse: only the agent's own provider would say anything about this index."""
        raise IndexUnusable("another program's index: its own provider is used there")

    def require_writer(self) -> None:
        """Refuse, as `rebuild` does."""
        self.rebuild()

    def cancel(self) -> None:
        """Stop a running search."""
        self._loop.cancel()

    def wait_idle(self, timeout: float = 30.0) -> bool:
        """Wait until no search and no examination goes on; false after `timeout` seconds."""
        examiner = self._examiner
        if examiner is not None:
            examiner.join(timeout)
        return self._loop.wait_idle(timeout) and not self._examining.is_set()

    # --- the notes ------------------------------------------------------------------------

    def recent(self, limit: int = 20) -> Sequence[RecentFile]:
        """The files that changed last."""
        return self._read(lambda opened: reading.recent_files(opened, limit))

    def source(self, path: str) -> SourceText:
        """Read a note and say whether it is still what was indexed; file I/O, so off the loop."""
        indexed = self._read(lambda opened: reading.indexed_text(opened, path))
        return reading.source_text(indexed, path, self.facts.target.workspace)

    def chunk_ranges(self, path: str) -> Sequence[ChunkRange]:
        """Where the chunks of a file are."""
        return self._read(lambda opened: reading.chunk_ranges(opened, path))

    def close(self) -> None:
        """Stop the threads and close the file; a second call does nothing."""
        self._closed.set()
        self._answered.set()
        self._loop.call(self._index.close)
        self._vectors.close()
        self._embedded.close()
        self._loop.close()
        self._index.close()
        if self._examiner is not None:
            self._examiner.join(2.0)

    def __enter__(self) -> ForeignMachine:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def _examine(self) -> None:
        # The first answer comes before the report: both read the whole file.
        self._answered.wait(FIRST_ANSWER_SECONDS)
        try:
            self._truth, self._counts = self._look(deep=False)
            self._problem = ""
        except Cancelled:
            return
        except MemtuiError as error:
            self._problem = str(error)
        except Exception as error:
            # The thread has nobody to tell but the screen.
            self._problem = f"{type(error).__name__}: {error}"
        finally:
            self._examining.clear()
        if not self._closed.is_set():
            self.bus.publish(ForeignExamined(self._problem))

    def _look(self, *, deep: bool) -> tuple[Truth, statuses.Counts]:
        """Examine on a connection of this thread's own."""
        from memtui.index.foreign.audit import examine

        index = ForeignIndex(self.facts.target.database)
        target, choice = self.facts.target, self.facts.choice
        try:
            truth = index.use(
                lambda opened: examine(
                    opened,
                    workspace=target.workspace,
                    config=target.search if target.is_configured else None,
                    release=choice.profile,
                    databases=target.databases,
                    now=datetime.now(UTC),
                    backend=target.config.backend if target.config is not None else "builtin",
                    written=target.config,
                    home=target.home,
                    sessions=target.sessions,
                    deep=deep,
                    cancelled=self._closed.is_set,
                )
            )
            return truth, index.read(statuses.count)
        finally:
            index.close()
