"""Samples measured in turns, their percentiles and ratios, and the table that is printed."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, TypeVar

import apsw
import numpy as np

T = TypeVar("T")

MILLISECONDS = 1e3
SECONDS = 1.0


class Judged(StrEnum):
    """Which number of a measurement an aim speaks of; the texts are how an aim is written."""

    RATIO = "<= {:g}x"
    """Median of ours / theirs: of CPU time where both have it, else of wall time."""
    P50 = "p50 <= {:g}"
    """Median of ours in the measurement's unit, wall time."""
    P95 = "p95 <= {:g}"
    OVER = "<= +{:g}"
    """Median of ours minus median of theirs, in the measurement's unit."""


@dataclass(frozen=True, slots=True)
class Limit:
    """An aim: the most that one number of a measurement may be."""

    value: float
    of: Judged = Judged.RATIO

    def __str__(self) -> str:
        return self.of.format(self.value)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to measure."""

    sizes: tuple[int, ...]
    """Chunks of the indexes that hybrid queries are asked of."""
    place: Path
    """Where corpora and indexes are made, or taken from when they are there."""
    warm: int = 1
    """How many runs of a process come before those that count."""
    rounds: int = 3
    """How often what takes long is repeated."""
    data: Path | None = None
    """The folder of the sets of questions that rankings are judged by."""
    sets: Sequence[str] | None = None
    """Which of them; `None`: all."""
    limit: int | None = None
    """How many questions of each memory; `None`: all."""


@dataclass(slots=True)
class Series:
    """What one way of doing it took, once per repetition; `cpu` is empty where it has no sense."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add(self, wall: float, cpu: float) -> None:
        self.wall.append(wall)
        self.cpu.append(cpu)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the table: ours, the reference that was measured beside it, and the aim."""

    name: str
    ours: Series
    unit: str = "ms"
    peer: str = ""
    theirs: Series = field(default_factory=Series)
    limit: Limit | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Median of ours / theirs, pair by pair, in wall time."""
        return _ratio(self.ours.wall, self.theirs.wall)

    @property
    def cpu_ratio(self) -> float | None:
        """The same in CPU time of all threads."""
        return _ratio(self.ours.cpu, self.theirs.cpu)

    def judged(self, by: Judged) -> float | None:
        """The number an aim speaks of; `None` when it was not measured."""
        ours, theirs = self.ours.wall, self.theirs.wall
        if by is Judged.RATIO:
            return self.ratio if self.cpu_ratio is None else self.cpu_ratio
        if not ours or (by is Judged.OVER and not theirs):
            return None
        if by is Judged.OVER:
            return percentile(ours, 0.5) - percentile(theirs, 0.5)
        return percentile(ours, 0.95 if by is Judged.P95 else 0.5)

    @property
    def met(self) -> bool | None:
        """Whether the aim was met; `None` where none is set or its number is missing."""
        number = None if self.limit is None else self.judged(self.limit.of)
        return None if self.limit is None or number is None else number <= self.limit.value

    def as_json(self) -> dict[str, Any]:
        """Everything that was measured, for a file."""
        return {
            "name": self.name.strip(),
            "unit": self.unit,
            "ours": _summary(self.ours),
            "reference": self.peer,
            "theirs": _summary(self.theirs),
            "ratio": {"wall": self.ratio, "cpu": self.cpu_ratio},
            "judged": self.judged(self.limit.of if self.limit else Judged.RATIO),
            "aim": str(self.limit or ""),
            "met": self.met,
            "note": self.note,
        }


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie, between neighbours if need be."""
    return float(np.quantile(values, share))


def timed(action: Callable[[], object], scale: float = MILLISECONDS) -> tuple[float, float]:
    """Wall and CPU time (of all threads) of one call, in seconds times `scale`."""
    cpu, wall = process_time(), perf_counter()
    action()
    return (perf_counter() - wall) * scale, (process_time() - cpu) * scale


def in_turns(
    actions: Sequence[Callable[[T], object]], cases: Iterable[T], scale: float = MILLISECONDS
) -> list[Series]:
    """Measure each action for each case, in turns: another one goes first each time."""
    found = [Series() for _ in actions]
    for number, case in enumerate(cases):
        for turn in range(len(actions)):
            place = (number + turn) % len(actions)
            found[place].add(*timed(partial(actions[place], case), scale))
    return found


def memory_of(kind: str) -> int:
    """Return the bytes of a line of this process's status, such as `RssAnon`; Linux only."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.partition(f"{kind}:")[2].split()[0]) * 1024


