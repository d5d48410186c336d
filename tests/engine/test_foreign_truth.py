"""The index truth report: every complaint of users, planted into a real index and found again."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from memtui.errors import Cancelled, IndexUnusable
from memtui.index.foreign.audit import examine
from memtui.index.foreign.discovery import database_of
from memtui.index.foreign.findings import agent_gets
from memtui.index.foreign.opening import open_foreign
from memtui.model.status import FileState, Severity, Truth
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES as PROFILE_RANKINGS
from memtui.settings.openclaw import AgentConfig, OpenClawConfig, provider_key, read_config
from memtui.text.sanitize import safe_line
from tests.support.hostile import ATTACKS
from tests.support.openclaw import (
    AGENT,
    AGENT_BLOB,
    CHUNKS,
    DIMS,
    FILES,
    RELEASES,
    SIDECAR,
    hash_tree,
    other_program,
    without_privileges,
)
from tests.support.openclaw_faults import (
    LONG_AGO,
    NOTE,
    NOW,
    PROFILES,
    Case,
    Fault,
    both_generations,
    codes,
    copy_as,
    damage_page,
    lose_rows,
    make_case,
)
from tests.support.pools import chunk, pool

E, W, N = Severity.ERROR, Severity.WARNING, Severity.INFO
WITH_IDENTITY = (AGENT, AGENT_BLOB)


def change_note(case: Case) -> None:
    case.note(NOTE, "# Auth\n\nall new\n")


def lose_one_transcript(case: Case) -> None:
    case.with_sessions()
    for number in range(12):
        case.transcript(f"s{number}.jsonl")
        if number != 7:
            case.transcript_row(f"s{number}.jsonl")


def grow_transcript(case: Case) -> None:
    case.with_sessions()
    case.transcript("grown.jsonl", 500_000, LONG_AGO + 3600)
    case.transcript_row("grown.jsonl", 100)


def forget_transcript(case: Case) -> None:
    case.with_sessions()
    case.transcript("a.jsonl")


def lose_transcript(case: Case) -> None:
    case.with_sessions()
    case.transcript("kept.jsonl")
    case.transcript_row("kept.jsonl")
    case.transcript_row("gone.jsonl")


def empty_index(case: Case) -> None:
    fts = [] if case.version == AGENT_BLOB else ["DELETE FROM {fts}"]
    case.sql(*fts, "DELETE FROM {vec}", "DELETE FROM {chunks}", "DELETE FROM {files}")


def lose_keyword_rows(case: Case) -> None:
    case.sql(f"DELETE FROM {{fts}} WHERE path = '{NOTE}'")


def lose_metadata(case: Case) -> None:
    case.sql("DELETE FROM {meta} WHERE key = 'memory_index_meta_v1'")


def break_metadata(case: Case) -> None:
    case.sql("UPDATE {meta} SET value = '{{\"model\": 7' WHERE key = 'memory_index_meta_v1'")


def mix_models(case: Case) -> None:
    case.sql(f"UPDATE {{chunks}} SET model = 'other-768' WHERE path = '{NOTE}'")


def new_dimension(case: Case) -> None:
    blob = "zeroblob(3072)" if case.version == AGENT_BLOB else f"'[{','.join(['0.5'] * 384)}]'"
    case.sql(f"UPDATE {{chunks}} SET embedding = {blob}")


def mixed_dimension(case: Case) -> None:
    blob = "zeroblob(3072)" if case.version == AGENT_BLOB else f"'[{','.join(['0.5'] * 384)}]'"
    case.sql(f"UPDATE {{chunks}} SET embedding = {blob} WHERE path = '{NOTE}'")


def keyword_only(case: Case) -> None:
    case.identity(model="fts-only", provider="none", vectorDims=None)
    empty = "x''" if case.version == AGENT_BLOB else "'[]'"
    case.sql(f"UPDATE {{chunks}} SET model = 'fts-only', embedding = {empty}", "DROP TABLE {vec}")


def fallback_latched(case: Case) -> None:
    case.search(fallback="ollama")
    case.identity(model="nomic-embed-text", provider="ollama")
    case.sql("UPDATE {chunks} SET model = 'nomic-embed-text'")


def other_model(case: Case) -> None:
    case.identity(model="text-embedding-3-large")
    case.sql("UPDATE {chunks} SET model = 'text-embedding-3-large'")


def damage_files_table(case: Case) -> None:
    names = {SIDECAR: "files", AGENT: "memory_index_sources", AGENT_BLOB: "memory_index_sources"}
    damage_page(case, names[case.version])


def damage_keyword_index(case: Case) -> None:
    case.sql("DELETE FROM {fts}_docsize WHERE id < 5")


def read_sidecar(case: Case) -> None:
    both_generations(case)
    case.state = type(case.state)(
        case.state.folder, case.state.folder / "memory" / "main.sqlite", case.state.workspace
    )
    case.version = SIDECAR


def forget_file_of_chunks(case: Case) -> None:
    case.sql(f"DELETE FROM {{files}} WHERE path = '{NOTE}'")


def forget_chunks_of_file(case: Case) -> None:
    fts = [] if case.version == AGENT_BLOB else [f"DELETE FROM {{fts}} WHERE path = '{NOTE}'"]
    vec = f"DELETE FROM {{vec}} WHERE id IN (SELECT id FROM {{chunks}} WHERE path = '{NOTE}')"
    case.sql(*fts, vec, f"DELETE FROM {{chunks}} WHERE path = '{NOTE}'")


def link_note(case: Case) -> None:
    target = case.state.folder.parent / "elsewhere.md"
    target.write_text("# elsewhere\n", encoding="utf-8")
    (case.state.workspace / "memory" / "linked.md").symlink_to(target)


def link_user_file(case: Case) -> None:
    (case.state.workspace / "USER.md").symlink_to(case.state.workspace / NOTE)


def extra(*paths: str) -> Callable[[Case], None]:
    def plant(case: Case) -> None:
        folder = case.state.folder.parent / "elsewhere"
        folder.mkdir()
        (folder / "note.md").write_text("# note\n", encoding="utf-8")
        (case.state.workspace / "shortcut").symlink_to(folder)
        case.search(extra_paths=paths)

    return plant


COMPLAINTS = {
    "index state": "10863 7713 10877 10906 15072 126880 97814 97857 98072 117706 96175 119411"
    " 119507 4868 16822 127345 66741 61727",
    "corruption, stale handles, locking": "36035 36327 36535 153011 124045 123327 14716 108068"
    " 91910 90727 94288 147637 96116",
    "index identity and metadata": "91778 91961 91965 92093 92152 91183 92848 97015 87907 146713"
    " 32277 83333",
}
"""What users reported, by the numbers of their reports."""

INDEX_STATE = [
    Fault("97814, 97857, 98072", "clean with one transcript missing", lose_one_transcript,
          "sessions_never_indexed", W, ("sessions/s7.jsonl",)),
    Fault("119411, 119507", "584 of 585 files, and clean", lambda c: lose_rows(c, NOTE),
          "files_never_indexed", W, (NOTE,)),
    Fault("126880", "the delta of a transcript", grow_transcript,
          "sessions_stale", W, ("sessions/grown.jsonl",)),
    Fault("126880", "the delta of a note", change_note, "files_stale", W, (NOTE,)),
    Fault("117706", "no hits, and only status knows the index is old", change_note,
          "files_stale", W, (NOTE,)),
    Fault("4868", "empty searches after an update", empty_index, "index_empty", W),
    Fault("4868", "empty searches after an update", lose_metadata,
          "identity_missing", E, (), WITH_IDENTITY),
    Fault("16822", "which backend answers", lambda c: setattr(c, "written", OpenClawConfig(backend="qmd")),
          "qmd_backend", W, ("qmd",), (SIDECAR, AGENT)),
    Fault("127345, 66741", "vectors that are broken, not unknown",
          lambda c: c.sql("DROP TABLE {vec}"), "vec_absent", W),
    Fault("61727", "no matches though the text is there", lose_keyword_rows, "fts_missing", W, (NOTE,)),
    Fault("61727", "no matches though the text is there", forget_chunks_of_file,
          "files_without_chunks", W, (NOTE,)),
]  # fmt: skip
CORRUPTION = [
    Fault("36035, 36327, 36535", "malformed after a kill", damage_files_table, "damaged", E),
    Fault("14716", "damage of the search index", damage_keyword_index, "damaged", E),
    Fault("124045, 123327", "damage outside the memory tables",
          lambda c: damage_page(c, "auth_profile_store"), "damaged", E, (), WITH_IDENTITY),
    Fault("153011", "a lock file of 0 bytes", lambda c: c.beside(".reindex-lock.sqlite"),
          "lock_file", W, ("reindex-lock.sqlite",)),
    Fault("91910, 90727, 94288", "what a swap leaves", lambda c: copy_as(c, ".backup-1"),
          "backup_file", W, (".backup-1",)),
    Fault("96116", "an index run that ended early",
          lambda c: lose_rows(c, NOTE, "memory/router.md"),
          "files_never_indexed", W, (NOTE, "memory/router.md")),
    Fault("96116", "an index run that ended early", lambda c: copy_as(c, ".tmp-1"),
          "temporary_file", W, (".tmp-1",)),
]  # fmt: skip
IDENTITY = [
    Fault("91778, 91961, 91965, 92093, 92152, 91183, 92848, 97015", "metadata is missing",
          lose_metadata, "identity_missing", E, (), WITH_IDENTITY),
    Fault("91778", "metadata is missing", lose_metadata, "identity_missing", W, (), (SIDECAR,)),
    Fault("91778", "metadata cannot be read", break_metadata, "identity_unreadable", E),
    Fault("87907, 146713", "another chunk size", lambda c: c.identity(chunkTokens=200),
          "identity_mismatch", E, ("chunkTokens",), WITH_IDENTITY),
    Fault("87907", "another chunk overlap", lambda c: c.identity(chunkOverlap=1),
          "identity_mismatch", W, ("chunkOverlap",), (SIDECAR,)),
    Fault("87907", "another provider", lambda c: c.identity(provider="voyage"),
          "identity_mismatch", E, ("provider",), WITH_IDENTITY),
    Fault("87907", "other sources", lambda c: c.identity(sources=["memory", "sessions"]),
          "identity_mismatch", E, ("sources",), WITH_IDENTITY),
    Fault("87907", "other extra paths", lambda c: c.identity(scopeHash="0" * 64),
          "identity_mismatch", E, ("scopeHash",), WITH_IDENTITY),
    Fault("87907", "another tokenizer", lambda c: c.identity(ftsTokenizer="trigram"),
          "identity_mismatch", E, ("ftsTokenizer",), WITH_IDENTITY),
    Fault("87907", "the table has another tokenizer", lambda c: c.identity(ftsTokenizer="trigram"),
          "tokenizer_differs", W, ("unicode61", "trigram")),
    Fault("146713", "an older program", lambda c: c.identity(chunkingVersion=3),
          "keyword_only_served", W, ("chunkingVersion",), (AGENT_BLOB,)),
    Fault("146713", "an older program", lambda c: c.identity(provenanceVersion=None),
          "identity_outdated", W, ("provenanceVersion",), (AGENT_BLOB,)),
    Fault("146713", "a newer program", lambda c: c.identity(chunkingVersion=9),
          "identity_newer", E, ("chunkingVersion",), (AGENT_BLOB,)),
    Fault("32277", "another vector dimension", new_dimension, "dimensions_differ", E, ("384",)),
    Fault("83333", "vectors of two models", mix_models, "mixed_models", E, ("other-768",)),
    Fault("83333", "vectors of two lengths", mixed_dimension, "mixed_dimensions", E, ("256", "384")),
]  # fmt: skip
OTHERS = [
    Fault("134967, 135042", "a linked USER.md", link_user_file,
          "memory_linked", W, ("USER.md",), (AGENT_BLOB,)),
    Fault("61727", "search is switched off", lambda c: c.search(enabled=False),
          "search_disabled", W),
    Fault("96534", "the fallback is latched", fallback_latched, "fallback_latched", W, ("ollama/",)),
    Fault("38401, 91719", "another model although no fallback is allowed", other_model,
          "model_differs", W, ("text-embedding-3-large",)),
    Fault("152182, 152210", "expected fts-only", keyword_only,
          "keyword_only_index", E, (), WITH_IDENTITY),
    Fault("152182", "expected fts-only", keyword_only, "keyword_only_index", W, (), (SIDECAR,)),
    Fault("64776, 65244, 66746, 74823, 76786, 86799, 117959", "sqlite-vec was not loaded",
          lambda c: c.sql("DROP TABLE {vec}"), "vec_absent", W),
    Fault("64776", "vectors that are not in the table",
          lambda c: c.sql("DELETE FROM {vec} WHERE id IN (SELECT id FROM {chunks} LIMIT 3)"),
          "vec_missing", W),
    Fault("130955, 135754, 137525, 134461", "a rebuild that was killed",
          lambda c: copy_as(c, ".memory-reindex-1"), "shadow_file", W, (".memory-reindex-1",)),
    Fault("12633, 32965, 85398", "transcripts silently not indexed",
          forget_transcript, "sessions_never_indexed", W, ("sessions/a.jsonl",)),
    Fault("12633", "transcripts that are not a source", lambda c: c.transcript("a.jsonl"),
          "sessions_disabled", N, ("sessions/a.jsonl",)),
    Fault("36694", "orphan transcripts",
          lose_transcript, "sessions_orphaned", W, ("sessions/gone.jsonl",)),
    Fault("20730, 38270, 92061, 110500, 140736", "words of Chinese", lambda c: None,
          "cjk_words", N, ("memory/notes-zh-1.md",)),
    Fault("25183, 41911, 46671", "minScore drops keyword-only hits", lambda c: None,
          "keyword_hits_dropped", N, (), (SIDECAR,)),
    Fault("23619, 23620, 42519", "linked files", link_note, "links_skipped", N, ("memory/linked.md",)),
    Fault("140214, 140281, 140381", "an extra path that is a link", extra("shortcut"),
          "extra_path_link", W, ("shortcut",)),
    Fault("58027", "~ is not expanded", extra("~/elsewhere"),
          "extra_path_tilde", W, ("~/elsewhere",), (SIDECAR, AGENT)),
    Fault("4363", "an own folder that is not there", extra("nowhere"),
          "extra_path_missing", W, ("nowhere",)),
    Fault("4363", "an own folder that is not indexed", extra("../../elsewhere"),
          "files_never_indexed", W, ("../../elsewhere/note.md",)),
]  # fmt: skip

EVERY = [
    pytest.param(fault, version, id=f"{fault.id}-{version}")
    for fault in (*INDEX_STATE, *CORRUPTION, *IDENTITY, *OTHERS)
    for version in fault.versions
]


@pytest.fixture(params=RELEASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return make_case(tmp_path, str(request.param))


def names_of(truth: Truth, code: str) -> str:
    return " ".join(name for item in truth.findings if item.code == code for name in item.names)


def open_to_all(folder: Path) -> None:
    """Let any user reach a temporary folder."""
    top = Path(tempfile.gettempdir()).resolve()
    for place in (folder, *folder.parents):
        if top not in place.resolve().parents:
            break
        place.chmod(0o755)


@pytest.mark.parametrize(("fault", "version"), EVERY)
def test_a_complaint(tmp_path: Path, fault: Fault, version: str) -> None:
    case = make_case(tmp_path, version)
    fault.plant(case)
    before = hash_tree(tmp_path)
    truth = case.look()
    assert hash_tree(tmp_path) == before
    found = [item for item in truth.findings if item.code == fault.code]
    assert found, codes(truth)
    assert any(item.severity is fault.severity for item in found), found
    for name in fault.names:
        assert name in names_of(truth, fault.code)
    assert all(item.message and "\n" not in item.message for item in found)


def assert_clean(truth: Truth, version: str) -> None:
    assert codes(truth, E, W) == set(), [item for item in truth.findings if item.severity is not N]
    assert truth.integrity == "ok"
    assert truth.vector_state == "complete"
    assert truth.drifted == ()
    assert len(truth.files) == FILES
    assert {file.state for file in truth.files} == {FileState.CURRENT}
    assert [(share.dimensions, share.chunks) for share in truth.models] == [(DIMS, CHUNKS[version])]
    assert [field.name for field in truth.identity if field.agrees is False] == []


def test_a_clean_index(case: Case) -> None:
    """#10863, #7713, #15072, PR 10877, PR 10906: no flag says that a clean index is dirty."""
    assert_clean(case.look(), case.version)


