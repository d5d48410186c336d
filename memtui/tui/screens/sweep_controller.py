"""What a sweep can vary, where its order flips, and a first picture of it: no Textual here."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from time import perf_counter

from textual.content import Content

from memtui.errors import Cancelled
from memtui.model import CandidatePool, Ranked, Ranking, SearchMode
from memtui.ranking.counterfactual import Parameter, Segment, Sweep, apply, sweep
from memtui.ranking.counterfactual.change import LOGARITHMIC, range_of, value_of
from memtui.ranking.counterfactual.solve import Problem, is_used
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import for_mode
from memtui.tui import format as fmt
from memtui.tui.glyphs import ASCII, Glyphs
from memtui.tui.widgets.chart import Axis, Line, Mark, Span, Traced

PARAMETERS: Mapping[Parameter, str] = {
    Parameter.VECTOR_WEIGHT: "vector",
    Parameter.LAMBDA: "λ",
    Parameter.HALF_LIFE: "half-life",
    Parameter.FLOOR: "floor",
    Parameter.MIN_SCORE: "min",
    Parameter.K: "k",
    Parameter.RRF_K: "RRF k",
}
"""What can be swept, with its name, in the order of the keys 1 to 7."""
TITLES: Mapping[Parameter, str] = {
    Parameter.VECTOR_WEIGHT: "the vector weight",
    Parameter.LAMBDA: "λ, relevance↔variety",
    Parameter.HALF_LIFE: "the half-life",
    Parameter.FLOOR: "the floor of decay",
    Parameter.MIN_SCORE: "the minimum score",
    Parameter.K: "k",
    Parameter.RRF_K: "the constant of RRF",
}
_SWITCHED: Mapping[Parameter, tuple[Parameter, bool, str]] = {
    Parameter.LAMBDA: (Parameter.MMR, True, "with MMR on"),
    Parameter.HALF_LIFE: (Parameter.DECAY, True, "with decay on"),
    Parameter.FLOOR: (Parameter.DECAY, True, "with decay on"),
}
"""What has to be on for a parameter to do something."""
SAMPLES = (5, 9, 17, 33)
SAMPLE_SECONDS = 0.06
"""After so long the first picture is drawn with the values that were looked at by then."""
_DIGITS = 12
_FINE = 100
"""Fine steps from one end of an axis to the other."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One parameter of one ranking that can be swept."""

    parameter: Parameter
    ranking: Ranking
    """The ranking with what the parameter needs switched on."""
    low: float
    high: float
    note: str = ""
    """What was switched on for it."""

    @property
    def whole(self) -> bool:
        """Whether the values are whole numbers."""
        return self.parameter is Parameter.K

    @property
    def logarithmic(self) -> bool:
        """Whether a doubling is the same step wherever it starts."""
        return self.parameter in LOGARITHMIC

    @property
    def now(self) -> float | None:
        """The present value; `None` for a minimum score that is off."""
        value = value_of(self.ranking, self.parameter)
        return float(value) if isinstance(value, (int, float)) else None

    def within(self, pool: CandidatePool) -> Subject:
        """The same with the values of k that the pool holds candidates for."""
        if not self.whole:
            return self
        held = held_values(self, pool)
        return replace(self, low=held[0], high=held[-1])

    def at(self, value: float) -> Ranking:
        """The ranking with the parameter at a value."""
        return apply(self.ranking, self.parameter, int(value) if self.whole else value)


def subject(ranking: Ranking, parameter: Parameter, mode: SearchMode) -> Subject | None:
    """A parameter to sweep, its stage switched on where it is off.

    `None` where this profile does not use it with the legs that can search.
    """
    low, high = range_of(ranking, parameter)
    if is_used(for_mode(ranking, mode), parameter):
        return Subject(parameter, ranking, low, high)
    if parameter in _SWITCHED:
        switch, value, note = _SWITCHED[parameter]
        on = apply(ranking, switch, value)
        if is_used(for_mode(on, mode), parameter):
            return Subject(parameter, on, low, high, note)
    return None


def list_at(pool: CandidatePool, chosen: Subject, value: float, now: datetime) -> Ranked:
    """The list at a value, by the ranking itself."""
    return rank(pool, for_mode(chosen.at(value), pool.search_mode), now=now)


