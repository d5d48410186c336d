"""Faults of disks, files, events and clocks: named on screen, nothing lost, no restart needed.

Each fault is real, made in namespaces of the trial's own: small file systems that are filled,
made read-only or unmounted, permissions that bind (the right to pass over them is given up),
limits of the kernel. Only the clock is handed in, because moving it would move everybody's.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

from memtui.index.database import PAGE_SIZE, open_database, read_meta, write_meta
from memtui.index.watcher import Watcher
from memtui.memory import documents
from tests.support.conversations import append
from tests.trials.faults_stage import CLOCK, Scene, Stage, play
from tests.trials.frame import Case, Options
from tests.tui.harness import press

_SMALL = "size=3m"
_PIECE = 64 * 1024


def mount(folder: Path, options: str) -> None:
    """Mount a small file system in memory."""
    folder.mkdir(exist_ok=True)
    _call("mount", "-t", "tmpfs", "-o", options, "none", os.fspath(folder))


def _call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=20)


def fill(path: Path) -> None:
    """Write until there is no room left for one byte."""
    with path.open("wb", buffering=0) as file:
        for size in (_PIECE, 4096, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue


async def _disk_full(stage: Stage) -> None:
    filler = stage.data / "filler"
    fill(filler)
    stage.write("memory/more.md", "\n\n".join(f"# {n}\n\nA wren {n}." * 40 for n in range(60)))
    await stage.named("✗ error", "no space left")
    await stage.finds("heron", "memory/heron.md")
    filler.unlink()
    await stage.recovers("r")
    await stage.finds("wren", "memory/more.md")


async def _full_and_rebuilt(stage: Stage) -> None:
    filler = stage.data / "filler"
    fill(filler)
    await press(stage.pilot, "escape", "1", "escape", "R")
    await stage.until(lambda: len(stage.app.screen_stack) > 1, "the question before a rebuild")
    await press(stage.pilot, "R")
    await stage.named("✗ error", "no space left")
    await stage.finds("heron", "memory/heron.md")
    filler.unlink()
    await stage.recovers("r")


async def _read_only_data(stage: Stage) -> None:
    folder = stage.index.folder
    for path in (*folder.iterdir(), folder):
        path.chmod(0o500 if path.is_dir() else 0o400)
    stage.write("memory/more.md", "# More\n\nA wren.\n")
    await stage.named("✗ error", "cannot be")
    await stage.finds("heron", "memory/heron.md")
    folder.chmod(0o700)
    for path in folder.iterdir():
        path.chmod(0o600)
    await stage.recovers("r")
    await stage.finds("wren", "memory/more.md")


async def _read_only_at_start(stage: Stage) -> None:
    await stage.named("cannot be made", "Read-only file system")
    _call("mount", "-o", "remount,rw", os.fspath(stage.data))
    await press(stage.pilot, "escape", "r")
    await stage.settled()
    await stage.recovers()
    stage.facts["recovered by"] = "r"


async def _permission_lost(stage: Stage) -> None:
    stage.root.chmod(0)
    try:
        await press(stage.pilot, "escape", "r")
        await stage.named("✗ error", "cannot be read", "permission denied")
        await stage.finds("owl", "memory/deep/owl.md")
    finally:
        stage.root.chmod(0o700)
    await stage.recovers()


async def _permission_of_a_note(stage: Stage) -> None:
    path = stage.root / "memory/heron.md"
    path.chmod(0)
    await press(stage.pilot, "escape", "r")
    await stage.named("memory/heron.md", "permission denied", screen="5")
    path.chmod(0o600)
    await press(stage.pilot, "escape", "r")
    await stage.finds("heron", "memory/heron.md")
    await stage.recovers()


async def _unmounted(stage: Stage) -> None:
    aside = stage.place / "aside"
    aside.mkdir()
    _call("mount", "--bind", os.fspath(stage.root), os.fspath(aside))
    # Though it is in use.
    _call("umount", "--lazy", os.fspath(stage.root))
    await stage.named("✗ error", "is empty")
    await stage.finds("heron", "memory/heron.md")
    _call("mount", "--bind", os.fspath(aside), os.fspath(stage.root))
    await stage.recovers()


async def _root_gone(stage: Stage) -> None:
    aside = stage.place / "aside"
    stage.root.rename(aside)
    await stage.named("✗ error", "is not there")
    await stage.finds("heron", "memory/heron.md")
    aside.rename(stage.root)
    await stage.recovers()


async def _index_deleted(stage: Stage) -> None:
    shutil.rmtree(stage.index.folder)
    await stage.asks("owl")
    await stage.named("no index")
    await stage.recovers("r")


async def _cache_deleted(stage: Stage) -> None:
    for path in stage.index.folder.glob("cache.db*"):
        path.unlink()
    stage.write("memory/more.md", "# More\n\nA wren.\n")
    await stage.finds("wren", "memory/more.md")
    await stage.named("the embedding cache was deleted", screen="5")
    await stage.recovers("R")


def _in_another_process(action: str, path: Path) -> None:
    """Change a file as another program does: its closing takes none of this process's locks."""
    code = f"import os, sqlite3, sys; p = sys.argv[1]; {action}"
    _call("python3", "-c", code, os.fspath(path))