def test_new_times_are_no_drift(case: Case) -> None:
    for number, path in enumerate(sorted(case.state.workspace.rglob("*.md"))):
        os.utime(path, (LONG_AGO + number, LONG_AGO + number))
    assert_clean(case.look(), case.version)


def test_a_deep_look_at_a_clean_index(case: Case) -> None:
    case.deep = True
    truth = case.look()
    assert_clean(truth, case.version)
    assert {file.reason.partition(";")[0] for file in truth.files} == {
        "same content as indexed, read and hashed"
    }


def test_a_clean_index_without_configuration(case: Case) -> None:
    case.config = None
    assert_clean(case.look(), case.version)


@pytest.mark.parametrize(
    ("version", "profile"),
    [
        (SIDECAR, "openclaw-2026.2"),
        (SIDECAR, "openclaw-2026.4"),
        (AGENT, "openclaw-2026.7"),
        (AGENT, "openclaw-2026.9"),
    ],
)
def test_a_clean_index_and_a_bare_configuration(tmp_path: Path, version: str, profile: str) -> None:
    case = make_case(tmp_path, version)
    case.config = AgentConfig("main")
    case.release = profile
    if profile == "openclaw-2026.9":
        case.identity(chunkingVersion=3)  # as 2026.8 writes it
    assert_clean(case.look(), version)


