"""The one command for the long trials: run those named, print what was found, and keep it."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.bench.frame import load, record
from tests.trials.frame import RECORDED, TRIALS, Options, Result, markdown, run_trial


def main(arguments: Sequence[str]) -> int:
    """Run the trials that were named; 1 when anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.trials", description=__doc__)
    parser.add_argument("trial", nargs="*", metavar="NAME", help=f"of {', '.join(TRIALS)} [all]")
    parser.add_argument("--runs", type=int, metavar="N", help="how often each scene is tried")
    parser.add_argument("--minutes", type=float, metavar="M", help="how long a trial by time lasts")
    parser.add_argument("--seed", type=int, metavar="N", help="other scenes [7]")
    parser.add_argument(
        "--record", action="store_true", help="keep what was found in tests/trials/recorded.json"
    )
    parser.add_argument(
        "--table", action="store_true", help="print what was recorded as README's table, and end"
    )
    chosen = parser.parse_args(arguments)
    if unknown := [name for name in chosen.trial if name not in TRIALS]:
        parser.error(f"no trial {unknown[0]!r}; there are {', '.join(TRIALS)}")
    if chosen.table:
        print(markdown(load(RECORDED)))
        return 0
    outcomes: list[Result] = []
    for name in chosen.trial or list(TRIALS):
        print(f"trying {name} …", file=sys.stderr, flush=True)
        # The options that the trial goes by, those given in the place of its own.
        given = vars(parser.parse_args(TRIALS[name]["options"].split()))
        given |= {
            key: value
            for key, value in vars(chosen).items()
            if key in ("runs", "minutes", "seed") and value is not None
        }
        used = {key: given[key] for key in ("runs", "minutes", "seed") if given[key] is not None}
        repeat = " ".join(f"--{key} {value!s}".removesuffix(".0") for key, value in used.items())
        with tempfile.TemporaryDirectory(prefix="memtui-trials-") as place:
            for result in run_trial(name, Options(Path(place).resolve(), **used), repeat):
                outcomes.append(result)
                print(result, flush=True)
    if chosen.record:
        record(RECORDED, map(asdict, outcomes))
    return 1 if any(one.failed for one in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
