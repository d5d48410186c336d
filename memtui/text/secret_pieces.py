"""Cutting a long text where no credential can be, so that a search for them can pause there.

A regular expression does not let other threads run before it has gone through its whole text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from memtui.text.ecmascript import SPACE

PIECE: Final = 1 << 17
"""Characters of a piece, at least."""

_PRIVATE_KEY: Final = "private key-----"
_NAMING: Final = "key|token|secret|passw|phrase|auth|bearer|basic|is\\b"
# A single blank between two plain words of which none is a part of a credential's name.
_WORD: Final = rf"(?![a-z]*(?:{_NAMING}))[a-z]{{2,16}}"
_BLANK = re.compile(rf"(?<= ){_WORD}(?= {_WORD} )")
# Where a value of JSON begins that may hold blanks; and what ends any such value.
_OPENS = re.compile(
    rf"(?:key|token|secret|passwo?r?d|passphrase|authorization)\\*\"[{SPACE}]*:[{SPACE}]*\\*\"",
    re.IGNORECASE | re.ASCII,
)
_CLOSES = re.compile(r'[^\\]"')


def pieces(text: str) -> Iterator[str]:
    """Cut a text into pieces that, each masked by itself, are together the masked text.

    One piece where there is no safe place, and for a text with a private key in it.
    """
    if len(text) <= 2 * PIECE or _PRIVATE_KEY in text.lower():
        yield text
        return
    start, looked, at = 0, 0, PIECE
    while len(text) - at > PIECE and (blank := _BLANK.search(text, at)) is not None:
        cut = blank.end()
        opened = max((found.end() for found in _OPENS.finditer(text, looked, cut)), default=None)
        looked = cut
        if opened is not None:
            closed = _CLOSES.search(text, opened)
            if closed is None:
                break
            if closed.end() > cut:
                looked = at = closed.end()
                continue
        yield text[start:cut]
        start, at = cut, cut + PIECE
    yield text[start:]
