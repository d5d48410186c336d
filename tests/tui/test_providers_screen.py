"""The list of the embedding providers over a real memory: telling, trying, going over, first run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from memtui.bus import Bus
from memtui.embedding.registry import choice_for
from memtui.errors import ProviderError
from memtui.model import Failure, IndexState
from memtui.model.status import ProviderListing
from memtui.settings.load import Flag, SettingsFiles, load_settings
from memtui.settings.schema import EmbeddingSettings
from memtui.settings.storage import StateFolder
from memtui.tui.commands import MemtuiCommands
from memtui.tui.options import UiOptions, options_from
from memtui.tui.provider_switch import ASKED
from memtui.tui.screens.dialogs import Confirm, FirstRunHint
from memtui.tui.screens.providers import ProvidersScreen, worth_asking
from memtui.tui.screens.search.search_screen import WELCOMED
from memtui.tui.screens.write_dialog import WriteDialog
from tests.support.provider_scenes import Scene, opened_scene
from tests.support.services import KEY_REFUSED, Service, registered
from tests.tui.harness import Running, resize, running, settle, until

OWN = """\
# mine
[embedding]
provider = "first"
model = "large"
key_command = "pass show services/first"
base_url = "https://proxy.example/v1?token=abcdef"
model_path = "~/models/own.gguf"
"""
HOSTILE = "[bold]no[/] \x1b[2J such\nthing \u202e"


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with opened_scene(tmp_path) as made:
        made.first.remote = True
        with registered(made.first):
            yield made


def opened(scene: Scene, **embedding: object) -> Callable[[Bus], Any]:
    """A factory of engines whose index is made."""

    def make(bus: Bus) -> Any:
        engine = scene.open(bus, **embedding)
        engine.index.sync(wait=True)
        return engine

    return make


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    file = tmp_path / "config.toml"
    file.write_text(OWN)
    return file


def options_of(file: Path, folder: Path, **env: str) -> UiOptions:
    variables = {"MEMTUI_CONFIG": str(file), **env}
    made = options_from(load_settings(env=variables), folder, demo=False)
    return replace(made, theme="memtui-dark", files=SettingsFiles(variables), state_dir=None)


async def press(run: Running, *keys: str) -> None:
    for key in keys:
        await run.pilot.press(key)
        await settle(run.app, run.pilot)


async def open_at(run: Running, name: str, *keys: str) -> ProvidersScreen:
    run.app.providers.choose(name)
    screen = cast("ProvidersScreen", run.app.screen)
    await until(run.pilot, lambda: bool(screen.listings))
    await press(run, *keys)
    return screen


async def test_the_list_tells_state_place_next_step_and_what_came_of_trying(scene: Scene) -> None:
    async with running(opened(scene)) as run:
        await press(run, "escape", "E")
        screen = cast("ProvidersScreen", run.app.screen)
        await until(run.pilot, lambda: bool(screen.listings))
        assert screen.chosen is not None
        assert screen.chosen.name == "first"
        assert "● first            in use        model-one" in run.text
        await press(run, "enter")
        assert "first is in use already" in run.text
        await press(run, "k")
        assert "in use already" not in run.text
        assert "is sent to 127.0.0.1:11434, a program on this machine" in run.text
        await open_at(run, "openai", "enter")
        assert "○ openai           no key        text-embedding-3-small" in run.text
        assert "openai cannot be used yet: see what is missing" in run.text
        assert "next     set OPENAI_API_KEY" in run.text
        assert "! the text of your notes and queries is sent to api.openai.com" in run.text
        await open_at(run, "spare", "t")
        await until(run.pilot, lambda: "model-two  16 d" in run.text)
        assert "✓ spare            answers" in run.text
        scene.spare.refusal = ProviderError(HOSTILE, hint="again", failure=Failure.SERVICE_DOWN)
        await press(run, "t")
        await until(run.pilot, lambda: "✗ spare" in run.text)
        assert "[bold]no[/]" in run.text
        assert not set("\x1b\u202e") & set(run.text)
        scene.spare.refusal = None
        for size in ((120, 40), (58, 15), (40, 10), (12, 4), (1, 1), (80, 24)):
            await resize(run.pilot, size)
        await press(run, "escape")
        assert run.app.screen is run.app.search_screen
        assert scene.spare.open == 0


async def test_another_provider_for_the_session_after_its_price(scene: Scene) -> None:
    async with running(opened(scene, provider="spare", fallback="none", price=2000.0)) as run:
        await open_at(run, "first", "enter")
        await until(run.pilot, lambda: isinstance(run.app.screen, Confirm))
        assert "Switch to first?" in run.text
        assert "6 chunks of 6 to embed; 0 % in the cache" in run.text
        assert "price not known" in run.text
        assert "switch and write to the settings" not in run.text
        await press(run, "enter")
        assert scene.first.texts == []
        scene.first.hanging.set()
        await press(run, "enter")
        await until(run.pilot, lambda: isinstance(run.app.screen, Confirm))
        await press(run, "down", "enter")
        await until(run.pilot, lambda: bool(run.toasts))
        assert "provider first, for this session: indexing anew" in run.toasts[-1]
        assert scene.first.choices[-1].price is None
        scene.first.hanging.clear()
        await until(run.pilot, lambda: run.engine.index.status().provider.actual == "first")


async def test_writing_it_drops_what_was_the_former_ones(
    scene: Scene, user_file: Path, tmp_path: Path
) -> None:
    options = options_of(user_file, tmp_path)
    async with running(opened(scene), options=options) as run:
        await open_at(run, "spare", "enter")
        await until(run.pilot, lambda: isinstance(run.app.screen, Confirm))
        await press(run, "w")
        screen = cast("WriteDialog", run.app.screen)
        await until(run.pilot, lambda: screen.plan is not None)
        await settle(run.app, run.pilot)
        assert '- key_command = "pass …"' in run.text
        assert '+ provider = "spare"' in run.text
        assert not [secret for secret in ("services/first", "abcdef") if secret in run.text]
        user_file.write_text(f"{OWN}dimensions = 9\n")
        await press(run, "enter")
        await until(run.pilot, lambda: "- dimensions = 9" in run.text)
        await press(run, "enter")
        await until(run.pilot, lambda: bool(run.toasts))
        assert "provider spare, saved in " in run.toasts[-1].replace("\n", "")
        expected = '# mine\n[embedding]\nprovider = "spare"\nmodel_path = "~/models/own.gguf"\n'
        assert user_file.read_text() == expected
        chosen = run.app.configured.embedding
        assert (chosen.provider, chosen.model, chosen.base_url) == ("spare", None, None)
        await until(run.pilot, lambda: run.engine.index.status().provider.actual == "spare")


async def test_a_fallback_is_told_and_the_palette_leads_to_every_provider(scene: Scene) -> None:
    scene.first.unloadable = KEY_REFUSED
    async with running(opened(scene)) as run:
        commands = {one.name: one for one in MemtuiCommands(run.app.search_screen).commands()}
        commands["provider: first"].run()
        screen = cast("ProvidersScreen", run.app.screen)
        await until(run.pilot, lambda: bool(screen.listings))
        await settle(run.app, run.pilot)
        assert "! spare            fallback" in run.text
        assert "failed   ✗ first: HTTP 401 from api.example" in run.text
        assert not commands["provider: voyage"].discover


# --- the first run --------------------------------------------------------------------------------


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
    options = UiOptions(theme="memtui-dark", state_dir=state.path)

    def new_memory(bus: Bus) -> Any:
        return scene.open(bus, provider="auto", fallback="none")

    async with running(new_memory, options=options) as run:
        app = run.app
        await until(run.pilot, lambda: isinstance(app.screen, FirstRunHint))
        await run.pilot.press("a")
        await until(run.pilot, lambda: isinstance(app.screen, ProvidersScreen))
        await settle(app, run.pilot)
        assert app.search_screen.query_input.value == "a"
        assert "Who makes the vectors?" in run.text
        assert "comes with memtui: openai." in run.text
        assert "enter keep minilm on this machine" in run.text
        await run.pilot.press("enter")
        await until(run.pilot, lambda: app.screen is app.search_screen)
        assert run.engine.index.status().provider.requested == "auto"
    assert state.read_json(ASKED) == {"asked": True}
    async with running(new_memory, options=options) as run:
        await run.pilot.pause(0.15)
        assert run.app.screen is run.app.search_screen


@pytest.mark.usefixtures("minilm")
@pytest.mark.parametrize("case", ["indexed", "demo", "given", "nothing", "no state"])
async def test_nothing_is_asked(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    if case != "nothing":
        monkeypatch.setenv("OPENAI_API_KEY", "sk-SECRET")
    folder = tmp_path / "state"
    StateFolder(folder).write_json(WELCOMED, {})
    options = UiOptions(
        theme="memtui-dark",
        state_dir=None if case == "no state" else folder,
        demo=case == "demo",
        is_provider_given=case == "given",
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


@pytest.mark.parametrize(
    ("text", "env", "is_given"),
    [
        ("", {}, False),
        ("[index]\ncache_mb = 9\n", {}, False),
        ('[embedding]\nprovider = "auto"\n', {}, True),
        ("", {"MEMTUI_EMBEDDING__PROVIDER": "none"}, True),
    ],
)
def test_the_answer_may_be_in_the_settings(
    tmp_path: Path, text: str, env: dict[str, str], is_given: bool
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    loaded = load_settings(env={"MEMTUI_CONFIG": str(file), **env})
    assert options_from(loaded, tmp_path, demo=False).is_provider_given is is_given
    flags = {"embedding.provider": Flag("--provider", "minilm")}
    flagged = load_settings(flags=flags, env={"MEMTUI_CONFIG": str(file), **env})
    assert options_from(flagged, tmp_path, demo=False).is_provider_given


# --- choices and prices ---------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("listings", "names"),
    [
        ([listing("minilm", is_requested=True), listing("openai"), listing("ollama")], ["openai"]),
        ([listing("minilm", is_requested=True), listing("gguf")], ["gguf"]),
        ([listing("minilm", is_requested=True), listing("openai", works=False)], []),
        ([listing("minilm"), listing("openai", is_requested=True)], []),
        ([], []),
    ],
)
def test_only_what_was_found_beside_the_embedded_model_is_worth_asking(
    listings: list[ProviderListing], names: list[str]
) -> None:
    assert [each.name for each in worth_asking(listings)] == names
