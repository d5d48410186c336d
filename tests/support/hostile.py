"""Text that attacks terminals and markup parsers, for every place that prints text of others."""

from __future__ import annotations

from typing import Final

from tests.support.known import load

ATTACKS: Final[tuple[str, ...]] = tuple(load("hostile")["attacks"])
"""Markup, escape sequences (title, clipboard, cursor report, C1), NUL, DEL, carriage return, bidi
overrides and isolates, line separators, lone surrogates."""

ALL: Final = " ".join(ATTACKS)
