"""Explanations on screen: sections, the score bar, and what arrives later, fails, or is left."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
from msgspec.structs import replace
from textual.content import Content

from memtui.model import (
    Chunk,
    Decay,
    Fusion,
    Leg,
    LegState,
    LegStatus,
    Mmr,
    Ranking,
    Reason,
    Rerank,
)
from memtui.model.inquiry import Passage, Passages, Place, WordChanges
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES
from memtui.ranking.trace import find
from memtui.report.arithmetic import bar_parts, bar_scale, part_cells, score_steps
from memtui.report.explanation import Explained, Part, Subject, report_of
from memtui.tui.glyphs import ASCII_ONLY
from memtui.tui.present import section_rows, text_lines
from memtui.tui.screens.explain import ChangeList, ExplainScreen
from memtui.tui.widgets.why_panel import why_lines
from tests.support.embedding import HashedProvider, registered_hashed
from tests.support.small_memory import SmallMemory, make_small_agent, make_small_memory
from tests.tui.harness import Running, dark, press_at_once, running, settle
from tests.tui.samples import CHUNKS, NOW, RANKING, everything, make_pool, make_ranked

RANKINGS = [
    *PROFILES.values(),
    RANKING,
    replace(RANKING, fusion=Fusion.RRF),
    replace(RANKING, fusion=Fusion.WEIGHTED_SUM, k=2, min_score=0.3),
    replace(RANKING, mmr=Mmr(enabled=True, lambda_=0.0)),
    replace(RANKING, mmr=Mmr(enabled=True, lambda_=0.3), rerank=Rerank(enabled=True)),
    replace(RANKING, decay=Decay(enabled=True, floor=0.8)),
]


def make_passages(chunk: Chunk) -> Passages:
    """The first and the last sentence of a chunk."""
    text = chunk.text
    first = Passage(0, max(1, text.find(";") + 1), 0.62)
    last = Passage(text.rfind(" ") + 1, len(text), 0.41)
    return Passages(text, (first, last), model="sample-model")


def _drawn(explained: Explained, width: int = 100) -> list[Content]:
    sections = report_of(explained).sections
    return [line for section in sections for _, line in section_rows(section, width)]


@pytest.mark.parametrize("ranking", RANKINGS, ids=lambda one: f"{one.profile}-{one.fusion}")
def test_every_line_fits(ranking: Ranking) -> None:
    result = make_ranked(ranking, chunks=[one for one in CHUNKS if one.text.isascii()])
    for scored in everything(result):
        explained = Explained(result, ranking, subject=scored.chunk.id)
        for width, is_ascii in ((40, True), (76, False), (160, True)):
            before = ASCII_ONLY.set(is_ascii)
            lines = _drawn(explained, width)
            ASCII_ONLY.reset(before)
            for line in lines:
                assert line.cell_length <= width, line.plain
                assert "→" not in line.plain or not is_ascii
        for line in why_lines(result, scored, 46):
            assert line.cell_length <= 46, line.plain


def test_query_words_and_passages_are_marked_in_the_text() -> None:
    chunk = CHUNKS[0]
    result, passages = make_ranked(), make_passages(chunk)
    drawn = text_lines(chunk.text, result, passages, 200)
    first = passages.found[0]
    marked = {
        (style, line.plain[span.start : span.end])
        for line in drawn[1:]
        for span in line.spans
        for style in ("underline", "mark")
        if style in str(span.style)
    }
    assert ("underline", chunk.text[first.start : first.end]) in marked
    assert ("mark", "router") in marked
    other = text_lines(chunk.text, result, make_passages(CHUNKS[1]), 80)
    assert not any("underline" in str(span.style) for line in other for span in line.spans)


def test_why_a_leg_says_nothing_of_a_chunk() -> None:
    searched = LegState(LegStatus.OK, facts={"model": "text-embedding-3-small"})
    other = replace(CHUNKS[0], model="ada\x1b[31m-002")
    same = replace(CHUNKS[1], model="text-embedding-3-small")
    found = make_pool(chunks=(other, same, *CHUNKS[2:]), vector=searched)
    found = replace(found, hits={**found.hits, Leg.VECTOR: found.hits[Leg.VECTOR][2:]})
    failed = {**found.states, Leg.VECTOR: LegState(LegStatus.FAILED, Reason.PROVIDER_FAILED)}
    result, broken = (
        rank(one, Ranking(), now=NOW) for one in (found, replace(found, states=failed))
    )
    formulas = [
        score_steps(one, find(one, chunk.id))[0].formula
        for one, chunk in ((result, other), (result, same), (broken, same))
    ]
    assert formulas == [
        "its vector is of another model: ada␛[31m-002",
        f"not among the first {Ranking().candidates}: counts 0",
        "provider failed",
    ]
    # Nothing is added to a score that one leg alone gives.
    signs = [step.sign for step in score_steps(result, find(result, same.id))]
    assert signs[:3] == ["", "", "="]


@pytest.mark.parametrize("ranking", RANKINGS, ids=lambda one: f"{one.profile}-{one.fusion}")
def test_the_bar_adds_up_to_the_effective_score_and_the_losses(ranking: Ranking) -> None:
    result = make_ranked(ranking)
    at_lambda_0 = ranking.mmr.enabled and ranking.mmr.lambda_ == 0
    scale = bar_scale(everything(result))
    for hit in result.hits:
        parts = bar_parts(hit)
        effective = hit.score if at_lambda_0 else hit.effective
        kept = parts["vector"] + parts["keyword"] + parts["gain"]
        assert kept == pytest.approx(max(0.0, effective), abs=1e-9)
        assert min(parts.values()) >= 0
        cells = dict(part_cells(hit, 20, scale))
        assert all(parts[name] >= 0.0005 or not cells[name] for name in parts)
        assert sum(cells.values()) <= 20
        assert all(abs(cells[name] - parts[name] / scale * 20) <= 1 for name in parts)


SHORT_LIST = Ranking(k=3)
OPTIONS = dark(history=False, ranking=SHORT_LIST, profiles=PROFILES)


async def opened(run: Running, subject: Subject = "") -> ExplainScreen:
    """Search, and explain a subject, by default the first near miss."""
    await run.search()
    search = run.app.search_screen
    search.notes.explain_in(run.ranked, subject or run.ranked.drops[0].chunk.id)
    await run.until(lambda: isinstance(run.app.screen, ExplainScreen))
    screen = run.app.screen
    await run.until(lambda: screen.is_mounted)
    return screen  # type: ignore[return-value]


async def there(run: Running, screen: ExplainScreen, part: Part) -> None:
    await run.until(lambda: part not in screen.explained.due)
    await run.pilot.pause()


@contextmanager
def waiting(subject: object, name: str) -> Iterator[None]:
    """Have calls that begin in the block wait for its end, as for a slow model."""
    gate, call = threading.Event(), getattr(subject, name)

    def wait(*arguments: Any, **named: Any) -> Any:
        assert gate.wait(10)
        return call(*arguments, **named)

    with patch.object(subject, name, wait):
        try:
            yield
        finally:
            gate.set()


async def test_the_rest_follows_and_leaving_stops_looking(memory: SmallMemory) -> None:
    async with running(memory.open, size=(120, 100), options=OPTIONS) as run:
        with waiting(run.engine.explain, "passages"):
            screen = await opened(run)
            await there(run, screen, Part.INQUIRY)
            before = run.text
        for words in (
            "NOT SHOWN: rank 4 > 3 results",
            "… trying every parameter",
            "… comparing sentence",
        ):
            assert words in before, words
        await there(run, screen, Part.WORDS)
        assert "meaning weight" in run.text

        with waiting(run.engine.explain, "passages"):
            left = screen.chunk_id
            await run.pilot.press("n")
            assert screen.chunk_id != left
            await there(run, screen, Part.INQUIRY)
            await run.pilot.press("escape")
        await run.app.workers.wait_for_complete()
        assert Part.LEAST in screen.explained.due
        assert not run.toasts


@pytest.mark.parametrize("width", [80, 120, 139, 160])
async def test_an_explanation_has_the_whole_width(memory: SmallMemory, width: int) -> None:
    async with running(memory.open, size=(width, 70), options=OPTIONS) as run:
        screen = await opened(run)
        assert screen.query_one("#explain-box").outer_size.width == width
        await there(run, screen, Part.LEAST)
        assert run.text.index("Least changes") < run.text.index("Trace")
        screen = await opened(run, Place("gone.md"))
        await there(run, screen, Part.INQUIRY)
        assert "chunk" not in run.text.splitlines()[-1]
        await run.press("n", "K")
        assert run.toasts == ["Nothing after this one.", "No chunk of the index is there."]


async def test_what_is_read_stays_in_view_when_words_are_found_above_it(
    memory: SmallMemory,
) -> None:
    async with running(memory.open, size=(100, 24), options=OPTIONS) as run:
        with waiting(run.engine.what_if, "word_changes"):
            screen = await opened(run)
            await there(run, screen, Part.LEAST)
            text = screen.query_one("#explain-text")
            text.scroll_visible(animate=False, top=True)
            await run.until(lambda: text.region.y < screen.box.region.bottom)
            read_at = text.region.y
            assert screen.box.scroll_offset.y > 0
        await there(run, screen, Part.WORDS)
        await settle(run.app, run.pilot)
        assert text.region.y == read_at
        # Other words are taken back where they were taken over, and in the list as well.
        screen.query_one(ChangeList).focus()
        state, query = run.app.search_screen.state, screen.ranked.pool.query
        await run.press(*["j"] * 30, "a", shows="applied: +")
        asked = state.text
        assert asked != query
        for typed, undo in (("travel", False), (asked, True)):
            await run.press("escape", "escape")
            await run.search(typed)
            await run.press("escape", "x")
            assert ("u undo" in run.text.splitlines()[-1]) == undo, typed
        await run.press("u")
        assert state.text == query


async def test_j_marks_the_next_change_and_then_scrolls_and_another_result_begins_at_its_top(
    memory: SmallMemory,
) -> None:
    async with running(memory.open, size=(80, 16), options=OPTIONS) as run:
        screen = await opened(run)
        left = screen.chunk_id
        await there(run, screen, Part.WORDS)
        await settle(run.app, run.pilot)
        box, changes = screen.box, screen.query_one(ChangeList)
        await run.press("j")
        assert (screen.chunk_id, changes.at) == (left, 1)
        await run.press(*["j"] * 20)
        top, last = box.scroll_offset.y, changes.at
        await press_at_once(run.pilot, "j", "j")
        assert (last, box.scroll_offset.y) == (changes.at, top + 2)
        await run.press("G")
        await run.until(lambda: box.scroll_offset.y == box.max_scroll_y > 2)
        await run.press("g")
        await run.until(lambda: box.scroll_offset.y == 0)
        await run.press("space")
        await run.until(lambda: box.scroll_offset.y > 2)
        await run.press("n")
        assert screen.chunk_id != left
        assert screen.box.scroll_offset.y == 0
        await run.press("y")
        assert screen.explained.chunk is not None
        assert run.app.clipboard == screen.explained.chunk.citation
        await run.press("N")
        assert screen.chunk_id == left
        # The next one is that of the list as it is sorted.
        await run.press("escape", "escape", "o", "o", "o", "g", "x", "n")
        ids = [row.id for row in run.app.search_screen.results.rows]
        assert ids[0] != screen.ranked.hits[0].chunk.id
        assert getattr(run.app.screen, "chunk_id", None) == ids[1]


async def test_a_part_that_fails_is_told_in_its_place(
    memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = Mock(side_effect=RuntimeError("none today"))
    async with running(memory.open, size=(120, 90), options=OPTIONS) as run:
        for name in ("inquire", "passages"):
            monkeypatch.setattr(run.engine.explain, name, fail)
        screen = await opened(run)
        await there(run, screen, Part.WORDS)
        assert run.text.count("✗ none today") == 2
        assert "meaning weight" in run.text
        # What would bring it into the list is not asked of a result.
        monkeypatch.setattr(run.engine.what_if, "word_changes", fail)
        await run.press("N")
        await there(run, screen, Part.WORDS)
        assert Part.WORDS not in screen.explained.problems
        await run.press("n", "Y")
        assert "NOT SHOWN: rank 4 > 3 results" in run.app.clipboard
        await run.press("alt+y")
        assert "| " in run.app.clipboard
        assert run.toasts[-1] == "Explanation copied as Markdown."
        await run.press("J")
        assert run.toasts[-1] == "Nothing to export: it could not be explained."


async def test_two_columns_where_there_is_room_and_a_saved_file(
    memory: SmallMemory, tmp_path: Path
) -> None:
    options = replace(OPTIONS, state_dir=tmp_path / "state")
    async with running(memory.open, size=(200, 60), options=options) as run:
        screen = await opened(run)
        await there(run, screen, Part.WORDS)
        left, right = screen.query_one("#explain-left"), screen.query_one("#explain-right")
        assert (left.region.right <= right.region.x, left.region.y) == (True, right.region.y)
        parts = (screen.explained.least, screen.explained.words)
        numbers = range(sum(len(part.changes) for part in parts if part is not None) + 1)
        there_are = list(map(screen.query_one(ChangeList).choose, numbers))
        assert there_are == [True] * numbers[-1] + [False]
        await run.press("J")
        await run.app.workers.wait_for_complete()
        (saved,) = (tmp_path / "state" / "explanations").glob("*.json")
        document = json.loads(saved.read_text(encoding="utf-8"))
        assert (document["query"], document["shown"]) == ("router config", False)
        assert saved.stat().st_mode & 0o077 == 0
        assert "a apply" in run.text.splitlines()[-1]
        screen._take(replace(screen.explained, least=None, words=WordChanges((), 9)))
        await run.until(lambda: "a apply" not in run.text.splitlines()[-1])


async def test_a_change_is_of_the_asked_ranking_where_one_leg_ranks_alone(tmp_path: Path) -> None:
    agent = make_small_agent(tmp_path)
    async with running(
        lambda bus: agent.open(bus, vectors=None), size=(80, 24), options=OPTIONS
    ) as run:
        search = run.app.search_screen
        search.rankings.change(replace(search.state.ranking, k=3))
        asked = search.state.ranking
        screen = await opened(run)
        await there(run, screen, Part.LEAST)
        assert run.ranked.ranking != search.state.ranking
        await run.press("a")
        assert search.state.ranking == replace(asked, k=4)
        assert screen.explained.shown
        # The change that was made last is taken back first.
        await run.press("n")
        await there(run, screen, Part.LEAST)
        await run.press("a")
        assert search.state.ranking == replace(asked, k=5)
        await run.press("u")
        assert "undone: results 5→4 again" in run.text
        assert search.state.ranking == replace(asked, k=4)
        # A weight changes nothing with one leg, and a later change must not take it back.
        search.rankings.change(replace(search.state.ranking, vector_weight=0.5))
        await settle(run.app, run.pilot)
        assert screen.ranking == search.state.ranking
        await run.press("u")
        assert "undone: meaning 0.50→0.70 again" in run.text
        assert search.state.ranking == replace(asked, k=4)
        await run.press("u")
        assert "undone: results 4→3 again" in run.text
        assert search.state.ranking == asked
        await run.press("u", "u")
        assert run.toasts[-1] == "Nothing to undo here."


async def test_why_a_pinned_chunk_is_no_candidate_is_one_key_away(tmp_path: Path) -> None:
    agent = make_small_agent(tmp_path)
    async with running(agent.open, size=(80, 24), options=OPTIONS) as run:
        search = run.app.search_screen
        await run.search("travel")
        before = run.ranked.pool.chunks
        few = replace(search.state.ranking, k=1, candidate_multiplier=1, min_candidates=1)
        search.rankings.change(few)
        await run.search("router")
        candidates = run.ranked.pool.chunks
        outside = next(chunk for key, chunk in before.items() if key not in candidates)
        search.notes.toggle_pin(run.ranked.hits[0].chunk)
        search.notes.toggle_pin(outside)
        await run.press("escape", "c")
        assert "x says why" in run.text
        await run.press("x")
        screen = run.screen(ExplainScreen)
        assert screen.chunk_id == outside.id
        await there(run, screen, Part.INQUIRY)
        assert "the chunk does not hold router (required)" in str(report_of(screen.explained))
        assert "NOT SHOWN" in run.text


async def test_the_share_of_the_words_opens_to_their_table(tmp_path: Path) -> None:
    provider = HashedProvider(word_pieces=True, piece_chunks=3)
    with registered_hashed(provider):
        memory = make_small_memory(tmp_path)
        with memory.open() as engine:
            engine.index.sync(wait=True)
        async with running(memory.open, size=(80, 24), options=OPTIONS) as run:
            await run.search("router config")
            await run.press("escape", "x")
            read, column = provider.cut, "query → passage"
            assert column not in run.text
            await run.press("z")
            for shown in ("word by word", column, "router → "):
                assert shown in run.text
            assert provider.cut > read
            # Off the screen it comes back before it closes.
            await run.press("G")
            await run.until(lambda: column not in run.text)
            await run.press("z", shows=column)
            await run.press("z")
            await run.until(lambda: column not in run.text)
            await run.press("escape", "t", shows="files ─")
            await run.press("enter")
            await run.until(lambda: getattr(run.app.screen, "chunk_id", None) is not None)
            await run.press("z", shows=column)
            # What the context does not rank has no share.
            await run.press("escape", "C", "x", "z")
            assert run.toasts[-1] == "Nothing to open: the context does not rank it."