def test_an_index_that_is_meant_to_have_no_vectors(case: Case) -> None:
    keyword_only(case)
    case.search(provider="none", model="")
    case.identity(providerKey=provider_key({"provider": "none", "model": "fts-only"}))
    truth = case.look()
    assert codes(truth, E, W) == set()
    assert truth.vector_state == "absent"
    assert "keyword_hits_dropped" not in codes(truth)


@pytest.mark.parametrize(
    ("profile", "weight", "least", "told"),
    [
        ("openclaw-2026.2", 0.3, 0.35, "scores at most 0.3, and minScore is 0.35: no such hit is"),
        ("openclaw-2026.2", 0.35, 0.35, ""),
        ("openclaw-2026.4", 0.3, 0.35, "no such hit with a textScore below 1 is ever returned"),
        ("openclaw-2026.4", 0.35, 0.35, "no such hit with a textScore below 1 is ever returned"),
        ("openclaw-2026.4", 0.0, 0.35, ""),
        ("openclaw-2026.4", 0.0, 0.0, ""),
        ("openclaw-2026.4", 0.5, 0.35, ""),
        ("openclaw-2026.7", 0.3, 0.35, ""),
        ("openclaw-2026.9", 0.3, 0.35, ""),
    ],
)
def test_when_hits_of_keywords_are_dropped(
    tmp_path: Path, profile: str, weight: float, least: float, told: str
) -> None:
    """What the finding says is what the release's own rule does with such a pool."""
    case = make_case(tmp_path, SIDECAR)
    case.release = profile
    case.search(text_weight=weight, min_score=least)
    found = [f.message for f in case.look().findings if f.code == "keyword_hits_dropped"]
    assert bool(found) is bool(told)
    assert all(told in message for message in found)
    ranking = replace(
        PROFILE_RANKINGS[profile], min_score=least, keyword_weight=weight, vector_weight=1 - weight
    )
    kept = rank(pool([chunk("a")], keyword=[("a", -9.0)]), ranking, now=NOW).hits
    assert bool(kept) is not bool(told)


