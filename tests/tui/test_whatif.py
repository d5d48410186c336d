"""Taking changes of the ranking back, and what a list says about a change."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from memtui.model import Decay, Mmr, Ranked, Ranking
from memtui.ranking.trace import difference
from memtui.tui.commands import MemtuiCommands
from memtui.tui.options import UiOptions
from memtui.tui.screens.compare import CompareScreen
from memtui.tui.screens.search.ranking_controller import (
    BURST_SECONDS,
    MOST_CHANGES,
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


async def test_a_held_key_is_one_change_and_only_so_many_are_kept(memory: SmallMemory) -> None:
    async with running(memory.open) as run:
        rankings, screen = run.app.search_screen.rankings, run.app.search_screen
        now = 0.0
        rankings.clock = lambda: now

        def undone() -> list[int]:
            shown = [screen.ranking.k]
            while True:
                before = screen.ranking
                rankings.undo()
                if screen.ranking == before:
                    return shown
                shown.append(screen.ranking.k)

        for seconds, direction in ((0, 1), (0.9, 1), (1.8, 1), (100, 1), (100.5, -1)):
            now = seconds * BURST_SECONDS
            rankings.step("k", direction)
        assert screen.ranking.k == 9, "a burst that ends where it began is none"
        now += BURST_SECONDS / 2
        rankings.step("λ", 1)
        rankings.turn("mmr")
        assert undone() == [9, 9, 9, 6]
        rankings.redo()
        rankings.step("weight", 1)
        rankings.redo()
        assert screen.ranking.mmr.lambda_ == 0.7, "another change forgets what was undone"
        assert undone() == [9, 9, 6]
        for k in range(MOST_CHANGES + 20):
            rankings.change(replace(screen.ranking, k=k + 100))
        assert len(undone()) == MOST_CHANGES + 1


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
        screen.search.redraw()
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
