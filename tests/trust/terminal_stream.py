"""An own reading of what a program writes to a terminal: text, controls and sequences.

It shares nothing with the package: what may come is written down here, everything else is told.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Final

TOKEN: Final = re.compile(
    r"(?P<csi>(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~])"
    r"|(?P<string>(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c))"
    r"|(?P<escape>\x1b[ -/]*[0-OQ-WYZ\\`-~])"
    r"|(?P<control>[\x00-\x1f\x7f-\x9f])"
    r"|(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
)
FROM_TEXTUAL: Final = re.compile(
    r"\x1b\]22;[a-z-]*\x07"  # the pointer's shape
    r"|\x1b\[(?:"
    r"\?(?:1049|1000|1003|1015|1006|1004|1016|25|2004|2026|2048|7)[hl]"  # modes, on and off
    r"|\?(?:2026|2048)\$p"  # whether a mode is known
    r"|\?1;[12]S"
    r"|[<>=]\d*(?:;\d+)*u|\?u"  # what keys tell
    r"|\d+;\d+H|H"  # to a place
    r"|(?:\d+(?:[;:]\d+)*)?m"  # colours
    r"|[023]?[JK]"
    r"|[56]n"
    r")"
)
"""Every sequence that Textual's driver for Linux writes, and no other."""
COPIED: Final = re.compile(r"\x1b\]52;c;[A-Za-z0-9+/]*={0,2}\x07")
"""What copies a text, in base64: only after the key that asks for it."""
_COLOURS: Final = re.compile(r"\x1b\[(?:(?:\d+(?:;\d+)*)?m|K)")
"""Colours, and the end of a line of progress taken away."""
LINES: Final = frozenset("\r\n")
HIDDEN: Final = re.compile("[\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def tokens(data: bytes) -> Iterator[tuple[str, str]]:
    """The kind and the text of everything in a stream, in order; a broken byte is `invalid`."""
    text = data.decode("utf-8", "surrogateescape")
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            yield "broken", text[at : at + 20]
            at += 1
            continue
        yield str(found.lastgroup), found[0]
        at = found.end()


def wrong_in(data: bytes, *, copies: bool = False, marker: str = "PWNED") -> list[str]:
    """What of a screen's stream a terminal should never have been sent, each kind once."""
    wrong: Counter[str] = Counter()
    for kind, text in tokens(data):
        if kind == "text":
            hidden = HIDDEN.search(text)
            if hidden is not None:
                wrong[f"U+{ord(hidden[0]):04X} in text"] += 1
        elif kind == "control":
            if text not in LINES:
                wrong[f"the control U+{ord(text):04X}"] += 1
        elif not FROM_TEXTUAL.fullmatch(text) and not (copies and COPIED.fullmatch(text)):
            wrong[f"the sequence {text[:40]!r}"] += 1
        if kind != "text" and marker in text:
            wrong[f"a payload in {text[:40]!r}"] += 1
    return [f"{what}, {count} times" for what, count in wrong.items()]


def wrong_in_output(data: bytes, *, colours: bool) -> list[str]:
    """The same of a command's output: text, tabs and line ends; on a terminal colours."""
    wrong: Counter[str] = Counter()
    for kind, text in tokens(data):
        if kind == "csi" and colours and _COLOURS.fullmatch(text):
            continue
        if kind == "control" and text in "\r\n\t":
            continue
        if kind != "text":
            wrong[f"{kind} {text[:40]!r}"] += 1
        elif hidden := HIDDEN.search(text):
            wrong[f"U+{ord(hidden[0]):04X}"] += 1
    return [f"{what}, {count} times" for what, count in wrong.items()]


def shown_characters(data: bytes) -> int:
    """How many characters of text are in a stream."""
    return sum(
        sum(not unicodedata.category(one).startswith("Z") for one in text)
        for kind, text in tokens(data)
        if kind == "text"
    )
