"""The sweep: rank against one parameter, with the list at every value."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from datetime import datetime
from itertools import cycle, pairwise
from typing import TYPE_CHECKING

from msgspec import Struct, convert
from textual.app import ComposeResult
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.screen import Screen

from memtui.model import CandidatePool, Evidence, Ranked, Ranking
from memtui.ranking.context import with_weights
from memtui.ranking.counterfactual.change import LOGARITHMIC, Parameter, apply, range_of, value_of
from memtui.ranking.counterfactual.solve import Problem, Sweep, is_used, sweep
from memtui.ranking.pipeline import difference, for_mode, rank
from memtui.ranking.trace import cited_lines, find
from memtui.report.words import PARAMETER_WORDS, SWEPT_PARAMETERS, WEIGHT, exact, short_number
from memtui.text.sanitize import safe_line
from memtui.tui import fmt, glyphs
from memtui.tui.background import in_background, stop_if_cancelled
from memtui.tui.bindings import bindings, key_name, next_of
from memtui.tui.screens.common import close
from memtui.tui.widgets.bars import KeyBar, ScreenBar
from memtui.tui.widgets.chart import Axis, Chart, Line, Mark, RankChart
from memtui.tui.widgets.lists import TextBlock
from memtui.tui.widgets.parameter_panes import effect
from memtui.tui.widgets.result_rows import moved_mark, place_text

if TYPE_CHECKING:
    from memtui.tui.screens.search.search_screen import SearchScreen


class Words(Struct, frozen=True):
    """A parameter that can be swept, as `words.toml` describes it."""

    digits: int = 0
    switch: Parameter | None = None
    note: str = ""
    ticks: dict[str, float] = {}


PARAMETERS = convert(SWEPT_PARAMETERS, dict[Parameter, Words])
"""The parameters that can be swept, in the order of Tab."""
_NAMES = {one: PARAMETER_WORDS[one].removeprefix(WEIGHT) for one in PARAMETERS}
_MOST_LINES = 9
"""Results that get a line, from the first one; pinned chunks have theirs besides."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_STYLES = [f"${colour}" for colour in glyphs.SIGNS["sweep"]["lines"]]
"""The colours of the lines, in the order of their letters; then again from the first."""
_DIGITS = 12
_FINE = 100
"""Fine steps from one end of an axis to the other."""
_NAMED, _PLACE = 4, 28
"""Chunks that are named at a flip, more are counted; cells for the place of one."""


class Subject(Struct, frozen=True):
    """One parameter of one ranking that can be swept."""

    parameter: Parameter
    ranking: Ranking
    """The ranking with the switch on that the parameter needs."""
    low: float
    high: float
    note: str = ""
    """The switch that was turned on for it."""
    evidence: Evidence = Evidence.WORDS
    """The parts of the index that give the weights that the ranking leaves open."""

    @property
    def now(self) -> float | None:
        """The present value; `None` for a minimum score that is off."""
        return number_of(self.ranking, self.parameter, self.evidence)

    @property
    def axis(self) -> Axis:
        """The axis of the values, with the numbers below it."""
        ticks = [(value, label) for label, value in PARAMETERS[self.parameter].ticks.items()]
        if self.parameter is Parameter.K:
            step = next((step for step in (1, 2, 5, 10, 20) if self.high / step <= 12), 50)
            first = int(self.low) // step * step + step
            whole = (int(self.low), *range(first, int(self.high) + 1, step))
            ticks = [(value, str(value)) for value in whole]
        elif not ticks:
            quarter = (self.high - self.low) / 4
            # Both ends first: what has no room beside them is left out.
            values = [self.low + quarter * number for number in (0, 4, 2, 1, 3)]
            ticks = [(value, short_number(value, 3)) for value in values]
        return Axis(self.low, self.high, self.parameter in LOGARITHMIC, ticks)

    def at(self, value: float) -> Ranking:
        is_whole = self.parameter is Parameter.K
        return apply(self.ranking, self.parameter, int(value) if is_whole else value)

    def beside(self, value: float, direction: int) -> float:
        """Return a value one hundredth of the axis further, within it; of k the next number."""
        if self.parameter is Parameter.K:
            moved = value + direction
        elif self.parameter in LOGARITHMIC:
            moved = value * math.pow(self.high / self.low, direction / _FINE)
            if value >= 10 or moved >= 10:
                moved = float(math.floor(moved) if direction < 0 else math.ceil(moved))
            else:
                moved = round(moved, 1)
        else:
            moved = round(value + direction * (self.high - self.low) / _FINE, 4)
        return min(max(moved, self.low), self.high)


