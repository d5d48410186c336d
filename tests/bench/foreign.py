"""Another program's index: to the first result, later queries, its truth report, its memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from memtui.engine import Engine
from memtui.engine.foreign import ForeignTarget
from memtui.engine.foreign.query_vectors import GivenVectors
from memtui.index.database import Connection
from memtui.index.foreign.audit import examine
from memtui.index.foreign.opening import Opened, open_foreign
from memtui.model import CandidatePool, Leg, Ranking
from tests.bench.corpus import Corpus
from tests.bench.foreign_first import bare_nearest, bare_search, bare_words
from tests.bench.foreign_store import GENERATIONS, MODEL, ForeignStore, foreign_store, query_vector
from tests.bench.measure import MILLISECONDS, SECONDS, Measurement, Plan, Series, paired, repeated
from tests.bench.processes import environment, runs_in_turns

LARGEST = 100_000
QUESTIONS = 24
WARM_QUESTIONS = 3
TOGGLES = 12
_FIRST_RUNS = 3
_NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Case:
    """A query, the expressions that its release asks the full text for, and its vector."""

    text: str
    matches: tuple[str, ...]
    blob: bytes


@dataclass(frozen=True, slots=True)
class Bare:
    """The statements of the release on a plain connection."""

    connection: Connection
    statements: Mapping[str, str]
    limit: int

    def search(self, case: Case) -> int:
        """Find and read the rows of both legs."""
        return bare_search(
            self.connection, dict(self.statements), list(case.matches), case.blob, self.limit
        )

    def words(self, case: Case) -> int:
        """Find and read the rows of the keyword leg."""
        statements, matches = dict(self.statements), list(case.matches)
        return len(bare_words(self.connection, statements, matches, self.limit))

    def nearest(self, case: Case) -> int:
        """Find the rows of the vector leg."""
        return len(bare_nearest(self.connection, dict(self.statements), case.blob, self.limit))


def measure_foreign(plan: Plan) -> Iterator[Measurement]:
    """Both kinds of index at the largest size asked for, up to 100,000 chunks."""
    size = max([size for size in plan.sizes if size <= LARGEST], default=LARGEST)
    corpus = Corpus()
    texts = [_asked(number, one.text) for number, one in enumerate(corpus.questions(QUESTIONS))]
    for generation in GENERATIONS:
        store = foreign_store(corpus, size, generation, plan.place)
        vectors = {text: query_vector(number) for number, text in enumerate(texts)}
        given = GivenVectors(store.database, vectors)
        yield from _opening(store, plan)
        target = ForeignTarget(store.database, workspace=store.workspace)
        with Engine.open_agent(target, given=given, env={}, examine=False) as engine:
            cases = [_case(engine, text, vectors[text]) for text in texts]
            yield from _first(store, plan, engine, cases)
            yield from _later(store, engine, cases)
            yield from _toggles(store, engine, cases)
        yield from _truth(store, plan)
        yield from _command(store, plan, cases)


def _asked(number: int, question: str) -> str:
    """Whole questions and, in turns, their last two words, which more often find something."""
    return question if number % 2 else " ".join(question.split()[-2:])


def _case(engine: Engine, text: str, vector: Any) -> Case:
    facts = engine.search.ask(text).pool.states[Leg.KEYWORD].facts
    whole = str(facts["match"])
    keywords = str(facts["keywords"]).split()
    matches = dict.fromkeys([whole, *(f'"{word}"' for word in keywords)])
    return Case(text, tuple(matches), np.asarray(vector, dtype="<f4").tobytes())


def _name(store: ForeignStore, what: str) -> str:
    return f"{what}, generation {store.generation.number}, {store.chunks:,}"


def _statements(store: ForeignStore) -> dict[str, str]:
    """What the release asks, each as the cheapest statement that gives its rows."""
    chunks, paths = store.generation.chunks, store.generation.paths
    fts = f"{chunks}_fts"
    if paths is None:
        narrowed = f"AND model = '{MODEL}'"
    else:
        narrowed = f"AND EXISTS (SELECT 1 FROM {chunks} c WHERE c.id = {fts}.id)"
    found = {
        "ranked": f"SELECT rowid, bm25({fts}) AS score FROM {fts} WHERE {fts} MATCH ? {narrowed} "
        "AND source IN ('memory') ORDER BY score LIMIT ?",
        "texts": f"SELECT id, path, source, start_line, text FROM {fts} "
        "WHERE rowid IN (SELECT value FROM json_each(?))",
        "nearest": f"SELECT c.id, vec_distance_cosine(v.embedding, ?) AS dist FROM {chunks}_vec v "
        f"JOIN {chunks} c ON c.id = v.id WHERE v.embedding MATCH ? AND k = ? "
        f"AND c.model = '{MODEL}' AND c.source IN ('memory') ORDER BY dist LIMIT ?",
        "chunks": "SELECT id, path, source, start_line, end_line, text, hash, model "
        f"FROM {chunks} WHERE id IN (SELECT value FROM json_each(?))",
    }
    if paths is not None:
        found["paths"] = (
            f"SELECT c.id, bm25({paths}) AS score FROM {paths} JOIN {chunks} c ON c.id = "
            f"(SELECT d.id FROM {chunks} d WHERE d.path = {paths}.path AND d.source = "
            f"{paths}.source ORDER BY d.start_line LIMIT 1) WHERE {paths} MATCH ? "
            "ORDER BY score LIMIT ?"
        )
    return found


def _opening(store: ForeignStore, plan: Plan) -> Iterator[Measurement]:
    """Opening and closing in this process, with its facts and counts, against SQLite's own."""
    target = ForeignTarget(store.database)

    def ours(_: int) -> None:
        Engine.open_agent(target, env={}, examine=False).close()

    def theirs(_: int) -> None:
        connection = _connect(store.database)
        chunks = store.generation.chunks
        connection.execute(f"SELECT source, count(*) FROM {chunks} GROUP BY 1").fetchall()
        connection.close()

    ours(0)
    took, bare = paired(ours, theirs, range(5 * plan.rounds))
    yield Measurement(_name(store, "open"), took, "ms", "apsw + count", bare)


