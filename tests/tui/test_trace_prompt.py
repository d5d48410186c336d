"""Naming a file or a line: the prompt, its completion, and what it opens."""

from __future__ import annotations

from threading import Event

import pytest
from textual.widgets import Input

from memtui.model import Ranking
from memtui.tui.screens.choosers import completions
from memtui.tui.screens.explain import ExplainScreen
from tests.support.small_memory import SmallMemory
from tests.tui.harness import dark, press, running

PATHS = ("MEMORY.md", "memory/2026-02-10.md", "memory/network.md", "notes/odd:12", "家/网络.md")


def test_paths_that_begin_so_come_first_and_any_part_is_found() -> None:
    assert completions("mem", PATHS) == ["MEMORY.md", "memory/2026-02-10.md", "memory/network.md"]
    assert completions("net", PATHS) == ["memory/network.md"]
    assert completions("02-10", PATHS) == ["memory/2026-02-10.md"]
    assert completions("memory/network.md:7", PATHS) == ["memory/network.md"]
    ordered = completions("mem", ("x/my-mem.md", "x/memo.md", "memory/a.md"))
    assert ordered == ["memory/a.md", "x/memo.md", "x/my-mem.md"]
    assert completions("网", PATHS) == ["家/网络.md"]


async def test_from_the_preview_the_first_visible_line_is_named(memory: SmallMemory) -> None:
    async with running(memory.open, size=(80, 24)) as run:
        await run.press("escape", "t")
        assert run.toasts[-1].startswith("Nothing asked yet: type a query first")
        (memory.root / "memory/blob.md").write_bytes(b"\0" * 16)
        run.engine.index.sync(wait=True)
        await run.search("habits vault")
        search = run.app.search_screen
        await run.press("escape", "tab")
        await run.until(lambda: search.preview.has_focus and search.state.source is not None)
        assert search.state.source is not None
        path, line = search.state.source.path, search.preview.top[0]
        await run.press("t")
        assert run.app.screen.query_one(Input).value == f"{path}:{line}"
        await run.press(*["backspace"] * 40, *"blob", shows="1 not indexed")
        await run.press("enter", shows="NOT SHOWN: no text: 16 NUL bytes")


async def test_what_was_traced_is_marked_where_it_is_shown(memory: SmallMemory) -> None:
    options = dark(ranking=Ranking(k=3))
    async with running(memory.open, size=(80, 24), options=options, query="router config") as run:
        search = run.app.search_screen
        lost = run.ranked.drops[0].chunk
        await run.press("escape", "t")
        box = run.app.screen.query_one(Input)
        box.value = f"{lost.path[1:]}:{lost.start_line}"
        await run.press("tab", "tab")
        assert box.value == f"{lost.path}:{lost.start_line}"
        await run.press("enter")
        await run.until(lambda: getattr(run.app.screen, "chunk_id", "") == lost.id)
        await run.press("ctrl+p", "escape", "escape")
        assert search.state.selected_id == search.near.chosen_id == lost.id
        assert search.near.display


async def test_a_path_can_be_typed_when_the_paths_cannot_be_read(
    memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_fail = Event()

    def fail() -> None:
        may_fail.wait()
        raise OSError("no paths today")

    async with running(memory.open, size=(80, 24)) as run:
        monkeypatch.setattr(run.engine.browse, "files", fail)
        await run.search()
        await press(run.pilot, "escape", "t", "m", "enter", "backspace", "enter")
        await run.until(lambda: "The files are still being read" in run.text)
        may_fail.set()
        await run.until(lambda: any("no paths today" in toast for toast in run.toasts))
        await run.press("enter")
        assert "Name a file, or a line of it" in run.text
        run.app.screen.query_one(Input).value = "MEMORY.md:0"
        await run.press("enter")
        assert "MEMORY.md:0: lines count from 1" in run.text
        run.app.screen.query_one(Input).value = " MEMORY.md#L3-L5 "
        await run.press("enter")
        assert isinstance(run.app.screen, ExplainScreen)
