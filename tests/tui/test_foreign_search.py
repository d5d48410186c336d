"""Searching another program's index: its parameters, its legs, its notes, and no writing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.content import Content

from memtui.bus import Bus
from memtui.model import (
    CandidatePool,
    IndexState,
    Leg,
    LegState,
    LegStatus,
    Ranking,
    Reason,
    SearchMode,
)
from memtui.model.rankings import DateRule
from memtui.report.explanation import report_of
from memtui.report.layout import text_of
from memtui.tui import format as fmt
from memtui.tui.commands import MemtuiCommands
from memtui.tui.parameters import needs_search
from memtui.tui.screens.dialogs import DifferenceScreen
from memtui.tui.screens.explain import ExplainScreen
from memtui.tui.screens.help import HelpScreen
from memtui.tui.widgets.index_status import status_segments
from memtui.tui.widgets.key_bar import KeyBar
from tests.support.openclaw import AGENT, AGENT_BLOB, RELEASES, SIDECAR, edit, hash_tree
from tests.support.small_memory import agent_index
from tests.tui.foreign_samples import (
    FOREIGN_STATUS,
    ForeignSample,
    foreign_running,
    make_target,
)
from tests.tui.harness import resize, running, settle, until
from tests.tui.samples import make_pool

SIZES = [(80, 24), (120, 40), (200, 60)]
QUERY = "router vlan config"
CONFIG = "{agents: {defaults: {memorySearch: {query: {maxResults: 4, minScore: 0}}}}}"
PENDING = LegState(
    LegStatus.PENDING,
    Reason.PENDING,
    "needs openai/text-embedding-3-small; press Enter to ask api.openai.com",
)


@pytest.mark.parametrize("release", RELEASES)
async def test_every_release_searches_with_the_parameters_of_its_agent(
    release: str, tmp_path: Path
) -> None:
    state, target = make_target(tmp_path, release, CONFIG)
    before = hash_tree(state.folder)
    async with foreign_running(target) as run:
        await run.search("router")
        screen = run.app.search_screen
        assert screen.ranking == run.engine.ranking == run.app.options.ranking
        assert screen.ranking.profile == f"openclaw-{release[:6]}"
        assert screen.ranking.k == 4
        assert screen.ranked is not None
        assert 0 < len(screen.ranked.hits) <= 4
        assert f"profile openclaw-{release[:6]}" in run.text
        assert screen.status_bar.tooltip is not None
        assert agent_index(run.engine).facts.choice.because in str(screen.status_bar.tooltip)
    assert hash_tree(state.folder) == before


async def test_a_leg_that_cannot_be_reproduced_is_told_where_results_are(tmp_path: Path) -> None:
    _, target = make_target(tmp_path, SIDECAR, CONFIG)
    async with foreign_running(target, size=SIZES[0]) as run:
        await run.search("router")
        for size in SIZES:
            await resize(run.pilot, size)
            assert "no vector: not reproducible here: needs openai/text-embedding" in run.text
            await run.pilot.press("f4")
            await settle(run.app, run.pilot)
            assert "not reproducible here" in run.text
            explained = run.app.screen
            assert isinstance(explained, ExplainScreen)
            told = text_of(report_of(explained.explained))
            assert "not reproducible here: needs openai" in told
            await run.pilot.press("escape")


async def test_a_list_that_the_agent_does_not_get_is_named_so(tmp_path: Path) -> None:
    note = "the agent gets nothing: search is paused"
    state, target = make_target(tmp_path, AGENT, CONFIG)
    edit(state.database, "DELETE FROM memory_index_meta WHERE key = 'memory_index_meta_v1'")
    async with foreign_running(target, size=SIZES[0]) as run:
        await run.search("router")
        screen = run.app.search_screen
        assert screen.results.rows
        for size in SIZES:
            await resize(run.pilot, size)
            assert note in run.text
        # An answer may come before the examination that knows it.
        screen.results.border_subtitle = Content("")
        run.engine.index.sync()
        await until(run.pilot, lambda: note in run.text, 20)


async def test_the_boost_is_in_the_arithmetic(tmp_path: Path) -> None:
    _, target = make_target(tmp_path, AGENT_BLOB)
    async with foreign_running(target) as run:
        await run.search(QUERY)
        ranked = run.app.search_screen.ranked
        assert ranked is not None
        part = ranked.hits[0].legs[Leg.KEYWORD]
        assert part.text_score is not None
        told = f"{fmt.score(part.mapped)} = {fmt.score(part.text_score)} + boost"
        assert told in run.text
        await run.pilot.press("f4")
        await settle(run.app, run.pilot)
        explained = run.app.screen
        assert isinstance(explained, ExplainScreen)
        assert "boosted" in text_of(report_of(explained.explained))


async def test_another_number_of_candidates_asks_the_engine_again(tmp_path: Path) -> None:
    _, target = make_target(tmp_path, SIDECAR, CONFIG)
    async with foreign_running(target) as run:
        await run.search("router")
        screen = run.app.search_screen
        await run.pilot.press("escape", "minus")
        wanted = screen.ranking.candidates
        await until(
            run.pilot,
            lambda: screen.ranked is not None and screen.ranked.pool.limit == wanted,
        )
        assert screen.ranking.k == 3
        assert screen.ranked is not None
        assert screen.ranked.pool.sized


def test_when_a_pool_serves_another_ranking() -> None:
    native = make_pool(limit=50)
    sized = replace(native, limit=24, sized=True)
    ranking = Ranking(k=6, min_candidates=1)
    fewer = replace(ranking, k=3)
    more = replace(ranking, k=20)
    dates = replace(ranking, decay=replace(ranking.decay, dates=DateRule.OPENCLAW_2026_8))
    weights = replace(ranking, vector_weight=0.9)

    def asked(pool: CandidatePool) -> list[bool]:
        return [needs_search(pool, ranking, after) for after in (fewer, more, dates, weights)]

    assert asked(native) == [False, True, False, False]
    assert asked(sized) == [True, True, True, False]


async def test_enter_asks_a_remote_model_and_typing_does_not() -> None:
    def sample(bus: Bus) -> ForeignSample:
        return ForeignSample(bus, make_pool(vector=PENDING))

    async with running(sample, size=(120, 40)) as run:
        engine = run.engine
        assert isinstance(engine, ForeignSample)
        await run.search()
        assert engine.typed == [True]
        assert "~ vector: press Enter to ask api.openai.com" in run.text
        assert "needs openai/text-embedding-3-small; press" in " ".join(run.text.split())
        await run.pilot.press("enter")
        await settle(run.app, run.pilot)
        assert engine.typed == [True, False]
        assert run.app.search_screen.query_input.has_focus
        run.app.search_screen.search.ask(quiet=True)
        assert engine.typed[-1] is False
        await run.search("another query")
        assert engine.typed[-1] is True


async def test_enter_opens_once_both_legs_have_answered() -> None:
    async with running(ForeignSample, size=(120, 40)) as run:
        await run.search()
        await run.pilot.press("enter")
        await settle(run.app, run.pilot)
        assert run.app.search_screen.preview.has_focus


async def test_the_keys_say_examine_and_offer_no_rebuild() -> None:
    async with running(ForeignSample, size=SIZES[0]) as run:
        for size in SIZES:
            await resize(run.pilot, size)
            run.app.search_screen.query_input.focus()
            await run.pilot.pause()
            bar = run.app.screen.query_one(KeyBar)
            assert [item.key for item in bar.items() if item.label == "examine"] == ["f5"]
            assert "F5 examine" in run.text
            assert "sync" not in run.text
        offered = {command.name for command in MemtuiCommands(run.app.screen).commands()}
        assert "examine" in offered
        assert not offered & {"sync", "rebuild"}
        await run.pilot.press("escape", "question_mark")
        await settle(run.app, run.pilot)
        assert isinstance(run.app.screen, HelpScreen)
        told = {line.binding.description for group in run.app.screen.groups for line in group.lines}
        assert "examine" in told
        assert not told & {"sync", "rebuild"}
        await run.pilot.press("escape", "i")
        await settle(run.app, run.pilot)
        offered = {command.name for command in MemtuiCommands(run.app.screen).commands()}
        assert "rebuild" not in offered


@pytest.mark.parametrize(
    ("mode", "told"),
    [(SearchMode.KEYWORD_ONLY, "keyword only"), (SearchMode.VECTOR_ONLY, "vector only")],
)
async def test_the_strip_says_that_one_leg_searches_alone(mode: SearchMode, told: str) -> None:
    def sample(bus: Bus) -> ForeignSample:
        return ForeignSample(bus, replace(make_pool(), search_mode=mode))

    async with running(sample, size=SIZES[0]) as run:
        strip = run.app.search_screen.strip
        assert "MMR" in strip.render().plain
        await run.search()
        await run.pilot.press("escape")
        for size in SIZES:
            await resize(run.pilot, size)
            shown = strip.render().plain
            assert shown.strip().startswith(told)
            assert "k 6×4" in shown
            assert not {"MMR", "weighted", "relative"} & set(shown.split())
            assert f"{told}: no MMR, no weights" in run.text or size[0] < 160
            await run.pilot.press("m")
            assert f"MMR on: nothing moved, {told}" in strip.render().plain
            await run.pilot.press("m")
            run.app.search_screen.rankings.note("")


async def test_an_exact_name_fits_into_the_why_panel(tmp_path: Path) -> None:
    _, target = make_target(tmp_path, AGENT_BLOB)
    async with foreign_running(target) as run:
        await run.search("memory/2026-11-10.md")
        for words in (
            "exact name  (1+0.000)/2→0.500",
            "names first → 0.430",
            "name score  → 1.000",
        ):
            assert words in run.text
        assert "SHOWN at rank 1" in run.text
        await run.pilot.press("f4")
        await settle(run.app, run.pilot)
        assert "exact names first:" in run.text
        assert "for an exact name;" in run.text


def test_the_status_line_names_agent_and_profile_first() -> None:
    from memtui.tui.glyphs import UNICODE

    words = [segment.plain for segment in status_segments(FOREIGN_STATUS, UNICODE)]
    assert words[:4] == [
        "! degraded: identity mismatch",
        "main",
        "openclaw-2026.9",
        "i: 1 error, 1 warning",
    ]


async def test_a_changed_note_is_shown_as_indexed_with_the_difference_one_key_away(
    tmp_path: Path,
) -> None:
    state, target = make_target(tmp_path, AGENT_BLOB)
    note = state.workspace / "MEMORY.md"
    lines = note.read_text(encoding="utf-8").split("\n")
    note.write_text("\n".join(["- [x] a new \x1b[31mfirst line", *lines[1:]]), encoding="utf-8")
    async with foreign_running(target, size=SIZES[0]) as run:
        await run.search(QUERY)
        screen = run.app.search_screen
        assert screen.ranked is not None
        place = next(hit for hit in screen.ranked.hits if hit.chunk.path == "MEMORY.md")
        screen.results.choose(place.chunk.id)
        await until(
            run.pilot,
            lambda: screen.notes.source is not None and screen.notes.source.path == "MEMORY.md",
        )
        for size in SIZES:
            await resize(run.pilot, size)
            assert "Indexed text · file changed · D difference" in run.text
            assert "# MEMORY" in run.text
            await run.pilot.press("f8")
            await until(run.pilot, lambda: isinstance(run.app.screen, DifferenceScreen))
            await until(run.pilot, lambda: "- # MEMORY" in run.text)
            await settle(run.app, run.pilot)
            assert "- # MEMORY" in run.text
            assert "+ - [x] a new ␛[31mfirst line" in run.text
            await run.pilot.press("escape")
            assert run.app.screen is screen


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (IndexState.READY, "The index holds no chunks"),
        (IndexState.ERROR, "openclaw memory index --force builds it again"),
    ],
)
async def test_an_index_with_nothing_to_list_says_what_to_do(state: IndexState, words: str) -> None:
    def sample(bus: Bus) -> ForeignSample:
        return ForeignSample(bus, current=replace(FOREIGN_STATUS, state=state, chunks=0))

    async with running(sample, size=(120, 40)) as run:
        assert words in run.text
        assert "MEMORY.md, memory" not in run.text
