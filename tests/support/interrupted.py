"""A process that indexes and is killed in the middle; started by the tests as a script.

    python -m tests.support.interrupted sync|rebuild NOTES INDEX INSTANT

It kills itself with SIGKILL at the INSTANT-th call of a function of the index; 0 lets it finish
and prints how many calls there were.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from memtui.index import writer

_INDEX = os.path.dirname(writer.__file__)


def run_interrupted(kind: str, notes: Path, index: Path, instant: int) -> int:
    """Run the script; the number of calls when it finished, -9 when it was killed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.interrupted", kind, notes, index, str(instant)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if done.returncode == -signal.SIGKILL:
        return -9
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def main(kind: str, notes: str, index: str, instant: int) -> None:
    """Index until the instant comes."""
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
    print(calls)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
