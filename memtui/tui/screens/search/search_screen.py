"""The search screen: query, parameters, results, near misses, preview, why, index."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container, Vertical
from textual.content import Content
from textual.geometry import Size
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Input, Static

from memtui.bus import ForeignExamined, LegChanged, SyncFailed, SyncFinished
from memtui.engine import Engine
from memtui.model import IndexState, IndexStatus, Reason, SearchMode
from memtui.model.status import ForeignStatus
from memtui.report import status as words
from memtui.report.words import WORDS, leg_name, reason_words
from memtui.settings.files import StateFolder, narrow
from memtui.text.sanitize import safe_line
from memtui.tui import glyphs
from memtui.tui.background import in_background, tell
from memtui.tui.bindings import bindings, next_of
from memtui.tui.options import UiOptions, View
from memtui.tui.place_actions import app_of
from memtui.tui.screens import common
from memtui.tui.screens.search.ranking_controller import RankingController
from memtui.tui.screens.search.result_controller import ResultController
from memtui.tui.screens.search.search_controller import SearchController, SearchState
from memtui.tui.widgets import index_status
from memtui.tui.widgets.bars import KeyBar, ScreenBar
from memtui.tui.widgets.lists import RowList, TextBlock
from memtui.tui.widgets.parameter_panes import ParamPanel, ParamStrip
from memtui.tui.widgets.preview import Preview
from memtui.tui.widgets.query_bar import QueryBar, SafeInput
from memtui.tui.widgets.result_rows import FILE, SORTS, empty_memory
from memtui.tui.widgets.why_panel import Pins, WhyPanel

ROOMY = 36
SMALL = (60, 16)
"""Below so many columns or lines one pane is shown at a time."""
WELCOMED = "welcome.json"
PLACES = ("auto", "right", "below", "off")
PANES = ("results", "preview", "why")
"""The panes of a small terminal, one at a time."""
IN_TAB_ORDER = "#query, #results, #near-misses, #preview, #why, #parameter-list"


class SearchScreen(Screen[None]):
    """The panes, what they show, and the controllers that act on them.

    The layout is in search.tcss, by size classes.
    """

    BINDINGS = bindings("search")
    action_part = common.act_on_part
    HORIZONTAL_BREAKPOINTS = common.WIDTHS
    VERTICAL_BREAKPOINTS = common.HEIGHTS

    query_bar = query_one("#query-bar", QueryBar)
    query_input = query_one("#query", SafeInput)
    strip = query_one("#param-strip", ParamStrip)
    results = query_one("#results", RowList)
    near = query_one("#near-misses", RowList)
    pin_strip = query_one("#pins", Pins)
    preview = query_one("#preview", Preview)
    why = query_one("#why", WhyPanel)
    panel = query_one("#parameters", ParamPanel)
    index_pane = query_one("#index-status", index_status.IndexStatusPane)
    status_bar = query_one("#status-bar", index_status.StatusBar)

    def __init__(self, options: UiOptions) -> None:
        super().__init__(id="search")
        self.options = options
        self.engine: Engine | None = None
        self.engine_error = ""
        self.state = SearchState(options.ranking)
        self.status: IndexStatus | None = None
        self.shows_near_misses: bool | None = None
        """True if near misses are shown; `None` lets the size decide."""
        self.preview_place = ""
        self.row_lines = 2
        """Lines of a result: 1 where one pane is shown at a time, 4 on a huge screen."""
        self.pane = PANES[0]
        """The pane that is shown where one is shown at a time."""
        self._size_laid_out: Size | None = None
        self.came_from = ""
        """The name of the screen that the query came from, to which `esc` leads back."""
        self.is_switched = False
        """True if the user chose another provider here, and knows why the index is built."""
        self._announced_change = ""
        self._is_sync_requested = self._is_stop_requested = False
        self.search = SearchController(self)
        self.rankings = RankingController(self)
        self.notes = ResultController(self)
        self.show_view(options.view)

    def show_view(self, view: View) -> None:
        """Show what the view says, and what is configured where it says nothing that is known."""
        self.shows_near_misses = view.not_shown
        is_known = view.preview in PLACES
        self.preview_place = view.preview if is_known else self.options.settings.ui.preview
        self.search.sort = view.sort if view.sort in SORTS else SORTS[0]
        self.set_class(view.parameters, "-parameters", update=self.is_attached)
        if self.is_attached:
            self.apply_layout()
            self.search.redraw()

    @property
    def is_built(self) -> bool:
        """True while there are widgets: not before the first paint, and not after the last."""
        # When the program ends, widgets go pane by pane while answers may still arrive.
        return self.app.is_running and self.is_attached and bool(self.query("#results"))

    @property
    def foreign(self) -> ForeignStatus | None:
        """The state of another program's index, which memtui only reads; else `None`."""
        return self.status.foreign if self.status is not None else None

    @property
    def is_remote(self) -> bool:
        """True if memtui itself asks a model on another machine."""
        return self.status is not None and self.status.provider.remote and not self.foreign

    @property
    def is_indexing(self) -> bool:
        return self.status is not None and self.status.state is IndexState.INDEXING

    @property
    def is_small(self) -> bool:
        """True if one pane is shown at a time."""
        return self.size.width < SMALL[0] or self.size.height < SMALL[1]

    def compose(self) -> ComposeResult:
        yield ScreenBar()
        yield QueryBar(glyphs.MARKER, "query", "search memory")
        yield TextBlock(id="problems")
        yield ParamStrip(id="param-strip")
        with Container(id="body"):
            with Vertical(id="left"):
                yield RowList(id="results", gap=0)
                yield RowList(id="near-misses", gap=0, secondary=True, opens="read")
                yield Pins(id="pins")
            with Container(id="right"):
                with Vertical(id="middle"):
                    yield Preview()
                    yield WhyPanel()
                with Vertical(id="side"):
                    yield ParamPanel()
                    yield index_status.IndexStatusPane()
        yield index_status.StatusBar()
        yield KeyBar()
        yield Static(Content(common.TOO_SMALL), id="too-small", markup=False)

    def on_mount(self) -> None:
        self.rankings.show_parameters()
        self.search.show_start()
        self.query_input.focus()
        self.notes.load_history()
        if self.options.state_dir is not None:
            folder = StateFolder(self.options.state_dir)

            def is_first_run() -> bool:
                narrow(folder.path)
                if folder.read_json(WELCOMED) is not None:
                    return False
                # One that cannot be written would greet for ever: no greeting then.
                folder.write_json(WELCOMED, {"welcomed": True})
                return True

            def greet() -> None:
                from memtui.tui.screens.dialogs import FirstRunHint

                if self.is_current and not (self.query_input.value or self.engine_error):
                    self.app.push_screen(FirstRunHint())

            in_background(
                self,
                is_first_run,
                # What waits for a screen's paint does not come about while another one covers it.
                lambda is_first: self.call_after_refresh(greet) if is_first else None,
                "look at the state folder",
            )
        self.set_interval(1.0, self.tick)

    def engine_opened(self, engine: Engine, options: UiOptions) -> None:
        """Start asking: the query that was typed meanwhile, or the recent notes."""
        was_open, self.engine, self.engine_error = self.engine is not None, engine, ""
        if options != self.options:
            moved = options.root != self.options.root
            self.options, self.state.ranking = options, options.ranking
            if moved:
                self.notes.queries = ()
                self.notes.load_history()
        if was_open:
            # What another memory answered is forgotten.
            self.state = SearchState(self.state.ranking, self.state.text)
            self.status, self.is_switched = None, False
            self.results.set_rows(())
            self.near.set_rows(())
            self.notes.select(None)
            self.notes.set_pins({})
            self.apply_layout()
        self.rankings.show_parameters()
        self.refresh_status()
        self.search.ask()

    def stop_running(self) -> bool:
        """Drop the request that is out, else stop the indexing; false when nothing runs."""
        if self.state.is_pending:
            self.state.request = None
            self.query_bar.show_note("stopped")
        elif self.engine is not None and self.is_indexing:
            self._is_stop_requested = True
            self.engine.index.cancel()
            self.rankings.note("stopping…")
        else:
            return False
        return True

    def tick(self) -> None:
        if self.is_indexing or int(monotonic()) % 5 == 0:
            self.refresh_status(whole=True)
            self.results.redraw()

    def refresh_status(self, *, whole: bool = False) -> None:
        """Show the newest snapshot of the index status, in the pane as well if `whole`."""
        engine, before = self.engine, self.status
        if engine is None:
            return
        status = self.status = engine.index.status()
        if before is None or status.provider != before.provider:
            self.search.show_title()
        change = words.provider_change(status)
        if change and self.is_indexing and change != self._announced_change:
            self._announced_change = change
            if not self.is_switched:
                in_background(
                    self,
                    engine.providers.cost,
                    lambda cost: tell(self, f"{change}: rebuilding, {words.sent_words(cost)}"),
                    "price the rebuild",
                )
        self.status_bar.show_status(status)
        # The sync of one saved note is soon over: the pane would grow by a line and shrink again,
        # and everything above it with it. It shows how indexing gets on once a second.
        if whole or not self.is_indexing or before is None:
            self.index_pane.show_status(status, engine.now())
        if not self.state.text and self.results.chosen_id is None:
            self.search.show_message(empty_memory(status, app_of(self).keymap))
        self.refresh_bindings()

    def sync_ended(self, event: SyncFinished | SyncFailed) -> None:
        """Tell how a sync ended when it was asked for, and always when it failed."""
        if isinstance(event, SyncFailed):
            is_error = not self._is_stop_requested
            self.rankings.note("")
            prefix = "sync failed: " if is_error else ""
            tell(self, safe_line(f"{prefix}{event.error}"), error=is_error)
        elif self._is_sync_requested:
            stats = event.stats
            kind = "rebuilt" if stats.rebuild else "synced"
            tell(self, f"{kind}: {words.changes_words(stats)} ({stats.seconds:.1f} s)")
        self._is_sync_requested = self._is_stop_requested = False

    def examined(self, event: ForeignExamined) -> None:
        """Tell what another look at the index found, when it was asked for or failed."""
        self.refresh_status()
        self.search.show_title()
        if event.problem:
            tell(self, safe_line(f"could not check the index: {event.problem}"), error=True)
        elif self._is_sync_requested and self.foreign is not None:
            wrong = index_status.counted_findings(self.foreign)
            tell(self, f"checked: {wrong or 'nothing wrong'}")
        self._is_sync_requested = False

    def leg_changed(self, event: LegChanged) -> None:
        is_ok = event.reason is Reason.OK
        what = " answers again" if is_ok else f": {event.detail or reason_words(event.reason)}"
        tell(self, safe_line(f"{leg_name(event.leg)}{what}"), warning=not is_ok)
        self.search.refresh()

    def action_sync(self) -> None:
        """Index what changed; open again what could not be opened."""
        if self.engine is not None:
            if self.foreign:
                tell(self, f"{index_status.LOOKS_AGAIN}.")
            elif common.is_locked(self, self.engine):
                return
            else:
                self.rankings.note("syncing")
            self._is_sync_requested = True
            self.engine.index.sync()
        elif self.engine_error:
            self.engine_error = ""
            self.status_bar.show_note("opening…")
            self.search.show_start()
            app_of(self).memories.open_again()
        else:
            tell(self, "Still opening.")

    def action_rebuild(self) -> None:
        from memtui.tui.screens.dialogs import ask_to_rebuild

        def begun() -> None:
            self._is_sync_requested = True

        if (engine := app_of(self).opened_engine()) is None:
            return
        if self.foreign:
            tell(self, f"{index_status.REBUILD_HINT}.")
        elif not common.is_locked(self, engine):
            ask_to_rebuild(self, engine, begun)

    @on(Input.Changed, "#query")
    def query_changed(self, event: Input.Changed) -> None:
        self.search.typed(event.value)

    @on(Input.Submitted, "#query")
    def query_submitted(self) -> None:
        """Ask at once; when the answer is on screen open the chosen result."""
        state = self.state
        self.notes.remember_query()
        is_begun = state.finished_text != state.text and self.search.begins_word()
        state.finished_text = state.text
        is_new = state.answered_text != state.text or state.waits_for_enter
        if state.text and (is_new or is_begun):
            self.search.ask()
        else:
            self.notes.row_opened(self.results.chosen_id or "")

    @on(RowList.Chosen)
    def row_chosen(self, message: RowList.Chosen) -> None:
        """Show what was chosen, if it still is."""
        row_id = message.row_id
        if row_id is None or row_id != message.row_list.chosen_id:
            return
        self.state.selected_by_user |= message.by_user
        if self.state.ranked is None and row_id.startswith(FILE):
            self.notes.show_note(row_id.removeprefix(FILE))
        elif self.state.ranked is not None and message.by_user:
            # Whoever draws an answer selects in it.
            self.notes.select(row_id)

    @on(RowList.Opened)
    def row_opened(self, message: RowList.Opened) -> None:
        self.notes.row_opened(message.row_id)

    @on(Preview.Opened)
    def preview_opened(self) -> None:
        """Read the note of the preview over the whole width."""
        self.notes.read(self.results.chosen_id or "")

    @on(events.DescendantFocus)
    def list_entered(self, event: events.DescendantFocus) -> None:
        if event.widget is not self.query_input:
            self.search.show_below()
        # Other keys work while the query is typed.
        self.rankings.show_parameters()
        self.search.show_title()
        chosen = event.widget.chosen_id if event.widget in (self.results, self.near) else None
        if self.state.ranked is not None and chosen not in (None, self.state.selected_id):
            self.notes.select(chosen)

    def layout_classes(self) -> dict[str, bool]:
        """The classes that depend on the size and on what the user chose."""
        near = self.shows_near_misses
        if near is None:
            near = self.size.width >= common.WIDE and self.size.height >= common.TALL
        return {
            **common.size_classes(self),
            **{f"-preview-{place}": self.preview_place == place for place in PLACES},
            **{f"-pane-{pane}": self.is_small and self.pane == pane for pane in PANES},
            "-single": self.is_small,
            "-stacked": self.size.width < common.WIDE or self.is_small,
            "-roomy": self.size.height >= ROOMY,
            "-near": near and self.state.ranked is not None,
            "-start": self.state.ranked is None,
        }

    def on_compose(self) -> None:
        """Set the classes before there are widgets whose styles depend on them."""
        self._size_laid_out = self.size
        self.update_classes(self.layout_classes(), update=False)

    def on_resize(self, event: events.Resize) -> None:
        """Choose the layout for the size, which Textual tells up to three times at the start."""
        if event.size == self._size_laid_out == self.outer_size:
            event.prevent_default()
            return
        self._size_laid_out = event.size
        self.apply_layout()

    def apply_layout(self) -> None:
        """Lay out for the size, for what the user chose and for what there is to show."""
        had_near = self.has_class("-near")
        # One look through the style sheets for all of them.
        self.update_classes(self.layout_classes(), animate=False)
        is_large = self.size.width >= common.HUGE and self.size.height >= 40
        is_crowded = self.has_class("-stacked", "-parameters", "-short")
        self.row_lines = 1 if self.is_small or is_crowded else 4 if is_large else 2
        context, is_same = self.state.context, had_near == self.has_class("-near")
        if context is not None and not (is_same and context.lines == self.row_lines):
            self.call_after_refresh(self.search.redraw)

    def show_pane(self, pane: str) -> None:
        """Bring a pane to the front and give it the keys."""
        self.pane = pane if pane in PANES else "results"
        if self.is_small:
            self.remove_class("-parameters")
        self.apply_layout()
        widget = self.query_one(f"#{self.pane}")
        if self.is_small:
            self.call_after_refresh(widget.focus)
        else:
            self.set_focus(widget if widget in self.focus_chain else self.results)

    def worded(self, binding: Binding) -> Binding:
        """Over another program's index there is nothing to sync and no rebuild to offer."""
        if binding.id == "leave":
            return replace(binding, show=bool(self.part_in_front or self.came_from))
        idle = "" if self.state.mode is SearchMode.HYBRID else "mmr.toggle"
        if binding.id == idle or (binding.id == "explain" and self.state.selected_id is None):
            return replace(binding, show=False)
        if self.foreign and binding.id == "index.sync":
            tooltip = "Look at the agent's index again; nothing of it is changed"
            return replace(binding, description="check again", tooltip=tooltip)
        if binding.id == "index.sync" and self.status and self.status.has_other_writer:
            return replace(binding, show=False, tooltip=WORDS["writer"]["not_now"])
        if binding.id == "index.sync" and self.engine_error:
            return replace(binding, description="try again")
        is_none = self.foreign and binding.id == "index.rebuild"
        return replace(binding, description="") if is_none else binding

    @property
    def part_in_front(self) -> RowList | None:
        """The part with the keys that a key opened: the parameters, or what is not shown."""
        opened = self.has_class("-parameters"), bool(self.shows_near_misses)
        parts = zip((self.panel.rows, self.near), opened, strict=True)
        return next((part for part, is_open in parts if is_open and part.has_focus), None)

    def close_part(self) -> bool:
        """Close the part with the keys; false where no key opened it."""
        part = self.part_in_front
        if part is self.near:
            self.search.toggle_near_misses()
        elif part is not None:
            self.action_toggle_parameters()
        return part is not None

    def action_focus_query(self) -> None:
        """Edit the query; what is typed replaces it."""
        self.query_input.focus()
        self.query_input.action_select_all()
        self.search.show_below(offers=True)

    def action_leave(self) -> None:
        """Go from the query, or any other pane, to the list.

        A part that a key opened is closed. Last to the screen that a query came from. Never quits,
        and never clears the query.
        """
        if self.close_part():
            return
        if isinstance(self.focused, Input):
            self.notes.remember_query()
        elif self.results.has_focus and self.came_from:
            app_of(self).action_show_screen(self.came_from)
            return
        self.show_pane("results")

    def action_next_pane(self, step: int) -> None:
        if not self.is_small:
            (self.focus_next if step > 0 else self.focus_previous)(IN_TAB_ORDER)
        elif isinstance(self.focused, Input):
            self.show_pane("results" if step > 0 else PANES[-1])
        elif 0 <= (at := PANES.index(self.pane) + step) < len(PANES):
            self.show_pane(PANES[at])
        else:
            self.query_input.focus()

    def action_cycle_preview(self) -> None:
        self.preview_place = next_of(PLACES, self.preview_place)
        self.apply_layout()
        self.rankings.note(f"preview: {self.preview_place}")

    def action_toggle_parameters(self) -> None:
        """Show the parameters and give them the keys, or take them away.

        They stand beside the list, or in a narrow terminal below it, in place of the preview.
        """
        is_shown, had_focus = self.panel.display, self.panel.rows.has_focus
        if had_focus or not is_shown:
            self.toggle_class("-parameters")
            self.apply_layout()
        if had_focus:
            self.show_pane("results")
        else:
            self.call_after_refresh(self.panel.rows.focus)
