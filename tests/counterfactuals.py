"""Every least change on the demo memory, tried: `python -m tests.counterfactuals [PROFILE ...]`.

For every profile, 30 queries and every chunk that is not in the list, each suggested change is
made and the chunk has to be in the list, and out of it one step (or 1e-6) nearer to the present
value; where no change of a parameter is offered, no value of a fine grid over it may bring the
chunk in. Lists come from the engine's own search and ranking. Takes some minutes on every core.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path

from memtui.engine import Engine
from memtui.engine.what_if import find_changes
from memtui.memory.workspace import DEMO_PRESENT, demo_root
from memtui.model import CandidatePool, Decay, Fusion, Mmr, Ranked, Ranking
from memtui.ranking.counterfactual import (
    Change,
    NoChange,
    NoChangeReason,
    Parameter,
    apply,
)
from memtui.ranking.counterfactual.change import LOGARITHMIC, RANGES, range_of, value_of
from memtui.settings import Settings

STEP = 1e-6
POINTS = 240
"""How many values of each continuous range are tried where no change is offered."""

_MEMTUI = Ranking()

PROFILES: Mapping[str, Ranking] = {
    "memtui": _MEMTUI,
    "memtui-decay-mmr": replace(_MEMTUI, decay=Decay(enabled=True), mmr=Mmr(enabled=True)),
}

QUERIES = (
    "standup",
    "router VLAN",
    "invoice",
    "Biscuit",
    "cashew",
    "firmware",
    "backup",
    "deploy",
    "Postgres",
    "kimchi",
    "when is the next dentist appointment",
    "what did Ms. Lin say about the hinge",
    "who writes the firmware",
    "how much does a lamp cost now",
    "why was the api down in May",
    "where do we keep the spare key",
    "what is Mai allergic to",
    "how do I roll back a deploy",
    "what should I cook for Minh's mother",
    "when do we fly to Japan",
    "lantern-api v2.4.0",
    "192.168.10.1",
    "rotate-db",
    "memory/projects/lantern/pricing.md",
    "2026-05-06",
    "澄屿灯饰",
    "京都 ホテル",
    "등불",
    "cá kho tộ",
    "xylophone vesicle",
)

CONTINUOUS = tuple(
    parameter
    for parameter in RANGES
    if parameter not in {Parameter.K, Parameter.CANDIDATE_MULTIPLIER}
)


def profiles() -> Mapping[str, Ranking]:
    """The rankings under which everything is tried."""
    from memtui.ranking.profiles import PROFILES as NAMED

    others = ("openclaw-2026.4", "openclaw-2026.9", "memini")
    return {**PROFILES, **{name: NAMED[name] for name in others}}


@dataclass
class Memory:
    """The indexed demo; every search is made once."""

    engine: Engine
    _answers: dict[tuple[str, Ranking], Ranked] = field(default_factory=dict)
    _pools: dict[tuple[str, int], CandidatePool] = field(default_factory=dict)

    def search(self, text: str, *, ranking: Ranking | None = None, typing: bool = False) -> Ranked:
        """Search, or remember the answer."""
        wanted = ranking or self.engine.ranking
        key = (text, wanted)
        if key not in self._answers:
            self._answers[key] = self.engine.search.ask(text, ranking=wanted)
        return self._answers[key]

    def pool(self, text: str, ranking: Ranking) -> CandidatePool:
        """What a search with as many candidates brings."""
        key = (text, ranking.candidates)
        if key not in self._pools:
            self._pools[key] = self.engine.search.ask(text, ranking=ranking).pool
        return self._pools[key]

    @cached_property
    def chunk_ids(self) -> list[str]:
        """Every chunk of the index."""
        root = demo_root()
        paths = sorted(file.relative_to(root).as_posix() for file in root.rglob("*.md"))
        return [found.chunk_id for path in paths for found in self.engine.browse.chunk_ranges(path)]


@dataclass
class Tally:
    """What was tried, and what was not as memtui said."""

    chunks: int = 0
    changes: int = 0
    refusals: int = 0
    values: int = 0
    by_parameter: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Count another tally in."""
        self.chunks += other.chunks
        self.changes += other.changes
        self.refusals += other.refusals
        self.values += other.values
        self.by_parameter.update(other.by_parameter)
        self.wrong += other.wrong


