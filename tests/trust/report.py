"""What a trial is told, what it found, and the table that is printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SHOWN_FAILURES = 10


@dataclass(frozen=True, slots=True)
class Options:
    """How a trial is run."""

    place: Path
    """An empty folder of the trial's own; gone afterwards."""
    runs: int | None = None
    """How often each scene is tried; `None` takes the trial's own number."""
    minutes: float | None = None
    """How long a trial that goes by time lasts; `None` takes the trial's own."""
    seed: int = 7
    """The same seed gives the same scenes; instants of a kill are chosen anew by the machine."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of the table: how often something was tried, and what went wrong."""

    name: str
    tried: int
    failed: tuple[str, ...] = ()
    """One line for each failure: what, where, and how to see it again."""
    facts: Mapping[str, float | int | str] = field(default_factory=dict)
    """What was counted or measured on the way, by name."""
    repeat: str = ""
    """The command that runs this again."""

    def as_json(self) -> dict[str, Any]:
        """Everything that was found, for a file."""
        return {
            "name": self.name,
            "tried": self.tried,
            "failed": list(self.failed),
            "facts": dict(self.facts),
            "repeat": self.repeat,
        }


def table(outcomes: Iterable[Outcome]) -> str:
    """One line for each outcome, its facts, and the first failures below it."""
    lines: list[str] = []
    for one in outcomes:
        verdict = f"{len(one.failed)} FAILED" if one.failed else "all passed"
        lines.append(f"{one.name}: {one.tried:,} tried, {verdict}")
        if one.facts:
            lines.append("  " + ", ".join(f"{name} {value}" for name, value in one.facts.items()))
        lines += [f"  - {failure}" for failure in one.failed[:SHOWN_FAILURES]]
    return "\n".join(lines)
