"""Bring the live generation up to date with the files, or build a new one beside it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from memtui.bus import IndexSwapped, LegDegraded
from memtui.embedding.provider import ProviderIdentity, identity_of, maker_of
from memtui.errors import Cancelled, ProviderError
from memtui.index.database import (
    DiskFull,
    Interrupted,
    checkpoint,
    copy_without_gaps,
    interruptible,
    let_log_grow,
    mapped_errors,
    number,
    open_database,
    transaction,
)
from memtui.index.files import FilesPhase
from memtui.index.job import MOST_FAILURES, PROBE_TEXT, Counts, Job, SyncResult
from memtui.index.scan import is_another_root, require_mounted
from memtui.index.schema import check_version, create, read_meta, write_meta
from memtui.index.vectors import Batched, VectorsPhase, compact_vectors, embed_by_batches
from memtui.model import Leg, Usage

if TYPE_CHECKING:
    from memtui.index.database import Connection


_BULK = {"automerge": 0, "crisismerge": 64}
_NORMAL = {"automerge": 4, "crisismerge": 16}
# Merging full-text data that did not fit into memory leaves as many pages free, which vectors fill
# where there are any.
_MOST_FREE = 0.125


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
            _discard(job, files[:-1])
            job.check()
            generation = job.folder.commit(files[-1], cancelled=job.cancelled)
    except Interrupted as error:
        _discard(job, files)
        raise Cancelled from error
    except BaseException:
        _discard(job, files)
        raise
    job.folder.clean()
    job.bus.publish(IndexSwapped(generation))
    if vectors.problem is not None:
        problem = vectors.problem
        job.bus.publish(LegDegraded(Leg.VECTOR, problem.reason, problem.detail))
    return SyncResult(
        generation=generation,
        stats=counts.stats(rebuild=True, finished_at=job.now(), seconds=time.monotonic() - began),
        skipped=tuple(counts.skipped),
        cache_misses=counts.cache_misses,
        problem=vectors.problem,
        provider=vectors.state,
        swapped=True,
    )


def _close_gaps(job: Job, connection: Connection, files: list[Path]) -> None:
    """Add a copy without free pages to the files where many are free and the disk has room."""
    if free_share(connection) <= _MOST_FREE:
        return
    files.append(job.folder.begin())
    try:
        with interruptible(connection, job.cancelled):
            copy_without_gaps(connection, files[-1])
    except DiskFull:
        # The file with the gaps is as good.
        job.folder.discard(files.pop())


def free_share(connection: Connection) -> float:
    """How much of the file holds nothing, 0 to 1."""
    pages = number(connection, "PRAGMA page_count")
    return number(connection, "PRAGMA freelist_count") / pages if pages else 0.0


def _discard(job: Job, files: Sequence[Path]) -> None:
    for file in files:
        job.folder.discard(file)


def _fill(job: Job, connection: Connection, counts: Counts) -> VectorsPhase:
    create(connection, job.recipe.dimensions)
    write_meta(connection, job.recipe.meta())
    seen_ns = time.time_ns()
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
    first = generation is None
    if generation is None:
        generation = create_generation(job)
        job.bus.publish(IndexSwapped(generation))
    path = job.folder.path(generation)
    with mapped_errors(path):
        connection = open_database(path)
        try:
            let_log_grow(connection)
            meta = read_meta(connection)
            check_version(meta, path)
            if not job.recipe.matches(meta):
                kept, spent = _kept(job, connection, meta)
                job = kept or replace(job, spent=spent)
            if job.recipe.matches(meta):
                return _sync_into(job, connection, generation, began=began, swapped=first)
            if is_another_root(meta, job.scope.root):
                require_mounted(connection, meta, job.scope.root, job.discover())
        finally:
            connection.close()
    return rebuild(job)


def _kept(job: Job, connection: Connection, meta: Mapping[str, str]) -> tuple[Job | None, Usage]:
    """The job of an index of another model, which stays; `None` when a new one is to be made.

    It stays while it holds vectors, and nobody would make those of the new one, or a batch that
    makes them is under way. Tells what was asked for in batches, too.
    """
    if job.recipe.identity is None:
        return None, Usage()
    answers = _answers(job)
    recipe = job.recipe.of_model_in(meta)
    if recipe is None or not number(connection, "SELECT count(*) FROM chunks WHERE embedded = 1"):
        return None, Usage()
    batched = _batched(job, connection, job.recipe.identity) if answers else Batched()
    stays = batched.waiting or not answers
    kept = replace(job, recipe=recipe, awaits_batch=batched.waiting)
    return (kept if stays else None), batched.spent


def _batched(job: Job, connection: Connection, identity: ProviderIdentity) -> Batched:
    """Have the texts of the live index embedded for a new one, where that is done in batches."""
    provider, _ = job.provider()
    job.check()
    if provider is None or maker_of(identity_of(provider)) != maker_of(identity):
        return Batched()
    identity = identity._replace(dimensions=identity.dimensions or provider.dimensions)
    return embed_by_batches(job, connection, provider, identity, gives_way=True, every=True)


def _answers(job: Job) -> bool:
    """Load who is to make a new index, and ask a service for one vector, before all is read.

    Where another provider takes over for one that fails, the job is cancelled here.
    """
    provider, _ = job.provider()
    job.check()
    for _ in range(MOST_FAILURES):
        if provider is None or not provider.address:
            break
        try:
            provider.embed_query(PROBE_TEXT, cancelled=job.cancelled)
            return True
        except ProviderError:
            # Who hands the provider out has noted it.
            job.check()
    return provider is not None and not provider.address


def create_generation(job: Job) -> int:
    """Make an empty generation and let it go live."""
    building = job.folder.begin()
    with mapped_errors(building):
        connection = open_database(building)
        try:
            create(connection, job.recipe.dimensions)
            write_meta(connection, {**job.recipe.meta(), "complete": "0"})
        finally:
            connection.close()
    generation = job.folder.commit(building)
    job.folder.clean()
    return generation


def _sync_into(
    job: Job, connection: Connection, generation: int, *, began: float, swapped: bool
) -> SyncResult:
    counts = Counts()
    # Before the scan, so that a write during it counts as too close to be trusted.
    seen_ns = time.time_ns()
    meta = read_meta(connection)
    discovery = job.discover()
    require_mounted(connection, meta, job.scope.root, discovery)
    before = connection.total_changes()
    FilesPhase(job, connection, counts).run(discovery, seen_ns=seen_ns)
    if read_meta(connection).get("complete") != "1":
        with transaction(connection):
            write_meta(connection, {"complete": "1"})
    vectors = VectorsPhase(job, connection, counts, gives_way=True)
    vectors.run()
    if vectors.problem is not None:
        problem = vectors.problem
        job.bus.publish(LegDegraded(Leg.VECTOR, problem.reason, problem.detail))
    if connection.total_changes() != before:
        compact_vectors(connection)
        checkpoint(connection)
    stats = counts.stats(rebuild=False, finished_at=job.now(), seconds=time.monotonic() - began)
    return SyncResult(
        generation=generation,
        stats=stats,
        skipped=tuple(counts.skipped),
        cache_misses=counts.cache_misses,
        problem=vectors.problem,
        provider=vectors.state,
        swapped=swapped,
    )
