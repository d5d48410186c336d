"""The engine over an index that the real OpenClaw made: searches, and leaves no trace."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memtui.bus import Bus, Event, ForeignExamined, SearchFailed, SearchReady
from memtui.engine import Engine
from memtui.engine.foreign import ForeignTarget, find_target
from memtui.engine.foreign.agent import choose_profile
from memtui.engine.foreign.legs import AgentDatabase
from memtui.engine.foreign.query_vectors import GivenVectors, load_given
from memtui.errors import IndexMissing, IndexUnusable, SettingsError
from memtui.index.database import Access
from memtui.index.foreign import rows
from memtui.index.foreign.opening import Opened, open_foreign
from memtui.model import IndexState, Leg, LegStatus, Mmr, Reason, SearchMode, Stage
from memtui.model.status import Identity
from memtui.ranking.profiles import PROFILES
from memtui.settings.openclaw import OpenClawConfig
from tests.support.events import collect
from tests.support.loopback import Answer, loopback
from tests.support.openclaw import (
    AGENT,
    AGENT_BLOB,
    CHUNKS,
    RELEASES,
    SIDECAR,
    WORD,
    State,
    edit,
    hash_tree,
    make_state,
    other_program,
)

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
QUERY = "OAuth refresh token clock skew"
PROFILE = {SIDECAR: "openclaw-2026.4", AGENT: "openclaw-2026.7", AGENT_BLOB: "openclaw-2026.9"}


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def state(tmp_path: Path, release: str) -> State:
    return make_state(tmp_path / ".openclaw", release)


@pytest.fixture
def sidecar(tmp_path: Path) -> State:
    return make_state(tmp_path / ".openclaw", SIDECAR)


def target_of(state: State, **changes: Any) -> ForeignTarget:
    found = find_target(
        agent=changes.pop("agent", "main"),
        index=None,
        workspace=None,
        env={"OPENCLAW_STATE_DIR": str(state.folder)},
        home=state.folder.parent,
    )
    return replace(found, **changes)


def a_vector(tmp_path: Path, state: State) -> GivenVectors:
    """The vector of one of the index's own chunks, for whatever is asked."""
    opened = open_foreign(state.database)
    try:
        found = opened.connection.execute(
            f"SELECT embedding FROM {opened.layout.vec} LIMIT 1 OFFSET 7"
        ).fetchall()
    finally:
        opened.close()
    values = np.frombuffer(found[0][0], dtype="<f4").tolist()  # type: ignore[arg-type]
    path = tmp_path / "vector.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    return load_given(path)


@contextmanager
def engine_of(state: State, **options: Any) -> Iterator[Engine]:
    changes = options.pop("target", {})
    with Engine.open_agent(
        target_of(state, **changes), now=lambda: NOW, env={}, **options
    ) as engine:
        yield engine


def configure(state: State, content: dict[str, Any]) -> None:
    (state.folder / "openclaw.json").write_text(json.dumps(content), encoding="utf-8")


# --- without a trace ----------------------------------------------------------------------------


def use_everything(engine: Engine) -> int:
    ranked = engine.search.ask(QUERY)
    engine.search.rerank(ranked.pool, replace(engine.ranking, mmr=Mmr(enabled=True)))
    path = ranked.hits[0].chunk.path
    engine.browse.source(path)
    engine.browse.chunk_ranges(path)
    engine.browse.recent()
    engine.index.refresh_status()
    assert engine.wait_idle()
    assert engine.index.status().foreign is not None
    return len(ranked.hits)


def test_an_idle_agent_is_left_as_it_was(state: State, tmp_path: Path) -> None:
    given = a_vector(tmp_path, state)
    before = hash_tree(state.folder)
    with engine_of(state, given=given) as engine:
        assert use_everything(engine) > 0
        assert hash_tree(state.folder) == before
    assert hash_tree(state.folder) == before


def test_a_writing_agent_is_left_as_it_was(state: State, tmp_path: Path) -> None:
    given = a_vector(tmp_path, state)
    with other_program(state.database):
        before = hash_tree(state.folder)
        with engine_of(state, given=given) as engine:
            assert use_everything(engine) > 0
            assert len(engine.search.ask(WORD).pool.hits[Leg.KEYWORD]) == 1
        assert hash_tree(state.folder) == before


