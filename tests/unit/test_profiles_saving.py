"""Writing rankings into settings files: which keys, which file, and what happens to the rest."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memtui.errors import SettingsError
from memtui.model import Decay, Ranking
from memtui.ranking.profiles import PROFILES
from memtui.settings import Source, StateFolder
from memtui.settings.files import ConfigFile, read_config
from memtui.settings.load import SettingsFiles, is_trusted, trust
from memtui.settings.rankings import values_of
from memtui.settings.sample import sample_config
from memtui.settings.storage import FileChanged
from memtui.settings.write import (
    Plan,
    plan_profile,
    plan_profiles,
    plan_ranking,
    plan_removal,
    write,
)


class Place:
    """A user's file, a workspace and a state folder."""

    def __init__(self, folder: Path) -> None:
        self.user = folder / "config" / "memtui.toml"
        self.user.parent.mkdir()
        self.user.write_text("")
        self.root = folder / "notes"
        self.root.mkdir()
        self.project = self.root / ".memtui.toml"
        self.env = {"MEMTUI_CONFIG": str(self.user)}
        self.state = StateFolder(folder / "state")

    @property
    def files(self) -> SettingsFiles:
        return SettingsFiles(self.env, self.root, state=self.state)

    def configured(self) -> Ranking:
        return self.files.load().settings.configured_ranking(PROFILES)

    def plan(self, wanted: Ranking, source: Source = Source.USER) -> Plan:
        return plan_ranking(self.files, source, wanted, PROFILES)

    def write(self, wanted: Ranking, source: Source = Source.USER) -> Plan:
        plan = self.plan(wanted, source)
        write(plan, self.files)
        return plan


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# --- which keys -----------------------------------------------------------------------------------


def test_only_what_differs_is_written_and_the_weight_alone(place: Place) -> None:
    place.user.write_text("# mine\n[ranking]\nk = 9 # nine\n\n[ui]\nmouse = true\n")
    wanted = replace(place.configured(), vector_weight=0.4, keyword_weight=0.6)
    place.write(wanted)
    expected = "# mine\n[ranking]\nk = 9 # nine\nvector_weight = 0.4\n\n[ui]\nmouse = true\n"
    assert place.user.read_text() == expected
    assert place.configured() == wanted
    assert not place.plan(wanted).changes


def test_weights_that_do_not_sum_to_one_are_both_written(place: Place) -> None:
    wanted = replace(Ranking(), vector_weight=0.4, keyword_weight=0.9)
    place.write(wanted)
    assert place.user.read_text() == "[ranking]\nvector_weight = 0.4\nkeyword_weight = 0.9\n"
    place.write(replace(wanted, keyword_weight=0.6))
    assert place.user.read_text() == "[ranking]\nvector_weight = 0.4\n"


def test_what_the_profile_gives_too_is_removed(place: Place) -> None:
    place.user.write_text("[ranking]\nk = 9\nmmr.enabled = true  # try it\ndedup = false\n")
    place.write(Ranking())
    assert place.user.read_text() == "[ranking]\n# enabled = true # try it\ndedup = false\n"
    assert place.configured() == Ranking()


def test_the_preset_of_decay_makes_room_for_a_floor(place: Place) -> None:
    place.user.write_text("[ranking.decay]\npreset = 'gentle'\n")
    assert not place.plan(Ranking(decay=Decay(floor=0.8))).changes
    place.write(Ranking(decay=Decay(floor=0.5)))
    assert place.user.read_text() == "[ranking.decay]\npreset = 'gentle'\nfloor = 0.5\n"
    place.write(Ranking())
    assert place.user.read_text() == "[ranking.decay]\n"


def test_another_profile_is_named_and_keys_that_fit_it_stay(place: Place) -> None:
    place.user.write_text("[ranking]\nk = 9\nvector_weight = 0.7\n")
    wanted = replace(PROFILES["openclaw-2026.4"], k=9, min_score=None)
    place.write(wanted)
    text = '[ranking]\nk = 9\nvector_weight = 0.7\nprofile = "openclaw-2026.4"\nmin_score = "off"\n'
    assert place.user.read_text() == text
    assert place.configured() == wanted


def test_a_profile_of_the_other_file_is_not_named(place: Place) -> None:
    place.project.write_text("[profiles.team]\nk = 3\n")
    team = place.files.load().settings.named_rankings(PROFILES)["team"]
    plan = place.write(team)
    assert place.user.read_text() == "[ranking]\nk = 3\n"
    assert plan.notes == ("profile team is not this file's: its values, on memtui",)
    assert plan.ranking == replace(team, profile="memtui")
    place.user.write_text("")
    place.write(team, Source.PROJECT)
    assert place.project.read_text() == '[profiles.team]\nk = 3\n\n[ranking]\nprofile = "team"\n'
    assert place.configured() == team


