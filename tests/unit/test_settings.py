"""Reading the configuration: precedence, origins, types, named rankings, trust, what is wrong."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, get_args

import pytest

from memtui.errors import SettingsError
from memtui.model import Decay, Fusion, Mmr, Ranking, Rerank, Stage
from memtui.ranking.profiles import PROFILES
from memtui.settings.actions import ACTIONS
from memtui.settings.files import SettingsProblems, data_dir
from memtui.settings.keys import key_of, leaves, profile_key, profile_of
from memtui.settings.load import (
    PROTECTED,
    Flag,
    Source,
    is_trusted,
    load_settings,
    protected_keys,
    revoke,
    trust,
)
from memtui.settings.sample import default_of, sample_config
from memtui.settings.schema import EmbeddingSettings, ProfileName, RankingSettings, Settings
from memtui.settings.toml import key_lines, statements
from tests.support.configured import Configured, known_answers, settings_file


@pytest.fixture
def here(tmp_path: Path) -> Configured:
    return Configured(tmp_path)


# --- sources --------------------------------------------------------------------------------------


def test_defaults_hold_without_any_source(here: Configured) -> None:
    loaded = here.load()
    assert (loaded.settings, loaded.warnings) == (Settings(), ())
    assert {origin.given.source for origin in loaded.origins.values()} == {Source.DEFAULT}
    assert set(loaded.origins) == set(leaves())


def test_the_nearest_source_wins_key_by_key(here: Configured) -> None:
    here.user.write_text("[ranking]\nk = 1\nrrf_k = 60.0\n[ui]\nmouse = false\n")
    here.project.write_text("[ranking]\nk = 2\ndedup = true\n")
    here.env["MEMTUI_RANKING__K"] = "3"
    loaded = here.files({"ranking.k": Flag("-n", 4)}).load()
    ranking = loaded.settings.ranking
    assert (ranking.k, ranking.rrf_k, ranking.dedup) == (4, 60.0, True)
    assert loaded.settings.ui.mouse is False
    origin = loaded.origins["ranking.k"]
    assert (*origin.given[:2], origin.value) == (Source.FLAG, "-n", 4)
    assert [(given.source, given.place, given.value) for given in origin.overrode] == [
        (Source.ENVIRONMENT, "$MEMTUI_RANKING__K", 3),
        (Source.PROJECT, f"{here.project}:2", 2),
        (Source.USER, f"{here.user}:2", 1),
    ]
    mouse = loaded.origins["ui.mouse"]
    assert (mouse.given.place, mouse.overrode) == (f"{here.user}:5", ())
    for k, source in ((3, Source.ENVIRONMENT), (2, Source.PROJECT), (1, Source.USER)):
        origin = here.load().origins["ranking.k"]
        assert (origin.value, origin.given.source) == (k, source)
        here.env.pop("MEMTUI_RANKING__K", None)
        if source is Source.PROJECT:
            here.project.unlink()


def test_a_table_of_pyproject_is_read_when_there_is_no_own_file(here: Configured) -> None:
    pyproject = here.root / "pyproject.toml"
    pyproject.write_text("[project]\nname='x'\n\n[tool.memtui.ranking]\nk = 9\n")
    loaded = here.load()
    assert (loaded.settings.ranking.k, loaded.project and loaded.project.path) == (9, pyproject)
    assert loaded.origins["ranking.k"].given.place == f"{pyproject}:5"
    here.project.write_text("[ranking]\nk = 5\n")
    shadowed = here.load()
    assert shadowed.settings.ranking.k == 5
    (warning,) = shadowed.warnings
    assert "pyproject.toml" in warning
    here.project.unlink()
    for foreign in ("[project\nname=", b"[project]\nname = '\xff'\n"):
        pyproject.write_bytes(foreign if isinstance(foreign, bytes) else foreign.encode())
        assert here.load().settings == Settings(), "a broken file that is not memtui's"
    for own in (b"[tool.memtui]\nranking = = 3", b"[tool.memtui]\neditor = '\xff'\n"):
        pyproject.write_bytes(own)
        assert "pyproject.toml:2" in here.refused()[0].place


def test_environment_values_are_parsed_as_the_type_they_stand_for(here: Configured) -> None:
    here.env |= {
        "MEMTUI_RANKING__MMR__LAMBDA": "0.25",
        "MEMTUI_RANKING__MMR__ENABLED": " yes ",
        "MEMTUI_MEMORY__EXTRA_PATHS": "a.md, b/*.md",
        "MEMTUI_MEMORY__IGNORE": '["x,y", "z"]',
        "MEMTUI_RANKING__FUSION": "rrf",
        "MEMTUI_KEYMAP__HALF_LIFE__UP": "alt+h",
        "MEMTUI_UI__THEME": "",
        "MEMTUI_ROOT": "/somewhere",
    }
    settings = here.load().settings
    assert (settings.ranking.mmr.lambda_, settings.ranking.mmr.enabled) == (0.25, True)
    assert settings.memory.extra_paths == ("a.md", "b/*.md")
    assert settings.memory.ignore == ("x,y", "z")
    assert settings.ranking.fusion is Fusion.RRF
    assert settings.keymap.bindings == {"half_life.up": "alt+h"}
    assert settings.ui.theme == "auto"


def test_an_empty_string_unsets_and_a_byte_order_mark_is_no_problem(here: Configured) -> None:
    here.user.write_bytes(b"\xef\xbb\xbf[ranking]\nmin_score = 0.3\nk = 4\n")
    here.project.write_text("[ranking]\nmin_score = ''\n")
    ranking = here.load().settings.ranking
    assert (ranking.min_score, ranking.k) == (None, 4)


def test_keymap_takes_quoted_and_dotted_ids(here: Configured) -> None:
    keymap = here.load("[keymap]\npreset='vim'\n'mmr.toggle'='M'\ndecay.toggle='D'\nquit=''\n")
    assert keymap.settings.keymap.preset == "vim"
    bindings = {"mmr.toggle": "M", "decay.toggle": "D", "quit": ""}
    assert keymap.settings.keymap.bindings == bindings


# --- what is wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *known_answers("wrong_files"),
        ("a = [" + "[" * 100_000, "nested too deeply"),
        ("#" * 2_000_000, "larger than"),
        (b"# ok\nx = '\xff'\n", "memtui.toml:2: not UTF-8"),
        (f"keymap{'.a' * 100_000} = 1\n", "a key of too many parts"),
        (f"[profiles.{'a' * 10_000}]\n", f":1: profiles.{'a' * 80}: cannot be a profile's name"),
    ],
    ids=lambda value: repr(value[:40]),
)
def test_what_is_wrong_names_file_line_and_key(
    here: Configured, text: str | bytes, expected: str
) -> None:
    here.user.write_bytes(text if isinstance(text, bytes) else text.encode())
    (problem,) = here.refused()
    assert str(problem).startswith(str(here.user))
    assert expected in str(problem)
    assert "\n" not in str(problem)


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("RANKING__K", "many", "ranking.k: must be a whole number"),
        ("UI__MOUSE", "maybe", "ui.mouse: must be true or false"),
        ("MEMORY__IGNORE", "[1,", "memory.ignore: must be a JSON"),
        ("RANKING__MMR__LAMBDA", "nan", "ranking.mmr.lambda"),
    ],
)
def test_wrong_variables_and_flags_are_named(
    here: Configured, variable: str, value: str, expected: str
) -> None:
    (problem,) = here.refused(k=0)
    assert str(problem).startswith("--k: ranking.k: must be greater")
    here.env[f"MEMTUI_{variable}"] = value
    (problem,) = here.refused()
    assert str(problem).startswith(f"$MEMTUI_{variable}: {expected}")


def test_every_problem_is_told_at_once_even_where_a_flag_wins(here: Configured) -> None:
    text = "[ranking]\nk = 0\n[ui]\nmouse = 'yes'\n[nope]\na = 1\n"
    assert [problem.key for problem in here.refused(text, k=3)] == ["ranking.k", "ui.mouse"]
    found = here.files().read().problems
    assert {problem.code for problem in found} == {"wrong_value", "unknown_key"}
    (problem,) = here.refused("[ranking]\nprofile = 'gone'\n", profile="memtui")
    assert "no such profile: gone" in str(problem)
    (problem,) = here.refused("", profile="x")
    assert str(problem).startswith("--profile: ranking.profile: no such profile: x")


def test_files_that_are_none(here: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, expected in (
        (str(here.root), "not a regular file"),
        (str(here.folder / "none.toml"), r"\$MEMTUI_CONFIG: no such file"),
        ("~nobody-of-this-name/config.toml", "no such file"),
    ):
        with pytest.raises(SettingsProblems, match=expected):
            load_settings(env={"MEMTUI_CONFIG": place})

    def missing(*names: str, **options: object) -> Path:
        raise RuntimeError

    for find in (lambda *names, **options: Path("here"), missing):
        monkeypatch.setattr("platformdirs.user_data_path", find)
        with pytest.raises(SettingsError, match="no home folder"):
            data_dir()


def test_unknown_keys_are_warnings_that_name_the_nearest(here: Configured) -> None:
    here.env |= {"MEMTUI_RANKING__LAMBDA": "1", "MEMTUI_RANKING": "2"}
    loaded = here.load(
        "[ranking.mmr]\nlamda = 0.5\n[rankin]\nk = 1\n[ui]\nzzzz = 1\n[keymap]\nmmr.togle = 'M'\n"
        "[profiles.'a.b']\nmmr.lamda = 1\nfusio = 2\n"
    )
    assert loaded.settings == Settings.parse({"profiles": {"a.b": {}}})
    assert loaded.warnings == (
        "$MEMTUI_RANKING: no such setting (did you mean $MEMTUI_RANKING__K?)",
        "$MEMTUI_RANKING__LAMBDA: no such setting (did you mean $MEMTUI_RANKING__MMR__LAMBDA?)",
        f"{here.user}:2: ranking.mmr.lamda: no such key (did you mean ranking.mmr.lambda?)",
        f"{here.user}:3: rankin: no such key (did you mean ranking?)",
        f"{here.user}:6: ui.zzzz: no such key (`memtui config show` lists every key)",
        f"{here.user}:8: keymap.mmr.togle: no such key (did you mean keymap.mmr.toggle?)",
        f'{here.user}:10: profiles."a.b".mmr.lamda: no such key '
        '(did you mean profiles."a.b".mmr.lambda?)',
        f'{here.user}:11: profiles."a.b".fusio: no such key (did you mean profiles."a.b".fusion?)',
    )


def test_files_of_thousands_of_keys_are_read_in_time(here: Configured) -> None:
    began = time.process_time()
    loaded = here.load("\n".join(f"key{number} = 1" for number in range(4000)))
    assert len(loaded.warnings) == 4000
    assert sum("did you mean" in one for one in loaded.warnings) <= 50
    loaded = here.load("".join(f"[profiles.p{at}]\nk = 3\n" for at in range(4_000)))
    assert len(loaded.settings.profiles) == 4000
    assert time.process_time() - began < 10


# --- rankings -------------------------------------------------------------------------------------


def test_set_ranking_values_replace_those_of_the_profile(here: Configured) -> None:
    base = Ranking(k=12, vector_weight=0.5, keyword_weight=0.5, min_score=0.35)
    assert RankingSettings().apply(base) == base
    assert here.load(
        "[ranking]\nk=3\nfusion='rrf'\nrrf_k=60\ndedup=true\nmin_score=0.1\n"
        "mmr.enabled=true\nmmr.lambda=0.5\ndecay.enabled=true\ndecay.half_life_days=7\n"
        "rerank.enabled=true\nrerank.recency=0.5\n"
    ).settings.ranking.apply(Ranking()) == Ranking(
        k=3,
        fusion=Fusion.RRF,
        rrf_k=60.0,
        dedup=True,
        min_score=0.1,
        mmr=Mmr(enabled=True, lambda_=0.5),
        decay=Decay(enabled=True, half_life_days=7.0),
        rerank=Rerank(enabled=True, recency=0.5),
    )
    gentle = RankingSettings.parse({"decay": {"preset": "gentle"}})
    assert gentle.apply(Ranking()).decay.floor == 0.8
    both = RankingSettings.parse({"decay": {"preset": "gentle", "floor": 0.1}})
    assert both.apply(Ranking()).decay.floor == 0.1


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


def test_stages_that_a_profile_lacks_are_named() -> None:
    wanted = RankingSettings.parse({"mmr": {"enabled": True}, "dedup": True, "min_score": "off"})
    assert wanted.without_effect(Ranking()) == ()
    short = Ranking(stages=(Stage.FUSION, Stage.CUT))
    assert wanted.without_effect(short) == ("ranking.mmr.enabled", "ranking.dedup")


OWN = """\
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
min_score = 'off'
"""


def test_every_named_ranking_built_in_first_then_own_in_file_order(here: Configured) -> None:
    assert set(get_args(ProfileName)) == set(PROFILES)
    loaded = here.load(OWN)
    named = loaded.settings.named_rankings(PROFILES)
    assert list(named) == [*PROFILES, "fast.1", "old", "plain"]
    assert all(ranking.profile == name for name, ranking in named.items())
    fast, old = named["fast.1"], named["old"]
    assert (fast.k, fast.mmr.enabled, fast.stages) == (9, True, Ranking().stages)
    assert (old.fusion, old.decay.half_life_days) == (Fusion.RRF, 90)
    assert (old.min_score, old.decay.dates) == (0.35, PROFILES["openclaw-2026.4"].decay.dates)
    assert loaded.settings.base_ranking(PROFILES) == fast
    configured = here.ranking()
    assert (configured.k, configured.mmr.enabled, configured.profile) == (7, True, "fast.1")
    assert Settings().configured_ranking(PROFILES) == PROFILES["memtui"]
    places = {
        key: origin.given.place for key, origin in loaded.origins.items() if "profiles" in key
    }
    assert places == {
        'profiles."fast.1".profile': f"{here.user}:5",
        'profiles."fast.1".k': f"{here.user}:6",
        'profiles."fast.1".mmr.enabled': f"{here.user}:7",
        "profiles.old.profile": f"{here.user}:10",
        "profiles.old.fusion": f"{here.user}:11",
        "profiles.old.decay.enabled": f"{here.user}:13",
        "profiles.old.decay.half_life_days": f"{here.user}:14",
        "profiles.plain.profile": f"{here.user}:16",
        "profiles.plain.min_score": f"{here.user}:17",
    }
    assert here.load(profile="old").settings.configured_ranking(PROFILES).fusion is Fusion.RRF
    no_minimum = here.load("", profile="openclaw-2026.9", min_score="off").settings
    assert no_minimum.configured_ranking(PROFILES).min_score is None


def test_a_project_takes_the_whole_place_of_a_profile_and_needs_no_trust(here: Configured) -> None:
    here.project.write_text("[profiles.old]\nk = 3\n[profiles.team]\nfusion = 'rrf'\n")
    loaded = here.load(OWN)
    assert loaded.warnings == ()
    named = loaded.settings.named_rankings(PROFILES)
    assert set(named) == {*PROFILES, "fast.1", "old", "plain", "team"}
    assert (named["old"].k, named["old"].fusion) == (3, Fusion.RELATIVE_SCORE)
    assert "profiles.old.fusion" not in loaded.origins
    origin = loaded.origins["profiles.old.profile"]
    assert origin.given.source is Source.PROJECT
    assert [given.place for given in origin.overrode] == [f"{here.user}:10"]


@pytest.mark.parametrize("name", ["fast", "fast.2", "2026", "a-b_c"])
def test_keys_of_profiles(name: str) -> None:
    key = profile_key(name, "mmr.lambda")
    assert profile_of(key) == (name, "mmr.lambda")
    assert key_of(("profiles", name, "mmr", "lambda")) == key
    assert profile_of("ranking.k") is None


# --- trust ----------------------------------------------------------------------------------------

RISKY = """\
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
LINES = (1, 2, 4, 6, 7, 5, 8, 9, 10, 11, 12, 14, 16, 18, 19)
"""Of the keys of `PROTECTED`."""


