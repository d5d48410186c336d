"""Faults of the disk below the index: full, read-only, gone, damaged, foreign, newer."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from memtui.index.database import PAGE_SIZE, open_database
from memtui.index.schema import read_meta, write_meta
from tests.trust.faults_stage import Scene, Stage
from tests.tui.harness import press

_SMALL = "size=3m"
_PIECE = 64 * 1024


def mount(folder: Path, options: str) -> None:
    """Mount a small file system in memory."""
    folder.mkdir(exist_ok=True)
    _call("mount", "-t", "tmpfs", "-o", options, "none", os.fspath(folder))


def remount(folder: Path, options: str) -> None:
    """Change how a file system is mounted."""
    _call("mount", "-o", f"remount,{options}", os.fspath(folder))


def unmount(folder: Path) -> None:
    """Take a file system away, though it is in use."""
    _call("umount", "--lazy", os.fspath(folder))


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


# --- no room, no right ----------------------------------------------------------------------


def _small_data(stage: Stage) -> None:
    mount(stage.data, _SMALL)


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
    await press(stage.pilot, "y")
    await stage.named("✗ error", "no space left")
    await stage.finds("heron", "memory/heron.md")
    filler.unlink()
    await stage.recovers("r")


async def _read_only_data(stage: Stage) -> None:
    folder = stage.index.folder
    for path in (*folder.iterdir(), folder):
        path.chmod(0o500 if path.is_dir() else 0o400)
    stage.write("memory/more.md", "# More\n\nA wren.\n")
    await stage.named("✗ error", "cannot be", "check the folder's permissions")
    await stage.finds("heron", "memory/heron.md")
    folder.chmod(0o700)
    for path in folder.iterdir():
        path.chmod(0o600)
    await stage.recovers("r")
    await stage.finds("wren", "memory/more.md")


def _read_only_mount(stage: Stage) -> None:
    mount(stage.data, f"{_SMALL},ro")


async def _read_only_at_start(stage: Stage) -> None:
    await stage.named("cannot be made", "Read-only file system")
    remount(stage.data, "rw")
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
    await stage.named("memory/heron.md", "permission denied", screen="4")
    path.chmod(0o600)
    await press(stage.pilot, "escape", "r")
    await stage.finds("heron", "memory/heron.md")
    await stage.recovers()


# --- gone -----------------------------------------------------------------------------------


def _mounted_root(stage: Stage) -> None:
    mount(stage.root, _SMALL)


async def _unmounted(stage: Stage) -> None:
    aside = stage.place / "aside"
    aside.mkdir()
    _call("mount", "--bind", os.fspath(stage.root), os.fspath(aside))
    unmount(stage.root)
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
    await stage.named("the embedding cache was deleted", screen="4")
    await stage.recovers("R")


# --- damaged, foreign, newer ----------------------------------------------------------------


def _in_another_process(action: str, path: Path) -> None:
    """Change a file as another program does: its closing takes none of this process's locks."""
    code = f"import sys; p = sys.argv[1]; {action}"
    _call("python3", "-c", code, os.fspath(path))


async def _corrupt_page(stage: Stage) -> None:
    size = stage.live.stat().st_size
    action = (
        f"f = open(p, 'r+b'); f.seek({PAGE_SIZE}); f.write(b'\\xa5' * {size - PAGE_SIZE}); "
        "f.close()"
    )
    _in_another_process(action, stage.live)
    await stage.asks("owl")
    await stage.named("is damaged")
    await stage.recovers("r")


async def _truncated(stage: Stage) -> None:
    _in_another_process(f"import os; os.truncate(p, {PAGE_SIZE})", stage.live)
    await stage.asks("owl")
    await stage.named("is damaged")
    await stage.recovers("r")


async def _emptied(stage: Stage) -> None:
    _in_another_process("import os; os.truncate(p, 0)", stage.live)
    await stage.asks("owl")
    await stage.named("index-", "memtui index")
    await stage.recovers("r")


async def _cache_truncated(stage: Stage) -> None:
    action = "import sqlite3; sqlite3.connect(p).execute('PRAGMA wal_checkpoint(TRUNCATE)')"
    _in_another_process(action, stage.index.cache_path)
    _in_another_process(f"import os; os.truncate(p, {PAGE_SIZE})", stage.index.cache_path)
    stage.write("memory/more.md", "# More\n\nA wren.\n")
    await stage.named("embedding cache was damaged and starts anew", screen="4")
    await stage.recovers("R")


async def _foreign(stage: Stage) -> None:
    other = stage.place / "photo.db"
    other.write_bytes(b"\x89PNG" + bytes(range(256)) * 400)
    other.replace(stage.live)
    await stage.asks("owl")
    await stage.named("is damaged")
    await stage.recovers("r")


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


SCENES: Sequence[Scene] = (
    Scene("disk full", _disk_full, prepare=_small_data),
    Scene("disk full in a rebuild", _full_and_rebuilt, prepare=_small_data),
    Scene("read-only folder", _read_only_data),
    Scene("read-only file system at the start", _read_only_at_start, prepare=_read_only_mount,
          opens=False),
    Scene("permission for the folder lost in mid-run", _permission_lost),
    Scene("permission for a note lost in mid-run", _permission_of_a_note),
    Scene("unmounted root", _unmounted, prepare=_mounted_root),
    Scene("root moved away", _root_gone),
    Scene("index deleted under the interface", _index_deleted, cache_dies=True),
    Scene("cache deleted under the interface", _cache_deleted, cache_dies=True),
    Scene("corrupt pages", _corrupt_page),
    Scene("index truncated", _truncated),
    Scene("index emptied", _emptied),
    Scene("cache truncated", _cache_truncated, cache_dies=True),
    Scene("foreign file in the index's place", _foreign),
    Scene("newer schema", _newer),
)  # fmt: skip
"""Faults of storage."""