_EMPTY = "os.truncate(p, 0)"
_TRUNCATE = f"os.truncate(p, {PAGE_SIZE})"
_OVERWRITE = (
    f"n = os.path.getsize(p) - {PAGE_SIZE}; f = open(p, 'r+b'); f.seek({PAGE_SIZE}); "
    "f.write(b'\\xa5' * n); f.close()"
)
_REPLACE = (
    "open(p + '.png', 'wb').write(b'\\x89PNG' + bytes(range(256)) * 400); os.replace(p + '.png', p)"
)


async def _damaged(stage: Stage, action: str, words: Sequence[str] = ("is damaged",)) -> None:
    """Let another process change the live index, and search: what is wrong is named."""
    _in_another_process(action, stage.live)
    await stage.asks("owl")
    await stage.named(*words)
    await stage.recovers("r")


async def _cache_truncated(stage: Stage) -> None:
    checkpoint = "sqlite3.connect(p).execute('PRAGMA wal_checkpoint(TRUNCATE)')"
    _in_another_process(f"{checkpoint}; {_TRUNCATE}", stage.index.cache_path)
    stage.write("memory/more.md", "# More\n\nA wren.\n")
    await stage.named("embedding cache was damaged and starts anew", screen="5")
    await stage.recovers("R")


async def _newer(stage: Stage) -> None:
    with closing(open_database(stage.live)) as connection:
        before = read_meta(connection)["schema_version"]
        write_meta(connection, {"schema_version": "99"})
    stage.write("memory/more.md", "# More\n\nA wren.\n")
    await stage.named("✗ error", "has schema 99")
    with closing(open_database(stage.live)) as connection:
        write_meta(connection, {"schema_version": before})
    await stage.recovers("r")
    await stage.finds("wren", "memory/more.md")


STORAGE_SCENES: Sequence[Scene] = (
    Scene("disk full", _disk_full, prepare=lambda stage: mount(stage.data, _SMALL)),
    Scene("disk full in a rebuild", _full_and_rebuilt, prepare=lambda stage: mount(stage.data, _SMALL)),
    Scene("read-only folder", _read_only_data),
    Scene("read-only file system at the start", _read_only_at_start, prepare=lambda stage: mount(stage.data, f"{_SMALL},ro"), opens=False),
    Scene("permission for the folder lost in mid-run", _permission_lost),
    Scene("permission for a note lost in mid-run", _permission_of_a_note),
    Scene("unmounted root", _unmounted, prepare=lambda stage: mount(stage.root, _SMALL)),
    Scene("root moved away", _root_gone),
    Scene("index deleted under the interface", _index_deleted, cache_dies=True),
    Scene("cache deleted under the interface", _cache_deleted, cache_dies=True),
    Scene("corrupt pages", partial(_damaged, action=_OVERWRITE)),
    Scene("index truncated", partial(_damaged, action=_TRUNCATE)),
    Scene("index emptied", partial(_damaged, action=_EMPTY, words=("index-", "memtui index"))),
    Scene("cache truncated", _cache_truncated, cache_dies=True),
    Scene("foreign file in the index's place", partial(_damaged, action=_REPLACE)),
    Scene("newer schema", _newer),
)  # fmt: skip
"""Faults of storage."""


