"""The patterns of the rules, and words in some languages, from `data/care.toml`."""

from __future__ import annotations

import re
from typing import Any, Final

from memtui.data import read_table

_DATA: Final[dict[str, Any]] = read_table("care.toml")
MONTHS: Final[dict[str, int]] = {
    name: number for number, names in enumerate(_DATA["months"], start=1) for name in names
}
"""The numbers of months by their names in some languages, lower case."""
STAND_INS: Final = frozenset(_DATA["stand_ins"])
"""What is written where somebody shows how a link is written."""


def load_patterns(table: str) -> dict[str, re.Pattern[str]]:
    """Compile the patterns of a table of `data/care.toml`, by their names."""
    rows: dict[str, list[str]] = dict(_DATA[table])
    ignore_case = rows.pop("ignore_case", [])
    months = "|".join(sorted(MONTHS, key=len, reverse=True))
    return {
        name: re.compile(
            "".join(pieces).replace("<months>", months),
            re.IGNORECASE if name in ignore_case else re.NOFLAG,
        )
        for name, pieces in rows.items()
    }
