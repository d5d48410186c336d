"""Where in a conversation the reader is, and what of it is open: everything but the drawing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from textual import events, on, work
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.worker import Worker, get_current_worker

from memtui.errors import Cancelled
from memtui.model.conversations import Turn, TurnKind
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import Glyphs
from memtui.tui.screens.base import show_worker_error
from memtui.tui.sessions.borders import Edge
from memtui.tui.sessions.page import FOLDED, Folds, Page
from memtui.tui.widgets.line_view import LineView

MARGIN = 3
"""Cells before every line: the marker of the turn in front, the chunk, and a space."""
SMALL = 200_000
"""Up to so many characters a page is made at once, without a worker."""


@dataclass
class PageMade(Message):
    """A page was laid out beside the loop."""

    page: Page
    ticket: int


class TurnPages(LineView, inherit_bindings=False):
    """What is shown of a conversation, and where in it the reader is."""

    class Moved(Message):
        """Another turn is in front."""

    class WholeWanted(Message):
        """The whole text of a turn is asked for."""

        def __init__(self, at: int) -> None:
            super().__init__()
            self.at = at

    BINDING_GROUP_TITLE = "Conversation"
    HELP = "The turns of the conversation. The line in the margin is a chunk of the index."
    BINDINGS: ClassVar[list[BindingType]] = bindings("turns")

    def __init__(self, glyphs: Glyphs, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.glyphs = glyphs
        self.turns: Sequence[Turn] = ()
        self.page: Page | None = None
        """The lines; `None` while they are made, or there is no conversation."""
        self.at = 0
        """The turn in front."""
        self.edges: Sequence[Edge] = ()
        self.problems: Mapping[int, str] = {}
        """By line, why it is no record."""
        self.message: tuple[Content, ...] = ()
        self._folds = Folds()
        self._ticket = 0
        self._then: Callable[[], None] | None = None

    # --- what is shown --------------------------------------------------------------------------

    def show_message(self, lines: Sequence[Content]) -> None:
        """Say something in place of a conversation."""
        self._ticket += 1
        self.turns, self.page, self.at, self.edges = (), None, 0, ()
        self.message = tuple(lines)
        self.set_extent(self.page.height if self.page is not None else 0)
        self.refresh()

    def show_turns(
        self,
        turns: Sequence[Turn],
        *,
        at: int,
        edges: Sequence[Edge],
        problems: Mapping[int, str],
        folds: Folds | None = None,
    ) -> None:
        """Show a conversation with this turn in front; `folds` are those of the same one before."""
        self.turns, self.edges, self.problems = turns, edges, problems
        self.at = min(max(0, at), max(0, len(turns) - 1))
        self._folds = folds or Folds(with_records=not any(map(_is_said, turns)))
        self.at = self._shown_from(self.at, 1)
        self.message = () if turns else (Content("This conversation has no turns."),)
        if folds is None:
            self.page = None
            self._lay_out(self.to_front)
        else:
            self._lay_out()

    @property
    def folds(self) -> Folds:
        """Which turns are open."""
        return self._folds

    @property
    def turn(self) -> Turn | None:
        """The turn in front."""
        return self.turns[self.at] if self.turns else None

    @property
    def room(self) -> int:
        """Cells for the text."""
        return max(1, self.scrollable_content_region.width - MARGIN)

    # --- the page -------------------------------------------------------------------------------

    def _lay_out(self, then: Callable[[], None] | None = None) -> None:
        """Make the lines anew; `then` is done once they are there."""
        self._ticket += 1
        self._then = then or self._then
        if not self.is_mounted or not self.size or not self.turns:
            self.set_extent(self.page.height if self.page is not None else 0)
            self.refresh()
            return
        texts = sum(len(turn.text) for turn in self.turns)
        if texts + sum(map(len, self._folds.wholes.values())) <= SMALL:
            self._take_page(Page(self.turns, self._folds, self.room))
        else:
            self._make_page(self.turns, self._folds, self.room, self._ticket)

    @work(
        thread=True, exclusive=True, group="page", exit_on_error=False,
        description="lay out the conversation",
    )  # fmt: skip
    def _make_page(self, turns: Sequence[Turn], folds: Folds, width: int, ticket: int) -> None:
        worker = get_current_worker()
        try:
            page = Page(turns, folds, width, lambda: worker.is_cancelled)
        except Cancelled:
            return
        self.post_message(PageMade(page, ticket))

    @on(PageMade)
    def page_made(self, message: PageMade) -> None:
        """Take the newest page over."""
        message.stop()
        if message.ticket == self._ticket:
            self._take_page(message.page)

    def _take_page(self, page: Page) -> None:
        old = self.page
        seen = None
        if old is not None and old.turns and self.at < len(old.turns):
            seen = old.head(self.at) - int(self.scroll_offset.y)
        self.page = page
        self.set_extent(self.page.height if self.page is not None else 0)
        then, self._then = self._then, None
        if then is not None:
            then()
        elif seen is not None:
            self.scroll_to(y=page.head(self.at) - seen, animate=False, force=True)
        self.refresh()

    def when_laid_out(self, then: Callable[[], None]) -> None:
        """Do something once there are lines: now, where they are not being made."""
        if self.page is not None and self.page.folds is self._folds:
            then()
        else:
            self._then = then

    def change_folds(self, folds: Folds, at: int | None = None) -> None:
        """Open and fold; `at` is the only turn that differs, `None` for many."""
        self._folds = folds
        is_small = at is not None and len(folds.wholes.get(at, "")) <= SMALL
        if self.page is not None and at is not None and is_small:
            self.page.change(at, folds)
            self.set_extent(self.page.height if self.page is not None else 0)
            self.refresh()
        else:
            self._lay_out()

    def take_whole(self, at: int, text: str) -> None:
        """Show the whole text of a turn."""
        if at < len(self.turns):
            folds = self._folds.opened(self.turns, at).with_whole(at, text)
            self.change_folds(folds, at)

    def on_resize(self, event: events.Resize) -> None:
        """Make the lines anew for another width; place what is in front once there is a size."""
        event.prevent_default()
        if self.turns and (self.page is None or self.page.width != self.room):
            self._lay_out()

    # --- moving ---------------------------------------------------------------------------------

    @property
    def _height(self) -> int:
        return max(1, self.scrollable_content_region.height)

    @property
    def _y(self) -> int:
        return int(self.scroll_offset.y)

    def to_front(self) -> None:
        """Scroll the turn in front to the upper part of the view."""
        if self.page is not None and self.turns:
            self.scroll_to(y=max(0, self.page.head(self.at) - 2), animate=False, force=True)
        self.post_message(self.Moved())

    def go(self, at: int, *, line: int | None = None) -> None:
        """Put a turn in front; `line` is the one of its lines that has to be in sight."""
        if not self.turns:
            return
        self.at = min(max(0, at), len(self.turns) - 1)
        if self.page is None:
            return
        top = self.page.head(self.at)
        wanted = top + (line or 0)
        y, height = self._y, self._height
        if not y <= wanted < y + height - 1:
            goal = top - 2 if wanted < top - 2 + height - 1 else wanted - height // 2
            self.scroll_to(y=max(0, goal), animate=False, force=True)
        self.refresh()
        self.post_message(self.Moved())

    def action_step(self, step: int) -> None:
        """Go to the next turn; scroll by a line within one that is longer than the view."""
        page = self.page
        if page is None or not self.turns:
            return
        y, height = self._y, self._height
        top, end = page.top(self.at), page.end(self.at)
        if end <= y or top >= y + height:
            place = page.place(y)
            self._choose(place.turn if place is not None else self.at)
        elif step > 0 and end > y + height:
            self.scroll_to(y=y + 1, animate=False, force=True)
        elif step < 0 and top < y:
            self.scroll_to(y=y - 1, animate=False, force=True)
        else:
            self._choose(self._shown_from(self.at + step, step))
            self._show_edge(step)

    def _shown_from(self, at: int, step: int) -> int:
        """The first turn from a place on that has a line; the one in front without any."""
        while 0 <= at < len(self.turns):
            if not self._folds.is_hidden(self.turns, at):
                return at
            at += step
        return self.at

    def _choose(self, at: int) -> None:
        self.at = min(max(0, at), len(self.turns) - 1)
        self.refresh()
        self.post_message(self.Moved())

    def _show_edge(self, step: int) -> None:
        """Bring the turn in front into view, at least where the reader comes from."""
        assert self.page is not None
        top, end, y, height = self.page.top(self.at), self.page.end(self.at), self._y, self._height
        if step > 0 and end > y + height:
            self.scroll_to(y=min(end - height, max(y + 1, top)), animate=False, force=True)
        elif step < 0 and top < y:
            self.scroll_to(y=max(top, min(y - 1, end - height)), animate=False, force=True)

    def action_page(self, pages: int) -> None:
        """Scroll by a page; the first turn that begins there is in front."""
        if self.page is None or not self.turns:
            return
        limit = max(0, self.page.height - self._height)
        y = min(limit, max(0, self._y + pages * max(1, self._height - 2)))
        at_end = y == self._y
        self.scroll_to(y=y, animate=False, force=True)
        if at_end:
            last = len(self.turns) - 1
            self._choose(self._shown_from(last, -1) if pages > 0 else self._shown_from(0, 1))
            return
        place = self.page.place(y)
        if place is not None:
            is_next = place.line > self.page.block(place.turn).lead
            more = self.page.end(place.turn) < y + self._height
            at = place.turn + 1 if is_next and more else place.turn
            self._choose(self._shown_from(at, 1))

    def action_first(self) -> None:
        """Go to the first turn."""
        self.go(self._shown_from(0, 1))
        self.scroll_to(y=0, animate=False, force=True)

    def action_last(self) -> None:
        """Go to the end of the last turn."""
        if self.page is not None and self.turns:
            self._choose(self._shown_from(len(self.turns) - 1, -1))
            self.scroll_to(y=self.page.height, animate=False, force=True)

    def action_user(self, step: int) -> None:
        """Go to the next, or the last, thing that the user said."""
        at = self.at + step
        while 0 <= at < len(self.turns):
            turn = self.turns[at]
            if turn.kind is TurnKind.MESSAGE and turn.role == "user":
                self.go(at)
                return
            at += step

    # --- folding --------------------------------------------------------------------------------

    def action_unfold(self) -> None:
        """Open the turn in front, show the whole of it, or fold it again."""
        turn, page = self.turn, self.page
        if turn is None or page is None:
            return
        folds, at = self._folds, self.at
        if not folds.is_open(self.turns, at):
            self.change_folds(folds.toggled(at), at)
        elif page.block(at).more > 0:
            self.post_message(self.WholeWanted(at))
            return
        elif at in folds.wholes:
            kept = {key: text for key, text in folds.wholes.items() if key != at}
            folds = replace(folds, wholes=kept)
            self.change_folds(folds.toggled(at) if turn.kind in FOLDED else folds, at)
        elif turn.kind in FOLDED:
            self.change_folds(folds.toggled(at), at)
        self.go(at)

    def action_toggle_kind(self) -> None:
        """Open or fold every turn of the kind of the one in front."""
        turn = self.turn
        if turn is not None and turn.kind in FOLDED:
            self.change_folds(self._folds.toggled_kind(self.turns, turn.kind))

    def action_records(self) -> None:
        """Show or hide the records that nobody says."""
        folds = replace(self._folds, with_records=not self._folds.with_records)
        self.at = self.at if folds.with_records else self._said_before(self.at)
        self.change_folds(folds)
        self.post_message(self.Moved())

    def _said_before(self, at: int) -> int:
        return next((place for place in range(at, -1, -1) if _is_said(self.turns[place])), at)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Tell what went wrong beside the loop."""
        show_worker_error(self.app, event)


def _is_said(turn: Turn) -> bool:
    return turn.kind is not TurnKind.OTHER
