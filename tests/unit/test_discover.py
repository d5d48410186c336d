"""Which files are found, which are left out and why."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memtui.errors import Cancelled
from memtui.memory.discover import (
    Discovery,
    Scope,
    discover,
    is_candidate,
    is_memory,
    may_contain,
)
from memtui.memory.documents import read_document
from memtui.memory.paths import absolute_path
from memtui.model import Reason
from memtui.model.documents import DEFAULT_IGNORE

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX file names and kinds")


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {name}")


def find(root: Path, *extra: str, **options: int | tuple[str, ...]) -> Discovery:
    ignore = options.get("ignore", DEFAULT_IGNORE)
    limit = options.get("max_file_bytes", 2**20)
    assert isinstance(ignore, tuple)
    assert isinstance(limit, int)
    return discover(Scope(root, extra, ignore=ignore, max_file_bytes=limit))


def paths(found: Discovery) -> list[str]:
    return [file.path for file in found.files]


def skipped(found: Discovery) -> list[tuple[str, Reason]]:
    return [(file.path, file.reason) for file in found.skipped]


def test_a_memory_has_its_root_files_and_what_is_below_memory(tmp_path: Path) -> None:
    write(tmp_path, "MEMORY.md", "USER.md", "README.md", "AGENTS.md", "notes/x.md")
    write(tmp_path, "memory/2026-02-10.md", "memory/a/b/c.markdown", "memory/data.json")
    found = find(tmp_path)
    assert paths(found) == ["MEMORY.md", "USER.md", "memory/2026-02-10.md", "memory/a/b/c.markdown"]
    assert skipped(found) == []


def test_any_other_folder_counts_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path, "memory.md", "README.MD", "a/b.markdown", "a/c.txt", "z.md")
    found = find(tmp_path)
    assert paths(found) == ["README.MD", "a/b.markdown", "memory.md", "z.md"]
    assert skipped(found) == []


def test_what_is_recorded_of_a_file(tmp_path: Path) -> None:
    write(tmp_path, "memory/a.md")
    (file,) = find(tmp_path).files
    state = (tmp_path / "memory/a.md").stat()
    assert file.absolute == tmp_path / "memory" / "a.md"
    assert (file.source, file.size) == ("memory", state.st_size)
    assert (file.mtime_ns, file.inode) == (state.st_mtime_ns, state.st_ino)


def test_a_lowercase_root_file_is_named(tmp_path: Path) -> None:
    write(tmp_path, "memory.md", "memory/a.md")
    found = find(tmp_path)
    assert paths(found) == ["memory/a.md"]
    (file,) = found.skipped
    assert (file.path, file.reason) == ("memory.md", Reason.IGNORED)
    assert "MEMORY.md" in file.detail
    assert skipped(find(tmp_path, "memory.md")) == [("memory.md", Reason.IGNORED)]


def test_ignored_folders_are_listed_and_not_entered(tmp_path: Path) -> None:
    write(tmp_path, "a.md", ".git/x.md", "sub/node_modules/y.md", "sub/b.md", ".#a.md")
    found = find(tmp_path)
    assert paths(found) == ["a.md", "sub/b.md"]
    assert skipped(found) == [
        (".#a.md", Reason.IGNORED),
        (".git", Reason.IGNORED),
        ("sub/node_modules", Reason.IGNORED),
    ]


def test_what_is_ignored_can_be_chosen(tmp_path: Path) -> None:
    write(tmp_path, ".git/x.md", "drafts-1/y.md", "drafts/z.md", "[a]/q.md")
    assert paths(find(tmp_path, ignore=("drafts-*", "[[]a]"))) == [".git/x.md", "drafts/z.md"]
    assert len(find(tmp_path, ignore=()).files) == 4


def test_links_are_listed_and_never_followed(tmp_path: Path) -> None:
    write(tmp_path, "root/memory/a.md", "outside/b.md", "outside/c.txt")
    memory = tmp_path / "root" / "memory"
    (memory / "file.md").symlink_to("../../outside/b.md")
    (memory / "folder").symlink_to("../../outside", target_is_directory=True)
    (memory / "loop").symlink_to(".", target_is_directory=True)
    (memory / "dangling.md").symlink_to("nowhere.md")
    (memory / "image.png").symlink_to("../../outside/c.txt")
    (tmp_path / "root" / "MEMORY.md").symlink_to("../outside/b.md")
    found = find(tmp_path / "root")
    assert paths(found) == ["memory/a.md"]
    assert skipped(found) == [
        ("MEMORY.md", Reason.SYMLINK),
        ("memory/dangling.md", Reason.SYMLINK),
        ("memory/file.md", Reason.SYMLINK),
        ("memory/folder", Reason.SYMLINK),
        ("memory/loop", Reason.SYMLINK),
    ]
    assert found.skipped[1].detail == "link to nowhere.md"


def test_a_linked_memory_folder_is_listed(tmp_path: Path) -> None:
    write(tmp_path, "elsewhere/a.md", "root/README.md")
    (tmp_path / "root" / "memory").symlink_to("../elsewhere", target_is_directory=True)
    found = find(tmp_path / "root")
    assert paths(found) == []
    assert skipped(found) == [("memory", Reason.SYMLINK)]


def test_a_linked_root_is_opened(tmp_path: Path) -> None:
    write(tmp_path, "real/memory/a.md")
    (tmp_path / "link").symlink_to("real", target_is_directory=True)
    (file,) = find(tmp_path / "link").files
    assert (file.path, file.absolute) == ("memory/a.md", tmp_path / "link" / "memory" / "a.md")


@POSIX
def test_pipes_sockets_and_devices_are_not_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "memory/a.md")
    os.mkfifo(tmp_path / "memory" / "pipe.md")
    os.mkfifo(tmp_path / "memory" / "pipe")
    (tmp_path / "USER.md").mkdir()
    monkeypatch.chdir(tmp_path / "memory")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.md")
        found = find(tmp_path, "/dev/null")
    assert paths(found) == ["memory/a.md"]
    assert [(Path(file.path).name, file.reason, file.detail) for file in found.skipped] == [
        ("null", Reason.NOT_REGULAR, "character device"),
        ("USER.md", Reason.NOT_REGULAR, "folder"),
        ("pipe.md", Reason.NOT_REGULAR, "named pipe"),
        ("socket.md", Reason.NOT_REGULAR, "socket"),
    ]


def test_large_files_are_named_with_their_size(tmp_path: Path) -> None:
    (tmp_path / "big.md").write_bytes(b"x" * 2001)
    (tmp_path / "fits.md").write_bytes(b"x" * 2000)
    found = find(tmp_path, max_file_bytes=2000)
    assert paths(found) == ["fits.md"]
    assert found.skipped[0].reason is Reason.TOO_LARGE
    assert found.skipped[0].detail == "2,001 bytes, the limit is 2,000"


def test_unreadable_folders_and_files_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "memory/a.md", "memory/closed/b.md", "memory/secret.md")
    (tmp_path / "memory" / "secret.md").chmod(0)
    really_scan = os.scandir

    def scan(path: str) -> os.DirEntry[str]:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return really_scan(path)  # type: ignore[return-value]

    monkeypatch.setattr(os, "scandir", scan)
    monkeypatch.setattr(os, "access", lambda path, _mode: not str(path).endswith("secret.md"))
    found = find(tmp_path)
    assert paths(found) == ["memory/a.md"]
    assert [(file.path, file.reason, file.detail) for file in found.skipped] == [
        ("memory/closed", Reason.UNREADABLE, "permission denied"),
        ("memory/secret.md", Reason.UNREADABLE, "permission denied"),
    ]


def test_a_root_that_is_gone_is_itself_skipped(tmp_path: Path) -> None:
    found = find(tmp_path / "gone")
    assert paths(found) == []
    assert skipped(found) == [(".", Reason.VANISHED)]


def test_a_file_that_goes_while_listing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.md", "b.md")

    class Listing:
        """A folder listing that was taken just before `a.md` was deleted."""

        def __init__(self, path: str) -> None:
            with really_scan(path) as entries:
                self.entries = list(entries)
            (tmp_path / "a.md").unlink(missing_ok=True)

        def __enter__(self) -> Iterator[os.DirEntry[str]]:
            return iter(self.entries)

        def __exit__(self, *_: object) -> None:
            return None

    really_scan = os.scandir
    monkeypatch.setattr(os, "scandir", Listing)
    found = find(tmp_path)
    assert paths(found) == ["b.md"]
    assert skipped(found) == [("a.md", Reason.VANISHED)]


def test_extra_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    write(tmp_path, "root/memory/a.md", "root/notes/b.md", "root/README.md", "root/data.json")
    write(tmp_path, "home/vault/c.md", "home/vault/deep/d.md", "shared/e.md")
    found = find(
        tmp_path / "root",
        *(" notes ", "", "README.md", "data.json", "~/vault", "../shared/e.md", "gone.md"),
    )
    assert paths(found) == [
        "../home/vault/c.md",
        "../home/vault/deep/d.md",
        "../shared/e.md",
        "README.md",
        "memory/a.md",
        "notes/b.md",
    ]
    assert skipped(found) == [("data.json", Reason.IGNORED), ("gone.md", Reason.VANISHED)]
    for file in found.files:
        assert Path(absolute_path(file.path, str(tmp_path / "root"))) == file.absolute


def test_an_extra_folder_may_have_an_ignored_name(tmp_path: Path) -> None:
    write(tmp_path, "memory/a.md", ".obsidian/b.md", ".obsidian/.git/c.md")
    assert paths(find(tmp_path, ".obsidian")) == [".obsidian/b.md", "memory/a.md"]


def test_a_linked_extra_path_is_listed(tmp_path: Path) -> None:
    write(tmp_path, "root/memory/a.md", "other/b.md")
    (tmp_path / "root" / "link").symlink_to("../other", target_is_directory=True)
    (tmp_path / "root" / "link.md").symlink_to("../other/b.md")
    found = find(tmp_path / "root", "link", "link.md", "link/*.md")
    assert paths(found) == ["memory/a.md"]
    assert skipped(found) == [("link", Reason.SYMLINK), ("link.md", Reason.SYMLINK)]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("x/*.md", ["x/1.md"]),
        ("x/**/*.md", ["x/1.md", "x/s/2.md", "x/s/t/3.md"]),
        ("x/**", ["x/1.md", "x/s/2.md", "x/s/t/3.md"]),
        ("x/*", ["x/1.md", "x/s/2.md", "x/s/t/3.md"]),
        ("x/s*", ["x/s/2.md", "x/s/t/3.md"]),
        ("x/?/t/*", ["x/s/t/3.md"]),
        ("**/t", ["x/s/t/3.md"]),
        ("[xy]/[12].md", ["x/1.md", "y/2.md"]),
        ("../side/**/5.md", ["../side/q/5.md"]),
        ("odd[1]/*.md", ["odd[1]/6.md"]),
    ],
)
def test_globs(tmp_path: Path, pattern: str, names: list[str]) -> None:
    write(tmp_path, "root/memory/a.md", "root/x/1.md", "root/x/s/2.md", "root/x/s/t/3.md")
    write(tmp_path, "root/y/2.md", "root/odd[1]/6.md", "side/q/5.md", "root/x/s/t/4.txt")
    pattern = pattern.replace("odd[1]", "odd[[]1]")
    found = find(tmp_path / "root", pattern)
    assert paths(found) == sorted(["memory/a.md", *names])
    assert skipped(found) == []


def test_a_path_with_brackets_that_exists_is_no_glob(tmp_path: Path) -> None:
    write(tmp_path, "memory/a.md", "odd[1]/b.md", "odd1/c.md")
    assert paths(find(tmp_path, "odd[1]")) == ["memory/a.md", "odd[1]/b.md"]


def test_globs_do_not_follow_links(tmp_path: Path) -> None:
    write(tmp_path, "memory/a.md", "x/1.md")
    (tmp_path / "x" / "loop").symlink_to(".", target_is_directory=True)
    found = find(tmp_path, "x/**/*.md")
    assert paths(found) == ["memory/a.md", "x/1.md"]


def test_a_glob_lists_no_folder_it_need_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "memory/a.md", "x/1.md", "x/deep/2.md", "y/3.md")
    listed: list[str] = []
    really_scan = os.scandir

    def scan(path: str) -> object:
        listed.append(os.path.relpath(path, tmp_path))
        return really_scan(path)

    monkeypatch.setattr(os, "scandir", scan)
    find(tmp_path, "x/*.md")
    assert listed == [".", "memory", "x"]


def test_a_glob_that_matches_nothing_is_listed(tmp_path: Path) -> None:
    write(tmp_path, "memory/a.md")
    found = find(tmp_path, "none/*.md", "memory/*.txt", "memory/b*")
    assert {reason for _, reason in skipped(found)} == {Reason.VANISHED}
    assert len(found.skipped) == 3
    again = find(tmp_path, "memory/*.md", "memory/*.md")
    assert skipped(again) == [("memory/a.md", Reason.DUPLICATE_FILE)]


@pytest.mark.parametrize("extra", ["a\0b", "x" * 5000, "\ud800", "memory/a.md/b"])
def test_impossible_extra_paths_are_listed(tmp_path: Path, extra: str) -> None:
    write(tmp_path, "memory/a.md")
    found = find(tmp_path, extra)
    assert paths(found) == ["memory/a.md"]
    assert found.skipped[0].reason in {Reason.VANISHED, Reason.UNREADABLE}
    assert found.skipped[0].path.encode()


def test_a_file_reached_twice_is_kept_once(tmp_path: Path) -> None:
    write(tmp_path, "real/memory/a.md")
    (tmp_path / "link").symlink_to("real", target_is_directory=True)
    found = find(tmp_path / "real", "memory/a.md", str(tmp_path / "link" / "memory"))
    assert paths(found) == ["memory/a.md"]
    assert skipped(found) == [
        ("../link/memory/a.md", Reason.DUPLICATE_FILE),
        ("memory/a.md", Reason.DUPLICATE_FILE),
    ]
    assert found.skipped[0].detail == "already found as memory/a.md"


def test_hard_links_are_files_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    os.link(tmp_path / "a.md", tmp_path / "b.md")
    assert paths(find(tmp_path)) == ["a.md", "b.md"]


@POSIX
def test_awkward_names(tmp_path: Path) -> None:
    names = [
        b"new\nline.md",
        b"\xff\xfe.md",
        b"\xef\xbf\xbddcff.md",
        b"\xff.md",
        b"x" * 252 + b".md",
    ]
    names += [
        b" lead.md",
        b"-rf.md",
        "ghi chú 東京.md".encode(),
        b"back\\slash.md",
        b"[x]\x1b[2J.md",
    ]
    for name in names:
        (tmp_path / os.fsdecode(name)).write_bytes(name)
    found = find(tmp_path)
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
    name = "d" * 200
    for _ in range(30):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    found = find(tmp_path)
    assert paths(found) == ["top.md"]
    assert [file.reason for file in found.skipped] == [Reason.UNREADABLE]
    assert "too long" in found.skipped[0].detail


def test_deep_folders_do_not_overflow_the_stack(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(400):
        deep /= "d"
        try:
            deep.mkdir()
        except OSError:
            break
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        found = find(tmp_path)
    finally:
        sys.setrecursionlimit(limit)
    assert found.files == ()


def test_discovery_can_be_cancelled(tmp_path: Path) -> None:
    write(tmp_path, "memory/a/b.md")
    with pytest.raises(Cancelled):
        discover(Scope(tmp_path), cancelled=lambda: True)


def test_what_marks_a_memory(tmp_path: Path) -> None:
    assert not is_memory(tmp_path)
    assert not is_memory(tmp_path / "gone")
    write(tmp_path, "memory")
    assert not is_memory(tmp_path)
    write(tmp_path, "MEMORY.md")
    assert is_memory(tmp_path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("MEMORY.md", True),
        ("USER.md", True),
        ("README.md", False),
        ("memory/new.md", True),
        ("memory/deep/er/new.markdown", True),
        ("memory/new.txt", False),
        ("memory/.git/new.md", False),
        ("memory2/new.md", False),
        ("notes/new.md", True),
        ("notes/node_modules/new.md", False),
        ("globbed/2026/new.md", True),
        ("globbed/other/new.md", False),
        ("../side.md", True),
        ("../other.md", False),
    ],
)
def test_candidates_of_a_memory(tmp_path: Path, path: str, *, expected: bool) -> None:
    write(tmp_path, "root/memory/a.md", "root/notes/b.md")
    scope = Scope(tmp_path / "root", ("notes", "globbed/20*/*.md", "../side.md"))
    assert is_candidate(tmp_path / "root" / path, scope) is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".", True),
        ("memory", True),
        ("memory/sub", True),
        ("memory/node_modules", False),
        ("notes", True),
        ("code", False),
        ("globbed", True),
        ("globbed/2026", True),
        ("globbed/other", False),
        ("..", True),
        ("../elsewhere", False),
    ],
)
def test_folders_that_may_hold_candidates(tmp_path: Path, path: str, *, expected: bool) -> None:
    write(tmp_path, "root/memory/a.md")
    scope = Scope(tmp_path / "root", ("notes", "globbed/20*/*.md", "../side/x.md"))
    assert may_contain(tmp_path / "root" / path, scope) is expected


def test_candidates_of_a_plain_folder(tmp_path: Path) -> None:
    scope = Scope(tmp_path)
    assert is_candidate(tmp_path / "README.md", scope)
    assert is_candidate(tmp_path / "a" / "b.md", scope)
    assert not is_candidate(tmp_path / ".git" / "b.md", scope)
    assert may_contain(tmp_path / "a", scope)


def test_candidates_by_either_spelling_of_a_linked_root(tmp_path: Path) -> None:
    write(tmp_path, "real/memory/a.md")
    (tmp_path / "link").symlink_to("real", target_is_directory=True)
    scope = Scope(tmp_path / "link")
    assert is_candidate(tmp_path / "link" / "memory" / "n.md", scope)
    assert is_candidate(tmp_path / "real" / "memory" / "n.md", scope)


def test_a_file_dated_after_2262_is_an_ordinary_file(tmp_path: Path) -> None:
    note = tmp_path / "MEMORY.md"
    note.write_text("later\n", encoding="utf-8")
    year_2300 = 10_413_792_000
    os.utime(note, (year_2300, year_2300))
    (found,) = discover(Scope(tmp_path)).files
    assert found.mtime_ns == min(note.stat().st_mtime_ns, 2**63 - 1)


def test_a_link_on_the_way_to_an_extra_path_is_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    write(outside, "deep/secret.md")
    write(root, "MEMORY.md")
    (root / "link").symlink_to(outside)
    found = find(root, "link/deep/secret.md", "link/deep", "link/deep/*.md")
    assert [file.path for file in found.files] == ["MEMORY.md"]
    assert {(file.path, file.reason) for file in found.skipped} == {
        ("link/deep/secret.md", Reason.SYMLINK),
        ("link/deep", Reason.SYMLINK),
    }


def test_an_inode_number_fits_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "note.md")
    lstat = os.lstat

    def unsigned(path: str) -> os.stat_result:
        state = lstat(path)
        values = list(state)
        values[1] = 2**64 - 5
        return os.stat_result(values, {"st_mtime_ns": state.st_mtime_ns})

    monkeypatch.setattr(os, "lstat", unsigned)
    found = find(tmp_path / "root", str(tmp_path / "note.md"))
    assert [file.inode for file in found.files] == [2**63 - 5]
