"""Sample, line numbers, trust, the state folder, and the table of actions."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from memtui.errors import SettingsError
from memtui.settings import Settings, StateFolder, check_settings, data_dir, load_settings
from memtui.settings.actions import ACTIONS
from memtui.settings.files import ConfigFile, SettingsProblems, read_config
from memtui.settings.keys import leaves
from memtui.settings.load import PROTECTED, is_trusted, protected_keys, revoke, trust
from memtui.settings.sample import default_of, sample_config
from memtui.settings.toml import key_lines
from memtui.settings.write import names_for

# --- the sample -------------------------------------------------------------------------------


def _uncommented() -> str:
    lines = sample_config().splitlines()
    return "\n".join(
        line[1:] if line.startswith("#") and not line.startswith("# ") else line for line in lines
    )


def test_the_sample_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(sample_config())
    loaded = load_settings(env={"MEMTUI_CONFIG": str(file)})
    assert loaded.settings == Settings()
    assert loaded.warnings == ()


def test_the_sample_without_its_comment_marks_is_every_key_with_its_default(
    tmp_path: Path,
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(_uncommented())
    loaded = load_settings(env={"MEMTUI_CONFIG": str(file)})
    assert loaded.warnings == ()
    for key in leaves():
        origin = loaded.origins[key]
        assert origin.source == "user", key
        assert origin.value == default_of(key), key
    bindings = loaded.settings.keymap.bindings
    assert bindings == {action.id: ",".join(action.keys) for action in ACTIONS}


def test_every_key_of_the_sample_is_explained() -> None:
    for leaf in leaves().values():
        assert leaf.description, leaf.key
        assert leaf.description in sample_config()


# --- lines ------------------------------------------------------------------------------------

_DOCUMENT = """\
# comment
a.b = 1
a.c = '''
x
'''
[t] # note
k = 1

[t.u.v]
z = [
 1,
 2]
w.x.y = 3

[[rows]]
n = 1
[[rows]]
n = 2
[inline]
q = {a=1, b=2}
[t.later]
x = 1

  [indented]

  i = 1
"q.r" = 2
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lines_of_keys(newline: str) -> None:
    text = _DOCUMENT.replace("\n", newline)
    lines = key_lines(text)
    rows = _DOCUMENT.splitlines()
    expected = {
        ("a", "b"): "a.b = 1",
        ("a", "c"): "a.c = '''",
        ("t",): "[t] # note",
        ("t", "k"): "k = 1",
        ("t", "u", "v"): "[t.u.v]",
        ("t", "u", "v", "z"): "z = [",
        ("t", "u", "v", "w", "x", "y"): "w.x.y = 3",
        ("rows", "n"): "n = 1",
        ("inline", "q"): "q = {a=1, b=2}",
        ("t", "later", "x"): "x = 1",
        ("indented", "i"): "  i = 1",
        ("indented", "q.r"): '"q.r" = 2',
    }
    assert {path: rows[lines[path] - 1] for path in expected} == expected


