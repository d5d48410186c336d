"""Finding agents, their databases, and the files that a release of their program indexes."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memtui.errors import Cancelled, IndexMissing
from memtui.index.foreign.agents import (
    ForeignTarget,
    agents_here,
    databases_of,
    find_target,
    state_dirs,
)
from memtui.index.foreign.disk import Listing, list_memory, matches_glob
from memtui.model.status import IndexGeneration, Severity
from memtui.settings.openclaw.schema import AgentConfig, MemorySearchConfig, OpenClawConfig
from tests.support.known import load
from tests.support.openclaw import (
    AGENT,
    AGENT_BLOB,
    CHUNKS,
    DIMS,
    FILES,
    RELEASES,
    SIDECAR,
    edit,
    hash_tree,
    make_state,
    without_privileges,
)
from tests.support.openclaw_faults import NOW, make_case

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(("env", "expected"), load("agents")["state folders"])
def test_state_folders_in_their_order(home: Path, env: dict[str, str], expected: str) -> None:
    for name in (".openclaw", ".moltbot", ".clawdbot", ".openclaw-work", ".openclawother", "other"):
        (home / name).mkdir()
    (home / ".openclaw-file").touch()
    assert state_dirs(env, home) == tuple(home / name for name in expected.split())


@pytest.mark.parametrize(
    ("release", "generation"), list(zip(RELEASES, IndexGeneration, strict=True))
)
def test_an_agent_with_everything_about_it(
    home: Path, release: str, generation: IndexGeneration
) -> None:
    state = make_state(home / ".openclaw", release)
    before = hash_tree(home)
    (agent,) = agents_here({}, home)
    assert hash_tree(home) == before
    assert (agent.name, agent.state_dir, agent.database) == ("main", state.folder, state.database)
    assert (agent.generation, agent.workspace) == (generation, state.workspace)
    assert agent.provider == ("openai-compatible" if release == AGENT_BLOB else "openai")
    assert (agent.model, agent.dimensions) == ("text-embedding-3-small", DIMS)
    assert (agent.files, agent.chunks, agent.problem) == (FILES, CHUNKS[release], "")
    assert agent.changed is not None
    assert (agent.changed.tzinfo, agent.changed.year) == (UTC, 2026)


def test_the_configuration_tells_the_workspace_and_the_sidecar(home: Path, tmp_path: Path) -> None:
    state = make_state(home / ".openclaw", SIDECAR)
    elsewhere = home / "store.sqlite"
    state.database.rename(elsewhere)
    (state.folder / "agents" / "main").mkdir(parents=True)
    (agent,) = agents_here({}, home)
    assert agent.problem == "has no memory index yet"
    configured = {
        "workspace": str(tmp_path / "notes"),
        "memorySearch": {"store": {"path": str(elsewhere)}},
    }
    (state.folder / "openclaw.json").write_text(json.dumps({"agents": {"defaults": configured}}))
    (agent,) = agents_here({}, home)
    assert (agent.workspace, agent.database) == (tmp_path / "notes", elsewhere)
    edit(elsewhere, "UPDATE chunks SET updated_at = 9000000000000000000")
    os.utime(elsewhere, (1_700_000_000, 1_700_000_000))
    (agent,) = agents_here({}, home)
    assert agent.changed == datetime.fromtimestamp(1_700_000_000, UTC)


def test_an_agent_is_found_in_any_state_folder_or_those_there_are_are_named(home: Path) -> None:
    def named(agent: str) -> Path | None:
        target = find_target(agent=agent, index=None, workspace=None, env={}, home=home)
        return target.state_dir

    with pytest.raises(IndexMissing, match="`memtui agents` says where"):
        named("none")
    make_state(home / ".openclaw", SIDECAR, "old")
    make_state(home / ".clawdbot", SIDECAR, "ancient")
    assert named("ancient") == home / ".clawdbot"
    with pytest.raises(IndexMissing, match="there are: old, ancient"):
        named("no\x1b[2Jne")


def test_which_database_of_two_the_program_reads(home: Path) -> None:
    old = make_state(home, SIDECAR)
    alone = databases_of(home, AgentConfig("main"))
    assert (alone.read, alone.agent) == (old.database, None)
    new = make_state(home, AGENT)
    both = databases_of(home, AgentConfig("main"))
    assert (both.read, both.sidecar) == (new.database, old.database)
    assert "left over" in both.reason
    edit(new.database, "DELETE FROM memory_index_chunks", "DELETE FROM memory_index_sources")
    empty = databases_of(home, AgentConfig("main"))
    assert (empty.read, "are empty" in empty.reason) == (old.database, True)
    new.database.unlink()
    edit(new.database, "CREATE TABLE transcript_events(x)")
    without = databases_of(home, AgentConfig("main"))
    assert (without.read, "no memory tables" in without.reason) == (old.database, True)
    new.database.write_bytes(b"no database" * 1000)
    damaged = databases_of(home, AgentConfig("main"))
    assert (damaged.read, "is not an SQLite" in damaged.reason) == (new.database, True)
    assert databases_of(home, AgentConfig("nobody")).read is None


def test_broken_indexes_do_not_keep_the_others_from_the_list(home: Path) -> None:
    state = home / ".openclaw"
    make_state(state, SIDECAR, "a-good")
    (state / "memory" / "b-empty.sqlite").touch()
    (state / "memory" / "c-text.sqlite").write_text("text " * 1000)
    (state / "memory" / "d-folder.sqlite").mkdir()
    os.mkfifo(state / "memory" / "e-pipe.sqlite")
    (state / "memory" / "f-link.sqlite").symlink_to(state / "nothing")
    cut = make_state(state, AGENT_BLOB, "g-cut")
    with cut.database.open("r+b") as file:
        file.truncate(50_000)
    edit(make_state(state, SIDECAR, "h-half").database, "DELETE FROM meta")
    edit(
        make_state(state, SIDECAR, "i-odd").database,
        "DROP TABLE meta",
        "CREATE VIRTUAL TABLE meta USING fts5(key, value, content='gone')",
    )
    for name in ("line\nbreak.sqlite", "\x1b[2J.sqlite"):
        (state / "memory" / name).touch()
    for name in ("\udcff", ".hidden", "quiet"):
        (state / "agents" / name).mkdir()
    (state / "agents" / "file").touch()
    agents = {agent.name: agent for agent in agents_here({}, home)}
    problems = {name: agent.problem for name, agent in agents.items()}
    assert problems.pop("a-good") == ""
    broken = {"b-empty", "c-text", "d-folder", "e-pipe", "f-link", "g-cut", "h-half", "i-odd"}
    assert problems.keys() == broken | {"line\nbreak", "\x1b[2J", "\udcff", "quiet"}
    assert all(problems.values())
    assert not any("\n" in problem or "\x1b" in problem for problem in problems.values())
    assert "is not as OpenClaw makes an index: no such table" in problems["i-odd"]
    half = agents["h-half"]
    assert (half.chunks, half.model, half.dimensions) == (65, "text-embedding-3-small", DIMS)
    assert half.problem == "the index metadata is missing"


def test_folders_that_may_not_be_read() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o755)
        make_state(home / ".openclaw", SIDECAR, "shut")
        make_state(home / ".openclaw", AGENT, "inside")
        closed = [home / ".openclaw" / "memory", home / ".openclaw" / "agents" / "inside"]
        for path in closed:
            path.chmod(0)
        with without_privileges():
            agents = agents_here({}, home)
        for path in closed:
            path.chmod(0o755)
    assert [agent.name for agent in agents] == ["inside", "?"]
    assert "cannot be opened" in agents[0].problem
    assert "memory cannot be read: Permission denied" in agents[1].problem


def test_leftovers_are_named_with_age_and_size(tmp_path: Path) -> None:
    case = make_case(tmp_path, AGENT)
    state, hour_ago = case.state, NOW.timestamp() - 3600
    shadow, lock = state.beside(f".memory-reindex-{UUID}"), state.beside(".reindex-lock.sqlite")
    shutil.copy(state.database, shadow)
    shadow.with_name(shadow.name + "-journal").write_bytes(bytes(100))
    lock.touch()
    other = state.database.with_name(f"memory-reindex-{UUID}.sqlite")
    other.write_bytes(b"cut off")
    state.beside("-wal").touch()
    state.beside("-shm").write_bytes(bytes(32768))
    for path in state.database.parent.iterdir():
        os.utime(path, (hour_ago, hour_ago))
    os.utime(lock, (NOW.timestamp() + 50,) * 2)
    size = state.database.stat().st_size
    truth = case.look()
    assert truth.leftovers == (
        f"{other.name}: 7 bytes, 1 h old, {other} is not an SQLite database",
        "openclaw-agent.sqlite-shm: 32,768 bytes, 1 h old",
        f"{shadow.name}: {size + 100:,} bytes, 1 h old, {CHUNKS[AGENT]} chunks",
        f"{lock.name}: 0 bytes, 0 s old",
    )
    severities = {finding.code: finding.severity for finding in truth.findings}
    assert severities["lock_file"] is Severity.INFO
    assert severities["shadow_file"] is Severity.WARNING


FAMILIES = ("2026.2", "2026.4", "2026.7", "2026.9")


def write(root: Path, *names: str) -> Path:
    for name in names:
        path, _, target = name.partition("->")
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if target:
            (root / path).symlink_to(target)
        else:
            (root / path).write_text(f"# {path}\n", encoding="utf-8")
    return root


def look(root: Path, release: str, *extra: str, home: Path | None = None) -> Listing:
    return list_memory(target_of(root, MemorySearchConfig(extra_paths=extra), home), release)


def target_of(root: Path, search: MemorySearchConfig, home: Path | None = None) -> ForeignTarget:
    """An agent with a workspace and a configuration."""
    config, agent = OpenClawConfig(path=root), AgentConfig("main", root, search)
    return ForeignTarget(root, workspace=root, config=config, search=agent, home=home)


def of_release(words: str, release: str) -> set[str]:
    """The words that hold for a release: `word@29` is one of 2026.2 and 2026.9 alone."""
    parts = (word.partition("@") for word in words.split())
    return {word for word, _, families in parts if not families or release[-1] in families}


@pytest.mark.parametrize("release", FAMILIES)
@pytest.mark.parametrize(
    ("files", "extra", "found", "left"),
    load("agents")["files of releases"],
    ids=["root", "lower case", "names", "links", "linked folder"],
)
def test_the_files_of_each_release(
    tmp_path: Path, release: str, files: str, extra: str, found: str, left: str
) -> None:
    listing = look(write(tmp_path / "workspace", *files.split()), release, *extra.split())
    assert set(listing.files) == of_release(found, release)
    left_out = {f"{path}:{one.why.name}" for path, one in listing.left_out.items()}
    assert left_out == of_release(left, release)
    codes = [finding.code for finding in listing.findings.items]
    assert codes == (["extra_path_link"] if extra.startswith("extra") else [])


@pytest.mark.parametrize("release", FAMILIES)
def test_extra_paths(tmp_path: Path, release: str) -> None:
    root = write(tmp_path / "workspace", "memory/a.md", "docs/b.md", "docs/c.txt", "one.md")
    write(tmp_path / "home", "notes/d.md")
    listing = look(
        root, release, " docs ", "", "docs", "one.md", "memory", "~/notes", "no", "docs/c.txt",
        home=tmp_path / "home",
    )  # fmt: skip
    expands = release == "2026.9"
    home = {"../home/notes/d.md"} if expands else set()
    assert listing.files.keys() == {"docs/b.md", "memory/a.md", "one.md"} | home
    assert listing.files["memory/a.md"].root == "memory/"
    assert listing.files["docs/b.md"].root == "extra path docs"
    expected = [] if expands else ["extra_path_tilde"]
    expected += ["extra_path_missing", "extra_path_skipped"]
    assert [finding.code for finding in listing.findings.items] == expected


@pytest.mark.parametrize("release", FAMILIES)
def test_media_and_patterns(tmp_path: Path, release: str) -> None:
    root = write(tmp_path, "memory/a.png", "memory/s.mp3", "docs/b.png", "docs/c.md", "docs/d/e.md")
    config = MemorySearchConfig(
        extra_paths=("docs",),
        extra_path_patterns=(("docs", "*"),),
        multimodal_enabled=True,
        multimodal_modalities=("image",),
    )
    expected = "docs/c.md docs/b.png@479 memory/a.png@47 docs/d/e.md@247"
    assert set(list_memory(target_of(root, config), release).files) == of_release(expected, release)
    small = look(root, release)
    assert small.files == {}


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [*load("agents")["globs"], ("**/a/" * 8 + "x", "a/" * 2000 + "y", False)],
)
def test_only_any_depth_crosses_a_slash_of_a_glob(glob: str, path: str, expected: bool) -> None:
    assert matches_glob(glob, path) is expected


def test_odd_workspaces(tmp_path: Path) -> None:
    root = write(tmp_path / "workspace", "memory/a.md")
    with open(os.fsencode(root / "memory") + b"/caf\xe9.md", "wb") as file:
        file.write(b"# caf\xe9\n")
    assert set(look(root, "2026.9").files) == {"memory/a.md", "memory/caf\ufffd.md"}
    nowhere = look(tmp_path / "nowhere", "2026.4")
    assert (bool(nowhere.problem), nowhere.files) == (True, {})
    with pytest.raises(Cancelled):
        list_memory(ForeignTarget(root, workspace=root), "2026.4", cancelled=lambda: True)
