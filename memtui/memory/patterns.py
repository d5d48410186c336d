"""Path patterns: names to ignore, and globs that are matched one folder at a time."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from pathlib import Path

_MAGIC = re.compile(r"[*?\[]")
_ANY_DEPTH = "**"


def has_magic(text: str) -> bool:
    """Tell whether a path holds a glob character."""
    return _MAGIC.search(text) is not None


@lru_cache(maxsize=64)
def name_filter(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compile names and globs of one path component into a pattern for `match`."""
    return re.compile("|".join(translate(pattern) for pattern in patterns) or r"(?!)")


@dataclass(frozen=True, slots=True)
class Glob:
    """An absolute glob: the folder it starts in and one pattern for each component below it.

    `**` stands for any number of folders. A folder that matches stands for all it holds.
    """

    base: str
    parts: tuple[str, ...]

    @classmethod
    def parse(cls, pattern: str) -> Glob:
        """Split an absolute pattern where its first glob character is."""
        parts = Path(os.path.normpath(pattern)).parts
        fixed = next((at for at, part in enumerate(parts) if has_magic(part)), len(parts))
        return cls(os.path.join(*parts[:fixed]), parts[fixed:])

    @property
    def start(self) -> frozenset[int]:
        """Where a match stands at the base folder: which patterns may match the next name."""
        return self._skip({0})

    def step(self, at: frozenset[int], name: str) -> frozenset[int]:
        """Move on by one name; an empty result means that nothing below can match."""
        if self.done(at):
            return at
        moved: set[int] = set()
        for index in at:
            if self.parts[index] == _ANY_DEPTH:
                moved.add(index)
            elif fnmatchcase(name, self.parts[index]):
                moved.add(index + 1)
        return self._skip(moved)

    def done(self, at: frozenset[int]) -> bool:
        """Tell whether the whole pattern has matched."""
        return len(self.parts) in at

    def matches(self, names: Sequence[str]) -> bool:
        """Tell whether the path of these names below the base matches."""
        at = self.start
        for name in names:
            at = self.step(at, name)
        return self.done(at)

    def _skip(self, at: set[int]) -> frozenset[int]:
        for index in range(len(self.parts)):
            if index in at and self.parts[index] == _ANY_DEPTH:
                at.add(index + 1)
        return frozenset(at)
