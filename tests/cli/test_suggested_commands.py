"""Every command line that a message suggests is run as it is written, from another folder."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import Opened, Run, command_line, own_home
from tests.support.openclaw import SIDECAR, make_state

NOTE = "# Memory\n\nThe router hangs in the hall.\n"
SUGGESTED = re.compile(r"`memtui ([^`]+)`")


def indexed(run: Run, root: Path) -> None:
    assert run("index", "--root", str(root)).code == 0


def searched(run: Run, root: Path) -> None:
    os.environ["MEMTUI_EMBEDDING__PROVIDER"] = "minilm"
    first = run("search", "router", "--root", str(root))
    assert (first.code, "MEMORY.md:1" in first.out) == (0, True)


def stale(run: Run, root: Path) -> None:
    indexed(run, root)
    (root / "MEMORY.md").write_text(NOTE * 2)
    (root / "USER.md").write_text("# A person\n")


def damaged(run: Run, root: Path) -> None:
    indexed(run, root)
    (path,) = root.parent.glob("data/memtui/*/index-1.db")
    path.write_bytes(b"no database, " * 5000)


def emptied(run: Run, root: Path) -> None:
    indexed(run, root)
    root.rename(root.with_name("moved away"))
    root.mkdir()


def of_another_model(run: Run, root: Path) -> None:
    indexed(run, root)
    os.environ["MEMTUI_EMBEDDING__PROVIDER"] = "minilm"


def distrusted(run: Run, root: Path) -> None:
    indexed(run, root)
    (root / ".memtui.toml").write_text("[embedding]\nkey_command = 'true'\n[zzzzzz]\nk = 3\n")


def noted_by_claude(run: Run, root: Path) -> None:
    project = re.sub("[^A-Za-z0-9]", "-", str(root))
    notes = root.parent / f".claude/projects/{project}/memory"
    notes.mkdir(parents=True)
    (notes / "MEMORY.md").write_text(NOTE)


def conversed(run: Run, root: Path) -> None:
    indexed(run, root)
    session = root.parent / ".claude/projects/-a b/one.jsonl"
    session.parent.mkdir(parents=True)
    session.write_text(
        '{"type":"user","sessionId":"one","message":{"role":"user","content":"hi"}}\n'
    )


def with_agent(run: Run, root: Path) -> None:
    state = make_state(root.parent / ".openclaw", SIDECAR)
    state.database.write_bytes(b"no database, " * 5000)


def written(run: Run, root: Path) -> None:
    assert run("config", "init").code == 0


def nothing(run: Run, root: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("make", "lines", "expected"),
    [
        (nothing, ["chunk MEMORY.md", "care", "doctor --json"], {"index"}),
        (searched, ["search router", "explain router --json"], {"index"}),
        (stale, ["search router", "search router --json", "doctor"], {"index"}),
        (damaged, ["search router", "status --deep", "doctor"], {"index --force"}),
        (emptied, ["index"], {"index --force"}),
        (of_another_model, ["search router", "search router --json"], {"index"}),
        (distrusted, ["status", "search router --json", "index"], {"trust", "config show"}),
        (distrusted, ["trust --json"], {"trust --dry-run"}),
        (noted_by_claude, ["index", "status"], {"NOTES"}),
        (conversed, ["sessions --coverage"], {"sessions enable 'claude-code:-a b'"}),
        (conversed, ["sessions enable claude-code"], {"index"}),
        (nothing, ["sessions", "sessions --source codex"], {"sessions --coverage"}),
        (nothing, ["sessions nobody"], {"sessions --limit 0"}),
        (with_agent, ["doctor"], {"status", "index"}),
        (nothing, ["status --agent nobody", "status --index gone.sqlite"], {"agents"}),
        (written, ["config init"], {"config init --force"}),
        (nothing, ["search router --frob", "chunk"], {"search --help", "chunk --help"}),
        (indexed, ["--json"], {"search router --json", "--help"}),
    ],
)
def test_suggested_commands_run_as_they_are_written(
    make: Callable[[Run, Path], None],
    lines: list[str],
    expected: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home, opened = own_home(tmp_path, monkeypatch), Opened()
    for module in ("main", "config"):
        monkeypatch.setattr(f"memtui.cli.{module}.at_terminal", lambda: True)
    monkeypatch.setattr("click.confirm", lambda *args, **options: True)
    monkeypatch.setenv("MEMTUI_EMBEDDING__PROVIDER", "none")
    run, root = command_line(capsys, opened), home / "the user's notes"
    root.mkdir()
    (root / "MEMORY.md").write_text(NOTE)
    make(run, root)

    def suggested_by(*words: str) -> set[str]:
        answer = run(*words)
        text = answer.err + answer.out.replace('\\"', '"')
        return {one.replace("QUERY", "router") for one in SUGGESTED.findall(text)}

    by_line = [suggested_by("--root", str(root), *shlex.split(line)) for line in lines]
    commands = set().union(*by_line)
    bare = {
        re.sub(r" --(root|agent) .*", "", re.sub(".*/memory", "NOTES", one)) for one in commands
    }
    assert (bare, all(by_line)) == (expected, True)
    for command in sorted(commands):
        assert run(*shlex.split(command)).code in ((0, 1, 3) if make is with_agent else (0, 1))
    if not expected.isdisjoint(("index", "index --force", "trust")) and make is not with_agent:
        left = suggested_by("--root", str(root), *shlex.split(lines[0]))
        assert not [one for one in left if one.startswith(("index", "trust"))]
