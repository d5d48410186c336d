"""The explain screen over a search where one leg ranks alone, and over the comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from memtui.bus import Bus
from memtui.model import CandidatePool, Ranked, Ranking, SearchMode
from memtui.ranking.profiles import for_mode
from memtui.report.explanation import Part
from memtui.tui.options import UiOptions
from memtui.tui.screens.compare import CompareScreen
from memtui.tui.screens.explain import ExplainScreen
from memtui.tui.screens.search.screen import SearchScreen
from tests.tui.harness import Running, running, settle, until
from tests.tui.inquiry_samples import OUTSIDE, InquiringEngine
from tests.tui.samples import CHUNKS, SampleEngine, make_pool

RANKING = Ranking(k=3)
PROFILES = {"memtui": RANKING, "mine": replace(RANKING, profile="mine", k=2)}
ALONE = replace(make_pool(), search_mode=SearchMode.KEYWORD_ONLY)


class NarrowingEngine(InquiringEngine):
    """Ranks as the engine of an agent's index does: with what the legs that can search allow."""

    reranked = 0

    def rerank(self, pool: CandidatePool, ranking: Ranking) -> Ranked:
        self.reranked += 1
        return super().rerank(pool, for_mode(ranking, pool.search_mode))


def _alone(bus: Bus) -> SampleEngine:
    return NarrowingEngine(bus, ALONE)


def _options() -> UiOptions:
    return UiOptions(theme="memtui-dark", ranking=RANKING, profiles=PROFILES, history=False)


async def _top(run: Running, kind: type[SearchScreen | CompareScreen | ExplainScreen]) -> None:
    await until(run.pilot, lambda: type(run.app.screen) is kind)
    await settle(run.app, run.pilot)


async def _explained(run: Running) -> ExplainScreen:
    await _top(run, ExplainScreen)
    screen = run.app.screen
    assert isinstance(screen, ExplainScreen)
    await until(run.pilot, lambda: Part.LEAST not in screen.explained.due)
    await run.pilot.pause()
    return screen


async def _press_x_on(run: Running, chunk_id: str) -> ExplainScreen:
    search = run.app.search_screen
    search.notes.select(chunk_id)
    await run.pilot.press("x")
    return await _explained(run)


async def test_a_change_is_of_the_asked_ranking_where_one_leg_ranks_alone() -> None:
    async with running(_alone, size=(80, 24), options=_options()) as run:
        search = run.app.search_screen
        await run.search()
        await run.pilot.press("escape")
        assert search.ranked is not None
        assert search.ranked.ranking != search.ranking
        engine = search.engine
        assert isinstance(engine, NarrowingEngine)
        assert engine.reranked == 1, "an answer that ranks as asked is not ranked again"
        screen = await _press_x_on(run, search.ranked.drops[0].chunk.id)
        await run.pilot.press("a")
        await settle(run.app, run.pilot)
        assert search.ranking == replace(RANKING, k=4)
        assert screen.explained.shown
        # A weight changes nothing with one leg, and a later change must not take it back.
        search.rankings.change(replace(search.ranking, vector_weight=0.5))
        await settle(run.app, run.pilot)
        assert screen.controller.ranking == search.ranking
        await run.pilot.press("u")
        assert "taken back: the last change of the parameters" in run.text
        assert search.ranking == replace(RANKING, k=4)
        await run.pilot.press("u")
        assert "taken back: results k 3 → 4" in run.text
        assert search.ranking == RANKING
        await run.pilot.press("u")
        assert run.toasts[-1] == "Nothing to take back here."
        assert not screen.explained.shown


async def test_over_the_comparison_its_rankings_are_explained_and_c_goes_back_to_it() -> None:
    async with running(_alone, size=(80, 24), options=_options()) as run:
        search = run.app.search_screen
        await run.search()
        await run.pilot.press("escape", "c")
        await _top(run, CompareScreen)
        assert "esc back  ? help" in run.text
        await run.pilot.press("x")
        screen = await _explained(run)
        assert screen.controller.ranking == PROFILES["mine"]
        await run.pilot.press("c")
        await _top(run, CompareScreen)
        assert len(run.app.screen_stack) == 2
        assert search.ranking == RANKING


async def test_why_a_pinned_chunk_is_no_candidate_is_one_key_away() -> None:
    make: Callable[[Bus], SampleEngine] = InquiringEngine
    async with running(make, size=(80, 24), options=_options()) as run:
        await run.search()
        run.app.search_screen.inquiry.pin_chunk(CHUNKS[0])
        run.app.search_screen.inquiry.pin_chunk(OUTSIDE)
        await run.pilot.press("escape")
        await run.pilot.press("c")
        await _top(run, CompareScreen)
        assert "x says why" in run.text
        await run.pilot.press("x")
        screen = await _explained(run)
        assert screen.chunk_id == OUTSIDE.id
        assert "NOT SHOWN" in run.text
