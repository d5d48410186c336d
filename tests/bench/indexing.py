"""How fast files become searchable, and how fast a start is when nothing changed."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from memtui.embedding.registry import registration_of
from memtui.engine import Engine
from memtui.errors import IndexMissing
from memtui.index.database import PAGE_SIZE, Connection, create, open_database
from memtui.index.transcripts.discovery import TranscriptHomes
from memtui.memory.chunking import chunk_document
from memtui.memory.discover import Scope, discover
from memtui.memory.documents import read_document
from memtui.memory.workspace import demo_root
from memtui.settings.schema import EmbeddingSettings, Settings
from memtui.text.tokens import FTS5_TOKENIZE, index_text
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
from tests.bench.frame import (
    MILLISECONDS,
    SECONDS,
    Judged,
    Limit,
    Measurement,
    Plan,
    Series,
    in_turns,
    memory_of,
)
from tests.support.conversations import WORDS

NOTES = 2000
FILES = 100_000
PLAIN = "read + sha256 + one plain FTS5 table"
SAME = "read + sha256 + the same full-text rows"
PIECES = 4
"""How many chunks of text a note has: 2,000 notes are 10 MB."""

_MOST_NOTES = 20_000
_PLAIN_TABLE = f'CREATE VIRTUAL TABLE notes USING fts5(path, text, tokenize="{FTS5_TOKENIZE}")'


def measure_indexing(plan: Plan) -> Iterator[Measurement]:
    """Files to searchable chunks with vectors, against the embedding of the same texts alone."""
    loaded = registration_of("minilm").create(EmbeddingSettings(provider="minilm"))
    root = plan.place / "demo" / "notes"
    if not root.exists():
        shutil.copytree(demo_root(), root)
    folders = (plan.place / "demo" / f"data-{number}" for number in itertools.count())
    with registered(loaded) as settings:
        texts = _texts(root, settings, next(folders))
        loaded.embed_documents(texts[:8])
        took, alone = in_turns(
            (
                lambda _: _index(root, settings, next(folders)),
                lambda _: loaded.embed_documents(texts),
            ),
            range(plan.rounds),
            SECONDS,
        )
    loaded.close()
    files = sum(1 for _ in root.rglob("*.md"))
    shutil.rmtree(plan.place / "demo")
    note = f"{files} notes, {len(texts)} different chunks of the demo"
    yield Measurement(
        "index with vectors, minilm", took, "s", "embedding alone", alone, "<= 1.3x", note
    )


def measure_bare_indexing(plan: Plan) -> Iterator[Measurement]:
    """Files to searchable chunks without vectors, against reading, hashing and FTS5 alone.

    Both references have memtui's tokenizer, one transaction, no journal and no sync of the disk.
    One inserts whole files in a table with FTS5's own settings, which keeps their text; a run of
    Chinese, Japanese or Korean is one word there. The other is given the rows of memtui's
    full-text table, cut into chunks and pairs of characters beforehand, and keeps no text.
    """
    asked = {size // CHUNKS_A_FILE for size in plan.sizes}
    for count in sorted({NOTES, *(one for one in asked if 0 < one <= _MOST_NOTES)}):
        yield from _first_index(plan, count)


def _first_index(plan: Plan, count: int) -> Iterator[Measurement]:
    settings = settings_for("none")
    rounds = range(plan.rounds if count <= NOTES else 1)
    with _notes(plan, count) as (root, paths, folders):
        written = sum(path.stat().st_size for path in paths)
        chunks = _chunks(paths, root)
        took, plain, same = in_turns(
            [
                lambda _: _index(root, settings, next(folders)),
                lambda _: _plain_index(paths, next(folders)),
                lambda _: _same_rows(paths, next(folders), chunks),
            ],
            rounds,
            SECONDS,
        )
        per_byte = _bytes_by_table(next(root.parent.rglob("index-*.db")), written)
    note = f"{written / 1e6:.1f} MB, {len(chunks):,} chunks"
    for name, peer, theirs in (("", PLAIN, plain), (" by the same rows", SAME, same)):
        yield Measurement(
            f"first index{name}, {count:,} notes", took, "s", peer, theirs, "<= 1.5x", note,
            Limit(1.5), count,
        )  # fmt: skip
    if count == NOTES:
        yield Measurement(
            "first index, no vectors", took, "s", aim="<= 4 s; qmd 5.9 s, OpenClaw 92 s",
            note=f"{count:,} notes, {note}", limit=Limit(4, Judged.P50),
        )  # fmt: skip
        yield per_byte


def _bytes_by_table(database: Path, size: int) -> Measurement:
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
    share = Series([pages / size])
    return Measurement("index bytes per text byte", share, "x", note=note)


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
        at_full = files == FILES
        yield Measurement(
            f"start when nothing changed, {files:,} files", took, "s", "scandir + stat", bare,
            aim="<= 1.3x" if at_full else "", limit=Limit(1.3) if at_full else None, size=files,
        )  # fmt: skip


def _index(root: Path, settings: Settings, data: Path) -> None:
    with Engine.open(root, settings, data_dir=data) as engine:
        engine.index.sync(wait=True)
        failure = engine.index.status().errors
        assert not failure, failure


def _texts(root: Path, settings: Settings, data: Path) -> list[str]:
    """The different texts that indexing embeds, shortest first."""
    _index(root, settings, data)
    connection = open_database(next(data.rglob("index-*.db")), readonly=True)
    rows = connection.execute("SELECT DISTINCT text FROM chunks ORDER BY id").fetchall()
    connection.close()
    return sorted((str(row[0]) for row in rows), key=len)


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


def _plain_index(paths: Sequence[Path], data: Path) -> None:
    connection = _bare_database(data)
    connection.execute(_PLAIN_TABLE)
    connection.execute("BEGIN IMMEDIATE")
    for path in paths:
        raw = path.read_bytes()
        digest = hashlib.sha256(raw).hexdigest()
        connection.execute("INSERT INTO notes(path, text) VALUES(?, ?)", (digest, raw.decode()))
    connection.execute("COMMIT")
    connection.close()


def _same_rows(paths: Sequence[Path], data: Path, chunks: Sequence[str]) -> None:
    connection = _bare_database(data)
    create(connection)
    set_options(connection, FTS_BULK)
    connection.execute("BEGIN IMMEDIATE")
    for path in paths:
        hashlib.sha256(path.read_bytes()).hexdigest()
    insert = "INSERT INTO chunks_fts(rowid, text) VALUES(?, ?)"
    connection.executemany(insert, enumerate(chunks, start=1))
    connection.execute("COMMIT")
    connection.close()


def _bare_database(data: Path) -> Connection:
    data.mkdir(parents=True)
    return open_database(data / "bare.db", bulk=True)


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
    """Resident memory and bytes of the index at each size; the aim is one from 100,000 chunks on."""
    sizes = [size for size in plan.sizes if size > SMALL] or [MEASURED_FROM]
    corpus = Corpus()
    small = _measured(store(corpus, SMALL, plan.place))
    for size in sizes:
        made = store(corpus, size, plan.place)
        found = _measured(made)
        arrays = size * DIMENSIONS * 4
        coded = size * DIMENSIONS > _CODED_FROM
        arrays += size * DIMENSIONS // 8 if coded else 0
        bound = Series([arrays / 1e6])
        peer = "matrix and codes" if coded else "matrix"
        note = f"with {SMALL:,} chunks {small['VmRSS'] / 1e6:.0f} MB"
        grown = Series([(found["RssAnon"] - small["RssAnon"]) / 1e6])
        is_judged = size >= MEASURED_FROM
        yield Measurement(
            f"memory that the chunks take, {size:,}", grown, "MB", peer, bound,
            f"<= {_MOST}x" if is_judged else "", "not of files, beyond what 1,000 chunks take",
            limit=Limit(_MOST) if is_judged else None, size=size,
        )  # fmt: skip
        for name, key in (("resident memory", "VmRSS"), ("  resident, not of files", "RssAnon")):
            ours = Series([found[key] / 1e6])
            yield Measurement(f"{name}, {size:,}", ours, "MB", peer, bound, note=note, size=size)
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
            Series([text / 1e6]), size=count,
        )  # fmt: skip


def _measured(made: Store) -> Mapping[str, int]:
    code = (
        "import sys; from pathlib import Path; from tests.bench import corpus, indexing; "
        "indexing.resident(corpus.Store(Path(sys.argv[1]), Path(sys.argv[2]), 0))"
    )
    command = [sys.executable, "-c", code, str(made.root), str(made.data)]
    run = subprocess.run(command, capture_output=True, check=True, text=True)
    found: Mapping[str, int] = json.loads(run.stdout)
    return found


def resident(place: Store) -> None:
    """Open an index, search it, and print the resident memory in bytes; in a process of its own."""
    questions = Corpus().questions(QUESTIONS)
    provider = StoredProvider({question.text: question.vector for question in questions})
    with registered(provider) as settings, place.open(settings) as engine:
        for question in questions:
            engine.search.ask(question.text)
        print(json.dumps({kind: memory_of(kind) for kind in ("VmRSS", "RssAnon")}))


TRANSCRIPTS = 2_000
"""Of 1 MB each, when the largest size asked for is 100,000; fewer in proportion."""
TRANSCRIPT_BYTES = 10**6
SPOKEN_SHARE = 0.2
"""How much of a transcript somebody says; the rest is output of tools."""
_PATIENCE = 4 * 3600.0
_PAUSE = 0.05
_INDEX_AND_SEARCH = (
    "import sys; from pathlib import Path; from tests.bench import indexing; "
    "indexing.index_and_search(Path(sys.argv[1]))"
)


def measure_transcripts(plan: Plan) -> Iterator[Measurement]:
    """Index so many transcripts in a process that is searched meanwhile; then start again."""
    place, count = _corpus_of(plan)
    folder = _sessions(place)
    found = _in_a_process(place)
    name = f"{count:,} transcripts of 1 MB"
    note = f"{found['chunks']:,.0f} chunks, {SPOKEN_SHARE:.0%} of the bytes is said by somebody"
    yield Measurement(f"first index, {name}", Series([found["seconds"]]), "s", note=note)
    waits = Series([found["search_p50"], found["search_p95"]])
    most = f"{found['searches']:.0f} searches, the longest {found['search_max']:.0f} ms"
    yield Measurement("  searches meanwhile", waits, "ms", note=most)
    peak = Series([found["peak"] / 1e6])
    base = Series([found["base"] / 1e6])
    held = f"of it not of files at most {found['anonymous'] / 1e6:.0f} MB"
    yield Measurement("  peak resident", peak, "MB", "before", base, note=held)

    def ours(_: int) -> None:
        with _engine_of_transcripts(place) as engine:
            engine.index.sync(wait=True)

    def theirs(_: int) -> None:
        assert stat_all(folder) == count

    took, bare = in_turns((ours, theirs), range(3 * plan.rounds), SECONDS)
    yield Measurement(f"start, {name} unchanged", took, "s", "scandir + stat", bare, "< 0.5 s")
    shutil.rmtree(place)


def _corpus_of(plan: Plan) -> tuple[Path, int]:
    """The folder with the transcripts, written where they are not there yet, and how many."""
    count = min(TRANSCRIPTS, max(plan.sizes) // 50)
    place = plan.place / f"transcripts-{count}"
    folder = _sessions(place)
    if not folder.exists():
        write_transcripts(folder, count)
        (place / "notes").mkdir()
        (place / "notes" / "MEMORY.md").write_text("# A note about the harbor\n", encoding="utf-8")
    return place, count


def _sessions(place: Path) -> Path:
    return place / "home" / "agents" / "main" / "sessions"


def write_transcripts(folder: Path, count: int) -> None:
    """Transcripts with words of their own: messages, and after each what a tool put out."""
    chosen = random.Random(0)
    output = " ".join(chosen.choices(WORDS, k=2000))
    folder.mkdir(parents=True)
    parts: list[bytes] = []
    size = 0
    while size < TRANSCRIPT_BYTES:
        text = " ".join(chosen.choices(WORDS, k=60)) + " file0000"
        said = {"role": ("user", "assistant")[len(parts) % 2], "content": text}
        tool = {"role": "toolResult", "toolCallId": "c", "toolName": "read"}
        much = output[: int(len(text) * (1 / SPOKEN_SHARE - 1))]
        tool |= {"content": [{"type": "text", "text": much}]}  # type: ignore[dict-item]
        for message in (said, tool):
            record = {"type": "message", "timestamp": "2026-10-01T10:00:00Z", "message": message}
            parts.append(json.dumps(record).encode() + b"\n")
            size += len(parts[-1])
    whole = b"".join(parts)
    for number in range(count):
        path = folder / f"00000000-0000-4000-8000-{number:012d}.jsonl"
        path.write_bytes(whole.replace(b"file0000", b"file%04d" % number))
        os.utime(path, (1.7e9, 1.7e9))


def _in_a_process(place: Path) -> Mapping[str, Any]:
    command = [sys.executable, "-c", _INDEX_AND_SEARCH, os.fspath(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured: Mapping[str, Any] = json.loads(done.stdout)
    return measured


def _engine_of_transcripts(place: Path) -> Engine:
    settings = Settings.parse(
        {"embedding": {"provider": "none"}, "transcripts": {"sources": ["openclaw"]}}
    )
    homes = TranscriptHomes(openclaw=place / "home")
    return Engine.open(place / "notes", settings, data_dir=place / "data", homes=homes)


def index_and_search(place: Path) -> None:
    """Index in the background, search without a pause until that is done, and print both as JSON."""
    shutil.rmtree(place / "data", ignore_errors=True)
    took: list[float] = []
    anonymous = 0
    with _engine_of_transcripts(place) as engine:
        base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        began = perf_counter()
        engine.index.sync()
        while not engine.wait_idle(_PAUSE) and perf_counter() - began < _PATIENCE:
            asked = perf_counter()
            try:
                engine.search.ask(f"what was said in file{len(took) % 1000:04d}")
            except IndexMissing:
                # The writer has not made the file yet.
                continue
            took.append((perf_counter() - asked) * MILLISECONDS)
            anonymous = max(anonymous, memory_of("RssAnon"))
        seconds = perf_counter() - began
        assert not engine.index.status().errors, engine.index.status().errors
        chunks = engine.index.status().chunks
    took.sort()
    measured = {
        "seconds": seconds,
        "chunks": chunks,
        "searches": len(took),
        "search_p50": took[len(took) // 2],
        "search_p95": took[len(took) * 95 // 100],
        "search_max": took[-1],
        "base": base,
        "anonymous": anonymous,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(json.dumps(measured))
