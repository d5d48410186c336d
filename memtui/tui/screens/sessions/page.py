"""A conversation as lines: the turns and the chunks that they are of, folded, wrapped and named.

Nothing here needs a screen, so that a page can be made on any thread.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from rich.cells import get_character_cell_size
from textual.content import Content

from memtui.errors import Cancelled
from memtui.model import Chunk
from memtui.model.conversations import Turn, TurnKind
from memtui.report.words import left_out_words
from memtui.retrieval.marks import match_spans
from memtui.text.sanitize import safe, safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import ASCII, Glyphs

Span = tuple[int, int]

FOLDED = frozenset(TurnKind) - {TurnKind.MESSAGE}
"""Kinds that are one line until they are opened."""
INDENT = 2
"""Cells before every line of a text."""
_BLOCKS_KEPT = 300
_BETWEEN = " | "
"""What words that are apart do not become one phrase with."""
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


def turn_of(turns: Sequence[Turn], line: int, kind: TurnKind = TurnKind.MESSAGE) -> int:
    """Return the turn of a line of the file: the first one of a kind, else the first.

    Where nothing is on the line it is the last turn before it.
    """
    first = at = bisect_left(turns, line, key=lambda turn: turn.line)
    while at < len(turns) and turns[at].line == line:
        if turns[at].kind is kind:
            return at
        at += 1
    return first if at > first else max(0, first - 1)


def turn_with_words(turns: Sequence[Turn], line: int, end_line: int, terms: Sequence[str]) -> int:
    """Return the turn from a line to another that holds the most of the terms; else `turn_of`.

    Of those that hold as many the one in which they stand most often, then the first one. What
    the index leaves out of a chunk does not count; of a long text its beginning does.
    """
    best, most = turn_of(turns, line), (0, 0)
    for at in range(bisect_left(turns, line, key=lambda turn: turn.line), len(turns)):
        turn = turns[at]
        if turn.line > end_line:
            break
        if turn.kind is TurnKind.MESSAGE and not turn.left_out:
            spans = match_spans(turn.text, terms)
            # The matches are short: which terms they are takes a fraction of finding them.
            matches = _BETWEEN.join(turn.text[start:end] for start, end in spans)
            count = sum(1 for term in terms if match_spans(matches, (term,))), len(spans)
            if count > most:
                best, most = at, count
    return best


# --- the chunks of a conversation -----------------------------------------------------------------


class Edge(Enum):
    """The relation of a turn to the chunks."""

    NONE = "none"
    START = "start"
    """The first turn of a chunk."""
    INSIDE = "inside"
    THROUGH = "through"
    """Between the turns of a chunk, itself not in the index."""


class Borders:
    """The chunks of one file by the lines that they are of."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = sorted(chunks, key=lambda chunk: (chunk.start_line, chunk.end_line))
        self._starts = [chunk.start_line for chunk in self._chunks]
        self._ends = list(accumulate((chunk.end_line for chunk in self._chunks), max))
        """The furthest line of each chunk and those before it."""

    def __len__(self) -> int:
        return len(self._chunks)

    def at(self, line: int) -> tuple[int, Chunk] | None:
        """Return the last chunk that holds a line, with its number from 1."""
        place = bisect_right(self._starts, line) - 1
        while place >= 0 and self._ends[place] >= line:
            if self._chunks[place].end_line >= line:
                return place + 1, self._chunks[place]
            place -= 1
        return None

    def edges(self, turns: Sequence[Turn]) -> list[Edge]:
        """Return the relation of each turn to the chunks."""
        edges: list[Edge] = []
        last = 0
        for turn in turns:
            chunk = self.at(turn.line) if self._chunks else None
            if chunk is None:
                edges.append(Edge.NONE)
            elif turn.kind is not TurnKind.MESSAGE or turn.left_out:
                edges.append(Edge.THROUGH if chunk[0] == last else Edge.NONE)
            else:
                edges.append(Edge.INSIDE if chunk[0] == last else Edge.START)
                last = chunk[0]
        return edges


# --- wrapping -------------------------------------------------------------------------------------


