"""Another program's index: opening it, queries by leg, its audit, and the command."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import apsw
import numpy as np
from numpy.typing import NDArray

from memtui.engine import Engine
from memtui.engine.foreign.query_vectors import GivenVectors
from memtui.index.database import Connection
from memtui.index.foreign.agents import ForeignTarget
from memtui.index.foreign.audit import examine
from memtui.index.foreign.opening import open_foreign
from memtui.memory.documents import text_hash
from memtui.model import Leg
from tests.bench.corpus import CHUNKS_A_FILE, DIMENSIONS, VERSION, Corpus, Floats, Note
from tests.bench.frame import SECONDS, Measurement, Plan, in_turns
from tests.bench.programs import environment, runs_in_turns
from tests.bench.search import by_leg
from tests.support.openclaw import connect
from tests.support.recorded import write_chunk

MODEL = "text-embedding-3-small"
PROFILE = "openclaw-2026.9"
PREFIX = "memory_index_"
CHUNKS = f"{PREFIX}chunks"
FILES = f"{PREFIX}sources"
PATHS = f"{PREFIX}paths_fts"

_IDENTITY = {
    "model": MODEL, "provider": "openai", "providerKey": "bench", "sources": ["memory"],
    "scopeHash": "bench", "chunkTokens": 400, "chunkOverlap": 80, "ftsTokenizer": "unicode61",
    "vectorDims": DIMENSIONS, "chunkingVersion": 5, "provenanceVersion": 1,
}  # fmt: skip
_TABLES, _INDEXES = Path(__file__).with_suffix(".sql").read_text("utf-8").split("-- indexes")


@dataclass(frozen=True, slots=True)
class ForeignStore:
    """An index and the workspace that it was made from."""

    database: Path
    workspace: Path
    chunks: int


def foreign_store(corpus: Corpus, chunks: int, place: Path) -> ForeignStore:
    """Make the index of `chunks` chunks below `place`, or take the one that is there."""
    folder = place / f"foreign-{chunks}-v{VERSION}"
    made = ForeignStore(folder / "index.sqlite", folder / "workspace", chunks)
    if not made.database.exists():
        corpus.write(made.workspace, -(-chunks // CHUNKS_A_FILE), CHUNKS_A_FILE)
        building = made.database.with_suffix(".building")
        building.unlink(missing_ok=True)
        _build(corpus, chunks, building, made.workspace)
        building.replace(made.database)
    return made


def query_vector(number: int) -> NDArray[np.float64]:
    """A random unit vector, float64 numbers of single precision."""
    drawn = np.random.default_rng([7, number]).standard_normal(DIMENSIONS)
    return (drawn / np.linalg.norm(drawn)).astype(np.float32).astype(np.float64)


def _build(corpus: Corpus, chunks: int, database: Path, workspace: Path) -> None:
    connection = connect(database)
    connection.execute("PRAGMA journal_mode = OFF").fetchall()
    with connection:
        connection.execute(_TABLES).fetchall()
        meta = {"memory_index_meta_v1": json.dumps(_IDENTITY), "memory_vector_rebuild_v1": "clean"}
        connection.executemany(f"INSERT INTO {PREFIX}meta VALUES (?, ?)", meta.items())
        first_row = 1
        for notes, vectors in corpus.notes(chunks):
            done = 0
            for note in notes:
                own = vectors[done : done + len(note.pieces)]
                _write(connection, note, first_row + done, own, workspace / note.path)
                done += len(note.pieces)
            first_row += done
        connection.execute(_INDEXES).fetchall()
    # An idle database of the real program is one whose journal is the log, without the log.
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.close()


def _write(connection: apsw.Connection, note: Note, row: int, vectors: Floats, file: Path) -> None:
    state = file.stat()
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    connection.execute(
        f"INSERT INTO {FILES}(path, source, hash, mtime, size) VALUES (?, 'memory', ?, ?, ?)",
        (note.path, digest, state.st_mtime_ns // 1_000_000, state.st_size),
    )
    connection.execute(
        f"INSERT INTO {PATHS}(rowid, path, source) VALUES (?, ?, 'memory')",
        (connection.last_insert_rowid(), note.path),
    )
    line = 1
    for place, (text, vector) in enumerate(zip(note.pieces, vectors, strict=True)):
        last = line + text.count("\n")
        name = text_hash(f"{note.path}:{line}:{text}")
        chunk = (name, note.path, "memory", line, last, text_hash(text), MODEL, text)
        write_chunk(connection, PREFIX, row + place, chunk, vector, has_blobs=True)
        line = last + 1


LARGEST = 100_000
QUESTIONS = 24
WARM_QUESTIONS = 3
_NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
_FTS = f"{CHUNKS}_fts"
_RANKED = (
    f"SELECT id, bm25({_FTS}) AS score FROM {_FTS} WHERE {_FTS} MATCH ? AND EXISTS "
    f"(SELECT 1 FROM {CHUNKS} c WHERE c.id = {_FTS}.id) AND source IN ('memory') "
    "ORDER BY score LIMIT ?"
)
_NAMED = (
    f"SELECT c.id, bm25({PATHS}) AS score FROM {PATHS} JOIN {CHUNKS} c ON c.id = "
    f"(SELECT d.id FROM {CHUNKS} d WHERE d.path = {PATHS}.path AND d.source = {PATHS}.source "
    f"ORDER BY d.start_line LIMIT 1) WHERE {PATHS} MATCH ? ORDER BY score LIMIT ?"
)
_NEAREST = (
    f"SELECT c.id, vec_distance_cosine(v.embedding, ?) AS dist FROM {CHUNKS}_vec v "
    f"JOIN {CHUNKS} c ON c.id = v.id WHERE v.embedding MATCH ? AND k = ? "
    f"AND c.model = '{MODEL}' AND c.source IN ('memory') ORDER BY dist LIMIT ?"
)
_ROWS = (
    "SELECT id, path, source, start_line, end_line, text, hash, model "
    f"FROM {CHUNKS} WHERE id IN (SELECT value FROM json_each(?))"
)
_EVERYTHING = (
    f"SELECT id, path, source, start_line, end_line, hash, model, text, embedding FROM {CHUNKS}",
    f"SELECT id, path, text FROM {_FTS}",
    f"SELECT rowid, vectors FROM {CHUNKS}_vec_vector_chunks00",
    f"SELECT path, source, hash, mtime, size FROM {FILES}",
)


@dataclass(frozen=True, slots=True)
class Case:
    """A query, the expressions that its release asks the full text for, and its vector."""

    text: str
    matches: tuple[str, ...]
    blob: bytes


@dataclass(frozen=True, slots=True)
class Bare:
    """The statements of the release on a plain connection, each once."""

    connection: Connection
    limit: int

    def search(self, case: Case) -> int:
        """Find and read the rows of both legs."""
        ids = json.dumps([*self.words(case), *self.nearest(case)])
        return len(self.connection.execute(_ROWS, (ids,)).fetchall())

    def words(self, case: Case) -> list[object]:
        """Find the ids of the keyword leg, by text and by path."""
        return [
            row[0]
            for match in case.matches
            for statement in (_RANKED, _NAMED)
            for row in self.connection.execute(statement, (match, self.limit)).fetchall()
        ]

    def nearest(self, case: Case) -> list[object]:
        """Find the ids of the vector leg."""
        values = (case.blob, case.blob, min(self.limit * 8, 4096), self.limit)
        return [row[0] for row in self.connection.execute(_NEAREST, values).fetchall()]


def measure_foreign(plan: Plan) -> Iterator[Measurement]:
    """Every part at the largest size asked for, up to 100,000 chunks."""
    size = max([size for size in plan.sizes if size <= LARGEST], default=LARGEST)
    corpus = Corpus()
    texts = [_asked(number, one.text) for number, one in enumerate(corpus.questions(QUESTIONS))]
    store = foreign_store(corpus, size, plan.place)
    vectors = {text: query_vector(number) for number, text in enumerate(texts)}
    yield _opening(store, plan)
    target = ForeignTarget(store.database, workspace=store.workspace)
    given = GivenVectors(store.database, vectors)
    with Engine.open_agent(target, given=given, env={}, examine=False) as engine:
        cases = [_case(engine, text, vectors[text].astype("<f4").tobytes()) for text in texts]
        yield from _queries(store, engine, cases)
    yield _audit(store, plan)
    yield _command(store, plan, cases[0])


def _asked(number: int, question: str) -> str:
    """Whole questions and, in turns, their last two words, which more often find something."""
    return question if number % 2 else " ".join(question.split()[-2:])


def _case(engine: Engine, text: str, blob: bytes) -> Case:
    facts = engine.search.ask(text).pool.states[Leg.KEYWORD].facts
    keywords = str(facts["keywords"]).split()
    matches = dict.fromkeys([str(facts["match"]), *(f'"{word}"' for word in keywords)])
    return Case(text, tuple(matches), blob)


def _connect(database: Path) -> Connection:
    import apsw
    import sqlite_vec

    uri = f"file:{database}?mode=ro&immutable=1"
    connection = Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    return connection


def _opening(store: ForeignStore, plan: Plan) -> Measurement:
    """Opening and closing in this process, with its facts and counts, against SQLite's own."""
    target = ForeignTarget(store.database)

    def theirs(_: int) -> None:
        connection = _connect(store.database)
        connection.execute(f"SELECT source, count(*) FROM {CHUNKS} GROUP BY 1").fetchall()
        connection.close()

    took, bare = in_turns(
        (lambda _: Engine.open_agent(target, env={}, examine=False).close(), theirs),
        range(5 * plan.rounds),
    )
    name = f"foreign: open, {store.chunks:,}"
    return Measurement(name, took, "ms", "apsw + count", bare)


