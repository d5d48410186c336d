"""Named rankings in the settings: reading, merging, naming what is wrong, and the list of all."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from memtui.model import Fusion, Ranking
from memtui.ranking.profiles import PROFILES
from memtui.settings import (
    Flag,
    Loaded,
    ProblemCode,
    Settings,
    SettingsProblems,
    Source,
    check_settings,
    load_settings,
)
from memtui.settings.keys import key_of, profile_key, profile_of
from memtui.settings.toml import statements

TEXT = """\
[ranking]
profile = "fast.1"
k = 7

[profiles."fast.1"]
k = 9
mmr.enabled = true

[profiles.old]  # as before
profile = "openclaw-2026.4"
fusion = "rrf"
[profiles.old.decay]
enabled = true
half_life_days = 90

[profiles.plain]
"""


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    file = tmp_path / "user.toml"
    file.write_text(TEXT)
    return file


def _load(user_file: Path, root: Path | None = None, **flags: object) -> Loaded:
    given = {f"ranking.{key}": Flag(f"--{key}", value) for key, value in flags.items()}
    return load_settings(flags=given, env={"MEMTUI_CONFIG": str(user_file)}, root=root)


def test_every_named_ranking_built_in_first_then_own_in_file_order(user_file: Path) -> None:
    settings = _load(user_file).settings
    named = settings.named_rankings(PROFILES)
    assert list(named) == [*PROFILES, "fast.1", "old", "plain"]
    assert all(ranking.profile == name for name, ranking in named.items())
    fast, old = named["fast.1"], named["old"]
    assert (fast.k, fast.mmr.enabled, fast.stages) == (9, True, Ranking().stages)
    assert (old.fusion, old.decay.half_life_days) == (Fusion.RRF, 90)
    assert (old.min_score, old.decay.dates) == (0.35, PROFILES["openclaw-2026.4"].decay.dates)
    assert settings.base_ranking(PROFILES) == fast
    configured = settings.configured_ranking(PROFILES)
    assert (configured.k, configured.mmr.enabled, configured.profile) == (7, True, "fast.1")
    assert Settings().configured_ranking(PROFILES) == PROFILES["memtui"]


def test_origins_name_file_and_line(user_file: Path) -> None:
    origins = _load(user_file).origins
    places = {key: origin.place for key, origin in origins.items() if "profiles" in key}
    assert places == {
        'profiles."fast.1".profile': f"{user_file}:5",
        'profiles."fast.1".k': f"{user_file}:6",
        'profiles."fast.1".mmr.enabled': f"{user_file}:7",
        "profiles.old.profile": f"{user_file}:10",
        "profiles.old.fusion": f"{user_file}:11",
        "profiles.old.decay.enabled": f"{user_file}:13",
        "profiles.old.decay.half_life_days": f"{user_file}:14",
        "profiles.plain.profile": f"{user_file}:16",
    }


def test_a_project_takes_the_whole_place_of_a_profile_and_needs_no_trust(
    user_file: Path, tmp_path: Path
) -> None:
    root = tmp_path / "notes"
    root.mkdir()
    (root / ".memtui.toml").write_text("[profiles.old]\nk = 3\n[profiles.team]\nfusion = 'rrf'\n")
    loaded = _load(user_file, root)
    assert loaded.warnings == ()
    named = loaded.settings.named_rankings(PROFILES)
    assert set(named) == {*PROFILES, "fast.1", "old", "plain", "team"}
    assert (named["old"].k, named["old"].fusion) == (3, Fusion.RELATIVE_SCORE)
    assert "profiles.old.fusion" not in loaded.origins
    origin = loaded.origins["profiles.old.profile"]
    assert origin.source is Source.PROJECT
    assert [given.place for given in origin.overrode] == [f"{user_file}:10"]


def test_a_flag_and_the_environment_take_own_names(user_file: Path) -> None:
    assert _load(user_file, profile="old").settings.configured_ranking(PROFILES).k == 7
    env = {"MEMTUI_CONFIG": str(user_file), "MEMTUI_RANKING__PROFILE": "plain"}
    assert load_settings(env=env).settings.ranking.profile == "plain"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[profiles.x]\nk = 0\n", ":2: profiles.x.k: must be greater than or equal to 1, not 0"),
        ("[profiles.x]\nmmr = 3\n", ":2: profiles.x.mmr: must be a table [profiles.x.mmr]"),
        ("[profiles]\nx = 3\n", ":2: profiles.x: must be a table [profiles.x]"),
        ("profiles = 3\n", ":1: profiles: must be a table [profiles]"),
        ("\n[profiles.memini]\n", ":2: profiles.memini: is built in: an own profile needs another"),
        ("[profiles.Fast]\n", ":1: profiles.Fast: cannot be a profile's name: a-z, 0-9"),
        ("[profiles.'a b']\n", ':1: profiles."a b": cannot be a profile\'s name'),
        (f"[profiles.{'a' * 65}]\n", ": cannot be a profile's name"),
        (f"[profiles.{'a' * 10_000}]\n", f":1: profiles.{'a' * 80}: cannot be a profile's name"),
        ("[profiles.x]\nprofile = 'memtu'\n", ":2: profiles.x.profile: no built-in profile 'memtu': own profiles do not start from one another (did you mean memtui?)"),
        ("[profiles.x]\n[profiles.y]\nprofile = 'x'\n", ":3: profiles.y.profile: no built-in profile 'x'"),
        ("[profiles.x]\nvector_weight = 0\nkeyword_weight = 0\n", ":2: profiles.x.vector_weight: vector_weight and keyword_weight must not both be 0"),
        ("[ranking]\nprofile = 'fats'\n[profiles.fast]\n", ":2: ranking.profile: no such profile: fats (did you mean fast?)"),
    ],
)  # fmt: skip
def test_wrong_profiles_name_file_line_and_key(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(SettingsProblems) as caught:
        _load(file)
    (problem,) = caught.value.problems
    assert expected in str(problem)
    assert str(problem).startswith(str(file))


def test_a_name_is_wrong_even_where_a_flag_wins(user_file: Path) -> None:
    user_file.write_text("[ranking]\nprofile = 'gone'\n")
    with pytest.raises(SettingsProblems, match="no such profile: gone"):
        _load(user_file, profile="memtui")
    user_file.write_text("")
    with pytest.raises(SettingsProblems, match=r"^--profile: ranking\.profile: no such profile: x"):
        _load(user_file, profile="x")


def test_an_unknown_key_of_a_profile_is_named_with_the_nearest(user_file: Path) -> None:
    user_file.write_text('[profiles."a.b"]\nmmr.lamda = 1\nfusio = 2\n')
    problems = check_settings(env={"MEMTUI_CONFIG": str(user_file)})
    assert [problem.code for problem in problems] == [ProblemCode.UNKNOWN_KEY] * 2
    assert 'did you mean profiles."a.b".mmr.lambda?' in str(problems[0])
    assert 'did you mean profiles."a.b".fusion?' in str(problems[1])


def test_a_workspace_of_many_profiles_is_read_in_time(user_file: Path) -> None:
    count = 4_000
    user_file.write_text("".join(f"[profiles.p{at}]\nk = 3\n" for at in range(count)))
    began = time.process_time()
    loaded = _load(user_file)
    assert time.process_time() - began < 5
    assert len(loaded.settings.profiles) == count


def test_no_minimum_can_be_said_over_a_profile_that_has_one(user_file: Path) -> None:
    user_file.write_text("[profiles.all]\nprofile = 'openclaw-2026.4'\nmin_score = 'off'\n")
    assert _load(user_file).settings.named_rankings(PROFILES)["all"].min_score is None
    wanted = _load(user_file, profile="openclaw-2026.9", min_score="off").settings
    assert wanted.configured_ranking(PROFILES).min_score is None
    assert wanted.ranking.without_effect(Ranking(stages=())) == ()


@pytest.mark.parametrize("name", ["fast", "fast.2", "2026", "a-b_c"])
def test_keys_of_profiles(name: str) -> None:
    key = profile_key(name, "mmr.lambda")
    assert profile_of(key) == (name, "mmr.lambda")
    assert key_of(("profiles", name, "mmr", "lambda")) == key
    assert profile_of("ranking.k") is None


def test_the_layout_of_a_document_is_where_things_stand() -> None:
    text = 'a.b = """x\n# = [\n""" # c\n[t."q.r"] # [no]\nd = 2026-01-01 10:00:00\ne = [ {f = 1}, # ]\n]\ng = {h.i = 1, j = {k = \'#\'}}\n'
    every = list(statements(text))
    assert [one.path for one in every if one.is_header] == [("t", "q.r")]
    found = {
        ".".join(one.path): text[one.value_start : one.end] for one in every if not one.is_header
    }
    assert found == {
        "a.b": '"""x\n# = [\n"""',
        "t.q.r.d": "2026-01-01 10:00:00",
        "t.q.r.e": "[ {f = 1}, # ]\n]",
        "t.q.r.g": "{h.i = 1, j = {k = '#'}}",
    }