_LIMITS = Path("/proc/sys/user")
_MANY = 100_000
_FILES = 1_000
_ROUNDS = 34
_WRITER = f"""
import sys
for _ in range({_ROUNDS}):
    for number in range(int(sys.argv[2])):
        with open(f"{{sys.argv[1]}}/flood{{number}}.md", "wb") as file:
            file.write(b"# Flood\\n\\nA dunlin.\\n")
"""


@contextmanager
def _limited(name: str, most: int) -> Iterator[None]:
    """Let the users of this namespace have no more than so many."""
    path = _LIMITS / name
    before = path.read_text(encoding="ascii")
    path.write_text(str(most), encoding="ascii")
    try:
        yield
    finally:
        path.write_text(before, encoding="ascii")


async def _no_watches(stage: Stage) -> None:
    for number in range(20):
        stage.write(f"memory/room{number}/note.md", f"# Room {number}\n\nA wren.\n")
    await _polls_meanwhile(stage, "max_inotify_watches", 5, "only 5 of")


async def _no_instances(stage: Stage) -> None:
    await _polls_meanwhile(stage, "max_inotify_instances", 0, "inotify")


async def _polls_meanwhile(stage: Stage, limit: str, most: int, why: str) -> None:
    """Find notes by looking while the kernel gives no events, and by events again afterwards."""
    with _limited(limit, most):
        await _opened_again(stage)
        await stage.named("polling", why, screen="5")
        stage.write("memory/more.md", "# More\n\nA siskin.\n")
        await stage.finds("siskin", "memory/more.md")
    await stage.until(lambda: stage.status.watcher.mode == "events", "events again")
    await stage.recovers()


async def _opened_again(stage: Stage) -> None:
    """Take the folder away and put it back: it is watched anew, with the limit of now."""
    aside = stage.place / "aside"
    stage.root.rename(aside)
    await stage.until(lambda: "not there" in stage.status.watcher.detail, "a folder that is gone")
    aside.rename(stage.root)
    await stage.until(
        lambda: any(why in stage.status.watcher.detail for why in ("can be watched", "inotify")),
        "polling",
    )
    await stage.settled()


async def _flood(stage: Stage) -> None:
    """100,000 different events handed to the watcher as fast as one thread hands them over."""
    watcher = _watcher_of(stage)
    folder = os.fspath(stage.root / "memory")

    def hand_over() -> None:
        for number in range(_MANY):
            watcher._arrived(f"{folder}/{number}.md", False)

    seconds = await _while_drawing(stage, hand_over)
    stage.facts["events a second"] = f"{_MANY / seconds:,.0f}"
    await stage.recovers()


async def _real_flood(stage: Stage) -> None:
    """1,000 files, each written often by another process: more than the kernel queues."""
    command = (sys.executable, "-c", _WRITER, os.fspath(stage.root / "memory"), str(_FILES))
    seconds = await _while_drawing(stage, partial(subprocess.run, command, check=True))
    # Each write opens or makes, writes and closes: three events.
    stage.facts["events a second"] = f"{_ROUNDS * _FILES * 3 / seconds:,.0f}"
    stage.write("memory/last.md", "# Last\n\nA siskin at last.\n")
    await stage.finds("siskin", "memory/last.md")
    await stage.recovers()


async def _while_drawing(stage: Stage, action: Callable[[], object]) -> float:
    """Run something on another thread while the interface answers; its seconds."""
    began = time.monotonic()
    task = asyncio.get_running_loop().run_in_executor(None, action)
    while not task.done():
        await stage.paused()
        stage.glimpse("waiting")
    await task
    await stage.until(lambda: stage.glimpse("waiting"), "changes that wait")
    return time.monotonic() - began


def _watcher_of(stage: Stage) -> Watcher:
    engine = stage.app.search_screen.engine
    assert engine is not None
    watcher = getattr(engine.index, "watcher", None)
    assert isinstance(watcher, Watcher)
    return watcher


