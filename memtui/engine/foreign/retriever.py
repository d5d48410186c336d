"""Asking both legs of another program's index, as its release does, on the engine thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, TypeVar

from memtui.engine.foreign.filtering import FileMasks
from memtui.engine.foreign.leg_states import failed, keyword_state
from memtui.engine.foreign.vectors import StoredVectors
from memtui.engine.query_vectors import NoVector, QueryVector
from memtui.errors import Cancelled
from memtui.index.database import Access, DatabaseError, Interrupted
from memtui.index.foreign.consistency import retokenized
from memtui.index.foreign.opening import (
    IndexChanged,
    Layout,
    Opened,
    of_another_shape,
    open_foreign,
)
from memtui.model import (
    CandidatePool,
    Leg,
    LegState,
    LegStatus,
    Numbers,
    Ranking,
    Reason,
    SearchMode,
)
from memtui.retrieval.legs import import_numpy
from memtui.retrieval.openclaw.keyword import KeywordAnswer, OpenClawKeywordLeg
from memtui.retrieval.openclaw.pool import make_pool, read_chunks, with_file_times
from memtui.retrieval.openclaw.release import Release
from memtui.retrieval.openclaw.tables import IndexTables, SearchScope, finite
from memtui.retrieval.openclaw.vector import OpenClawVectorLeg, VectorAnswer, is_zero
from memtui.retrieval.query import NO_FILTERS, Filters
from memtui.text.ecmascript import trim

if TYPE_CHECKING:
    from memtui.index.database import Connection

T = TypeVar("T")
Partial = Callable[[CandidatePool], None]


class QueryVectorFinder(Protocol):
    """Finds the vector of a query, in the model of the index."""

    def find(
        self, query: str, *, typing: bool, cancelled: Callable[[], bool]
    ) -> QueryVector | NoVector:
        """Look where it can come from."""

    def close(self) -> None:
        """Let go of connections."""


def tables_of(layout: Layout) -> IndexTables:
    """The names that the legs need."""
    return IndexTables(
        chunks=layout.chunks,
        fts=layout.fts,
        vec=layout.vec,
        paths_fts=layout.paths_fts,
        recall=layout.recall,
        tokenizer=layout.tokenizer,
        has_source=layout.chunks_have_source and (layout.fts is None or layout.fts_has_source),
    )


@dataclass(frozen=True, slots=True)
class Asked:
    """One search: the text as it is, the ranking with its mode, who may see what."""

    text: str
    ranking: Ranking
    mode: SearchMode
    scope: SearchScope
    typing: bool = False
    filters: Filters = NO_FILTERS
    """Which files take part; they are no part of the text."""


class ForeignIndex:
    """The open database; reopened when its program changed it. Belongs to one thread."""

    def __init__(self, path: Path, *, tokenizer: str | None = None) -> None:
        """`tokenizer`: search the same rows as if the keyword table had this one."""
        self._path = path
        self._tokenizer = tokenizer
        self._opened: Opened | None = None
        self._guard = threading.Lock()
        self._interruptible: Connection | None = None

    def opened(self, *, settled: bool = False) -> Opened:
        """The database as it is now; raises `IndexMissing`, `IndexUnusable`.

        `settled`: newly opened, it is read in a way that no commit disturbs.
        """
        if self._opened is not None and self._opened.is_current():
            return self._opened
        self.close()
        self._opened = open_foreign(self._path, settled=settled)
        try:
            self._opened = self._retokenized(self._opened)
        except BaseException:
            self.close()
            raise
        with self._guard:
            self._interruptible = self._opened.connection
        return self._opened

    def read(self, function: Callable[[Opened], T]) -> T:
        """Read one commit of the database; once more when its program changed it meanwhile."""

        def of_one_commit(opened: Opened) -> T:
            with opened.snapshot():
                return function(opened)

        return self.use(of_one_commit)

    def use(self, function: Callable[[Opened], T]) -> T:
        """As `read`, for a function that sees to its own snapshots.

        Raises `IndexChanged` when the program changed the database both times.
        """
        try:
            return self._use(function, settled=False)
        except IndexChanged:
            self.close()
        return self._use(function, settled=True)

    def _use(self, function: Callable[[Opened], T], *, settled: bool) -> T:
        opened = self.opened(settled=settled)
        try:
            with opened.errors():
                answer = function(opened)
            opened.confirm()
            return answer
        except (ArithmeticError, LookupError, TypeError, ValueError):
            # Half of one commit and half of another can look like anything.
            opened.confirm()
            raise
        except DatabaseError as error:
            if isinstance(error, Interrupted):
                raise
            raise of_another_shape(self._path, error) from error
        finally:
            if opened.how is Access.LIVE:
                # An open connection would keep the program from folding its log back.
                self.close()

    def _retokenized(self, opened: Opened) -> Opened:
        if self._tokenizer is None or self._tokenizer == opened.layout.tokenizer:
            return opened
        with opened.errors():
            layout = retokenized(opened.connection, opened.layout, self._tokenizer)
        return replace(opened, layout=layout)

    def interrupt(self) -> None:
        """Stop a running statement; from any thread."""
        with self._guard:
            if self._interruptible is not None:
                self._interruptible.interrupt()

    def close(self) -> None:
        """Close the database."""
        with self._guard:
            self._interruptible = None
        if self._opened is not None:
            self._opened.close()
            self._opened = None


class ForeignRetriever:
    """Runs one release's legs over one index; belongs to the engine thread."""

    def __init__(
        self,
        index: ForeignIndex,
        release: Release,
        finder: QueryVectorFinder,
        workspace: Path | None,
    ) -> None:
        self._index = index
        self._release = release
        self._finder = finder
        self._workspace = workspace
        self.masks = FileMasks()
        self.stored = StoredVectors()
        """The vectors in memory; the engine thread's."""
        self.backend = "not loaded"
        """How vectors were compared last, in words."""

    def retrieve(
        self, asked: Asked, cancelled: Callable[[], bool], partial: Partial | None = None
    ) -> CandidatePool:
        """Ask the legs; `partial` gets the keyword leg's hits while the vector is waited for."""
        started = perf_counter()
        try:
            if partial is not None and not asked.typing and asked.mode is SearchMode.HYBRID:
                partial(self._index.read(lambda opened: self._pool(opened, asked, None, started)))
            found = self._query_vector(asked, cancelled)
            if cancelled():
                raise Cancelled
            return self._index.read(lambda opened: self._pool(opened, asked, found, started))
        except Interrupted as error:
            raise Cancelled from error

    def _query_vector(
        self, asked: Asked, cancelled: Callable[[], bool]
    ) -> QueryVector | NoVector | None:
        """Outside of any reading: it may take a while, or read the index itself."""
        if asked.mode is SearchMode.KEYWORD_ONLY or not trim(asked.text):
            return None
        return self._finder.find(asked.text, typing=asked.typing, cancelled=cancelled)

    def _pool(
        self,
        opened: Opened,
        asked: Asked,
        found: QueryVector | NoVector | None,
        started: float,
    ) -> CandidatePool:
        """Both legs and their chunks, all of one commit."""
        if _falls_back(found) and asked.mode is SearchMode.HYBRID:
            # Without a provider no release filters by its model, and each searches keywords.
            asked = replace(asked, scope=replace(asked.scope, model=None))
        asked = replace(asked, scope=self.masks.scope(opened, asked.scope, asked.filters))
        run = _Run(opened, self._release, asked, self.file_time, self.stored)
        if asked.mode is not SearchMode.VECTOR_ONLY:
            run.ask_keyword()
        if found is not None:
            run.ask_vector(found)
            self.backend = run.backend or self.backend
        return replace(run.pool(started), typing=asked.typing)

    def file_time(self, source: str, path: str) -> int:
        """The time of a file of the workspace; sessions do not lie there."""
        if self._workspace is None:
            return 0
        try:
            return (self._workspace / path).stat().st_mtime_ns
        except (OSError, ValueError):
            # A path that cannot be looked at has no time, to the release as well.
            return 0


