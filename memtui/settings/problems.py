"""What can be wrong with the configuration, said so that it can be put right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from memtui.errors import SettingsError


class ProblemCode(StrEnum):
    """The closed set of things that can be wrong."""

    UNREADABLE = "unreadable"
    SYNTAX = "syntax"
    UNKNOWN_KEY = "unknown_key"
    WRONG_VALUE = "wrong_value"
    CONTRADICTION = "contradiction"
    PROTECTED = "protected"
    SHADOWED_FILE = "shadowed_file"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, which key, what, and what to do.

    `fatal` problems stop every command; the others are warnings at start and make
    `memtui config validate` fail when they are `UNKNOWN_KEY`.
    """

    code: ProblemCode
    place: str
    """`file:line`, `$VARIABLE` or a flag."""
    key: str
    message: str
    hint: str = ""
    fatal: bool = True

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.place, self.key) if part)
        hint = f" ({self.hint})" if self.hint else ""
        text = f"{where}: {self.message}{hint}" if where else f"{self.message}{hint}"
        return " ".join(text.splitlines())


class SettingsProblems(SettingsError):
    """Settings that cannot be used; `problems` holds every one of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like `word`, or `None` when nothing is like it."""
    import difflib

    candidates = sorted(known)
    found = difflib.get_close_matches(word[:200], candidates, n=1, cutoff=0.6)
    if found:
        return found[0]
    last = word[:200].rsplit(".", 1)[-1]
    by_last = {name.rsplit(".", 1)[-1]: name for name in reversed(candidates)}
    found = difflib.get_close_matches(last, by_last, n=1, cutoff=0.75)
    return by_last[found[0]] if found else None