WATCHING_SCENES: Sequence[Scene] = (
    Scene("inotify: no watches left", _no_watches, alone=True),
    Scene("inotify: no instances left", _no_instances, alone=True),
    Scene("100,000 events at once", _flood, alone=True),
    Scene(
        "100,000 events by real writes",
        _real_flood,
        prepare=lambda stage: mount(stage.root, "size=64m"),
        alone=True,
    ),
)
"""Faults of events."""


_MEGABYTE = 10**6
_HERON = "memory/heron.md"


async def _by_folder(stage: Stage) -> None:
    path = _gone(stage)
    path.mkdir()
    (path / "inner.md").write_text("# Inner\n\nA siskin.\n", encoding="utf-8")
    await stage.finds("siskin", f"{_HERON}/inner.md")
    await stage.named("inner.md")
    (path / "inner.md").unlink()
    path.rmdir()
    await _back(stage)


async def _by_pipe(stage: Stage) -> None:
    os.mkfifo(_gone(stage))
    await stage.named(_HERON, "named pipe", screen="5")
    (stage.root / _HERON).unlink()
    await _back(stage)


async def _by_loop(stage: Stage) -> None:
    path = _gone(stage)
    other = path.with_name("round.md")
    path.symlink_to(other.name)
    other.symlink_to(path.name)
    await stage.named(_HERON, "link", screen="5")
    path.unlink()
    other.unlink()
    await _back(stage)


def _gone(stage: Stage) -> Path:
    path = stage.root / _HERON
    path.unlink()
    return path


async def _back(stage: Stage) -> None:
    stage.write(_HERON, "# Birds\n\nA heron was at the pond.\n")
    await stage.finds("heron", _HERON)
    await stage.recovers()


async def _replaced_as_it_is_read(stage: Stage) -> None:
    """The note is there when it is found, and a pipe when it is opened."""

    def swap(path: Path) -> None:
        path.unlink()
        os.mkfifo(path)

    with _before_reading(stage, "memory/swift.md", swap):
        stage.write("memory/swift.md", "# Swift\n\nA swift.\n")
        # The reader refuses it, and the next look, right after it, says what it is.
        await stage.named("memory/swift.md", "named pipe", screen="5")
    (stage.root / "memory/swift.md").unlink()
    await stage.recovers()


async def _grows(stage: Stage) -> None:
    """The note grows before each of the first reads, as a log does."""
    grow = partial(append, data=b"\nOne more dunlin.\n")
    stage.facts["grown"] = 5
    with _before_reading(stage, "memory/log.md", grow, times=5):
        stage.write("memory/log.md", "# Log\n\nA siskin.\n")
        await stage.named("waiting")
        await stage.finds("siskin", "memory/log.md")
    await stage.recovers()
    await stage.finds("dunlin", "memory/log.md")


async def _grows_beyond(stage: Stage) -> None:
    """The note is small when it is found, and larger than the limit when it is read."""
    grow = partial(append, data=b"x\n" * _MEGABYTE)
    with _before_reading(stage, "memory/log.md", grow):
        stage.write("memory/log.md", "# Log\n\nA siskin.\n")
        await stage.named("memory/log.md", "bytes, the limit is", screen="5")
    stage.write("memory/log.md", "# Log\n\nA siskin.\n")
    await stage.finds("siskin", "memory/log.md")
    await stage.recovers()


@contextmanager
def _before_reading(
    stage: Stage, name: str, happens: Callable[[Path], None], times: int = 1
) -> Iterator[None]:
    """Let something happen to a note after it was found and before it is opened."""
    wanted, opened, left = stage.root / name, documents.open_regular, [happens] * times

    def opening(path: Path, base: str = "") -> int:
        if path == wanted and left:
            left.pop()(wanted)
        return opened(path, base)

    with patch.object(documents, "open_regular", opening):
        yield


async def _case(stage: Stage) -> None:
    path = stage.root / _HERON
    path.rename(path.with_name("HERON.md"))
    await stage.finds("heron", "memory/HERON.md")
    (stage.root / "MEMORY.md").rename(stage.root / "memory.md")
    await stage.named("memory.md", "exactly MEMORY.md", screen="5")
    (stage.root / "memory.md").rename(stage.root / "MEMORY.md")
    await stage.finds("omada", "MEMORY.md")
    await stage.recovers()