def test_a_key_inside_an_inline_table_is_placed_at_the_table(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("\nranking = {k = 3}\n")
    file = read_config(path)
    assert isinstance(file, ConfigFile)
    assert file.place(("ranking", "k")) == f"{path}:2"
    assert file.place(("none",)) == str(path)


# --- trust ------------------------------------------------------------------------------------

_PROTECTED_TOML = """\
editor = "sh -c evil"
pager = "evil"
[embedding]
provider = "openai"
base_url = "https://evil.example/v1"
fallback = "gemini"
allow_remote = true
key_env = "OTHER_KEY"
key_command = "sh -c evil"
model_path = "/tmp/model.gguf"
ca_file = "/tmp/ca.pem"
batch = true
[index]
data_dir = "/tmp/x"
[memory]
extra_paths = ["notes", "~/.ssh"]
[transcripts]
sources = ["codex"]
paths = ["logs", "../other"]
[ranking]
k = 3
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "clone"
    root.mkdir()
    (root / ".memtui.toml").write_text(_PROTECTED_TOML)
    return root


def _config(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "user.toml").touch()
    return {"MEMTUI_CONFIG": str(tmp_path / "user.toml")}


def test_what_a_killed_process_left_half_written_is_removed(tmp_path: Path) -> None:
    state = StateFolder(tmp_path)
    abandoned, fresh = tmp_path / ".history.json-a1b2", tmp_path / ".history.json-c3d4"
    other = tmp_path / ".other.json-e5f6"
    for path in (abandoned, fresh, other):
        path.write_text("half")
    for path in (abandoned, other):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    state.write_text("history.json", "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"history.json", fresh.name, other.name}


def test_a_project_file_may_not_set_protected_keys(tmp_path: Path, project: Path) -> None:
    state = StateFolder(tmp_path / "state")
    loaded = load_settings(env=_config(tmp_path), root=project, state=state)
    assert loaded.settings == Settings.parse({"ranking": {"k": 3}})
    assert len(loaded.warnings) == len(PROTECTED)
    lines = (1, 2, 4, 6, 7, 5, 8, 9, 10, 11, 12, 14, 16, 18, 19)
    for key, line in zip(PROTECTED, lines, strict=True):
        start = f"{project / '.memtui.toml'}:{line}: {key}: ignored"
        assert any(warning.startswith(start) for warning in loaded.warnings), key
        assert loaded.origins[key].source == "default"
    assert all("memtui trust" in warning for warning in loaded.warnings)


def test_trust_holds_for_exactly_this_content(tmp_path: Path, project: Path) -> None:
    state = StateFolder(tmp_path / "state")
    path = project / ".memtui.toml"
    file = read_config(path)
    assert isinstance(file, ConfigFile)
    trust(file, state)
    loaded = load_settings(env=_config(tmp_path), root=project, state=state)
    assert loaded.settings.editor == "sh -c evil"
    assert loaded.settings.memory.extra_paths == ("notes", "~/.ssh")
    assert loaded.warnings == ()
    path.write_text(_PROTECTED_TOML.replace("sh -c evil", "sh -c other"))
    changed = read_config(path)
    assert isinstance(changed, ConfigFile)
    assert not is_trusted(changed, state)
    assert load_settings(env=_config(tmp_path), root=project, state=state).settings.editor is None
    assert revoke(path, state)
    assert not revoke(path, state)
    assert not is_trusted(file, state)


def test_a_copy_elsewhere_is_not_trusted(tmp_path: Path, project: Path) -> None:
    state = StateFolder(tmp_path / "state")
    file = read_config(project / ".memtui.toml")
    assert isinstance(file, ConfigFile)
    trust(file, state)
    other = tmp_path / "other"
    other.mkdir()
    (other / ".memtui.toml").write_text(_PROTECTED_TOML)
    copy = read_config(other / ".memtui.toml")
    assert isinstance(copy, ConfigFile)
    assert not is_trusted(copy, state)


def test_the_user_may_set_protected_keys(tmp_path: Path) -> None:
    (tmp_path / "user.toml").write_text(_PROTECTED_TOML)
    loaded = load_settings(env={"MEMTUI_CONFIG": str(tmp_path / "user.toml")})
    assert loaded.settings.editor == "sh -c evil"
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"embedding.provider": "auto"}, ()),
        ({"embedding.provider": "none"}, ()),
        ({"embedding.provider": "openai"}, ("embedding.provider",)),
        ({"memory.extra_paths": ("a", "b/**/*.md", "a..b")}, ()),
        ({"memory.extra_paths": ("a/../../b",)}, ("memory.extra_paths",)),
        ({"memory.extra_paths": ("a\\..\\b",)}, ("memory.extra_paths",)),
        ({"memory.extra_paths": ("/etc",)}, ("memory.extra_paths",)),
        ({"memory.extra_paths": ("~root",)}, ("memory.extra_paths",)),
        ({"memory.extra_paths": ("C:x",)}, ("memory.extra_paths",)),
        ({"memory.extra_paths": ("$HOME/x",)}, ("memory.extra_paths",)),
        ({"index.data_dir": "x", "editor": "vi"}, ("editor", "index.data_dir")),
    ],
)
def test_which_values_need_trust(values: dict[str, object], expected: tuple[str, ...]) -> None:
    assert protected_keys(values) == expected


def test_every_protected_key_exists_and_every_risky_name_is_protected() -> None:
    assert set(PROTECTED) <= set(leaves())
    risky = ("editor", "pager", "command", "url", "endpoint", "data_dir", "socket", "proxy")
    for key in leaves():
        if any(word in key.rsplit(".", 1)[-1] for word in risky):
            assert key in PROTECTED, key


# --- state ------------------------------------------------------------------------------------


def test_state_files_are_private_and_replaced_whole(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "deep" / "state")
    assert state.read_json("history.json") is None
    state.write_json("history.json", ["a", "\udcff"])
    state.write_json("history.json", ["b"])
    assert state.read_json("history.json") == ["b"]
    assert os.listdir(state.path) == ["history.json"]
    if sys.platform != "win32":
        assert stat.S_IMODE(state.path.stat().st_mode) == 0o700
        assert stat.S_IMODE((state.path / "history.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000])
def test_broken_state_reads_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "trusted.json").write_bytes(content)
    assert StateFolder(tmp_path).read_json("trusted.json") is None


@pytest.mark.parametrize("content", ["[]", '{"a": 1}', '"x"'])
def test_a_trust_file_of_another_shape_trusts_nothing(
    tmp_path: Path, project: Path, content: str
) -> None:
    state = StateFolder(tmp_path / "state")
    state.write_text("trusted.json", content)
    file = read_config(project / ".memtui.toml")
    assert isinstance(file, ConfigFile)
    assert not is_trusted(file, state)
    trust(file, state)
    assert is_trusted(file, state)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "a\0b"])
def test_state_names_are_plain(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a plain file name"):
        StateFolder(tmp_path).write_text(name, "x")


# --- keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [150, 3000, 100_000])
@pytest.mark.parametrize("start", ["keymap", "nope"])
def test_a_key_of_very_many_parts_is_a_problem_and_no_burden(
    tmp_path: Path, start: str, depth: int
) -> None:
    (tmp_path / ".memtui.toml").write_text(f"{start}{'.a' * depth} = 1\n")
    (problem,) = check_settings(env={}, root=tmp_path)
    assert problem.place.startswith(f"{tmp_path}/.memtui.toml")


def test_a_place_below_the_current_folder_is_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def relative(*names: str, **options: object) -> Path:
        return Path("here")

    def missing(*names: str, **options: object) -> Path:
        raise RuntimeError

    for find in (relative, missing):
        monkeypatch.setattr("platformdirs.user_data_path", find)
        with pytest.raises(SettingsError, match="no home folder"):
            data_dir()


def test_a_configuration_of_an_unknown_user_is_not_there() -> None:
    with pytest.raises(SettingsError, match="no such file"):
        load_settings(env={"MEMTUI_CONFIG": "~nobody-of-this-name/config.toml"})


def test_a_broken_file_of_other_programs_is_none_of_its_business(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_bytes(b"[project]\nname = '\xff'\n")
    assert check_settings(env={}, root=tmp_path) == ()
    file.write_bytes(b"[tool.memtui]\neditor = '\xff'\n")
    (problem,) = check_settings(env={}, root=tmp_path)
    assert problem.fatal


def test_a_source_of_transcripts_that_is_none_is_told_what_there_is(tmp_path: Path) -> None:
    env = {**_config(tmp_path), "MEMTUI_TRANSCRIPTS__SOURCES": "codex,~/logs"}
    with pytest.raises(SettingsProblems, match="claude-code:PROJECT or codex; files and folders"):
        load_settings(env=env)


@pytest.mark.parametrize(
    ("named", "chosen", "names"),
    [
        (["openclaw"], ["openclaw:a", "openclaw:b", "codex"], ["openclaw", "codex"]),
        (["openclaw"], ["openclaw:a"], ["openclaw:a"]),
        (["openclaw:*", "openclaw:a"], ["openclaw:a", "openclaw:b"], ["openclaw:*", "openclaw:a"]),
        (["claude-code:-home-*"], ["claude-code"], ["claude-code:-home-*"]),
        (["claude-code:-home-*"], ["codex"], ["codex"]),
        (["openclaw:gone", "codex"], ["openclaw:b", "codex"], ["openclaw:gone", "codex", "openclaw:b"]),
        (["openclaw"], ["openclaw"], ["openclaw"]),
        ([], ["openclaw:a"], ["openclaw:a"]),
        (["codex"], [], []),
    ],
)  # fmt: skip
def test_a_wider_name_of_a_source_stays_while_all_of_it_is_chosen(
    named: list[str], chosen: list[str], names: list[str]
) -> None:
    places = ["openclaw:a", "openclaw:b", "claude-code", "codex"]
    assert names_for(named, places, chosen) == tuple(names)
