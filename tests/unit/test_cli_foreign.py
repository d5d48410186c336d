"""The command line over OpenClaw's indexes: which one, what it says, and that it only reads."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memtui.cli.diagnosis import WIDTH, agent_lines
from memtui.cli.main import run
from memtui.engine import Engine
from memtui.errors import Cancelled
from memtui.model.status import ForeignAgent, IndexGeneration
from memtui.report import words
from memtui.text.sanitize import HOSTILE
from tests.support.command_line import Answer
from tests.support.openclaw import (
    AGENT,
    DIMS,
    SIDECAR,
    State,
    edit,
    make_state,
)
from tests.support.small_memory import agent_index

NOW = ("--now", "2026-11-21T12:00:00+00:00")
Run = Callable[..., Answer]


class Interface:
    """Stands for the terminal interface: remembers what it was opened on, and closes it."""

    def __init__(self) -> None:
        self.roots: list[Path | None] = []
        self.choose: list[bool] = []
        self.indexes: list[Path] = []

    def __call__(
        self,
        workspace: Any,
        loaded: Any,
        *,
        demo: bool = False,
        choose: bool = False,
        foreign: Engine | None = None,
    ) -> int:
        self.roots.append(workspace.root if workspace is not None else None)
        self.choose.append(choose)
        if foreign is not None:
            with foreign:
                self.indexes.append(agent_index(foreign).facts.target.database)
        return 0


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith(("MEMTUI_", "OPENCLAW_", "CLAWDBOT_")) or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    # What is said depends on what was found, not on how soon.
    monkeypatch.setattr("memtui.cli.session.EXAMINATION_SECONDS", 60.0)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    for kind in ("config", "state", "data"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / kind))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.fixture
def interface() -> Interface:
    return Interface()


@pytest.fixture
def memtui(home: Path, interface: Interface, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> Answer:
        code = run(arguments, interface)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture
def main(home: Path) -> State:
    return make_state(home / ".openclaw", SIDECAR)


@pytest.fixture
def vectors(home: Path) -> str:
    """A vector for every query: the first axis."""
    path = home / "vectors.json"
    path.write_text(json.dumps([1.0] + [0.0] * (DIMS - 1)))
    return str(path)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memtui.cli.interface.at_terminal", lambda: True)


# --- which index ------------------------------------------------------------------------------


def test_a_file_may_be_named_from_here_or_from_home(memtui: Run, home: Path, main: State) -> None:
    shutil.copy(main.database, home / "here" / "copy.sqlite")
    for name in ("copy.sqlite", "~/here/copy.sqlite"):
        status = memtui("status", "--index", name, "--json").document
        assert status["index_dir"] == str(home / "here" / "copy.sqlite")
        assert status["foreign"]["agent"] is None
        assert status["root"] == ""
    hits = memtui("search", "router", "--index", "copy.sqlite", "--json").document["hits"]
    assert {hit["file_state"] for hit in hits} == {None}
    known = memtui("status", "--index", "copy.sqlite", "--root", str(main.workspace), "--json")
    assert known.document["root"] == str(main.workspace)
    assert known.document["pending_count"] == 0


# --- the agents -------------------------------------------------------------------------------


def test_the_table_of_agents_fits_whatever_they_are_called() -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    long = Path("/srv") / ("備份" * 60) / "state"
    agents = [
        ForeignAgent("路由" * 40, long, long / "x.sqlite", IndexGeneration.AGENT, long, "p" * 90,
                     "m" * 90, 3072, 999_999, 9_999_999, now - timedelta(days=400), "no " * 90),
        ForeignAgent("?", Path("/b"), problem="x" * 300),
    ]  # fmt: skip
    lines = list(agent_lines(agents, Path("/home/me"), now))
    assert all(words.cells_of(line) <= WIDTH for line in lines)
    assert any(line.startswith("    problem    xxx") for line in lines)
    assert sum(line.count("x") for line in lines if "sqlite" not in line) == 300


# --- the truth about an index -----------------------------------------------------------------


def test_status_does_not_let_an_index_command_the_terminal(memtui: Run, main: State) -> None:
    name = "memory/\x1b]2;x\x07.md"
    edit(main.database, f"UPDATE files SET path = '{name}' WHERE path = 'MEMORY.md'")
    for answer in (memtui("status", "--agent", "main"), memtui("agents")):
        assert HOSTILE.search(answer.out + answer.err) is None
    raw = memtui("status", "--agent", "main", "--json")
    assert HOSTILE.search(raw.out) is None
    files = raw.document["foreign"]["truth"]["files"]
    assert any("]2;x" in file["path"] for file in files)


# --- searching --------------------------------------------------------------------------------


def test_a_list_that_the_agent_does_not_get_is_named_so(memtui: Run, home: Path) -> None:
    state = make_state(home / ".openclaw", AGENT)
    search = ("search", "router", "--agent", "main")
    foreign = memtui(*search, "--json").document["index"]["foreign"]
    assert (foreign["agent_gets"], foreign["agent_gets_because"]) == ("same", "")
    edit(state.database, "DELETE FROM memory_index_meta WHERE key = 'memory_index_meta_v1'")
    answer = memtui(*search)
    assert answer.out
    label = "this list is NOT what the agent gets: the agent gets nothing until its index is"
    assert label in answer.err
    document = memtui(*search, "--json").document
    assert document["hits"]
    assert any(label in warning for warning in document["warnings"])
    foreign = document["index"]["foreign"]
    assert (foreign["agent_gets"], foreign["agent_gets_because"]) == (
        "nothing",
        "identity_missing",
    )


def test_a_search_does_not_wait_for_a_long_examination(
    memtui: Run, main: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def long_examination(*arguments: object, **options: object) -> Any:
        ended.wait(60)
        raise Cancelled

    monkeypatch.setattr("memtui.index.foreign.audit.examine", long_examination)
    monkeypatch.setattr("memtui.cli.session.EXAMINATION_SECONDS", 0.0)
    closes = Engine.close

    def close(engine: Engine) -> None:
        ended.set()
        closes(engine)

    monkeypatch.setattr(Engine, "close", close)
    document = memtui("search", "router", "--agent", "main", "--json").document
    assert "the index is still being examined: changed files are not marked" in document["warnings"]
    assert "file_state" not in document["hits"][0]


# --- the terminal interface -------------------------------------------------------------------


@pytest.mark.usefixtures("terminal")
def test_the_interface_opens_on_an_agents_index(
    memtui: Run, interface: Interface, main: State
) -> None:
    assert memtui("--agent", "main").code == 0
    assert memtui("--index", str(main.database)).code == 0
    assert interface.indexes == [main.database] * 2
    assert interface.roots == [main.workspace] * 2
    assert interface.choose == [False] * 2
    refused = memtui("--agent", "nobody")
    assert refused.code == 3
    main.database.write_text("# Notes\n" * 400)
    assert memtui("--agent", "main").code == 3
    assert len(interface.indexes) == 2


@pytest.mark.usefixtures("terminal")
def test_agents_are_offered_where_nothing_was_named(
    memtui: Run, interface: Interface, home: Path, main: State
) -> None:
    assert memtui().code == 0
    assert (interface.roots, interface.choose) == ([main.workspace], [True])
    shutil.rmtree(main.workspace)
    assert memtui().code == 0
    assert (interface.roots[-1], interface.choose[-1]) == (None, True)
    (home / "here" / "MEMORY.md").write_text("# Memory\n")
    assert memtui().code == 0
    assert (interface.roots[-1], interface.choose[-1]) == (home / "here", False)
    assert memtui("--root", str(home)).code == 0
    assert interface.choose[-1] is False
