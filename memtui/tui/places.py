"""Naming a file or a line of it: reading `PATH`, `PATH:LINE` or a citation, and completing it."""

from __future__ import annotations

from collections.abc import Sequence

from memtui.model.inquiry import Place
from memtui.text.sanitize import safe_line

SHOWN = 50
"""So many paths are offered at most."""


class NoPlace(ValueError):
    """What was typed names no place; the message says why, in one line."""


def read_place(text: str, paths: Sequence[str] = ()) -> Place:
    """Understand `PATH`, `PATH:12` and `PATH#L12-L31`; raises `NoPlace`.

    A name that the index holds is taken whole, even when it ends in a number.
    """
    named = text.strip()
    # Imported late: the engine is there by the time that a place is named.
    from memtui.engine.places import parse_place

    if not named:
        raise NoPlace("Name a file, or a line of it: memory/2026-02-10.md:12")
    if named in paths:
        return Place(named)
    place = parse_place(named)
    if place.line is not None and place.line < 1:
        raise NoPlace(safe_line(f"{named}: lines count from 1"))
    return place


def completions(text: str, paths: Sequence[str]) -> list[str]:
    """The paths that begin with what was typed, then those whose name does, then any that hold it.

    A line number behind the path does not count; at most `SHOWN`.
    """
    from memtui.engine.places import parse_place

    typed = parse_place(text.strip()).path.casefold()
    ranked: list[tuple[int, str]] = []
    for path in paths:
        folded = path.casefold()
        if folded.startswith(typed):
            ranked.append((0, path))
        elif folded.rpartition("/")[2].startswith(typed):
            ranked.append((1, path))
        elif typed in folded:
            ranked.append((2, path))
    ranked.sort(key=lambda pair: pair[0])
    return [path for _, path in ranked[:SHOWN]]
