"""The program over an OpenClaw index, beside the program that owns it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from memtui.text.sanitize import HOSTILE
from tests.support import in_process
from tests.support.openclaw import (
    AGENT_BLOB,
    DIMS,
    SIDECAR,
    WORD,
    State,
    hash_tree,
    make_state,
    other_program,
)

Memtui = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def state(home: Path) -> State:
    make_state(home / ".openclaw", AGENT_BLOB, "work")
    return make_state(home / ".openclaw", SIDECAR)


@pytest.fixture(scope="module")
def memtui(home: Path) -> Memtui:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MEMTUI_", "OPENCLAW_")) and not name.endswith("_API_KEY")
    }
    places = {f"XDG_{kind}_HOME": str(home / kind) for kind in ("CONFIG", "STATE", "DATA")}
    environment = {
        **kept,
        **places,
        "HOME": str(home),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }

    def call(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return in_process.call(arguments, environment={**environment, **env}, folder=home)

    return call


def test_every_command_leaves_the_state_folder_as_it_is_beside_a_live_writer(
    memtui: Memtui, state: State, home: Path
) -> None:
    vector = home / "vector.json"
    vector.write_text(json.dumps({"vectors": {WORD: [1.0] + [0.0] * (DIMS - 1)}}))
    given = ("--query-vectors", str(vector))
    with other_program(state.database) as program:
        before = hash_tree(state.folder)
        commands = (
            ("agents",),
            ("status", "--agent", "main"),
            ("search", WORD, "--agent", "main"),
            ("search", WORD, "--agent", "main", "--min-score", "0", *given),
            ("explain", WORD, "--index", str(state.database)),
        )
        for command in commands:
            done = memtui(*command)
            assert done.returncode == 0, done.stderr
            assert "Traceback" not in done.stderr
            assert HOSTILE.search(done.stdout + done.stderr) is None
        assert hash_tree(state.folder) == before
        program.close()


@pytest.mark.usefixtures("state")
def test_the_shell_is_offered_the_agents(memtui: Memtui) -> None:
    offered = memtui(
        _MEMTUI_COMPLETE="bash_complete", COMP_WORDS="memtui search --agent ", COMP_CWORD="3"
    )
    assert offered.stdout.split() == ["plain,main", "plain,work"]
    commands = memtui(_MEMTUI_COMPLETE="bash_complete", COMP_WORDS="memtui a", COMP_CWORD="1")
    assert "plain,agents" in commands.stdout


@pytest.mark.usefixtures("state")
def test_a_search_of_an_agents_index_makes_nothing_of_memtuis_own(
    memtui: Memtui, home: Path
) -> None:
    assert memtui("search", "router", "--agent", "main").returncode == 0
    assert not (home / "DATA").exists()
    assert not (home / "STATE").exists()
