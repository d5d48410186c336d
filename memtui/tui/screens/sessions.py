"""The sessions screen: conversations, the turns of one, and what the agent asked its memory."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from memtui.tui.bindings import bindings
from memtui.tui.options import UiOptions
from memtui.tui.screens.base import HEIGHTS, TOO_SMALL, WIDTHS
from memtui.tui.sessions.actions_following import WATCH_SECONDS, FollowingActions
from memtui.tui.widgets.facts import Facts
from memtui.tui.widgets.key_bar import KeyBar
from memtui.tui.widgets.query_bar import SafeInput
from memtui.tui.widgets.row_list import RowList
from memtui.tui.widgets.turn_view import TurnView

PANES = ("list", "reader", "asked")
_FIRST = {"list": "#conversations", "reader": "#turns", "asked": "#memory-calls"}
_OFFERED = {
    "list": ("find", "asked", "sort", "sources"),
    "reader": ("find", "asked", "edit"),
    "asked": ("turn_of_call", "place_of_result", "asked_everywhere"),
}
_MATCHES = ("match(1)",)
_ALWAYS = ("close", "help", "quit")
_LABEL = 7


class SessionsScreen(FollowingActions):
    """Three panes and what belongs to them; the layout is in sessions.tcss, by size classes."""

    CSS_PATH = "sessions.tcss"
    AUTO_FOCUS = ""
    """The pane in front gets the keys, never the filter above it."""
    BINDING_GROUP_TITLE = "Sessions"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = bindings("sessions")

    def __init__(self, options: UiOptions) -> None:
        super().__init__(options)
        self._calls, self._replays = {}, {}
        self._prepared = False

    def compose(self) -> ComposeResult:
        """Top to bottom: filter, panes, keys."""
        marker = self.glyphs.marker
        with Horizontal(id="sessions-bar"):
            yield Static(Content(f" {self.glyphs.prompt} "), id="sessions-prompt", markup=False)
            yield SafeInput(
                placeholder="filter the conversations", id="sessions-filter", compact=True
            )
            yield Static(id="sessions-count", markup=False)
        with Horizontal(id="sessions-body"):
            with Vertical(id="sessions-list"):
                yield RowList(id="conversations", marker=marker, opens="read")
                yield Facts(id="conversation-facts", label_width=_LABEL)
            with Vertical(id="sessions-reader"):
                yield TurnView(self.glyphs, id="turns")
                with Horizontal(id="within-bar"):
                    yield Static(Content(" / "), id="within-prompt", markup=False)
                    yield SafeInput(
                        placeholder="find in this conversation", id="within", compact=True
                    )
            with Vertical(id="sessions-asked"):
                with Container(id="asked-body"):
                    yield RowList(id="memory-calls", marker=marker, opens="search")
                    with Vertical(id="then-and-now"):
                        yield Static(id="asked-query", markup=False)
                        yield RowList(id="comparison", marker=marker, opens="search")
                yield Static(id="asked-note", markup=False)
        yield KeyBar()
        with Horizontal(id="too-small"):
            yield Static(Content(TOO_SMALL), markup=False)

    def on_mount(self) -> None:
        """Look for conversations; read the one that was asked for meanwhile."""
        self._prepared = True
        self.reader.show_message([self.dim("Choose a conversation to read it here.")])
        self.show_list()
        self.show_calls()
        self.name_reader()
        self.load()
        self.set_interval(WATCH_SECONDS, self.follow_conversation)
        if self.came_to_read:
            self._go_to_read()
        else:
            self.show_pane(self.pane)
            self.calls_wanted()

    def on_screen_resume(self) -> None:
        """Count the matches of the present answer; ask again what other parameters answer."""
        if self._prepared:
            self.show_list()
            self.name_reader()
            self.catch_up()
            if self._replayed_with not in (None, self.main_app.search_screen.ranking):
                self.asked_changed()

    # --- panes ----------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        """Choose the layout for the size."""
        self.apply_layout()
        self.call_after_refresh(self.calls_wanted)

    def apply_layout(self) -> None:
        """Set the classes that depend on the size and on the pane in front."""
        was_small = self.has_class("-single")
        panes = {f"-pane-{pane}": self.pane == pane for pane in PANES}
        self.update_classes({"-one": self.is_single, "-single": self.is_small, **panes})
        if was_small != self.is_small and self._prepared:
            self.show_list()

    def show_pane(self, pane: str) -> None:
        """Bring a pane to the front and give it the keys."""
        self.pane = pane
        self.apply_layout()
        self.call_after_refresh(self._focus, _FIRST[pane])

    def _focus(self, selector: str) -> None:
        self.query_one(selector).focus()
        self.refresh_bindings()

    @on(events.DescendantFocus)
    def pane_entered(self, event: events.DescendantFocus) -> None:
        """The pane that has the keys is the one in front."""
        for pane in PANES:
            inside = self.query_one(f"#sessions-{pane}") in event.widget.ancestors
            if inside and pane != self.pane:
                self.pane = pane
                self.apply_layout()

    def _panes(self) -> list[Widget]:
        names = ("#sessions-filter", "#conversations", "#turns", "#memory-calls", "#comparison")
        return [w for w in map(self.query_one, names) if _is_shown(w)]

    # --- keys -----------------------------------------------------------------------------------

    def worded(self, binding: Binding) -> Binding:
        """Offer what belongs to the pane in front."""
        shown = _OFFERED[self.pane] if self._needle == "" else (*_MATCHES, *_OFFERED[self.pane])
        return replace(binding, show=binding.action in shown or binding.action in _ALWAYS)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what has nothing to be done to."""
        if action in ("turn_of_call", "replay", "place_of_result"):
            return True if self._calls else None
        if action in ("edit", "copy_citation"):
            return True if self._place() is not None else None
        if action in ("show_chunk", "copy_text"):
            return True if self.conversation is not None else None
        return True

    def action_find(self) -> None:
        """Filter the list; in a conversation look for a text."""
        if self.pane == "reader":
            self.open_within()
        else:
            self.show_pane("list")
            self.call_after_refresh(self._focus, "#sessions-filter")

    def action_move(self, step: int) -> None:
        """Move the choice in the list while the filter is typed."""
        if self.filter_input.has_focus:
            widget = self.conversations
            widget.action_cursor_down() if step > 0 else widget.action_cursor_up()

    def action_next_pane(self, step: int) -> None:
        """Give the keys to the next pane."""
        if self.is_single:
            at = PANES.index(self.pane)
            self.mean_this()
            self.show_pane(PANES[(at + step) % len(PANES)])
            self.calls_wanted()
            return
        panes = self._panes()
        focused = self.focused
        at = panes.index(focused) if focused in panes else -step
        panes[(at + step) % len(panes)].focus()

    def action_sync(self) -> None:
        """Index what changed."""
        if self.engine is not None:
            self.engine.index.sync()
            self.tell("syncing")
            # What is not enough to be indexed yet is shown all the same.
            self.load()

    def action_sources(self) -> None:
        """Choose which transcripts are indexed."""
        from memtui.tui.screens.transcripts import TranscriptsScreen

        if self.engine is not None:
            self.app.push_screen(TranscriptsScreen(self.engine, self.options), self._sources_chosen)

    def _sources_chosen(self, changed: bool | None) -> None:
        if changed:
            self.load()

    def action_close(self) -> None:
        """One step back: from a box, from a text that is looked for, to the list, to the search."""
        if isinstance(self.focused, Input):
            if self.focused is self.within_input:
                self.stop_looking()
                self.reader.focus()
            else:
                self.show_pane("list")
        elif self.pane == "asked":
            self.show_pane("reader" if self.conversation is not None else "list")
        elif self.pane == "reader" and self.stop_looking():
            self.reader.focus()
        elif self.pane == "reader" and not self.came_to_read:
            self.show_pane("list")
        elif self.pane == "list" and self.filter_input.value:
            self.filter_input.value = ""
        else:
            self.came_to_read = False
            self.app.pop_screen()


def _is_shown(widget: Widget) -> bool:
    """Whether a widget and everything around it is displayed."""
    return all(node.display for node in widget.ancestors_with_self if isinstance(node, Widget))
