"""The sweep screen: exact flips, the list at the cursor, applying, following the pool."""

from __future__ import annotations

from dataclasses import replace

from memtui.bus import Bus, SearchReady
from memtui.model import Mmr, Ranked, Ranking
from memtui.ranking.counterfactual import Parameter, apply
from memtui.ranking.pipeline import rank
from memtui.tui.options import UiOptions
from memtui.tui.screens.sweep import SweepScreen, flips_of, value_text
from memtui.tui.widgets.chart import RankChart
from tests.tui.harness import Running, running, settle, until
from tests.tui.samples import CHUNKS, NOW, SampleEngine, make_pool

BASE = Ranking(mmr=Mmr(enabled=True, lambda_=0.7), k=6)
OFF = Ranking(mmr=Mmr(enabled=False, lambda_=0.7), k=6)


def options(ranking: Ranking = BASE, glyphs: str = "unicode") -> UiOptions:
    return UiOptions(theme="memtui-dark", ranking=ranking, glyphs=glyphs)


async def opened(run: Running, *keys: str) -> SweepScreen:
    """Open the sweep on the sample and wait until it is exact."""
    await run.search()
    await run.pilot.press("escape", "S")
    await until(run.pilot, lambda: isinstance(run.app.screen, SweepScreen))
    for key in keys:
        await run.pilot.press(key)
    screen = run.app.screen
    assert isinstance(screen, SweepScreen)
    await until(run.pilot, lambda: screen.controller.swept is not None)
    await settle(run.app, run.pilot)
    return screen


def ids(ranked: Ranked) -> list[str]:
    return [hit.chunk.id for hit in ranked.hits]


def ranked_at(ranking: Ranking, parameter: Parameter, value: float) -> list[str]:
    return ids(rank(make_pool(), apply(ranking, parameter, value), now=NOW))


async def test_the_cursor_goes_from_flip_to_flip_and_shows_the_list_there() -> None:
    async with running(options=options()) as run:
        screen = await opened(run)
        assert screen.controller.parameter is Parameter.VECTOR_WEIGHT
        assert screen.controller.cursor == BASE.vector_weight
        assert screen.controller.swept is not None
        flips = flips_of(screen.controller.swept)
        before = ids(screen.controller.list_at_cursor())
        seen = 0
        while True:
            at = screen.controller.cursor
            await run.pilot.press("right")
            if screen.controller.cursor == at:
                break
            crossed = [flip for flip in flips if at < flip < screen.controller.cursor]
            assert len(crossed) == 1
            there = ids(screen.controller.list_at_cursor())
            assert there == ranked_at(BASE, Parameter.VECTOR_WEIGHT, screen.controller.cursor)
            assert there != before
            assert ranked_at(BASE, Parameter.VECTOR_WEIGHT, crossed[0] - 1e-7) == before
            before, seen = there, seen + 1
        assert seen == sum(flip > BASE.vector_weight for flip in flips) > 1
        await run.pilot.press("left")
        await settle(run.app, run.pilot)
        assert screen.controller.cursor < flips[-1]
        assert (
            f"at vector {value_text(screen.controller.parameter, screen.controller.cursor)}"
            in run.text
        )
        assert f"{len(flips)} flips, exact" in run.text
        assert "now 0.30" in run.text


async def test_enter_ranks_by_the_value_and_one_key_takes_it_back() -> None:
    async with running(options=options(OFF), size=(120, 24)) as run:
        screen = await opened(run, "2")
        assert "with MMR on" in run.text
        assert "off 0.70" in run.text or "▲ 0.70" in run.text
        await run.pilot.press("left")
        value, shown = screen.controller.cursor, ids(screen.controller.list_at_cursor())
        await run.pilot.press("enter")
        await settle(run.app, run.pilot)
        search = run.app.search_screen
        assert run.app.screen is search
        assert f"MMR on, λ 0.70→{value:.2f}: " in run.text
        assert search.ranking == replace(OFF, mmr=Mmr(enabled=True, lambda_=value))
        assert search.ranked is not None
        assert ids(search.ranked) == shown
        await run.pilot.press("u")
        await settle(run.app, run.pilot)
        assert search.ranking == OFF
        assert search.ranked is not None
        assert ids(search.ranked) == ids(rank(make_pool(), OFF, now=NOW))


async def test_parameters_are_chosen_by_number_and_by_tab() -> None:
    async with running(options=options()) as run:
        screen = await opened(run)
        seen = [screen.controller.parameter]
        for _ in range(6):
            screen.action_parameter(1)
            seen.append(screen.controller.parameter)
        assert seen == [
            Parameter.VECTOR_WEIGHT,
            Parameter.LAMBDA,
            Parameter.HALF_LIFE,
            Parameter.FLOOR,
            Parameter.MIN_SCORE,
            Parameter.K,
            Parameter.VECTOR_WEIGHT,
        ]
        await run.pilot.press("7")
        assert "RRF k is not used by this ranking." in run.toasts
        await run.pilot.press("6")
        await until(run.pilot, lambda: screen.controller.swept is not None)
        await run.pilot.press("right")
        assert screen.controller.cursor == BASE.k + 1
        assert len(screen.controller.list_at_cursor().hits) == BASE.k + 1
        await run.pilot.press("5")
        await until(run.pilot, lambda: screen.controller.swept is not None)
        await settle(run.app, run.pilot)
        assert "at min 0.00" in run.text
        await run.pilot.press("escape")
        await settle(run.app, run.pilot)
        assert run.app.search_screen.ranking == BASE


async def test_the_sweep_follows_a_pool_that_changes() -> None:
    def small(bus: Bus) -> SampleEngine:
        return SampleEngine(bus, make_pool(chunks=CHUNKS[:6]))

    async with running(small, options=options()) as run:
        screen = await opened(run)
        await run.pilot.press("l")
        cursor, before = screen.controller.cursor, ids(screen.controller.list_at_cursor())
        search = run.app.search_screen
        search.search.ask(quiet=True)
        pool = replace(make_pool(), query=search.search.text)
        grown = SearchReady(search.search.sequence, run.engine.search.rerank(pool, BASE), True)
        run.app.bus.publish(grown)
        await until(run.pilot, lambda: ids(screen.controller.list_at_cursor()) != before)
        await until(run.pilot, lambda: screen.controller.swept is not None)
        assert screen.controller.cursor == cursor
        assert screen.controller.swept is not None
        assert set(screen.controller.swept.ranks) == {chunk.id for chunk in CHUNKS}
        exact = ranked_at(BASE, screen.controller.parameter, cursor)
        for chunk_id, segments in screen.controller.swept.ranks.items():
            here = next(one for one in segments if one.start <= cursor <= one.end)
            assert here.rank == (exact.index(chunk_id) + 1 if chunk_id in exact else None)


async def test_a_click_moves_the_cursor() -> None:
    async with running(options=options()) as run:
        await run.pilot.press("escape", "S")
        assert "Nothing to sweep: search for something first." in run.toasts
        screen = await opened(run)
        chart = screen.query_one(RankChart)
        column = chart.plot().column(0.8)
        await run.pilot.click(RankChart, offset=(column + 4, 3))
        await settle(run.app, run.pilot)
        assert abs(screen.controller.cursor - 0.8) < 0.02
