"""The one command for the long trials: run those named, print what was found, keep it as JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

from tests.trials.report import Options, Outcome, load, markdown, record, table

TRIALS: Mapping[str, str] = {
    "faults": "tests.trials.faults",
    "fuzz": "tests.trials.fuzz",
    "growth": "tests.trials.growth",
    "kill": "tests.trials.kill",
    "power": "tests.trials.power",
    "privacy": "tests.trials.privacy",
    "processes": "tests.trials.processes",
    "soak": "tests.trials.soak",
    "terminal": "tests.trials.terminal",
}
"""Name of a trial -> the module whose `run` makes it."""


class Trial(Protocol):
    """A module that tries something often and tells what went wrong."""

    def run(self, options: Options) -> Iterator[Outcome]:
        """Give one outcome after the other."""


def main(arguments: Sequence[str]) -> int:
    """Run the trials that were named; 1 when anything failed."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if unknown := [name for name in chosen.trial if name not in TRIALS]:
        parser.error(f"no trial {unknown[0]!r}; there are {', '.join(TRIALS)}")
    if chosen.table:
        print(markdown(load()))
        return 0
    outcomes: list[Outcome] = []
    for name in chosen.trial or list(TRIALS):
        print(f"trying {name} …", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="memtui-trials-") as place:
            options = Options(Path(place).resolve(), chosen.runs, chosen.minutes, chosen.seed)
            for outcome in cast(Trial, importlib.import_module(TRIALS[name])).run(options):
                outcomes.append(outcome)
                print(table([outcome]), flush=True)
    if chosen.json:
        document = {"outcomes": [one.as_json() for one in outcomes]}
        chosen.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    if chosen.record:
        record(outcomes)
    return 1 if any(one.failed for one in outcomes) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.trials", description=__doc__)
    parser.add_argument("trial", nargs="*", metavar="NAME", help=f"of {', '.join(TRIALS)} [all]")
    parser.add_argument("--runs", type=int, metavar="N", help="how often each scene is tried")
    parser.add_argument("--minutes", type=float, metavar="M", help="how long a trial by time lasts")
    parser.add_argument("--seed", type=int, default=7, metavar="N", help="other scenes [7]")
    parser.add_argument(
        "--record", action="store_true", help="keep what was found in tests/trials/recorded.json"
    )
    parser.add_argument(
        "--table", action="store_true", help="print what was recorded as README's table, and end"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found to a file")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
