"""What a sweep can vary, where its order flips, and how it is drawn: no Textual screen here."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from textual.content import Content

from memtui.errors import Cancelled
from memtui.model import CandidatePool, Chunk, Ranked, Ranking, SearchMode
from memtui.ranking.counterfactual import Parameter, Segment, Sweep, apply, sweep
from memtui.ranking.counterfactual.change import LOGARITHMIC, range_of, value_of
from memtui.ranking.counterfactual.solve import Problem, is_used
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import for_mode
from memtui.tui import format as fmt
from memtui.tui.glyphs import ASCII, Glyphs
from memtui.tui.widgets.chart import Axis, Line, Mark
from memtui.tui.widgets.result_rows import place_text

PARAMETERS: Mapping[Parameter, tuple[str, str]] = {
    Parameter.VECTOR_WEIGHT: ("vector", "the vector weight"),
    Parameter.LAMBDA: ("λ", "λ, relevance↔variety"),
    Parameter.HALF_LIFE: ("half-life", "the half-life"),
    Parameter.FLOOR: ("floor", "the floor of decay"),
    Parameter.MIN_SCORE: ("min", "the minimum score"),
    Parameter.K: ("k", "k"),
    Parameter.RRF_K: ("RRF k", "the constant of RRF"),
}
"""What can be swept, with its name and its title, in the order of the keys 1 to 7."""
_SWITCHED: Mapping[Parameter, tuple[Parameter, str]] = {
    Parameter.LAMBDA: (Parameter.MMR, "with MMR on"),
    Parameter.HALF_LIFE: (Parameter.DECAY, "with decay on"),
    Parameter.FLOOR: (Parameter.DECAY, "with decay on"),
}
"""What has to be on for a parameter to do something."""
MOST_LINES = 9
"""Results that get a line, from the first one; pinned chunks have theirs besides."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
STYLES = (
    "$leg-vector",
    "$leg-keyword",
    "$leg-mmr",
    "$state-ok",
    "$leg-rerank",
    "$state-error",
    "$secondary",
    "$state-warn",
    "$foreground",
)
"""The colours of the lines, in the order of their letters; then again from the first."""
_DIGITS = 12
_FINE = 100
"""Fine steps from one end of an axis to the other."""
_NAMED = 4
"""Chunks that are named at a flip; more are counted."""


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
    def now(self) -> float | None:
        """The present value; `None` for a minimum score that is off."""
        value = value_of(self.ranking, self.parameter)
        return float(value) if isinstance(value, (int, float)) else None

    @property
    def axis(self) -> Axis:
        """The axis of the values."""
        return Axis(self.low, self.high, self.parameter in LOGARITHMIC, _ticks(self))

    def at(self, value: float) -> Ranking:
        """Return the ranking with the parameter at a value."""
        return apply(self.ranking, self.parameter, int(value) if self.whole else value)


def subject_of(ranking: Ranking, parameter: Parameter, pool: CandidatePool) -> Subject | None:
    """Return a parameter to sweep, its stage switched on where it is off.

    Of k the values that the pool holds candidates for. `None` where this profile does not use
    the parameter with the legs that can search.
    """
    mode, note = pool.search_mode, ""
    if not is_used(for_mode(ranking, mode), parameter):
        if parameter not in _SWITCHED:
            return None
        switch, note = _SWITCHED[parameter]
        ranking = apply(ranking, switch, True)
        if not is_used(for_mode(ranking, mode), parameter):
            return None
    low, high = range_of(ranking, parameter)
    if parameter is Parameter.K:
        low, high = _values_of_k(ranking, pool, mode)
    return Subject(parameter, ranking, low, high, note)


def _values_of_k(ranking: Ranking, pool: CandidatePool, mode: SearchMode) -> tuple[int, int]:
    """Return the lowest and the highest k whose candidates the pool holds."""
    problem = Problem(pool, ranking, "", datetime.min, mode)
    low, high = (int(value) for value in range_of(ranking, Parameter.K))
    values = [
        value
        for value in range(low, min(high, len(pool.chunks)) + 1)
        if not problem.needs_search(problem.changed(Parameter.K, value))
    ]
    return (values[0], values[-1]) if values else (ranking.k, ranking.k)


# --- the steps of the cursor --------------------------------------------------------------------


def flips_of(swept: Sweep) -> tuple[float, ...]:
    """Return the values at which a chunk changes its rank, enters or leaves; ascending."""
    starts = {segment.start for segments in swept.ranks.values() for segment in segments[1:]}
    return tuple(sorted(starts))


def changes_at(swept: Sweep, flip: float) -> dict[str, tuple[int | None, int | None]]:
    """Return the ranks just below and just above a flip, of the chunks that change there."""
    changes: dict[str, tuple[int | None, int | None]] = {}
    for chunk_id, segments in swept.ranks.items():
        for before, after in pairwise(segments):
            if after.start == flip:
                changes[chunk_id] = before.rank, after.rank
    return changes


