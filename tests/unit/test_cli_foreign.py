"""The command line over OpenClaw's indexes: which one, what it says, and that it only reads."""

from __future__ import annotations

import shutil
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memtui.cli.diagnosis import WIDTH, agent_lines
from memtui.engine import Engine
from memtui.errors import Cancelled
from memtui.model.status import ForeignAgent, IndexGeneration
from memtui.report import words
from memtui.text.sanitize import HOSTILE
from tests.support.command_line import Opened, Run, command_line, own_home
from tests.support.openclaw import SIDECAR, State, edit, make_state


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # What is said depends on what was found, not on how soon.
    monkeypatch.setattr("memtui.cli.session.EXAMINATION_SECONDS", 60.0)
    return own_home(tmp_path, monkeypatch)


@pytest.fixture
def opened() -> Opened:
    return Opened()


@pytest.fixture
def memtui(home: Path, opened: Opened, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(capsys, opened)


@pytest.fixture
def main(home: Path) -> State:
    return make_state(home / ".openclaw", SIDECAR)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memtui.cli.main.at_terminal", lambda: True)


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
def test_the_interface_opens_on_an_agents_index(memtui: Run, opened: Opened, main: State) -> None:
    assert memtui("--agent", "main").code == 0
    assert memtui("--index", str(main.database)).code == 0
    assert opened.indexes == [str(main.database)] * 2
    assert opened.calls == [(main.workspace, False)] * 2
    assert opened.choose == [False] * 2
    assert memtui("--agent", "nobody").code == 3
    main.database.write_text("# Notes\n" * 400)
    assert memtui("--agent", "main").code == 3
    assert len(opened.indexes) == 2


@pytest.mark.usefixtures("terminal")
def test_agents_are_offered_where_nothing_was_named(
    memtui: Run, opened: Opened, home: Path, main: State
) -> None:
    here, others = home / "here", [main.workspace, None]
    assert memtui().code == 0
    shutil.rmtree(main.workspace)
    assert memtui().code == 0
    (here / "MEMORY.md").write_text("# Memory\n")
    assert memtui().code == 0
    assert memtui("--root", str(home)).code == 0
    assert [root for root, _ in opened.calls] == [*others, here, home]
    assert opened.choose == [True, True, False, False]