def test_a_configuration_that_cannot_be_read(tmp_path: Path) -> None:
    case = make_case(tmp_path, AGENT)
    (tmp_path / "openclaw.json").write_text('{\n"agents": oops}', encoding="utf-8")
    case.config, case.written = None, read_config({}, tmp_path, state_dir=tmp_path)
    truth = case.look()
    (found,) = (item for item in truth.findings if item.code == "configuration_unreadable")
    assert found.severity is W
    assert f"{tmp_path / 'openclaw.json'}:2:" in found.message
    assert found.names == (str(tmp_path / "openclaw.json"),)
    assert agent_gets(truth, "openclaw-2026.7") == (None, "configuration_unreadable")


def test_parts_of_a_configuration_that_cannot_be_used(tmp_path: Path) -> None:
    case = make_case(tmp_path, AGENT)
    text = '{"agents": {"defaults": {"memorySearch": {"enabled": 7, "model": 8}}}}'
    (tmp_path / "openclaw.json").write_text(text, encoding="utf-8")
    case.written = read_config({}, tmp_path, state_dir=tmp_path)
    (found,) = (f for f in case.look().findings if f.code == "configuration_problems")
    assert (found.severity, found.count) == (W, 2)
    assert "2 entries" in found.message
    assert any("enabled" in name for name in found.names)


