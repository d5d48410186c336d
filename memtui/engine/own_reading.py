"""One look at memtui's own index, on the engine thread; its files, and the texts of those."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memtui.engine.places import read_source
from memtui.engine.ports import (
    ChunkFacts,
    FileStanding,
    IndexedFile,
    Reading,
    RecentFile,
    SourceText,
    StoredVector,
    Vectors,
    Words,
    moment,
    refused,
)
from memtui.errors import Cancelled
from memtui.index.database import Connection, number
from memtui.index.rows import (
    KnownFile,
    known_file,
    known_files,
    plan_changes,
    recent_files,
    within_limit,
)
from memtui.index.schema import NO_MODEL, made_by, read_meta
from memtui.index.transcripts.discovery import SOURCE as SESSIONS
from memtui.index.transcripts.discovery import file_at, with_transcripts
from memtui.index.transcripts.reading import format_for
from memtui.index.transcripts.streams import HashingStream, open_stream
from memtui.memory.discover import (
    MEMORY_FOLDER,
    ROOT_FILES,
    SOURCE,
    Scope,
    absolute_extra,
    discover,
    is_memory,
    look_at,
)
from memtui.memory.documents import day_of_path, read_document, reason_of, split_lines
from memtui.memory.paths import Glob, absolute_path, has_magic, said, stored_path
from memtui.memory.transcripts.records import TranscriptFormat, parse_record
from memtui.memory.transcripts.stream import RawLine, raw_lines, text_of
from memtui.model import (
    CandidatePool,
    Chunk,
    ChunkSpan,
    Leg,
    Ranked,
    Reason,
    SourceFile,
)
from memtui.model.browsing import FileState, MemoryFile
from memtui.model.conversations import TranscriptKind, Turn, TurnKind
from memtui.model.inquiry import FoundBy, KeywordExplanation, LegPlace, Place
from memtui.retrieval.keyword import TermPlanner
from memtui.retrieval.leg_detail import (
    NATIVE_TABLE,
    explain_keyword,
    keyword_rank,
    matching_rows,
    rare_words,
    view_rank,
)
from memtui.retrieval.pool import fetch_chunks
from memtui.retrieval.query import AllowedRows, Filters, Query, RowFilter, parse_query
from memtui.text.redact import redact, redact_spoken
from memtui.text.sanitize import safe_line, size_words
from memtui.text.tokens import FTS5_TOKENIZE, index_text

if TYPE_CHECKING:
    from memtui.engine.own_index import OwnIndex

MOST_ROWS: Final = 100_000
"""So many matching rows are scored again at most, and so many vectors of 384 numbers compared:
0.1 to 0.3 s."""
_NUMBERS_OF_A_VECTOR: Final = 384


class OwnReading(Reading):
    """A look at the live generation."""

    def __init__(self, connection: Connection, index: OwnIndex) -> None:
        self._connection = connection
        self._index = index
        self.words = Words(connection, NATIVE_TABLE, FTS5_TOKENIZE, index_text)

    # --- rows -----------------------------------------------------------------------------

    @property
    def size(self) -> int:
        return number(self._connection, "SELECT count(*) FROM chunks")

    def row_of(self, chunk_id: str) -> int | None:
        return next(iter(self._rows("SELECT id FROM chunks WHERE chunk_id = ?", chunk_id)), None)

    def chunks(self, rowids: Iterable[int]) -> Mapping[int, Chunk]:
        return fetch_chunks(self._connection, rowids)

    def rows_of(self, path: str) -> Sequence[int]:
        return self._rows(
            "SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id WHERE f.path = ? "
            "ORDER BY c.start_line, c.end_line, c.id",
            path,
        )

    def rows_after(self, rowid: int, limit: int, source: str) -> Sequence[int]:
        return self._rows(
            "SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id "
            "WHERE c.id > ? AND f.source = ? ORDER BY c.id LIMIT ?",
            rowid,
            source,
            limit,
        )

    def same_text(self, rowid: int) -> Sequence[int]:
        return self._rows(
            "SELECT id FROM chunks WHERE hash = (SELECT hash FROM chunks WHERE id = ?1) "
            "AND id != ?1 ORDER BY id",
            rowid,
        )

    def _rows(self, sql: str, *values: str | int) -> list[int]:
        return [int(str(row[0])) for row in self._connection.execute(sql, values).fetchall()]

    # --- vectors --------------------------------------------------------------------------

    def vector(self, rowid: int) -> StoredVector:
        identity = made_by(read_meta(self._connection))
        if identity is None:
            return StoredVector(None, Reason.NO_VECTORS, "", None)
        rows = self._connection.execute(
            "SELECT v.vector FROM chunks c JOIN vectors v ON v.id = c.id "
            "WHERE c.id = ? AND c.embedded = 1",
            (rowid,),
        ).fetchall()
        if not rows or not isinstance(rows[0][0], bytes):
            is_indexing = self._index.status().progress is not None
            waits = Reason.PENDING if is_indexing else Reason.NO_VECTOR
            return StoredVector(None, waits, identity.name, identity.dimensions)
        import numpy as np

        values = np.frombuffer(rows[0][0], dtype=np.float32)
        state = Reason.OK if values.any() else Reason.ZERO_VECTOR
        return StoredVector(values, state, identity.name, len(values))

    def vectors(self, rowid: int) -> Vectors | Reason:
        view = self._index.legs.view()
        if view is None or not view.size:
            return Reason.NO_VECTORS
        return Vectors(view.rowids, view.matrix, view.live)

    # --- files ----------------------------------------------------------------------------

    def paths(self) -> Sequence[str]:
        rows = self._connection.execute("SELECT path FROM files ORDER BY path").fetchall()
        return [str(path) for (path,) in rows]

    def recent(self, limit: int) -> Sequence[RecentFile]:
        return [
            RecentFile(row.path, datetime.fromtimestamp(row.mtime_ns / 1e9, UTC), row.lines)
            for row in recent_files(self._connection, limit)
        ]

    def indexed_text(self, path: str) -> tuple[str | None, str]:
        """Return the hash and the text of a note; lines that no chunk holds are empty."""
        row = known_file(self._connection, path)
        if row is None:
            return None, ""
        lines: dict[int, str] = {}
        parts: dict[tuple[int, int], str] = {}
        for _, chunk in sorted(self.chunks(self.rows_of(path)).items()):
            place = chunk.start_line, chunk.end_line
            # Parts of one chunk have its lines; pieces of one long line overlap: no parts.
            earlier = parts.get(place, "") if chunk.start_line < chunk.end_line else ""
            parts[place] = earlier + chunk.text
        for (start, _), text in parts.items():
            lines.update(enumerate(text.split("\n"), start=start))
        last = max(lines, default=0)
        return row.hash, "\n".join(lines.get(number, "") for number in range(1, last + 1))

    def file_at(self, place: Place, source: str | None = None) -> IndexedFile:
        known = known_file(self._connection, place.path)
        if known is None:
            return IndexedFile(place)
        return IndexedFile(place, known, self.chunk_ranges(known.path), known.source)

    # --- one chunk under one search -------------------------------------------------------

    def facts(self, ranked: Ranked, chunk_id: str) -> ChunkFacts | None:
        found = self.chunk(chunk_id)
        if found is None:
            return None
        rowid, chunk = found
        pool, connection = ranked.pool, self._connection
        # As it was searched, still being typed or not.
        match, planner = _match_of(pool), TermPlanner(connection)
        for typing in (False, True):
            query = parse_query(pool.query, typing=typing)
            terms = explain_keyword(connection, query, rowid, match=match, planner=planner)
            if match is None or terms.match == match:
                break
        found_by = FoundBy.MATCH if terms.found else FoundBy.NOTHING
        terms = replace(terms, asked=pool.query, found_by=found_by)
        rows = RowFilter(connection)
        allowed = rows.allowed(query)
        filters: tuple[str, ...] = ()
        if allowed is not None and not allowed.holds([rowid])[0]:
            places = dict.fromkeys(Leg, LegPlace(None, Reason.FILTERED))
            filters = tuple(_excluding(rows, query, rowid))
        else:
            places = {
                Leg.VECTOR: self._vector_place(pool, query, rowid, allowed),
                Leg.KEYWORD: self._keyword_place(pool, terms, allowed),
            }
        return ChunkFacts(chunk, terms, places, self._vector_state(chunk, rowid), filters)

    def nearest(self, ranked: Ranked, ids: Sequence[str]) -> Sequence[str]:
        """Return the chunk with the best BM25 score, the one with the best cosine, the first.

        Of those that the filters and quoted phrases of the query leave; all where they leave none.
        """
        rows = {row: name for name in ids if (row := self.row_of(name)) is not None}
        if len(rows) < 2:
            return list(rows.values())
        pool, query = ranked.pool, parse_query(ranked.pool.query)
        allowed = RowFilter(self._connection).allowed(query)
        if allowed is not None:
            held = zip(rows, allowed.holds(list(rows)), strict=True)
            rows = {row: rows[row] for row, is_in in held if is_in} or rows
        best: list[int] = []
        match = _match_of(pool)
        if match is not None and refused(pool, Leg.KEYWORD) is None:
            sql = (
                f"SELECT rowid FROM {NATIVE_TABLE} WHERE {NATIVE_TABLE} MATCH ? AND rowid IN "
                f"(SELECT value FROM json_each(?)) ORDER BY bm25({NATIVE_TABLE}), rowid LIMIT 1"
            )
            best += self._rows(sql, match, json.dumps(list(rows)))
        leg = self._index.legs.vector_leg
        # What is embedded does not depend on whether the query was finished.
        vector = leg.remembered(query.text) if leg is not None else None
        view = self._index.legs.view() if vector is not None else None
        if view is not None and vector is not None and refused(pool, Leg.VECTOR) is None:
            import numpy as np

            numbers = np.array(list(rows), dtype=np.int64)
            places = np.flatnonzero(view.live & np.isin(view.rowids, numbers))
            if len(places):
                best.append(int(view.rowids[places[(view.matrix[places] @ vector).argmax()]]))
        return list(dict.fromkeys(rows[row] for row in (*best, next(iter(rows)))))

    def rare_words(self, chunk_id: str, query: str, limit: int) -> tuple[str, ...]:
        found = self.chunk(chunk_id)
        if found is None:
            return ()
        return rare_words(self._connection, found[1].text, parse_query(query).text, limit)

    def _keyword_place(
        self, pool: CandidatePool, terms: KeywordExplanation, allowed: AllowedRows | None
    ) -> LegPlace:
        refusal, match = refused(pool, Leg.KEYWORD), terms.match
        if refusal is not None or match is None:
            return LegPlace(None, refusal or Reason.NO_TERMS)
        if not terms.found:
            return LegPlace(None, Reason.NOT_MATCHED, terms.asked)
        if matching_rows(self._connection, NATIVE_TABLE, match) > MOST_ROWS:
            return LegPlace(None, Reason.TOO_MANY, terms.asked)
        rank = keyword_rank(self._connection, NATIVE_TABLE, match, terms.rowid, allowed=allowed)
        return LegPlace(rank, Reason.OK if rank is not None else Reason.NOT_MATCHED, terms.asked)

    def _vector_place(
        self, pool: CandidatePool, query: Query, rowid: int, allowed: AllowedRows | None
    ) -> LegPlace:
        refusal, leg = refused(pool, Leg.VECTOR), self._index.legs.vector_leg
        vector = leg.remembered(query.text) if leg is not None else None
        view = self._index.legs.view() if vector is not None else None
        if refusal is not None or view is None or vector is None:
            return LegPlace(None, refusal or Reason.NO_VECTORS)
        if view.count * view.dims > MOST_ROWS * _NUMBERS_OF_A_VECTOR:
            return LegPlace(None, Reason.TOO_MANY)
        rank = view_rank(view, vector, rowid, None if allowed is None else allowed.rowids)
        return LegPlace(rank, Reason.OK if rank is not None else Reason.NO_VECTOR)

    def _vector_state(self, chunk: Chunk, rowid: int) -> Reason:
        """Return why a chunk's vector cannot be compared with a query's; `OK` when it can."""
        leg = self._index.legs.vector_leg
        provider = leg.provider if leg is not None else None
        if provider is not None and chunk.model not in (provider.model, NO_MODEL):
            return Reason.OTHER_MODEL
        if not any(self._rows("SELECT embedded FROM chunks WHERE id = ?", rowid)):
            return Reason.NO_VECTOR
        view = self._index.legs.view() if provider is not None else None
        if view is None or (view.live & (view.rowids == rowid)).any():
            return Reason.OK
        # Embedded, and not to be found: a zero vector is not kept.
        return Reason.ZERO_VECTOR


def _match_of(pool: CandidatePool) -> str | None:
    """Return the MATCH expression of a keyword leg that answered."""
    state = pool.states.get(Leg.KEYWORD)
    match = state.facts.get("match") if state is not None else None
    return match if isinstance(match, str) else None


def _excluding(rows: RowFilter, query: Query, rowid: int) -> Iterator[str]:
    """Yield the filters of a query that leave a row out, as they can be typed."""
    filters = query.filters
    kinds = (
        (Filters(sources=filters.sources), [f"source:{name}" for name in filters.sources]),
        (Filters(path_globs=filters.path_globs), [f"path:{glob}" for glob in filters.path_globs]),
        (Filters(after=filters.after), [f"after:{filters.after}"]),
        (Filters(before=filters.before), [f"before:{filters.before}"]),
    )
    for one, typed in kinds:
        allowed = rows.allowed(replace(query, filters=one, phrases=()))
        if allowed is not None and not allowed.holds([rowid])[0]:
            yield from typed


def chunk_lengths(connection: Connection, input_bytes: int | None = None) -> list[tuple[str, int]]:
    """Return the text hash and the length in characters of every chunk, split above the limit."""
    # No character takes more than four bytes.
    rows = connection.execute(
        "SELECT hash, length(text), CASE WHEN length(text) * 4 > ? THEN text END FROM chunks",
        (input_bytes,),
    ).fetchall()
    lengths: list[tuple[str, int]] = []
    for text_hash, length, text in rows:
        if text is None:
            lengths.append((str(text_hash), int(str(length))))
        else:
            parts = within_limit([ChunkSpan(1, 1, str(text), str(text_hash))], input_bytes)
            lengths += [(part.hash, len(part.text)) for part in parts]
    return lengths


# --- the list of files ----------------------------------------------------------------------------

WORKSPACE: Final = "workspace"
NEXT_SYNC: Final = "the next sync takes it in"
CHANGED: Final = "changed since it was indexed"
_BROKEN: Final = frozenset({Reason.UNREADABLE, Reason.VANISHED})
_MOST_STATS: Final = 2000


def list_files(index: OwnIndex, cancelled: Callable[[], bool]) -> list[MemoryFile]:
    """Return every file that is on disk or in the index, by path; raises `Cancelled`."""
    notes = discover(index.scope, cancelled=cancelled)
    discovery = with_transcripts(notes, index.transcripts.scope, cancelled=cancelled)
    rows = index.read_rows(known_files) or {}
    chunks = index.read_rows(_chunk_counts) or {}
    status = index.status()
    on_disk = {file.path: file for file in discovery.files}
    left_out = {file.path: file for file in discovery.skipped if file.path not in on_disk}
    # What the last sync left out or could not read whole, and what is known to have changed.
    unread = {file.path: file for file in status.skipped}
    changed = {*plan_changes(discovery.files, rows).changed, *status.pending}
    transcripts = left_out.keys() - {file.path for file in notes.skipped}
    measured, place_of = set(list(left_out)[:_MOST_STATS]), _place_names(index.scope)
    files = []
    for path in sorted({*on_disk, *rows, *left_out}):
        if cancelled():
            raise Cancelled
        file, row, skipped = on_disk.get(path), rows.get(path), left_out.get(path)
        size: int | None
        if file is not None:
            size, mtime_ns, source = file.size, file.mtime_ns, file.source
            skipped = unread.get(path)
        elif row is not None:
            size, mtime_ns, source = row.size, row.mtime_ns, row.source
        else:
            source = SESSIONS if path in transcripts else SOURCE
            size, mtime_ns = _measure(index.scope, path) if path in measured else (None, 0)
        is_changed = file is not None and path in changed
        warnings = "; ".join(map(str, json.loads(row.warnings))) if row is not None else ""
        state, reason, detail = FileState.CURRENT, Reason.OK, warnings
        if skipped is not None and (row is None or file is None or is_changed):
            state = FileState.ERROR if skipped.reason in _BROKEN else FileState.NOT_INDEXED
            reason, detail = skipped.reason, skipped.detail
            if file is None and row is not None and state is not FileState.ERROR:
                state, detail = FileState.STALE, f"{detail}; the next sync drops it"
        elif file is None:
            state, reason = FileState.STALE, Reason.VANISHED
            detail = "gone; the next sync drops it"
        elif row is None:
            state, reason, detail = FileState.NOT_INDEXED, Reason.NOT_YET_INDEXED, NEXT_SYNC
        elif is_changed:
            state, reason, detail = FileState.CHANGED, Reason.STALE, f"{CHANGED}; {NEXT_SYNC}"
        elif skipped is not None:
            detail = detail or skipped.detail
        day = date.fromisoformat(row.day) if row is not None and row.day else None
        if row is None and file is not None:
            day = day_of_path(path)
        files.append(
            MemoryFile(
                path=path,
                source=source,
                place=place_of(path, source, file.kind if file is not None else ""),
                state=state,
                size=size,
                changed=moment(mtime_ns),
                chunks=chunks.get(path, 0),
                lines=row.lines if row is not None else 0,
                day=day,
                reason=reason,
                detail=detail,
            )
        )
    return files


def _chunk_counts(connection: Connection) -> dict[str, int]:
    """Count the chunks of each file."""
    rows = connection.execute(
        "SELECT f.path, c.number FROM (SELECT file_id, count(*) AS number FROM chunks "
        "GROUP BY file_id) c JOIN files f ON f.id = c.file_id"
    ).fetchall()
    return {str(path): int(str(count)) for path, count in rows}


def _measure(scope: Scope, path: str) -> tuple[int | None, int]:
    """Return the size of a file in bytes and its time in ns; `None` and 0 for what is none."""
    try:
        state = os.lstat(absolute_path(path, os.path.abspath(scope.root)))
    except (OSError, ValueError):
        # What cannot be looked at has no size: its reason is told beside it.
        return None, 0
    return state.st_size, state.st_mtime_ns


def _place_names(scope: Scope) -> Callable[[str, str, str], str]:
    """Return what tells under what a file is listed: the workspace, an extra path, a source.

    It takes the path of the file in the index, its source, and the kind of a transcript.
    """
    root, whole_folder = os.path.abspath(scope.root), not is_memory(scope.root)
    extras: list[tuple[str, str]] = []
    for extra in filter(str.strip, scope.extra_paths):
        path = absolute_extra(extra, root)
        is_glob = has_magic(extra) and not os.path.lexists(path)
        extras.append(
            (stored_path(Glob.parse(path).base if is_glob else path, root), extra.strip())
        )
    # Of paths inside each other the innermost counts.
    extras.sort(key=lambda extra: -len(extra[0]))

    def name(path: str, source: str, kind: str) -> str:
        if source != SOURCE:
            program = path.partition("/")[0]
            return str(kind) or (program if program in set(TranscriptKind) else source)
        is_below = not os.path.isabs(path) and not path.startswith("../")
        is_note = path in ROOT_FILES or path.startswith(f"{MEMORY_FOLDER}/")
        if is_below and (is_note or whole_folder):
            return WORKSPACE
        for base, extra in extras:
            if path == base or path.startswith(f"{base}/") or base == ".":
                return extra
        return WORKSPACE

    return name


# --- one file -------------------------------------------------------------------------------------


def path_of(index: OwnIndex, path: str) -> Path | None:
    """Return where a note or a transcript is; `None` for what is no file of its own."""
    row = index.read_rows(lambda connection: known_file(connection, path))
    is_transcript = row.source == SESSIONS if row else ".jsonl" in path.rpartition("/")[2]
    if not is_transcript:
        return Path(absolute_path(path, str(index.root.absolute())))
    file = file_at(index.transcripts.scope, path)
    return file.absolute if file is not None and not file.session else None


def standing_of(index: OwnIndex, path: str, known: KnownFile | None) -> FileStanding:
    """Look at one file; `known` is its row in the index, if there is one.

    Reads the file only where its state is not the one that was indexed. Any thread.
    """
    if known is not None and known.source == SESSIONS:
        file = file_at(index.transcripts.scope, known.path)
        if file is None:
            return FileStanding(known.path, Reason.VANISHED, "the transcript is gone")
        # One that grew still says what was indexed of it.
        is_stale = file.size < known.size or file.inode != known.inode
        return FileStanding(known.path, detail=CHANGED if is_stale else "", stale=is_stale)
    scope = index.scope
    note = look_at(scope, path)
    if not isinstance(note, SourceFile):
        reason, numbers = note.reason, dict[str, float | int | str | None]()
        if known is not None and reason is Reason.NO_FILE:
            reason = Reason.VANISHED
        if reason is Reason.TOO_LARGE:
            size = _measure(scope, path)[0]
            numbers = {"bytes": size} if size is not None else {}
            numbers["limit_bytes"] = scope.max_file_bytes
        return FileStanding(note.path, reason, note.detail, numbers)
    if known is not None and not plan_changes((note,), {note.path: known}).read:
        return FileStanding(note.path)
    try:
        document = read_document(note, max_bytes=scope.max_file_bytes)
    except OSError as error:
        return FileStanding(note.path, reason_of(error), said(error))
    if known is None or document.hash == known.hash:
        return FileStanding(note.path)
    lines = tuple(split_lines(document.text))
    return FileStanding(note.path, detail=CHANGED, stale=True, lines=lines)


# --- the text of a file ---------------------------------------------------------------------------

_LONGEST = 2000
_SHORTEST = 80
_MASKED = 1 << 16
_BUDGET = 16 * 2**20
_MARKS = {TurnKind.RESET: "— a new conversation —", TurnKind.COMPACTION: "— compacted —"}


def own_source(index: OwnIndex, path: str) -> SourceText:
    """Read a note or transcript and say whether it is still what was indexed.

    Line N of a transcript stands for line N of its file, in one readable line with credentials
    masked; what the index holds is shown of one that is gone. The memory that this takes does not
    depend on how long it or its lines are.
    """
    known = index.read_rows(lambda connection: known_file(connection, path))
    is_transcript = known is not None and known.source == SESSIONS
    file = file_at(index.transcripts.scope, path) if is_transcript or known is None else None
    if file is None and not is_transcript:
        note = index.read(lambda reading: reading.indexed_text(path))
        return read_source(index.root, path, *(note or (None, "")))
    why = "transcript gone"
    if file is not None:
        limit = index.transcripts.scope.max_line_bytes
        lines: list[str] = []
        used, problem = 0, ""
        try:
            form = format_for(file, limit=limit)
            with open_stream(file, limit=limit) as stream:
                hashing = HashingStream(stream)
                try:
                    for raw in raw_lines(hashing, limit=limit):
                        most = _LONGEST if used < _BUDGET else _SHORTEST
                        lines.append(_shown(raw, form)[:most])
                        used += len(lines[-1])
                except OSError as error:
                    # What was read before a file broke is shown.
                    problem = said(error)
        except OSError as error:
            why = said(error)
        else:
            is_current = known is None or known.hash == hashing.digest()
            state, detail = ("current", "") if is_current else ("changed", CHANGED)
            return SourceText(path, lines or [""], state, hashing.digest(), problem or detail)
    indexed = index.read_rows(lambda connection: _indexed_lines(connection, path)) or []
    return SourceText(path, indexed, "gone", "", f"{why}; indexed text")


def _indexed_lines(connection: Connection, path: str) -> list[str]:
    """Return what the index holds of a transcript, each chunk at the line it begins with."""
    rows = connection.execute(
        "SELECT c.start_line, c.text FROM chunks c JOIN files f ON f.id = c.file_id "
        "WHERE f.path = ? ORDER BY c.start_line, c.id",
        (path,),
    ).fetchall()
    lines: list[str] = []
    for start, text in rows:
        at = int(str(start))
        lines += [""] * (at - len(lines))
        shown = safe_line(redact_spoken(str(text)))
        lines[at - 1] = f"{lines[at - 1]} {shown}".strip()[:_LONGEST]
    return lines


def _shown(raw: RawLine, form: TranscriptFormat | None) -> str:
    if raw.data is None:
        return f"· a line of {size_words(raw.length)}, too long to be read"
    text = text_of(raw)
    if not text.strip():
        return ""
    try:
        record = parse_record(text)
    except ValueError:
        return f"· malformed: {size_words(raw.length)} that are no record"
    if form is None or not isinstance(record, dict):
        return f"· {size_words(raw.length)} of another kind"
    turns = form.turns(record, raw.number)
    return "  ".join(_turn_words(turn) for turn in turns) or f"· record {size_words(raw.length)}"


def _turn_words(turn: Turn) -> str:
    size = size_words(turn.size)
    tool = f" {safe_line(redact(turn.tool))}" if turn.tool else ""
    match turn.kind:
        case TurnKind.MESSAGE:
            said_by = "User" if turn.role == "user" else "Assistant"
            # Masked first, with far more than is shown: no credential may lose its mask to the cut.
            shown = safe_line(redact(turn.text[:_MASKED]))
            return f"{said_by}: {' '.join(shown.split())[:_LONGEST]}"
        case TurnKind.THINKING:
            return f"· thinking {size}"
        case TurnKind.TOOL_CALL:
            return f"· tool call{tool} {size}"
        case TurnKind.TOOL_RESULT:
            failed = " failed" if turn.is_error else ""
            return f"· tool result{tool}{failed} {size}"
        case TurnKind.RESET | TurnKind.COMPACTION:
            return _MARKS[turn.kind]
        case TurnKind.OTHER | TurnKind.MALFORMED:
            return f"· record {size}"
