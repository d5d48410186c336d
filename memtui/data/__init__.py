"""The tables and texts of the program, and how a table is read."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

DATA_FOLDER = Path(__file__).resolve().parent
DEMO_ROOT = DATA_FOLDER / "demo"
"""The folder of the sample memory."""
DEMO_PRESENT = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
"""The evening on which the sample memory's story ends."""


@cache
def read_table(name: str) -> dict[str, Any]:
    """Read a TOML file of this folder."""
    return tomllib.loads((DATA_FOLDER / name).read_text("utf-8"))
