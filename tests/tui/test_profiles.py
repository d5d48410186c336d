"""Going through named rankings, and writing the parameters into the settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Input

from memtui.model import Ranking
from memtui.ranking.profiles import PROFILES
from memtui.settings.load import Flag, SettingsFiles, load_settings
from memtui.settings.openclaw.convert import fragment
from memtui.settings.sample import sample_config
from memtui.tui.commands import MemtuiCommands
from memtui.tui.options import UiOptions, options_from
from memtui.tui.parameters import parameters
from memtui.tui.screens.configuration import ConfigurationScreen, release_for
from memtui.tui.screens.write_dialog import Where, WriteDialog
from tests.support.small_memory import SmallMemory, make_small_agent
from tests.tui.harness import Running, running, settle, until

OWN = """\
[profiles.recent-heavy]
k = 4
decay.enabled = true
decay.half_life_days = 14

[profiles.old]
profile = "openclaw-2026.4"
k = 3
"""
MakeOptions = Callable[..., UiOptions]


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    file = tmp_path / "config.toml"
    file.write_text(OWN)
    return file


@pytest.fixture
def options(user_file: Path, tmp_path: Path) -> MakeOptions:
    root = tmp_path / "notes"
    root.mkdir(exist_ok=True)

    def make(env: dict[str, str] | None = None, glyphs: str = "unicode") -> UiOptions:
        files = SettingsFiles({"MEMTUI_CONFIG": str(user_file), **(env or {})}, root)
        settings = files.load().settings
        return UiOptions(
            theme="memtui-dark",
            ranking=settings.configured_ranking(PROFILES),
            profiles=settings.named_rankings(PROFILES),
            files=files,
            root=root,
            glyphs=glyphs,
        )

    return make


async def _open(run: Running, *keys: str) -> WriteDialog:
    await run.pilot.press("escape", *keys, "w")
    await settle(run.app, run.pilot)
    screen = run.app.screen
    assert isinstance(screen, WriteDialog)
    await until(run.pilot, lambda: screen.plan is not None or "✗" in run.text)
    await settle(run.app, run.pilot)
    return screen


async def _press(run: Running, *keys: str) -> None:
    await run.pilot.press(*keys)
    await settle(run.app, run.pilot)


# --- from one to the next -------------------------------------------------------------------------


async def test_p_goes_through_every_named_ranking(
    memory: SmallMemory, options: MakeOptions
) -> None:
    async with running(memory.open, options=replace(options(), ranking=Ranking(k=7))) as run:
        await run.search()
        screen = run.app.search_screen
        await _press(run, "escape", "P")
        assert screen.ranking == PROFILES["openclaw-2026.2"]
        seen = [screen.ranking.profile]
        for _ in range(6):
            await _press(run, "P")
            seen.append(screen.ranking.profile)
        assert seen == [*list(PROFILES)[1:], "recent-heavy", "old"]
        await _press(run, "u")
        assert "undo: profile recent-heavy: " in run.text
        assert (screen.ranking.k, screen.ranking.decay.half_life_days) == (4, 14)
        await _press(run, "P", "P")
        assert screen.ranking == run.app.options.ranking == Ranking(k=7)
        assert "profile memtui: " in run.text
        await _press(run, "m", "P")
        assert screen.ranking.profile == "openclaw-2026.2"
        names = {command.name: command for command in MemtuiCommands(screen).commands()}
        names["profile: recent-heavy"].run()
        assert screen.ranking == run.app.options.profiles["recent-heavy"]
        assert names["profile: recent-heavy"].help == "a profile of your own"
        await _press(run, "P", "C")
        shown = run.app.screen
        assert isinstance(shown, ConfigurationScreen)
        assert shown.release == "2026.4"
        assert "maxResults: 3," in run.text
        await _press(run, "end")
        assert "This release takes every parameter." in run.text
        screen.options = replace(screen.options, files=None)
        await _press(run, "escape", "w")
        assert run.app.screen is screen
        assert run.toasts == ["there are no settings files here to write to"]


async def test_over_an_agents_index_its_release_stays_and_the_settings_are_memtuis(
    options: MakeOptions, user_file: Path, tmp_path: Path
) -> None:
    async with running(make_small_agent(tmp_path).open, options=options()) as run:
        await run.search()
        screen = run.app.search_screen
        agents = screen.ranking
        assert agents.k == 6
        assert list(screen.rankings.named_rankings()) == ["openclaw-2026.9", "recent-heavy", "old"]
        await _press(run, "escape", "P")
        assert screen.ranking.profile == "recent-heavy"
        await _press(run, "P", "P")
        assert screen.ranking == agents
        dialog = await _open(run, "minus")
        assert "memtui's settings, not the agent's" in run.text
        assert "this folder's" not in run.text
        assert '+ profile = "openclaw-2026.9"' in run.text
        assert dialog.plan is not None
        await _press(run, "enter")
        assert user_file.read_text() == f'{OWN}\n[ranking]\nprofile = "openclaw-2026.9"\nk = 5\n'
        assert run.app.options.ranking == screen.options.ranking == agents
        assert run.app.configured.ranking == replace(agents, k=5)
        run.app.options = screen.options = replace(screen.options, profiles=PROFILES)
        await _press(run, "P", "P")
        assert screen.ranking == agents
        assert "no other profile for this index" in run.text


# --- writing --------------------------------------------------------------------------------------


async def test_the_difference_is_shown_then_written(
    memory: SmallMemory, options: MakeOptions, user_file: Path
) -> None:
    user_file.write_text(f"# mine\n[ranking]\nk = 8  # few\n\n{OWN}")
    async with running(memory.open, options=options()) as run:
        await run.search()
        await _open(run, "m", "plus")
        assert "› my settings" in run.text
        assert "- k = 8  # few" in run.text
        assert "+ k = 9  # few" in run.text
        assert "+ mmr.enabled = true" in run.text or "+ enabled = true" in run.text
        await _press(run, "escape")
        assert user_file.read_text() == f"# mine\n[ranking]\nk = 8  # few\n\n{OWN}"
        screen = run.app.search_screen
        changed = parameters(screen.ranking, screen.options.ranking)
        assert sum(bool(parameter.configured) for parameter in changed) == 2
        await _press(run, "w")
        await _press(run, "enter")
        assert run.app.screen is screen
        text = user_file.read_text()
        assert text.startswith("# mine\n[ranking]\nk = 9  # few\n")
        assert OWN in text
        assert load_settings(env={"MEMTUI_CONFIG": str(user_file)}).settings.ranking.mmr.enabled
        assert screen.options.ranking == screen.ranking == run.app.options.ranking
        assert "(was off)" not in run.text
        assert run.toasts[-1].startswith("saved in ")
        await _press(run, "d", "0")
        assert (screen.ranking.mmr.enabled, screen.ranking.decay.enabled) == (True, False)
        await _open(run)
        assert "● The settings give exactly these parameters already." in run.text
        await _press(run, "enter")
        assert user_file.read_text() == text


async def test_a_file_changed_meanwhile_is_shown_anew(
    memory: SmallMemory, options: MakeOptions, user_file: Path
) -> None:
    async with running(memory.open, options=options()) as run:
        await _open(run, "plus")
        user_file.write_text("[ranking]\nk = 20  # by an editor\n")
        await _press(run, "enter")
        assert isinstance(run.app.screen, WriteDialog)
        assert "changed by another program meanwhile" in run.text
        assert "- k = 20  # by an editor" in run.text
        assert user_file.read_text() == "[ranking]\nk = 20  # by an editor\n"
        await _press(run, "enter")
        assert user_file.read_text() == "[ranking]\nk = 7  # by an editor\n"


async def test_the_workspaces_file_and_what_wins_over_the_users(
    memory: SmallMemory, options: MakeOptions, user_file: Path, tmp_path: Path
) -> None:
    project = tmp_path / "notes" / ".memtui.toml"
    async with running(
        memory.open, options=options({"MEMTUI_RANKING__K": "3"}), size=(120, 40)
    ) as run:
        screen = await _open(run, "plus", "F")
        assert "! ranking.k: $MEMTUI_RANKING__K gives 3 and wins over this file" in run.text
        await _press(run, "tab")
        assert screen.where is Where.PROJECT
        assert ".memtui.toml (new)" in run.text
        assert '+ fusion = "rrf"' in run.text
        await _press(run, "enter")
        assert project.read_text() == '[ranking]\nk = 4\nfusion = "rrf"\n'
        assert user_file.read_text() == OWN
        assert run.app.options.ranking.k == 4


async def test_a_profile_is_saved_under_a_name(
    memory: SmallMemory, options: MakeOptions, user_file: Path
) -> None:
    async with running(memory.open, options=options()) as run:
        await run.search()
        screen = await _open(run, "m")
        await _press(run, "shift+tab")
        assert screen.where is Where.PROFILE
        assert "✗ type a name: a-z" in run.text
        await _press(run, "enter", *"memini")
        assert "✗ memini: is built in" in run.text
        box = screen.query_one(Input)
        box.value = "A\x1b[31m"
        await settle(run.app, run.pilot)
        assert screen.plan is None
        assert "cannot be a profile's name" in run.text
        box.value = "recent-heavy"
        await settle(run.app, run.pilot)
        assert "! replaces recent-heavy at" in run.text
        assert "- k = 4" in run.text
        box.value = "varied.2"
        await settle(run.app, run.pilot)
        assert '+ [profiles."varied.2"]' in run.text
        assert '[profiles."varied.2"] in ' in run.text
        await _press(run, "enter")
        text = user_file.read_text()
        assert text == f'{OWN}\n[profiles."varied.2"]\nprofile = "memtui"\nmmr.enabled = true\n'
        home = run.app.search_screen
        assert home.ranking == home.options.profiles["varied.2"]
        assert home.options.ranking == Ranking()
        assert "profile varied.2 saved" in run.text
        await _press(run, "P")
        assert home.ranking == Ranking()
        screen = await _open(run, "P", "u", "u")
        assert screen.query_one(Input).value == "varied.2"


async def test_a_long_difference_scrolls_and_a_click_chooses(
    memory: SmallMemory, options: MakeOptions, user_file: Path
) -> None:
    user_file.write_text(sample_config())
    async with running(memory.open, options=options(glyphs="ascii"), size=(80, 24)) as run:
        screen = await _open(run, "m", "d", "plus", "F", "less_than_sign", "right_square_bracket")
        assert "j/k scroll" in run.text
        assert "> my settings" in run.text
        await run.pilot.resize_terminal(60, 16)
        await settle(run.app, run.pilot)
        box = screen.query_one("#write").region
        assert box.x == (60 - box.width) // 2
        assert box.bottom <= 16
        assert "j/k scroll" in run.text
        top = run.text
        await _press(run, "j", "j", "pagedown", "k", "pageup", "pagedown", "pagedown", "pagedown")
        assert run.text != top
        assert "+ enabled = true" in run.text
        await run.pilot.click("#write-places", offset=(6, 2))
        await settle(run.app, run.pilot)
        assert screen.where is Where.PROFILE
        await _press(run, "escape")
        assert user_file.read_text() == sample_config()


async def test_what_cannot_be_written_is_told(
    memory: SmallMemory, options: MakeOptions, user_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(memory.open, options=options(), size=(120, 40)) as run:
        await _open(run, "m")
        with monkeypatch.context() as patch:
            patch.setattr("os.access", lambda *args: False)
            await _press(run, "enter")
            await until(run.pilot, lambda: "✗ cannot write " in run.text)
        assert isinstance(run.app.screen, WriteDialog)
        user_file.write_text("[ranking\n")
        await _press(run, "tab", "tab", "tab")
        await until(run.pilot, lambda: "TOML: Expected" in run.text)
        await _press(run, "enter", "escape")
        assert "Write the parameters" not in run.text
        assert user_file.read_text() == "[ranking\n"


async def test_what_comes_after_a_dialog_was_closed_is_passed_over(
    memory: SmallMemory, options: MakeOptions
) -> None:
    async with running(memory.open, options=options()) as run:
        await run.pilot.press("escape", "w")
        dialog = run.app.screen
        assert isinstance(dialog, WriteDialog)
        await dialog.dismiss(None)
        await settle(run.app, run.pilot)
        assert run.app.screen is run.app.search_screen
        assert (run.toasts, run.app.return_code) == ([], None)


def test_the_demo_and_agents_write_to_the_users_file_alone(user_file: Path, tmp_path: Path) -> None:
    loaded = load_settings(
        flags={"ranking.k": Flag("-n", 3)}, env={"MEMTUI_CONFIG": str(user_file)}
    )
    notes = options_from(loaded, tmp_path, demo=False)
    assert list(notes.profiles) == [*PROFILES, "recent-heavy", "old"]
    assert notes.files is not None
    assert (notes.files.root, notes.files.flags) == (tmp_path, {"ranking.k": Flag("-n", 3)})
    for other in (
        options_from(loaded, tmp_path, demo=True),
        options_from(loaded, tmp_path, demo=False, foreign=True),
        options_from(loaded, Path(), demo=False),
    ):
        assert other.files is not None
        assert other.files.root is None
    assert UiOptions().profiles is PROFILES


# --- copying --------------------------------------------------------------------------------------


def test_parameters_are_copied_for_the_release_of_the_first_profile_that_has_one() -> None:
    assert release_for(()) == "2026.9"
    assert release_for(("memtui", "openclaw-2026.4")) == "2026.4"
    assert release_for(("openclaw-2026.2", "openclaw-2026.9")) == "2026.2"
    assert release_for(("openclaw-1999.1", "memini")) == "2026.9"


async def test_the_parameters_are_copied_as_an_agents_configuration(memory: SmallMemory) -> None:
    async with running(memory.open) as run:
        await run.search()
        await _press(run, "escape", "m", "C")
        screen = run.app.screen
        assert isinstance(screen, ConfigurationScreen)
        ranking = run.app.search_screen.ranking
        assert run.app.clipboard == fragment(ranking, "2026.9").text
        await _press(run, "left", "left", "y")
        assert run.app.clipboard == fragment(ranking, "2026.4").text
        await _press(run, "right", "right", "right")
        assert screen.release == "2026.9"
        await _press(run, "left", "left", "left", "left", "left")
        assert screen.release == "2026.2"
        await _press(run, "j", "k", "escape")
        assert run.app.screen is run.app.search_screen
