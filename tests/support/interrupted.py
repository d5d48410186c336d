"""Processes of their own: what they return, how they end, how they grow."""

from __future__ import annotations

import os
import resource
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from memtui.index.database import Recipe
from tests.support.conversations import Homes, said
from tests.support.indexing import Workspace

# Children are forked by a process that has imported everything once and has one thread.
_PROCESSES = get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__])


Ended = subprocess.CompletedProcess[str]


def run_python(*arguments: str, before: Sequence[str] = (), **options: Any) -> Ended:
    """Run Python to its end; `before` is a command that runs the one behind it."""
    command = [*before, sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, **options)


@contextmanager
def running_python(*arguments: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run Python with a pipe at each end; it is killed afterwards."""
    command, pipe = [sys.executable, *arguments], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def assert_ended(pid: int) -> None:
    """A process is dead, or is dead and waits for its parent to take notice."""
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        ended, _, _ = select.select([process], [], [], 10)
        os.close(process)
        assert ended, f"process {pid} still runs"


def run_forked(
    act: Callable[..., object], *arguments: object, seconds: float | None = None
) -> tuple[Any, int]:
    """Call `act(*arguments)` in a process of its own; what it returned, and its exit code.

    Nothing is returned by a process that was killed, as one is that takes more than `seconds`.
    """
    receiver, sender = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=_send, args=(sender, act, arguments))
    process.start()
    sender.close()
    returned = None
    try:
        receiver.recv()
        if receiver.poll(seconds):
            returned = receiver.recv()
        else:
            process.kill()
    except EOFError:
        pass  # its exit code tells
    process.join()
    receiver.close()
    assert process.exitcode is not None
    return returned, process.exitcode


def _send(pipe: Pipe, act: Callable[..., object], arguments: tuple[object, ...]) -> None:
    pipe.send("begins")
    pipe.send(act(*arguments))


def measure_sync(folder: Path) -> tuple[int, int]:
    """Index the transcripts of `folder`; return by how many bytes this process grew, and chunks.

    A small transcript is indexed first, so that what is loaded once does not count.
    """
    small = Homes(folder / "small")
    small.openclaw("a.jsonl", said("user", "hello"))
    peaks = []
    for homes in (small, Homes(folder / "homes")):
        workspace = Workspace(
            folder / "notes",
            folder / f"index-{homes.folder.name}",
            recipe=Recipe(None),
            transcripts=homes.scope(folder / "notes", "openclaw"),
        )
        workspace.sync()
        workspace.close()
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return peaks[1] - peaks[0], len(workspace.contents().chunks)
