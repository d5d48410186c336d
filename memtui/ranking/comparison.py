"""Two rankings side by side: where each chunk stands, what differs, and which step decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import TypeAlias

from memtui.model import Drop, Hit, Leg, Ranking, Stage

Setting: TypeAlias = float | int | bool | str | None
_NAMES = {"lambda_": "lambda"}


@dataclass(frozen=True, slots=True)
class Pair:
    """Where a chunk stands in two lists; ranks are 1-based, `None` is not in that list."""

    chunk_id: str
    first: int | None
    second: int | None

    @property
    def gained(self) -> int:
        """Places gained (above 0) or lost from the first list to the second; 0 unless in both."""
        if self.first is None or self.second is None:
            return 0
        return self.first - self.second


@dataclass(frozen=True, slots=True)
class ListComparison:
    """Every chunk of two lists: those of the second in its order, then those that it has not."""

    pairs: tuple[Pair, ...]

    @property
    def moved(self) -> int:
        """How many chunks of both lists stand elsewhere."""
        return sum(pair.gained != 0 for pair in self.pairs)

    @property
    def entered(self) -> int:
        """How many chunks only the second list has."""
        return sum(pair.first is None for pair in self.pairs)

    @property
    def left(self) -> int:
        """How many chunks only the first list has."""
        return sum(pair.second is None for pair in self.pairs)

    @property
    def same(self) -> bool:
        """Whether both lists are the same chunks in the same order."""
        return not (self.moved or self.entered or self.left)


def compare_lists(first: Sequence[Hit], second: Sequence[Hit]) -> ListComparison:
    """Put two result lists side by side, chunk by chunk."""
    before = {hit.chunk.id: hit.rank for hit in first}
    after = {hit.chunk.id: hit.rank for hit in second}
    pairs = [Pair(chunk_id, before.get(chunk_id), rank) for chunk_id, rank in after.items()]
    pairs += [
        Pair(chunk_id, rank, None) for chunk_id, rank in before.items() if chunk_id not in after
    ]
    return ListComparison(tuple(pairs))


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """One parameter that two rankings set differently; `name` is its key in the settings."""

    name: str
    first: Setting
    second: Setting


def compare_settings(first: Ranking, second: Ranking) -> tuple[SettingDifference, ...]:
    """The parameters that differ, in the order in which a ranking names them."""
    other = dict(_flat(second))
    return tuple(
        SettingDifference(name, value, other[name])
        for name, value in _flat(first)
        if value != other[name]
    )


def _flat(values: object, prefix: str = "") -> list[tuple[str, Setting]]:
    """The fields of a dataclass and of those in it: `mmr.lambda`; tuples as one text."""
    assert is_dataclass(values)
    flat: list[tuple[str, Setting]] = []
    for field in fields(values):
        name = prefix + _NAMES.get(field.name, field.name)
        value = getattr(values, field.name)
        if is_dataclass(value):
            flat += _flat(value, f"{name}.")
        elif isinstance(value, tuple):
            flat.append((name, ", ".join(str(one) for one in value)))
        else:
            flat.append((name, str(value) if isinstance(value, Enum) else value))
    return flat


def better(first: Hit | Drop, second: Hit | Drop) -> Hit | Drop:
    """Which of two results of one ranked pool came further: in the list, else lost later."""
    return min(first, second, key=_progress)


def _progress(scored: Hit | Drop) -> tuple[int, int, int]:
    if isinstance(scored, Hit):
        return 0, scored.rank, 0
    return 1, -len(scored.stages), scored.stages[-1].rank if scored.stages else 0


def deciding_step(first: Hit | Drop, second: Hit | Drop) -> Leg | Stage | None:
    """The step that made the better one of two results of one ranked pool the better one.

    The stage that lost the other one, where one did before the cut; else the stage after which
    their order stayed what it is. Where fusion already had it, the leg that gave the better one
    the most beyond what it gave the other. `None` for one result with itself, and where neither
    was a candidate.
    """
    if first.chunk.id == second.chunk.id:
        return None
    winner = better(first, second)
    loser = second if winner is first else first
    if not winner.stages:
        return None
    if isinstance(loser, Drop) and loser.stage is not Stage.CUT:
        lost_together = isinstance(winner, Drop) and winner.stage is loser.stage
        if not lost_together:
            return loser.stage
    return _overtaking(winner, loser) or _leading_leg(winner, loser)


def _overtaking(winner: Hit | Drop, loser: Hit | Drop) -> Stage | None:
    """The stage that brought the better one before the other for good; `None`: fusion did."""
    there = {stage.stage: stage.rank for stage in loser.stages}
    decided: Stage | None = None
    behind = False
    for stage in winner.stages:
        if stage.stage not in there:
            continue
        ahead = stage.rank <= there[stage.stage]
        if behind and ahead:
            decided = stage.stage
        behind = not ahead
    return decided


def _leading_leg(winner: Hit | Drop, loser: Hit | Drop) -> Leg:
    def lead(leg: Leg) -> float:
        parts = (one.legs.get(leg) for one in (winner, loser))
        mine, others = (part.contribution if part is not None else 0.0 for part in parts)
        return mine - others

    return max(Leg, key=lead)
