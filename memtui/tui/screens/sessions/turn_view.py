"""A conversation as lines: turns and the chunks that they are of, folded, wrapped and named."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import ClassVar, NamedTuple

from textual import events
from textual.binding import BindingType
from textual.content import Content, Span
from textual.geometry import Size
from textual.message import Message
from textual.style import Style

from memtui.model import Chunk
from memtui.model.conversations import Turn, TurnKind
from memtui.report.words import TURN_WORDS, fitting, left_out_words
from memtui.retrieval.marks import match_spans
from memtui.text.sanitize import safe, safe_line
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import ASCII, Glyphs
from memtui.tui.widgets.line_view import LineView

INDENT = 2
"""Cells before every line of a text."""
MARGIN = 3
"""Cells before every line: the marker of the turn in front, the chunk, and a space."""
_DIM = "$foreground 60%"
_LOOKED_BACK = 100
"""So many turns are looked back at for the day before: each line is drawn often."""
_LATEST_MS = 253_402_300_000_000
"""The end of the year 9999."""
_ROLES: Mapping[str, str] = {"user": "User", "assistant": "Assistant", "tool": "Tool"}
NO_CHUNK, CHUNK_START, IN_CHUNK, BETWEEN = " ", "┌", "│", "┊"
"""How a turn stands to the chunks; `BETWEEN` the turns of one, itself not in the index."""
_ASCII_EDGES = {NO_CHUNK: " ", CHUNK_START: "+", IN_CHUNK: "|", BETWEEN: ":"}


class Borders:
    """The chunks of one file by the lines that they are of."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = sorted(chunks, key=lambda chunk: (chunk.start_line, chunk.end_line))
        self._starts = [chunk.start_line for chunk in self.chunks]
        self._ends = list(accumulate((chunk.end_line for chunk in self.chunks), max))
        """The furthest line of each chunk and those before it."""

    def at(self, line: int) -> int | None:
        """Return the place of the last chunk that holds a line."""
        place = bisect_right(self._starts, line) - 1
        while place >= 0 and self._ends[place] >= line:
            if self.chunks[place].end_line >= line:
                return place
            place -= 1
        return None

    def edges(self, turns: Sequence[Turn]) -> list[str]:
        """Return how each turn stands to the chunks."""
        edges: list[str] = []
        last: int | None = None
        for turn in turns:
            place = self.at(turn.line)
            is_same = place is not None and place == last
            if place is None or turn.kind is not TurnKind.MESSAGE or turn.left_out:
                edges.append(BETWEEN if is_same else NO_CHUNK)
            else:
                edges.append(IN_CHUNK if is_same else CHUNK_START)
                last = place
        return edges


# --- wrapping -------------------------------------------------------------------------------------


def display_text(text: str) -> str:
    """Return a text as it is shown: tabs expanded, controls visible, no blank lines at the end."""
    return safe(text.replace("\r\n", "\n").replace("\t", "    ")).rstrip()


