"""A conversation as lines: turns and the chunks that they are of, folded, wrapped and named."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import chain
from typing import ClassVar, NamedTuple

from textual import events
from textual.content import Content, Span
from textual.message import Message
from textual.style import Style

from memtui.memory.transcripts.records import turn_time
from memtui.model import Chunk, Ranked
from memtui.model.conversations import Turn, TurnKind
from memtui.report.words import WORDS, left_out_words, line_spans
from memtui.retrieval.marks import match_spans
from memtui.text.languages import language_of
from memtui.text.sanitize import safe, safe_line
from memtui.tui import fmt, glyphs
from memtui.tui.background import tell
from memtui.tui.bindings import bindings
from memtui.tui.screens.sessions.listing import local
from memtui.tui.widgets.lists import LineView
from memtui.tui.widgets.preview import chunks_on

INDENT = 2
"""Cells before every line of a text."""
MARGIN = 3
"""Cells before every line: the marker of the turn in front, the chunk, and a space."""
NO_CHUNK, CHUNK_START, IN_CHUNK, BETWEEN = " ", "┌", "│", "┊"
"""The relation of a turn to the chunks; `BETWEEN` the turns of one, itself not in the index."""
_WORD_GAP = " | "
"""A separator with which words that are apart do not become one phrase."""


def chunk_of(chunks: Sequence[Chunk], line: int) -> int | None:
    """Return the place of the last chunk that holds a line, of chunks in the file's order."""
    return max(chunks_on(chunks, line), default=None)


def chunk_edges(turns: Sequence[Turn], chunks: Sequence[Chunk]) -> list[str]:
    """Return how each turn stands to the chunks."""
    edges: list[str] = []
    last: int | None = None
    for turn in turns:
        place = chunk_of(chunks, turn.line)
        is_same = place is not None and place == last
        if place is None or turn.kind is not TurnKind.MESSAGE or turn.left_out:
            edges.append(BETWEEN if is_same else NO_CHUNK)
        else:
            edges.append(IN_CHUNK if is_same else CHUNK_START)
            last = place
    return edges


def turn_of(turns: Sequence[Turn], line: int, kind: TurnKind = TurnKind.MESSAGE) -> int:
    """Return the turn of a line of the file: the first one of a kind, else the first.

    Where nothing is on the line it is the last turn before it.
    """
    first = bisect_left(turns, line, key=lambda turn: turn.line)
    end = bisect_right(turns, line, key=lambda turn: turn.line)
    places = (at for at in range(first, end) if turns[at].kind is kind)
    return next(places, first if end > first else max(0, first - 1))


def turn_with_words(
    turns: Sequence[Turn], line: int, end_line: int | None, terms: Sequence[str]
) -> int:
    """Return the turn from a line to another that holds the most of the terms; else `turn_of`.

    Of those that hold as many the one in which they stand most often, then the first one. What
    the index leaves out of a chunk does not count; of a long text its beginning does. Without
    `end_line` it is the turn of the line.
    """
    best, most = turn_of(turns, line), (0, 0)
    first = bisect_left(turns, line, key=lambda turn: turn.line)
    for at in range(first, bisect_right(turns, end_line or 0, key=lambda turn: turn.line)):
        turn = turns[at]
        if turn.kind is TurnKind.MESSAGE and not turn.left_out:
            spans = match_spans(turn.text, terms)
            # The matches are short: which terms they are takes a fraction of finding them.
            matches = _WORD_GAP.join(turn.text[start:end] for start, end in spans)
            count = sum(1 for term in terms if match_spans(matches, (term,))), len(spans)
            if count > most:
                best, most = at, count
    return best


def turns_of_answer(
    ranked: Ranked | None, path: str, turns: Sequence[Turn], terms: Sequence[str]
) -> Sequence[int]:
    """Return the turns of the chunks that an answer has in a conversation."""
    if ranked is None or not terms:
        return ()
    results = {hit.chunk.id for hit in ranked.hits}
    return sorted(
        {
            turn_with_words(turns, chunk.start_line, chunk.end_line, terms)
            if chunk.id in results
            else turn_of(turns, chunk.start_line)
            for chunk in ranked.pool.chunks.values()
            if chunk.path == path
        }
    )


