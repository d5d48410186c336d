"""The sessions screen: conversations, the turns of one, and what the agent asked its memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.getters import query_one
from textual.widget import Widget
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from memtui.errors import Cancelled
from memtui.model import citation
from memtui.model.conversations import ConversationListing, TranscriptSource
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import tell
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import Glyphs, glyphs
from memtui.tui.options import UiOptions
from memtui.tui.place_actions import edit_place
from memtui.tui.screens.base import HEIGHTS, TOO_SMALL, WIDTHS, BaseScreen
from memtui.tui.screens.sessions.asked import AskedPane
from memtui.tui.screens.sessions.listing import (
    ConversationList,
    Matches,
    best_chunk,
    listing_facts,
    listing_row,
    matches_by_path,
)
from memtui.tui.screens.sessions.pane import Pane, why
from memtui.tui.screens.sessions.reader import ReaderPane
from memtui.tui.widgets.key_bar import KeyBar
from memtui.tui.widgets.line_view import Facts
from memtui.tui.widgets.query_bar import SafeInput
from memtui.tui.widgets.row_list import RowList

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.tui.app import MemtuiApp

PANES = ("list", "reader", "asked")
ONE_PANE = 100
"""Below so many columns one pane is shown at a time."""
COUNTED_SECONDS = 0.25
"""What is counted is shown so often at most."""
RELOAD_SECONDS = 0.5
_FIRST = {"list": "#conversations", "reader": "#turns", "asked": "#memory-calls"}
_OFFERED = {
    "list": ("find", "asked", "sort", "sources…", "back"),
    "reader": ("find", "asked", "edit", "back"),
    "asked": ("turn", "place", "asked everywhere", "back"),
}


class ListPane(Pane):
    """Conversations, newest first or in another order, and what there is to know of one."""

    rows = query_one("#conversations", RowList)

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(glyphs, id="sessions-list")
        self.state = ConversationList()
        self.look_seconds = 0.0
        """How long the last look at the transcripts took."""
        self._filter = ""
        self._is_reloading_soon = self._is_behind = False

    @property
    def chosen_path(self) -> str:
        """The path of the chosen conversation; empty without one."""
        return self.rows.chosen_id or ""

    def compose(self) -> ComposeResult:
        """The list, and the facts of the chosen conversation."""
        yield RowList(id="conversations", marker=self.glyphs.marker, opens="read")
        yield Facts(id="conversation-facts", label_width=7)

    def load(self) -> None:
        """Look for conversations."""
        if self.engine is not None:
            self._look(self.engine)

    def content_changed(self) -> None:
        """Follow a changed index: bursts become one look, behind another screen none."""
        self._is_behind = True
        self.catch_up()

    def catch_up(self) -> None:
        """Look again, some time after the last look, if something changed since."""
        is_due = self._is_behind and not self._is_reloading_soon
        if is_due and self.is_mounted and self.screen.is_current:
            self._is_reloading_soon = True
            # A look at thousands of transcripts takes its time from whoever indexes them.
            self.set_timer(max(RELOAD_SECONDS, 5 * self.look_seconds), self._reload)

    def _reload(self) -> None:
        self._is_reloading_soon = self._is_behind = False
        self.load()
        self.sessions.asked.replay_changed()

    @work(
        thread=True, exclusive=True, group="conversations", exit_on_error=False,
        description="list the conversations",
    )  # fmt: skip
    def _look(self, engine: Engine) -> None:
        began = time.monotonic()
        listings: Sequence[ConversationListing] = ()
        sources: Sequence[TranscriptSource] = ()
        try:
            listings, sources = engine.conversations.listings(), engine.conversations.sources()
            error = ""
        except Exception as failure:
            # Whatever a folder of transcripts does to its reader is one line of this screen.
            error = why(failure)
        self.call_later(self._take, listings, sources, error, time.monotonic() - began)

    def _take(
        self,
        listings: Sequence[ConversationListing],
        sources: Sequence[TranscriptSource],
        error: str,
        seconds: float,
    ) -> None:
        """Show what there is, and go on counting what takes reading."""
        state = self.state
        state.is_loaded, state.error, self.look_seconds = True, error, seconds
        if error and state.listings:
            tell(self.sessions, f"cannot list the conversations: {error}", error=True)
            return
        uncounted = state.take(listings, sources)
        self.show()
        self.sessions.reader.follow(state.listings.get(self.sessions.reader.path))
        if uncounted and self.engine is not None:
            self._count(self.engine, uncounted)

    @work(
        thread=True, exclusive=True, group="count", exit_on_error=False,
        description="count the turns of the conversations",
    )  # fmt: skip
    def _count(self, engine: Engine, listings: Sequence[ConversationListing]) -> None:
        worker = get_current_worker()
        waiting: list[ConversationListing] = []
        shown = time.monotonic()

        def counted(listing: ConversationListing) -> None:
            nonlocal shown
            waiting.append(listing)
            if time.monotonic() - shown > COUNTED_SECONDS:
                shown = time.monotonic()
                self.call_later(self.take_counts, tuple(waiting), is_all=False)
                waiting.clear()

        try:
            engine.conversations.count(listings, counted, cancelled=lambda: worker.is_cancelled)
        except Cancelled:
            return
        self.call_later(self.take_counts, tuple(waiting), is_all=True)

    def take_counts(self, listings: Sequence[ConversationListing], *, is_all: bool) -> None:
        """Fill in what was counted."""
        self.state.take_counts(listings, is_all=is_all)
        self.show()

    def take_listing(self, listing: ConversationListing) -> None:
        """Fill in what reading a conversation told of it."""
        self.state.listings[listing.path] = listing
        self.show()

    def show(self, text: str | None = None) -> None:
        """Draw the list, the chosen row as it was; `text` is another filter."""
        self._filter = self._filter if text is None else text
        state, widget, sessions = self.state, self.rows, self.sessions
        matches = matches_by_path(self.ranked)
        shown, problems = state.shown(self._filter, matches)
        if shown:
            lines = 1 if sessions.is_small else 2
            rows = [
                listing_row(each, matches.get(each.path, Matches()), lines=lines) for each in shown
            ]
            widget.set_rows(rows, keep=widget.chosen_id or sessions.reader.path)
        else:
            widget.show_message(state.empty_lines(self._filter, sessions.glyphs))
        widget.border_title = Content(state.title(len(shown)))
        widget.border_subtitle = Content(state.subtitle())
        note, style = (problems[0], "$state-warn") if problems else (state.note(), fmt.MUTED)
        count = sessions.query_one("#sessions-count", Static)
        count.update(Content.styled(safe_line(note), style), layout=False)
        self.show_facts()

    def sort(self) -> None:
        """Show the list in the next order."""
        self.state.sort_by_next()
        self.show()

    def move(self, step: int) -> None:
        """Move the choice while the filter is typed."""
        if self.sessions.filter_input.has_focus:
            self.rows.action_move(step)

    @on(RowList.Chosen)
    def show_facts(self) -> None:
        """Show what there is to know of the chosen conversation."""
        listing = self.state.listings.get(self.chosen_path)
        matches = matches_by_path(self.ranked).get(self.chosen_path, Matches())
        facts = listing_facts(listing, matches) if listing is not None else ()
        self.query_one("#conversation-facts", Facts).show_facts(facts)


class SessionsScreen(BaseScreen[None]):
    """Three panes and what belongs to them; the layout is in sessions.tcss, by size classes."""

    CSS_PATH = "sessions.tcss"
    AUTO_FOCUS = ""
    """The pane in front gets the keys, never the filter above it."""
    BINDING_GROUP_TITLE = "Sessions"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = bindings("sessions")

    filter_input = query_one("#sessions-filter", Input)

    def __init__(self, options: UiOptions) -> None:
        super().__init__()
        self.options = options
        self.glyphs = glyphs(options.glyphs)
        self.conversations = ListPane(self.glyphs)
        self.reader = ReaderPane(self.glyphs)
        self.asked = AskedPane(self.glyphs)
        self.pane = "list"
        """The pane in front: `list`, `reader` or `asked`."""
        self._turn_wanted: Callable[[], None] | None = None
        """Shows the turn that was asked for from another screen, to which Escape leads back."""

    @property
    def main_app(self) -> MemtuiApp:
        """The application with its other screens."""
        return cast("MemtuiApp", self.app)

    @property
    def is_small(self) -> bool:
        """Whether there is no room for borders."""
        return self.size.width < 60 or self.size.height < 16

    def compose(self) -> ComposeResult:
        """Top to bottom: filter, panes, keys."""
        with Horizontal(id="sessions-bar"):
            yield Static(Content(f" {self.glyphs.prompt} "), id="sessions-prompt", markup=False)
            yield SafeInput(
                placeholder="filter the conversations", id="sessions-filter", compact=True
            )
            yield Static(id="sessions-count", markup=False)
        with Horizontal(id="sessions-body"):
            yield self.conversations
            yield self.reader
            yield self.asked
        yield KeyBar()
        with Horizontal(id="too-small"):
            yield Static(Content(TOO_SMALL), markup=False)

    def on_mount(self) -> None:
        """Look for conversations; read the one that was asked for meanwhile."""
        self.conversations.show()
        self.asked.show()
        self.conversations.load()
        if self._turn_wanted is not None:
            self._turn_wanted()
        else:
            self.show_pane(self.pane)
            self.asked.list_calls()

    def on_screen_resume(self) -> None:
        """Count the matches of the present answer; ask again what other parameters answer."""
        if self.is_mounted:
            self.conversations.show()
            self.reader.show_title()
            self.conversations.catch_up()
            if self.asked.replayed_with not in (None, self.main_app.search_screen.ranking):
                self.asked.replay_changed()

    # --- from other screens ---------------------------------------------------------------------

    def open_turn(self, path: str, line: int = 1, end_line: int | None = None) -> None:
        """Show a conversation at a line of its transcript, with the query's words marked.

        With `end_line` at the turn from `line` to there that holds the most of these words.
        Before the screen is mounted, it is shown as soon as there is a place for it.
        """

        def show() -> None:
            self.conversations.rows.choose(path)
            self.reader.stop_looking()
            self.reader.read(path, line, end_line=end_line, terms=self.reader.answer_terms())
            self.show_pane("reader")

        self._turn_wanted = show
        if self.is_mounted:
            show()

    def open_asked(self) -> None:
        """Show what the agent asked its memory in every conversation.

        Before the screen is mounted, it is shown as soon as there is a place for it.
        """
        self.asked.is_all = True
        self.pane = "asked"
        if self.is_mounted:
            self.asked.show_everywhere(True)

    # --- panes ----------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        """Choose the layout for the size."""
        self._apply_layout()
        self.call_after_refresh(self.asked.list_calls)

    def _apply_layout(self) -> None:
        """Set the classes that depend on the size and on the pane in front."""
        was_small = self.has_class("-single")
        is_one = self.size.width < ONE_PANE or self.is_small
        panes = {f"-pane-{pane}": self.pane == pane for pane in PANES}
        self.update_classes({"-one": is_one, "-single": self.is_small, **panes})
        if was_small != self.is_small and self.is_mounted:
            self.conversations.show()

    def show_pane(self, pane: str, selector: str = "") -> None:
        """Bring a pane to the front and give it, or a widget, the keys."""

        def focus() -> None:
            self.query_one(selector or _FIRST[pane]).focus()
            self.refresh_bindings()

        self.pane = pane
        self._apply_layout()
        self.call_after_refresh(focus)

    @on(events.DescendantFocus)
    def pane_entered(self, event: events.DescendantFocus) -> None:
        """Bring the pane that has the keys to the front."""
        panes = dict(zip(PANES, (self.conversations, self.reader, self.asked), strict=True))
        for name, pane in panes.items():
            if pane in event.widget.ancestors and name != self.pane:
                self.pane = name
                self._apply_layout()

    def worded(self, binding: Binding) -> Binding:
        """Offer what belongs to the pane in front."""
        matches = ("next",) if self.reader.matching.needle else ()
        return replace(binding, show=binding.description in (*matches, *_OFFERED[self.pane]))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what has nothing to be done to."""
        match (action, *parameters[:2]):
            case ("part", "asked", "show_turn" | "replay_chosen" | "show_place"):
                return True if self.asked.state.calls else None
            case ("part", "reader", "show_chunk" | "copy_text"):
                return True if self.reader.conversation is not None else None
            case ("edit" | "copy_citation",):
                return True if self.is_mounted and self._place() is not None else None
            case _:
                return True

    @on(Input.Changed, "#sessions-filter")
    @on(Input.Submitted, "#sessions-filter")
    def filter_changed(self, event: Input.Changed | Input.Submitted) -> None:
        """Filter as it is typed; go to the list."""
        event.stop()
        if isinstance(event, Input.Submitted):
            self.show_pane("list")
        else:
            self.conversations.show(event.value)

    @on(RowList.Opened, "#conversations")
    def conversation_opened(self, message: RowList.Opened) -> None:
        """Read it."""
        message.stop()
        self._turn_wanted = None
        path = message.row_id
        best = None if path == self.reader.path else best_chunk(self.reader.ranked, path)
        self.reader.read_best(path, best)
        self.show_pane("reader")

    # --- keys -----------------------------------------------------------------------------------

    def action_find(self) -> None:
        """Filter the list; in a conversation look for a text."""
        if self.pane != "reader":
            self.show_pane("list", "#sessions-filter")
        else:
            self.reader.open_within()

    def action_next_pane(self, step: int) -> None:
        """Give the keys to the next pane."""
        if self.has_class("-one"):
            self.asked.mean_this()
            self.show_pane(PANES[(PANES.index(self.pane) + step) % len(PANES)])
            self.asked.list_calls()
            return
        names = ("#sessions-filter", "#conversations", "#turns", "#memory-calls", "#comparison")
        widgets = [widget for widget in map(self.query_one, names) if _is_shown(widget)]
        at = widgets.index(self.focused) if self.focused in widgets else -step
        widgets[(at + step) % len(widgets)].focus()

    def action_sync(self) -> None:
        """Index what changed."""
        engine = self.reader.engine
        if engine is not None:
            engine.index.sync()
            tell(self, "syncing")
            # What is not enough to be indexed yet is shown all the same.
            self.conversations.load()

    def action_sources(self) -> None:
        """Choose which transcripts are indexed."""
        from memtui.tui.screens.sessions.sources import TranscriptsScreen

        def chosen(changed: bool | None) -> None:
            if changed:
                self.conversations.load()

        engine = self.reader.engine
        if engine is not None:
            self.app.push_screen(TranscriptsScreen(engine, self.options), chosen)

    def action_close(self) -> None:
        """One step back: from a box, from a text that is looked for, to the list, to the search."""
        reader = self.reader
        if self.focused is reader.within_input:
            reader.stop_looking()
            reader.view.focus()
        elif isinstance(self.focused, Input):
            self.show_pane("list")
        elif self.pane == "asked":
            self.show_pane("reader" if reader.conversation is not None else "list")
        elif self.pane == "reader" and reader.stop_looking():
            reader.view.focus()
        elif self.pane == "reader" and self._turn_wanted is None:
            self.show_pane("list")
        elif self.pane == "list" and self.filter_input.value:
            self.filter_input.value = ""
        else:
            self._turn_wanted = None
            self.app.pop_screen()

    # --- the turn in front, or the chosen conversation ------------------------------------------

    def _place(self) -> tuple[str, int] | None:
        """Return the path and the line that keys are about: of the pane in front."""
        turn, call = self.reader.view.position.turn, self.asked.chosen
        if self.pane == "asked":
            return (call.path, call.line) if call is not None else None
        if self.pane == "reader" and self.reader.conversation is not None and turn is not None:
            return self.reader.path, turn.line
        chosen = self.conversations.chosen_path
        return (chosen, 1) if chosen else None

    def action_edit(self) -> None:
        """Open the transcript in the editor, at the line of the turn in front."""
        place, engine = self._place(), self.reader.engine
        if place is None or engine is None:
            tell(self, "Nothing to edit: choose a conversation first.")
            return
        listing = self.conversations.state.listings.get(place[0])
        if listing is None or listing.session:
            why = "is gone" if listing is None else "is rows of a database"
            tell(self, f"No file to edit: this conversation {why}.", warning=True)
            return
        if edit_place(self, Path(listing.place), place[1]):
            engine.index.sync()

    def action_copy_citation(self) -> None:
        """Copy `path#L12`."""
        place = self._place()
        if place is None:
            tell(self, "Nothing to copy: choose a conversation first.")
            return
        cited = safe_line(citation(place[0], place[1], place[1]))
        self.app.copy_to_clipboard(cited)
        tell(self, f"copied {cited}")


def _is_shown(widget: Widget) -> bool:
    """Return whether a widget and everything around it is displayed."""
    return all(node.display for node in widget.ancestors_with_self if isinstance(node, Widget))
