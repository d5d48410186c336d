"""Amounts of bytes in words: one unit and one spelling for screens, reports and messages."""

from __future__ import annotations

STEP = 1024
"""Bytes in a KB, KB in a MB, MB in a GB."""


def size_words(count: int) -> str:
    """A number of bytes: `840 B`, `12 KB`, `5.8 MB`; one decimal below ten, GB at most."""
    value = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= STEP
    decimals = 0 if unit == "B" or value >= 10 else 1
    return f"{value:.{decimals}f} {unit}"