def _queries(store: ForeignStore, engine: Engine, cases: Sequence[Case]) -> Iterator[Measurement]:
    """Queries of an open index, whole and leg by leg."""
    bare = Bare(_connect(store.database), engine.ranking.candidates)
    size = store.chunks
    for leg, (took, reference) in by_leg(engine, bare, cases, WARM_QUESTIONS).items():
        name = f"foreign: query, {size:,}" if leg is None else f"  foreign: {leg} leg, {size:,}"
        yield Measurement(name, took, "ms", "bare apsw", reference)
    bare.connection.close()


def _audit(store: ForeignStore, plan: Plan) -> Measurement:
    """The report about an index against reading the same rows."""
    opened = open_foreign(store.database)

    def ours(_: int) -> None:
        examine(opened, ForeignTarget(store.database, workspace=store.workspace), PROFILE, now=_NOW)

    def theirs(_: int) -> None:
        for statement in _EVERYTHING:
            for _row in opened.connection.execute(statement):
                pass

    took, bare = in_turns((ours, theirs), range(plan.rounds), SECONDS)
    opened.close()
    name = f"foreign: audit, {store.chunks:,}"
    return Measurement(name, took, "s", "SELECT of all rows", bare)


def _command(store: ForeignStore, plan: Plan, case: Case) -> Measurement:
    """`memtui search` of the index from the shell, against starting Python."""
    env = environment(plan.place / "home-foreign")
    vector = plan.place / "query-vector.json"
    vector.write_text(json.dumps(query_vector(0).tolist()), encoding="utf-8")
    search = [
        *(sys.executable, "-m", "memtui", "search", "--index", str(store.database)),
        *("--query-vectors", str(vector), "--zero-ok", case.text),
    ]
    took, alone = runs_in_turns(plan, [search, [sys.executable, "-c", "pass"]], env)
    name = f"foreign: memtui search --index, {store.chunks:,}"
    return Measurement(name, took, "ms", "python -c pass", alone)