def sampled(
    chosen: Subject, values: Sequence[float], ranks: Sequence[Mapping[str, int]], ids: Sequence[str]
) -> Sweep:
    """A sweep drawn from the lists at some values, ascending: each flip lies where it can be.

    Between two values whose lists differ the flip is put in the middle; a whole number takes its
    own list.
    """
    edges = [values[0]]
    for before, after in pairwise(values):
        if chosen.whole:
            edges.append(after)
        elif chosen.logarithmic:
            edges.append(math.sqrt(before * after))
        else:
            edges.append((before + after) / 2)
    edges.append(values[-1])
    found: dict[str, tuple[Segment, ...]] = {}
    for chunk_id in ids:
        segments: list[Segment] = []
        for index, there in enumerate(ranks):
            place, end = there.get(chunk_id), edges[index + 1]
            if segments and segments[-1].rank == place:
                segments[-1] = Segment(segments[-1].start, end, place)
            else:
                segments.append(Segment(edges[index], end, place))
        found[chunk_id] = tuple(segments)
    return Sweep(chosen.parameter, values[0], values[-1], found)


def sample_values(chosen: Subject, count: int, pool: CandidatePool) -> list[float]:
    """Values from the lowest to the highest, evenly on the axis; of k those that the pool holds."""
    if chosen.whole:
        held = held_values(chosen, pool)
        step = max(1, math.ceil(len(held) / count))
        return [*held[:-1:step], held[-1]]
    shares = [index / (count - 1) for index in range(count)]
    if chosen.logarithmic:
        return [chosen.low * math.pow(chosen.high / chosen.low, share) for share in shares]
    return [chosen.low + share * (chosen.high - chosen.low) for share in shares]


def first_picture(pool: CandidatePool, chosen: Subject, now: datetime, ids: Sequence[str]) -> Sweep:
    """The lists at evenly spread values, fewer of them where ranking takes long."""
    started = perf_counter()
    known: dict[float, dict[str, int]] = {}
    wanted = (value for count in SAMPLES for value in sample_values(chosen, count, pool))
    for value in wanted:
        if len(known) >= SAMPLES[0] and perf_counter() - started > SAMPLE_SECONDS:
            break
        if value not in known:
            hits = list_at(pool, chosen, value, now).hits
            known[value] = {hit.chunk.id: hit.rank for hit in hits}
    values = sorted(known)
    return sampled(chosen, values, [known[value] for value in values], ids)


def exact(
    ranked: Ranked, chosen: Subject, ids: Sequence[str], is_cancelled: Callable[[], bool]
) -> Sweep:
    """Every flip where it is; raises `Cancelled` when nobody wants to know any more."""

    def going_on(part: float) -> None:
        if is_cancelled():
            raise Cancelled

    return sweep(
        ranked.pool,
        chosen.ranking,
        chosen.parameter,
        ids,
        now=ranked.trace.now,
        mode=ranked.pool.search_mode,
        progress=going_on,
    )


def held_values(chosen: Subject, pool: CandidatePool) -> list[float]:
    """The values of k whose candidates the pool holds, ascending; the present one at least."""
    problem = Problem(pool, chosen.ranking, "", datetime.min, pool.search_mode)
    values = range(int(chosen.low), min(int(chosen.high), len(pool.chunks)) + 1)
    held = [
        float(value)
        for value in values
        if not problem.needs_search(problem.changed(chosen.parameter, value))
    ]
    return held or [chosen.now or chosen.low]


def flips(sweep: Sweep) -> tuple[float, ...]:
    """The values at which a chunk of the sweep changes its rank, enters or leaves; ascending."""
    starts = {segment.start for segments in sweep.ranks.values() for segment in segments[1:]}
    return tuple(sorted(starts))


def changes_at(sweep: Sweep, flip: float) -> dict[str, tuple[int | None, int | None]]:
    """The ranks just below and just above a flip, of the chunks that change there."""
    found: dict[str, tuple[int | None, int | None]] = {}
    for chunk_id, segments in sweep.ranks.items():
        starts = [segment.start for segment in segments]
        index = bisect_left(starts, flip)
        if 0 < index < len(segments) and starts[index] == flip:
            found[chunk_id] = segments[index - 1].rank, segments[index].rank
    return found


