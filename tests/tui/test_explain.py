"""The explain screen: the whole story of one result or near miss."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memtui.model import Drop, Ranking
from memtui.ranking.trace import explain
from memtui.tui import format as fmt
from memtui.tui.explaining.page import page_of, page_text
from memtui.tui.screens.explain import ExplainScreen
from tests.tui.reader_samples import RANKING, ReaderApp, everything, ranked, screen_text


async def _open(size: tuple[int, int], place: int = 2, ranking: Ranking = RANKING) -> str:
    result = ranked(ranking)
    app = ReaderApp()
    ids = [hit.chunk.id for hit in result.hits] + [drop.chunk.id for drop in result.drops]
    async with app.run_test(size=size) as pilot:
        await app.push_screen(ExplainScreen(result, ids[place]))
        await pilot.pause()
        return screen_text(app)


async def test_it_fills_a_narrow_terminal_and_floats_in_a_wide_one() -> None:
    narrow = await _open((80, 24))
    assert narrow.splitlines()[0].startswith("╭─ Explain")
    assert narrow.splitlines()[-1].endswith("esc back ─╯")
    wide = await _open((120, 40))
    assert not wide.splitlines()[0].strip()
    assert "╭─ Explain  memory/2026-02-09.md#L4-L22  3 of 6" in wide


async def test_it_tells_everything_about_a_hit() -> None:
    text = await _open((140, 60))
    for words in (
        "SHOWN at rank 3.",
        "without MMR",
        "min-max of cos 0.418",
        "min-max of bm25 −6.40",
        "router config",
        "2026-02-09, file name, 4.4 d",
        "= 2^(−4.4 d / 30 d)",
        "(1 − 0.70)/0.70 ×",
        "memory/2026-02-10.md#L12-L31",
        "Jaccard",
        "shared:",
        '"router" OR "config"',
        "the, my",
        "Vector leg",
        "✓ ok  8 hits  4 ms  matrix  minilm",
        "Configured Omada router again",
    ):
        assert words in text, words


async def test_a_near_miss_says_where_it_was_lost() -> None:
    text = await _open((120, 50), place=6, ranking=replace(RANKING, min_score=0.3))
    assert "not shown" in text
    assert "NOT SHOWN:" in text


async def test_j_and_k_go_through_hits_and_near_misses() -> None:
    result = ranked()
    app = ReaderApp()
    closed: list[str | None] = []
    async with app.run_test(size=(100, 40)) as pilot:
        screen = ExplainScreen(result, result.hits[0].chunk.id)
        app.push_screen(screen, closed.append)
        await pilot.pause()
        await pilot.press("k")
        assert screen.chunk_id == result.hits[0].chunk.id
        for _ in range(20):
            await pilot.press("j")
        assert screen.chunk_id == result.drops[-1].chunk.id
        assert "not shown" in screen_text(app)
        await pilot.press("k", "escape")
        await pilot.pause()
        assert closed == [result.drops[-2].chunk.id]


async def test_y_copies_the_text() -> None:
    result = ranked()
    app = ReaderApp()
    async with app.run_test(size=(100, 40), notifications=True) as pilot:
        await app.push_screen(ExplainScreen(result, result.hits[2].chunk.id))
        await pilot.press("y")
        await pilot.pause()
        assert app.clipboard == page_text(page_of(result, result.hits[2].chunk.id))
        assert "copied" in screen_text(app)


def test_the_text_holds_every_number_of_the_trace() -> None:
    result = ranked()
    for scored in everything(result):
        text = page_text(page_of(result, scored.chunk.id))
        for part in scored.legs.values():
            assert fmt.score(part.contribution) in text
        for stage in scored.stages:
            assert fmt.score(stage.after) in text
        if isinstance(scored, Drop):
            assert "NOT SHOWN" in text


def test_the_other_settings_are_those_that_ranking_computes() -> None:
    result = ranked()
    hit = result.hits[2]
    other = explain(result, hit.chunk.id).without["mmr"]
    assert f"{other} without MMR" in page_text(page_of(result, hit.chunk.id))


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (40, 10), (300, 80)])
async def test_any_size_is_survived(size: tuple[int, int]) -> None:
    await _open(size)
