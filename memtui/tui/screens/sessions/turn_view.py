"""The reader of a conversation: turns with their roles, however many there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.content import Content, Span
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.worker import Worker

from memtui.model.conversations import Turn, TurnKind
from memtui.tui.background import in_thread, show_worker_error
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
    first_shown,
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
        self.turns: Sequence[Turn] = ()
        self.folds = Folds()
        self.at = 0
        """The turn in front."""
        self.page: Page | None = None
        """The lines; `None` while they are made, or there is no conversation."""
        self.marks = Marks()
        self._edges: Sequence[Edge] = ()
        self._message: tuple[Content, ...] = ()
        self._then: Callable[[], None] | None = None
        """Done once the lines are made."""

    @property
    def turn(self) -> Turn | None:
        """The turn in front."""
        return self.turns[self.at] if self.turns else None

    # --- what is shown --------------------------------------------------------------------------

    def show_message(self, lines: Sequence[Content]) -> None:
        """Say something in place of a conversation."""
        self.turns, self.folds, self.at, self._edges = (), Folds(), 0, ()
        self._message = tuple(lines)
        self.page = self._then = None
        self._lay_out()

    def show_turns(
        self, turns: Sequence[Turn], *, at: int, edges: Sequence[Edge], folds: Folds | None = None
    ) -> None:
        """Show a conversation with this turn in front; `folds` are those of the same one before."""
        self._edges, self.turns = edges, turns
        self._message = () if turns else (Content("This conversation has no turns."),)
        if folds is None:
            self.page = None
            says_nothing = all(turn.kind is TurnKind.OTHER for turn in turns)
            folds = Folds(with_records=says_nothing)
            self._then = self.to_front
        self.folds = folds
        self._choose(at)
        self.at = first_shown(turns, folds, self.at, 1, self.at)
        self._lay_out()

    def _choose(self, at: int) -> None:
        """Put a turn in front, the first or the last one where there is none there."""
        self.at = min(max(0, at), max(0, len(self.turns) - 1))

    @property
    def _page_width(self) -> int:
        return max(1, self.scrollable_content_region.width - MARGIN)

    def _lay_out(self) -> None:
        """Make the lines anew."""
        turns, folds = self.turns, self.folds
        if not self.is_mounted or not self.size or not turns:
            self.set_extent(self.page.height if self.page is not None else 0)
            self.refresh()
            return
        width = self._page_width
        self.workers.cancel_group(self, "page")
        texts = sum(len(turn.text) for turn in turns)
        if texts + sum(map(len, folds.wholes.values())) <= SMALL:
            self._take_page(Page(turns, folds, width))
        else:
            in_thread(
                self,
                lambda cancelled: Page(turns, folds, width, cancelled),
                self._take_page,
                description="lay out the conversation",
                group="page",
            )

    def _take_page(self, page: Page) -> None:
        old, at = self.page, self.at
        offset = None
        if old is not None and at < len(old.turns):
            # The turn in front stays where it is in the view, and in sight in a smaller one.
            y, height = self._view()
            head = old.head(at)
            offset = max(head - old.end(at), min(head - y, height - 1))
        self.page = page
        self.set_extent(page.height)
        then, self._then = self._then, None
        if then is not None:
            then()
        elif offset is not None:
            self.scroll_to_line(page.head(at) - offset)
        self.refresh()

    def change_folds(self, folds: Folds, at: int | None = None) -> None:
        """Open and fold; `at` is the only turn that differs, `None` for many."""
        self.folds = folds
        if self.page is not None and at is not None and len(folds.wholes.get(at, "")) <= SMALL:
            self.page.change(at, folds)
            self.set_extent(self.page.height)
            self.refresh()
        else:
            self._lay_out()

    def take_whole(self, at: int, text: str) -> None:
        """Show the whole text of a turn."""
        if at < len(self.turns):
            self.change_folds(self.folds.opened(self.turns, at).with_whole(at, text), at)

    def on_resize(self, event: events.Resize) -> None:
        """Make the lines anew for another width; place what is in front once there is a size."""
        event.prevent_default()
        if self.page is None or self.page.width != self._page_width:
            self._lay_out()

    # --- moving ---------------------------------------------------------------------------------

    def _move(self, at: int, y: int) -> None:
        """Put a turn in front, scroll, and tell that another turn may be in front."""
        self._choose(at)
        if y != int(self.scroll_offset.y):
            self.scroll_to(y=y, animate=False, force=True)
        self.refresh()
        self.post_message(self.Moved())

    def _view(self) -> tuple[int, int]:
        """Return the first line in view, and how many lines there are."""
        return int(self.scroll_offset.y), max(1, self.scrollable_content_region.height)

    def to_front(self) -> None:
        """Scroll the turn in front to the upper part of the view."""
        if self.page is not None and self.turns:
            head = self.page.head(self.at)
            self.scroll_to(y=max(0, head - 2), animate=False, force=True)
        self.post_message(self.Moved())

    def go(self, at: int, *, line: int = 0) -> None:
        """Put a turn in front; `line` is the one of its lines that has to be in sight."""
        self._choose(at)
        if self.page is not None:
            self._move(self.at, self.page.line_in_view(self.at, line, *self._view()))

    def action_step(self, step: int) -> None:
        """Go to the next turn; scroll by a line within one that is longer than the view."""
        if self.page is not None:
            self._move(*self.page.step(self.at, step, *self._view()))

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by a page; the first turn that begins there is in front."""
        if self.page is not None:
            self._move(*self.page.scroll_pages(self.at, pages, *self._view()))

    def action_scroll_end_of(self, step: int) -> None:
        """Go to the first turn, or to the end of the last one."""
        if self.page is not None:
            end = len(self.turns) - 1 if step > 0 else 0
            at = first_shown(self.turns, self.folds, end, -step, self.at)
            self._move(at, self.page.height if step > 0 else 0)

    def action_user(self, step: int) -> None:
        """Go to the next, or the last, thing that the user said."""
        after = self.at + step
        places = range(after, len(self.turns)) if step > 0 else range(after, -1, -1)
        for at in places:
            if self.turns[at].kind is TurnKind.MESSAGE and self.turns[at].role == "user":
                self.go(at)
                return

    # --- folding --------------------------------------------------------------------------------

    def action_unfold(self) -> None:
        """Open the turn in front, show the whole of it, or fold it again."""
        turn, at, folds = self.turn, self.at, self.folds
        if turn is None or self.page is None:
            return
        if not folds.is_open(self.turns, at):
            folds = folds.toggled(at)
        elif self.page.block(at).more > 0:
            self.post_message(self.WholeWanted(at))
            return
        else:
            folds = folds.without_whole(at) if at in folds.wholes else folds
            folds = folds.toggled(at) if turn.kind in FOLDED else folds
        if folds is not self.folds:
            self.change_folds(folds, at)
        self.go(at)

    def action_toggle_kind(self) -> None:
        """Open or fold every turn of the kind of the one in front."""
        turn = self.turn
        if turn is not None and turn.kind in FOLDED:
            self.change_folds(self.folds.toggled_kind(self.turns, turn.kind))

    def action_records(self) -> None:
        """Show or hide the records that nobody says."""
        folds = replace(self.folds, with_records=not self.folds.with_records)
        self.at = first_shown(self.turns, folds, self.at, -1, self.at)
        self.change_folds(folds)
        self.post_message(self.Moved())

    # --- marks ----------------------------------------------------------------------------------

    def mark(self, terms: Sequence[str] = (), needle: str = "") -> None:
        """Mark the words of a query, and a text that is looked for, in any case."""
        self.marks = Marks(terms, needle)
        self.refresh()

    def front(self, at: int) -> None:
        """Put a turn in front, opened, with the first marked words in sight."""
        if not self.turns:
            return
        self._choose(at)
        at = self.at
        folds = self.folds.opened(self.turns, at)
        if folds.is_hidden(self.turns[at]):
            self.change_folds(replace(folds, with_records=True))
        elif folds is not self.folds:
            self.change_folds(folds, at)
        if self.page is not None and self.page.folds is self.folds:
            self.to_match()
        else:
            self._then = self.to_match

    def to_match(self) -> None:
        """Scroll to the first marked words of the turn in front."""
        self.to_front()
        line = self.marks.first_line(self.page.block(self.at)) if self.page is not None else None
        if line is not None:
            self.go(self.at, line=line)

    # --- drawing --------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one line of the view."""
        width = self.scrollable_content_region.width
        page = self.page
        line = int(self.scroll_offset.y) + y
        place = page.place(line) if page is not None else None
        if page is None or place is None:
            return self._message_line(y, width)
        is_front = place.turn == self.at and place.line >= page.block(place.turn).lead
        style = self.get_visual_style("turn-view--front") if is_front else self.visual_style
        base = style.rich_style
        text = Strip(self._content(page, place, line).render_segments(style))
        text = text.crop_extend(0, max(0, width - MARGIN), base).apply_offsets(0, line)
        gutter = Strip(self._gutter(page, place).render_segments(style))
        return Strip.join([gutter, text]).crop_extend(0, width, base)

    def _message_line(self, y: int, width: int) -> Strip:
        lines = self._message
        if self.turns and self.page is None:
            lines = (Content(f"laying out{self.glyphs.ellipsis}"),)
        if self.page is not None or not 0 <= y - 1 < len(lines):
            return Strip.blank(width, self.rich_style)
        style = self.get_visual_style("turn-view--message")
        strip = Strip((" " + lines[y - 1]).render_segments(style))
        return strip.crop_extend(0, width, self.rich_style)

    def _gutter(self, page: Page, place: Place) -> Content:
        below = place.line - page.block(place.turn).lead
        edge = self._edges[place.turn] if place.turn < len(self._edges) else Edge.NONE
        if below < 0:
            edge = Edge.NONE if edge in (Edge.NONE, Edge.START) else Edge.THROUGH
        elif edge is Edge.START and below > 0:
            edge = Edge.INSIDE
        edges = _ASCII_EDGES if self.glyphs is ASCII else _EDGES
        marker = self.glyphs.marker if below == 0 and place.turn == self.at else " "
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
        offset, page = event.get_content_offset(self), self.page
        place = page.place(int(self.scroll_offset.y) + offset.y) if page and offset else None
        if page is None or place is None:
            return
        below = place.line - page.block(place.turn).lead
        was_front = place.turn == self.at
        self._move(place.turn, int(self.scroll_offset.y))
        is_folded = not page.folds.is_open(page.turns, place.turn)
        is_more = below > len(page.block(place.turn).spans)
        if is_folded or (was_front and below == 0) or is_more:
            self.action_unfold()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text as it is shown."""
        page = self.page
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
