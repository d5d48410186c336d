"""The names of profiles: which ones may be given, and what to say of one that is not known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from memtui.settings.problems import nearest
from memtui.settings.schema import BUILT_IN

NAME_RULE: Final = "a-z, 0-9, `.`, `_` and `-`, first a letter or digit, at most 64"
LONGEST_SHOWN: Final = 80
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def shown_name(name: str) -> str:
    """A name as it is told: cut where it is too long for one, quotes where there is none."""
    return name[:LONGEST_SHOWN] or '""'


def name_problem(name: str) -> str:
    """Why an own profile cannot have this name; empty when it can."""
    if name in BUILT_IN:
        return "is built in: an own profile needs another name"
    return "" if _NAME.fullmatch(name) else f"cannot be a profile's name: {NAME_RULE}"


def nearest_profile(name: str, known: Iterable[str]) -> str:
    """What to try instead of a name that is not known, as a phrase."""
    names = tuple(known)
    near = nearest(name, names)
    return f"did you mean {near}?" if near else f"one of {', '.join(names)}"
