"""The sweep: rank against one parameter, with the list at every value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.widgets import Static

from memtui.errors import Cancelled
from memtui.model import Ranked, Ranking
from memtui.ranking.counterfactual import Parameter, Sweep
from memtui.ranking.trace import difference
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import in_background
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import ASCII, Glyphs
from memtui.tui.parameters import effect
from memtui.tui.screens import sweep_controller
from memtui.tui.screens.base import BaseScreen
from memtui.tui.screens.sweep_controller import PARAMETERS, TITLES, Subject, SweepView, value_text
from memtui.tui.widgets.chart import LETTERS, STYLES, RankChart, Traced, order_lines
from memtui.tui.widgets.key_bar import KeyBar

WIDTHS = [(0, "-small"), (60, "-narrow"), (100, "-wide"), (160, "-huge")]
HEIGHTS = [(0, "-flat"), (14, "-short"), (30, "-tall")]
MOST_LINES = 9
"""Results that get a line, from the first one; pinned chunks have theirs besides."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is swept: one parameter of one ranking of one pool."""

    ranked: Ranked
    subject: Subject
    chunk_ids: tuple[str, ...]


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
            for place, (parameter, name) in enumerate(PARAMETERS.items(), start=1)
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
        self.glyphs = glyphs
        self._ranked, self._ranking, self._configured = ranked, ranking, configured
        self._pinned = pinned
        self._line = chosen
        self._parameter = Parameter.VECTOR_WEIGHT
        self._subjects: dict[Parameter, Subject | None] = {}
        self._traced: dict[str, Traced] = {}
        self._asked: Task | None = None
        self._sweep: Sweep | None = None
        self._exact = False
        self._cursor = 0.0
        self._there: tuple[tuple[Task | None, float], Ranked] | None = None

    # --- given from outside ---------------------------------------------------------------------

    @property
    def parameter(self) -> Parameter:
        """The parameter on the axis."""
        return self._parameter

    @property
    def cursor(self) -> float:
        """The value at the cursor."""
        return self._cursor

    @property
    def is_exact(self) -> bool:
        """Whether every flip on screen lies where it is."""
        return self._exact

    @property
    def swept(self) -> Sweep | None:
        """What is drawn."""
        return self._sweep

    def follow(self, ranked: Ranked, ranking: Ranking, configured: Ranking) -> None:
        """Go on with another answer of the same search; the cursor stays."""
        if (ranked.pool, ranking) == (self._ranked.pool, self._ranking) and self._asked is not None:
            return
        self._ranked, self._ranking, self._configured = ranked, ranking, configured
        self._begin(keep_cursor=True)

    # --- building -------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Static(id="sweep-parameters", markup=False)
        with Horizontal(id="sweep-body"):
            with Container(id="sweep-box"):
                yield RankChart(self.glyphs, braille=self.glyphs is not ASCII, id="sweep-chart")
            with Container(id="sweep-order-box"):
                yield Static(id="sweep-order", markup=False)
        yield Static(id="sweep-flips", markup=False)
        yield KeyBar()

    def on_mount(self) -> None:
        """Begin with the first parameter that this ranking uses as it is."""
        self._name_subjects()
        in_use = [p for p, one in self._subjects.items() if one is not None and not one.note]
        self._parameter = in_use[0] if in_use else Parameter.K
        self._begin()

    def on_resize(self, event: events.Resize) -> None:
        """Write the list for the new width."""
        self.call_after_refresh(self._show)

    def _name_subjects(self) -> None:
        mode = self._ranked.pool.search_mode
        found = {one: sweep_controller.subject(self._ranking, one, mode) for one in PARAMETERS}
        pool = self._ranked.pool
        self._subjects = {one: known and known.within(pool) for one, known in found.items()}

    @property
    def _subject(self) -> Subject:
        found = self._subjects[self._parameter]
        assert found is not None
        return found

    def _begin(self, *, keep_cursor: bool = False) -> None:
        """Sweep the parameter from here on."""
        self._name_subjects()
        if self._subjects[self._parameter] is None:
            self._parameter, keep_cursor = Parameter.K, False
        self._name_lines()
        now = self._subject.now
        if not keep_cursor:
            self._cursor = now if now is not None else self._subject.low
        self._cursor = min(max(self._cursor, self._subject.low), self._subject.high)
        self._sweep, self._exact = None, False
        ids = dict.fromkeys((*self._traced, *self._ranked.pool.chunks))
        self._asked = Task(self._ranked, self._subject, tuple(ids))
        self._show()
        self._compute(self._asked)

    def _name_lines(self) -> None:
        chunks = {hit.chunk.id: hit.chunk for hit in self._ranked.hits[:MOST_LINES]}
        pool = self._ranked.pool.chunks
        chunks |= {one: pool[one] for one in self._pinned if one in pool and one not in chunks}
        self._traced = {
            chunk.id: Traced(
                chunk, LETTERS[place], STYLES[place % len(STYLES)], chunk.id in self._pinned
            )
            for place, chunk in enumerate(chunks.values())
        }
        if self._line not in self._traced:
            self._line = next(iter(self._traced), None)

    # --- computing ------------------------------------------------------------------------------

    def _compute(self, task: Task) -> None:
        """Draw a first picture, then every flip where it is."""
        pool, now = task.ranked.pool, task.ranked.trace.now

        def find_exact() -> Sweep | None:
            try:
                return sweep_controller.exact(
                    task.ranked, task.subject, task.chunk_ids, lambda: task is not self._asked
                )
            except Cancelled:
                return None

        def go_on(first: Sweep) -> None:
            self._take_sweep(task, first, exact=False)
            if task is self._asked and self.is_open:
                in_background(
                    self,
                    find_exact,
                    lambda found: self._take_sweep(task, found, exact=True),
                    group="sweep",
                    description="sweep the parameter",
                )

        in_background(
            self,
            lambda: sweep_controller.first_picture(pool, task.subject, now, task.chunk_ids),
            go_on,
            group="sweep",
            description="sweep the parameter",
        )

    def _take_sweep(self, task: Task, found: Sweep | None, *, exact: bool) -> None:
        """Draw a sweep, unless something else is looked at by now."""
        if found is not None and task is self._asked:
            self._sweep, self._exact = found, exact
            self._show()

    def on_unmount(self) -> None:
        """Stop computing."""
        self._asked = None

    # --- drawing --------------------------------------------------------------------------------

    def _show(self) -> None:
        if not self.is_attached or not self.query("#sweep-order"):
            return
        self._show_parameters()
        self._show_chart()
        self._show_order()

    def _show_parameters(self) -> None:
        pieces = []
        for place, (parameter, name) in enumerate(PARAMETERS.items(), start=1):
            if self._subjects[parameter] is None:
                continue
            style = "bold reverse" if parameter is self._parameter else ""
            key = (f" {place} ", f"$primary {style}")
            pieces.append(Content.assemble(key, (f"{name} ", style)))
        self.query_one("#sweep-parameters", Static).update(Content(" ").join(pieces))

    def _show_chart(self) -> None:
        view = self._view()
        lines = view.lines()
        ranks = [span.rank for line in lines for span in line.spans if span.rank is not None]
        fewest = 1 if self._subject.whole else self._ranking.k
        chart = self.query_one(RankChart)
        chart.show(view.axis, max([fewest, *ranks]), lines, view.marks())
        box = self.query_one("#sweep-box")
        box.border_title = Content.assemble(
            "Rank against ",
            (TITLES[self._parameter], "bold"),
            (f"  {self._subject.note}" if self._subject.note else "", "$state-warn"),
            (f"   {safe_line(self._ranked.pool.query)}", fmt.MUTED),
        )
        box.border_subtitle = Content(self._progress_text())
        self.query_one("#sweep-flips", Static).update(Content("\n").join(view.flip_lines()))

    def _view(self) -> SweepView:
        return SweepView(
            self._subject,
            self._sweep,
            self._exact,
            self._traced,
            self._cursor,
            self._configured,
            self.glyphs,
            self._line,
        )

    def _progress_text(self) -> str:
        if self._sweep is None:
            return "computing…"
        if self._subject.low == self._subject.high:
            return f"another {PARAMETERS[self._parameter]} takes other candidates: a new search"
        count = fmt.counted(len(sweep_controller.flips(self._sweep)), "flip")
        return f"{count}, exact" if self._exact else f"~ {count} so far"

    def list_at_cursor(self) -> Ranked:
        """The list at the cursor, by the ranking itself."""
        asked = self._asked, self._cursor
        if self._there is None or self._there[0] != asked:
            pool, now = self._ranked.pool, self._ranked.trace.now
            there = sweep_controller.list_at(pool, self._subject, self._cursor, now)
            self._there = asked, there
        return self._there[1]

    def _show_order(self) -> None:
        there = self.list_at_cursor()
        panel = self.query_one("#sweep-order", Static)
        now = {hit.chunk.id: hit.rank for hit in self._ranked.hits}
        lines = order_lines(
            there,
            self._traced,
            now,
            width=max(panel.content_size.width, 1),
            glyphs=self.glyphs,
            chosen=self._line,
        )
        panel.update(Content("\n").join(lines))
        box = self.query_one("#sweep-order-box")
        name = PARAMETERS[self._parameter]
        box.border_title = Content.assemble(
            f"at {name} ", (value_text(self._parameter, self._cursor), "bold $primary")
        )
        box.border_subtitle = Content(effect(difference(self._ranked, there)) or "as now")

    # --- keys -----------------------------------------------------------------------------------

    def action_flip(self, direction: int) -> None:
        """Go beyond the next value at which the order flips."""
        if self._sweep is None:
            return
        value = sweep_controller.beyond_flip(self._sweep, self._subject, self._cursor, direction)
        if value is not None:
            self._go(value)

    def action_step(self, direction: int) -> None:
        """Go a little further."""
        self._go(sweep_controller.fine_step(self._subject, self._cursor, direction))

    def action_go_now(self) -> None:
        """Go to the present value."""
        if self._subject.now is not None:
            self._go(self._subject.now)

    def _go(self, value: float) -> None:
        self._cursor = value
        self._show()

    @on(RankChart.Pointed)
    def pointed(self, message: RankChart.Pointed) -> None:
        """Go where the chart was clicked."""
        message.stop()
        value = float(round(message.value)) if self._subject.whole else round(message.value, 4)
        self._go(value)

    def action_parameter(self, step: int) -> None:
        """Sweep the next parameter."""
        usable = [parameter for parameter, one in self._subjects.items() if one is not None]
        at = (usable.index(self._parameter) + step) % len(usable)
        self._choose(usable[at])

    def action_choose(self, place: int) -> None:
        """Sweep the parameter of a number key."""
        parameter = list(PARAMETERS)[place - 1]
        if self._subjects[parameter] is None:
            name = PARAMETERS[parameter]
            self.app.notify(f"{name} is not used by this ranking.", markup=False)
        else:
            self._choose(parameter)

    def _choose(self, parameter: Parameter) -> None:
        if parameter is not self._parameter:
            self._parameter = parameter
            self._begin()

    def action_line(self, step: int) -> None:
        """Follow another line."""
        ids = list(self._traced)
        if ids:
            at = ids.index(self._line) if self._line in ids else 0
            self._line = ids[min(max(at + step, 0), len(ids) - 1)]
            self._show()

    def action_apply(self) -> None:
        """Rank by the value at the cursor, its stage switched on."""
        self.dismiss(self._subject.at(self._cursor))
