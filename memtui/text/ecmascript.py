"""String functions of ECMAScript, for texts that must come out as a JavaScript program's."""

from __future__ import annotations

import unicodedata
from itertools import accumulate
from typing import Final

SPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
r"""White space and line ends, what `\s` matches; Python has five more, and lacks U+FEFF."""


def trim(text: str) -> str:
    """`String.prototype.trim`."""
    return text.strip(SPACE)


def well_formed(text: str) -> str:
    """`String.prototype.toWellFormed`: U+FFFD for lone surrogates, which UTF-8 cannot write."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def utf16_length(text: str) -> int:
    """Return the UTF-16 units of a text: its `length`."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf16_head(text: str, units: int) -> str:
    """Return as many whole characters of the beginning as make at most so many UTF-16 units."""
    head = text[:units]
    if utf16_length(head) <= units:
        return head
    used = accumulate(1 + (character > "\uffff") for character in head)
    return head[: sum(unit <= units for unit in used)]


def simple_fold(text: str) -> str:
    """Simple case folding, as the `i` flag of a `u` regular expression compares."""
    if text.isascii():
        return text.lower()
    one_each = ((character.casefold(), character.lower(), character) for character in text)
    return "".join(next(folded for folded in forms if len(folded) == 1) for forms in one_each)


def nfc(text: str) -> str:
    """Canonical composition."""
    return unicodedata.normalize("NFC", text)
