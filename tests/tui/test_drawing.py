"""The rows of an answer come first, and what looks as before is not drawn again."""

from __future__ import annotations

from dataclasses import replace

from textual.content import Content

from memtui.tui.present.report import BAR_META
from memtui.tui.widgets.row_list import RowList
from tests.tui.harness import running, settle, until


def drawn_rows(rows: RowList) -> list[str]:
    return [rows.render_line(y).text for y in range(rows.size.height)]


async def test_the_rows_come_before_what_is_beside_them() -> None:
    async with running(size=(120, 40)) as run:
        await run.search()
        screen = run.app.search_screen
        assert screen.ranked is not None
        before, chosen = screen.near.rows, screen.selected_id
        fewer = run.engine.search.rerank(screen.ranked.pool, replace(screen.ranking, k=1))
        screen.lists.show(fewer, keep=None)
        assert len(screen.results.rows) == 1
        assert screen.near.rows == before
        await until(run.pilot, lambda: len(screen.near.rows) > len(before))
        assert screen.selected_id == chosen


async def test_a_list_that_was_hidden_is_told_its_size() -> None:
    async with running(size=(120, 40)) as run:
        screen = run.app.search_screen
        for query in ("router config", "qqqqzz", "router config"):
            screen.lists.show_message(Content("nothing"))
            await settle(run.app, run.pilot)
            await run.search(query)
            results = screen.results
            if results.display and results.rows:
                assert all(line.strip() for line in drawn_rows(results)[: len(results.rows)])


async def test_a_near_miss_stays_chosen_when_the_same_list_is_drawn_again() -> None:
    async with running(size=(120, 100)) as run:
        await run.search()
        screen = run.app.search_screen
        assert screen.ranked is not None
        assert screen.query_input.has_focus
        missed = screen.ranked.drops[-1].chunk.id
        screen.near.choose(missed, by_user=True)
        await until(run.pilot, lambda: screen.selected_id == missed)
        screen.lists.redraw()
        await settle(run.app, run.pilot)
        assert screen.selected_id == screen.near.chosen_id == missed
        # Another answer begins with its first result.
        await run.search("vlan")
        assert screen.ranked.hits
        assert screen.selected_id == screen.ranked.hits[0].chunk.id


async def test_the_row_under_the_mouse_is_told_by_its_place() -> None:
    async with running(size=(120, 40)) as run:
        await run.search()
        results = run.app.search_screen.results
        lines = run.app.search_screen.row_lines
        assert len(results.rows) > 1
        parts = [segment.style.meta.get("part") for segment in results.render_line(0)
                 if segment.style is not None]  # fmt: skip
        assert parts.count(BAR_META["part"]) > 0
        await run.pilot.click(results, offset=(12, 1 + lines))
        assert results.chosen_id == results.rows[1].id
        await run.pilot.click(results, offset=(12, 1 + lines * len(results.rows)))
        assert results.chosen_id == results.rows[1].id
