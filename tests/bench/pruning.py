"""What leaving out frequent words does to the order of hits, against the whole query by FTS5.

On the questions of the data sets that `MEMTUI_BENCH_DATA` names (see `texts`), and on generated
notes of the sizes that are asked for. A data set is smaller than the budget, so that the plan of
the product prunes nothing there; the other rows hold the budget to shares of the chunks, as a large
index would.
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
from memtui.retrieval.legs import LegAnswer
from memtui.retrieval.query import parse_query
from memtui.text.tokens import index_text
from tests.bench.corpus import Corpus
from tests.bench.limits import Judged, Limit
from tests.bench.measure import Measurement, Plan, Series
from tests.bench.stores import store
from tests.bench.texts import VARIABLE, Asked, DataSet, data_folder, data_sets

TOP = 10
UNBOUNDED = 2**62
_GENERATED_QUESTIONS = 200
_LARGE, _QUESTIONS_OF_LARGE = 1_000_000, 30
"""Where FTS5 takes seconds for the whole query."""
_SAME_AIM = 0.99
_SHIPPED = "as shipped"
_QUESTIONS_OF_SHARES = 100
"""Of each data set, for budgets that are not the product's."""


@dataclass(slots=True)
class _Effect:
    """What one budget did to the questions of some data sets."""

    same: list[float] = field(default_factory=list)
    pruned: list[float] = field(default_factory=list)
    gain: list[float] = field(default_factory=list)
    """nDCG@10 pruned minus unpruned."""

    def add(self, other: _Effect) -> None:
        """Count the questions of another data set too."""
        self.same += other.same
        self.pruned += other.pruned
        self.gain += other.gain


def measure_pruning(plan: Plan) -> Iterator[Measurement]:
    """The share of questions with an identical top 10, and the change of nDCG@10."""
    folder = data_folder()
    effects: dict[tuple[str, str], _Effect] = {}
    for data in data_sets(folder) if folder is not None else ():
        for budget, effect in _of_set(data).items():
            effects.setdefault((data.name.split()[0], budget), _Effect()).add(effect)
    for (name, budget), effect in effects.items():
        yield from _told(f"{name}, {budget}", effect, held=budget == _SHIPPED)
    yield from _generated(plan, f"{VARIABLE} names no folder of data sets" if not effects else "")


def _generated(plan: Plan, note: str) -> Iterator[Measurement]:
    """On generated notes, of which large indexes are made."""
    corpus = Corpus()
    questions = [Asked(one.text, {}) for one in corpus.questions(_GENERATED_QUESTIONS)]
    for size in plan.sizes:
        connection = open_database(store(corpus, size, plan.place).database, readonly=True)
        most = _QUESTIONS_OF_LARGE if size >= _LARGE else None
        try:
            effect = _compared(connection, questions[:most], None, {})
        finally:
            connection.close()
        yield from _told(f"generated, {size:,}", effect, held=False, note=note)


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
    budgets = {_SHIPPED: None} | {
        f"budget {share:.0%} of the chunks": max(1, int(share * count))
        for share in (0.12, 0.5, 1.0)
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
    effect = _Effect()
    whole_leg, leg = (KeywordLeg(connection, budget=one) for one in (UNBOUNDED, budget))
    for question in questions:
        query = parse_query(question.text)
        whole = _rows(whole_leg.search(query, TOP, None))
        answer = leg.search(query, TOP, None)
        rows = _rows(answer)
        effect.same.append(float(rows == whole))
        effect.pruned.append(float(bool(answer.state.facts.get("pruned"))))
        if question.relevant:
            ours, theirs = (_ndcg([names[row] for row in one], question) for one in (rows, whole))
            effect.gain.append(ours - theirs)
    return effect


def _rows(answer: LegAnswer) -> list[int]:
    return [hit.rowid for hit in answer.hits]


def _ndcg(found: Sequence[str], question: Asked) -> float:
    """Discounted cumulative gain of the first ten over that of the best possible order."""
    gains = [question.relevant.get(name, 0.0) for name in found[:TOP]]
    ideal = sorted(question.relevant.values(), reverse=True)[:TOP]
    best = _discounted(ideal)
    return _discounted(gains) / best if best else 0.0


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))
