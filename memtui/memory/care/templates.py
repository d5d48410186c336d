"""What texts share because they began as one template: no reason to keep only one of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from memtui.errors import Cancelled

MOST_SHARED: Final = 4
"""A short line that more texts have is one of a template."""
SHORT_LINE: Final = 80
"""Characters of a line that can be one of a template; longer ones say something."""
_CHECK_EVERY: Final = 256
_FORM = re.compile(
    r"[ \t>]*(?:#{1,6}(?:[ \t]|$)|(?:[-*+]|\d{1,9}[.)])[ \t]+\[[ xX/-]\]|[^\n]{0,60}:[ \t*_]*$)"
)
_DIGITS = re.compile("[0-9]+")


def without_forms(texts: Sequence[str], cancelled: Callable[[], bool] = lambda: False) -> list[str]:
    """Each text without headings, tasks, empty fields and the short lines that many texts share.

    Lines that differ in their numbers alone count as one. Raises `Cancelled`.
    """
    counts: Counter[str] = Counter()
    for text in _all(texts, cancelled):
        counts.update({_shape(line) for line in text.split("\n") if _is_short(line)})
    shared = {shape for shape, count in counts.items() if count > MOST_SHARED}
    return [_said(text, shared) for text in _all(texts, cancelled)]


def _all(texts: Sequence[str], cancelled: Callable[[], bool]) -> Iterator[str]:
    for number, text in enumerate(texts):
        if number % _CHECK_EVERY == 0 and cancelled():
            raise Cancelled
        yield text


def _said(text: str, shared: set[str]) -> str:
    return "\n".join(
        line
        for line in text.split("\n")
        if not _FORM.match(line) and not (_is_short(line) and _shape(line) in shared)
    )


def _is_short(line: str) -> bool:
    return 0 < len(line) <= SHORT_LINE


def _shape(line: str) -> str:
    return _DIGITS.sub("0", line.strip().casefold())
