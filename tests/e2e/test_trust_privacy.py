"""A session in a terminal without a network, every system call of it looked at."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.e2e.terminal import terminal
from tests.trust.privacy import (
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
    assert trace.surprises == ()
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
    found = read_trace(tmp_path / "trace", tmp_path)
    assert found == Trace(surprises=("strace: something else",))
