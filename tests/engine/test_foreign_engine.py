"""The engine over an index that the real OpenClaw made: searches, and leaves no trace."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from memtui.bus import Bus, Event, SearchFailed, SearchReady
from memtui.engine import Engine
from memtui.engine.foreign.agent import StoredVectors, choose_profile
from memtui.errors import IndexUnusable
from memtui.index.database import Access
from memtui.index.foreign.agents import find_target
from memtui.index.foreign.opening import ForeignDatabase, Opened, open_foreign
from memtui.model import Leg, LegStatus, Mmr, Ranked, Reason, SearchMode, Stage
from memtui.model.browsing import CareRule
from memtui.model.status import FileState, Identity
from memtui.settings.openclaw.schema import OpenClawConfig
from tests.support.embedding_services import Answer, embedding_server, fixed
from tests.support.indexing import EventQueue
from tests.support.known import load
from tests.support.openclaw import (
    AGENT,
    AGENT_BLOB,
    CHUNKS,
    SIDECAR,
    WORD,
    State,
    edit,
    hash_tree,
    make_state,
    other_program,
)
from tests.support.small_memory import SmallAgent, agent_index, one_vector

QUERY = "OAuth refresh token clock skew"
PROFILE = {SIDECAR: "openclaw-2026.4", AGENT: "openclaw-2026.7", AGENT_BLOB: "openclaw-2026.9"}
ROUTER, AUTH = "memory/router.md", "memory/auth.md"
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def engine_of(
    state: State, bus: Bus | None = None, *, vector: bool = False, **options: Any
) -> Engine:
    """Open an agent; every query has a vector only with `vector`."""
    given = one_vector(state.folder.parent / "vector.json", state) if vector else None
    return SmallAgent(state, given).open(bus, **options)


@pytest.mark.parametrize("is_live", [False, True])
def test_an_agent_is_left_as_it_was(state: State, is_live: bool) -> None:
    with ExitStack() as programs:
        if is_live:
            programs.enter_context(other_program(state.database))
        before = hash_tree(state.folder)
        with engine_of(state, vector=True, examine=True) as engine:
            ranked = engine.search.ask(QUERY)
            engine.search.rerank(ranked.pool, replace(engine.ranking, mmr=Mmr(enabled=True)))
            path = ranked.hits[0].chunk.path
            engine.index.files.source(path)
            engine.browse.chunks_of(path)
            engine.browse.recent()
            engine.index.refresh_status()
            assert engine.wait_idle()
            assert len(engine.search.ask(WORD).pool.hits[Leg.KEYWORD]) == is_live
            assert hash_tree(state.folder) == before
        assert hash_tree(state.folder) == before


def test_the_agent_can_fold_its_log_back_while_memtui_is_open(sidecar: State) -> None:
    with other_program(sidecar.database) as program, engine_of(sidecar, examine=True) as engine:
        engine.search.ask(QUERY)
        assert engine.wait_idle()
        program.close()
        assert not sidecar.beside("-wal").exists()
        assert not sidecar.beside("-shm").exists()
        assert engine.search.ask(WORD).hits


def test_a_file_that_goes_bad_is_named_and_a_good_one_taken_back(sidecar: State) -> None:
    bus = Bus()
    answers = EventQueue(bus, (SearchReady, SearchFailed))
    good = sidecar.database.read_bytes()

    def answer(engine: Engine) -> Event:
        engine.search.submit(QUERY, typing=False)
        while True:
            event = answers.get(timeout=30)
            assert event is not None
            if not isinstance(event, SearchReady) or event.complete:
                return event

    with engine_of(sidecar, bus) as engine:
        assert isinstance(answer(engine), SearchReady)
        sidecar.database.write_bytes(b"not a database any more")
        failed = answer(engine)
        assert isinstance(failed, SearchFailed)
        assert "main.sqlite" in failed.error
        assert "\n" not in failed.error
        sidecar.database.unlink()
        assert isinstance(answer(engine), SearchFailed)
        sidecar.database.write_bytes(good)
        assert isinstance(answer(engine), SearchReady)


@pytest.mark.parametrize("journal", ["DELETE", "TRUNCATE", "PERSIST", "WAL"])
def test_a_commit_in_the_middle_of_a_read_is_seen_whole(sidecar: State, journal: str) -> None:
    edit(sidecar.database, f"PRAGMA journal_mode = {journal}", "UPDATE chunks SET updated_at = 1")
    columns = "SELECT updated_at FROM chunks WHERE rowid"
    ways: list[Access] = []

    def read(opened: Opened) -> set[object]:
        ways.append(opened.how)
        first = opened.connection.execute(f"{columns} < 9").fetchall()
        if len(ways) == 1:
            # Without a busy timeout: a lock of memtui's would make it fail.
            edit(sidecar.database, "UPDATE chunks SET updated_at = 2")
        return {value for (value,) in first + opened.connection.execute(columns).fetchall()}

    with closing(ForeignDatabase(sidecar.database)) as index:
        assert index.read(read) == {2}
        assert ways == [Access.IMMUTABLE, Access.IMMUTABLE]


def test_an_index_that_changes_during_every_read_is_named(sidecar: State) -> None:
    with closing(ForeignDatabase(sidecar.database)) as index:

        def read(opened: Opened) -> None:
            edit(sidecar.database, "UPDATE chunks SET updated_at = updated_at + 1")
            raise ValueError("half of one commit, half of another")

        with pytest.raises(IndexUnusable, match="changed while it was read"):
            index.read(read)


@pytest.mark.parametrize(
    ("made_by", "chunking", "version", "profile"), load("agents")["profiles of versions"]
)
def test_the_version_decides_within_the_tables(
    tmp_path: Path, made_by: str, chunking: int | None, version: str, profile: str
) -> None:
    with closing(open_foreign(make_state(tmp_path, made_by).database)) as opened:
        identity, config = Identity(chunking_version=chunking), OpenClawConfig(version=version)
        assert choose_profile(opened.layout, identity, None, config)[0] == profile


def test_the_vector_of_a_known_text_comes_from_the_embedding_cache(state: State) -> None:
    with closing(open_foreign(state.database)) as opened:
        cache, chunks = opened.layout.cache, opened.layout.chunks
        ((text,),) = opened.connection.execute(
            f"SELECT text FROM {chunks} WHERE hash IN (SELECT hash FROM {cache}) "
            "AND text = trim(text, char(9, 10, 13, 32)) LIMIT 1"
        ).fetchall()
    with engine_of(state) as engine:
        pool = engine.search.ask(str(text)).pool
    assert pool.states[Leg.VECTOR].facts["query_vector"] == "cache"
    assert pool.hits[Leg.VECTOR][0].raw == pytest.approx(1.0, abs=1e-6)


def test_without_a_vector_the_list_is_that_of_an_agent_without_a_provider(sidecar: State) -> None:
    query = "OAuth zzyzx"
    with engine_of(sidecar, vector=True) as engine:
        whole = engine.search.ask(QUERY)
    with engine_of(sidecar) as engine:
        alone, missing = engine.search.ask(QUERY), engine.search.ask(query)
    leg = alone.pool.states[Leg.VECTOR]
    assert (leg.status, leg.reason) == (LegStatus.FAILED, Reason.NOT_REPRODUCIBLE)
    assert leg.detail.startswith("the query has no vector of openai")
    assert alone.pool.hits[Leg.KEYWORD] == whole.pool.hits[Leg.KEYWORD]
    assert alone.pool.search_mode is SearchMode.KEYWORD_ONLY
    sidecar.configure({"provider": "none"})
    with engine_of(sidecar) as engine:
        without = engine.search.ask(query)
    assert without.pool.states[Leg.VECTOR].status is LegStatus.SKIPPED
    assert without.hits
    assert all(set(hit.legs) == {Leg.KEYWORD} for hit in without.hits)
    assert [(hit.chunk.id, hit.score) for hit in missing.hits] == [
        (hit.chunk.id, hit.score) for hit in without.hits
    ]


@pytest.mark.parametrize(("content", "why"), load("agents")["configurations that ask nobody"])
def test_no_text_goes_where_the_agent_sends_none(
    tmp_path: Path, content: str | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key in the environment is no consent: without it, the provider would be asked."""
    with embedding_server(fixed(Answer(status=502)), stays=True) as proxy:
        for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        state = make_state(tmp_path / ".openclaw", AGENT)
        if content is not None:
            (state.folder / "openclaw.json").write_text(content, encoding="utf-8")
        with engine_of(state, env={"OPENAI_API_KEY": "k"}) as engine:
            leg = engine.search.ask(QUERY).pool.states[Leg.VECTOR]
        assert not proxy.seen
        assert not engine.index.status().provider.remote
    assert leg.reason is Reason.NOT_REPRODUCIBLE
    assert why in leg.detail