@pytest.mark.parametrize(
    ("plant", "versions", "gets"),
    [
        (lambda c: None, (), ("same", "")),
        (lose_metadata, WITH_IDENTITY, ("nothing", "identity_missing")),
        (break_metadata, WITH_IDENTITY, ("nothing", "identity_unreadable")),
        (lambda c: c.search(model="m"), WITH_IDENTITY, ("nothing", "identity_mismatch")),
        (lambda c: c.search(enabled=False), RELEASES, ("nothing", "search_disabled")),
        (lambda c: c.identity(chunkingVersion=4), (AGENT_BLOB,),
         ("keywords", "keyword_only_served")),
        (lambda c: c.identity(chunkingVersion=9), RELEASES, (None, "identity_newer")),
    ],
)  # fmt: skip
def test_what_the_agent_gets(
    case: Case,
    plant: Callable[[Case], object],
    versions: tuple[str, ...],
    gets: tuple[str | None, str],
) -> None:
    plant(case)
    expected = gets if case.version in versions else ("same", "")
    assert agent_gets(case.look(), PROFILES[case.version]) == expected


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    case = make_case(tmp_path, SIDECAR)
    open_to_all(tmp_path)
    (case.state.workspace / NOTE).chmod(0)
    with without_privileges():
        truth = case.look()
    (file,) = (file for file in truth.files if file.path == NOTE)
    assert (file.state, file.chunks) == (FileState.SKIPPED, 4)
    assert names_of(truth, "files_unreadable") == NOTE


