"""The search screen: query, parameters, results, near misses, preview, why, index."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from memtui.model import SearchMode
from memtui.tui.actions_panes import PaneActions
from memtui.tui.bindings import bindings
from memtui.tui.history import QueryHistory
from memtui.tui.messages import FirstRun
from memtui.tui.options import UiOptions
from memtui.tui.widgets.index_status import IndexStatusPane
from memtui.tui.widgets.key_bar import KeyBar
from memtui.tui.widgets.near_misses import NearMisses
from memtui.tui.widgets.param_panel import ParamPanel
from memtui.tui.widgets.param_strip import ParamStrip
from memtui.tui.widgets.pins import Pins
from memtui.tui.widgets.preview import Preview
from memtui.tui.widgets.query_bar import QueryBar
from memtui.tui.widgets.result_list import ResultList
from memtui.tui.widgets.results_message import ResultsMessage
from memtui.tui.widgets.status_bar import StatusBar
from memtui.tui.widgets.why_panel import WhyPanel

if TYPE_CHECKING:
    from memtui.engine import Engine

WIDTHS = [(0, "-sliver"), (40, "-small"), (60, "-narrow"), (100, "-wide"), (160, "-huge")]
HEIGHTS = [(0, "-flat"), (10, "-low"), (16, "-short"), (30, "-tall")]
WELCOMED = "welcome.json"
TOO_SMALL = "memtui needs 40×10; try `memtui search`"


class MainScreen(PaneActions):
    """Four panes and what belongs to them; the layout is in main.tcss, by size classes."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("search")
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    def compose(self) -> ComposeResult:
        """Top to bottom: query, parameters, body, status, keys."""
        yield QueryBar(self.glyphs.prompt)
        yield Static(id="problems", markup=False)
        yield ParamStrip()
        with Container(id="body"):
            with Vertical(id="left"):
                yield ResultList(id="results", marker=self.glyphs.marker, gap=0)
                yield ResultsMessage()
                yield NearMisses(id="near-misses", marker=self.glyphs.marker, gap=0, secondary=True)
                yield Pins(self.glyphs)
            with Container(id="right"):
                with Vertical(id="middle"):
                    yield Preview()
                    yield WhyPanel()
                with Vertical(id="side"):
                    yield ParamPanel(self.glyphs)
                    yield IndexStatusPane()
        yield StatusBar(self.glyphs)
        yield KeyBar()
        with Horizontal(id="too-small"):
            yield Static(Content(TOO_SMALL), markup=False)

    def on_mount(self) -> None:
        """Show what is known before the engine is open."""
        self.query_one("#problems").display = False
        self.name_list(Content("Results"), Content(""))
        self.why.show(None, None)
        self.show_parameters()
        self.show_start()
        self.query_input.focus()
        self.load_history()
        if self.options.state_dir is not None:
            self._look_for_first_run()
        self.set_interval(1.0, self.tick)

    @work(thread=True, group="welcome", exit_on_error=False, description="look at the state folder")
    def _look_for_first_run(self) -> None:
        from memtui.settings.storage import StateFolder

        folder = StateFolder(self.options.state_dir)
        folder.narrow()
        if folder.read_json(WELCOMED) is None:
            # A state folder that cannot be written would greet for ever: no greeting then.
            folder.write_json(WELCOMED, {"welcomed": True})
            self.post_message(FirstRun())

    @on(FirstRun)
    def welcome(self) -> None:
        """Name the five keys to begin with, once this screen is painted.

        Before that nothing was opened yet, and what waits for a screen's paint does not come about
        while another one covers it.
        """
        self.call_after_refresh(self._greet)

    def _greet(self) -> None:
        from memtui.tui.screens.dialogs import FirstRunHint

        if self.is_current and not self.query_input.value:
            self.app.push_screen(FirstRunHint())

    def on_resize(self, event: events.Resize) -> None:
        """Choose the layout for the size."""
        self.apply_layout()

    def engine_opened(self, engine: Engine, options: UiOptions) -> None:
        """Start asking: the query that was typed meanwhile, or the recent notes."""
        was_open = self.engine is not None
        self.engine = engine
        if options != self.options:
            self._take_options(options)
        if was_open:
            self._forget_memory()
        self.refresh_status()
        if self.flow.wanted:
            self.ask()
        else:
            self.show_start()

    def _take_options(self, options: UiOptions) -> None:
        """Go over to the parameters and the history of the memory that was opened."""
        moved = options.root != self.options.root
        self.options = options
        self.ranking = options.ranking
        self.show_parameters()
        if moved:
            self.history = QueryHistory()
            self.load_history()

    def _forget_memory(self) -> None:
        """Forget what another memory answered."""
        self.is_switched = False
        self.engine_error = ""
        self.flow.clear()
        self.ranked = self.look = self.status = None
        self.mode = SearchMode.HYBRID
        self.show_parameters()
        self.selected_by_user = self.shown_complete = False
        self.results.set_rows(())
        self.near.set_rows(())
        self.forget_notes()
        self.forget_pins()
        self.apply_layout()

    def engine_failed(self, error: str) -> None:
        """Say why there is nothing to ask."""
        self.engine_error = error
        self.status_bar.show_note(error, error=True)
        self.show_start()
