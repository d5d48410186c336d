"""The interface over the real engine whose provider is another machine's: told, asked, failing."""

from __future__ import annotations

from pathlib import Path

import pytest

from memtui.bus import Bus
from memtui.engine import Engine
from memtui.model import IndexState
from memtui.settings import EmbeddingSettings, Settings
from memtui.tui.app import MemtuiApp
from memtui.tui.options import UiOptions
from memtui.tui.screens.providers.screen import ProvidersScreen
from memtui.tui.screens.search import search_controller
from tests.support.provider_scenes import NOTES
from tests.support.services import KEY_REFUSED, Service, registered
from tests.tui.harness import press, screen_text, until


def open_engine(root: Path, bus: Bus, provider: str) -> Engine:
    """Open the notes with a provider, and another to fall back on."""
    settings = Settings(embedding=EmbeddingSettings(provider=provider, fallback="spare"))
    return Engine.open(root / "notes", settings, bus=bus, data_dir=root / "data", watch=True)


async def test_a_service_takes_over_is_asked_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only Enter finishes a text here: no pause between keys on a busy machine is as long.
    monkeypatch.setattr(search_controller, "SHORTEST_PAUSE", 1000.0)
    monkeypatch.setattr(search_controller, "LONGEST_PAUSE", 1000.0)
    for name, text in NOTES.items():
        path = tmp_path / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    first, spare = Service("first", remote=True), Service("spare")
    with registered(first, spare):
        with open_engine(tmp_path, Bus(), "spare") as engine:
            engine.index.sync(wait=True)
        first.hanging.set()
        app = MemtuiApp(
            lambda bus: open_engine(tmp_path, bus, "first"), UiOptions(theme="memtui-dark")
        )
        try:
            await _live_through(app, first)
        finally:
            first.hanging.clear()
            app.memories.close()


async def _live_through(app: MemtuiApp, first: Service) -> None:
    screen = app.search_screen
    async with app.run_test(size=(120, 40), notifications=True) as pilot:

        def shows(text: str) -> bool:
            return text in screen_text(app)

        def told(text: str) -> bool:
            return any(text in toast.message for toast in app._notifications)

        await until(pilot, lambda: screen.engine is not None)
        engine = screen.engine
        assert engine is not None
        await until(pilot, lambda: told("index is for spare, settings say first: rebuilding, ~"))
        assert told(" tokens to ")
        await press(pilot, *"heron")
        await until(pilot, lambda: shows("vectors by spare until those by first are there"))
        first.hanging.clear()
        await until(pilot, lambda: engine.index.status().state is IndexState.READY)
        await until(pilot, lambda: shows("first/model-one 16d → api.example"))
        first.queries.clear()
        await press(pilot, *" note")
        await until(pilot, lambda: shows("~ vector: asked when you stop typing or press Enter"))
        # The words before may be asked again, for the index that has just come; half a word never.
        assert set(first.queries) <= {"heron"}
        await press(pilot, "enter")
        await until(pilot, lambda: "heron note" in first.queries)
        await until(pilot, lambda: not shows("~ vector") and not shows("vectors by"))
        first.refusal = KEY_REFUSED
        await press(pilot, *"s", "enter")
        await until(pilot, lambda: shows("! first → spare: key refused"))
        await until(pilot, lambda: shows("vectors by spare, not first: key refused"))
        assert "→ api.example" not in screen_text(app).splitlines()[-2]
        await press(pilot, "escape", "E")
        await until(pilot, lambda: isinstance(app.screen, ProvidersScreen) and shows("fallback"))
