"""Asking both legs of another program's index, as its release does, on the engine thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from memtui.engine.foreign.query_vectors import NoVector, QueryVector, QueryVectors
from memtui.errors import Cancelled
from memtui.index.database import Access, DatabaseError, Interrupted, fault
from memtui.index.foreign import rows
from memtui.index.foreign.opening import (
    Fingerprint,
    IndexChanged,
    Layout,
    Opened,
    of_another_shape,
    open_foreign,
)
from memtui.index.foreign.rows import VectorBatch, read_indexed, read_vectors
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
    KeywordHit,
    SearchScope,
    file_key,
    finite,
    readable,
    text_of,
)
from memtui.retrieval.openclaw.vector import OpenClawVectorLeg, VectorReader, is_zero
from memtui.retrieval.query import NO_FILTERS, Filters
from memtui.text.ecmascript import trim
from memtui.text.sanitize import safe_line
from memtui.text.tokens import MAX_QUERY_CHARS

if TYPE_CHECKING:
    from memtui.index.database import Connection

T = TypeVar("T")
Partial = Callable[[CandidatePool], None]
Stamp: TypeAlias = tuple[Fingerprint, int | None]


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


def _stamp(opened: Opened) -> Stamp:
    """Return another value whenever rows of the index may have changed."""
    return opened.fingerprint, rows.revision(opened.connection, opened.layout)


# --- the database -----------------------------------------------------------------------------


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
        if self._tokenizer not in {None, self._opened.layout.tokenizer}:
            try:
                with self._opened.errors():
                    layout = retokenized(self._opened, str(self._tokenizer))
                self._opened = replace(self._opened, layout=layout)
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


_TOKENIZE: Final = {"unicode61": "unicode61", "trigram": "trigram case_sensitive 0"}


def retokenized(opened: Opened, tokenizer: str) -> Layout:
    """Build a keyword table of the index's chunks with `tokenizer`, in this connection's memory.

    The rows go in by rowid, as the program's own rebuild has them. Nothing of the file changes;
    the table goes with the connection. Returns the layout that searches it.
    """
    layout = opened.layout
    source = "source" if layout.chunks_have_source else "'memory'"
    columns = ("text", "id", "path", "source", "model", "start_line", "end_line")
    opened.connection.execute("PRAGMA temp_store = MEMORY")
    made: dict[str, tuple[str, tuple[str, ...]]] = {"fts": (layout.chunks, columns)}
    if layout.paths_fts:
        made["paths_fts"] = (layout.files, ("path", "source"))
    for name, (table, names) in made.items():
        spelled = f"{names[0]}, {', '.join(f'{column} UNINDEXED' for column in names[1:])}"
        opened.connection.execute(
            f"CREATE VIRTUAL TABLE temp.memtui_{name}"
            f" USING fts5({spelled}, tokenize = '{_TOKENIZE[tokenizer]}')"
        )
        values = ", ".join(source if column == "source" else column for column in names)
        opened.connection.execute(
            f"INSERT INTO temp.memtui_{name}(rowid, {', '.join(names)})"
            f" SELECT rowid, {values} FROM {table} ORDER BY rowid"
        )
    paths = "memtui_paths_fts" if layout.paths_fts else None
    return replace(
        layout, fts="memtui_fts", paths_fts=paths, fts_has_source=True, tokenizer=tokenizer
    )


# --- searching --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Search:
    """One search: the text as it is, the ranking with its mode, who may see what."""

    text: str
    ranking: Ranking
    mode: SearchMode
    scope: SearchScope
    typing: bool = False
    filters: Filters = NO_FILTERS
    """Which files take part; they are no part of the text."""


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
        self, search: Search, cancelled: Callable[[], bool], partial: Partial | None = None
    ) -> CandidatePool:
        """Ask the legs; `partial` gets the keyword leg's hits while the vector is waited for."""
        started = perf_counter()
        try:
            if partial is not None and not search.typing and search.mode is SearchMode.HYBRID:
                partial(self._index.read(lambda opened: self._pool(opened, search, None, started)))
            vector = None
            if search.mode is not SearchMode.KEYWORD_ONLY and trim(search.text):
                # Outside of any reading: it may take a while, or read the index itself.
                vector = self._finder.find(search.text, typing=search.typing, cancelled=cancelled)
            if cancelled():
                raise Cancelled
            return self._index.read(lambda opened: self._pool(opened, search, vector, started))
        except Interrupted as error:
            raise Cancelled from error

    def file_time(self, source: str, path: str) -> int:
        """The time of a file of the workspace; sessions do not lie there."""
        if self._workspace is None:
            return 0
        try:
            return (self._workspace / path).stat().st_mtime_ns
        except (OSError, ValueError):
            # A path that cannot be looked at has no time, to the release as well.
            return 0

    def _pool(
        self,
        opened: Opened,
        search: Search,
        vector: QueryVector | NoVector | None,
        started: float,
    ) -> CandidatePool:
        """Both legs and their chunks, all of one commit."""
        mode = search.mode
        # Without a provider no release filters by its model, and each searches keywords.
        falls_back = isinstance(vector, NoVector) and vector.reason is not Reason.ZERO_QUERY_VECTOR
        if falls_back and mode is SearchMode.HYBRID:
            search = replace(search, scope=replace(search.scope, model=None))
        search = replace(search, scope=self.masks.scope(opened, search.scope, search.filters))
        tables = tables_of(opened.layout)
        keyword: tuple[KeywordHit, ...] = ()
        cosines: tuple[tuple[str, float], ...] = ()
        keyword_state = LegState(LegStatus.SKIPPED, Reason.DISABLED, "hybrid search is off")
        vector_state = LegState(LegStatus.PENDING, Reason.PENDING)
        if mode is SearchMode.KEYWORD_ONLY:
            detail = "the agent has no embedding provider"
            vector_state = LegState(LegStatus.SKIPPED, Reason.DISABLED, detail)
        answered = False
        if mode is not SearchMode.VECTOR_ONLY:
            keyword, keyword_state, answered = self._keyword(opened, tables, search)
        if vector is not None:
            vector = _fitting(vector, opened.layout.vec_dims)
            if isinstance(vector, QueryVector):
                cosines, vector_state = self._vector(opened, tables, search, vector)
            else:
                vector_state = _without_vector(vector)
                if answered and vector.reason is not Reason.ZERO_QUERY_VECTOR:
                    mode = SearchMode.KEYWORD_ONLY
        ids = dict.fromkeys([*(hit.id for hit in keyword), *(chunk_id for chunk_id, _ in cosines)])
        chunks = read_chunks(opened.connection, tables, ids)

        def file_time(source: str, path: str) -> int:
            if source == "sessions" and self._release.has_paths:
                # From 2026.8 on, a session has the time at which it was indexed.
                return stored_time(opened, path, source)
            return self.file_time(source, path)

        pool = make_pool(
            search.text,
            with_file_times(chunks, search.ranking.decay.dates, file_time),
            keyword=keyword,
            vector=cosines,
            states={Leg.KEYWORD: keyword_state, Leg.VECTOR: vector_state},
            limit=search.ranking.candidates,
            search_mode=mode,
            names_files=self._release.has_paths,
            tokenizer=tables.tokenizer,
        )
        elapsed = (perf_counter() - started) * 1000
        return replace(pool, elapsed_ms=elapsed, typing=search.typing)

    def _keyword(
        self, opened: Opened, tables: IndexTables, search: Search
    ) -> tuple[tuple[KeywordHit, ...], LegState, bool]:
        """Run the keyword leg; its hits, its state, and whether it answered."""
        started = perf_counter()
        if tables.fts is None:
            detail = "the index has no full-text table"
            return (), LegState(LegStatus.FAILED, Reason.INDEX_FAILED, detail), False
        mapping = search.ranking.keyword_mapping
        leg = OpenClawKeywordLeg(opened.connection, tables, self._release, mapping)
        try:
            answer = leg.search(search.text, search.ranking.candidates, search.scope)
        except DatabaseError as error:
            return (), failed(error, started), False
        return answer.hits, keyword_state(answer, tables.tokenizer, started), True

    def _vector(
        self, opened: Opened, tables: IndexTables, search: Search, vector: QueryVector
    ) -> tuple[tuple[tuple[str, float], ...], LegState]:
        import_numpy()
        started = perf_counter()
        leg = OpenClawVectorLeg(
            opened.connection,
            tables,
            self._release,
            self.stored.of(opened),
            vec_readable=opened.vec_readable,
        )
        try:
            answer = leg.search(vector.values, search.ranking.candidates, search.scope)
        except DatabaseError as error:
            return (), failed(error, started)
        self.backend = answer.backend
        facts: Numbers = {
            "backend": answer.backend,
            "model": search.scope.model or "",
            "searched": answer.searched,
            "query_vector": vector.origin,
            "query_vector_from": vector.detail,
        }
        return answer.hits, LegState(LegStatus.OK, Reason.OK, "", _ms_since(started), facts)


