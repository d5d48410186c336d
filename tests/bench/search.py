"""Hybrid queries, the embedding of a query, and re-ranking."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from msgspec.structs import replace

from memtui.engine import Engine
from memtui.index.database import Connection, open_database
from memtui.model import CandidatePool, Decay, Leg, LegHit, Mmr, Ranked, Ranking
from memtui.ranking.pipeline import rank
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.query import parse_query
from memtui.retrieval.vector_view import VectorView, nearest
from memtui.text.tokens import index_text
from tests.bench.corpus import VERSION, Corpus, Question, StoredProvider, registered, store
from tests.bench.frame import (
    MILLISECONDS,
    Judged,
    Limit,
    Measurement,
    Plan,
    Series,
    in_turns,
    repeated,
)

QUESTIONS = 100
WARM_QUESTIONS = 5
CANDIDATES = 200
NEAREST = 24
TOP = 10
QUESTIONS_LARGE = 30
"""From a million chunks on, where FTS5 takes seconds for every word."""
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)

EVERY_WORD = 2**62
"""A budget that leaves no word out."""

_RANKED = "SELECT rowid, rank FROM chunks_fts WHERE chunks_fts MATCH ? ORDER BY rank LIMIT ?"
_ROWS = (
    "SELECT c.id, f.path, c.start_line, c.end_line, c.text FROM chunks c JOIN files f "
    "ON f.id = c.file_id WHERE c.id IN (SELECT value FROM json_each(?))"
)


class Floor:
    """The least that finds the same: one product, one full-text query, one fetch of rows."""

    def __init__(self, connection: Connection, questions: Sequence[Question], limit: int) -> None:
        view = VectorView(StoredProvider.dimensions)
        view.follow(connection)
        self._matrix, self._rowids = view.matrix.copy(), view.rowids.copy()
        planner = KeywordLeg(connection, EVERY_WORD)
        self._matches = {q.text: planner.plan(parse_query(q.text)).match for q in questions}
        self._connection, self._limit = connection, limit

    def nearest(self, question: Question) -> list[int]:
        """Find the nearest rows."""
        scores = self._matrix @ question.vector
        if self._limit < len(scores):
            best = np.argpartition(scores, -self._limit)[-self._limit :]
        else:
            best = np.arange(len(scores))
        return [int(row) for row in self._rowids[best[np.argsort(-scores[best])]]]

    def words(self, question: Question) -> list[int]:
        """Find the rows of the best BM25."""
        found = self._connection.execute(_RANKED, (self._matches[question.text], self._limit))
        return [int(str(row[0])) for row in found.fetchall()]

    def search(self, question: Question) -> int:
        """Find and read the rows of both legs."""
        rowids = json.dumps([*self.nearest(question), *self.words(question)])
        return len(self._connection.execute(_ROWS, (rowids,)).fetchall())


def by_leg(
    engine: Engine, bare: Any, cases: Sequence[Any], warm: int
) -> dict[Leg | None, tuple[Series, Series]]:
    """Measure queries against `bare.search`, and their legs against its `words` and `nearest`.

    Cases have a `text`; the first `warm` of them do not count. `None` stands for whole queries.
    """
    legs = {Leg.KEYWORD: Series(), Leg.VECTOR: Series()}

    def ours(case: Any) -> None:
        ranked = engine.search.ask(case.text)
        for leg, series in legs.items():
            series.wall.append(ranked.pool.states[leg].elapsed_ms)

    in_turns((ours, bare.search), cases[:warm])
    for series in legs.values():
        series.wall.clear()
    asked = cases[warm:]
    whole, bound = in_turns((ours, bare.search), asked)
    alone = {Leg.KEYWORD: bare.words, Leg.VECTOR: bare.nearest}
    return {None: (whole, bound), **{leg: (legs[leg], repeated(alone[leg], asked)) for leg in legs}}


def measure_hybrid(plan: Plan) -> Iterator[Measurement]:
    """Hybrid queries at each size against the floor, leg by leg."""
    corpus = Corpus()
    questions = corpus.questions(QUESTIONS + WARM_QUESTIONS)
    provider = StoredProvider({question.text: question.vector for question in questions})
    for size in plan.sizes:
        made = store(corpus, size, plan.place)
        with (
            registered(provider) as settings,
            made.open(settings) as engine,
            closing(open_database(made.database, readonly=True)) as connection,
        ):
            yield from _hybrid(size, engine, connection, questions)


def _hybrid(
    size: int, engine: Engine, connection: Connection, questions: Sequence[Question]
) -> Iterator[Measurement]:
    floor = Floor(connection, questions, max(engine.ranking.candidates, 100))
    asked = questions[WARM_QUESTIONS:]
    limit = Limit(1.3) if size >= 100_000 else None
    for leg, (found, bound) in by_leg(engine, floor, questions, WARM_QUESTIONS).items():
        name, peer = f"hybrid query, {size:,} chunks", "floor"
        if leg is not None:
            peer = "bare FTS5" if leg is Leg.KEYWORD else "bare numpy"
            name, limit = f"  {leg} leg, {size:,}", None
        yield Measurement(name, found, "ms", peer, bound, limit)
    yield from _same_top_ten(size, connection, asked)


def _same_top_ten(
    size: int, connection: Connection, questions: Sequence[Question]
) -> Iterator[Measurement]:
    """The share of questions whose ten best by keywords are those of a search for every word."""
    some = questions[: QUESTIONS_LARGE if size >= 1_000_000 else None]
    budgeted, whole = KeywordLeg(connection), KeywordLeg(connection, budget=EVERY_WORD)
    same = 0
    for question in some:
        query = parse_query(question.text)
        first, second = (leg.search(query, TOP, None).hits for leg in (budgeted, whole))
        same += [hit.rowid for hit in first] == [hit.rowid for hit in second]
    share = Series([same / len(some)])
    yield Measurement(
        f"  identical top {TOP} by keywords, {size:,}", share, "",
        note=f"{len(some)} questions, against a query for every word",
    )  # fmt: skip


def measure_recall(plan: Plan) -> Iterator[Measurement]:
    """Recall of the 24 nearest rows by one-bit codes and rescoring, against an exact scan."""
    corpus = Corpus()
    questions = corpus.questions(QUESTIONS)
    for size in plan.sizes:
        with closing(
            open_database(store(corpus, size, plan.place).database, readonly=True)
        ) as connection:
            view = VectorView(StoredProvider.dimensions, exact_limit=0)
            view.follow(connection)
        shares, took = Series(), Series()
        for question in questions:
            began = perf_counter()
            rows = [row for row, _ in nearest(view, question.vector, NEAREST)]
            took.wall.append((perf_counter() - began) * MILLISECONDS)
            products = view.matrix @ question.vector
            last = np.partition(products, -NEAREST)[-NEAREST]
            good = np.count_nonzero(products[np.isin(view.rowids, rows)] >= last - 1e-6)
            shares.wall.append(float(good) / NEAREST)
        mean = Series([sum(shares.wall) / len(shares.wall)])
        yield Measurement(
            f"recall@{NEAREST} of codes, {size:,}", mean, "",
            note=f"worst of {len(questions)} questions {min(shares.wall):.3f}",
            limit=Limit(0.99, Judged.P50, at_least=True),
        )  # fmt: skip
        yield Measurement(f"  search of codes, {size:,}", took)


def pool_of_candidates(engine: Engine, question: Question) -> CandidatePool:
    """A real pool cut down to exactly 200 chunks, best first of both legs."""
    deep = replace(engine.ranking, min_candidates=CANDIDATES, max_candidates=CANDIDATES)
    pool = engine.search.ask(question.text, ranking=deep).pool
    both = zip_longest(pool.hits[Leg.VECTOR], pool.hits[Leg.KEYWORD])
    ranked = dict.fromkeys(hit.chunk_id for pair in both for hit in pair if hit is not None)
    kept = set(list(ranked)[:CANDIDATES])
    hits = {
        leg: tuple(
            LegHit(hit.chunk_id, position, hit.raw, hit.terms)
            for position, hit in enumerate(hit for hit in found if hit.chunk_id in kept)
        )
        for leg, found in pool.hits.items()
    }
    chunks = {name: chunk for name, chunk in pool.chunks.items() if name in kept}
    return CandidatePool(pool.query, chunks, hits, pool.states, pool.limit)


def measure_rerank(plan: Plan) -> Iterator[Measurement]:
    """A toggle: ranking a pool of 200 candidates again, by what is switched on."""
    corpus = Corpus()
    questions = corpus.questions(10)
    provider = StoredProvider({question.text: question.vector for question in questions})
    made = store(corpus, 10_000, plan.place)
    with registered(provider) as settings, made.open(settings) as engine:
        pools = [pool_of_candidates(engine, question) for question in questions]
    plain = Ranking(min_candidates=CANDIDATES, max_candidates=CANDIDATES)
    mmr, decay = Mmr(enabled=True), Decay(enabled=True)
    variants = {
        "plain": plain,
        "decay": replace(plain, decay=decay),
        "MMR": replace(plain, mmr=mmr),
        "decay + MMR": replace(plain, decay=decay, mmr=mmr),
    }
    first = repeated(lambda pool: _rank(pool, variants["decay + MMR"]), pools)
    note = f"pools of {min(len(pool.chunks) for pool in pools)} chunks"
    for name, ranking in variants.items():
        again = [pool for pool in pools for _ in range(30)]  # that on the screen, as keys do
        took = repeated(lambda pool, ranking=ranking: _rank(pool, ranking), again)  # type: ignore[misc]
        yield Measurement(
            f"re-rank of 200, {name}",
            took,
            note=note,
            limit=Limit(1.0, Judged.P95),
        )
        note = ""
    yield Measurement("  first MMR of a pool", first, note="token overlap, computed once per pool")


def _rank(pool: CandidatePool, ranking: Ranking) -> Ranked:
    return rank(pool, ranking, now=NOW)


PEER_QUESTIONS = 100

DEPTH = 100
HINT = "pip install 'memtui[bench]'"
_WRITER_BYTES = 512 * 2**20

Search = Callable[[Question], object]


def measure_peers(plan: Plan) -> Iterator[Measurement]:
    """Each leg beside the library that does the same, at each size."""
    corpus = Corpus()
    questions = corpus.questions(PEER_QUESTIONS + WARM_QUESTIONS)
    for size in plan.sizes:
        made = store(corpus, size, plan.place)
        with closing(open_database(made.database, readonly=True)) as connection:
            yield _keyword(size, connection, questions, plan.place)
            yield _vector(size, connection, questions)


def _keyword(
    size: int, connection: Connection, questions: Sequence[Question], place: Path
) -> Measurement:
    name = f"keyword leg beside tantivy, {size:,}"
    if importlib.util.find_spec("tantivy") is None:
        return Measurement(name, Series(), note=f"tantivy is not installed: {HINT}")
    leg = KeywordLeg(connection)

    def ours(question: Question) -> object:
        return leg.search(parse_query(question.text), DEPTH, None)

    theirs = _tantivy(connection, place / f"tantivy-{size}-v{VERSION}")
    took, peer = _measured(ours, theirs, questions)
    limit = Limit(3.0) if size >= 1_000_000 else None
    return Measurement(
        name, took, "ms", "tantivy", peer, limit,
        note=f"the {DEPTH} best; tantivy alone does not say which words a hit holds",
    )  # fmt: skip


def _vector(size: int, connection: Connection, questions: Sequence[Question]) -> Measurement:
    name = f"vector leg beside faiss flat, {size:,}"
    if importlib.util.find_spec("faiss") is None:
        return Measurement(name, Series(), note=f"faiss is not installed: {HINT}")
    view = VectorView(StoredProvider.dimensions)
    view.follow(connection)
    theirs = _faiss(view)

    def ours(question: Question) -> object:
        return nearest(view, question.vector, DEPTH)

    took, peer = _measured(ours, theirs, questions)
    return Measurement(name, took, "ms", "faiss flat", peer)


def _measured(ours: Search, theirs: Search, questions: Sequence[Question]) -> list[Series]:
    in_turns((ours, theirs), questions[:WARM_QUESTIONS])
    return in_turns((ours, theirs), questions[WARM_QUESTIONS:])


def _tantivy(connection: Connection, place: Path) -> Search:
    import tantivy

    if not place.exists():
        # Under another name until it is whole: a stopped run leaves nothing that looks finished.
        building = place.with_name(f"{place.name}.building")
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(parents=True)
        _fill_tantivy(connection, building)
        building.rename(place)
    index = tantivy.Index.open(str(place))
    searcher = index.searcher()

    def search(question: Question) -> object:
        terms = parse_query(question.text).terms.terms
        asked = index.parse_query(" ".join(term.fts for term in terms), ["text"])
        return searcher.search(asked, DEPTH, count=False).hits

    return search


def _fill_tantivy(connection: Connection, place: Path) -> None:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("row", stored=True)
    builder.add_text_field("text", tokenizer_name="en_stem")
    writer = tantivy.Index(builder.build(), path=str(place)).writer(_WRITER_BYTES, 1)
    for row, text in connection.execute("SELECT id, text FROM chunks ORDER BY id"):
        writer.add_document(tantivy.Document(row=row, text=index_text(text)))
    writer.commit()
    writer.wait_merging_threads()


def _faiss(view: VectorView) -> Search:
    import faiss

    faiss.omp_set_num_threads(1)
    index: Any = faiss.IndexFlatIP(view.dims)
    index.add(view.matrix)

    def search(question: Question) -> object:
        return index.search(question.vector[None, :], DEPTH)

    return search