def _connect(database: Path) -> Connection:
    import apsw
    import sqlite_vec

    uri = f"file:{database}?mode=ro&immutable=1"
    connection = Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    return connection


def _first(
    store: ForeignStore, plan: Plan, engine: Engine, cases: Sequence[Case]
) -> Iterator[Measurement]:
    """From the start of a process to its first result; with and without the query's vector."""
    place = plan.place / f"case-{store.generation.number}"
    vector = place.with_suffix(".vector.json")
    vector.write_text(json.dumps(query_vector(0).tolist()), encoding="utf-8")
    for name, given, hows in (
        ("first hybrid result", str(vector), ("engine", "bare")),
        ("first result, keywords", None, ("engine", "bare")),
        ("first result, examining", str(vector), ("examining", "bare")),
    ):
        case = {
            "database": str(store.database),
            "workspace": str(store.workspace),
            "vector": given,
            "query": cases[0].text,
            "matches": list(cases[0].matches),
            "limit": engine.ranking.candidates,
            "statements": _statements(store),
        }
        runs: dict[str, list[dict[str, float]]] = {how: [] for how in hows}
        for number in range(plan.warm + _FIRST_RUNS * plan.rounds):
            for how in hows if number % 2 else reversed(hows):
                told = _run(how, case, place)
                if number >= plan.warm:
                    runs[how].append(told)
        ours, bare = (_series(runs[how]) for how in hows)
        aim = "< 2000 ms" if given else ""
        yield Measurement(_name(store, name), ours, "ms", "bare apsw", bare, aim)
        if hows[0] == "engine" and given:
            for kind in ("VmRSS", "RssAnon"):
                figures = (Series([told[kind] / 1e6 for told in runs[how]]) for how in hows)
                ours, bare = figures
                yield Measurement(_name(store, f"  {kind}"), ours, "MB", "bare apsw", bare)


def _run(how: str, case: dict[str, Any], place: Path) -> dict[str, float]:
    file = place.with_suffix(".json")
    file.write_text(json.dumps({**case, "began": time.time()}), encoding="utf-8")
    command = [sys.executable, "-m", "tests.bench.foreign_first", how, str(file)]
    run = subprocess.run(command, capture_output=True, check=True, text=True, env=dict(os.environ))
    told: dict[str, float] = json.loads(run.stdout)
    return told


def _series(runs: Sequence[Mapping[str, float]]) -> Series:
    series = Series()
    for told in runs:
        series.add(told["wall"] * MILLISECONDS, told["cpu"] * MILLISECONDS)
    return series


