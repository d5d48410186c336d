"""The recorded figures, and the guard that compares a run's ratios with them.

Times differ from machine to machine and from hour to hour; the ratio to a reference measured in
the same run differs far less. The guard looks at nothing else.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from tests.bench.measure import Measurement

RECORDED = Path(__file__).with_name("recorded.json")

MARGIN = 0.5
"""How much worse than recorded a ratio may be: 0.5 lets 1.0 become 1.5.

Two runs of the same program on a shared machine were seen to differ by up to a third.
"""

SHARE_MARGIN = 0.005
"""How much lower than recorded a share with a lower bound, such as recall, may be."""

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Regression:
    """A ratio that is worse than the recorded one by more than the margin."""

    name: str
    recorded: float
    measured: float

    def __str__(self) -> str:
        return f"{self.name}: {self.measured:.3g}, recorded {self.recorded:.3g}"


def load(path: Path = RECORDED) -> dict[str, Entry]:
    """Read the recorded figures by name; none when nothing was recorded."""
    if not path.exists():
        return {}
    found: dict[str, Entry] = json.loads(path.read_text(encoding="utf-8"))["measurements"]
    return found


def record(measured: Iterable[Measurement], path: Path = RECORDED) -> None:
    """Put the figures of this run in the place of those of the same names; the others stay."""
    entries = load(path)
    about = _about()
    for one in measured:
        entries[one.name.strip()] = {**one.as_json(), "name": one.name.strip(), "run": about}
    document = {"measurements": entries}
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def regressions(
    measured: Iterable[Measurement], recorded: Mapping[str, Entry], margin: float = MARGIN
) -> list[Regression]:
    """Find what became worse; a measurement without a reference or record is not compared."""
    found = []
    for one in measured:
        entry = recorded.get(one.name.strip())
        figures = one.as_json()
        now = compared(figures)
        before = None if entry is None else compared(entry)
        if now is None or before is None:
            continue
        worst = before - SHARE_MARGIN if figures["at_least"] else before * (1 + margin)
        if now < worst if figures["at_least"] else now > worst:
            found.append(Regression(one.name.strip(), before, now))
    return found


def compared(entry: Entry) -> float | None:
    """The one number of an entry that runs can be compared by.

    A ratio, of CPU time where it was measured; a share that has a lower bound, such as recall.
    """
    if entry["at_least"]:
        judged: float | None = entry["judged"]
        return judged
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
