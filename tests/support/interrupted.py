"""Processes that index and are killed in the middle, for the tests.

    python -m tests.support.interrupted

reads lines of JSON, [sync|rebuild, NOTES, INDEX, INSTANT], and forks a process for each, so that
what they import is imported once. That process kills itself with SIGKILL at the INSTANT-th call of
a function of the index; with 0 it finishes and tells how many calls there were. Each line is
answered by a line [EXIT CODE, WHAT IT TOLD].
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from memtui.index import rows

_INDEX = os.path.dirname(rows.__file__)


@functools.cache
def _server() -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.interrupted"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(_end, server)
    return server


def _end(server: subprocess.Popen[str]) -> None:
    for pipe in (server.stdin, server.stdout):
        assert pipe is not None
        pipe.close()
    server.wait(60)


def run_interrupted(kind: str, notes: Path, index: Path, instant: int) -> int:
    """Index in a process of its own; the number of calls when it finished, -9 when it was killed."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps([kind, str(notes), str(index), instant]) + "\n")
    server.stdin.flush()
    code, told = json.loads(server.stdout.readline())
    if code == -signal.SIGKILL:
        return -9
    assert code == 0, told
    return int(told)


def index_until(kind: str, notes: str, index: str, instant: int) -> int:
    """Index until the instant comes; how many calls there were."""
    from memtui.index.generations import WriterLock
    from tests.support.conversations import Homes
    from tests.support.indexing import Workspace

    scope = Homes(Path(notes) / ".homes").scope(Path(notes), "openclaw")
    workspace = Workspace(Path(notes), Path(index), transcripts=scope)
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        # Returning from C code is where a commit, a rename or an fsync has just happened.
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(_INDEX):
            calls += 1
            if calls == instant:
                os.kill(os.getpid(), signal.SIGKILL)

    with WriterLock(workspace.folder):
        sys.setprofile(count)
        workspace.rebuild() if kind == "rebuild" else workspace.sync()
        sys.setprofile(None)
    return calls


def _work(told: int, task: str) -> NoReturn:
    code = 1
    try:
        os.write(told, str(index_until(*json.loads(task))).encode())
        code = 0
    except Exception:
        os.write(told, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _serve() -> None:
    import tests.support.conversations
    import tests.support.indexing  # noqa: F401

    for task in sys.stdin:
        reader, told = os.pipe()
        child = os.fork()
        if child == 0:
            _work(told, task)
        os.close(told)
        with open(reader, encoding="utf-8") as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        print(json.dumps([os.waitstatus_to_exitcode(status), said]), flush=True)


if __name__ == "__main__":
    _serve()
