"""Build a new generation beside the live one from nothing but the files and the cache."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memtui.bus import IndexSwapped, LegDegraded
from memtui.errors import Cancelled
from memtui.index.database import (
    DiskFull,
    Interrupted,
    copy_without_gaps,
    interruptible,
    mapped_errors,
    number,
    open_database,
)
from memtui.index.files import FilesPhase
from memtui.index.job import Counts, Job, SyncResult
from memtui.index.schema import create, write_meta
from memtui.index.vectors import VectorsPhase
from memtui.model import Leg

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
