"""`memtui profiles`: the list, and profiles that are shown, saved, shared and removed."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.command_line import Run, command_line, own_home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return own_home(tmp_path, monkeypatch)


@pytest.fixture
def config(home: Path) -> Path:
    (home / "config" / "memtui").mkdir(parents=True)
    return home / "config" / "memtui" / "config.toml"


@pytest.fixture
def memtui(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(capsys)


def _stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False)
    monkeypatch.setattr("sys.stdin", stdin)


def test_a_file_from_stdin_is_bounded(
    memtui: Run, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stdin(monkeypatch, b"#" * 2_000_000)
    assert "larger than" in memtui("profiles", "add", "-", "--json").error["message"]
    _stdin(monkeypatch, b"[profiles.a]\nx = '\xff'\n")
    assert "stdin:2: not UTF-8" in memtui("profiles", "add", "-", "--json").error["message"]


def test_a_shell_is_offered_the_profiles_of_the_root_and_those_that_can_be_removed(
    memtui: Run,
    config: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    notes = home / "notes"
    notes.mkdir()
    (notes / ".memtui.toml").write_text("[profiles.more]\n")

    def offered(*words: str) -> set[str]:
        monkeypatch.setenv("COMP_WORDS", " ".join(("memtui", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        monkeypatch.setenv("_MEMTUI_COMPLETE", "bash_complete")
        with pytest.raises(SystemExit):
            memtui()
        return {line.partition(",")[2] for line in capsys.readouterr().out.split()}

    config.write_text("[profiles\n")
    assert offered("search", "x", "--profile", "mem") == {"memtui", "memini"}
    config.write_text("[profiles.mine]\n")
    root = ("--root", str(notes))
    assert offered("search", "x", "--profile", "m") == {"memtui", "memini", "mine"}
    assert offered("search", "x", *root, "--profile", "m") == {"memtui", "memini", "mine", "more"}
    assert offered(*root, "profiles", "show", "mo") == {"more"}
    assert offered(*root, "profiles", "remove", "m") == {"mine"}
