"""The command line without an index: folders and commands, errors, configuration, help."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memtui import __version__
from memtui.cli.group import looks_like_folder
from memtui.cli.main import run, wants_json
from memtui.text.sanitize import HOSTILE
from tests.support.hostile import ALL


class Answer:
    """What a run of the command line gave."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)
        assert document["schema_version"] == 1
        return document

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = self.document["error"]
        assert set(error) == {"code", "message", "hint", "exit_code"}
        assert error["exit_code"] == self.code
        assert self.err.strip() == ""
        return error


Run = Callable[..., Answer]


class Opened:
    """Stands for the terminal interface and remembers what it was opened on."""

    def __init__(self) -> None:
        self.calls: list[tuple[Path | None, bool]] = []
        self.choose: list[bool] = []

    def __call__(
        self,
        workspace: Any,
        loaded: Any,
        *,
        demo: bool = False,
        choose: bool = False,
        foreign: Any = None,
    ) -> int:
        self.calls.append((workspace.root if workspace is not None else None, demo))
        self.choose.append(choose)
        return 0


@pytest.fixture
def opened() -> Opened:
    return Opened()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith(("MEMTUI_", "OPENCLAW_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.fixture
def memtui(home: Path, opened: Opened, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> Answer:
        code = run(arguments, opened)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture
def notes(home: Path) -> Path:
    folder = home / "notes"
    folder.mkdir()
    (folder / "MEMORY.md").write_text("# Memory\n")
    return folder


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memtui.cli.opening.at_terminal", lambda: True)


# --- folders and commands ---------------------------------------------------------------------


@pytest.mark.usefixtures("terminal")
def test_a_folder_opens_the_interface(memtui: Run, notes: Path, opened: Opened) -> None:
    assert memtui(str(notes)).code == 0
    assert memtui("--root", str(notes)).code == 0
    assert memtui("../notes").code == 0
    assert opened.calls == [(notes, False)] * 3


@pytest.mark.usefixtures("terminal")
def test_demo_opens_the_bundled_memory(memtui: Run, opened: Opened) -> None:
    assert memtui("demo").code == 0
    ((root, demo),) = opened.calls
    assert demo
    assert root is not None
    assert root.name == "demo"


@pytest.mark.usefixtures("terminal")
def test_without_a_memory_the_demo_is_offered(
    memtui: Run, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.confirm", lambda *args, **options: False)
    refused = memtui()
    assert refused.code == 2
    assert "looked at" in refused.err
    assert opened.calls == []
    monkeypatch.setattr("click.confirm", lambda *args, **options: True)
    assert memtui().code == 0
    assert opened.calls[0][1] is True


def test_a_folder_that_is_not_there(memtui: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = memtui("search", "x", "--root", "./nowhere", "--json")
    assert (answer.code, answer.error["code"]) == (2, "no_workspace")


@pytest.mark.parametrize(
    ("word", "expected"),
    [("a/b", True), ("./x", True), (".", True), ("~", True), ("search", False), ("-x", False)],
)
def test_what_looks_like_a_folder(word: str, expected: bool) -> None:
    assert looks_like_folder(word) is expected


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("search",),
        ("search", "x", "--nope"),
        ("search", "x", "--limit", "many"),
        ("search", "x", "--weights", "1"),
        ("search", "x", "--now", "tomorrow"),
        ("explain", "x", "--rank", "0"),
        ("explain", "x", "--rank", "1", "--chunk", "a#L1"),
        ("index", "--watch", "--dry-run"),
        ("help", "nonsense"),
        ("completions", "tcsh"),
        ("config", "nope"),
        ("nope",),
    ],
)
def test_wrong_usage_is_one_document_with_json(memtui: Run, arguments: tuple[str, ...]) -> None:
    answer = memtui(*arguments, "--json")
    assert answer.code == 2
    assert answer.error["code"] == "usage"
    plain = memtui(*arguments)
    assert (plain.code, plain.out) == (2, "")
    assert plain.err.startswith("memtui: ")


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--lambda", "2"),
        ("--half-life", "0"),
        ("--weights", "-1,2"),
        ("--weights", "nan,1"),
        ("-n", "0"),
        ("--min-score", "7"),
        ("--fusion", "sum"),
        ("--profile", "openclaw"),
    ],
)
def test_a_flag_out_of_range_is_named(memtui: Run, notes: Path, flag: str, value: str) -> None:
    error = memtui("search", "x", "--root", str(notes), flag, value, "--json").error
    assert error["code"] == "settings"
    assert error["message"].startswith(f"{flag}: ranking.")


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


def test_a_crash_leaves_a_traceback_in_the_state_folder(
    memtui: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(env: object) -> Path:
        raise ZeroDivisionError("boom\x1b[6n")

    monkeypatch.setattr("memtui.cli.config.user_config_file", broken)
    answer = memtui("config", "path")
    assert answer.code == 1
    log = home / "state" / "memtui" / "crash.log"
    assert str(log) in answer.err
    assert "Traceback" not in answer.err
    assert "\x1b" not in answer.err
    assert "ZeroDivisionError" in log.read_text()
    assert memtui("config", "path", "--json").error["code"] == "internal"


def test_an_interruption_ends_with_130(memtui: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(env: object) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr("memtui.cli.config.user_config_file", interrupted)
    assert memtui("config", "path").code == 130
    assert memtui("config", "path", "--json").error["code"] == "interrupted"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["search", "--json"], True),
        (["search", "x", "--jsonl"], True),
        (["search", "--", "--json"], False),
        (["search", "json"], False),
    ],
)
def test_wants_json(arguments: list[str], expected: bool) -> None:
    assert wants_json(arguments) is expected


