"""`memtui profiles`: the list, and profiles that are shown, saved, shared and removed."""

from __future__ import annotations

import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from memtui.cli.main import program, run
from memtui.cli.options import profile_names
from memtui.ranking.profiles import PROFILES
from memtui.settings.sample import sample_config
from tests.unit.test_cli_commands import Answer, Opened, Run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith(("MEMTUI_", "OPENCLAW_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    for kind in ("CONFIG", "STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.fixture
def config(home: Path) -> Path:
    return home / "config" / "memtui" / "config.toml"


@pytest.fixture
def memtui(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> Answer:
        code = run(arguments, Opened())
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture
def notes(home: Path) -> Path:
    folder = home / "notes"
    folder.mkdir()
    (folder / "MEMORY.md").write_text("# Memory\n")
    return folder


def _stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False)
    monkeypatch.setattr("sys.stdin", stdin)


def test_a_profile_is_saved_listed_used_shown_and_removed(
    memtui: Run, config: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert memtui("config", "init").code == 0
    options = ("--half-life", "14", "-n", "8", "--weights", "0.4,0.6")
    saved = memtui("profiles", "save", "recent.v2", *options)
    assert (saved.code, saved.out) == (0, f"saved recent.v2 in {config}\n")
    shown = memtui("profiles", "show", "recent.v2").out
    assert shown == (
        '[profiles."recent.v2"]\nprofile = "memtui"\nk = 8\nvector_weight = 0.4\n'
        "decay.enabled = true\ndecay.half_life_days = 14.0\n"
    )
    assert config.read_text() == f"{sample_config()}\n{shown}"
    listed = memtui("profiles").out.splitlines()
    assert listed[0].split() == ["*", "memtui", "built", "in"]
    assert listed[-1] == (
        "  recent.v2        memtui, k = 8, vector_weight = 0.4, decay.enabled = true, "
        f"decay.half_life_days = 14.0  # user {config}:{len(sample_config().splitlines()) + 3}"
    )
    in_force = memtui("config", "show", "ranking.k", "--json").document["settings"]
    assert in_force[0]["in_force"] == 6
    monkeypatch.setenv("MEMTUI_RANKING__PROFILE", "recent.v2")
    in_force = memtui("config", "show", "ranking.k", "--json").document["settings"]
    assert in_force[0]["in_force"] == 8
    assert 'profiles."recent.v2".k' in memtui("config", "show", "profiles").out
    again = memtui("profiles", "save", "recent.v2")
    assert (again.code, "--force" in again.err) == (2, True)
    monkeypatch.delenv("MEMTUI_RANKING__PROFILE")
    _stdin(monkeypatch, shown.replace("recent", "shared").encode())
    assert memtui("profiles", "add", "-", "--json").document["added"] == ["shared.v2"]
    for name in ("shared.v2", "recent.v2"):
        assert memtui("profiles", "remove", name).code == 0
    assert config.read_text() == sample_config()


def test_the_list_as_json_tells_everything(memtui: Run, config: Path, notes: Path) -> None:
    config.parent.mkdir(parents=True)
    config.write_text("[ranking]\nprofile = 'b'\n[profiles.b]\nmmr.enabled = true\n")
    (notes / ".memtui.toml").write_text("[profiles.b]\nprofile = 'memini'\nmmr.enabled = true\n")
    document = memtui("profiles", "--json", "--root", str(notes)).document
    assert [entry["name"] for entry in document["profiles"]] == [*PROFILES, "b"]
    assert document["profiles"][-1] == {
        "name": "b",
        "built_in": False,
        "in_use": True,
        "profile": "memini",
        "keys": {"mmr.enabled": True},
        "without_effect": ["mmr.enabled"],
        "source": "project",
        "place": f"{notes / '.memtui.toml'}:2",
        "overrode": [f"{config}:3"],
    }
    assert "mmr.enabled = true (no effect)" in memtui("profiles", "--root", str(notes)).out


@pytest.mark.parametrize("name", list(PROFILES))
def test_a_built_in_profile_is_shown_key_by_key_and_can_be_configured_so(
    memtui: Run, config: Path, name: str
) -> None:
    config.parent.mkdir(parents=True)
    config.write_text(memtui("profiles", "show", name).out)
    assert memtui("config", "validate").code == 0
    shown = memtui("profiles", "show", name, "--json").document
    assert shown["profile"]["built_in"] is True
    assert shown["toml"] == config.read_text().rstrip("\n")


def test_a_shared_file_is_checked_before_anything_is_written(
    memtui: Run, config: Path, home: Path
) -> None:
    shared = home / "shared.toml"
    for text, expected in (
        ("[profiles.a]\nk = 0\n", "shared.toml:2: profiles.a.k: must be greater"),
        ("[profiles.a]\nkk = 1\n", "shared.toml:2: profiles.a.kk: no such key"),
        ("[profiles.a]\n[profiles.memini]\n", "shared.toml:2: profiles.memini: is built in"),
        ("[profiles.a]\nvector_weight=0\nkeyword_weight=0\n", "must not both be 0"),
        ("[profiles.a\n", "shared.toml:1: broken TOML"),
        ("[ranking]\nk = 3\n", "has no profile"),
        ("[profiles]\n", "has no profile"),
        ("profiles = 1\n", "has no profile"),
    ):
        shared.write_text(text)
        answer = memtui("profiles", "add", str(shared))
        assert (answer.code, answer.out) == (2, "")
        assert expected in answer.err
        assert not config.exists()
    assert "no such file" in memtui("profiles", "add", "nowhere.toml", "--json").error["message"]
    shared.write_text("editor = 'evil'\n[profiles.a]\nk = 3\nfusion = 'rrf'\n[profiles.b]\n")
    answer = memtui("profiles", "add", str(shared))
    assert (answer.code, answer.err) == (0, "memtui: not taken over: editor\n")
    expected = '[profiles.a]\nprofile = "memtui"\nk = 3\nfusion = "rrf"\n\n[profiles.b]\nprofile = "memtui"\n'
    assert config.read_text() == expected
    assert "--force" in memtui("profiles", "add", str(shared), "--json").error["hint"]
    shared.write_text("[profiles.a]\nk = 4\n")
    assert memtui("profiles", "add", str(shared), "--force").code == 0
    assert config.read_text() == expected.replace('k = 3\nfusion = "rrf"\n', "k = 4\n")


def test_a_file_from_stdin_is_bounded(
    memtui: Run, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stdin(monkeypatch, b"#" * 2_000_000)
    assert "larger than" in memtui("profiles", "add", "-", "--json").error["message"]
    _stdin(monkeypatch, b"[profiles.a]\nx = '\xff'\n")
    assert "stdin:2: not UTF-8" in memtui("profiles", "add", "-", "--json").error["message"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("show", "memnii"), "no such profile: memnii"),
        (("remove", "gone"), "no such profile: gone"),
        (("remove", "memini"), "memini is built in"),
        (("save", "memini"), "memini: is built in"),
        (("save", "A B"), "A B: cannot be a profile's name"),
        (("save", "m" * 10_000), f"{'m' * 80}: cannot be a profile's name"),
        (("show", "m" * 10_000), f"no such profile: {'m' * 80}\n"),
        (("save", ""), '"": cannot be a profile\'s name'),
        (("save", "a", "--lambda", "3"), "--lambda: ranking.mmr.lambda: must be less"),
        (("save", "a", "--profile", "b"), "--profile: ranking.profile: no such profile: b"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    memtui: Run, config: Path, arguments: tuple[str, ...], expected: str
) -> None:
    answer = memtui("profiles", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"memtui: {expected}")
    assert not config.exists()


@pytest.mark.parametrize("arguments", [("nope",), ("save",), ("save", "a", "--now", "2026-01-01")])
def test_wrong_usage(memtui: Run, arguments: tuple[str, ...]) -> None:
    assert memtui("profiles", *arguments, "--json").error["code"] == "usage"


def test_json_tells_the_warnings_too(memtui: Run, config: Path, home: Path) -> None:
    config.parent.mkdir(parents=True)
    config.write_text("[profiles.a]\n[ui]\nzz = 1\n")
    saved = memtui("profiles", "save", "a", "--force", "-n", "3", "--json")
    unknown = "ui.zz: no such key (`memtui config show` lists every key)"
    assert saved.document["warnings"] == [
        f"{config}:3: {unknown}",
        f"replaces a at {config}:1",
    ]
    shared = home / "shared.toml"
    shared.write_text("editor = 'evil'\n[profiles.b]\n")
    added = memtui("profiles", "add", str(shared), "--json")
    assert added.document["warnings"] == ["not taken over: editor"]
    assert (saved.err, added.err) == ("", "")


def test_a_broken_configuration_loses_nothing(memtui: Run, config: Path, home: Path) -> None:
    config.parent.mkdir(parents=True)
    config.write_text("[ranking\n# precious\n")
    shared = home / "shared.toml"
    shared.write_text("[profiles.a]\n")
    for arguments in (("save", "a"), ("add", str(shared)), ("remove", "a"), ("show", "memtui"), ()):
        answer = memtui("profiles", *arguments)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith(f"memtui: {config}:1: broken TOML")
    assert config.read_text() == "[ranking\n# precious\n"


def test_names_are_completed(config: Path) -> None:
    context = click.Context(program)
    parameter = click.Option(["--profile"])
    config.parent.mkdir(parents=True)
    config.write_text("[profiles.mine]\n")
    assert profile_names(context, parameter, "m") == ["memtui", "memini", "mine"]
    config.write_text("[profiles\n")
    assert profile_names(context, parameter, "mem") == ["memtui", "memini"]


def test_a_shell_is_offered_the_profiles_of_the_root_and_those_that_can_be_removed(
    memtui: Run,
    config: Path,
    notes: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config.parent.mkdir(parents=True)
    config.write_text("[profiles.mine]\n")
    (notes / ".memtui.toml").write_text("[profiles.more]\n")

    def offered(*words: str) -> set[str]:
        monkeypatch.setenv("COMP_WORDS", " ".join(("memtui", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        monkeypatch.setenv("_MEMTUI_COMPLETE", "bash_complete")
        with pytest.raises(SystemExit):
            memtui()
        return {line.partition(",")[2] for line in capsys.readouterr().out.split()}

    root = ("--root", str(notes))
    assert offered("search", "x", "--profile", "m") == {"memtui", "memini", "mine"}
    assert offered("search", "x", *root, "--profile", "m") == {"memtui", "memini", "mine", "more"}
    assert offered(*root, "profiles", "show", "mo") == {"more"}
    assert offered(*root, "profiles", "remove", "m") == {"mine"}


def test_an_own_profile_searches_the_index_of_an_agent(
    memtui: Run, config: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support.openclaw import SIDECAR, make_state

    state = make_state(home / ".openclaw", SIDECAR)
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(state.folder))
    config.parent.mkdir(parents=True)
    config.write_text(
        "[ranking]\nprofile = 'mine'\n[profiles.mine]\nk = 2\n"
        "[profiles.old]\nprofile = 'openclaw-2026.2'\nmin_score = 'off'\nk = 1\n"
    )

    def ranking(*options: str) -> dict[str, Any]:
        found = memtui("search", "router", "--agent", "main", "--json", "--zero-ok", *options)
        parameters: dict[str, Any] = found.document["ranking"]
        return parameters

    assert ranking()["profile"] == "openclaw-2026.4"
    mine = ranking("--profile", "mine")
    assert (mine["profile"], mine["k"]) == ("mine", 2)
    old = ranking("--profile", "old", "-n", "3")
    assert (old["profile"], old["k"], old["min_score"]) == ("old", 3, None)
    assert old["keyword_mapping"] == "clamp"
    unknown = memtui("search", "x", "--agent", "main", "--profile", "gone", "--json")
    assert "no such profile: gone" in unknown.error["message"]
