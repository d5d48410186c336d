"""Which folder is opened, and what is said when there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memtui.data import DEMO_ROOT
from memtui.errors import WorkspaceNotFound
from memtui.memory.discover import Scope, discover
from memtui.memory.workspace import Found, beside_words, find_workspace, workspace_id
from tests.support.known import load


class Machine:
    """An empty home, an empty current folder and an environment."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.cwd = base / "work"
        self.env: dict[str, str] = {}
        self.home.mkdir()
        self.cwd.mkdir()

    def folder(self, name: str) -> Path:
        path = self.home / name
        path.mkdir(parents=True)
        return path

    def find(self, folder: str | None = None, root: str | None = None) -> Found:
        return find_workspace(folder, root=root, env=self.env, cwd=self.cwd, home=self.home)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_nothing_found_says_where_it_looked(machine: Machine) -> None:
    machine.env["OPENCLAW_WORKSPACE"] = "~/elsewhere"
    machine.env["OPENCLAW_STATE_DIR"] = str(machine.home / "state")
    with pytest.raises(WorkspaceNotFound) as raised:
        machine.find()
    for place in (
        machine.cwd,
        machine.home / "elsewhere",
        machine.home / "state" / "workspace",
        machine.home / ".openclaw" / "workspace",
    ):
        assert str(place) in raised.value.message
    assert "memtui demo" in raised.value.hint
    assert raised.value.exit_code == 2


def test_the_order_of_places(machine: Machine) -> None:
    openclaw = machine.folder(".openclaw/workspace")
    assert machine.find() == Found(openclaw, "the OpenClaw workspace")
    state = machine.folder("state/workspace")
    machine.env["OPENCLAW_STATE_DIR"] = str(state.parent)
    assert machine.find() == Found(state, "$OPENCLAW_STATE_DIR")
    workspace = machine.folder("claw")
    machine.env["OPENCLAW_WORKSPACE"] = "~/claw"
    assert machine.find() == Found(workspace, "$OPENCLAW_WORKSPACE")
    (machine.cwd / "memory").mkdir()
    assert machine.find() == Found(machine.cwd, "the current folder")
    machine.env["MEMTUI_ROOT"] = str(machine.folder("env"))
    assert machine.find() == Found(machine.home / "env", "$MEMTUI_ROOT")
    machine.folder("flag")
    assert machine.find(root="~/flag") == Found(machine.home / "flag", "--root")
    (machine.cwd / "argument").mkdir()
    found = machine.find("argument", root="~/flag")
    assert found == Found(machine.cwd / "argument", "the folder argument")


@pytest.mark.parametrize("name", ["CLAUDE.md", "CLAUDE.local.md", "AGENTS.md"])
def test_a_project_is_taken_where_no_memory_is(machine: Machine, name: str) -> None:
    note = machine.cwd / name
    note.write_text("Run the tests before a commit.")
    assert machine.find() == Found(machine.cwd, "the project in the current folder")
    workspace = machine.folder(".openclaw/workspace")
    assert machine.find().root == workspace
    workspace.rmdir()
    # A link may lead to somebody else's file, and a home folder holds more than a project.
    note.rename(machine.home / name)
    note.symlink_to(machine.home / name)
    for folder in (machine.cwd, machine.home, machine.home.parent):
        machine.cwd = folder
        with pytest.raises(WorkspaceNotFound, match=f"none of MEMORY.md, memory/, .*{name}"):
            machine.find()