def next_flip(swept: Sweep, subject: Subject, value: float, direction: int) -> int | None:
    """Return the place of the next flip above or below a value among `flips_of`."""
    flips = flips_of(swept)
    if direction > 0:
        index = bisect_right(flips, value)
        return index if index < len(flips) else None
    # A whole number belongs to what begins with it.
    index = (bisect_right if subject.whole else bisect_left)(flips, value) - 1
    return index if index >= 0 else None


def beyond_flip(swept: Sweep, subject: Subject, value: float, direction: int) -> float | None:
    """Return the nearest value on the other side of the next flip; `None` where there is none.

    The number with the fewest digits in the stretch behind the flip, as near to it as they allow:
    at the flip itself either order may hold.
    """
    index = next_flip(swept, subject, value, direction)
    if index is None:
        return None
    flips = (swept.low, *flips_of(swept), swept.high)
    here = flips[index + 1]
    if subject.whole:
        return here if direction > 0 else here - 1
    if direction > 0:
        return tidy(here, flips[index + 2], first=True)
    return tidy(flips[index], here, first=False)


def tidy(low: float, high: float, *, first: bool) -> float:
    """Return a number strictly between two others with few digits, near the first or the second.

    Two decimals below 10, none above, more only where nothing else lies between; the middle where
    twelve significant digits do not tell them apart.
    """
    near = low if first else high
    size = math.ceil(math.log10(abs(near))) if abs(near) >= 1 else 0
    for digits in range(0 if size > 1 else 2, _DIGITS - size + 1):
        unit = 10.0**-digits
        steps = math.floor(low / unit) + 1 if first else math.ceil(high / unit) - 1
        number = round(steps * unit, digits)
        if low < number < high:
            return number
    return (low + high) / 2


def fine_step(subject: Subject, value: float, direction: int) -> float:
    """Go one hundredth of the axis further, within it; to the next whole number for k."""
    low, high = subject.low, subject.high
    if subject.whole:
        moved = value + direction
    elif subject.parameter in LOGARITHMIC:
        moved = value * math.pow(high / low, direction / _FINE)
        if value >= 10 or moved >= 10:
            moved = float(math.floor(moved) if direction < 0 else math.ceil(moved))
        else:
            moved = round(moved, 1)
    else:
        moved = round(value + direction * (high - low) / _FINE, 4)
    return min(max(moved, low), high)


# --- in words -----------------------------------------------------------------------------------

_HUNDREDTHS = frozenset(
    {Parameter.VECTOR_WEIGHT, Parameter.LAMBDA, Parameter.FLOOR, Parameter.MIN_SCORE}
)


def value_text(parameter: Parameter, value: float) -> str:
    """Write a value with its unit, all of its digits but no noise: `0.4713`, `30 d`."""
    text = fmt.short_number(value, 0 if value >= 1000 else 9)
    if parameter in _HUNDREDTHS and len(text.partition(".")[2]) < 2:
        text = f"{value:.2f}"
    return f"{text} d" if parameter is Parameter.HALF_LIFE else text


def _ticks(subject: Subject) -> tuple[tuple[float, str], ...]:
    """Return the numbers below an axis."""
    if subject.parameter is Parameter.HALF_LIFE:
        days = ((1, "1d"), (7, "7d"), (30, "30d"), (365, "1y"), (3650, "10y"), (36500, "100y"))
        return tuple((float(value), label) for value, label in days)
    if subject.parameter in LOGARITHMIC:
        return tuple((10.0**power, f"{10.0**power:g}") for power in range(-2, 5))
    if subject.whole:
        low, high = int(subject.low), int(subject.high)
        step = next((step for step in (1, 2, 5, 10, 20) if high / step <= 12), 50)
        values = [low, *(value for value in range(step, high + 1, step) if value > low)]
        return tuple((float(value), str(value)) for value in values)
    quarters = [subject.low + (subject.high - subject.low) * part / 4 for part in (0, 4, 2, 1, 3)]
    return tuple((value, fmt.short_number(value, 3)) for value in quarters)


# --- one sweep ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Traced:
    """A chunk with a line of its own."""

    chunk: Chunk
    letter: str
    style: str
    pinned: bool = False


