"""The sweep screen: exact flips, the list at the cursor, following the pool, the mouse."""

from __future__ import annotations

from dataclasses import replace

from memtui.model import Mmr, Ranked, Ranking
from memtui.ranking.counterfactual import Parameter, apply
from memtui.ranking.pipeline import rank
from memtui.tui.options import UiOptions
from memtui.tui.screens.sweep import SweepScreen, flips_of, value_text
from memtui.tui.widgets.chart import RankChart
from tests.support.small_memory import NOW, SmallMemory
from tests.tui.harness import Running, running, settle, until

BASE = Ranking(mmr=Mmr(enabled=True, lambda_=0.7), k=6)
OPTIONS = UiOptions(theme="memtui-dark", ranking=BASE)


async def opened(run: Running) -> SweepScreen:
    """Open the sweep on a search and wait until it is exact."""
    await run.search()
    await run.press("escape", "S")
    screen = run.app.screen
    assert isinstance(screen, SweepScreen)
    await until(run.pilot, lambda: screen.swept is not None)
    await settle(run.app, run.pilot)
    return screen


def ids(ranked: Ranked) -> list[str]:
    return [hit.chunk.id for hit in ranked.hits]


def ranked_at(screen: SweepScreen, parameter: Parameter, value: float) -> list[str]:
    pool = screen.ranked.pool
    return ids(rank(pool, apply(BASE, parameter, value), now=NOW))


async def test_the_cursor_goes_from_flip_to_flip_and_shows_the_list_there(
    memory: SmallMemory,
) -> None:
    async with running(memory.open, options=OPTIONS) as run:
        await run.press("escape", "S")
        assert "Nothing to sweep: search for something first." in run.toasts
        screen = await opened(run)
        assert (screen.parameter, screen.cursor) == (Parameter.VECTOR_WEIGHT, 0.3)
        assert screen.swept is not None
        flips = flips_of(screen.swept)
        before, seen = ids(screen.list_at_cursor()), 0
        while True:
            at = screen.cursor
            await run.pilot.press("right")
            if screen.cursor == at:
                break
            crossed = [flip for flip in flips if at < flip < screen.cursor]
            assert len(crossed) == 1
            there = ids(screen.list_at_cursor())
            assert there == ranked_at(screen, Parameter.VECTOR_WEIGHT, screen.cursor)
            assert there != before
            assert ranked_at(screen, Parameter.VECTOR_WEIGHT, crossed[0] - 1e-7) == before
            before, seen = there, seen + 1
        assert seen == sum(flip > 0.3 for flip in flips) > 1
        await run.press("left")
        assert screen.cursor < flips[-1]
        assert f"at vector {value_text(screen.parameter, screen.cursor)}" in run.text
        await until(run.pilot, lambda: f"{len(flips)} flips, exact" in run.text)
        for parameter in ("λ", "half-life", "floor", "min", "k", "vector"):
            await run.press("tab")
            assert f"at {parameter} " in run.text
        await run.press("escape")
        assert run.app.search_screen.ranking == BASE


async def test_enter_ranks_by_the_value_and_one_key_takes_it_back(memory: SmallMemory) -> None:
    off = replace(BASE, mmr=Mmr(enabled=False, lambda_=0.7))
    async with running(memory.open, options=replace(OPTIONS, ranking=off)) as run:
        screen = await opened(run)
        await run.press("7")
        assert "RRF k is not used by this ranking." in run.toasts
        await run.press("2")
        await until(run.pilot, lambda: screen.swept is not None)
        await run.press("left")
        value, shown = screen.cursor, ids(screen.list_at_cursor())
        await run.press("enter")
        search = run.app.search_screen
        assert search.ranking == replace(off, mmr=Mmr(enabled=True, lambda_=value))
        assert search.ranked is not None
        assert ids(search.ranked) == shown
        await run.press("u")
        assert search.ranking == off


async def test_the_sweep_follows_an_index_that_changes(memory: SmallMemory) -> None:
    async with running(memory.open, options=OPTIONS) as run:
        screen = await opened(run)
        await run.press("l")
        cursor, before = screen.cursor, screen.ranked
        path = memory.root / "memory/new.md"
        path.write_text("# Router config\n\nThe router config is new: router config.\n")
        run.engine.index.sync()
        await until(run.pilot, lambda: screen.ranked is not before)
        await until(run.pilot, lambda: len(screen.ranked.pool.chunks) == 15)
        await until(run.pilot, lambda: screen.swept is not None)
        assert screen.cursor == cursor
        assert screen.swept is not None
        exact = ranked_at(screen, screen.parameter, cursor)
        assert len(screen.swept.ranks) == 15
        for chunk_id, segments in screen.swept.ranks.items():
            here = next(one for one in segments if one.start <= cursor <= one.end)
            assert here.rank == (exact.index(chunk_id) + 1 if chunk_id in exact else None)


async def test_a_pinned_chunk_has_a_line_besides_the_results(memory: SmallMemory) -> None:
    async with running(memory.open, options=OPTIONS) as run:
        await run.search()
        search = run.app.search_screen
        assert search.ranked is not None
        pinned = search.ranked.drops[-1].chunk
        search.notes.pin_chunk(pinned)
        screen = await opened(run)
        lines = screen.lines()
        assert [line.letter for line in lines] == list("ABCDEFG")
        assert list(screen.traced)[-1] == pinned.id
        await run.press(*["down"] * 9)
        assert [line.chosen for line in screen.lines()] == [False] * 6 + [True]


async def test_a_click_moves_the_cursor(memory: SmallMemory) -> None:
    async with running(memory.open, options=OPTIONS) as run:
        screen = await opened(run)
        column = screen.query_one(RankChart).plot().column(0.8)
        await run.pilot.click(RankChart, offset=(column + 4, 3))
        await settle(run.app, run.pilot)
        assert abs(screen.cursor - 0.8) < 0.02
