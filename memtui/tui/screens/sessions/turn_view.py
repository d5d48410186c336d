"""A conversation as lines: turns and the chunks that they are of, folded, wrapped and named."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar, NamedTuple

from rich.cells import get_character_cell_size
from textual import events
from textual.binding import BindingType
from textual.content import Content, Span
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.worker import Worker

from memtui.errors import Cancelled
from memtui.model import Chunk
from memtui.model.conversations import Turn, TurnKind
from memtui.report.words import left_out_words
from memtui.retrieval.marks import match_spans
from memtui.text.sanitize import safe, safe_line
from memtui.tui import format as fmt
from memtui.tui.background import in_thread, show_worker_error
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import ASCII, Glyphs
from memtui.tui.widgets.line_view import LineView

FOLDED = frozenset(TurnKind) - {TurnKind.MESSAGE}
"""Kinds that are one line until they are opened."""
INDENT = 2
"""Cells before every line of a text."""
MARGIN = 3
"""Cells before every line: the marker of the turn in front, the chunk, and a space."""
SMALL = 200_000
"""Characters of a whole text up to which it is wrapped at once, without a worker."""
_BLOCKS_KEPT = 300
_DIM = "$foreground 60%"
_LOOKED_BACK = 100
"""So many turns are looked back at for the day before: each line is drawn often."""
_LATEST_MS = 253_402_300_000_000
"""The end of the year 9999."""
_KIND_WORDS: Mapping[TurnKind, str] = {
    TurnKind.MESSAGE: "message",
    TurnKind.THINKING: "thinking",
    TurnKind.TOOL_CALL: "tool call",
    TurnKind.TOOL_RESULT: "tool result",
    TurnKind.RESET: "begun anew here",
    TurnKind.COMPACTION: "compacted: a summary takes the place of what is above",
    TurnKind.OTHER: "record",
    TurnKind.MALFORMED: "no record",
}
_ROLES: Mapping[str, str] = {"user": "User", "assistant": "Assistant", "tool": "Tool"}


# --- the chunks of a conversation -----------------------------------------------------------------


class Edge(StrEnum):
    """The relation of a turn to the chunks, as it is drawn; in ASCII see `_ASCII_EDGES`."""

    NONE = " "
    START = "┌"
    """The first turn of a chunk."""
    INSIDE = "│"
    THROUGH = "┊"
    """Between the turns of a chunk, itself not in the index."""


_ASCII_EDGES = {Edge.NONE: " ", Edge.START: "+", Edge.INSIDE: "|", Edge.THROUGH: ":"}


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

    def edges(self, turns: Sequence[Turn]) -> list[Edge]:
        """Return the relation of each turn to the chunks."""
        edges: list[Edge] = []
        last: int | None = None
        for turn in turns:
            place = self.at(turn.line)
            if place is None:
                edges.append(Edge.NONE)
            elif turn.kind is not TurnKind.MESSAGE or turn.left_out:
                edges.append(Edge.THROUGH if place == last else Edge.NONE)
            else:
                edges.append(Edge.INSIDE if place == last else Edge.START)
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
            stop = start + width if is_plain else _fitting(text, start, end, width)
            if stop >= end:
                break
            cut = text.rfind(" ", start + 1, stop + 1)
            spans.append((start, cut if cut > start else stop))
            start = cut + 1 if cut > start else stop
        spans.append((start, end))
        start = end + 1
    return spans


def _fitting(text: str, start: int, end: int, width: int) -> int:
    """Return the place up to which a text fits into `width` cells; at least one character."""
    cells = 0
    for place in range(start, end):
        cells += get_character_cell_size(text[place])
        if cells > width:
            return max(place, start + 1)
    return end


# --- the page -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Folds:
    """Which turns are open, and which whole texts were read."""

    kinds: frozenset[TurnKind] = frozenset()
    """Kinds of which every turn is open."""
    turned: frozenset[int] = frozenset()
    """Turns that are not as their kind is."""
    wholes: Mapping[int, str] = field(default_factory=dict)
    """Whole texts by the place of their turn, as they are shown."""
    with_records: bool = True
    """Whether records that nobody says have a line."""

    def is_open(self, turns: Sequence[Turn], at: int) -> bool:
        """Return whether the text of a turn is shown."""
        kind = turns[at].kind
        return kind not in FOLDED or (kind in self.kinds) != (at in self.turned)

    def toggled(self, at: int) -> Folds:
        """Return the folds with this turn the other way."""
        return replace(self, turned=self.turned ^ {at})

    def toggled_kind(self, turns: Sequence[Turn], kind: TurnKind) -> Folds:
        """Return the folds with all turns of a kind open, or folded where they were open."""
        others = frozenset(at for at in self.turned if turns[at].kind is not kind)
        return replace(self, kinds=self.kinds ^ {kind}, turned=others)

    def first_shown(self, turns: Sequence[Turn], at: int, step: int, default: int) -> int:
        """Return the first turn from a place on, up or down, that has a line."""
        places = range(at, len(turns)) if step > 0 else range(min(at, len(turns) - 1), -1, -1)
        shown = (
            one for one in places if self.with_records or turns[one].kind is not TurnKind.OTHER
        )
        return next(shown, default)


class Block(NamedTuple):
    """A turn as lines: what is above its text, the lines of its text, and what is left."""

    text: str
    spans: Sequence[tuple[int, int]]
    lead: int
    """Blank lines before it."""
    more: int
    """Characters that are not shown."""


class Page:
    """Turns as lines of a width."""

    def __init__(
        self,
        turns: Sequence[Turn],
        folds: Folds,
        width: int,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Counts the lines of every turn: for long conversations not on the loop.

        Raises `Cancelled` when `cancelled` turns true meanwhile.
        """
        self.turns = turns
        self.folds = folds
        self.width = width
        self.block = lru_cache(maxsize=_BLOCKS_KEPT)(self._block)
        """Returns the lines of a turn."""
        self._heights: list[int] = []
        for at in range(len(turns)):
            if cancelled():
                raise Cancelled
            self._heights.append(self._count(at))
        self._ends = list(accumulate(self._heights))

    def _count(self, at: int) -> int:
        if not self.folds.with_records and self.turns[at].kind is TurnKind.OTHER:
            return 0
        if not self.folds.is_open(self.turns, at):
            return 1
        block = self.block(at)
        return block.lead + 1 + len(block.spans) + (1 if block.more else 0)

    def _block(self, at: int) -> Block:
        turn = self.turns[at]
        lead = 1 if at > 0 and turn.kind is TurnKind.MESSAGE else 0
        if not self.folds.is_open(self.turns, at):
            return Block("", (), lead, 0)
        whole = self.folds.wholes.get(at)
        text = display_text(turn.text) if whole is None else whole
        more = 0 if whole is not None else max(0, turn.size - len(turn.text))
        return Block(text, wrap(text, self.width - INDENT) if text else (), lead, more)

    def change(self, at: int, folds: Folds) -> None:
        """Open or fold one turn."""
        self.folds = folds
        self.block.cache_clear()
        self._heights[at] = self._count(at)
        self._ends = list(accumulate(self._heights))

    @property
    def height(self) -> int:
        """Lines of the whole page."""
        return self._ends[-1] if self._ends else 0

    def top(self, at: int) -> int:
        """Return the first line of a turn."""
        return self._ends[at - 1] if at > 0 else 0

    def head(self, at: int) -> int:
        """Return the line that names a turn."""
        return self.top(at) + self.block(at).lead

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
        middle = f" {_KIND_WORDS[turn.kind]}{f'  {size}' if turn.size else ''}{stamp} "
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
        words = "  ".join(filter(None, (_KIND_WORDS[turn.kind], safe_line(turn.tool), size)))
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
        shown = safe_line(needle)
        self._terms = tuple(terms)
        self._needle = re.compile(re.escape(shown), re.IGNORECASE) if shown else None
        self._needle_length = len(shown)

    def first_line(self, block: Block) -> int | None:
        """Return the first line below the head of a turn with something marked, if any."""
        lines = enumerate(block.spans, 1)
        return next((number for number, span in lines if self.spans(block.text, *span)), None)

    def spans(self, text: str, start: int, end: int) -> list[tuple[int, int]]:
        """Return what is marked in a part of a text, by places in the part."""
        spans = match_spans(text[start:end], self._terms) if self._terms else []
        if self._needle is not None:
            # A match may begin on the line above and end on the one below.
            first = max(0, start - self._needle_length)
            last = min(len(text), end + self._needle_length)
            for match in self._needle.finditer(text, first, last):
                low, high = max(match.start(), start), min(match.end(), end)
                spans += [(low - start, high - start)] if low < high else []
        return spans