def number_of(ranking: Ranking, parameter: Parameter, evidence: Evidence) -> float | None:
    """Return the value of a parameter; `None` for a minimum score that is off."""
    value = value_of(with_weights(ranking, evidence), parameter)
    return float(value) if isinstance(value, (int, float)) else None


def subject_of(ranking: Ranking, parameter: Parameter, pool: CandidatePool) -> Subject | None:
    """Return a parameter to sweep, its stage switched on where it is off.

    Of k the values that the pool holds candidates for. `None` where this profile does not use
    the parameter with the legs that can search.
    """
    mode, note, words = pool.search_mode, "", PARAMETERS[parameter]
    if words.switch is not None and not is_used(pool, for_mode(ranking, mode), parameter):
        note, ranking = words.note, apply(ranking, words.switch, True)
    if not is_used(pool, for_mode(ranking, mode), parameter):
        return None
    low, high = range_of(ranking, parameter)
    if parameter is Parameter.K:
        problem = Problem(pool, ranking, datetime.min)
        values = [
            value
            for value in range(int(low), min(int(high), len(pool.chunks)) + 1)
            if not problem.needs_search(problem.changed(Parameter.K, value))
        ]
        low, high = (values[0], values[-1]) if values else (ranking.k, ranking.k)
    return Subject(parameter, ranking, low, high, note, pool.evidence)


def value_text(parameter: Parameter, value: float) -> str:
    """Write a value with its unit, all of its digits but no noise: `0.4713`, `30 d`."""
    text = f"{value:.0f}" if value >= 1000 else exact(value, PARAMETERS[parameter].digits)
    return f"{text} d" if parameter is Parameter.HALF_LIFE else text


def flips_of(swept: Sweep) -> list[float]:
    """Return the values at which a chunk changes its rank, enters or leaves; ascending."""
    return sorted({segment.start for segments in swept.ranks.values() for segment in segments[1:]})


def next_flip(swept: Sweep, value: float, direction: int) -> tuple[float, float] | None:
    """Return the next flip above or below a value, and a value on its other side.

    That is the number with the fewest digits in the stretch behind the flip, as near to it as they
    allow: at the flip itself either order may hold.
    """
    flips, is_whole = flips_of(swept), swept.parameter is Parameter.K
    # A whole number belongs to what begins with it.
    includes = direction > 0 or is_whole
    index = (bisect_right if includes else bisect_left)(flips, value) - (direction < 0)
    if not 0 <= index < len(flips):
        return None
    if is_whole:
        return flips[index], flips[index] - (direction < 0)
    behind = index + 1 if direction > 0 else index
    low, high = (swept.low, *flips, swept.high)[behind : behind + 2]
    return flips[index], tidy(low, high, first=direction > 0)


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