@dataclass
class Trial:
    """One query under one ranking."""

    memory: Memory
    query: str
    ranking: Ranking
    points: int = POINTS
    _lists: dict[tuple[Parameter, object], dict[str, int]] = field(default_factory=dict)
    _shown: dict[Parameter, dict[str, object]] = field(default_factory=dict)

    @property
    def answer(self) -> Ranked:
        return self.memory.search(self.query, ranking=self.ranking)

    def missing(self) -> list[str]:
        """The chunks of the index that are not in the list, near misses first."""
        shown = {hit.chunk.id for hit in self.answer.hits}
        near = [drop.chunk.id for drop in self.answer.drops]
        known = shown | set(near)
        return near + [chunk_id for chunk_id in self.memory.chunk_ids if chunk_id not in known]

    def ranks(self, parameter: Parameter, value: object) -> dict[str, int]:
        """The list with one parameter changed, as the engine gives it."""
        key = (parameter, value)
        if key not in self._lists:
            assert value is None or isinstance(value, (bool, int, float, str))
            changed = apply(self.ranking, parameter, value)
            pool = self.memory.pool(self.query, changed)
            hits = self.memory.engine.search.rerank(pool, changed).hits
            self._lists[key] = {hit.chunk.id: hit.rank for hit in hits}
        return self._lists[key]

    def check(self, chunk_id: str) -> Tally:
        """Try everything that is said of one chunk."""
        tally = Tally(chunks=1)
        places = self.memory.engine.explain.inquire(self.answer, chunk_id).leg_places
        least = find_changes(
            self.memory.search,
            self.answer,
            self.ranking,
            chunk_id,
            places,
            chunks=len(self.memory.chunk_ids),
        )
        answered = {change.parameter for change in least.found.changes}
        answered |= {refusal.parameter for refusal in least.found.without}
        if answered != set(Parameter):
            tally.wrong.append(self._line(chunk_id, "not every parameter is answered"))
        for change in least.found.changes:
            tally.changes += 1
            tally.by_parameter[change.parameter] += 1
            tally.wrong += [
                self._line(chunk_id, text) for text in self._of_change(change, chunk_id)
            ]
        for refusal in least.found.without:
            tally.refusals += 1
            tally.wrong += [self._line(chunk_id, t) for t in self._of_refusal(refusal, chunk_id)]
        return tally

    def _of_change(self, change: Change, chunk_id: str) -> Iterator[str]:
        place = self.ranks(change.parameter, change.new).get(chunk_id)
        if place != change.rank_after:
            yield f"{change} gives rank {place}"
        if change.old != value_of(self.ranking, change.parameter):
            yield f"{change} starts elsewhere"
        close = nearer(change)
        if close is not None and chunk_id in self.ranks(change.parameter, close):
            yield f"{change} is not the least: {close} does it too"

    def _of_refusal(self, refusal: NoChange, chunk_id: str) -> Iterator[str]:
        parameter = refusal.parameter
        if refusal.reason is NoChangeReason.NEW_SEARCH:
            yield f"{parameter} is left open"
        if refusal.reason is NoChangeReason.NOT_USED and parameter is Parameter.FLOOR:
            # OpenClaw's decay has no floor: none is offered, although memtui could compute one.
            return
        shown = self._shown_by(parameter)
        if chunk_id in shown:
            yield f"{parameter}: {refusal.reason}, but {shown[chunk_id]} shows it"

    def _shown_by(self, parameter: Parameter) -> dict[str, object]:
        """Every chunk that some value of a parameter shows, with that value."""
        if parameter not in self._shown:
            found: dict[str, object] = {}
            for value in values(self.ranking, parameter, self.points):
                for chunk_id in self.ranks(parameter, value):
                    found.setdefault(chunk_id, value)
            self._shown[parameter] = found
        return self._shown[parameter]

    @property
    def tried(self) -> int:
        """How many lists were made."""
        return len(self._lists)

    def _line(self, chunk_id: str, text: str) -> str:
        return f"{self.ranking.profile}: {self.query!r}: {chunk_id[:12]}: {text}"


