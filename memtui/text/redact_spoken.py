"""Credentials in what an index holds of a conversation, where only a release's list masked them.

What is shown of such a text is masked by the wider list as well. The text was wrapped and cut into
chunks since: a credential may go on on the next line, of the first line there may be only the
end, and a value that was masked up to a quote within it may have its rest behind that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final

from memtui.text.ecmascript import SPACE, utf16_length
from memtui.text.redact import (
    MASK,
    NAMED,
    OPENCLAW_2026_4,
    OPENCLAW_2026_4_TOKENS,
    TOKENS,
    Rule,
    apply_rules,
    mask,
    may_hold_any,
)

_WIDTH: Final = 800
"""UTF-16 units at which the lines of a conversation are wrapped."""
_LABEL = re.compile(r"(?:User|Assistant): ")
_FILL: Final = "\uffff"
"""Stands for a character of a credential, so that everything keeps its place."""
_REST: Final = Rule(
    re.compile(
        rf'"[{SPACE}]{{0,8}}:[{SPACE}]{{0,8}}"(?:\*{{3}}|[^{SPACE}"]{{6}}…[^{SPACE}"]{{4}})"'
        rf'([^{SPACE},;:}}\]"][^"]*)'
    ),
    ("***", "…"),
)
"""What stands between a masked value and the quote that really ends it."""
_NAMED: Final = (_REST, *(rule for rule in NAMED if rule not in OPENCLAW_2026_4))
_TOKENS: Final = tuple(rule for rule in TOKENS if rule not in OPENCLAW_2026_4_TOKENS)
_WORD_WITH_DIGIT = re.compile(rf"(?=[^{SPACE}]*\d)[^{SPACE}]{{4,}}")


@lru_cache(maxsize=1024)
def redact_spoken(text: str) -> str:
    """Mask what a release's list let through in a chunk of a conversation; lines stay lines.

    The first word of a chunk that begins within a line is masked if it holds a digit: it may be
    the end of a credential. One that is torn between two chunks otherwise is not recognised.
    """
    lines = text.split("\n")
    is_cut = _LABEL.match(text) is None
    if not is_cut and not may_hold_any(text):
        return text
    parts = [(*_joint(lines, number), line) for number, line in enumerate(lines)]
    joined = "".join(between + line[start:] for between, start, line in parts)
    filled = apply_rules(apply_rules(joined, _NAMED, _filled), _TOKENS, _filled)
    if is_cut and (word := _WORD_WITH_DIGIT.match(filled)) is not None:
        filled = _filled(word[0]) + filled[word.end() :]
    if filled == joined:
        return text
    places = _places(parts)
    for start, end in reversed(list(_hidden(joined, filled))):
        shown = mask(joined[start:end])
        # The first line of a credential has its mask; there may be several behind it.
        for at in reversed(_by_line(places[start:end])):
            number, low, high = at
            kept = shown if places[start][0] == number else MASK
            lines[number] = lines[number][:low] + kept + lines[number][high:]
    return "\n".join(lines)


def _filled(token: str) -> str:
    return _FILL * len(token)


def _places(parts: Sequence[tuple[str, int, str]]) -> list[tuple[int, int]]:
    """Where each character of the joined lines is: line and offset."""
    places: list[tuple[int, int]] = []
    for number, (between, start, line) in enumerate(parts):
        places += [(number, start)] * len(between)
        places += [(number, offset) for offset in range(start, len(line))]
    return places


def _joint(lines: Sequence[str], number: int) -> tuple[str, int]:
    """What a line is joined to the one before it with, and how much of it is left out."""
    if number == 0:
        return "", 0
    line, before = lines[number], lines[number - 1]
    label, earlier = _LABEL.match(line), _LABEL.match(before)
    if label is None:
        # A line that is longer than a chunk is cut anywhere.
        return "", 0
    if earlier is None:
        return " ", label.end()
    said = before[earlier.end() :]
    if label[0] != earlier[0]:
        return "\n", 0
    used = utf16_length(said)
    if used >= _WIDTH - 1 and " " not in said:
        return "", label.end()
    following = utf16_length(line[label.end() :].partition(" ")[0])
    return (" ", label.end()) if used + 1 + following > _WIDTH else ("\n", 0)


def _hidden(text: str, filled: str) -> Iterator[tuple[int, int]]:
    """The stretches that were filled."""
    both = enumerate(zip(text, filled, strict=True))
    for is_hidden, run in groupby(both, lambda one: one[1][1] == _FILL != one[1][0]):
        if is_hidden:
            first, *rest = (index for index, _ in run)
            yield first, (rest[-1] if rest else first) + 1


def _by_line(places: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """A stretch as parts of lines: the line, where its part begins and where it ends."""
    found: list[tuple[int, int, int]] = []
    for number, run in groupby(places, lambda place: place[0]):
        offsets = [offset for _, offset in run]
        found.append((number, offsets[0], offsets[-1] + 1))
    return found
