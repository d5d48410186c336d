"""The transcripts of a sync: read as streams, written a few megabytes at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from memtui.bus import FileIndexed
from memtui.index.database import Connection, transaction
from memtui.index.index_rows import IndexWriter, KnownFile
from memtui.index.job import Job
from memtui.index.transcripts.discovery import TranscriptScope
from memtui.index.transcripts.reading import (
    REGISTERED,
    ReadPosition,
    TranscriptChunks,
    agent_of,
    format_for,
    name_of,
    read_position,
    write_row,
)
from memtui.index.transcripts.streams import open_stream, registered_run
from memtui.memory.documents import reason_of
from memtui.memory.paths import said
from memtui.memory.transcripts.stream import HashingStream, raw_lines
from memtui.model import ChunkSpan, Reason, SkippedFile, SourceFile

_BATCH_CHARACTERS = 4 * 2**20
UNFINISHED_NS = -1
"""The modification time of a transcript of which only a part is in the index."""


class TranscriptsPhase:
    """Makes the rows of transcripts what a fresh index would hold, in bounded memory.

    One that only grew is read from where its last line ended; anything else is read anew, and
    keeps the chunks whose id stays: so does a long one whose reading was stopped.
    """

    def __init__(
        self, job: Job, scope: TranscriptScope, connection: Connection, *, seen_ns: int
    ) -> None:
        self._job = job
        self._scope = scope
        self._connection = connection
        self._seen_ns = seen_ns
        self._writer = IndexWriter(connection, job.recipe.model)

    def run(
        self, files: Sequence[SourceFile], rows: Mapping[str, KnownFile], *, anew: bool = False
    ) -> None:
        """Take in these; with `anew` nothing that was read before counts."""
        for file in files:
            self._job.check()
            before = rows.get(file.path)
            try:
                self._take(file, before, anew=anew)
            except OSError as error:
                self._job.skip(SkippedFile(file.path, reason_of(error), said(error)))
                # A database that is locked or at work: what was read of it before still holds.
                if not file.session:
                    with transaction(self._connection):
                        removed = self._writer.remove_files([file.path], self._job.cancelled)
                        self._job.stats.files_removed += removed
            self._job.progress.settle([file.path])
            self._job.progress.advance(1, file.path)

    def _take(self, file: SourceFile, row: KnownFile | None, *, anew: bool) -> None:
        run = registered_run(file, self._scope.rules) or ""
        start = ReadPosition()
        if row is not None and row.inode == file.inode and not anew:
            last = read_position(self._connection, file.path)
            if last.prefix and last.state.get(REGISTERED) == run:
                start = last
        while isinstance(outcome := self._read(file, start, run), ReadPosition):
            start = outcome
        if row is not None and row.hash == outcome and not anew:
            return
        if row is None:
            self._job.stats.files_added += 1
        else:
            self._job.stats.files_changed += 1
        chunks = self._writer.chunk_count(file.path)
        self._job.bus.publish(FileIndexed(file.path, chunks))

    def _read(self, file: SourceFile, start: ReadPosition, run: str) -> ReadPosition | str:
        """Read from there to the end, and write what is new; else return where to begin instead.

        Returns the sha256 hex of the whole file.
        """
        limit = self._scope.max_line_bytes
        form = format_for(file, limit=limit)
        kind = form.kind if form is not None else ""
        at, number, is_complete, problem = start.next_byte, start.next_line - 1, True, ""
        with open_stream(file, limit=limit) as stream:
            hashing = HashingStream(stream)
            is_same = hashing.skip(at) and hashing.digest() == start.prefix
            if start.prefix and not (is_same and start.state.get("kind") == kind):
                return ReadPosition()
            reading = TranscriptChunks(
                form,
                name_of(file),
                self._scope.rules,
                self._job.recipe,
                start.state.get("reading"),
                run,
            )
            file_id = self._writer.file_id(file.path)
            rows = self._writer.chunks_of(file_id) if file_id is not None else {}
            # Chunks in the index that no line so far has confirmed, by id.
            stale = {
                name: row
                for name, row in rows.items()
                if not start.prefix or name in start.open_chunks
            }
            spans: list[ChunkSpan] = []
            characters = 0
            try:
                for raw in raw_lines(hashing, offset=at, number=number + 1, limit=limit):
                    self._job.check()
                    completed = reading.add(raw)
                    spans += completed
                    characters += sum(len(span.text) for span in completed)
                    at, number, is_complete = raw.offset + raw.length, raw.number, raw.complete
                    if characters >= _BATCH_CHARACTERS:
                        # Without a position: one that is stopped now is read anew.
                        part = replace(file, size=at, mtime_ns=UNFINISHED_NS)
                        with transaction(self._connection):
                            file_id = self._writer.write_file(part, "", number, self._seen_ns)
                            self._write_spans(file, file_id, reading, spans, stale)
                            facts = reading.facts(agent_of(file))
                            write_row(self._connection, file_id, facts, ReadPosition())
                        spans, characters = [], 0
            except OSError as error:
                if file.session:
                    raise
                # What came before stays valid; it is read anew when the file is another.
                problem = said(error)
        if (state := reading.begins_again) is not None:
            return ReadPosition(state={"reading": state})
        text_hash = hashing.digest()
        position = ReadPosition(state={REGISTERED: run})
        # A last line without its end may still be being written: then all is read again.
        if is_complete and not problem:
            state = {"kind": kind, "reading": reading.state(), REGISTERED: run}
            position = ReadPosition(at, number + 1, text_hash, state)
        facts = reading.facts(agent_of(file))
        if problem:
            facts = replace(facts, reason=Reason.UNREADABLE, detail=problem)
        with transaction(self._connection):
            file_id = self._writer.write_file(file, text_hash, number, self._seen_ns)
            self._write_spans(file, file_id, reading, spans, stale)
            open_chunks = self._write_spans(file, file_id, reading, reading.tail(), stale)
            self._writer.delete_chunks(list(stale.values()), self._job.cancelled)
            position = replace(position, open_chunks=open_chunks)
            write_row(self._connection, file_id, facts, position)
        return text_hash

    def _write_spans(
        self,
        file: SourceFile,
        file_id: int,
        reading: TranscriptChunks,
        spans: Sequence[ChunkSpan],
        stale: dict[str, int],
    ) -> tuple[str, ...]:
        """Add the chunks that are not there; return the ids that were added or confirmed."""
        if reading.is_void:
            rows = self._writer.chunks_of(file_id)
            self._writer.delete_chunks(list(rows.values()), self._job.cancelled)
            stale.clear()
            return ()
        names = []
        for span in spans:
            self._job.check()
            name = self._writer.chunk_name(file, span)
            if name in stale:
                del stale[name]
            elif self._writer.holds(name):
                continue
            else:
                self._writer.insert_chunk(file_id, name, span)
                self._job.stats.chunks_written += 1
            names.append(name)
        return tuple(names)
