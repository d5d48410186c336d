"""Text for a terminal: control characters made visible, and amounts of bytes in words.

Notes, file names, headings, model names and provider errors all pass through `safe` once, where
they enter a screen or a terminal. One character becomes one character, so offsets and columns hold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

HOSTILE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""A character that may never reach a terminal; tab and line feed are not in it.

C0 and C1 controls, of which U+009B alone starts a control sequence; separators of lines and
paragraphs, which would break a row in two; bidirectional controls; lone surrogates, which cannot be
encoded.
"""


def safe(text: str) -> str:
    """Replace what could command a terminal, one character for one; tabs and line feeds stay.

    C0 controls and DEL become their pictures (U+2400 to U+2421); C1 controls, bidirectional
    controls, line separators and lone surrogates become U+FFFD.
    """
    return HOSTILE.sub(_picture, text)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "\u2421" if code == 0x7F else chr(0x2400 + code) if code < 0x20 else "\ufffd"


def safe_line(text: str) -> str:
    """Do what `safe` does and turn tabs and line feeds into spaces, for text on one row."""
    return HOSTILE.sub(_picture, text).replace("\t", " ").replace("\n", " ")


_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Printable by their category, and yet nothing is seen of them."""


def escaped(value: object) -> str:
    """Write a value as Python does, and as an escape whatever is not seen or moves the rest.

    These are controls, bidirectional ones too, blanks but for the space, and what has no width.
    """
    return _UNSEEN.sub(lambda match: ascii(match[0])[1:-1], repr(value))


def counted(count: int, noun: str = "", plural: str = "") -> str:
    """Write a number of things: `1 chunk`, `1,204 chunks`; without a noun the number alone."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}" if noun else f"{count:,}"


def listed(names: Sequence[str], shown: int = 3) -> str:
    """Write the first names of a list, and how many more there are: `a, b, c and 1,204 more`."""
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def size_words(count: int) -> str:
    """Write a number of bytes: `840 B`, `12 KB`, `5.8 MB`; one decimal below ten, GB at most."""
    value = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1024
    decimals = 0 if unit == "B" or value >= 10 else 1
    return f"{value:.{decimals}f} {unit}"