def test_the_agent_can_fold_its_log_back_while_memtui_is_open(sidecar: State) -> None:
    with other_program(sidecar.database) as program, engine_of(sidecar) as engine:
        engine.search.ask(QUERY)
        assert engine.wait_idle()
        program.close()
        assert not sidecar.beside("-wal").exists()
        assert not sidecar.beside("-shm").exists()
        assert engine.search.ask(WORD).hits


# --- following the index ------------------------------------------------------------------------


def test_a_commit_is_seen_by_the_next_search(state: State) -> None:
    with other_program(state.database) as program, engine_of(state) as engine:
        first = engine.search.ask(WORD).hits
        program.commit()
        second = engine.search.ask(WORD).hits
    assert len(second) == len(first) + 1


def test_an_exchanged_file_is_opened_again(sidecar: State) -> None:
    with engine_of(sidecar) as engine:
        assert not engine.search.ask(WORD).hits
        other = sidecar.database.with_suffix(".other")
        other.write_bytes(sidecar.database.read_bytes())
        edit(
            other,
            "INSERT INTO chunks_fts(text, id, path, source, model, start_line, end_line)"
            f" SELECT '{WORD}', id, path, source, model, start_line, end_line FROM chunks LIMIT 1",
        )
        os.replace(other, sidecar.database)
        assert engine.search.ask(WORD).hits


def test_a_file_that_goes_bad_is_named_and_a_good_one_taken_back(sidecar: State) -> None:
    bus = Bus()
    answers = collect(bus, (SearchReady, SearchFailed))
    good = sidecar.database.read_bytes()

    def answer(engine: Engine) -> Event:
        engine.search.submit(QUERY, typing=False)
        while True:
            event = answers.get(timeout=30)
            assert event is not None
            if isinstance(event, SearchFailed) or (
                isinstance(event, SearchReady) and event.complete
            ):
                return event

    with engine_of(sidecar, bus=bus, examine=False) as engine:
        assert isinstance(answer(engine), SearchReady)
        sidecar.database.write_bytes(b"not a database any more")
        failed = answer(engine)
        assert isinstance(failed, SearchFailed)
        assert "main.sqlite" in failed.error
        assert "\n" not in failed.error
        sidecar.database.unlink()
        failed = answer(engine)
        assert isinstance(failed, SearchFailed)
        sidecar.database.write_bytes(good)
        assert isinstance(answer(engine), SearchReady)


def commits_meanwhile(index: AgentDatabase, state: State) -> tuple[set[object], list[Access]]:
    """What one read sees of two commits, the second of which comes between its queries."""
    columns = "SELECT updated_at FROM chunks WHERE rowid"
    ways: list[Access] = []

    def read(opened: Opened) -> set[object]:
        ways.append(opened.how)
        first = opened.connection.execute(f"{columns} < 9").fetchall()
        if len(ways) == 1:
            # Without a busy timeout: a lock of memtui's would make it fail.
            edit(state.database, "UPDATE chunks SET updated_at = 2")
        return {value for (value,) in first + opened.connection.execute(columns).fetchall()}

    edit(state.database, "UPDATE chunks SET updated_at = 1")
    try:
        return index.read(read), ways
    finally:
        index.close()


@pytest.mark.parametrize("journal", ["DELETE", "TRUNCATE", "PERSIST", "WAL"])
def test_a_commit_in_the_middle_of_a_read_is_seen_whole(sidecar: State, journal: str) -> None:
    edit(sidecar.database, f"PRAGMA journal_mode = {journal}")
    seen, ways = commits_meanwhile(AgentDatabase(sidecar.database), sidecar)
    assert seen == {2}
    assert ways == [Access.IMMUTABLE, Access.COPY]


def test_a_program_that_comes_to_an_idle_index_is_read_beside(sidecar: State) -> None:
    ways: list[Access] = []
    with ExitStack() as programs:

        def read(opened: Opened) -> int:
            ways.append(opened.how)
            if len(ways) == 1:
                programs.enter_context(other_program(sidecar.database))
            return rows.chunk_counts(opened.connection, opened.layout)["memory"]

        assert AgentDatabase(sidecar.database).read(read) == CHUNKS[SIDECAR] + 1
    assert ways == [Access.IMMUTABLE, Access.LIVE]