def test_what_wins_over_the_file_is_named(place: Place) -> None:
    place.env["MEMTUI_RANKING__K"] = "4"
    place.project.write_text("[ranking]\nmmr.enabled = true\n")
    wanted = replace(place.configured(), k=8, mmr=replace(Ranking().mmr, enabled=False))
    plan = place.write(wanted)
    assert plan.notes == (
        "ranking.k: $MEMTUI_RANKING__K gives 4 and wins over this file",
        f"ranking.mmr.enabled: {place.project}:2 gives true and wins over this file",
    )
    assert plan.ranking == wanted
    assert place.user.read_text() == "[ranking]\nk = 8\n"
    assert place.configured().k == 4
    del place.env["MEMTUI_RANKING__K"]
    place.write(wanted, Source.PROJECT)
    assert place.project.read_text() == "[ranking]\n"
    assert place.configured() == wanted


def test_a_value_of_the_environment_that_is_wanted_is_not_written(place: Place) -> None:
    place.env["MEMTUI_RANKING__K"] = "4"
    plan = place.plan(place.configured())
    assert (plan.changes, plan.notes) == (False, ())


def test_a_weaker_file_is_overruled_by_an_explicit_value(place: Place) -> None:
    place.user.write_text("[ranking]\nk = 9\nkeyword_weight = 0.2\n")
    wanted = replace(Ranking(), vector_weight=0.5, keyword_weight=0.5)
    place.write(wanted, Source.PROJECT)
    expected = "[ranking]\nvector_weight = 0.5\nkeyword_weight = 0.5\nk = 6\n"
    assert place.project.read_text() == expected
    assert place.configured() == wanted


def test_values_that_no_settings_can_say_are_told_and_left_out(place: Place) -> None:
    plan = place.write(replace(Ranking(), k=500, dedup=True))
    assert plan.notes == ("ranking.k: must be less than or equal to 200, not 500: not written",)
    assert (plan.ranking.k, plan.ranking.dedup) == (6, True)
    assert place.user.read_text() == "[ranking]\ndedup = true\n"


def test_weights_of_zero_are_refused(place: Place) -> None:
    with pytest.raises(SettingsError, match="must not both be 0"):
        place.plan(replace(Ranking(), vector_weight=0.0, keyword_weight=0.0))


def test_the_sample_keeps_every_line(place: Place) -> None:
    place.user.write_text(sample_config())
    wanted = replace(
        PROFILES["memini"], k=12, project_keys=('a"\\', "é\u202e"), decay=Decay(True, 7.5, 0.25)
    )
    place.write(wanted)
    lines = place.user.read_text().splitlines()
    kept = iter(lines)
    assert all(line in kept for line in sample_config().splitlines())
    assert lines.index("[ranking]") < lines.index("k = 12") < lines.index("[ranking.mmr]")
    assert place.configured() == wanted


# --- which file -----------------------------------------------------------------------------------


def test_a_workspace_with_a_pyproject_table_keeps_it(place: Place) -> None:
    pyproject = place.root / "pyproject.toml"
    pyproject.write_text("[project]\nname = 'x'\n\n[tool.memtui.ui]\nmouse = false\n\n[tool.z]\n")
    place.write(replace(Ranking(), k=3), Source.PROJECT)
    assert not place.project.exists()
    assert "\n[tool.memtui.ranking]\nk = 3\n" in pyproject.read_text()
    assert place.configured().k == 3


def test_a_trusted_file_stays_trusted(place: Place) -> None:
    place.project.write_text("editor = 'vi'\n")
    file = read_config(place.project)
    assert isinstance(file, ConfigFile)
    trust(file, place.state)
    place.write(replace(Ranking(), k=3), Source.PROJECT)
    assert place.files.load().settings.editor == "vi"
    place.project.write_text("editor = 'rm'\n")
    place.write(replace(Ranking(), k=4), Source.PROJECT)
    changed = read_config(place.project)
    assert isinstance(changed, ConfigFile)
    assert not is_trusted(changed, place.state)


def test_without_a_workspace_there_is_the_users_file_alone(place: Place) -> None:
    files = replace(place.files, root=None)
    assert files.sources == (Source.USER,)
    with pytest.raises(SettingsError, match="no workspace"):
        plan_ranking(files, Source.PROJECT, Ranking(k=3), PROFILES)


def test_a_broken_file_is_left_alone(place: Place) -> None:
    place.user.write_text("[ranking\n")
    with pytest.raises(SettingsError, match=r"memtui\.toml:1: broken TOML"):
        place.plan(Ranking(k=3))
    place.user.write_text("[[ui]]\n")
    with pytest.raises(SettingsError, match="must be a table"):
        place.plan(Ranking(k=3))


# --- profiles -------------------------------------------------------------------------------------


