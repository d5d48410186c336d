"""Every least change on the demo memory, tried: `python -m tests.counterfactuals [PROFILE ...]`.

For every profile, 30 queries and every chunk that is not in the list, each suggested change is
made and the chunk has to be in the list, and out of it one unit of its last digit nearer to the
present value; where no change of a parameter is offered, no value of a fine grid over it may bring the
chunk in. Lists come from the engine's own search and ranking. Takes some minutes on every core.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from multiprocessing import get_context
from pathlib import Path

from memtui.data import DEMO_PRESENT, DEMO_ROOT
from memtui.engine import Engine
from memtui.model import Decay, Fusion, Mmr, Ranked, Ranking
from memtui.ranking.context import with_weights
from memtui.ranking.counterfactual.change import (
    DEPTH,
    LOGARITHMIC,
    RANGES,
    Change,
    Counterfactuals,
    NoChangeReason,
    Parameter,
    Value,
    apply,
    range_of,
    value_of,
)
from memtui.ranking.profiles import PROFILES
from memtui.settings.schema import Settings
from tests.support.known import DATA

POINTS = 240
"""How many values of each continuous range are tried where no change is offered."""

TRIED: Mapping[str, Ranking] = {
    "memtui": Ranking(),
    "memtui-decay-mmr": Ranking(decay=Decay(enabled=True), mmr=Mmr(enabled=True)),
    **{name: PROFILES[name] for name in ("openclaw-2026.4", "openclaw-2026.9", "memini")},
}
"""The rankings under which everything is tried."""

QUERIES = tuple((DATA / "demo_queries.txt").read_text("utf-8").splitlines())

CONTINUOUS = tuple(parameter for parameter in RANGES if parameter not in DEPTH)


def decimals_of(change: Change) -> int:
    """The decimals of a new value: of the fewest that it can be written with, 2 to 6.

    Of a half-life and an RRF constant at most 6 behind its first digit, from 10 on perhaps none.
    """
    assert isinstance(change.new, (int, float))
    fewest, most = 2, 6
    if change.parameter in LOGARITHMIC:
        most -= math.floor(math.log10(change.new))
        fewest = 0 if change.new >= 10 else 2
    return next((n for n in range(fewest, most) if round(change.new, n) == change.new), most)


def nearer(change: Change) -> float | int | None:
    """One unit of the last decimal from the new value towards the old one.

    `None` for a switch, and within a unit.
    """
    new, old = change.new, change.old
    if isinstance(new, (bool, str)) or new is None or isinstance(old, (bool, str)) or old is None:
        return None
    unit = 1 if change.parameter in DEPTH else 10.0 ** -decimals_of(change)
    if abs(new - old) <= unit and change.parameter not in DEPTH:
        return None
    return new - unit if new > old else new + unit


def grid(ranking: Ranking, parameter: Parameter, points: int) -> Iterator[float]:
    """Evenly spread values over the range of a parameter, both ends among them."""
    low, high = range_of(ranking, parameter)
    for number in range(points + 1):
        part = number / points
        if parameter in LOGARITHMIC:
            yield min(high, max(low, low * (high / low) ** part))
        else:
            yield low + part * (high - low)


def values(ranking: Ranking, parameter: Parameter, points: int) -> Iterable[Value]:
    """What a parameter can be: everything, or a grid of at least so many points over its range."""
    now = value_of(ranking, parameter)
    if isinstance(now, bool):
        return [not now]
    if parameter is Parameter.FUSION:
        return [str(method) for method in Fusion]
    if parameter in CONTINUOUS:
        off = [None] if parameter is Parameter.MIN_SCORE else []
        return [*off, *grid(ranking, parameter, points)]
    low, high = (int(end) for end in RANGES[parameter])
    return range(low, high + 1, max(1, (high - low) // points))


@dataclass(eq=False)
class Claims:
    """The lists that a ranking gives with one parameter changed; each is made once."""

    ranking: Ranking
    list_of: Callable[[Ranking], Mapping[str, int]]
    """Gives the ranks of the list of another ranking."""
    points: int

    def __post_init__(self) -> None:
        self.ranks, self.shown_by = cache(self._ranks), cache(self._shown_by)

    def _ranks(self, parameter: Parameter, value: Value) -> Mapping[str, int]:
        return self.list_of(apply(self.ranking, parameter, value))

    def _shown_by(self, parameter: Parameter) -> dict[str, Value]:
        """Every chunk that some value of a parameter shows, with that value."""
        return {
            chunk_id: value
            for value in values(self.ranking, parameter, self.points)
            for chunk_id in self.ranks(parameter, value)
        }

    def wrong(self, least: Counterfactuals, chunk_id: str) -> Iterator[str]:
        """Try everything that is said of one chunk; yield what is not as it was said."""
        answered = {one.parameter for one in least.changes}
        if answered.union(one.parameter for one in least.without) != set(Parameter):
            yield "not every parameter is answered"
        for change in least.changes:
            place = self.ranks(change.parameter, change.new).get(chunk_id)
            if place != change.rank_after or change.old != value_of(self.ranking, change.parameter):
                yield f"{change} gives rank {place}"
            close = nearer(change)
            if close is not None and chunk_id in self.ranks(change.parameter, close):
                yield f"{change} is not the least: {close} does it too"
        for parameter, reason in ((one.parameter, one.reason) for one in least.without):
            if reason is NoChangeReason.NEW_SEARCH:
                yield f"{parameter} is left open"
            # OpenClaw's decay has no floor: none is offered, although memtui could compute one.
            has_none = reason is NoChangeReason.NOT_USED and parameter is Parameter.FLOOR
            if not has_none and chunk_id in self.shown_by(parameter):
                value = self.shown_by(parameter)[chunk_id]
                yield f"{parameter}: {reason}, but {value} shows it"


@dataclass(eq=False)
class Trial:
    """One query under one ranking on the indexed demo; every search is made once."""

    engine: Engine
    query: str
    ranking: Ranking
    points: int = POINTS

    def __post_init__(self) -> None:
        self.search = cache(self._search)
        ranking = with_weights(self.ranking, self.answer.pool.evidence)
        self.claims = Claims(ranking, self._list, self.points)

    def _search(self, text: str, *, ranking: Ranking) -> Ranked:
        return self.engine.search.ask(text, ranking=ranking)

    def _list(self, changed: Ranking) -> dict[str, int]:
        pool = self.answer.pool
        if changed.candidates != self.ranking.candidates:
            pool = self.search(self.query, ranking=changed).pool
        return self.engine.search.rerank(pool, changed).ranks

    @property
    def answer(self) -> Ranked:
        return self.search(self.query, ranking=self.ranking)

    @cached_property
    def chunk_ids(self) -> list[str]:
        """Every chunk of the index."""
        browse = self.engine.browse
        return [one.id for file in browse.files() for one in browse.chunks_of(file.path)]

    def missing(self) -> list[str]:
        """The chunks of the index that are not in the list, near misses first."""
        shown = {hit.chunk.id for hit in self.answer.hits}
        near = [drop.chunk.id for drop in self.answer.drops]
        return [one for one in dict.fromkeys([*near, *self.chunk_ids]) if one not in shown]

    def check(self, chunk_id: str, tally: Counter[str]) -> list[str]:
        """Try everything that is said of one chunk; return what is not as it was said."""
        places = self.engine.explain.inquire(self.answer, chunk_id).leg_places
        least = self.engine.what_if.least_changes(self.answer, self.ranking, chunk_id, places)
        tally.update(str(change.parameter) for change in least.changes)
        tally.update(chunks=1, changes=len(least.changes), refusals=len(least.without))
        head = f"{self.ranking.profile}: {self.query!r}: {chunk_id[:12]}"
        return [f"{head}: {text}" for text in self.claims.wrong(least, chunk_id)]


def open_demo(data_dir: Path) -> Engine:
    """Open the indexed demo to read, at the end of its story."""
    return Engine.open(
        DEMO_ROOT, Settings(), data_dir=data_dir, now=lambda: DEMO_PRESENT, write=False
    )


def _try_all(task: tuple[str, str, str]) -> tuple[Counter[str], list[str]]:
    folder, name, query = task
    tally: Counter[str] = Counter()
    with open_demo(Path(folder)) as engine:
        trial = Trial(engine, query, TRIED[name])
        return tally, [line for one in trial.missing() for line in trial.check(one, tally)]


def main(names: Sequence[str]) -> int:
    """Try everything; 0 when all of it is as memtui says."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        with Engine.open(DEMO_ROOT, Settings(), data_dir=Path(folder)) as engine:
            engine.index.sync(wait=True)
        with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as workers:
            for name in names or TRIED:
                tally: Counter[str] = Counter()
                for one, wrong in workers.map(_try_all, [(folder, name, q) for q in QUERIES]):
                    tally.update(one)
                    failed += len(wrong)
                    print("\n".join(wrong), end="\n" if wrong else "")
                print(f"{name}: {dict(tally.most_common())}, {failed} wrong", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    # Every core has a process of its own.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main(sys.argv[1:]))
