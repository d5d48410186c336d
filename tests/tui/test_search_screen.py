"""The search screen on a real memory: answers, keys, panes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from textual import events

from memtui.bus import FileIndexed, LegDegraded, SearchFailed, SearchReady, SyncFailed, SyncFinished
from memtui.model import (
    Decay,
    IndexState,
    Leg,
    LegState,
    LegStatus,
    Mmr,
    Progress,
    Ranking,
    Reason,
    SyncStats,
)
from memtui.tui.app import IndexContentChanged
from memtui.tui.options import UiOptions
from memtui.tui.screens.dialogs import Chooser, Confirm
from tests.support.small_memory import SmallMemory
from tests.tui.harness import Running, press, running, settle, until

NOW = datetime(2026, 2, 20, 12, 0, tzinfo=UTC)
FULL = Ranking(decay=Decay(enabled=True), mmr=Mmr(enabled=True), min_score=0.2)
WIDE = (120, 40)


@pytest.fixture
def run_on(memory: SmallMemory) -> Callable[..., Any]:
    """Run the application on the small memory with a ranking, at a size."""

    def run(
        ranking: Ranking = Ranking(),  # noqa: B008 - frozen
        size: tuple[int, int] = (80, 24),
        **changes: Any,
    ) -> Any:
        options = UiOptions(theme="memtui-dark", ranking=ranking, root=memory.root)
        return running(memory.open, options=replace(options, **changes), size=size)

    return run


def order(run: Running) -> list[str]:
    """The chunk ids in the list, top to bottom."""
    return [row.id for row in run.app.search_screen.results.rows]


def focus(run: Running) -> str | None:
    """Id of the widget that has the keys."""
    return run.app.focused.id if run.app.focused is not None else None


async def answer(
    run: Running, vector: LegState, *, complete: bool = True, ranking: Ranking | None = None
) -> None:
    """Publish the answer on screen again, as if the vector leg had ended so."""
    screen = run.app.search_screen
    assert screen.ranked is not None
    pool = screen.ranked.pool
    states = {**pool.states, Leg.VECTOR: vector}
    hits = pool.hits if vector.status is LegStatus.OK else {**pool.hits, Leg.VECTOR: ()}
    again = run.engine.search.rerank(
        replace(pool, states=states, hits=hits), ranking or screen.ranking
    )
    screen.search.complete = False
    run.app.bus.publish(SearchReady(screen.search.sequence, again, complete))
    await settle(run.app, run.pilot)


# --- which answer is believed ---------------------------------------------------------------------


async def test_typing_shows_ranked_results_with_their_parts(run_on: Any) -> None:
    async with run_on(size=WIDE) as run:
        held: list[int] = []
        hold = run.engine.index.hold

        def hold_and_count() -> None:
            held.append(1)
            hold()

        run.engine.index.hold = hold_and_count
        await press(run.pilot, *"router")
        screen = run.app.search_screen
        await until(
            run.pilot, lambda: screen.search.answered_text == "router" and screen.search.complete
        )
        await settle(run.app, run.pilot)
        text = run.text
        assert screen.ranked.hits[0].chunk.path in text
        assert f"{screen.ranked.hits[0].effective:.3f}" in text
        assert f"{len(screen.ranked.hits)}/{len(screen.ranked.pool.chunks)}" in text
        for words in ("█", "▒", "Why this rank", "Not shown ("):
            assert words in text, words
        assert len(held) == 6
        sequence = screen.search.sequence
        run.app.post_message(IndexContentChanged())
        await until(run.pilot, lambda: screen.search.sequence > sequence and screen.search.complete)
        assert len(held) == 6, "the index waits for keys, not for a list that is refreshed"


async def test_ascii_glyphs_are_in_every_pane(run_on: Any) -> None:
    async with run_on(size=WIDE, glyphs="ascii") as run:
        await run.search("router")
        assert "# vector" in run.text
        assert "* ready" in run.text
        await run.search("path:nowhere router")
        assert "= keyword" in run.text
        assert not set("█▒●") & set(run.text)


async def test_what_comes_late_or_fails_leaves_the_list_as_it_is(run_on: Any) -> None:
    async with run_on() as run:
        await run.search("router")
        screen = run.app.search_screen
        old, number, before = screen.ranked, screen.search.sequence, order(run)
        await run.search("kyoto")
        run.app.bus.publish(SearchReady(number, old, True))
        await settle(run.app, run.pilot)
        assert screen.ranked.pool.query == "kyoto"
        await run.search("router")
        screen.search.complete = False
        screen.query_bar.show_note("", stale=True)
        await settle(run.app, run.pilot)
        assert "…" in run.text.splitlines()[0]
        run.app.bus.publish(SearchFailed(screen.search.sequence, "the index is [/] gone \x1b[2J"))
        await settle(run.app, run.pilot)
        assert order(run) == before
        assert "the index is [/] gone ␛[2J" in run.text


async def test_a_part_of_an_answer_is_marked_and_a_leg_that_is_silent_named(run_on: Any) -> None:
    async with run_on() as run:
        await run.search()
        await answer(run, LegState(LegStatus.PENDING, Reason.PENDING), complete=False)
        await until(run.pilot, lambda: "~ vector pending" in run.text)
        await run.press("down")
        kept = run.app.search_screen.results.chosen_id
        await answer(run, LegState(LegStatus.SKIPPED, Reason.SCRIPT_NOT_SUPPORTED))
        assert "pending" not in run.text
        assert "no vector: the model does not read this script" in run.text
        assert run.app.search_screen.results.chosen_id == kept
        # The ranking was changed while the answer was on its way.
        await run.press("f2")
        await answer(run, LegState(LegStatus.OK), ranking=Ranking())
        assert run.app.search_screen.ranked.ranking.mmr.enabled


async def test_where_nothing_is_found_it_is_said_why(run_on: Any) -> None:
    async with run_on(Ranking(min_score=1.5)) as run:
        await run.search("path:nowhere xyzzy")
        assert "Nothing found for path:nowhere xyzzy" in run.text
        assert "0 candidates" in run.text
        await run.search()
        count = len(run.app.search_screen.ranked.pool.chunks)
        assert f"{count} candidates below the minimum score 1.50" in run.text
        await run.press("escape", "n")
        assert f"Not shown ({count})" in run.text


async def test_an_empty_query_shows_recent_notes_and_queries(run_on: Any) -> None:
    async with run_on() as run:
        assert "changed  memory/" in run.text
        await run.search("router")
        await run.press("enter", "slash", "backspace")
        assert "asked    router" in run.text
        await run.press("enter")
        await until(run.pilot, lambda: run.app.search_screen.search.answered_text == "router")


async def test_problems_of_the_query_are_shown_under_the_box(run_on: Any) -> None:
    async with run_on() as run:
        await run.search()
        await run.press(*" after:2026-1")
        assert not run.app.search_screen.query_one("#problems").display, "half a filter is none"
        await until(run.pilot, lambda: "is no day" in run.text.splitlines()[1])
        assert not run.toasts
        await run.search("router")
        assert "is no day" not in run.text
        await run.press("ctrl+u")
        run.app.screen.post_message(events.Paste("one\n\ntwo\n" + "word " * 2000))
        await until(run.pilot, lambda: "4000 characters" in run.text.splitlines()[1])
        value = run.app.search_screen.query_input.value
        assert value.startswith("one  two word")
        assert len(value) == 5000


# --- keeping the place ----------------------------------------------------------------------------


async def test_what_is_chosen_is_kept_and_where_the_keys_are_too(run_on: Any) -> None:
    async with run_on(Ranking(k=10)) as run:
        screen = run.app.search_screen
        await run.search("router")
        assert screen.results.chosen_id == order(run)[0]
        assert focus(run) == "query"
        await run.press("down", "down")
        chosen = screen.results.chosen_id
        assert chosen == order(run)[2]
        await run.search("router config")
        assert screen.results.chosen_id == chosen
        await run.press("escape", "d", "F")
        assert (screen.results.chosen_id, focus(run)) == (chosen, "results")
        sequence = screen.search.sequence
        stats = SyncStats(False, NOW, 0.1, 3, 0, 1, 0, 0, 0, 0, 0)
        run.app.bus.publish(SyncFinished(stats))
        await until(run.pilot, lambda: screen.search.sequence > sequence and screen.search.complete)
        await settle(run.app, run.pilot)
        assert (screen.results.chosen_id, focus(run)) == (chosen, "results")
        assert "synced" not in run.text, "told only where it was asked for"


# --- parameters -----------------------------------------------------------------------------------

KEY_NOTES = {
    "left_square_bracket": "λ 0.70→0.65",
    "right_square_bracket": "λ 0.70→0.75",
    "left_curly_bracket": "half-life 30d→14d",
    "right_curly_bracket": "half-life 30d→60d",
    "less_than_sign": "vector 0.30→0.25, keyword 0.70→0.75",
    "greater_than_sign": "vector 0.30→0.35, keyword 0.70→0.65",
    "minus": "k 6×4→5×4",
    "plus": "k 6×4→7×4",
    "F": "fusion relative score→RRF",
    "d": "decay off",
}


async def test_every_parameter_key_says_what_it_did_and_searches_nothing(run_on: Any) -> None:
    async with run_on(FULL, (160, 40)) as run:
        await run.search()
        screen = run.app.search_screen
        sequence, before = screen.search.sequence, screen.ranked
        await run.press("escape")
        for key, note in KEY_NOTES.items():
            await run.press(key)
            assert f"{note}: " in run.text, key
            if key == "left_square_bracket":
                assert "λ 0.65 (0.70)" in run.text
            await run.press("0")
            assert screen.ranking == FULL, key
        assert screen.search.sequence == sequence
        scores = [(hit.chunk.id, hit.effective) for hit in screen.ranked.hits]
        assert scores == [(hit.chunk.id, hit.effective) for hit in before.hits]
        assert "as configured" in run.text
        await run.press("m", "left_square_bracket")
        assert "λ 0.70→0.65 (MMR is off: m)" in run.text


async def test_more_candidates_than_the_pool_holds_ask_again(run_on: Any) -> None:
    async with run_on(Ranking(k=12)) as run:
        await run.search()
        sequence = run.app.search_screen.search.sequence
        await run.press("escape", "plus")
        assert run.app.search_screen.search.sequence > sequence


async def test_while_typing_letters_are_text_and_function_keys_act(run_on: Any) -> None:
    async with run_on(size=WIDE) as run:
        await run.press("m", "[", "0")
        screen = run.app.search_screen
        assert screen.query_input.value == "m[0"
        await run.press("f2")
        assert screen.ranking.mmr.enabled
        assert "F2 MMR" in run.text
        assert "q quit" not in run.text.replace("^q quit", "")
        await run.pilot.click("#param-strip", offset=(4, 0))
        await settle(run.app, run.pilot)
        assert not screen.ranking.mmr.enabled


# --- lists and panes ------------------------------------------------------------------------------


async def test_sorting_changes_the_order_on_screen_and_no_rank(run_on: Any) -> None:
    async with run_on(Ranking(k=10)) as run:
        await run.search()
        ranks = order(run)
        await run.press("escape", "o")
        assert "Results by vector" in run.text
        assert sorted(order(run)) == sorted(ranks)
        assert order(run) != ranks
        await run.press("o", "o")
        newest = [run.app.search_screen.ranked.pool.chunks[one].day for one in order(run)]
        dated = [day for day in newest if day is not None]
        assert dated == sorted(dated, reverse=True)
        await run.press("o")
        assert order(run) == ranks


async def test_near_misses_tell_why_and_can_be_chosen_and_explained(run_on: Any) -> None:
    async with run_on(replace(FULL, k=3, min_score=0.4), WIDE) as run:
        await run.search()
        screen = run.app.search_screen
        drops = screen.ranked.drops
        assert f"Not shown ({len(drops)})" in run.text
        assert "< minimum 0.4" in run.text
        screen.near.focus()
        await run.press("down")
        assert screen.selected_id == drops[1].chunk.id == screen.near.chosen_id
        await run.press("d")
        assert screen.selected_id == screen.near.chosen_id, "it is read: its place is kept"
        await run.press("x")
        assert run.app.screen is not screen
        await run.press("escape")
        assert run.app.screen is screen
        await run.press("escape")
        assert screen.selected_id == screen.results.chosen_id
        await run.press("n")
        assert "Not shown" not in run.text


async def test_panes_go_round_and_escape_never_clears_or_quits(run_on: Any) -> None:
    async with run_on(size=WIDE) as run:
        await run.search()
        seen = []
        for _ in range(5):
            seen.append(focus(run))
            await press(run.pilot, "tab")
        assert seen == ["query", "results", "near-misses", "preview", "why"]
        await run.press("shift+tab")
        assert focus(run) == "why"
        await run.press("escape", "escape", "escape")
        assert focus(run) == "results"
        assert run.app.search_screen.query_input.value == "router config"
        await run.press("slash", "right", "enter")
        assert focus(run) == "preview"
        screen = run.app.search_screen
        await run.press("escape", "v")
        assert screen.preview.region.x > screen.results.region.x
        await run.press("v")
        assert screen.preview.region.y > screen.results.region.bottom
        await run.press("v")
        assert not screen.preview.display
        await run.press("4")
        assert run.app.screen is not screen
        await run.press("1")
        assert run.app.screen is screen


async def test_enter_opens_no_result_of_the_text_before(run_on: Any) -> None:
    async with run_on() as run:
        await run.search("router")
        search = run.app.search_screen.search
        search.text = search.asked = "another"
        search.complete, search.sequence = False, 10**6
        await press(run.pilot, "enter")
        assert focus(run) == "query"
        await until(run.pilot, lambda: search.answered_text == "another" and search.complete)
        await run.press("enter")
        assert focus(run) == "preview"


async def test_history_is_offered_and_survives_in_the_state_folder(
    run_on: Any, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    async with run_on(state_dir=state) as run:
        await run.press("escape")
        run.app.search_screen.query_input.focus()
        await run.search("router")
        await run.press("enter", "slash")
        await run.search("nas")
        await run.press("enter", "ctrl+r")
        assert isinstance(run.app.screen, Chooser)
        await run.press(*"rou", "enter")
        await until(run.pilot, lambda: run.app.search_screen.search.answered_text == "router")
    async with run_on(state_dir=state) as run:
        notes = run.app.search_screen.notes
        await until(run.pilot, lambda: set(notes.queries) == {"router", "nas"})


async def test_places_and_texts_are_copied_and_shown_without_an_editor(run_on: Any) -> None:
    async with run_on() as run:
        await run.search()
        chunk = run.app.search_screen.selected_chunk()
        await run.press("escape", "y")
        assert run.app.clipboard == f"{chunk.path}#L{chunk.start_line}-L{chunk.end_line}"
        await run.press("Y")
        assert run.app.clipboard == chunk.text
        await run.press("e")
        assert "No editor here" in run.toasts[-1]
        assert f"{chunk.path}:{chunk.start_line}" in run.toasts[-1]


# --- the index ------------------------------------------------------------------------------------


async def test_the_state_of_the_index_is_glyph_and_word_and_its_failures_told(run_on: Any) -> None:
    async with run_on() as run:
        assert "● ready" in run.text
        status = run.engine.index.status()
        busy = replace(
            status,
            state=IndexState.INDEXING,
            pending_count=2,
            progress=Progress("vectors", 61, 100, 10.0, 12.0),
        )
        run.engine.index.status = lambda: busy
        run.app.bus.publish(SyncFailed("disk [/] full", NOW))
        run.app.bus.publish(LegDegraded(Leg.VECTOR, Reason.PROVIDER_FAILED, "401 [/]"))
        await settle(run.app, run.pilot)
        assert "◐ indexing vectors 61 % 0:12 left" in run.text
        assert "2 changes waiting" in str(run.app.search_screen.status_bar.render())
        assert any("disk [/] full" in toast for toast in run.toasts)
        assert "vector leg: 401 [/]" in run.toasts
        cancelled: list[bool] = []
        run.engine.index.cancel = lambda: cancelled.append(True)
        await press(run.pilot, "ctrl+c")
        assert cancelled == [True]
        assert run.app.is_running
        run.engine.index.status = lambda: status
        run.app.search_screen.index.refresh_status()
        await press(run.pilot, "ctrl+c")
        assert run.app.return_code == 0


async def test_sync_and_rebuild_are_done_and_told(run_on: Any, memory: SmallMemory) -> None:
    async with run_on() as run:
        await run.search("heron")
        gone = memory.root / "memory/topics/garden.md"
        (memory.root / "memory/2026-02-20.md").write_text("# Friday\n\nA heron at the pond.\n")
        gone.unlink()
        await run.press("f5")
        await until(run.pilot, lambda: any("1 added" in toast for toast in run.toasts))
        await until(run.pilot, lambda: "2026-02-20.md" in run.text)
        await run.press("escape", "R")
        assert isinstance(run.app.screen, Confirm)
        await run.press("y")
        await until(run.pilot, lambda: any("rebuilt" in toast for toast in run.toasts))


async def test_a_changed_index_refreshes_the_results_and_a_note_that_is_gone_is_told(
    run_on: Any, memory: SmallMemory
) -> None:
    async with run_on(size=WIDE) as run:
        await run.search("lotus tea")
        screen = run.app.search_screen
        assert screen.selected_chunk().path == "memory/people/mai.md"
        (memory.root / "memory/people/mai.md").unlink()
        sequence = screen.search.sequence
        run.app.bus.publish(FileIndexed("memory/new.md", 1))
        await until(run.pilot, lambda: screen.search.sequence > sequence and screen.search.complete)
        await until(run.pilot, lambda: "gone" in run.text)
        assert "searching" not in run.text