def beyond_flip(sweep: Sweep, chosen: Subject, value: float, direction: int) -> float | None:
    """The nearest value on the other side of the next flip; `None` where there is none.

    The number with the fewest digits in the stretch behind the flip, as near to it as they allow:
    at the flip itself either order may hold.
    """
    known = flips(sweep)
    if direction > 0:
        index = bisect_right(known, value)
        if index == len(known):
            return None
        end = known[index + 1] if index + 1 < len(known) else sweep.high
        return known[index] if chosen.whole else tidy(known[index], end, first=True)
    index = bisect_right(known, value) - 1 if chosen.whole else bisect_left(known, value) - 1
    if index < 0:
        return None
    if chosen.whole:
        return known[index] - 1
    return tidy(known[index - 1] if index > 0 else sweep.low, known[index], first=False)


def next_flip(sweep: Sweep, chosen: Subject, value: float, direction: int) -> float | None:
    """The next value at which the order flips, above or below; `None` where there is none."""
    known = flips(sweep)
    if direction > 0:
        index = bisect_right(known, value)
        return known[index] if index < len(known) else None
    index = bisect_right(known, value) - 1 if chosen.whole else bisect_left(known, value) - 1
    return known[index] if index >= 0 else None


def tidy(low: float, high: float, *, first: bool) -> float:
    """A number strictly between two others with few digits, near the first or the second one.

    Two decimals below 10, none above, more only where nothing else lies between; the middle where
    twelve significant digits do not tell them apart.
    """
    near = low if first else high
    size = math.ceil(math.log10(abs(near))) if abs(near) >= 1 else 0
    for digits in range(0 if size > 1 else 2, _DIGITS - size + 1):
        unit = 10.0**-digits
        steps = math.floor(low / unit) + 1 if first else math.ceil(high / unit) - 1
        found = round(steps * unit, digits)
        if low < found < high:
            return found
    return (low + high) / 2


def fine_step(chosen: Subject, value: float, direction: int) -> float:
    """One hundredth of the axis further, within it; the next whole number for k."""
    if chosen.whole:
        return min(max(value + direction, chosen.low), chosen.high)
    if chosen.logarithmic:
        moved = value * math.pow(chosen.high / chosen.low, direction / _FINE)
        if value >= 10 or moved >= 10:
            moved = float(math.floor(moved) if direction < 0 else math.ceil(moved))
        else:
            moved = round(moved, 1)
    else:
        moved = round(value + direction * (chosen.high - chosen.low) / _FINE, 4)
    return min(max(moved, chosen.low), chosen.high)


def value_text(parameter: Parameter, value: float | None) -> str:
    """A value with its unit, all of its digits but no noise: `0.4713`, `30 d`, `off`."""
    if value is None:
        return "off"
    text = fmt.short_number(value, 0 if value >= 1000 else 9)
    if parameter in _HUNDREDTHS and len(text.partition(".")[2]) < 2:
        text = f"{value:.2f}"
    return f"{text} d" if parameter is Parameter.HALF_LIFE else text


_HUNDREDTHS = frozenset(
    {Parameter.VECTOR_WEIGHT, Parameter.LAMBDA, Parameter.FLOOR, Parameter.MIN_SCORE}
)


def ticks(chosen: Subject) -> tuple[tuple[float, str], ...]:
    """The numbers below an axis."""
    if chosen.parameter is Parameter.HALF_LIFE:
        days = ((1, "1d"), (7, "7d"), (30, "30d"), (365, "1y"), (3650, "10y"), (36500, "100y"))
        return tuple((float(value), label) for value, label in days)
    if chosen.logarithmic:
        return tuple((10.0**power, f"{10.0**power:g}") for power in range(-2, 5))
    if chosen.whole:
        low, high = int(chosen.low), int(chosen.high)
        step = next(step for step in (1, 2, 5, 10, 20, 50) if high / step <= 12 or step == 50)
        values = [low, *(value for value in range(step, high + 1, step) if value > low)]
        return tuple((float(value), str(value)) for value in dict.fromkeys(values))
    quarters = [chosen.low + (chosen.high - chosen.low) * part / 4 for part in (0, 4, 2, 1, 3)]
    return tuple((value, fmt.short_number(value, 3)) for value in quarters)


