"""What a trial is told, what it found, and the table that is printed."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
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


RECORDED = Path(__file__).with_name("recorded.json")

PROGRAM = "python -m tests.trials "

TITLES = {
    "kill": "SIGKILL during sync, rebuild, swap, cache write and migration",
    "power": "Loss of power at any write of the same five: what was not synced is lost or torn",
    "processes": "Two screens, a writer and a reader loop on one folder that is edited at random",
    "faults": "Faults of disk, files, watcher and clock under a running screen",
    "fuzz": "Hostile input to every reader: chunks, queries, transcripts, settings, databases",
    "growth": "Regular expressions and scanners on doubling input",
    "terminal": "Hostile notes and names: every byte that reaches a terminal or a pipe",
    "privacy": "The program without a network and under a trace of its system calls",
    "soak": "Two busy hours in miniature: growth of memory, files and threads",
}
"""Name of a trial -> what the README says of it, in its order."""

Entry = Mapping[str, Any]


def load(path: Path = RECORDED) -> dict[str, Entry]:
    """Read the recorded results by name; none when nothing was recorded."""
    if not path.exists():
        return {}
    found: dict[str, Entry] = json.loads(path.read_text(encoding="utf-8"))["outcomes"]
    return found


def record(outcomes: Iterable[Outcome], path: Path = RECORDED) -> None:
    """Put the results of this run in the place of those of the same names; the others stay."""
    entries = load(path)
    run = {"on": datetime.now(UTC).date().isoformat(), "python": platform.python_version()}
    for one in outcomes:
        entries[one.name] = {**one.as_json(), "run": run}
    path.write_text(
        json.dumps({"outcomes": entries}, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )


def markdown(entries: Mapping[str, Entry]) -> str:
    """Lay the recorded results out as the table of the README, one line for each trial."""
    lines = ["| What was tried | How often | Failed | Again with |", "|---|---:|---:|---|"]
    for name, words in TITLES.items():
        found = [entry for entry in entries.values() if trial_of(entry) == name]
        if found:
            tried = sum(entry["tried"] for entry in found)
            failed = sum(len(entry["failed"]) for entry in found)
            command = max((str(entry["repeat"]) for entry in found), key=len)
            lines.append(f"| {words} | {tried:,} | {failed} | `{command}` |")
    return "\n".join(lines)


def trial_of(entry: Entry) -> str:
    """The name of the trial that repeats an entry."""
    return str(entry["repeat"]).removeprefix(PROGRAM).split()[0]
