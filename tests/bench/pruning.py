"""What leaving out frequent words does to the order of hits: pruned against every word.

On the questions of the data sets that `MEMTUI_BENCH_DATA` names (see `texts`), and without it on
generated notes. A data set is smaller than the budget, so that the plan of the product prunes
nothing there; the other rows hold the budget to shares of the chunks, as a large index would.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memtui.index.database import Connection, open_database
from memtui.index.schema import create
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.query import parse_query
from memtui.retrieval.term_plan import BUDGET_SHARE
from memtui.text.tokens import index_text
from tests.bench.corpus import Corpus
from tests.bench.limits import Judged, Limit
from tests.bench.measure import Measurement, Plan, Series
from tests.bench.stores import store
from tests.bench.texts import VARIABLE, Asked, DataSet, data_folder, data_sets

TOP = 10
UNBOUNDED = 2**62
_GENERATED_QUESTIONS = 200
_SAME_AIM = 0.99
_QUESTIONS_OF_SHARES = 100
"""Of each data set, for budgets that are not the product's."""


@dataclass(slots=True)
class _Effect:
    """What one budget did to the questions of some data sets."""

    same: list[float] = field(default_factory=list)
    pruned: list[float] = field(default_factory=list)
    gain: list[float] = field(default_factory=list)
    """nDCG@10 pruned minus unpruned."""


def measure_pruning(plan: Plan) -> Iterator[Measurement]:
    """The share of questions with an identical top 10, and the change of nDCG@10."""
    folder = data_folder()
    if folder is None:
        yield from _generated(plan)
        return
    effects: dict[tuple[str, str], _Effect] = {}
    for data in data_sets(folder):
        for budget, effect in _of_set(data).items():
            whole = effects.setdefault((data.name.split()[0], budget), _Effect())
            for kind in ("same", "pruned", "gain"):
                getattr(whole, kind).extend(getattr(effect, kind))
    for (name, budget), effect in effects.items():
        yield from _told(f"{name}, {budget}", effect, held=budget == "as shipped")


def _generated(plan: Plan) -> Iterator[Measurement]:
    corpus = Corpus()
    questions = [Asked(one.text, {}) for one in corpus.questions(_GENERATED_QUESTIONS)]
    for size in plan.sizes:
        connection = open_database(store(corpus, size, plan.place).database, readonly=True)
        try:
            effect = _compared(connection, questions, None, {})
        finally:
            connection.close()
        note = f"generated notes and questions: {VARIABLE} names no folder of data sets"
        yield from _told(f"generated, {size:,}", effect, held=True, note=note)


def _told(name: str, effect: _Effect, *, held: bool, note: str = "") -> Iterator[Measurement]:
    same = Series([sum(effect.same) / len(effect.same)])
    pruned = sum(effect.pruned) / len(effect.pruned)
    told = f"{len(effect.same)} questions, words left out of {pruned:.1%}"
    yield Measurement(
        f"pruning: identical top {TOP}, {name}", same, "", aim=f">= {_SAME_AIM}" if held else "",
        limit=Limit(_SAME_AIM, Judged.P50, at_least=True) if held else None,
        note=f"{told}; {note}" if note else told,
    )  # fmt: skip
    if effect.gain:
        gain = Series([sum(effect.gain) / len(effect.gain)])
        yield Measurement(
            f"pruning: change of nDCG@{TOP}, {name}", gain, "", aim=">= 0" if held else "",
            limit=Limit(0.0, Judged.P50, at_least=True) if held else None,
        )  # fmt: skip


def _of_set(data: DataSet) -> Mapping[str, _Effect]:
    count = len(data.documents)
    budgets = {"as shipped": None} | {
        f"budget {share:.0%} of the chunks": max(1, int(share * count))
        for share in (BUDGET_SHARE, 0.5, 1.0)
    }
    with tempfile.TemporaryDirectory(prefix="memtui-pruning-") as folder:
        connection = open_database(Path(folder) / "index.db", bulk=True)
        try:
            names = _indexed(connection, data.documents)
            return {
                label: _compared(connection, data.questions[:most], budget, names)
                for label, budget in budgets.items()
                for most in (None if budget is None else _QUESTIONS_OF_SHARES,)
            }
        finally:
            connection.close()


def _indexed(connection: Connection, documents: Mapping[str, str]) -> dict[int, str]:
    create(connection, None)
    names = dict(enumerate(documents, 1))
    with connection:
        connection.execute(
            "INSERT INTO files(id, path, source, hash, size, mtime_ns, inode, lines, seen_ns) "
            "VALUES(1, 'texts', 'memory', '', 0, 0, 0, 1, 0)"
        )
        connection.executemany(
            "INSERT INTO chunks(id, chunk_id, file_id, start_line, end_line, text, hash, model) "
            "VALUES(?, ?, 1, 1, 1, ?, '', '')",
            [(row, name, documents[name]) for row, name in names.items()],
        )
        connection.executemany(
            "INSERT INTO chunks_fts(rowid, text) VALUES(?, ?)",
            [(row, index_text(documents[name])) for row, name in names.items()],
        )
    return names


def _compared(
    connection: Connection, questions: Sequence[Asked], budget: int | None, names: Mapping[int, str]
) -> _Effect:
    pruning, complete = (KeywordLeg(connection, budget=one) for one in (budget, UNBOUNDED))
    effect = _Effect()
    for question in questions:
        query = parse_query(question.text)
        answers = [leg.search(query, TOP, None) for leg in (pruning, complete)]
        rows = [[hit.rowid for hit in answer.hits] for answer in answers]
        effect.same.append(float(rows[0] == rows[1]))
        effect.pruned.append(float(bool(answers[0].state.facts.get("pruned"))))
        if question.relevant:
            first, second = (_ndcg([names[row] for row in one], question) for one in rows)
            effect.gain.append(first - second)
    return effect


def _ndcg(found: Sequence[str], question: Asked) -> float:
    """Discounted cumulative gain of the first ten over that of the best possible order."""
    gains = [question.relevant.get(name, 0.0) for name in found[:TOP]]
    ideal = sorted(question.relevant.values(), reverse=True)[:TOP]
    best = _discounted(ideal)
    return _discounted(gains) / best if best else 0.0


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))