def _later(store: ForeignStore, engine: Engine, cases: Sequence[Case]) -> Iterator[Measurement]:
    """Queries of an open index, whole and leg by leg."""
    bare = Bare(_connect(store.database), _statements(store), engine.ranking.candidates)
    legs = {Leg.KEYWORD: Series(), Leg.VECTOR: Series()}

    def ours(case: Case) -> None:
        ranked = engine.search.ask(case.text)
        for leg, series in legs.items():
            series.wall.append(ranked.pool.states[leg].elapsed_ms)

    for case in cases[:WARM_QUESTIONS]:
        ours(case)
        bare.search(case)
    for series in legs.values():
        series.wall.clear()
    asked = cases[WARM_QUESTIONS:]
    found, bound = paired(ours, bare.search, asked)
    yield Measurement(_name(store, "query"), found, "ms", "bare apsw", bound)
    for leg, theirs in ((Leg.KEYWORD, bare.words), (Leg.VECTOR, bare.nearest)):
        alone = repeated(theirs, asked)
        yield Measurement(_name(store, f"  {leg} leg"), legs[leg], "ms", "bare apsw", alone)
    bare.connection.close()


def _toggles(store: ForeignStore, engine: Engine, cases: Sequence[Case]) -> Iterator[Measurement]:
    """Ranking a pool again with everything on, the first time and later."""
    deep = replace(engine.ranking, min_candidates=200, k=10)
    pools = [engine.search.ask(case.text, ranking=deep).pool for case in cases]
    pools = sorted(pools, key=lambda pool: -len(pool.chunks))[:TOGGLES]
    full = replace(
        deep, mmr=replace(deep.mmr, enabled=True), decay=replace(deep.decay, enabled=True)
    )

    def toggle(pair: tuple[CandidatePool, Ranking]) -> None:
        engine.search.rerank(*pair)

    held = [len(pool.chunks) for pool in pools]
    note = f"pools of {min(held)} to {max(held)} candidates, decay and MMR on"
    first = repeated(toggle, [(pool, full) for pool in pools])
    yield Measurement(_name(store, "toggle, first of a pool"), first, aim="<= 16 ms", note=note)
    # No two alike: nothing of one is of use to the next but what belongs to the pool.
    later = [
        (pool, replace(full, mmr=replace(full.mmr, lambda_=share / 10)))
        for share in range(1, 10)
        for pool in pools
    ]
    yield Measurement(_name(store, "toggle"), repeated(toggle, later), aim="<= 16 ms")


def _truth(store: ForeignStore, plan: Plan) -> Iterator[Measurement]:
    """The truth report against reading the same rows, and how long it keeps others waiting."""
    opened = open_foreign(store.database)

    def ours(_: int) -> None:
        _examine(opened, store)

    def theirs(_: int) -> None:
        chunks, files = store.generation.chunks, store.generation.files
        for statement in (
            "SELECT id, path, source, start_line, end_line, hash, model, text, embedding "
            f"FROM {chunks}",
            f"SELECT id, path, text FROM {chunks}_fts",
            f"SELECT rowid, vectors FROM {chunks}_vec_vector_chunks00",
            f"SELECT path, source, hash, mtime, size FROM {files}",
        ):
            for _row in opened.connection.execute(statement):
                pass

    took, bare = paired(ours, theirs, range(plan.rounds), SECONDS)
    yield Measurement(_name(store, "truth report"), took, "s", "SELECT of all rows", bare)
    pauses = Series([_longest_pause(store) for _ in range(plan.rounds)])
    yield Measurement(_name(store, "  longest pause of others"), pauses, aim="<= 50 ms")
    opened.close()


def _examine(opened: Opened, store: ForeignStore) -> None:
    examine(
        opened,
        workspace=store.workspace,
        config=None,
        release=store.generation.profile,
        databases=None,
        now=_NOW,
    )


def _longest_pause(store: ForeignStore) -> float:
    """The longest time in ms that a thread that only ticks had to wait during a report."""

    def work() -> None:
        opened = open_foreign(store.database)
        _examine(opened, store)
        opened.close()

    thread = threading.Thread(target=work)
    thread.start()
    longest = 0.0
    last = perf_counter()
    while thread.is_alive():
        thread.join(0.001)
        now = perf_counter()
        longest, last = max(longest, now - last), now
    return longest * MILLISECONDS


def _command(store: ForeignStore, plan: Plan, cases: Sequence[Case]) -> Iterator[Measurement]:
    """`memtui search` of the index from the shell, against starting Python."""
    env = environment(plan.place / "home-foreign")
    vector = plan.place / f"case-{store.generation.number}.vector.json"
    search = [
        *(sys.executable, "-m", "memtui", "search", "--index", str(store.database)),
        *("--query-vectors", str(vector), "--zero-ok", cases[0].text),
    ]
    took, alone = runs_in_turns(plan, [search, [sys.executable, "-c", "pass"]], env)
    yield Measurement(_name(store, "memtui search --index"), took, "ms", "python -c pass", alone)
