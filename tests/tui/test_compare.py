"""The comparison: two rankings side by side, two results step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memtui.model import Decay, Drop, Fusion, Hit, Leg, Mmr, Ranked, Ranking, Stage
from memtui.ranking.trace import (
    compare_settings,
    deciding_step,
    difference,
    find,
)
from memtui.tui.glyphs import ASCII, UNICODE
from memtui.tui.options import UiOptions
from memtui.tui.present.comparison import Look, comparison_lines, setting_lines, two_results
from memtui.tui.screens.compare import CONFIGURED, CURRENT, CompareScreen
from memtui.tui.screens.explain import ExplainScreen
from tests.tui.harness import Running, resize, running, settle, until
from tests.tui.samples import NOTES, SampleEngine, make_pool, make_ranked

BASE = Ranking(k=5)
OTHER = replace(BASE, decay=Decay(enabled=True), mmr=Mmr(enabled=True, lambda_=0.5))


def options(ranking: Ranking = BASE, **more: object) -> UiOptions:
    return UiOptions(theme="memtui-dark", ranking=ranking, **more)  # type: ignore[arg-type]


def ids(ranked: Ranked) -> list[str]:
    return [hit.chunk.id for hit in ranked.hits]


async def opened(run: Running, *keys: str) -> CompareScreen:
    """Search, press keys, open the comparison."""
    await run.search()
    await run.pilot.press("escape", *keys, "c")
    await until(run.pilot, lambda: isinstance(run.app.screen, CompareScreen))
    screen = run.app.screen
    assert isinstance(screen, CompareScreen)
    await settle(run.app, run.pilot)
    return screen


# --- comparing as values ------------------------------------------------------------------------


def test_lists_are_paired_chunk_by_chunk() -> None:
    first, second = make_ranked(BASE), make_ranked(OTHER)
    found = difference(first, second)
    before, after = (dict(zip(ids(one), range(1, 99), strict=False)) for one in (first, second))
    assert [pair.chunk_id for pair in found.pairs if pair.second is not None] == ids(second)
    assert set(found.entered) == after.keys() - before.keys()
    assert set(found.left) == before.keys() - after.keys()
    assert found.left
    for pair in found.pairs:
        assert (pair.first, pair.second) == (before.get(pair.chunk_id), after.get(pair.chunk_id))
        moved = before.get(pair.chunk_id, 0) - after.get(pair.chunk_id, 0)
        is_both = pair.chunk_id in before and pair.chunk_id in after
        assert found.moved.get(pair.chunk_id, 0) == (moved if is_both else 0)
    assert not difference(first, first)
    assert difference(None, first).entered == tuple(ids(first))


def test_only_settings_that_differ_are_named_by_their_keys() -> None:
    assert compare_settings(BASE, BASE) == ()
    found = compare_settings(BASE, replace(OTHER, fusion=Fusion.RRF, min_score=0.2))
    assert {one.name: (one.first, one.second) for one in found} == {
        "fusion": ("relative_score", "rrf"),
        "decay.enabled": (False, True),
        "min_score": (None, 0.2),
        "mmr.enabled": (False, True),
        "mmr.lambda": (0.7, 0.5),
    }


@pytest.mark.parametrize("width", [76, 116, 190])
def test_settings_without_room_are_counted(width: int) -> None:
    many = replace(
        OTHER,
        k=9,
        fusion=Fusion.RRF,
        vector_weight=0.9,
        keyword_weight=0.1,
        dedup=True,
        min_score=0.2,
        rrf_k=60,
        min_candidates=10,
    )
    found = compare_settings(BASE, many)
    lines = setting_lines(found, width, 2, UNICODE)
    assert len(lines) <= 2
    assert all(line.cell_length <= width for line in lines)
    text = " ".join(line.plain for line in lines)
    named = text.count("→")
    assert named == len(found) or text.endswith(f"+{len(found) - named} more")


def test_the_step_that_decides() -> None:
    ranked = make_ranked(replace(BASE, k=10))
    top, last = ranked.hits[0], ranked.hits[-1]
    leg = deciding_step(top, last)
    assert isinstance(leg, Leg)
    leads = {
        one: sum(
            sign * (scored.legs[one].contribution if one in scored.legs else 0.0)
            for sign, scored in ((1, top), (-1, last))
        )
        for one in Leg
    }
    assert leads[leg] == max(leads.values())
    assert deciding_step(top, top) is None
    assert deciding_step(last, top) is leg


def test_a_stage_that_turns_the_order_decides() -> None:
    before = make_ranked(replace(BASE, k=10))
    after = make_ranked(replace(BASE, k=10, decay=Decay(enabled=True, half_life_days=7)))
    turned = 0
    for better in after.hits:
        for worse in after.hits[better.rank :]:
            first, second = find(before, better.chunk.id), find(before, worse.chunk.id)
            assert isinstance(first, Hit)
            assert isinstance(second, Hit)
            found = deciding_step(better, worse)
            assert (found is Stage.DECAY) == (first.rank > second.rank)
            turned += found is Stage.DECAY
    assert turned > 0


def test_what_loses_a_result_decides() -> None:
    ranked = make_ranked(replace(BASE, min_score=0.5))
    lost = next(drop for drop in ranked.drops if drop.stage is Stage.MIN_SCORE)
    assert deciding_step(ranked.hits[0], lost) is Stage.MIN_SCORE
    cut = make_ranked(replace(BASE, k=2))
    beyond = cut.drops[0]
    assert isinstance(beyond, Drop)
    assert beyond.stage is Stage.CUT
    assert isinstance(deciding_step(cut.hits[0], beyond), Leg)


# --- drawing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 76, 116, 190])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_both_lists_fill_the_width(width: int, glyphs: object) -> None:
    assert glyphs in (UNICODE, ASCII)
    first, second = make_ranked(BASE), make_ranked(replace(OTHER, k=8))
    found = difference(first, second)
    for lines in (1, 2, 3):
        look = Look(width, lines, ASCII if glyphs is ASCII else UNICODE, second.hits[2].chunk.id)
        drawn = comparison_lines(first, second, found, look)
        assert len(drawn) == lines * 8
        assert {line.cell_length for line in drawn} == {look.column * 2 + look.gutter}


def test_moves_new_and_out_are_words_and_glyphs_beside_the_ranks() -> None:
    first, second = make_ranked(BASE), make_ranked(OTHER)
    found = difference(first, second)
    drawn = comparison_lines(first, second, found, Look(116, 1, ASCII))
    for pair in found.pairs:
        if pair.second is None:
            assert pair.first is not None
            assert f" {pair.first} -- out" in drawn[pair.first - 1].plain
            continue
        row = drawn[pair.second - 1].plain
        mark = f"^{pair.gained}" if pair.gained > 0 else f"v{-pair.gained}"
        mark = "=" if pair.gained == 0 else mark
        assert f" {pair.second} {'new' if pair.first is None else mark}" in row
    assert len(found.left) == len(found.entered) > 0


def test_two_results_show_each_step_with_its_difference() -> None:
    ranked = make_ranked(replace(OTHER, k=6))
    first, second = ranked.hits[0], ranked.hits[3]
    for width in (76, 116, 190):
        drawn = [line.plain for line in two_results(ranked, first, second, width, UNICODE)]
        assert all(len(line) <= width for line in drawn)
        fused = next(line for line in drawn if " fused " in line)
        values = first.stages[0].after, second.stages[0].after
        assert f"{values[0]:.3f}" in fused
        assert f"{values[1]:.3f}" in fused
        assert f"{abs(values[1] - values[0]):.3f}" in fused
        decided = [line for line in drawn if line.rstrip().endswith("◀")]
        assert len(decided) == 1
        found = deciding_step(first, second)
        assert isinstance(found, Leg)
        word = found.value
        assert f" {word} " in decided[0]
        assert any("A is ahead of B" in line for line in drawn)


# --- the screen ---------------------------------------------------------------------------------


async def test_the_configured_ranking_is_beside_the_current_one() -> None:
    async with running(options=options(), size=(120, 40)) as run:
        screen = await opened(run, "d", "m")
        first, second = screen.comparison.sides
        assert (first.name, second.name) == (CONFIGURED, CURRENT)
        assert first.ranked is not None
        assert second.ranked is run.app.search_screen.ranked
        assert second.ranked is not None
        moves = difference(first.ranked, second.ranked)
        counts = f"moved {len(moves.moved)}, in {len(moves.entered)}, out {len(moves.left)}"
        assert counts in run.text
        assert "decay off→on" in run.text
        assert "MMR off→on" in run.text
        assert "fusion" not in run.text
        await run.pilot.press("s")
        await settle(run.app, run.pilot)
        assert [side.name for side in screen.comparison.sides] == [CURRENT, CONFIGURED]
        assert "decay on→off" in run.text


async def test_equal_rankings_are_said_and_another_profile_is_shown() -> None:
    own = replace(BASE, profile="mine", k=3)
    profiles = {"memtui": BASE, "mine": own}
    async with running(options=options(BASE, profiles=profiles), size=(120, 40)) as run:
        screen = await opened(run)
        assert [side.name for side in screen.comparison.sides] == [CURRENT, "mine"]
        assert "Nothing differs from the configured ranking" in run.text
        names = []
        for _ in range(4):
            await run.pilot.press("b")
            names.append(screen.comparison.sides[1].name)
        assert names == [CONFIGURED, CURRENT, "memtui", "mine"]
        await run.pilot.press("A")
        assert screen.comparison.sides[0].name == CONFIGURED


async def test_moving_choosing_and_explaining() -> None:
    async with running(options=options(), size=(80, 24)) as run:
        screen = await opened(run, "d")
        second = screen.comparison.sides[1].ranked
        assert second is not None
        chosen = second.hits[2]
        await run.pilot.press(*["up"] * 5, "down", "down")
        await settle(run.app, run.pilot)
        assert run.text.count("›") == 2
        assert chosen.citation in run.text
        await run.pilot.press("x")
        await settle(run.app, run.pilot)
        assert [type(one) for one in run.app.screen_stack[1:]] == [CompareScreen, ExplainScreen]
        await run.pilot.press("escape")
        await settle(run.app, run.pilot)
        assert run.app.screen_stack[-1] is screen
        await run.pilot.press("enter")
        await settle(run.app, run.pilot)
        assert run.app.search_screen.selected_id == chosen.chunk.id


async def test_what_is_only_in_the_other_list_is_chosen_among_the_near_misses() -> None:
    async with running(options=options(), size=(80, 24)) as run:
        screen = await opened(run, "d", "minus")
        gone = next(pair for pair in screen.comparison.difference.pairs if pair.second is None)
        await run.pilot.press("left")
        while screen.comparison.chosen != gone.chunk_id:
            await run.pilot.press("down")
        await run.pilot.press("enter")
        await settle(run.app, run.pilot)
        search = run.app.search_screen
        assert search.selected_id == search.near.chosen_id == gone.chunk_id


async def test_a_ranking_that_takes_other_candidates_is_searched_for() -> None:
    profiles = {"memtui": BASE, "deep": replace(BASE, profile="deep", k=30)}
    async with running(
        lambda bus: SampleEngine(bus, make_pool(limit=50)), options=options(profiles=profiles)
    ) as run:
        screen = await opened(run)
        assert "search router config" in run.engine.calls
        await until(run.pilot, lambda: screen.comparison.sides[1].ranked is not None)
        there = screen.comparison.sides[1].ranked
        assert there is not None
        assert len(there.hits) == len(NOTES)


async def test_a_search_that_fails_is_told_in_its_place() -> None:
    class Failing(SampleEngine):
        def ask(self, text: str, *, ranking: Ranking | None = None, typing: bool = False) -> Ranked:
            raise OSError("disk [/] gone")

    profiles = {"memtui": BASE, "deep": replace(BASE, profile="deep", k=30)}
    async with running(Failing, options=options(profiles=profiles), size=(120, 40)) as run:
        await opened(run)
        assert "B could not search: OSError: disk [/] gone" in run.text


async def test_two_pinned_results_are_compared_step_by_step() -> None:
    async with running(options=options(OTHER), size=(80, 14)) as run:
        await run.search()
        search = run.app.search_screen
        assert search.ranked is not None
        first, second = search.ranked.hits[1], search.ranked.drops[0]
        search.notes.pin_chunk(first.chunk)
        search.notes.pin_chunk(second.chunk)
        await opened(run)
        assert "Compare two results" in run.text
        # Where it scrolls, the scroll bar hides nothing.
        assert run.app.screen.query_one("#compare-scroll").show_vertical_scrollbar
        assert "NOT SHOWN: rank 6 > k 5" in run.text
        await resize(run.pilot, (80, 24))
        assert "A is ahead of B" in run.text
        assert first.citation in run.text
        assert "decides" in run.text
        await run.pilot.press("s")
        await settle(run.app, run.pilot)
        assert "B is ahead of A" in run.text
        await run.pilot.press("tab")
        await settle(run.app, run.pilot)
        assert "Compare two rankings" in run.text


async def test_the_comparison_follows_another_answer() -> None:
    async with running(options=options()) as run:
        screen = await opened(run, "d")
        before = screen.comparison.sides[1].ranked
        run.app.search_screen.rankings.change(replace(OTHER, k=2))
        await settle(run.app, run.pilot)
        after = screen.comparison.sides[1].ranked
        assert after is not before
        assert after is run.app.search_screen.ranked
        assert "k 5→2" in run.text
