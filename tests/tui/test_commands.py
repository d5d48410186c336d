"""The palette offers every action, preset, profile and theme."""

from __future__ import annotations

from memtui.model import Fusion, Ranking
from memtui.ranking.profiles import PROFILES
from memtui.settings.actions import ACTIONS
from memtui.tui.commands import PRESETS, MemtuiCommands
from tests.support.small_memory import SmallMemory
from tests.tui.harness import running


async def test_every_action_preset_profile_and_theme_is_offered(memory: SmallMemory) -> None:
    async with running(memory.open, size=(120, 40)) as run:
        await run.search()
        screen = run.app.search_screen
        commands = {command.name: command for command in MemtuiCommands(screen).commands()}
        for action in ACTIONS:
            if action.where != "list" and not {"up", "down"} & set(action.keys):
                assert action.title in commands, action.id
        assert commands["MMR"].keys[:2] == ("m", "F2")
        commands["preset: diverse"].run()
        assert (screen.ranking.mmr.enabled, screen.ranking.mmr.lambda_) == (True, 0.5)
        commands["preset: recent"].run()
        assert screen.ranking.decay.half_life_days == 14
        assert not screen.ranking.mmr.enabled
        commands["profile: openclaw-2026.9"].run()
        assert screen.ranking == PROFILES["openclaw-2026.9"]
        commands["preset: profile default"].run()
        assert screen.ranking == run.app.options.ranking
        commands["fusion: reciprocal rank"].run()
        assert screen.ranking.fusion is Fusion.RRF
        assert {f"theme: {name}" for name in run.app.available_themes} <= set(commands)
        commands["theme: memtui-light"].run()
        assert run.app.theme == "memtui-light"


def test_presets_start_from_the_configured_ranking() -> None:
    configured = Ranking(k=9, min_score=0.1)
    for _, change in PRESETS.values():
        changed = change(configured)
        assert (changed.k, changed.min_score) == (9, 0.1)
    assert changed == configured