class SweepController:
    """One parameter of one ranked pool, where its order flips, and a cursor between the flips."""

    def __init__(
        self,
        ranked: Ranked,
        ranking: Ranking,
        configured: Ranking,
        pinned: tuple[str, ...],
        chosen: str | None,
        glyphs: Glyphs,
    ) -> None:
        self.ranked, self.ranking, self.configured = ranked, ranking, configured
        self.parameter = Parameter.VECTOR_WEIGHT
        self.subjects: Mapping[Parameter, Subject | None] = {}
        self.traced: dict[str, Traced] = {}
        self.chosen = chosen
        """The chunk whose line is followed."""
        self.cursor = 0.0
        self.swept: Sweep | None = None
        """The flips; `None` until they are computed."""
        self.part = 0.0
        """How much of the range is computed, 0 to 1."""
        self.ticket = 0
        """Counts the sweeps that were begun; what an older one tells is dropped."""
        self._pinned, self._glyphs = pinned, glyphs
        self._there: tuple[tuple[int, float], Ranked] | None = None

    @property
    def subject(self) -> Subject:
        """What is swept."""
        subject = self.subjects[self.parameter]
        assert subject is not None
        return subject

    def begin(self, *, first: bool = False, keep_cursor: bool = False) -> None:
        """Get ready to sweep the parameter; at first one that this ranking uses as it is."""
        pool = self.ranked.pool
        self.subjects = {one: subject_of(self.ranking, one, pool) for one in PARAMETERS}
        in_use = [p for p, one in self.subjects.items() if one is not None and not one.note]
        if first and in_use:
            self.parameter = in_use[0]
        if self.subjects[self.parameter] is None:
            self.parameter, keep_cursor = Parameter.K, False
        self._name_lines(pool)
        subject = self.subject
        if not keep_cursor:
            self.cursor = subject.now if subject.now is not None else subject.low
        self.cursor = min(max(self.cursor, subject.low), subject.high)
        self.swept, self.part = None, 0.0
        self.ticket += 1

    def _name_lines(self, pool: CandidatePool) -> None:
        chunks = {hit.chunk.id: hit.chunk for hit in self.ranked.hits[:MOST_LINES]}
        chunks |= {
            one: pool.chunks[one]
            for one in self._pinned
            if one in pool.chunks and one not in chunks
        }
        self.traced = {
            chunk.id: Traced(
                chunk, LETTERS[place], STYLES[place % len(STYLES)], chunk.id in self._pinned
            )
            for place, chunk in enumerate(chunks.values())
        }
        if self.chosen not in self.traced:
            self.chosen = next(iter(self.traced), None)

    def solve(self, report: Callable[[float], None]) -> Callable[[], Sweep]:
        """Return a call that finds every flip; on any thread, `report` is told how far it is.

        It raises `Cancelled` once another sweep was begun.
        """
        ticket, ranked, subject = self.ticket, self.ranked, self.subject
        ids = list(dict.fromkeys((*self.traced, *ranked.pool.chunks)))

        def progress(part: float) -> None:
            if ticket != self.ticket:
                raise Cancelled
            report(part)

        return lambda: sweep(
            ranked.pool,
            subject.ranking,
            subject.parameter,
            ids,
            now=ranked.trace.now,
            mode=ranked.pool.search_mode,
            progress=progress,
        )

    def list_at_cursor(self) -> Ranked:
        """Return the list at the cursor, by the ranking itself."""
        asked = self.ticket, self.cursor
        if self._there is None or self._there[0] != asked:
            pool, now = self.ranked.pool, self.ranked.trace.now
            there = rank(pool, for_mode(self.subject.at(self.cursor), pool.search_mode), now=now)
            self._there = asked, there
        return self._there[1]

    # --- moving ---------------------------------------------------------------------------------

    def flip(self, direction: int) -> None:
        """Go beyond the next value at which the order flips."""
        if self.swept is not None:
            value = beyond_flip(self.swept, self.subject, self.cursor, direction)
            self.cursor = self.cursor if value is None else value

    def point(self, value: float) -> None:
        """Go to a value that was pointed at."""
        self.cursor = float(round(value)) if self.subject.whole else round(value, 4)

    def follow_line(self, step: int) -> None:
        """Follow another line."""
        ids = list(self.traced)
        if ids:
            at = ids.index(self.chosen) if self.chosen in ids else 0
            self.chosen = ids[min(max(at + step, 0), len(ids) - 1)]

    # --- drawing --------------------------------------------------------------------------------

    def progress_text(self) -> str:
        """Say how many flips there are, or how far the computing is."""
        if self.swept is None:
            return f"computing… {self.part:.0%}"
        if self.subject.low == self.subject.high:
            name, _ = PARAMETERS[self.parameter]
            return f"another {name} takes other candidates: a new search"
        return f"{fmt.counted(len(flips_of(self.swept)), 'flip')}, exact"

    def lines(self) -> list[Line]:
        """Return one line for each chunk that is followed."""
        if self.swept is None:
            return []
        return [
            Line(one.letter, one.style, self._segments(chunk_id), chunk_id == self.chosen)
            for chunk_id, one in self.traced.items()
        ]

    def _segments(self, chunk_id: str) -> tuple[Segment, ...]:
        assert self.swept is not None
        segments = self.swept.ranks[chunk_id]
        if not self.subject.whole:
            return segments
        # Between two whole numbers nothing lies: the line changes at the second one.
        ends = [*(one.start for one in segments[1:]), *(one.end for one in segments[-1:])]
        return tuple(
            Segment(one.start, end, one.rank) for one, end in zip(segments, ends, strict=True)
        )

    def marks(self) -> list[Mark]:
        """Return the cursor, the present value and the configured one, in this order."""
        strokes, feet = ("│┆┊", "▲△◇") if self._glyphs is not ASCII else ("|:.", "^nc")
        labelled = (
            (self.cursor, "", "$primary bold"),
            (self.subject.now, "off " if self.subject.note else "now ", "$state-ok"),
            (value_of(self.configured, self.parameter), "config ", fmt.MUTED),
        )
        marks: list[Mark] = []
        for stroke, foot, (value, name, style) in zip(strokes, feet, labelled, strict=True):
            if isinstance(value, (int, float)) and all(mark.value != value for mark in marks):
                label = f"{name}{value_text(self.parameter, float(value))}"
                marks.append(Mark(float(value), stroke, foot, label, style))
        return marks

    def flip_lines(self) -> list[Content]:
        """Say what happens at the next flip to the left, and at the one to the right."""
        if self.swept is None:
            return []
        arrows = ("←", "→") if self._glyphs is not ASCII else ("<", ">")
        lines = []
        for arrow, direction in zip(arrows, (-1, 1), strict=True):
            index = next_flip(self.swept, self.subject, self.cursor, direction)
            head = Content.styled(f"{arrow} ", "$primary bold")
            if index is None:
                lines.append(head + Content.styled("no flip", fmt.MUTED))
                continue
            flip = flips_of(self.swept)[index]
            value = Content.styled(f"{value_text(self.parameter, flip)}  ", "bold")
            lines.append(head + value + self._changes(changes_at(self.swept, flip), direction))
        return lines

    def _changes(
        self, changes: Mapping[str, tuple[int | None, int | None]], direction: int
    ) -> Content:
        named = [one for one in self.traced.values() if one.chunk.id in changes][:_NAMED]
        parts = []
        for one in named:
            was, will = changes[one.chunk.id][::direction]
            if was is None:
                turn = f"in at {will}"
            elif will is None:
                turn = f"out from {was}"
            else:
                glyph = self._glyphs.up if will < was else self._glyphs.down
                turn = f"{glyph} {was}{self._glyphs.arrow}{will}"
            parts.append(Content.assemble((one.letter, f"bold {one.style}"), f" {turn}"))
        others = len(changes) - len(named)
        if others:
            word = "other" if named else "chunk without a line"
            text = fmt.counted(others, word, "others" if named else "chunks without a line")
            parts.append(Content.styled(text, fmt.MUTED))
        return Content("   ").join(parts)

    def order_lines(self, width: int) -> list[Content]:
        """Draw the list at the cursor: rank, letter, movement, place; then what is out of it."""
        before = {hit.chunk.id: hit.rank for hit in self.ranked.hits}
        hits = self.list_at_cursor().hits
        lines = []
        for hit in hits:
            was = before.get(hit.chunk.id)
            moved = ("new", "$state-warn bold") if was is None else ("", "")
            if was is not None and was > hit.rank:
                moved = f"{self._glyphs.up}{was - hit.rank}", "$state-ok"
            elif was is not None and was < hit.rank:
                moved = f"{self._glyphs.down}{hit.rank - was}", "$state-error"
            lines.append(self._order_line(hit.chunk, str(hit.rank), moved, width))
        shown = {hit.chunk.id for hit in hits}
        for chunk_id, one in self.traced.items():
            if chunk_id not in shown:
                gone = ("out", "$state-error") if chunk_id in before else ("", "")
                lines.append(self._order_line(one.chunk, fmt.NOTHING, gone, width))
        return lines

    def _order_line(self, chunk: Chunk, rank: str, moved: tuple[str, str], width: int) -> Content:
        traced, is_chosen = self.traced.get(chunk.id), chunk.id == self.chosen
        is_pinned = traced is not None and traced.pinned
        head = Content.assemble(
            (self._glyphs.marker if is_chosen else " ", "$primary bold"),
            (f"{rank:>2} ", "bold"),
            (traced.letter, f"bold {traced.style}") if traced else ("·", fmt.MUTED),
            (self._glyphs.pin if is_pinned else " ", "$state-warn"),
            (f"{moved[0]:<4}", moved[1]),
        )
        line = head + place_text(chunk.path, chunk.start_line, max(width - head.cell_length, 1))
        if not is_chosen:
            return line
        return line.pad_right(max(width - line.cell_length, 0)).stylize_before(
            "bold on $foreground 12%"
        )
