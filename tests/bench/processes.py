"""What a user waits for when a process starts, and how much memory one takes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter

from memtui.memory.workspace import demo_root
from tests.bench.corpus import DIMENSIONS, Corpus
from tests.bench.measure import MILLISECONDS, Measurement, Plan, Series
from tests.bench.stores import store

QUESTION = "which router did we buy for the home network"
MEMORY_CHUNKS = 100_000
_REPETITIONS = 4
_ROWS, _COLUMNS = 40, 120
_PATIENCE = 30.0
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_PAINTED = (b"memtui", b"earch what was remembered")
_PYTHON = sys.executable


def measure_command(plan: Plan) -> Iterator[Measurement]:
    """`memtui search` from the shell on an indexed folder, against starting Python."""
    for name, provider in (("hybrid", "auto"), ("keyword only", "none")):
        env = environment(plan.place / f"home-{provider}", MEMTUI_EMBEDDING__PROVIDER=provider)
        place = ["--root", str(demo_root())]
        _run([_PYTHON, "-m", "memtui", "index", *place], env)
        search = [_PYTHON, "-m", "memtui", "search", QUESTION, *place]
        took, alone = paired_runs(plan, search, [_PYTHON, "-c", "pass"], env)
        yield Measurement(f"memtui search, {name}", took, "ms", "python -c pass", alone)


def measure_first_paint(plan: Plan) -> Iterator[Measurement]:
    """From the start of the process to the first screen in a terminal of 120x40."""
    env = environment(plan.place / "home-paint", TERM="xterm-256color", COLORTERM="truecolor")
    # Which indexes the demo, so that no run below does.
    _run([_PYTHON, "-m", "memtui", "search", QUESTION, "--demo", "--zero-ok"], env)
    demo = [_PYTHON, "-m", "memtui", "demo"]
    bare = [_PYTHON, "-c", "import textual.app"]
    took, alone = Series(), Series()
    for number in range(plan.warm + _REPETITIONS * plan.rounds):
        painted, started = _first_paint(demo, env), _run(bare, env)
        if number >= plan.warm:
            took.wall.append(painted)
            alone.wall.append(started[0])
    yield Measurement("first paint, 120x40", took, "ms", "import textual.app", alone)


def measure_memory(plan: Plan) -> Iterator[Measurement]:
    """Resident memory of a process that searches a large index, against its matrix."""
    chunks = max([size for size in plan.sizes if size <= MEMORY_CHUNKS], default=MEMORY_CHUNKS)
    found: dict[int, Mapping[str, int]] = {}
    for size in (1000, chunks):
        made = store(Corpus(), size, plan.place)
        code = (
            "import sys; from pathlib import Path; from tests.bench import search, stores; "
            "search.resident_memory(stores.Store(Path(sys.argv[1]), Path(sys.argv[2]), 0))"
        )
        command = [_PYTHON, "-c", code, str(made.root), str(made.data)]
        run = subprocess.run(command, capture_output=True, check=True, text=True)
        found[size] = json.loads(run.stdout)
    matrix = Series([chunks * DIMENSIONS * 4 / 1e6])
    for name, key in (("resident", "VmRSS"), ("  of it not of files", "RssAnon")):
        ours = Series([found[chunks][key] / 1e6])
        note = f"with 1,000 chunks {found[1000][key] / 1e6:.0f} MB"
        yield Measurement(f"{name}, {chunks:,} chunks", ours, "MB", "matrix", matrix, note=note)


def environment(home: Path, **more: str) -> dict[str, str]:
    """An environment whose every folder is below `home`, with nothing of the user's settings."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMTUI_")}
    folders = {
        f"XDG_{kind}_HOME": str(home / kind.lower())
        for kind in ("DATA", "CONFIG", "STATE", "CACHE")
    }
    return {**kept, **folders, "HOME": str(home), **more}


def paired_runs(
    plan: Plan, ours: Sequence[str], theirs: Sequence[str], env: Mapping[str, str]
) -> tuple[Series, Series]:
    """Run two commands in turns, after `plan.warm` runs that do not count."""
    first, second = Series(), Series()
    for number in range(plan.warm + _REPETITIONS * plan.rounds):
        pair = _run(ours, env), _run(theirs, env)
        if number >= plan.warm:
            first.add(*pair[0])
            second.add(*pair[1])
    return first, second


def _run(command: Sequence[str], env: Mapping[str, str]) -> tuple[float, float]:
    """Run a command to its end; wall and CPU time in ms."""
    began = perf_counter()
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return wall * MILLISECONDS, (usage.ru_utime + usage.ru_stime) * MILLISECONDS


def _first_paint(command: Sequence[str], env: Mapping[str, str]) -> float:
    """Start a program in a terminal; ms until its screen shows what it is."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    began = perf_counter()
    process = subprocess.Popen(
        command, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    try:
        return _painted_after(master, began)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(master)


def _painted_after(master: int, began: float) -> float:
    written = b""
    while perf_counter() - began < _PATIENCE:
        ready, _, _ = select.select([master], [], [], 0.5)
        if not ready:
            continue
        try:
            written += os.read(master, 1 << 16)
        except OSError as error:
            shown = _SEQUENCE.sub(b"", written).decode("utf-8", "replace")
            raise RuntimeError(f"the program ended before it painted: {shown}") from error
        plain = _SEQUENCE.sub(b"", written)
        if any(sign in plain for sign in _PAINTED):
            return (perf_counter() - began) * MILLISECONDS
    raise RuntimeError("nothing was painted")
