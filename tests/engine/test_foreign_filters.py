"""Filters over an agent's index: masks on the rows of both legs, told from the query's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pytest

from memtui.engine import Engine
from memtui.engine.foreign import find_target
from memtui.engine.foreign.agent import ForeignTarget
from memtui.engine.foreign.legs import fits_file
from memtui.engine.foreign.query_vectors import GivenVectors
from memtui.model import Leg, LegStatus, Ranked, Reason
from memtui.model.inquiry import Place
from memtui.retrieval.query import Filters, split_filters
from tests.support.openclaw import DIMS, RELEASES, State, connect, edit, make_state

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
QUERY = "OAuth refresh token"


@pytest.fixture(params=RELEASES)
def state(tmp_path: Path, request: pytest.FixtureRequest) -> State:
    return make_state(tmp_path / ".openclaw", str(request.param))


def target_of(state: State) -> ForeignTarget:
    return find_target(
        agent="main",
        index=None,
        workspace=None,
        env={"OPENCLAW_STATE_DIR": str(state.folder)},
        home=state.folder.parent,
    )


@pytest.fixture
def engine(state: State) -> Iterator[Engine]:
    with Engine.open_agent(target_of(state), now=lambda: NOW, env={}, examine=False) as opened:
        yield opened


def rows_of(ranked: Ranked) -> list[tuple[str, int]]:
    return [(hit.chunk.path, hit.chunk.start_line) for hit in ranked.hits]


def in_pool(ranked: Ranked) -> set[str]:
    pool = ranked.pool
    return {pool.chunks[hit.chunk_id].path for hits in pool.hits.values() for hit in hits}


def test_filters_mask_both_legs_and_are_no_words(engine: Engine) -> None:
    whole = engine.search.ask(QUERY)
    assert len(in_pool(whole)) > 2
    wanted = rows_of(whole)[-1][0]
    named = engine.search.ask(f"path:{wanted} {QUERY}")
    assert in_pool(named) == {wanted}
    assert named.pool.query == f"path:{wanted} {QUERY}"
    days = Filters(after=date(2026, 11, 12), before=date(2026, 11, 13))
    dated = in_pool(engine.search.ask(f"{QUERY} after:2026-11-12 before:2026-11-13"))
    assert dated == {path for path in in_pool(whole) if fits_file(days, path, "memory", 0)}
    assert dated
    assert not engine.search.ask(f"{QUERY} source:sessions").hits
    everything = engine.search.ask(f"{QUERY} path:*.md source:MEMORY")
    assert rows_of(everything) == rows_of(whole)
    assert [hit.score for hit in everything.hits] == [hit.score for hit in whole.hits]
    assert everything.pool.hits == whole.pool.hits
    assert not engine.search.ask(f"{QUERY} path:no-such-file").hits


def test_each_leg_finds_the_best_of_the_mask(state: State) -> None:
    """A mask on the rows, not on the list: what is far down in the whole index comes up."""
    target = target_of(state)
    vector = np.random.default_rng(5).normal(size=DIMS)
    given = GivenVectors(Path("given.json"), {"the": vector})
    with Engine.open_agent(target, now=lambda: NOW, env={}, examine=False, given=given) as engine:
        deep = engine.search.ask("the", ranking=replace(engine.ranking, min_candidates=500)).pool
        assert all(state.status is LegStatus.OK for state in deep.states.values())
        shallow = replace(engine.ranking, k=1)
        seen = 0
        for path in [file.path for file in engine.browse.files()][::3]:
            pool = engine.search.ask(f'the path:"{path}"', ranking=shallow).pool
            for leg in Leg:
                far = [hit for hit in deep.hits[leg] if deep.chunks[hit.chunk_id].path == path]
                best = [(hit.chunk_id, hit.raw) for hit in pool.hits[leg]]
                assert best == [(hit.chunk_id, hit.raw) for hit in far][: len(best)]
                assert bool(best) == bool(far)
                seen += bool(best)
        assert seen > 8


def test_the_trace_says_what_a_filter_left_out(engine: Engine) -> None:
    best = rows_of(engine.search.ask(QUERY))[0]
    ranked = engine.search.ask(f"{QUERY} path:no-such-file before:2026-02-30 before:2020-01-01")
    inquiry = engine.explain.inquire_at(ranked, Place(*best))
    told = [step for step in inquiry.steps if step.reason is Reason.FILTERED]
    assert told
    assert {word for step in told for word in step.words} >= {"path:no-such-file"}
    chunk = engine.browse.chunks_of(best[0])[0]
    places = engine.explain.inquire(ranked, chunk.id).leg_places
    assert {place.reason for place in places.values()} == {Reason.FILTERED}
    kept = engine.search.ask(f"{QUERY} path:{best[0]}")
    rank = engine.explain.inquire(kept, kept.hits[0].chunk.id).leg_places[Leg.KEYWORD].rank
    assert rank is not None
    assert rank.position < len(engine.browse.chunks_of(best[0]))


def test_a_query_without_a_filter_is_read_as_it_stands(engine: Engine) -> None:
    for text in (
        *("router", "  router   vlan ", "path: router", "after:yesterday router", "http://a:1 x"),
        *('"path:x" router', "re:path:x", "source:", "before:2026-02-30 router"),
    ):
        assert split_filters(text) == (text, Filters())
        assert engine.search.ask(text).pool.query == text


def test_a_mask_follows_the_index_and_takes_any_path(state: State, engine: Engine) -> None:
    path = rows_of(engine.search.ask(QUERY))[0][0]
    assert in_pool(engine.search.ask(f"{QUERY} path:o'dd")) == set()
    odd = "memory/o'dd%_é.md"
    with closing(connect(state.database)) as connection:
        listed = connection.execute("SELECT name FROM sqlite_master").fetchall()
    names = {str(row[0]) for row in listed} & {
        *("memory_index_chunks", "chunks", "memory_index_chunks_fts", "chunks_fts"),
        *("memory_index_files", "files"),
    }
    renames = [
        f"UPDATE {name} SET path = 'memory/o''dd%_é.md' WHERE path = '{path}'" for name in names
    ]
    edit(state.database, *renames)
    found = engine.search.ask(f"{QUERY} path:o'dd%_É")
    assert in_pool(found) == {odd}


@pytest.mark.parametrize(
    ("text", "rest", "filters"),
    [
        ("a path:x b", "a b", Filters(path_globs=("x",))),
        ('path:"a b" \tc  d ', "c  d", Filters(path_globs=("a b",))),
        ("AFTER:2026-01-02 x", "x", Filters(after=date(2026, 1, 2))),
        (
            '"said before:2026-01-02" source:memory',
            '"said before:2026-01-02"',
            Filters(("memory",)),
        ),
        ("source:sessions", "", Filters(("sessions",))),
        (f"path:x {'w ' * 3000}path:y", f"{'w ' * 3000}path:y", Filters(path_globs=("x",))),
    ],
)
def test_filters_are_taken_off(text: str, rest: str, filters: Filters) -> None:
    assert split_filters(text) == (rest, filters)
