"""Numbers as functions of one parameter, near a point: value, slope and a bound on the bend.

A list stays as it is until one of the comparisons that made it changes its sign. Each comparison
is kept as a margin that is now at or above 0; `reach` says how far the parameter may move before
any of them can fall below 0. Where the bend is 0 the margin is linear and the reach is its root;
otherwise f + f'd - bend d²/2 lies below the margin, so its root is never beyond the true one and
repeated steps converge to that quadratically.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from memtui.model import CandidatePool, Leg, Ranking, TieRule
from memtui.ranking import stages
from memtui.ranking.fusion import FusedRow, fuse, is_vector_only_media
from memtui.ranking.mmr import overlap_matrix
from memtui.ranking.stages import StageState, dates_of

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]
Flags: TypeAlias = NDArray[np.bool_]

ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""Differences below this part of the numbers compared are rounding, not order."""


class Curve(Struct, frozen=True):
    """Functions of the parameter: arrays of one shape; `bend` bounds |second derivative|."""

    value: Floats
    slope: Floats
    bend: Floats

    def __getitem__(self, chosen: Indices | int) -> Curve:
        return Curve(self.value[chosen], self.slope[chosen], self.bend[chosen])

    def __add__(self, other: Curve) -> Curve:
        return Curve(self.value + other.value, self.slope + other.slope, self.bend + other.bend)

    def scaled(self, factor: Floats | float) -> Curve:
        """Multiply by what does not depend on the parameter."""
        return Curve(self.value * factor, self.slope * factor, self.bend * np.abs(factor))

    def times(self, other: Curve) -> Curve:
        """Return the product; the bend holds the cross term at this point."""
        return Curve(
            self.value * other.value,
            self.slope * other.value + self.value * other.slope,
            self.bend * np.abs(other.value)
            + np.abs(self.value) * other.bend
            + 2 * np.abs(self.slope * other.slope),
        )

    def minus(self, other: Curve) -> Curve:
        """Return the difference, exactly 0 where nothing but rounding is left of it."""
        value, slope = self.value - other.value, self.slope - other.slope
        size = np.maximum(np.abs(self.value), np.abs(other.value))
        steepness = np.maximum(np.abs(self.slope), np.abs(other.slope))
        same = (np.abs(value) <= ROUNDING * size) & (np.abs(slope) <= ROUNDING * steepness)
        return Curve(
            np.where(same, 0.0, value),
            np.where(same, 0.0, slope),
            np.where(same, 0.0, self.bend + other.bend),
        )

    def sided(self) -> Curve:
        """Return the margin to 0, from whichever side it is on."""
        return self.scaled(np.where(self.value < 0, -1.0, 1.0))


def constant(value: Floats | float) -> Curve:
    """Return what does not depend on the parameter."""
    array = np.asarray(value, dtype=np.float64)
    nothing = np.zeros_like(array)
    return Curve(array, nothing, nothing)


def reaches(margins: Curve, direction: int) -> Floats:
    """Return how far the parameter can move before each margin can be below 0; infinite if never.

    `direction` is 1 upwards, -1 downwards. A margin that is 0 and falls reaches 0.
    """
    room = np.maximum(margins.value, 0.0)
    speed = -direction * margins.slope
    bend = margins.bend
    root = np.sqrt(speed * speed + 2 * room * bend)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        nearing = 2 * room / (speed + root)
        leaving = (root - speed) / bend
    reached = np.where(speed > 0, nearing, leaving)
    reached_at: Floats = np.where((speed <= 0) & (bend == 0), np.inf, reached)
    return reached_at


def reach(margins: Sequence[Curve], direction: int) -> float:
    """Return how far the parameter can move before any margin can be below 0."""
    each = (reaches(margin, direction) for margin in margins if margin.value.size)
    return min((float(one.min()) for one in each), default=float("inf"))


class Part(Struct, frozen=True):
    """One leg's side of the candidates: mapped score and place, 0 where the leg has none."""

    present: Flags
    mapped: Floats
    place: Floats


