"""Every key that a screen names has an effect, in every state of the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from memtui.settings.load import SettingsFiles
from memtui.tui.bindings import is_typed
from memtui.tui.screens.search import search_controller
from memtui.tui.widgets.bars import ON_CLICK
from tests.support.conversations import talk
from tests.support.known import load
from tests.support.small_memory import SmallMemory
from tests.tui.harness import Running, dark, running, settle

STATES = load("interface")["states of screens"]
"""Keys that lead from the results of a query to a state."""
ELSEWHERE = {"ctrl+q", "q", "e", "alt+e", "ctrl+z"}
"""Keys that end the program or give the terminal away."""


def named_keys(run: Running) -> list[str]:
    """Return the keys that hints on the screen name, the one that leads back last."""
    segments = (one for strip in run.app.screen._compositor.render_strips() for one in strip)
    actions = {one.style.meta.get(ON_CLICK, "") for one in segments if one.style is not None}
    keys = {one.split("'")[1] for one in actions if one.startswith("app.simulate_key(")}
    named = [key for key in keys if key not in ELSEWHERE]
    return sorted(named, key=lambda key: (key == "escape", key))


def situation(run: Running) -> list[Any]:
    """Return what a key can change."""
    app, screen = run.app, run.app.screen
    drawn = [list(strip) for strip in screen._compositor.render_strips()]
    return [screen, screen.focused, drawn, run.toasts, app.clipboard]


@pytest.mark.parametrize("keys", STATES.values(), ids=STATES)
async def test_every_key_that_is_named_has_an_effect(
    keys: str, memory: SmallMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What goes by itself is no effect of a key.
    monkeypatch.setattr(search_controller, "NOTE_SECONDS", 600)
    homes = talk(tmp_path).homes
    files = SettingsFiles({"MEMTUI_CONFIG": str(tmp_path / "config.toml")})
    options = dark(root=memory.root, files=files)
    pressed: list[str] = []
    silent: list[str] = []
    named = [""]
    while not set(named) <= set(pressed):
        async with running(
            lambda bus: memory.open(bus, homes=homes), size=(120, 24), options=options
        ) as run:
            await run.search("router")
            for key in ("escape", *keys.split()):
                await run.press(key)
            screen, focused, *_ = before = situation(run)
            named = named_keys(run)
            typed = [one for one in named if isinstance(run.app.focused, Input) and is_typed(one)]
            assert typed == []
            for key in [key for key in named if key not in pressed]:
                pressed.append(key)
                await run.press(key)
                if situation(run) == before:
                    silent.append(key)
                    continue
                # Back as a user goes: some keys do the opposite when they are pressed again.
                await run.press("escape" if run.app.screen is not screen else key)
                run.app.clear_notifications()
                await settle(run.app, run.pilot)
                before = situation(run)
                if before[:2] != [screen, focused] or named_keys(run) != named:
                    break
    assert silent == []
    assert pressed