def display_text(text: str) -> str:
    """Return a text as it is shown: tabs expanded, controls visible, no blank lines at the end."""
    return safe(text.replace("\r\n", "\n").replace("\t", "    ")).rstrip()


def wrap(text: str, width: int) -> list[tuple[int, int]]:
    """Cut a text into lines of at most `width` cells, at spaces where there are any.

    Returns the start and the end of each line, in characters; one empty line for an empty text.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for line in text.split("\n"):
        spans += [(start + first, start + end) for first, end in line_spans(line, width)]
        start += len(line) + 1
    return spans


def local_time(turns: Sequence[Turn], at: int) -> str:
    """Return the time of a turn on this machine, after its day where that is another one.

    Empty where the time is not known, or in no calendar.
    """
    # A record that nobody says need not be shown.
    shown = (turns[one] for one in range(at - 1, -1, -1) if turns[one].kind is not TurnKind.OTHER)
    moments = (turn_time(turn.timestamp_ms) for turn in chain(turns[at : at + 1], shown))
    times = (f"{local(when):%Y-%m-%d %H:%M:%S}" if when is not None else "" for when in moments)
    time = next(times)
    return time and time.removeprefix(next(filter(None, times), "")[: len("2026-02-10 ")])


def head_line(turn: Turn, time: str, *, is_open: bool, width: int) -> Content:
    size, stamp = fmt.count(turn.size, "character"), f"  {time}" if time else ""
    left_out = f"  not indexed: {left_out_words(turn.left_out)}" if turn.left_out else ""
    if turn.kind is TurnKind.MALFORMED:
        problem = f"{glyphs.DEGRADED} line {turn.line} is no record: {turn.text}"
        line = Content.styled(safe_line(problem), "$state-warn")
    elif turn.kind in (TurnKind.RESET, TurnKind.COMPACTION):
        middle = f" {WORDS['turn'][turn.kind]}{f'  {size}' if turn.size else ''}{stamp} "
        text = glyphs.RULE * 4 + middle
        line = Content.styled(text + glyphs.RULE * max(0, width - len(text)), "$state-warn")
    elif turn.kind is TurnKind.MESSAGE:
        role = safe_line(turn.role.capitalize()) or "System"
        style = "$text-primary" if turn.role == "user" else "$text-secondary"
        line = Content.assemble(
            (role, f"{fmt.DIM if turn.left_out else style} bold"),
            (stamp, fmt.DIM),
            (f"  line {turn.line}", fmt.DIM),
            (left_out, "$state-warn"),
        )
    else:
        fold = glyphs.OPENED if is_open else glyphs.FOLDED
        words = "  ".join(filter(None, (WORDS["turn"][turn.kind], safe_line(turn.tool), size)))
        line = Content.assemble(
            (f"{fold} {words}", fmt.DIM),
            ("  failed" if turn.is_error else "", "$state-error"),
            (stamp, fmt.DIM),
            (left_out, "$state-warn"),
        )
    return fmt.fit(line, width)


class Block(NamedTuple):
    """A turn as lines: blank ones above its head, the head, those of its text, what is left."""

    text: str = ""
    spans: Sequence[tuple[int, int]] = ()
    lead: int = 0
    """Blank lines before it."""
    more: int = 0
    """Characters that are not shown."""
    height: int = 0

    def marks(
        self, span: tuple[int, int], terms: Sequence[str], needle: str
    ) -> list[tuple[int, int]]:
        """Return where a line has words of a query, and a text in any case, by places in it."""
        start, end = span
        language = language_of(self.text)
        spans = match_spans(self.text[start:end], terms, language) if terms else []
        # A match may begin on the line above and end on the one below.
        first, last = max(0, start - len(needle)), end + len(needle)
        pattern = re.compile(re.escape(needle) or r"(?!)", re.IGNORECASE)
        for match in pattern.finditer(self.text, first, last):
            low, high = max(match.start(), start), min(match.end(), end)
            spans += [(low - start, high - start)] if low < high else []
        return spans


class TurnView(LineView, inherit_bindings=False):
    """The turns of a conversation, some folded, one in front; the words looked for are marked."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"turn-view--{part}" for part in ("front", "marker", "edge", "match", "aside")
    }
    BINDINGS = bindings("turns")

    class Moved(Message):
        """Another turn is in front."""

    class WholeWanted(Message):
        """The whole text of the turn in front, or a conversation, is asked for."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.turns: Sequence[Turn] = ()
        self.opens = ""
        """The word for Enter where it does not open a turn."""
        self.at = 0
        """The turn in front."""
        self.blocks: Sequence[Block] = ()
        """The lines of each turn; none before there is a width."""
        self.wholes: dict[int, str] = {}
        """Whole texts by the place of their turn, as they are shown."""
        self._with_records = True
        """True if records that nobody says have a line."""
        self._open_kinds = {TurnKind.MESSAGE}
        self._turned: set[int] = set()
        """Turns that are not open or folded as their kind is."""
        self._wrapped: dict[str, tuple[str, Sequence[tuple[int, int]]]] = {}
        """The texts of open turns as they are shown, with their lines at this width."""
        self._terms: Sequence[str] = ()
        self._needle = ""
        self._edges: Sequence[str] = ()

    @property
    def turn(self) -> Turn | None:
        return self.turns[self.at] if self.turns else None

    def show_message(self, lines: Sequence[Content]) -> None:
        self.show_turns((), ())
        self._message = lines

    def show_turns(self, turns: Sequence[Turn], edges: Sequence[str]) -> None:
        """Show a conversation; one that goes on what is shown stays at its place and as folded."""
        old, here = self.turns, self.turn
        self.turns, self._edges = turns, edges
        if 0 < len(old) <= len(turns) and (turns[0], turns[len(old) - 1]) == (old[0], old[-1]):
            self._lay_out_turns()
            return
        self.wholes, self._wrapped = {}, {}
        self._with_records = all(turn.kind is TurnKind.OTHER for turn in turns)
        self._open_kinds = {TurnKind.MESSAGE}
        self._turned = set()
        self._message = () if turns else [Content("This conversation has no turns.")]
        at = turn_of(turns, here.line, here.kind) if here is not None and turns else 0
        self.at = self._first_shown(at, 1)
        self._lay_out_turns()
        self._show_front()

    def show_whole(self, at: int, text: str) -> None:
        """Open a turn and show its whole text, until it is folded."""
        self.wholes[at] = text
        self._open(at)
        self._lay_out_turns()

    def mark(self, terms: Sequence[str], needle: str) -> None:
        """Mark the words of a query, and a text in any case."""
        self._terms, self._needle = terms, safe_line(needle)
        self.refresh()

    def first_marked(self, at: int) -> int | None:
        """Return the first line below the head of a turn with something marked, if any."""
        block = self.blocks[at]
        for place, span in enumerate(block.spans, 1):
            if block.marks(span, self._terms, self._needle):
                return place
        return None

    def _first_shown(self, at: int, step: int) -> int:
        """Return the first turn from a place on, up or down, that has a line; else the last."""
        at = max(0, min(at, len(self.turns) - 1))
        down, up = range(at, len(self.turns)), range(at, -1, -1)
        places = chain(down, up) if step > 0 else chain(up, down)
        return next(filter(set(self.shown).__contains__, places), 0)

    @property
    def shown(self) -> Sequence[int]:
        """The places of the turns that have a line, ascending."""
        return [
            at
            for at, turn in enumerate(self.turns)
            if self._with_records or turn.kind is not TurnKind.OTHER
        ]

    def _is_open(self, at: int) -> bool:
        return (self.turns[at].kind in self._open_kinds) != (at in self._turned)

    def _open(self, at: int, *, is_open: bool = True) -> None:
        """Open or fold a turn; messages are never folded."""
        if self._is_open(at) != is_open and self.turns[at].kind is not TurnKind.MESSAGE:
            self._turned ^= {at}

    def _lay_out_turns(self) -> None:
        # Behind another pane there is no width: the one before stays.
        width = self.scrollable_content_region.width or self._width
        if width != self._width:
            self._width, self._wrapped = width, {}
        self.blocks = [self._block(at) for at in range(len(self.turns))] if width > 0 else ()
        self.set_heights(block.height for block in self.blocks)

    def _block(self, at: int) -> Block:
        turn = self.turns[at]
        if turn.kind is TurnKind.OTHER and not self._with_records:
            return Block()
        lead, more = int(at > 0 and turn.kind is TurnKind.MESSAGE), 0
        text = ""
        spans: Sequence[tuple[int, int]] = ()
        if self._is_open(at):
            raw = self.wholes.get(at, turn.text)
            more = 0 if at in self.wholes else max(0, turn.size - len(raw))
            if raw not in self._wrapped:
                text = display_text(raw)
                self._wrapped[raw] = text, wrap(text, self._width - MARGIN - INDENT) if text else ()
            text, spans = self._wrapped[raw]
        return Block(text, spans, lead, more, lead + 1 + len(spans) + (more > 0))

    def on_resize(self, event: events.Resize) -> None:
        """Make the lines anew for another width, with the turn in front where it was in the view.

        In a smaller view it stays in sight.
        """
        event.prevent_default()
        if not self.turns or self.scrollable_content_region.width in (0, self._width):
            return
        if not self.blocks:
            self._lay_out_turns()
            self._show_front()
            return
        head, (y, height) = self._head(self.at), self._view()
        offset = max(head - self.tops[self.at + 1], min(head - y, height - 1))
        self._lay_out_turns()
        self.scroll_to_line(self._head(self.at) - offset)

    def _head(self, at: int) -> int:
        return self.tops[at] + self.blocks[at].lead

    def _view(self) -> tuple[int, int]:
        """Return the first line in view, and how many lines there are."""
        return int(self.scroll_offset.y), max(1, self.scrollable_content_region.height)

    def _move(self, at: int, y: int) -> None:
        self.at = at
        self.scroll_to_line(y)
        self.refresh()
        self.refresh_bindings()
        self.post_message(self.Moved())

    def go(self, at: int, line: int = 0) -> None:
        """Put a turn in front; `line` is the one of its lines that has to be in sight."""
        y, height = self._view()
        top = self._head(at)
        if not y <= top + line < y + height - 1:
            y = top - 2 if line < height - 3 else top + line - height // 2
        self._move(at, y)

    def _show_front(self) -> None:
        """Scroll the turn in front to the upper part of the view, or what is marked in it."""
        if self.blocks:
            self.scroll_to_line(self._head(self.at) - 2)
            self.go(self.at, self.first_marked(self.at) or 0)

    def front(self, at: int) -> None:
        """Put a turn in front, opened, with the first marked words in sight."""
        self.at = at
        if self.turns:
            self._with_records |= self.turns[at].kind is TurnKind.OTHER
            self._open(at)
            self._lay_out_turns()
            self._show_front()

    def action_step(self, step: int) -> None:
        """Go to the next turn, or by a line within one that is longer than the view."""
        at, tops, (y, height) = self.at, self.tops, self._view()
        if tops[at + 1] <= y or tops[at] >= y + height:
            # Out of sight: the first turn that is in sight comes to the front.
            at, _ = self.block_at(y) or (at, 0)
        elif step > 0 and tops[at + 1] > y + height:
            y += 1
        elif step < 0 and tops[at] < y:
            y -= 1
        else:
            at = self._first_shown(at + step, step)
            # Of one that is longer than the view, the edge where the reader comes from.
            if step > 0 and tops[at + 1] > y + height:
                y = min(tops[at + 1] - height, tops[at])
            elif step < 0 and tops[at] < y:
                y = max(tops[at + 1] - height, tops[at])
        self._move(at, y)

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by a page; the first turn that begins there is in front."""
        y, height = self._view()
        goal = min(int(self.max_scroll_y), max(0, y + pages * max(1, height - 2)))
        if goal == y:
            at = self._first_shown(len(self.turns) if pages > 0 else 0, -pages)
        else:
            at, below = self.block_at(goal) or (0, 0)
            is_within = below > self.blocks[at].lead and self.tops[at + 1] < goal + height
            at = self._first_shown(at + is_within, 1)
        self._move(at, goal)

    def action_scroll_end_of(self, step: int) -> None:
        at = self._first_shown(len(self.turns) if step > 0 else 0, -step)
        self._move(at, self.tops[-1] if step > 0 else 0)

    def action_user(self, step: int) -> None:
        after, turns = self.at + step, self.turns
        for at in range(after, len(turns)) if step > 0 else range(after, -1, -1):
            if turns[at].kind is TurnKind.MESSAGE and turns[at].role == "user":
                self.go(at)
                return

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what would fold a message: only the rest of a long one is folded."""
        if not self.blocks:
            return True if action == "unfold" and self.opens else None
        if self.turns[self.at].kind is not TurnKind.MESSAGE:
            return True
        if action == "unfold":
            return bool(self.blocks[self.at].more) or self.at in self.wholes or None
        return None if (action, *parameters) == ("fold", "kind") else True

    def action_unfold(self) -> None:
        at = self.at
        if not self.blocks or self.blocks[at].more:
            self.post_message(self.WholeWanted())
        else:
            if is_open := self._is_open(at):
                self.wholes.pop(at, None)
            self._open(at, is_open=not is_open)
            self._lay_out_turns()
            self.go(at)

    def action_fold(self, scope: str) -> None:
        offset, kind = self._head(self.at) - int(self.scroll_offset.y), self.turns[self.at].kind
        if scope == "records":
            self._with_records = not self._with_records
            self.at = self._first_shown(self.at, -1)
            records = sum(turn.kind is TurnKind.OTHER for turn in self.turns)
            state = "shown" if self._with_records else "hidden"
            tell(self, f"{fmt.count(records, 'record')} {state}: settings, snapshots, tasks")
        elif kind is not TurnKind.MESSAGE:
            self._open_kinds ^= {kind}
            self._turned -= {at for at, turn in enumerate(self.turns) if turn.kind is kind}
            state = "open" if kind in self._open_kinds else "folded"
            tell(self, f"every {WORDS['turn'][kind]} is {state}")
        self._lay_out_turns()
        self._move(self.at, self._head(self.at) - offset)

    def on_click(self, event: events.Click) -> None:
        """Put a turn in front; open or fold it where the line that names it is clicked."""
        at, below = self.block_under(event) or (-1, 0)
        if at >= 0:
            below -= self.blocks[at].lead
            is_toggle = (at == self.at and below == 0) or below > len(self.blocks[at].spans)
            self._move(at, int(self.scroll_offset.y))
            if is_toggle or not self._is_open(at):
                self.action_unfold()

    def frame_at(self, at: int) -> tuple[Style, Content]:
        place, below = self.block_at(at) or (0, 0)
        edge, below = self._edges[place], below - self.blocks[place].lead
        is_front = place == self.at and below >= 0
        style = self.get_visual_style("turn-view--front") if is_front else self.visual_style
        if below < 0 and edge != NO_CHUNK:
            edge = NO_CHUNK if edge == CHUNK_START else BETWEEN
        elif edge == CHUNK_START and below > 0:
            edge = IN_CHUNK
        marker = glyphs.MARKER if place == self.at and below == 0 else " "
        return style, Content.assemble(
            (marker, self.get_visual_style("turn-view--marker", partial=True)),
            (f"{edge} ", self.get_visual_style("turn-view--edge", partial=True)),
        )

    def line_at(self, at: int) -> Content | None:
        if (place := self.block_at(at)) is None:
            return None
        at, below = place
        block, turn = self.blocks[at], self.turns[at]
        below -= block.lead
        if below < 0:
            return Content("")
        if below == 0:
            time, is_open = local_time(self.turns, at), self._is_open(at)
            return head_line(turn, time, is_open=is_open, width=self._width - MARGIN)
        if below > len(block.spans):
            more = fmt.count(block.more, "more character")
            return " " * INDENT + Content.styled(f"… {more}: enter shows them", fmt.DIM)
        start, end = block.spans[below - 1]
        marks = block.marks((start, end), self._terms, self._needle)
        mark = self.get_visual_style("turn-view--match", partial=True)
        line = Content(block.text[start:end], [Span(low, high, mark) for low, high in marks])
        if turn.kind is not TurnKind.MESSAGE or turn.left_out:
            line = line.stylize_before(self.get_visual_style("turn-view--aside", partial=True))
        return " " * INDENT + line
