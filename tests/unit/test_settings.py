"""Merging of the configuration: precedence, origins, types, ranges and what is said about them."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from memtui.model import Decay, Fusion, Mmr, Ranking, Rerank, Stage
from memtui.settings import (
    Flag,
    Loaded,
    ProblemCode,
    RankingSettings,
    Settings,
    SettingsProblems,
    Source,
    StateFolder,
    check_settings,
    load_settings,
)
from memtui.settings.keys import leaves
from memtui.settings.schema import ProfileName


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    return tmp_path / "user.toml"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path / "state")


def _load(
    user_file: Path,
    root: Path | None = None,
    state: StateFolder | None = None,
    flags: dict[str, object] | None = None,
    env: dict[str, str] | None = None,
) -> Loaded:
    if not user_file.exists():
        user_file.write_text("")
    environment = {"MEMTUI_CONFIG": str(user_file), **(env or {})}
    return load_settings(flags=flags, env=environment, root=root, state=state)


def _problems(user_file: Path, text: str) -> tuple[str, ...]:
    user_file.write_text(text)
    with pytest.raises(SettingsProblems) as caught:
        _load(user_file)
    assert caught.value.exit_code == 2
    return tuple(str(problem) for problem in caught.value.problems)


def test_defaults_hold_without_any_source(user_file: Path) -> None:
    loaded = _load(user_file)
    assert loaded.settings == Settings()
    assert loaded.warnings == ()
    assert {origin.source for origin in loaded.origins.values()} == {Source.DEFAULT}
    assert set(loaded.origins) == set(leaves())


def test_the_nearest_source_wins_key_by_key(user_file: Path, root: Path) -> None:
    user_file.write_text("[ranking]\nk = 1\nrrf_k = 60.0\n[ui]\nmouse = false\n")
    (root / ".memtui.toml").write_text("[ranking]\nk = 2\ndedup = true\n")
    loaded = _load(
        user_file, root, flags={"ranking.k": Flag("-n", 4)}, env={"MEMTUI_RANKING__K": "3"}
    )
    ranking = loaded.settings.ranking
    assert (ranking.k, ranking.rrf_k, ranking.dedup) == (4, 60.0, True)
    assert loaded.settings.ui.mouse is False
    origin = loaded.origins["ranking.k"]
    assert (origin.source, origin.place, origin.value) == (Source.FLAG, "-n", 4)
    assert [(given.source, given.place, given.value) for given in origin.overrode] == [
        (Source.ENVIRONMENT, "$MEMTUI_RANKING__K", 3),
        (Source.PROJECT, f"{root / '.memtui.toml'}:2", 2),
        (Source.USER, f"{user_file}:2", 1),
    ]
    assert loaded.origins["ui.mouse"].place == f"{user_file}:5"
    assert loaded.origins["ui.mouse"].overrode == ()


@pytest.mark.parametrize("winner", [Source.USER, Source.PROJECT, Source.ENVIRONMENT, Source.FLAG])
def test_precedence(user_file: Path, root: Path, winner: Source) -> None:
    order = [Source.USER, Source.PROJECT, Source.ENVIRONMENT, Source.FLAG]
    present = order[: order.index(winner) + 1]
    if Source.USER in present:
        user_file.write_text("ui.theme = 'user'")
    if Source.PROJECT in present:
        (root / ".memtui.toml").write_text("ui.theme = 'project'")
    env = {"MEMTUI_UI__THEME": "environment"} if Source.ENVIRONMENT in present else {}
    flags: dict[str, object] = {"ui.theme": "flag"} if Source.FLAG in present else {}
    loaded = _load(user_file, root, flags=flags, env=env)
    assert loaded.settings.ui.theme == str(winner)
    assert loaded.origins["ui.theme"].source is winner


def test_pyproject_table_is_read_when_there_is_no_own_file(user_file: Path, root: Path) -> None:
    pyproject = root / "pyproject.toml"
    pyproject.write_text("[project]\nname='x'\n\n[tool.memtui.ranking]\nk = 9\n")
    loaded = _load(user_file, root)
    assert loaded.settings.ranking.k == 9
    assert loaded.origins["ranking.k"].place == f"{pyproject}:5"
    assert loaded.project_file == pyproject
    (root / ".memtui.toml").write_text("[ranking]\nk = 5\n")
    shadowed = _load(user_file, root)
    assert shadowed.settings.ranking.k == 5
    assert len(shadowed.warnings) == 1
    assert "pyproject.toml" in shadowed.warnings[0]


def test_a_broken_pyproject_matters_only_if_it_speaks_of_memtui(
    user_file: Path, root: Path
) -> None:
    (root / "pyproject.toml").write_text("[project\nname=")
    assert _load(user_file, root).settings == Settings()
    (root / "pyproject.toml").write_text("[tool.memtui]\nranking = = 3")
    with pytest.raises(SettingsProblems, match=r"pyproject\.toml:2"):
        _load(user_file, root)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[ranking]\nk = 'six'\n", ":2: ranking.k: must be a whole number, not 'six'"),
        ("[ranking]\n\nk = 0\n", ":3: ranking.k: must be greater than or equal to 1, not 0"),
        ("[ranking]\nk = true\n", ":2: ranking.k: must be a whole number"),
        ("[ranking]\nk = 6.5\n", ":2: ranking.k: must be a whole number"),
        ("[ranking.mmr]\nlambda = 1.5\n", ":2: ranking.mmr.lambda: must be less than or equal"),
        ("[ranking.mmr]\nlambda = nan\n", ":2: ranking.mmr.lambda: must be greater than or equal to 0, not nan"),
        ("[ranking.decay]\nhalf_life_days = inf\n", ":2: ranking.decay.half_life_days: must be"),
        ("[ranking]\nfusion = 'sum'\n", ":2: ranking.fusion: must be one of weighted_sum, relative"),
        ("[ranking]\nprofile = 'openclaw'\n", ":2: ranking.profile: no such profile: openclaw (did you mean openclaw-"),
        ("[memory]\nextra_paths = 'a'\n", ":2: memory.extra_paths: must be a list"),
        ("[memory]\nextra_paths = [1]\n", ":2: memory.extra_paths: must be a text"),
        ("ranking = 3\n", ":1: ranking: must be a table [ranking]"),
        ("[ranking.k]\nx = 1\n", ":1: ranking.k: must be a whole number, not dict"),
        ("[ui]\nmouse = 1\n", ":2: ui.mouse: must be true or false, not 1"),
        ("[ui]\ntheme = 2026-01-01\n", ":2: ui.theme: must be a text"),
        ("[embedding]\nbase_url = 'ftp://x'\n", ":2: embedding.base_url: must be an address"),
        ("[chunking]\ntokens = 40\n", ":2: chunking.tokens: chunking.overlap (80) must be below"),
        ("[ranking]\nvector_weight=0\nkeyword_weight=0\n", ":2: ranking.vector_weight: vector_w"),
        ("[keymap]\nquit = 3\n", ":2: keymap.quit: must be a text, not 3"),
        ("a = = 1\n", ":1: broken TOML: Invalid value, column 5"),
        ("a = '\n\n", ":3: broken TOML:"),
        ("[[[[\n", ":1: broken TOML:"),
        ("a = [" + "[" * 100_000, "nested too deeply"),
    ],
)  # fmt: skip
def test_wrong_values_name_file_line_and_key(user_file: Path, text: str, expected: str) -> None:
    problems = _problems(user_file, text)
    assert len(problems) == 1
    assert problems[0].startswith(str(user_file))
    assert expected in problems[0]
    assert "\n" not in problems[0]


def test_every_problem_is_told_at_once(user_file: Path) -> None:
    problems = _problems(user_file, "[ranking]\nk = 0\n[ui]\nmouse = 'yes'\n[nope]\na = 1\n")
    assert [line.split(": ")[1] for line in problems] == ["ranking.k", "ui.mouse"]


def test_a_wrong_value_is_an_error_even_where_a_flag_wins(user_file: Path) -> None:
    user_file.write_text("[ranking]\nk = 0\n")
    with pytest.raises(SettingsProblems):
        _load(user_file, flags={"ranking.k": 3})


def test_files_that_cannot_be_read_as_configuration(tmp_path: Path, user_file: Path) -> None:
    user_file.write_bytes(b"# ok\nx = '\xff'\n")
    with pytest.raises(SettingsProblems, match=r"user\.toml:2: not UTF-8"):
        _load(user_file)
    with pytest.raises(SettingsProblems, match="not a regular file"):
        _load(tmp_path)
    with pytest.raises(SettingsProblems, match=r"\$MEMTUI_CONFIG: no such file"):
        load_settings(env={"MEMTUI_CONFIG": str(tmp_path / "none.toml")})
    user_file.write_text("#" * 2_000_000)
    with pytest.raises(SettingsProblems, match="larger than"):
        _load(user_file)


def test_a_byte_order_mark_is_no_problem(user_file: Path) -> None:
    user_file.write_bytes(b"\xef\xbb\xbf[ranking]\nk = 3\n")
    assert _load(user_file).settings.ranking.k == 3


def test_unknown_keys_are_warnings_at_start_and_named_with_the_nearest(user_file: Path) -> None:
    user_file.write_text("[ranking.mmr]\nlamda = 0.5\n[rankin]\nk = 1\n[ui]\nzzzz = 1\n")
    loaded = _load(user_file)
    assert loaded.settings == Settings()
    assert loaded.warnings == (
        f"{user_file}:2: ranking.mmr.lamda: no such key (did you mean ranking.mmr.lambda?)",
        f"{user_file}:3: rankin: no such key (did you mean ranking?)",
        f"{user_file}:6: ui.zzzz: no such key (`memtui config show` lists every key)",
    )


def test_a_file_of_thousands_of_unknown_keys_gets_a_few_nearest(
    user_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def nearest(word: str, known: object) -> None:
        asked.append(word)

    monkeypatch.setattr("memtui.settings.load.nearest", nearest)
    user_file.write_text("\n".join(f"key{number} = 1" for number in range(2000)))
    assert len(_load(user_file).warnings) == 2000
    assert len(asked) == 50


def test_unknown_keys_are_problems_of_a_check(user_file: Path) -> None:
    user_file.write_text("[ranking]\nkk = 1\nk = 0\n")
    found = check_settings(env={"MEMTUI_CONFIG": str(user_file)})
    assert {problem.code for problem in found} == {
        ProblemCode.UNKNOWN_KEY,
        ProblemCode.WRONG_VALUE,
    }


def test_environment_values_are_parsed_as_the_type_they_stand_for(user_file: Path) -> None:
    settings = _load(
        user_file,
        env={
            "MEMTUI_RANKING__MMR__LAMBDA": "0.25",
            "MEMTUI_RANKING__MMR__ENABLED": "yes",
            "MEMTUI_MEMORY__EXTRA_PATHS": "a.md, b/*.md",
            "MEMTUI_MEMORY__IGNORE": '["x,y", "z"]',
            "MEMTUI_RANKING__FUSION": "rrf",
            "MEMTUI_KEYMAP__HALF_LIFE__UP": "alt+h",
            "MEMTUI_UI__THEME": "",
            "MEMTUI_ROOT": "/somewhere",
        },
    ).settings
    assert settings.ranking.mmr.lambda_ == 0.25
    assert settings.ranking.mmr.enabled is True
    assert settings.memory.extra_paths == ("a.md", "b/*.md")
    assert settings.memory.ignore == ("x,y", "z")
    assert settings.ranking.fusion is Fusion.RRF
    assert settings.keymap.bindings == {"half_life.up": "alt+h"}
    assert settings.ui.theme == "auto"


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("MEMTUI_RANKING__K", "many", "$MEMTUI_RANKING__K: ranking.k: must be a whole number"),
        ("MEMTUI_UI__MOUSE", "maybe", "$MEMTUI_UI__MOUSE: ui.mouse: must be true or false"),
        ("MEMTUI_MEMORY__IGNORE", "[1,", "$MEMTUI_MEMORY__IGNORE: memory.ignore: must be a JSON"),
        ("MEMTUI_RANKING__MMR__LAMBDA", "nan", "$MEMTUI_RANKING__MMR__LAMBDA: ranking.mmr.lambda"),
    ],
)
def test_wrong_environment_values(
    user_file: Path, variable: str, value: str, expected: str
) -> None:
    with pytest.raises(SettingsProblems) as caught:
        _load(user_file, env={variable: value})
    assert str(caught.value.problems[0]).startswith(expected)


def test_unknown_environment_variables_are_warnings(user_file: Path) -> None:
    assert _load(
        user_file, env={"MEMTUI_RANKING__LAMBDA": "1", "MEMTUI_RANKING": "2"}
    ).warnings == (
        "$MEMTUI_RANKING: no such setting (did you mean $MEMTUI_RANKING__K?)",
        "$MEMTUI_RANKING__LAMBDA: no such setting (did you mean $MEMTUI_RANKING__MMR__LAMBDA?)",
    )


def test_wrong_flags_name_the_flag(user_file: Path) -> None:
    with pytest.raises(SettingsProblems, match=r"--lambda: ranking\.mmr\.lambda: must be less"):
        _load(user_file, flags={"ranking.mmr.lambda": Flag("--lambda", 3.0)})


def test_an_empty_string_unsets_what_may_be_unset(user_file: Path, root: Path) -> None:
    user_file.write_text("[ranking]\nmin_score = 0.3\nk = 4\n")
    (root / ".memtui.toml").write_text("[ranking]\nmin_score = ''\n")
    ranking = _load(user_file, root).settings.ranking
    assert (ranking.min_score, ranking.k) == (None, 4)


def test_keymap_takes_quoted_and_dotted_ids(user_file: Path) -> None:
    user_file.write_text("[keymap]\npreset='vim'\n'mmr.toggle'='M'\ndecay.toggle='D'\nquit=''\n")
    keymap = _load(user_file).settings.keymap
    assert keymap.preset == "vim"
    assert keymap.bindings == {"mmr.toggle": "M", "decay.toggle": "D", "quit": ""}


def test_an_unknown_action_names_the_nearest(user_file: Path) -> None:
    user_file.write_text("[keymap]\nmmr.togle = 'M'\n")
    assert _load(user_file).warnings == (
        f"{user_file}:2: keymap.mmr.togle: no such key (did you mean keymap.mmr.toggle?)",
    )


# --- ranking ----------------------------------------------------------------------------------


def test_unset_ranking_values_come_from_the_profile() -> None:
    base = Ranking(k=12, vector_weight=0.5, keyword_weight=0.5, min_score=0.35)
    assert RankingSettings().apply(base) == base


def test_set_ranking_values_replace_those_of_the_profile(user_file: Path) -> None:
    user_file.write_text(
        "[ranking]\nk=3\nfusion='rrf'\nrrf_k=60\ndedup=true\nmin_score=0.1\n"
        "mmr.enabled=true\nmmr.lambda=0.5\ndecay.enabled=true\ndecay.half_life_days=7\n"
        "rerank.enabled=true\nrerank.recency=0.5\n"
    )
    assert _load(user_file).settings.ranking.apply(Ranking()) == Ranking(
        k=3,
        fusion=Fusion.RRF,
        rrf_k=60.0,
        dedup=True,
        min_score=0.1,
        mmr=Mmr(enabled=True, lambda_=0.5),
        decay=Decay(enabled=True, half_life_days=7.0),
        rerank=Rerank(enabled=True, recency=0.5),
    )


@pytest.mark.parametrize(
    ("vector", "keyword", "expected"),
    [
        (None, None, (0.3, 0.7)),
        (0.9, None, (0.9, 0.1)),
        (None, 0.25, (0.75, 0.25)),
        (0.5, 0.9, (0.5, 0.9)),
        (0.0, None, (0.0, 1.0)),
    ],
)
def test_one_weight_alone_gives_the_other_leg_the_rest(
    vector: float | None, keyword: float | None, expected: tuple[float, float]
) -> None:
    ranking = RankingSettings(vector_weight=vector, keyword_weight=keyword).apply(Ranking())
    assert (ranking.vector_weight, ranking.keyword_weight) == expected


def test_the_gentle_preset_sets_the_floor_unless_one_is_set() -> None:
    gentle = RankingSettings.parse({"decay": {"preset": "gentle"}})
    assert gentle.apply(Ranking()).decay.floor == 0.8
    both = RankingSettings.parse({"decay": {"preset": "gentle", "floor": 0.1}})
    assert both.apply(Ranking()).decay.floor == 0.1


def test_stages_that_a_profile_lacks_are_named() -> None:
    wanted = RankingSettings.parse({"mmr": {"enabled": True}, "dedup": True})
    assert wanted.without_effect(Ranking()) == ()
    short = Ranking(stages=(Stage.FUSION, Stage.CUT))
    assert wanted.without_effect(short) == ("ranking.mmr.enabled", "ranking.dedup")


def test_profiles_are_those_of_the_layer_above() -> None:
    from memtui.ranking.profiles import PROFILES

    assert set(get_args(ProfileName)) == set(PROFILES)
