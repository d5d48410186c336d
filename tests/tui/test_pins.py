"""Pinned chunks: followed through every query and every change, one line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from memtui.bus import Bus
from memtui.model import Ranked, Ranking
from memtui.model.inquiry import Inquiry
from memtui.tui.glyphs import ASCII, UNICODE
from memtui.tui.options import UiOptions
from memtui.tui.widgets.pins import Pins, standing
from memtui.tui.widgets.result_rows import RowLook, draw_hit
from tests.tui.harness import Running, render_lines, resize, running, settle, until
from tests.tui.inquiry_samples import OUTSIDE, InquiringEngine
from tests.tui.samples import CHUNKS, NOW, SampleEngine, make_pool, make_ranked


def _engine(**fields: object) -> Callable[[Bus], SampleEngine]:
    return lambda bus: InquiringEngine(bus, **fields)  # type: ignore[arg-type]


def _strip(run: Running) -> list[str]:
    return [line.strip() for line in render_lines(run.app) if line.startswith(" ◆")]


async def _to_list(run: Running) -> None:
    await run.search()
    await run.pilot.press("escape")
    await run.pilot.pause()


async def test_a_pin_takes_one_line_and_no_row_and_the_newest_two_stay() -> None:
    async with running(_engine(), size=(80, 24)) as run:
        await _to_list(run)
        search = run.app.search_screen
        rows = search.results.scrollable_content_region.height
        await run.pilot.press("p")
        await run.pilot.pause()
        assert list(search.pinned) == [search.results.rows[0].id]
        assert _strip(run)[0].startswith("◆ memory/2026-02-10.md:12  #1 of 6")
        assert search.query_one(Pins).size.height == 1
        await run.pilot.press("j", "p")
        await run.pilot.pause()
        assert len(_strip(run)) == 2
        assert search.query_one(Pins).size.height == 2
        assert search.results.scrollable_content_region.height == rows
        marked = [line for line in render_lines(run.app) if "1◆" in line or "2◆" in line]
        assert len(marked) == 2
        ids = [row.id for row in search.results.rows]
        await run.pilot.press("j", "f7")
        assert list(search.pinned) == [ids[1], ids[2]]
        await run.pilot.press("p")
        assert list(search.pinned) == [ids[1]]
        await run.pilot.press("tab", "escape")
        await run.pilot.pause()
        assert list(search.pinned) == [ids[1]]
        # Near misses fill what is left, and one pane at a time all of it.
        body, left = search.query_one("#body"), search.query_one("#left")
        await run.pilot.press("n")
        await run.pilot.pause()
        assert left.size.height == body.size.height
        await run.pilot.press("n")
        await resize(run.pilot, (80, 15))
        assert left.size.height == body.size.height
        assert _strip(run)
        await resize(run.pilot, (80, 24))
        assert search.results.has_focus
        await run.pilot.press("escape")
        await run.pilot.pause()
        assert not search.pinned
        assert _strip(run) == []
        assert search.query_one(Pins).display is False
        await run.pilot.press("p")
        search.engine_opened(run.engine, search.options)
        await run.pilot.pause()
        assert not search.pinned


async def test_a_pin_follows_parameters_and_queries() -> None:
    options = UiOptions(theme="memtui-dark", ranking=Ranking(k=3))
    async with running(_engine(), size=(80, 24), options=options) as run:
        await _to_list(run)
        search = run.app.search_screen
        await run.pilot.press("j", "j", "p", "minus")
        await run.pilot.pause()
        assert "not shown: rank 3 > k 2" in _strip(run)[0]
        await run.pilot.press("plus")
        await run.pilot.pause()
        assert "#3 of 3" in _strip(run)[0]
        pinned = search.pinned
        engine = run.engine
        kept = tuple(chunk for chunk in CHUNKS if chunk.id not in pinned)
        engine.pool = make_pool(chunks=kept)
        engine.outside = tuple(chunk for chunk in CHUNKS if chunk.id in pinned)
        await run.search("another query")
        await until(run.pilot, lambda: "vector pool" in _strip(run)[0])
        assert search.pinned == pinned
        assert "#51 of 70 > 50" in _strip(run)[0]


async def test_one_question_for_each_list_and_what_fails_is_told_in_the_line() -> None:
    async with running(_engine(), size=(100, 30)) as run:
        await _to_list(run)
        search = run.app.search_screen
        search.inquiry.pin_chunk(OUTSIDE)
        await until(run.pilot, lambda: bool(search.inquiry._traced))
        asked = run.engine.calls.count("inquire")
        for _ in range(4):
            search.lists.redraw()
        await settle(run.app, run.pilot)
        assert run.engine.calls.count("inquire") == asked
        engine = run.engine
        assert isinstance(engine, InquiringEngine)
        engine.failing = {"inquire"}
        await run.pilot.press("d")
        await until(run.pilot, lambda: "today" in _strip(run)[0])
        assert "not shown: no inquire today" in _strip(run)[0]
        await settle(run.app, run.pilot)
        assert not run.toasts


def test_a_standing_is_told_for_every_case() -> None:
    ranked = make_ranked(Ranking(k=2))
    hit, drop = ranked.hits[0], ranked.drops[0]

    def told(chunk: object, list_: Ranked | None, found: Inquiry | None = None) -> str:
        assert chunk is not None
        return standing(list_, chunk, found, "", UNICODE).standing.plain  # type: ignore[arg-type]

    assert told(hit.chunk, ranked).startswith("#1 of 2")
    assert told(drop.chunk, ranked) == "not shown: rank 3 > k 2"
    assert told(OUTSIDE, ranked) == "not shown: …"
    assert "next query" in told(hit.chunk, None)
    found = InquiringEngine(Bus()).inquire(ranked, OUTSIDE.id)
    assert "vector pool: #51 of 71 > 50" in told(OUTSIDE, ranked, found)


def test_a_pinned_row_has_a_mark_and_stays_as_wide() -> None:
    hit = make_ranked().hits[0]
    for glyphs in (UNICODE, ASCII):
        look = RowLook(glyphs, 2, 1.0, NOW, Ranking().decay.dates)
        plain = draw_hit(hit, look, 70).plain
        pinned = draw_hit(hit, replace(look, pinned=frozenset({hit.chunk.id})), 70).plain
        assert pinned.replace(f"1{glyphs.pin}", "1 ", 1) == plain
