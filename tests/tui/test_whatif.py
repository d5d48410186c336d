"""Taking changes of the ranking back, and what a list says about a change."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, pairwise

from memtui.model import Decay, Mmr, Ranked, Ranking
from memtui.ranking.trace import difference
from memtui.tui.commands import MemtuiCommands
from memtui.tui.options import UiOptions
from memtui.tui.screens.compare import CompareScreen
from memtui.tui.screens.search.ranking_controller import (
    BURST_SECONDS,
    MOST_CHANGES,
    RankingHistory,
)
from memtui.tui.screens.sweep import SweepScreen
from tests.tui.harness import Running, running, settle
from tests.tui.samples import SampleEngine, make_ranked

FULL = Ranking(decay=Decay(enabled=True), mmr=Mmr(enabled=True, lambda_=0.7), min_score=0.2, k=6)

OPEN = replace(FULL, min_score=None)
"""Nothing but k keeps a candidate out."""


def options(ranking: Ranking = FULL) -> UiOptions:
    return UiOptions(theme="memtui-dark", ranking=ranking)


def look(ranked: Ranked | None) -> list[tuple[str, int, float, float]]:
    """What a list shows: ids, order and scores."""
    assert ranked is not None
    return [(hit.chunk.id, hit.rank, hit.score, hit.effective) for hit in ranked.hits]


def slowly(run: Running) -> None:
    """Let every key come a second after the one before."""
    times = count(0.0, 1.0)
    run.app.search_screen.rankings.clock = lambda: next(times)


# --- the history of rankings --------------------------------------------------------------------


def test_what_was_undone_can_be_redone_until_something_else_is_changed() -> None:
    history = RankingHistory()
    first, second, third = (Ranking(k=k) for k in (1, 2, 3))
    history.changed(first, second, "", 0)
    history.changed(second, third, "", 1)
    assert history.undo(third) == second
    assert history.undo(second) == first
    assert history.undo(first) is None
    assert history.redo(first) == second
    assert history.redo(second) == third
    assert history.redo(third) is None
    assert history.undo(third) == second
    history.changed(second, Ranking(k=9), "", 2)
    assert history.redo(Ranking(k=9)) is None
    assert history.undo(Ranking(k=9)) == second


def test_a_held_key_is_one_change_and_two_presses_are_two() -> None:
    history = RankingHistory()
    rankings = [Ranking(k=k) for k in range(1, 8)]
    for step, (before, after) in enumerate(pairwise(rankings[:4])):
        history.changed(before, after, "k", step * BURST_SECONDS * 0.9)
    history.changed(rankings[3], rankings[4], "k", 10.0)
    history.changed(rankings[4], rankings[5], "lambda", 10.01)
    history.changed(rankings[5], rankings[6], "", 10.02)
    assert history.undo(rankings[6]) == rankings[5]
    assert history.undo(rankings[5]) == rankings[4]
    assert history.undo(rankings[4]) == rankings[3]
    assert history.undo(rankings[3]) == rankings[0]
    assert history.undo(rankings[0]) is None


def test_a_burst_that_ends_where_it_began_is_no_change() -> None:
    history = RankingHistory()
    history.changed(Ranking(k=6), Ranking(k=7), "k", 0.0)
    history.changed(Ranking(k=7), Ranking(k=6), "k", 0.01)
    assert history.undo(Ranking(k=6)) is None


def test_only_so_many_changes_are_kept() -> None:
    history = RankingHistory()
    for k in range(MOST_CHANGES + 20):
        history.changed(Ranking(k=k), Ranking(k=k + 1), "", float(k))
    left = 0
    at = Ranking(k=MOST_CHANGES + 20)
    while (before := history.undo(at)) is not None:
        at, left = before, left + 1
    assert (left, at) == (MOST_CHANGES, Ranking(k=20))


# --- on the screen ------------------------------------------------------------------------------


async def test_every_kind_of_change_is_taken_back_to_the_same_list() -> None:
    async with running(options=options()) as run:
        await run.search()
        slowly(run)
        screen = run.app.search_screen
        lists = [look(screen.ranked)]
        rankings = [screen.ranking]
        await run.pilot.press("escape")
        keys = ("[", "[", "d", ">", "-", "F", "0")
        for key in keys:
            await run.pilot.press(key)
            lists.append(look(screen.ranked))
            rankings.append(screen.ranking)
        await run.pilot.press("u")
        await settle(run.app, run.pilot)
        assert "undo: " in run.text
        for place in range(len(keys) - 1, 0, -1):
            assert screen.ranking == rankings[place]
            assert look(screen.ranked) == lists[place]
            await run.pilot.press("u")
        assert screen.ranking == rankings[0]
        assert look(screen.ranked) == lists[0]
        await run.pilot.press("u")
        await settle(run.app, run.pilot)
        assert "nothing to undo" in run.text
        for place in range(1, len(keys) + 1):
            await run.pilot.press("U")
            assert screen.ranking == rankings[place]
            assert look(screen.ranked) == lists[place]
        await run.pilot.press("U")
        await settle(run.app, run.pilot)
        assert "nothing to redo" in run.text


async def test_undo_says_which_parameter_went_where_and_what_moved() -> None:
    async with running(options=options(), size=(200, 50)) as run:
        await run.search()
        screen = run.app.search_screen
        before = screen.ranked
        await run.pilot.press("escape", "greater_than_sign")
        assert screen.ranked is not None
        moves = difference(screen.ranked, before) if before is not None else None
        assert moves is not None
        await run.pilot.press("u")
        await settle(run.app, run.pilot)
        counts = f"{len(moves.moved)} moved" if moves.moved else "nothing moved"
        assert f"undo: vector 0.35→0.30, keyword 0.65→0.70: {counts}" in run.text


async def test_another_memory_begins_without_changes_to_undo() -> None:
    async with running(options=options()) as run:
        await run.search()
        await run.pilot.press("escape", "d")
        screen = run.app.search_screen
        changed = screen.ranking
        screen.engine_opened(SampleEngine(run.app.bus), screen.options)
        await settle(run.app, run.pilot)
        screen.rankings.undo()
        assert screen.ranking == changed


async def test_rows_that_left_are_marked_with_their_former_rank() -> None:
    async with running(options=options(OPEN), size=(120, 40)) as run:
        await run.search()
        screen = run.app.search_screen
        assert screen.ranked is not None
        last = screen.ranked.hits[-1]
        await run.pilot.press("escape", "minus")
        await settle(run.app, run.pilot)
        assert "1 out" in screen.strip.render().plain
        assert "Not shown (5)  ▼ 1 out" in run.text
        row = next(row for row in screen.near.rows if row.id == last.chunk.id).draw(80).plain
        assert f"▼ was #{last.rank}" in row
        assert "out" in row.split("\n")[0]
        others = [row.draw(80).plain for row in screen.near.rows if row.id != last.chunk.id]
        assert not any("was #" in other for other in others)
        screen.lists.redraw()
        await settle(run.app, run.pilot)
        assert "was #" not in run.text


async def test_without_near_misses_the_strip_counts_what_left() -> None:
    async with running(options=options(OPEN)) as run:
        await run.search()
        await run.pilot.press("escape", "minus")
        await settle(run.app, run.pilot)
        assert "k 6×4→5×4: 1 out" in run.text
        assert "was #" not in run.text


async def test_the_list_keeps_its_difference_from_the_configured_one() -> None:
    async with running(options=options(OPEN), size=(120, 40)) as run:
        await run.search()
        slowly(run)
        screen = run.app.search_screen
        assert "vs config" not in run.text
        await run.pilot.press("escape", "minus", "minus")
        await settle(run.app, run.pilot)
        configured = make_ranked(OPEN)
        assert screen.ranked is not None
        moves = difference(configured, screen.ranked)
        assert len(moves.left) == len(configured.hits) - len(screen.ranked.hits) > 0
        told = f"{len(moves.left)} out"
        assert f"vs config: {told}" in run.text
        await run.pilot.press("u", "u")
        await settle(run.app, run.pilot)
        assert "vs config" not in run.text


async def test_the_palette_offers_what_if() -> None:
    async with running(options=options()) as run:
        await run.search()
        screen = run.app.search_screen
        await run.pilot.press("escape", "d")
        changed = screen.ranking
        commands = {one.name: one for one in MemtuiCommands(run.app.screen).commands()}
        await commands["undo"].run()
        assert screen.ranking == FULL
        await commands["redo"].run()
        assert screen.ranking == changed
        for name, kind in (("compare", CompareScreen), ("sweep", SweepScreen)):
            await commands[name].run()
            await settle(run.app, run.pilot)
            assert [type(one) for one in run.app.screen_stack] == [type(screen), kind]
            await run.pilot.press("escape")
            await settle(run.app, run.pilot)
            assert len(run.app.screen_stack) == 1
