"""Rows, vectors and queries that no release makes: a search answers, and says what it left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from memtui.engine.foreign.query_vectors import GivenVectors
from memtui.index.foreign.opening import open_foreign
from memtui.model import Leg, LegState, LegStatus, Ranked, Reason, SearchMode
from memtui.text.tokens import MAX_QUERY_CHARS
from tests.support.openclaw import (
    AGENT,
    AGENT_BLOB,
    DIMS,
    RELEASES,
    SIDECAR,
    WORD,
    State,
    connect,
    edit,
    make_state,
)
from tests.support.small_memory import SmallAgent, one_vector

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
QUERY = "OAuth refresh token clock skew"
COLUMNS = "id, path, source, model, start_line, end_line, text"


@pytest.fixture
def sidecar(tmp_path: Path) -> State:
    return make_state(tmp_path / ".openclaw", SIDECAR)


def ask(state: State, query: str, vector: Sequence[float] | None = None) -> Ranked:
    given = one_vector(state.folder.parent / "vector.json", state)
    if vector is not None:
        given = GivenVectors(Path("given.json"), {}, np.array(vector, dtype=np.float64))
    with SmallAgent(state, given).open() as engine:
        return engine.search.ask(query, ranking=replace(engine.ranking, k=200, min_score=-9.0))


def state_of(ranked: Ranked, leg: Leg) -> LegState:
    return ranked.pool.states[leg]


def loosen(state: State) -> None:
    """Take the types and constraints off the tables of a sidecar, as a hand-made file has none."""
    for table in ("chunks", "files"):
        edit(
            state.database,
            f"CREATE TABLE loose AS SELECT * FROM {table}",
            f"DROP TABLE {table}",
            f"ALTER TABLE loose RENAME TO {table}",
        )


def plant(state: State, **values: str) -> None:
    """Add a chunk with `WORD` in it, to both tables; `values` are SQL."""
    row = {
        "id": "'odd'",
        "path": "'memory/odd.md'",
        "source": "'memory'",
        "model": "(SELECT model FROM chunks LIMIT 1)",
        "start_line": "1",
        "end_line": "2",
        "text": f"'{WORD} here'",
    } | values
    written = ", ".join(row[column] for column in COLUMNS.split(", "))
    connection = connect(state.database)
    connection.execute(f"INSERT INTO chunks({COLUMNS}) VALUES ({written})")
    connection.execute(f"INSERT INTO chunks_fts({COLUMNS}) VALUES ({written})")
    connection.close()


# --- a leg that SQLite refuses ----------------------------------------------------------------


@pytest.mark.parametrize("release", [SIDECAR, AGENT])
def test_more_neighbours_than_sqlite_vec_gives(tmp_path: Path, release: str) -> None:
    state = make_state(tmp_path / ".openclaw", release)
    opened = open_foreign(state.database)
    vec = opened.layout.vec
    opened.close()
    vector = one_vector(tmp_path / "vector.json", state).of("")
    assert vector is not None
    nearest = vector.astype("<f4").tobytes().hex()
    edit(
        state.database,
        "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 4100)"
        f" INSERT INTO {vec}(id, embedding) SELECT 'gone-' || i, x'{nearest}' FROM n",
    )
    ranked = ask(state, QUERY)
    found = state_of(ranked, Leg.VECTOR)
    assert (found.status, found.reason) == (LegStatus.FAILED, Reason.INDEX_FAILED)
    assert found.detail.startswith("k value in knn query too large")
    assert state_of(ranked, Leg.KEYWORD).status is LegStatus.OK
    assert ranked.pool.search_mode is SearchMode.HYBRID
    assert not ranked.pool.hits[Leg.VECTOR]
    assert ranked.pool.hits[Leg.KEYWORD]


def test_a_damaged_full_text_index_is_not_an_empty_answer(sidecar: State) -> None:
    from memtui.errors import IndexUnusable

    edit(sidecar.database, "UPDATE chunks_fts_data SET block = x'00ff00' WHERE id > 10")
    with pytest.raises(IndexUnusable, match="damaged"):
        ask(sidecar, QUERY)


# --- vectors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
def test_a_stored_vector_of_zeros_has_no_distance(tmp_path: Path, release: str) -> None:
    """SQLite sorts NULL first, and JavaScript takes `1 - null` for 1."""
    state = make_state(tmp_path / ".openclaw", release)
    opened = open_foreign(state.database)
    vec = opened.layout.vec
    chunk = opened.connection.execute(f"SELECT id FROM {vec} LIMIT 1").fetchall()[0][0]
    opened.close()
    edit(state.database, f"UPDATE {vec} SET embedding = zeroblob({4 * DIMS}) WHERE id = '{chunk}'")
    hits = ask(state, QUERY).pool.hits[Leg.VECTOR]
    assert (hits[0].chunk_id, hits[0].raw) == (chunk, 1.0)
    assert hits[1].raw == pytest.approx(1.0)
    assert hits[2].raw < 1.0


@pytest.mark.parametrize("number", [1e300, 1e39, 1e-60])
def test_a_query_vector_that_single_precision_cannot_hold(sidecar: State, number: float) -> None:
    ranked = ask(sidecar, QUERY, [number] * DIMS)
    found = state_of(ranked, Leg.VECTOR)
    assert (found.status, found.reason) == (LegStatus.SKIPPED, Reason.ZERO_QUERY_VECTOR)
    assert ranked.pool.hits[Leg.KEYWORD]


@pytest.mark.parametrize("release", RELEASES)
def test_a_query_vector_that_only_the_table_speaks_against(tmp_path: Path, release: str) -> None:
    state = make_state(tmp_path / ".openclaw", release)
    meta = "meta" if release == SIDECAR else "memory_index_meta"
    edit(
        state.database,
        f"UPDATE {meta} SET value = json_remove(value, '$.vectorDims')"
        " WHERE key = 'memory_index_meta_v1'",
    )
    found = state_of(ask(state, QUERY, [1.0, 2.0, 3.0]), Leg.VECTOR)
    assert (found.status, found.reason) == (LegStatus.FAILED, Reason.DIMENSIONS_DIFFER)
    assert "3 numbers from given.json, the vector table has 256" in found.detail


# --- rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "text", "line"),
    [
        ({"text": "12345"}, "12345", 1),
        ({"text": f"CAST('{WORD}' AS BLOB)"}, WORD, 1),
        ({"text": f"CAST(CAST('{WORD}' AS BLOB) || x'20ff' AS TEXT)"}, f"{WORD} \ufffd", 1),
        ({"start_line": "'x'", "end_line": "x'00'"}, f"{WORD} here", 0),
        ({"start_line": "1e300", "end_line": "9e999"}, f"{WORD} here", 0),
        ({"path": "77"}, f"{WORD} here", 1),
        ({"path": "CAST(x'6dff' AS TEXT)"}, f"{WORD} here", 1),
    ],
)
def test_columns_of_another_type(
    sidecar: State, values: dict[str, str], text: str, line: int
) -> None:
    loosen(sidecar)
    plant(sidecar, **values)
    ranked = ask(sidecar, "12345" if text == "12345" else WORD)
    (hit,) = ranked.pool.hits[Leg.KEYWORD]
    chunk = ranked.pool.chunks[hit.chunk_id]
    assert (chunk.id, chunk.text) == ("odd", text)
    assert (chunk.start_line, chunk.end_line) == (line, line + 1 if line else 0)


@pytest.mark.parametrize("column", ["id", "path"])
def test_a_row_that_cannot_be_a_chunk_is_left_out(sidecar: State, column: str) -> None:
    loosen(sidecar)
    plant(sidecar, id="'whole'")
    plant(sidecar, **{column: "NULL"})
    ranked = ask(sidecar, WORD)
    assert [hit.chunk_id for hit in ranked.pool.hits[Leg.KEYWORD]] == ["whole"]


def test_a_chunk_without_text_is_left_out(sidecar: State) -> None:
    loosen(sidecar)
    before = ask(sidecar, QUERY).pool.hits[Leg.VECTOR]
    first = before[0].chunk_id
    edit(sidecar.database, f"UPDATE chunks SET text = NULL WHERE id = '{first}'")
    after = ask(sidecar, "nothing of it").pool.hits[Leg.VECTOR]
    assert first in {hit.chunk_id for hit in before}
    assert first not in {hit.chunk_id for hit in after}


@pytest.mark.parametrize("mtime", ["1e300", "-1e300", "9e15", "9e999"])
def test_the_time_of_a_session_that_no_date_holds(tmp_path: Path, mtime: str) -> None:
    state = make_state(tmp_path / ".openclaw", AGENT_BLOB)
    path = "sessions/main/a.jsonl"
    edit(
        state.database,
        f"INSERT INTO memory_index_sources(path, source, hash, mtime, size)"
        f" VALUES ('{path}', 'sessions', 'h', {mtime}, 1)",
        f"UPDATE memory_index_chunks SET path = '{path}', source = 'sessions'",
        "UPDATE memory_index_meta SET value = json_set(value, '$.sources', json('[\"sessions\"]'))"
        " WHERE key = 'memory_index_meta_v1'",
    )
    ranked = ask(state, QUERY)
    assert ranked.hits
    assert {chunk.source for chunk in ranked.pool.chunks.values()} == {"sessions"}


# --- queries ----------------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
def test_a_query_of_a_megabyte(tmp_path: Path, release: str) -> None:
    state = make_state(tmp_path / ".openclaw", release)
    ranked = ask(state, "".join(f"w{number} " for number in range(2**18)))
    detail = state_of(ranked, Leg.KEYWORD).detail
    assert detail == f"only the first {MAX_QUERY_CHARS} characters of the query are searched"
    assert all(len(hit.terms) <= 1 for hit in ranked.pool.hits[Leg.KEYWORD])


@pytest.mark.parametrize("release", RELEASES)
def test_half_of_a_pair_in_a_query(tmp_path: Path, release: str) -> None:
    state = make_state(tmp_path / ".openclaw", release)
    whole = [hit.chunk_id for hit in ask(state, QUERY).pool.hits[Leg.KEYWORD]]
    broken = ask(state, f"{QUERY} \ud800")
    assert [hit.chunk_id for hit in broken.pool.hits[Leg.KEYWORD]] == whole


def test_given_vectors_are_found_without_what_javascript_trims() -> None:
    given = GivenVectors(Path("given.json"), {"router": np.ones(2)})
    assert given.of("\ufeffrouter\u00a0") is not None
    assert given.of("\x1crouter") is None