def test_a_project_file_may_not_set_protected_keys(here: Configured) -> None:
    here.project.write_text(RISKY)
    loaded = here.load()
    assert loaded.settings == Settings.parse({"ranking": {"k": 3}})
    for key, line in zip(PROTECTED, LINES, strict=True):
        start = f"{here.project}:{line}: {key}: ignored"
        assert any(warning.startswith(start) for warning in loaded.warnings), key
        assert loaded.origins[key].given.source == "default"
    assert all("memtui trust" in warning for warning in loaded.warnings)
    here.project.unlink()
    assert here.load(RISKY).settings.editor == "sh -c evil", "the user may"
    assert here.load().warnings == ()


def test_trust_holds_for_exactly_this_content_in_this_place(here: Configured) -> None:
    here.project.write_text(RISKY)
    file = settings_file(here.project)
    for broken in ("[]", '{"a": 1}', '"x"'):
        here.state.write_text("trusted.json", broken)
        assert not is_trusted(file, here.state)
    trust(file, here.state)
    loaded = here.load()
    assert (loaded.settings.editor, loaded.warnings) == ("sh -c evil", ())
    assert loaded.settings.memory.extra_paths == ("notes", "~/.ssh")
    copy = here.folder / ".memtui.toml"
    copy.write_text(RISKY)
    assert not is_trusted(settings_file(copy), here.state)
    here.project.write_text(RISKY.replace("sh -c evil", "sh -c other"))
    assert not is_trusted(settings_file(here.project), here.state)
    assert here.load().settings.editor is None
    revoke(here.project, here.state)
    revoke(here.project, here.state)
    assert not is_trusted(file, here.state)


