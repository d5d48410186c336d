"""What a look at one part of memtui comes to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

GRAVEST_FIRST: Final = (2, 3, 4, 5, 1)
"""Exit codes in the order in which what they stand for has to be put right."""

EXIT_OTHER: Final = 1
EXIT_SETTINGS: Final = 2
EXIT_INDEX: Final = 3
EXIT_PROVIDER: Final = 4


class Area(StrEnum):
    """Which part of memtui was looked at."""

    PROGRAM = "program"
    SETTINGS = "settings"
    FOLDERS = "folders"
    MEMORY = "memory"
    INDEX = "index"
    WATCHER = "watcher"
    AGENTS = "agents"
    PROVIDERS = "providers"


class Grade(StrEnum):
    """How it is: well, worth knowing, or wrong."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    area: Area
    name: str
    grade: Grade
    detail: str
    """One line: what was found."""
    hint: str = ""
    """The next step, where something is wrong."""
    exit_code: int = 0
    """What the problem stands for; 0 for what is no problem."""


def fine(area: Area, name: str, detail: str) -> Check:
    """Something that is well."""
    return Check(area, name, Grade.OK, detail)


def note(area: Area, name: str, detail: str, hint: str = "") -> Check:
    """Something worth knowing that stops nothing."""
    return Check(area, name, Grade.NOTE, detail, hint)


def problem(
    area: Area, name: str, detail: str, hint: str = "", exit_code: int = EXIT_OTHER
) -> Check:
    """Something that is wrong."""
    return Check(area, name, Grade.PROBLEM, detail, hint, exit_code)


def gravest(checks: Iterable[Check]) -> int:
    """The exit code of the problem that has to be put right first; 0 without any."""
    codes = {check.exit_code for check in checks if check.grade is Grade.PROBLEM}
    return next((code for code in GRAVEST_FIRST if code in codes), 0)


def counted(count: int, noun: str) -> str:
    """A number with its noun: `1 file`, `2 files`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
