"""Reads memtui's own index, and the files of its memory: on disk, in the index, their text."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from memtui.data import read_table
from memtui.engine.places import read_source
from memtui.engine.ports import (
    ChunkFacts,
    Files,
    FileStanding,
    IndexedFile,
    Reading,
    RecentFile,
    SourceText,
    StoredVector,
    Vectors,
    Words,
    refused,
)
from memtui.errors import IsCancelled, ProviderError, stop_if
from memtui.index.database import NO_MODEL, Connection, made_by, number, read_meta
from memtui.index.index_rows import KnownFile, known_file, known_files, plan_changes
from memtui.index.transcripts.discovery import file_at, with_transcripts
from memtui.index.transcripts.reading import format_for, open_stream
from memtui.memory.discover import (
    MEMORY_FOLDER,
    ROOT_FILES,
    Scope,
    bases_of,
    counts_whole,
    discover,
    look_at,
)
from memtui.memory.documents import day_of_path, read_document, reason_of, split_lines, utc_time
from memtui.memory.paths import absolute_path, message_of, stored_path
from memtui.memory.transcripts.formats import beginning
from memtui.memory.transcripts.records import TranscriptFormat, parse_line
from memtui.memory.transcripts.stream import HashingStream, RawLine, raw_lines, text_of
from memtui.model import (
    CONVERSATIONS,
    EPOCH,
    FEATURES,
    NOTES,
    CandidatePool,
    Chunk,
    Document,
    Evidence,
    FileState,
    Leg,
    Ranked,
    Reason,
    SkippedFile,
    SourceFile,
)
from memtui.model.browsing import MemoryFile
from memtui.model.conversations import TranscriptKind, TurnKind, is_source
from memtui.model.inquiry import FoundBy, KeywordExplanation, LegPlace, LegRank, Place, WordTable
from memtui.ranking.context import ranked_passages
from memtui.ranking.trace import find
from memtui.retrieval import leg_detail
from memtui.retrieval.connection import whole_vector
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.maxsim import match_words, weigh_words
from memtui.retrieval.passages import fetch_passages, pack_pieces, unpack_pieces
from memtui.retrieval.pool import by_place, fetch_chunks
from memtui.retrieval.query import Query, filtered_rows, narrowed, parse_query
from memtui.text.redact import MASK, credential_line, redact_name
from memtui.text.sanitize import safe_line, size_words
from memtui.text.tokens import FTS5_TOKENIZE, index_text

if TYPE_CHECKING:
    from memtui.engine.own_index import OwnIndex

SQL: Final[Mapping[str, str]] = read_table("queries.toml")["own"]
MOST_ROWS: Final = 100_000
"""So many matching rows are scored again at most, and so many vectors of 384 numbers compared:
0.1 to 0.3 s."""
_NUMBERS_OF_A_VECTOR: Final = 384
_WORD_PIECES: Final = FEATURES.index("word_pieces") - 1


class OwnReading(Reading):
    """A look at the live generation."""

    def __init__(self, connection: Connection, index: OwnIndex) -> None:
        self._connection = connection
        self._index = index
        self.words = Words(connection, leg_detail.NATIVE_TABLE, FTS5_TOKENIZE, index_text)

    @property
    def size(self) -> int:
        return number(self._connection, "SELECT count(*) FROM chunks")

    def row_of(self, chunk_id: str) -> int | None:
        return next(iter(self._rows("SELECT id FROM chunks WHERE chunk_id = ?", chunk_id)), None)

    def chunks(self, rowids: Iterable[int]) -> Mapping[int, Chunk]:
        return fetch_chunks(self._connection, rowids)

    def in_order(self, rowids: Iterable[int]) -> list[int]:
        return by_place(self._connection, rowids)

    def rows_of(self, path: str) -> Sequence[int]:
        return self._rows(SQL["rows_of"], path)

    def _rows(self, sql: str, *values: str | int) -> list[int]:
        return [int(str(row[0])) for row in self._connection.execute(sql, values).fetchall()]

    def vector(self, rowid: int) -> StoredVector:
        identity = made_by(read_meta(self._connection))
        if identity is None:
            return StoredVector(None, Reason.NO_VECTORS, "", None)
        rows = self._connection.execute(SQL["vector"], (rowid,)).fetchall()
        if not rows:
            is_indexing = self._index.status().progress is not None
            waits = Reason.PENDING if is_indexing else self._why_no_vector(rowid)
            return StoredVector(None, waits, identity.name, identity.dimensions)
        vector = whole_vector(4 * (identity.dimensions or 0), rowid, *rows[0][1:])
        values = np.frombuffer(vector, dtype=np.float32)
        state = Reason.OK if values.any() else Reason.ZERO_VECTOR
        return StoredVector(values, state, identity.name, len(values))

    def vectors(self, rowid: int) -> Vectors | Reason:
        view = self._index.legs.view()
        if view is None or not view.size:
            return Reason.NO_VECTORS
        return Vectors(view.rowids, view.matrix, view.live)

    def paths(self) -> Sequence[str]:
        rows = self._connection.execute("SELECT path FROM files ORDER BY path").fetchall()
        return [str(path) for (path,) in rows]

    def recent(self, limit: int) -> Sequence[RecentFile]:
        rows = self._connection.execute(SQL["recent"], (limit,))
        return [
            RecentFile(path, utc_time(written_ns / 1e9) or EPOCH, *others)
            for path, written_ns, *others in rows
        ]

    def file_at(self, place: Place, source: str | None = None) -> IndexedFile:
        row = known_file(self._connection, place.path)
        if row is None:
            return IndexedFile(place)
        return IndexedFile(place, row, self.chunks_of(row.path), row.source)

    def facts(self, ranked: Ranked, chunk_id: str) -> ChunkFacts | None:
        stored = self.chunk(chunk_id)
        if stored is None:
            return None
        rowid, chunk = stored
        pool, connection = ranked.pool, self._connection
        match = str(pool.states[Leg.KEYWORD].facts.get("match") or "")
        query, allowed = narrowed(connection, parse_query(pool.query, typing=pool.typing))
        terms = leg_detail.explain_keyword(connection, query, rowid, match=match)
        found_by = FoundBy.MATCH if terms.found else FoundBy.NOTHING
        terms = replace(terms, asked=pool.query, found_by=found_by)
        filters: tuple[str, ...] = ()
        if allowed is not None and rowid not in allowed:
            places = dict.fromkeys(Leg, LegPlace(None, Reason.FILTERED))
            for one, typed in query.filters.fields():
                passing = filtered_rows(connection, one)
                if passing is not None and rowid not in passing:
                    filters += tuple(typed)
        else:
            places = {
                Leg.VECTOR: self._vector_place(pool, query, rowid, allowed),
                Leg.KEYWORD: self._keyword_place(pool, query, terms, allowed),
            }
        return ChunkFacts(chunk, terms, places, self._vector_state(chunk, rowid), filters)

    def word_matches(self, ranked: Ranked, chunk_id: str) -> WordTable:
        connection, pool, leg = self._connection, ranked.pool, self._index.legs.vector_leg
        rowid, provider = self.row_of(chunk_id), leg.provider if leg is not None else None
        if pool.evidence is not Evidence.WORD_PIECES or provider is None or rowid is None:
            return Reason.NO_PIECES
        text, embedded = connection.execute(SQL["embedded"], (rowid,)).get
        passages = fetch_passages(connection, {rowid: len(text)})[rowid]
        if embedded != 1:
            return self._why_no_vector(rowid)
        if not any(one.values[_WORD_PIECES] for one in pool.passages[chunk_id]):
            return Reason.NO_PIECES
        query, _ = narrowed(connection, parse_query(pool.query, typing=pool.typing))
        (keyword := KeywordLeg(connection)).plan(query)
        chunk, best = pool.chunks[chunk_id], ranked_passages(ranked, find(ranked, chunk_id))[0][1]
        at, shown = pool.passages[chunk_id].index(best), chunk.text[best.start : best.end]
        try:
            query_words = weigh_words(provider, keyword, query.text)
            made = provider.word_pieces(text, [one.start for one in passages]) or []
            visible = provider.word_pieces(shown, [0]) if chunk.snippet is not None else []
        except ProviderError:
            return Reason.PROVIDER_FAILED
        words, vectors = made[at]
        (pieces,) = unpack_pieces(pack_pieces([vectors]), 1)
        if chunk.snippet is not None:
            snippet_words = visible[0].words if visible else []
            words = [word if word in snippet_words else MASK for word in words]
        return match_words(query_words, words, pieces) or Reason.NO_TERMS

    def _keyword_place(
        self,
        pool: CandidatePool,
        query: Query,
        terms: KeywordExplanation,
        allowed: Collection[int] | None,
    ) -> LegPlace:
        refusal, match = refused(pool, Leg.KEYWORD), terms.match
        if not pool.is_scored and allowed:
            newest = KeywordLeg(self._connection).search(query, len(allowed), allowed).hits
            position = [hit.rowid for hit in newest].index(terms.rowid)
            return LegPlace(LegRank(position, len(newest), None), Reason.OK)
        if refusal is not None or match is None:
            return LegPlace(None, refusal or Reason.NO_TERMS)
        if not terms.found:
            return LegPlace(None, Reason.NOT_MATCHED, terms.asked)
        if leg_detail.matching_rows(self._connection, leg_detail.NATIVE_TABLE, match) > MOST_ROWS:
            return LegPlace(None, Reason.TOO_MANY, terms.asked)
        plan = KeywordLeg(self._connection).plan_of(query, match)
        rank = leg_detail.keyword_rank(
            self._connection,
            leg_detail.NATIVE_TABLE,
            match,
            terms.rowid,
            allowed=allowed,
            conditions=" AND +rowid NOT IN (SELECT value FROM json_each(?))",
            values=(json.dumps([*plan.outside] if plan is not None else []),),
            in_order=self.in_order,
        )
        return LegPlace(rank, Reason.OK if rank is not None else Reason.NOT_MATCHED, terms.asked)

    def _vector_place(
        self, pool: CandidatePool, query: Query, rowid: int, allowed: Collection[int] | None
    ) -> LegPlace:
        refusal, leg = refused(pool, Leg.VECTOR), self._index.legs.vector_leg
        vector = leg.vectors.get(query.text) if leg is not None else None
        view = self._index.legs.view() if vector is not None else None
        if refusal is not None or view is None or vector is None:
            return LegPlace(None, refusal or Reason.NO_VECTORS)
        if view.count * view.dims > MOST_ROWS * _NUMBERS_OF_A_VECTOR:
            return LegPlace(None, Reason.TOO_MANY)
        rank = leg_detail.view_rank(view, vector, rowid, allowed, self.in_order)
        return LegPlace(rank, Reason.OK if rank is not None else Reason.NO_VECTOR)

    def _why_no_vector(self, rowid: int) -> Reason:
        text, embedded = self._connection.execute(SQL["embedded"], (rowid,)).get or ("", 0)
        if embedded == 2:
            return Reason.SCRIPT_NOT_SUPPORTED
        withholds = self._index.providers.acting.withholds
        is_withheld = withholds and credential_line(str(text)) is not None
        return Reason.HOLDS_CREDENTIAL if is_withheld else Reason.NO_VECTOR

    def _vector_state(self, chunk: Chunk, rowid: int) -> Reason:
        leg = self._index.legs.vector_leg
        provider = leg.provider if leg is not None else None
        if provider is not None and chunk.model not in (provider.identity.model, NO_MODEL):
            return Reason.OTHER_MODEL
        if self._rows("SELECT embedded FROM chunks WHERE id = ?", rowid) != [1]:
            return self._why_no_vector(rowid)
        view = self._index.legs.view() if provider is not None else None
        if view is None or (view.live & (view.rowids == rowid)).any():
            return Reason.OK
        # Embedded, and not to be found: a zero vector is not kept.
        return Reason.ZERO_VECTOR


WORKSPACE: Final = "workspace"
NEXT_SYNC: Final = "the next sync takes it in"
CHANGED: Final = "changed since it was indexed"
_BROKEN: Final = frozenset({Reason.UNREADABLE, Reason.VANISHED})
_LONGEST = 2000
_SHORTEST = 80
_BUDGET = 16 * 2**20


class OwnFiles(Files):
    """The files of one memory; any thread."""

    def __init__(self, index: OwnIndex) -> None:
        self._index = index

    def entries(self, cancelled: IsCancelled) -> list[MemoryFile]:
        scope = self._index.scope
        notes = discover(scope, cancelled=cancelled)
        discovery = with_transcripts(notes, self._index.transcripts.scope, cancelled=cancelled)

        def fetch_rows(connection: Connection) -> tuple[dict[str, KnownFile], dict[str, list[Any]]]:
            numbers = {path: rest for path, *rest in connection.execute(SQL["by_path"])}
            return known_files(connection), numbers

        rows, by_path = self._index.read_rows(fetch_rows) or ({}, {})
        status = self._index.status()
        on_disk = {file.path: file for file in discovery.files}
        # A source without a folder is no file.
        left_out = {file.path: file for file in discovery.skipped if not is_source(file.path)}
        # What the last sync left out or could not read whole, and what is known to have changed.
        unread = {file.path: file for file in status.skipped}
        changed = {*plan_changes(discovery.files, rows).changed, *status.pending}
        transcripts = left_out.keys() - {file.path for file in notes.skipped}
        place_of = _place_names(scope)
        files = []
        for path in sorted({*on_disk, *rows, *left_out}):
            stop_if(cancelled)
            file, row = on_disk.get(path), rows.get(path)
            chunks, about = by_path.get(path, (0, ""))
            skipped = (unread if file is not None else left_out).get(path)
            size: int | None
            if (stat := file or row) is not None:
                size, mtime_ns, source = stat.size, stat.mtime_ns, stat.source
            else:
                source = CONVERSATIONS if path in transcripts else NOTES
                size, mtime_ns = _measure(scope, path)
            is_changed = file is not None and path in changed
            state, reason, detail = FileState.CURRENT, Reason.OK, ""
            if row is not None and row.no_text and file is not None and not is_changed:
                skipped = SkippedFile(path, Reason.NOT_TEXT, row.no_text)
            is_read = skipped is not None and not chunks
            if skipped is not None and (row is None or file is None or is_changed or is_read):
                state = FileState.ERROR if skipped.reason in _BROKEN else FileState.SKIPPED
                reason, detail = skipped.reason, skipped.detail
                if file is None and row is not None and state is not FileState.ERROR:
                    state, detail = FileState.ORPHAN, f"{detail}; the next sync drops it"
            elif file is None:
                state, reason = FileState.ORPHAN, Reason.VANISHED
                detail = "gone; the next sync drops it"
            elif row is None:
                state, reason, detail = FileState.NEVER_INDEXED, Reason.NOT_YET_INDEXED, NEXT_SYNC
            elif is_changed:
                state, reason, detail = FileState.STALE, Reason.STALE, f"{CHANGED}; {NEXT_SYNC}"
            else:
                why = skipped.detail if skipped is not None else ""
                detail = "; ".join(row.warnings) or why or about
            day = row.day if row is not None else day_of_path(path) if file is not None else None
            files.append(
                MemoryFile(
                    path=path,
                    source=source,
                    place=place_of(path, source, file.kind if file is not None else ""),
                    state=state,
                    size=size,
                    changed=utc_time(mtime_ns / 1e9),
                    chunks=chunks,
                    lines=row.lines if row is not None else 0,
                    day=day,
                    reason=reason,
                    detail=detail,
                )
            )
        return files

    def documents(self, cancelled: IsCancelled) -> Iterator[Document | SkippedFile]:
        scope = self._index.scope
        for file in discover(scope, cancelled=cancelled).files:
            stop_if(cancelled)
            try:
                yield read_document(file, max_bytes=scope.settings.max_file_bytes)
            except OSError as error:
                yield SkippedFile(file.path, reason_of(error), error.strerror or str(error))

    def path_of(self, path: str) -> Path | None:
        row = self._index.read_rows(lambda connection: known_file(connection, path))
        is_transcript = row.source == CONVERSATIONS if row else ".jsonl" in path.rpartition("/")[2]
        if not is_transcript:
            return Path(absolute_path(path, str(self._index.root.absolute())))
        file = file_at(self._index.transcripts.scope, path)
        return file.absolute if file is not None and not file.session else None

    def standing(self, path: str, indexed: IndexedFile | None) -> FileStanding:
        """Look at one file; it is read only where its state is not the one that was indexed."""
        row: KnownFile | None = indexed.row if indexed is not None else None
        if row is not None and row.source == CONVERSATIONS:
            file = file_at(self._index.transcripts.scope, row.path)
            if file is None:
                return FileStanding(row.path, Reason.VANISHED, "the transcript is gone")
            # One that grew still says what was indexed of it.
            is_stale = file.size < row.size or file.inode != row.inode
            return FileStanding(row.path, detail=CHANGED if is_stale else "", stale=is_stale)
        scope = self._index.scope
        note = look_at(scope, path)
        if not isinstance(note, SourceFile):
            reason, numbers = note.reason, dict[str, float | int | str | None]()
            if row is not None and reason is Reason.NO_FILE:
                reason = Reason.VANISHED
            if reason is Reason.TOO_LARGE:
                size = _measure(scope, path)[0]
                numbers = {"bytes": size} if size is not None else {}
                numbers["limit_bytes"] = scope.settings.max_file_bytes
            return FileStanding(note.path, reason, note.detail, numbers)
        is_text = row is not None and not row.no_text
        if row is not None and is_text and not plan_changes((note,), {note.path: row}).read:
            return FileStanding(note.path)
        try:
            document = read_document(note, max_bytes=scope.settings.max_file_bytes)
        except OSError as error:
            return FileStanding(note.path, reason_of(error), message_of(error))
        if row is None or document.hash == row.hash:
            return FileStanding(note.path)
        lines = tuple(split_lines(document.text))
        return FileStanding(note.path, detail=CHANGED, stale=True, lines=lines)

    def source(self, path: str) -> SourceText:
        """Read a note or transcript; of one that is gone, what the index holds is shown.

        Credentials are masked in transcripts. The memory that this takes does not depend on how
        long a file or its lines are.
        """
        row = self._index.read_rows(lambda connection: known_file(connection, path))
        is_transcript = row is not None and row.source == CONVERSATIONS
        file = None
        if is_transcript or row is None:
            file = file_at(self._index.transcripts.scope, path)
        if file is None and not is_transcript:
            text = self._index.read(lambda reading: reading.indexed_text(path)) or ""
            bases, digest = bases_of(self._index.scope), row.hash if row is not None else None
            return read_source(bases, path, digest, text)
        why = "transcript gone"
        if file is not None:
            limit = self._index.transcripts.scope.max_line_bytes
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
                        problem = message_of(error)
            except OSError as error:
                why = message_of(error)
            else:
                is_current = row is None or row.hash == hashing.digest()
                state, detail = ("current", "") if is_current else ("changed", CHANGED)
                return SourceText(path, lines or [""], state, problem or detail)
        shown = [""]
        for chunk in self._index.read(lambda reading: reading.chunks_of(path)) or ():
            # A chunk has more lines than the records that it is made of.
            shown += [""] * (chunk.start_line - len(shown))
            line = f"{shown[chunk.start_line - 1]} {safe_line(chunk.text)}"
            shown[chunk.start_line - 1] = line.lstrip()[:_LONGEST]
        return SourceText(path, shown, "gone", f"{why}; indexed text")

    def paths_on_disk(self) -> Collection[str]:
        discovery = discover(self._index.scope)
        on_disk = {file.path for file in discovery.files}
        return on_disk | {file.path for file in discovery.skipped}


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
    (root, *bases), whole_folder = bases_of(scope), counts_whole(scope.root.absolute())
    named = filter(None, map(str.strip, scope.settings.extra_paths))
    extras = [(stored_path(base, root), extra) for base, extra in zip(bases, named, strict=True)]
    # Of paths inside each other the innermost counts.
    extras.sort(key=lambda extra: -len(extra[0]))

    def name(path: str, source: str, kind: str) -> str:
        if source != NOTES:
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


def _shown(raw: RawLine, form: TranscriptFormat | None) -> str:
    record, problem = parse_line(raw)
    if problem:
        return f"· {problem}"
    words: list[str] = []
    for turn in form.turns(record, raw.number) if form is not None and record is not None else ():
        tool = f" {safe_line(redact_name(turn.tool))}" if turn.tool else ""
        match turn.kind:
            case TurnKind.MESSAGE:
                said_by = "User" if turn.role == "user" else "Assistant"
                text, _ = beginning(turn.text, _LONGEST)
                words.append(f"{said_by}: {' '.join(safe_line(text).split())}")
            case TurnKind.RESET:
                words.append("— a new conversation —")
            case TurnKind.COMPACTION:
                words.append("— compacted —")
            case _:
                failed = " failed" if turn.is_error else ""
                is_other = turn.kind is TurnKind.OTHER
                kind = "record" if is_other else turn.kind.value.replace("_", " ")
                words.append(f"· {kind}{tool}{failed} {size_words(turn.size)}")
    if not words and text_of(raw).strip():
        words.append(f"· record {size_words(raw.length)}")
    return "  ".join(words)
