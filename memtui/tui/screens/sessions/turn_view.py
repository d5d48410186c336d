"""The reader of a conversation: turns with their roles, however many there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events, work
from textual.binding import BindingType
from textual.content import Content, Span
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.worker import Worker, get_current_worker

from memtui.errors import Cancelled
from memtui.model.conversations import Turn, TurnKind
from memtui.tui.background import show_worker_error
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import ASCII, Glyphs
from memtui.tui.screens.sessions.page import (
    FOLDED,
    INDENT,
    Edge,
    Folds,
    Marks,
    Page,
    Place,
    Position,
    head_line,
    more_line,
)
from memtui.tui.widgets.line_view import LineView

MARGIN = 3
"""Cells before every line: the marker of the turn in front, the chunk, and a space."""
SMALL = 200_000
"""Up to so many characters a page is made at once, without a worker."""
_EDGES = {Edge.NONE: " ", Edge.START: "┌", Edge.INSIDE: "│", Edge.THROUGH: "┊"}
_ASCII_EDGES = {Edge.NONE: " ", Edge.START: "+", Edge.INSIDE: "|", Edge.THROUGH: ":"}


class TurnView(LineView, inherit_bindings=False):
    """Draws the lines that are on screen, with the words marked that are looked for."""

    DEFAULT_CSS = """
    TurnView {
        padding: 0;
        & > .turn-view--front { background: $foreground 5%; }
        & > .turn-view--marker { color: $primary; text-style: bold; }
        & > .turn-view--edge { color: $accent; }
        & > .turn-view--match { color: $mark; text-style: bold underline; }
        & > .turn-view--aside { color: $foreground 70%; }
        & > .turn-view--message { color: $foreground 68%; }
        &:focus {
            & > .turn-view--front { background: $foreground 9%; }
        }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *("turn-view--front", "turn-view--marker", "turn-view--edge"),
        *("turn-view--match", "turn-view--aside", "turn-view--message"),
    }
    BINDING_GROUP_TITLE = "Conversation"
    HELP = "The turns of the conversation. The line in the margin is a chunk of the index."
    BINDINGS: ClassVar[list[BindingType]] = bindings("turns")

    class Moved(Message):
        """Another turn is in front."""

    class WholeWanted(Message):
        """The whole text of a turn is asked for."""

        def __init__(self, at: int) -> None:
            super().__init__()
            self.at = at

    def __init__(self, glyphs: Glyphs, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.glyphs = glyphs
        self.position = Position()
        self.edges: Sequence[Edge] = ()
        self.problems: Mapping[int, str] = {}
        """By line, why it is no record."""
        self.message: tuple[Content, ...] = ()
        self._ticket = 0
        self._then: Callable[[], None] | None = None
        self.marks = Marks()

    # --- what is shown --------------------------------------------------------------------------

    def show_message(self, lines: Sequence[Content]) -> None:
        """Say something in place of a conversation."""
        self._ticket += 1
        self.position, self.edges = Position(), ()
        self.message = tuple(lines)
        self.set_extent(0)
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
        self.edges, self.problems = edges, problems
        self.position.open(turns, at, folds)
        self.message = () if turns else (Content("This conversation has no turns."),)
        if folds is None:
            self.position.page = None
        self._lay_out(self.to_front if folds is None else None)

    def _lay_out(self, then: Callable[[], None] | None = None) -> None:
        """Make the lines anew; `then` is done once they are there."""
        self._ticket += 1
        self._then = then or self._then
        turns, folds = self.position.turns, self.position.folds
        if not self.is_mounted or not self.size or not turns:
            self.set_extent(self.position.page.height if self.position.page is not None else 0)
            self.refresh()
            return
        width = max(1, self.scrollable_content_region.width - MARGIN)
        texts = sum(len(turn.text) for turn in turns)
        if texts + sum(map(len, folds.wholes.values())) <= SMALL:
            self._take_page(Page(turns, folds, width), self._ticket)
        else:
            self._make_page(turns, folds, width, self._ticket)

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
        self.call_later(self._take_page, page, ticket)

    def _take_page(self, page: Page, ticket: int) -> None:
        if ticket != self._ticket:
            return
        position = self.position
        old, at = position.page, position.at
        head = old.head(at) if old is not None and at < len(old.turns) else None
        position.page = page
        self.set_extent(page.height)
        then, self._then = self._then, None
        if then is not None:
            then()
        elif head is not None:
            self.scroll_to_line(int(self.scroll_offset.y) + page.head(at) - head)
        self.refresh()

    def when_laid_out(self, then: Callable[[], None]) -> None:
        """Do something once there are lines: now, where they are not being made."""
        page = self.position.page
        if page is not None and page.folds is self.position.folds:
            then()
        else:
            self._then = then

    def change_folds(self, folds: Folds, at: int | None = None) -> None:
        """Open and fold; `at` is the only turn that differs, `None` for many."""
        self.position.folds, page = folds, self.position.page
        if page is not None and at is not None and len(folds.wholes.get(at, "")) <= SMALL:
            page.change(at, folds)
            self.set_extent(page.height)
            self.refresh()
        else:
            self._lay_out()

    def take_whole(self, at: int, text: str) -> None:
        """Show the whole text of a turn."""
        turns = self.position.turns
        if at < len(turns):
            self.change_folds(self.position.folds.opened(turns, at).with_whole(at, text), at)

    def on_resize(self, event: events.Resize) -> None:
        """Make the lines anew for another width; place what is in front once there is a size."""
        event.prevent_default()
        page = self.position.page
        if page is None or page.width != max(1, self.scrollable_content_region.width - MARGIN):
            self._lay_out()

    # --- moving ---------------------------------------------------------------------------------

    def _move(self, y: int | None = None) -> None:
        """Scroll, and draw and tell that another turn may be in front."""
        if y is not None and y != int(self.scroll_offset.y):
            self.scroll_to(y=y, animate=False, force=True)
        self.refresh()
        self.post_message(self.Moved())

    def to_front(self) -> None:
        """Scroll the turn in front to the upper part of the view."""
        position = self.position
        if position.page is not None and position.turns:
            head = position.page.head(position.at)
            self.scroll_to(y=max(0, head - 2), animate=False, force=True)
        self.post_message(self.Moved())

    def go(self, at: int, *, line: int | None = None) -> None:
        """Put a turn in front; `line` is the one of its lines that has to be in sight."""
        if self.position.turns:
            self.position.choose(at)
            if self.position.page is not None:
                self._move(self.position.line_in_view(line, *self._view()))

    def _view(self) -> tuple[int, int]:
        """Return the first line in view, and how many lines there are."""
        return int(self.scroll_offset.y), max(1, self.scrollable_content_region.height)

    def action_step(self, step: int) -> None:
        """Go to the next turn; scroll by a line within one that is longer than the view."""
        self._move(self.position.step(step, *self._view()))

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by a page; the first turn that begins there is in front."""
        self._move(self.position.scroll_pages(pages, *self._view()))

    def action_scroll_end_of(self, step: int) -> None:
        """Go to the first turn, or to the end of the last one."""
        position = self.position
        if position.page is not None and position.turns:
            last = len(position.turns) - 1
            position.choose(position.shown_from(last if step > 0 else 0, -step))
            self._move(position.page.height if step > 0 else 0)

    def action_user(self, step: int) -> None:
        """Go to the next, or the last, thing that the user said."""
        at = self.position.question(step)
        if at is not None:
            self.go(at)

    # --- folding --------------------------------------------------------------------------------

    def action_unfold(self) -> None:
        """Open the turn in front, show the whole of it, or fold it again."""
        position, at = self.position, self.position.at
        if position.turn is None or position.page is None:
            return
        folds = position.unfolded()
        if folds is None:
            self.post_message(self.WholeWanted(at))
            return
        if folds is not position.folds:
            self.change_folds(folds, at)
        self.go(at)

    def action_toggle_kind(self) -> None:
        """Open or fold every turn of the kind of the one in front."""
        turn = self.position.turn
        if turn is not None and turn.kind in FOLDED:
            self.change_folds(self.position.folds.toggled_kind(self.position.turns, turn.kind))

    def action_records(self) -> None:
        """Show or hide the records that nobody says."""
        self.change_folds(self.position.toggle_records())
        self.post_message(self.Moved())

    # --- marks ----------------------------------------------------------------------------------

    def mark(self, terms: Sequence[str] = (), needle: str = "") -> None:
        """Mark the words of a query, and a text that is looked for, in any case."""
        self.marks = Marks(terms, needle)
        self.refresh()

    def front(self, at: int) -> None:
        """Put a turn in front, opened, with the first marked words in sight."""
        position = self.position
        if position.turns:
            position.choose(at)
            if position.folds.is_hidden(position.turns, position.at):
                self.change_folds(replace(position.folds, with_records=True))
            if not position.folds.is_open(position.turns, position.at):
                folds = position.folds.opened(position.turns, position.at)
                self.change_folds(folds, position.at)
            self.when_laid_out(self.to_match)

    def to_match(self) -> None:
        """Scroll to the first marked words of the turn in front."""
        self.to_front()
        at, page = self.position.at, self.position.page
        line = self.marks.first_line(page.block(at)) if page is not None else None
        if line is not None:
            self.go(at, line=line)

    # --- drawing --------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one line of the view."""
        width = self.scrollable_content_region.width
        page = self.position.page
        line = int(self.scroll_offset.y) + y
        place = page.place(line) if page is not None else None
        if page is None or place is None:
            return self._message_line(y, width)
        is_front = place.turn == self.position.at and place.line >= page.block(place.turn).lead
        style = self.get_visual_style("turn-view--front") if is_front else self.visual_style
        base = style.rich_style
        text = Strip(self._content(page, place, line).render_segments(style))
        text = text.crop_extend(0, max(0, width - MARGIN), base).apply_offsets(0, line)
        gutter = Strip(self._gutter(page, place).render_segments(style))
        return Strip.join([gutter, text]).crop_extend(0, width, base)

    def _message_line(self, y: int, width: int) -> Strip:
        lines = self.message
        if self.position.turns and self.position.page is None:
            lines = (Content(f"laying out{self.glyphs.ellipsis}"),)
        if self.position.page is not None or not 0 <= y - 1 < len(lines):
            return Strip.blank(width, self.rich_style)
        style = self.get_visual_style("turn-view--message")
        strip = Strip((" " + lines[y - 1]).render_segments(style))
        return strip.crop_extend(0, width, self.rich_style)

    def _gutter(self, page: Page, place: Place) -> Content:
        below = place.line - page.block(place.turn).lead
        edge = self.edges[place.turn] if place.turn < len(self.edges) else Edge.NONE
        if below < 0:
            edge = Edge.NONE if edge in (Edge.NONE, Edge.START) else Edge.THROUGH
        elif edge is Edge.START and below > 0:
            edge = Edge.INSIDE
        edges = _ASCII_EDGES if self.glyphs is ASCII else _EDGES
        marker = self.glyphs.marker if below == 0 and place.turn == self.position.at else " "
        return Content.assemble(
            (marker, self.get_visual_style("turn-view--marker", partial=True)),
            (f"{edges[edge]} ", self.get_visual_style("turn-view--edge", partial=True)),
        )

    def _content(self, page: Page, place: Place, line: int) -> Content:
        """Draw a line of the page, which is number `line` of all."""
        block, turn = page.block(place.turn), page.turns[place.turn]
        below = place.line - block.lead
        if below < 0:
            return Content("")
        if below == 0:
            return head_line(
                page.turns,
                place.turn,
                is_open=page.folds.is_open(page.turns, place.turn),
                width=page.width,
                glyphs=self.glyphs,
                why=self.problems.get(turn.line, ""),
            )
        if below > len(block.spans):
            return " " * INDENT + more_line(block.more, self.glyphs)
        start, end = block.spans[below - 1]
        mark = self.get_visual_style("turn-view--match", partial=True)
        spans = [Span(low, high, mark) for low, high in self.marks.spans(block.text, start, end)]
        content = Content(block.text[start:end], spans)
        if turn.kind is not TurnKind.MESSAGE or turn.left_out:
            aside = self.get_visual_style("turn-view--aside", partial=True)
            content = content.stylize_before(aside)
        content = " " * INDENT + content
        selection = self.text_selection
        span = selection.get_span(line) if selection is not None else None
        if span is not None:
            style = Style.from_styles(self.screen.get_component_styles("screen--selection"))
            content = content.stylize(style, span[0], len(content) if span[1] == -1 else span[1])
        return content

    # --- mouse and selection --------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """Put a turn in front; open or fold it where the line that names it is clicked."""
        offset, page = event.get_content_offset(self), self.position.page
        place = page.place(int(self.scroll_offset.y) + offset.y) if page and offset else None
        if page is None or place is None:
            return
        below = place.line - page.block(place.turn).lead
        was_front = place.turn == self.position.at
        self.position.at = place.turn
        self._move()
        is_folded = not page.folds.is_open(page.turns, place.turn)
        is_more = below > len(page.block(place.turn).spans)
        if is_folded or (was_front and below == 0) or is_more:
            self.action_unfold()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text as it is shown."""
        page = self.position.page
        if page is None:
            return None
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else page.height - 1
        chosen = []
        for line in range(max(0, first), min(last, page.height - 1) + 1):
            span, place = selection.get_span(line), page.place(line)
            if span is not None and place is not None:
                text = self._content(page, place, line).plain
                chosen.append(text[span[0] : None if span[1] == -1 else span[1]])
        return ("\n".join(chosen), "\n") if chosen else None

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection."""
        self.refresh()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show what went wrong in a worker."""
        show_worker_error(self.app, event)
