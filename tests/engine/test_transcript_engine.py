"""Transcripts through the engine: opting in, starting, following, previewing, asking why."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memtui.bus import Bus, SyncFinished
from memtui.engine import Engine
from memtui.model import Reason, SourceCount
from memtui.model.inquiry import Place
from memtui.settings.schema import Settings
from tests.support.conversations import SECRET, Homes, asked, began, codex, codex_began, said

PATH = "sessions/main/a.jsonl"
_opened: list[str] | None = None


def _note_opening(event: str, arguments: tuple[Any, ...]) -> None:
    if _opened is not None and event == "open":
        _opened.append(str(arguments[0]))


sys.addaudithook(_note_opening)


def settings(*sources: str, **transcripts: Any) -> Settings:
    return Settings.parse(
        {
            "embedding": {"provider": "none"},
            "transcripts": {"sources": list(sources), **transcripts},
        }
    )


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(tmp_path / "homes")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/MEMORY.md").write_text("# Garden\n\nThe gate code is 4711.\n")
    return tmp_path / "notes"


@pytest.fixture
def engine(tmp_path: Path, root: Path, homes: Homes) -> Iterator[Engine]:
    chosen = settings(max_line_bytes=50_000)
    with Engine.open(root, chosen, data_dir=tmp_path / "data", homes=homes.homes) as opened:
        yield opened


def test_a_source_is_indexed_from_when_it_is_chosen(engine: Engine, homes: Homes) -> None:
    homes.openclaw("a.jsonl", [began(), said("user", "who waters the tomatoes")])
    homes.codex("rollout-x.jsonl", [codex_began(), codex("user", "who waters the roses")])
    engine.index.sync(wait=True)
    assert engine.index.status().sources == (SourceCount("memory", 1, 1),)
    engine.conversations.use_sources(["openclaw:main"])
    engine.wait_idle()
    assert engine.index.status().sources == (
        SourceCount("memory", 1, 1),
        SourceCount("sessions", 1, 1),
    )
    hits = engine.search.ask("source:sessions tomatoes").hits
    assert [hit.chunk.path for hit in hits] == [PATH]
    assert engine.search.ask("source:memory tomatoes").hits == ()
    engine.conversations.use_sources(["codex"])
    engine.wait_idle()
    assert [hit.chunk.path for hit in engine.search.ask("waters").hits] == [
        "codex/2026/10/01/rollout-x.jsonl"
    ]
    engine.conversations.use_sources(["openclaw"])
    engine.conversations.use_sources(["openclaw:main", "codex"])
    homes.openclaw("b.jsonl", [began(), said("user", "who waters the leeks")], agent="new")
    engine.index.sync(wait=True)
    assert len(engine.search.ask("waters").hits) == 3, "a wider name takes in an agent that is new"
    engine.conversations.use_sources([])
    engine.wait_idle()
    assert engine.index.status().sources == (SourceCount("memory", 1, 1),)


def test_a_preview_has_a_line_for_each_line_of_the_file(engine: Engine, homes: Homes) -> None:
    parts = [
        began(),
        said("user", f"my key is\nOPENAI_API_KEY={SECRET} \x1b[31mred"),
        asked("gate"),
        b"{cut\n",
        b"\n",
        b"x" * 60_000 + b"\n",
        said("assistant", "word " * 2000),
    ]
    file = homes.openclaw("a.jsonl", parts)
    engine.conversations.use_sources(["openclaw"])
    engine.wait_idle()
    shown = engine.browse.source(PATH)
    assert (shown.state, len(shown.lines)) == ("current", len(parts))
    assert shown.lines[1].startswith("User: my key is OPENAI_API_KEY=sk-pro…")
    assert shown.lines[2] == "· tool call memory_search 17 B"
    assert shown.lines[3] == "· malformed: 5 B that are no record"
    assert shown.lines[4] == ""
    assert shown.lines[5] == "· a line of 59 KB, too long to be read"
    assert len(shown.lines[6]) == 2000
    assert SECRET not in "".join(shown.lines)
    assert "\x1b" not in "".join(shown.lines)
    assert engine.browse.chunk_ranges(PATH)[0][:2] == (2, 7)
    with file.open("ab") as stream:
        stream.write(said("user", "more"))
    assert engine.browse.source(PATH).state == "changed"
    assert engine.browse.source(PATH).lines[7] == "User: more"
    file.unlink()
    gone = engine.browse.source(PATH)
    assert gone.state == "gone"
    assert gone.lines[1].startswith("User: my key is")


def test_a_conversation_that_is_not_indexed_can_be_previewed(engine: Engine, homes: Homes) -> None:
    homes.codex("rollout-x.jsonl", [codex_began(), codex("user", "the fence")])
    shown = engine.browse.source("codex/2026/10/01/rollout-x.jsonl")
    assert (shown.state, shown.lines[1]) == ("current", "User: the fence")


def test_a_chunk_of_a_conversation_can_be_asked_about(engine: Engine, homes: Homes) -> None:
    file = homes.openclaw("a.jsonl", [said("user", "tomatoes and basil")])
    engine.conversations.use_sources(["openclaw"])
    engine.wait_idle()
    ranked = engine.search.ask("tomatoes")
    chunk = ranked.hits[0].chunk
    engine.explain.inquire(ranked, chunk.id)
    here = engine.explain.inquire_at(ranked, Place(PATH, 1))
    assert here.place.path == PATH
    assert Reason.NO_FILE not in {step.reason for step in here.steps}
    file.unlink()
    gone = engine.explain.inquire_at(ranked, Place(PATH, 1))
    assert Reason.VANISHED in {step.reason for step in gone.steps}


def test_a_start_without_changes_opens_no_transcript(
    tmp_path: Path, root: Path, homes: Homes
) -> None:
    global _opened
    for number in range(2000):
        file = homes.openclaw(f"{number}.jsonl", b"")
        if number % 100 == 0:
            file.write_bytes(said("user", f"question {number}"))
        os.utime(file, (1_700_000_000, 1_700_000_000))
    chosen, data = settings("openclaw"), tmp_path / "data"
    with Engine.open(root, chosen, data_dir=data, homes=homes.homes) as engine:
        engine.index.sync(wait=True)
        assert engine.index.status().sources[-1] == SourceCount("sessions", 2000, 20)
    _opened = []
    try:
        with Engine.open(root, chosen, data_dir=data, homes=homes.homes) as engine:
            engine.index.sync(wait=True)
            stats = engine.index.status().last_sync
            engine.index.refresh_status()
            assert engine.index.status().pending_count == 0
        assert not [name for name in _opened if name.endswith(".jsonl")]
    finally:
        _opened = None
    assert stats is not None
    assert (stats.files_seen, stats.files_changed, stats.chunks_written) == (2001, 0, 0)


def test_a_conversation_is_followed_while_it_grows(
    tmp_path: Path, root: Path, homes: Homes
) -> None:
    file = homes.openclaw("a.jsonl", [said("user", "tomatoes")])
    chosen = settings("openclaw", debounce_seconds=0.1, delta_messages=0)
    bus, ended = Bus(), threading.Semaphore(0)
    bus.subscribe(SyncFinished, lambda event: ended.release())
    with Engine.open(
        root, chosen, data_dir=tmp_path / "data", homes=homes.homes, bus=bus, watch=True
    ) as engine:
        assert ended.acquire(timeout=20)
        with file.open("ab") as stream:
            stream.write(said("assistant", "and basil"))
        while not engine.search.ask("basil").hits:
            assert ended.acquire(timeout=20)
        assert engine.search.ask("basil").hits[0].chunk.path == PATH