def nearer(change: Change) -> float | int | None:
    """One step from the new value towards the old one; `None` for a switch, or within a step."""
    new, old = change.new, change.old
    if isinstance(new, (bool, str)) or new is None or isinstance(old, (bool, str)) or old is None:
        return None
    if change.parameter in {Parameter.K, Parameter.CANDIDATE_MULTIPLIER}:
        return new - 1 if new > old else new + 1
    step = STEP * new if change.parameter in LOGARITHMIC else STEP
    if abs(new - old) <= step:
        return None
    return new - step if new > old else new + step


def grid(ranking: Ranking, parameter: Parameter, points: int) -> Iterator[float]:
    """Evenly spread values over the range of a parameter, both ends among them."""
    low, high = range_of(ranking, parameter)
    for number in range(points + 1):
        part = number / points
        if parameter in LOGARITHMIC:
            yield min(high, max(low, low * (high / low) ** part))
        else:
            yield low + part * (high - low)


def values(ranking: Ranking, parameter: Parameter, points: int) -> Iterator[object]:
    """What a parameter can be: everything, or a grid of at least so many points over its range."""
    now = value_of(ranking, parameter)
    if isinstance(now, bool):
        yield not now
    elif parameter is Parameter.FUSION:
        yield from (str(method) for method in Fusion)
    elif parameter in CONTINUOUS:
        if parameter is Parameter.MIN_SCORE:
            yield None
        yield from grid(ranking, parameter, points)
    else:
        low, high = (int(end) for end in RANGES[parameter])
        yield from range(low, high + 1, max(1, (high - low) // points))


def open_demo(data_dir: Path) -> Engine:
    """Open the indexed demo to read, at the end of its story."""
    return Engine.open(
        demo_root(), Settings(), data_dir=data_dir, now=lambda: DEMO_PRESENT, write=False
    )


def try_all(
    memory: Memory,
    query: str,
    ranking: Ranking,
    points: int,
    chosen: Callable[[Sequence[str]], Sequence[str]] = tuple,
) -> Tally:
    """Try one query under one ranking, for every chunk that is left out or those `chosen`."""
    trial = Trial(memory, query, ranking, points)
    tally = Tally()
    for chunk_id in chosen(trial.missing()):
        tally.add(trial.check(chunk_id))
    tally.values = trial.tried
    return tally


def _one(task: tuple[str, str, str]) -> Tally:
    folder, name, query = task
    with open_demo(Path(folder)) as engine:
        return try_all(Memory(engine), query, profiles()[name], POINTS)


def main(names: Sequence[str]) -> int:
    """Try everything; 0 when all of it is as memtui says."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        with Engine.open(demo_root(), Settings(), data_dir=Path(folder)) as engine:
            engine.index.sync(wait=True)
        with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as workers:
            for name in names or profiles():
                tally = Tally()
                for one in workers.map(_one, [(folder, name, query) for query in QUERIES]):
                    tally.add(one)
                failed += len(tally.wrong)
                print("\n".join([*tally.wrong, *_summary(name, tally)]), flush=True)
    return int(failed > 0)


def _summary(name: str, tally: Tally) -> tuple[str, str]:
    told = tally.changes + tally.refusals
    return (
        f"{name}: {tally.chunks} chunks left out by {len(QUERIES)} queries, {tally.values} lists "
        f"tried: {told - len(tally.wrong)} of {told} agree ({tally.changes} changes, "
        f"{tally.refusals} without one)",
        "  " + ", ".join(f"{key} {count}" for key, count in tally.by_parameter.most_common()),
    )


if __name__ == "__main__":
    # Every core has a process of its own.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main(sys.argv[1:]))
