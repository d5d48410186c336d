"""Bring the live generation up to date with the files, or build a new one beside it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from memtui.bus import FileIndexed, IndexChanged, LegChanged
from memtui.embedding.provider import MOST_FAILURES, PROBE_TEXT, BatchOutcome
from memtui.errors import Cancelled, ProviderError, WorkspaceNotFound
from memtui.index import database, index_rows
from memtui.index.job import FILES, Job
from memtui.index.transcripts.discovery import with_transcripts
from memtui.index.transcripts.phase import index_transcripts
from memtui.index.transcripts.reading import registered_as, registered_run, registry_stamps
from memtui.index.vectors import VectorsPhase, embed_by_batches
from memtui.memory.chunking import chunk_document
from memtui.memory.discover import Discovery, discover
from memtui.memory.documents import read_document, reason_of, split_lines
from memtui.model import CONVERSATIONS, Leg, Reason, SkippedFile, SourceFile
from memtui.retrieval.pool import UNMASKED
from memtui.settings.files import file_stamp

# A commit costs the same for few files and for many, and until it, nothing of them is found.
_FILES_AT_ONCE: Final = 256
_BYTES_AT_ONCE: Final = 2 * 2**20
# Words of removed chunks stand in the full-text index until its parts are made one.
_MERGE_WORDS: Final = "INSERT INTO chunks_fts(chunks_fts) VALUES('optimize')"

# Keys of the index's meta table: which folder the notes were found in; what decides, besides the
# files, what is read of transcripts; the state of the programs' lists of sessions at the last look.
_ROOT: Final = "root"
_RECIPE: Final = "transcripts"
_REGISTRIES: Final = "transcript_registries"
# The rules by which notes were decoded; other rules read other text from those with warnings alone.
_DECODING: Final = ("decoding", "2")
# The file in which words of conversations that were removed still stand.
_HOLDS_REMOVED: Final = "holds_removed"
# The recipe of transcripts that were read in part by one and in part by another.
_MIXED: Final = "mixed"


def rebuild(job: Job) -> Job:
    """Read every file again into a new generation and switch to it; the caller holds the lock.

    Vectors come from the cache, new ones go there, so that a stopped rebuild repeats little.
    Raises `Cancelled` and everything `sync` raises; the live generation is then as before.
    """
    began = time.monotonic()
    job.stats.rebuild = True
    with _next_generation(job) as building:
        with closing(database.open_database(building, bulk=True)) as connection:
            seen_ns = time.time_ns()
            database.create(connection)
            database.write_meta(connection, job.recipe.meta())
            discovery = _discover(job)
            with database.transaction(connection):
                index_files(job, connection, discovery, seen_ns)
            with database.interruptible(connection, job.cancelled):
                connection.execute(_MERGE_WORDS)
            VectorsPhase(job, connection).run()
        job.check()
    return _ended(job, began)


@contextmanager
def _next_generation(job: Job) -> Iterator[Path]:
    """Let the file be built that is to go live; raises `Cancelled` where SQLite was interrupted."""
    building = job.folder.begin()
    try:
        with database.mapped_errors(building):
            yield building
            job.folder.commit(building, cancelled=job.cancelled)
    except database.Interrupted as error:
        raise Cancelled from error
    finally:
        job.folder.discard(building)
    job.folder.clean()
    job.bus.publish(IndexChanged())


def sync(job: Job) -> Job:
    """Make the index what a fresh one of the same folder would be; the caller holds the lock.

    Without an index a first generation goes live at once and fills up, so that the keyword leg
    answers meanwhile. An index of another model, chunk size or tokenizer answers until a new
    generation replaces it; where nobody can make the vectors of that one, or a service makes
    them in a batch, the index of another model is kept up to date as it is meanwhile. Returns the
    job that was done, with what came of it. Raises `Cancelled`, `WorkspaceNotFound` when the
    folder is gone, `IndexDamaged` or another `IndexUnusable` when the index cannot be used. What
    was committed before stays.
    """
    began = time.monotonic()
    if job.folder.current() is None:
        with (
            _next_generation(job) as building,
            closing(database.open_database(building)) as connection,
        ):
            database.create(connection)
            database.write_meta(connection, job.recipe.meta())
    _give_model(job)
    path = job.folder.path(job.folder.current() or 0)
    with database.mapped_errors(path), closing(database.open_database(path)) as connection:
        meta = database.read_meta(connection)
        database.check_version(meta, path)
        if not job.recipe.matches(meta):
            job = _kept_meanwhile(job, connection, meta)
        # Before the scan, so that a write during it counts as too close to be trusted.
        seen_ns = time.time_ns()
        discovery = _discover(job)
        # The folder on which a file system was mounted is there without it, and has no notes.
        root = file_stamp(job.scope.root)
        if meta.get(_ROOT, "") not in ("", f"{root.device}:{root.inode}"):
            is_empty = all(file.source == CONVERSATIONS for file in discovery.files)
            query = "SELECT count(*) FROM files WHERE source <> ?"
            if is_empty and database.number(connection, query, CONVERSATIONS):
                raise WorkspaceNotFound(
                    f"the memory folder {job.scope.root} is empty and not the one that was "
                    "indexed: not mounted?",
                    hint="the index is kept until the notes are back; `memtui index --force` "
                    "empties it",
                )
        if job.recipe.matches(meta):
            before = connection.total_changes()
            index_files(job, connection, discovery, seen_ns)
            VectorsPhase(job, connection).run()
            if database.read_meta(connection).get(_HOLDS_REMOVED) == path.name:
                with _next_generation(job) as copy:
                    _copy(job, connection, copy)
            elif connection.total_changes() != before:
                database.checkpoint(connection)
            return _ended(job, began)
    return rebuild(job)


def _copy(job: Job, connection: database.Connection, copy: Path) -> None:
    copy.touch(0o600)
    with database.interruptible(connection, job.cancelled):
        connection.execute(f"{_MERGE_WORDS}; VACUUM INTO ?", (str(copy),))


def _give_model(job: Job) -> None:
    """Let an index of words alone wait for vectors where the recipe makes the same chunks."""
    path, recipe = job.folder.path(job.folder.current() or 0), job.recipe
    if recipe.identity is None:
        return
    with database.mapped_errors(path), closing(database.open_database(path)) as connection:
        if not replace(recipe, identity=None).matches(database.read_meta(connection)):
            return
        # No length is greater than NULL, which is no limit.
        query = "SELECT count(*) FROM chunks WHERE length(CAST(text AS BLOB)) > ?"
        if database.number(connection, query, recipe.identity.input_bytes):
            return
        with _next_generation(job) as copy:
            _copy(job, connection, copy)
            with closing(database.open_database(copy)) as copied:
                index_rows.take_model(copied, recipe)


def _discover(job: Job) -> Discovery:
    """Find notes and transcripts; raises `WorkspaceNotFound` when the folder cannot be listed.

    An unmounted folder must not read as "every note was deleted".
    """
    notes = discover(job.scope, cancelled=job.cancelled)
    refused = next((skipped for skipped in notes.skipped if skipped.path == "."), None)
    if refused is not None:
        here = job.scope.root.is_dir()
        why = f"cannot be read: {refused.detail}" if here else "is not there"
        raise WorkspaceNotFound(
            f"the memory folder {job.scope.root} {why}",
            hint="the index is kept as it is until the folder is back",
        )
    return with_transcripts(notes, job.transcripts, cancelled=job.cancelled)


def compare(job: Job, connection: database.Connection) -> tuple[list[SkippedFile], list[str]]:
    """Return what is left out, the folder where it cannot be listed, and the notes that wait."""
    notes, rows = discover(job.scope), index_rows.known_files(connection)
    discovery = with_transcripts(notes, job.transcripts)
    changed = index_rows.plan_changes(notes.files, rows).changed
    return [*discovery.skipped, *index_rows.skipped_when_read(connection)], [*changed]


def _ended(job: Job, began: float) -> Job:
    if (problem := job.problem) is not None:
        job.bus.publish(LegChanged(Leg.VECTOR, problem.reason, problem.detail))
    job.stats.finished_at, job.stats.seconds = job.now(), time.monotonic() - began
    job.stats.files_skipped = len(job.skipped)
    return job


def _kept_meanwhile(job: Job, connection: database.Connection, meta: Mapping[str, str]) -> Job:
    """Return the job of keeping the index of another model as it is; else the job as it was.

    It stays while it holds vectors, and nobody would make those of the new one, or a batch that
    makes them is under way. What was asked for in batches is noted in the job. Where another
    provider takes over for one that fails, the job is cancelled here.
    """
    identity, maker = job.recipe.identity, database.made_by(meta)
    recipe = replace(job.recipe, identity=maker)
    is_other_model_alone = maker is not None and recipe.matches(meta)
    if identity is None or (identity == maker and not is_other_model_alone):
        # The cache has the vectors of the same model: nobody need be asked, or be replaced.
        return job
    provider, _ = job.provider()
    job.check()
    answers = provider is not None
    if provider is not None and provider.address:
        # A service is asked for one vector before all is read.
        answers = False
        for _ in range(MOST_FAILURES):
            try:
                provider.embed_query(PROBE_TEXT, cancelled=job.cancelled)
                answers = True
                break
            except ProviderError:
                # Who hands the provider out has noted it.
                job.check()
    query = "SELECT count(*) FROM chunks WHERE embedded = 1"
    if not (is_other_model_alone and database.number(connection, query)):
        return job
    batched = BatchOutcome()
    if answers:
        provider, _ = job.provider()
        job.check()
        if provider is not None and provider.identity == identity:
            dimensions = identity.dimensions or provider.dimensions
            identity = dataclasses.replace(identity, dimensions=dimensions)
            batched = embed_by_batches(job, connection, provider, identity, every=True)
        if not batched.waiting:
            job.stats.usage = batched.spent
            return job
    return replace(job, recipe=recipe, awaits_batch=batched.waiting)


def index_files(
    job: Job, connection: database.Connection, discovery: Discovery, seen_ns: int
) -> None:
    """Make the rows those of the files that were found at `seen_ns` (Unix time).

    In small transactions, or in the one that is open. A file that cannot be read is reported and
    loses its rows, so that the index is what a fresh one would be. Nothing that was committed is
    lost when the job stops.
    """
    rows, meta = index_rows.known_files(connection), database.read_meta(connection)
    files, stats = discovery.files, job.stats
    scope = job.transcripts
    job.skipped += discovery.skipped
    plan = index_rows.plan_changes(files, rows, discovery.unread)
    read = {file.path: file for file in plan.read}
    if meta.get(_DECODING[0]) != _DECODING[1]:
        read |= {one.path: one for one in files if one.path in rows and rows[one.path].warnings}
    pending = dict.fromkeys(plan.changed)
    sessions = [file for file in files if file.source == CONVERSATIONS]
    recipe = scope.recipe
    stamps = registry_stamps(sessions, scope.rules)
    anew = meta.get(_RECIPE, recipe) != recipe
    # Sessions that their program's list tells something else of than before.
    differing: list[SourceFile] = []
    if sessions and stamps != meta.get(_REGISTRIES, "{}"):
        before = registered_as(connection)
        differing = [
            file
            for file in sessions
            if file.path in before and before[file.path] != registered_run(file, scope.rules)
        ]
    pending |= {file.path: None for file in differing if file.path not in read}
    read |= {file.path: file for file in (*differing, *(sessions if anew else ()))}
    job.progress.pending = pending | dict.fromkeys(plan.removed)
    unread = index_rows.skipped_when_read(connection) if plan.removed else ()
    without_text = {file.path for file in unread}
    for start in range(0, len(plan.removed), _FILES_AT_ONCE):
        paths = plan.removed[start : start + _FILES_AT_ONCE]
        job.check()
        with database.transaction(connection):
            index_rows.remove_files(connection, paths)
            if any(rows[path].source == CONVERSATIONS for path in paths):
                database.write_meta(connection, {_HOLDS_REMOVED: Path(connection.filename).name})
        stats.files_removed += len(set(paths) - without_text)
        job.progress.settle(paths)
    if read:
        # What was read in part by one recipe and in part by another is read anew by any:
        # noted before the first transcript, for a job that stops in between.
        unmasked = {} if scope.rules.masks_more else dict([UNMASKED])
        database.write_meta(connection, {_RECIPE: _MIXED if anew else recipe} | unmasked)
        job.progress.start(FILES, len(read))
    notes = [file for file in read.values() if file.source != CONVERSATIONS]
    size, first = 0, 0
    for at, file in enumerate(notes, start=1):
        size += file.size
        if size >= _BYTES_AT_ONCE or at - first == _FILES_AT_ONCE or at == len(notes):
            _index_notes(job, connection, notes[first:at], rows, seen_ns)
            size, first = 0, at
    if transcripts := [file for file in read.values() if file.source == CONVERSATIONS]:
        index_transcripts(job, connection, transcripts, rows, seen_ns, anew=anew)
    job.skipped += index_rows.skipped_when_read(connection)
    stats.files_seen = sum(one.files for one in index_rows.sources_of(connection))
    if files:
        root = file_stamp(job.scope.root)
        database.write_meta(
            connection,
            {
                _RECIPE: recipe,
                _DECODING[0]: _DECODING[1],
                _REGISTRIES: stamps,
                UNMASKED[0]: "wide" if scope.rules.masks_more else "openclaw",
                _ROOT: f"{root.device}:{root.inode}",
            },
        )


def _index_notes(
    job: Job,
    connection: database.Connection,
    files: Sequence[SourceFile],
    rows: Mapping[str, index_rows.KnownFile],
    seen_ns: int,
) -> None:
    recipe, stats = job.recipe, job.stats
    limit = recipe.identity.input_bytes if recipe.identity is not None else None
    indexed: list[str] = []
    with database.transaction(connection):
        for file in files:
            job.check()
            row = rows.get(file.path)
            try:
                document = read_document(file, max_bytes=job.scope.settings.max_file_bytes)
            except OSError as error:
                detail, reason = error.strerror or str(error), reason_of(error)
                index_rows.remove_files(connection, [file.path])
                stats.files_removed += row is not None and not row.no_text
                if reason is Reason.NOT_TEXT:
                    # Its row says so, and nobody reads it before it is another file.
                    index_rows.write_file(connection, file, "", 0, seen_ns, no_text=detail)
                else:
                    job.skipped.append(SkippedFile(file.path, reason, detail))
                continue
            lines = len(split_lines(document.text)) if document.text else 0
            file_id = index_rows.write_file(
                connection, file, document.hash, lines, seen_ns, document
            )
            if row is not None and (row.hash, row.source) == (document.hash, file.source):
                continue
            spans = chunk_document(
                document,
                tokens=recipe.chunk_tokens,
                overlap=recipe.chunk_overlap,
                cancelled=job.cancelled,
            )
            spans = index_rows.within_limit(spans, limit)
            stale = index_rows.chunks_of(connection, file.path)
            _, added = index_rows.write_chunks(
                connection, file, file_id, spans, recipe.model, stale, job.cancelled
            )
            index_rows.delete_chunks(connection, stale.values())
            stats.chunks_written += added
            indexed.append(file.path)
    for path in indexed:
        stats.files_changed += path in rows
        stats.files_added += path not in rows
        job.bus.publish(FileIndexed())
    job.progress.settle(file.path for file in files)
    job.progress.advance(len(files), next(reversed(indexed), ""))
