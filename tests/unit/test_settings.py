"""Reading the configuration: precedence, origins, types, named rankings, trust, what is wrong."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from memtui.data import read_table
from memtui.errors import SettingsError
from memtui.index.transcripts.discovery import rules_of
from memtui.model import Decay, Fusion, Mmr, Ranking, Rerank, Stage
from memtui.settings.actions import ACTIONS
from memtui.settings.files import SettingsProblems, data_dir
from memtui.settings.load import SettingsFiles, Source, is_trusted, trust
from memtui.settings.schema import (
    EmbeddingSettings,
    MemorySettings,
    RankingSettings,
    Settings,
    key_abouts,
    leaves,
    nearest,
    protected_keys,
    sample_config,
    values_of,
)
from memtui.settings.shown import masked_text, shown_command, shown_value, shown_variable
from memtui.settings.toml import key_lines, toml_value
from tests.support.configured import Configured, settings_file
from tests.support.known import cases, load


@pytest.fixture
def here(tmp_path: Path) -> Configured:
    return Configured(tmp_path)


def test_defaults_hold_without_any_source(here: Configured) -> None:
    loaded = here.load()
    assert (loaded.settings, loaded.warnings) == (Settings(), ())
    assert {given.source for given, *_ in loaded.origins.values()} == {Source.DEFAULT}
    assert set(loaded.origins) == set(leaves())


def test_an_empty_string_unsets_and_a_byte_order_mark_is_no_problem(here: Configured) -> None:
    here.user.write_bytes(b"\xef\xbb\xbf[ranking]\nmin_score = 0.3\nk = 4\n")
    here.project.write_text("[ranking]\nmin_score = ''\n")
    ranking = here.load().settings.ranking
    assert (ranking.min_score, ranking.k) == (None, 4)


def test_the_strongest_source_wins_and_the_others_are_told(here: Configured) -> None:
    here.project.write_text("[ranking]\nk = 3\n")
    here.env["MEMTUI_RANKING__K"] = "4"
    loaded = here.load("[ranking]\nk = 2\n", k=5)
    given = [(one.source, one.value) for one in loaded.origins["ranking.k"]]
    assert given == [
        *((Source.FLAG, 5), (Source.ENVIRONMENT, 4), (Source.PROJECT, 3), (Source.USER, 2))
    ]
    assert loaded.settings.ranking.k == 5
    here.env["MEMTUI_RANKING__K"] = ""
    assert here.load().settings.ranking.k == 3


def test_a_contradiction_is_told_of_the_strongest_source(here: Configured) -> None:
    here.project.write_text("[chunking]\ntokens = 50\n")
    (problem,) = here.refused("[chunking]\noverlap = 60\n")
    assert (problem.place, problem.key) == (f"{here.project}:2", "chunking.tokens")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *load("settings")["wrong_files"],
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


def test_a_key_in_the_place_of_its_variable_is_not_told(here: Configured) -> None:
    (problem,) = here.refused("[embedding]\nkey_env = 'a.b'\n")
    assert str(problem).endswith(
        "key_env: must be the name of an environment variable, not the key"
    )


def test_a_variable_that_is_blank_or_not_unicode_is_refused(here: Configured) -> None:
    here.env |= {"MEMTUI_RANKING__MIN_SCORE": " ", "MEMTUI_UI__THEME": "\udcff"}
    blank, bytes_alone = map(str, here.refused())
    assert blank.endswith("ranking.min_score: must be a number from 0 up to 50 or off, not ''")
    assert bytes_alone.endswith("ui.theme: must be Unicode, not '\\udcff'")


def test_a_key_without_its_table_is_named_in_full() -> None:
    assert nearest("rrf_k", leaves()) == nearest("search.legs.rrf_k", leaves()) == "ranking.rrf_k"
    assert nearest("zzz", leaves()) is None


def test_files_that_are_none(here: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, expected in (
        (str(here.root), "not a regular file"),
        (str(here.folder / "none.toml"), r"\$MEMTUI_CONFIG: no such file"),
        ("~nobody-of-this-name/config.toml", "no such file"),
    ):
        with pytest.raises(SettingsProblems, match=expected):
            SettingsFiles(env={"MEMTUI_CONFIG": place}).load()
    for find in (lambda *names, **options: Path("here"), Mock(side_effect=RuntimeError)):
        monkeypatch.setattr("platformdirs.user_data_path", find)
        with pytest.raises(SettingsError, match="no home folder"):
            data_dir()


def test_files_of_thousands_of_keys_are_read_in_time(here: Configured) -> None:
    began = time.process_time()
    loaded = here.load("\n".join(f"key{number} = 1" for number in range(4000)))
    assert len(loaded.warnings) == 4000
    assert sum("did you mean" in one for one in loaded.warnings) <= 50
    loaded = here.load("".join(f"[profiles.p{at}]\nk = 3\n" for at in range(4_000)))
    assert len(loaded.settings.profiles) == 4000
    assert time.process_time() - began < 10


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


@pytest.mark.parametrize(("vector", "keyword", "expected"), load("settings")["weights"])
def test_one_weight_alone_gives_the_other_leg_the_rest(
    vector: float | None, keyword: float | None, expected: list[float]
) -> None:
    ranking = RankingSettings(vector_weight=vector, keyword_weight=keyword).apply(Ranking())
    assert [ranking.vector_weight, ranking.keyword_weight] == expected


def test_stages_that_a_profile_lacks_are_named() -> None:
    mmr = {"enabled": False, "lambda": 0.5}
    wanted = RankingSettings.parse({"mmr": mmr, "dedup": True, "min_score": "off"})
    assert wanted.without_effect(Ranking()) == ()
    short = Ranking(stages=(Stage.FUSION, Stage.CUT))
    assert wanted.without_effect(short) == ("dedup", "mmr.lambda")


def test_a_profile_that_is_not_there_is_one_error_line(here: Configured) -> None:
    here.user.write_text("[ranking]\nprofile = 'fats'\n")
    with pytest.raises(SettingsError, match="no such profile: fats"):
        here.files().read().settings.configured_ranking()


def test_trust_holds_for_exactly_this_content_in_this_place(here: Configured) -> None:
    here.project.write_text("editor = 'vi'\n")
    file = settings_file(here.project)
    for broken in ("[]", '{"a": 1}', '"x"'):
        here.state.write_text("trusted.json", broken)
        assert not is_trusted(file, here.state)
    trust(file, here.state)
    assert here.load().settings.editor == "vi"
    copy = here.folder / ".memtui.toml"
    copy.write_text("editor = 'vi'\n")
    assert not is_trusted(settings_file(copy), here.state)
    here.project.write_text("editor = 'rm'\n")
    assert here.load().settings.editor is None
    trust(file, here.state, revoke=True)
    trust(file, here.state, revoke=True)
    assert not is_trusted(file, here.state)


@pytest.mark.parametrize("own", [MemorySettings().ignore, ("diary", "drafts")])
def test_what_a_folder_leaves_out_adds_to_ones_own_list_until_it_is_trusted(
    here: Configured, own: tuple[str, ...]
) -> None:
    if own != MemorySettings().ignore:
        here.user.write_text(f"memory.ignore = {list(own)}\n")
    here.project.write_text("memory.ignore = ['drafts', 'old']\n")
    assert {*here.load().settings.memory.ignore} == {*own, "drafts", "old"}
    trust(settings_file(here.project), here.state)
    assert here.load().settings.memory.ignore == ("drafts", "old")


@pytest.mark.parametrize(("values", "expected"), load("settings")["places and providers"])
def test_which_values_need_trust(values: dict[str, Any], expected: list[str]) -> None:
    assert protected_keys(values, Path()) == tuple(expected)


def test_of_every_key_it_is_decided_whether_a_file_of_a_folder_may_set_it(here: Configured) -> None:
    table = load("settings")
    ignored, allowed = table["needs trust"], table["needs no trust"]
    assert {*ignored, *allowed} == set(leaves())
    assert not ignored.keys() & allowed.keys()
    rows = [f"{key} = {toml_value(one)}\n" for key, one in {**ignored, **allowed}.items()]
    here.project.write_text("".join(rows))
    loaded = here.load()
    assert sorted(one.key for one in loaded.problems if one.code == "protected") == sorted(ignored)
    set_there = {key for key, given in loaded.origins.items() if given[0].source is Source.PROJECT}
    assert set_there == {*allowed, "transcripts.redaction"}
    trust(settings_file(here.project), here.state)
    assert here.load().problems == ()


@pytest.mark.parametrize(("own", "project", "masks_more"), cases("settings", "masks of profiles"))
def test_a_folder_cannot_narrow_the_mask_by_its_profile_either(
    here: Configured, own: str, project: str, masks_more: bool
) -> None:
    here.project.write_text(project)
    assert rules_of(here.load(own).settings).masks_more == masks_more


def test_the_sample_is_every_key_with_its_default_and_changes_nothing(here: Configured) -> None:
    sample = sample_config()
    assert leaves().keys() - key_abouts().keys() == set(), "each is explained"
    loaded = here.load(sample)
    assert (loaded.settings, loaded.warnings) == (Settings(), ())
    lines = (
        line[1:] if line.startswith("#") and not line.startswith("# ") else line
        for line in sample.splitlines()
    )
    loaded = here.load("\n".join(lines))
    assert loaded.warnings == ()
    defaults = {f"ranking.{key}": value for key, value in values_of(Ranking()).items()}
    for key, leaf in leaves().items():
        (source, _, value), *_ = loaded.origins[key]
        default = leaf.default if leaf.default is not None else defaults.get(key)
        assert (source, value) == (Source.USER, default), key
    bindings = {action.id: ",".join(action.keys) for action in ACTIONS}
    assert loaded.settings.keymap.bindings == bindings


def test_the_sample_says_which_keys_need_trust() -> None:
    table, need_trust, trusted = "", set[str](), False
    for line in sample_config().splitlines():
        if line.startswith("["):
            table = f"{line.strip('[]')}."
        elif line.endswith((" until you trust it.", " only if you trust it.")):
            trusted = True
        elif trusted:
            need_trust.add(f"{table}{line.removeprefix('#').partition(' = ')[0]}")
            trusted = False
    assert need_trust == set(read_table("settings.toml")["protected"])


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lines_of_keys(newline: str) -> None:
    rows, *expected = load("settings")["lines of keys"]
    lines = key_lines(newline.join(rows))
    for *path, row in expected:
        assert rows[lines[tuple(path)] - 1] == row


def test_an_address_and_a_command_are_in_no_repr() -> None:
    chosen = EmbeddingSettings(key_command="echo sk-SECRET", base_url="https://u:SECRET@h/v1")
    assert "SECRET" not in repr(chosen) + repr(Settings(embedding=chosen))
    assert "SECRET" not in str(chosen.__rich_repr__())


@pytest.mark.parametrize(("show", "text", "shown"), load("settings")["masked"])
def test_what_looks_like_a_key_is_masked(show: str, text: str, shown: str) -> None:
    shows = {one.__name__: one for one in (masked_text, shown_command, shown_variable)}
    assert shows[show](text) == shown


@pytest.mark.parametrize("part", ["://", "://a:", "https://u:x/", "a://x?", "'\"", "://@"])
def test_masking_takes_time_that_grows_with_the_text_alone(part: str) -> None:
    assert "SECRET" not in masked_text(part * 100_000 + " https://u:SECRET@h")


def test_other_values_stay_as_they_are() -> None:
    assert shown_value("embedding.threads", 3) == 3
    assert shown_value("embedding.batch", True) is True
    assert shown_value("embedding.model", None) is None
    assert shown_value("memory.extra_paths", ("notes", "x?token=SECRET")) == [
        "notes",
        "x?token=***",
    ]


@pytest.mark.parametrize(
    ("glyphs", "env", "expected"), cases("settings", "terminals without blocks")
)
def test_a_terminal_that_shows_no_blocks_gets_ascii(
    glyphs: str, env: dict[str, str], expected: bool
) -> None:
    assert Settings.parse({"ui": {"glyphs": glyphs}}).ui.ascii_only(env) is expected
