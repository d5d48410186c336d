"""Asking both legs of another program's index, as its release does, on the engine thread."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from memtui.engine.foreign.query_vectors import NoVector, QueryVector, QueryVectors
from memtui.errors import Cancelled
from memtui.index.database import Access, DatabaseError, Interrupted, fault
from memtui.index.foreign import rows
from memtui.index.foreign.consistency import retokenized
from memtui.index.foreign.opening import (
    Fingerprint,
    IndexChanged,
    Layout,
    Opened,
    of_another_shape,
    open_foreign,
)
from memtui.index.foreign.rows import read_indexed, read_vectors
from memtui.memory.dates import day_of_path
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
from memtui.retrieval.filters import fits
from memtui.retrieval.legs import import_numpy
from memtui.retrieval.openclaw.keyword import KeywordAnswer, OpenClawKeywordLeg
from memtui.retrieval.openclaw.pool import make_pool, read_chunks, with_file_times
from memtui.retrieval.openclaw.release import Release
from memtui.retrieval.openclaw.tables import (
    DEFAULT_SOURCE,
    FileMask,
    IndexTables,
    SearchScope,
    file_key,
    finite,
    readable,
    text_of,
)
from memtui.retrieval.openclaw.vector import OpenClawVectorLeg, VectorAnswer, is_zero
from memtui.retrieval.query import NO_FILTERS, Filters
from memtui.text.ecmascript import trim
from memtui.text.sanitize import safe_line
from memtui.text.tokens import MAX_QUERY_CHARS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memtui.index.database import Connection
    from memtui.index.foreign.opening import Fingerprint, Opened
    from memtui.retrieval.openclaw.tables import SearchScope
    from memtui.retrieval.openclaw.vector import VectorReader


T = TypeVar("T")
Partial = Callable[[CandidatePool], None]


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


class AgentDatabase:
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
        index: AgentDatabase,
        release: Release,
        finder: QueryVectors,
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


def keyword_state(answer: KeywordAnswer, tokenizer: str, started: float) -> LegState:
    """The state of a keyword leg that answered; `started` is of `perf_counter`, in s."""
    facts: dict[str, float | int | str | None] = {
        "match": answer.match or "",
        "substrings": " ".join(answer.substrings),
        "keywords": " ".join(answer.keywords),
        "tokenizer": tokenizer,
    }
    if answer.refusal and not answer.hits:
        return replace(_refused(answer.refusal, started), facts=facts)
    elapsed = (perf_counter() - started) * 1000
    if answer.match is None and not answer.substrings and not answer.keywords:
        detail = "no letter or digit in the query"
        return LegState(LegStatus.SKIPPED, Reason.NO_TERMS, detail, elapsed, facts)
    notes = []
    if answer.shortened:
        notes.append(f"only the first {MAX_QUERY_CHARS} characters of the query are searched")
    if answer.refusal:
        notes.append(f"a part was refused: {safe_line(answer.refusal)}")
    return LegState(LegStatus.OK, Reason.OK, "; ".join(notes), elapsed, facts)


def failed(error: DatabaseError, started: float) -> LegState:
    """The state of a leg that SQLite refuses; raises the error when it is not about the query."""
    if isinstance(error, Interrupted) or fault(error) is not None:
        raise error
    return _refused(str(error), started)


def _refused(reason: str, started: float) -> LegState:
    """The state of a leg that fails softly, as it does in the program."""
    elapsed = (perf_counter() - started) * 1000
    return LegState(LegStatus.FAILED, Reason.INDEX_FAILED, safe_line(reason), elapsed)


Matrix: TypeAlias = "NDArray[Any]"
Batch: TypeAlias = "tuple[NDArray[np.int64], Matrix]"


class StoredVectors:
    """Reads all vectors once and keeps them until the index changes; the engine thread's.

    The vec0 table's own numbers (float32) come before those of the chunk table, which are exact
    but take long to parse: the program compares in single precision too.
    """

    def __init__(self) -> None:
        self._stamp: tuple[Fingerprint, int | None] | None = None
        self._batches: list[Batch] = []

    def of(self, opened: Opened) -> VectorReader:
        """A reader of the vectors that a scope may see."""

        def read(scope: SearchScope) -> Iterator[tuple[list[str], Matrix]]:
            self._load(opened)
            visible = _visible(opened, scope)
            for rowids, matrix in self._batches:
                kept = [place for place, rowid in enumerate(rowids.tolist()) if rowid in visible]
                yield [visible[int(rowids[place])] for place in kept], matrix[kept]

        return read

    def holds(self, opened: Opened) -> bool:
        """Whether the vectors are in memory as they are in the index now."""
        return self._stamp == _stamp(opened)

    def _load(self, opened: Opened) -> None:
        stamp = _stamp(opened)
        if stamp == self._stamp:
            return
        indexed = read_indexed(opened.connection, opened.layout)
        if indexed is not None and len(indexed.rowids):
            self._batches = [(indexed.rowids, indexed.vectors)]
        else:
            self._batches = [
                (batch.rowids, batch.vectors)
                for batch in read_vectors(opened.connection, opened.layout)
                if len(batch.rowids)
            ]
        self._stamp = stamp


def _stamp(opened: Opened) -> tuple[Fingerprint, int | None]:
    return opened.fingerprint, rows.revision(opened.connection, opened.layout)


def _visible(opened: Opened, scope: SearchScope) -> dict[int, str]:
    """The chunks of the scope: rowid to id."""
    layout = opened.layout
    where, values = scope.visible("source", has_source=layout.chunks_have_source)
    found = opened.connection.execute(
        f"SELECT rowid, id FROM {layout.chunks} WHERE model = ?{where}",
        (scope.model or "", *values),
    ).fetchall()
    return {int(str(rowid)): str(chunk_id) for rowid, chunk_id in found}


_REMEMBERED: Final = 32
_MS: Final = 1_000_000
_LONGEST_TIME: Final = 1e15


class FileMasks:
    """The masks of the last filters, kept until the index changes; the engine thread's."""

    def __init__(self) -> None:
        self._stamp: tuple[Fingerprint, int | None] | None = None
        self._files: tuple[_File, ...] = ()
        self._known: OrderedDict[Filters, FileMask] = OrderedDict()

    def scope(self, opened: Opened, scope: SearchScope, filters: Filters) -> SearchScope:
        """A scope with the mask of some filters; itself without any. Raises what SQLite raises."""
        if not filters:
            return scope
        stamp = opened.fingerprint, rows.revision(opened.connection, opened.layout)
        if stamp != self._stamp:
            self._known.clear()
            self._files = tuple(_files(opened))
            self._stamp = stamp
        mask = self._known.pop(filters, None) or self._mask(opened, filters)
        self._known[filters] = mask
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return replace(scope, files=mask)

    def _mask(self, opened: Opened, filters: Filters) -> FileMask:
        fitting = {
            file.key
            for file in self._files
            if fits_file(filters, file.path, file.source, file.mtime_ns)
        }
        return FileMask(json.dumps(sorted(fitting)), _has_source(opened))


