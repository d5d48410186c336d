"""Pinned chunks: followed through every query and every change, one line each."""

from __future__ import annotations

from dataclasses import replace

from memtui.engine.engine import Engine
from memtui.model import Ranking
from memtui.tui.glyphs import ASCII, UNICODE
from memtui.tui.options import UiOptions
from memtui.tui.widgets.result_rows import RowLook, draw_hit
from memtui.tui.widgets.why_panel import Pin, Pins
from tests.support.small_memory import NOW, SmallMemory
from tests.tui.harness import Running, render_lines, resize, running, settle, until


def _strip(run: Running) -> list[str]:
    return [line.strip() for line in render_lines(run.app) if line.startswith(" ◆")]


async def test_a_pin_takes_one_line_and_no_row_and_the_newest_two_stay(memory: SmallMemory) -> None:
    async with running(memory.open, size=(80, 24)) as run:
        await run.search()
        search = run.app.search_screen
        assert search.ranked is not None
        ids = [row.id for row in search.results.rows]
        rows = search.results.scrollable_content_region.height
        await run.press("escape", "p")
        assert list(search.pinned) == ids[:1]
        assert f"{search.ranked.hits[0].chunk.path}:" in _strip(run)[0]
        assert "#1 of 6" in _strip(run)[0]
        assert search.query_one(Pins).size.height == 1
        await run.press("j", "p")
        assert search.query_one(Pins).size.height == len(_strip(run)) == 2
        assert search.results.scrollable_content_region.height == rows
        assert sum("1◆" in line or "2◆" in line for line in render_lines(run.app)) == 2
        await run.press("j", "f7")
        assert list(search.pinned) == ids[1:3]
        await run.press("p", "tab", "escape")
        assert list(search.pinned) == ids[1:2]
        # Near misses fill what is left, and one pane at a time all of it.
        body, left = search.query_one("#body"), search.query_one("#left")
        await run.press("n")
        assert left.size.height == body.size.height
        await run.press("n")
        await resize(run.pilot, (80, 15))
        assert left.size.height == body.size.height
        assert _strip(run)
        await resize(run.pilot, (80, 24))
        await run.press("escape")
        assert not search.pinned
        assert _strip(run) == []
        assert search.query_one(Pins).display is False
        await run.press("p")
        search.engine_opened(run.engine, search.options)
        await settle(run.app, run.pilot)
        assert not search.pinned


async def test_a_pin_follows_parameters_and_queries_and_what_fails_is_told_in_its_line(
    memory: SmallMemory,
) -> None:
    options = UiOptions(theme="memtui-dark", ranking=Ranking(k=3))
    async with running(memory.open, size=(100, 30), options=options) as run:
        await run.search()
        search = run.app.search_screen
        asked: list[str] = []
        engine: Engine = run.engine
        inquire = engine.explain.inquire

        def counted(ranked: object, chunk_id: str) -> object:
            asked.append(chunk_id)
            if len(asked) > 1:
                raise RuntimeError("no inquiry today")
            return inquire(ranked, chunk_id)  # type: ignore[arg-type]

        run.engine.explain.inquire = counted
        await run.press("escape", "j", "j", "p", "minus")
        assert "not shown: rank 3 > k 2" in _strip(run)[0]
        await run.press("plus")
        assert "#3 of 3" in _strip(run)[0]
        pinned = search.pinned
        await run.search("path:topics router")
        await until(run.pilot, lambda: "not shown: vector leg: left out by" in _strip(run)[0])
        assert search.pinned == pinned
        for _ in range(4):
            search.search.redraw()
        await settle(run.app, run.pilot)
        assert asked == list(pinned), "one question for each list"
        await run.search("path:people tea")
        await until(run.pilot, lambda: "not shown: no inquiry today" in _strip(run)[0])
        assert not run.toasts


def test_a_standing_is_told_for_every_case_and_a_pinned_row_stays_as_wide(
    memory: SmallMemory,
) -> None:
    with memory.open() as engine:
        ranked = engine.search.ask("router config", ranking=Ranking(k=2))
        hit, drop = ranked.hits[0], ranked.drops[0]
        outside = engine.browse.chunks_of("memory/topics/garden.md")[0]
        bare = replace(ranked, drops=())
        told = [
            Pin(hit.chunk).standing(ranked, UNICODE),
            Pin(drop.chunk).standing(ranked, UNICODE),
            Pin(hit.chunk).standing(None, UNICODE),
            Pin(outside).standing(bare, UNICODE),
            Pin(outside, problem="gone").standing(bare, UNICODE),
        ]
    assert [words.plain.partition("  ")[0] for words in told] == [
        "#1 of 2",
        "not shown: rank 3 > k 2",
        "followed from the next query on",
        "not shown: …",
        "not shown: gone",
    ]
    for glyphs in (UNICODE, ASCII):
        look = RowLook(glyphs, 2, 1.0, NOW, Ranking().decay.dates)
        plain = draw_hit(hit, look, 70).plain
        pinned = draw_hit(hit, replace(look, pinned=frozenset({hit.chunk.id})), 70).plain
        assert pinned.replace(f"1{glyphs.pin}", "1 ", 1) == plain