# --- the view -------------------------------------------------------------------------------------


class TurnView(LineView, inherit_bindings=False):
    """Draws the lines that are on screen, with the words marked that are looked for."""

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
        self._message: Sequence[Content] = ()
        self._then: Callable[[], None] | None = None
        """Done once the lines are made."""

    @property
    def turn(self) -> Turn | None:
        """The turn in front."""
        return self.turns[self.at] if self.turns else None

    @property
    def present_page(self) -> Page | None:
        """The lines of these turns; `None` while they are made, also where there are older ones."""
        return self.page if self.page is not None and self.page.turns is self.turns else None

    # --- what is shown --------------------------------------------------------------------------

    def show_message(self, lines: Sequence[Content]) -> None:
        """Say something in place of a conversation."""
        self.turns, self.folds, self.at, self._edges = (), Folds(), 0, ()
        self._message, self.page, self._then = lines, None, None
        self._lay_out()

    def show_turns(
        self, turns: Sequence[Turn], *, at: int, edges: Sequence[Edge], folds: Folds | None = None
    ) -> None:
        """Show a conversation with this turn in front; `folds` are those of the same one before."""
        self._edges, self.turns = edges, turns
        self._message = () if turns else [Content("This conversation has no turns.")]
        if folds is None:
            self.page = None
            says_nothing = all(turn.kind is TurnKind.OTHER for turn in turns)
            folds = Folds(with_records=says_nothing)
            self._then = self.to_front
        self.folds = folds
        self._choose(at)
        self.at = folds.first_shown(turns, self.at, 1, self.at)
        self._lay_out()

    def _choose(self, at: int) -> None:
        """Put a turn in front, the first or the last one where there is none there."""
        self.at = min(max(0, at), max(0, len(self.turns) - 1))

    def _lay_out(self) -> None:
        """Make the lines anew."""
        self.workers.cancel_group(self, "page")
        turns, folds = self.turns, self.folds
        width = max(1, self.scrollable_content_region.width - MARGIN)
        if self.is_mounted and self.size and turns:
            in_thread(
                self,
                lambda cancelled: Page(turns, folds, width, cancelled),
                self._take_page,
                description="lay out the conversation",
                group="page",
            )
        elif self.page is None:
            self.set_extent(0)
        self.refresh()

    def _take_page(self, page: Page) -> None:
        if page.folds is not self.folds or page.turns is not self.turns:
            self._lay_out()
            return
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
        page, is_small = self.present_page, at is None or len(folds.wholes.get(at, "")) <= SMALL
        is_present = page is not None and page.folds is self.folds
        self.folds = folds
        if page is not None and is_present and at is not None and is_small:
            page.change(at, folds)
            self.set_extent(page.height)
            self.refresh()
        else:
            self._lay_out()

    def take_whole(self, at: int, text: str) -> None:
        """Show the whole text of a turn."""
        folds = self.folds
        folds = folds if folds.is_open(self.turns, at) else folds.toggled(at)
        wholes = {**folds.wholes, at: display_text(text)}
        self.change_folds(replace(folds, wholes=wholes), at)

    def on_resize(self, event: events.Resize) -> None:
        """Make the lines anew for another width; place what is in front once there is a size."""
        event.prevent_default()
        if self.page is None or self.page.width != self.scrollable_content_region.width - MARGIN:
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
        if (page := self.present_page) is not None and self.turns:
            self.scroll_to(y=max(0, page.head(self.at) - 2), animate=False, force=True)
        self.post_message(self.Moved())

    def go(self, at: int, *, line: int = 0) -> None:
        """Put a turn in front; `line` is the one of its lines that has to be in sight."""
        self._choose(at)
        if (page := self.present_page) is None:
            return
        y, height = self._view()
        top = page.head(self.at)
        if not y <= top + line < y + height - 1:
            y = top - 2 if line < height - 3 else top + line - height // 2
        self._move(self.at, max(0, y))

    def action_step(self, step: int) -> None:
        """Go to the next turn, or by a line within one that is longer than the view."""
        if (page := self.present_page) is None:
            return
        at, (y, height) = self.at, self._view()
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
            at = self.folds.first_shown(self.turns, at + step, step, at)
            # At least the edge of the turn where the reader comes from is in view.
            top, end = page.top(at), page.end(at)
            if step > 0 and end > y + height:
                y = min(end - height, max(y + 1, top))
            elif step < 0 and top < y:
                y = max(top, min(y - 1, end - height))
        self._move(at, y)

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by a page; the first turn that begins there is in front."""
        if (page := self.present_page) is None:
            return
        y, height = self._view()
        goal = min(max(0, page.height - height), max(0, y + pages * max(1, height - 2)))
        place = page.place(goal)
        if goal == y or place is None:
            start, step = (len(self.turns) - 1 if pages > 0 else 0), -pages
        else:
            is_within = place[1] > 0 and page.end(place[0]) < goal + height
            start, step = (place[0] + 1 if is_within else place[0]), 1
        self._move(self.folds.first_shown(self.turns, start, step, self.at), goal)

    def action_scroll_end_of(self, step: int) -> None:
        """Go to the first turn, or to the end of the last one."""
        if (page := self.present_page) is not None:
            end = len(self.turns) - 1 if step > 0 else 0
            at = self.folds.first_shown(self.turns, end, -step, self.at)
            self._move(at, page.height if step > 0 else 0)

    def action_user(self, step: int) -> None:
        """Go to the next, or the last, thing that the user said."""
        after = self.at + step
        for at in range(after, len(self.turns)) if step > 0 else range(after, -1, -1):
            if self.turns[at].kind is TurnKind.MESSAGE and self.turns[at].role == "user":
                self.go(at)
                return

    # --- folding --------------------------------------------------------------------------------

    def action_unfold(self) -> None:
        """Open the turn in front, show the whole of it, or fold it again."""
        turn, at, folds, page = self.turn, self.at, self.folds, self.present_page
        if turn is None or page is None:
            return
        if not folds.is_open(self.turns, at):
            folds = folds.toggled(at)
        elif page.block(at).more:
            self.post_message(self.WholeWanted(at))
            return
        else:
            wholes = {one: text for one, text in folds.wholes.items() if one != at}
            folds = replace(folds, wholes=wholes)
            folds = folds.toggled(at) if turn.kind in FOLDED else folds
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
        self.at = folds.first_shown(self.turns, self.at, -1, self.at)
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
        at, folds = self.at, self.folds
        if self.turns[at].kind is TurnKind.OTHER and not folds.with_records:
            self.change_folds(replace(folds, with_records=True))
        elif not folds.is_open(self.turns, at):
            self.change_folds(folds.toggled(at), at)
        if (page := self.present_page) is not None and page.folds is self.folds:
            self.to_match()
        else:
            self._then = self.to_match

    def to_match(self) -> None:
        """Scroll to the first marked words of the turn in front."""
        self.to_front()
        page = self.present_page
        line = self.marks.first_line(page.block(self.at)) if page is not None else None
        if line is not None:
            self.go(self.at, line=line)

    # --- drawing --------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one line of the view."""
        width, page = self.scrollable_content_region.width, self.page
        line = int(self.scroll_offset.y) + y
        place = page.place(line) if page is not None else None
        if page is None or place is None:
            lines = self._message
            if self.turns and page is None:
                lines = [Content(f"laying out{self.glyphs.ellipsis}")]
            shown = lines[y - 1] if page is None and 0 <= y - 1 < len(lines) else Content("")
            style = self.get_visual_style("turn-view--message")
            strip = Strip((" " + shown).render_segments(style))
            return strip.crop_extend(0, width, self.rich_style)
        at, below = place
        is_front = at == self.at and below >= 0
        style = self.get_visual_style("turn-view--front") if is_front else self.visual_style
        edge = self._edges[at] if at < len(self._edges) else Edge.NONE
        if below < 0 and edge is not Edge.NONE:
            edge = Edge.NONE if edge is Edge.START else Edge.THROUGH
        elif edge is Edge.START and below > 0:
            edge = Edge.INSIDE
        gutter = Content.assemble(
            (
                self.glyphs.marker if is_front and below == 0 else " ",
                self.get_visual_style("turn-view--marker", partial=True),
            ),
            (
                f"{_ASCII_EDGES[edge] if self.glyphs is ASCII else edge.value} ",
                self.get_visual_style("turn-view--edge", partial=True),
            ),
        )
        text = Strip(self._content(page, at, below, line).render_segments(style))
        text = text.crop_extend(0, max(0, width - MARGIN), style.rich_style).apply_offsets(0, line)
        strip = Strip.join([Strip(gutter.render_segments(style)), text])
        return strip.crop_extend(0, width, style.rich_style)

    def _content(self, page: Page, at: int, below: int, line: int) -> Content:
        """Draw a line of a turn, so far below its head; it is number `line` of all."""
        block, turn = page.block(at), page.turns[at]
        if below < 0:
            return Content("")
        if below == 0:
            is_open = page.folds.is_open(page.turns, at)
            return head_line(page.turns, at, is_open=is_open, width=page.width, glyphs=self.glyphs)
        if below > len(block.spans):
            more = fmt.counted(block.more, "more character")
            text = f"{self.glyphs.ellipsis} {more}: enter shows them"
            return " " * INDENT + Content.styled(text, _DIM)
        start, end = block.spans[below - 1]
        mark = self.get_visual_style("turn-view--match", partial=True)
        spans = [Span(low, high, mark) for low, high in self.marks.spans(block.text, start, end)]
        content = Content(block.text[start:end], spans)
        if turn.kind is not TurnKind.MESSAGE or turn.left_out:
            aside = self.get_visual_style("turn-view--aside", partial=True)
            content = content.stylize_before(aside)
        content = " " * INDENT + content
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(line)) is not None:
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
        at, below = place
        was_front = at == self.at
        self._move(at, int(self.scroll_offset.y))
        is_more = below > len(page.block(at).spans)
        if not page.folds.is_open(page.turns, at) or (was_front and below == 0) or is_more:
            self.action_unfold()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text as it is shown."""
        if (page := self.page) is None:
            return None
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else page.height - 1
        chosen = []
        for line in range(max(0, first), min(last, page.height - 1) + 1):
            span, place = selection.get_span(line), page.place(line)
            if span is not None and place is not None:
                text = self._content(page, *place, line).plain
                chosen.append(text[span[0] : None if span[1] == -1 else span[1]])
        return ("\n".join(chosen), "\n") if chosen else None

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        show_worker_error(self.app, event)