class _File(NamedTuple):
    """A file that a row names."""

    key: str
    path: str
    source: str
    mtime_ns: int


def fits_file(filters: Filters, path: str, source: str, mtime_ns: int) -> bool:
    """Whether a file takes part: a note is of the day in its name, anything else of its change."""
    day = day_of_path(path) if source == DEFAULT_SOURCE else None
    return fits(filters, path=path, source=source, day=day, mtime_ns=mtime_ns)


def excluding(filters: Filters, path: str, source: str, mtime_ns: int) -> Iterator[str]:
    """The filters that leave a file out, as they can be typed."""
    fields = (
        (Filters(sources=filters.sources), [f"source:{name}" for name in filters.sources]),
        (Filters(path_globs=filters.path_globs), [f"path:{glob}" for glob in filters.path_globs]),
        (Filters(after=filters.after), [f"after:{filters.after}"]),
        (Filters(before=filters.before), [f"before:{filters.before}"]),
    )
    for one, typed in fields:
        if one and not fits_file(one, path, source, mtime_ns):
            yield from typed


def stored_time(opened: Opened, path: str, source: str) -> int:
    """When a file changed last as the index says, in ns; 0 where it does not."""
    for row in rows.files(opened.connection, opened.layout, path):
        if row.source == source:
            return _nanoseconds(row.mtime)
    return 0


def _files(opened: Opened) -> Iterator[_File]:
    """Every file that a row of a text or path names; it may have no row of a file."""
    layout, has_source = opened.layout, _has_source(opened)
    held = rows.files(opened.connection, layout)
    times = {(row.path, row.source): _nanoseconds(row.mtime) for row in held}
    # Up to 2026.5 a full-text row whose chunk is gone still is a hit.
    for table in dict.fromkeys(filter(None, (layout.chunks, layout.fts, layout.paths_fts))):
        source = readable("source") if has_source else "NULL"
        key = file_key("source", has_source=has_source)
        sql = f"SELECT DISTINCT {key}, {readable('path')}, {source} FROM {table}"
        for name, stored_path, stored_source in opened.connection.execute(sql).fetchall():
            path, origin = text_of(stored_path) or "", text_of(stored_source) or DEFAULT_SOURCE
            yield _File(str(name), path, origin, times.get((path, origin), 0))


def _has_source(opened: Opened) -> bool:
    layout = opened.layout
    return layout.chunks_have_source and (layout.fts is None or layout.fts_has_source)


def _nanoseconds(milliseconds: object) -> int:
    value = finite(milliseconds)
    return int(value * _MS) if value is not None and abs(value) < _LONGEST_TIME else 0