def test_an_agent_with_hybrid_search_off_searches_by_vectors(sidecar: State) -> None:
    sidecar.configure({"query": {"hybrid": {"enabled": False}}})
    with engine_of(sidecar, vector=True) as engine:
        ranked = engine.search.ask(QUERY)
    assert ranked.pool.states[Leg.KEYWORD].reason is Reason.DISABLED
    assert all(set(hit.legs) == {Leg.VECTOR} for hit in ranked.hits)
    assert all(stage.stage is not Stage.DECAY for hit in ranked.hits for stage in hit.stages)


def test_vectors_without_the_extension_give_the_same_hits(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = SmallAgent(state, one_vector(state.folder.parent / "vector.json", state))
    with agent.open() as engine:
        by_extension, index = engine.search.ask(QUERY), agent_index(engine)
        assert not index.read_rows(index.legs.vectors.are_loaded)
    monkeypatch.setattr("importlib.util.find_spec", lambda *names: None)
    with agent.open() as engine:
        by_scan = engine.search.ask(QUERY)
    assert by_scan.pool.states[Leg.VECTOR].facts["backend"] == "scan"
    scores = {hit.chunk_id: hit.raw for hit in by_extension.pool.hits[Leg.VECTOR]}
    for hit in by_scan.pool.hits[Leg.VECTOR]:
        assert hit.raw == pytest.approx(scores[hit.chunk_id], abs=1e-6)
    assert [h.chunk.id for h in by_scan.hits] == [h.chunk.id for h in by_extension.hits]


def test_vectors_of_a_changed_index_are_read_again(sidecar: State) -> None:
    with engine_of(sidecar, vector=True) as engine:
        chunk = engine.search.ask(QUERY).hits[0].chunk
        nearest = engine.browse.neighbours(chunk.id, 3).by_vector[0].chunk.id
        zeros = f"UPDATE chunks_vec SET embedding = zeroblob({4 * 256})"
        edit(sidecar.database, f"{zeros} WHERE id = '{nearest}'")
        after = engine.browse.neighbours(chunk.id, 3).by_vector
    assert nearest not in {one.chunk.id for one in after}


def test_vectors_in_memory_are_of_the_last_commit_or_read_again(tmp_path: Path) -> None:
    state, vectors = make_state(tmp_path, AGENT), StoredVectors()
    with closing(open_foreign(state.database)) as opened:
        (before,) = vectors.batches(opened)
        assert len(before.rowids) == CHUNKS[AGENT]
        # A reading that fails leaves nothing that could be taken for the vectors.
        changed = replace(opened, fingerprint=replace(opened.fingerprint, header=b"another"))
        opened.connection.authorizer = lambda _, table, *__: (
            apsw.SQLITE_DENY if table == opened.layout.chunks else apsw.SQLITE_OK
        )
        with pytest.raises(apsw.Error):
            vectors.batches(changed)
        opened.connection.authorizer = None
        (again,) = vectors.batches(opened)
        assert len(again.rowids) == CHUNKS[AGENT]
        ((first,),) = opened.select(f"SELECT min(id) FROM {opened.layout.chunks}")
    tables = opened.layout.vec, opened.layout.chunks
    edit(state.database, *(f"DELETE FROM {table} WHERE id = '{first}'" for table in tables))
    # As if the commit had been within one tick of the clock.
    with closing(open_foreign(state.database)) as later:
        (after,) = vectors.batches(replace(later, fingerprint=opened.fingerprint))
    assert len(after.rowids) == CHUNKS[AGENT] - 1


def test_a_note_without_a_date_is_as_old_as_its_file(sidecar: State) -> None:
    sidecar.configure({"query": {"minScore": 0, "hybrid": {"temporalDecay": {"enabled": True}}}})
    path = "notes/plain.md"
    tables = ("chunks", "chunks_fts")
    edit(
        sidecar.database, *(f"UPDATE {t} SET path = '{path}' WHERE path = '{AUTH}'" for t in tables)
    )
    note = sidecar.workspace / path
    note.parent.mkdir()
    note.touch()
    scores = []
    for days in (0, 30):
        changed = NOW.timestamp() - days * 86_400
        os.utime(note, (changed, changed))
        with engine_of(sidecar, vector=True, now=lambda: NOW) as engine:
            ranking = replace(engine.ranking, k=200, min_score=-9.0)
            hits = engine.search.ask(QUERY, ranking=ranking).hits
        scores.append(max(hit.score for hit in hits if hit.chunk.path == path))
    assert scores[1] == pytest.approx(scores[0] / 2)


def in_pool(ranked: Ranked) -> set[str]:
    pool = ranked.pool
    return {pool.chunks[hit.chunk_id].path for hits in pool.hits.values() for hit in hits}


def test_a_mask_follows_the_index_and_takes_any_path(state: State, release: str) -> None:
    prefix = "" if release == SIDECAR else "memory_index_"
    # The triggers of the newest release take a renamed chunk into its full-text table.
    tables = ["chunks"] if release == AGENT_BLOB else ["chunks", "chunks_fts"]
    with engine_of(state) as engine:
        path = engine.search.ask(QUERY).hits[0].chunk.path
        assert in_pool(engine.search.ask(f"{QUERY} path:o'dd")) == set()
        renamed = f"SET path = 'memory/o''dd%_é.md' WHERE path = '{path}'"
        edit(state.database, *(f"UPDATE {prefix}{table} {renamed}" for table in tables))
        assert in_pool(engine.search.ask(f"{QUERY} path:o'dd")) == {"memory/o'dd%_é.md"}
        assert in_pool(engine.search.ask(f"{QUERY} path:o'dd%_É")) == {"memory/o'dd%_é.md"}


def test_a_note_that_changed_is_shown_as_it_was_indexed(state: State) -> None:
    note = state.workspace / ROUTER
    indexed = note.read_text(encoding="utf-8")
    with engine_of(state) as engine:
        assert engine.index.files.source(ROUTER).state == "current"
        note.write_text("# Another day\n" + indexed, encoding="utf-8")
        changed = engine.index.files.source(ROUTER)
        note.unlink()
        gone = engine.index.files.source(ROUTER)
    assert changed.state == "changed"
    assert changed.on_disk is not None
    assert changed.on_disk[0] == "# Another day"
    assert changed.lines[0] == indexed.split("\n")[0]
    assert (gone.state, gone.lines) == ("gone", changed.lines)


def test_what_changed_is_told_file_by_file(state: State) -> None:
    (state.workspace / ROUTER).write_text("# Router\n\nAnother text.\n", "utf-8")
    (state.workspace / "memory/auth.md").unlink()
    (state.workspace / "memory/new.md").write_text("# New\n\nNot indexed.\n", "utf-8")
    (state.workspace / "memory/link.md").symlink_to("router.md")
    with engine_of(state) as engine:
        files = {file.path: (file.state, file.reason) for file in engine.browse.files()}
    assert files[ROUTER] == (FileState.STALE, Reason.STALE)
    assert files["memory/auth.md"] == (FileState.ORPHAN, Reason.VANISHED)
    assert files["memory/new.md"] == (FileState.NEVER_INDEXED, Reason.NOT_YET_INDEXED)
    assert files["memory/link.md"] == (FileState.SKIPPED, Reason.SYMLINK)
    assert files["MEMORY.md"] == (FileState.CURRENT, Reason.OK)


def odd_index(state: State) -> None:
    """A path with a NUL, lines and times that are none."""
    nul = "'nul' || char(0) || '.md'"
    files = (
        f"('two.md', 'memory', 'hm', 1e300, 1), ({nul}, 'memory', 'h', -9e18, 1),"
        " ('text.md', 'memory', 'h', 'soon', 1)"
    )
    places = (
        ("'unlisted.md'", "memory", 1, 1),
        ("'two.md'", "memory", 3, 4.0),
        ("'two.md'", "memory", 4, 5),
        ("'two.md'", "memory", 1_000_000_000, "9e18"),
        ("'text.md'", "memory", "'x'", "'7'"),
        (nul, "memory", 1, 2),
    )
    chunks = ", ".join(
        f"('{number}', {path}, '{source}', {start}, {end}, 'h', 'm', '1' || char(10) || '2', '', 0)"
        for number, (path, source, start, end) in enumerate(places)
    )
    columns = "id, path, source, start_line, end_line, hash, model, text, embedding, updated_at"
    edit(
        state.database,
        f"INSERT INTO files(path, source, hash, mtime, size) VALUES {files}",
        f"INSERT INTO chunks({columns}) VALUES {chunks}",
    )


def test_odd_lines_and_times(sidecar: State) -> None:
    odd_index(sidecar)
    with engine_of(sidecar) as engine:
        assert engine.index.files.source("two.md").lines == [
            *("", "", "1", "2", "2"),
            "… no chunk holds the lines 6–999999999 …",
            *("1", "2"),
        ]
        chunks = engine.browse.chunks_of("two.md")
        assert [(each.start_line, each.end_line) for each in chunks] == [(3, 4), (4, 5), (10**9, 0)]
        assert [each.start_line for each in engine.browse.chunks_of("unlisted.md")] == [1]
        assert engine.index.files.source("text.md").lines == ["1", "2"]
        assert [each.end_line for each in engine.browse.chunks_of("text.md")] == [7]
        shown = engine.index.files.source("nul\0.md")
        assert (shown.state, shown.lines) == ("gone", ["1", "2"])
        recent = {file.path: file.mtime for file in engine.browse.recent(50)}
    for path in ("two.md", "text.md", "nul\0.md"):
        assert recent[path] == datetime.fromtimestamp(0, UTC)
    assert list(recent)[-1] == "text.md"
    assert recent["MEMORY.md"].year >= 2026


def test_an_index_by_its_file_finds_its_agent(state: State) -> None:
    home = state.folder.parent
    target = find_target(agent=None, index=state.database, workspace=None, env={}, home=home)
    assert (target.agent, target.state_dir) == ("main", state.folder)
    assert target.workspace == state.workspace
    elsewhere = home / "copy.sqlite"
    os.link(state.database, elsewhere)
    alone = find_target(agent=None, index=elsewhere, workspace=None, env={}, home=home)
    assert (alone.agent, alone.workspace) == (None, None)
    with Engine.open_agent(alone, env={}, examine=False) as engine:
        source, files = engine.index.files.source(ROUTER), engine.browse.files()
        report = engine.browse.care()
        assert engine.search.ask(QUERY).hits
        assert engine.index.files.path_of(files[0].path) is None
        assert len(engine.browse.chunks_of(files[0].path)) == files[0].chunks
    assert source.lines
    assert "the workspace is not known" in source.detail
    assert all("workspace is not known" in file.detail for file in files)
    assert set(report.skipped) == set(CareRule) - {CareRule.NEAR_DUPLICATE}
    assert report.looked_at[CareRule.NEAR_DUPLICATE] > 0


def test_care_names_the_first_chunk_of_a_note_that_can_be_read(sidecar: State) -> None:
    text = (sidecar.workspace / ROUTER).read_text("utf-8")
    (sidecar.workspace / AUTH).write_text(text, "utf-8")
    # A primary key that is a text may be NULL in SQLite.
    first = f"SELECT rowid FROM chunks WHERE path = '{AUTH}' ORDER BY start_line LIMIT 1"
    edit(sidecar.database, f"UPDATE chunks SET id = NULL WHERE rowid = ({first})")
    with engine_of(sidecar) as engine:
        engine.index.ranking = replace(engine.ranking, k=1)
        findings = engine.browse.care().findings
        readable = [chunk.id for chunk in engine.browse.chunks_of(AUTH)]
    unreachable = {
        one.place.path: one.place.chunk_id for one in findings if one.rule is CareRule.UNREACHABLE
    }
    assert unreachable[AUTH] == readable[0]


@pytest.mark.parametrize(
    ("vector", "norm"),
    [
        ([0.13, 0.85, 0.76, 0.26], 1.1766902736064404),
        # Too large: a square, the sum of the squares.
        ([1e200] * 4, None),
        ([1e154] * 4, None),
    ],
)
def test_the_length_of_a_vector_is_the_root_of_the_exact_sum(
    sidecar: State, vector: list[float], norm: float | None
) -> None:
    edit(sidecar.database, f"UPDATE chunks SET embedding = '{json.dumps(vector)}'")
    with engine_of(sidecar) as engine:
        record = engine.browse.chunk_record(engine.browse.chunks_of(AUTH)[0].id)
    assert record is not None
    assert (record.norm, record.dimensions) == (norm, 4)
