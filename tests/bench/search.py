"""Hybrid queries beside the least that finds the same, and each leg beside other engines."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from memtui.engine import Engine
from memtui.index.database import Connection, open_database
from memtui.model import Leg, LegState
from memtui.ranking.pipeline import LEAST_DEPTH
from memtui.retrieval.connection import find_stems
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.query import parse_query
from memtui.retrieval.vector_view import VectorView, nearest
from memtui.text.tokens import index_text
from tests.bench.corpus import VERSION, Corpus, Question, StoredProvider, registered, store
from tests.bench.frame import Limit, Measurement, Plan, Series, in_turns

QUESTIONS = 100
WARM_QUESTIONS = 5
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

    def __init__(self, connection: Connection, questions: Sequence[Question]) -> None:
        view = VectorView(StoredProvider.dimensions)
        view.follow(connection)
        self._matrix, self._rowids = view.matrix.copy(), view.rowids.copy()
        planner = KeywordLeg(connection, EVERY_WORD)
        self._matches = {q.text: planner.plan(parse_query(q.text)).match for q in questions}
        self._connection = connection

    def nearest(self, question: Question) -> list[int]:
        """Find the nearest rows."""
        scores = self._matrix @ question.vector
        best = np.argpartition(scores, -LEAST_DEPTH)[-LEAST_DEPTH:]
        return [int(row) for row in self._rowids[best[np.argsort(-scores[best])]]]

    def words(self, question: Question) -> list[int]:
        """Find the rows of the best BM25."""
        found = self._connection.execute(_RANKED, (self._matches[question.text], LEAST_DEPTH))
        return [int(str(row[0])) for row in found.fetchall()]

    def search(self, question: Question) -> int:
        """Find and read the rows of both legs."""
        rowids = json.dumps([*self.nearest(question), *self.words(question)])
        return len(self._connection.execute(_ROWS, (rowids,)).fetchall())


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
            find_stems(connection)
            yield from _hybrid(size, engine, connection, questions)


def _hybrid(
    size: int, engine: Engine, connection: Connection, questions: Sequence[Question]
) -> Iterator[Measurement]:
    floor = Floor(connection, questions)
    states: list[Mapping[Leg, LegState]] = []

    def ours(question: Question) -> None:
        states.append(engine.search.ask(question.text).pool.states)

    found, bound = _measured(ours, floor.search, questions)
    limit = Limit(1.5) if size >= 100_000 else None
    yield Measurement(f"hybrid query, {size:,} chunks", found, "ms", "floor", bound, limit)
    asked = questions[WARM_QUESTIONS:]
    for leg, peer, alone in (
        (Leg.KEYWORD, "bare FTS5", floor.words),
        (Leg.VECTOR, "bare numpy", floor.nearest),
    ):
        took = Series([one[leg].elapsed_ms for one in states[WARM_QUESTIONS:]])
        (bare,) = in_turns([alone], asked)
        yield Measurement(f"  {leg} leg, {size:,}", took, "ms", peer, bare)
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