def display_text(text: str) -> str:
    """Return a text as it is shown: tabs expanded, controls visible, no blank lines at the end."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if "\t" in text:
        text = text.replace("\t", "    ")
    return safe(text).rstrip()


def wrap(text: str, width: int) -> list[Span]:
    """Cut a text into lines of at most `width` cells, at spaces where there are any.

    Returns the start and the end of each line, in characters; one empty line for an empty text.
    """
    width = max(1, width)
    spans: list[Span] = []
    start = 0
    while True:
        end = text.find("\n", start)
        stop = len(text) if end < 0 else end
        _wrap_line(text, start, stop, width, spans)
        if end < 0:
            return spans
        start = end + 1


def _wrap_line(text: str, start: int, end: int, width: int, spans: list[Span]) -> None:
    # Without wide characters a cell is a character, and nothing has to be measured.
    is_plain = end - start <= width // 2 or text[start:end].isascii()
    while is_plain and end - start > width:
        cut = text.rfind(" ", start + 1, start + width + 1)
        spans.append((start, cut if cut > start else start + width))
        start = cut + 1 if cut > start else start + width
    while not is_plain:
        fits = _fitting(text, start, end, width)
        if fits >= end:
            break
        cut = text.rfind(" ", start + 1, fits + 1)
        spans.append((start, cut if cut > start else fits))
        start = cut + 1 if cut > start else fits
    spans.append((start, end))


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

    def is_hidden(self, turn: Turn) -> bool:
        """Return whether a turn has no line at all."""
        return not self.with_records and turn.kind is TurnKind.OTHER

    def is_open(self, turns: Sequence[Turn], at: int) -> bool:
        """Return whether the text of a turn is shown."""
        kind = turns[at].kind
        return kind not in FOLDED or (kind in self.kinds) != (at in self.turned)

    def toggled(self, at: int) -> Folds:
        """Return the folds with this turn the other way."""
        return replace(self, turned=self.turned ^ {at})

    def opened(self, turns: Sequence[Turn], at: int) -> Folds:
        """Return the folds with this turn open."""
        return self if self.is_open(turns, at) else self.toggled(at)

    def toggled_kind(self, turns: Sequence[Turn], kind: TurnKind) -> Folds:
        """Return the folds with all turns of a kind open, or folded where they were open."""
        others = frozenset(at for at in self.turned if turns[at].kind is not kind)
        return replace(self, kinds=self.kinds ^ {kind}, turned=others)

    def with_whole(self, at: int, text: str) -> Folds:
        """Return the folds with the whole text of a turn."""
        return replace(self, wholes={**self.wholes, at: display_text(text)})

    def without_whole(self, at: int) -> Folds:
        """Return the folds with only the beginning of the text of a turn."""
        return replace(self, wholes={key: self.wholes[key] for key in self.wholes if key != at})


class Place(NamedTuple):
    """A line of the page: the turn, and which of its lines."""

    turn: int
    line: int


class Block(NamedTuple):
    """A turn as lines: what is above its text, the lines of its text, and what is left."""

    text: str
    spans: Sequence[Span]
    lead: int
    """Blank lines before it."""
    more: int
    """Characters that are not shown."""

    @property
    def height(self) -> int:
        """Lines, with the one that names the turn, and the one that says what is left."""
        return self.lead + 1 + len(self.spans) + (1 if self.more > 0 else 0)


class Page:
    """Turns as lines of a width, and the ways through them.

    Of a view, `y` is the first line of the page in it, and `height` the number of its lines.
    """

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
        if self.folds.is_hidden(self.turns[at]):
            return 0
        return self.block(at).height if self.folds.is_open(self.turns, at) else 1

    def _block(self, at: int) -> Block:
        turn, folds = self.turns[at], self.folds
        lead = 1 if at > 0 and turn.kind is TurnKind.MESSAGE else 0
        if not folds.is_open(self.turns, at):
            return Block("", (), lead, 0)
        whole = folds.wholes.get(at)
        text = display_text(turn.text) if whole is None else whole
        more = 0 if whole is not None else max(0, turn.size - len(turn.text))
        spans = wrap(text, self.width - INDENT) if text else ()
        return Block(text, spans, lead, more)

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

    def place(self, line: int) -> Place | None:
        """Return what is on a line of the page; `None` below its end."""
        at = bisect_right(self._ends, line)
        return Place(at, line - self.top(at)) if line >= 0 and at < len(self._ends) else None

    def step(self, at: int, step: int, y: int, height: int) -> tuple[int, int]:
        """Go from a turn to the next, or by a line within one that is longer than the view.

        Returns the turn in front and `y`.
        """
        top, end = self.top(at), self.end(at)
        if end <= y or top >= y + height:
            place = self.place(y)
            return place.turn if place is not None else at, y
        if step > 0 and end > y + height:
            return at, y + 1
        if step < 0 and top < y:
            return at, y - 1
        at = first_shown(self.turns, self.folds, at + step, step, at)
        # At least the edge of the turn where the reader comes from is in view.
        top, end = self.top(at), self.end(at)
        if step > 0 and end > y + height:
            return at, min(end - height, max(y + 1, top))
        if step < 0 and top < y:
            return at, max(top, min(y - 1, end - height))
        return at, y

    def scroll_pages(self, at: int, pages: int, y: int, height: int) -> tuple[int, int]:
        """Scroll by a page, the first turn that begins there in front.

        Returns the turn in front and `y`.
        """
        goal = min(max(0, self.height - height), max(0, y + pages * max(1, height - 2)))
        if goal == y:
            end = len(self.turns) - 1 if pages > 0 else 0
            return first_shown(self.turns, self.folds, end, -pages, at), goal
        place = self.place(goal)
        if place is None:
            return at, goal
        is_within = place.line > self.block(place.turn).lead
        has_more = self.end(place.turn) < goal + height
        start = place.turn + 1 if is_within and has_more else place.turn
        return first_shown(self.turns, self.folds, start, 1, at), goal

    def line_in_view(self, at: int, line: int, y: int, height: int) -> int:
        """Return the `y` at which a line of a turn is in sight."""
        top = self.head(at)
        goal = top + line
        if y <= goal < y + height - 1:
            return y
        return max(0, top - 2 if goal < top - 2 + height - 1 else goal - height // 2)


def first_shown(turns: Sequence[Turn], folds: Folds, at: int, step: int, default: int) -> int:
    """Return the first turn from a place on, up or down, that has a line."""
    places = range(at, len(turns)) if step > 0 else range(min(at, len(turns) - 1), -1, -1)
    return next((one for one in places if not folds.is_hidden(turns[one])), default)


# --- lines that name turns ------------------------------------------------------------------------


def head_line(
    turns: Sequence[Turn], at: int, *, is_open: bool, width: int, glyphs: Glyphs
) -> Content:
    """Name a turn in one line."""
    turn, stamp = turns[at], _stamp(turns, at)
    if turn.kind is TurnKind.MALFORMED:
        problem = f"{glyphs.degraded} line {turn.line} is no record: {turn.text}"
        return fmt.fit(Content.styled(safe_line(problem), "$state-warn"), width)
    if turn.kind in (TurnKind.RESET, TurnKind.COMPACTION):
        return _rule(turn, stamp, width, glyphs)
    left_out = f"  not indexed: {left_out_words(turn.left_out)}" if turn.left_out else ""
    stamped = (f"  {stamp}" if stamp else "", _DIM)
    if turn.kind is TurnKind.MESSAGE:
        role = _ROLES.get(turn.role) or safe_line(turn.role.capitalize()) or "System"
        style = "$text-primary" if turn.role == "user" else "$text-secondary"
        line = Content.assemble(
            (role, f"{_DIM if turn.left_out else style} bold"),
            stamped,
            (f"  L{turn.line}", "$foreground 45%"),
            (left_out, "$state-warn"),
        )
    else:
        folds = ("+", "-") if glyphs is ASCII else ("▸", "▾")
        size = fmt.counted(turn.size, "character")
        parts = filter(None, (_KIND_WORDS[turn.kind], safe_line(turn.tool), size))
        line = Content.assemble(
            (f"{folds[is_open]} {'  '.join(parts)}", _DIM),
            ("  failed" if turn.is_error else "", "$state-error"),
            stamped,
            (left_out, "$state-warn"),
        )
    return fmt.fit(line, width)


def _rule(turn: Turn, stamp: str, width: int, glyphs: Glyphs) -> Content:
    size = f"  {fmt.counted(turn.size, 'character')}" if turn.size else ""
    middle = f" {_KIND_WORDS[turn.kind]}{size}{'  ' + stamp if stamp else ''} "
    line = Content.styled(f"{glyphs.rule * 4}{middle}", "$state-warn")
    rest = glyphs.rule * max(0, width - line.cell_length)
    return fmt.fit(line + Content.styled(rest, "$state-warn"), width)


def more_line(more: int, glyphs: Glyphs) -> Content:
    """Say what of a text is not shown, and how to see it."""
    text = f"{glyphs.ellipsis} {fmt.counted(more, 'more character')}: enter shows them"
    return Content.styled(text, _DIM)


def _stamp(turns: Sequence[Turn], at: int) -> str:
    """Return the time of a turn, with its day where that is another one than before."""
    day, time = turn_time(turns[at].timestamp_ms)
    for turn in reversed(turns[max(0, at - _LOOKED_BACK) : at]):
        if turn.kind is not TurnKind.OTHER and turn.timestamp_ms > 0:
            return time if day == turn_time(turn.timestamp_ms)[0] else f"{day} {time}".strip()
    return f"{day} {time}".strip()


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
        match = self._needle.search(block.text) if self._needle is not None else None
        if self._needle is not None:
            starts = [] if match is None else [match.start()]
        else:
            starts = [start for start, _ in match_spans(block.text, self._terms)[:1]]
        lines = enumerate(block.spans, 1)
        return next((line for line, (_, end) in lines for start in starts if start < end), None)

    def spans(self, text: str, start: int, end: int) -> list[Span]:
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
