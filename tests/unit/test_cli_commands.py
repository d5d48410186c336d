"""The command line without an index: opening folders, errors, settings. The rest is recorded."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from memtui import __version__, errors
from memtui.cli.main import wants_json
from memtui.text.sanitize import HOSTILE
from tests.support.command_line import Opened, Run, command_line, own_home
from tests.support.hostile import ALL


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
    monkeypatch.setattr("memtui.cli.opening.at_terminal", lambda: True)
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


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("usage", ("search",)),
        ("usage", ("search", "x", "--nope")),
        ("usage", ("explain", "x", "--rank", "0")),
        ("usage", ("config", "nope")),
        ("usage", ("nope",)),
        ("no_workspace", ("search", "x", "--root", "./nowhere")),
    ],
)
def test_an_error_is_one_document_with_json(
    memtui: Run, code: str, arguments: tuple[str, ...]
) -> None:
    answer = memtui(*arguments, "--json")
    assert (answer.code, answer.error["code"]) == (2, code)
    plain = memtui(*arguments)
    assert (plain.code, plain.out, plain.err[:8]) == (2, "", "memtui: ")


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        *(("--lambda", "2"), ("--half-life", "0"), ("--weights", "-1,2"), ("--weights", "nan,1")),
        *(("-n", "0"), ("--min-score", "7"), ("--fusion", "sum"), ("--profile", "openclaw")),
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


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("search --json", True),
        ("search x --jsonl", True),
        ("explain x --format json", True),
        ("search -- --json", False),
        ("search json", False),
    ],
)
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


def test_config_show_tells_origins_and_hides_passwords(
    memtui: Run, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (notes / ".memtui.toml").write_text("[ranking]\nk = 9\nvector_weight = 0.4\n")
    monkeypatch.setenv("MEMTUI_RANKING__K", "3")
    monkeypatch.setenv("MEMTUI_RANKING__MIN_SCORE", "")
    monkeypatch.setenv("MEMTUI_EMBEDDING__BASE_URL", "https://me:secret@host/v1")
    show = ("config", "show", "ranking", "embedding.base_url", "--root", str(notes))
    place = f"{notes / '.memtui.toml'}:2"
    lines = memtui(*show).out.splitlines()
    line = f"= 3  # environment $MEMTUI_RANKING__K, over project {place} 9"
    assert any(one.startswith("ranking.k ") and one.endswith(line) for one in lines)
    assert any("keyword_weight" in one and one.endswith("= 0.6  # follows") for one in lines)
    assert any("min_score" in one and '= "off"' in one for one in lines)
    answer = memtui(*show, "--json")
    assert "secret" not in answer.out + "".join(lines)
    assert "https://***@host/v1" in answer.out
    entries = {entry["key"]: entry for entry in answer.document["settings"]}
    assert entries["ranking.k"] == {
        "key": "ranking.k",
        "value": 3,
        "in_force": 3,
        "source": "environment",
        "place": "$MEMTUI_RANKING__K",
        "overrode": [{"source": "project", "place": place, "value": 9}],
    }


def test_config_validate_fails_for_unknown_keys_and_names_untrusted_ones(
    memtui: Run, notes: Path
) -> None:
    validate = ("config", "validate", "--root", str(notes))
    (notes / ".memtui.toml").write_text("[rankin]\nk = 9\n")
    answer = memtui(*validate)
    assert answer.code == 2
    assert ".memtui.toml:1: rankin: no such key (did you mean ranking?)" in answer.out
    document = memtui(*validate, "--json").document
    assert (document["valid"], document["problems"][0]["code"]) == (False, "unknown_key")
    (notes / ".memtui.toml").write_text("editor = 'vi'\n")
    answer = memtui(*validate)
    assert (answer.code, "memtui trust" in answer.out) == (0, True)


def test_broken_configuration_ends_any_command_with_2(memtui: Run, home: Path) -> None:
    path = home / "config" / "memtui" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("[ranking\n")
    for arguments in (("config", "show"), ("search", "x", "--demo"), ("status", "--demo")):
        error = memtui(*arguments, "--json").error
        assert error["message"].startswith(f"{path}:1: broken TOML")
    assert memtui("config", "validate", "--json").document["problems"][0]["code"] == "syntax"


def test_trust_allows_protected_keys_for_this_content(memtui: Run, notes: Path, home: Path) -> None:
    file = notes / ".memtui.toml"
    file.write_text("editor = 'vi'\n")
    assert "would set editor = 'vi'" in memtui("trust", str(notes), "--dry-run").out
    show = ("config", "show", "editor", "--root", str(notes))
    shown = memtui(*show)
    assert ("(unset)" in shown.out, "ignored" in shown.err) == (True, True)
    trusted = memtui("trust", str(notes), "--json").document
    assert trusted["trusted"] is True
    assert trusted["keys"] == [{"key": "editor", "value": "vi", "place": f"{file}:1"}]
    assert f'editor = "vi"  # project {file}:1' in memtui(*show).out
    file.write_text("editor = 'rm'\n")
    assert "(unset)" in memtui(*show).out
    memtui("trust", str(notes))
    assert memtui("trust", str(notes), "--revoke", "--json").document["trusted"] is False
    (home / "state" / "memtui").rename(home / "aside")
    (home / "state" / "memtui").write_text("a file where the folder belongs\n")
    answer = memtui("trust", str(notes), "--json")
    assert (answer.code, answer.error["code"]) == (2, "settings")
