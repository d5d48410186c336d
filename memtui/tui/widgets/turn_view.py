"""The reader of a conversation: turns with their roles, however many there are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.content import Content, Span
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style

from memtui.model.conversations import Turn, TurnKind
from memtui.retrieval.marks import match_spans
from memtui.text.sanitize import safe_line
from memtui.tui.glyphs import ASCII, Glyphs
from memtui.tui.sessions.borders import Edge
from memtui.tui.sessions.page import INDENT, Block, Page, Place
from memtui.tui.sessions.turn_lines import head_line, more_line
from memtui.tui.widgets.turn_pages import MARGIN, TurnPages

_EDGES = {Edge.NONE: " ", Edge.START: "┌", Edge.INSIDE: "│", Edge.THROUGH: "┊"}
_ASCII_EDGES = {Edge.NONE: " ", Edge.START: "+", Edge.INSIDE: "|", Edge.THROUGH: ":"}


class TurnView(TurnPages):
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
        "turn-view--front",
        "turn-view--marker",
        "turn-view--edge",
        "turn-view--match",
        "turn-view--aside",
        "turn-view--message",
    }

    def __init__(self, glyphs: Glyphs, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(glyphs, id=id)
        self._terms: tuple[str, ...] = ()
        self._needle: re.Pattern[str] | None = None
        self._needle_length = 0

    # --- marks ----------------------------------------------------------------------------------

    def mark(self, terms: Sequence[str] = (), needle: str = "") -> None:
        """Mark the words of a query, and a text that is looked for, in any case."""
        self._terms = tuple(terms)
        shown = safe_line(needle)
        self._needle = re.compile(re.escape(shown), re.IGNORECASE) if shown else None
        self._needle_length = len(shown)
        self.refresh()

    def match_line(self, at: int) -> int | None:
        """The first line below the head of a turn with something marked; `None` without one."""
        if self.page is None or not self.turns:
            return None
        block = self.page.block(at)
        if self._needle is not None:
            found = self._needle.search(block.text)
            starts = [] if found is None else [found.start()]
        else:
            starts = [start for start, _ in match_spans(block.text, self._terms)[:1]]
        for start in starts:
            for line, (_, end) in enumerate(block.spans):
                if start < end:
                    return line + 1
        return None

    def front(self, at: int) -> None:
        """Put a turn in front, opened, with the first marked words in sight."""
        if self.turns:
            self.at = min(max(0, at), len(self.turns) - 1)
            if self.folds.is_hidden(self.turns, self.at):
                self.change_folds(replace(self.folds, with_records=True))
            if not self.folds.is_open(self.turns, self.at):
                self.change_folds(self.folds.opened(self.turns, self.at), self.at)
            self.when_laid_out(self.to_match)

    def to_match(self) -> None:
        """Scroll to the first marked words of the turn in front."""
        self.to_front()
        line = self.match_line(self.at)
        if line is not None:
            self.go(self.at, line=line)

    def _marks(self, block: Block, start: int, end: int) -> list[Span]:
        style = self.get_visual_style("turn-view--match", partial=True)
        spans = []
        if self._terms:
            found = match_spans(block.text[start:end], self._terms)
            spans += [Span(low, high, style) for low, high in found]
        if self._needle is not None:
            # A match may begin on the line above and end on the one below.
            first = max(0, start - self._needle_length)
            last = min(len(block.text), end + self._needle_length)
            for match in self._needle.finditer(block.text, first, last):
                low, high = max(match.start(), start), min(match.end(), end)
                if low < high:
                    spans.append(Span(low - start, high - start, style))
        return spans

    # --- drawing --------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one line of the view."""
        width = self.scrollable_content_region.width
        page = self.page
        line = int(self.scroll_offset.y) + y
        place = page.place(line) if page is not None else None
        if page is None or place is None:
            return self._message_line(y, width)
        is_front = place.turn == self.at
        style = self.get_visual_style("turn-view--front") if is_front else self.visual_style
        if is_front and place.line < page.block(place.turn).lead:
            style = self.visual_style
        base = style.rich_style
        text = Strip(self._content(page, place, line).render_segments(style))
        text = text.crop_extend(0, max(0, width - MARGIN), base).apply_offsets(0, line)
        return Strip.join([self._gutter(page, place, style), text]).crop_extend(0, width, base)

    def _message_line(self, y: int, width: int) -> Strip:
        lines = self.message
        if self.turns and self.page is None:
            lines = (Content(f"laying out{self.glyphs.ellipsis}"),)
        if self.page is not None or not 0 <= y - 1 < len(lines):
            return Strip.blank(width, self.rich_style)
        style = self.get_visual_style("turn-view--message")
        strip = Strip((" " + lines[y - 1]).render_segments(style))
        return strip.crop_extend(0, width, self.rich_style)

    def _gutter(self, page: Page, place: Place, style: Style) -> Strip:
        head = place.line == page.block(place.turn).lead
        edge = self.edges[place.turn] if place.turn < len(self.edges) else Edge.NONE
        if place.line < page.block(place.turn).lead:
            edge = Edge.NONE if edge in (Edge.NONE, Edge.START) else Edge.THROUGH
        elif edge is Edge.START and not head:
            edge = Edge.INSIDE
        edges = _ASCII_EDGES if self.glyphs is ASCII else _EDGES
        marker = self.glyphs.marker if head and place.turn == self.at else " "
        content = Content.assemble(
            (marker, self.get_visual_style("turn-view--marker", partial=True)),
            (f"{edges[edge]} ", self.get_visual_style("turn-view--edge", partial=True)),
        )
        return Strip(content.render_segments(style))

    def _content(self, page: Page, place: Place, line: int) -> Content:
        block = page.block(place.turn)
        width = max(1, self.scrollable_content_region.width - MARGIN)
        below = place.line - block.lead
        if below < 0:
            return Content("")
        turn = self.turns[place.turn]
        if below == 0:
            is_open = page.folds.is_open(self.turns, place.turn)
            why = self.problems.get(turn.line, "")
            glyphs = self.glyphs
            return head_line(
                self.turns, place.turn, is_open=is_open, width=width, glyphs=glyphs, why=why
            )
        if below > len(block.spans):
            return " " * INDENT + more_line(block.more, self.glyphs)
        return self._text(turn, block, below - 1, line)

    def _text(self, turn: Turn, block: Block, number: int, line: int) -> Content:
        start, end = block.spans[number]
        content = Content(block.text[start:end], self._marks(block, start, end))
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
        """A click puts a turn in front; a click on the line that names it opens or folds it."""
        offset = event.get_content_offset(self)
        page = self.page
        place = page.place(int(self.scroll_offset.y) + offset.y) if page and offset else None
        if page is None or place is None:
            return
        block = page.block(place.turn)
        was_front = place.turn == self.at
        self.at = place.turn
        self.refresh()
        self.post_message(self.Moved())
        below = place.line - block.lead
        is_folded = not page.folds.is_open(self.turns, place.turn)
        if is_folded or (was_front and below == 0) or below > len(block.spans):
            self.action_unfold()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text as it is shown."""
        if self.page is None:
            return None
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else self.page.height - 1
        chosen = []
        for line in range(max(0, first), min(last, self.page.height - 1) + 1):
            span, place = selection.get_span(line), self.page.place(line)
            if span is not None and place is not None:
                text = self._content(self.page, place, line).plain
                chosen.append(text[span[0] : None if span[1] == -1 else span[1]])
        return ("\n".join(chosen), "\n") if chosen else None

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection."""
        self.refresh()
