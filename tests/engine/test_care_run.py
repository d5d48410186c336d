"""A look through a whole memory: what it costs, and how soon it stops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memtui.engine import Engine
from memtui.errors import Cancelled
from memtui.memory.discover import Scope, discover
from memtui.model.browsing import CareRule
from memtui.settings import EmbeddingSettings, IndexSettings, Settings

NOW = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
NOTES = 60


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    memory = tmp_path / "workspace" / "memory"
    memory.mkdir(parents=True)
    for number in range(NOTES):
        text = f"# Note {number}\n\nSee [a](gone-{number}.md), [b](there.txt.md) and [[Gone {number}]].\n"
        (memory / f"note-{number}.md").write_text(text, "utf-8")
    settings = Settings(
        embedding=EmbeddingSettings(provider="none", fallback="none"),
        index=IndexSettings(watch=False),
    )
    with Engine.open(
        tmp_path / "workspace", settings, data_dir=tmp_path / "data", now=lambda: NOW
    ) as opened:
        opened.index.sync(wait=True)
        yield opened


def after(times: int) -> Callable[[], bool]:
    left = iter(range(times))
    return lambda: next(left, None) is None


def test_links_ask_the_index_once_a_folder(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    file_of: Callable[[str], Path | None] = engine.memory.file_of

    def counted(path: str) -> Path | None:
        asked.append(path)
        return file_of(path)

    monkeypatch.setattr(engine.memory, "file_of", counted)
    report = engine.browse.care()
    found = [one for one in report.findings if one.rule is CareRule.BROKEN_LINK]
    assert len(found) == 3 * NOTES
    assert sorted(asked) == ["_", "memory/_"]


def test_a_look_stops_within_a_folder(engine: Engine) -> None:
    with pytest.raises(Cancelled):
        discover(Scope(engine.root), cancelled=after(10))
    for times in (0, 3, 30, NOTES + 5, 2 * NOTES, 4 * NOTES):
        with pytest.raises(Cancelled):
            engine.browse.care(cancelled=after(times))
    with pytest.raises(Cancelled):
        engine.memory.files(after(NOTES + 3))
