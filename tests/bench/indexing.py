"""How fast files become searchable, and how fast a start is when nothing changed."""

from __future__ import annotations

import hashlib
import itertools
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from memtui.engine import Engine
from memtui.index.database import create, open_database
from memtui.memory.chunking import chunk_document
from memtui.memory.discover import Scope, discover
from memtui.memory.documents import read_document
from memtui.settings.schema import Settings
from memtui.text.tokens import index_text
from tests.bench.corpus import (
    CHUNKS_A_FILE,
    DIMENSIONS,
    FTS_BULK,
    VERSION,
    Corpus,
    Store,
    StoredProvider,
    registered,
    set_options,
    settings_for,
    store,
)
from tests.bench.frame import SECONDS, Limit, Measurement, Plan, Series, in_turns, memory_of
from tests.support.interrupted import run_forked

NOTES = 2000
FILES = 100_000
SAME = "read + sha256 + the same full-text rows"
PIECES = 4
"""How many chunks of text a note has: 2,000 notes are 10 MB."""

_MOST_NOTES = 20_000


def measure_bare_indexing(plan: Plan) -> Iterator[Measurement]:
    """Files to searchable chunks without vectors, against reading, hashing and FTS5 alone.

    The reference has one transaction, no journal and no sync of the disk, and is given the rows of
    memtui's full-text table, cut into chunks and pairs of characters beforehand.
    """
    asked = {size // CHUNKS_A_FILE for size in plan.sizes}
    for count in sorted({NOTES, *(one for one in asked if 0 < one <= _MOST_NOTES)}):
        yield _first_index(plan, count)


def _first_index(plan: Plan, count: int) -> Measurement:
    settings = settings_for("none")
    rounds = range(plan.rounds if count <= NOTES else 1)
    with _notes(plan, count) as (root, paths, folders):
        written = sum(path.stat().st_size for path in paths)
        chunks = _chunks(paths, root)
        took, same = in_turns(
            [
                lambda _: _index(root, settings, next(folders)),
                lambda _: _same_rows(paths, next(folders), chunks),
            ],
            rounds,
            SECONDS,
        )
    name = f"first index by the same rows, {count:,} notes"
    note = f"{written / 1e6:.1f} MB, {len(chunks):,} chunks"
    return Measurement(name, took, "s", SAME, same, Limit(1.5), note)


def measure_start(plan: Plan) -> Iterator[Measurement]:
    """Opening an engine and syncing when no file changed, against listing and stat alone."""
    settings = settings_for("none")
    for files in [size for size in plan.sizes if size <= FILES] or [FILES]:
        root = plan.place / f"files-{files}-v{VERSION}" / "notes"
        data = root.parent / "data"
        if not data.exists():
            Corpus().write(root, files)
        _index(root, settings, data)
        assert stat_all(root) == files
        took, bare = in_turns(
            (
                lambda _, root=root, data=data: _index(root, settings, data),  # type: ignore[misc]
                lambda _, root=root: stat_all(root),  # type: ignore[misc]
            ),
            range(3 * plan.rounds),
            SECONDS,
        )
        yield Measurement(
            f"start when nothing changed, {files:,} files", took, "s", "scandir + stat", bare,
            Limit(1.3) if files == FILES else None,
        )  # fmt: skip


def _index(root: Path, settings: Settings, data: Path) -> None:
    with Engine.open(root, settings, data_dir=data) as engine:
        engine.index.sync(wait=True)
        failure = engine.index.status().errors
        assert not failure, failure


@contextmanager
def _notes(plan: Plan, count: int) -> Iterator[tuple[Path, list[Path], Iterator[Path]]]:
    """The notes to index, their files, and folders for indexes, which are removed afterwards."""
    with tempfile.TemporaryDirectory(dir=plan.place) as place:
        root = Path(place) / "notes"
        paths = Corpus().write(root, count, PIECES)
        yield root, paths, (Path(place) / f"data-{number}" for number in itertools.count())


def _chunks(paths: Sequence[Path], root: Path) -> list[str]:
    files = discover(Scope(root)).files
    assert len(files) == len(paths)
    spans = [chunk_document(read_document(file)) for file in files]
    return [index_text(span.text) for some in spans for span in some]


def _same_rows(paths: Sequence[Path], data: Path, chunks: Sequence[str]) -> None:
    data.mkdir(parents=True)
    connection = open_database(data / "bare.db", bulk=True)
    create(connection)
    set_options(connection, FTS_BULK)
    connection.execute("BEGIN IMMEDIATE")
    for path in paths:
        hashlib.sha256(path.read_bytes()).hexdigest()
    insert = "INSERT INTO chunks_fts(rowid, text) VALUES(?, ?)"
    connection.executemany(insert, enumerate(chunks, start=1))
    connection.execute("COMMIT")
    connection.close()


def stat_all(folder: Path) -> int:
    """List every folder and ask the state of every file; how many files there are."""
    count = 0
    folders = [os.fspath(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)
                    count += 1
    return count


SMALL = 1000
MEASURED_FROM = 100_000
QUESTIONS = 20
_MOST = 1.5
_CODED_FROM = 40_000_000


def measure_memory(plan: Plan) -> Iterator[Measurement]:
    """Memory that chunks take and bytes of the index by size; the aim is one from 100,000 on."""
    corpus = Corpus()
    small, _ = run_forked(resident, store(corpus, SMALL, plan.place))
    for size in [size for size in plan.sizes if size > SMALL] or [MEASURED_FROM]:
        made = store(corpus, size, plan.place)
        held, _ = run_forked(resident, made)
        grown = Series([(held - small) / 1e6])
        coded = size * DIMENSIONS > _CODED_FROM
        arrays = size * DIMENSIONS * 4 + (size * DIMENSIONS // 8 if coded else 0)
        yield Measurement(
            f"memory that the chunks take, {size:,}", grown, "MB",
            "matrix and codes" if coded else "matrix", Series([arrays / 1e6]),
            Limit(_MOST) if size >= MEASURED_FROM else None,
            "not of files, beyond what 1,000 chunks take",
        )  # fmt: skip
        yield from _on_disk(made)


def _on_disk(made: Store) -> Iterator[Measurement]:
    with closing(open_database(made.database, readonly=True)) as connection:
        sql = "SELECT sum(octet_length(text)), count(*) FROM chunks"
        text, count = (int(str(value)) for value in connection.execute(sql).fetchall()[0])
    whole = made.database.stat().st_size
    vectors = count * DIMENSIONS * 4
    for name, size in (("index", whole), ("  index without vectors", whole - vectors)):
        yield Measurement(
            f"{name} on disk, {count:,}", Series([size / 1e6]), "MB", "text",
            Series([text / 1e6]),
        )  # fmt: skip


def resident(place: Store) -> int:
    """Open an index and search it; the bytes that this process, which does no more, holds."""
    questions = Corpus().questions(QUESTIONS)
    provider = StoredProvider({question.text: question.vector for question in questions})
    with registered(provider) as settings, place.open(settings) as engine:
        for question in questions:
            engine.search.ask(question.text)
        return memory_of("RssAnon")