def test_a_file_that_is_not_utf8_is_hashed_as_the_program_reads_it(tmp_path: Path) -> None:
    case = make_case(tmp_path, SIDECAR)
    raw = b"\xef\xbb\xbf# caf\xe9\x00\r\n\xe4\xb8"
    (case.state.workspace / NOTE).write_bytes(raw)
    digest = hashlib.sha256("\ufeff# caf\ufffd\0\r\n\ufffd".encode()).hexdigest()
    case.sql(f"UPDATE {{files}} SET hash = '{digest}', size = {len(raw)} WHERE path = '{NOTE}'")
    assert_clean(case.look(), SIDECAR)


def test_a_clean_index_that_is_written_to(case: Case) -> None:
    with other_program(case.state.database, "uncommitted"):
        truth = case.look()
    # The other program's chunk is a copy of one, and has its text.
    assert codes(truth, E, W) == set()
    assert "log_beside" in codes(truth, N)


def test_a_clean_index_of_both_generations(case: Case) -> None:
    case.databases = database_of(case.state.folder, "main")
    assert_clean(case.look(), case.version)


def test_the_older_generation_is_left_over(tmp_path: Path) -> None:
    case = make_case(tmp_path, AGENT_BLOB)
    both_generations(case)
    truth = case.look()
    assert codes(truth, E, W) == set()
    assert "both_generations" in codes(truth, N)
    assert truth.database_read.startswith(str(case.state.database))
    read_sidecar(case)
    assert "other_database_read" in codes(case.look(), W)


def test_same_time_and_size_are_not_read(tmp_path: Path) -> None:
    case = make_case(tmp_path, SIDECAR)
    path = case.state.workspace / NOTE
    ((mtime,),) = (
        apsw.Connection(str(case.state.database))
        .execute("SELECT mtime FROM files WHERE path = ?", (NOTE,))
        .fetchall()
    )
    assert isinstance(mtime, int)
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, (mtime / 1000, mtime / 1000))
    (file,) = (file for file in case.look().files if file.path == NOTE)
    assert (file.state, file.reason) == (
        FileState.CURRENT,
        "same time and size as indexed, not read; from memory/",
    )
    case.deep = True
    (file,) = (file for file in case.look().files if file.path == NOTE)
    assert file.state is FileState.STALE


def test_only_transcripts_that_count_are_counted(tmp_path: Path) -> None:
    """PR 96175: checkpoints and trajectories are no transcripts."""
    case = make_case(tmp_path, SIDECAR)
    case.with_sessions()
    uuid = "0b6f4a52-8a3c-4c55-9d0e-1f2a3b4c5d6e"
    for name in ("a.jsonl", "b.jsonl.reset.2026-11-01T10-00-00.000Z"):
        case.transcript(name)
        case.transcript_row(name)
    for name in (
        f"a.checkpoint.{uuid}.jsonl",
        "a.trajectory.jsonl",
        "a.trajectory-path.json",
        "a.jsonl.bak.2026-11-01T10-00-00.000Z",
        "sessions.json",
    ):
        case.transcript(name)
    truth = case.look()
    assert codes(truth, E, W) == set()
    (coverage,) = (item for item in truth.coverage if item.source == "sessions")
    assert (coverage.on_disk, coverage.indexed) == (2, 2)


