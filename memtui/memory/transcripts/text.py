"""The text of a message: taken out, folded to one line, cut into lines of 800 units."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from memtui.text.ecmascript import SPACE, trim

WRAP_UNITS: Final = 800
"""UTF-16 units of text in one line, without the role before it."""

# A space by itself is left out: of a long text each would be a piece to be put together again.
_SPACES = re.compile(f"(?! (?![{SPACE}]))[{SPACE}]+")
_UNFOLDED = re.compile(f"[{SPACE.replace(' ', '')}]|  ")
"""What is in no text that is folded already, as most are."""
_AT_ONCE: Final = 1 << 16
"""Characters that are folded in one go: no other thread runs meanwhile."""
_LAST_SINGLE_UNIT = "\uffff"


def message_texts(content: object) -> list[str]:
    """The texts of a message's content: a string, or the `text` blocks of a list, in order."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [
        block["text"]
        for block in content
        if isinstance(block, dict)
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
    ]


def normalise(text: str) -> str:
    """Fold every run of white space to one space, and drop it at both ends."""
    if len(text) <= _AT_ONCE:
        return _folded(text).strip(" ")
    parts: list[str] = []
    ends_in_space = False
    for start in range(0, len(text), _AT_ONCE):
        part = _folded(text[start : start + _AT_ONCE])
        if ends_in_space:
            part = part.removeprefix(" ")
        if part:
            ends_in_space = part.endswith(" ")
            parts.append(part)
    return "".join(parts).strip(" ")


def _folded(text: str) -> str:
    return _SPACES.sub(" ", text) if _UNFOLDED.search(text) else text


def wrap(text: str, units: int = WRAP_UNITS) -> Iterator[str]:
    """Cut text into pieces of at most `units` UTF-16 units (at least 2), at spaces where there are.

    The space that a piece ends at is dropped. A word longer than a piece is cut, never inside a
    surrogate pair. Blank text gives nothing. (`splitLongSessionLine`.)
    """
    text = trim(text)
    start = 0
    while start < len(text):
        end = _end_within(text, start, units)
        # A space right behind the last unit ends the piece as well.
        space = text.rfind(" ", start + 1, end + 1) if end < len(text) else -1
        cut = space if space >= 0 else end
        piece = trim(text[start:cut])
        if piece:
            yield piece
        start = cut
        while start < len(text) and text[start] == " ":
            start += 1


def _end_within(text: str, start: int, units: int) -> int:
    """Where the whole characters end that lie within `units` UTF-16 units from `start`."""
    head = text[start : start + units]
    if head.isascii() or max(head) <= _LAST_SINGLE_UNIT:
        return start + len(head)
    used = 0
    for index, character in enumerate(head, start):
        used += 2 if character > _LAST_SINGLE_UNIT else 1
        if used > units:
            return index
    return start + len(head)
