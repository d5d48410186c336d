"""The rows of an answer come first, and what looks as before is not drawn again."""

from __future__ import annotations

from dataclasses import replace

from tests.tui.harness import running, until


async def test_the_rows_come_before_what_is_beside_them() -> None:
    async with running(size=(120, 40)) as run:
        await run.search()
        screen = run.app.search_screen
        assert screen.ranked is not None
        before, chosen = screen.near.rows, screen.selected_id
        fewer = run.engine.rerank(screen.ranked.pool, replace(screen.ranking, k=1))
        with screen.panes_later(complete=True):
            screen.show_ranked(fewer, keep=None)
        assert len(screen.results.rows) == 1
        assert screen.near.rows == before
        screen.let_keys_go_first()
        await until(run.pilot, lambda: len(screen.near.rows) > len(before))
        assert screen.selected_id == chosen


async def test_where_nobody_types_everything_is_drawn_at_once() -> None:
    async with running(size=(120, 40)) as run:
        await run.search()
        screen = run.app.search_screen
        assert screen.ranked is not None
        screen.results.focus()
        await run.pilot.pause()
        before = screen.near.rows
        fewer = run.engine.rerank(screen.ranked.pool, replace(screen.ranking, k=1))
        with screen.panes_later(complete=True):
            screen.show_ranked(fewer, keep=None)
        assert len(screen.near.rows) > len(before)


async def test_rows_that_look_as_before_are_not_drawn_again() -> None:
    async with running(size=(120, 40)) as run:
        await run.search()
        results = run.app.search_screen.results
        options = list(results.options)
        results.set_rows([replace(row) for row in results.rows], results.chosen_id)
        assert list(results.options) == options
        results.set_rows([replace(row, id=f"{row.id}!") for row in results.rows])
        assert not set(results.options) & set(options)
