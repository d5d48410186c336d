"""The bundled sample memory holds what the screens and the guide rely on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from functools import cache
from pathlib import Path

import pytest

from memtui.memory.chunking import chunk_document
from memtui.memory.discover import Scope, discover
from memtui.memory.documents import read_document
from memtui.memory.workspace import demo_root

BROKEN_LINKS = frozenset(
    {
        ("memory/home/network.md", "wiring-2025.md"),
        ("memory/travel/japan-2026.md", "packing-list.md"),
    }
)
SCRIPTS = {
    "chinese": r"[您们这货请给谢样模]",
    "japanese": r"[\u3041-\u3096\u30a1-\u30fa]{3}",
    "korean": r"[\uac00-\ud7a3]{3}",
    "vietnamese": r"[ăđơưạ-ỹ]\w* \w*[ăâđêôơưạ-ỹ]",
}
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
NUMBERED_DAY = re.compile(r"(\d{4}-\d\d-\d\d)")
DAY_AND_WEEKDAY = re.compile(rf"(\d{{4}}-\d\d-\d\d),? ({'|'.join(WEEKDAYS)})")
LINK = re.compile(r"\[[^\]\n]+\]\((?!https?:)([^)\s#]+)(?:#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


@cache
def notes() -> dict[str, str]:
    """Every file of the sample by its path below the root; fails on bytes that are not UTF-8."""
    root = demo_root()
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes().decode() for path in files}


def prose(text: str) -> str:
    """The text without code, where brackets mean something else."""
    return FENCE.sub("", text)


def links() -> Iterator[tuple[str, str]]:
    for path, text in notes().items():
        for match in LINK.finditer(prose(text)):
            yield path, match.group(1)


def resolves(path: str, target: str) -> bool:
    return (demo_root() / Path(path).parent / target).is_file()


def test_weekdays_are_right() -> None:
    found = [
        (path, *match.groups())
        for path, text in notes().items()
        for match in DAY_AND_WEEKDAY.finditer(text)
    ]
    assert len(found) >= 39
    wrong = [
        (path, day, weekday)
        for path, day, weekday in found
        if WEEKDAYS[date.fromisoformat(day).weekday()] != weekday
    ]
    assert wrong == []


def test_is_indexed_in_a_moment() -> None:
    found = discover(Scope(demo_root()))
    assert found.skipped == ()
    assert {file.path for file in found.files} == notes().keys()
    chunks = sum(len(chunk_document(read_document(file))) for file in found.files)
    assert 180 <= chunks <= 280


@pytest.mark.parametrize("script", SCRIPTS)
def test_speaks_more_than_english(script: str) -> None:
    pattern = re.compile(SCRIPTS[script], re.IGNORECASE)
    files = [path for path, text in notes().items() if len(pattern.findall(text)) >= 5]
    assert len(files) >= 2


def test_relative_links_resolve_except_the_broken_ones() -> None:
    found = set(links())
    assert len(found) > 40
    assert {link for link in found if not resolves(*link)} == BROKEN_LINKS


@pytest.mark.parametrize(
    ("stale", "fresh"),
    [
        (
            ("memory/2026-01-22-standup-rules.md", "09:30"),
            ("memory/2026-11-20.md", "Standup: 08:45"),
        ),
        (("memory/2026-01-20.md", "4471#"), ("memory/2026-11-20.md", "9026#")),
        (("memory/2026-01-20.md", "€79"), ("memory/2026-11-20.md", "€94")),
        (
            ("memory/2026-01-20.md", "router is at 192.168.1.1"),
            ("memory/2026-11-20.md", "192.168.10.1"),
        ),
        (("memory/2026-01-20.md", "rotate-pg.sh"), ("memory/2026-11-20.md", "`rotate-db`")),
        (("memory/2026-04-11.md", "departs 14:15"), ("memory/2026-10-23.md", "at 11:40")),
    ],
)
def test_facts_change_over_time(stale: tuple[str, str], fresh: tuple[str, str]) -> None:
    for path, fact in (stale, fresh):
        assert fact in notes()[path]
    assert stale[0] < fresh[0]
