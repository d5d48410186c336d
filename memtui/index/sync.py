"""Bring the live generation up to date with the files, or build a new one beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from memtui.bus import FileIndexed, FileSkipped, IndexSwapped, LegDegraded
from memtui.embedding.provider import MOST_FAILURES, PROBE_TEXT, maker_of
from memtui.errors import Cancelled, ProviderError, WorkspaceNotFound
from memtui.index.database import (
    DiskFull,
    Interrupted,
    checkpoint,
    interruptible,
    let_log_grow,
    mapped_errors,
    number,
    open_database,
    transaction,
)
from memtui.index.job import FILES, Counts, Job, SyncResult
from memtui.index.reader import known_files, plan_changes
from memtui.index.schema import check_version, create, read_meta, write_meta
from memtui.index.transcripts.discovery import SOURCE as TRANSCRIPTS
from memtui.index.transcripts.scope import TranscriptScope
from memtui.index.vectors import Batched, VectorsPhase, compact_vectors, embed_by_batches
from memtui.index.writer import IndexWriter, within_limit
from memtui.memory.discover import Discovery
from memtui.memory.documents import read_document, reason_of
from memtui.model import Leg, SkippedFile, SourceFile, SyncStats
from memtui.retrieval.pool import UNMASKED

if TYPE_CHECKING:
    from memtui.index.database import Connection

T = TypeVar("T")

_BULK = {"automerge": 0, "crisismerge": 64}
_NORMAL = {"automerge": 4, "crisismerge": 16}
# Merging full-text data that did not fit into memory leaves as many pages free.
_MOST_FREE = 0.125
# A commit costs the same for few files and for many, and until it, nothing of them is found.
_FILES_AT_ONCE = 256
_BYTES_AT_ONCE = 2 * 2**20

# Keys of the index's meta table: which folder the notes were found in; what decides, besides the
# files, what is read of transcripts; the state of the programs' lists of sessions at the last look.
_ROOT = "root"
_RECIPE = "transcripts"
_REGISTRIES = "transcript_registries"
_NO_LISTS = "{}"
# The recipe of transcripts that were read in part by one and in part by another.
_MIXED = "mixed"


def rebuild(job: Job) -> SyncResult:
    """Read every file again into a new generation and switch to it; the caller holds the lock.

    Vectors come from the cache, new ones go there, so that a stopped rebuild repeats little.
    Raises `Cancelled` and everything `sync` raises; the live generation is then as before.
    """
    began = time.monotonic()
    files = [job.folder.begin()]
    counts = Counts(usage=job.spent)
    try:
        with mapped_errors(files[0]):
            connection = open_database(files[0], bulk=True)
            try:
                vectors = _fill(job, connection, counts)
                _close_gaps(job, connection, files)
            finally:
                connection.close()
            job.check()
            generation = job.folder.commit(files[-1], cancelled=job.cancelled)
    except Interrupted as error:
        raise Cancelled from error
    finally:
        for file in files:
            job.folder.discard(file)
    job.folder.clean()
    job.bus.publish(IndexSwapped(generation))
    return _result(job, counts, vectors, began, rebuild=True)


def _close_gaps(job: Job, connection: Connection, files: list[Path]) -> None:
    """Add a copy without free pages to the files where many are free and the disk has room."""
    pages = number(connection, "PRAGMA page_count")
    if number(connection, "PRAGMA freelist_count") <= _MOST_FREE * pages:
        return
    copy = job.folder.begin()
    copy.touch(mode=0o600)
    files.append(copy)
    try:
        with interruptible(connection, job.cancelled):
            connection.execute("VACUUM INTO ?", (os.fspath(copy),))
    except DiskFull:
        # The file with the gaps is as good.
        job.folder.discard(files.pop())


def _fill(job: Job, connection: Connection, counts: Counts) -> VectorsPhase:
    seen_ns = time.time_ns()
    create(connection, job.recipe.identity.dimensions if job.recipe.identity else None)
    write_meta(connection, job.recipe.meta())
    discovery = job.discover()
    _configure_fts(connection, _BULK)
    connection.execute("BEGIN IMMEDIATE")
    FilesPhase(job, connection, counts, bulk=True).run(discovery, seen_ns=seen_ns)
    connection.execute("COMMIT")
    with interruptible(connection, job.cancelled):
        connection.execute("INSERT INTO chunks_fts(chunks_fts) VALUES('optimize')")
    _configure_fts(connection, _NORMAL)
    vectors = VectorsPhase(job, connection, counts)
    vectors.run()
    write_meta(connection, {"complete": "1"})
    return vectors


def _configure_fts(connection: Connection, options: dict[str, int]) -> None:
    for name, value in options.items():
        connection.execute("INSERT INTO chunks_fts(chunks_fts, rank) VALUES(?, ?)", (name, value))


def sync(job: Job) -> SyncResult:
    """Make the index what a fresh one of the same folder would be; the caller holds the lock.

    Without an index a first generation goes live at once and fills up, so that the keyword leg
    answers meanwhile. An index of another model, chunk size or tokenizer answers until a new
    generation replaces it; where nobody can make the vectors of that one, or a service makes
    them in a batch, the index of another model is kept up to date as it is meanwhile. Raises
    `Cancelled`, `WorkspaceNotFound` when the folder is gone, `IndexDamaged` or another
    `IndexUnusable` when the index cannot be used. What was committed before stays.
    """
    began = time.monotonic()
    generation = job.folder.current()
    if generation is None:
        generation = _create_generation(job)
        job.bus.publish(IndexSwapped(generation))
    path = job.folder.path(generation)
    with mapped_errors(path):
        connection = open_database(path)
        try:
            let_log_grow(connection)
            meta = read_meta(connection)
            check_version(meta, path)
            if not job.recipe.matches(meta):
                job = _kept_meanwhile(job, connection, meta)
            # Before the scan, so that a write during it counts as too close to be trusted.
            seen_ns = time.time_ns()
            if job.recipe.matches(meta):
                discovery = job.discover()
                _require_mounted(job, connection, discovery)
                return _sync_into(job, connection, discovery, seen_ns, began)
            _require_mounted(job, connection, None)
        finally:
            connection.close()
    return rebuild(job)


def _create_generation(job: Job) -> int:
    """Make an empty generation and let it go live."""
    building = job.folder.begin()
    with mapped_errors(building):
        connection = open_database(building)
        try:
            create(connection, job.recipe.identity.dimensions if job.recipe.identity else None)
            write_meta(connection, {**job.recipe.meta(), "complete": "0"})
        finally:
            connection.close()
    generation = job.folder.commit(building)
    job.folder.clean()
    return generation


def _sync_into(
    job: Job, connection: Connection, discovery: Discovery, seen_ns: int, began: float
) -> SyncResult:
    counts, before = Counts(), connection.total_changes()
    FilesPhase(job, connection, counts).run(discovery, seen_ns=seen_ns)
    if read_meta(connection).get("complete") != "1":
        with transaction(connection):
            write_meta(connection, {"complete": "1"})
    vectors = VectorsPhase(job, connection, counts, gives_way=True)
    vectors.run()
    if connection.total_changes() != before:
        compact_vectors(connection)
        checkpoint(connection)
    return _result(job, counts, vectors, began, rebuild=False)


def _result(
    job: Job, counts: Counts, vectors: VectorsPhase, began: float, *, rebuild: bool
) -> SyncResult:
    problem = vectors.problem
    if problem is not None:
        job.bus.publish(LegDegraded(Leg.VECTOR, problem.reason, problem.detail))
    stats = SyncStats(
        rebuild=rebuild,
        finished_at=job.now(),
        seconds=time.monotonic() - began,
        files_seen=counts.seen,
        files_added=counts.added,
        files_changed=counts.changed,
        files_removed=counts.removed,
        files_skipped=len(counts.skipped),
        chunks_written=counts.chunks_written,
        chunks_embedded=counts.embedded,
        cache_hits=counts.cache_hits,
        usage=counts.usage,
    )
    return SyncResult(stats, tuple(counts.skipped), counts.cache_misses, problem, vectors.state)


# --- an index of another model ------------------------------------------------------------------


def _kept_meanwhile(job: Job, connection: Connection, meta: Mapping[str, str]) -> Job:
    """Return the job of keeping the index of another model as it is; else the job as it was.

    It stays while it holds vectors, and nobody would make those of the new one, or a batch that
    makes them is under way. What was asked for in batches is noted in the job.
    """
    if job.recipe.identity is None:
        return job
    answers = _answers(job)
    recipe = job.recipe.of_model_in(meta)
    if recipe is None or not number(connection, "SELECT count(*) FROM chunks WHERE embedded = 1"):
        return job
    batched = _batched(job, connection) if answers else Batched()
    if answers and not batched.waiting:
        return replace(job, spent=batched.spent)
    return replace(job, recipe=recipe, awaits_batch=batched.waiting)


def _batched(job: Job, connection: Connection) -> Batched:
    """Have the texts of the live index embedded for a new one, where that is done in batches."""
    identity = job.recipe.identity
    provider, _ = job.provider()
    job.check()
    assert identity is not None
    if provider is None or maker_of(provider) != maker_of(identity):
        return Batched()
    identity = identity._replace(dimensions=identity.dimensions or provider.dimensions)
    return embed_by_batches(job, connection, provider, identity, gives_way=True, every=True)


def _answers(job: Job) -> bool:
    """Load who is to make a new index, and ask a service for one vector, before all is read.

    Where another provider takes over for one that fails, the job is cancelled here.
    """
    provider, _ = job.provider()
    job.check()
    if provider is None or not provider.address:
        return provider is not None
    for _ in range(MOST_FAILURES):
        try:
            provider.embed_query(PROBE_TEXT, cancelled=job.cancelled)
            return True
        except ProviderError:
            # Who hands the provider out has noted it.
            job.check()
    return False


# --- files --------------------------------------------------------------------------------------


def _identity_of_root(root: Path) -> str:
    """Tell a folder from another one that takes its place, by device and inode; empty without."""
    try:
        stat = os.stat(root)
    except OSError:
        return ""
    return f"{stat.st_dev}:{stat.st_ino}"


def _require_mounted(job: Job, connection: Connection, discovery: Discovery | None) -> None:
    """Raise `WorkspaceNotFound` where another, empty folder is in the place of the indexed one.

    The folder on which a file system was mounted is there without it, and has no notes.
    """
    root = job.scope.root
    if read_meta(connection).get(_ROOT, "") in ("", _identity_of_root(root)):
        return
    files = (discovery or job.discover()).files
    is_empty = all(file.source == TRANSCRIPTS for file in files)
    query = "SELECT count(*) FROM files WHERE source <> ?"
    if is_empty and number(connection, query, TRANSCRIPTS):
        raise WorkspaceNotFound(
            f"the memory folder {root} is empty and not the one that was indexed: not mounted?",
            hint="the index is kept until the notes are back; memtui index --force empties it",
        )


def _groups(files: Iterable[SourceFile]) -> Iterator[list[SourceFile]]:
    """Divide files into what is written in one transaction."""
    group: list[SourceFile] = []
    size = 0
    for file in files:
        group.append(file)
        size += file.size
        if len(group) == _FILES_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group


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
        self._known = known_files(connection)

    def run(self, discovery: Discovery, *, seen_ns: int) -> None:
        """Make the rows those of the files that were found at `seen_ns` (Unix time)."""
        job, counts, known = self._job, self._counts, self._known
        meta = read_meta(self._connection)
        scope = job.transcripts or TranscriptScope(job.scope.root)
        anew = meta.get(_RECIPE, scope.recipe) != scope.recipe
        plan = plan_changes(discovery.files, known, discovery.unread)
        sessions = [file for file in discovery.files if file.source == TRANSCRIPTS]
        differing, stamps = self._look_at_lists(sessions, meta.get(_REGISTRIES, ""), scope)
        read = {file.path: file for file in (*plan.read, *(sessions if anew else ()))}
        others = [file.path for file in differing if file.path not in read]
        read |= {file.path: file for file in differing}
        notes = [file for file in read.values() if file.source != TRANSCRIPTS]
        transcripts = [file for file in read.values() if file.source == TRANSCRIPTS]
        counts.seen = len(discovery.files)
        for skipped in discovery.skipped:
            self._skip(skipped)
        job.planned((*plan.changed, *others, *plan.removed))
        for start in range(0, len(plan.removed), _FILES_AT_ONCE):
            self._remove(plan.removed[start : start + _FILES_AT_ONCE])
        if read:
            self._begin(scope, meta, anew=anew)
            job.progress.start(FILES, len(read))
            for group in _groups(notes):
                self._take(group, seen_ns)
        if transcripts:
            from memtui.index.transcripts.phase import TranscriptsPhase

            phase = TranscriptsPhase(
                job, scope, self._connection, counts, bulk=self._bulk, seen_ns=seen_ns
            )
            phase.run(transcripts, known, anew=anew)
        if discovery.files:
            self._note(
                {
                    _RECIPE: scope.recipe,
                    _REGISTRIES: stamps,
                    UNMASKED[0]: scope.rules.redaction,
                    _ROOT: _identity_of_root(job.scope.root),
                }
            )

    def _look_at_lists(
        self, sessions: Sequence[SourceFile], seen: str, scope: TranscriptScope
    ) -> tuple[Sequence[SourceFile], str]:
        """Return the sessions that their program's list tells something else of than before.

        With them the state of these lists, to be kept.
        """
        if not sessions:
            return (), _NO_LISTS
        from memtui.index.transcripts.reading import registered_as
        from memtui.index.transcripts.streams import look_at_registries

        before = partial(registered_as, self._connection)
        registered = look_at_registries(sessions, before, seen, scope.rules)
        return registered.differing, registered.stamps

    def _begin(self, scope: TranscriptScope, meta: Mapping[str, str], *, anew: bool) -> None:
        """Note before the first transcript what a job that stops in between leaves behind.

        What was read in part by one recipe and in part by another is read anew by any.
        """
        self._note({_RECIPE: _MIXED if anew else scope.recipe})
        if not scope.rules.masks_more:
            self._note({UNMASKED[0]: UNMASKED[1]})

    def _note(self, values: Mapping[str, str]) -> None:
        meta = read_meta(self._connection)
        if any(meta.get(key) != value for key, value in values.items()):
            with self._transaction():
                write_meta(self._connection, values)

    def _take(self, files: Sequence[SourceFile], seen_ns: int) -> None:
        """Read some notes and write their rows, in one piece."""
        job, counts = self._job, self._counts
        indexed: list[tuple[str, int]] = []
        unread: list[SkippedFile] = []
        written = removed = 0
        with self._transaction():
            for file in files:
                job.check()
                try:
                    new, chunks = self._write(file, seen_ns)
                except OSError as error:
                    said = error.strerror or str(error)
                    unread.append(SkippedFile(file.path, reason_of(error), said))
                    removed += self._writer.remove_files([file.path], job.cancelled)
                    continue
                if chunks is not None:
                    indexed.append((file.path, chunks))
                    written += new
        for skipped in unread:
            self._skip(skipped)
        counts.chunks_written += written
        counts.removed += removed
        counts.changed += sum(path in self._known for path, _ in indexed)
        counts.added += sum(path not in self._known for path, _ in indexed)
        for path, chunks in indexed:
            job.bus.publish(FileIndexed(path, chunks))
        job.done([file.path for file in files])
        job.progress.advance(len(files), indexed[-1][0] if indexed else "")

    def _write(self, file: SourceFile, seen_ns: int) -> tuple[int, int | None]:
        """Write the rows of a note; how many chunks are new, and how many there are.

        `None` where its content is what the index holds. Raises `OSError`.
        """
        from memtui.memory.chunking import chunk_document

        recipe, cancelled = self._job.recipe, self._job.cancelled
        document = read_document(file, max_bytes=self._job.scope.max_file_bytes)
        known = self._known.get(file.path)
        if known is not None and (known.hash, known.source) == (document.hash, file.source):
            self._writer.touch(file, seen_ns=seen_ns)
            return 0, None
        spans = chunk_document(
            document,
            tokens=recipe.chunk_tokens,
            overlap=recipe.chunk_overlap,
            cancelled=cancelled,
        )
        spans = within_limit(spans, recipe.input_bytes)
        new = self._writer.write_document(document, spans, seen_ns=seen_ns, cancelled=cancelled)
        return new, len(spans)

    def _remove(self, paths: Sequence[str]) -> None:
        self._job.check()
        with self._transaction():
            self._counts.removed += self._writer.remove_files(paths, self._job.cancelled)
        self._job.done(paths)

    def _skip(self, skipped: SkippedFile) -> None:
        self._counts.skipped.append(skipped)
        self._job.bus.publish(FileSkipped(skipped.path, skipped.reason))

    def _transaction(self) -> AbstractContextManager[None]:
        return nullcontext() if self._bulk else transaction(self._connection)
