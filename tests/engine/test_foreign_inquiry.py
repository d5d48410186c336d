"""Why a note is in the list of an agent's index or not, on indexes that the real program made.

And rows, vectors and queries that no release makes: a search answers, and says what it left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from memtui.engine import Engine
from memtui.engine.foreign.query_vectors import GivenVectors
from memtui.engine.places import parse_place
from memtui.errors import IndexUnusable
from memtui.index.foreign.opening import open_foreign
from memtui.index.foreign.rows import read_vectors
from memtui.model import Leg, LegState, LegStatus, Ranked, Reason, SearchMode
from memtui.model.inquiry import Inquiry, Outcome, Place, Station
from memtui.text.tokens import MAX_QUERY_CHARS
from tests.support import recorded
from tests.support.inquiries import check, lost, step
from tests.support.known import cases, load
from tests.support.openclaw import (
    AGENT,
    AGENT_BLOB,
    DIMS,
    SIDECAR,
    WORD,
    State,
    connect,
    edit,
    make_state,
)
from tests.support.small_memory import SmallAgent, agent_index, one_vector

COLUMNS = "id, path, source, model, start_line, end_line, text"
QUERY = "OAuth refresh token clock skew"
SHOWN = "memory/2026-11-12.md"


def given_vectors(state: State, *queries: str) -> GivenVectors:
    """The vector of a chunk for these queries; without any, for whatever is asked."""
    with closing(open_foreign(state.database)) as opened:
        batch = next(read_vectors(opened))
    values = batch.vectors[5]
    by_query = dict.fromkeys(queries, values)
    return GivenVectors(Path("given.json"), by_query, None if queries else values)


def ask(engine: Engine, place: str, query: str = QUERY) -> Inquiry:
    ranked = engine.search.ask(query)
    inquiry = engine.explain.inquire_at(ranked, parse_place(place))
    check(ranked, inquiry)
    return inquiry


def test_a_word_of_an_and_that_a_note_lacks(state: State) -> None:
    with SmallAgent(state).open() as engine:
        shown = ask(engine, SHOWN)
        assert shown.rank == 1
        assert step(shown, Station.KEYWORD_LEG).words == tuple(QUERY.split())
        inquiry = ask(engine, "2026-11-09.md")
    assert lost(inquiry) == (Station.KEYWORD_LEG, Reason.TERM_MISSING)
    # Of its chunks the one that a search for any of the words ranks best, where a release has one.
    by_release = {("OAuth",), ("refresh", "token", "clock", "skew")}
    assert inquiry.steps[-1].words in by_release


def test_a_word_that_the_tokenizer_drops_is_named(sidecar: State) -> None:
    columns = ", ".join(f"{name} UNINDEXED" for name in COLUMNS.split(", ")[:-1])
    edit(
        sidecar.database,
        "DROP TABLE chunks_fts",
        f"CREATE VIRTUAL TABLE chunks_fts USING fts5(text, {columns}, tokenize='trigram')",
        f"INSERT INTO chunks_fts({COLUMNS}) SELECT {COLUMNS} FROM chunks",
    )
    with SmallAgent(sidecar).open() as engine:
        inquiry = ask(engine, SHOWN, "UI")
    assert lost(inquiry) == (Station.KEYWORD_LEG, Reason.TOKENIZER_DROPS)
    assert (inquiry.steps[-1].words, inquiry.steps[-1].other) == (("UI",), "trigram")


def test_what_one_leg_misses_the_other_gives(state: State) -> None:
    with SmallAgent(state, given_vectors(state)).open() as engine:
        ranked = engine.search.ask("zebra crossing in the fog")
        inquiry = engine.explain.inquire(ranked, ranked.hits[0].chunk.id)
    assert inquiry.shown
    keyword, vector = step(inquiry, Station.KEYWORD_LEG), step(inquiry, Station.VECTOR_LEG)
    assert (keyword.outcome, keyword.reason) == (Outcome.MISSED, Reason.TERM_MISSING)
    assert vector.outcome is Outcome.PASSED
    pool = step(inquiry, Station.VECTOR_POOL)
    assert pool.rank == ranked.pool.hits[Leg.VECTOR].index(
        next(h for h in ranked.pool.hits[Leg.VECTOR] if h.chunk_id == ranked.hits[0].chunk.id)
    ) + 1  # fmt: skip
    assert pool.of is not None


def test_the_rank_for_one_keyword_is_not_taken_for_that_of_the_leg(tmp_path: Path) -> None:
    state = make_state(tmp_path / ".openclaw", AGENT_BLOB)
    state.database.unlink()
    recorded.build(AGENT_BLOB, state.database)
    with SmallAgent(state).open() as engine:
        ranked = engine.search.ask('error: "E1107" (staging) AND NOT nginx*')
        inquiry = engine.explain.inquire_at(ranked, Place("memory/2026-07-29.md", 75))
    pool = step(inquiry, Station.KEYWORD_POOL)
    assert (pool.outcome, pool.reason) == (Outcome.LOST, Reason.OUTSIDE_CANDIDATES)
    assert (pool.rank, pool.of) == (None, None)
    by_keyword = inquiry.leg_places[Leg.KEYWORD].rank
    assert by_keyword is not None
    assert pool.numbers == {"limit": ranked.pool.limit, "bm25_rank": by_keyword.position + 1}
    assert by_keyword.position < ranked.pool.limit


def test_the_oldest_release_asks_for_each_keyword_and_not_for_the_query(sidecar: State) -> None:
    sidecar.configure({"provider": "none"})
    with SmallAgent(sidecar, given_vectors(sidecar)).open(profile="openclaw-2026.2") as engine:
        inquiry = ask(engine, SHOWN, "what about zzyzx")
    assert lost(inquiry) == (Station.KEYWORD_LEG, Reason.NOT_MATCHED)


@pytest.mark.parametrize(
    ("change", "reason", "other"), cases("explain", "vectors of an agent that cannot be compared")
)
def test_a_vector_that_cannot_be_compared(
    sidecar: State, change: str, reason: str, other: str
) -> None:
    zeros = ",".join(["0"] * DIMS)
    edit(
        sidecar.database,
        f"UPDATE chunks SET {change.format(zeros=zeros)} WHERE path = '{SHOWN}'",
        f"DELETE FROM chunks_vec WHERE id IN (SELECT id FROM chunks WHERE path = '{SHOWN}')",
    )
    with SmallAgent(sidecar, given_vectors(sidecar)).open() as engine:
        inquiry = ask(engine, SHOWN, "nothing of this is in a note")
    assert lost(inquiry) == (Station.VECTOR_LEG, reason)
    assert inquiry.steps[-1].other == other


def test_a_vector_table_without_its_row_ids_is_done_without(sidecar: State) -> None:
    edit(sidecar.database, "DROP TABLE chunks_vec_rowids")
    with SmallAgent(sidecar, given_vectors(sidecar)).open() as engine:
        leg = engine.search.ask(QUERY).pool.states[Leg.VECTOR]
        assert (leg.status, leg.facts["backend"]) == (LegStatus.OK, "scan")
        assert engine.index.status().vectors == 0


def test_files_as_the_program_sees_them(state: State) -> None:
    workspace = state.workspace
    (workspace / "memory/new.md").write_text("A note that no sync has seen.\n")
    (workspace / "memory/link.md").symlink_to("new.md")
    (workspace / "memory/linked").symlink_to("archive")
    (workspace / "notes.md").write_text("Beside the memory.\n")
    (workspace / "memory/plain.txt").write_text("No Markdown.\n")
    (workspace / "memory/2026-11-10.md").unlink()
    expected = load("explain")["files as the program sees them"]
    with SmallAgent(state).open() as engine:
        assert {path: list(lost(ask(engine, path))) for path in expected} == expected
        orphan = ask(engine, "memory/2026-11-10.md")
        assert step(orphan, Station.DISCOVERED).outcome is Outcome.MISSED
        assert step(orphan, Station.DISCOVERED).reason is Reason.VANISHED
        for written in (
            f"./{SHOWN}",
            str(workspace / SHOWN),
            "2026-11-12.md#L25",
            SHOWN.replace("/", "\\"),
        ):
            assert ask(engine, written).shown


def test_a_file_that_changed_is_stale(state: State) -> None:
    path = state.workspace / SHOWN
    path.write_text(path.read_text() + "\nA last line that no index has.\n")
    last = path.read_text().count("\n")
    with SmallAgent(state).open() as engine:
        inquiry = ask(engine, SHOWN)
        assert inquiry.shown
        assert step(inquiry, Station.INDEXED).outcome is Outcome.MISSED
        assert step(inquiry, Station.INDEXED).reason is Reason.STALE
        assert lost(ask(engine, f"{SHOWN}#L{last}"))[0] is not Station.INDEXED
        assert ask(engine, f"{SHOWN}#L30").shown


@pytest.mark.parametrize("size", [None, 0, 7])
def test_a_transcript_is_judged_by_what_the_program_keeps_of_it(
    sidecar: State, size: int | None
) -> None:
    path = "sessions/talk.jsonl"
    edit(
        sidecar.database,
        *(
            f"UPDATE {table} SET path = '{path}', source = 'sessions' WHERE path = '{SHOWN}'"
            for table in ("chunks", "chunks_fts", "files")
        ),
        f"UPDATE files SET size = 7 WHERE path = '{path}'",
        "UPDATE meta SET value = json_set(value, '$.sources', json('[\"memory\",\"sessions\"]'))",
    )
    if size is not None:
        folder = sidecar.folder / "agents/main/sessions"
        folder.mkdir(parents=True)
        (folder / "talk.jsonl").write_text("x" * size)
    with SmallAgent(sidecar).open() as engine:
        inquiry = ask(engine, path)
    assert inquiry.shown
    discovered, indexed = step(inquiry, Station.DISCOVERED), step(inquiry, Station.INDEXED)
    assert discovered.outcome is (Outcome.SKIPPED if size is None else Outcome.PASSED)
    assert indexed.reason is (Reason.STALE if size == 0 else Reason.OK)


def test_without_a_workspace_no_file_is_judged(sidecar: State) -> None:
    target = replace(sidecar.target(), workspace=None)
    with Engine.open_agent(target, env={}, examine=False) as engine:
        inquiry = ask(engine, SHOWN)
        assert inquiry.shown
        discovered = step(inquiry, Station.DISCOVERED)
        assert (discovered.outcome, discovered.other) == (
            Outcome.SKIPPED,
            "the workspace is not known",
        )
        assert lost(ask(engine, "nothing.md")) == (Station.INDEXED, Reason.NOT_INDEXED)


def test_a_row_whose_chunk_is_gone_is_a_hit_all_the_same(sidecar: State) -> None:
    edit(sidecar.database, f"DELETE FROM chunks WHERE path = '{SHOWN}'")
    with SmallAgent(sidecar).open() as engine:
        ranked = engine.search.ask(QUERY)
        hit = next(hit for hit in ranked.hits if hit.chunk.path == SHOWN)
        inquiry = engine.explain.inquire(ranked, hit.chunk.id)
        check(ranked, inquiry)
        assert step(inquiry, Station.INDEXED).reason is Reason.VANISHED
        assert engine.explain.passages(ranked, hit.chunk.id).text == hit.chunk.text


@pytest.mark.parametrize("queries", [(), ("zebra fog",)])
def test_no_words_are_tried_where_their_vector_is_not_to_be_had(
    sidecar: State, queries: tuple[str, ...]
) -> None:
    with SmallAgent(sidecar, given_vectors(sidecar, *queries)).open() as engine:
        ranked = engine.search.ask("zebra fog")
        assert ranked.pool.states[Leg.VECTOR].status is LegStatus.OK
        chunk = engine.search.ask(QUERY, ranking=replace(engine.ranking, k=50)).pool.chunks
        outside = next(c for c in chunk.values() if c.id not in {h.chunk.id for h in ranked.hits})
        outcome = engine.what_if.word_changes(ranked, engine.ranking, outside, None)
    assert (outcome.changes, outcome.tried, outcome.reason) == ((), 0, Reason.NOT_REPRODUCIBLE)


def test_no_service_elsewhere_is_asked_for_words(sidecar: State) -> None:
    with SmallAgent(sidecar).open() as engine:
        identity = agent_index(engine).facts.identity
    search = {"provider": identity.provider, "model": identity.model}
    remote = {"remote": {"apiKey": "sk-nobody", "baseUrl": "https://embeddings.example"}}
    sidecar.configure(search | remote)
    with SmallAgent(sidecar, given_vectors(sidecar, QUERY)).open() as engine:
        ranked = engine.search.ask(QUERY)
        chunk = ranked.hits[0].chunk
        assert ranked.pool.states[Leg.VECTOR].status is LegStatus.OK
        other = replace(chunk, id="another")
        outcome = engine.what_if.word_changes(ranked, engine.ranking, other, None)
        assert engine.index.status().provider.address == "embeddings.example"
    assert (outcome.changes, outcome.tried, outcome.reason) == ((), 0, Reason.PENDING)


def search(state: State, query: str, vector: Sequence[float] | None = None) -> Ranked:
    vectors = one_vector(state.folder.parent / "vector.json", state)
    if vector is not None:
        vectors = GivenVectors(Path("given.json"), {}, np.array(vector, dtype=np.float64))
    with SmallAgent(state, vectors).open() as engine:
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
    with closing(connect(state.database)) as connection:
        connection.execute(f"INSERT INTO chunks({COLUMNS}) VALUES ({written})")
        connection.execute(f"INSERT INTO chunks_fts({COLUMNS}) VALUES ({written})")


@pytest.mark.parametrize("release", [SIDECAR, AGENT])
def test_more_neighbours_than_sqlite_vec_gives(tmp_path: Path, release: str) -> None:
    state = make_state(tmp_path / ".openclaw", release)
    with closing(open_foreign(state.database)) as opened:
        vec = opened.layout.vec
    vector = one_vector(tmp_path / "vector.json", state).of("")
    assert vector is not None
    nearest = vector.astype("<f4").tobytes().hex()
    edit(
        state.database,
        "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 4100)"
        f" INSERT INTO {vec}(id, embedding) SELECT 'gone-' || i, x'{nearest}' FROM n",
    )
    ranked = search(state, QUERY)
    leg_state = state_of(ranked, Leg.VECTOR)
    assert (leg_state.status, leg_state.reason) == (LegStatus.FAILED, Reason.INDEX_FAILED)
    assert leg_state.detail.startswith("k value in knn query too large")
    assert state_of(ranked, Leg.KEYWORD).status is LegStatus.OK
    assert ranked.pool.search_mode is SearchMode.HYBRID
    assert not ranked.pool.hits[Leg.VECTOR]
    assert ranked.pool.hits[Leg.KEYWORD]


def test_a_damaged_full_text_index_is_not_an_empty_answer(sidecar: State) -> None:
    edit(sidecar.database, "UPDATE chunks_fts_data SET block = x'00ff00' WHERE id > 10")
    with pytest.raises(IndexUnusable, match="damaged"):
        search(sidecar, QUERY)


def test_a_stored_vector_of_zeros_has_no_distance(state: State) -> None:
    """SQLite sorts NULL first, and JavaScript takes `1 - null` for 1."""
    with closing(open_foreign(state.database)) as opened:
        vec = opened.layout.vec
        chunk = opened.connection.execute(f"SELECT id FROM {vec} LIMIT 1").fetchall()[0][0]
    edit(state.database, f"UPDATE {vec} SET embedding = zeroblob({4 * DIMS}) WHERE id = '{chunk}'")
    hits = search(state, QUERY).pool.hits[Leg.VECTOR]
    assert (hits[0].chunk_id, hits[0].raw) == (chunk, 1.0)
    assert hits[1].raw == pytest.approx(1.0)
    assert hits[2].raw < 1.0


@pytest.mark.parametrize("number", [1e300, 1e39, 1e-60])
def test_a_query_vector_that_single_precision_cannot_hold(sidecar: State, number: float) -> None:
    ranked = search(sidecar, QUERY, [number] * DIMS)
    leg_state = state_of(ranked, Leg.VECTOR)
    assert (leg_state.status, leg_state.reason) == (LegStatus.SKIPPED, Reason.ZERO_QUERY_VECTOR)
    assert ranked.pool.hits[Leg.KEYWORD]


def test_a_query_vector_that_only_the_table_speaks_against(state: State) -> None:
    with closing(open_foreign(state.database)) as opened:
        meta = opened.layout.meta
    removed = "value = json_remove(value, '$.vectorDims') WHERE key = 'memory_index_meta_v1'"
    edit(state.database, f"UPDATE {meta} SET {removed}")
    leg_state = state_of(search(state, QUERY, [1.0, 2.0, 3.0]), Leg.VECTOR)
    assert (leg_state.status, leg_state.reason) == (LegStatus.FAILED, Reason.DIMENSIONS_DIFFER)
    assert "3 numbers from given.json, the vector table has 256" in leg_state.detail


@pytest.mark.parametrize(("values", "text", "line"), load("explain")["columns of another type"])
def test_columns_of_another_type(
    sidecar: State, values: dict[str, str], text: str, line: int
) -> None:
    loosen(sidecar)
    plant(sidecar, **values)
    ranked = search(sidecar, "12345" if text == "12345" else WORD)
    (hit,) = ranked.pool.hits[Leg.KEYWORD]
    chunk = ranked.pool.chunks[hit.chunk_id]
    assert (chunk.id, chunk.text) == ("odd", text)
    assert (chunk.start_line, chunk.end_line) == (line, line + 1 if line else 0)


@pytest.mark.parametrize("column", ["id", "path"])
def test_a_row_that_cannot_be_a_chunk_is_left_out(sidecar: State, column: str) -> None:
    loosen(sidecar)
    plant(sidecar, id="'whole'")
    plant(sidecar, **{column: "NULL"})
    ranked = search(sidecar, WORD)
    assert [hit.chunk_id for hit in ranked.pool.hits[Leg.KEYWORD]] == ["whole"]


def test_a_chunk_without_text_is_left_out(sidecar: State) -> None:
    loosen(sidecar)
    before = search(sidecar, QUERY).pool.hits[Leg.VECTOR]
    first = before[0].chunk_id
    edit(sidecar.database, f"UPDATE chunks SET text = NULL WHERE id = '{first}'")
    after = search(sidecar, "nothing of it").pool.hits[Leg.VECTOR]
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
    ranked = search(state, QUERY)
    assert ranked.hits
    assert {chunk.source for chunk in ranked.pool.chunks.values()} == {"sessions"}


def test_a_query_of_a_megabyte(state: State) -> None:
    ranked = search(state, "".join(f"w{number} " for number in range(2**18)))
    detail = state_of(ranked, Leg.KEYWORD).detail
    assert detail == f"only the first {MAX_QUERY_CHARS} characters of the query are searched"
    assert all(len(hit.terms) <= 1 for hit in ranked.pool.hits[Leg.KEYWORD])


def test_half_of_a_pair_in_a_query(state: State) -> None:
    whole = [hit.chunk_id for hit in search(state, QUERY).pool.hits[Leg.KEYWORD]]
    broken = search(state, f"{QUERY} \ud800")
    assert [hit.chunk_id for hit in broken.pool.hits[Leg.KEYWORD]] == whole
