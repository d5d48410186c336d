"""Values as an index may hold them: its columns take any type, and text that is not UTF-8."""

from __future__ import annotations

import math
from typing import Final

_MOST_LINES: Final = 2**53
"""A larger number of a line is none that the program can have written."""


def readable(column: str) -> str:
    """SQL that reads a text column whatever it holds; `text_of` makes text of what it gives."""
    return f"CAST({column} AS BLOB)"


def text_of(value: object) -> str | None:
    """The text of a value read with `readable`; `None` where there is nothing."""
    if value is None or isinstance(value, str):
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def whole(value: object) -> int:
    """The whole number of a column; 0 for what is none."""
    number = finite(value)
    return int(number) if number is not None and abs(number) <= _MOST_LINES else 0


def finite(value: object) -> float | None:
    """The number of a column as it is; `None` for what is none."""
    return value if isinstance(value, int | float) and math.isfinite(value) else None