@pytest.mark.parametrize(("values", "expected"), known_answers("needs_trust"))
def test_which_values_need_trust(values: dict[str, Any], expected: list[str]) -> None:
    assert protected_keys(values) == tuple(expected)


def test_every_protected_key_exists_and_every_risky_name_is_protected() -> None:
    assert set(PROTECTED) <= set(leaves())
    risky = ("editor", "pager", "command", "url", "endpoint", "data_dir", "socket", "proxy")
    for key in leaves():
        if any(word in key.rsplit(".", 1)[-1] for word in risky):
            assert key in PROTECTED, key


# --- the sample, and where things stand in a text -------------------------------------------------


def test_the_sample_is_every_key_with_its_default_and_changes_nothing(here: Configured) -> None:
    sample = sample_config()
    loaded = here.load(sample)
    assert (loaded.settings, loaded.warnings) == (Settings(), ())
    lines = (
        line[1:] if line.startswith("#") and not line.startswith("# ") else line
        for line in sample.splitlines()
    )
    loaded = here.load("\n".join(lines))
    assert loaded.warnings == ()
    for key in leaves():
        origin = loaded.origins[key]
        assert (origin.given.source, origin.value) == (Source.USER, default_of(key)), key
    bindings = {action.id: ",".join(action.keys) for action in ACTIONS}
    assert loaded.settings.keymap.bindings == bindings


