"""Agents and their indexes on a machine, the files that each release indexes, and what is left."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memtui.errors import Cancelled, IndexMissing
from memtui.index.foreign.discovery import (
    ForeignTarget,
    LeftoverKind,
    agents_here,
    database_of,
    find_leftovers,
    find_target,
    leftover_kind,
    state_dirs,
)
from memtui.index.foreign.disk import Listing, Why, list_memory, matches_glob
from memtui.model.status import IndexGeneration
from memtui.settings.openclaw import MemorySearchConfig
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
    other_program,
    without_privileges,
)

NOW = 2_000_000_000.0
UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def test_state_folders_in_their_order(home: Path, tmp_path: Path) -> None:
    assert state_dirs({}, home) == ()
    for name in (".openclaw", ".moltbot", ".clawdbot", ".openclaw-work", ".openclawother"):
        (home / name).mkdir()
    (home / ".openclaw-file").touch()
    expected = [".openclaw", ".openclaw-work", ".clawdbot", ".moltbot"]
    assert state_dirs({}, home) == tuple(home / name for name in expected)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert state_dirs({"OPENCLAW_STATE_DIR": f" {elsewhere} "}, home)[0] == elsewhere
    assert state_dirs({"OPENCLAW_STATE_DIR": "~/.clawdbot"}, home) == (
        home / ".clawdbot",
        home / ".openclaw",
        home / ".openclaw-work",
        home / ".moltbot",
    )
    assert state_dirs({"OPENCLAW_PROFILE": "work"}, home)[0] == home / ".openclaw-work"
    assert state_dirs({"OPENCLAW_STATE_DIR": "", "OPENCLAW_HOME": "undefined"}, home)[0] == (
        home / ".openclaw"
    )
    assert state_dirs({"OPENCLAW_HOME": str(elsewhere)}, home) == ()


@pytest.mark.parametrize("release", RELEASES)
def test_an_agent_with_everything_about_it(home: Path, release: str) -> None:
    state = make_state(home / ".openclaw", release)
    before = hash_tree(home)
    (agent,) = agents_here({}, home)
    assert hash_tree(home) == before
    assert (agent.name, agent.state_dir, agent.database) == ("main", state.folder, state.database)
    assert (
        agent.generation
        is {
            SIDECAR: IndexGeneration.SIDECAR,
            AGENT: IndexGeneration.AGENT,
            AGENT_BLOB: IndexGeneration.AGENT_BLOB,
        }[release]
    )
    assert agent.workspace == state.workspace
    assert agent.provider == ("openai-compatible" if release == AGENT_BLOB else "openai")
    assert (agent.model, agent.dimensions) == ("text-embedding-3-small", DIMS)
    assert (agent.files, agent.chunks) == (FILES, CHUNKS[release])
    assert agent.changed is not None
    assert agent.changed.tzinfo is UTC
    assert agent.changed.year == 2026
    assert agent.problem == ""


def test_agents_of_all_generations_and_state_folders(home: Path) -> None:
    make_state(home / ".openclaw", SIDECAR, "old")
    make_state(home / ".openclaw", AGENT_BLOB, "new")
    make_state(home / ".clawdbot", SIDECAR, "ancient")
    (home / ".openclaw" / "agents" / "quiet" / "sessions").mkdir(parents=True)
    agents = agents_here({}, home)
    assert [agent.name for agent in agents] == ["new", "old", "quiet", "ancient"]
    assert [agent.problem for agent in agents] == ["", "", "has no memory index yet", ""]
    assert agents[1].workspace == home / ".openclaw" / "workspace-old"
    assert agents[2].workspace is None
    assert named("ancient", home).state_dir == home / ".clawdbot"


def test_an_index_that_fails_while_it_is_read_does_not_end_the_list(home: Path) -> None:
    state = make_state(home / ".openclaw", SIDECAR, "bad")
    make_state(home / ".openclaw", SIDECAR, "good")
    edit(
        state.database,
        "DROP TABLE meta",
        "CREATE VIRTUAL TABLE meta USING fts5(key, value, content='gone')",
    )
    bad, good = agents_here({}, home)
    assert "bad.sqlite is not as OpenClaw makes an index: no such table" in bad.problem
    assert (good.name, good.problem) == ("good", "")


def named(agent: str, home: Path) -> ForeignTarget:
    return find_target(agent=agent, index=None, workspace=None, env={}, home=home)


def test_an_unknown_agent_names_those_there_are(home: Path) -> None:
    with pytest.raises(IndexMissing, match="set OPENCLAW_STATE_DIR"):
        named("none", home)
    make_state(home / ".openclaw", SIDECAR, "old")
    with pytest.raises(IndexMissing, match="there are: old"):
        named("no\x1b[2Jne", home)


def test_the_configuration_tells_the_workspace(home: Path, tmp_path: Path) -> None:
    state = make_state(home / ".openclaw", SIDECAR)
    content = {"agents": {"defaults": {"workspace": str(tmp_path / "notes")}}}
    (state.folder / "openclaw.json").write_text(json.dumps(content))
    (agent,) = agents_here({}, home)
    assert agent.workspace == tmp_path / "notes"


def test_the_configuration_tells_where_the_sidecar_is(home: Path) -> None:
    state = make_state(home / ".openclaw", SIDECAR)
    elsewhere = home / "store.sqlite"
    state.database.rename(elsewhere)
    (state.folder / "agents" / "main").mkdir(parents=True)
    (agent,) = agents_here({}, home)
    assert agent.problem == "has no memory index yet"
    store = {"memorySearch": {"store": {"path": str(elsewhere)}}}
    (state.folder / "openclaw.json").write_text(json.dumps({"agents": {"defaults": store}}))
    (agent,) = agents_here({}, home)
    assert (agent.name, agent.database, agent.chunks) == ("main", elsewhere, CHUNKS[SIDECAR])


def test_which_database_of_two_the_program_reads(home: Path) -> None:
    old = make_state(home, SIDECAR)
    alone = database_of(home, "main")
    assert (alone.read, alone.agent) == (old.database, None)
    new = make_state(home, AGENT)
    both = database_of(home, "main")
    assert (both.read, both.sidecar) == (new.database, old.database)
    assert "left over" in both.reason
    edit(new.database, "DELETE FROM memory_index_chunks", "DELETE FROM memory_index_sources")
    empty = database_of(home, "main")
    assert empty.read == old.database
    assert "are empty" in empty.reason
    new.database.unlink()
    edit(new.database, "CREATE TABLE transcript_events(x)")
    without = database_of(home, "main")
    assert without.read == old.database
    assert "no memory tables" in without.reason
    new.database.write_bytes(b"no database" * 1000)
    damaged = database_of(home, "main")
    assert damaged.read == new.database
    assert "is not an SQLite database" in damaged.reason
    assert database_of(home, "nobody").read is None


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
    (state / "memory" / "line\nbreak.sqlite").touch()
    (state / "memory" / "\x1b[2J.sqlite").touch()
    (state / "agents" / "\udcff").mkdir()
    (state / "agents" / ".hidden").mkdir()
    (state / "agents" / "file").touch()
    half = make_state(state, SIDECAR, "h-half")
    edit(half.database, "DELETE FROM meta")
    agents = agents_here({}, home)
    problems = {agent.name: agent.problem for agent in agents}
    assert problems.pop("a-good") == ""
    assert problems.keys() == {
        "b-empty",
        "c-text",
        "d-folder",
        "e-pipe",
        "f-link",
        "g-cut",
        "h-half",
        "line\nbreak",
        "\x1b[2J",
        "\udcff",
    }
    assert all(problems.values())
    assert not any("\n" in problem or "\x1b" in problem for problem in problems.values())
    found = {agent.name: agent for agent in agents}["h-half"]
    assert (found.chunks, found.model, found.dimensions) == (65, "text-embedding-3-small", DIMS)
    assert found.problem == "the index metadata is missing"


def test_a_locked_index_has_its_row(home: Path) -> None:
    state = make_state(home / ".openclaw", SIDECAR)
    with other_program(state.database, "exclusive"):
        (agent,) = agents_here({}, home)
    assert agent.database == state.database
    assert "is locked" in agent.problem


def test_folders_that_may_not_be_read() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o755)
        make_state(home / ".openclaw", SIDECAR, "shut")
        make_state(home / ".openclaw", AGENT, "inside")
        memory, inside = home / ".openclaw" / "memory", home / ".openclaw" / "agents" / "inside"
        memory.chmod(0)
        inside.chmod(0)
        with without_privileges():
            agents = agents_here({}, home)
        memory.chmod(0o755)
        inside.chmod(0o755)
    assert [agent.name for agent in agents] == ["inside", "?"]
    assert "cannot be opened" in agents[0].problem
    assert "memory cannot be read: Permission denied" in agents[1].problem


def test_times_out_of_range_fall_back_to_the_file(home: Path) -> None:
    state = make_state(home / ".openclaw", SIDECAR)
    edit(state.database, "UPDATE chunks SET updated_at = 9000000000000000000")
    os.utime(state.database, (1_700_000_000, 1_700_000_000))
    (agent,) = agents_here({}, home)
    assert agent.changed == datetime.fromtimestamp(1_700_000_000, UTC)


def test_leftovers_are_named_with_age_and_size(tmp_path: Path) -> None:
    state = make_state(tmp_path, AGENT)
    shadow = state.beside(f".memory-reindex-{UUID}")
    shutil.copy(state.database, shadow)
    shadow.with_name(shadow.name + "-journal").write_bytes(bytes(100))
    lock = state.beside(".reindex-lock.sqlite")
    lock.touch()
    other = state.database.with_name(f"memory-reindex-{UUID}.sqlite")
    other.write_bytes(b"cut off")
    state.beside("-wal").touch()
    state.beside("-shm").write_bytes(bytes(32768))
    for path in state.database.parent.iterdir():
        os.utime(path, (NOW - 3600, NOW - 3600))
    os.utime(lock, (NOW + 50, NOW + 50))
    before = hash_tree(tmp_path)
    found = {item.path.name: item for item in find_leftovers(state.database, NOW)}
    assert hash_tree(tmp_path) == before
    assert [(item.kind, item.age_s) for item in found.values()] == [
        (LeftoverKind.SHADOW, 3600),
        (LeftoverKind.LOG, 3600),
        (LeftoverKind.SHADOW, 3600),
        (LeftoverKind.LOCK, 0),
    ]
    assert found[shadow.name].holds == f"{CHUNKS[AGENT]} chunks"
    assert found[shadow.name].size == state.database.stat().st_size + 100
    assert (found[lock.name].size, found[lock.name].holds) == (0, "")
    assert "is not an SQLite database" in found[other.name].holds


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"main.sqlite.tmp-{UUID}", LeftoverKind.TEMPORARY),
        (f"main.sqlite.tmp-{UUID}-wal", None),
        (f"main.sqlite.backup-{UUID}", LeftoverKind.BACKUP),
        (f"main.sqlite.memory-reindex-{UUID}", LeftoverKind.SHADOW),
        (f"memory-reindex-{UUID}.sqlite", LeftoverKind.SHADOW),
        (f"memory-reindex-{UUID}.sqlite-shm", None),
        ("main.sqlite.reindex-lock.sqlite", LeftoverKind.LOCK),
        ("main.sqlite-wal", LeftoverKind.LOG),
        ("main.sqlite-journal", LeftoverKind.LOG),
        ("main.sqlite", None),
        ("main2.sqlite", None),
        (f"other.sqlite.tmp-{UUID}", None),
        ("notes.md", None),
    ],
)
def test_what_a_name_beside_the_database_means(name: str, kind: LeftoverKind | None) -> None:
    assert leftover_kind(name, "main.sqlite") is kind


# --- which files a release indexes -----------------------------------------------------------

FAMILIES = ("2026.2", "2026.4", "2026.7", "2026.9")
LATER = FAMILIES[1:]


def write(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"# {name}\n", encoding="utf-8")
    return root


def listed(root: Path, release: str, *extra: str, home: Path | None = None) -> list[str]:
    return sorted(look(root, release, *extra, home=home).found)


def look(root: Path, release: str, *extra: str, home: Path | None = None) -> Listing:
    return list_memory(root, MemorySearchConfig(extra_paths=extra), release, home=home)


@pytest.mark.parametrize("release", FAMILIES)
def test_the_root_files(tmp_path: Path, release: str) -> None:
    root = write(tmp_path, "MEMORY.md", "USER.md", "SOUL.md", "memory/a.md", "docs/b.md")
    user = ["USER.md"] if release == "2026.9" else []
    listing = look(root, release)
    assert sorted(listing.found) == ["MEMORY.md", *user, "memory/a.md"]
    assert listing.left_out["SOUL.md"].why is Why.OUTSIDE
    if not user:
        assert listing.left_out["USER.md"].why is Why.NOT_YET


@pytest.mark.parametrize("release", FAMILIES)
def test_the_lower_case_root_file(tmp_path: Path, release: str) -> None:
    root = write(tmp_path, "memory.md", "Memory.md")
    listing = look(root, release, "memory.md")
    assert sorted(listing.found) == (["memory.md"] if release == "2026.2" else [])
    assert listing.left_out["Memory.md"].why is Why.LOWER_CASE
    if release in LATER:
        assert listing.left_out["memory.md"].why is Why.LOWER_CASE


@pytest.mark.parametrize("release", FAMILIES)
def test_names_and_folders(tmp_path: Path, release: str) -> None:
    root = write(
        tmp_path,
        "memory/a.md",
        "memory/b.MD",
        "memory/c.markdown",
        "memory/d.txt",
        "memory/e.png",
        "memory/.hidden/f.md",
        "memory/node_modules/g.md",
        "memory/.openclaw-repair/h.md",
    )
    listing = look(root, release)
    names = ["memory/.hidden/f.md", "memory/a.md", "memory/node_modules/g.md"]
    if release == "2026.2":
        names.insert(1, "memory/.openclaw-repair/h.md")
    else:
        assert listing.left_out["memory/.openclaw-repair"].why is Why.REPAIR
    assert sorted(listing.found) == names
    for name in ("memory/b.MD", "memory/c.markdown", "memory/d.txt"):
        assert listing.left_out[name].why is Why.NOT_MARKDOWN
    assert "memory/e.png" not in listing.left_out


@pytest.mark.parametrize("release", FAMILIES)
def test_links_are_never_followed(tmp_path: Path, release: str) -> None:
    root = write(tmp_path / "workspace", "memory/a.md")
    write(tmp_path / "elsewhere", "x.md", "sub/y.md")
    (root / "MEMORY.md").symlink_to(tmp_path / "elsewhere" / "x.md")
    (root / "memory" / "link.md").symlink_to(tmp_path / "elsewhere" / "x.md")
    (root / "memory" / "folder").symlink_to(tmp_path / "elsewhere")
    (root / "extra").symlink_to(tmp_path / "elsewhere")
    listing = look(root, release, "extra", "../elsewhere/sub")
    assert sorted(listing.found) == ["../elsewhere/sub/y.md", "memory/a.md"]
    links = {path for path, left in listing.left_out.items() if left.why is Why.LINK}
    assert links == {"MEMORY.md", "memory/link.md", "memory/folder", "extra"}
    assert [finding.code for finding in listing.findings.items] == ["extra_path_link"]


def test_a_linked_memory_folder(tmp_path: Path) -> None:
    root = write(tmp_path / "workspace", "MEMORY.md")
    (root / "memory").symlink_to(write(tmp_path / "elsewhere", "x.md"))
    assert listed(root, "2026.4") == ["MEMORY.md"]


@pytest.mark.parametrize("release", FAMILIES)
def test_extra_paths(tmp_path: Path, release: str) -> None:
    root = write(tmp_path / "workspace", "memory/a.md", "docs/b.md", "docs/c.txt", "one.md")
    write(tmp_path / "home", "notes/d.md")
    listing = look(
        root, release, " docs ", "", "docs", "one.md", "memory", "~/notes", "no", "docs/c.txt",
        home=tmp_path / "home",
    )  # fmt: skip
    expands = release == "2026.9"
    home = ["../home/notes/d.md"] if expands else []
    assert sorted(listing.found) == [*home, "docs/b.md", "memory/a.md", "one.md"]
    assert listing.found["memory/a.md"].root == "memory/"
    assert listing.found["docs/b.md"].root == "extra path docs"
    expected = [] if expands else ["extra_path_tilde"]
    expected += ["extra_path_missing", "extra_path_skipped"]
    assert [finding.code for finding in listing.findings.items] == expected


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.md", ["docs/a.md"]),
        ("**/*.md", ["docs/a.md", "docs/sub/b.md", "docs/sub/deep/c.md"]),
        ("sub/*", ["docs/sub/b.md"]),
        ("sub/**", ["docs/sub/b.md", "docs/sub/deep/c.md"]),
        ("[ab].md", ["docs/a.md"]),
    ],
)
def test_patterns_of_extra_paths(tmp_path: Path, pattern: str, names: list[str]) -> None:
    root = write(tmp_path, "docs/a.md", "docs/sub/b.md", "docs/sub/deep/c.md")
    config = MemorySearchConfig(extra_paths=("docs",), extra_path_patterns=(("docs", pattern),))
    assert sorted(list_memory(root, config, "2026.9").found) == names
    assert len(list_memory(root, config, "2026.7").found) == 3


@pytest.mark.parametrize(
    ("release", "names"),
    [
        ("2026.2", []),
        ("2026.4", ["memory/a.png", "pictures/b.png"]),
        ("2026.7", ["memory/a.png", "pictures/b.png"]),
        ("2026.9", ["pictures/b.png"]),
    ],
)
def test_media(tmp_path: Path, release: str, names: list[str]) -> None:
    root = write(tmp_path, "memory/a.png", "memory/s.mp3", "pictures/b.png")
    config = MemorySearchConfig(
        extra_paths=("pictures",), multimodal_enabled=True, multimodal_modalities=("image",)
    )
    assert sorted(list_memory(root, config, release).found) == names


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    root = write(tmp_path, "memory/a.md")
    with open(os.fsencode(root / "memory") + b"/caf\xe9.md", "wb") as file:
        file.write(b"# caf\xe9\n")
    assert listed(root, "2026.9") == ["memory/a.md", "memory/caf\ufffd.md"]


def test_a_workspace_that_cannot_be_listed(tmp_path: Path) -> None:
    listing = look(tmp_path / "nowhere", "2026.4")
    assert listing.problem
    assert listing.found == {}


def test_a_listing_can_be_cancelled(tmp_path: Path) -> None:
    root = write(tmp_path, "memory/a.md")
    with pytest.raises(Cancelled):
        list_memory(root, None, "2026.4", cancelled=lambda: True)


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("**", "a/b", True),
        ("**/a/**/b", "x/a/y/a/b", True),
        ("**/a/**/b", "a/b", True),
        ("**/a/**/b", "b/a", False),
        ("a/**", "a/b/c", True),
        ("a/**", "a", False),
        ("a/**", "b/a", False),
        ("**/**/x", "x", True),
        ("*/b*", "a/bc", True),
        ("*/b*", "a/b/c", False),
        ("a/**/b/c/**/d", "a/b/b/c/d", True),
        ("a?c.md", "a/c.md", False),
        ("a[.*]c.md", "a/c.md", False),
        ("a[.*]c.md", "a*c.md", True),
        ("a[!x]c.md", "a/c.md", False),
        ("/".join(["**", "a"] * 8) + "/x", "a/" * 2000 + "y", False),
    ],
)
def test_only_any_depth_crosses_a_slash_of_a_glob(glob: str, path: str, expected: bool) -> None:
    assert matches_glob(glob, path) is expected
