"""Inputs of the fuzzing: bytes that are read as choices and a text, and ways to make new ones."""

from __future__ import annotations

import base64
import importlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

MOST_BYTES: Final = 4096
CHOICES: Final = 6
"""So many bytes at the front of an input choose; the rest is its text."""
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
        """One of some values."""
        return options[self.number(len(options))]

    def text(self) -> str:
        """The body as text: UTF-8 that may hold surrogates, any other byte becomes one."""
        return text_of(self.body)


def text_of(data: bytes) -> str:
    """Any bytes as a text that may hold lone surrogates."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """A text with lone surrogates as bytes."""
    return text.encode("utf-8", "surrogatepass")


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


class Inputs:
    """Makes inputs of seeds and words by random changes; the same seed makes the same ones."""

    def __init__(self, target: Target, seed: int, more: Sequence[bytes] = ()) -> None:
        self._random = random.Random(f"{target.name} {seed}")
        self._seeds = [*target.seeds(), *(data[CHOICES:] for data in more), b""]
        self._words = target.words or (b"\n", b" ", b'"')

    def make(self) -> bytes:
        """The next input."""
        chance = self._random
        body = bytearray(chance.choice(self._seeds))
        if chance.random() < 0.2:
            body += chance.choice(self._seeds)
        for _ in range(chance.randint(0, _MOST_CHANGES)):
            self._change(body)
        return chance.randbytes(CHOICES) + bytes(body[: MOST_BYTES - CHOICES])

    def _change(self, body: bytearray) -> None:
        chance = self._random
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
                body[start:start] = chance.choice(self._words) * chance.choice((1, 1, 2, 30))
            case 4:
                body[start:start] = chance.choice(self._seeds)[:200]
            case 5:
                del body[start:]
            case 6 if body:
                body[start % len(body)] ^= 1 << chance.randrange(8)
            case _:
                body[start:end] = chance.choice(self._words)


DATA: Final = Path(__file__).parent.parent / "data" / "fuzz"
MODULES: Final = ("fuzz_texts", "fuzz_files")


def targets(modules: Sequence[str] = MODULES) -> tuple[Target, ...]:
    """Every target, or those of some modules."""
    return tuple(
        target
        for module in modules
        for target in importlib.import_module(f"tests.trials.{module}").TARGETS
    )


@cache
def target_named(name: str) -> Target:
    """The target of a name, with blanks or hyphens in it; raises `ValueError` for another."""
    for target in targets():
        if target.name == name.replace("-", " "):
            return target
    raise ValueError(f"no target {name!r}")


def kept_inputs(target: Target) -> list[bytes]:
    """The inputs that are kept for a target; those that once failed are among them."""
    file = _file(target)
    if not file.exists():
        return []
    listed = json.loads(file.read_text(encoding="ascii"))
    return [base64.b64decode(line) for line in listed["inputs"]]


def _file(target: Target) -> Path:
    return DATA / f"{target.name.replace(' ', '-')}.json"