DOCUMENT = """\
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
    lines = key_lines(DOCUMENT.replace("\n", newline))
    rows = DOCUMENT.splitlines()
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
    assert settings_file(path).place(("ranking", "k")) == f"{path}:2"
    assert settings_file(path).place(("none",)) == str(path)


def test_the_layout_of_a_document_is_where_things_stand() -> None:
    text = 'a.b = """x\n# = [\n""" # c\n[t."q.r"] # [no]\nd = 2026-01-01 10:00:00\ne = [ {f = 1}, # ]\n]\ng = {h.i = 1, j = {k = \'#\'}}\n'
    every = list(statements(text))
    assert [one.path for one in every if one.is_header] == [("t", "q.r")]
    keys = [one for one in every if not one.is_header]
    assert {".".join(one.path): text[one.value_start : one.end] for one in keys} == {
        "a.b": '"""x\n# = [\n"""',
        "t.q.r.d": "2026-01-01 10:00:00",
        "t.q.r.e": "[ {f = 1}, # ]\n]",
        "t.q.r.g": "{h.i = 1, j = {k = '#'}}",
    }


def test_an_address_and_a_command_are_in_no_repr() -> None:
    chosen = EmbeddingSettings(key_command="echo sk-SECRET", base_url="https://u:SECRET@h/v1")
    assert "SECRET" not in repr(chosen) + repr(Settings(embedding=chosen))
    assert "SECRET" not in str(chosen.__rich_repr__())
