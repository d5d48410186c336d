"""How fast files become searchable, and how fast a start is when nothing changed."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.registry import create_provider
from memtui.engine import Engine
from memtui.index.database import open_database
from memtui.index.schema import create
from memtui.memory.workspace import demo_root
from memtui.settings import Settings
from tests.bench.corpus import Corpus
from tests.bench.measure import SECONDS, Measurement, Plan, Series, paired
from tests.bench.stores import FTS_BULK, SharedProvider, registered, set_options, settings_for

NOTES = 2000
FILES = 10_000
PIECES = 4
"""How many chunks of text a note has: 2,000 notes are 10 MB."""


def measure_indexing(plan: Plan) -> Iterator[Measurement]:
    """Files to searchable chunks with vectors, against the embedding of the same texts alone."""
    loaded, state = create_provider(EmbeddingChoice("minilm"))
    if loaded is None:
        yield Measurement("index with vectors", Series([0.0]), "s", note=state.detail)
        return
    root = plan.place / "demo" / "notes"
    if not root.exists():
        shutil.copytree(demo_root(), root)
    folders = (plan.place / "demo" / f"data-{number}" for number in count())
    shared = SharedProvider(loaded)
    with registered(shared) as settings:
        texts = _texts(root, settings, next(folders))
        shared.embed_documents(texts[:8])

        def ours(_: int) -> None:
            _index(root, settings, next(folders))

        def theirs(_: int) -> None:
            shared.embed_documents(texts)

        took, alone = paired(ours, theirs, range(plan.rounds), SECONDS)
    loaded.close()
    files = sum(1 for _ in root.rglob("*.md"))
    shutil.rmtree(plan.place / "demo")
    note = f"{files} notes, {len(texts)} different chunks of the demo"
    yield Measurement(
        "index with vectors, minilm", took, "s", "embedding alone", alone, "<= 1.3x", note
    )


def measure_bare_indexing(plan: Plan) -> Iterator[Measurement]:
    """Files to searchable chunks without vectors, against reading, hashing and FTS5 alone."""
    root = plan.place / f"notes-{NOTES}" / "notes"
    paths = Corpus().write(root, NOTES, PIECES)
    size = sum(path.stat().st_size for path in paths)
    folders = (root.parent / f"data-{number}" for number in count())
    settings = settings_for("none")

    def first(_: int) -> None:
        _index(root, settings, next(folders))

    def bare(_: int) -> None:
        _bare_index(paths, next(folders))

    first(0)
    peer = "read + sha256 + FTS5"
    took, alone = paired(first, bare, range(plan.rounds), SECONDS)
    note = f"{NOTES:,} notes, {size / 1e6:.1f} MB"
    yield Measurement("first index, no vectors", took, "s", peer, alone, note=note)
    with Engine.open(root, settings, data_dir=next(folders)) as engine:
        engine.sync(wait=True)
        took, alone = paired(lambda _: engine.rebuild(wait=True), bare, range(plan.rounds), SECONDS)
    yield Measurement("rebuild, no vectors", took, "s", peer, alone)
    shutil.rmtree(root.parent)


def measure_start(plan: Plan) -> Iterator[Measurement]:
    """Opening an engine and syncing when no file changed, against listing and stat alone."""
    root = plan.place / f"files-{FILES}-v1" / "notes"
    data = root.parent / "data"
    if not data.exists():
        Corpus().write(root, FILES)
        _index(root, settings_for("none"), data)

    def ours(_: int) -> None:
        _index(root, settings_for("none"), data)

    def theirs(_: int) -> None:
        found = stat_all(root)
        assert found == FILES

    ours(0)
    took, bare = paired(ours, theirs, range(3 * plan.rounds), SECONDS)
    yield Measurement(
        f"start, {FILES:,} unchanged files", took, "s", "scandir + stat", bare, "< 0.5 s"
    )


def _index(root: Path, settings: Settings, data: Path) -> None:
    with Engine.open(root, settings, data_dir=data) as engine:
        engine.sync(wait=True)
        failure = engine.status().errors
        assert not failure, failure


def _texts(root: Path, settings: Settings, data: Path) -> list[str]:
    """The different texts that indexing embeds, in the order in which it does."""
    _index(root, settings, data)
    database = next(data.rglob("index-*.db"))
    connection = open_database(database, readonly=True)
    rows = connection.execute("SELECT DISTINCT text FROM chunks ORDER BY id").fetchall()
    connection.close()
    return sorted((str(row[0]) for row in rows), key=len)


def _bare_index(paths: Sequence[Path], data: Path) -> None:
    data.mkdir(parents=True)
    connection = open_database(data / "bare.db", bulk=True)
    create(connection, None)
    set_options(connection, FTS_BULK)
    connection.execute("BEGIN IMMEDIATE")
    for row, path in enumerate(paths, start=1):
        raw = path.read_bytes()
        hashlib.sha256(raw).hexdigest()
        connection.execute("INSERT INTO chunks_fts(rowid, text) VALUES(?, ?)", (row, raw.decode()))
    connection.execute("COMMIT")
    connection.close()


def stat_all(folder: Path) -> int:
    """List every folder and ask the state of every file; how many files there are."""
    found = 0
    folders = [os.fspath(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)
                    found += 1
    return found
