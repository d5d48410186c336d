"""The index truth report: every complaint of users, planted into a real index and found again."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from memtui.errors import Cancelled
from memtui.index.foreign import rows
from memtui.index.foreign.agents import ForeignTarget
from memtui.index.foreign.consistency import agent_gets
from memtui.index.foreign.disk import compare_notes, list_memory
from memtui.index.foreign.opening import open_foreign
from memtui.model import Reason
from memtui.model.status import FileState, Severity, Truth
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES as PROFILE_RANKINGS
from memtui.settings.openclaw.releases import json_digest
from memtui.settings.openclaw.schema import AgentConfig
from memtui.text.sanitize import safe_line
from tests.support.hostile import ATTACKS
from tests.support.known import load
from tests.support.openclaw import (
    AGENT,
    AGENT_BLOB,
    CHUNKS,
    DIMS,
    FILES,
    RELEASES,
    SIDECAR,
    hash_tree,
    without_privileges,
)
from tests.support.openclaw_faults import (
    FAULTS,
    LONG_AGO,
    NOTE,
    NOW,
    PROFILES,
    Case,
    both_generations,
    codes,
    make_case,
)
from tests.support.pools import chunk, pool

E, W, N = Severity.ERROR, Severity.WARNING, Severity.INFO
IN_THE_AGENTS = (AGENT, AGENT_BLOB)


def change_in_place(case: Case) -> None:
    """Another text of the same size, and of another time."""
    size = (case.state.workspace / NOTE).stat().st_size
    case.note(NOTE, "x" * size)


def lose_workspace(case: Case) -> None:
    case.workspace = case.state.folder / "nowhere"


def know_nothing(case: Case) -> None:
    case.config = case.workspace = None


def planting(code: str) -> Callable[[Case], None]:
    """Plant the first fault of a code."""
    return lambda case: case.plant(FAULTS[code][0])


EVERY = [
    pytest.param(
        partial(Case.plant, fault=fault),
        code,
        Severity(fault["severity"]),
        fault.get("names", []),
        version,
        id=f"{code}-{number}-{version}",
    )
    for code, faults in FAULTS.items()
    for number, fault in enumerate(faults)
    for version in fault.get("versions", RELEASES)
]
EVERY += [
    pytest.param(plant, code, severity, names, version, id=f"{plant.__name__}-{version}")
    for plant, code, severity, names in (
        (change_in_place, "files_stale", W, [NOTE]),
        (lose_workspace, "workspace_missing", W, ["nowhere"]),
        (know_nothing, "workspace_unknown", N, []),
    )
    for version in RELEASES
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


@pytest.mark.parametrize(("plant", "code", "severity", "names", "version"), EVERY)
def test_a_complaint(
    tmp_path: Path,
    plant: Callable[[Case], object],
    code: str,
    severity: Severity,
    names: list[str],
    version: str,
) -> None:
    case = make_case(tmp_path, version)
    plant(case)
    before = hash_tree(tmp_path)
    truth = case.look()
    assert hash_tree(tmp_path) == before
    found = [item for item in truth.findings if item.code == code]
    assert any(item.severity is severity for item in found), codes(truth)
    assert all(item.count == len(item.names) for item in truth.findings if item.names)
    for name in names:
        assert name in names_of(truth, code)
    if case.workspace is None or not case.workspace.exists():
        assert truth.drifted == truth.files == ()
        assert [item.on_disk for item in truth.coverage] == [None]
    assert all(item.message and "\n" not in item.message for item in found)


def assert_clean(truth: Truth, version: str) -> None:
    assert codes(truth, E, W) == set(), [item for item in truth.findings if item.severity is not N]
    assert (truth.integrity, truth.vector_state) == ("ok", "complete")
    assert truth.drifted == ()
    assert len(truth.files) == FILES
    assert {file.state for file in truth.files} == {FileState.CURRENT}
    assert [(share.dimensions, share.chunks) for share in truth.models] == [(DIMS, CHUNKS[version])]
    assert [field.name for field in truth.identity if field.agrees is False] == []


def test_a_clean_index(case: Case) -> None:
    assert_clean(case.look(), case.version)
    case.deep = True
    truth = case.look()
    assert_clean(truth, case.version)
    reasons = {file.reason.partition(";")[0] for file in truth.files}
    assert reasons == {"same content as indexed, read and hashed"}
    case.config = None
    assert_clean(case.look(), case.version)


def test_new_times_are_no_drift(case: Case) -> None:
    for number, path in enumerate(sorted(case.state.workspace.rglob("*.md"))):
        os.utime(path, (LONG_AGO + number, LONG_AGO + number))
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
    case.plant(FAULTS["keyword_only_index"][0])
    case.search(provider="none", model="")
    case.identity(providerKey=json_digest({"provider": "none", "model": "fts-only"}))
    truth = case.look()
    assert codes(truth, E, W) == set()
    assert truth.vector_state == "absent"
    assert "keyword_hits_dropped" not in codes(truth)


def test_a_chunk_without_a_vector_is_not_missed_in_the_vector_table(case: Case) -> None:
    own = f"SELECT id FROM {{chunks}} WHERE path = '{NOTE}'"
    empty = "x''" if case.version == AGENT_BLOB else "'[]'"
    case.sql(f"DELETE FROM {{vec}} WHERE id IN ({own})")
    case.sql(f"UPDATE {{chunks}} SET embedding = {empty} WHERE path = '{NOTE}'")
    assert codes(case.look(), E, W) == {"chunks_without_vector"}


@pytest.mark.parametrize(("profile", "weight", "least", "told"), load("agents")["dropped hits"])
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


@pytest.mark.parametrize(
    ("plant", "versions", "gets"),
    [
        (lambda c: None, (), ("same", "")),
        (planting("identity_missing"), IN_THE_AGENTS, ("nothing", "identity_missing")),
        (planting("identity_unreadable"), IN_THE_AGENTS, ("nothing", "identity_unreadable")),
        (lambda c: c.search(model="m"), IN_THE_AGENTS, ("nothing", "identity_mismatch")),
        (lambda c: c.search(enabled=False), RELEASES, ("nothing", "search_disabled")),
        (lambda c: c.identity(chunkingVersion=4), (AGENT_BLOB,),
         ("keywords", "keyword_only_served")),
        (lambda c: c.identity(chunkingVersion=9), RELEASES, (None, "identity_newer")),
        (planting("configuration_unreadable"), RELEASES, (None, "configuration_unreadable")),
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


def test_the_older_generation_is_left_over(tmp_path: Path) -> None:
    case = make_case(tmp_path, AGENT_BLOB)
    both_generations(case)
    truth = case.look()
    assert codes(truth, E, W) == set()
    assert "both_generations" in codes(truth, N)
    assert truth.database_read.startswith(str(case.state.database))
    older = case.state.folder / "memory" / "main.sqlite"
    case.state, case.version = replace(case.state, database=older), SIDECAR
    assert "other_database_read" in codes(case.look(), W)


def test_same_time_and_size_are_not_read(tmp_path: Path) -> None:
    case = make_case(tmp_path, SIDECAR)
    path = case.state.workspace / NOTE
    with closing(open_foreign(case.state.database)) as opened:
        (note,) = rows.files(opened, NOTE)
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, (note.mtime / 1000, note.mtime / 1000))
    (file,) = (file for file in case.look().files if file.path == NOTE)
    assert file.state is FileState.CURRENT
    assert file.reason == "same time and size as indexed, not read; from memory/"
    case.deep = True
    (file,) = (file for file in case.look().files if file.path == NOTE)
    assert file.state is FileState.STALE


def test_a_note_that_vanishes_after_it_was_listed_is_gone(tmp_path: Path) -> None:
    case = make_case(tmp_path, SIDECAR)
    target = ForeignTarget(case.state.database, workspace=case.state.workspace)
    listing = list_memory(target, PROFILES[SIDECAR])
    with closing(open_foreign(case.state.database)) as opened:
        notes = rows.files(opened, NOTE)
    (case.state.workspace / NOTE).unlink()
    truths = compare_notes(notes, listing, {}, target, deep=True)
    (truth,) = (one for one in truths if one.path == NOTE)
    assert (truth.state, truth.cause) == (FileState.ORPHAN, Reason.VANISHED)
    assert "vanished while it was looked at" in truth.reason


@pytest.mark.parametrize(("late", "is_stale"), [(30, False), (90, True)])
def test_a_turn_ends_a_little_after_the_time_of_its_row(
    tmp_path: Path, late: int, is_stale: bool
) -> None:
    case = make_case(tmp_path, AGENT_BLOB)
    case.with_sessions()
    case.transcript("a.jsonl", changed=LONG_AGO + late)
    case.transcript_row("a.jsonl")
    assert ("sessions_stale" in codes(case.look())) is is_stale


def test_only_transcripts_that_count_are_counted(tmp_path: Path) -> None:
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


def test_a_note_that_became_a_link_is_gone_whatever_is_configured(case: Case) -> None:
    note = case.state.workspace / NOTE
    note.rename(case.state.folder / "elsewhere.md")
    note.symlink_to(case.state.folder / "elsewhere.md")
    for config in (case.config, None):
        case.config = config
        (file,) = (file for file in case.look().files if file.path == NOTE)
        assert file.state is FileState.ORPHAN
        assert file.reason.startswith("indexed before, now left out: a link, wh")


@pytest.mark.parametrize(("version", "statement", "state"), load("agents")["vector states"])
def test_the_vector_state_is_never_unknown(
    tmp_path: Path, version: str, statement: str, state: str
) -> None:
    case = make_case(tmp_path, version)
    case.sql(statement)
    assert case.look().vector_state == state


def test_a_swap_while_it_is_open(tmp_path: Path) -> None:
    case = make_case(tmp_path, SIDECAR)
    with closing(open_foreign(case.state.database)) as opened:
        copy = case.state.beside(".new")
        shutil.copyfile(case.state.database, copy)
        os.replace(copy, case.state.database)
        truth = case.look(opened)
    assert "database_replaced" in codes(truth, W)


def test_an_index_that_may_not_be_written(tmp_path: Path) -> None:
    case = make_case(tmp_path, SIDECAR)
    open_to_all(tmp_path)
    case.state.database.chmod(0o444)
    with without_privileges():
        truth = case.look()
    assert "database_not_writable" in codes(truth, N)


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
    with closing(open_foreign(case.state.database)) as opened:
        with pytest.raises(Cancelled):
            case.look(opened, cancelled=lambda: True)
        assert not opened.connection.in_transaction
