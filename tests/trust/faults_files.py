"""Faults of single notes: replaced, growing, oddly named, huge."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from memtui.memory import documents
from memtui.model import SourceFile
from tests.trust.faults_stage import Scene, Stage
from tests.tui.harness import press

_MEGABYTE = 10**6
_HERON = "memory/heron.md"


# --- replaced -------------------------------------------------------------------------------


async def _by_folder(stage: Stage) -> None:
    path = _gone(stage)
    path.mkdir()
    (path / "inner.md").write_text("# Inner\n\nA siskin.\n", encoding="utf-8")
    await stage.finds("siskin", f"{_HERON}/inner.md")
    await stage.named(f"{_HERON}/inner.md")
    (path / "inner.md").unlink()
    path.rmdir()
    await _back(stage)


async def _by_pipe(stage: Stage) -> None:
    os.mkfifo(_gone(stage))
    await stage.named(_HERON, "named pipe", screen="4")
    (stage.root / _HERON).unlink()
    await _back(stage)


async def _by_loop(stage: Stage) -> None:
    path = _gone(stage)
    other = path.with_name("round.md")
    path.symlink_to(other.name)
    other.symlink_to(path.name)
    await stage.named(_HERON, "link", screen="4")
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
        await stage.named("memory/swift.md", "not a regular file", screen="4")
    (stage.root / "memory/swift.md").unlink()
    await stage.recovers()


async def _grows(stage: Stage) -> None:
    """The note grows before each of the first reads, as a log does."""

    def grow(path: Path) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write("\nOne more dunlin.\n")

    stage.facts["grown"] = 5
    with _before_reading(stage, "memory/log.md", grow, times=5):
        stage.write("memory/log.md", "# Log\n\nA siskin.\n")
        await stage.named("waiting")
        await stage.finds("siskin", "memory/log.md")
    await stage.recovers()
    await stage.finds("dunlin", "memory/log.md")


async def _grows_beyond(stage: Stage) -> None:
    """The note is small when it is found, and larger than the limit when it is read."""

    def grow(path: Path) -> None:
        with path.open("ab") as file:
            file.write(b"x\n" * _MEGABYTE)

    with _before_reading(stage, "memory/log.md", grow):
        stage.write("memory/log.md", "# Log\n\nA siskin.\n")
        await stage.named("memory/log.md", "large", screen="4")
    stage.write("memory/log.md", "# Log\n\nA siskin.\n")
    await stage.finds("siskin", "memory/log.md")
    await stage.recovers()


@contextmanager
def _before_reading(
    stage: Stage, name: str, happens: Callable[[Path], None], times: int = 1
) -> Iterator[None]:
    """Let something happen to a note after it was found and before it is opened."""
    wanted, read, left = stage.root / name, documents._read, [happens] * times

    def reading(file: SourceFile, max_bytes: int) -> bytes:
        if file.absolute == wanted and left:
            left.pop()(wanted)
        return read(file, max_bytes)

    with patch.object(documents, "_read", reading):
        yield


# --- names ----------------------------------------------------------------------------------


async def _case(stage: Stage) -> None:
    path = stage.root / _HERON
    path.rename(path.with_name("HERON.md"))
    await stage.finds("heron", "memory/HERON.md")
    (stage.root / "MEMORY.md").rename(stage.root / "memory.md")
    await stage.named("memory.md", "exactly MEMORY.md", screen="4")
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
    await stage.named("caf")
    await stage.named("red")
    await stage.named("nnnnnnn")
    await stage.recovers()


def _hits_with(stage: Stage, word: str) -> list[str]:
    ranked = stage.app.search_screen.ranked
    return [hit.chunk.path for hit in ranked.hits if word in hit.chunk.text] if ranked else []


async def _bytes(stage: Stage) -> None:
    stage.write("memory/latin.md", b"# Latin\n\nA caf\xe9 with a dotterel, \x00 and \x1b[2J.\n")
    await stage.finds("dotterel", "memory/latin.md")
    await press(stage.pilot, "escape", "2")
    for _ in range(8):
        await press(stage.pilot, "j")
        await stage.pilot.pause(0.1)
        if stage.glimpse("not UTF-8"):
            break
    await stage.named("not UTF-8", "bad sequence")
    await press(stage.pilot, "escape")
    await stage.recovers()


# --- size -----------------------------------------------------------------------------------


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
    await stage.named("memory/large.md", "bytes, the limit is", screen="4")
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


SCENES: Sequence[Scene] = (
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