def test_a_profile_is_saved_with_the_fewest_keys_and_replaced_in_place(place: Place) -> None:
    wanted = replace(PROFILES["openclaw-2026.7"], profile="old", k=9)
    write(plan_profile(place.files, Source.USER, "new.1", wanted, PROFILES), place.files)
    saved = '[profiles."new.1"]\nprofile = "openclaw-2026.7"\nk = 9\n'
    assert place.user.read_text() == saved
    place.user.write_text(saved.replace("k = 9", "# best\nk = 9  # nine\ndedup = false"))
    wanted = replace(wanted, k=10, dedup=True)
    plan = plan_profile(place.files, Source.USER, "new.1", wanted, PROFILES)
    write(plan, place.files)
    assert place.user.read_text() == saved.replace("k = 9", "# best\nk = 10  # nine\ndedup = true")
    assert plan.notes == (f"replaces new.1 at {place.user}:2",)
    named = place.files.load().settings.named_rankings(PROFILES)
    assert named["new.1"] == plan.ranking == replace(wanted, profile="new.1")


@pytest.mark.parametrize("name", ["", "memini", "Fast", "a b", "../x", "x" * 65, "-a", "a\n"])
def test_names_that_cannot_be_given(place: Place, name: str) -> None:
    with pytest.raises(SettingsError):
        plan_profile(place.files, Source.USER, name, Ranking(), PROFILES)
    assert place.user.read_text() == ""


def test_profiles_come_and_go_and_the_rest_stays(place: Place) -> None:
    before = "# top\n[ui]\nmouse = true # yes\n\n# end\n"
    place.user.write_text(before)
    shared: dict[str, dict[str, Any]] = {
        "a": {"k": 3},
        "b.c": {"profile": "memini", "mmr.lambda": 0.5},
    }
    write(plan_profiles(place.files, shared, force=False), place.files)
    with pytest.raises(SettingsError, match="a is there already"):
        plan_profiles(place.files, shared, force=False)
    write(plan_profiles(place.files, {"a": {"k": 4}}, force=True), place.files)
    assert place.files.load().settings.profiles["a"].k == 4
    for name in ("b.c", "a"):
        write(plan_removal(place.files, name), place.files)
    assert place.user.read_text() == before


def test_a_profile_in_use_or_elsewhere_is_not_removed(place: Place) -> None:
    place.user.write_text("[ranking]\nprofile = 'a'\n[profiles.a]\n")
    with pytest.raises(SettingsError, match=r"a is in use: ranking\.profile at .*memtui\.toml:2"):
        plan_removal(place.files, "a")
    place.project.write_text("[profiles.team]\n")
    with pytest.raises(SettingsError, match=r"no profile team in .*it is in .*\.memtui\.toml:1"):
        plan_removal(place.files, "team")
    place.project.write_text("[profiles.a]\n")
    with pytest.raises(SettingsError, match=r"a is in use: ranking\.profile at .*memtui\.toml:2"):
        plan_removal(place.files, "a")
    place.user.write_text("[profiles.a]\n")
    place.project.write_text("[ranking]\nprofile = 'a'\n")
    with pytest.raises(SettingsError, match=r"a is in use: ranking\.profile at .*\.memtui\.toml:2"):
        plan_removal(place.files, "a")
    place.project.write_text("[ranking]\nprofile = 'a'\n[profiles.a]\n")
    write(plan_removal(place.files, "a"), place.files)
    assert (place.user.read_text(), place.configured().profile) == ("", "a")


def test_a_profile_that_the_workspace_redefines_is_not_named_in_the_users_file(
    place: Place,
) -> None:
    place.user.write_text("[profiles.b]\nk = 5\n")
    place.project.write_text("[profiles.b]\nk = 9\n")
    shown = place.files.load().settings.named_rankings(PROFILES)["b"]
    plan = place.write(shown)
    assert place.user.read_text() == "[profiles.b]\nk = 5\n\n[ranking]\nk = 9\n"
    assert plan.notes == ("profile b is not this file's: its values, on memtui",)
    assert place.configured() == plan.ranking == replace(shown, profile="memtui")


# --- files ----------------------------------------------------------------------------------------


def test_a_file_changed_meanwhile_is_not_overwritten(place: Place) -> None:
    plan = place.plan(replace(Ranking(), k=3))
    place.user.write_text("[ui]\nmouse = false\n")
    with pytest.raises(FileChanged, match="was changed by another program"):
        write(plan, place.files)
    assert place.user.read_text() == "[ui]\nmouse = false\n"
    new = place.plan(replace(Ranking(), k=3), Source.PROJECT)
    place.project.write_text("")
    with pytest.raises(FileChanged):
        write(new, place.files)
    assert os.listdir(place.user.parent) == [place.user.name]


def test_values_of_a_ranking_are_the_keys_of_the_settings() -> None:
    from memtui.settings.keys import leaves

    keys = {key.partition(".")[2] for key in leaves() if key.startswith("ranking.")}
    assert set(values_of(Ranking())) == keys - {"profile", "decay.preset"}
