"""The frame of the long trials: a trial yields cases, each judged; a table says how they went.

A trial is a function from `Options` to cases. The seed makes its cases, so that a failure comes
again with the command that its line of the table names.
"""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from tests.bench.frame import Entry

RECORDED = Path(__file__).with_name("recorded.json")
PROGRAM = "python -m tests.trials "
SHOWN_FAILURES = 10
TRIALS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("trials.toml").read_text("utf-8")
)

Fact = float | int | str


@dataclass(frozen=True, slots=True)
class Options:
    """How a trial is run."""

    place: Path
    """An empty folder of the trial's own; gone afterwards."""
    runs: int = 0
    """How often each scene is tried; 0: as often as the trial does by itself."""
    minutes: float = 10.0
    """How long a trial lasts that goes by time."""
    seed: int = 7
    """The same seed gives the same scenes; instants of a kill are chosen anew by the machine."""


@dataclass(frozen=True, slots=True)
class Case:
    """Something that was tried, once or `tried` times, and what was wrong with what came of it."""

    name: str
    """The line of the table it belongs to."""
    wrong: Sequence[str] = ()
    """One line for each failure: what, where, and how to see it again."""
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """Counts, which are added up, and texts, of which the last one stays."""
    tried: int = 1


@dataclass(slots=True)
class Result:
    """One line of the table."""

    name: str
    repeat: str
    """The command that runs this again."""
    tried: int = 0
    failed: list[str] = field(default_factory=list)
    facts: dict[str, Fact] = field(default_factory=dict)

    def add(self, case: Case) -> None:
        self.tried += case.tried
        self.failed += case.wrong
        for name, value in case.facts.items():
            before = self.facts.get(name, 0)
            both = not isinstance(value, str) and not isinstance(before, str)
            self.facts[name] = before + value if both else value  # type: ignore[operator]

    def __str__(self) -> str:
        verdict = f"{len(self.failed)} FAILED" if self.failed else "all passed"
        lines = [f"{self.name}: {self.tried:,} tried, {verdict}"]
        if self.facts:
            lines.append("  " + ", ".join(f"{name} {value}" for name, value in self.facts.items()))
        lines += [f"  - {failure}" for failure in self.failed[:SHOWN_FAILURES]]
        return "\n".join(lines)


def run_trial(name: str, options: Options, repeat: str) -> Iterator[Result]:
    """Run a trial; yield each line of its table when its last case is judged."""
    module, _, function = TRIALS[name]["function"].partition(":")
    cases: Iterable[Case] = getattr(importlib.import_module(f"tests.trials.{module}"), function)(
        options
    )
    yield from results(cases, f"{PROGRAM}{name} {repeat}".strip())


def results(cases: Iterable[Case], repeat: str) -> Iterator[Result]:
    """Add up cases that follow one another under one name."""
    for name, same in groupby(cases, key=attrgetter("name")):
        result = Result(name, repeat)
        for case in same:
            result.add(case)
        yield result


def markdown(entries: Mapping[str, Entry]) -> str:
    """Lay the recorded results out as the table of the README, one line for each trial."""
    lines = ["| What was tried | How often | Failed | Again with |", "|---|---:|---:|---|"]
    for name, trial in TRIALS.items():
        if own := [entry for entry in entries.values() if trial_of(entry) == name]:
            tried = sum(entry["tried"] for entry in own)
            failed = sum(len(entry["failed"]) for entry in own)
            command = max((str(entry["repeat"]) for entry in own), key=len)
            lines.append(f"| {trial['about']} | {tried:,} | {failed} | `{command}` |")
    return "\n".join(lines)


def trial_of(entry: Entry) -> str:
    """The name of the trial that repeats an entry."""
    return str(entry["repeat"]).removeprefix(PROGRAM).split()[0]
