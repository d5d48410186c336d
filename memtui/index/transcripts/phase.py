"""The transcripts of a sync: read as streams, written a few megabytes at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from memtui.bus import FileIndexed, FileSkipped
from memtui.index.database import transaction
from memtui.index.job import Counts, Job
from memtui.index.rows import IndexWriter
from memtui.index.transcripts.reading import (
    REGISTERED,
    Cutting,
    Resuming,
    TranscriptFacts,
    TranscriptReading,
    agent_of,
    format_for,
    is_settled,
    name_of,
    resuming,
    write_row,
)
from memtui.index.transcripts.scope import TranscriptScope
from memtui.index.transcripts.streams import HashingStream, open_stream, registered_run
from memtui.memory.documents import reason_of
from memtui.memory.paths import said
from memtui.memory.transcripts.stream import RawLine, raw_lines
from memtui.model import ChunkSpan, Reason, SkippedFile, SourceFile

if TYPE_CHECKING:
    from memtui.index.database import Connection
    from memtui.index.rows import KnownFile

_BATCH_CHARACTERS = 4 * 2**20
UNFINISHED_NS = -1
"""The modification time of a transcript of which only a part is in the index."""


@dataclass(slots=True)
class _Work:
    """One transcript that is being taken in."""

    file: SourceFile
    reading: TranscriptReading
    begin: Resuming
    stale: dict[str, int]
    """Chunks in the index that no line so far has confirmed, by id."""
    is_whole: bool
    """Whether it is read from its beginning although the index holds some of it."""
    lines: int
    run: str
    """What the program's list of sessions says that it is; empty: a conversation."""
    spans: list[ChunkSpan] = field(default_factory=list)
    tail: list[ChunkSpan] = field(default_factory=list)
    """What a last line without its end completes."""
    characters: int = 0
    written: int = 0
    problem: str = ""


