"""Which files are found, which are left out and why; the spelling of paths."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import reduce
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.errors import Cancelled
from memtui.memory.discover import (
    Discovery,
    Scope,
    discover,
    is_markdown,
    is_memory,
    look_at,
    may_contain,
)
from memtui.memory.documents import read_document
from memtui.memory.paths import Glob, absolute_path, stored_path, unwritten, written
from memtui.model import Reason, SourceFile
from memtui.settings.containment import parts_below
from memtui.settings.schema import MemorySettings
from tests.support.known import load

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX file names, kinds and links")


def write(root: Path, names: str) -> None:
    """Make files of these names; `link -> target` makes a link."""
    for name in names.split("; "):
        path, _, target = name.partition(" -> ")
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if target:
            place.symlink_to(target)
        else:
            place.write_text(f"text of {name}")


def paths(found: Discovery) -> list[str]:
    return [file.path for file in found.files]


def skipped(found: Discovery) -> list[str]:
    return [f"{file.path}: {file.reason.value}" for file in found.skipped]


IGNORED = MemorySettings().ignore
MEMORY = "root/memory/a.md"


@posix
@pytest.mark.parametrize(
    ("_about", "names", "extras", "files", "left_out"), load("reading")["discovery"]
)
def test_what_is_found_and_what_is_left_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    _about: str,
    names: str,
    extras: list[str],
    files: list[str],
    left_out: list[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write(tmp_path, names)
    found = discover(Scope(tmp_path / "root", MemorySettings(extra_paths=tuple(extras))))
    assert paths(found) == files
    assert skipped(found) == left_out
    for file in found.files:
        assert Path(absolute_path(file.path, str(tmp_path / "root"))) == file.absolute


def test_what_is_recorded_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "root/memory/a.md; link -> root; late.md")
    (file,) = discover(Scope(tmp_path / "link")).files
    state = (tmp_path / "root/memory/a.md").stat()
    assert file.absolute == tmp_path / "link/memory/a.md"
    assert (file.source, file.size) == ("memory", state.st_size)
    assert (file.mtime_ns, file.inode) == (state.st_mtime_ns, state.st_ino)
    # Neither the year 2300 nor an inode number of 64 bits fits a signed number of the index.
    os.utime(tmp_path / "late.md", (10_413_792_000, 10_413_792_000))
    lstat = os.lstat

    def unsigned(path: str) -> os.stat_result:
        state = lstat(path)
        values = [state.st_mode, 2**64 - 5, *state[2:]]
        return os.stat_result(values, {"st_mtime_ns": state.st_mtime_ns})

    monkeypatch.setattr(os, "lstat", unsigned)
    (file,) = discover(Scope(tmp_path / "none", MemorySettings(extra_paths=("../late.md",)))).files
    assert file.inode == 2**63 - 5
    assert file.mtime_ns == min(lstat(tmp_path / "late.md").st_mtime_ns, 2**63 - 1)


def test_what_is_ignored_and_how_large_a_file_may_be_can_be_chosen(tmp_path: Path) -> None:
    write(tmp_path, ".git/x.md; drafts-1/y.md; drafts/z.md; [a]/q.md")
    assert paths(discover(Scope(tmp_path, MemorySettings(ignore=("drafts-*", "[[]a]"))))) == [
        ".git/x.md",
        "drafts/z.md",
    ]
    (tmp_path / "big.md").write_bytes(b"x" * 2001)
    (tmp_path / "fits.md").write_bytes(b"x" * 2000)
    found = discover(Scope(tmp_path, MemorySettings(ignore=(), max_file_bytes=2000)))
    assert len(found.files) == 5
    (file,) = found.skipped
    assert (file.reason, file.detail) == (Reason.TOO_LARGE, "2,001 bytes, the limit is 2,000")


@posix
def test_what_is_no_file_or_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "memory/a.md; memory/closed/b.md; memory/secret.md; memory/going.md")
    os.mkfifo(tmp_path / "memory/pipe.md")
    os.mkfifo(tmp_path / "memory/pipe")
    (tmp_path / "USER.md").mkdir()
    (tmp_path / "memory/secret.md").chmod(0)
    monkeypatch.chdir(tmp_path / "memory")
    monkeypatch.setattr(os, "access", lambda path, _mode: not str(path).endswith("secret.md"))
    scan = os.scandir

    class Listing:
        """A listing that was taken just before a file was deleted; one folder is closed."""

        def __init__(self, path: str) -> None:
            if str(path).endswith("closed"):
                raise PermissionError(13, "Permission denied", path)
            with scan(path) as entries:
                self.entries = list(entries)
            if str(path).endswith("memory"):
                (tmp_path / "memory/going.md").unlink()

        def __enter__(self) -> Iterator[os.DirEntry[str]]:
            return iter(self.entries)

        def __exit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr(os, "scandir", Listing)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.md")
        found = discover(Scope(tmp_path, MemorySettings(extra_paths=("/dev/null",))))
    assert paths(found) == ["memory/a.md"]
    assert "memory/closed/" in found.unread, "what the index has of it stays"
    assert [(Path(file.path).name, file.reason, file.detail) for file in found.skipped] == [
        ("null", Reason.NOT_REGULAR, "character device"),
        ("USER.md", Reason.NOT_REGULAR, "folder"),
        ("closed", Reason.UNREADABLE, "permission denied"),
        ("going.md", Reason.VANISHED, "no such file or directory"),
        ("pipe.md", Reason.NOT_REGULAR, "named pipe"),
        ("secret.md", Reason.UNREADABLE, "permission denied"),
        ("socket.md", Reason.NOT_REGULAR, "socket"),
    ]


def test_a_root_that_is_gone_is_itself_skipped_and_discovery_can_be_stopped(tmp_path: Path) -> None:
    found = discover(Scope(tmp_path / "gone"))
    assert (paths(found), skipped(found)) == ([], [".: vanished"])
    with pytest.raises(Cancelled):
        discover(Scope(tmp_path), cancelled=lambda: True)


@pytest.mark.parametrize("extra", ["a\0b", "x" * 5000, "\ud800", "memory/a.md/b"])
def test_impossible_extra_paths_are_listed(tmp_path: Path, extra: str) -> None:
    write(tmp_path, "memory/a.md")
    found = discover(Scope(tmp_path, MemorySettings(extra_paths=(extra,))))
    assert paths(found) == ["memory/a.md"]
    assert found.skipped[0].reason in {Reason.VANISHED, Reason.UNREADABLE}
    assert found.skipped[0].path.encode()


@posix
def test_awkward_names(tmp_path: Path) -> None:
    names = [b"new\nline.md", b"\xff\xfe.md", b"\xef\xbf\xbddcff.md", b"\xff.md", b" lead.md"]
    names += [b"x" * 252 + b".md", b"-rf.md", "東京.md".encode(), b"back\\slash.md", b"\x1b[2J.md"]
    for name in names:
        (tmp_path / os.fsdecode(name)).write_bytes(name)
    found = discover(Scope(tmp_path))
    assert len({file.path for file in found.files}) == len(names)
    for file in found.files:
        assert file.path.encode()
        assert Path(absolute_path(file.path, str(tmp_path))) == file.absolute
        assert file.absolute.read_bytes() == os.fsencode(file.absolute.name)
        assert read_document(file).text


@pytest.mark.skipif(sys.platform != "linux", reason="makes a path longer than PATH_MAX")
def test_folders_nested_beyond_any_path_length(tmp_path: Path) -> None:
    write(tmp_path, "top.md")
    here = os.open(tmp_path, os.O_RDONLY)
    name = "d" * 20
    for _ in range(300):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        found = discover(Scope(tmp_path))
    finally:
        sys.setrecursionlimit(limit)
    assert paths(found) == ["top.md"]
    assert [file.reason for file in found.skipped] == [Reason.UNREADABLE]
    assert "too long" in found.skipped[0].detail


def test_what_marks_a_memory(tmp_path: Path) -> None:
    assert not is_memory(tmp_path / "gone")
    write(tmp_path, "memory")
    assert not is_memory(tmp_path)
    write(tmp_path, "MEMORY.md")
    assert is_memory(tmp_path)


@pytest.mark.parametrize(("path", "expected"), load("reading")["events of files"])
def test_what_an_event_may_be_about(tmp_path: Path, path: str, expected: bool) -> None:
    write(tmp_path, "root/memory/a.md; link -> root")
    root = tmp_path / ("link" if "link" in path else "root")
    extras = ("notes", "globbed/20*/*.md", "../side.md", ".obsidian")
    scope = Scope(root, MemorySettings(extra_paths=extras))
    # Events name a linked root by either spelling.
    for place in {root / path, tmp_path / "root" / path.replace("../link", ".")}:
        assert (is_markdown(place.name) and may_contain(str(place), scope)) is expected
        assert may_contain(str(place.parent), scope) or not expected


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


def below(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_symlink() or any(fnmatchcase(path.name, name) for name in IGNORED):
            continue
        if path.is_dir():
            yield from below(path)
        elif path.name.endswith((".md", ".markdown")):
            yield path


def expected(root: Path) -> list[str]:
    names = os.listdir(root)
    found = {path.relative_to(root).as_posix() for path in below(root)}
    if "MEMORY.md" in names or ("memory" in names and (root / "memory").is_dir()):
        tops = {"MEMORY.md", "USER.md"}
        found = {path for path in found if path in tops or path.startswith("memory/")}
    return sorted(found)


@posix
@given(TREES, EXTRAS)
def test_the_files_are_those_of_a_plain_reading_and_more_are_real_single_and_watched(
    tree: list[tuple[Path, str]], extras: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as base:
        root = Path(base).resolve() / "root"
        build(root, tree)
        assert paths(discover(Scope(root))) == expected(root)
        scope = Scope(root, MemorySettings(extra_paths=tuple(extras)))
        found = discover(scope)
        assert found == discover(scope)
        assert len(set(paths(found))) == len(found.files)
        assert set(paths(found)) >= set(expected(root))
        for file in found.files:
            assert file.absolute.is_file()
            assert file.absolute.resolve() == file.absolute
            assert file.absolute == Path(absolute_path(file.path, str(root)))
            assert may_contain(str(file.absolute), scope)
            assert may_contain(str(file.absolute.parent), scope)
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


@posix
@given(NAME_TEXT, NAME_TEXT, st.lists(NAME_TEXT, max_size=3))
def test_paths_are_written_validly_never_alike_and_lead_back(
    one: str, other: str, root_names: list[str]
) -> None:
    for name in (one, other):
        assert written(name).encode()
        assert unwritten(written(name)) == name
    assert (written(one) == written(other)) == (one == other)
    root, path = "/" + "/".join(root_names), f"/{one}/{other}"
    assert absolute_path(stored_path(path, root), root) == os.path.normpath(path)
    assert parts_below(os.path.join(root, one, other), root) == (one, other)


def slow_match(pattern: list[str], names: list[str]) -> bool:
    if not pattern:
        return True
    if pattern[0] == "**" and slow_match(pattern[1:], names):
        return True
    fits = bool(names) and (pattern[0] == "**" or fnmatchcase(names[0], pattern[0]))
    return fits and slow_match(pattern if pattern[0] == "**" else pattern[1:], names[1:])


@posix
@given(
    st.lists(st.sampled_from(["**", "*", "a*", "?", "[ab]", "ab", "*.md"]), min_size=1, max_size=5),
    st.lists(st.sampled_from(["a", "b", "ab", "c.md"]), max_size=6),
)
def test_globs_match_as_a_recursive_reading_does(pattern: list[str], names: list[str]) -> None:
    glob = Glob.parse("/" + "/".join(["base", *pattern]))
    fixed = len(Path(glob.base).parts) - 2
    if pattern[:fixed] == names[:fixed]:
        assert glob.done(reduce(glob.step, names[fixed:], glob.start)) == slow_match(pattern, names)


@posix
def test_no_folder_is_listed_that_need_not_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    scan = os.scandir

    def listing(path: str) -> object:
        listed.append(os.path.relpath(path, tmp_path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", listing)
    write(tmp_path, "memory/a/1.md; memory/b/2.md; memory/b/c/3.md; x/4.md; x/deep/5.md; y/6.md")
    file = look_at(Scope(tmp_path), "memory/b/2.md")
    assert isinstance(file, SourceFile)
    assert listed == [".", "memory", "memory/b"]
    (tmp_path / "memory/b/link.md").symlink_to(tmp_path / "y/6.md")
    link = look_at(Scope(tmp_path), "memory/b/link.md")
    assert getattr(link, "reason", None) is Reason.SYMLINK
    listed.clear()
    discover(Scope(tmp_path, MemorySettings(extra_paths=("x/*.md",))))
    assert sorted(listed) == [".", "memory", "memory/a", "memory/b", "memory/b/c", "x"]
