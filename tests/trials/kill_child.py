"""A warm process that forks one child per run, and kills it; started as a script.

Reads one order a line from standard input, answers one line on standard output. It has one thread
and no database open, so that each fork is clean and takes milliseconds.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from tests.trials.kill_scenes import AcknowledgingCache, Ground, scene
from tests.trials.power_log import Recorder
from tests.trials.survival import Change, Kind, Perform, first_half, observe

PAGE = 4096
"""A killed write ends between pages of the system's cache of files."""
_LONGEST = 120.0


@dataclass(frozen=True, slots=True)
class Order:
    """What a child does, and when it is killed."""

    scene: str
    place: str
    data: str
    seconds: float | None = None
    """Killed from outside so long after it began; `None`: never."""
    instant: int | None = None
    """Killed before its n-th change of a file, from 0 on; `None`: the changes are not watched."""
    log: str | None = None
    """Where every change of a file is written down; then it is not killed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of the child."""

    killed: bool
    seconds: float
    """From its beginning to its end."""
    instants: int = 0
    """How many instants it counted; 0 when it was killed, or did not watch."""
    error: str = ""


class Killer:
    """Ends this process before the change of a file whose turn it is, or in the middle of it."""

    def __init__(self, instant: int) -> None:
        self.instants = 0
        self._instant = instant

    def around(self, change: Change, perform: Perform) -> None:
        """Count an instant before the change, and one in it when a part of it could remain."""
        self._pass()
        if change.kind is Kind.WRITE and len(change.data) > PAGE:
            if self.instants == self._instant:
                perform(first_half(change, PAGE))
            self._pass()
        perform(change)

    def _pass(self) -> None:
        if self.instants == self._instant:
            os.kill(os.getpid(), signal.SIGKILL)
        self.instants += 1


def main() -> None:
    """Obey until standard input ends."""
    for line in sys.stdin:
        print(json.dumps(asdict(obey(Order(**json.loads(line))))), flush=True)


def obey(order: Order) -> Answer:
    """Fork a child and see to it that it ends."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        _be_the_child(order, tell)
    os.close(tell)
    try:
        return _watch(order, child, told)
    finally:
        os.close(told)


def _watch(order: Order, child: int, told: int) -> Answer:
    """Read what the child says until it ends, or kill it when its time has come."""
    said = os.read(told, 1)
    began = time.monotonic()
    end = began + (_LONGEST if order.seconds is None else order.seconds)
    while True:
        ready, _, _ = select.select([told], [], [], max(0.0, end - time.monotonic()))
        piece = os.read(told, 65536) if ready else b""
        said += piece
        if not piece:
            break
    if not ready:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    seconds = time.monotonic() - began
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if killed and not ready and order.seconds is None:
        return Answer(True, seconds, error=f"did not end within {_LONGEST:g} s")
    if killed or os.waitstatus_to_exitcode(status) == 0:
        return Answer(killed, seconds, int(said[1:] or b"0"))
    return Answer(False, seconds, error=said[1:].decode(errors="replace") or f"ended with {status}")


def _be_the_child(order: Order, tell: int) -> NoReturn:
    """Do what the scene says; never comes back."""
    try:
        instants = _act(order, tell)
        os.write(tell, str(instants).encode())
    except BaseException:
        os.write(tell, traceback.format_exc().encode()[-60_000:])
        os._exit(1)
    os._exit(0)


def _act(order: Order, tell: int) -> int:
    data = Path(order.data)
    workspace = Ground(Path(order.place)).workspace(data)
    killer = Killer(-1 if order.instant is None else order.instant)
    recorder = Recorder()
    if order.log is not None:
        told = recorder.acknowledge
        observe(order.data, recorder)
    else:
        flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY
        told = partial(_acknowledge, os.open(acknowledged_path(data), flags, 0o600))
    if order.instant is not None:
        observe(order.data, killer)
    workspace.cache = AcknowledgingCache(workspace.folder.cache_path, told)
    os.write(tell, b"!")
    scene(order.scene).act(workspace)
    workspace.close()
    if order.log is not None:
        recorder.save(Path(order.log))
    return killer.instants


def _acknowledge(descriptor: int, hashes: list[str]) -> None:
    os.write(descriptor, "".join(f"{name}\n" for name in hashes).encode())


def acknowledged_path(data: Path) -> Path:
    """Where a child writes down what the cache has taken."""
    return data.with_name(f"{data.name}.acknowledged")


if __name__ == "__main__":
    main()
