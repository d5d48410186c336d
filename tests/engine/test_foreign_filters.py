"""Filters over an agent's index: masks on the rows of both legs, told from the query's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from memtui.engine import Engine
from memtui.engine.foreign import find_target
from memtui.engine.foreign.agent import ForeignTarget
from memtui.model import Ranked
from memtui.retrieval.query import Filters, split_filters
from tests.support.openclaw import RELEASES, State, connect, edit, make_state

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
