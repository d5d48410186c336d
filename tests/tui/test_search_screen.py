"""The search screen: answers, keys, panes, sizes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from textual import events

from memtui.bus import (
    Bus,
    FileIndexed,
    LegDegraded,
    SearchFailed,
    SearchReady,
    SyncFailed,
    SyncFinished,
)
from memtui.engine.source import RecentFile
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
from memtui.tui.bridge import IndexContentChanged
from memtui.tui.options import UiOptions
from memtui.tui.screens.dialogs import HistoryScreen
from tests.tui.harness import Running, press, running, settle, until
from tests.tui.samples import (
    NOW,
    STATUS,
    SampleEngine,
    SampleSource,
    make_pool,
)

FULL = Ranking(decay=Decay(enabled=True), mmr=Mmr(enabled=True), min_score=0.2)


def options(ranking: Ranking = Ranking(), **changes: object) -> UiOptions:  # noqa: B008
    """Options for a test: a fixed theme, nothing on disk."""
    base = UiOptions(theme="memtui-dark", ranking=ranking, root=Path("/home/ann/memory"))
    return replace(base, **changes)  # type: ignore[arg-type]


def silent(bus: Bus) -> SampleEngine:
    """An engine that answers only when told to."""
    return SampleEngine(bus, silent=True)


def sync_stats(**changes: object) -> SyncStats:
    """The figures of a sync that did nothing."""
    base = SyncStats(False, NOW, 0.1, 3, 0, 0, 0, 0, 0, 0, 0)
    return replace(base, **changes)  # type: ignore[arg-type]


def focus(run: Running) -> str | None:
    """Id of the widget that has the keys."""
    return run.app.focused.id if run.app.focused is not None else None


def order(run: Running) -> list[str]:
    """The chunk ids in the list, top to bottom."""
    return [row.id for row in run.app.search_screen.results.rows]


# --- searching --------------------------------------------------------------------------------


async def test_typing_shows_ranked_results_with_their_parts() -> None:
    async with running(options=options(FULL), size=(120, 40)) as run:
        await run.pilot.press(*"router config".replace(" ", "|").replace("|", " "))
        await until(run.pilot, lambda: run.app.search_screen.flow.answered == "router config")
        await settle(run.app, run.pilot)
        text = run.text
        assert "memory/network.md:1" in text
        assert "0.897" in text
        assert "█" in text
        assert "▒" in text
        assert "4/10" in text
        assert "Why this rank" in text
        assert "Router 192.168.10.1" in text


async def test_an_older_answer_never_replaces_a_newer_one() -> None:
    async with running(silent) as run:
        screen = run.app.search_screen
        screen.query_input.value = "old"
        await until(run.pilot, lambda: len(run.engine.asked) == 1)
        screen.query_input.value = "new"
        await until(run.pilot, lambda: len(run.engine.asked) == 2)
        run.engine.answer(2, "new")
        await settle(run.app, run.pilot)
        run.engine.answer(1, "old")
        await settle(run.app, run.pilot)
        assert screen.ranked is not None
        assert screen.ranked.pool.query == "new"


async def test_the_list_stays_while_searching_and_the_count_says_so() -> None:
    async with running() as run:
        await run.search()
        before = order(run)
        run.engine.silent = True
        run.app.search_screen.query_input.value = "another"
        await until(run.pilot, lambda: run.engine.asked[-1][1] == "another")
        await settle(run.app, run.pilot)
        assert order(run) == before
        assert "…" in run.text.splitlines()[0]


async def test_of_keys_typed_fast_the_last_is_answered() -> None:
    async with running(silent) as run:
        run.app.search_screen.query_input.value = "a"
        run.app.search_screen.query_input.value = "ab"
        run.app.search_screen.query_input.value = "abc"
        await until(run.pilot, lambda: len(run.engine.asked) == 3)
        run.engine.answer(1, "a")
        run.engine.answer(3, "abc")
        run.engine.answer(2, "ab")
        await until(run.pilot, lambda: run.app.search_screen.flow.answered == "abc")
        assert run.app.search_screen.ranked is not None
        assert run.app.search_screen.ranked.pool.query == "abc"


async def test_the_index_waits_for_keys_and_not_for_a_list_that_is_refreshed() -> None:
    async with running() as run:
        await press(run.pilot, *"vlan")
        await until(run.pilot, lambda: run.app.search_screen.flow.answered == "vlan")
        assert run.engine.held == 4
        asked = len(run.engine.asked)
        run.app.post_message(IndexContentChanged())
        await until(run.pilot, lambda: len(run.engine.asked) > asked)
        assert run.engine.asked[-1][1] == "vlan"
        assert run.engine.held == 4


async def test_a_partial_answer_is_marked_and_replaced() -> None:
    pending = make_pool(vector=LegState(LegStatus.PENDING, Reason.PENDING))
    async with running(silent) as run:
        screen = run.app.search_screen
        screen.query_input.value = "router"
        await until(run.pilot, lambda: bool(run.engine.asked))
        run.app.bus.publish(SearchReady(1, run.engine.search.rerank(pending, Ranking()), False))
        await settle(run.app, run.pilot)
        assert "~ vector pending" in run.text
        await run.pilot.press("down")
        kept = screen.results.chosen_id
        run.engine.answer(1, "router")
        await settle(run.app, run.pilot)
        assert "pending" not in run.text
        assert screen.results.chosen_id == kept


async def test_a_failed_search_keeps_the_list_and_names_the_error() -> None:
    async with running() as run:
        await run.search()
        before = order(run)
        run.engine.silent = True
        run.app.search_screen.query_input.value = "another"
        await until(run.pilot, lambda: run.engine.asked[-1][1] == "another")
        sequence = run.engine.asked[-1][0]
        run.app.bus.publish(SearchFailed(sequence, "the index is [/] gone \x1b[2J"))
        await settle(run.app, run.pilot)
        assert order(run) == before
        assert "the index is [/] gone ␛[2J" in run.text


async def test_a_leg_that_did_not_answer_is_named() -> None:
    skipped = make_pool(vector=LegState(LegStatus.SKIPPED, Reason.SCRIPT_NOT_SUPPORTED))
    async with running(lambda bus: SampleEngine(bus, skipped)) as run:
        await run.search()
        assert "no vector: the model does not read this script" in run.text


async def test_nothing_found_says_what_was_searched() -> None:
    none = make_pool(chunks=())
    async with running(lambda bus: SampleEngine(bus, none)) as run:
        await run.search("xyzzy")
        assert "Nothing found for xyzzy" in run.text
        assert "0 candidates" in run.text


async def test_everything_below_the_minimum_points_to_the_near_misses() -> None:
    async with running(options=options(Ranking(min_score=1.5))) as run:
        await run.search()
        assert "10 candidates below the minimum score 1.50" in run.text
        await run.pilot.press("escape", "n")
        await settle(run.app, run.pilot)
        assert "Not shown (10)" in run.text


async def test_an_empty_query_shows_recent_notes_and_queries() -> None:
    def engine(bus: Bus) -> SampleEngine:
        recents = [RecentFile("memory/network.md", datetime.now(UTC), 26)]
        return SampleEngine(bus, recents=recents)

    async with running(engine) as run:
        assert "changed  memory/network.md" in run.text
        await run.search("router")
        await run.pilot.press("enter")
        await run.pilot.press("slash", "backspace")
        await settle(run.app, run.pilot)
        assert "asked    router" in run.text
        await run.pilot.press("enter")
        await until(run.pilot, lambda: run.app.search_screen.flow.answered == "router")


async def test_problems_of_the_query_are_shown_under_the_box() -> None:
    async with running() as run:
        await run.search("router after:notaday")
        await until(run.pilot, lambda: "notaday" in run.text.splitlines()[1])
        await run.search("router")
        assert "notaday" not in run.text


async def test_half_a_filter_is_no_problem_while_it_is_typed() -> None:
    async with running() as run:
        await run.search()
        await run.pilot.press(*" after:2026-1")
        await settle(run.app, run.pilot)
        assert not run.app.search_screen.query_one("#problems").display
        await until(run.pilot, lambda: "is no day" in run.text.splitlines()[1])
        assert not run.app._notifications


async def test_a_long_paste_of_many_lines_is_cut_and_told() -> None:
    async with running() as run:
        run.app.screen.post_message(events.Paste("one\n\ntwo\n" + "word " * 2000))
        await until(run.pilot, lambda: "4000 characters" in run.text.splitlines()[1])
        value = run.app.search_screen.query_input.value
        assert value.startswith("one  two word")
        assert len(value) == 5000


# --- keeping the place --------------------------------------------------------------------------


async def test_the_chosen_row_is_kept_by_chunk_when_the_order_changes() -> None:
    async with running(options=options(Ranking(k=10))) as run:
        await run.search()
        await run.pilot.press("escape", "j", "j")
        chosen = run.app.search_screen.results.chosen_id
        place = order(run).index(chosen or "")
        await run.pilot.press("d")
        await settle(run.app, run.pilot)
        assert run.app.search_screen.results.chosen_id == chosen
        await run.pilot.press("F")
        await settle(run.app, run.pilot)
        assert run.app.search_screen.results.chosen_id == chosen
        assert place == 2


async def test_a_new_query_starts_at_the_top_unless_a_row_was_chosen() -> None:
    async with running() as run:
        await run.search("router")
        first = order(run)[0]
        assert run.app.search_screen.results.chosen_id == first
        await run.pilot.press("down")
        chosen = run.app.search_screen.results.chosen_id
        assert chosen == order(run)[1]
        await run.search("router c")
        assert run.app.search_screen.results.chosen_id == chosen


async def test_focus_stays_where_it_is_when_answers_come() -> None:
    async with running() as run:
        await run.search()
        assert focus(run) == "query"
        await run.pilot.press("escape")
        assert focus(run) == "results"
        run.app.bus.publish(SyncFinished(sync_stats(files_changed=1)))
        await until(run.pilot, lambda: len(run.engine.asked) == 2)
        await settle(run.app, run.pilot)
        assert focus(run) == "results"


# --- parameters ---------------------------------------------------------------------------------


async def test_toggles_rank_the_pool_again_without_asking_the_engine_to_search() -> None:
    async with running(size=(120, 40)) as run:
        await run.search()
        await run.pilot.press("escape", "m")
        await settle(run.app, run.pilot)
        assert run.app.search_screen.ranking.mmr.enabled
        assert "MMR on: " in run.text
        assert len(run.engine.asked) == 1
        await run.pilot.press("m")
        await settle(run.app, run.pilot)
        assert "MMR off" in run.text


async def test_toggling_twice_gives_the_identical_list() -> None:
    async with running() as run:
        await run.search()
        before = run.app.search_screen.ranked
        await run.pilot.press("f2", "f3", "f2", "f3")
        await settle(run.app, run.pilot)
        after = run.app.search_screen.ranked
        assert before is not None
        assert after is not None
        assert [(h.chunk.id, h.effective) for h in after.hits] == [
            (h.chunk.id, h.effective) for h in before.hits
        ]


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


async def test_every_parameter_key_says_what_it_did() -> None:
    async with running(options=options(FULL), size=(160, 40)) as run:
        await run.search()
        await run.pilot.press("escape")
        for key, note in KEY_NOTES.items():
            await run.pilot.press(key)
            assert f"{note}: " in run.text, key
            await run.pilot.press("0")
            assert run.app.search_screen.ranking == FULL, key


async def test_a_changed_parameter_shows_the_configured_value() -> None:
    async with running(options=options(FULL), size=(120, 40)) as run:
        await run.search()
        await run.pilot.press("escape", "left_square_bracket")
        await settle(run.app, run.pilot)
        assert "λ 0.65 (0.70)" in run.text


async def test_more_candidates_than_the_pool_holds_ask_again() -> None:
    small = make_pool(limit=50)
    async with running(lambda bus: SampleEngine(bus, small), options=options(Ranking(k=12))) as run:
        await run.search()
        await run.pilot.press("escape", "plus")
        await settle(run.app, run.pilot)
        assert len(run.engine.asked) == 2


async def test_while_typing_letters_are_text_and_function_keys_act() -> None:
    async with running() as run:
        await run.pilot.press("m", "[", "0")
        assert run.app.search_screen.query_input.value == "m[0"
        await run.pilot.press("f2")
        assert run.app.search_screen.ranking.mmr.enabled
        assert "F2 MMR" in run.text
        assert "q quit" not in run.text.replace("^q quit", "")


async def test_an_answer_with_older_parameters_is_ranked_again() -> None:
    async with running(silent) as run:
        run.app.search_screen.query_input.value = "router"
        await until(run.pilot, lambda: bool(run.engine.asked))
        await run.pilot.press("f2")
        run.engine.answer(1, "router", Ranking())
        await settle(run.app, run.pilot)
        ranked = run.app.search_screen.ranked
        assert ranked is not None
        assert ranked.ranking.mmr.enabled


async def test_mouse_on_a_pill_toggles_it() -> None:
    async with running(size=(120, 40)) as run:
        await run.search()
        await run.pilot.click("#param-strip", offset=(4, 0))
        await settle(run.app, run.pilot)
        assert run.app.search_screen.ranking.mmr.enabled


# --- lists and panes ----------------------------------------------------------------------------


async def test_sorting_changes_the_order_on_screen_and_no_rank() -> None:
    async with running(options=options(Ranking(k=10))) as run:
        await run.search()
        ranks = order(run)
        await run.pilot.press("escape", "o")
        await settle(run.app, run.pilot)
        assert "Results by vector" in run.text
        assert sorted(order(run)) == sorted(ranks)
        assert order(run) != ranks
        await run.pilot.press("o", "o", "o")
        assert order(run) == ranks


async def test_near_misses_tell_why() -> None:
    async with running(options=options(FULL), size=(120, 40)) as run:
        await run.search()
        assert "Not shown (6)" in run.text
        assert "< minimum 0.2 after decay" in run.text
        await run.pilot.press("escape", "n")
        await settle(run.app, run.pilot)
        assert "Not shown" not in run.text


async def test_a_near_miss_can_be_chosen_and_explained() -> None:
    async with running(options=options(FULL), size=(120, 40)) as run:
        await run.search()
        screen = run.app.search_screen
        screen.near.focus()
        await run.pilot.press("down")
        await settle(run.app, run.pilot)
        assert screen.ranked is not None
        assert screen.selected_id == screen.ranked.drops[1].chunk.id
        await run.pilot.press("x")
        await settle(run.app, run.pilot)
        assert run.app.screen is not screen
        await run.pilot.press("escape")
        await settle(run.app, run.pilot)
        assert run.app.screen is screen


async def test_near_misses_go_back_to_the_top_after_a_ranking_unless_they_are_read() -> None:
    async with running(options=options(Ranking(k=4))) as run:
        await run.search()
        near = run.app.search_screen.near
        await run.pilot.press("escape", "n")
        await settle(run.app, run.pilot)
        near.scroll_to(y=4, animate=False)
        await settle(run.app, run.pilot)
        assert near.scroll_offset.y > 0
        await run.pilot.press("F")
        await settle(run.app, run.pilot)
        assert near.scroll_offset.y == 0
        near.focus()
        await run.pilot.press("G")
        await settle(run.app, run.pilot)
        chosen = near.chosen_id
        await run.pilot.press("F")
        await settle(run.app, run.pilot)
        assert run.app.search_screen.selected_id == near.chosen_id == chosen


async def test_what_is_marked_in_the_focused_list_is_what_is_shown() -> None:
    async with running(options=options(Ranking(k=2)), size=(120, 40)) as run:
        await run.search()
        screen = run.app.search_screen
        await run.pilot.press("escape", "tab", "j")
        await settle(run.app, run.pilot)
        assert screen.selected_id == screen.near.chosen_id
        await run.pilot.press("enter", "d")
        await settle(run.app, run.pilot)
        assert screen.selected_id == screen.near.chosen_id
        await run.pilot.press("escape")
        await settle(run.app, run.pilot)
        assert screen.selected_id == screen.results.chosen_id


async def test_tab_goes_round_the_panes_and_back() -> None:
    async with running(size=(120, 40)) as run:
        await run.search()
        seen = []
        for _ in range(5):
            seen.append(focus(run))
            await run.pilot.press("tab")
        assert seen == ["query", "results", "near-misses", "preview", "why"]
        await run.pilot.press("shift+tab")
        assert focus(run) == "why"


async def test_escape_leaves_the_query_and_never_clears_or_quits() -> None:
    async with running() as run:
        await run.search()
        for _ in range(4):
            await run.pilot.press("escape")
        assert run.app.is_running
        assert run.app.search_screen.query_input.value == "router config"
        assert focus(run) == "results"


async def test_enter_opens_no_result_of_the_text_before() -> None:
    async with running() as run:
        await run.search("router")
        run.engine.silent = True
        run.app.search_screen.query_input.value = "another"
        await until(run.pilot, lambda: run.engine.asked[-1][1] == "another")
        await press(run.pilot, "enter")
        assert focus(run) == "query"
        run.engine.answer(*run.engine.asked[-1])
        await until(run.pilot, lambda: run.app.search_screen.flow.answered == "another")
        await press(run.pilot, "enter")
        assert focus(run) == "preview"


async def test_enter_opens_the_preview() -> None:
    async with running() as run:
        await run.search()
        await run.pilot.press("enter")
        await settle(run.app, run.pilot)
        assert focus(run) == "preview"


async def test_the_preview_goes_right_below_and_off() -> None:
    async with running(size=(120, 40)) as run:
        await run.search()
        screen = run.app.search_screen
        await run.pilot.press("escape", "v")
        await settle(run.app, run.pilot)
        assert screen.preview.region.x > screen.results.region.x
        await run.pilot.press("v")
        await settle(run.app, run.pilot)
        assert screen.preview.region.y > screen.results.region.bottom
        await run.pilot.press("v")
        await settle(run.app, run.pilot)
        assert not screen.preview.display


async def test_history_offers_what_was_asked() -> None:
    async with running() as run:
        await run.search("router")
        await run.pilot.press("enter", "slash")
        await run.search("nas")
        await run.pilot.press("enter", "ctrl+r")
        await settle(run.app, run.pilot)
        assert isinstance(run.app.screen, HistoryScreen)
        await run.pilot.press(*"rou")
        await settle(run.app, run.pilot)
        await run.pilot.press("enter")
        await until(run.pilot, lambda: run.app.search_screen.flow.answered == "router")


async def test_history_survives_in_the_state_folder(tmp_path: Path) -> None:
    kept = options(state_dir=tmp_path, root=tmp_path)
    async with running(options=kept) as run:
        await settle(run.app, run.pilot)
        await run.pilot.press("escape")
        run.app.search_screen.query_input.focus()
        await run.search("router")
        await run.pilot.press("enter")
        await settle(run.app, run.pilot)
    async with running(options=kept) as run:
        await until(run.pilot, lambda: run.app.search_screen.notes.history.queries == ("router",))


# --- copying and editing ------------------------------------------------------------------------


async def test_citation_and_text_are_copied() -> None:
    async with running() as run:
        await run.search()
        await run.pilot.press("escape", "y")
        assert run.app.clipboard == "memory/2026-02-10.md#L12-L31"
        await run.pilot.press("Y")
        assert run.app.clipboard.startswith("Configured Omada router: VLAN 20")


async def test_without_a_terminal_the_editor_is_replaced_by_the_place() -> None:
    async with running() as run:
        await run.search()
        await run.pilot.press("escape", "e")
        await settle(run.app, run.pilot)
        assert "memory/2026-02-10.md:12" in run.text
        assert "No editor here" in run.text


# --- the index ----------------------------------------------------------------------------------


async def test_the_state_of_the_index_is_glyph_and_word() -> None:
    async with running() as run:
        assert "● ready" in run.text
        run.engine.current = replace(
            STATUS,
            state=IndexState.INDEXING,
            pending_count=2,
            progress=Progress("vectors", 61, 100, 10.0, 12.0),
        )
        run.app.bus.publish(SyncFailed("disk [/] full", NOW))
        await settle(run.app, run.pilot)
        assert "◐ indexing vectors 61 % 0:12 left" in run.text
        assert "2 changes waiting" in str(run.app.search_screen.status_bar.render())
        assert "disk [/] full" in run.text


async def test_sync_asks_the_engine_and_tells_what_it_did() -> None:
    async with running() as run:
        await run.pilot.press("f5")
        assert "sync" in run.engine.calls
        run.app.bus.publish(SyncFinished(sync_stats(files_added=2)))
        await settle(run.app, run.pilot)
        assert "synced: 2 added" in run.text


async def test_a_rebuild_is_asked_for_with_its_price() -> None:
    async with running() as run:
        await run.pilot.press("escape", "R")
        await settle(run.app, run.pilot)
        assert run.app.screen is not run.app.search_screen
        assert "rebuild" not in run.engine.calls
        await run.pilot.press("y")
        await settle(run.app, run.pilot)
        assert "rebuild" in run.engine.calls


async def test_a_changed_index_refreshes_the_shown_results() -> None:
    async with running() as run:
        await run.search()
        run.app.bus.publish(FileIndexed("memory/new.md", 1))
        await until(run.pilot, lambda: len(run.engine.asked) == 2)
        assert "searching" not in run.text


async def test_a_dead_leg_is_told() -> None:
    async with running() as run:
        run.app.bus.publish(LegDegraded(Leg.VECTOR, Reason.PROVIDER_FAILED, "401 [/]"))
        await settle(run.app, run.pilot)
        assert "vector leg: 401 [/]" in run.text


async def test_ctrl_c_stops_indexing_before_it_quits() -> None:
    async with running() as run:
        run.engine.current = replace(STATUS, state=IndexState.INDEXING)
        run.app.search_screen.index.refresh_status()
        await run.pilot.press("ctrl+c")
        assert run.engine.calls[-1] == "cancel"
        assert run.app.is_running
        run.engine.current = STATUS
        run.app.search_screen.index.refresh_status()
        await run.pilot.press("ctrl+c")
        assert run.app.return_code == 0


async def test_a_note_that_cannot_be_read_is_told() -> None:
    def engine(bus: Bus) -> SampleEngine:
        gone = SampleSource("memory/2026-02-10.md", [], "gone", detail="file gone")
        return SampleEngine(bus, sources={"memory/2026-02-10.md": gone})

    async with running(engine, size=(120, 40)) as run:
        await run.search()
        assert "gone" in run.text


async def test_numbers_go_to_the_index_screen_and_back() -> None:
    async with running() as run:
        await run.pilot.press("escape", "4")
        await settle(run.app, run.pilot)
        assert run.app.screen is not run.app.search_screen
        await run.pilot.press("1")
        await settle(run.app, run.pilot)
        assert run.app.screen is run.app.search_screen