class TranscriptsPhase:
    """Makes the rows of transcripts what a fresh index would hold, in bounded memory.

    One that only grew is read from where its last line ended; anything else is read anew, and
    keeps the chunks whose id stays. What was committed of a long one is there when the reading
    goes on after it was stopped.
    """

    def __init__(
        self,
        job: Job,
        scope: TranscriptScope,
        connection: Connection,
        counts: Counts,
        *,
        bulk: bool,
        seen_ns: int,
    ) -> None:
        self._job = job
        self._scope = scope
        self._connection = connection
        self._counts = counts
        self._bulk = bulk
        self._seen_ns = seen_ns
        self._writer = IndexWriter(connection, model=job.recipe.model)
        recipe = job.recipe
        limit = recipe.identity.input_bytes if recipe.identity is not None else None
        self._cutting = Cutting(recipe.chunk_tokens, recipe.chunk_overlap, limit)

    def run(
        self, files: Sequence[SourceFile], known: Mapping[str, KnownFile], *, anew: bool = False
    ) -> None:
        """Take in these; with `anew` nothing that was read before counts."""
        for file in files:
            self._job.check()
            before = known.get(file.path)
            try:
                self._take(file, None if anew else before, is_new=before is None)
            except OSError as error:
                self._leave_out(file, error)
            self._job.progress.settle([file.path])
            self._job.progress.advance(1, file.path)

    def _take(self, file: SourceFile, known: KnownFile | None, *, is_new: bool) -> None:
        begin = self._where(file, known)
        while isinstance(end := self._read_from(file, begin), Resuming):
            begin = end
        if known is not None and known.hash == end:
            return
        if is_new:
            self._counts.added += 1
        else:
            self._counts.changed += 1
        chunks = self._writer.chunk_count(file.path)
        self._job.bus.publish(FileIndexed(file.path, chunks))

    def _where(self, file: SourceFile, known: KnownFile | None) -> Resuming:
        """Return where to go on; at the beginning when it is another file now."""
        if known is None or known.inode != file.inode:
            return Resuming()
        file_id = self._writer.file_id(file.path)
        begin = Resuming() if file_id is None else resuming(self._connection, file_id)
        run = registered_run(file, self._scope.rules) or ""
        return begin if begin.prefix and begin.state.get(REGISTERED, "") == run else Resuming()

    def _read_from(self, file: SourceFile, begin: Resuming) -> Resuming | str:
        """Read from there to the end and return the hash of all; else where to begin instead."""
        with open_stream(file, limit=self._scope.max_line_bytes) as stream:
            hashing = HashingStream(stream)
            if begin.prefix and not (
                hashing.skip(begin.next_byte) and hashing.digest() == begin.prefix
            ):
                return Resuming()
            work = self._begin(file, begin)
            return Resuming() if work is None else self._read(work, hashing)

    def _begin(self, file: SourceFile, begin: Resuming) -> _Work | None:
        """Make ready to read from there; `None` when it turns out to be another program's."""
        kind = begin.state.get("kind")
        known = kind if is_settled(begin.next_line, begin.next_byte) else None
        form = format_for(file, known, limit=self._scope.max_line_bytes)
        if begin.prefix and (form is None or form.kind != kind):
            return None
        rules = self._scope.rules
        run, state = registered_run(file, rules), begin.state.get("reading")
        reading = TranscriptReading(form, name_of(file), rules, self._cutting, state, run)
        file_id = self._writer.file_id(file.path)
        before = self._writer.chunks_of(file_id) if file_id is not None else {}
        if begin.prefix:
            stale = {name: before[name] for name in begin.open_chunks if name in before}
        else:
            stale = before
        return _Work(
            file,
            reading,
            begin,
            stale,
            is_whole=not begin.prefix and bool(stale),
            lines=begin.next_line - 1,
            run=run or "",
        )

    def _read(self, work: _Work, hashing: HashingStream) -> Resuming | str:
        """Read to the end, writing in between, and return the hash; else where to begin again."""
        begin = work.begin
        at, line = begin.next_byte, begin.next_line
        before: Resuming | None = None
        marks: tuple[bool, int] | None = None
        limit = self._scope.max_line_bytes
        try:
            for raw in raw_lines(hashing, offset=at, number=line, limit=limit):
                self._job.check()
                if not raw.complete:
                    # What is still being written is read again when there is more of it.
                    before = self._here(work, at, line, hashing.digest_before_line())
                    marks = work.reading.marks
                    work.lines = raw.number
                    work.tail = work.reading.add(raw)
                    continue
                self._add(work, raw)
                at, line = raw.offset + raw.length, raw.number + 1
                if work.characters >= _BATCH_CHARACTERS:
                    self._write(work, self._here(work, at, line, hashing.digest()))
        except OSError as error:
            if work.file.session:
                raise
            # What came before stays valid; it is read anew when the file is another.
            work.problem = said(error)
        if (state := work.reading.begins_again) is not None:
            return Resuming(state={"kind": work.reading.kind, "reading": state})
        end = self._here(work, at, line, hashing.digest())
        if work.problem or not work.reading.kind or marks not in (None, work.reading.marks):
            before = Resuming(state={REGISTERED: work.run})
        self._finish(work, before or end, end.prefix)
        return end.prefix

    def _here(self, work: _Work, at: int, line: int, prefix: str) -> Resuming:
        state = {"kind": work.reading.kind, "reading": work.reading.state(), REGISTERED: work.run}
        return Resuming(at, line, prefix, state)

    def _add(self, work: _Work, raw: RawLine) -> None:
        spans = work.reading.add(raw)
        work.lines = raw.number
        work.spans += spans
        work.characters += sum(len(span.text) for span in spans)

    def _write(self, work: _Work, goes_on: Resuming) -> None:
        """Write what has been read so far."""
        # One that is read anew is so again: nothing else knows what is stale of it.
        goes_on = Resuming() if work.is_whole else goes_on
        file = replace(work.file, size=goes_on.next_byte, mtime_ns=UNFINISHED_NS)
        with self._transaction():
            file_id = self._write_file(work, file, "")
            self._write_spans(work, file_id, work.spans)
            kept = () if work.is_whole else tuple(work.stale)
            write_row(
                self._connection, file_id, self._facts(work), replace(goes_on, open_chunks=kept)
            )
        work.spans, work.characters = [], 0

    def _finish(self, work: _Work, goes_on: Resuming, text_hash: str) -> None:
        with self._transaction():
            file_id = self._write_file(work, work.file, text_hash)
            self._write_spans(work, file_id, work.spans)
            tail = (*work.tail, *work.reading.tail())
            kept = self._write_spans(work, file_id, tail)
            self._writer.delete_chunks(list(work.stale.values()), self._job.cancelled)
            write_row(
                self._connection, file_id, self._facts(work), replace(goes_on, open_chunks=kept)
            )
        self._counts.chunks_written += work.written

    def _write_file(self, work: _Work, file: SourceFile, text_hash: str) -> int:
        return self._writer.write_file(
            file, text_hash=text_hash, lines=work.lines, warnings="[]", seen_ns=self._seen_ns
        )

    def _write_spans(
        self, work: _Work, file_id: int, spans: Sequence[ChunkSpan]
    ) -> tuple[str, ...]:
        """Add the chunks that are not there; the ids of those that are there through this."""
        if work.reading.is_void:
            rows = self._writer.chunks_of(file_id)
            self._writer.delete_chunks(list(rows.values()), self._job.cancelled)
            work.stale = {}
            return ()
        names = []
        for span in spans:
            self._job.check()
            name = self._writer.chunk_name(work.file, span)
            if name in work.stale:
                del work.stale[name]
            elif self._writer.holds(name):
                continue
            else:
                self._writer.insert_chunk(file_id, name, span)
                work.written += 1
            names.append(name)
        return tuple(names)

    def _facts(self, work: _Work) -> TranscriptFacts:
        facts = work.reading.facts(agent_of(work.file))
        if work.problem:
            return replace(facts, reason=Reason.UNREADABLE, detail=work.problem)
        return facts

    def _leave_out(self, file: SourceFile, error: OSError) -> None:
        """Report one that cannot be read; of a file that cannot, the index then holds nothing."""
        skipped = SkippedFile(file.path, reason_of(error), said(error))
        self._counts.skipped.append(skipped)
        self._job.bus.publish(FileSkipped(skipped.path, skipped.reason))
        if file.session:
            # A database that is locked or at work: what was read of it before still holds.
            return
        with self._transaction():
            removed = self._writer.remove_files([file.path], self._job.cancelled)
        self._counts.removed += removed

    def _transaction(self) -> AbstractContextManager[None]:
        return nullcontext() if self._bulk else transaction(self._connection)
