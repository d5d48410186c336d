"""Names of sources of transcripts: one that is wider than a place covers every place of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase


def names_for(
    named: Sequence[str], places: Collection[str], chosen: Sequence[str]
) -> tuple[str, ...]:
    """The names that opt in the chosen places, those that are named already before the others.

    `named` are names such as `openclaw`, `openclaw:AGENT`, `claude-code:GLOB` that opt in sources
    so far; `places` the names of all places there are, `chosen` those that are to be opted in. A
    name stays as long as every place that it covers is chosen, also while there is no such place.
    """
    kept = [
        name
        for name in dict.fromkeys(named)
        if name in chosen or all(place in chosen for place in places if _covers(name, place))
    ]
    others = (name for name in chosen if not any(_covers(one, name) for one in kept))
    return tuple(dict.fromkeys((*kept, *others)))


def _covers(name: str, place: str) -> bool:
    """Whether a name opts in a place, or a part of it where places are not told apart."""
    program, _, wanted = name.partition(":")
    other, _, part = place.partition(":")
    return program == other and (not wanted or not part or fnmatchcase(part, wanted))
