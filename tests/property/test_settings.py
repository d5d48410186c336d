"""Whatever a file or the environment holds: settings, warnings or named problems, no traceback."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import Any

import pytest
import tomlkit
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from msgspec.structs import replace

from memtui.errors import SettingsError
from memtui.model import Fusion, Ranking
from memtui.model.rankings import TieRule
from memtui.ranking.profiles import PROFILES
from memtui.settings.files import SettingsProblems, StateFolder
from memtui.settings.load import Loaded, SettingsFiles, Source
from memtui.settings.schema import (
    ProfileSettings,
    base_of,
    has_rules_of,
    keys_for,
    leaves,
    nested,
    tables,
    values_of,
)
from memtui.settings.toml import KeyPath as Path
from memtui.settings.toml import toml_value
from memtui.settings.write import REMOVED, CannotEdit, edited, plan_ranking, write

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
        assert all(isinstance(first.place, str) for first, *_ in loaded.origins.values())
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


variables = st.one_of(
    keys.map(lambda key: f"MEMTUI_{key.upper().replace('.', '__')}"),
    st.text(st.characters(exclude_characters="\0=")).map("MEMTUI_{}".format),
)


@given(variables, st.text(st.characters(exclude_characters="\0")))
def test_any_environment(load: Load, name: str, value: str) -> None:
    load(b"", {name: value})


names = st.sampled_from(["a", "b-1", "k", "mmr", "q.r", "ü", '"', ""])
LINES = (
    *("a = 1", "b-1 = 2 # why", "  k = 'it' # k = 3 'x\" ]", 'ü = "ö"\t#', '"q.r" = 0.5'),
    *("x = [ # open\n  3, # 1\n  4, # 1\n]", "y = ['''1''', \"\"]", "z = -7", '"" = nan'),
    *("mmr.k = 4", "mmr.a = true", "in = {a = 1, k = { b-1 = 5 }}", "k2 = {}", "a.k.a = 6"),
    *("# note", "#k = 6", "", "\n  # mmr = [ \n", "[mmr]", "[a] # why", "\t[k.a]", '["q.r"]'),
    *('["ü".""]', "[k]", "[new.k]", "[a.mmr]", "[profiles.mine]\nk = 8"),
)
"""Lines in every style that TOML has; not all of them fit together."""


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A document: keys and tables with headers, dotted or inline, with comments and gaps."""
    end = draw(st.sampled_from(["\n", "\n", "\n", "\r\n"]))
    lines = draw(st.lists(st.sampled_from(LINES), max_size=10, unique=True))
    text = "\n".join(lines).replace("\n", end) + draw(st.sampled_from(["", end]))
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise UnsatisfiedAssumption from None
    return text


new_values = st.one_of(
    st.integers(-9, 9), st.booleans(), st.floats(0, 1), st.text(max_size=4), st.just(REMOVED)
)
changes = st.dictionaries(
    st.lists(names, min_size=1, max_size=3).map(tuple), new_values, min_size=1, max_size=3
)


def _after(text: str, change: Mapping[Path, Any]) -> dict[str, Any]:
    """What the text says with the changes made to the values; `KeyError` where they do not fit."""
    data: dict[str, Any] = tomllib.loads(text)
    for path, value in change.items():
        table: Any = data
        for part in path[:-1]:
            if value is REMOVED and part not in table:
                break
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise KeyError(path)
        else:
            if isinstance(table.get(path[-1]), dict):
                raise KeyError(path)
            if value is REMOVED:
                table.pop(path[-1], None)
            else:
                table[path[-1]] = tomllib.loads(f"x = {toml_value(value)}")["x"]
    return data


def _plain(value: Any) -> Any:
    """A document that can be compared: no empty tables, NaN by its name."""
    if isinstance(value, dict):
        held = {key: _plain(inner) for key, inner in value.items()}
        return {key: inner for key, inner in held.items() if inner != {}}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return repr(value)


def _comments(text: str) -> list[str]:
    """The lines that are nothing but a comment, in order."""
    return [line.strip() for line in text.splitlines() if line.strip().startswith("#")]


def _edited(text: str, change: Mapping[Path, Any]) -> str:
    """The edited text; only a value with comments inside it may be left alone."""
    try:
        return edited(text, change)
    except CannotEdit as error:
        assume("comments inside a value would be lost" not in str(error))
        raise


@given(documents(), changes)
def test_an_edit_changes_its_keys_and_nothing_else(text: str, change: dict[Path, Any]) -> None:
    try:
        wanted = _after(text, change)
    except KeyError:
        # A key within a value, or a value in the place of a table.
        if REMOVED not in change.values():
            with pytest.raises(CannotEdit):
                edited(text, change)
        return
    after = _edited(text, change)
    assert _plain(tomllib.loads(after)) == _plain(wanted)
    assert not Counter(_comments(text)) - Counter(_comments(after))


def _values(data: Mapping[str, Any], path: Path = ()) -> list[tuple[Path, Any]]:
    """Every key with its value, tables opened."""
    pairs: list[tuple[Path, Any]] = []
    for name, value in data.items():
        here = (*path, name)
        pairs.extend(_values(value, here) if isinstance(value, dict) else [(here, value)])
    return pairs