def _fitting(vector: QueryVector | NoVector, dims: int | None) -> QueryVector | NoVector:
    """A vector that the vector table can be asked for; its metadata need not tell its size."""
    if isinstance(vector, NoVector):
        return vector
    size = vector.values.size
    if dims is not None and size != dims:
        why = f"{size} numbers from {vector.detail}, the vector table has {dims}"
        detail = f"the query vector does not fit: {why}"
        return NoVector(Reason.DIMENSIONS_DIFFER, detail, why)
    if is_zero(vector.values):
        why = f"the query vector from {vector.detail} is zero or not finite in single precision"
        return NoVector(Reason.ZERO_QUERY_VECTOR, why, why)
    return vector


def _without_vector(vector: NoVector) -> LegState:
    status = LegStatus.FAILED
    if vector.reason is Reason.PENDING:
        status = LegStatus.PENDING
    elif vector.reason is Reason.ZERO_QUERY_VECTOR:
        status = LegStatus.SKIPPED
    return LegState(status, vector.reason, vector.detail)


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
    if answer.match is None and not answer.substrings and not answer.keywords:
        detail = "no letter or digit in the query"
        return LegState(LegStatus.SKIPPED, Reason.NO_TERMS, detail, _ms_since(started), facts)
    notes = []
    if answer.shortened:
        notes.append(f"only the first {MAX_QUERY_CHARS} characters of the query are searched")
    if answer.refusal:
        notes.append(f"a part was refused: {safe_line(answer.refusal)}")
    return LegState(LegStatus.OK, Reason.OK, "; ".join(notes), _ms_since(started), facts)


