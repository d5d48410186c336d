"""The search screen on a real memory: answers, keys, panes, changes of the ranking, pinned chunks."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from datetime import date
from itertools import count, product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace
from textual import events
from textual.widgets import Input

from memtui.bus import (
    Bus,
    FileIndexed,
    LegChanged,
    SearchFailed,
    SearchReady,
    SyncFailed,
    SyncFinished,
)
from memtui.data import DEMO_PRESENT, DEMO_ROOT
from memtui.engine.engine import Engine
from memtui.index.transcripts.discovery import demo_homes
from memtui.model import (
    FEATURES,
    Context,
    Decay,
    Fusion,
    IndexState,
    Leg,
    LegState,
    LegStatus,
    Mmr,
    Progress,
    Ranked,
    Ranking,
    Reason,
    SyncStats,
)
from memtui.ranking.context import with_weights
from memtui.ranking.pipeline import difference
from memtui.ranking.profiles import PROFILES
from memtui.ranking.trace import cited_lines, find
from memtui.report.words import nothing_words
from memtui.settings.schema import EmbeddingSettings, KeymapSettings, Settings, key_abouts
from memtui.text.sanitize import HOSTILE
from memtui.tui.app import MOST_WARNINGS, MemtuiApp
from memtui.tui.options import UiOptions
from memtui.tui.screens.choosers import Chooser
from memtui.tui.screens.dialogs import Confirm
from memtui.tui.screens.search import search_controller
from memtui.tui.screens.search.ranking_controller import BURST_SECONDS, MOST_CHANGES
from memtui.tui.widgets.parameter_panes import WEIGHTS, ParamPanel, describe_change, effect, values
from tests.support.hostile import ATTACKS
from tests.support.small_memory import NOW, SmallMemory
from tests.tui.harness import (
    Running,
    all_lines,
    dark,
    press,
    press_at_once,
    running,
    screen_text,
    settle,
    until,
)

WIDE = (120, 40)
OPERATORS = "tag:home source:memory"
"""Of the line that shows what a query can have."""


@pytest.fixture
def run_on(memory: SmallMemory) -> Callable[..., Any]:
    """Run the application on the small memory with a ranking, at a size."""

    def run(
        ranking: Ranking = Ranking(),  # noqa: B008 - frozen
        size: tuple[int, int] = (80, 24),
        query: str | None = None,
        **changes: Any,
    ) -> Any:
        options = replace(dark(ranking=ranking, root=memory.root), **changes)
        return running(memory.open, options=options, size=size, query=query)

    return run


def order(run: Running) -> list[str]:
    """The chunk ids in the list, top to bottom."""
    return [row.id for row in run.app.search_screen.results.rows]


def focus(run: Running) -> str | None:
    """Id of the widget that has the keys."""
    return run.app.focused.id if run.app.focused is not None else None


def asked_last(run: Running) -> int:
    """The number of the newest request."""
    request = run.app.search_screen.state.request
    assert request is not None
    return request.number


async def answer(
    run: Running, vector: LegState, *, complete: bool = True, ranking: Ranking | None = None
) -> None:
    """Publish the answer on screen again, as if the vector leg had ended so."""
    screen = run.app.search_screen
    assert screen.state.ranked is not None
    pool = screen.state.ranked.pool
    states = {**pool.states, Leg.VECTOR: vector}
    hits = pool.hits if vector.status is LegStatus.OK else {**pool.hits, Leg.VECTOR: ()}
    again = run.engine.search.rerank(
        replace(pool, states=states, hits=hits), ranking or screen.state.ranking
    )
    run.app.bus.publish(SearchReady(asked_last(run), again, complete))
    await settle(run.app, run.pilot)


async def test_the_index_waits_for_keys_and_not_for_a_list_that_is_refreshed(run_on: Any) -> None:
    async with run_on() as run:
        hold = run.engine.index.hold = Mock(wraps=run.engine.index.hold)
        await press(run.pilot, *"router")
        screen = run.app.search_screen
        await run.until(
            lambda: screen.state.answered_text == "router" and not screen.state.is_pending
        )
        assert hold.call_count == 6
        sequence = asked_last(run)
        run.app.bus.publish(FileIndexed())
        await run.until(lambda: asked_last(run) > sequence and not screen.state.is_pending)
        assert hold.call_count == 6


async def test_what_comes_late_or_fails_leaves_the_list_as_it_is(run_on: Any) -> None:
    async with run_on(query="router") as run:
        screen = run.app.search_screen
        old, number, before = screen.state.ranked, asked_last(run), order(run)
        await run.search("kyoto")
        run.app.bus.publish(SearchReady(number, old, True))
        await settle(run.app, run.pilot)
        assert screen.state.ranked.pool.query == "kyoto"
        await run.search("router")
        screen.state.request = search_controller.Request(10**6, "router")
        screen.query_bar.show_note("", stale=True)
        await settle(run.app, run.pilot)
        assert "…" in run.text.splitlines()[1]
        run.app.bus.publish(SearchFailed(asked_last(run), "the index is [/] gone \x1b[2J"))
        await settle(run.app, run.pilot)
        assert order(run) == before
        assert "the index is [/] gone ␛[2J" in run.text


async def test_a_part_of_an_answer_is_marked_and_a_leg_that_is_silent_named(run_on: Any) -> None:
    async with run_on(query="router config") as run:
        await answer(run, LegState(LegStatus.PENDING, Reason.PENDING), complete=False)
        await run.until(lambda: "meaning match still searching" in run.text)
        await run.press("down")
        kept = run.app.search_screen.results.chosen_id
        await answer(run, LegState(LegStatus.SKIPPED, Reason.SCRIPT_NOT_SUPPORTED))
        assert "searching" not in run.text
        assert "no meaning match: the model does not read this script" in run.text
        assert run.app.search_screen.results.chosen_id == kept
        # The ranking was changed while the answer was on its way.
        await run.press("f2")
        await answer(run, LegState(LegStatus.OK), ranking=Ranking())
        assert run.app.search_screen.state.ranked.ranking.mmr.enabled


async def test_where_nothing_is_found_it_is_said_why(run_on: Any, memory: SmallMemory) -> None:
    async with run_on(Ranking(min_score=50)) as run:
        for number in range(25):
            (memory.root / f"memory/more-{number}.md").write_text(f"router {number}\n")
        run.engine.index.sync(wait=True)
        await run.search()
        count = len(run.app.search_screen.state.ranked.pool.chunks)
        assert f"{count} candidates below the minimum score 50, the best with" in run.text
        await run.press("escape", "H")
        assert "t traces any other chunk" in run.text
        assert f"Not shown ({count} of {count} found)" in run.text
        await run.press("G")
        assert run.app.search_screen.near.cursor == count - 1, "the last one can be reached, too"
        await run.press("slash")
        assert "traces any other" not in run.text, "its key is typed now"


async def test_an_empty_query_shows_recent_notes_and_queries(run_on: Any) -> None:
    async with run_on() as run:
        assert "memory/" in run.text
        assert OPERATORS in run.text
        await run.press("escape")
        assert "explain" not in run.text
        await run.search("router")
        assert OPERATORS not in run.text
        await run.press("enter", "slash")
        assert OPERATORS in run.text, "what is typed next replaces all"
        await run.press("backspace")
        assert "asked" in run.text
        assert OPERATORS in run.text
        await run.press("enter")
        await run.until(lambda: run.app.search_screen.state.answered_text == "router")
        assert not run.app.search_screen.state.ranked.pool.typing


@pytest.mark.parametrize("end", ["enter", "space", "pause"])
async def test_the_last_word_is_a_beginning_until_it_is_ended(
    run_on: Any, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(search_controller, "WHOLE_WORD_AFTER", 60)
    async with run_on() as run:
        state, query = run.app.search_screen.state, "router confi"
        await run.search(query[:-1], typing=True)
        assert f"{query[:-1]}*" in run.text.splitlines()[1]
        monkeypatch.setattr(search_controller, "WHOLE_WORD_AFTER", 0.01 if end == "pause" else 60)
        await press(run.pilot, "i", *([end] if end != "pause" else []))
        await run.until(lambda: state.answered_text == query and not state.ranked.pool.typing)
        await settle(run.app, run.pilot)
        assert f"{query}*" not in run.text
        assert {term for hit in state.ranked.hits for term in hit.legs[Leg.KEYWORD].terms} == {
            "router"
        }


async def test_problems_of_the_query_are_shown_under_the_box(
    run_on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_controller, "PROBLEM_SECONDS", 60)
    async with run_on(query="router config") as run:
        await press(run.pilot, *" after:2026-")
        assert not run.app.search_screen.query_one("#problems").size.height, "half a filter is none"
        monkeypatch.setattr(search_controller, "PROBLEM_SECONDS", 0.01)
        await press(run.pilot, "1")
        await run.until(lambda: "is ignored, as it is not a date" in run.text.splitlines()[2])
        assert not run.toasts
        await run.search("somethingelse:bar co*fig AND x")
        assert "is ignored, as it is not a date" not in run.text
        below = " ".join(line.strip() for line in run.text.splitlines()[2:6])
        assert "use source: path: tag: after: before:; co*fig is searched as words" in below
        assert "AND is searched as a word: -word excludes, quotes require" in below, "all is told"
        await run.press("ctrl+u")
        run.app.screen.post_message(
            events.Paste("one\r\rtwo \x1b[31mred\x1b[0m\n" + "word " * 2000)
        )
        await run.until(lambda: "4000 characters" in run.text.splitlines()[2])
        value = run.app.search_screen.query_input.value
        assert value.startswith("one two  red word")
        assert len(value) == 5000


async def test_filters_alone_say_how_many_pass_and_by_which_day(
    run_on: Any, memory: SmallMemory
) -> None:
    async with run_on() as run:
        for number in range(50):
            (memory.root / f"memory/more-{number}.md").write_text(f"garden {number}\n")
        run.engine.index.sync(wait=True)
        await run.search("before:2100-01-01")
        passing = run.engine.index.status().chunks
        assert f"filters alone: newest 50 of {passing} chunks, undated last" in run.text
        assert f" of {passing} " in run.text
        await run.search("garden before:2100-01-01")
        await run.until(lambda: "a note without a date counts" in run.text.splitlines()[2])
        assert f"file {date.today()}" in run.text
        assert "undated" not in run.text
        await run.search("garden -nobody path:memory before:2100-01-01")
        frame = next(line for line in run.text.splitlines() if "searched in" in line)
        assert ("-nobody) " in frame, "…" in frame) == (True, False), "dropped, not cut"
        await run.search("garden")
        assert "undated" in run.text


async def test_keys_that_come_at_once_are_taken_in_their_order(run_on: Any) -> None:
    async with run_on() as run:
        await run.search("router")
        await press_at_once(run.pilot, "ctrl+u", *"garden", "backspace", *"ias", "left", "x")
        assert run.app.search_screen.query_input.value == "gardeiaxs"


async def test_what_is_chosen_is_kept_and_where_the_keys_are_too(run_on: Any) -> None:
    async with run_on(Ranking(k=10)) as run:
        screen = run.app.search_screen
        await run.search("router")
        assert screen.results.chosen_id == order(run)[0]
        assert focus(run) == "query"
        await run.press("down", "down")
        chosen = screen.results.chosen_id
        assert chosen == order(run)[2]
        await run.search("garden tea")
        first = screen.results.chosen_id
        assert first == order(run)[0], "nobody chose in the answer to this question"
        await answer(run, LegState(LegStatus.SKIPPED, Reason.SCRIPT_NOT_SUPPORTED))
        assert screen.results.chosen_id == order(run)[0] != first
        await run.search("router")
        await run.press("down", "down", "escape", "d", "F")
        assert (screen.results.chosen_id, focus(run)) == (chosen, "results")
        sequence = asked_last(run)
        stats = SyncStats(False, NOW, 0.1, 3, 0, 1, 0, 0, 0, 0, 0)
        run.app.bus.publish(SyncFinished(stats))
        await run.until(lambda: asked_last(run) > sequence and not screen.state.is_pending)
        await settle(run.app, run.pilot)
        assert (screen.results.chosen_id, focus(run)) == (chosen, "results")
        assert "synced" not in run.text, "told only where it was asked for"


async def test_the_pool_grows_and_shrinks_with_the_candidates(run_on: Any) -> None:
    def candidates(run: Running) -> tuple[int, list[str]]:
        ranked = run.app.search_screen.state.ranked
        assert ranked is not None
        return ranked.pool.limit, [drop.chunk.id for drop in ranked.drops]

    ranking = Ranking(k=1)
    async with run_on(ranking, WIDE, query="router") as run:
        before = candidates(run)
        for back in ("u", "0"):
            run.app.search_screen.rankings.change(replace(ranking, k=50))
            await settle(run.app, run.pilot)
            assert candidates(run)[0] == 200
            await run.press("escape", back)
            assert candidates(run) == before


async def test_a_change_that_searches_tells_its_effect_on_the_whole_list(
    memory: SmallMemory, run_on: Any
) -> None:
    for number in range(80):
        (memory.root / f"memory/{number}.md").write_text(f"The router number {number}.\n")
    async with run_on(Ranking(k=2), (120, 40)) as run:
        run.engine.index.sync(wait=True)
        await run.search("router")
        run.app.search_screen.rankings.change(Ranking(k=150))
        await settle(run.app, run.pilot)
        entered = len(order(run)) - 2
        assert entered > 80
        effect = f"results 2→150: 2 moved, {entered} in"
        assert effect in run.text
        await run.press("escape", "u", "U")
        assert f"redone: {effect.replace(':', ' again:')}" in run.text


async def test_one_row_is_marked_as_chosen(run_on: Any) -> None:
    async with run_on(Ranking(k=2), WIDE, query="router") as run:

        def marked() -> list[str]:
            lines = (line for line in run.text.split("\n") if "│›" in line or line[:1] == "›")
            return [line.split("›")[1].split()[0] for line in lines if ".md" in line]

        screen = run.app.search_screen
        assert marked() == ["1"]
        screen.near.focus()
        await run.press("j")
        assert marked() == ["4"]
        screen.preview.focus()
        await settle(run.app, run.pilot)
        assert marked() == ["4"], "the preview shows the near miss"
        screen.results.focus()
        await settle(run.app, run.pilot)
        await run.press("j")
        assert marked() == ["2"]


async def test_while_typing_letters_are_text_and_function_keys_act(run_on: Any) -> None:
    async with run_on(size=WIDE) as run:
        await run.press("m", "[", "0")
        screen = run.app.search_screen
        assert screen.query_input.value == "m[0"
        await run.press("f2")
        assert screen.state.ranking.mmr.enabled
        assert "F2 MMR" in run.text
        assert "q quit" not in run.text.replace("^q quit", "")
        await run.pilot.click("#param-strip", offset=(4, 0))
        await settle(run.app, run.pilot)
        assert not screen.state.ranking.mmr.enabled


@pytest.mark.parametrize("size", [(40, 10), (80, 24), WIDE, (200, 60)])
async def test_parameters_are_seen_whole_and_changed_at_every_size(
    size: tuple[int, int], run_on: Any
) -> None:
    async with run_on(size=size, query="router config") as run:
        run.app.keymap = {"lambda.down": "f9"}
        await run.press("escape", "P", "j", "j", "j", "j", "enter", "comma")
        screen, profile = run.app.search_screen, PROFILES["openclaw-2026.9"]
        assert screen.state.ranking == profile
        panel = run.app.screen.query_one(ParamPanel).rows
        assert panel.has_focus
        shown = all_lines(panel)
        assert "F9 )" in shown, "the panel names the keys that are bound"
        now, before = values(profile), values(run.app.options.ranking)
        assert [value for value in now.values() if value not in f"{shown} auto"] == []
        changed = [f"(was {value})" for name, value in before.items() if value != now[name]]
        assert [value for value in changed if value not in shown] == []
        # By the keys that the panel names, by those of the whole program, and by the mouse.
        await run.press(*["j"] * 5, "l", "l", "h", "m", "j", "j", "j", "right", "j", "h")
        assert screen.state.ranking == replace(
            profile,
            vector_weight=0.75,
            keyword_weight=0.25,
            mmr=replace(profile.mmr, enabled=False),
            fusion=Fusion.RELATIVE_SCORE,
            min_score=0.3,
        )
        assert (" of each match" in run.text) is (size[0] > 40)
        if size == WIDE:
            # Both stand in one column: the arithmetic goes before the preview and the index.
            assert screen.why.render().plain.splitlines()[-1] in run.text
        assert " before MMR, are not shown" in " ".join(all_lines(panel).split())
        await run.press("G", "k", "enter")
        assert screen.state.ranking == run.app.options.ranking
        await run.press("k", "l", "escape", "comma" if size < WIDE else "escape", "escape")
        assert run.app.screen is screen
        assert focus(run) == "results"


@pytest.mark.parametrize("size", [(40, 10), (80, 24), WIDE])
async def test_weights_of_passages_are_changed_without_reading_the_index(
    size: tuple[int, int], run_on: Any, statements: list[str]
) -> None:
    async with run_on(size=size, query="router config") as run:
        await run.press("escape", "j")
        screen, rankings = run.app.search_screen, run.app.search_screen.rankings
        ticks = count(0.0, 1.0)
        rankings.clock = lambda: next(ticks)
        statements.clear()
        panel = run.app.screen.query_one(ParamPanel).rows
        assert panel.rows == (), "nobody sees it"
        await run.press("C", "C", "comma")
        assert "0.70 (MMR off)" in " ".join(all_lines(panel).split())
        pool = screen.state.ranked.pool
        used = with_weights(screen.state.ranking, pool.evidence).context
        assert used.cover
        was, half, now = (f"{used.cover + step:.2f}" for step in (0, 0.25, 0.5))
        shown = [WEIGHTS[row.id] for row in panel.rows if row.id in WEIGHTS]
        assert sorted(shown) == sorted(FEATURES)
        assert shown.index("near_cover") < shown.index("date"), "what counts goes first"
        await run.press(*["j"] * [row.id for row in panel.rows].index("words covered"), "l", "l")
        assert screen.state.ranking.context == Context(enabled=True, cover=used.cover + 0.5)
        chunk_id = screen.state.selected_id
        shares: Any = find(screen.state.ranked, chunk_id).stages[1].numbers
        share = shares["cover"]

        def ranked_with(cover: float) -> Any:
            context = replace(screen.state.ranking.context, cover=cover)
            return run.engine.search.rerank(pool, replace(screen.state.ranking, context=context))

        # What a value does is seen beside it: the strip, and six results at 80 × 24.
        assert screen.results.content_region.height >= 6 * screen.row_lines or size < (80, 24)
        told = " ".join(all_lines(panel).split())
        assert key_abouts()["ranking.context.cover"] in told
        assert f"words covered {now} (was {was}) × {share / float(now):.2f}" in told
        assert f"= {share:.3f}, without it #{ranked_with(0.0).ranks[chunk_id]}" in told
        change = f"words covered {half}→{now}: " if size == WIDE else ""
        moves = effect(difference(ranked_with(float(half)), screen.state.ranked))
        assert f"{change}{moves}" in screen.strip.render().plain or size < (80, 24)
        await run.press("h", "h")
        assert screen.state.ranking.context == Context(enabled=True), "the constant is no choice"
        await run.press("u")
        assert screen.state.ranking.context.cover == used.cover + 0.25
        await run.press("0")
        assert screen.state.ranking == Ranking()
        assert [sql for sql in statements if "chunks" in sql or "passages" in sql] == []


async def test_a_result_stands_at_the_line_of_its_best_passage(
    memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"- Filler about weather, number {number}." for number in range(40)]
    lines[30] = "- The zeppelin lands on the lighthouse roof."
    (memory.root / "memory/long.md").write_text("\n".join(lines) + "\n")
    edit = Mock(return_value=False)
    monkeypatch.setattr("memtui.tui.place_actions.edit_place", edit)
    options = dark(ranking=Ranking(context=Context(enabled=True)), root=memory.root)
    async with running(memory.open, options=options, size=WIDE) as run:
        run.engine.index.sync(wait=True)
        await run.search("zeppelin lighthouse")
        await run.press("escape")
        assert "memory/long.md:31" in all_lines(run.app.search_screen.results)
        assert [line for line in run.text.splitlines() if "31 ▉- The zeppelin" in line]
        await run.press("y", "e")
        assert run.app.clipboard == "memory/long.md#L31"
        assert [call.args[-1] for call in edit.call_args_list] == [31]
        await run.press("p", "S")
        assert "memory/long.md:31" in run.text
        await run.press("escape", "c")
        assert [line.count("memory/long.md:31") for line in run.text.splitlines()].count(1) == 1
        await run.press("escape")
        assert "memory/long.md:31" in str(run.app.search_screen.pin_strip.render())
        await run.press("p")
        await run.press("enter")
        assert [line for line in run.text.splitlines() if "▉" in line and "zeppelin" in line]
        await run.press("escape", "C")
        assert "31 ▌- The zeppelin" in run.text


def test_a_value_has_as_many_digits_as_it_takes() -> None:
    before = Ranking(vector_weight=0.3, keyword_weight=0.7)
    after = replace(before, vector_weight=0.296, keyword_weight=1 - 0.296, min_score=0.35)
    told = "meaning 0.30→0.296, keyword 0.70→0.704, minimum off→0.35"
    assert describe_change(before, after) == told
    after = replace(before, mmr=Mmr(enabled=True, lambda_=0.704))
    assert describe_change(before, after) == "MMR on, λ 0.70→0.704"


async def test_another_order_says_how_to_go_back_and_what_it_cannot_do(run_on: Any) -> None:
    async with run_on(size=(120, 40), query="router") as run:
        await run.press("escape", "o")
        assert "Results by meaning, o changes" in run.text
        await run.search("h")
        assert "Results by rank: no meaning match, o changes" in run.text
        await run.press("slash")
        assert "no meaning match, alt+o changes" in run.text, "a key that is not typed"
        ranks = [hit.chunk.id for hit in run.app.search_screen.state.ranked.hits]
        assert [row.id for row in run.app.search_screen.results.rows] == ranks
        await run.search("router")
        await run.press("escape", "o", "o")
        chunks = run.app.search_screen.state.ranked.pool.chunks
        days = [chunks[row.id].day for row in run.app.search_screen.results.rows]
        assert "list by date" in run.text
        assert days == [*sorted(filter(None, days), reverse=True), None], "undated last"


@pytest.mark.parametrize("width", [40, 80, 120, 200])
async def test_the_strip_cuts_nothing_and_keeps_what_was_changed(width: int, run_on: Any) -> None:
    async with run_on(size=(width, 24)) as run:
        strip, rankings = run.app.search_screen.strip, run.app.search_screen.rankings
        rankings.step("fusion", 0)
        notes = "", "words covered nearby 3.25→3.50, twice: 3 moved, 1 in, 1 out"
        for note, key in product(notes, ("alt+p", ",")):
            rankings.note(note)
            line = strip.render().plain
            assert "…" not in line or width == 40
            assert "3 moved" in line or not note or width == 40
            assert {"MMR", "decay", "context"} <= {*line.split()} or (width == 40 and note)
            if width == 200 or (width > 40 and not note):
                assert "RRF" in line
                # What has no room is counted, beside the key that shows it.
                assert (f"more: press {key}" in line) is ("profile memtui" not in line)
            await run.press("escape" if key == "alt+p" else "slash")
        rankings.change(PROFILES["openclaw-2026.9"])
        rankings.note("")
        assert width < 80 or "profile openclaw-2026.9" in strip.render().plain


async def test_a_search_is_narrowed_to_a_file_and_what_fits_nothing_is_named(run_on: Any) -> None:
    async with run_on(size=WIDE, query="router") as run:
        screen, path = run.app.search_screen, run.app.search_screen.state.selected_chunk.path
        await run.press("escape", "f")
        assert screen.query_input.value == f"path:{path} router"
        assert {hit.chunk.path for hit in screen.state.ranked.hits} == {path}
        await run.press("f")
        assert screen.query_input.value == "router"
        await run.search("tag:nosuch")
        assert f"{nothing_words(screen.state.ranked)}: ask for less" in run.text
        assert "no chunk fits tag:nosuch" in run.text
        await run.press("escape", "comma")
        weights = re.findall(r"words covered nearby +(\S+)", all_lines(screen.panel.rows))
        assert weights == ["auto"], "as without a query"
        await run.press("escape", "x", "c")
        assert run.toasts[-2:] == [
            f"Nothing to {verb}: there are no results." for verb in ("explain", "compare")
        ]
        await run.search("router")
        assert "Select a result to read" not in run.text
        screen.query_input.value = ""
        await settle(run.app, run.pilot)
        assert "Select a result to read" in run.text, "the note of the query before is gone"


async def test_panes_go_round_and_escape_never_clears_or_quits(run_on: Any) -> None:
    async with run_on(size=WIDE, query="router config") as run:
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
        assert focus(run) == "file-view"
        assert run.text.splitlines()[-1].startswith(" n next match  / query")
        await run.press("5")
        assert run.app.screen is not run.app.search_screen
        await run.press("1")
        assert run.app.screen is run.app.search_screen


async def test_enter_opens_no_result_of_the_text_before(run_on: Any) -> None:
    async with run_on(query="router") as run:
        state = run.app.search_screen.state
        state.text = "another"
        state.request = search_controller.Request(10**6, "another")
        await press(run.pilot, "enter")
        assert focus(run) == "query"
        await run.until(lambda: state.answered_text == "another" and not state.is_pending)
        await run.press("enter")
        assert focus(run) == "file-view"


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
        await run.press("enter", "escape", "ctrl+r")
        assert isinstance(run.app.screen, Chooser)
        await run.press(*"rou", "enter")
        await run.until(lambda: run.app.search_screen.state.answered_text == "router")
    async with run_on(state_dir=state) as run:
        notes = run.app.search_screen.notes
        await run.until(lambda: set(notes.queries) == {"router", "nas"})


async def test_places_and_texts_are_copied(run_on: Any) -> None:
    async with run_on(query="router config") as run:
        state = run.app.search_screen.state
        chunk, (start, end) = state.selected_chunk, cited_lines(state.ranked.hits[0])
        await run.press("escape", "y")
        assert run.app.clipboard == f"{chunk.path}#L{start}-L{end}"
        await run.press("Y")
        assert run.app.clipboard == chunk.text
        # A line of a transcript is several of the text.
        run.app.search_screen.notes.copy_text(replace(chunk, text="you\nI", end_line=1))
        await run.until(lambda: run.toasts[-1] == "copied 2 lines")


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
        run.app.bus.publish(SyncFailed("disk [/] full"))
        run.app.bus.publish(LegChanged(Leg.VECTOR, Reason.PROVIDER_FAILED, "401 [/]"))
        await settle(run.app, run.pilot)
        assert "◐ indexing: 61 of 100 vectors, 12 s left" in run.text
        assert "sync failed: disk [/] full" in run.toasts
        assert "meaning match: 401 [/]" in run.toasts
        cancelled: list[bool] = []
        run.engine.index.cancel = lambda: cancelled.append(True)
        await press(run.pilot, "escape", "question_mark", "ctrl+c")
        assert (cancelled, run.app.screen) == ([], run.app.search_screen), "the dialog alone"
        await press(run.pilot, "5", "ctrl+c")
        assert cancelled == [True]
        assert run.app.screen is not run.app.search_screen, "what runs is stopped first"
        run.engine.index.status = lambda: status
        run.app.search_screen.refresh_status()
        await press(run.pilot, "ctrl+c")
        assert "stopping…" in run.text
        run.app.bus.publish(SyncFailed("stopped at 61 of 100 vectors"))
        await settle(run.app, run.pilot)
        assert "stopping…" not in run.text
        await press(run.pilot, "ctrl+c")
        assert run.app.return_code == 0


async def test_sync_and_rebuild_are_done_and_told(run_on: Any, memory: SmallMemory) -> None:
    async with run_on(query="heron") as run:
        gone = memory.root / "memory/topics/garden.md"
        (memory.root / "memory/2026-02-20.md").write_text("# Friday\n\nA heron at the pond.\n")
        gone.unlink()
        await run.press("f5")
        await run.until(lambda: any("1 added" in toast for toast in run.toasts))
        await run.until(lambda: "2026-02-20.md" in run.text)
        await run.press("escape", "R")
        assert isinstance(run.app.screen, Confirm)
        await run.press("R")
        await run.until(lambda: any("rebuilt" in toast for toast in run.toasts))


async def test_a_changed_index_refreshes_the_results_and_a_note_that_is_gone_is_told(
    run_on: Any, memory: SmallMemory
) -> None:
    async with run_on(size=WIDE, query="lotus tea") as run:
        screen = run.app.search_screen
        assert screen.state.selected_chunk.path == "memory/people/mai.md"
        (memory.root / "memory/people/mai.md").unlink()
        sequence = asked_last(run)
        run.app.bus.publish(FileIndexed())
        await run.until(lambda: asked_last(run) > sequence and not screen.state.is_pending)
        await run.until(lambda: "gone" in run.text)
        assert "searching" not in run.text


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
            shown = [screen.state.ranking.k]
            while True:
                before = screen.state.ranking
                rankings.undo()
                if screen.state.ranking == before:
                    return shown
                shown.append(screen.state.ranking.k)

        for seconds, direction in ((0, 1), (0.9, 1), (1.8, 1), (100, 1), (100.5, -1)):
            now = seconds * BURST_SECONDS
            rankings.step("results", direction)
        assert screen.state.ranking.k == 9, "a burst that ends where it began is none"
        now += BURST_SECONDS / 2
        rankings.step("λ", 1)
        rankings.step("MMR", 0)
        assert undone() == [9, 9, 9, 6]
        rankings.undo("redo")
        rankings.step("meaning", 1)
        rankings.undo("redo")
        assert screen.state.ranking.mmr.lambda_ == 0.7, "another change forgets what was undone"
        assert undone() == [9, 9, 6]
        for k in range(MOST_CHANGES + 20):
            rankings.change(replace(screen.state.ranking, k=k + 100))
        assert len(undone()) == MOST_CHANGES + 1


async def test_keys_behind_one_that_leads_to_a_box_belong_into_the_box(memory: SmallMemory) -> None:
    async with running(memory.open, query="router") as run:
        for before, key, typed in (
            ("escape", "t", "MEMO"),
            ("escape escape", "slash", "Rome"),
            ("escape 2", "slash", "jiho"),
        ):
            await run.press(*before.split())
            await press_at_once(run.pilot, key, *typed)
            assert run.app.screen.query_one(Input).value == typed


async def test_every_kind_of_change_is_taken_back_to_the_same_list(memory: SmallMemory) -> None:
    both = Ranking(decay=Decay(enabled=True), mmr=Mmr(enabled=True), k=6)
    options = dark(ranking=both)
    async with running(memory.open, options=options, size=(160, 40), query="router config") as run:
        screen = run.app.search_screen
        times = count(0.0, 1.0)
        screen.rankings.clock = lambda: next(times)
        states, sequence = ([(screen.state.ranking, look(screen.state.ranked))], asked_last(run))
        await run.press("escape")
        for key in ("left_parenthesis", "d", "greater_than_sign", "minus", "F", "0"):
            await run.press(key)
            states.append((screen.state.ranking, look(screen.state.ranked)))
        assert "as configured again: " in run.text
        for state in states[-2::-1]:
            await run.press("u")
            assert (screen.state.ranking, look(screen.state.ranked)) == state
            assert "undone: " in run.text
        await run.press("u")
        assert "nothing to undo" in run.text
        for state in states[1:]:
            await run.press("U")
            assert (screen.state.ranking, look(screen.state.ranked)) == state
        await run.press("U")
        assert "nothing to redo" in run.text
        assert asked_last(run) == sequence, "nothing is searched for"
        # Another memory begins without changes to undo, and without pins.
        await run.press("p")
        changed = screen.state.ranking
        screen.engine_opened(run.engine, screen.options)
        await settle(run.app, run.pilot)
        screen.rankings.undo()
        assert screen.state.ranking == changed
        assert not screen.state.pins


def _strip(run: Running) -> list[str]:
    return [line.strip() for line in run.text.split("\n") if line.startswith(" ◆")]


async def test_a_pin_follows_parameters_and_queries_and_what_fails_is_told_in_its_line(
    memory: SmallMemory,
) -> None:
    options = dark(ranking=Ranking(k=3))
    async with running(memory.open, size=(100, 30), options=options, query="router config") as run:
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
        assert "not shown: rank 3 > 2 results" in _strip(run)[0]
        await run.press("plus", "escape")
        assert "#3 of 3" in _strip(run)[0]
        pinned = list(search.state.pins)
        await run.search("path:topics router")
        await run.until(lambda: "not shown: left out by path:topics" in _strip(run)[0])
        assert list(search.state.pins) == pinned
        for _ in range(4):
            search.search.redraw()
        await settle(run.app, run.pilot)
        assert asked == pinned, "one question for each list"
        await run.search("path:people tea")
        await run.until(lambda: "not shown: no inquiry today" in _strip(run)[0])
        assert not run.toasts


def failing(error: Exception) -> Any:
    """Something to call that raises."""

    def fail(*of: object, **options: object) -> object:
        raise error

    return fail


async def test_what_fails_beside_the_loop_is_told_on_both_screens(memory: SmallMemory) -> None:
    async with running(memory.open) as run:
        run.engine.browse.recent = failing(CancelledError())
        run.app.search_screen.search.show_start()
        await run.until(lambda: all(worker.is_finished for worker in run.app.workers))
        assert not run.toasts, "what was cancelled on the way out is quiet"
        run.engine.browse.recent = failing(OSError("disk [/gone]"))
        run.app.search_screen.search.show_start()
        await run.until(lambda: "could not list the recent notes: disk [/gone]" in run.toasts)
        run.engine.providers.cost = failing(OSError("disk [/gone]"))
        for keys in (("escape",), ("5",)):
            run.app.clear_notifications()
            await press(run.pilot, *keys, "R")
            await run.until(lambda: "could not price the rebuild: disk [/gone]" in run.toasts)


async def test_what_is_of_a_search_before_changes_nothing(memory: SmallMemory) -> None:
    options = dark(ranking=Ranking(k=3))
    async with running(memory.open, options=options, query="router") as run:
        screen = run.app.search_screen
        run.app.bus.publish(SearchFailed(asked_last(run) - 1, "long ago"))
        await settle(run.app, run.pilot)
        assert not run.toasts
        assert "failed" not in run.text
        # Near misses that nobody reads begin at their top again after a change.
        await run.press("escape", "H", "shift+tab")
        missed = screen.near.rows[2].id
        screen.near.choose(missed, by_user=True)
        await settle(run.app, run.pilot)
        assert screen.state.selected_id == missed
        await run.press("F")
        assert screen.near.chosen_id == screen.near.rows[0].id
        assert screen.state.selected_id == screen.results.chosen_id
        screen.near.focus()
        await run.press("G")
        missed = screen.near.chosen_id or ""
        await run.press("F")
        assert screen.state.selected_id == screen.near.chosen_id == missed


async def test_a_memory_that_is_opened_too_late_is_closed_again(memory: SmallMemory) -> None:
    gate, closed = threading.Event(), threading.Event()

    def open_engine(bus: Bus) -> Engine:
        assert gate.wait(20)
        engine = memory.open(bus)
        close = engine.close

        def close_and_tell() -> None:
            close()
            closed.set()

        engine.close = close_and_tell  # type: ignore[method-assign]
        return engine

    app = MemtuiApp(open_engine, dark())
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.search_screen.is_built)
        await app.search_screen.query("*").remove()
        gate.set()
        await until(pilot, closed.is_set)
        assert app.engine is None
    app.memories.close()


async def test_warnings_at_the_start_are_text_and_of_many_the_first_are_told(
    memory: SmallMemory,
) -> None:
    texts = (*ATTACKS[:9], "wrong \x1b[2J")
    settings = Settings(keymap=KeymapSettings(bindings=dict.fromkeys(ATTACKS, "f9")))
    ranking, memory_options = Ranking(k=1, profile=ATTACKS[3]), {"root": "/my notes"}
    options = UiOptions(settings, ranking=ranking, warnings=texts, memory=memory_options)
    async with running(memory.open, options=options) as run:
        assert not any(map(HOSTILE.search, run.text.split("\n")))
        assert "wrong ␛[2J" in run.toasts[MOST_WARNINGS - 1]
        command = "memtui config validate --root '/my notes'"
        assert run.toasts[MOST_WARNINGS:] == [f"{len(ATTACKS)} more: `{command}`"]


async def test_a_memory_that_cannot_be_opened_says_why() -> None:
    app = MemtuiApp(failing(OSError("no [/] space \x1b[2J left")), dark())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "cannot open this memory" in screen_text(app))
        assert "no [/] space ␛[2J left" in screen_text(app)
        assert "opening" not in screen_text(app)
        await pilot.press("escape", "2")
        assert [one.message for one in app._notifications] == ["no [/] space ␛[2J left"]
        assert "r try again" in screen_text(app).splitlines()[-1]
        await pilot.press("r", "x", "e", "R", "q")
    assert app.return_code == 0


@pytest.mark.parametrize("screen", ["search", "browse", "care", "sessions", "chunk"])
async def test_the_demo_is_edited_as_a_copy(tmp_path: Path, screen: str) -> None:
    def demo(bus: Bus) -> Engine:
        settings = Settings(embedding=EmbeddingSettings(provider="none"))
        engine = Engine.open(
            DEMO_ROOT, settings, bus=bus, data_dir=tmp_path / "data", homes=demo_homes(), write=True
        )
        engine.index.sync(wait=True)
        return engine

    options = dark(root=DEMO_ROOT, state_dir=tmp_path / "state")
    async with running(demo, options=options, size=(120, 40)) as run:
        await run.press("escape")
        await run.search("gate")
        await run.press("escape")
        if screen == "chunk":
            await run.press("K")
        elif screen != "search":
            run.app.action_show_screen(screen)
        await settle(run.app, run.pilot)
        await run.press("e")
        (place,) = (tmp_path / "state").rglob("*.md" if screen != "sessions" else "*.jsonl*")
        assert any(str(place) in toast for toast in run.toasts)
        files = run.engine.index.files.entries(lambda: False)
        assert all(one.changed <= DEMO_PRESENT for one in files if one.source == "memory")
