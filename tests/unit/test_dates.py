"""Days from file names and front matter."""

from __future__ import annotations

import time
from datetime import date

import pytest

from memtui.memory.dates import FrontMatter, day_of_path, front_matter

DAY = date(2026, 2, 10)


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("memory/2026-02-10.md", DAY),
        ("memory/2026-02-10-vendor-call.md", DAY),
        ("memory/2026/02/standup 2026-02-10.md", DAY),
        ("2026-02-10.md", DAY),
        ("memory/2024-02-29.md", date(2024, 2, 29)),
        ("memory/2026-13-01 2026-02-10.md", DAY),
        ("memory/2026-02-30.md", None),
        ("memory/0000-01-01.md", None),
        ("memory/12026-02-10.md", None),
        ("memory/2026-02-101.md", None),
        ("memory/2026-2-1.md", None),
        ("memory/20260210.md", None),
        ("memory/２０２６-02-10.md", None),
        ("2026-02-10/notes.md", None),
        ("MEMORY.md", None),
        ("", None),
    ],
)
def test_day_of_path(path: str, day: date | None) -> None:
    assert day_of_path(path) == day


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\ndate: 2026-02-10\n---\nbody", FrontMatter(DAY, None, 3)),
        ("---\r\ndate: 2026-02-10\r\nimportance: 0.5\r\n---\r\n", FrontMatter(DAY, 0.5, 4)),
        ("--- \ncreated: 2026-02-10T09:30:00Z\n...\n", FrontMatter(DAY, None, 3)),
        ('---\nday: "2026-02-10" # checked\n---', FrontMatter(DAY, None, 3)),
        ("---\nDate: '2026-02-10 12:00'\n---", FrontMatter(DAY, None, 3)),
        ("---\ncreated: 2025-01-01\ndate: 2026-02-10\n---", FrontMatter(DAY, None, 4)),
        ("---\ncreated: 2026-02-10\ndate: soon\n---", FrontMatter(DAY, None, 4)),
        ("---\ndate: 2026-02-10\ndate: 2025-01-01\n---", FrontMatter(DAY, None, 4)),
        ("---\nmeta:\n  date: 2026-02-10\n---", FrontMatter(None, None, 4)),
        ("---\ntitle: x\n---\n", FrontMatter(None, None, 3)),
        ("---\n---\n", FrontMatter(None, None, 2)),
        ("---\ndate: 2026-02-10\n", FrontMatter()),
        ("\n---\ndate: 2026-02-10\n---\n", FrontMatter()),
        ("----\ndate: 2026-02-10\n----\n", FrontMatter()),
        ("text\n---\ndate: 2026-02-10\n---\n", FrontMatter()),
        ("", FrontMatter()),
        ("---", FrontMatter()),
        ("---\ndate: 2026-02-30\n---", FrontMatter(None, None, 3)),
    ],
)
def test_front_matter(text: str, expected: FrontMatter) -> None:
    assert front_matter(text) == expected


@pytest.mark.parametrize(
    ("value", "importance"),
    [
        ("0", 0.0),
        ("0.25", 0.25),
        ("1", 1.0),
        ("1.0", 1.0),
        ("7", 0.7),
        ("'8' # of ten", 0.8),
        ("10", 1.0),
        ("10.5", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1e9", None),
        ("1_0", None),
        ("٣", None),
        ("high", None),
        ("", None),
        ("9999999999", None),
    ],
)
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