class _Run:
    """One search in progress."""

    def __init__(
        self,
        opened: Opened,
        release: Release,
        asked: Asked,
        file_time: Callable[[str, str], int],
        vectors: StoredVectors,
    ) -> None:
        self._opened = opened
        self._vectors = vectors
        self._release = release
        self._asked = asked
        self._workspace_time = file_time
        self._tables = tables_of(opened.layout)
        self._keyword: KeywordAnswer | None = None
        self._vector: VectorAnswer | None = None
        self.states = {
            Leg.KEYWORD: LegState(LegStatus.SKIPPED, Reason.DISABLED, "hybrid search is off"),
            Leg.VECTOR: LegState(LegStatus.PENDING, Reason.PENDING),
        }
        if asked.mode is SearchMode.KEYWORD_ONLY:
            detail = "the agent has no embedding provider"
            self.states[Leg.VECTOR] = LegState(LegStatus.SKIPPED, Reason.DISABLED, detail)
        self._mode = asked.mode

    @property
    def backend(self) -> str:
        """How vectors were compared."""
        return self._vector.backend if self._vector is not None else ""

    def ask_keyword(self) -> None:
        """Run the keyword leg."""
        started = perf_counter()
        if self._tables.fts is None:
            detail = "the index has no full-text table"
            self.states[Leg.KEYWORD] = LegState(LegStatus.FAILED, Reason.INDEX_FAILED, detail)
            return
        leg = OpenClawKeywordLeg(
            self._opened.connection,
            self._tables,
            self._release,
            self._asked.ranking.keyword_mapping,
        )
        asked = self._asked
        try:
            answer = leg.search(asked.text, asked.ranking.candidates, asked.scope)
        except DatabaseError as error:
            self.states[Leg.KEYWORD] = failed(error, started)
            return
        self._keyword = answer
        self.states[Leg.KEYWORD] = keyword_state(answer, self._tables.tokenizer, started)

    def ask_vector(self, found: QueryVector | NoVector) -> None:
        """Run the vector leg with what was found of the query's vector."""
        found = self._checked(found)
        if isinstance(found, NoVector):
            self._without_vector(found)
            return
        import_numpy()
        started = perf_counter()
        opened = self._opened
        leg = OpenClawVectorLeg(
            opened.connection,
            self._tables,
            self._release,
            self._vectors.of(opened),
            vec_readable=opened.vec_readable,
        )
        scope = self._asked.scope
        try:
            self._vector = leg.search(found.values, self._asked.ranking.candidates, scope)
        except DatabaseError as error:
            self.states[Leg.VECTOR] = failed(error, started)
            return
        facts: Numbers = {
            "backend": self._vector.backend,
            "model": scope.model or "",
            "searched": self._vector.searched,
            "query_vector": found.origin,
            "query_vector_from": found.detail,
        }
        elapsed = (perf_counter() - started) * 1000
        self.states[Leg.VECTOR] = LegState(LegStatus.OK, Reason.OK, "", elapsed, facts)

    def pool(self, started: float) -> CandidatePool:
        """What there is so far."""
        keyword = self._keyword.hits if self._keyword is not None else ()
        vector = self._vector.hits if self._vector is not None else ()
        ids = dict.fromkeys([*(hit.id for hit in keyword), *(chunk_id for chunk_id, _ in vector)])
        chunks = read_chunks(self._opened.connection, self._tables, ids)
        rule = self._asked.ranking.decay.dates
        made = make_pool(
            self._asked.text,
            with_file_times(chunks, rule, self._file_time),
            keyword=keyword,
            vector=vector,
            states=dict(self.states),
            limit=self._asked.ranking.candidates,
            search_mode=self._mode,
            names_files=self._release.has_paths,
            tokenizer=self._tables.tokenizer,
        )
        return replace(made, elapsed_ms=(perf_counter() - started) * 1000)

    def _checked(self, found: QueryVector | NoVector) -> QueryVector | NoVector:
        """A vector that the vector table can be asked for; its metadata need not tell its size."""
        if isinstance(found, NoVector):
            return found
        size, dims = found.values.size, self._opened.layout.vec_dims
        if dims is not None and size != dims:
            why = f"{size} numbers from {found.detail}, the vector table has {dims}"
            detail = f"the query vector does not fit: {why}"
            return NoVector(Reason.DIMENSIONS_DIFFER, detail, why)
        if is_zero(found.values):
            why = f"the query vector from {found.detail} is zero or not finite in single precision"
            return NoVector(Reason.ZERO_QUERY_VECTOR, why, why)
        return found

    def _without_vector(self, found: NoVector) -> None:
        status = LegStatus.PENDING if found.reason is Reason.PENDING else LegStatus.FAILED
        if found.reason is Reason.ZERO_QUERY_VECTOR:
            status = LegStatus.SKIPPED
        self.states[Leg.VECTOR] = LegState(status, found.reason, found.detail)
        if _falls_back(found) and self._keyword is not None:
            self._mode = SearchMode.KEYWORD_ONLY

    def _file_time(self, source: str, path: str) -> int:
        if source == "sessions" and self._release.has_paths:
            return self._stored_time(source, path)
        return self._workspace_time(source, path)

    def _stored_time(self, source: str, path: str) -> int:
        """The time of a session as it was indexed (2026.8 on)."""
        layout = self._opened.layout
        found = self._opened.connection.execute(
            f"SELECT mtime FROM {layout.files} WHERE path = ? AND source = ?", (path, source)
        ).fetchall()
        value = found[0][0] if found else None
        milliseconds = finite(value)
        return int(milliseconds * 1_000_000) if milliseconds is not None else 0


def _falls_back(found: QueryVector | NoVector | None) -> bool:
    """Whether the list is the one that the program finds without its provider."""
    return isinstance(found, NoVector) and found.reason is not Reason.ZERO_QUERY_VECTOR
