"""The characters of the browse screen, in two sets: Unicode, and ASCII for fonts without blocks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Marks:
    """One character (cell width 1) per meaning."""

    opened: str
    folded: str
    changed: str
    stale: str
    error: str
    not_indexed: str
    density: str
    """Five characters, from a day without notes to the fullest days."""
    cursor: str
    """The chosen day."""
    chunk_start: str
    chunk_end: str
    chunk_line: str
    chunk_overlap: str
    """A line that two chunks share."""
    chunk_both: str
    """A line of two chunks where one of them begins or ends."""
    chunk_only: str
    """A chunk of one line."""
    bullet: str
    quote: str
    done: str
    undone: str
    rule: str
    column: str
    """Between the cells of a table."""
    crossing: str
    """Where the rule of a table crosses a column."""
    ellipsis: str


UNICODE = Marks(
    opened="▾",
    folded="▸",
    changed="●",
    stale="◌",
    error="!",
    not_indexed="·",
    density="·░▒▓█",
    cursor="◆",
    chunk_start="╭",
    chunk_end="╰",
    chunk_line="│",
    chunk_overlap="║",
    chunk_both="├",
    chunk_only="[",
    bullet="•",
    quote="▎",
    done="☑",
    undone="☐",
    rule="─",
    column="│",
    crossing="┼",
    ellipsis="…",
)
ASCII = Marks(
    opened="v",
    folded=">",
    changed="*",
    stale="o",
    error="!",
    not_indexed=".",
    density=".-+*#",
    cursor="@",
    chunk_start=",",
    chunk_end="`",
    chunk_line="|",
    chunk_overlap="H",
    chunk_both="+",
    chunk_only="[",
    bullet="*",
    quote="|",
    done="x",
    undone="_",
    rule="-",
    column="|",
    crossing="+",
    ellipsis="~",
)


def marks(name: str) -> Marks:
    """Return the set of the setting `ui.glyphs`: `unicode` or `ascii`."""
    return ASCII if name == "ascii" else UNICODE
