"""The command line without an index: opening folders, errors, settings. The rest is recorded."""

from __future__ import annotations

import io
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memtui import __version__, errors
from memtui.cli.main import run, wants_json
from memtui.memory.workspace import Found
from memtui.settings.load import Loaded
from memtui.text.sanitize import HOSTILE
from tests.support.command_line import Opened, Run, command_line, own_home
from tests.support.hostile import ALL
from tests.support.known import load
from tests.support.recorded_model import recorded_model


@pytest.fixture
def opened() -> Opened:
    return Opened()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return own_home(tmp_path, monkeypatch)


@pytest.fixture
def memtui(home: Path, opened: Opened, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(capsys, opened)


@pytest.fixture
def notes(home: Path) -> Path:
    folder = home / "notes"
    folder.mkdir()
    (folder / "MEMORY.md").write_text("# Memory\n")
    return folder


def test_a_folder_the_demo_or_neither_is_opened(
    memtui: Run, notes: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memtui.cli.main.at_terminal", lambda: True)
    for words in ([str(notes)], ["--root", str(notes)], ["../notes"]):
        assert memtui(*words).code == 0
    assert opened.calls == [(notes, False)] * 3
    assert memtui("demo").code == 0
    root, is_demo = opened.calls[3]
    assert (root is not None and root.name, is_demo) == ("demo", True)
    monkeypatch.setattr("click.confirm", lambda *args, **options: False)
    refused = memtui()
    assert (refused.code, len(opened.calls), "looked at" in refused.err) == (2, 4, True)
    monkeypatch.setattr("click.confirm", lambda *args, **options: True)
    assert memtui().code == 0
    assert opened.calls[4][1] is True
    assert opened.choose == [False] * 5


@pytest.mark.parametrize(("arguments", "remembers"), load("settings")["private"])
def test_private_keeps_no_history(
    arguments: str, remembers: bool, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memtui.cli.main.at_terminal", lambda: True)
    if arguments == "--private":
        monkeypatch.setenv("MEMTUI_ROOT", str(notes))
    asked: list[bool] = []

    def interface(workspace: Found | None, loaded: Loaded, **options: Any) -> int:
        asked.append(loaded.settings.ui.history)
        return 0

    assert run(arguments.split(), interface) == 0
    assert asked == [remembers]


def test_hostile_words_do_not_reach_the_terminal(memtui: Run) -> None:
    hostile = ALL.replace("\x00", "").replace("\ud800", "")
    for arguments in (
        (hostile,),
        ("config", "show", hostile),
        ("search", "x", "--fusion", hostile),
    ):
        answer = memtui(*arguments)
        assert answer.code == 2
        assert HOSTILE.search(answer.err + answer.out) is None


def test_a_crash_and_an_interruption_end_cleanly(
    memtui: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(error: BaseException) -> None:
        def fail(env: object) -> Path:
            raise error

        monkeypatch.setattr("memtui.cli.config.user_config_file", fail)

    ends(ZeroDivisionError("boom\x1b[6n"))
    answer = memtui("config", "path")
    log = home / "state" / "memtui" / "crash.log"
    assert (answer.code, str(log) in answer.err) == (1, True)
    assert not {"Traceback", "\x1b"} & {
        part for part in ("Traceback", "\x1b") if part in answer.err
    }
    assert "ZeroDivisionError" in log.read_text()
    assert memtui("config", "path", "--json").error["code"] == "internal"
    ends(KeyboardInterrupt())
    assert memtui("config", "path").code == 130
    assert memtui("config", "path", "--json").error["code"] == "interrupted"


@pytest.mark.parametrize(("arguments", "expected"), load("settings")["wrong_options"])
def test_json_is_wanted_however_wrong_the_others_are(arguments: str, expected: bool) -> None:
    assert wants_json(arguments.split()) is expected


def test_versions_exit_codes_and_completions_are_told(memtui: Run) -> None:
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    assert tomllib.loads(pyproject.read_text())["project"]["version"] == __version__
    text = memtui("help", "exit-codes").out
    codes = {
        value.exit_code
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.MemtuiError)
    }
    assert all(f"\n  {code} " in text for code in codes | {0, 130})
    for shell in ("bash", "zsh", "fish"):
        assert "_MEMTUI_COMPLETE" in memtui("completions", shell).out


# --- settings ---------------------------------------------------------------------------------


def test_a_state_folder_that_cannot_be_written_is_named(
    memtui: Run, notes: Path, home: Path
) -> None:
    (notes / ".memtui.toml").write_text("editor = 'vi'\n")
    (home / "state").mkdir(exist_ok=True)
    (home / "state" / "memtui").write_text("a file where the folder belongs\n")
    answer = memtui("trust", str(notes), "--json")
    assert (answer.code, answer.error["code"]) == (2, "settings")


def test_the_demo_without_vectors_is_indexed_for_them(
    memtui: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recorded_model():
        monkeypatch.setenv("MEMTUI_EMBEDDING__PROVIDER", "none")
        assert memtui("index", "--demo").code == 0
        monkeypatch.delenv("MEMTUI_EMBEDDING__PROVIDER")
        answer = memtui("search", "router config", "--demo", "--json")
        assert "indexing the demo" in answer.err
        assert answer.document["legs"]["vector"]["state"] == "ok"


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"#" * 2_000_000, "larger than"), (b"[profiles.a]\nx = '\xff'\n", "stdin:2: not UTF-8")],
    ids=["large", "bytes"],
)
def test_a_file_from_stdin_is_bounded(
    memtui: Run, monkeypatch: pytest.MonkeyPatch, data: bytes, expected: str
) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False)
    monkeypatch.setattr("sys.stdin", stdin)
    assert expected in memtui("profiles", "add", "-", "--json").error["message"]


def test_a_shell_is_offered_the_profiles_of_the_root_and_those_that_can_be_removed(
    memtui: Run,
    notes: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = home / "config" / "memtui" / "config.toml"
    config.parent.mkdir(parents=True)
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
