"""The palette offers every action, preset, profile and theme."""

from __future__ import annotations

from textual.command import CommandPalette
from textual.widgets import Input

from memtui.model import Fusion, Ranking
from memtui.ranking.profiles import PROFILES
from memtui.settings.actions import ACTIONS
from memtui.tui.commands import PRESETS, Command, MemtuiCommands
from memtui.tui.options import UiOptions
from tests.tui.harness import Running, running, settle, until


def _commands(run: Running) -> dict[str, Command]:
    return {command.name: command for command in MemtuiCommands(run.app.screen).commands()}


async def test_every_described_action_is_offered() -> None:
    async with running(size=(120, 40)) as run:
        await run.search()
        names = set(_commands(run))
        for action in ACTIONS:
            if action.where != "list" and not {"up", "down"} & set(action.keys):
                assert action.title in names, action.id


async def test_commands_name_their_keys() -> None:
    async with running(size=(120, 40)) as run:
        assert _commands(run)["MMR"].keys[:2] == ("m", "F2")


async def test_a_preset_changes_the_ranking_on_screen() -> None:
    async with running(size=(120, 40)) as run:
        await run.search()
        screen = run.app.search_screen
        commands = _commands(run)
        commands["preset: diverse"].run()
        assert screen.ranking.mmr.enabled
        assert screen.ranking.mmr.lambda_ == 0.5
        commands["preset: recent"].run()
        assert screen.ranking.decay.half_life_days == 14
        assert not screen.ranking.mmr.enabled
        commands["profile: openclaw-2026.9"].run()
        assert screen.ranking == PROFILES["openclaw-2026.9"]
        commands["preset: profile default"].run()
        assert screen.ranking == run.app.options.ranking
        commands["fusion: reciprocal rank"].run()
        assert screen.ranking.fusion is Fusion.RRF


async def test_a_theme_can_be_chosen_by_name() -> None:
    async with running() as run:
        commands = _commands(run)
        assert {f"theme: {name}" for name in run.app.available_themes} <= set(commands)
        commands["theme: memtui-light"].run()
        assert run.app.theme == "memtui-light"


async def test_the_palette_finds_by_name_and_by_help() -> None:
    async with running(size=(120, 40), options=UiOptions(theme="memtui-dark")) as run:
        await run.search()
        await run.pilot.press("ctrl+p")
        await run.pilot.pause()
        assert isinstance(run.app.screen, CommandPalette)
        run.app.screen.query_one(Input).value = "on or off"
        await until(run.pilot, lambda: "MMR on or off" in run.text)
        before = run.app.search_screen.ranking.mmr.enabled
        await run.pilot.press("enter", "enter")
        await settle(run.app, run.pilot)
        await until(run.pilot, lambda: run.app.search_screen.ranking.mmr.enabled != before)


def test_presets_start_from_the_configured_ranking() -> None:
    configured = Ranking(k=9, min_score=0.1)
    for preset in PRESETS:
        changed = preset.change(configured)
        assert changed.k == 9
        assert changed.min_score == 0.1
    assert PRESETS[-1].change(configured) == configured


async def test_the_palette_offers_only_what_is_this_programs_own() -> None:
    async with running(size=(120, 40)) as run:
        await run.pilot.press("ctrl+p")
        await until(run.pilot, lambda: "Edit the query" in run.text)
        assert "Maximize" not in run.text
