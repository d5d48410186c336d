"""The state of an index: in the pane, and on the screen of memtui's own index and of an agent's."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from memtui.bus import Bus
from memtui.engine import Engine
from memtui.errors import IndexUnusable
from memtui.index.database import open_database
from memtui.model import ErrorRecord, IndexState, Reason, SkippedFile, SyncStats
from memtui.report.status import last_sync_words
from memtui.text.sanitize import HOSTILE
from memtui.tui.app import MemtuiApp
from memtui.tui.screens import index as index_screen
from memtui.tui.screens.dialogs import DetailScreen
from memtui.tui.screens.index import AgentIndexScreen, IndexScreen, what_is_listed
from memtui.tui.widgets.index_status import (
    IndexStatusPane,
    facts_of,
    index_facts,
    state_line,
    status_segments,
)
from memtui.tui.widgets.lists import RowList
from memtui.tui.widgets.result_rows import empty_memory, nothing_found
from tests.support.known import cases, load
from tests.support.openclaw import AGENT_BLOB, edit
from tests.support.small_memory import SmallMemory
from tests.tui.harness import (
    Running,
    dark,
    foreign_running,
    make_target,
    press,
    resize,
    running,
    screen_text,
    until,
)
from tests.tui.reader_samples import NOW, ReaderApp, status
from tests.tui.samples import make_ranked

HOSTILE_NAME = "memory/[red]x[\x1b[31m\u202e.md"


@pytest.mark.parametrize(("state", "changes", "line"), cases("interface", "states of the index"))
def test_a_state_is_told_with_what_it_means(state: str, changes: dict[str, Any], line: str) -> None:
    assert state_line(replace(status(IndexState(state)), **changes)).plain == line


def test_the_status_line_says_who_embeds_where_and_who_else_writes() -> None:
    def line(**changes: Any) -> str:
        return "  ".join(part.plain for part in status_segments(replace(status(), **changes)))

    assert line().startswith("● ready  minilm, here  142 files 1,284 chunks  watching, ")
    assert line(writer="process 7").endswith("chunks  another memtui writes the index")
    present = ErrorRecord(NOW, "index", "gone")
    assert "minilm, here  ✗ 1 error  142" in line(errors=(*status().errors, present))
    assert "minilm, here  ✗ 2 errors  142" in line(last_sync=None)


@pytest.mark.parametrize(("state", "chunks", "said"), cases("interface", "lists without results"))
def test_without_results_the_list_says_how_the_index_is(state: str, chunks: int, said: str) -> None:
    now = replace(status(IndexState(state)), chunks=chunks, pending_count=0)
    assert said in empty_memory(now, {}).plain
    stopped = replace(status(IndexState.STALE), chunks=0, pending_count=3)
    assert "nothing is indexed yet\n\n3 files waiting" in empty_memory(stopped, {}).plain
    if not chunks:
        assert said in nothing_found(make_ranked(), now, {}).plain
    if state == IndexState.NO_INDEX:
        assert "Esc r index this folder" in empty_memory(now, {"index.sync": "r"}).plain


@pytest.mark.parametrize(("added", "changed", "removed", "words"), cases("interface", "syncs"))
def test_a_sync_is_told_with_its_age(added: int, changed: int, removed: int, words: str) -> None:
    stats = status().last_sync
    assert isinstance(stats, SyncStats)
    stats = replace(stats, files_added=added, files_changed=changed, files_removed=removed)
    assert last_sync_words(stats, NOW).startswith(words.replace("no change", "29 vectors"))
    stats = replace(stats, chunks_embedded=0)
    assert last_sync_words(stats, NOW).startswith(words)
    rebuilt = last_sync_words(replace(stats, rebuild=True), NOW)
    assert rebuilt.startswith(words.replace(": ", ": rebuild, "))


def test_what_is_wrong_is_among_the_facts() -> None:
    gone = (ErrorRecord(NOW, "folder", "the folder is not there"),)
    told = state_line(replace(status(IndexState.ERROR), errors=gone)).plain
    assert told.endswith("is not there, then it goes on by itself"), "a rebuild would not help"
    withheld = (SkippedFile("memory/a.md:7", Reason.HOLDS_CREDENTIAL),)
    now = replace(status(IndexState.DEGRADED), withheld=withheld, unread=34, made_by="openai/m3")
    waits = replace(now, skipped=(), errors=())
    assert what_is_listed(waits) == "2 waiting: tab shows which"
    leaving = replace(waits, removals={"memory/a.md": "gone"})
    assert what_is_listed(leaving) == "2 waiting: tab shows which, and why"
    past = replace(status(), skipped=(), pending_count=0)
    assert what_is_listed(past).endswith("nothing waiting, what failed before is over"), past.errors
    facts = dict(index_facts(now, NOW))
    assert facts["not read"].plain.startswith("34 chunks in a script that m3 does")
    assert facts["not sent"].plain.startswith("1 chunk with a credential: memory/a.md:7 ")
    assert facts["last error"].plain.startswith("timeout after 30 s  provider, 2 h ago")
    assert "401 from api.example" in facts["provider"].plain
    assert facts["changes"].plain == "noticed as files are written, last event 3 s ago"
    assert "vectors (35 found by words only)" in facts["holds"].plain
    technical = dict(facts_of(status(), NOW, "technical"))
    assert technical["synced"].plain == "31 chunks written, 29 embedded, 2 cache hits"
    assert not technical.keys() & facts.keys(), "figures stand apart"
    assert "vectors" not in dict(facts_of(replace(status(), vectors=0), NOW, "technical"))
    assert "cache" not in facts
    held = "codex 1 conversation, openclaw:main 21 conversations"
    assert facts["sources"].plain == f"{held} (3, then O, turns them on and off)"


async def test_the_pane_fits_a_narrow_column_and_shows_progress() -> None:
    pane = IndexStatusPane()
    async with ReaderApp(pane).run_test(size=(42, 24)) as pilot:
        pane.show_status(status(IndexState.INDEXING), NOW)
        await pilot.pause()
        text = screen_text(pilot.app)
        assert "◐ indexing: " in text
        assert "61 %  42/s  12 s left" in text
        assert "142 files, 1,284 chunks" in text
        assert "2 min ago: 1 added, 2 chang…" in text
        assert sum("│" in line for line in text.splitlines()) <= 11


async def test_lists_follow_the_index_and_enter_shows_a_row_in_full(
    memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_screen, "REFRESH_SECONDS", 0.2)
    options = dark(memory={"root": "/notes"})
    async with running(memory.open, size=(120, 40), options=options) as run:
        await run.press("escape", "5")
        screen = run.screen(IndexScreen)
        assert "12 files, 14 chunks, 14 vectors  " in run.text, "one source is all there is"
        assert "everything is fine" not in run.text, "nobody has looked at the files"
        await run.press("r", shows="everything is fine: 12 files indexed")
        await run.until(lambda: "memtui search WORDS --root /notes" in run.text)
        (memory.root / "memory/link.md").symlink_to("/etc/hosts")
        (memory.root / HOSTILE_NAME).write_text("# new\n")
        await run.press("r")
        await run.until(lambda: "13 files" in run.text and "memory/link.md" in run.text)
        skipped = screen.query_one("#skipped", RowList)
        skipped.focus()
        await run.press("enter")
        assert "memory/link.md: " in run.text
        assert "ready  1 left out: tab shows which, and why" in run.text
        assert len(run.app.screen_stack) == 3
        await run.press("escape")
        monkeypatch.setattr(screen.engine.index, "status", status)
        for seconds in (4, 5):
            now = status().errors[0].at + timedelta(seconds=seconds)
            monkeypatch.setattr(screen.engine, "now", Mock(return_value=now))
            await run.press("tab", shows=f"{seconds} s ago memory/bad.md: 3 bytes")
        for size in ((80, 24), (40, 10), (1, 1), (120, 20)):
            await resize(run.pilot, size)
            await run.press("tab", "tab", "shift+tab")
        await run.press("escape")
        assert len(run.app.screen_stack) == 1
        async with running(memory.open, size=(120, 40)) as second:
            await second.press("escape", "5", shows="memory/link.md")
            await second.press("R", "r")
            assert ["another memtui (process " in toast for toast in second.toasts] == [True]
            assert "kept by     another memtui (process " in second.text
            assert "changes     taken in by the other memtui " in second.text
            facts = second.app.screen.query_one("#facts")
            assert not facts.show_vertical_scrollbar, "there is room for all of them"
            offered = second.text.splitlines()[-1]
            assert not {"sync", "rebuild"} & set(offered.split())
            await second.press("escape")
            assert "sync" not in second.text.splitlines()[-1]


async def test_the_key_that_is_named_opens_what_could_not_be_opened(memory: SmallMemory) -> None:
    tries: list[Bus] = []

    def open_engine(bus: Bus) -> Engine:
        tries.append(bus)
        if len(tries) < 3:
            raise IndexUnusable("the index folder cannot be made: Read-only file system")
        return memory.open(bus)

    app = MemtuiApp(open_engine, dark())
    async with app.run_test(size=(100, 24), notifications=True) as pilot:
        for number in (1, 2):
            await until(pilot, lambda: "F5 try again" in screen_text(app))
            assert len(tries) == number
            await press(pilot, "f5")
            await until(pilot, lambda number=number: len(tries) > number)  # type: ignore[misc]
        await until(pilot, lambda: app.search_screen.engine is not None)
        await until(pilot, lambda: "cannot be made" not in screen_text(app))
        assert app.search_screen.engine_error == ""
    app.memories.close()


@pytest.mark.parametrize(("change", "said"), cases("interface", "damage"))
async def test_damage_is_told_with_the_key_that_heals_it(
    memory: SmallMemory, change: str, said: str
) -> None:
    with closing(open_database(next(memory.data.glob("*/index-*.db")))) as connection:
        connection.execute(f"UPDATE {change}")
    async with running(memory.open, size=(140, 40)) as run:
        run.app.search_screen.query_input.value = "router config"
        await run.until(lambda: said in run.text and "index-1.db is damaged" in run.text)
        await run.press("escape", "5", shows="R rebuild the index")
        assert "index-1.db is damaged" in run.text
        await run.press("escape", "R", shows="keep it as it is")
        await run.press("R", shows="● ready")
        await run.press("escape")
        await run.search("router")
        assert run.app.search_screen.results.chosen_id
        assert said not in run.text


async def parts_of(run: Running) -> str:
    """Everything, part after part."""
    texts = []
    for _ in range(6):
        await run.press("tab")
        texts.append(run.text)
    return "\n".join(texts)


async def test_faults_of_a_real_index_are_told_at_every_size(tmp_path: Path) -> None:
    state, target = make_target(tmp_path, AGENT_BLOB)
    memory = state.workspace / "memory"
    (memory / "new.md").write_text("# new\n", encoding="utf-8")
    (state.workspace / HOSTILE_NAME).write_text("# hostile\n", encoding="utf-8")
    (memory / "auth.md").unlink()
    (memory / "router.md").write_text("# other\n", encoding="utf-8")
    edit(state.database, "DELETE FROM memory_index_chunks_fts WHERE rowid % 3 = 0")
    async with foreign_running(target) as run:
        await run.press("escape", "5")
        screen = run.screen(AgentIndexScreen)
        for size in ((120, 40), (80, 24), (200, 60)):
            await resize(run.pilot, size)
            text = await parts_of(run)
            assert not HOSTILE.search(text.replace("\n", ""))
            for words in load("interface")["facts of a drifted index"]:
                assert words in text, (size, words)
        assert text.index("! Files") < text.index("i Tokenizer in use")

        files = screen.query_one("#files", RowList)
        seen = []
        for _ in range(6):
            await run.press("f")
            seen.append([row.id.partition(":")[2] for row in files.rows])
        assert seen[0] == [*seen[1], *seen[2], *seen[3]]
        assert seen[1:3] == [["memory/router.md"], ["memory/auth.md"]]
        assert len(seen[4]) == 14
        assert len(seen[5]) == 18
        assert files.has_focus
        await run.press("enter")
        assert isinstance(run.app.screen, DetailScreen)
        assert "~ stale" in run.text
        assert "in index  2026-" in run.text
        await press(run.pilot, "escape", "r", "R")
        assert "openclaw memory index --force" in run.toasts[-1]