class SweepScreen(Screen[Ranking | None]):
    """Rank against one parameter; its result is the ranking that was chosen."""

    CSS_PATH = "sweep.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-small"), (60, "-narrow"), (100, "-wide"), (160, "-huge")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (14, "-low"), (20, "-short"), (30, "-tall")]  # noqa: RUF012
    BINDINGS = bindings("sweep")

    def __init__(self, search: SearchScreen, ranked: Ranked) -> None:
        super().__init__()
        self.search, self.ranked, self.ranking = search, ranked, search.state.ranking
        self.parameter = Parameter.VECTOR_WEIGHT
        self.subjects: dict[Parameter, Subject] = {}
        """The parameters that this ranking uses."""
        self.traced: dict[str, tuple[str, str]] = {}
        """Letter and style of the chunks that have a line of their own."""
        self.chosen = search.state.selected_id
        """The chunk whose line is followed."""
        self.cursor = 0.0
        self.swept: Sweep | None = None
        """The flips; `None` until they are computed."""

    @property
    def subject(self) -> Subject:
        return self.subjects[self.parameter]

    @property
    def configured(self) -> float | None:
        """The configured value; `None` for a minimum score that is off."""
        return number_of(self.search.options.ranking, self.parameter, self.subject.evidence)

    def follow_list(self, ranked: Ranked, ranking: Ranking) -> None:
        """Go on with another answer of the same search; the cursor stays."""
        if (ranked.pool, ranking) != (self.ranked.pool, self.ranking):
            self.ranked, self.ranking = ranked, ranking
            if self.is_mounted:
                self._begin(keep_cursor=True)

    def compose(self) -> ComposeResult:
        yield ScreenBar()
        yield TextBlock(id="sweep-parameters")
        with Horizontal(id="sweep-body"):
            with Container(id="sweep-box"):
                yield RankChart()
            with Container(id="sweep-order-box"):
                yield TextBlock(id="sweep-order")
        yield TextBlock(id="sweep-flips")
        yield KeyBar()

    def on_mount(self) -> None:
        self._begin()

    def _begin(self, *, keep_cursor: bool = False) -> None:
        """Sweep the parameter from here on, or one that this ranking uses as it is."""
        ranked, pool = self.ranked, self.ranked.pool
        subjects = ((one, subject_of(self.ranking, one, pool)) for one in PARAMETERS)
        self.subjects = {one: subject for one, subject in subjects if subject is not None}
        if self.parameter not in self.subjects:
            in_use = (one for one, subject in self.subjects.items() if not subject.note)
            self.parameter, keep_cursor = next(in_use), False
        ids = [hit.chunk.id for hit in ranked.hits[:_MOST_LINES]]
        ids += [one for one in self.search.state.pins if one in pool.chunks and one not in ids]
        self.traced = dict(zip(ids, zip(_LETTERS, cycle(_STYLES), strict=False), strict=False))
        if self.chosen not in self.traced:
            self.chosen = next(iter(ids), None)
        subject = self.subject
        if not keep_cursor:
            self.cursor = subject.now if subject.now is not None else subject.low
        self.cursor = min(max(self.cursor, subject.low), subject.high)
        self.swept = None
        self._show()

        def solve() -> Sweep:
            return sweep(
                pool,
                subject.ranking,
                subject.parameter,
                list(dict.fromkeys((*ids, *pool.chunks))),
                now=ranked.trace.now,
                progress=stop_if_cancelled,
            )

        def take(swept: Sweep) -> None:
            self.swept = swept
            self._show()

        in_background(self, solve, take, "sweep the parameter", group="sweep")

    def list_at_cursor(self) -> Ranked:
        pool, now = self.ranked.pool, self.ranked.trace.now
        return rank(pool, for_mode(self.subject.at(self.cursor), pool.search_mode), now=now)

    def _show(self) -> None:
        subject, order, swept = self.subject, self.list_at_cursor(), self.swept
        title = _NAMES[self.parameter]
        lines = [
            Line(*self.traced[one], segments, one == self.chosen)
            for one, segments in (swept.ranks if swept is not None else {}).items()
            if one in self.traced
        ]
        # The cursor, the present value and the configured one.
        marks: list[Mark] = []
        for stroke, foot, number, name, style in zip(
            "│┆┊",
            "▲△◇",
            (self.cursor, subject.now, self.configured),
            ("", "off " if subject.note else "now ", "config "),
            ("$primary bold", "$state-ok", fmt.MUTED),
            strict=True,
        ):
            if number is not None and all(mark.value != number for mark in marks):
                label = f"{name}{value_text(self.parameter, number)}"
                marks.append(Mark(number, stroke, foot, label, style))
        fewest = 1 if self.parameter is Parameter.K else self.ranking.k
        lowest = max([fewest, *(one.rank or 0 for line in lines for one in line.segments)])
        self.query_one(RankChart).chart = Chart(subject.axis, lowest, lines, marks)
        box, progress = self.query_one("#sweep-box"), "computing…"
        if swept is not None:
            progress = fmt.count(len(flips_of(swept)), "order change")
            if subject.low == subject.high:
                progress = f"another number of {title} takes other candidates: a new search"
        box.border_subtitle = progress
        box.border_title = Content.assemble(
            "Rank against ",
            (title, "bold"),
            (f"  {subject.note}" if subject.note else "", "$state-warn"),
            (f"   {safe_line(self.ranked.pool.query)}", fmt.MUTED),
        )
        flips = self._flip_lines()
        names = [
            Content.styled(f" {_NAMES[one]} ", "bold reverse" if one is self.parameter else "")
            for one in self.subjects
        ]
        for selector, draw in (
            ("#sweep-parameters", lambda width: fmt.flowing(names, width, " ")),
            ("#sweep-flips", lambda width: flips),
            ("#sweep-order", lambda width: self._order_lines(order, width)),
        ):
            self.query_one(selector, TextBlock).show(draw)
        box, value = self.query_one("#sweep-order-box"), value_text(self.parameter, self.cursor)
        box.border_title = Content.assemble("List at ", (value, "bold $primary"))
        box.border_subtitle = Content(effect(difference(self.ranked, order)))

    def _flip_lines(self) -> list[Content]:
        """Return what happens at the next flip to the left, and at the one to the right.

        Chunks with a line that change their rank as the cursor crosses it are named, the others
        counted.
        """
        if self.swept is None:
            return []
        lines = []
        for arrow, direction in (("left", -1), ("right", 1)):
            head = Content.styled(f"{key_name(arrow)} ", "$primary bold")
            flip = next_flip(self.swept, self.cursor, direction)
            if flip is None:
                lines.append(head + Content.styled("no change this way", fmt.MUTED))
                continue
            changes = {
                chunk_id: (before.rank, after.rank)[::direction]
                for chunk_id, segments in self.swept.ranks.items()
                for before, after in pairwise(segments)
                if after.start == flip[0]
            }
            named = [one for one in self.traced if one in changes][:_NAMED]
            others = [one for one in changes if one not in named]
            # A single one without a letter is named by its place.
            alone, parts = others if len(others) == 1 else [], []
            for chunk_id in (*named, *alone):
                was, will = changes[chunk_id]
                if was is None:
                    turn = f"in at {will}"
                elif will is None:
                    turn = f"out from {was}"
                else:
                    glyph = glyphs.UP if will < was else glyphs.DOWN
                    turn = f"{glyph} {was}→{will}"
                letter, style = self.traced.get(chunk_id, ("", ""))
                name = Content.styled(letter, f"bold {style}")
                if not letter:
                    scored = find(self.ranked, chunk_id)
                    name = place_text(scored.chunk.path, cited_lines(scored)[0], _PLACE)
                parts.append(Content.assemble(name, f" {turn}"))
            if len(others) > 1:
                nouns = ("other result",) if named else ("result not drawn", "results not drawn")
                parts.append(Content.styled(fmt.count(len(others), *nouns), fmt.MUTED))
            value = Content.styled(f"{value_text(self.parameter, flip[1])}  ", "bold")
            lines.append(head + value + Content("   ").join(parts))
        return lines

    def _order_lines(self, order: Ranked, width: int) -> list[Content]:
        """Draw the list at the cursor: rank, letter, movement, place; then what is out of it."""
        before, ranks = self.ranked.ranks, order.ranks
        lines = []
        for chunk_id in dict.fromkeys((*ranks, *self.traced)):
            chunk, rank_ = order.pool.chunks[chunk_id], ranks.get(chunk_id)
            letter, style = self.traced.get(chunk_id, ("·", ""))
            mark, mark_style = moved_mark(before.get(chunk_id), rank_)
            is_chosen, is_pinned = chunk_id == self.chosen, chunk_id in self.search.state.pins
            line = Content.assemble(
                (glyphs.MARKER if is_chosen else " ", "$primary bold"),
                (f"{fmt.NOTHING if rank_ is None else rank_:>2} ", "bold"),
                (letter, f"bold {style}" if style else fmt.MUTED),
                (glyphs.PIN if is_pinned else " ", "$state-warn"),
                (f"{mark:<4}", mark_style),
            )
            first, _ = cited_lines(find(order, chunk_id))
            line += place_text(chunk.path, first, max(width - line.cell_length, 1))
            if is_chosen:
                line = fmt.fit(line, width, pad=True).stylize_before("bold on $foreground 12%")
            lines.append(line)
        return lines

    def _go(self, value: float | None) -> None:
        if value is not None:
            self.cursor = value
            self._show()

    def action_flip(self, direction: int) -> None:
        if self.swept is not None and (flip := next_flip(self.swept, self.cursor, direction)):
            self._go(flip[1])

    def action_step(self, direction: int) -> None:
        self._go(self.subject.beside(self.cursor, direction))

    def action_go_configured(self) -> None:
        self._go(self.configured)

    def action_point(self, value: float) -> None:
        self._go(round(value, 0 if self.parameter is Parameter.K else 4))

    def action_parameter(self, step: int) -> None:
        self.parameter = next_of(self.subjects, self.parameter, step)
        self._begin()

    def action_line(self, step: int) -> None:
        ranks = self.list_at_cursor().ranks
        ids = sorted(self.traced, key=lambda one: ranks.get(one, math.inf))
        if self.chosen in ids:
            at = ids.index(self.chosen) + step
            self.chosen = ids[min(max(at, 0), len(ids) - 1)]
            self._show()

    def action_apply(self) -> None:
        close(self, self.subject.at(self.cursor))
