"""Days from file names and front matter."""

from __future__ import annotations

import time
from datetime import date
from typing import Any

import pytest

from memtui.memory.dates import FrontMatter, day_of_path, front_matter
from tests.support.known import load

DAY = date(2026, 2, 10)


@pytest.mark.parametrize(("path", "day"), load("reading")["days of file names"])
def test_day_of_path(path: str, day: str | None) -> None:
    assert day_of_path(path) == (date.fromisoformat(day) if day else None)


@pytest.mark.parametrize(("text", "expected"), load("reading")["front matter"])
def test_front_matter(text: str, expected: list[Any]) -> None:
    day, importance, end_line = expected
    day = date.fromisoformat(day) if day else None
    assert front_matter(text) == FrontMatter(day, importance, end_line)


@pytest.mark.parametrize(("value", "importance"), load("reading")["importance"])
def test_importance(value: str, importance: float | None) -> None:
    assert front_matter(f"---\nimportance: {value}\n---\n").importance == importance


@pytest.mark.parametrize(
    "text",
    [
        "---\n" + "a: b\n" * 1_000_000,
        "---\n" + "date:" + " " * 5_000_000,
        "---\n" + "x" * 5_000_000 + "\n---\n",
        "---" + " " * 5_000_000,
        "---\ndate: " + "2026-02-1" * 500_000 + "\n---\n",
        "---\nimportance: '" + '"' * 1_000_000 + "\n---\n",
    ],
    ids=["no end", "blanks", "long line", "long fence", "almost dates", "quotes"],
)
def test_hostile_front_matter_costs_nothing(text: str) -> None:
    started = time.process_time()
    found = front_matter(text)
    assert found.day is None
    assert found.importance is None
    assert time.process_time() - started < 1
