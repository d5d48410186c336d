"""The bundled sample memory holds what the screens and the guide rely on."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import date
from functools import cache
from pathlib import Path

import pytest

from memtui.memory.chunking import chunk_document
from memtui.memory.discover import Scope, discover
from memtui.memory.documents import read_document
from memtui.memory.workspace import demo_root
from memtui.text.sanitize import HOSTILE

FIRST_DAY, LAST_DAY = date(2026, 1, 20), date(2026, 11, 20)
LONG_FILE = "memory/projects/lantern/meeting-log.md"
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
WIKI_LINK = re.compile(r"\[\[([a-z-]+)\]\]")
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


def test_has_the_layout_of_an_agents_memory() -> None:
    paths = notes().keys()
    daily = [path for path in paths if NUMBERED_DAY.search(path)]
    assert 55 <= len(paths) <= 70
    assert {"MEMORY.md", "USER.md"} <= paths
    assert all(path.startswith("memory/") for path in paths - {"MEMORY.md", "USER.md"})
    assert all(path.endswith(".md") for path in paths)
    assert 30 <= len(daily) <= 42
    assert any(path.startswith("memory/archive/") for path in daily)


def test_dated_notes_lie_within_the_story() -> None:
    days = {path: match.group() for path in notes() if (match := NUMBERED_DAY.search(path))}
    parsed = {path: date.fromisoformat(day) for path, day in days.items()}
    assert (min(parsed.values()), max(parsed.values())) == (FIRST_DAY, LAST_DAY)
    for path, day in days.items():
        assert notes()[path].startswith(f"# {day} "), path


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


def test_sizes_stay_small_except_one() -> None:
    sizes = {path: len(text.encode()) for path, text in notes().items()}
    assert 180_000 <= sum(sizes.values()) <= 350_000
    assert [path for path, size in sizes.items() if size > 40_000] == [LONG_FILE]
    assert 60_000 <= sizes[LONG_FILE] <= 90_000
    assert min(sizes.values()) > 500


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


def test_is_harmless_and_composed() -> None:
    for path, text in notes().items():
        assert HOSTILE.search(text) is None, path
        assert "\r" not in text, path
        assert text.endswith("\n"), path
        assert unicodedata.is_normalized("NFC", path + text), path


def test_relative_links_resolve_except_the_broken_ones() -> None:
    found = set(links())
    assert len(found) > 40
    assert {link for link in found if not resolves(*link)} == BROKEN_LINKS


def test_wiki_links_name_a_note() -> None:
    stems = {Path(path).stem for path in notes()}
    named = {name for text in notes().values() for name in WIKI_LINK.findall(prose(text))}
    assert named
    assert named <= stems


@pytest.mark.parametrize(
    "sign",
    ["- [x] ", "- [ ] ", "> ", "|---|", "arr[0]", '[1, "3"', "[/foo]", "🏮", "ORA-12514", "9f3c2ab"]
    + [f"```{language}\n" for language in ("python", "bash", "yaml", "json", "sql", "toml")],
)
def test_holds_the_kinds_of_text_the_screens_must_show(sign: str) -> None:
    assert any(sign in text for text in notes().values())


def test_repeats_itself_where_diversity_is_shown() -> None:
    line = "- DNS handed out is 192.168.10.2 (AdGuard on barge), no fallback."
    assert len([path for path, text in notes().items() if line in text]) == 4
    ticked = "- [x] roll api-a, wait until `/healthz` is green, then roll api-b"
    assert len([path for path, text in notes().items() if ticked in text]) == 4


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