@dataclass(frozen=True)
class Columns:
    """The candidates of one pool under one ranking, by row as fusion names them."""

    pool: CandidatePool
    ranking: Ranking
    now: datetime
    rows: list[FusedRow]
    vector: Part
    keyword: Part
    row_of: dict[str, int]
    factors: dict[tuple[float, float], Floats] = field(default_factory=dict)
    """Decay factors by half-life and floor."""

    @cached_property
    def state(self) -> StageState:
        scores = [row.score for row in self.rows]
        return StageState(self.pool, self.ranking, self.now, self.rows, scores, range(len(scores)))

    def _flags(self, test: Callable[[FusedRow], object]) -> Flags:
        return np.array([test(row) for row in self.rows], dtype=bool)

    def _numbers(self, value: Callable[[FusedRow], float]) -> Floats:
        return np.array([value(row) for row in self.rows], dtype=np.float64)

    @cached_property
    def media(self) -> Flags:
        """Vector-only hits on files that are not text, whose vector score counts whole."""
        keeps = self.ranking.media_keeps_vector
        return self._flags(lambda row: keeps and is_vector_only_media(row.chunk, row.parts))

    @cached_property
    def ages(self) -> list[float | None]:
        days = (day for day, _ in dates_of(self.state))
        return [None if day is None else (self.now - day) / stages.DAY for day in days]

    @cached_property
    def aged(self) -> Floats:
        """Ages in days, 0 for what does not age."""
        return np.array([max(0.0, age or 0.0) for age in self.ages], dtype=np.float64)

    @cached_property
    def ageless(self) -> Flags:
        return np.array([age is None for age in self.ages], dtype=bool)

    @cached_property
    def importance(self) -> Floats:
        return self._numbers(lambda row: stages.importance_multiplier(row.chunk.importance))

    @cached_property
    def project(self) -> Floats:
        active = self.ranking.project_keys
        return self._numbers(lambda row: stages.project_multiplier(row.chunk.project_keys, active))

    @cached_property
    def lost(self) -> Flags:
        """Candidates whose project annotation could not be read."""
        return self._flags(lambda row: stages.INVALID_PROJECT in row.chunk.project_keys)

    @cached_property
    def recency_part(self) -> Floats:
        weights = self.ranking.rerank
        values = [stages.recency(age or 0.0, weights.recency_scale_days) for age in self.ages]
        return weights.recency * np.array(values)

    @cached_property
    def importance_part(self) -> Floats:
        importances = [row.chunk.importance for row in self.rows]
        values = [stages.NEUTRAL_IMPORTANCE if value is None else value for value in importances]
        parts: Floats = self.ranking.rerank.importance * np.clip(np.array(values), 0.0, 1.0)
        return parts

    @cached_property
    def text(self) -> Indices:
        """Equal numbers for equal texts."""
        return _numbered(stages.text_key(row.chunk) for row in self.rows)

    @cached_property
    def tier(self) -> Indices:
        return np.array([row.path_tier for row in self.rows], dtype=np.intp)

    @cached_property
    def lexical(self) -> Floats:
        """The private score of body matches without a BM25 value."""
        return np.array([self.state.lexical_rank(index) for index in range(len(self.rows))])

    @cached_property
    def body(self) -> Flags:
        return self._flags(lambda row: row.keyword_hit and row.keyword_hit.has_body)

    @cached_property
    def place(self) -> Indices:
        """The order of equal scores where the location decides; equal where it does not."""
        if self.ranking.tie_rule is not TieRule.LOCATION:
            return np.zeros(len(self.rows), dtype=np.intp)
        keys = [self.state.location(index) for index in range(len(self.rows))]
        ordinal = {key: number for number, key in enumerate(sorted(set(keys)))}
        return np.array([ordinal[key] for key in keys], dtype=np.intp)

    @cached_property
    def range(self) -> Indices:
        """Equal numbers for equal ranges of lines of one file."""
        chunks = (row.chunk for row in self.rows)
        return _numbered((one.source, one.path, one.start_line, one.end_line) for one in chunks)

    @cached_property
    def named(self) -> Flags:
        """Candidates whose range of lines the keyword leg found."""
        flags: Flags = np.isin(self.range, self.range[self.keyword.present])
        return flags

    @cached_property
    def fillable(self) -> Flags:
        """Candidates that may fill free places although they are below the minimum."""
        flags: Flags = self.named & (self.vector.mapped == 0)
        return flags

    @cached_property
    def overlap(self) -> Floats:
        """The similarity of every two candidates."""
        matrix: Floats = overlap_matrix(self.state, range(len(self.rows)))
        return matrix

    @cached_property
    def nearest(self) -> Floats:
        """The greatest similarity of each candidate to any other."""
        others = self.overlap.copy()
        np.fill_diagonal(others, 0.0)
        highest: Floats = others.max(axis=1)
        return highest


def _numbered(keys: Iterable[Hashable]) -> Indices:
    """Return equal numbers for equal keys."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)


def columns_of(pool: CandidatePool, ranking: Ranking, now: datetime) -> Columns:
    """Lay out the candidates that a ranking takes from a pool."""
    rows, _ = fuse(pool, ranking)
    row_of = {row.chunk.id: index for index, row in enumerate(rows)}
    vector, keyword = (_part(rows, leg) for leg in (Leg.VECTOR, Leg.KEYWORD))
    return Columns(pool, ranking, now, rows, vector, keyword, row_of)


def _part(rows: list[FusedRow], leg: Leg) -> Part:
    present = np.zeros(len(rows), dtype=bool)
    mapped, place = np.zeros(len(rows)), np.zeros(len(rows))
    for index, row in enumerate(rows):
        for part, hit, value, _ in row.parts:
            if part is leg:
                present[index], mapped[index], place[index] = True, value, hit.position
    return Part(present, mapped, place)
