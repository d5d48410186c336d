"""The one command: measure, print the table, and record or compare the figures."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.bench import hops, indexing, quality, search, waiting
from tests.bench.frame import MARGIN, RECORDED, Measurement, Plan, load, record, regressions, table

SIZES = (1_000, 10_000, 100_000)

MEASUREMENTS: Mapping[str, Callable[[Plan], Iterator[Measurement]]] = {
    "hybrid": search.measure_hybrid,
    "peers": search.measure_peers,
    "bare-indexing": indexing.measure_bare_indexing,
    "start": indexing.measure_start,
    "command": waiting.measure_command,
    "paint": waiting.measure_paint,
    "first-result": waiting.measure_first_result,
    "keystroke": waiting.measure_keystroke,
    "saving": waiting.measure_saving,
    "memory": indexing.measure_memory,
    "hops": hops.measure_hops,
    "quality": quality.measure_quality,
}


def main(arguments: Sequence[str]) -> int:
    """Run what was chosen; 1 when a measurement failed, 2 when a guarded ratio became worse."""
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="memtui-bench-") as temporary:
        place = (options.keep or Path(temporary)).resolve()
        place.mkdir(parents=True, exist_ok=True)
        plan = Plan(
            tuple(options.size or SIZES), place, options.warm, options.rounds,
            options.data, options.set, options.limit,
        )  # fmt: skip
        measured, failed = _measure(plan, options.only or list(MEASUREMENTS))
    print(table(measured))
    for name, error in failed.items():
        print(f"{name} could not be measured: {error}", file=sys.stderr)
    if options.record:
        record(RECORDED, [one.as_json() for one in measured])
    return _guarded(measured, failed) if options.guard else int(bool(failed))


def _guarded(measured: Sequence[Measurement], failed: Mapping[str, str]) -> int:
    recorded = load(RECORDED)
    known = sum(one.name.strip() in recorded for one in measured)
    worse = regressions(measured, recorded)
    print(f"guard: {known} of {len(measured)} measurements are recorded, {len(worse)} became worse")
    for one in worse:
        print(f"  {one}")
    if failed:
        return 1
    return 2 if worse else 0


def _measure(plan: Plan, names: Sequence[str]) -> tuple[list[Measurement], dict[str, str]]:
    measured: list[Measurement] = []
    failed: dict[str, str] = {}
    for name in names:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        try:
            measured.extend(MEASUREMENTS[name](plan))
        except Exception as error:
            # The others are still worth having; the exit code and stderr tell of this one.
            failed[name] = f"{type(error).__name__}: {error}"
    return measured, failed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "--size", type=int, action="append", metavar="N",
        help="chunks of an index for hybrid queries; may be repeated [1000, 10000, 100000]",
    )  # fmt: skip
    parser.add_argument(
        "--only", action="append", choices=list(MEASUREMENTS), help="measure this; may be repeated"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="repetitions of what takes long [3]"
    )
    parser.add_argument(
        "--warm", type=int, default=1, metavar="N", help="uncounted runs of each process first [1]"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the corpora there")
    parser.add_argument("--data", type=Path, metavar="DIR", help="the questions of `quality`")
    parser.add_argument("--set", action="append", choices=list(quality.SETS), help="ask this [all]")
    parser.add_argument("--limit", type=int, metavar="N", help="so many of each memory [all]")
    parser.add_argument(
        "--record", action="store_true", help="keep the figures in tests/bench/recorded.json"
    )
    parser.add_argument(
        "--guard", action="store_true",
        help=f"fail when a ratio is more than {MARGIN:.0%} above the recorded one".replace("%", "%%"),
    )  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
