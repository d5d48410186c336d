"""The characters of the interface, in two sets: Unicode, and ASCII for fonts without blocks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One character (cell width 1) per meaning."""

    vector: str
    keyword: str
    mmr: str
    decay: str
    rerank: str
    """What a later stage took away or added beyond the legs."""
    up: str
    down: str
    same: str
    new: str
    marker: str
    prompt: str
    ellipsis: str
    meter_full: str
    meter_empty: str
    ready: str
    indexing: str
    stale: str
    degraded: str
    error: str
    no_index: str
    passed: str
    skipped: str
    pin: str
    arrow: str
    rule: str


UNICODE = Glyphs(
    vector="█",
    keyword="▒",
    mmr="◇",
    decay="╌",
    rerank="▓",
    up="▲",
    down="▼",
    same="=",
    new="*",
    marker="›",
    prompt="›",
    ellipsis="…",
    meter_full="━",
    meter_empty="─",
    ready="●",
    indexing="◐",
    stale="◌",
    degraded="!",
    error="✗",
    no_index="○",
    passed="✓",
    skipped="–",
    pin="◆",
    arrow="→",
    rule="─",
)
ASCII = Glyphs(
    vector="#",
    keyword="=",
    mmr="x",
    decay=".",
    rerank="+",
    up="^",
    down="v",
    same="=",
    new="*",
    marker=">",
    prompt=">",
    ellipsis="~",
    meter_full="=",
    meter_empty="-",
    ready="*",
    indexing="%",
    stale="o",
    degraded="!",
    error="X",
    no_index="-",
    passed="+",
    skipped="-",
    pin="@",
    arrow=">",
    rule="-",
)


def glyphs(name: str) -> Glyphs:
    """Return the set of the setting `ui.glyphs`: `unicode` or `ascii`."""
    return ASCII if name == "ascii" else UNICODE
