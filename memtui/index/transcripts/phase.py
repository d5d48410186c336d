"""The transcripts of a sync: read as streams, written a few megabytes at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from memtui.bus import FileIndexed
from memtui.index import index_rows
from memtui.index.database import Connection, Recipe, transaction
from memtui.index.job import Job
from memtui.index.transcripts.discovery import agent_of
from memtui.index.transcripts.reading import (
    format_for,
    name_of,
    open_stream,
    read_state,
    registered_run,
    write_row,
)
from memtui.memory.chunking import Packer
from memtui.memory.documents import reason_of
from memtui.memory.paths import message_of
from memtui.memory.transcripts.formats import FORMATS, TranscriptReader, index_lines
from memtui.memory.transcripts.openclaw_files import TranscriptRules
from memtui.memory.transcripts.records import ReadState, TranscriptFacts, TranscriptFormat
from memtui.memory.transcripts.stream import HashingStream, RawLine, raw_lines
from memtui.model import ChunkSpan, Reason, SkippedFile, SourceFile

_BATCH_CHARACTERS = 4 * 2**20
UNFINISHED_NS = -1
"""The modification time of a transcript of which only a part is in the index."""


class TranscriptChunks:
    """Makes the chunks of a transcript line by line, and can go on another day where it stopped."""

    def __init__(
        self,
        form: TranscriptFormat | None,
        name: str,
        rules: TranscriptRules,
        recipe: Recipe,
        state: ReadState,
    ) -> None:
        """`name` is the file's, by which a release tells archives; `state` changes on the way.

        Without a `form` the file is no transcript: its lines are counted, and give nothing.
        """
        self.state = state
        self._limit = recipe.identity.input_bytes if recipe.identity is not None else None
        self._lines = index_lines(form or FORMATS[0], name, rules, state)
        self.reader = TranscriptReader(form, name, self._lines)
        """Knows what lists show of it."""
        self._packer = Packer(recipe.chunk_tokens, recipe.chunk_overlap, state.pending)

    def add(self, raw: RawLine) -> list[ChunkSpan]:
        """Take in the next line; give the chunks that it completes."""
        record, turns = self.reader.add(raw)
        if record is None:
            return []
        lines, state = self._lines.add(record, raw.number, turns), self.state
        if state.run is not None or not lines:
            return []
        spans: list[ChunkSpan] = []
        if 0 < state.planned_cut <= raw.number:
            spans += self._packer.cut()
            state.planned_cut = 0
        spans += self._packer.pack((raw.number, line) for line in lines)
        return self._limited(spans)

    def tail(self) -> list[ChunkSpan]:
        """Return the chunk that what comes next may still change."""
        self.state.pending = self._packer.pending
        return [] if self.state.run is not None else self._limited(self._packer.finish())

    def _limited(self, spans: list[ChunkSpan]) -> list[ChunkSpan]:
        return index_rows.within_limit([s for s in spans if s.text.strip()], self._limit)


def index_transcripts(
    job: Job,
    connection: Connection,
    files: Sequence[SourceFile],
    rows: Mapping[str, index_rows.KnownFile],
    seen_ns: int,
    *,
    anew: bool,
) -> None:
    """Make the rows of transcripts what a fresh index would hold, in bounded memory.

    One that only grew is read from where its last line ended; anything else is read anew, and
    keeps the chunks whose id stays: so does a long one whose reading was stopped. With `anew`
    nothing that was read before counts.
    """
    for file in files:
        job.check()
        row = rows.get(file.path)
        before = len(index_rows.chunks_of(connection, file.path))
        try:
            run = registered_run(file, job.transcripts.rules)
            start = ReadState(run, run)
            if row is not None and row.inode == file.inode and not anew:
                last = read_state(connection, file.path)
                if last.prefix and last.registered == run:
                    start = last
            while isinstance(outcome := _read(job, connection, file, start, seen_ns), ReadState):
                start = outcome
        except OSError as error:
            reason, detail = reason_of(error), message_of(error)
            is_too_large = reason is Reason.TOO_LARGE
            # A database that is locked or at work: what was read of it before still holds.
            if is_too_large or not file.session:
                job.stats.files_removed += before > 0
                with transaction(connection):
                    index_rows.remove_files(connection, [file.path])
                    if is_too_large:
                        # Its row says so, and nobody unpacks it before it is another file.
                        facts = TranscriptFacts(reason=reason, detail=detail)
                        file_id = index_rows.write_file(connection, file, "", 0, seen_ns)
                        write_row(connection, file_id, facts, ReadState())
            if not is_too_large:
                job.skipped.append(SkippedFile(file.path, reason, detail))
        else:
            is_other = row is not None and (row.hash != outcome or anew)
            chunks = len(index_rows.chunks_of(connection, file.path))
            # One without text of its own is no indexed file.
            job.stats.files_added += chunks > 0 == before
            job.stats.files_changed += is_other and chunks > 0 < before
            job.stats.files_removed += before > 0 == chunks
            if row is None or is_other:
                job.bus.publish(FileIndexed())
        job.progress.settle([file.path])
        job.progress.advance(1, file.path)


def _read(
    job: Job, connection: Connection, file: SourceFile, state: ReadState, seen_ns: int
) -> ReadState | str:
    """Read on to the end, and write what is new; else return the state to begin with instead.

    Returns the sha256 hex of the whole file.
    """
    scope, run = job.transcripts, state.registered
    limit = scope.max_line_bytes
    form = format_for(file, limit=limit)
    kind = form.kind.value if form is not None else ""
    cutoff, is_complete, problem = state.cutoff, True, ""

    def write(
        part: SourceFile, text_hash: str, spans: Sequence[ChunkSpan]
    ) -> tuple[int, list[str]]:
        """Write the row of a file and the chunks that are not there.

        Return its number, and the ids of the chunks that were added or confirmed.
        """
        file_id = index_rows.write_file(connection, part, text_hash, number - 1, seen_ns)
        if reading.state.run is not None:
            index_rows.delete_chunks(
                connection, index_rows.chunks_of(connection, part.path).values()
            )
            stale.clear()
            return file_id, []
        names, added = index_rows.write_chunks(
            connection, part, file_id, spans, job.recipe.model, stale, job.is_stopped
        )
        job.stats.chunks_written += added
        return file_id, names

    with open_stream(file, limit=limit) as stream:
        hashing = HashingStream(stream)
        # Chunks in the index that no line so far has confirmed, by id.
        stale = index_rows.chunks_of(connection, file.path)
        if state.prefix:
            is_same = hashing.skip(state.next_byte) and hashing.digest() == state.prefix
            if not is_same or state.kind != kind:
                return ReadState(run, run)
            stale = {name: row for name, row in stale.items() if name in state.open_chunks}
        reading = TranscriptChunks(form, name_of(file), scope.rules, job.recipe, state)
        spans: list[ChunkSpan] = []
        characters = 0
        at, number = state.next_byte, state.next_line
        try:
            for raw in raw_lines(hashing, offset=at, number=number, limit=limit):
                job.check()
                completed = reading.add(raw)
                spans += completed
                characters += sum(len(span.text) for span in completed)
                at, number, is_complete = raw.offset + raw.length, raw.number + 1, raw.complete
                if characters >= _BATCH_CHARACTERS:
                    # Without a position: one that is stopped now is read anew.
                    with transaction(connection):
                        part = replace(file, size=at, mtime_ns=UNFINISHED_NS)
                        file_id, _ = write(part, "", spans)
                        write_row(
                            connection, file_id, reading.reader.result(agent_of(file)), ReadState()
                        )
                    spans, characters = [], 0
        except OSError as error:
            if file.session or reason_of(error) is Reason.TOO_LARGE:
                raise
            # What came before stays valid; it is read anew when the file is another.
            problem = message_of(error)
    if state.cutoff != cutoff:
        return ReadState(run, run, cutoff=state.cutoff, planned_cut=state.cutoff)
    text_hash, facts = hashing.digest(), reading.reader.result(agent_of(file))
    if problem:
        facts = replace(facts, reason=Reason.UNREADABLE, detail=problem)
    with transaction(connection):
        write(file, text_hash, spans)
        file_id, open_chunks = write(file, text_hash, reading.tail())
        index_rows.delete_chunks(connection, stale.values())
        if is_complete and not problem:
            state.kind, state.prefix, state.open_chunks = kind, text_hash, open_chunks
            state.next_byte, state.next_line = at, number
        else:
            # A last line without its end may still be being written: then all is read again.
            state = ReadState(registered=run)
        write_row(connection, file_id, facts, state)
    return text_hash
