"""Walking along one parameter from change to change of the list.

From a value the list stays the same as far as its margins reach. The walk goes there, looks at
the value itself (where two candidates are equal, and the tie rule decides) and just beyond, and
goes on. So every stretch on which the list differs is seen, down to stretches of 1e-9 of the
range (of the value itself for the half-life and the RRF constant). Under MMR most margins decide
nothing that shows: where `strides` proves that nothing happens, the walk goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memtui.ranking.counterfactual.axis import Axis, rounded
from memtui.ranking.counterfactual.strides import Strides


@dataclass(frozen=True, slots=True)
class Stretch:
    """Values between which the list is the same; one value alone where candidates are equal.

    `start` and `end` are coordinates in the direction of the walk. `rows` is `None` where
    only so much is known: the row that was asked for is not in the list.
    """

    start: float
    end: float
    rows: tuple[int, ...] | None


def walk(axis: Axis, start: float, direction: int, target: int | None = None) -> Iterator[Stretch]:
    """The stretches from a coordinate to the end of the range.

    With a `target` only whether that row is in the list is kept exact, not the order.
    """
    low, high = axis.bounds
    end = high if direction > 0 else low
    here, stuck = start + direction * axis.step(start), 0
    since = start
    strides = Strides(axis, end, direction, target)
    while direction * (end - here) > 0:
        look = strides.look(here)
        far, shortest = look.far, axis.step(here)
        there = here + direction * far
        # Where scores bend, the bound is safe but seldom the change itself.
        goes_on = look.is_proof or (axis.is_bent and far > shortest and there != here)
        if goes_on and direction * (end - there) > 0:
            stuck = 0
            yield Stretch(since, there, look.rows)
            here = since = there
            continue
        if direction * (end - there) <= 0:
            yield Stretch(since, end, look.rows)
            break
        yield Stretch(since, there, look.rows)
        yield Stretch(there, there, axis.rows(rounded(axis, there)))
        stuck = stuck + 1 if far <= shortest else 0
        here = there + direction * shortest * 2 ** max(0, stuck - 3)
        since = there
    yield Stretch(end, end, axis.rows(rounded(axis, end)))
