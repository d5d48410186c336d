"""Folders of transcripts that are not there, lead elsewhere, or have a list that changes later."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from memtui.index.schema import Recipe
from memtui.index.transcripts.discovery import discover_transcripts, file_at
from memtui.model import Reason
from tests.support.conversations import Homes, claude, codex, codex_began, said
from tests.support.indexing import Workspace

RUN = "agent:main:cron:backup:run:1"


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(tmp_path / "homes")


def opened(folder: Path, homes: Homes, *sources: str, paths: tuple[str, ...] = ()) -> Workspace:
    root = folder / "notes"
    scope = homes.scope(root, *sources, paths=paths)
    workspace = Workspace(root, folder / "index", recipe=Recipe(None), transcripts=scope)
    workspace.write("MEMORY.md", "# Garden\n")
    return workspace


@pytest.fixture
def workspace(tmp_path: Path, homes: Homes) -> Iterator[Workspace]:
    logs = str(homes.folder / "logs")
    made = opened(tmp_path, homes, "openclaw", "claude-code", "codex", paths=(logs,))
    homes.openclaw("a.jsonl", [said("user", "tomatoes")])
    homes.openclaw("b.jsonl", [said("user", "beans")], agent="other")
    homes.claude("c.jsonl", [claude("user", "basil")])
    homes.codex("rollout-x.jsonl", [codex_began(), codex("user", "roses")])
    homes.write("logs/any.jsonl", [said("user", "mint")])
    made.sync()
    assert len(made.contents().files) == 6
    yield made
    made.close()


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("openclaw", "openclaw"),
        ("openclaw/agents/main/sessions", "openclaw:main"),
        ("claude/projects", "claude-code"),
        ("codex", "codex"),
        ("logs", "logs"),
    ],
)
def test_a_folder_that_is_not_mounted_is_no_deletion(
    workspace: Workspace, homes: Homes, folder: str, name: str
) -> None:
    before = workspace.contents()
    away = homes.folder / "away"
    (homes.folder / folder).rename(away)
    skipped = workspace.sync().skipped
    assert workspace.contents() == before
    assert [file.reason for file in skipped if file.path.endswith(name)] == [Reason.VANISHED]
    away.rename(homes.folder / folder)
    workspace.sync()
    assert workspace.contents() == before


def test_what_is_opted_out_goes_wherever_its_folder_is(
    workspace: Workspace, homes: Homes, tmp_path: Path
) -> None:
    homes.folder.rename(tmp_path / "away")
    workspace.transcripts = homes.scope(workspace.root, "openclaw:main", "claude-code:-gar*")
    workspace.sync()
    assert sorted(workspace.contents().files) == [
        "MEMORY.md",
        "claude-code/-garden/c.jsonl",
        "sessions/main/a.jsonl",
    ]
    workspace.transcripts = homes.scope(workspace.root)
    workspace.sync()
    assert sorted(workspace.contents().files) == ["MEMORY.md"]


def test_a_deleted_conversation_is_gone_although_others_are_away(
    workspace: Workspace, homes: Homes
) -> None:
    (homes.folder / "codex").rename(homes.folder / "away")
    (homes.folder / "openclaw/agents/main/sessions/a.jsonl").unlink()
    workspace.sync()
    files = workspace.contents().files
    assert "sessions/main/a.jsonl" not in files
    assert "codex/2026/10/01/rollout-x.jsonl" in files


@pytest.mark.parametrize("path", ["link/logs", "link/logs/a.jsonl", "link/l*"])
def test_a_path_below_the_memory_leads_through_no_link(
    tmp_path: Path, homes: Homes, path: str
) -> None:
    homes.write("logs/a.jsonl", [said("user", "what is elsewhere")])
    workspace = opened(tmp_path, homes, paths=(path,))
    (workspace.root / "link").symlink_to(homes.folder)
    skipped = workspace.sync().skipped
    assert list(workspace.contents().files) == ["MEMORY.md"]
    assert [file.reason for file in skipped] == [Reason.SYMLINK]
    workspace.close()


def test_a_list_of_sessions_that_changes_later_counts(tmp_path: Path, homes: Homes) -> None:
    workspace = opened(tmp_path, homes, "openclaw")
    file = homes.openclaw("a.jsonl", [said("user", "tomatoes")])
    homes.openclaw("b.jsonl", [said("user", "beans")])
    os.utime(file, (1.7e9, 1.7e9))
    workspace.sync()
    listed = homes.openclaw("sessions.json", json.dumps({RUN: {"sessionId": "a"}}).encode())
    assert workspace.sync().stats.files_seen == 3
    assert workspace.contents() == workspace.fresh(tmp_path / "fresh-1")
    assert "tomatoes" not in str(workspace.contents().chunks)
    with file.open("ab") as stream:
        stream.write(said("assistant", "and basil"))
    listed.write_bytes(b'{"cut')
    workspace.sync()
    assert workspace.contents() == workspace.fresh(tmp_path / "fresh-2")
    assert "tomatoes" in str(workspace.contents().chunks)
    listed.unlink()
    workspace.sync()
    assert workspace.contents() == workspace.fresh(tmp_path / "fresh-3")
    workspace.close()


def test_a_list_of_sessions_that_is_a_pipe_holds_nothing_up(tmp_path: Path, homes: Homes) -> None:
    workspace = opened(tmp_path, homes, "openclaw")
    file = homes.openclaw("a.jsonl", [said("user", "tomatoes")])
    os.mkfifo(file.with_name("sessions.json"))
    workspace.sync()
    assert "sessions/main/a.jsonl" in workspace.contents().files
    workspace.close()


def test_a_transcript_is_found_by_its_path_as_a_look_through_all_finds_it(
    workspace: Workspace, homes: Homes
) -> None:
    homes.openclaw("deep/d.jsonl", [said("user", "peas")])
    homes.openclaw("a.jsonl.bak.17", [said("user", "peas")])
    homes.openclaw("odd\nname.jsonl", [said("user", "peas")])
    homes.write("codex/archived_sessions/rollout-o.jsonl", [codex_began()])
    (homes.folder / "claude/projects/linked").symlink_to(homes.folder / "logs")
    scope = workspace.transcripts
    assert scope is not None
    everything = {file.path: file for file in discover_transcripts(scope, everything=True).files}
    assert len(everything) == 7
    absent = ("sessions/main/deep/d.jsonl", "sessions/main/a.jsonl.bak.17", "sessions/main/")
    beside = ("claude-code/linked/any.jsonl", "sessions/main/../../other/sessions/b.jsonl", "codex")
    for path in (*everything, *absent, *beside):
        assert file_at(scope, path) == everything.get(path), path
