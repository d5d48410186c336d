"""Text that attacks terminals and markup parsers, for every place that prints text of others."""

from __future__ import annotations

from typing import Final

ATTACKS: Final = (
    "- [x] done",
    "[/]",
    "[/foo]",
    "[@click=app.quit]hi[/]",
    "[r",
    'arr[0] [1, "3"]',
    "\x1b]2;PWNED-TITLE\x1b\\",
    "\x1b]52;c;cHduZWQ=\x07",
    "\x1b[6n",
    "\x9b31mred",
    "\x90payload\x9c",
    "a\x00b\x7fc\x08d",
    "safe\r\x1b[2Kevil",
    "left \u202eright\u202c \u2066isolate\u2069",
    "two\u2028lines\u2029here",
    "lone \ud800 surrogate \udcff",
    "tab\tand\nnewline",
)
"""Markup, escape sequences (title, clipboard, cursor report, C1), NUL, DEL, carriage return, bidi
overrides and isolates, line separators, lone surrogates."""

ALL: Final = " ".join(ATTACKS)
