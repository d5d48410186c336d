"""A conversation laid out as lines: which turns are open, how many lines each has, and what is
where. Without a screen, so that it can be made on any thread."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import NamedTuple

from memtui.errors import Cancelled
from memtui.model.conversations import Turn, TurnKind
from memtui.tui.sessions.wrapping import Span, display_text, wrap

FOLDED = frozenset(
    {
        TurnKind.THINKING,
        TurnKind.TOOL_CALL,
        TurnKind.TOOL_RESULT,
        TurnKind.OTHER,
        TurnKind.RESET,
        TurnKind.COMPACTION,
        TurnKind.MALFORMED,
    }
)
"""Kinds that are one line until they are opened."""
INDENT = 2
"""Cells before every line of a text."""
_KEPT = 300


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

    def is_hidden(self, turns: Sequence[Turn], at: int) -> bool:
        """Whether a turn has no line at all."""
        return not self.with_records and turns[at].kind is TurnKind.OTHER

    def is_open(self, turns: Sequence[Turn], at: int) -> bool:
        """Whether the text of a turn is shown."""
        kind = turns[at].kind
        return kind not in FOLDED or (kind in self.kinds) != (at in self.turned)

    def opened(self, turns: Sequence[Turn], at: int) -> Folds:
        """With this turn open."""
        return self if self.is_open(turns, at) else self.toggled(at)

    def toggled(self, at: int) -> Folds:
        """With this turn the other way."""
        return replace(self, turned=self.turned ^ {at})

    def toggled_kind(self, turns: Sequence[Turn], kind: TurnKind) -> Folds:
        """With all turns of a kind open, or folded where they were open."""
        others = frozenset(at for at in self.turned if turns[at].kind is not kind)
        return replace(self, kinds=self.kinds ^ {kind}, turned=others)

    def with_whole(self, at: int, text: str) -> Folds:
        """With the whole text of a turn."""
        return replace(self, wholes={**self.wholes, at: display_text(text)})


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
    """Turns as lines of a width; text is cut to lines when it is looked at."""

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
        self._blocks: OrderedDict[int, Block] = OrderedDict()
        self._heights: list[int] = []
        for at in range(len(turns)):
            if cancelled():
                raise Cancelled
            self._heights.append(self._counted(at))
        self._ends: list[int] = []
        self._sum()

    def _counted(self, at: int) -> int:
        if self.folds.is_hidden(self.turns, at):
            return 0
        if not self.folds.is_open(self.turns, at):
            return 1
        return self.block(at).height

    def _sum(self) -> None:
        self._ends = list(accumulate(self._heights))

    @property
    def height(self) -> int:
        """Lines of the whole page."""
        return self._ends[-1] if self._ends else 0

    def top(self, at: int) -> int:
        """The first line of a turn."""
        return self._ends[at - 1] if at > 0 else 0

    def head(self, at: int) -> int:
        """The line that names a turn."""
        return self.top(at) + self.block(at).lead

    def end(self, at: int) -> int:
        """The line after a turn."""
        return self._ends[at]

    def place(self, line: int) -> Place | None:
        """What is on a line of the page; `None` below its end."""
        at = bisect_right(self._ends, line)
        return Place(at, line - self.top(at)) if line >= 0 and at < len(self._ends) else None

    def block(self, at: int) -> Block:
        """The lines of a turn; the last few hundred are kept."""
        block = self._blocks.get(at)
        if block is not None:
            self._blocks.move_to_end(at)
            return block
        block = self._blocks[at] = make_block(self.turns, at, self.folds, self.width)
        if len(self._blocks) > _KEPT:
            # Whole texts stay: to wrap one again could take long.
            old = next((key for key in self._blocks if key not in self.folds.wholes), None)
            if old is not None:
                del self._blocks[old]
        return block

    def change(self, at: int, folds: Folds) -> None:
        """Open or fold one turn."""
        self.folds = folds
        self._blocks.pop(at, None)
        self._heights[at] = self._counted(at)
        self._sum()


def make_block(turns: Sequence[Turn], at: int, folds: Folds, width: int) -> Block:
    """Cut the text of a turn into lines."""
    turn = turns[at]
    lead = 1 if at > 0 and turn.kind is TurnKind.MESSAGE else 0
    if not folds.is_open(turns, at):
        return Block("", (), lead, 0)
    whole = folds.wholes.get(at)
    text = display_text(turn.text) if whole is None else whole
    more = 0 if whole is not None else max(0, turn.size - len(turn.text))
    spans = wrap(text, width - INDENT) if text else ()
    return Block(text, spans, lead, more)
