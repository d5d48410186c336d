"""Which provider answers, why, where text goes, and going over to another: over a real memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memtui.bus import Bus
from memtui.embedding.registry import choice_for
from memtui.engine import Engine
from memtui.model import Failure, IndexState, IndexStatus, ProviderState, Reason
from memtui.model.status import ProviderListing
from memtui.report import status as words
from memtui.report.words import REASON_WORDS, WORDS
from memtui.settings.files import StateFolder
from memtui.settings.load import Given, SettingsFiles, Source
from memtui.settings.schema import EmbeddingSettings, Settings
from memtui.tui.app import MemtuiApp
from memtui.tui.commands import MemtuiCommands
from memtui.tui.memories import ASKED
from memtui.tui.options import UiOptions, options_from
from memtui.tui.screens.dialogs import Confirm, FirstRunHint
from memtui.tui.screens.providers import ProvidersScreen, worth_asking
from memtui.tui.screens.search import search_controller
from memtui.tui.screens.search.search_screen import WELCOMED
from memtui.tui.widgets.index_status import status_segments
from tests.support.known import cases, load
from tests.support.provider_scenes import NOTES, Scene, opened_scene
from tests.support.services import KEY_REFUSED, Service, registered
from tests.support.small_memory import write_notes
from tests.tui.harness import dark, press, running, screen_text, settle, until
from tests.tui.reader_samples import status

OPENAI = ProviderState(
    "openai", "openai", "text-embedding-3-small", 1536, remote=True, address="api.openai.com"
)
FALLEN = ProviderState(
    "openai", "minilm", "all-MiniLM-L6-v2-int8", 384, Reason.FALLBACK,
    "openai: the key is refused; minilm answers instead (check $OPENAI_API_KEY)",
    failure=Failure.KEY_REFUSED, hint="check $OPENAI_API_KEY",
)  # fmt: skip


def with_provider(provider: ProviderState) -> IndexStatus:
    return replace(status(), provider=provider)


def test_a_fallback_is_named_with_its_reason() -> None:
    assert "! openai → minilm: key refused" in _line(FALLEN)
    assert "ready  openai, here" in _line(replace(OPENAI, remote=False, address=""))
    assert "ollama → 127.0.0.1:11434" in _line(
        ProviderState("ollama", "ollama", "m", None, address="127.0.0.1:11434")
    )


def test_an_index_of_another_model_is_named() -> None:
    building = replace(
        with_provider(OPENAI), state=IndexState.INDEXING, made_by="openai/text-embedding-3-large"
    )
    assert words.provider_change(building) == (
        "index is for text-embedding-3-large, text-embedding-3-small is chosen"
    )
    for same in (
        replace(building, made_by="openai/text-embedding-3-small"),
        replace(building, state=IndexState.READY),
        replace(building, provider=FALLEN),
        replace(building, made_by=""),
    ):
        assert words.provider_change(same) == ""


def _line(provider: ProviderState) -> str:
    segments = status_segments(with_provider(provider))
    return "  ".join(segment.plain for segment in segments)


def test_every_failure_and_every_reason_has_words() -> None:
    assert set(WORDS["failure"]) == set(Failure)
    assert set(REASON_WORDS) == set(Reason)


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
    write_notes(tmp_path / "notes", NOTES)
    first, spare = Service("first", remote=True), Service("spare")
    with registered(first, spare):
        with open_engine(tmp_path, Bus(), "spare") as engine:
            engine.index.sync(wait=True)
        first.hanging.set()
        app = MemtuiApp(lambda bus: open_engine(tmp_path, bus, "first"), dark())
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
        await until(pilot, lambda: told("index is for spare, first is chosen: rebuilding, ~"))
        assert told(" tokens to ")
        await press(pilot, *"heron")
        await until(pilot, lambda: shows("vectors by spare until those by first are there"))
        first.hanging.clear()
        await until(pilot, lambda: engine.index.status().state is IndexState.READY)
        await until(pilot, lambda: shows("first → api.example"))
        first.queries.clear()
        await press(pilot, *" note")
        await until(
            pilot, lambda: shows("~ meaning match: asked when you stop typing or press Enter")
        )
        # The words before may be asked again, for the index that has just come; half a word never.
        assert set(first.queries) <= {"heron"}
        await press(pilot, "enter")
        await until(pilot, lambda: "heron note" in first.queries)
        await until(pilot, lambda: not shows("~ meaning") and not shows("vectors by"))
        first.refusal = KEY_REFUSED
        await press(pilot, *"s", "enter")
        await until(pilot, lambda: shows("! first → spare: key refused"))
        await until(pilot, lambda: shows("vectors by spare, not first: key refused"))
        assert "→ api.example" not in screen_text(app).splitlines()[-2]
        await press(pilot, "escape", "E")
        await until(pilot, lambda: isinstance(app.screen, ProvidersScreen) and shows("fallback"))


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with opened_scene(tmp_path) as made:
        made.first.remote = True
        with registered(made.first):
            yield made


async def test_nothing_is_sent_before_it_is_agreed_to(scene: Scene) -> None:
    engine = partial(scene.synced, provider="spare", fallback="none", price=2000.0)
    async with running(engine) as run:
        commands = {one.name: one for one in MemtuiCommands(run.app.search_screen).commands()}
        assert not commands["provider: voyage"].discover
        commands["provider: first"].run()
        screen = run.screen(ProvidersScreen)
        await run.until(lambda: bool(screen.listings))
        assert "switch…" in run.text
        assert "r send one test word" in run.text
        screen.show_provider("gguf")
        await run.until(lambda: "missing" in run.text and "switch…" not in run.text)
        assert "load the model" not in run.text, "there is nothing to try"
        screen.show_provider("first")
        await run.press("enter")
        await run.until(lambda: isinstance(run.app.screen, Confirm))
        assert scene.first.texts == []
        await run.press("down", "enter")
        await run.until(lambda: run.engine.index.status().provider.actual == "first")
        assert scene.first.choices[-1].price is None


async def test_what_the_settings_say_of_a_provider_counts_once_it_is_written(
    scene: Scene, tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[embedding]\nprovider = "spare"\nfallback = "none"\nthreads = 2\n')
    files = SettingsFiles({"MEMTUI_CONFIG": str(file)}, None)
    embedding = EmbeddingSettings(provider="spare", fallback="none")
    options = UiOptions(Settings(embedding=embedding), files=files)
    engine = partial(scene.synced, provider="spare", fallback="none")
    async with running(engine, options=options) as run:
        run.app.memories.choose_provider("first")
        screen = run.screen(ProvidersScreen)
        await run.until(lambda: bool(screen.listings))
        await run.press("enter")
        await run.until(lambda: isinstance(run.app.screen, Confirm))
        await run.press("w", shows='+ provider = "first"')
        await run.press("enter")
        await run.until(lambda: run.engine.index.status().provider.actual == "first")
        assert scene.first.choices[-1].threads == 2
        for name, shown in [("spare", "unless written, the next start"), ("first", "that is set")]:
            run.app.memories.choose_provider(name)
            await run.until(lambda: "in use" in run.text)
            await run.press("enter", shows=shown)
            await run.press("a")


@pytest.fixture
def minilm() -> Iterator[Service]:
    service = Service("minilm", model="mini")
    with registered(service):
        yield service


@pytest.mark.usefixtures("minilm")
async def test_the_question_comes_after_the_greeting_and_once(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-SECRET")
    state = StateFolder(tmp_path / "state")
    options = dark(state_dir=state.path)
    new_memory = partial(scene.open, provider="auto", fallback="none")
    async with running(new_memory, options=options) as run:
        app = run.app
        await run.until(lambda: isinstance(app.screen, FirstRunHint))
        await run.pilot.press("a")
        await run.until(lambda: isinstance(app.screen, ProvidersScreen))
        await settle(app, run.pilot)
        assert app.search_screen.query_input.value == "a"
        assert "Who makes the vectors?" in run.text
        assert "comes with memtui: openai." in run.text
        assert "⏎ keep minilm  r check  esc keep minilm" in run.text
        await run.pilot.press("enter")
        await run.until(lambda: app.screen is app.search_screen)
        assert run.engine.index.status().provider.requested == "auto"
    assert state.read_json(ASKED) == {"asked": True}
    async with running(new_memory, options=options) as run:
        await run.pilot.pause(0.15)
        assert run.app.screen is run.app.search_screen


@pytest.mark.usefixtures("minilm")
@pytest.mark.parametrize("case", ["indexed", "given", "nothing", "no state"])
async def test_nothing_is_asked(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    if case != "nothing":
        monkeypatch.setenv("OPENAI_API_KEY", "sk-SECRET")
    folder = tmp_path / "state"
    StateFolder(folder).write_json(WELCOMED, {})
    options = dark(
        state_dir=None if case == "no state" else folder, is_provider_given=case == "given"
    )

    def make(bus: Bus) -> Any:
        engine = scene.open(bus, provider="auto", fallback="none")
        if case == "indexed":
            engine.index.sync(wait=True)
            assert engine.index.status().state is IndexState.READY
        return engine

    async with running(make, options=options) as run:
        await run.pilot.pause(0.15)
        await settle(run.app, run.pilot)
        assert run.app.screen is run.app.search_screen
        assert not (folder / ASKED).exists()


@pytest.mark.parametrize(("text", "env", "is_given"), cases("interface", "answers in settings"))
def test_the_answer_may_be_in_the_settings(
    tmp_path: Path, text: str, env: dict[str, str], is_given: bool
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    loaded = SettingsFiles(env={"MEMTUI_CONFIG": str(file), **env}).load()
    assert options_from(loaded, tmp_path, demo=False).is_provider_given is is_given
    assert options_from(loaded, tmp_path, demo=True).is_provider_given
    flags = {"embedding.provider": Given(Source.FLAG, "--provider", "minilm")}
    flagged = SettingsFiles(flags=flags, env={"MEMTUI_CONFIG": str(file), **env}).load()
    assert options_from(flagged, tmp_path, demo=False).is_provider_given


def test_another_provider_gets_nothing_that_was_set_for_the_configured_one() -> None:
    configured = EmbeddingSettings(
        provider="mistral",
        model="mistral-embed",
        threads=4,
        base_url="https://host.example",
        model_path="/m.gguf",
        query_prefix="q: ",
        price=2.0,
        key_env="MISTRAL_KEY",
        key_command="pass show x",
        keyring=False,
    )
    assert choice_for(configured, "mistral") == configured
    other = EmbeddingSettings(provider="openai", threads=4, model_path="/m.gguf", keyring=False)
    assert choice_for(configured, "openai") == other
    auto = EmbeddingSettings(model="all-MiniLM-L6-v2-int8")
    named = EmbeddingSettings(provider="minilm", model=auto.model)
    assert choice_for(auto, "minilm") == named


def listing(name: str, works: bool = True, is_requested: bool = False) -> ProviderListing:
    return ProviderListing(name, "", False, works, "", is_requested=is_requested)


@pytest.mark.parametrize(("listings", "names"), load("interface")["providers worth asking"])
def test_only_what_was_found_beside_the_embedded_model_is_worth_asking(
    listings: list[dict[str, Any]], names: list[str]
) -> None:
    assert [one.name for one in worth_asking([listing(**one) for one in listings])] == names
