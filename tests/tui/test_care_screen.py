"""The care screen: every rule with what it found, both texts, and the way to the place."""

from __future__ import annotations

from typing import cast

import pytest

from memtui.tui.screens.care import CareScreen
from memtui.tui.screens.chunk import ChunkScreen
from tests.tui.care_samples import FIRST, REPORT, SECOND, CareSample
from tests.tui.harness import Running, resize, running, settle
from tests.tui.samples import CHUNKS

SIZES = [(80, 24), (120, 40), (200, 60)]


async def _open(run: Running) -> CareScreen:
    run.app.action_show_care()
    await settle(run.app, run.pilot)
    return cast("CareScreen", run.app.screen)


async def _press(run: Running, *keys: str) -> str:
    await run.pilot.press(*keys)
    await run.pilot.app.workers.wait_for_complete()
    await run.pilot.pause()
    return run.text


IN_THE_LIST = (
    "! Near-duplicates  1",
    "8 911 chunks looked at",
    "– Unreachable files  not applied: there are no vectors yet",
    "✓ Empty files  none",
    "✓ Dated facts in undated files  none",
    "37 files looked at",
    "! Broken links  1",
    "! Credentials  1",
)


async def test_every_rule_and_both_texts_are_there_at_every_size() -> None:
    async with running(CareSample, size=SIZES[0]) as run:
        screen = await _open(run)
        for size in SIZES:
            await resize(run.pilot, size)
            screen.findings.action_end(-1)
            await settle(run.app, run.pilot)
            listed = run.text
            assert "3 findings by 3 of 7 rules, 1 not applied" in listed
            assert "Chunks that say nearly the same" in listed, "the heading tells the rule"
            both = await _press(run, "j")
            assert "memory/2026-02-10.md:12  =  memory/2026-02-09.md:4" in both
            assert "says nearly the same as another chunk" in both
            assert "memory/2026-02-10.md#L12-L31" in both
            assert "memory/2026-02-09.md#L4-L22" in both
            line = next(one for one in both.split("\n") if "13   - [x] backup config" in one)
            assert " 5   - [x] backup config" in line, "the same line stands beside the other"
            screen.findings.choose("2")
            listed += await _press(run)
            listed += await _press(run, "G")
            assert "31   router key sk-…masked…" in listed
            for words in IN_THE_LIST:
                assert words in listed, (size, words)


async def test_keys_lead_to_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(CareSample, size=(120, 40)) as run:
        screen = await _open(run)
        places: list[tuple[str, int, str | None]] = []
        monkeypatch.setattr(run.app, "open_place", lambda *place: places.append(place))
        assert screen.finding is REPORT.findings[0]
        await _press(run, "enter")
        assert "/home/ann/memory/memory/2026-02-10.md:12" in run.toasts[-1]
        await _press(run, "o")
        assert "/home/ann/memory/memory/2026-02-09.md:4" in run.toasts[-1]
        await _press(run, "y", "b")
        assert run.app.clipboard == "memory/2026-02-10.md#L12-L31"
        assert places == [(FIRST.path, 12, FIRST.id)]
        await _press(run, "K")
        assert cast("ChunkScreen", run.app.screen).lookup.chunk_id == FIRST.id
        await _press(run, "escape", "n", "n", "n")
        assert "Files that a query by their own first words" in run.text
        assert "not applied: there are no vectors yet" in run.text
        told = set(run.toasts)
        await _press(run, "e", "o", "y", "K")
        assert set(run.toasts) <= told, "a heading has no place"
        assert run.app.screen is screen
        await _press(run, "N", "N", "j")
        assert screen.finding is REPORT.findings[1]
        assert screen.check_action("edit_other", ()) is None
        await _press(run, "N")
        assert screen.finding is None
        screen.findings.choose("2")
        await _press(run, "K")
        assert cast("ChunkScreen", run.app.screen).lookup.chunk_id == CHUNKS[3].id, "by its line"


async def test_one_pane_at_a_time_where_it_is_small() -> None:
    async with running(CareSample, size=(50, 14)) as run:
        await _open(run)
        assert "says nearly the same" not in run.text
        assert "says nearly the same" in await _press(run, "tab")
        assert SECOND.path in await _press(run, "G"), "one text below the other"
        assert "Near-duplicates  1" in await _press(run, "escape")
        await _press(run, "escape")
        assert len(run.app.screen_stack) == 1
