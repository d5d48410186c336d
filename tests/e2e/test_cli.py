"""The real program where it matters that it is one: streams, signals, locks, damage, imports."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import memtui as package
from memtui.text.sanitize import HOSTILE
from tests.e2e.terminal import private_environment
from tests.support import command_line
from tests.support.interrupted import run_python, running_python
from tests.support.known import load
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
from tests.support.small_memory import write_notes
from tests.trials.terminal import in_pty

MEMTUI = f"{sys.executable} -m memtui"
NOTES = {
    "MEMORY.md": "# Network\n\nThe router.\n",
    "memory/attack.md": "router \x1b]2;PWNED\x1b\\ \x9b31m \u202egnp.exe [/] [@click=app.quit]x[/]\n",
}


class Place:
    """A memory with an index, and a shell to call the program from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes = folder / "notes"
        write_notes(self.notes, NOTES)
        self.environment = {
            **private_environment(folder),
            "MEMTUI_ROOT": str(self.notes),
            "MEMTUI_EMBEDDING__PROVIDER": "none",
            "MEMTUI_INDEX__DEBOUNCE_SECONDS": "0.1",
        }

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the program in this process."""
        return command_line.call(arguments, environment=self.environment, folder=self.folder)

    def shell(self, command: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command line in a process of its own."""
        return subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={**self.environment, **env},
            timeout=100,
        )

    @contextmanager
    def watching(self) -> Iterator[subprocess.Popen[str]]:
        """Run `memtui index --watch` after its first sync; it is killed at the end."""
        command, quiet = ("-u", "-m", "memtui", "index", "--watch"), subprocess.DEVNULL
        with running_python(*command, stderr=quiet, env=self.environment) as process:
            assert process.stdout is not None
            assert "synced" in process.stdout.readline()
            assert process.stdout.readline().startswith("index: ")
            yield process


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    assert made.call("index").returncode == 0
    return made


def document(run: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_a_second_writer_is_refused_with_5_and_later_syncs_are_printed(place: Place) -> None:
    with place.watching() as watching:
        assert watching.stdout is not None
        refused = place.call("index", "--json")
        assert (refused.returncode, document(refused)["error"]["code"]) == (5, "locked")
        assert place.call("search", "router").returncode == 0, "reading goes on"
        (place.notes / "memory/ferry.md").write_text("A ferry at noon.\n")
        assert any("1 added" in line for line in watching.stdout)
        (place.notes / "memory/ferry.md").unlink()
        assert any("1 removed" in line for line in watching.stdout)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(20) == 130


def test_watching_ends_when_nobody_reads_any_more(place: Place) -> None:
    with place.watching() as watching:
        assert watching.stdout is not None
        (place.notes / "MEMORY.md").write_text("another\n", encoding="utf-8")
        watching.stdout.close()
        assert watching.wait(30) == 0


@pytest.mark.parametrize(("command", "code"), load("settings")["streams"])
def test_streams_that_take_nothing(place: Place, command: str, code: int) -> None:
    run = place.shell(f"{MEMTUI} {command}")
    assert run.returncode == code, run.stderr
    assert "Traceback" not in run.stderr
    assert "should not have happened" not in run.stderr


def test_a_closed_pipe_is_no_error_and_a_removed_folder_none_either(place: Place) -> None:
    run = place.shell(f"set -o pipefail; {MEMTUI} search router --json | true")
    assert (run.returncode, run.stderr) == (0, "")
    run = place.shell(f"mkdir gone && cd gone && rmdir ../gone && {MEMTUI} search router")
    assert run.returncode == 0, run.stderr


def test_ascii_locale_gets_ascii_bars_and_utf8_json(place: Place) -> None:
    env = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    rows = place.shell(f"{MEMTUI} search router", **env)
    assert (rows.returncode, rows.stdout.isascii()) == (0, True)
    found = place.shell(f"{MEMTUI} search 'rööter 路由' --zero-ok --json", **env)
    assert document(found)["query"] == "rööter 路由"


def test_in_a_terminal_there_is_colour_and_nothing_hostile(place: Place) -> None:
    command = [sys.executable, "-m", "memtui", "search", "router", "-n", "5"]
    text = in_pty(command, place.environment).decode()
    assert "\x1b[1m" in text
    assert "PWNED" in text
    assert "\x1b]" not in text
    assert "\x9b" not in text
    assert b"\x1b[1m" not in in_pty(command, {**place.environment, "NO_COLOR": "1"})


@pytest.mark.parametrize(("arguments", "banned"), load("imports")["of commands"])
def test_commands_import_only_what_they_need(
    place: Place, arguments: list[str], banned: list[str]
) -> None:
    code = (
        "import sys\nfrom memtui.cli.main import run\n"
        f"code = run({arguments!r}, None)\n"
        "print(code, *sorted(sys.modules), file=sys.stderr)"
    )
    run = run_python("-c", code, env=place.environment, timeout=100)
    code_text, *modules = run.stderr.splitlines()[-1].split()
    assert code_text == ("0" if arguments != ["search"] else "2"), run.stderr
    assert not {*banned} & {*modules}


def test_every_public_name_is_there() -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert set(package.__all__) <= set(dir(package))


def test_importing_the_package_loads_nothing() -> None:
    code = (
        "import sys, memtui\n"
        "print(*(name for name in sys.modules if name.startswith('memtui')))\n"
        "memtui.Ranking\n"
        "print('memtui.model' in sys.modules, 'numpy' in sys.modules)"
    )
    run = run_python("-c", code, check=True, timeout=60)
    assert run.stdout.split() == ["memtui", "True", "False"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing


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
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return command_line.call(arguments, environment=private_environment(home), folder=home)

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
            ("chunk", "MEMORY.md:1", "--agent", "main"),
            ("care", "--agent", "main", "--rule", "broken_link"),
        )
        for command in commands:
            done = memtui(*command)
            assert done.returncode == 0, done.stderr
            assert "Traceback" not in done.stderr
            assert HOSTILE.search(done.stdout + done.stderr) is None
        assert hash_tree(state.folder) == before
        program.close()


@pytest.mark.usefixtures("state")
def test_a_search_of_an_agents_index_makes_nothing_of_memtuis_own(
    memtui: Memtui, home: Path
) -> None:
    assert memtui("search", "router", "--agent", "main").returncode == 0
    assert not (home / "data").exists()
    assert not (home / "state").exists()