def test_a_recent_transcript_waits_for_its_sync(tmp_path: Path) -> None:
    case = make_case(tmp_path, SIDECAR)
    case.with_sessions()
    case.transcript("now.jsonl", 900, NOW.timestamp() - 60)
    case.transcript_row("now.jsonl", 100)
    truth = case.look()
    assert codes(truth, E, W) == set()
    assert names_of(truth, "sessions_pending") == "sessions/now.jsonl (+800 bytes)"


def test_the_vector_state_is_never_unknown(tmp_path: Path) -> None:
    """#127345, #66741: not probed, absent and broken are three things."""
    states = {}
    for number, (version, statement) in enumerate(
        (
            (AGENT_BLOB, "DELETE FROM {meta} WHERE key = 'memory_vector_rebuild_v1'"),
            (AGENT_BLOB, "UPDATE {meta} SET value = '1' WHERE key = 'memory_vector_rebuild_v1'"),
            (AGENT_BLOB, "DROP TABLE {vec}"),
            (AGENT, "DROP TABLE {vec}"),
            (AGENT, "DELETE FROM {vec}"),
        )
    ):
        case = make_case(tmp_path / str(number), version)
        case.sql(statement)
        states[number] = case.look().vector_state
    assert list(states.values()) == [
        "unverified",
        "incomplete",
        "incomplete",
        "absent",
        "incomplete",
    ]


def test_a_rebuild_that_is_under_way(tmp_path: Path) -> None:
    """#130955: the chunks of the shadow file are counted."""
    case = make_case(tmp_path, AGENT)
    copy_as(case, ".memory-reindex-1")
    (line,) = case.look().leftovers
    assert f"{CHUNKS[AGENT]} chunks" in line
    assert "3 d old" in line


def test_a_swap_while_it_is_open(tmp_path: Path) -> None:
    """#91910, PR 90727, PR 94288: the handle of a deleted file."""
    case = make_case(tmp_path, SIDECAR)
    opened = open_foreign(case.state.database)
    copy = case.state.beside(".new")
    shutil.copyfile(case.state.database, copy)
    os.replace(copy, case.state.database)
    truth = examine(opened, case.surroundings())
    opened.close()
    assert "database_replaced" in codes(truth, W)


def test_an_index_that_a_kill_cut_short(case: Case) -> None:
    """#36035: too much is gone for a report; opening says so."""
    with case.state.database.open("r+b") as file:
        file.truncate(case.state.database.stat().st_size - 40_960)
    with pytest.raises(IndexUnusable, match="is damaged"):
        case.look()


def test_an_index_file_that_status_created(tmp_path: Path) -> None:
    """#147637: an empty file, which no report can be made of, is named when it is opened."""
    case = make_case(tmp_path, SIDECAR)
    case.state.database.write_bytes(b"")
    with pytest.raises(IndexUnusable, match="empty"):
        case.look()


def test_an_index_that_may_not_be_written(tmp_path: Path) -> None:
    """#147637: the same user's program could not write it either."""
    case = make_case(tmp_path, SIDECAR)
    open_to_all(tmp_path)
    case.state.database.chmod(0o444)
    with without_privileges():
        truth = case.look()
    assert "database_not_writable" in codes(truth, N)


def test_a_log_that_a_gateway_left(tmp_path: Path) -> None:
    """#108068: "database is not open" is in a process; its log beside the file is what shows."""
    case = make_case(tmp_path, AGENT)
    with other_program(case.state.database) as program:
        program.die()
    truth = case.look()
    assert "log_beside" in codes(truth, N)


def test_each_row_has_its_root(tmp_path: Path) -> None:
    """#42408: extra paths drift in."""
    case = make_case(tmp_path, SIDECAR)
    case.note("docs/plan.md", "# plan\n")
    case.search(extra_paths=("docs",))
    reasons = {file.path: file.reason for file in case.look().files}
    assert reasons["docs/plan.md"].endswith("from extra path docs")
    assert reasons[NOTE].endswith("from memory/")
    case.search(extra_paths=())
    case.sql(
        "INSERT INTO {files}(path, source, hash, mtime, size) VALUES ('docs/plan.md', 'memory', 'h', 1, 7)"
    )
    (file,) = (file for file in case.look().files if file.path == "docs/plan.md")
    assert file.state is FileState.ORPHAN
    assert file.reason == "on disk, but outside memory/ and the extra paths"


