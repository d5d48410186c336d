"""The first phase of a sync: the rows of the files that are new, changed or gone."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from memtui.bus import FileIndexed, FileSkipped
from memtui.index.database import transaction
from memtui.index.job import FILES, Counts, Job
from memtui.index.scan import KEY as ROOT
from memtui.index.scan import KnownFile, Plan, identity_of_root, known_files, plan_changes
from memtui.index.schema import read_meta, write_meta
from memtui.index.transcripts.discovery import SOURCE as TRANSCRIPTS
from memtui.index.transcripts.scope import TranscriptScope
from memtui.index.writer import IndexWriter, within_limit
from memtui.memory.discover import Discovery
from memtui.memory.documents import read_document, reason_of
from memtui.model import ChunkSpan, Document, SkippedFile, SourceFile
from memtui.retrieval.pool import UNMASKED

if TYPE_CHECKING:
    from memtui.index.database import Connection
    from memtui.index.transcripts.streams import Registered


# What cuts notes and reads transcripts is imported when there is one: a search does without.


_REMOVED_AT_ONCE = 50
_MOST_FILES = 800
_MOST_SECONDS = 0.8
_BATCH_BYTES = 4 * 2**20
# What decides, besides the files, what is read of transcripts; a key of the index's meta table.
_RECIPE = "transcripts"
_MIXED = "mixed"
# The state of the programs' lists of sessions when they were looked at; in the meta table as well.
_REGISTRIES = "transcript_registries"


def _with_all_transcripts(plan: Plan, files: Sequence[SourceFile]) -> Plan:
    every = [file for file in files if file.source == TRANSCRIPTS]
    notes = [file for file in plan.read if file.source != TRANSCRIPTS]
    return replace(plan, read=(*notes, *every))


def _with_also(plan: Plan, files: Sequence[SourceFile]) -> Plan:
    there = {file.path for file in plan.read}
    also = [file for file in files if file.path not in there]
    return replace(
        plan,
        read=(*plan.read, *also),
        changed=(*plan.changed, *(file.path for file in also)),
    )


@dataclass(slots=True)
class _Batch:
    """Files that were read and are written in one transaction."""

    began: float
    most_files: int = 50
    most_seconds: float = 0.2
    documents: list[tuple[Document, list[ChunkSpan]]] = field(default_factory=list)
    touched: list[SourceFile] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    files: int = 0
    size: int = 0

    def full(self) -> bool:
        late = time.monotonic() - self.began >= self.most_seconds
        return late or self.files >= self.most_files or self.size >= _BATCH_BYTES

    def next(self) -> _Batch:
        """One that may be twice as large: a commit costs the same for few files and for many."""
        return _Batch(
            time.monotonic(),
            most_files=min(2 * self.most_files, _MOST_FILES),
            most_seconds=min(2 * self.most_seconds, _MOST_SECONDS),
        )


class FilesPhase:
    """Reads files and writes their rows, in small transactions unless `bulk`.

    A file that cannot be read is reported and loses its rows, so that the index is what a fresh
    one would be. Nothing that was committed is lost when the job stops.
    """

    def __init__(
        self, job: Job, connection: Connection, counts: Counts, *, bulk: bool = False
    ) -> None:
        self._job = job
        self._connection = connection
        self._counts = counts
        self._bulk = bulk
        self._writer = IndexWriter(connection, model=job.recipe.model)
        self._known: Mapping[str, KnownFile] = {}
        self._seen_ns = 0

    def run(self, discovery: Discovery, *, seen_ns: int) -> None:
        """Make the rows those of the files that were found at `seen_ns` (Unix time)."""
        job, counts = self._job, self._counts
        self._seen_ns = seen_ns
        self._known = known_files(self._connection)
        scope = job.transcripts or TranscriptScope(job.scope.root)
        anew = read_meta(self._connection).get(_RECIPE, scope.recipe) != scope.recipe
        plan = plan_changes(discovery.files, self._known, discovery.unread)
        if anew:
            plan = _with_all_transcripts(plan, discovery.files)
        registered = self._registered(discovery.files, scope)
        plan = _with_also(plan, registered.differing)
        counts.seen = len(discovery.files)
        for skipped in discovery.skipped:
            self._skip(skipped)
        job.planned((*plan.changed, *plan.removed))
        self._remove(plan.removed)
        if plan.read:
            self._begin(scope, anew=anew)
            job.progress.start(FILES, len(plan.read))
            self._read_all(file for file in plan.read if file.source != TRANSCRIPTS)
            from memtui.index.transcripts.phase import TranscriptsPhase

            phase = TranscriptsPhase(
                job, scope, self._connection, counts, bulk=self._bulk, seen_ns=seen_ns
            )
            phase.run([f for f in plan.read if f.source == TRANSCRIPTS], self._known, anew=anew)
        meta = read_meta(self._connection)
        said = {
            _RECIPE: scope.recipe,
            _REGISTRIES: registered.stamps,
            UNMASKED[0]: scope.rules.redaction,
            ROOT: identity_of_root(job.scope.root),
        }
        if discovery.files and any(meta.get(key) != value for key, value in said.items()):
            with self._transaction():
                write_meta(self._connection, said)

    def _begin(self, scope: TranscriptScope, *, anew: bool) -> None:
        """Note before the first transcript what a job that stops in between leaves behind.

        What was read in part by one recipe and in part by another is read anew by any.
        """
        meta = read_meta(self._connection)
        said = {_RECIPE: _MIXED} if anew else {_RECIPE: scope.recipe}
        if not scope.rules.masks_more:
            said[UNMASKED[0]] = UNMASKED[1]
        if any(meta.get(key) != value for key, value in said.items()):
            with self._transaction():
                write_meta(self._connection, said)

    def _registered(self, files: Sequence[SourceFile], scope: TranscriptScope) -> Registered:
        """The sessions that the program's list of them tells something else of than before."""
        seen = read_meta(self._connection).get(_REGISTRIES, "")
        sessions = [file for file in files if file.source == TRANSCRIPTS]
        from memtui.index.transcripts.reading import registered_as
        from memtui.index.transcripts.streams import look_at_registries

        before = partial(registered_as, self._connection)

        return look_at_registries(sessions, before, seen, scope.rules)

    def _read_all(self, files: Iterable[SourceFile]) -> None:
        batch = _Batch(time.monotonic())
        for file in files:
            self._job.check()
            self._read(file, batch)
            if batch.full():
                self._flush(batch)
                batch = batch.next()
        self._flush(batch)

    def _read(self, file: SourceFile, batch: _Batch) -> None:
        batch.files += 1
        batch.size += file.size
        known = self._known.get(file.path)
        try:
            document = read_document(file, max_bytes=self._job.scope.max_file_bytes)
        except OSError as error:
            self._skip(SkippedFile(file.path, reason_of(error), error.strerror or str(error)))
            batch.gone.append(file.path)
            return
        if known is not None and (known.hash, known.source) == (document.hash, file.source):
            batch.touched.append(file)
            return
        recipe = self._job.recipe
        from memtui.memory.chunking import chunk_document

        spans = chunk_document(
            document,
            tokens=recipe.chunk_tokens,
            overlap=recipe.chunk_overlap,
            cancelled=self._job.cancelled,
        )
        batch.documents.append((document, within_limit(spans, recipe.input_bytes)))

    def _flush(self, batch: _Batch) -> None:
        if not batch.files:
            return
        job, counts, seen_ns = self._job, self._counts, self._seen_ns
        with self._transaction():
            written = self._writer.write_documents(
                batch.documents,
                seen_ns=seen_ns,
                cancelled=job.cancelled,
                may_be_held=self._known.__contains__,
            )
            for file in batch.touched:
                self._writer.touch(file, seen_ns=seen_ns)
            removed = self._writer.remove_files(batch.gone, job.cancelled)
        counts.chunks_written += written
        counts.removed += removed
        for document, spans in batch.documents:
            if document.file.path in self._known:
                counts.changed += 1
            else:
                counts.added += 1
            job.bus.publish(FileIndexed(document.file.path, len(spans)))
        paths = [document.file.path for document, _ in batch.documents]
        job.done([*paths, *(file.path for file in batch.touched), *batch.gone])
        job.progress.advance(batch.files, paths[-1] if paths else "")

    def _remove(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), _REMOVED_AT_ONCE):
            self._job.check()
            some = paths[start : start + _REMOVED_AT_ONCE]
            with self._transaction():
                removed = self._writer.remove_files(some, self._job.cancelled)
            self._counts.removed += removed
            self._job.done(some)

    def _skip(self, skipped: SkippedFile) -> None:
        self._counts.skipped.append(skipped)
        self._job.bus.publish(FileSkipped(skipped.path, skipped.reason))

    def _transaction(self) -> AbstractContextManager[None]:
        return nullcontext() if self._bulk else transaction(self._connection)
