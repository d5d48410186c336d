"""Fuzzing: every parser is given inputs that nobody wrote, and must keep what it promises.

    python -m tests.trials fuzz                      a recorded run
    python -m tests.trials.fuzz TARGET FILE          one input again, with its traceback

Inputs are made at random of the seeds and words of each target; the same seed tries the same. An
input is bytes: a few at the front choose, the rest is its text.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import os
import random
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import Any, Final, TypeVar

from tests.support.hostile import ATTACKS
from tests.support.known import DATA, load
from tests.trials.frame import Case, Fact, Options

T = TypeVar("T")

FAILURES: Final = Path(tempfile.gettempdir()) / "memtui-fuzz"
"""Inputs that broke a promise; the folder stays."""
SLOWEST_SECONDS: Final = 5.0
"""CPU time: an input of 4 KB that takes longer has broken a promise, too."""
MODULES: Final = ("fuzz_texts", "fuzz_files")
MOST_BYTES: Final = 4096
CHOICES: Final = 6
_MOST_CHANGES: Final = 6
_MOST_REPEATS: Final = 300


class Given:
    """One input, as a target reads it; the same bytes are always read in the same way."""

    def __init__(self, data: bytes) -> None:
        self._choices = data[:CHOICES].ljust(CHOICES, b"\0")
        self._next = 0
        self.body = data[CHOICES:]

    def number(self, below: int) -> int:
        """A number from 0 on."""
        value = self._choices[self._next % CHOICES]
        self._next += 1
        return value % below

    def pick(self, options: Sequence[T]) -> T:
        return options[self.number(len(options))]

    def text(self) -> str:
        """The body as text: UTF-8 that may hold surrogates, any other byte becomes one."""
        try:
            return self.body.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return self.body.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """A text with lone surrogates as bytes."""
    return text.encode("utf-8", "surrogatepass")


@cache
def listed(name: str) -> tuple[Any, ...]:
    """A list of `data/fuzz_words.json`."""
    return tuple(load("fuzz_words")[name])


def words(*names: str) -> tuple[bytes, ...]:
    """Some lists of texts as bytes."""
    return tuple(bytes_of(text) for name in names for text in listed(name))


def seeds(*names: str) -> list[bytes]:
    """Some lists of texts as bytes, and the strings that attack terminals and markup."""
    return [*words(*names), *map(bytes_of, ATTACKS)]


@cache
def private_folder(name: str) -> Path:
    """A folder of this process that lives as long as it does."""
    _KEPT.append(tempfile.TemporaryDirectory(prefix=f"memtui-fuzz-{name}-"))
    return Path(_KEPT[-1].name).resolve()


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


@dataclass(frozen=True, slots=True)
class Target:
    """One parser with what must hold for every input."""

    name: str
    check: Callable[[Given], None]
    """Raises `AssertionError` for a broken promise; anything else that it raises is one, too."""
    seeds: Callable[[], Sequence[bytes]]
    """Inputs to begin with, choices left out."""
    words: tuple[bytes, ...] = ()
    """What means something to the parser."""
    runs: int = 100_000
    """Inputs of a recorded run."""
    share: int = 300
    """Inputs of the default tests."""

    @property
    def slug(self) -> str:
        """The name of its files, and for the command line."""
        return self.name.replace(" ", "-")

    def kept(self) -> list[bytes]:
        """The inputs that are kept for it; those that once failed are among them."""
        file = DATA / "fuzz" / f"{self.slug}.json"
        if not file.exists():
            return []
        return [base64.b64decode(line) for line in json.loads(file.read_text("ascii"))["inputs"]]

    def inputs(self, seed: int) -> Iterator[bytes]:
        """Make inputs of seeds and words by random changes; the same seed makes the same ones."""
        chance = random.Random(f"{self.name} {seed}")
        bodies = [*self.seeds(), *(data[CHOICES:] for data in self.kept()), b""]
        tokens = self.words or (b"\n", b" ", b'"')
        while True:
            body = bytearray(chance.choice(bodies))
            if chance.random() < 0.2:
                body += chance.choice(bodies)
            for _ in range(chance.randint(0, _MOST_CHANGES)):
                start = chance.randint(0, len(body))
                end = min(len(body), start + chance.randint(0, 12))
                match chance.randrange(8):
                    case 0:
                        del body[start:end]
                    case 1:
                        body[start:end] = chance.randbytes(chance.randint(1, 4))
                    case 2:
                        times = chance.choice((1, 2, 3, 40, _MOST_REPEATS))
                        body[start:start] = bytes(body[start:end] or b"a") * times
                    case 3:
                        body[start:start] = chance.choice(tokens) * chance.choice((1, 1, 2, 30))
                    case 4:
                        body[start:start] = chance.choice(bodies)[:200]
                    case 5:
                        del body[start:]
                    case 6 if body:
                        body[start % len(body)] ^= 1 << chance.randrange(8)
                    case _:
                        body[start:end] = chance.choice(tokens)
            yield chance.randbytes(CHOICES) + bytes(body[: MOST_BYTES - CHOICES])


def targets() -> tuple[Target, ...]:
    modules = (importlib.import_module(f"tests.trials.{name}") for name in MODULES)
    return tuple(target for module in modules for target in module.TARGETS)


def target_named(name: str) -> Target:
    """The target of a name, with blanks or hyphens in it; raises `StopIteration` for another."""
    return next(target for target in targets() if target.slug == name.replace(" ", "-"))


def try_target(target: Target, count: int, seed: int, folder: Path = FAILURES) -> Case:
    """Check the kept inputs of a target, and then so many new ones.

    One input is kept and told of for each place that fails.
    """
    places: Counter[str] = Counter()
    lines: list[str] = []
    slowest, began = 0.0, process_time()
    kept, made = target.kept(), target.inputs(seed)
    for number in range(len(kept) + count):
        data = kept[number] if number < len(kept) else next(made)
        started, place, what = process_time(), "", ""
        try:
            target.check(Given(data))
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            own = [one for one in frames if "memtui" in one.filename or "tests" in one.filename]
            last = (own or frames)[-1]
            what = f"{type(error).__name__}: {error}"
            place = f"{Path(last.filename).name}:{last.lineno} {type(error).__name__}"
        taken = process_time() - started
        slowest = max(slowest, taken)
        if taken > SLOWEST_SECONDS and not place:
            place, what = "slow", f"took {taken:.1f} s"
        if not place:
            continue
        places[place] += 1
        if places[place] == 1:
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / f"{target.slug}-{hashlib.sha256(data).hexdigest()[:12]}"
            file.write_bytes(data)
            again = f"python -m tests.trials.fuzz {target.slug} {file}"
            lines.append(f"{place}: {what[:200]!r}; {again}")
    facts: dict[str, Fact] = {
        "CPU seconds": round(process_time() - began, 1),
        "failing inputs": places.total(),
        "slowest ms": round(slowest * 1000),
    }
    return Case(f"fuzz {target.name}", lines, facts, len(kept) + count)


def _try_named(name: str, options: Options) -> Case:
    target = target_named(name)
    return try_target(target, options.runs or target.runs, options.seed)


def run(options: Options) -> Iterator[Case]:
    """Every target, each as often as its recorded run is long or as often as asked for."""
    slowest_first = sorted(targets(), key=lambda target: target.share)
    with ProcessPoolExecutor((os.cpu_count() or 1) + 1, get_context("spawn")) as pool:
        made = [pool.submit(_try_named, target.name, options) for target in slowest_first]
        for future in as_completed(made):
            yield future.result()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for path in sys.argv[2:]:
        target_named(sys.argv[1]).check(Given(Path(path).read_bytes()))
        print(f"{path}: nothing is wrong")
