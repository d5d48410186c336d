"""The turns of a transcript in bounded memory: beginnings of texts, places in the file."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

from memtui.engine.conversations.masking import SHOWN, cut
from memtui.model.conversations import Turn

_BUDGET: Final = 16_000_000
"""Characters of all texts together; beyond them only a first line's worth is held of each."""
_LEAST: Final = 160


class Place(NamedTuple):
    """Where a turn is."""

    offset: int
    """Bytes before its line in the unpacked file."""
    line: int
    order: int
    """Which of the turns of its line it is, from 0."""


class HeldTurns:
    """Turns as they are read, with the place of each."""

    def __init__(self) -> None:
        self._turns: list[Turn] = []
        self._offsets = array("q")
        self._orders = array("L")
        self._left = _BUDGET

    @property
    def turns(self) -> Sequence[Turn]:
        """Every turn so far, texts masked and cut."""
        return self._turns

    def add(self, turn: Turn, place: Place) -> None:
        """Take a turn whose text is neither masked nor cut."""
        held = cut(turn, SHOWN if self._left > 0 else _LEAST)
        self._left -= len(held.text)
        self._turns.append(held)
        self._offsets.append(place.offset)
        self._orders.append(place.order)

    def place(self, at: int) -> Place:
        """Where a turn is; raises `IndexError` when there is none."""
        turn = self._turns[at]
        at %= len(self._turns)
        return Place(self._offsets[at], turn.line, self._orders[at])
