"""The explain screen on an engine: what arrives later, applying a change, stepping on, leaving."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from memtui.bus import Bus
from memtui.model import CandidatePool, Ranked, Ranking, SearchMode
from memtui.model.inquiry import Place
from memtui.ranking.profiles import for_mode
from memtui.report.explanation import Part, Subject
from memtui.tui.options import UiOptions
from memtui.tui.screens.compare import CompareScreen
from memtui.tui.screens.explain import ChangeList, ExplainScreen
from memtui.tui.screens.search.screen import SearchScreen
from tests.tui.harness import Running, running, settle, until
from tests.tui.inquiry_samples import OUTSIDE, InquiringEngine
from tests.tui.samples import CHUNKS, SampleEngine, make_pool

RANKING = Ranking(k=3)


def _engine(**fields: object) -> Callable[[Bus], SampleEngine]:
    return lambda bus: InquiringEngine(bus, **fields)  # type: ignore[arg-type]


def _options(folder: Path | None = None) -> UiOptions:
    return UiOptions(theme="memtui-dark", ranking=RANKING, state_dir=folder, history=False)


async def _open(run: Running, subject: Subject = "", ranked: Ranked | None = None) -> ExplainScreen:
    """Search, and explain a subject, by default the first near miss."""
    search = run.app.search_screen
    if search.ranked is None:
        await run.search()
    assert search.ranked is not None
    search.notes.explain_in(ranked or search.ranked, subject or search.ranked.drops[0].chunk.id)
    await until(run.pilot, lambda: isinstance(run.app.screen, ExplainScreen))
    screen = run.app.screen
    assert isinstance(screen, ExplainScreen)
    await until(run.pilot, lambda: screen.is_mounted)
    return screen


async def _there(run: Running, screen: ExplainScreen, part: Part) -> None:
    await until(run.pilot, lambda: part not in screen.explained.due)
    await run.pilot.pause()


async def test_the_rest_follows_in_place_and_a_change_is_applied_and_taken_back() -> None:
    gate = threading.Event()
    async with running(_engine(gate=gate), size=(120, 100), options=_options()) as run:
        try:
            screen = await _open(run)
            await _there(run, screen, Part.INQUIRY)
            before = run.text
            keyword, text = screen.query_one("#explain-terms"), screen.query_one("#explain-text")
            places = keyword.virtual_region.y, text.virtual_region.y
        finally:
            gate.set()
        for words in (
            "NOT SHOWN: rank 4 > k 3",
            "… trying every parameter",
            "… comparing sentence by sentence",
            "minus the sum of the shares",
        ):
            assert words in before, words
        await _there(run, screen, Part.LEAST)
        assert "results k" in run.text
        assert "hashed-words" in run.text
        # What is read stays where it is: room was kept for what came.
        assert (keyword.virtual_region.y, text.virtual_region.y) == places

        chunk_id = screen.chunk_id
        search = run.app.search_screen
        await run.pilot.press("a")
        await run.pilot.pause()
        assert search.ranked is not None
        assert chunk_id in {hit.chunk.id for hit in search.ranked.hits}
        assert search.selected_id == chunk_id
        assert "applied: results k 3 → 4   u takes it back" in run.text
        assert "4 of 4" in run.text
        await run.pilot.press("u")
        await run.pilot.pause()
        assert search.ranking == RANKING
        assert not screen.explained.shown
        assert "taken back: results k 3 → 4" in run.text
        await run.pilot.press("escape")
        await run.pilot.pause()
        assert run.app.screen is search
        assert search.selected_id == chunk_id


async def test_two_columns_where_there_is_room_arrows_and_copies(tmp_path: Path) -> None:
    async with running(_engine(), size=(200, 60), options=_options(tmp_path)) as run:
        screen = await _open(run)
        await _there(run, screen, Part.LEAST)
        left, right = screen.query_one("#explain-left"), screen.query_one("#explain-right")
        assert left.region.right <= right.region.x
        assert left.region.y == right.region.y
        await run.pilot.press("y")
        text = run.app.clipboard
        assert "router config" in text
        await run.pilot.press("Y")
        assert run.app.clipboard != text
        assert "| " in run.app.clipboard
        await run.pilot.press("J")
        await run.app.workers.wait_for_complete()
        (saved,) = (tmp_path / "explanations").glob("*.json")
        document = json.loads(saved.read_text(encoding="utf-8"))
        assert (document["query"], document["shown"]) == ("router config", False)

        await run.pilot.resize_terminal(100, 40)
        await until(run.pilot, lambda: left.region.width > 80)
        assert left.region.x == right.region.x
        least = screen.query_one(ChangeList)
        first = least.chosen
        await run.pilot.press("tab", "down")
        assert least.chosen not in (first, None)
        await run.pilot.press("enter")
        await run.pilot.pause()
        assert screen.explained.shown
        assert screen.query_one("#explain-box").has_focus


async def test_a_failing_part_is_told_in_its_place_and_the_others_still_come() -> None:
    engine = _engine(failing={"inquire", "passages"})
    async with running(engine, size=(120, 60), options=_options()) as run:
        screen = await _open(run)
        await _there(run, screen, Part.LEAST)
        assert "✗ no inquire today" in run.text
        assert "✗ no passages today" in run.text
        assert "results k" in run.text
        assert run.app.screen is screen
        await run.pilot.press("y")
        assert "NOT SHOWN: rank 4 > k 3" in run.app.clipboard
        await run.pilot.press("J")
        assert run.toasts[-1] == "Nothing to export: it could not be explained."


async def test_what_was_left_is_dropped_and_leaving_stops_looking() -> None:
    gate = threading.Event()
    async with running(_engine(gate=gate), size=(100, 40), options=_options()) as run:
        try:
            screen = await _open(run)
            await _there(run, screen, Part.INQUIRY)
            left = screen.chunk_id
            text = screen.query_one("#explain-text")
            text.scroll_visible(animate=False, top=True)
            await run.pilot.pause()
            read_at = text.region.y
            assert screen.query_one("#explain-box").scroll_offset.y > 0
            gate.set()
            await _there(run, screen, Part.WORDS)
            await settle(run.app, run.pilot)
            # Words that were found push the text down, and not away from its reader.
            assert text.region.y == read_at
            gate.clear()
            await run.pilot.press("j")
            assert screen.chunk_id != left
            assert screen.explained.passages is None
        finally:
            gate.set()
        await _there(run, screen, Part.PASSAGES)
        explained = screen.explained
        assert explained.inquiry is not None
        assert explained.inquiry.chunk is not None
        assert explained.inquiry.chunk.id == screen.chunk_id
        assert explained.passages is not None
        assert explained.passages.text == explained.inquiry.chunk.text

        gate.clear()
        try:
            await run.pilot.press("j")
            await _there(run, screen, Part.INQUIRY)
            searched = [call for call in run.engine.calls if call.startswith("search")]
            await run.pilot.press("escape")
            await run.pilot.pause()
        finally:
            gate.set()
        await run.app.workers.wait_for_complete()
        assert [call for call in run.engine.calls if call.startswith("search")] == searched
        assert screen.explained.least is None
        assert not run.toasts


async def test_places_outside_the_pool_and_outside_the_index_at_80_by_24() -> None:
    async with running(_engine(), size=(80, 24), options=_options()) as run:
        screen = await _open(run, OUTSIDE.id)
        await _there(run, screen, Part.WORDS)
        assert "memory/2024-05-05.md#L1-L3  not shown" in run.text
        assert screen.query_one("#explain-arithmetic").display is False
        box = screen.query_one("#explain-box")
        seen = run.text
        for _ in range(6):
            box.scroll_page_down(animate=False)
            await run.pilot.pause()
            seen += run.text
        for words in (
            "NOT SHOWN: vector pool: #51 of 71, beyond the first 50",
            "nothing that was asked finds it",
            "Least changes",
            "Other words",
            "the keyword leg does not find this chunk",
            "#51 of 71",
            "Sold the old switch",
        ):
            assert words in seen, words
        assert box.max_scroll_x == 0
        search = run.app.search_screen
        assert search.ranked is not None
        await run.pilot.press("k")
        assert screen.chunk_id == search.ranked.drops[-1].chunk.id
        await run.pilot.press("escape")

        screen = await _open(run, Place("huge.md", 4))
        await until(run.pilot, lambda: not screen.explained.due)
        await run.pilot.pause()
        assert "Explain  huge.md:4  not shown" in run.text
        assert "NOT SHOWN: too large, 19 MB, limit 7.6 MB" in run.text
        assert "Terms" not in run.text
        assert "Least changes" not in run.text
        assert screen.chunk_id is None
        await run.pilot.press("a", "p", "escape")
        assert search.pinned == ()

        other = run.engine.search.rerank(search.ranked.pool, replace(RANKING, k=1))
        screen = await _open(run, CHUNKS[0].id, other)
        search.search.redraw()
        await run.pilot.pause()
        assert screen.controller.ranked is other


async def test_a_word_is_added_to_the_query_and_taken_out_again() -> None:
    nearest = make_pool(chunks=(CHUNKS[0], CHUNKS[7], *CHUNKS[1:7]))
    engine = _engine(better={"modem": nearest})
    async with running(engine, size=(120, 60), options=_options()) as run:
        screen = await _open(run, CHUNKS[7].id)
        await _there(run, screen, Part.WORDS)
        words = screen.explained.words
        assert words is not None
        assert [change.added for change in words.changes] == [("modem",)]
        least = screen.query_one(ChangeList)
        await run.pilot.press("tab", *["down"] * 12)
        assert least.chosen == words.changes[0]
        await run.pilot.press("a")
        search = run.app.search_screen
        await until(run.pilot, lambda: screen.explained.shown)
        await run.pilot.pause()
        assert search.query_input.value == "router config modem"
        # Asked as it was tried: as typed, its last word the beginning of one.
        assert run.engine.finished == []
        assert search.selected_id == screen.chunk_id
        assert search.results.chosen_id == screen.chunk_id
        assert "applied: +modem   u takes it back" in run.text
        assert f"{words.changes[0].rank_after} of 3" in run.text
        await run.pilot.press("u")
        await until(run.pilot, lambda: not screen.explained.shown)
        assert search.query_input.value == "router config"
        assert screen.chunk_id == CHUNKS[7].id


# --- over a search where one leg ranks alone, and over the comparison ---------------------------

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


def _over_options() -> UiOptions:
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
    async with running(_alone, size=(80, 24), options=_over_options()) as run:
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
    async with running(_alone, size=(80, 24), options=_over_options()) as run:
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
    async with running(make, size=(80, 24), options=_over_options()) as run:
        await run.search()
        run.app.search_screen.notes.pin_chunk(CHUNKS[0])
        run.app.search_screen.notes.pin_chunk(OUTSIDE)
        await run.pilot.press("escape")
        await run.pilot.press("c")
        await _top(run, CompareScreen)
        assert "x says why" in run.text
        await run.pilot.press("x")
        screen = await _explained(run)
        assert screen.chunk_id == OUTSIDE.id
        assert "NOT SHOWN" in run.text
