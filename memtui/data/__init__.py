"""The tables and texts of the program, and how a table is read."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

DATA_FOLDER = Path(__file__).resolve().parent


@cache
def read_table(name: str) -> dict[str, Any]:
    """Read a TOML file of this folder."""
    return tomllib.loads((DATA_FOLDER / name).read_text("utf-8"))
