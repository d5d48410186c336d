"""Opening an explanation, beside the search that it explains."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memtui.engine import Engine
from memtui.index.database import open_database
from memtui.model import Ranked
from memtui.ranking.trace import explain
from tests.bench.corpus import Corpus, Question
from tests.bench.measure import Measurement, Plan, Series, timed
from tests.bench.stores import StoredProvider, registered, store

QUESTIONS = 40
WARM_QUESTIONS = 5
CHUNKS = 100_000
DEEP = 400
AIM = "< 50 ms"


@dataclass(frozen=True, slots=True)
class Case:
    """A question, its answer, and a chunk to explain."""

    question: Question
    ranked: Ranked
    chunk_id: str


Ask = Callable[[Engine, Case], object]

EVERY: Mapping[str, Ask] = {
    "inquiry": lambda engine, case: engine.explain.inquire(case.ranked, case.chunk_id),
}
IN_POOL: Mapping[str, Ask] = {"waterfall": lambda engine, case: explain(case.ranked, case.chunk_id)}


def measure_explaining(plan: Plan) -> Iterator[Measurement]:
    """Every part of an explanation, for a hit and for a chunk outside the pool, at 100,000 chunks.

    With other sizes given, at the largest of them.
    """
    size = max(plan.sizes) if plan.sizes else CHUNKS
    corpus = Corpus()
    questions = corpus.questions(QUESTIONS + WARM_QUESTIONS)
    provider = StoredProvider({question.text: question.vector for question in questions})
    made = store(corpus, size, plan.place)
    connection = open_database(made.database, readonly=True)
    rows = connection.execute("SELECT chunk_id FROM chunks ORDER BY id").fetchall()
    connection.close()
    everything = [str(row[0]) for row in rows]
    with registered(provider) as settings, made.open(settings) as engine:
        for question in questions[:WARM_QUESTIONS]:
            engine.explain.inquire(engine.search.ask(question.text), everything[0])
        asked = questions[WARM_QUESTIONS:]
        yield from _measure(engine, "a hit", _hits(engine, asked), {**EVERY, **IN_POOL}, size)
        yield from _measure(engine, "outside", _outside(engine, asked, everything), EVERY, size)


def _measure(
    engine: Engine, name: str, cases: Sequence[Case], asks: Mapping[str, Ask], size: int
) -> Iterator[Measurement]:
    for part, ask in asks.items():
        ours, theirs = Series(), Series()
        for case in cases:
            # In this order, as a person does it: what the search computed is at hand.
            theirs.add(*timed(lambda text=case.question.text: engine.search.ask(text)))  # type: ignore[misc]
            ours.add(*timed(lambda ask=ask, case=case: ask(engine, case)))  # type: ignore[misc]
        yield Measurement(f"{part}, {name}, {size:,}", ours, "ms", "search", theirs, AIM)


def _hits(engine: Engine, questions: Sequence[Question]) -> list[Case]:
    ranked = [(question, engine.search.ask(question.text)) for question in questions]
    return [Case(question, one, one.hits[-1].chunk.id) for question, one in ranked]


def _outside(
    engine: Engine, questions: Sequence[Question], everything: Sequence[str]
) -> list[Case]:
    """Chunks that no leg gives, and of every other question one that the keyword leg finds."""
    chosen = random.Random(4)
    deep = replace(engine.ranking, min_candidates=DEEP, max_candidates=DEEP)
    cases = []
    for number, question in enumerate(questions):
        ranked = engine.search.ask(question.text)
        found = (
            list(engine.search.ask(question.text, ranking=deep).pool.chunks) if number % 2 else []
        )
        beyond = [chunk_id for chunk_id in found if chunk_id not in ranked.pool.chunks]
        outside = beyond[-1] if beyond else chosen.choice(everything)
        cases.append(Case(question, ranked, outside))
    return cases