async def _names(stage: Stage) -> None:
    long = "n" * 252 + ".md"
    stage.write("memory/two\nlines.md", "# Two\n\nA dotterel.\n")
    stage.write(b"memory/caf\xe9\xff.md", "# Bytes\n\nA dotterel.\n")
    stage.write(f"memory/{long}", "# Long\n\nA dotterel.\n")
    stage.write("memory/\x1b[31mred\x07.md", "# Red\n\nA dotterel.\n")
    await stage.finds("dotterel", f"memory/{long}")
    await stage.until(lambda: len(_hits_with(stage, "dotterel")) == 4, "four notes")
    await stage.named("two", "lines.md")
    await stage.named("dcff.md")
    await stage.named("red")
    await stage.named("nnnnnnn")
    await stage.recovers()


def _hits_with(stage: Stage, word: str) -> list[str]:
    ranked = stage.app.search_screen.state.ranked
    return [hit.chunk.path for hit in ranked.hits if word in hit.chunk.text] if ranked else []


async def _bytes(stage: Stage) -> None:
    stage.write("memory/latin.md", b"# Latin\n\nA caf\xe9 with a dotterel and \x1b[2J.\n")
    await stage.finds("dotterel", "memory/latin.md")
    await press(stage.pilot, "escape", "2", "slash", *"latin", "enter")
    await stage.named("not UTF-8", "bad sequence")
    await press(stage.pilot, "escape")
    await stage.recovers()


