"""Whatever a file or the environment holds: settings, warnings or named problems, no traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from memtui.settings.files import SettingsProblems
from memtui.settings.keys import leaves, tables
from memtui.settings.load import Loaded, SettingsFiles, variable_of
from memtui.settings.storage import StateFolder
from memtui.settings.toml import key_lines

Load = Callable[[bytes, dict[str, str]], Loaded | SettingsProblems]


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    folder = tmp_path_factory.mktemp("settings")
    root = folder / "root"
    root.mkdir()
    state = StateFolder(folder / "state")

    def run(content: bytes, env: dict[str, str]) -> Loaded | SettingsProblems:
        user = folder / "user.toml"
        user.write_bytes(content)
        (root / ".memtui.toml").write_bytes(content)
        environment = {**env, "MEMTUI_CONFIG": str(user)}
        files = SettingsFiles(environment, root, state=state)
        assert all("\n" not in warning for warning in files.read().warnings)
        try:
            loaded = files.load()
        except SettingsProblems as problems:
            return problems
        for origin in loaded.origins.values():
            assert isinstance(origin.given.place, str)
        return loaded

    return run


keys = st.sampled_from(sorted({*leaves(), *tables()} - {""}))
scalars = st.one_of(
    st.integers(),
    st.integers(min_value=-(10**400), max_value=10**400),
    st.floats(),
    st.booleans(),
    st.text(),
    st.datetimes(),
    st.dates(),
    st.times(),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.binary(max_size=300))
def test_any_bytes(load: Load, content: bytes) -> None:
    load(content, {})


@given(st.text(alphabet="[]{}=.,'\"\\\n #aк1_-", max_size=80))
def test_any_text_that_looks_like_toml(load: Load, text: str) -> None:
    load(text.encode(), {})


@given(keys, values)
def test_any_value_at_a_known_key(load: Load, key: str, value: Any) -> None:
    try:
        content = tomlkit.dumps({"x": value})
    except (ValueError, TypeError, UnicodeError):
        return
    try:
        load(content.replace("x", key, 1).encode(), {})
    except UnicodeEncodeError:
        return


@given(keys, st.text(st.characters(exclude_characters="\0")))
def test_any_environment(load: Load, key: str, value: str) -> None:
    load(b"", {variable_of(key): value})


@given(st.text(st.characters(exclude_characters="\0=")))
def test_any_variable_name(load: Load, name: str) -> None:
    load(b"", {f"MEMTUI_{name}": "1"})


@given(st.dictionaries(st.text(min_size=1), values, max_size=4))
def test_the_line_of_a_key_is_a_line_of_the_file(data: dict[str, Any]) -> None:
    try:
        text = tomlkit.dumps(data)
    except (ValueError, TypeError):
        return
    count = text.count("\n") + 1
    assert all(1 <= line <= count for line in key_lines(text).values())


def test_load_leaves_no_trace_in_the_project(load: Load, tmp_path: Path) -> None:
    load(b"editor = 'x'", {})
    assert not (tmp_path / "state").exists()