HEADER = ("measurement", "figure p50/p95 (cpu)", "reference p50 (cpu)", "ratio (cpu)", "aim")


def table(measurements: Iterable[Measurement]) -> str:
    """Lay the measurements out in columns, with the notes below."""
    found = list(measurements)
    rows = [HEADER, *(_cells(one) for one in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
             for row in rows]  # fmt: skip
    lines.insert(1, "  ".join("-" * width for width in widths))
    lines += [f"  {one.name}: {one.note}" for one in found if one.note]
    return "\n".join(lines)


_VERDICTS = {True: " (met)", False: " (MISSED)", None: ""}


def _cells(one: Measurement) -> tuple[str, str, str, str, str]:
    ours, theirs = one.ours, one.theirs
    # Nothing was measured where another library is missing; the note says so.
    figure = ""
    if ours.wall:
        figure = _number(percentile(ours.wall, 0.5))
        if len(ours.wall) > 1:
            figure += f" / {_number(percentile(ours.wall, 0.95))}"
        figure += f" {one.unit}{_cpu(ours)}"
    peer = ""
    if theirs.wall:
        peer = f"{one.peer}: {_number(percentile(theirs.wall, 0.5))} {one.unit}{_cpu(theirs)}"
    ratio = "" if one.ratio is None else f"{one.ratio:.2f}x"
    if one.cpu_ratio is not None:
        ratio += f" ({one.cpu_ratio:.2f}x)"
    return one.name, figure, peer, ratio, f"{one.limit or ''}{_VERDICTS[one.met]}"


def _cpu(series: Series) -> str:
    return f" ({_number(percentile(series.cpu, 0.5))})" if series.cpu else ""


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    pairs = [a / b for a, b in zip(ours, theirs, strict=False) if b > 0]
    return statistics.median(pairs) if pairs else None


def _summary(series: Series) -> dict[str, Any]:
    kinds = {"wall": series.wall, "cpu": series.cpu}
    return {
        "count": len(series.wall),
        **{
            kind: {"p50": percentile(values, 0.5), "p95": percentile(values, 0.95)}
            for kind, values in kinds.items()
            if values
        },
    }


RECORDED = Path(__file__).with_name("recorded.json")

MARGIN = 0.5
"""How much worse than recorded a ratio may be: 0.5 lets 1.0 become 1.5.

Two runs of the same program on a shared machine were seen to differ by up to a third.
"""

Entry = Mapping[str, Any]


def load(path: Path) -> dict[str, Entry]:
    """Read what was recorded, by name; none when nothing was."""
    entries: dict[str, Entry] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return entries


def record(path: Path, entries: Iterable[Entry]) -> None:
    """Put the entries of this run in the place of those of the same names; the others stay."""
    kept, run = load(path), _about()
    kept |= {one["name"]: {**one, "run": run} for one in entries}
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def regressions(measured: Iterable[Measurement], recorded: Mapping[str, Entry]) -> list[str]:
    """Return a line for what became worse; a measurement without a reference or record is not compared."""
    found = []
    for one in measured:
        figures = one.as_json()
        entry = recorded.get(figures["name"])
        now = compared(figures)
        before = None if entry is None else compared(entry)
        if now is None or before is None:
            continue
        if now > before * (1 + MARGIN):
            found.append(f"{figures['name']}: {now:.3g}, recorded {before:.3g}")
    return found


def compared(entry: Entry) -> float | None:
    """The ratio that runs can be compared by, of CPU time where it was measured."""
    ratio: Mapping[str, float | None] = entry["ratio"]
    return ratio["wall"] if ratio["cpu"] is None else ratio["cpu"]


def _about() -> dict[str, str]:
    return {
        "on": datetime.now(UTC).date().isoformat(),
        "processor": f"{platform.machine()}, {_processors()} cores",
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "numpy": np.__version__,
        "system": sys.platform,
    }


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
