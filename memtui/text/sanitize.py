"""Text for a terminal: control characters made visible, and amounts of bytes in words.

Notes, file names, headings, model names and provider errors all pass through `safe` once, where
they enter a screen or a terminal. One character becomes one character, so offsets and columns hold.
"""

from __future__ import annotations

import re

_REPLACEMENT = 0xFFFD
_PICTURES = 0x2400
_KEPT = (0x09, 0x0A)

_CONTROL_PICTURES = {code: _PICTURES + code for code in range(0x20) if code not in _KEPT}
_CONTROL_PICTURES[0x7F] = 0x2421

_INVISIBLE_COMMANDS = (
    range(0x80, 0xA0),  # C1: 0x9B alone starts a control sequence
    range(0x2028, 0x202A),  # line and paragraph separator: would break a row in two
    range(0x202A, 0x202F),  # bidirectional embeddings and overrides
    range(0x2066, 0x206A),  # bidirectional isolates
    range(0xD800, 0xE000),  # lone surrogates cannot be encoded for the terminal
)

HOSTILE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""A character that may never reach a terminal; tab and line feed are not in it."""

_HOSTILE_IN_LINE = re.compile(f"[\t\n]|{HOSTILE.pattern}")

_MAP = _CONTROL_PICTURES | {code: _REPLACEMENT for codes in _INVISIBLE_COMMANDS for code in codes}
_LINE_MAP = _MAP | {0x09: 0x20, 0x0A: 0x20}


def safe(text: str) -> str:
    """Replace what could command a terminal, one character for one; tabs and line feeds stay.

    C0 controls and DEL become their pictures (U+2400 to U+2421); C1 controls, bidirectional
    controls, line separators and lone surrogates become U+FFFD.
    """
    if HOSTILE.search(text) is None:
        return text
    return text.translate(_MAP)


def safe_line(text: str) -> str:
    """Do what `safe` does and turn tabs and line feeds into spaces, for text on one row."""
    if _HOSTILE_IN_LINE.search(text) is None:
        return text
    return text.translate(_LINE_MAP)


def counted(count: int, noun: str, plural: str = "") -> str:
    """Write a number of things: `1 chunk`, `1,204 chunks`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def size_words(count: int) -> str:
    """Write a number of bytes: `840 B`, `12 KB`, `5.8 MB`; one decimal below ten, GB at most."""
    value = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1024
    decimals = 0 if unit == "B" or value >= 10 else 1
    return f"{value:.{decimals}f} {unit}"
