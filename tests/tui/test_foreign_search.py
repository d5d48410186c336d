"""Searching another program's index: its parameters, its legs, its notes, and no writing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.content import Content

from memtui.model import (
    CandidatePool,
    Ranking,
)
from memtui.model.rankings import DateRule
from memtui.report.explanation import report_of
from memtui.report.layout import text_of
from memtui.tui.commands import MemtuiCommands
from memtui.tui.parameters import needs_search
from memtui.tui.screens.dialogs import DifferenceScreen
from memtui.tui.screens.explain import ExplainScreen
from memtui.tui.screens.search import ranking_controller
from tests.support.loopback import loopback, openai_answer
from tests.support.openclaw import AGENT, AGENT_BLOB, DIMS, RELEASES, SIDECAR, edit, hash_tree
from tests.support.small_memory import agent_index
from tests.tui.harness import foreign_running, make_target, press, resize, settle, until
from tests.tui.reader_samples import pool

SIZES = [(80, 24), (120, 40), (200, 60)]
QUERY = "router vlan config"
CONFIG = "{agents: {defaults: {memorySearch: {query: {maxResults: 4, minScore: 0}}}}}"
CONFIGURED = "{{agents: {{defaults: {{memorySearch: {}}}}}}}"
REMOTE = CONFIGURED.format(
    "{provider: 'openai', remote: {baseUrl: 'http://embeddings.example/v1', apiKey: 'sk-test'}}"
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
        assert agent_index(run.engine).facts.because in str(screen.status_bar.tooltip)
    assert hash_tree(state.folder) == before


async def test_a_leg_that_cannot_be_reproduced_is_told_where_results_are(tmp_path: Path) -> None:
    _, target = make_target(tmp_path, SIDECAR, CONFIG)
    async with foreign_running(target, size=SIZES[0]) as run:
        await run.search("router")
        for size in SIZES:
            await resize(run.pilot, size)
            assert "no vector: not reproducible here: needs openai/text-embedding" in run.text
        await press(run.pilot, "f4")
        await settle(run.app, run.pilot)
        assert "not reproducible here" in run.text
        explained = run.app.screen
        assert isinstance(explained, ExplainScreen)
        told = text_of(report_of(explained.explained))
        assert "not reproducible here: needs openai" in told


async def test_a_list_that_the_agent_does_not_get_is_named_so(tmp_path: Path) -> None:
    note = "the agent gets nothing until its index is rebuilt"
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


async def test_another_number_of_candidates_asks_the_engine_again(tmp_path: Path) -> None:
    _, target = make_target(tmp_path, SIDECAR, CONFIG)
    async with foreign_running(target) as run:
        await run.search("router")
        screen = run.app.search_screen
        await press(run.pilot, "escape", "minus")
        wanted = screen.ranking.candidates
        await until(
            run.pilot,
            lambda: screen.ranked is not None and screen.ranked.pool.limit == wanted,
        )
        assert screen.ranking.k == 3
        assert screen.ranked is not None
        assert screen.ranked.pool.sized


def test_when_a_pool_serves_another_ranking() -> None:
    native = pool()
    sized = replace(native, limit=24, sized=True)
    ranking = Ranking(k=6, min_candidates=1)
    fewer = replace(ranking, k=3)
    more = replace(ranking, k=20)
    dates = replace(ranking, decay=replace(ranking.decay, dates=DateRule.OPENCLAW_2026_8))
    weights = replace(ranking, vector_weight=0.9)

    def asked(found: CandidatePool) -> list[bool]:
        return [needs_search(found, ranking, after) for after in (fewer, more, dates, weights)]

    assert asked(native) == [False, True, False, False]
    assert asked(sized) == [True, True, True, False]


async def test_enter_asks_a_remote_model_and_typing_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loopback(openai_answer([0.5] * DIMS)) as server:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, server.url)
        _, target = make_target(tmp_path, SIDECAR, REMOTE)
        async with foreign_running(target) as run:
            await run.search("router")
            assert "~ vector: press Enter to ask embeddings.example" in run.text
            assert not server.seen
            await press(run.pilot, "enter")
            await until(run.pilot, lambda: "~ vector" not in run.text)
            await settle(run.app, run.pilot)
            assert [request.body["input"] for request in server.seen] == [["router"]]
            assert run.app.search_screen.query_input.has_focus
            await press(run.pilot, "enter")
            await settle(run.app, run.pilot)
            assert run.app.search_screen.preview.has_focus
            await run.search("another query")
            assert "~ vector: press Enter to ask embeddings.example" in run.text
            assert len(server.seen) == 1


async def test_an_index_that_is_only_read_is_examined_and_not_rebuilt(tmp_path: Path) -> None:
    _, target = make_target(tmp_path, AGENT_BLOB)
    async with foreign_running(target, size=SIZES[0]) as run:
        offered = {command.name for command in MemtuiCommands(run.app.screen).commands()}
        await press(run.pilot, "escape", "i")
        await settle(run.app, run.pilot)
        offered |= {command.name for command in MemtuiCommands(run.app.screen).commands()}
        assert "examine" in offered
        assert not offered & {"sync", "rebuild"}


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("{provider: 'none'}", "keyword only"),
        ("{query: {hybrid: {enabled: false}}}", "vector only"),
    ],
)
async def test_the_strip_says_that_one_leg_searches_alone(
    config: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking_controller, "NOTE_SECONDS", 600)
    _, target = make_target(tmp_path, SIDECAR, CONFIGURED.format(config))
    async with foreign_running(target, size=SIZES[0]) as run:
        strip = run.app.search_screen.strip
        assert "MMR" in strip.render().plain
        await run.search("router")
        shown = strip.render().plain
        assert shown.strip().startswith(told)
        assert "k 6×4" in shown
        assert not {"MMR", "weighted", "relative"} & set(shown.split())
        await press(run.pilot, "escape", "m")
        note = f"MMR on: nothing moved, {told}"
        await until(run.pilot, lambda: note in strip.render().plain)
        run.app.search_screen.rankings.note("")
        await resize(run.pilot, SIZES[2])
        assert f"{told}: no MMR, no weights" in run.text


async def test_the_status_line_names_agent_and_profile_first(tmp_path: Path) -> None:
    _, target = make_target(tmp_path, AGENT_BLOB, CONFIGURED.format("{model: 'other'}"))
    async with foreign_running(target) as run:
        await until(run.pilot, lambda: "! degraded" in run.text)
        words = "! degraded: identity mismatch  main  openclaw-2026.9  i: 1 error"
        assert words in run.text.splitlines()[-2]


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
        await press(run.pilot, "f8")
        await until(run.pilot, lambda: isinstance(run.app.screen, DifferenceScreen))
        await until(run.pilot, lambda: "- # MEMORY" in run.text)
        assert "+ - [x] a new ␛[31mfirst line" in run.text
        await press(run.pilot, "escape")
        assert run.app.screen is screen


async def test_an_index_with_nothing_to_list_says_what_to_do(tmp_path: Path) -> None:
    state, target = make_target(tmp_path, AGENT_BLOB)
    tables = ("chunks", "sources")
    edit(state.database, *(f"DELETE FROM memory_index_{name}" for name in tables))
    async with foreign_running(target) as run:
        assert "The index holds no chunks" in run.text
        assert "MEMORY.md, memory" not in run.text
        edit(state.database, "ALTER TABLE memory_index_chunks RENAME TO gone")
        await press(run.pilot, "f5")
        await until(
            run.pilot, lambda: "openclaw memory index --force builds it again" in run.text, 5
        )


async def test_a_query_stays_finished_when_it_is_asked_again_for_a_changed_index(
    tmp_path: Path,
) -> None:
    _, target = make_target(tmp_path, AGENT, CONFIG)
    async with foreign_running(target) as run:
        screen, submit = run.app.search_screen, run.engine.search.submit
        finished: list[bool] = []

        def record(text: str, *, ranking: Ranking, typing: bool) -> int:
            finished.append(not typing)
            sequence: int = submit(text, ranking=ranking, typing=typing)
            return sequence

        run.engine.search.submit = record
        await run.search("router")
        await run.press("enter")
        await until(run.pilot, lambda: screen.search.complete)
        note = run.text.split("\n")[0]
        asked_before = len(finished)
        screen.search.refresh()
        await until(run.pilot, lambda: len(finished) > asked_before)
        assert run.text.split("\n")[0] == note, "the count stays as it was"
        await until(run.pilot, lambda: screen.search.complete)
        screen.query_input.value = "router v"
        await until(run.pilot, lambda: screen.search.answered_text == "router v")
        assert finished[-2:] == [True, False], "until another letter is typed"