def failed(error: DatabaseError, started: float) -> LegState:
    """The state of a leg that SQLite refuses; raises the error when it is not about the query."""
    if isinstance(error, Interrupted) or fault(error) is not None:
        raise error
    return _refused(str(error), started)


def _refused(reason: str, started: float) -> LegState:
    """The state of a leg that fails softly, as it does in the program."""
    return LegState(LegStatus.FAILED, Reason.INDEX_FAILED, safe_line(reason), _ms_since(started))


def _ms_since(started: float) -> float:
    return (perf_counter() - started) * 1000


# --- what is kept of an index in memory -------------------------------------------------------


class StoredVectors:
    """Reads all vectors once and keeps them until the index changes; the engine thread's.

    The vec0 table's own numbers (float32) come before those of the chunk table, which are exact
    but take long to parse: the program compares in single precision too.
    """

    def __init__(self) -> None:
        self._read_at: Stamp | None = None
        self._batches: list[VectorBatch] = []

    def of(self, opened: Opened) -> VectorReader:
        """A reader of the vectors that a scope may see."""

        def read(scope: SearchScope) -> Iterator[tuple[list[str], Any]]:
            self._load(opened)
            visible = _visible(opened, scope)
            for batch in self._batches:
                places = [n for n, rowid in enumerate(batch.rowids.tolist()) if rowid in visible]
                ids = [visible[int(batch.rowids[place])] for place in places]
                yield ids, batch.vectors[places]

        return read

    def holds(self, opened: Opened) -> bool:
        """Whether the vectors are in memory as they are in the index now."""
        return self._read_at == _stamp(opened)

    def _load(self, opened: Opened) -> None:
        if self.holds(opened):
            return
        connection, layout = opened.connection, opened.layout
        indexed = read_indexed(connection, layout)
        if indexed is not None and len(indexed.rowids):
            self._batches = [indexed]
        else:
            self._batches = list(read_vectors(connection, layout))
        self._read_at = _stamp(opened)


def _visible(opened: Opened, scope: SearchScope) -> dict[int, str]:
    """The chunks of the scope: rowid to id."""
    layout = opened.layout
    where, values = scope.visible("source", has_source=layout.chunks_have_source)
    chunks = opened.connection.execute(
        f"SELECT rowid, id FROM {layout.chunks} WHERE model = ?{where}",
        (scope.model or "", *values),
    ).fetchall()
    return {int(str(rowid)): str(chunk_id) for rowid, chunk_id in chunks}


class FileMasks:
    """The files that the last filters let through; the engine thread's."""

    def __init__(self) -> None:
        self._known: tuple[Stamp, Filters, FileMask] | None = None

    def scope(self, opened: Opened, scope: SearchScope, filters: Filters) -> SearchScope:
        """A scope with the mask of some filters; itself without any. Raises what SQLite raises."""
        if not filters:
            return scope
        stamp = _stamp(opened)
        if self._known is None or self._known[:2] != (stamp, filters):
            has_source = tables_of(opened.layout).has_source
            fitting = {
                key
                for key, path, source, mtime_ns in _files(opened, has_source)
                if fits_file(filters, path, source, mtime_ns)
            }
            self._known = stamp, filters, FileMask(json.dumps(sorted(fitting)), has_source)
        return replace(scope, files=self._known[2])


def _files(opened: Opened, has_source: bool) -> Iterator[tuple[str, str, str, int]]:
    """Every file that a row of a text or path names: key, path, source and time in ns."""
    layout = opened.layout
    times = {
        (row.path, row.source): _nanoseconds(row.mtime)
        for row in rows.files(opened.connection, layout)
    }
    # Up to 2026.5 a full-text row whose chunk is gone still is a hit.
    for table in dict.fromkeys(filter(None, (layout.chunks, layout.fts, layout.paths_fts))):
        source = readable("source") if has_source else "NULL"
        key = file_key("source", has_source=has_source)
        sql = f"SELECT DISTINCT {key}, {readable('path')}, {source} FROM {table}"
        for name, stored_path, stored_source in opened.connection.execute(sql).fetchall():
            path, origin = text_of(stored_path) or "", text_of(stored_source) or DEFAULT_SOURCE
            yield str(name), path, origin, times.get((path, origin), 0)


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


_LONGEST_MS: Final = 1e15


def _nanoseconds(milliseconds: object) -> int:
    value = finite(milliseconds)
    return int(value * 1_000_000) if value is not None and abs(value) < _LONGEST_MS else 0
