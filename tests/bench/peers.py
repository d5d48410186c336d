"""The same questions asked of two libraries that do one leg's work: tantivy and faiss.

Both have to be installed (the `bench` extra). tantivy gets the text as memtui indexes it, so that
all languages are words to it, and stems English; it is asked for any of the words that are no stop
words. faiss compares every vector, as memtui's exact leg does.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from memtui.index.database import Connection, open_database
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.query import parse_query
from memtui.retrieval.vector_view import VectorView, nearest
from memtui.text.tokens import index_text
from tests.bench.corpus import VERSION, Corpus, Question
from tests.bench.measure import Limit, Measurement, Plan, Series, paired
from tests.bench.stores import StoredProvider, store

QUESTIONS = 100
WARM_QUESTIONS = 5
DEPTH = 100
HINT = "pip install 'memtui[bench]'"
_WRITER_BYTES = 512 * 2**20

Search = Callable[[Question], object]


def measure_peers(plan: Plan) -> Iterator[Measurement]:
    """Each leg beside the library that does the same, at each size."""
    corpus = Corpus()
    questions = corpus.questions(QUESTIONS + WARM_QUESTIONS)
    for size in plan.sizes:
        made = store(corpus, size, plan.place)
        connection = open_database(made.database, readonly=True)
        try:
            yield _keyword(size, connection, questions, plan.place)
            yield _vector(size, connection, questions)
        finally:
            connection.close()


def _keyword(
    size: int, connection: Connection, questions: Sequence[Question], place: Path
) -> Measurement:
    name = f"keyword leg beside tantivy, {size:,}"
    if importlib.util.find_spec("tantivy") is None:
        return Measurement(name, Series(), note=f"tantivy is not installed: {HINT}", size=size)
    leg = KeywordLeg(connection)

    def ours(question: Question) -> object:
        return leg.search(parse_query(question.text), DEPTH, None)

    theirs = _tantivy(connection, place / f"tantivy-{size}-v{VERSION}")
    took, peer = _paired(ours, theirs, questions)
    limit = Limit(3.0) if size >= 1_000_000 else None
    return Measurement(
        name, took, "ms", "tantivy", peer, "<= 3x at 1M", limit=limit, size=size,
        note=f"the {DEPTH} best; tantivy alone does not say which words a hit holds",
    )  # fmt: skip


def _vector(size: int, connection: Connection, questions: Sequence[Question]) -> Measurement:
    name = f"vector leg beside faiss flat, {size:,}"
    if importlib.util.find_spec("faiss") is None:
        return Measurement(name, Series(), note=f"faiss is not installed: {HINT}", size=size)
    view = VectorView(StoredProvider.dimensions)
    view.follow(connection)
    theirs = _faiss(view)

    def ours(question: Question) -> object:
        return nearest(view, question.vector, DEPTH)

    took, peer = _paired(ours, theirs, questions)
    return Measurement(name, took, "ms", "faiss flat", peer, size=size)


def _paired(ours: Search, theirs: Search, questions: Sequence[Question]) -> tuple[Series, Series]:
    for question in questions[:WARM_QUESTIONS]:
        ours(question)
        theirs(question)
    return paired(ours, theirs, questions[WARM_QUESTIONS:])


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
