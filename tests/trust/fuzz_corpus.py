"""The targets of the fuzzing, and the inputs that are kept for each: few, that reach much."""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tests.trust.fuzz_inputs import Target

DATA: Final = Path(__file__).parent.parent / "data" / "fuzz"
MODULES: Final = ("fuzz_texts", "fuzz_settings", "fuzz_transcripts", "fuzz_foreign")


def targets(modules: Sequence[str] = MODULES) -> tuple[Target, ...]:
    """Every target, or those of some modules."""
    return tuple(
        target
        for module in modules
        for target in importlib.import_module(f"tests.trust.{module}").TARGETS
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


def keep_inputs(target: Target, inputs: Iterable[bytes]) -> Path:
    """Write down the inputs of a target, in place of those that are kept."""
    lines = [base64.b64encode(data).decode("ascii") for data in inputs]
    file = _file(target)
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"inputs": lines}, indent=0) + "\n", encoding="ascii")
    return file


def _file(target: Target) -> Path:
    return DATA / f"{target.name.replace(' ', '-')}.json"