async def _large(stage: Stage) -> None:
    line = "The plover walks along the shore and counts its steps until the evening comes. " * 8
    text = "# Large\n\n" + f"{line}\n\n" * (50 * _MEGABYTE // (len(line) + 2))
    stage.write("memory/large.md", text + "A phalarope at the very end.\n")
    await stage.named("indexing")
    await stage.finds("phalarope", "memory/large.md")
    stage.facts["bytes"] = (stage.root / "memory/large.md").stat().st_size
    stage.facts["chunks"] = stage.status.chunks
    await stage.recovers()


async def _too_large(stage: Stage) -> None:
    path = stage.write("memory/large.md", b"A phalarope.\n")
    os.truncate(path, 70 * 2**20)
    await stage.named("memory/large.md", "bytes, the limit is", screen="5")
    stage.write("memory/large.md", "A phalarope.\n")
    await stage.finds("phalarope", "memory/large.md")
    await stage.recovers()


async def _long_lines(stage: Stage) -> None:
    stage.write("memory/line.md", "phalarope " + "dunlin " * (_MEGABYTE // 7) + "\n")
    stage.write("memory/word.md", "q" * _MEGABYTE + " phalarope\n")
    await stage.finds("phalarope", "memory/line.md")
    await stage.finds("phalarope", "memory/word.md")
    await stage.named("word.md")
    await stage.recovers()


FILES_SCENES: Sequence[Scene] = (
    Scene("a note replaced by a folder", _by_folder),
    Scene("a note replaced by a FIFO", _by_pipe),
    Scene("a note replaced by a loop of links", _by_loop),
    Scene("a note replaced by a FIFO as it is read", _replaced_as_it_is_read),
    Scene("a note that grows while it is read", _grows),
    Scene("a note that grows beyond the limit", _grows_beyond, largest=_MEGABYTE),
    Scene("renames of case only", _case),
    Scene("names with line feeds, bytes, controls, 255 bytes", _names),
    Scene("a note that is no UTF-8", _bytes),
    Scene("a note of 50 MB", _large, provider="none"),
    Scene("a note beyond the limit", _too_large),
    Scene("lines of a million characters", _long_lines),
)
"""Faults of notes."""


_YEAR = timedelta(days=365)


async def _moved(stage: Stage, way: int) -> None:
    with patch("time.time", CLOCK.seconds), patch("time.time_ns", CLOCK.nanoseconds):
        CLOCK.moved = way * _YEAR
        await _save(stage, "memory/moved.md", "# Moved\n\nA siskin.\n")
        await stage.finds("siskin", "memory/moved.md")
        await _save(stage, "memory/moved.md", "# Moved\n\nA linnet.\n")
        await stage.finds("linnet", "memory/moved.md")
        direction = "back" if way < 0 else "forward"
        await stage.named(f"clock was moved {direction} by 365 days", screen="5")
        CLOCK.moved = timedelta()
        # Of the same size as before, right after the clock went back to where it was.
        await _save(stage, "memory/moved.md", "# Moved\n\nA dunlin.\n")
        await stage.finds("dunlin", "memory/moved.md")
        await stage.recovers()


async def _save(stage: Stage, name: str, text: str) -> None:
    """Write a note as the clock of now dates it."""
    path = stage.write(name, text)
    at = CLOCK.nanoseconds()
    os.utime(path, ns=(at, at))


async def _dated_ahead(stage: Stage) -> None:
    """Notes of next year and of 1970, by their files' times and by their names."""
    year = datetime.now(UTC).year + 1
    path = stage.write(f"memory/{year}-06-01.md", "# Ahead\n\nA siskin.\n")
    at = CLOCK.nanoseconds() + 365 * 86_400 * 10**9
    os.utime(path, ns=(at, at))
    await stage.finds("siskin", f"memory/{year}-06-01.md")
    await stage.named(f"{year}-06-01")
    os.utime(path, ns=(0, 0))
    old = stage.write("memory/old.md", "# Old\n\nA siskin of old.\n")
    os.utime(old, ns=(-1, -1))
    await stage.finds("siskin of old", "memory/old.md")
    await stage.recovers()


CLOCK_SCENES: Sequence[Scene] = (
    Scene("clock moved back by a year", partial(_moved, way=-1)),
    Scene("clock moved forward by a year", partial(_moved, way=1)),
    Scene("notes dated ahead and before 1970", _dated_ahead),
)
"""Faults of the clock."""

_NAMESPACES = ("unshare", "--user", "--map-root-user", "--mount", "--propagation", "private")
_RIGHTS = "-dac_override,-dac_read_search"
_SHOWN = 2000


def run(options: Options) -> Iterator[Case]:
    """Play every fault once; raises RuntimeError where the system has no namespaces for users."""
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        raise RuntimeError("faults are made in namespaces: this takes unshare and setpriv")
    command = (
        *_NAMESPACES,
        *("setpriv", "--bounding-set", _RIGHTS, "--inh-caps", _RIGHTS, "--"),
        *(sys.executable, "-m", "tests.trials.faults", os.fspath(options.place)),
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            yield Case(**json.loads(line))
    if child.returncode:
        raise RuntimeError(f"the faults ended with {child.returncode}: {' '.join(command[:5])} …")


SCENES: Sequence[Scene] = (*STORAGE_SCENES, *WATCHING_SCENES, *FILES_SCENES, *CLOCK_SCENES)
_TOGETHER = 3


def play_all(place: Path) -> None:
    """Play each fault in a process of its own, and print what came of it."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.trials.faults_stage"])
    for workers, alone in ((_TOGETHER, False), (1, True)):
        with ProcessPoolExecutor(workers, context, max_tasks_per_child=1) as pool:
            playing = {
                pool.submit(_play, scene.name, place / f"{SCENES.index(scene):02d}"): scene.name
                for scene in SCENES
                if scene.alone is alone
            }
            for future in as_completed(playing):
                error, name = future.exception(), f"faults, {playing[future]}"
                case = Case(name, [f"{type(error).__name__}: {error}"[:_SHOWN]])
                print(json.dumps(asdict(case if error else future.result())), flush=True)


def _play(name: str, folder: Path) -> Case:
    scene = next(scene for scene in SCENES if scene.name == name)
    folder.mkdir()
    began = time.monotonic()
    stage = asyncio.run(play(scene, folder))
    facts = {**stage.facts, "seconds": f"{time.monotonic() - began:.1f}"}
    return Case(f"faults, {name}", [line[:_SHOWN] for line in stage.wrong], facts)


if __name__ == "__main__":
    play_all(Path(sys.argv[1]))
