"""Which files OpenClaw indexes, release by release."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memtui.errors import Cancelled
from memtui.index.foreign.notes import Listing, Why, list_memory
from memtui.index.foreign.sessions import session_id
from memtui.settings.openclaw import MemorySearchConfig

RELEASES = ("2026.2", "2026.4", "2026.7", "2026.9")
LATER = RELEASES[1:]


def write(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"# {name}\n", encoding="utf-8")
    return root


def found(root: Path, release: str, *extra: str, home: Path | None = None) -> list[str]:
    return sorted(look(root, release, *extra, home=home).found)


def look(root: Path, release: str, *extra: str, home: Path | None = None) -> Listing:
    return list_memory(root, MemorySearchConfig(extra_paths=extra), release, home=home)


@pytest.mark.parametrize("release", RELEASES)
def test_the_root_files(tmp_path: Path, release: str) -> None:
    root = write(tmp_path, "MEMORY.md", "USER.md", "SOUL.md", "memory/a.md", "docs/b.md")
    user = ["USER.md"] if release == "2026.9" else []
    listing = look(root, release)
    assert sorted(listing.found) == ["MEMORY.md", *user, "memory/a.md"]
    assert listing.left_out["SOUL.md"].why is Why.OUTSIDE
    if not user:
        assert listing.left_out["USER.md"].why is Why.NOT_YET


@pytest.mark.parametrize("release", RELEASES)
def test_the_lower_case_root_file(tmp_path: Path, release: str) -> None:
    root = write(tmp_path, "memory.md", "Memory.md")
    listing = look(root, release, "memory.md")
    assert sorted(listing.found) == (["memory.md"] if release == "2026.2" else [])
    assert listing.left_out["Memory.md"].why is Why.LOWER_CASE
    if release in LATER:
        assert listing.left_out["memory.md"].why is Why.LOWER_CASE


@pytest.mark.parametrize("release", RELEASES)
def test_names_and_folders(tmp_path: Path, release: str) -> None:
    root = write(
        tmp_path,
        "memory/a.md",
        "memory/b.MD",
        "memory/c.markdown",
        "memory/d.txt",
        "memory/e.png",
        "memory/.hidden/f.md",
        "memory/node_modules/g.md",
        "memory/.openclaw-repair/h.md",
    )
    listing = look(root, release)
    names = ["memory/.hidden/f.md", "memory/a.md", "memory/node_modules/g.md"]
    if release == "2026.2":
        names.insert(1, "memory/.openclaw-repair/h.md")
    else:
        assert listing.left_out["memory/.openclaw-repair"].why is Why.REPAIR
    assert sorted(listing.found) == names
    for name in ("memory/b.MD", "memory/c.markdown", "memory/d.txt"):
        assert listing.left_out[name].why is Why.NOT_MARKDOWN
    assert "memory/e.png" not in listing.left_out


@pytest.mark.parametrize("release", RELEASES)
def test_links_are_never_followed(tmp_path: Path, release: str) -> None:
    root = write(tmp_path / "workspace", "memory/a.md")
    write(tmp_path / "elsewhere", "x.md", "sub/y.md")
    (root / "MEMORY.md").symlink_to(tmp_path / "elsewhere" / "x.md")
    (root / "memory" / "link.md").symlink_to(tmp_path / "elsewhere" / "x.md")
    (root / "memory" / "folder").symlink_to(tmp_path / "elsewhere")
    (root / "extra").symlink_to(tmp_path / "elsewhere")
    listing = look(root, release, "extra", "../elsewhere/sub")
    assert sorted(listing.found) == ["../elsewhere/sub/y.md", "memory/a.md"]
    links = {path for path, left in listing.left_out.items() if left.why is Why.LINK}
    assert links == {"MEMORY.md", "memory/link.md", "memory/folder", "extra"}
    assert [finding.code for finding in listing.findings] == ["extra_path_link"]


def test_a_linked_memory_folder(tmp_path: Path) -> None:
    root = write(tmp_path / "workspace", "MEMORY.md")
    (root / "memory").symlink_to(write(tmp_path / "elsewhere", "x.md"))
    assert found(root, "2026.4") == ["MEMORY.md"]


@pytest.mark.parametrize("release", RELEASES)
def test_extra_paths(tmp_path: Path, release: str) -> None:
    root = write(tmp_path / "workspace", "memory/a.md", "docs/b.md", "docs/c.txt", "one.md")
    write(tmp_path / "home", "notes/d.md")
    listing = look(
        root, release, " docs ", "", "docs", "one.md", "memory", "~/notes", "no", "docs/c.txt",
        home=tmp_path / "home",
    )  # fmt: skip
    expands = release == "2026.9"
    home = ["../home/notes/d.md"] if expands else []
    assert sorted(listing.found) == [*home, "docs/b.md", "memory/a.md", "one.md"]
    assert listing.found["memory/a.md"].root == "memory/"
    assert listing.found["docs/b.md"].root == "extra path docs"
    expected = [] if expands else ["extra_path_tilde"]
    expected += ["extra_path_missing", "extra_path_skipped"]
    assert [finding.code for finding in listing.findings] == expected


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.md", ["docs/a.md"]),
        ("**/*.md", ["docs/a.md", "docs/sub/b.md", "docs/sub/deep/c.md"]),
        ("sub/*", ["docs/sub/b.md"]),
        ("sub/**", ["docs/sub/b.md", "docs/sub/deep/c.md"]),
        ("[ab].md", ["docs/a.md"]),
    ],
)
def test_patterns_of_extra_paths(tmp_path: Path, pattern: str, names: list[str]) -> None:
    root = write(tmp_path, "docs/a.md", "docs/sub/b.md", "docs/sub/deep/c.md")
    config = MemorySearchConfig(extra_paths=("docs",), extra_path_patterns=(("docs", pattern),))
    assert sorted(list_memory(root, config, "2026.9").found) == names
    assert len(list_memory(root, config, "2026.7").found) == 3


@pytest.mark.parametrize(
    ("release", "names"),
    [
        ("2026.2", []),
        ("2026.4", ["memory/a.png", "pictures/b.png"]),
        ("2026.7", ["memory/a.png", "pictures/b.png"]),
        ("2026.9", ["pictures/b.png"]),
    ],
)
def test_media(tmp_path: Path, release: str, names: list[str]) -> None:
    root = write(tmp_path, "memory/a.png", "memory/s.mp3", "pictures/b.png")
    config = MemorySearchConfig(
        extra_paths=("pictures",), multimodal_enabled=True, multimodal_modalities=("image",)
    )
    assert sorted(list_memory(root, config, release).found) == names


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    root = write(tmp_path, "memory/a.md")
    with open(os.fsencode(root / "memory") + b"/caf\xe9.md", "wb") as file:
        file.write(b"# caf\xe9\n")
    assert found(root, "2026.9") == ["memory/a.md", "memory/caf\ufffd.md"]


def test_a_workspace_that_is_gone(tmp_path: Path) -> None:
    listing = look(tmp_path / "nowhere", "2026.4")
    assert listing.problem
    assert listing.found == {}


def test_it_can_be_cancelled(tmp_path: Path) -> None:
    root = write(tmp_path, "memory/a.md")
    with pytest.raises(Cancelled):
        list_memory(root, None, "2026.4", cancelled=lambda: True)


UUID = "0b6f4a52-8a3c-4c55-9d0e-1f2a3b4c5d6e"


@pytest.mark.parametrize(
    ("name", "oldest", "later"),
    [
        ("a.jsonl", "a", "a"),
        ("a.jsonl.reset.2026-11-01T10-00-00.000Z", None, "a"),
        ("a.jsonl.deleted.2026-11-01T10-00-00Z", None, "a"),
        ("a.jsonl.bak.2026-11-01T10-00-00.000Z", None, None),
        (f"a.checkpoint.{UUID}.jsonl", f"a.checkpoint.{UUID}", None),
        ("my.checkpoint.jsonl", "my.checkpoint", "my.checkpoint"),
        ("a.trajectory.jsonl", "a.trajectory", None),
        ("a.trajectory-path.json", None, None),
        ("sessions.json", None, None),
    ],
)
def test_transcripts(name: str, oldest: str | None, later: str | None) -> None:
    assert session_id(name, "2026.2") == oldest
    for release in LATER:
        assert session_id(name, release) == later