@given(documents(), st.data())
def test_another_value_changes_its_line_alone(text: str, data: st.DataObject) -> None:
    numbers = [pair for pair in _values(tomllib.loads(text)) if type(pair[1]) is int]
    assume(numbers)
    path, value = data.draw(st.sampled_from(numbers))
    after = _edited(text, {path: value + 1})
    pairs = list(zip(text.split("\n"), after.split("\n"), strict=True))
    assert sum(before != now for before, now in pairs) == 1
    # An inline table is written anew.
    assert "{" in text or edited(after, {path: value}) == text


shares = st.floats(0, 1).map(lambda value: round(value, 3))
positive = st.floats(0.01, 9000).map(lambda value: round(value, 2))


@st.composite
def rankings(draw: st.DrawFn) -> Ranking:
    """A ranking that keys can make: a built-in one with other values."""
    base = PROFILES[draw(st.sampled_from(sorted(PROFILES)))]
    vector = draw(shares)
    return replace(
        base,
        k=draw(st.one_of(st.just(base.k), st.integers(1, 200))),
        candidate_multiplier=draw(st.integers(1, 50)),
        fusion=draw(st.sampled_from(Fusion)),
        vector_weight=vector,
        keyword_weight=draw(st.one_of(st.just(round(1 - vector, 10)), shares)) or 0.5,
        rrf_k=draw(positive),
        dedup=draw(st.booleans()),
        min_score=draw(st.one_of(st.none(), st.just(base.min_score), shares)),
        project_keys=tuple(draw(st.lists(st.text(max_size=5), max_size=2))),
        mmr=replace(base.mmr, enabled=draw(st.booleans()), lambda_=draw(shares)),
        decay=replace(
            base.decay,
            enabled=draw(st.booleans()),
            half_life_days=draw(positive),
            floor=draw(st.sampled_from([base.decay.floor, 0.8, 0.25])),
        ),
        rerank=replace(base.rerank, enabled=draw(st.booleans()), recency=draw(shares)),
    )


@given(rankings(), st.sampled_from(sorted(PROFILES)))
def test_the_fewest_keys_make_the_ranking(wanted: Ranking, name: str) -> None:
    for base in (PROFILES[base_of(wanted)], PROFILES[name]):
        keys = keys_for(wanted, base)
        made_of = ProfileSettings.parse(nested(keys))
        made = made_of.apply(base)
        assert values_of(made) == {**values_of(wanted), "profile": base.profile}
        assert has_rules_of(made, base)
        assert values_of(made_of) == keys
        for key in [*keys][1:]:
            fewer = ProfileSettings.parse(nested({k: keys[k] for k in keys if k != key}))
            assert values_of(fewer.apply(base)) != values_of(made), key


def test_built_in_profiles_are_told_apart_by_their_rules() -> None:
    for name, ranking in PROFILES.items():
        assert base_of(replace(ranking, profile="mine", k=3, min_score=0.1)) == name
    strange = replace(PROFILES["memini"], profile="x", tie_rule=TieRule.LOCATION)
    assert base_of(strange) == "memtui"


def _ranking_text(keys: Mapping[str, Any], style: str) -> str:
    """Keys of `[ranking]`, each table with a header, dotted or inline; a comment for each."""
    if style == "dotted":
        return "".join(f"ranking.{k} = {toml_value(v)} # {k}\n" for k, v in keys.items())
    if style == "inline":
        return "ranking = {" + ", ".join(f"{k} = {toml_value(v)}" for k, v in keys.items()) + "}\n"
    rows = {"ranking": "# all of it\n"}
    for key, value in keys.items():
        table, _, name = f"ranking.{key}".rpartition(".")
        rows[table] = rows.get(table, "") + f"{name} = {toml_value(value)} # {key}\n"
    return "\n".join(f"[{table}]\n{lines}" for table, lines in rows.items())


styles = st.sampled_from(["header", "dotted", "inline"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> FilePath:
    made = tmp_path_factory.mktemp("written")
    (made / "root").mkdir()
    return made


@settings(max_examples=40)
@given(rankings(), rankings(), rankings(), styles, styles, st.sampled_from(["user", "project"]))
def test_the_settings_give_what_was_written(
    folder: FilePath, wanted: Ranking, user: Ranking, project: Ranking, one: str, two: str, to: str
) -> None:
    mine, shared = folder / "user.toml", folder / "root" / ".memtui.toml"
    texts = []
    for file, ranking, style in ((mine, user, one), (shared, project, two)):
        base = PROFILES[ranking.profile]
        keys = keys_for(ranking, base)
        texts.append(_ranking_text(keys, style))
        file.write_text(texts[-1] + "\n[ui]\nmouse = false # no\n")
    if to == "user":
        shared.write_text("# nothing here\n")
    files = SettingsFiles({"MEMTUI_CONFIG": str(mine)}, folder / "root", state=StateFolder(folder))
    try:
        plan = plan_ranking(files, Source(to), wanted)
    except SettingsError as error:
        # A document that cannot be changed is left alone, and the lines are told.
        assume("by hand: " not in error.message)
        raise
    assert plan.notes == ()
    write(plan, files)
    loaded = files.load().settings
    assert loaded.configured_ranking() == wanted == plan.ranking
    assert loaded.ui.mouse is False
    assert not plan_ranking(files, Source(to), wanted).changes
    before, after = plan.file.text, plan.file.path.read_text()
    for comment in (
        "# all of it",
        "# no",
        *(f"# {key}" for key in values_of(wanted) if key != "profile"),
    ):
        assert after.count(comment) >= before.count(comment)
