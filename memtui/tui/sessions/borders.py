"""Where the chunks of the index begin and end in a conversation."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from enum import Enum
from itertools import accumulate

from memtui.model import Chunk
from memtui.model.conversations import Turn, TurnKind


class Edge(Enum):
    """How a turn stands to the chunks."""

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
        """The last chunk that holds a line, with its number from 1."""
        place = bisect_right(self._starts, line) - 1
        while place >= 0 and self._ends[place] >= line:
            if self._chunks[place].end_line >= line:
                return place + 1, self._chunks[place]
            place -= 1
        return None

    def edges(self, turns: Sequence[Turn]) -> list[Edge]:
        """How each turn stands to the chunks."""
        edges: list[Edge] = []
        last = 0
        for turn in turns:
            found = self.at(turn.line) if self._chunks else None
            if found is None:
                edges.append(Edge.NONE)
            elif turn.kind is not TurnKind.MESSAGE or turn.left_out:
                edges.append(Edge.THROUGH if found[0] == last else Edge.NONE)
            else:
                edges.append(Edge.INSIDE if found[0] == last else Edge.START)
                last = found[0]
        return edges
