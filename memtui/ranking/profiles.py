"""Named rankings: memtui's own, and what other programs do (`data/profiles.toml`)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import convert

from memtui.data import read_table
from memtui.model import Ranking

_ROWS = read_table("profiles.toml")

PROFILES: Mapping[str, Ranking] = MappingProxyType(
    {
        name: convert({**_ROWS.get(row.get("like"), {}), **row, "profile": name}, Ranking)
        for name, row in _ROWS.items()
    }
)
