"""The real program where its streams, its folders or its index are not what they should be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memtui.index.database import open_database
from memtui.index.generations import IndexFolder
from memtui.index.schema import write_meta
from tests.support import in_process

MEMTUI = f"{sys.executable} -m memtui"


class Place:
    """A memory with an index, and a shell to call the program from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes = folder / "notes"
        self.notes.mkdir()
        (self.notes / "MEMORY.md").write_text("# Network\n\nThe router.\n", encoding="utf-8")
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("MEMTUI_", "XDG_"))}
        self.environment = {
            **kept,
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_STATE_HOME": str(folder / "state"),
            "MEMTUI_ROOT": str(self.notes),
            "MEMTUI_EMBEDDING__PROVIDER": "none",
            "MEMTUI_INDEX__DEBOUNCE_SECONDS": "0.1",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }

    def shell(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            timeout=100,
        )

    def index(self) -> IndexFolder:
        (folder,) = (self.folder / "data/memtui").iterdir()
        return IndexFolder(folder)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    assert in_process.call(["index"], environment=made.environment, folder=tmp_path).returncode == 0
    return made


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("search router >&-", 0),
        ("search router --json >&-", 0),
        ("search router 2>&-", 0),
        ("<&-", 2),
        ("search router >/dev/full", 1),
        ("search router --json >/dev/full", 1),
        ("search --nope --json >/dev/full", 2),
    ],
)
def test_streams_that_take_nothing(place: Place, command: str, code: int) -> None:
    run = place.shell(f"{MEMTUI} {command}")
    assert run.returncode == code, run.stderr
    assert "Traceback" not in run.stderr
    assert "should not have happened" not in run.stderr


def test_from_a_folder_that_was_removed(place: Place) -> None:
    run = place.shell(f"mkdir gone && cd gone && rmdir ../gone && {MEMTUI} search router")
    assert run.returncode == 0, run.stderr


def test_a_damaged_index_is_built_again_and_that_is_no_failure(place: Place) -> None:
    index = place.index()
    index.path(index.current() or 0).write_bytes(b"garbage" * 5000)
    run = place.shell(f"{MEMTUI} index --json")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["sync"]["rebuild"] is True


def test_a_newer_index_is_3_until_it_is_forced(place: Place) -> None:
    index = place.index()
    connection = open_database(index.path(index.current() or 0))
    write_meta(connection, {"schema_version": "99"})
    connection.close()
    run = place.shell(f"{MEMTUI} index --json")
    assert run.returncode == 3
    assert json.loads(run.stdout)["error"]["exit_code"] == 3
    assert place.shell(f"{MEMTUI} index --force").returncode == 0


def test_an_empty_index_file_is_named_and_built_again(place: Place) -> None:
    index = place.index()
    path = index.path(index.current() or 0)
    for journal in path.parent.glob("index-*"):
        journal.unlink()
    path.touch()
    for command in ("status", "search router"):
        run = place.shell(f"{MEMTUI} {command} --json")
        assert run.returncode == 3, run.stdout
        assert json.loads(run.stdout)["error"]["code"] == "index_unusable"
    assert place.shell(f"{MEMTUI} index").returncode == 0


def test_watching_ends_when_nobody_reads_any_more(place: Place) -> None:
    command = [sys.executable, "-m", "memtui", "index", "--watch"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=place.environment
    ) as process:
        assert process.stdout is not None
        try:
            assert b"synced" in process.stdout.readline()
            assert b"index: " in process.stdout.readline()
            (place.notes / "more.md").write_text("x\n", encoding="utf-8")
            (place.notes / "MEMORY.md").write_text("another\n", encoding="utf-8")
            process.stdout.close()
            assert process.wait(30) == 0
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)


def test_a_line_feed_in_a_name_makes_no_line(place: Place) -> None:
    (place.notes / "memory").mkdir()
    os.mkfifo(place.notes / "memory/a\nmemtui: b.md")
    run = place.shell(f"{MEMTUI} index")
    assert run.stderr == "memtui: skipped memory/a memtui: b.md: named pipe\n"