_NAMED = 4
"""Chunks that are named at a flip; more are counted."""


@dataclass(frozen=True, slots=True)
class SweepView:
    """A sweep with a cursor, as it is on screen; `sweep` is `None` until something is known."""

    subject: Subject
    sweep: Sweep | None
    exact: bool
    traced: Mapping[str, Traced]
    cursor: float
    configured: Ranking
    glyphs: Glyphs
    chosen: str | None = None
    """The chunk whose line is followed."""

    @property
    def axis(self) -> Axis:
        """The axis of the values."""
        subject = self.subject
        return Axis(subject.low, subject.high, subject.logarithmic, ticks(subject))

    def lines(self) -> list[Line]:
        """One line for each chunk that is followed."""
        return [self._line(one) for one in self.traced.values()] if self.sweep else []

    def _line(self, traced: Traced) -> Line:
        assert self.sweep is not None
        segments: tuple[Segment, ...] = self.sweep.ranks[traced.chunk.id]
        ends = [one.end for one in segments]
        if self.subject.whole:
            # Between two whole numbers nothing lies: the line changes at the second one.
            ends = [*(one.start for one in segments[1:]), *ends[-1:]]
        spans = tuple(
            Span(one.start, end, one.rank) for one, end in zip(segments, ends, strict=True)
        )
        return Line(traced.letter, traced.style, spans, traced.chunk.id == self.chosen)

    def marks(self) -> list[Mark]:
        """The cursor, the present value and the configured one, in this order."""
        glyphs = ("│┆┊", "▲△◇") if self.glyphs is not ASCII else ("|:.", "^nc")
        subject, parameter = self.subject, self.subject.parameter
        word = "off" if subject.note else "now"
        configured = value_of(self.configured, parameter)
        wanted = [
            (self.cursor, "", "$primary bold"),
            (subject.now, f"{word} ", "$state-ok"),
            (configured, "config ", fmt.MUTED),
        ]
        marks: list[Mark] = []
        for stroke, foot, (value, name, style) in zip(*glyphs, wanted, strict=True):
            number = isinstance(value, (int, float))
            if not number or any(mark.value == value for mark in marks):
                continue
            assert isinstance(value, (int, float))
            label = f"{name}{value_text(parameter, float(value))}"
            marks.append(Mark(float(value), stroke, foot, label, style))
        return marks

    def flip_lines(self) -> list[Content]:
        """What happens at the next flip to the left, and at the one to the right."""
        if self.sweep is None:
            return []
        arrows = ("←", "→") if self.glyphs is not ASCII else ("<", ">")
        lines = []
        for arrow, direction in zip(arrows, (-1, 1), strict=True):
            flip = next_flip(self.sweep, self.subject, self.cursor, direction)
            head = Content.styled(f"{arrow} ", "$primary bold")
            if flip is None:
                lines.append(head + Content.styled("no flip", fmt.MUTED))
                continue
            about = "" if self.exact else "~"
            value = f"{about}{value_text(self.subject.parameter, flip)}  "
            lines.append(head + Content.styled(value, "bold") + self._changes(flip, direction))
        return lines

    def _changes(self, flip: float, direction: int) -> Content:
        assert self.sweep is not None
        found = changes_at(self.sweep, flip)
        named = [one for one in self.traced.values() if one.chunk.id in found][:_NAMED]
        parts = []
        for one in named:
            below, above = found[one.chunk.id]
            was, will = (below, above) if direction > 0 else (above, below)
            parts.append(
                Content.assemble((one.letter, f"bold {one.style}"), f" {self._turn(was, will)}")
            )
        others = len(found) - len(named)
        if others:
            word = "other" if named else "chunk without a line"
            text = fmt.counted(others, word, "others" if named else "chunks without a line")
            parts.append(Content.styled(text, fmt.MUTED))
        return Content("   ").join(parts)

    def _turn(self, was: int | None, will: int | None) -> str:
        if was is None:
            return f"in at {will}"
        if will is None:
            return f"out from {was}"
        glyph = self.glyphs.up if will < was else self.glyphs.down
        return f"{glyph} {was}{self.glyphs.arrow}{will}"
