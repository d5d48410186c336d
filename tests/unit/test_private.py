"""Folders for the owner alone, whatever the umask and whatever they were, and `--private`."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memtui.cli.main import run
from memtui.index.generations import IndexFolder
from memtui.memory.workspace import Found
from memtui.report.export import save
from memtui.settings.load import Loaded
from memtui.settings.storage import StateFolder, make_private
from tests.trials.soak import Samples, least_squares


@pytest.fixture
def nothing_masked() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.usefixtures("nothing_masked")
def test_every_folder_that_is_made_is_private(tmp_path: Path) -> None:
    IndexFolder(tmp_path / "data" / "memtui" / "notes-1").create()
    StateFolder(tmp_path / "state" / "memtui").write_json("history.json", ["a query"])
    made = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert len(made) == 5
    assert {mode(path) for path in made} == {0o700}
    assert mode(tmp_path / "state/memtui/history.json") == 0o600


@pytest.mark.usefixtures("nothing_masked")
def test_what_was_open_to_others_is_narrowed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("of somebody else")
    outside.chmod(0o644)
    folder = tmp_path / "notes-1"
    (folder / "screenshots").mkdir(parents=True)
    for path in (folder / "index-1.db", folder / "screenshots" / "one.svg"):
        path.write_text("text of a note")
        path.chmod(0o666)
    (folder / "read-only").write_text("")
    (folder / "read-only").chmod(0o444)
    (folder / "link").symlink_to(outside)
    make_private(folder)
    assert mode(folder) == mode(folder / "screenshots") == 0o700
    assert mode(folder / "index-1.db") == mode(folder / "screenshots/one.svg") == 0o600
    assert mode(folder / "read-only") == 0o400
    assert mode(outside) == 0o644


@pytest.mark.usefixtures("nothing_masked")
@pytest.mark.parametrize("force", [False, True])
def test_an_export_can_be_private(tmp_path: Path, force: bool) -> None:
    save(tmp_path / "one.json", "{}", force=force, mode=0o600)
    save(tmp_path / "two.json", "{}", force=force)
    assert mode(tmp_path / "one.json") == 0o600
    assert mode(tmp_path / "two.json") == 0o666


@pytest.mark.parametrize(
    ("arguments", "remembers"),
    [
        (["demo"], True),
        (["demo", "--private"], False),
        (["--private", "demo"], False),
        (["--private"], False),
        (["./notes", "--private"], False),
    ],
)
def test_private_keeps_no_history(
    arguments: list[str], remembers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "MEMORY.md").write_text("- The router is in the hall.\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("memtui.cli.interface.at_terminal", lambda: True)
    if arguments == ["--private"]:
        monkeypatch.setenv("MEMTUI_ROOT", str(notes))
    asked: list[bool] = []

    def interface(workspace: Found | None, loaded: Loaded, **options: Any) -> int:
        asked.append(loaded.settings.ui.history)
        return 0

    assert run(arguments, interface) == 0
    assert asked == [remembers]


def test_a_slope_and_its_error_are_those_of_least_squares() -> None:
    assert least_squares([0, 1, 2, 3], [5, 7, 9, 11]) == pytest.approx((2, 0), abs=1e-12)
    # By hand: slope 3/5, residuals 0.1, -0.3, 0.3, -0.1, variance 0.2/2 over 5.
    assert least_squares([0, 1, 2, 3], [0, 0.2, 1.4, 1.6]) == pytest.approx((0.6, 0.02**0.5))
    with pytest.raises(ValueError, match="three points"):
        least_squares([0, 1], [0, 1])


def test_what_grows_by_event_is_named_and_what_is_noise_is_not() -> None:
    samples = Samples(list(range(0, 4000, 100)))
    steady = [20 + (number % 2) for number in range(40)]
    for name in ("resident bytes", "threads", "connections", "objects", "widgets"):
        samples.held[name] = list(map(float, steady))
    samples.held["open files"] = [20 + number for number in range(40)]
    assert [failure.split(":")[0] for failure in samples.failures()] == ["open files"]