def test_an_index_that_changes_during_every_read_is_named(
    sidecar: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memtui.index.foreign.opening._COPY_BYTES", 0)
    index = AgentDatabase(sidecar.database)
    tries: list[int] = []

    def read(opened: Opened) -> None:
        tries.append(1)
        edit(sidecar.database, "UPDATE chunks SET updated_at = updated_at + 1")
        raise ValueError("half of one commit, half of another")

    with pytest.raises(IndexUnusable, match="changed while it was read"):
        index.use(read)
    assert len(tries) == 2
    index.close()


def test_a_text_that_is_not_utf8_is_one_line(sidecar: State) -> None:
    edit(
        sidecar.database,
        "UPDATE chunks SET text = CAST(x'61ff62' AS TEXT), path = CAST(x'61ff' AS TEXT)",
    )
    index = AgentDatabase(sidecar.database)
    with engine_of(sidecar) as engine:
        for ask in (
            lambda: engine.index.refresh_status(),
            lambda: index.read(
                lambda opened: opened.connection.execute("SELECT text FROM chunks").fetchall()
            ),
        ):
            with pytest.raises(IndexUnusable, match="a text of it is not UTF-8") as raised:
                ask()
            assert raised.value.exit_code == 3
            assert "\n" not in str(raised.value)
    index.close()


# --- the release --------------------------------------------------------------------------------


def test_the_profile_is_chosen_by_the_index(state: State, release: str) -> None:
    with engine_of(state) as engine:
        status = engine.index.status()
    assert status.foreign is not None
    assert status.foreign.profile == PROFILE[release] == engine.ranking.profile
    assert status.foreign.chosen_because
    assert status.chunks == CHUNKS[release] == status.vectors


def test_the_oldest_index_is_told_by_what_it_does_not_record(sidecar: State) -> None:
    edit(
        sidecar.database,
        "UPDATE meta SET value = json_remove(value, '$.scopeHash', '$.ftsTokenizer', '$.sources')",
    )
    with engine_of(sidecar) as engine:
        assert engine.ranking.profile == "openclaw-2026.2"


def test_an_index_of_2026_8_searches_as_2026_9_does(tmp_path: Path) -> None:
    state = make_state(tmp_path / ".openclaw", AGENT)
    opened = open_foreign(state.database)
    try:
        newer = Identity(chunking_version=3)
        choice = choose_profile(opened.layout, newer, rows.Origin(), None)
    finally:
        opened.close()
    assert choice.profile == "openclaw-2026.9"


@pytest.mark.parametrize(
    ("version", "profile"),
    [("2026.2.17", "openclaw-2026.2"), ("2026.4.26", "openclaw-2026.4"), ("2026.9.6", None)],
)
def test_the_version_of_the_configuration_decides_within_the_tables(
    sidecar: State, version: str, profile: str | None
) -> None:
    config = OpenClawConfig(version=version)
    opened = open_foreign(sidecar.database)
    try:
        identity = rows.identity(opened.connection, opened.layout).identity
        choice = choose_profile(opened.layout, identity, rows.Origin(), config)
    finally:
        opened.close()
    assert choice.profile == (profile or "openclaw-2026.4")
    assert (version in choice.because) is (profile is not None)


def test_the_agents_configuration_is_the_ranking(sidecar: State) -> None:
    query = {
        "maxResults": 9,
        "minScore": 0.1,
        "hybrid": {
            "vectorWeight": 0.6,
            "textWeight": 0.2,
            "candidateMultiplier": 7,
            "mmr": {"enabled": True, "lambda": 0.4},
            "temporalDecay": {"enabled": True, "halfLifeDays": 14},
        },
    }
    configure(sidecar, {"agents": {"defaults": {"memorySearch": {"query": query}}}})
    with engine_of(sidecar) as engine:
        ranking = engine.ranking
    assert (ranking.k, ranking.min_score, ranking.candidates) == (9, 0.1, 63)
    assert ranking.vector_weight == pytest.approx(0.75)
    assert (ranking.mmr.enabled, ranking.mmr.lambda_) == (True, 0.4)
    assert (ranking.decay.enabled, ranking.decay.half_life_days) == (True, 14)


def test_what_the_release_has_fixed_stays_fixed(tmp_path: Path) -> None:
    state = make_state(tmp_path / ".openclaw", AGENT_BLOB)
    hybrid = {"vectorWeight": 0.1, "textWeight": 0.9, "mmr": {"enabled": False}}
    configure(state, {"memory": {"search": {"query": {"maxResults": 9, "hybrid": hybrid}}}})
    with engine_of(state) as engine:
        ranking = engine.ranking
    assert ranking.k == 9
    assert (ranking.vector_weight, ranking.mmr.enabled) == (0.7, True)


def test_a_profile_that_is_asked_for_replaces_the_chosen_one(sidecar: State) -> None:
    with engine_of(sidecar, profile="openclaw-2026.9") as engine:
        assert engine.ranking == PROFILES["openclaw-2026.9"]
    with pytest.raises(SettingsError, match="memini is not how"):
        Engine.open_agent(target_of(sidecar), profile="memini", env={})


# --- legs ---------------------------------------------------------------------------------------


def test_both_legs_with_a_vector_from_a_file(state: State, tmp_path: Path) -> None:
    with engine_of(state, given=a_vector(tmp_path, state)) as engine:
        ranked = engine.search.ask(QUERY)
    states = ranked.pool.states
    assert {leg.status for leg in states.values()} == {LegStatus.OK}
    assert states[Leg.VECTOR].facts["backend"] == "sqlite-vec"
    assert states[Leg.VECTOR].facts["query_vector"] == "file"
    assert states[Leg.KEYWORD].facts["match"] == " AND ".join(f'"{w}"' for w in QUERY.split())
    assert ranked.pool.hits[Leg.VECTOR][0].raw == pytest.approx(1.0, abs=1e-6)
    assert ranked.pool.search_mode is SearchMode.HYBRID


def test_the_vector_of_a_known_text_comes_from_the_embedding_cache(state: State) -> None:
    opened = open_foreign(state.database)
    try:
        cache, chunks = opened.layout.cache, opened.layout.chunks
        ((text,),) = opened.connection.execute(
            f"SELECT text FROM {chunks} WHERE hash IN (SELECT hash FROM {cache}) "
            "AND text = trim(text, char(9, 10, 13, 32)) LIMIT 1"
        ).fetchall()
    finally:
        opened.close()
    with engine_of(state) as engine:
        found = engine.search.ask(str(text)).pool
    assert found.states[Leg.VECTOR].facts["query_vector"] == "cache"
    assert found.hits[Leg.VECTOR][0].raw == pytest.approx(1.0, abs=1e-6)


def test_without_a_vector_the_keyword_leg_reproduces_and_says_what_is_missing(
    state: State, tmp_path: Path
) -> None:
    with engine_of(state, given=a_vector(tmp_path, state)) as engine:
        whole = engine.search.ask(QUERY)
    with engine_of(state) as engine:
        alone = engine.search.ask(QUERY)
    missing = alone.pool.states[Leg.VECTOR]
    assert (missing.status, missing.reason) == (LegStatus.FAILED, Reason.NOT_REPRODUCIBLE)
    assert missing.detail.startswith("not reproducible here: needs openai")
    assert alone.pool.hits[Leg.KEYWORD] == whole.pool.hits[Leg.KEYWORD]
    assert alone.pool.search_mode is SearchMode.KEYWORD_ONLY
    assert alone.hits


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "no configuration of the agent names it"),
        ('{"agents": oops}', "openclaw.json:1:"),
        (
            '{"agents": {"defaults": {"memorySearch": {"enabled": false}}}}',
            "memory search is switched off for the agent",
        ),
        (
            '{"agents": {"defaults": {"memorySearch": {"provider": "voyage"}}}}',
            "the agent is configured for voyage/voyage-4-large",
        ),
    ],
    ids=["missing", "broken", "off", "another"],
)
def test_no_text_goes_where_the_agent_sends_none(
    tmp_path: Path, content: str | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key in the environment is no consent: without it, the provider would be asked."""
    with loopback(Answer(status=502)) as proxy:
        for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        state = make_state(tmp_path / ".openclaw", AGENT)
        if content is not None:
            (state.folder / "openclaw.json").write_text(content, encoding="utf-8")
        target = target_of(state)
        with Engine.open_agent(target, env={"OPENAI_API_KEY": "k"}) as engine:
            leg = engine.search.ask(QUERY).pool.states[Leg.VECTOR]
        assert not proxy.seen
    assert leg.reason is Reason.NOT_REPRODUCIBLE
    assert why in leg.detail


def test_a_broken_configuration_is_told_and_not_compared_with(tmp_path: Path) -> None:
    state = make_state(tmp_path / ".openclaw", AGENT_BLOB)
    (state.folder / "openclaw.json").write_text('{"agents": oops}', encoding="utf-8")
    target = target_of(state)
    assert not target.is_configured
    with engine_of(state) as engine:
        assert engine.search.ask(QUERY).hits
        engine.index.refresh_status()
        status = engine.index.status()
    assert status.foreign is not None
    assert status.foreign.truth is not None
    findings = {finding.code: finding for finding in status.foreign.truth.findings}
    assert "openclaw.json:1:" in findings["configuration_unreadable"].message
    assert "identity_mismatch" not in findings
    assert status.foreign.agent_gets is None
    assert {field.note for field in status.foreign.truth.identity if field.agrees is None} >= {
        "no configuration is known"
    }


def test_an_agent_without_a_provider_searches_by_keywords(sidecar: State) -> None:
    configure(sidecar, {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}})
    with engine_of(sidecar) as engine:
        ranked = engine.search.ask(QUERY)
    assert ranked.pool.states[Leg.VECTOR].status is LegStatus.SKIPPED
    assert ranked.hits
    assert all(set(hit.legs) == {Leg.KEYWORD} for hit in ranked.hits)


def test_without_a_vector_the_list_is_that_of_an_agent_without_a_provider(sidecar: State) -> None:
    query = "OAuth zzyzx"
    with engine_of(sidecar) as engine:
        missing = engine.search.ask(query)
    configure(sidecar, {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}})
    with engine_of(sidecar) as engine:
        without = engine.search.ask(query)
    assert missing.hits
    assert [(hit.chunk.id, hit.score) for hit in missing.hits] == [
        (hit.chunk.id, hit.score) for hit in without.hits
    ]


def test_an_agent_with_hybrid_search_off_searches_by_vectors(
    sidecar: State, tmp_path: Path
) -> None:
    hybrid = {"hybrid": {"enabled": False}}
    configure(sidecar, {"agents": {"defaults": {"memorySearch": {"query": hybrid}}}})
    with engine_of(sidecar, given=a_vector(tmp_path, sidecar)) as engine:
        ranked = engine.search.ask(QUERY)
    assert ranked.pool.states[Leg.KEYWORD].reason is Reason.DISABLED
    assert all(set(hit.legs) == {Leg.VECTOR} for hit in ranked.hits)
    assert all(stage.stage is not Stage.DECAY for hit in ranked.hits for stage in hit.stages)


def test_vectors_without_the_extension_give_the_same_hits(
    state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = a_vector(tmp_path, state)
    with engine_of(state, given=given) as engine:
        by_extension = engine.search.ask(QUERY)
    monkeypatch.setattr("memtui.index.database._load_vector_extension", lambda connection: None)
    with engine_of(state, given=given) as engine:
        by_scan = engine.search.ask(QUERY)
    assert by_scan.pool.states[Leg.VECTOR].facts["backend"] == "scan"
    scores = {hit.chunk_id: hit.raw for hit in by_extension.pool.hits[Leg.VECTOR]}
    for hit in by_scan.pool.hits[Leg.VECTOR]:
        assert hit.raw == pytest.approx(scores[hit.chunk_id], abs=1e-6)
    assert [h.chunk.id for h in by_scan.hits] == [h.chunk.id for h in by_extension.hits]


def test_a_pool_fits_one_candidate_count(sidecar: State, tmp_path: Path) -> None:
    with engine_of(sidecar, given=a_vector(tmp_path, sidecar)) as engine:
        small = engine.search.ask(QUERY)
        large = engine.search.ask(QUERY, ranking=replace(engine.ranking, k=12))
        again = engine.search.rerank(large.pool, engine.ranking)
    assert (small.pool.limit, large.pool.limit) == (24, 48)
    assert small.pool.sized
    assert len(large.pool.hits[Leg.VECTOR]) == 48
    assert [hit.chunk.id for hit in again.hits] == [hit.chunk.id for hit in small.hits]


# --- notes and status ---------------------------------------------------------------------------


def test_a_note_that_changed_is_shown_as_it_was_indexed(state: State) -> None:
    path = "memory/router.md"
    note = state.workspace / path
    indexed = note.read_text(encoding="utf-8")
    with engine_of(state) as engine:
        assert engine.browse.source(path).state == "current"
        note.write_text("# Another day\n" + indexed, encoding="utf-8")
        changed = engine.browse.source(path)
        note.unlink()
        gone = engine.browse.source(path)
    assert changed.state == "changed"
    assert changed.on_disk is not None
    assert changed.on_disk[0] == "# Another day"
    assert changed.lines[0] == indexed.split("\n")[0]
    assert gone.state == "gone"
    assert gone.lines == changed.lines


def odd_index(state: State) -> None:
    """Paths in two sources and with a NUL, lines and times that are none."""
    nul = "'nul' || char(0) || '.md'"
    files = (
        f"('two.md', 'memory', 'hm', 1e300, 1), ({nul}, 'memory', 'h', -9e18, 1),"
        " ('text.md', 'memory', 'h', 'soon', 1)"
    )
    chunks = ", ".join(
        f"('{number}', {path}, '{source}', {start}, {end}, 'h', 'm', '1' || char(10) || '2', '', 0)"
        for number, (path, source, start, end) in enumerate(
            (
                ("'two.md'", "a", 1, 2),
                ("'two.md'", "memory", 3, 4.0),
                ("'two.md'", "memory", 1_000_000_000, "9e18"),
                ("'text.md'", "memory", "'x'", "'7'"),
                (nul, "memory", 1, 2),
            )
        )
    )
    columns = "id, path, source, start_line, end_line, hash, model, text, embedding, updated_at"
    edit(
        state.database,
        f"INSERT INTO files(path, source, hash, mtime, size) VALUES {files}",
        f"INSERT INTO chunks({columns}) VALUES {chunks}",
    )


def test_odd_lines_and_sources_in_the_preview(sidecar: State) -> None:
    odd_index(sidecar)
    with engine_of(sidecar, examine=False) as engine:
        source = engine.browse.source("two.md")
        assert source.lines == [
            *("", "", "1", "2"),
            "… no chunk holds the lines 5–999999999 …",
            *("1", "2"),
        ]
        ranges = engine.browse.chunk_ranges("two.md")
        assert [(found.start_line, found.end_line) for found in ranges] == [(3, 4), (10**9, 1)]
        assert engine.browse.source("text.md").lines == ["1", "2"]
        assert [found.end_line for found in engine.browse.chunk_ranges("text.md")] == [7]
        shown = engine.browse.source("nul\0.md")
        assert (shown.state, shown.lines) == ("gone", ["1", "2"])


def test_times_that_are_none_do_not_keep_the_recent_files_back(sidecar: State) -> None:
    odd_index(sidecar)
    with engine_of(sidecar, examine=False) as engine:
        found = {file.path: file for file in engine.browse.recent(50)}
    for path in ("two.md", "text.md", "nul\0.md"):
        assert found[path].mtime == datetime.fromtimestamp(0, UTC)
    assert list(found)[-1] == "text.md"
    assert found["MEMORY.md"].mtime.year >= 2026


def test_without_a_workspace_the_indexed_text_is_shown(sidecar: State) -> None:
    target = {"workspace": None, "config": None, "search": None}
    with engine_of(sidecar, target=target) as engine:
        source = engine.browse.source("memory/router.md")
        assert engine.search.ask(QUERY).hits
    assert source.lines
    assert "the workspace is not known" in source.detail


def test_the_truth_follows_in_the_background(state: State) -> None:
    bus = Bus()
    events = collect(bus, (ForeignExamined,))
    configure(state, {})
    (state.workspace / "memory" / "new.md").write_text("# New\n", encoding="utf-8")
    with engine_of(state, bus=bus) as engine:
        event = events.get(timeout=60)
        assert isinstance(event, ForeignExamined)
        assert event.problem == ""
        status = engine.index.status()
    assert status.foreign is not None
    assert status.foreign.truth is not None
    assert "memory/new.md" in status.pending
    assert status.state in {IndexState.STALE, IndexState.DEGRADED}


def test_an_agent_that_is_not_there_is_named_with_those_that_are(sidecar: State) -> None:
    with pytest.raises(IndexMissing, match="no OpenClaw agent 'work'") as caught:
        target_of(sidecar, agent="work")
    assert "main" in caught.value.hint


def test_an_index_by_its_file_finds_its_agent(state: State) -> None:
    found = find_target(
        agent=None, index=state.database, workspace=None, env={}, home=state.folder.parent
    )
    assert (found.agent, found.state_dir) == ("main", state.folder)
    assert found.workspace == state.workspace
    elsewhere = state.folder.parent / "copy.sqlite"
    elsewhere.write_bytes(state.database.read_bytes())
    alone = find_target(
        agent=None, index=elsewhere, workspace=None, env={}, home=state.folder.parent
    )
    assert (alone.agent, alone.workspace) == (None, None)
