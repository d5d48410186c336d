"""The sweep: rank against one parameter, with the list at every value."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.widgets import Static

from memtui.model import Ranked, Ranking
from memtui.ranking.counterfactual import Parameter, Sweep
from memtui.ranking.trace import difference
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import at_intervals, in_background, tell
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import ASCII, Glyphs
from memtui.tui.parameters import effect
from memtui.tui.screens.base import BaseScreen
from memtui.tui.screens.sweep_controller import (
    PARAMETERS,
    SweepController,
    fine_step,
    value_text,
)
from memtui.tui.widgets.chart import RankChart
from memtui.tui.widgets.key_bar import KeyBar

WIDTHS = [(0, "-small"), (60, "-narrow"), (100, "-wide"), (160, "-huge")]
HEIGHTS = [(0, "-flat"), (14, "-short"), (30, "-tall")]
_PARTS = 1000


class SweepScreen(BaseScreen[Ranking | None]):
    """Rank against one parameter; its result is the ranking that was chosen."""

    CSS_PATH = "sweep.tcss"
    BINDING_GROUP_TITLE = "Sweep"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("sweep"),
        *(
            Binding(str(place), f"choose({place})", name, show=False, id=f"sweep.{parameter.name}")
            for place, (parameter, (name, _)) in enumerate(PARAMETERS.items(), start=1)
        ),
    ]

    def __init__(
        self,
        ranked: Ranked,
        ranking: Ranking,
        configured: Ranking,
        *,
        pinned: tuple[str, ...] = (),
        glyphs: Glyphs,
        chosen: str | None = None,
    ) -> None:
        """`ranking` is what `ranked` was asked with, before the legs that can search narrow it."""
        super().__init__()
        self._braille = glyphs is not ASCII
        self.controller = SweepController(ranked, ranking, configured, pinned, chosen, glyphs)

    def follow(self, ranked: Ranked, ranking: Ranking, configured: Ranking) -> None:
        """Go on with another answer of the same search; the cursor stays."""
        sweeping = self.controller
        if (ranked.pool, ranking) != (sweeping.ranked.pool, sweeping.ranking):
            sweeping.ranked, sweeping.ranking, sweeping.configured = ranked, ranking, configured
            self._begin(keep_cursor=True)

    def compose(self) -> ComposeResult:
        yield Static(id="sweep-parameters", markup=False)
        with Horizontal(id="sweep-body"):
            with Container(id="sweep-box"):
                yield RankChart(braille=self._braille)
            with Container(id="sweep-order-box"):
                yield Static(id="sweep-order", markup=False)
        yield Static(id="sweep-flips", markup=False)
        yield KeyBar()

    def on_mount(self) -> None:
        """Sweep the first parameter."""
        self._begin(first=True)

    def on_unmount(self) -> None:
        """Stop computing."""
        self.controller.ticket += 1

    def on_resize(self, event: events.Resize) -> None:
        """Write the list for the new width."""
        self.call_after_refresh(self._show)

    # --- computing ------------------------------------------------------------------------------

    def _begin(self, *, first: bool = False, keep_cursor: bool = False) -> None:
        """Sweep the parameter from here on."""
        sweeping = self.controller
        sweeping.begin(first=first, keep_cursor=keep_cursor)
        self._show()
        ticket = sweeping.ticket
        report = at_intervals(
            lambda done, of: self.call_later(self._tell_progress, ticket, done / of)
        )
        in_background(
            self,
            sweeping.solve(lambda part: report(round(part * _PARTS), _PARTS)),
            lambda swept: self._take(ticket, swept),
            group="sweep",
            description="sweep the parameter",
        )

    def _tell_progress(self, ticket: int, part: float) -> None:
        if ticket == self.controller.ticket and self.controller.swept is None:
            self.controller.part = part
            self.query_one("#sweep-box").border_subtitle = self.controller.progress_text()

    def _take(self, ticket: int, swept: Sweep) -> None:
        """Draw a sweep, unless something else is looked at by now."""
        if ticket == self.controller.ticket:
            self.controller.swept = swept
            self._show()

    # --- drawing --------------------------------------------------------------------------------

    def _show(self) -> None:
        if not self.is_attached or not self.query("#sweep-order"):
            return
        sweeping = self.controller
        pieces = []
        for place, (parameter, (name, _)) in enumerate(PARAMETERS.items(), start=1):
            if sweeping.subjects[parameter] is not None:
                style = "bold reverse" if parameter is sweeping.parameter else ""
                key = (f" {place} ", f"$primary {style}")
                pieces.append(Content.assemble(key, (f"{name} ", style)))
        self._write("parameters", [Content(" ").join(pieces)])
        self._show_chart()
        self._show_order()

    def _show_chart(self) -> None:
        sweeping, subject = self.controller, self.controller.subject
        lines = sweeping.lines()
        ranks = [one.rank for line in lines for one in line.segments if one.rank is not None]
        fewest = 1 if subject.whole else sweeping.ranking.k
        chart = self.query_one(RankChart)
        chart.show(subject.axis, max([fewest, *ranks]), lines, sweeping.marks())
        box = self.query_one("#sweep-box")
        box.border_title = Content.assemble(
            "Rank against ",
            (PARAMETERS[sweeping.parameter][1], "bold"),
            (f"  {subject.note}" if subject.note else "", "$state-warn"),
            (f"   {safe_line(sweeping.ranked.pool.query)}", fmt.MUTED),
        )
        box.border_subtitle = Content(sweeping.progress_text())
        self._write("flips", sweeping.flip_lines())

    def _show_order(self) -> None:
        sweeping = self.controller
        width = max(self.query_one("#sweep-order", Static).content_size.width, 1)
        self._write("order", sweeping.order_lines(width))
        box = self.query_one("#sweep-order-box")
        name, _ = PARAMETERS[sweeping.parameter]
        value = value_text(sweeping.parameter, sweeping.cursor)
        box.border_title = Content.assemble(f"at {name} ", (value, "bold $primary"))
        moved = effect(difference(sweeping.ranked, sweeping.list_at_cursor()))
        box.border_subtitle = Content(moved or "as now")

    def _write(self, name: str, lines: list[Content]) -> None:
        self.query_one(f"#sweep-{name}", Static).update(Content("\n").join(lines))

    # --- keys -----------------------------------------------------------------------------------

    def action_flip(self, direction: int) -> None:
        """Go beyond the next value at which the order flips."""
        self.controller.flip(direction)
        self._show()

    def action_step(self, direction: int) -> None:
        """Go a little further."""
        sweeping = self.controller
        sweeping.cursor = fine_step(sweeping.subject, sweeping.cursor, direction)
        self._show()

    def action_go_now(self) -> None:
        """Go to the present value."""
        now = self.controller.subject.now
        if now is not None:
            self.controller.cursor = now
            self._show()

    @on(RankChart.Pointed)
    def pointed(self, message: RankChart.Pointed) -> None:
        """Go where the chart was clicked."""
        message.stop()
        self.controller.point(message.value)
        self._show()

    def action_parameter(self, step: int) -> None:
        """Sweep the next parameter."""
        usable = [one for one, subject in self.controller.subjects.items() if subject is not None]
        at = (usable.index(self.controller.parameter) + step) % len(usable)
        self._choose(usable[at])

    def action_choose(self, place: int) -> None:
        """Sweep the parameter of a number key."""
        parameter = list(PARAMETERS)[place - 1]
        if self.controller.subjects[parameter] is None:
            tell(self, f"{PARAMETERS[parameter][0]} is not used by this ranking.")
        else:
            self._choose(parameter)

    def _choose(self, parameter: Parameter) -> None:
        if parameter is not self.controller.parameter:
            self.controller.parameter = parameter
            self._begin()

    def action_line(self, step: int) -> None:
        """Follow another line."""
        self.controller.follow_line(step)
        self._show()

    def action_apply(self) -> None:
        """Rank by the value at the cursor, its stage switched on."""
        self.dismiss(self.controller.subject.at(self.controller.cursor))
