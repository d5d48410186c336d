"""How fast files become searchable, and how fast a start is when nothing changed."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.registry import create_provider
from memtui.engine import Engine
from memtui.index.database import PAGE_SIZE, open_database
from memtui.index.schema import create
from memtui.memory.chunking import chunk_document
from memtui.memory.discover import Scope, discover
from memtui.memory.documents import read_document
from memtui.memory.workspace import demo_root
from memtui.settings import Settings
from memtui.text.tokens import index_text
from tests.bench.corpus import Corpus
from tests.bench.limits import Judged, Limit
from tests.bench.measure import SECONDS, Measurement, Plan, Series, paired
from tests.bench.stores import FTS_BULK, SharedProvider, registered, set_options, settings_for

NOTES = 2000
FILES = 100_000
BARE = "read + sha256 + FTS5"
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


def measure_fast_indexing(plan: Plan) -> Iterator[Measurement]:
    """The same notes with the vectors of the small embedded model, against the bare index."""
    loaded, state = create_provider(EmbeddingChoice("wordllama"))
    if loaded is None:
        yield Measurement("first index, wordllama", Series([0.0]), "s", note=state.detail)
        return
    with _notes(plan) as (root, paths, folders), registered(SharedProvider(loaded)) as settings:
        loaded.embed_documents(["warm"])
        took, bare = paired(
            lambda _: _index(root, settings, next(folders)),
            lambda _: _bare_index([path.read_bytes for path in paths], next(folders)),
            range(plan.rounds),
            SECONDS,
        )
    loaded.close()
    aim = "<= 12 s; qmd 5.9 s, OpenClaw 92 s"
    note = f"{NOTES:,} notes, the model is loaded before"
    yield Measurement(
        "first index, wordllama", took, "s", BARE, bare, aim, note, Limit(12, Judged.P50)
    )


def measure_bare_indexing(plan: Plan) -> Iterator[Measurement]:
    """Files to searchable chunks without vectors, against reading, hashing and FTS5 alone.

    The reference has memtui's tokenizer and full-text options, one transaction, no journal and no
    sync of the disk. It keeps neither text nor ids, and knows whole files; the second reference
    is given the very chunks, cut and prepared beforehand.
    """
    settings = settings_for("none")
    with _notes(plan) as (root, paths, folders):
        size = sum(path.stat().st_size for path in paths)

        def first(_: int) -> None:
            _index(root, settings, next(folders))

        def bare(_: int) -> None:
            _bare_index([path.read_bytes for path in paths], next(folders))

        first(0)
        took, alone = paired(first, bare, range(plan.rounds), SECONDS)
        aim, note = "<= 1.5x; <= 4 s", f"{NOTES:,} notes, {size / 1e6:.1f} MB"
        yield Measurement("first index, no vectors", took, "s", BARE, alone, aim, note, Limit(1.5))
        chunks = _chunks(paths, root)
        took, alone = paired(
            first,
            lambda _: _bare_index([path.read_bytes for path in paths], next(folders), chunks),
            range(plan.rounds),
            SECONDS,
        )
        peer, note = "the same with chunks", f"{len(chunks):,} chunks"
        yield Measurement(
            "first index, by chunk", took, "s", peer, alone, "<= 1.5x", note, Limit(1.5)
        )
        data = next(folders)
        with Engine.open(root, settings, data_dir=data) as engine:
            engine.sync(wait=True)
            yield from _bytes_by_table(next(data.rglob("index-*.db")), size)
            took, alone = paired(
                lambda _: engine.rebuild(wait=True), bare, range(plan.rounds), SECONDS
            )
            yield Measurement(
                "rebuild, no vectors", took, "s", BARE, alone, "<= 1.5x", limit=Limit(1.5)
            )
            yield from _bytes_by_table(max(data.rglob("index-*.db")), size, "rebuilt ")


def _bytes_by_table(database: Path, size: int, of: str = "") -> Iterator[Measurement]:
    """The pages of an index by table, in bytes for each byte of the notes."""
    connection = open_database(database, readonly=True)
    rows = connection.execute(
        "SELECT m.tbl_name, sum(s.pgsize) FROM dbstat s JOIN sqlite_master m ON m.name = s.name "
        "WHERE s.aggregate = 1 GROUP BY m.tbl_name ORDER BY 2 DESC"
    ).fetchall()
    used = {str(name): int(str(count)) / size for name, count in rows}
    pages = int(str(connection.execute("PRAGMA page_count").fetchall()[0][0])) * PAGE_SIZE
    connection.close()
    note = ", ".join(f"{name} {share:.2f}" for name, share in used.items() if share >= 0.005)
    yield Measurement(f"{of}index bytes per text byte", Series([pages / size]), "x", note=note)


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
        f"start, {FILES:,} unchanged files",
        took,
        "s",
        "scandir + stat",
        bare,
        "<= 1.3x",
        limit=Limit(1.3),
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


@contextmanager
def _notes(plan: Plan) -> Iterator[tuple[Path, list[Path], Iterator[Path]]]:
    """The notes to index, their files, and folders for indexes, which are removed afterwards."""
    with tempfile.TemporaryDirectory(dir=plan.place) as place:
        root = Path(place) / "notes"
        paths = Corpus().write(root, NOTES, PIECES)
        yield root, paths, (Path(place) / f"data-{number}" for number in count())


def _chunks(paths: Sequence[Path], root: Path) -> list[str]:
    files = discover(Scope(root)).files
    assert len(files) == len(paths)
    spans = [chunk_document(read_document(file)) for file in files]
    return [index_text(span.text) for some in spans for span in some]


def _bare_index(
    reads: Sequence[Callable[[], bytes]], data: Path, chunks: Sequence[str] = ()
) -> None:
    data.mkdir(parents=True)
    connection = open_database(data / "bare.db", bulk=True)
    create(connection, None)
    set_options(connection, FTS_BULK)
    insert = "INSERT INTO chunks_fts(rowid, text) VALUES(?, ?)"
    connection.execute("BEGIN IMMEDIATE")
    for row, read in enumerate(reads, start=1):
        raw = read()
        hashlib.sha256(raw).hexdigest()
        if not chunks:
            connection.execute(insert, (row, raw.decode()))
    if chunks:
        connection.executemany(insert, enumerate(chunks, start=1))
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
