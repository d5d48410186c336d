"""Writing rankings into settings files: which keys, which file, and what happens to the rest."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memtui.errors import SettingsError
from memtui.index.generations import IndexFolder
from memtui.model import Decay, Ranking
from memtui.ranking.profiles import PROFILES
from memtui.report.export import ExportFailed, save
from memtui.settings.files import (
    FileChanged,
    SettingsProblems,
    StateFolder,
    make_private,
    replace_text,
)
from memtui.settings.load import Source, trust
from memtui.settings.schema import RankingSettings, nested, sample_config
from memtui.settings.write import (
    names_for,
    plan_profile,
    plan_profiles,
    plan_ranking,
    plan_removal,
    plan_transcripts,
    write,
)
from tests.support.configured import Configured, settings_file
from tests.support.known import load


@pytest.fixture
def place(tmp_path: Path) -> Configured:
    return Configured(tmp_path)


@pytest.mark.parametrize(("before", "wanted", "after"), load("settings")["written"])
def test_the_fewest_changes_are_written(
    place: Configured, before: str, wanted: dict[str, Any], after: str
) -> None:
    place.user.write_text(before)
    ranking = RankingSettings.parse(nested(wanted)).apply(PROFILES[wanted.get("profile", "memtui")])
    place.write(ranking)
    assert place.user.read_text() == after
    assert place.ranking() == ranking
    assert not place.plan(ranking).changes


@pytest.mark.parametrize("own", ["", "[profiles.team]\nk = 5\ndedup = true\n"])
def test_a_profile_of_the_other_file_is_not_named(place: Configured, own: str) -> None:
    place.user.write_text(own)
    place.project.write_text("[profiles.team]\nk = 3\n")
    team = place.load().settings.named_rankings()["team"]
    plan = place.write(team)
    assert place.user.read_text() == f"{own}\n[ranking]\nk = 3\n".lstrip()
    assert plan.notes == ("profile team is not this file's: its values, on memtui",)
    assert place.ranking() == plan.ranking == replace(team, profile="memtui")
    place.user.write_text("")
    place.write(team, Source.PROJECT)
    assert place.project.read_text() == '[profiles.team]\nk = 3\n\n[ranking]\nprofile = "team"\n'
    assert place.ranking() == team


def test_what_wins_over_the_file_is_named(place: Configured) -> None:
    place.env["MEMTUI_RANKING__K"] = "4"
    place.user.write_text("[ranking]\nk = 7\n")
    place.project.write_text("[ranking]\nmmr.enabled = true\n")
    plan = place.plan(place.ranking())
    assert (plan.changes, plan.notes) == (False, ()), "the others give it"
    wanted = replace(place.ranking(), k=8, mmr=replace(Ranking().mmr, enabled=False))
    plan = place.write(wanted)
    assert plan.notes == (
        "ranking.k: $MEMTUI_RANKING__K gives 4 and wins over this file",
        f"ranking.mmr.enabled: {place.project}:2 gives true and wins over this file",
    )
    assert plan.ranking == wanted
    assert place.user.read_text() == "[ranking]\nk = 8\n"
    assert place.ranking().k == 4
    del place.env["MEMTUI_RANKING__K"]
    place.write(wanted, Source.PROJECT)
    assert place.project.read_text() == "[ranking]\n"
    assert place.ranking() == wanted


def test_a_weaker_file_is_overruled_by_an_explicit_value(place: Configured) -> None:
    place.user.write_text("[ranking]\nk = 9\nkeyword_weight = 0.2\n")
    wanted = replace(Ranking(), vector_weight=0.5, keyword_weight=0.5)
    place.write(wanted, Source.PROJECT)
    expected = "[ranking]\nvector_weight = 0.5\nkeyword_weight = 0.5\nk = 6\n"
    assert place.project.read_text() == expected
    assert place.ranking() == wanted


def test_values_that_no_settings_can_say_are_told_and_left_out(place: Configured) -> None:
    plan = place.write(replace(Ranking(), k=500, dedup=True))
    assert plan.notes == (
        "ranking.k: must be a whole number from 1 up to 200, not 500: not written",
    )
    assert (plan.ranking.k, plan.ranking.dedup) == (6, True)
    assert place.user.read_text() == "[ranking]\ndedup = true\n"


def test_the_sample_keeps_every_line(place: Configured) -> None:
    place.user.write_text(sample_config())
    wanted = replace(
        PROFILES["memini"], k=12, project_keys=('a"\\', "é\u202e"), decay=Decay(True, 7.5, 0.25)
    )
    place.write(wanted)
    lines = place.user.read_text().splitlines()
    kept = iter(lines)
    assert all(line in kept for line in sample_config().splitlines())
    assert lines.index("[ranking]") < lines.index("k = 12") < lines.index("[ranking.mmr]")
    assert place.ranking() == wanted


def test_a_workspace_with_a_pyproject_table_keeps_it(place: Configured) -> None:
    pyproject = place.root / "pyproject.toml"
    pyproject.write_text("[project]\nname = 'x'\n\n[tool.memtui.ui]\nmouse = false\n\n[tool.z]\n")
    place.write(replace(Ranking(), k=3), Source.PROJECT)
    assert not place.project.exists()
    assert "\n[tool.memtui.ranking]\nk = 3\n" in pyproject.read_text()
    assert place.ranking().k == 3
    apart = "[[tool.z]]\na = 1\n[tool.memtui]\nui.mouse = false\n[[tool.z]]\na = 2\n"
    pyproject.write_text(apart)
    with pytest.raises(SettingsError, match="more of it would change"):
        place.write(replace(Ranking(), k=3), Source.PROJECT)
    assert pyproject.read_text() == apart, "nothing is put in another order"


def test_a_trusted_file_stays_trusted(place: Configured) -> None:
    place.project.write_text("editor = 'vi'\n")
    trust(settings_file(place.project), place.state)
    place.write(replace(Ranking(), k=3), Source.PROJECT)
    assert place.load().settings.editor == "vi"
    place.project.write_text("editor = 'rm'\n")
    place.write(replace(Ranking(), k=4), Source.PROJECT)
    assert place.load().settings.editor is None


def test_without_a_workspace_there_is_the_users_file_alone(place: Configured) -> None:
    files = replace(place.files(), root=None)
    with pytest.raises(SettingsError, match="no workspace"):
        plan_ranking(files, Source.PROJECT, Ranking(k=3))


def test_a_broken_file_is_left_alone(place: Configured) -> None:
    place.user.write_text("[ranking\n")
    with pytest.raises(SettingsError, match=r"memtui\.toml:1: broken TOML"):
        place.plan(Ranking(k=3))
    place.user.write_text("[[ui]]\n")
    with pytest.raises(SettingsError, match="must be a table"):
        place.plan(Ranking(k=3))
    place.user.write_text("")
    with pytest.raises(SettingsError, match="must not both be 0"):
        place.plan(replace(Ranking(), vector_weight=0.0, keyword_weight=0.0))


def test_a_value_with_comments_in_it_is_left_alone(place: Configured) -> None:
    place.user.write_text("[ranking]\nproject_keys = [\n  'a', # mine\n]\n")
    by_hand = r'comments inside a value would be lost; by hand: ranking.project_keys = \["b"\]'
    with pytest.raises(SettingsError, match=by_hand):
        place.plan(replace(Ranking(), project_keys=("b",)))


def test_lists_that_are_empty_without_their_keys_are_not_written(place: Configured) -> None:
    assert not plan_transcripts(place.files(), (), ()).changes
    place.env["MEMTUI_TRANSCRIPTS__SOURCES"] = "codex"
    (note,) = plan_transcripts(place.files(), (), ()).notes
    assert note.endswith('$MEMTUI_TRANSCRIPTS__SOURCES gives ["codex"] and wins over this file')
    del place.env["MEMTUI_TRANSCRIPTS__SOURCES"]
    write(plan_transcripts(place.files(), ("codex", "codex"), ()), place.files())
    assert place.user.read_text() == '[transcripts]\nsources = ["codex"]\n'
    write(plan_transcripts(place.files(), (), ()), place.files())
    assert place.user.read_text() == "[transcripts]\nsources = []\n"


def test_a_profile_is_saved_with_the_fewest_keys_and_replaced_in_place(place: Configured) -> None:
    wanted = replace(PROFILES["openclaw-2026.7"], profile="old", k=9)
    write(plan_profile(place.files(), "new.1", wanted), place.files())
    saved = '[profiles."new.1"]\nprofile = "openclaw-2026.7"\nk = 9\n'
    assert place.user.read_text() == saved
    place.user.write_text(saved.replace("k = 9", "# best\nk = 9  # nine\ndedup = false"))
    wanted = replace(wanted, k=10, dedup=True)
    plan = plan_profile(place.files(), "new.1", wanted)
    write(plan, place.files())
    assert place.user.read_text() == saved.replace("k = 9", "# best\nk = 10  # nine\ndedup = true")
    assert plan.notes == (f"replaces new.1 at {place.user}:2",)
    named = place.load().settings.named_rankings()
    assert named["new.1"] == plan.ranking == replace(wanted, profile="new.1")


@pytest.mark.parametrize("name", ["", "memini", "Fast", "a b", "../x", "x" * 65, "-a", "a\n"])
def test_names_that_cannot_be_given(place: Configured, name: str) -> None:
    with pytest.raises(SettingsError):
        plan_profile(place.files(), name, Ranking())
    assert place.user.read_text() == ""


def test_a_profile_out_of_range_names_its_key(place: Configured) -> None:
    with pytest.raises(SettingsProblems, match=r"^ranking\.k: must be a whole number"):
        plan_profile(place.files(), "x", Ranking(k=900))


def test_profiles_come_and_go_and_the_rest_stays(place: Configured) -> None:
    before = "# top\n[ui]\nmouse = true # yes\n\n# end\n"
    place.user.write_text(before)
    shared: dict[str, dict[str, Any]] = {
        "a": {"k": 3},
        "b.c": {"profile": "memini", "mmr.lambda": 0.5},
    }
    write(plan_profiles(place.files(), shared, force=False), place.files())
    with pytest.raises(SettingsError, match="a is there already"):
        plan_profiles(place.files(), shared, force=False)
    write(plan_profiles(place.files(), {"a": {"k": 4}}, force=True), place.files())
    assert place.load().settings.profiles["a"].k == 4
    for name in ("b.c", "a"):
        write(plan_removal(place.files(), name), place.files())
    assert place.user.read_text() == before


def test_a_file_changed_meanwhile_is_not_overwritten(place: Configured) -> None:
    plan = place.plan(replace(Ranking(), k=3))
    place.user.write_text("[ui]\nmouse = false\n")
    with pytest.raises(FileChanged, match="was changed by another program"):
        write(plan, place.files())
    assert place.user.read_text() == "[ui]\nmouse = false\n"
    new = place.plan(replace(Ranking(), k=3), Source.PROJECT)
    place.project.write_text("")
    with pytest.raises(FileChanged):
        write(new, place.files())
    assert os.listdir(place.user.parent) == [place.user.name]


def test_links_modes_and_byte_order_marks_stay(place: Configured) -> None:
    target = place.folder / "dotfiles" / "memtui.toml"
    target.parent.mkdir()
    target.write_bytes(b"\xef\xbb\xbf[ui]\r\nmouse = true\r\n")
    target.chmod(0o640)
    place.user.unlink()
    place.user.symlink_to(Path("..") / "dotfiles" / "memtui.toml")
    place.write(Ranking(k=3))
    assert place.user.is_symlink()
    expected = b"\xef\xbb\xbf[ui]\r\nmouse = true\r\n\r\n[ranking]\r\nk = 3\r\n"
    assert target.read_bytes() == expected
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert os.listdir(target.parent) == [target.name]


def full(handle: int) -> None:
    """Stand in for `os.fsync` on a disk without room for more than ten bytes."""
    if os.fstat(handle).st_size > 10:
        raise OSError(28, "No space left on device")


def test_a_file_with_another_name_stays_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "config.toml", tmp_path / "dotfiles.toml"
    path.write_text("[ui]\nmouse = true\n# a long line that is not there afterwards\n")
    other.hardlink_to(path)
    digest = replace_text(path, "[ui]\n", None)
    assert (path.read_text(), other.read_text()) == ("[ui]\n", "[ui]\n")
    assert path.samefile(other)
    assert digest == settings_file(path).sha256

    def full_for_links(handle: int) -> None:
        if os.fstat(handle).st_nlink > 1:
            full(handle)

    monkeypatch.setattr("os.fsync", full_for_links)
    with pytest.raises(SettingsError, match="No space left"):
        replace_text(path, "[ui]\nmouse = false\n", digest)
    assert other.read_text() == "[ui]\n"
    assert sorted(os.listdir(tmp_path)) == ["config.toml", "dotfiles.toml"]


def test_a_private_file_lies_open_at_no_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "deep" / "config.toml"
    digest = replace_text(path, "[embedding]\nbase_url = 'http://me:secret@host'\n", "")
    path.chmod(0o600)
    modes: list[int] = []

    def record(handle: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(handle).st_mode))

    monkeypatch.setattr("os.fsync", record)
    replace_text(path, "[ui]\n", digest)
    assert (modes, path.read_text()) == ([0o600], "[ui]\n")


def test_files_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SettingsError, match=r"cannot write .*Not a directory"):
        replace_text(tmp_path / "file" / "config.toml", "x", "")
    for what in (tmp_path, Path(os.devnull)):
        with pytest.raises(SettingsError, match=f"cannot write {what}: not a regular file"):
            replace_text(what, "x", "")
    path = tmp_path / "config.toml"
    path.write_text("[ui]\n")
    digest = settings_file(path).sha256
    with pytest.raises(SettingsError, match="larger than"):
        replace_text(path, "#" * 2_000_000, digest)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(SettingsError, match="No space left"):
            replace_text(path, "x = 1 # long\n", digest)
    monkeypatch.setattr("os.access", lambda *args: False)
    with pytest.raises(SettingsError, match="it is read-only"):
        replace_text(path, "x = 1\n", digest)
    assert path.read_text() == "[ui]\n"
    assert sorted(os.listdir(tmp_path)) == ["config.toml", "file"]


def test_state_files_are_replaced_whole(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "deep" / "state")
    assert state.read_json("history.json") is None
    state.write_json("history.json", ["a", "\udcff"])
    state.write_json("history.json", ["b"])
    assert state.read_json("history.json") == ["b"]
    assert os.listdir(state.path) == ["history.json"]
    for broken in (b"{", b"\xff", b"[" * 100_000):
        (state.path / "history.json").write_bytes(broken)
        assert state.read_json("history.json") is None


@pytest.fixture
def nothing_masked() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.usefixtures("nothing_masked")
def test_every_folder_that_is_made_is_private(tmp_path: Path) -> None:
    IndexFolder(tmp_path / "data" / "memtui" / "notes-1").create()
    StateFolder(tmp_path / "state" / "memtui").write_json("history.json", ["a query"])
    config = tmp_path / "config" / "memtui" / "config.toml"
    replace_text(config, "[ui]\n", "")
    made = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert len(made) == 7
    assert {mode(path) for path in made} == {0o700}
    assert mode(tmp_path / "state/memtui/history.json") == 0o600
    assert mode(config) == 0o600
    config.parent.chmod(0o755)
    replace_text(config, "[memory]\n", None)
    assert (mode(config.parent), mode(config)) == (0o755, 0o600)


@pytest.mark.usefixtures("nothing_masked")
def test_what_was_open_to_others_is_narrowed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("of somebody else")
    outside.chmod(0o644)
    folder = tmp_path / "notes-1"
    (folder / "screenshots").mkdir(parents=True)
    for path in (folder / "index-1.db", folder / "screenshots" / "one.svg"):
        path.write_text("text of a note")
        path.chmod(0o666)
    (folder / "read-only").write_text("")
    (folder / "read-only").chmod(0o444)
    (folder / "link").symlink_to(outside)
    make_private(folder)
    assert mode(folder) == mode(folder / "screenshots") == 0o700
    assert mode(folder / "index-1.db") == mode(folder / "screenshots/one.svg") == 0o600
    assert mode(folder / "read-only") == 0o400
    assert mode(outside) == 0o644


@pytest.mark.usefixtures("nothing_masked")
@pytest.mark.parametrize("force", [False, True])
def test_an_export_is_private(tmp_path: Path, force: bool) -> None:
    target = tmp_path / "one.json"
    if force:
        target.write_text("of before")
        target.chmod(0o644)
    save(target, "{}", force=force)
    assert mode(target) == 0o600


def test_of_an_export_that_does_not_fit_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ("x" * 255)
    monkeypatch.setattr("os.fsync", full)
    for force in (False, True):
        with pytest.raises(ExportFailed, match="No space left"):
            save(path, "a text of more than ten bytes", force=force)
        assert os.listdir(tmp_path) == []
        save(path, "short", force=force)
        path.unlink()
    path.symlink_to("nowhere")
    with pytest.raises(ExportFailed, match="is there already"):
        save(path, "short")


@pytest.mark.parametrize(("named", "chosen", "names"), load("settings")["source_names"])
def test_a_wider_name_of_a_source_stays_while_all_of_it_is_chosen(
    named: list[str], chosen: list[str], names: list[str]
) -> None:
    places = ["openclaw:a", "openclaw:b", "claude-code", "codex"]
    assert names_for(named, places, chosen) == tuple(names)
