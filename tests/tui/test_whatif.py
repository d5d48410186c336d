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
from tests.support.small_memory import SmallMemory
from tests.tui.harness import running, settle

FULL = Ranking(decay=Decay(enabled=True), mmr=Mmr(enabled=True), k=6)
OPTIONS = UiOptions(theme="memtui-dark", ranking=FULL)


def look(ranked: Ranked | None) -> list[tuple[str, int, float, float]]:
    """What a list shows: ids, order and scores."""
    assert ranked is not None
    return [(hit.chunk.id, hit.rank, hit.score, hit.effective) for hit in ranked.hits]


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
    places = (6, 5, 4, 3)
    assert [history.undo(rankings[at]) for at in places] == [rankings[at] for at in (5, 4, 3, 0)]
    assert history.undo(rankings[0]) is None
    history.changed(Ranking(k=6), Ranking(k=7), "k", 20.0)
    history.changed(Ranking(k=7), Ranking(k=6), "k", 20.01)
    assert history.undo(Ranking(k=6)) is None, "a burst that ends where it began is none"


def test_only_so_many_changes_are_kept() -> None:
    history = RankingHistory()
    for k in range(MOST_CHANGES + 20):
        history.changed(Ranking(k=k), Ranking(k=k + 1), "", float(k))
    left, at = 0, Ranking(k=MOST_CHANGES + 20)
    while (before := history.undo(at)) is not None:
        at, left = before, left + 1
    assert (left, at) == (MOST_CHANGES, Ranking(k=20))


async def test_every_kind_of_change_is_taken_back_to_the_same_list(memory: SmallMemory) -> None:
    async with running(memory.open, options=OPTIONS, size=(160, 40)) as run:
        await run.search()
        screen = run.app.search_screen
        times = count(0.0, 1.0)
        screen.rankings.clock = lambda: next(times)
        states = [(screen.ranking, look(screen.ranked))]
        await run.press("escape")
        for key in ("left_square_bracket", "d", "greater_than_sign", "minus", "F", "0"):
            await run.press(key)
            states.append((screen.ranking, look(screen.ranked)))
        for state in states[-2::-1]:
            await run.press("u")
            assert (screen.ranking, look(screen.ranked)) == state
            assert "undo: " in run.text
        await run.press("u")
        assert "nothing to undo" in run.text
        for state in states[1:]:
            await run.press("U")
            assert (screen.ranking, look(screen.ranked)) == state
        await run.press("U")
        assert "nothing to redo" in run.text
        # Another memory begins without changes to undo.
        changed = screen.ranking
        screen.engine_opened(run.engine, screen.options)
        await settle(run.app, run.pilot)
        screen.rankings.undo()
        assert screen.ranking == changed


async def test_what_left_the_list_is_counted_and_marked_with_its_former_rank(
    memory: SmallMemory,
) -> None:
    async with running(memory.open, options=OPTIONS, size=(120, 40)) as run:
        await run.search()
        screen = run.app.search_screen
        configured = screen.ranked
        assert configured is not None
        last = configured.hits[-1]
        assert "vs config" not in run.text
        await run.press("escape", "minus")
        assert "1 out" in screen.strip.render().plain
        assert "▼ 1 out" in run.text
        was = {row.id: row.draw(80).plain for row in screen.near.rows}
        assert f"▼ was #{last.rank}" in was.pop(last.chunk.id)
        assert not any("was #" in text for text in was.values())
        screen.lists.redraw()
        await settle(run.app, run.pilot)
        assert "was #" not in run.text
        assert screen.ranked is not None
        assert len(difference(configured, screen.ranked).left) == 1
        assert "vs config: 1 out" in run.text
        await run.press("u")
        assert "vs config" not in run.text


async def test_the_palette_offers_what_if(memory: SmallMemory) -> None:
    async with running(memory.open, options=OPTIONS) as run:
        await run.search()
        screen = run.app.search_screen
        await run.press("escape", "d")
        changed = screen.ranking
        commands = {one.name: one for one in MemtuiCommands(run.app.screen).commands()}
        await commands["undo"].run()
        assert screen.ranking == FULL
        await commands["redo"].run()
        assert screen.ranking == changed == replace(FULL, decay=Decay(enabled=False))
        for name, kind in (("compare", CompareScreen), ("sweep", SweepScreen)):
            await commands[name].run()
            await settle(run.app, run.pilot)
            assert [type(one) for one in run.app.screen_stack] == [type(screen), kind]
            await run.press("escape")
            assert len(run.app.screen_stack) == 1
