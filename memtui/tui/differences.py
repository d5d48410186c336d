"""What differs between two versions of a note, as the lines of a unified diff."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum

CONTEXT = 3


class Mark(StrEnum):
    """What a line of a difference is, by its first character."""

    HUNK = "@"
    SAME = " "
    REMOVED = "-"
    ADDED = "+"


@dataclass(frozen=True, slots=True)
class DifferenceLine:
    """One line; `text` is as it is in the note, without its newline."""

    mark: Mark
    text: str


def difference(
    before: Sequence[str], after: Sequence[str], context: int = CONTEXT
) -> tuple[DifferenceLine, ...]:
    """The hunks that make `after` of `before`; empty when they are equal.

    What both begin and end with is left out first: most changes of a long note are small, and the
    comparison itself may take time quadratic in what is left.
    """
    head, tail = _common(before, after)
    head, tail = max(0, head - context), max(0, tail - context)
    old = before[head : len(before) - tail]
    new = after[head : len(after) - tail]
    return tuple(_lines(old, new, head, context))


def _common(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many lines both begin with, and how many of the rest they end with."""
    shortest = min(len(before), len(after))
    head = 0
    while head < shortest and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shortest - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return head, tail


def _lines(
    old: Sequence[str], new: Sequence[str], offset: int, context: int
) -> Iterator[DifferenceLine]:
    matcher = SequenceMatcher(None, old, new)
    for group in matcher.get_grouped_opcodes(context):
        first, last = group[0], group[-1]
        removed = _range(first[1] + offset, last[2] + offset)
        added = _range(first[3] + offset, last[4] + offset)
        yield DifferenceLine(Mark.HUNK, f"@@ -{removed} +{added} @@")
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                yield from (DifferenceLine(Mark.SAME, line) for line in old[old_from:old_to])
                continue
            yield from (DifferenceLine(Mark.REMOVED, line) for line in old[old_from:old_to])
            yield from (DifferenceLine(Mark.ADDED, line) for line in new[new_from:new_to])


def _range(start: int, stop: int) -> str:
    """A range of lines as unified diffs write it: an empty one names the line before it."""
    length = stop - start
    if length == 1:
        return f"{start + 1}"
    return f"{start + 1 if length else start},{length}"
