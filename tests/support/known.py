"""The known answers in tests/data: how they are read, and their texts made from recipes."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parent.parent / "data"
_RECIPE = re.compile(r"(?P<unit>.)… utf16 (?P<units>\d+)")


def load(name: str) -> Any:
    """Read one file of `data`, JSON or TOML."""
    path = DATA / f"{name}.json"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    return tomllib.loads(path.with_suffix(".toml").read_text(encoding="utf-8"))


def cases(name: str, key: str = "cases") -> list[Any]:
    """One group of a file: a test parameter for each case, several for one that is a list."""
    return [
        pytest.param(*case, id=str(case[0] or n))
        if isinstance(case, list)
        else pytest.param(case, id=str(case.get("name", n)))
        for n, case in enumerate(load(name)[key])
    ]


def stated(name: str, key: str, releases: Mapping[str, Any]) -> list[Any]:
    """One group of a file: a parameter (case, answer's key, value) for each release it states."""
    held = load(name)[key]
    assert all(case.keys() & releases.keys() for case in held), "a case states at least one"
    return [
        pytest.param(case, answer, value, id=f"{case.get('name', n)}, {answer}")
        for n, case in enumerate(held)
        for answer, value in releases.items()
        if answer in case
    ]


def text_of(recipe: str) -> str:
    """The text a recipe stands for: `a… utf16 801`, or itself."""
    match = _RECIPE.fullmatch(recipe)
    if match is None:
        return recipe
    width = 2 if match["unit"] > "\uffff" else 1
    return match["unit"] * (int(match["units"]) // width)


def utf16_length(text: str) -> int:
    """How many UTF-16 units a text takes."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
