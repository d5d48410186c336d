"""The index screen of another program's index."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

from memtui.model.status import FileState, FileTruth, Finding, IdentityField, Severity
from memtui.tui.screens import truth as truth_screen
from memtui.tui.screens.truth import DetailScreen, TruthScreen
from memtui.tui.widgets.row_list import RowList
from tests.support.openclaw import AGENT_BLOB, edit
from tests.tui.foreign_samples import (
    FOREIGN,
    FOREIGN_STATUS,
    TRUTH,
    ForeignSample,
    foreign_running,
    make_target,
)
from tests.tui.harness import Running, resize, running, settle, until
from tests.tui.reader_samples import HOSTILE

SIZES = [(80, 24), (120, 40), (200, 60)]


async def _open(run: Running) -> TruthScreen:
    await run.pilot.press("escape", "i")
    await settle(run.app, run.pilot)
    return cast("TruthScreen", run.app.screen)


async def _parts(run: Running) -> str:
    """Everything, part after part."""
    texts = [run.text]
    for _ in truth_screen.SECTIONS:
        await run.pilot.press("tab")
        await settle(run.app, run.pilot)
        texts.append(run.text)
    return "\n".join(texts)


EVERYTHING = (
    "! degraded  identity mismatch",
    "openclaw-2026.9: the database was written by 2026.9.6",
    "/home/ann/.openclaw/agents/main/agent/openclaw",
    "opened",
    "written by 2026.9.6",
    "agent reads",
    "porter unicode61",
    "incomplete",
    "✗ model",
    "text-embedding-3-small → text",
    "✓ provider",
    "? scopeHash",
    "~ stale         memory/router.md",
    "+ never indexed memory/new.md",
    "✗ orphan        memory/old.md",
    "~ 1 stale  ✗ 1 orphan  + 1 new  · 1 skipped  ✓ 1",
    "17 on disk, 16 indexed, 118 chunks",
    "not known here, 0 indexed",
    "text-embedding-3-small  256 d  118 chunks",
    "no vector  2 chunks",
    "openclaw-agent.sqlite.bak",
)


async def test_everything_can_be_seen_at_every_size() -> None:
    async with running(ForeignSample, size=SIZES[0]) as run:
        screen = await _open(run)
        for size in SIZES:
            await resize(run.pilot, size)
            screen.query_one("#findings", RowList).focus()
            await settle(run.app, run.pilot)
            assert "✗ identity_mismatch" in run.text
            assert run.text.index("identity_mismatch") < run.text.index("files_stale")
            text = await _parts(run)
            for words in EVERYTHING:
                assert words in text, (size, words)


async def test_the_files_can_be_filtered_by_state() -> None:
    async with running(ForeignSample, size=(120, 40)) as run:
        screen = await _open(run)
        files = screen.query_one("#files", RowList)
        seen = []
        for _ in range(7):
            await run.pilot.press("f")
            seen.append([row.id.partition(":")[2] for row in files.rows])
        stale, orphan, new = ["memory/router.md"], ["memory/old.md"], ["memory/new.md"]
        assert seen[0] == [*stale, *orphan, *new]
        assert seen[1:4] == [stale, orphan, new]
        assert seen[4:6] == [["memory/big.bin"], ["MEMORY.md"]]
        assert len(seen[6]) == 5
        assert files.has_focus


ROWS_IN_FULL = {
    "findings": ["✗ error", "vectorDims", "and 298 more"],
    "identity": ["✗ differ", "expected  text-embedding-3-large"],
    "files": ["~ stale", "other content", "in index  2026-02-1", "2 d ago"],
    "leftovers": ["openclaw-agent.sqlite.bak"],
}


async def test_enter_shows_a_row_in_full() -> None:
    async with running(ForeignSample, size=(120, 40)) as run:
        screen = await _open(run)
        for section, words in ROWS_IN_FULL.items():
            screen.query_one(f"#{section}", RowList).focus()
            await run.pilot.press("enter")
            await settle(run.app, run.pilot)
            assert isinstance(run.app.screen, DetailScreen)
            for word in words:
                assert word in run.text
            await run.pilot.press("escape")
            assert len(run.app.screen_stack) == 2


async def test_another_look_keeps_the_place() -> None:
    async with running(ForeignSample, size=(120, 40)) as run:
        screen = await _open(run)
        await run.pilot.press("j")
        findings = screen.query_one("#findings", RowList)
        assert findings.chosen_id == "1"
        foreign = replace(FOREIGN, truth=replace(TRUTH, integrity="row 7 missing"))
        run.engine.current = replace(FOREIGN_STATUS, foreign=foreign)
        await run.pilot.press("s")
        await settle(run.app, run.pilot)
        assert "row 7 missing" in run.text
        assert findings.chosen_id == "1"
        assert run.engine.calls.count("sync") == 1
        await run.pilot.press("R")
        await settle(run.app, run.pilot)
        assert "rebuild" not in run.engine.calls
        assert "openclaw memory index --force" in run.toasts[-1]


async def test_hostile_text_is_shown_as_marks() -> None:
    truth = replace(
        TRUTH,
        identity=tuple(IdentityField(text, text, text + "!", False, text) for text in HOSTILE),
        files=tuple(FileTruth(text, "memory", FileState.STALE, text) for text in HOSTILE),
        findings=tuple(Finding(text, Severity.WARNING, text, (text,), 1) for text in HOSTILE),
        leftovers=HOSTILE,
        integrity=HOSTILE[5],
        database_read=HOSTILE[6],
    )
    async with running(ForeignSample, size=(200, 60)) as run:
        foreign = replace(FOREIGN, truth=truth, agent=HOSTILE[7], chosen_because=HOSTILE[2])
        run.engine.current = replace(FOREIGN_STATUS, foreign=foreign)
        run.app.search_screen.index.refresh_status()
        screen = await _open(run)
        text = await _parts(run)
        screen.query_one("#findings", RowList).focus()
        await run.pilot.press("enter")
        await settle(run.app, run.pilot)
        text += run.text
        assert "- [x] done" in text
        assert not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 for c in text)


async def test_any_size_is_survived() -> None:
    async with running(ForeignSample, size=(1, 1)) as run:
        await _open(run)
        for size in [(1, 1), (20, 5), (60, 16), (120, 20)]:
            await resize(run.pilot, size)
            await run.pilot.press("tab", "tab", "f", "enter", "escape", "shift+tab")
            await settle(run.app, run.pilot)


async def test_a_real_index_with_planted_faults(tmp_path: Path) -> None:
    state, target = make_target(tmp_path, AGENT_BLOB)
    (state.workspace / "memory" / "new.md").write_text("# new\n", encoding="utf-8")
    (state.workspace / "memory" / "auth.md").unlink()
    edit(state.database, "DELETE FROM memory_index_chunks_fts WHERE rowid % 3 = 0")
    async with foreign_running(target) as run:
        await run.pilot.press("escape", "i")
        await settle(run.app, run.pilot)
        assert "memory/auth.md" in run.text
        assert "memory/new.md" in run.text
        assert "16 files  118 chunks" in run.text
        (state.workspace / "memory" / "new.md").unlink()
        await run.pilot.press("s")
        await until(run.pilot, lambda: "memory/new.md" not in run.text, 20)
