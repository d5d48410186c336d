"""String functions of ECMAScript, for texts that must come out as a JavaScript program's."""

from __future__ import annotations

import unicodedata
from typing import Final

SPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
r"""White space and line ends, what `\s` matches; Python has five more, and lacks U+FEFF."""


def trim(text: str) -> str:
    """`String.prototype.trim`."""
    return text.strip(SPACE)


def is_space(character: str) -> bool:
    r"""Tell whether `\s` matches a character."""
    return character in SPACE


def utf16_length(text: str) -> int:
    """Return the UTF-16 units of a text: its `length`."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def simple_fold(text: str) -> str:
    """Simple case folding, as the `i` flag of a `u` regular expression compares."""
    return text.lower() if text.isascii() else "".join(map(_fold, text))


def nfc(text: str) -> str:
    """Canonical composition."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _fold(character: str) -> str:
    for folded in (character.casefold(), character.lower()):
        if len(folded) == 1:
            return folded
    return character
