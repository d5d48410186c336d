"""After any sequence of file operations, one sync makes the index what a fresh one would be."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.indexing import Workspace

Operation = Callable[[Workspace], None]

NAMES = (
    "MEMORY.md",
    "a.md",
    "b.md",
    "memory/a.md",
    "memory/2026-02-10.md",
    "memory/x/b.md",
    "x/c.md",
)
FOLDERS = ("memory", "memory/x", "x", "memory/a.md")

names = st.sampled_from(NAMES)
folders = st.sampled_from(FOLDERS)
texts = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=60),
    st.lists(
        st.sampled_from(["alpha", "bravo garden", "# Head", "", "- item", "路由器の設定"]),
        max_size=12,
    ).map("\n".join),
    st.integers(1, 40).map(
        lambda count: "\n".join(
            f"line {n} of a longer note about the garden" for n in range(count * 5)
        )
    ),
    st.integers(1, 3).map(lambda count: "x" * count * 2000),
).map(str.encode)
contents = st.one_of(texts, st.binary(max_size=40))


def writing(path: str, content: bytes) -> Operation:
    """Write a file, where nothing else is in its place (a pipe would wait for a reader)."""

    def apply(workspace: Workspace) -> None:
        target = workspace.root / path
        if (target.is_file() or not os.path.lexists(target)) and possible(target.parent):
            workspace.write(path, content)

    return apply


def possible(folder: Path) -> bool:
    """Whether a folder is there or can be made."""
    return folder.is_dir() or (not os.path.lexists(folder) and possible(folder.parent))


def on_file(path: str, action: Callable[[Path], object]) -> Operation:
    """Do something to a file, where it is there."""

    def apply(workspace: Workspace) -> None:
        target = workspace.root / path
        if target.is_file() and not target.is_symlink():
            action(target)

    return apply


def append(content: bytes) -> Callable[[Path], object]:
    def act(path: Path) -> None:
        with path.open("ab") as stream:
            stream.write(content)

    return act


def rewrite_unseen(path: Path) -> None:
    """Change the content and leave size and modification time as they were."""
    state = path.stat()
    with path.open("r+b") as stream:
        content = stream.read()
        stream.seek(0)
        stream.write(bytes(byte ^ 1 for byte in content))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def moving(source: str, target: str) -> Operation:
    """Rename a file or a folder, where that is possible."""

    def apply(workspace: Workspace) -> None:
        old, new = workspace.root / source, workspace.root / target
        inside = new == old or old in new.parents
        if os.path.lexists(old) and not inside and not new.is_dir() and new.parent.is_dir():
            if old.is_dir() and os.path.lexists(new):
                return
            os.replace(old, new)

    return apply


def making_folder(path: str) -> Operation:
    def apply(workspace: Workspace) -> None:
        if possible(workspace.root / path):
            (workspace.root / path).mkdir(parents=True, exist_ok=True)

    return apply


def removing(path: str) -> Operation:
    def apply(workspace: Workspace) -> None:
        target = workspace.root / path
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True) if possible(target.parent) else None

    return apply


def linking(path: str, target: str) -> Operation:
    def apply(workspace: Workspace) -> None:
        link = workspace.root / path
        if link.parent.is_dir() and not os.path.lexists(link):
            link.symlink_to(workspace.root / target)

    return apply


def piping(path: str) -> Operation:
    def apply(workspace: Workspace) -> None:
        target = workspace.root / path
        if target.parent.is_dir() and not os.path.lexists(target):
            os.mkfifo(target)

    return apply


def syncing(workspace: Workspace) -> None:
    workspace.sync()


def rebuilding(workspace: Workspace) -> None:
    workspace.rebuild()


operations = st.one_of(
    st.builds(writing, names, contents),
    st.builds(writing, names, contents),
    st.builds(on_file, names, contents.map(append)),
    st.builds(on_file, names, st.just(rewrite_unseen)),
    st.builds(on_file, names, st.just(os.utime)),
    st.builds(moving, st.sampled_from(NAMES + FOLDERS), st.sampled_from(NAMES + FOLDERS)),
    st.builds(removing, st.sampled_from(NAMES + FOLDERS)),
    st.builds(making_folder, folders),
    st.builds(linking, names, names),
    st.builds(piping, names),
    st.just(syncing),
    st.just(syncing),
    st.just(rebuilding),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(operations, min_size=3, max_size=25))
def test_a_sync_equals_a_fresh_index(steps: list[Operation]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder) / "notes", Path(folder) / "index")
        try:
            for step in steps:
                step(workspace)
            workspace.sync()
            assert workspace.contents() == workspace.fresh(Path(folder) / "fresh")
            stats = workspace.sync().stats
            changes = (stats.files_added, stats.files_changed, stats.files_removed)
            assert changes == (0, 0, 0)
            assert stats.chunks_written == 0
        finally:
            workspace.close()