def wrap(text: str, width: int) -> list[tuple[int, int]]:
    """Cut a text into lines of at most `width` cells, at spaces where there are any.

    Returns the start and the end of each line, in characters; one empty line for an empty text.
    """
    width = max(1, width)
    spans: list[tuple[int, int]] = []
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        # Without wide characters a cell is a character, and nothing has to be measured.
        is_plain = line.isascii()
        while end - start > (width if is_plain else width // 2):
            stop = start + (
                width if is_plain else max(1, fitting(text[start : start + 4 * width], width))
            )
            if stop >= end:
                break
            cut = text.rfind(" ", start + 1, stop + 1)
            spans.append((start, cut if cut > start else stop))
            start = cut + 1 if cut > start else stop
        spans.append((start, end))
        start = end + 1
    return spans


# --- the page -------------------------------------------------------------------------------------


class Block(NamedTuple):
    """A turn as lines: blank ones above its head, the head, those of its text, what is left."""

    text: str = ""
    spans: Sequence[tuple[int, int]] = ()
    lead: int = 0
    """Blank lines before it."""
    more: int = 0
    """Characters that are not shown."""
    height: int = 0


class Page:
    """Turns as lines of a width, some of them folded."""

    def __init__(self, turns: Sequence[Turn] = (), width: int = 0) -> None:
        """Without a width there are no lines yet."""
        self.turns = turns
        self.blocks: list[Block] = []
        """The lines of each turn."""
        self.wholes: dict[int, str] = {}
        """Whole texts by the place of their turn, as they are shown."""
        self.with_records = all(turn.kind is TurnKind.OTHER for turn in turns)
        """Whether records that nobody says have a line."""
        self._open_kinds: set[TurnKind] = {TurnKind.MESSAGE}
        self._turned: set[int] = set()
        """Turns that are not as their kind is."""
        self._ends: list[int] = []
        self.lay_out(width)

    def lay_out(self, width: int) -> None:
        """Make the lines of every turn."""
        self.width, self.blocks = width, []
        self._make()

    def grow(self, turns: Sequence[Turn]) -> bool:
        """Take these turns where they begin with those that there are; what is open stays open."""
        old = self.turns
        if not 0 < len(old) <= len(turns) or (turns[0], turns[len(old) - 1]) != (old[0], old[-1]):
            return False
        self.turns = turns
        self._make()
        return True

    def _make(self, anew: Iterable[int] = ()) -> None:
        """Make the lines of some turns anew, and of those that have none yet."""
        new = range(len(self.blocks), len(self.turns))
        self.blocks += [Block()] * len(new)
        for at in (*anew, *new) if self.width > 0 else ():
            turn, is_open = self.turns[at], self.is_open(at)
            lead, text = int(at > 0 and turn.kind is TurnKind.MESSAGE), ""
            if is_open:
                text = self.wholes[at] if at in self.wholes else display_text(turn.text)
            spans = wrap(text, self.width - INDENT) if text else []
            more = 0 if at in self.wholes or not is_open else max(0, turn.size - len(turn.text))
            block = Block(text, spans, lead, more, lead + 1 + len(spans) + (more > 0))
            self.blocks[at] = block if self.has_line(at) else Block()
        self._ends = list(accumulate(block.height for block in self.blocks))

    # --- folding --------------------------------------------------------------------------------

    def has_line(self, at: int) -> bool:
        """Return whether a turn is shown at all."""
        return self.with_records or self.turns[at].kind is not TurnKind.OTHER

    def is_open(self, at: int) -> bool:
        """Return whether the text of a turn is shown; messages are never folded."""
        return (self.turns[at].kind in self._open_kinds) != (at in self._turned)

    def toggle(self, at: int) -> None:
        """Open a turn that is no message, or fold it."""
        if self.turns[at].kind is not TurnKind.MESSAGE:
            self._turned ^= {at}
            self._make([at])

    def toggle_kind(self, kind: TurnKind) -> None:
        """Open all turns of a kind, or fold them where they were open."""
        if kind is not TurnKind.MESSAGE:
            places = [at for at, turn in enumerate(self.turns) if turn.kind is kind]
            self._open_kinds ^= {kind}
            self._turned -= set(places)
            self._make(places)

    def toggle_records(self) -> None:
        """Show the records that nobody says, or hide them."""
        self.with_records = not self.with_records
        self._make(at for at, turn in enumerate(self.turns) if turn.kind is TurnKind.OTHER)

    def show_whole(self, at: int, text: str | None) -> None:
        """Open a turn and show another text of it; `None` for its beginning, folded."""
        self.wholes.pop(at, None)
        if text is not None:
            self.wholes[at] = display_text(text)
        if self.is_open(at) == (text is None):
            self.toggle(at)
        self._make([at])

    def first_shown(self, at: int, step: int, default: int) -> int:
        """Return the first turn from a place on, up or down, that has a line."""
        end = len(self.turns)
        places = range(at, end) if step > 0 else range(min(at, end - 1), -1, -1)
        return next(filter(self.has_line, places), default)

    # --- lines ----------------------------------------------------------------------------------

    @property
    def height(self) -> int:
        """Lines of the whole page."""
        return self._ends[-1] if self._ends else 0

    def top(self, at: int) -> int:
        """Return the first line of a turn."""
        return self._ends[at - 1] if at > 0 else 0

    def head(self, at: int) -> int:
        """Return the line that names a turn."""
        return self.top(at) + self.blocks[at].lead

    def end(self, at: int) -> int:
        """Return the line after a turn."""
        return self._ends[at]

    def place(self, line: int) -> tuple[int, int] | None:
        """Return the turn on a line of the page, and the line below its head; `None` beyond.

        Of the blank line above the head it is -1.
        """
        at = bisect_right(self._ends, line)
        return (at, line - self.head(at)) if line >= 0 and at < len(self._ends) else None


# --- lines that name turns ------------------------------------------------------------------------


def head_line(
    turns: Sequence[Turn], at: int, *, is_open: bool, width: int, glyphs: Glyphs
) -> Content:
    """Name a turn in one line."""
    turn, size = turns[at], fmt.counted(turns[at].size, "character")
    # The day stands before the time where it is another one than before.
    day, time = turn_time(turn.timestamp_ms)
    before = (
        one.timestamp_ms
        for one in reversed(turns[max(0, at - _LOOKED_BACK) : at])
        if one.kind is not TurnKind.OTHER and one.timestamp_ms > 0
    )
    is_same_day = day == turn_time(next(before, 0))[0]
    stamp = f"  {time if is_same_day else f'{day} {time}'}" if time else ""
    left_out = f"  not indexed: {left_out_words(turn.left_out)}" if turn.left_out else ""
    if turn.kind is TurnKind.MALFORMED:
        problem = f"{glyphs.degraded} line {turn.line} is no record: {turn.text}"
        line = Content.styled(safe_line(problem), "$state-warn")
    elif turn.kind in (TurnKind.RESET, TurnKind.COMPACTION):
        middle = f" {TURN_WORDS[turn.kind]}{f'  {size}' if turn.size else ''}{stamp} "
        text = glyphs.rule * 4 + middle
        line = Content.styled(text + glyphs.rule * max(0, width - len(text)), "$state-warn")
    elif turn.kind is TurnKind.MESSAGE:
        role = _ROLES.get(turn.role) or safe_line(turn.role.capitalize()) or "System"
        style = "$text-primary" if turn.role == "user" else "$text-secondary"
        line = Content.assemble(
            (role, f"{_DIM if turn.left_out else style} bold"),
            (stamp, _DIM),
            (f"  L{turn.line}", "$foreground 45%"),
            (left_out, "$state-warn"),
        )
    else:
        fold = ("+-" if glyphs is ASCII else "▸▾")[is_open]
        words = "  ".join(filter(None, (TURN_WORDS[turn.kind], safe_line(turn.tool), size)))
        line = Content.assemble(
            (f"{fold} {words}", _DIM),
            ("  failed" if turn.is_error else "", "$state-error"),
            (stamp, _DIM),
            (left_out, "$state-warn"),
        )
    return fmt.fit(line, width)


def turn_time(timestamp_ms: int) -> tuple[str, str]:
    """Return the day and the time of a turn in this machine's time; empty when not known."""
    if not 0 < timestamp_ms < _LATEST_MS:
        return "", ""
    when = datetime.fromtimestamp(timestamp_ms / 1000, UTC).astimezone()
    return f"{when:%Y-%m-%d}", f"{when:%H:%M:%S}"


class Marks:
    """The words of a query, and a text that is looked for in any case, that are marked."""

    def __init__(self, terms: Sequence[str] = (), needle: str = "") -> None:
        self._terms, self._needle = tuple(terms), safe_line(needle)
        self._pattern = re.compile(re.escape(self._needle) or r"(?!)", re.IGNORECASE)

    def first_line(self, block: Block) -> int | None:
        """Return the first line below the head of a turn with something marked, if any."""
        lines = enumerate(block.spans, 1)
        return next((number for number, span in lines if self.spans(block.text, *span)), None)

    def spans(self, text: str, start: int, end: int) -> list[tuple[int, int]]:
        """Return what is marked in a part of a text, by places in the part."""
        spans = match_spans(text[start:end], self._terms) if self._terms else []
        # A match may begin on the line above and end on the one below.
        first = max(0, start - len(self._needle))
        for match in self._pattern.finditer(text, first, end + len(self._needle)):
            low, high = max(match.start(), start), min(match.end(), end)
            spans += [(low - start, high - start)] if low < high else []
        return spans


# --- the view -------------------------------------------------------------------------------------


class TurnView(LineView, inherit_bindings=False):
    """Draws the lines that are on screen, with the words marked that are looked for."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *("turn-view--front", "turn-view--marker", "turn-view--edge"),
        *("turn-view--match", "turn-view--aside"),
    }
    BINDING_GROUP_TITLE = "Conversation"
    HELP = "The turns of the conversation. The line in the margin is a chunk of the index."
    BINDINGS: ClassVar[list[BindingType]] = bindings("turns")

    class Moved(Message):
        """Another turn is in front."""

    class WholeWanted(Message):
        """The whole text of the turn in front is asked for."""

    def __init__(self, glyphs: Glyphs, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.glyphs = glyphs
        self.page = Page()
        """The turns as lines; they have none before there is a width."""
        self.at = 0
        """The turn in front."""
        self.marks = Marks()
        self._edges: Sequence[str] = ()

    @property
    def turn(self) -> Turn | None:
        """The turn in front."""
        return self.page.turns[self.at] if self.page.turns else None

    # --- what is shown --------------------------------------------------------------------------

    def show_message(self, lines: Sequence[Content]) -> None:
        """Say something in place of a conversation."""
        self.page, self.at, self._edges, self._message = Page(), 0, (), lines
        self._draw()

    def show_turns(self, turns: Sequence[Turn], at: int, edges: Sequence[str]) -> None:
        """Show another conversation with this turn in front."""
        self.page, self._edges = Page(turns, self._room), edges
        self._message = () if turns else [Content("This conversation has no turns.")]
        self.at = self.page.first_shown(at, 1, at)
        self._draw()
        self._show_front()

    def grow(self, turns: Sequence[Turn], edges: Sequence[str]) -> bool:
        """Show a conversation that goes on; false where it does not begin with what is shown."""
        self._edges = edges
        is_grown = self.page.grow(turns)
        self._draw()
        return is_grown

    @property
    def _room(self) -> int:
        """The cells of a line; 0 while it is not known."""
        width = self.scrollable_content_region.width if self.is_mounted and self.size else 0
        return max(1, width - MARGIN) if width else 0

    def _draw(self) -> None:
        self.virtual_size = Size(1, self.page.height)
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        """Make the lines anew for another width, with the turn in front where it was in the view.

        In a smaller view it stays in sight.
        """
        event.prevent_default()
        page, (y, height) = self.page, self._view()
        if not page.turns or self._room in (0, page.width):
            return
        is_first, offset = not page.width, 0
        if not is_first:
            head = page.head(self.at)
            offset = max(head - page.end(self.at), min(head - y, height - 1))
        page.lay_out(self._room)
        self._draw()
        if is_first:
            self._show_front()
        else:
            self.scroll_to_line(page.head(self.at) - offset)

    # --- moving ---------------------------------------------------------------------------------

    def _move(self, at: int, y: int) -> None:
        self.at = at
        if y != int(self.scroll_offset.y):
            self.scroll_to_line(y)
        self.refresh()
        self.post_message(self.Moved())

    def _view(self) -> tuple[int, int]:
        """Return the first line in view, and how many lines there are."""
        return int(self.scroll_offset.y), max(1, self.scrollable_content_region.height)

    def _show_front(self) -> None:
        """Scroll the turn in front to the upper part of the view, or what is marked in it."""
        if self.page.height:
            self._move(self.at, self.page.head(self.at) - 2)
            line = self.marks.first_line(self.page.blocks[self.at])
            if line is not None:
                self.go(self.at, line=line)

    def go(self, at: int, *, line: int = 0) -> None:
        """Put a turn in front; `line` is the one of its lines that has to be in sight."""
        y, height = self._view()
        top = self.page.head(at)
        if not y <= top + line < y + height - 1:
            y = top - 2 if line < height - 3 else top + line - height // 2
        self._move(at, y)

    def front(self, at: int) -> None:
        """Put a turn in front, opened, with the first marked words in sight."""
        if self.page.turns:
            self.at = at
            if not self.page.has_line(at):
                self.page.toggle_records()
            elif not self.page.is_open(at):
                self.page.toggle(at)
            self._draw()
            self._show_front()

    def action_step(self, step: int) -> None:
        """Go to the next turn, or by a line within one that is longer than the view."""
        page, at, (y, height) = self.page, self.at, self._view()
        if not page.height:
            return
        top, end = page.top(at), page.end(at)
        if end <= y or top >= y + height:
            # Out of sight: the first turn that is in sight comes to the front.
            place = page.place(y)
            at = place[0] if place is not None else at
        elif step > 0 and end > y + height:
            y += 1
        elif step < 0 and top < y:
            y -= 1
        else:
            at = page.first_shown(at + step, step, at)
            # At least the edge of the turn where the reader comes from is in view.
            top, end = page.top(at), page.end(at)
            if step > 0 and end > y + height:
                y = min(end - height, max(y + 1, top))
            elif step < 0 and top < y:
                y = max(top, min(y - 1, end - height))
        self._move(at, y)

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by a page; the first turn that begins there is in front."""
        page, (y, height) = self.page, self._view()
        goal = min(max(0, page.height - height), max(0, y + pages * max(1, height - 2)))
        place = page.place(goal)
        if goal == y or place is None:
            start, step = (len(page.turns) - 1 if pages > 0 else 0), -pages
        else:
            is_within = place[1] > 0 and page.end(place[0]) < goal + height
            start, step = (place[0] + 1 if is_within else place[0]), 1
        self._move(page.first_shown(start, step, self.at), goal)

    def action_scroll_end_of(self, step: int) -> None:
        end = len(self.page.turns) - 1 if step > 0 else 0
        at = self.page.first_shown(end, -step, self.at)
        self._move(at, self.page.height if step > 0 else 0)

    def action_user(self, step: int) -> None:
        after, turns = self.at + step, self.page.turns
        for at in range(after, len(turns)) if step > 0 else range(after, -1, -1):
            if turns[at].kind is TurnKind.MESSAGE and turns[at].role == "user":
                self.go(at)
                return

    # --- folding --------------------------------------------------------------------------------

    def action_unfold(self) -> None:
        page, at = self.page, self.at
        if not page.height:
            return
        if not page.is_open(at):
            page.toggle(at)
        elif page.blocks[at].more:
            self.post_message(self.WholeWanted())
            return
        else:
            page.show_whole(at, None)
        self._draw()
        self.go(at)

    def action_fold(self, what: str) -> None:
        page = self.page
        if self.turn is None or not page.height:
            return
        offset = page.head(self.at) - int(self.scroll_offset.y)
        if what == "kind":
            page.toggle_kind(self.turn.kind)
        else:
            page.toggle_records()
            self.at = page.first_shown(self.at, -1, self.at)
        self._draw()
        self._move(self.at, page.head(self.at) - offset)

    def show_whole(self, at: int, text: str) -> None:
        """Show the whole text of a turn."""
        self.page.show_whole(at, text)
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """Put a turn in front; open or fold it where the line that names it is clicked."""
        offset = event.get_content_offset(self)
        place = self.page.place(int(self.scroll_offset.y) + offset.y) if offset else None
        if place is None:
            return
        at, below = place
        was_front = at == self.at
        self._move(at, int(self.scroll_offset.y))
        is_more = below > len(self.page.blocks[at].spans)
        if not self.page.is_open(at) or (was_front and below == 0) or is_more:
            self.action_unfold()

    # --- drawing --------------------------------------------------------------------------------

    def style_at(self, at: int) -> Style:
        place, below = self.page.place(at) or (0, -1)
        is_front = place == self.at and below >= 0
        return self.get_visual_style("turn-view--front") if is_front else self.visual_style

    def gutter_at(self, at: int) -> Content:
        place, below = self.page.place(at) or (0, -1)
        edge = self._edges[place] if place < len(self._edges) else NO_CHUNK
        if below < 0 and edge != NO_CHUNK:
            edge = NO_CHUNK if edge == CHUNK_START else BETWEEN
        elif edge == CHUNK_START and below > 0:
            edge = IN_CHUNK
        marker = self.glyphs.marker if place == self.at and below == 0 else " "
        return Content.assemble(
            (marker, self.get_visual_style("turn-view--marker", partial=True)),
            (
                f"{_ASCII_EDGES[edge] if self.glyphs is ASCII else edge} ",
                self.get_visual_style("turn-view--edge", partial=True),
            ),
        )

    def line_at(self, at: int) -> Content | None:
        page = self.page
        if (place := page.place(at)) is None:
            return None
        at, below = place
        block, turn = page.blocks[at], page.turns[at]
        if below < 0:
            return Content("")
        if below == 0:
            return head_line(
                page.turns, at, is_open=page.is_open(at), width=page.width, glyphs=self.glyphs
            )
        if below > len(block.spans):
            more = fmt.counted(block.more, "more character")
            text = f"{self.glyphs.ellipsis} {more}: enter shows them"
            return " " * INDENT + Content.styled(text, _DIM)
        start, end = block.spans[below - 1]
        mark = self.get_visual_style("turn-view--match", partial=True)
        spans = [Span(low, high, mark) for low, high in self.marks.spans(block.text, start, end)]
        line = Content(block.text[start:end], spans)
        if turn.kind is not TurnKind.MESSAGE or turn.left_out:
            line = line.stylize_before(self.get_visual_style("turn-view--aside", partial=True))
        return " " * INDENT + line
