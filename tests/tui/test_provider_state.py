"""Requested and actual provider, why they differ, and where text goes: bar, index, list."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from memtui.bus import Bus
from memtui.engine import Engine
from memtui.model import (
    Failure,
    IndexState,
    IndexStatus,
    ProviderState,
    Reason,
    SyncStats,
    Usage,
)
from memtui.report import providers as words
from memtui.report.words import FAILURE_WORDS, REASON_WORDS
from memtui.settings.schema import EmbeddingSettings, Settings
from memtui.tui.app import MemtuiApp
from memtui.tui.glyphs import ASCII, UNICODE, Glyphs
from memtui.tui.options import UiOptions
from memtui.tui.screens.providers import ProvidersScreen
from memtui.tui.screens.search import query_controller
from memtui.tui.widgets.index_status import index_facts, status_segments
from tests.support.provider_scenes import NOTES
from tests.support.services import KEY_REFUSED, Service, registered
from tests.tui.harness import press, screen_text, until
from tests.tui.reader_samples import NOW, status

OPENAI = ProviderState(
    "openai", "openai", "text-embedding-3-small", 1536, remote=True, address="api.openai.com"
)
FALLEN = ProviderState(
    "openai", "minilm", "all-MiniLM-L6-v2-int8", 384, Reason.FALLBACK,
    "openai: the key is refused; minilm answers instead (check $OPENAI_API_KEY)",
    failure=Failure.KEY_REFUSED, hint="check $OPENAI_API_KEY",
)  # fmt: skip


def with_provider(provider: ProviderState) -> IndexStatus:
    """Return a status with another provider."""
    return replace(status(), provider=provider)


def test_a_fallback_is_named_with_its_reason_in_both_glyph_sets() -> None:
    assert "! openai → minilm: key refused" in _line(FALLEN)
    assert "! openai > minilm: key refused" in _line(FALLEN, ASCII)
    assert "→" not in _line(replace(OPENAI, remote=False, address=""))
    assert "ollama/m → 127.0.0.1:11434" in _line(
        ProviderState("ollama", "ollama", "m", None, address="127.0.0.1:11434")
    )


def test_an_index_of_another_model_is_named() -> None:
    building = replace(
        with_provider(OPENAI), state=IndexState.INDEXING, made_by="openai/text-embedding-3-large"
    )
    assert words.provider_change(building) == (
        "index is for text-embedding-3-large, settings say text-embedding-3-small"
    )
    for same in (
        replace(building, made_by="openai/text-embedding-3-small"),
        replace(building, state=IndexState.READY),
        replace(building, provider=FALLEN),
        replace(building, made_by=""),
    ):
        assert words.provider_change(same) == ""


def _line(provider: ProviderState, glyphs: Glyphs = UNICODE) -> str:
    segments = status_segments(with_provider(provider), glyphs)
    return "  ".join(segment.plain for segment in segments)


def test_the_index_screen_tells_reason_next_step_place_and_what_was_spent() -> None:
    stats = SyncStats(
        True, NOW - timedelta(hours=1), 3.0, 142, 0, 0, 0, 0, 1284, 84, 1200,
        Usage(12, 84, 33_600, estimated=True),
    )  # fmt: skip
    fallen = replace(with_provider(FALLEN), last_sync=stats, usage=stats.usage)
    facts = {label: value.plain for label, value in index_facts(fallen, NOW)}
    assert facts["provider"] == "openai -> minilm, all-MiniLM-L6-v2-int8, 384 dimensions"
    assert facts["why"] == "openai: the key is refused; minilm answers instead"
    assert facts["next step"] == "check $OPENAI_API_KEY"
    assert facts["text"] == "stays in this program"
    assert facts["spent"] == "12 requests, 84 texts, ~33 600 tokens"
    did = "142 files seen, 1 284 chunks written, 84 embedded, 1 200 cache hits"
    assert facts[""] == did
    sent = {label: value.plain for label, value in index_facts(with_provider(OPENAI), NOW)}
    assert sent["text"] == "goes to api.openai.com"
    assert "next step" not in sent
    assert "spent" not in sent


def test_every_failure_and_every_reason_has_words() -> None:
    assert set(FAILURE_WORDS) == set(Failure)
    assert set(REASON_WORDS) == set(Reason)


# --- over the real engine ----------------------------------------------------------------------


def open_engine(root: Path, bus: Bus, provider: str) -> Engine:
    """Open the notes with a provider, and another to fall back on."""
    settings = Settings(embedding=EmbeddingSettings(provider=provider, fallback="spare"))
    return Engine.open(root / "notes", settings, bus=bus, data_dir=root / "data", watch=True)


async def test_a_service_takes_over_is_asked_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only Enter finishes a text here: no pause between keys on a busy machine is as long.
    monkeypatch.setattr(query_controller, "SHORTEST_PAUSE", 1000.0)
    monkeypatch.setattr(query_controller, "LONGEST_PAUSE", 1000.0)
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