def test_damaged_and_differing_vectors(case: Case) -> None:
    other = "zeroblob(2048)" if case.version == AGENT_BLOB else f"'[{','.join(['0.5'] * DIMS)}]'"
    broken = "x'00'" if case.version == AGENT_BLOB else "'[1, 2'"
    case.sql(
        f"UPDATE {{chunks}} SET embedding = {other} WHERE path = '{NOTE}'",
        f"UPDATE {{chunks}} SET embedding = {broken} WHERE path = 'memory/router.md'"
        if case.version != AGENT_BLOB
        else "SELECT 1",
    )
    truth = case.look()
    assert NOTE in names_of(truth, "vec_differs")
    assert "memory/router.md" not in names_of(truth, "vec_differs")
    assert ("memory/router.md" in names_of(truth, "vectors_damaged")) == (
        case.version != AGENT_BLOB
    )


def test_rows_without_a_partner(case: Case) -> None:
    fts = "path, source, model, start_line, end_line"
    case.sql(
        f"INSERT INTO {{fts}}(text, id, {fts}) VALUES ('ghost', 'ghost', 'x.md', 'memory', 'm', 1, 1)",
        "INSERT INTO {vec}(id, embedding) SELECT 'ghost', embedding FROM {vec} LIMIT 1",
        f"DELETE FROM {{files}} WHERE path = '{NOTE}'",
    )
    truth = case.look()
    assert names_of(truth, "fts_orphans") == "ghost"
    assert names_of(truth, "vec_orphans") == "ghost"
    assert names_of(truth, "chunks_without_file") == NOTE


def test_nothing_is_known_but_the_index(case: Case) -> None:
    case.config = case.workspace = None
    truth = case.look()
    assert codes(truth, E, W) == set()
    assert "workspace_unknown" in codes(truth, N)
    assert truth.files == ()
    assert [item.on_disk for item in truth.coverage] == [None]


def test_a_workspace_that_is_gone(case: Case) -> None:
    case.workspace = case.state.folder / "nowhere"
    truth = case.look()
    assert codes(truth, E, W) == {"workspace_missing"}
    assert truth.drifted == ()
    assert [item.on_disk for item in truth.coverage] == [None]


def test_transcripts_that_no_list_names(tmp_path: Path) -> None:
    """#36694 (PR 36767): orphan transcripts not registered in sessions.json."""
    case = make_case(tmp_path, AGENT)
    case.with_sessions()
    for name in ("a.jsonl", "b.jsonl"):
        case.transcript(name)
        case.transcript_row(name)
    (case.sessions / "sessions.json").write_text('{"key": {"sessionId": "a"}}', encoding="utf-8")
    truth = case.look()
    assert codes(truth, E, W) == set()
    assert names_of(truth, "sessions_unregistered") == "b.jsonl"


def test_hostile_names_are_safe_to_show(case: Case) -> None:
    for number, name in enumerate(ATTACKS):
        if not set(name) & {"/", "\0", "\ud800"}:
            case.note(f"memory/{number}{name}.md")
            (case.state.workspace / "memory" / f"{name}.link.md").symlink_to(name)
    case.search(extra_paths=(*ATTACKS, "~/\u202e"))
    case.identity(model="\x1b[2J", provider="\u202e")
    truth = case.look()
    assert "files_never_indexed" in codes(truth, W)
    for item in truth.findings:
        assert all(safe_line(text) == text for text in (item.message, *item.names))


def test_it_can_be_cancelled(case: Case) -> None:
    opened = open_foreign(case.state.database)
    with pytest.raises(Cancelled):
        examine(opened, replace(case.surroundings(), cancelled=lambda: True))
    assert not opened.connection.in_transaction
    opened.close()


def test_every_complaint_has_a_test() -> None:
    """Each report that the list of complaints has in its first three sections."""
    this = sys.modules[__name__]
    documented = [test.__doc__ or "" for name, test in vars(this).items() if name[:5] == "test_"]
    planted = [fault.issues for fault in (*INDEX_STATE, *CORRUPTION, *IDENTITY, *OTHERS)]
    covered = set(re.findall(r"\d{4,6}", " ".join(planted + documented)))
    for section, issues in COMPLAINTS.items():
        assert set(issues.split()) - covered == set(), section
