"""The state of a folder tells every change of a note in it, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from memtui.memory.discover import Scope, discover
from memtui.memory.folders import look_into


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of two notes, another file and a folder."""
    (tmp_path / "a.md").write_text("one")
    (tmp_path / "b.markdown").write_text("two")
    (tmp_path / "c.txt").write_text("no note")
    (tmp_path / "below").mkdir()
    return tmp_path


def digest(folder: Path) -> str:
    """The digest of a folder that one look is enough for."""
    look = look_into(os.fspath(folder))
    assert look is not None
    return look.digest


def replaced(folder: Path) -> None:
    """Put another file with the same size and time in the place of a note."""
    before = (folder / "a.md").stat()
    (folder / "new").write_text("eno")
    os.utime(folder / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (folder / "new").replace(folder / "a.md")


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "a.md").write_text("longer"),
        lambda folder: os.utime(folder / "a.md", ns=(5, 5)),
        lambda folder: (folder / "a.md").unlink(),
        lambda folder: (folder / "a.md").chmod(0o600),
        lambda folder: (folder / "a.md").rename(folder / "d.md"),
        lambda folder: (folder / "D.MD").write_text(""),
        replaced,
    ],
)
def test_every_change_of_a_note_shows(folder: Path, change: Callable[[Path], object]) -> None:
    before = digest(folder)
    change(folder)
    assert digest(folder) != before


def test_what_is_no_note_does_not_show(folder: Path) -> None:
    before = digest(folder)
    (folder / "c.txt").write_text("other")
    (folder / "below" / "a.md").write_text("below")
    (folder / "below" / "b").mkdir()
    assert digest(folder) == before
    look = look_into(os.fspath(folder))
    assert look is not None
    assert look.folders == ["below"]
    assert look.state.files == 2


@pytest.mark.parametrize("odd", ["link", "pipe", "gone"])
def test_one_look_does_not_do_for_what_is_odd(folder: Path, odd: str) -> None:
    if odd == "link":
        (folder / "link").symlink_to(folder / "below")
    elif odd == "pipe":
        os.mkfifo(folder / "pipe")
    assert look_into(os.fspath(folder / "away" if odd == "gone" else folder)) is None


def test_discovery_passes_over_what_is_as_before(tmp_path: Path) -> None:
    for name in ("memory/a.md", "memory/x/b.md", "memory/x/c.md", "memory/y/.#d.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    first = discover(Scope(tmp_path), before={})
    assert first.files == discover(Scope(tmp_path)).files
    assert set(first.folders) == {"memory/", "memory/x/"}
    assert first.seen == 3
    (tmp_path / "memory/x/b.md").write_text("changed")
    again = discover(Scope(tmp_path, extra_paths=("memory/a.md",)), before=first.folders)
    assert again.unchanged == {"memory/"}
    assert [file.path for file in again.files] == ["memory/x/b.md", "memory/x/c.md"]
    assert again.seen == 3
    full = discover(Scope(tmp_path, extra_paths=("memory/a.md",)))
    assert again.skipped == full.skipped
