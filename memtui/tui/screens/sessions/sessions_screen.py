"""The sessions screen: conversations, the turns of one, and the agent searches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Input, Static

from memtui.engine import Engine
from memtui.report.words import WORDS
from memtui.tui import glyphs
from memtui.tui.background import tell
from memtui.tui.bindings import bindings, next_of
from memtui.tui.place_actions import app_of, cite, edit_place
from memtui.tui.screens.common import HEIGHTS, TOO_SMALL, WIDE, WIDTHS, act_on_part, is_locked
from memtui.tui.screens.sessions.conversation import ReaderPane
from memtui.tui.screens.sessions.listing import ListPane
from memtui.tui.screens.sessions.searches import SearchesPane
from memtui.tui.widgets.bars import KeyBar, ScreenBar
from memtui.tui.widgets.lists import RowList
from memtui.tui.widgets.query_bar import QueryBar

PANES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "list": ("#conversations", ("find", "searches", "sort", "sources…", "back")),
    "reader": ("#turns", ("find", "searches", "edit", "back")),
    "searches": ("#memory-calls", ("show its turn", "show in Browse", "searches", "back")),
}
"""The panes from left to right: the widget that gets the keys, and the keys that are offered."""


class SessionsScreen(Screen[None]):
    """Three panes and what belongs to them; the layout is in sessions.tcss, by size classes."""

    CSS_PATH = "sessions.tcss"
    AUTO_FOCUS = ""
    """The pane in front gets the keys, never the filter above it."""
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS = bindings("sessions")
    action_part = act_on_part

    filter_input = query_one("#sessions-filter", Input)

    def __init__(self, engine: Engine) -> None:
        super().__init__(id="sessions")
        self.engine = engine
        self.conversations = ListPane()
        self.reader = ReaderPane()
        self.searches = SearchesPane()
        self.pane = "list"
        """The pane in front: `list`, `reader` or `asked`."""
        self.before = "list"
        """The pane that one step back leads to; empty where another screen led to what is read."""

    @property
    def is_small(self) -> bool:
        """True if there is no room for borders."""
        return self.size.width < 60 or self.size.height < 16

    def compose(self) -> ComposeResult:
        yield ScreenBar()
        yield QueryBar(glyphs.MARKER, "sessions-filter", "filter: title, agent, model, path")
        with Horizontal(id="sessions-body"):
            yield self.conversations
            yield self.reader
            yield self.searches
        yield KeyBar()
        yield Static(Content(TOO_SMALL), id="too-small", markup=False)

    def on_mount(self) -> None:
        self.conversations.show()
        self.searches.show()
        self.show_pane(self.pane)
        self.searches.list_calls()

    def on_screen_resume(self) -> None:
        """Look for conversations; ask again what other parameters answer."""
        if self.is_mounted:
            self.conversations.show()
            self.conversations.load()
            if self.searches.replayed_with != app_of(self).search_screen.state.ranking:
                self.searches.replay_changed()

    def open_turn(self, path: str, line: int = 1, end_line: int | None = None) -> None:
        """Show a conversation at a line of its transcript, with the query's words marked.

        With `end_line` at the turn from `line` to there that holds the most of these words.
        """

        def show() -> None:
            self.conversations.rows.choose(path)
            self.reader.stop_looking()
            self.reader.read_place(path, line, end_line)
            self.before = ""
            self.show_pane("reader")

        # Before it is mounted, a screen has no place for it.
        self.call_later(show)

    def on_resize(self, event: events.Resize) -> None:
        self._apply_layout()
        self.call_after_refresh(self.searches.list_calls)

    def _apply_layout(self) -> None:
        was_small = self.has_class("-single")
        is_one = self.size.width < WIDE or self.is_small
        panes = {f"-pane-{pane}": self.pane == pane for pane in PANES}
        self.update_classes({"-one": is_one, "-single": self.is_small, **panes})
        if was_small != self.is_small and self.is_mounted:
            self.conversations.show()

    def show_pane(self, pane: str, selector: str = "") -> None:
        """Bring a pane to the front and give it, or a widget, the keys."""

        def focus() -> None:
            self.query_one(selector or PANES[pane][0]).focus()
            self.refresh_bindings()

        paths = {"list": self.conversations.chosen_path, "reader": self.reader.path}
        this = paths.get(self.pane, "")
        self.pane = pane
        self._apply_layout()
        if pane == "searches":
            self.searches.list_calls(this)
        self.call_after_refresh(focus)

    @on(events.DescendantFocus)
    def pane_entered(self, event: events.DescendantFocus) -> None:
        panes = (self.conversations, self.reader, self.searches)
        for name, pane in zip(PANES, panes, strict=True):
            if pane in event.widget.ancestors and name != self.pane:
                self.pane = name
                self._apply_layout()

    def worded(self, binding: Binding) -> Binding:
        if binding.description == "searches" and self.pane == "searches":
            whose = "this conversation" if self.searches.is_all else "every conversation"
            return replace(binding, description=whose, show=True)
        matches = ("next match",) if self.reader.needle else ()
        return replace(binding, show=binding.description in (*matches, *PANES[self.pane][1]))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match (action, *parameters[:2]):
            case ("part", "searches", "show_turn" | "show_place"):
                return True if self.pane == "searches" and self.searches.calls else None
            case ("part", "conversations", "sort"):
                return (self.conversations.lists_any and self.conversations.display) or None
            case ("find",) | ("part", "searches", "show_calls") if self.pane != "reader":
                return self.conversations.lists_any or None
            case ("sources",):
                return self.conversations.has_sources or None
            case ("find",) | ("part", "reader", "show_chunk"):
                return True if self.reader.conversation is not None else None
            case ("part", "reader", "copy_text"):
                return True if self.reader.view.turn is not None else None
            case ("edit" | "copy_citation",):
                return True if self.is_mounted and self._place() is not None else None
            case _:
                return True

    @on(Input.Changed, "#sessions-filter")
    @on(Input.Submitted, "#sessions-filter")
    def filter_changed(self, event: Input.Changed | Input.Submitted) -> None:
        if isinstance(event, Input.Submitted):
            self.show_pane("list")
        else:
            self.conversations.show()

    @on(RowList.Opened, "#conversations")
    def conversation_opened(self, message: RowList.Opened) -> None:
        self.before = "list"
        self.reader.read_best(message.row_id)
        self.show_pane("reader")

    def action_find(self) -> None:
        if self.pane != "reader":
            self.show_pane("list", "#sessions-filter")
        else:
            self.reader.open_within()

    def action_match(self, step: int) -> None:
        """Go to the next search where they are listed, else to the next match."""
        if self.pane == "searches":
            self.searches.calls_list.action_move(step)
        else:
            self.reader.match(step)

    def action_next_pane(self, step: int) -> None:
        if self.has_class("-one"):
            if self.pane == "searches" and self.searches.comparison.has_focus == (step < 0):
                self.query_one("#memory-calls" if step < 0 else "#comparison").focus()
            else:
                self.show_pane(next_of(PANES, self.pane, step))
            return
        go = self.focus_next if step > 0 else self.focus_previous
        go("#sessions-filter, #conversations, #turns, #memory-calls, #comparison")

    def action_sync(self) -> None:
        """Index what changed; of the agent searches, ask the chosen one again."""
        if self.pane == "searches" and self.searches.chosen is not None:
            self.searches.replay_chosen()
        else:
            self.engine.index.sync()
            tell(self, "syncing")
            # What is not enough to be indexed yet is shown all the same.
            self.conversations.load()

    def action_sources(self) -> None:
        from memtui.tui.screens.transcripts import TranscriptsScreen

        def closed(message: str | None) -> None:
            if message is None:
                return
            self.conversations.load()
            waits = "The choice waits until this window writes: "
            if message == WORDS["choice"]["for good"] or not is_locked(self, self.engine, waits):
                tell(self, message)

        options = app_of(self).options
        screen = TranscriptsScreen(self.engine, None if "demo" in options.memory else options.files)
        self.app.push_screen(screen, closed)

    def action_close(self) -> None:
        """One step back: from a box, from a text that is looked for, to the list, to the search."""
        reader = self.reader
        if self.focused is reader.within_input:
            reader.stop_looking()
            reader.view.focus()
        elif isinstance(self.focused, Input):
            self.show_pane("list")
        elif self.pane == "reader" and reader.stop_looking():
            reader.view.focus()
        elif self.pane == "list" and self.filter_input.value:
            self.filter_input.value = ""
        elif not self.close_part():
            self.app.pop_screen()

    def close_part(self) -> bool:
        """Go to the pane before; false on the list, and in what another screen led to."""
        of_searches = "list" if self.reader.conversation is None else "reader"
        before = {"reader": self.before, "searches": of_searches}.get(self.pane, "")
        if self.pane == "reader":
            self.before = "list"
        self.show_pane(before or "list")
        return bool(before)

    def _place(self) -> tuple[str, int] | None:
        """Return the path and the line that keys are about: of the pane in front."""
        turn, call = self.reader.view.turn, self.searches.chosen
        if self.pane == "searches":
            return (call.path, call.line) if call is not None else None
        if self.pane == "reader" and self.reader.conversation is not None and turn is not None:
            return self.reader.path, turn.line
        chosen = self.conversations.chosen_path
        return (chosen, 1) if chosen else None

    def action_edit(self) -> None:
        if (place := self._place()) is None:
            return
        listing = self.conversations.listings.get(place[0])
        if listing is None or listing.session:
            why = "is gone" if listing is None else "is rows of a database"
            tell(self, f"No file to edit: this conversation {why}.", warning=True)
        elif edit_place(self, Path(listing.place), place[1]):
            tell(self, "The editor had the file as it is: credentials are masked only here.")
            self.engine.index.sync()

    def action_copy_citation(self) -> None:
        if (place := self._place()) is not None:
            cite(self, place[0], place[1], place[1])
