"""Fuzzing guided by coverage: a process for each target, in which the package is instrumented.

`python -m tests.trust.fuzz_guided TARGET RESULT RUNS …` is that process; libFuzzer, which leads it,
ends it as well, so that what was found is written down as it goes.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from tests.trust.fuzz import FAILURES, Found, outcome_of
from tests.trust.fuzz_inputs import (
    CHOICES,
    MOST_BYTES,
    Target,
    keep_inputs,
    kept_inputs,
    target_named,
)
from tests.trust.report import Options, Outcome

_STATUS_EVERY: Final = 256
_SUMMARY: Final = re.compile(r"cov: (\d+)(?: ft: (\d+))?")
KEPT_BYTES: Final = 12_000
"""Bytes of the inputs that are kept for a target."""
_LARGEST_KEPT: Final = 600


def guided(target: Target, count: int, options: Options) -> Outcome:
    """Run a target in a process of its own, and tell what it found."""
    folder = options.place / target.name.replace(" ", "-")
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(
        [*(bytes(CHOICES) + s for s in target.seeds()), *kept_inputs(target)]
    ):
        (corpus / f"seed-{number}").write_bytes(data)
    words = folder / "words"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words if word))
    result = folder / "result.json"
    command = [
        sys.executable,
        "-m",
        "tests.trust.fuzz_guided",
        target.name,
        str(result),
        str(count),
    ]
    flags = [f"-seed={options.seed}", f"-max_len={MOST_BYTES}", f"-dict={words}", "-len_control=20"]
    if options.minutes is not None:
        flags.append(f"-max_total_time={int(options.minutes * 60)}")
    started = perf_counter()
    run = subprocess.run(
        [*command, *flags, f"-runs={count}", "-timeout=120", "-rss_limit_mb=2600", str(corpus)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    found = Found(target, FAILURES)
    facts: dict[str, float | int | str] = {"seconds": round(perf_counter() - started, 1)}
    _read_result(found, result, facts)
    _read_log(run.stderr, facts)
    if run.returncode and not found.lines:
        found.lines.append(f"the process ended with {run.returncode}: {run.stderr[-400:]!r}")
    if kept := os.environ.get("MEMTUI_FUZZ_CORPUS"):
        _save_corpus(corpus, Path(kept) / target.name.replace(" ", "-"))
    return outcome_of(found, facts, options)


def _read_result(found: Found, result: Path, facts: dict[str, float | int | str]) -> None:
    if not result.exists():
        return
    data: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    found.tried, found.slowest, found.lines = data["tried"], data["slowest"], data["lines"]
    facts["failing inputs"] = data["failing"]


def _read_log(log: str, facts: dict[str, float | int | str]) -> None:
    seen = _SUMMARY.findall(log)
    if seen:
        facts["edges at first"], facts["edges"] = int(seen[0][0]), int(seen[-1][0])


def _save_corpus(corpus: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for file in corpus.iterdir():
        (target / file.name).write_bytes(file.read_bytes())


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def keep(target: Target, folder: Path) -> int:
    """Keep of a corpus the smallest inputs that run what no smaller one ran."""
    reached: set[tuple[str, int]] = set()
    chosen: list[bytes] = list(kept_inputs(target))
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_size)
    room = KEPT_BYTES - sum(map(len, chosen))
    for file in files:
        data = file.read_bytes()
        if len(data) > _LARGEST_KEPT or len(data) > room:
            continue
        new = lines_run(target, data) - reached
        if new:
            reached |= new
            chosen.append(data)
            room -= len(data)
    print(keep_inputs(target, dict.fromkeys(chosen)), len(chosen), "inputs")
    return 0


def lines_run(target: Target, data: bytes) -> set[tuple[str, int]]:
    """The lines of the package that checking an input runs."""
    from tests.trust.fuzz_inputs import Given

    seen: set[tuple[str, int]] = set()

    def trace(frame: Any, event: str, _argument: Any) -> Any:
        name = frame.f_code.co_filename
        if "/memtui/" not in name:
            return None
        seen.add((name, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        target.check(Given(data))
    finally:
        sys.settrace(before)
    return seen


def _lead(name: str, result: Path, count: int, flags: list[str]) -> None:
    """Give the process to libFuzzer; does not return."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["memtui"]):
        target = target_named(name)
    found = Found(target, FAILURES)

    def one_input(data: bytes) -> None:
        found.try_input(data)
        if found.tried % _STATUS_EVERY == 0 or found.tried >= count:
            _write_result(found, result)

    atheris.Setup([sys.argv[0], *flags], one_input)
    atheris.Fuzz()


def _write_result(found: Found, result: Path) -> None:
    data = {
        "tried": found.tried,
        "slowest": found.slowest,
        "lines": found.lines,
        "failing": sum(found.places.values()),
    }
    new = result.with_suffix(".tmp")
    new.write_text(json.dumps(data), encoding="utf-8")
    new.replace(result)


if __name__ == "__main__":
    _lead(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