# --- version, help, completions ---------------------------------------------------------------


def test_the_version_is_that_of_the_package() -> None:
    import tomllib

    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    assert tomllib.loads(pyproject.read_text())["project"]["version"] == __version__


def test_every_exit_code_is_documented(memtui: Run) -> None:
    from memtui import errors

    text = memtui("help", "exit-codes").out
    codes = {
        value.exit_code
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.MemtuiError)
    }
    assert all(f"\n  {code} " in text for code in codes | {0, 130})


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(memtui: Run, shell: str) -> None:
    assert "_MEMTUI_COMPLETE" in memtui("completions", shell).out


# --- configuration ----------------------------------------------------------------------------


def test_config_init_on_a_full_disk_leaves_the_file(
    memtui: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(memtui("config", "init", "--json").document["path"])
    path.write_text("[profiles.precious]\n")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    refused = memtui("config", "init", "--force")
    assert (refused.code, "No space left" in refused.err) == (2, True)
    assert path.read_text() == "[profiles.precious]\n"


@pytest.mark.parametrize("value", ["", "off"])
def test_no_minimum_score_has_one_name(memtui: Run, monkeypatch: Any, value: str) -> None:
    monkeypatch.setenv("MEMTUI_RANKING__MIN_SCORE", value)
    assert memtui("config", "show", "ranking.min_score").out.startswith('ranking.min_score = "off"')
    shown = memtui("config", "show", "ranking.min_score", "--json").document["settings"]
    assert shown[0]["in_force"] == "off"
    refused = memtui("search", "x", "--min-score", "none", "--json").error
    assert refused["code"] == "usage"


def test_config_show_tells_origins(memtui: Run, notes: Path, monkeypatch: Any) -> None:
    (notes / ".memtui.toml").write_text("[ranking]\nk = 9\nvector_weight = 0.4\n")
    monkeypatch.setenv("MEMTUI_RANKING__K", "3")
    answer = memtui("config", "show", "ranking.k", "--root", str(notes))
    place = f"{notes / '.memtui.toml'}:2"
    expected = f"ranking.k = 3  # environment $MEMTUI_RANKING__K, over project {place} 9\n"
    assert answer.out == expected
    shown = memtui("config", "show", "ranking", "--root", str(notes)).out
    assert "ranking.keyword_weight       = 0.6  # follows" in shown
    document = memtui("config", "show", "ranking.k", "--root", str(notes), "--json").document
    assert document["settings"] == [
        {
            "key": "ranking.k",
            "value": 3,
            "in_force": 3,
            "source": "environment",
            "place": "$MEMTUI_RANKING__K",
            "overrode": [{"source": "project", "place": place, "value": 9}],
        }
    ]


def test_config_show_hides_passwords_of_addresses(memtui: Run, monkeypatch: Any) -> None:
    monkeypatch.setenv("MEMTUI_EMBEDDING__BASE_URL", "https://me:secret@host/v1")
    for arguments in (("config", "show"), ("config", "show", "--json")):
        answer = memtui(*arguments)
        assert "secret" not in answer.out
        assert "https://***@host/v1" in answer.out


def test_config_validate_fails_for_unknown_keys_and_names_them(memtui: Run, notes: Path) -> None:
    (notes / ".memtui.toml").write_text("[rankin]\nk = 9\n")
    answer = memtui("config", "validate", "--root", str(notes))
    assert answer.code == 2
    assert ".memtui.toml:1: rankin: no such key (did you mean ranking?)" in answer.out
    document = memtui("config", "validate", "--root", str(notes), "--json").document
    assert document["valid"] is False
    assert document["problems"][0]["code"] == "unknown_key"


def test_config_validate_accepts_untrusted_keys_but_names_them(memtui: Run, notes: Path) -> None:
    (notes / ".memtui.toml").write_text("editor = 'vi'\n")
    answer = memtui("config", "validate", "--root", str(notes))
    assert answer.code == 0
    assert "memtui trust" in answer.out


def test_broken_configuration_ends_any_command_with_2(memtui: Run, home: Path) -> None:
    path = home / "config" / "memtui" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("[ranking\n")
    for arguments in (("config", "show"), ("search", "x", "--demo"), ("status", "--demo")):
        error = memtui(*arguments, "--json").error
        assert error["message"].startswith(f"{path}:1: broken TOML")
    document = memtui("config", "validate", "--json").document
    assert document["problems"][0]["code"] == "syntax"


def test_trust_allows_protected_keys_for_this_content(memtui: Run, notes: Path) -> None:
    file = notes / ".memtui.toml"
    file.write_text("editor = 'vi'\n")
    shown = memtui("trust", str(notes), "--dry-run")
    assert "would set editor = 'vi'" in shown.out
    show = ("config", "show", "editor", "--root", str(notes))
    assert "(unset)" in memtui(*show).out
    assert "ignored" in memtui(*show).err
    trusted = memtui("trust", str(notes), "--json").document
    assert trusted["trusted"] is True
    assert trusted["keys"] == [{"key": "editor", "value": "vi", "place": f"{file}:1"}]
    assert f'editor = "vi"  # project {file}:1' in memtui(*show).out
    file.write_text("editor = 'rm'\n")
    assert "(unset)" in memtui(*show).out
    memtui("trust", str(notes))
    assert memtui("trust", str(notes), "--revoke", "--json").document["trusted"] is False


def test_trust_that_cannot_be_kept_is_told(memtui: Run, notes: Path, home: Path) -> None:
    (notes / ".memtui.toml").write_text('editor = "vi"\n')
    (home / "state").write_text("a file where the folder belongs\n")
    answer = memtui("trust", str(notes), "--json")
    assert (answer.code, answer.error["code"]) == (2, "settings")
