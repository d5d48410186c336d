"""What a session writes: its bytes, its files, its system calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.terminal import terminal
from tests.trials.privacy import (
    QUERY,
    Trace,
    all_of,
    complaints,
    holding,
    open_to_others,
    read_trace,
    search_and_leave,
    stage_at,
    under_umask,
    watched,
)
from tests.trials.terminal import commands, environment, prepare, scenes, wrong_in, wrong_in_output

CONTROL = """
import os, socket, sys
open(sys.argv[1], "w").close()
os.chmod(sys.argv[1], 0o600)
os.rename(sys.argv[1], sys.argv[1] + " 2")
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect_ex(("127.0.0.1", 9))
"""


def test_a_private_session_writes_only_its_own_folders_and_connects_to_nobody(
    tmp_path: Path,
) -> None:
    stage = stage_at(tmp_path / "stage")
    before, log = all_of(stage.memory), tmp_path / "trace"
    with terminal(
        "--private",
        str(stage.memory),
        home=stage.home,
        size=(120, 40),
        more=stage.environment,
        before=under_umask("000", watched(log)),
    ) as window:
        search_and_leave(window)
        window.ends()
    trace = read_trace(log, Path.cwd())
    assert complaints(stage, trace) == []
    assert all_of(stage.memory) == before
    assert open_to_others(stage) == []
    assert holding(stage, QUERY.split()[0]) == []
    assert not list((stage.home / "state" / "memtui").glob("history*"))
    # The index was made and the trace tells so.
    assert any(path.endswith("/CURRENT") for _, path in trace.writes)


def test_the_trace_shows_what_is_forbidden(tmp_path: Path) -> None:
    outside, log = tmp_path / 'ünder <the> "quotes"', tmp_path / "trace"
    command = [sys.executable, "-I", "-S", "-c", CONTROL, str(outside)]
    subprocess.run([*watched(log), *command], cwd=tmp_path, check=True)
    trace = read_trace(log, tmp_path)
    assert trace.surprises == []
    assert trace.outside([tmp_path / "elsewhere"]) == [
        f"openat {outside}",
        f"chmod {outside}",
        f"rename {outside}",
        f"rename {outside} 2",
    ]
    assert trace.outside([tmp_path]) == []
    assert trace.connections() == ["socket INET", "connect INET"]


def test_a_line_that_is_not_understood_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "trace.1").write_text("strace: something else\n", encoding="utf-8")
    read = read_trace(tmp_path / "trace", tmp_path)
    assert read == Trace(str(tmp_path), surprises=["strace: something else"])


def test_hostile_notes_reach_a_screen_and_a_command_as_text(tmp_path: Path) -> None:
    root, env = prepare(tmp_path), environment(tmp_path)
    outcomes = [*scenes(root, env, ())]
    outcomes += commands(root, env, ("search",), ends=("terminal",))
    assert [line for one in outcomes for line in one.wrong] == []
    assert sum(one.tried for one in outcomes) > 4_000


@pytest.mark.parametrize(
    "data",
    [
        b"\x1b]2;PWNED\x1b\\",
        b"\x1b]52;c;cHduZWQ=\x07",
        b"\x1b[6n\x1bc",
        "\x9b31m".encode(),
        b"\x9b31m",
        b"a\x08b",
        "\u202e".encode(),
        b"\x1b[?1049",
        b"\xff",
    ],
)
def test_what_no_screen_may_write_is_told(data: bytes) -> None:
    assert wrong_in(b"\x1b[?25l\x1b[1;1H\x1b[38;2;1;2;3mtext" + data)
    assert wrong_in_output(b"text\n" + data, colours=True)


def test_what_textual_writes_is_nothing_to_tell() -> None:
    stream = (
        b"\x1b[?1049h\x1b[?1000h\x1b[?2026$p\x1b[>1u\x1b]22;default\x07\x1b[2;3H\x1b[1;31mhi\x1b[0m"
    )
    assert wrong_in(stream) == []
    assert wrong_in_output(b"\x1b[1mhi\x1b[0m\n\tok\r\n", colours=True) == []
