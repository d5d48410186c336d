"""Discovery over random folder trees against a plain recursive reading, and path spelling."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.memory.discover import Scope, discover, is_candidate, may_contain
from memtui.memory.paths import Glob, absolute_path, parts_below, stored_path, unwritten, written
from memtui.model import Reason
from memtui.model.documents import DEFAULT_IGNORE

FOLDERS = st.sampled_from(["memory", "a", "b b", ".git", "node_modules", "note.md"])
NAMES = st.sampled_from(
    ["MEMORY.md", "USER.md", "memory.md", "x.md", "y.markdown", "z.txt", ".#x.md", "q\n.md"]
)
PATHS = st.tuples(st.lists(FOLDERS, max_size=4), NAMES).map(lambda p: Path(*p[0], p[1]))
TREES = st.lists(st.tuples(PATHS, st.sampled_from(["file", "file", "link", "folder link"])))
EXTRAS = st.lists(
    st.sampled_from(["a", "memory", "a/x.md", ".", "**/*.md", "a/*", "no", "../out", "b b/**"]),
    max_size=3,
)


def build(root: Path, tree: list[tuple[Path, str]]) -> None:
    """Make files and links; what collides with something made before is left out."""
    (root.parent / "out").mkdir()
    (root.parent / "out" / "far.md").write_text("far")
    root.mkdir()
    for path, kind in tree:
        place = root / path
        if any(parent.is_symlink() or parent.is_file() for parent in place.parents):
            continue
        if os.path.lexists(place):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if kind == "file":
            place.write_text(str(path))
        else:
            place.symlink_to(root.parent / "out" / ("far.md" if kind == "link" else ""))


def ignored(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in DEFAULT_IGNORE)


def markdown(name: str) -> bool:
    return name.endswith((".md", ".markdown"))


def below(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_symlink() or ignored(path.name):
            continue
        if path.is_dir():
            yield from below(path)
        elif markdown(path.name):
            yield path


def expected(root: Path) -> set[str]:
    names = os.listdir(root)
    memory = "MEMORY.md" in names or ("memory" in names and (root / "memory").is_dir())
    found = set(below(root))
    if memory:
        found = {path for path in found if path.parts[len(root.parts)] == "memory"}
        for name in ("MEMORY.md", "USER.md"):
            if (root / name).is_file() and not (root / name).is_symlink():
                found.add(root / name)
    return {path.relative_to(root).as_posix() for path in found}


@pytest.mark.skipif(os.name != "posix", reason="makes links and names with a line feed")
@given(TREES)
def test_the_files_are_those_of_a_plain_reading(tree: list[tuple[Path, str]]) -> None:
    with tempfile.TemporaryDirectory() as base:
        root = Path(base).resolve() / "root"
        build(root, tree)
        found = discover(Scope(root))
        assert {file.path for file in found.files} == expected(root)
        assert [file.path for file in found.files] == sorted(expected(root))


@pytest.mark.skipif(os.name != "posix", reason="makes links and names with a line feed")
@given(TREES, EXTRAS)
def test_whatever_the_scope_files_are_real_single_and_watched(
    tree: list[tuple[Path, str]], extras: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as base:
        root = Path(base).resolve() / "root"
        build(root, tree)
        scope = Scope(root, tuple(extras))
        found = discover(scope)
        assert found == discover(scope)
        assert len({file.path for file in found.files}) == len(found.files)
        for file in found.files:
            assert file.absolute.is_file()
            assert not file.absolute.is_symlink()
            assert file.absolute.resolve() == file.absolute
            assert file.absolute == Path(absolute_path(file.path, str(root)))
            assert is_candidate(file.absolute, scope)
            assert may_contain(file.absolute.parent, scope)
        assert {file.path for file in found.files} >= expected(root)
        links = {s.path for s in found.skipped if s.reason is Reason.SYMLINK}
        assert all(Path(absolute_path(path, str(root))).is_symlink() for path in links)


NAME_TEXT = st.text(
    st.one_of(
        st.characters(exclude_characters="/\0", exclude_categories=["Cs"]),
        st.sampled_from("\ufffddcff0123456789ab"),
        st.integers(0xDC80, 0xDCFF).map(chr),
    ),
    min_size=1,
    max_size=12,
).filter(lambda name: name not in {".", ".."})


@given(NAME_TEXT, NAME_TEXT)
def test_written_paths_are_valid_and_never_alike(one: str, other: str) -> None:
    for name in (one, other):
        assert written(name).encode()
        assert unwritten(written(name)) == name
    assert (written(one) == written(other)) == (one == other)


@pytest.mark.skipif(os.name != "posix", reason="POSIX paths")
@given(st.lists(NAME_TEXT, min_size=1, max_size=4), st.lists(NAME_TEXT, max_size=3))
def test_stored_paths_lead_back(names: list[str], root_names: list[str]) -> None:
    root = "/" + "/".join(root_names)
    path = "/" + "/".join(names)
    assert absolute_path(stored_path(path, root), root) == os.path.normpath(path)
    parts = parts_below(os.path.join(root, *names), root)
    assert parts == tuple(names)


PIECES = st.sampled_from(["a", "b", "ab", "c.md"])
PATTERN_PIECES = st.sampled_from(["**", "*", "a*", "?", "[ab]", "ab", "*.md"])


def slow_match(pattern: list[str], names: list[str]) -> bool:
    if not pattern:
        return True
    if pattern[0] == "**":
        if slow_match(pattern[1:], names):
            return True
        return bool(names) and slow_match(pattern, names[1:])
    return bool(names) and fnmatchcase(names[0], pattern[0]) and slow_match(pattern[1:], names[1:])


@pytest.mark.skipif(os.name != "posix", reason="POSIX paths")
@given(st.lists(PATTERN_PIECES, min_size=1, max_size=5), st.lists(PIECES, max_size=6))
def test_globs_match_as_a_recursive_reading_does(pattern: list[str], names: list[str]) -> None:
    glob = Glob.parse("/" + "/".join(["base", *pattern]))
    fixed = len(Path(glob.base).parts) - 2
    if pattern[:fixed] == names[:fixed]:
        assert glob.matches(names[fixed:]) == slow_match(pattern, names)
