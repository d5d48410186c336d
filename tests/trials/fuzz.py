"""Fuzzing: every parser is given inputs that nobody wrote, and must keep what it promises.

    python -m tests.trials fuzz                      a recorded run
    python -m tests.trials.fuzz TARGET FILE          one input again, with its traceback

Inputs are made at random of the seeds and words of each target; the same seed tries the same.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from time import process_time

from tests.trials.frame import Case, Options
from tests.trials.fuzz_inputs import Given, Inputs, Target, kept_inputs, target_named, targets

FAILURES = Path(tempfile.gettempdir()) / "memtui-fuzz"
"""Inputs that broke a promise; the folder stays."""
SLOWEST_SECONDS = 5.0
"""CPU time: an input of 4 KB that takes longer has broken a promise, too."""


@dataclass(slots=True)
class Found:
    """What a run found: one input for each place that failed, and how many failed there."""

    target: Target
    folder: Path
    tried: int = 0
    slowest: float = 0.0
    places: Counter[str] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)

    def try_input(self, data: bytes) -> None:
        """Check one input; write it down when it fails where none failed before."""
        self.tried += 1
        started = process_time()
        try:
            self.target.check(Given(data))
        except Exception as error:
            self._note(data, _place(error), f"{type(error).__name__}: {error}")
        taken = process_time() - started
        self.slowest = max(self.slowest, taken)
        if taken > SLOWEST_SECONDS:
            self._note(data, "slow", f"took {taken:.1f} s")

    def _note(self, data: bytes, place: str, what: str) -> None:
        self.places[place] += 1
        if self.places[place] > 1:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(data).hexdigest()[:12]
        file = self.folder / f"{self.target.name.replace(' ', '-')}-{digest}"
        file.write_bytes(data)
        self.lines.append(f"{place}: {what[:200]!r}; {repeat_line(self.target, file)}")


def repeat_line(target: Target, file: Path) -> str:
    """The command that runs one input again."""
    return f"python -m tests.trials.fuzz {target.name.replace(' ', '-')!s} {file}"


def _place(error: Exception) -> str:
    """Where an error was raised, by the last lines of it: file and line."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "memtui" in frame.filename or "tests" in frame.filename]
    last = (own or frames)[-1]
    return f"{Path(last.filename).name}:{last.lineno} {type(error).__name__}"


def tried(target: Target, count: int, seed: int, folder: Path = FAILURES) -> Found:
    """Check the kept inputs of a target, and then so many new ones."""
    found = Found(target, folder)
    kept = kept_inputs(target)
    for data in kept:
        found.try_input(data)
    inputs = Inputs(target, seed, kept)
    for _ in range(count):
        found.try_input(inputs.make())
    return found


def run(options: Options) -> Iterator[Case]:
    """Every target, each as often as its recorded run is long or as often as asked for."""
    slowest_first = sorted(targets(), key=lambda target: target.share)
    with ProcessPoolExecutor((os.cpu_count() or 1) + 1, get_context("spawn")) as pool:
        made = [pool.submit(_outcome, target.name, options) for target in slowest_first]
        for future in as_completed(made):
            yield future.result()


def _outcome(name: str, options: Options) -> Case:
    """Run one target, in a process of its own."""
    target = target_named(name)
    count = options.runs or target.runs
    started = process_time()
    found = tried(target, count, options.seed)
    facts: dict[str, float | int | str] = {"CPU seconds": round(process_time() - started, 1)}
    facts["failing inputs"] = sum(found.places.values())
    facts["slowest ms"] = round(found.slowest * 1000)
    return Case(f"fuzz {found.target.name}", found.lines, facts, found.tried)


def _again(target: Target, files: Iterable[Path]) -> int:
    """Check inputs from files; an error is raised with its traceback."""
    for file in files:
        target.check(Given(file.read_bytes()))
        print(f"{file}: nothing is wrong")
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run inputs of a target again."""
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    return _again(target_named(arguments[0]), map(Path, arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
