"""Putting a text in the place of a configuration file's: whole, itself, or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from memtui.errors import SettingsError
from memtui.model import Ranking
from memtui.ranking.profiles import PROFILES
from memtui.settings import Source
from memtui.settings.load import SettingsFiles
from memtui.settings.storage import digest_of, replace_text
from memtui.settings.write import plan_ranking, write


def test_links_modes_and_byte_order_marks_stay(tmp_path: Path) -> None:
    target = tmp_path / "dotfiles" / "memtui.toml"
    target.parent.mkdir()
    target.write_bytes(b"\xef\xbb\xbf[ui]\r\nmouse = true\r\n")
    target.chmod(0o640)
    link = tmp_path / "config.toml"
    link.symlink_to(Path("dotfiles") / "memtui.toml")
    files = SettingsFiles({"MEMTUI_CONFIG": str(link)})
    write(plan_ranking(files, Source.USER, Ranking(k=3), PROFILES), files)
    assert link.is_symlink()
    expected = b"\xef\xbb\xbf[ui]\r\nmouse = true\r\n\r\n[ranking]\r\nk = 3\r\n"
    assert target.read_bytes() == expected
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert os.listdir(target.parent) == [target.name]


def test_a_file_with_another_name_stays_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "config.toml", tmp_path / "dotfiles.toml"
    path.write_text("[ui]\nmouse = true\n# a long line that is not there afterwards\n")
    other.hardlink_to(path)
    digest = replace_text(path, "[ui]\n", digest_of(path))
    assert (path.read_text(), other.read_text()) == ("[ui]\n", "[ui]\n")
    assert path.samefile(other)
    assert digest == digest_of(path)
    fsync = os.fsync

    def full(handle: int) -> None:
        if os.fstat(handle).st_nlink > 1 and os.fstat(handle).st_size > 10:
            raise OSError(28, "No space left on device")
        fsync(handle)

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(SettingsError, match="No space left"):
        replace_text(path, "[ui]\nmouse = false\n", digest)
    assert other.read_text() == "[ui]\n"
    assert sorted(os.listdir(tmp_path)) == ["config.toml", "dotfiles.toml"]


def test_a_private_file_lies_open_at_no_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[embedding]\nbase_url = 'http://me:secret@host'\n")
    path.chmod(0o600)
    modes: list[int] = []
    fsync = os.fsync

    def noted(handle: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(handle).st_mode))
        fsync(handle)

    monkeypatch.setattr("os.fsync", noted)
    replace_text(path, "[ui]\n", digest_of(path))
    assert modes == [0o600]


def test_a_new_file_gets_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "config.toml"
    digest = replace_text(path, "[ui]\n", None)
    assert path.read_text() == "[ui]\n"
    assert digest == digest_of(path)


def test_files_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SettingsError, match=r"cannot write .*Not a directory"):
        replace_text(tmp_path / "file" / "config.toml", "x", None)
    with pytest.raises(SettingsError, match="not a regular file"):
        replace_text(tmp_path, "x", None)
    for what in (tmp_path, Path(os.devnull)):
        with pytest.raises(SettingsError, match=f"cannot write {what}: not a regular file"):
            digest_of(what)
    with pytest.raises(SettingsError, match="not a regular file"):
        replace_text(Path(os.devnull), "x", None)
    assert digest_of(tmp_path / "nowhere" / "config.toml") is None
    path = tmp_path / "config.toml"
    path.write_text("[ui]\n")
    with pytest.raises(SettingsError, match="larger than"):
        replace_text(path, "#" * 2_000_000, digest_of(path))

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    digest = digest_of(path)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(SettingsError, match="No space left"):
            replace_text(path, "x = 1\n", digest)
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda *args: False)
        with pytest.raises(SettingsError, match="it is read-only"):
            replace_text(path, "x = 1\n", digest)
    assert path.read_text() == "[ui]\n"
    assert sorted(os.listdir(tmp_path)) == ["config.toml", "file"]