def test_what_claude_code_noted_is_offered_and_opened_whole_by_its_name(machine: Machine) -> None:
    assert beside_words(machine.cwd, machine.env, machine.home) == ""
    project = re.sub("[^A-Za-z0-9]", "-", str(machine.cwd))
    notes = machine.folder(f".claude/projects/{project}/memory")
    for name in ("MEMORY.md", "debugging.md"):
        (notes / name).write_text("x")
    with pytest.raises(WorkspaceNotFound) as raised:
        machine.find()
    assert f"`memtui {notes}` opens" in raised.value.hint
    (machine.cwd / "CLAUDE.md").write_text("x")
    files = discover(Scope(machine.find().root)).files
    assert [file.path for file in files] == ["CLAUDE.md"]
    files = discover(Scope(machine.find(str(notes)).root)).files
    assert [file.path for file in files] == ["MEMORY.md", "debugging.md"]
    machine.env["CLAUDE_CONFIG_DIR"] = " ~/.claude "
    assert str(notes) in beside_words(machine.cwd, machine.env, machine.home)
    machine.env["CLAUDE_CONFIG_DIR"] = str(machine.home / "elsewhere")
    assert beside_words(machine.cwd, machine.env, machine.home) == ""


@pytest.mark.parametrize("name", ["memory.md", "README.md", "Memory", "memory"])
def test_a_current_folder_without_a_memory_is_passed_over(machine: Machine, name: str) -> None:
    (machine.cwd / name).write_text("x")
    machine.env["MEMTUI_ROOT"] = ""
    with pytest.raises(WorkspaceNotFound):
        machine.find()


def test_the_only_profile_workspace_is_taken(machine: Machine) -> None:
    only = machine.folder(".openclaw/workspace-home")
    assert machine.find() == Found(only, "the OpenClaw workspace")
    machine.folder(".openclaw/workspace-work")
    with pytest.raises(WorkspaceNotFound, match="2 OpenClaw workspaces"):
        machine.find()


def test_a_home_that_cannot_be_read_is_passed_over(machine: Machine) -> None:
    # As a folder that may not be searched: asking about it fails, though not by its absence.
    machine.home /= "x" * 300
    with pytest.raises(WorkspaceNotFound, match="no memory folder found"):
        machine.find()


@pytest.mark.parametrize(
    ("folder", "root", "variable"), [("gone", None, ""), (None, "gone", ""), (None, None, "gone")]
)
def test_what_is_named_must_exist(
    machine: Machine, folder: str | None, root: str | None, variable: str
) -> None:
    machine.folder(".openclaw/workspace")
    machine.env["MEMTUI_ROOT"] = variable
    with pytest.raises(WorkspaceNotFound, match=r"no folder .*gone") as raised:
        machine.find(folder, root)
    assert "memtui demo" in raised.value.hint


def test_a_file_in_place_of_a_folder(machine: Machine) -> None:
    for name, hint in (("MEMORY.md", str(machine.cwd)), ("x.sqlite", "`memtui --index ")):
        (machine.cwd / name).write_text("x")
        with pytest.raises(WorkspaceNotFound, match="is a file, no folder") as raised:
            machine.find(name)
        assert hint in raised.value.hint


@pytest.mark.parametrize(
    "name",
    ["a\0b", "x" * 5000, "\udcff", "~nobody-of-this-name/x"],
    ids=["nul", "too long", "not UTF-8", "unknown user"],
)
def test_impossible_names(machine: Machine, name: str) -> None:
    with pytest.raises(WorkspaceNotFound) as raised:
        machine.find(name)
    assert str(raised.value).encode()


@pytest.mark.parametrize(("name", "slug"), load("reading")["workspace names"])
def test_workspace_ids_are_plain(tmp_path: Path, name: str, slug: str) -> None:
    made = workspace_id(tmp_path / name)
    assert re.fullmatch(re.escape(slug) + "-[0-9a-f]{12}", made)


def test_a_workspace_has_one_id_by_whatever_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real", target_is_directory=True)
    assert workspace_id(tmp_path / "link") == workspace_id(tmp_path / "real" / ".." / "real")
    assert workspace_id(tmp_path / "real") != workspace_id(tmp_path)


def test_every_file_of_the_sample_is_found() -> None:
    found = discover(Scope(DEMO_ROOT))
    assert found.skipped == ()
    paths = {path for path in DEMO_ROOT.rglob("*") if path.is_file()}
    assert {file.absolute for file in found.files} == paths
