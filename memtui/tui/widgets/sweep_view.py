"""What of a sweep is drawn: its lines, its marks, and what happens at the next flips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from textual.content import Content

from memtui.model import Ranking
from memtui.ranking.counterfactual import Segment, Sweep
from memtui.ranking.counterfactual.change import value_of
from memtui.tui import format as fmt
from memtui.tui import sweeping
from memtui.tui.glyphs import ASCII, Glyphs
from memtui.tui.sweeping import Subject, value_text
from memtui.tui.widgets.chart import Axis, Line, Mark, Span
from memtui.tui.widgets.rank_chart import Traced

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
        return Axis(subject.low, subject.high, subject.logarithmic, sweeping.ticks(subject))

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
            flip = sweeping.next_flip(self.sweep, self.subject, self.cursor, direction)
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
        found = sweeping.changes_at(self.sweep, flip)
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
