"""The results of the recorded runs, and the README's table that is made from them."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.trust.report import Outcome

RECORDED = Path(__file__).with_name("recorded.json")

PROGRAM = "python -m tests.trust "

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
