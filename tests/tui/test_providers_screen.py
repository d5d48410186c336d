"""The list of the embedding providers: what it tells, and going over to another one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Static

from memtui.bus import Bus
from memtui.embedding.choice import EmbeddingChoice, KeyPlaces
from memtui.engine.source import RebuildCost
from memtui.model import Failure, ProviderState, Reason
from memtui.model.status import ProbeResult, ProviderListing
from memtui.report.providers import price_words
from memtui.settings import load_settings
from memtui.settings.load import SettingsFiles
from memtui.tui.app import MemtuiApp
from memtui.tui.commands import MemtuiCommands
from memtui.tui.options import UiOptions, options_from
from memtui.tui.screens.providers.screen import ConfirmProvider, ProvidersScreen, price_line
from memtui.tui.screens.providers.switch import choice_named, worth_asking
from memtui.tui.screens.write import WriteProvider
from tests.tui.foreign_samples import ForeignSample
from tests.tui.harness import Running, resize, running, screen_text, settle, until
from tests.tui.provider_samples import PROVIDERS
from tests.tui.samples import STATUS, SampleCost, SampleEngine
from tests.tui.test_hostile_text import ATTACKS, check

OWN = """\
# mine
[embedding]
provider = "mistral"
model = "mistral-embed"
key_command = "pass show services/mistral"
base_url = "https://proxy.example/v1?token=abcdef"
model_path = "~/models/own.gguf"
"""


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    file = tmp_path / "config.toml"
    file.write_text(OWN)
    return file


@pytest.fixture
def options(user_file: Path, tmp_path: Path) -> Callable[..., UiOptions]:
    def make(env: dict[str, str] | None = None, glyphs: str = "unicode") -> UiOptions:
        variables = {"MEMTUI_CONFIG": str(user_file), **(env or {})}
        made = options_from(load_settings(env=variables), tmp_path, demo=False)
        files = SettingsFiles(variables)
        return replace(made, theme="memtui-dark", files=files, glyphs=glyphs, state_dir=None)

    return make


async def _press(run: Running, *keys: str) -> None:
    for key in keys:
        await run.pilot.press(key)
        if key in ("enter", "w", "E", "f9") and key != keys[-1]:
            await settle(run.app, run.pilot)
    await settle(run.app, run.pilot)


async def _open(run: Running, *keys: str, at: str = "") -> ProvidersScreen:
    if at:
        run.app.providers.choose(at)
    else:
        await _press(run, "escape", "E")
    screen = run.app.screen
    assert isinstance(screen, ProvidersScreen)
    await until(run.pilot, lambda: bool(screen.listings))
    await _press(run, *keys)
    return screen


# --- the list -------------------------------------------------------------------------------------


async def test_the_list_tells_state_model_place_next_step_and_what_is_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: SampleEngine, *given: object) -> None:
        raise OSError("no [/] \x1b[2J such thing")

    async with running() as run:
        run.engine.probes = {
            "openai": ProbeResult(
                "openai", True, "answers", milliseconds=38.2, dimensions=1536, model="m3"
            ),
            "wordllama": ProbeResult("wordllama", False, "broken", "install it again"),
        }
        screen = await _open(run)
        assert "● minilm           in use        all-MiniLM-L6-v2-int8" in run.text
        assert "✓ openai           untried       text-embedding-3-small  api.openai.com" in run.text
        assert "○ gemini           no key        gemini-embedding-001    …e.googleapis" in run.text
        assert "stays in this program; nothing is sent anywhere" in run.text
        assert screen.chosen is PROVIDERS[0]
        await _press(run, "enter")
        assert "minilm is in use already" in run.text
        await _press(run, "j")
        assert "in use already" not in run.text
        assert "next     pip install 'memtui[use-multilingual]'" in run.text
        await _press(run, "enter")
        assert "use-multilingual cannot be used yet: see what is missing" in run.text
        await _press(run, "j", "t")
        assert "✗ broken  install it again" in run.text
        assert "✗ wordllama        failed        l2_supercat_256" in run.text
        await _press(run, "j", "j")
        assert "! the text of your notes and queries is sent to api.openai.com" in run.text
        assert "t asks api.openai.com for the vector of a word" in run.text
        assert run.engine.calls == ["providers", "probe wordllama"]
        await _press(run, "t")
        assert "✓ answers in 38 ms  m3  1536 d" in run.text
        assert "✓ openai           answers       text" in run.text
        await _press(run, "G")
        assert "is sent to 127.0.0.1:11434, a program on this machine" in run.text
        await resize(run.pilot, (120, 40))
        assert "3072 d generativelanguage.googleapis.com" in run.text
        await _press(run, "escape")
        assert run.app.screen is run.app.search_screen
        assert run.engine.switched == []
        await resize(run.pilot, (80, 24))
        # What cannot be looked at, tried or priced is one line.
        with monkeypatch.context() as patch:
            patch.setattr(SampleEngine, "listed_providers", broken)
            await _press(run, "escape", "E")
            await until(run.pilot, lambda: "✗ no [/] ␛[2J such thing" in run.text)
            await _press(run, "t", "enter", "escape")
        screen = await _open(run, at="openai")
        monkeypatch.setattr(SampleEngine, "provider_cost", broken)
        monkeypatch.setattr(SampleEngine, "probe_provider", broken)
        await _press(run, "enter", "t")
        assert run.app.screen_stack[-1] is screen
        assert run.text.count("no [/] ␛[2J such thing") == 2


async def test_nothing_breaks_where_there_is_little_room_or_other_glyphs(
    options: Callable[..., UiOptions],
) -> None:
    async with running(options=options(glyphs="ascii")) as run:
        await _open(run, at="openai")
        assert "> + openai" in run.text
        assert "~e.googleapis.com" in run.text
        assert not set("●✓○✗→") & set(run.text)
        for size in ((58, 15), (40, 10), (12, 4), (1, 1), (200, 60)):
            await resize(run.pilot, size)
        assert "text-embedding-3-small" in run.text
        await _press(run, "enter")
        await resize(run.pilot, (40, 10))
        assert isinstance(run.app.screen, ConfirmProvider)


async def test_hostile_names_and_details_are_shown_as_text() -> None:
    # Several in one: what is shown is put together of many.
    texts = ("".join(ATTACKS[:5]), *ATTACKS[5:8], "".join(ATTACKS[8:13]), *ATTACKS[13:])
    listings = tuple(
        ProviderListing(
            f"p{number}", text, True, True, text, text, Failure.NO_KEY if number % 2 else None,
            text, 3, text, is_fallback=True,
        )
        for number, text in enumerate(texts)
    )  # fmt: skip

    def make(bus: Bus) -> SampleEngine:
        engine = SampleEngine(bus, listings=listings)
        engine.probes = {
            each.name: ProbeResult(
                each.name, number % 2 == 0, each.detail, each.hint, model=each.model
            )
            for number, each in enumerate(listings)
        }
        engine.refuses = {each.name: "".join(ATTACKS[:13]) for each in listings}
        return engine

    async with running(make) as run:
        screen = await _open(run)
        for number in range(len(listings)):
            await run.pilot.press("t")
            check(run)
            if number % 3 == 0:
                await _press(run, "enter")
                check(run)
                await run.pilot.press("escape")
            await run.pilot.press("down")
            assert run.app.screen is screen
        await _press(run, "enter", "s")
        await until(run.pilot, lambda: bool(run.toasts))
        assert "cannot take over: - [x] done[/]" in run.toasts[0]
        check(run)


# --- going over -----------------------------------------------------------------------------------


async def test_another_provider_for_the_session_and_written_after_its_price(
    options: Callable[..., UiOptions], user_file: Path
) -> None:
    async with running(options=options()) as run:
        await _open(run, "enter", at="openai")
        assert "Switch to openai?" in run.text
        assert "84 chunks of 1 284 to embed; 93 % in the cache" in run.text
        assert "~34 k tokens, about 0.0007 USD" in run.text
        assert "! note text is sent to api.openai.com" in run.text
        await _press(run, "enter")
        await _press(run, "enter", "down", "enter")
        await until(run.pilot, lambda: bool(run.engine.switched))
        assert [each.provider for each in run.engine.switched] == ["openai"]
        assert run.engine.switched[0].base_url == run.engine.switched[0].keys.command == ""
        await until(run.pilot, lambda: bool(run.toasts))
        assert "provider openai, for this session: indexing anew" in run.toasts[-1]
        assert user_file.read_text() == OWN
        run.app.clear_notifications()
        run.engine.refuses["gguf"] = "no"
        run.engine.listings = (replace(PROVIDERS[3], works=True),)
        await _press(run, "f9", "enter", "s")
        await until(run.pilot, lambda: bool(run.toasts))
        assert run.toasts == ["gguf cannot take over: no"]
        run.app.clear_notifications()
        run.engine.switched.clear()
        run.engine.listings = PROVIDERS
        # What is written is without what was the former one's.
        await _open(run, "enter", "w", at="openai")
        screen = run.app.screen
        assert isinstance(screen, WriteProvider)
        await until(run.pilot, lambda: screen.plan is not None)
        await settle(run.app, run.pilot)
        assert '- key_command = "pass …"' in run.text
        assert '- base_url = "https://proxy.example/v1?***"' in run.text
        assert '+ provider = "openai"' in run.text
        assert "services/mistral" not in run.text
        assert "abcdef" not in run.text
        user_file.write_text(f"{OWN}dimensions = 9\n")
        await _press(run, "enter")
        await until(run.pilot, lambda: "changed by another program meanwhile" in run.text)
        await until(run.pilot, lambda: "- dimensions = 9" in run.text)
        await _press(run, "enter")
        await until(run.pilot, lambda: bool(run.engine.switched))
        expected = '# mine\n[embedding]\nprovider = "openai"\nmodel_path = "~/models/own.gguf"\n'
        assert user_file.read_text() == expected
        chosen = run.engine.switched[0]
        assert (chosen.provider, chosen.model, chosen.model_path) == (
            "openai", None, "~/models/own.gguf",
        )  # fmt: skip
        assert run.app.configured.embedding == chosen
        await until(run.pilot, lambda: bool(run.toasts))
        assert "provider openai, saved in " in run.toasts[-1].replace("\n", "")
        await _open(run, "enter", "w", at="openai")
        await until(run.pilot, lambda: "The settings ask for this provider already." in run.text)
        await _press(run, "escape")
        assert isinstance(run.app.screen, ProvidersScreen)


async def test_what_wins_over_the_file_is_told_and_what_is_broken_is_not_written(
    options: Callable[..., UiOptions], user_file: Path
) -> None:
    env = {"MEMTUI_EMBEDDING__PROVIDER": "minilm", "MEMTUI_EMBEDDING__MODEL": "secret-model"}
    async with running(options=options(env), size=(120, 40)) as run:

        def told(what: str) -> str:
            # Not as it is wrapped: how long a path is depends on the machine.
            return str(run.app.screen.query_one(f"#write-{what}", Static).content)

        await _open(run, "enter", "w", at="openai")
        await until(run.pilot, lambda: 'gives "minilm" and wins over this file' in told("notes"))
        assert "embedding.model: $MEMTUI_EMBEDDING__MODEL gives it" in told("notes")
        assert "secret-model" not in run.text
        await _press(run, "escape")
        user_file.write_text("[embedding\n")
        await _press(run, "enter", "w")
        await until(run.pilot, lambda: told("difference").startswith("✗ "))
        assert "config.toml:1:" in told("difference")
        await _press(run, "enter", "escape", "escape")
        assert user_file.read_text() == "[embedding\n"
        assert run.engine.switched == []


async def test_the_palette_names_every_provider_and_an_agents_index_has_its_own() -> None:
    async with running() as run:
        screen = run.app.search_screen
        await _press(run, "f9")
        assert isinstance(run.app.screen, ProvidersScreen)
        await _press(run, "f9")
        commands = {command.name: command for command in MemtuiCommands(screen).commands()}
        assert "embedding provider…" in commands
        assert not commands["provider: voyage"].discover
        commands["provider: voyage"].run()
        await until(run.pilot, lambda: "voyage  Voyage AI" in run.text)
        await _press(run, "escape", "escape", "i")
        assert "E provider" in run.text
        await _press(run, "E")
        assert isinstance(run.app.screen, ProvidersScreen)
    async with running(ForeignSample) as run:
        await _press(run, "escape", "E")
        assert run.app.screen is run.app.search_screen
        assert run.toasts == ["another program's index: its own provider is used there"]


# --- what is asked of the engine ------------------------------------------------------------------


def test_another_provider_gets_nothing_that_was_set_for_the_configured_one() -> None:
    keys = KeyPlaces("MISTRAL_KEY", "pass show x", keyring=False)
    configured = EmbeddingChoice(
        "mistral", "mistral-embed", 4, base_url="https://host.example", model_path="/m.gguf",
        query_prefix="q: ", price=2.0, keys=keys,
    )  # fmt: skip
    assert choice_named(configured, "mistral") == (configured, False)
    other, is_other = choice_named(configured, "openai")
    assert is_other
    assert other == EmbeddingChoice(
        "openai", None, 4, model_path="/m.gguf", keys=KeyPlaces(keyring=False)
    )
    auto = EmbeddingChoice(model="all-MiniLM-L6-v2-int8")
    assert choice_named(auto, "minilm") == (replace(auto, provider="minilm"), False)
    assert choice_named(auto, "wordllama")[0].model is None


def test_only_what_was_found_beside_the_embedded_model_is_worth_asking() -> None:
    with_file = [replace(each, works=each.works or each.name == "gguf") for each in PROVIDERS]
    assert [each.name for each in worth_asking(PROVIDERS)] == ["openai"]
    assert [each.name for each in worth_asking(with_file)] == ["gguf", "openai"]
    no_more = [replace(each, works=each.works and not each.remote) for each in PROVIDERS]
    assert worth_asking(no_more) == ()
    asked_for = [replace(each, is_requested=each.name == "openai") for each in PROVIDERS]
    assert worth_asking(asked_for) == ()
    assert worth_asking(()) == ()


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (SampleCost(), "~34 k tokens on this machine, nothing is charged"),
        (SampleCost(remote=True), "~34 k tokens, price not known"),
        (SampleCost(remote=True, price=0.0), "~34 k tokens, nothing is charged"),
        (SampleCost(remote=True, price=1.204), "~34 k tokens, about 1.20"),
        (SampleCost(remote=True, price=0.00001, currency="USD"), "less than 0.0001 USD"),
    ],
)
def test_tokens_and_price_in_words(cost: RebuildCost, words: str) -> None:
    assert words in price_line(cost)
    assert price_words(0.0123) == "about 0.01"


async def test_trying_ends_with_the_program_and_a_failure_is_told_beside_the_fallback() -> None:
    closed, asked = threading.Event(), threading.Event()

    class Hangs(SampleEngine):
        def probe_provider(self, choice: EmbeddingChoice) -> ProbeResult:
            asked.set()
            assert closed.wait(20)
            return ProbeResult(choice.provider, False, "stopped")

        def close(self) -> None:
            super().close()
            closed.set()

    failed = ProviderState(
        "openai", "minilm", "all-MiniLM-L6-v2-int8", 384, Reason.FALLBACK,
        "openai: timeout; minilm answers instead; tried again in 50 s (is it running?)",
        failure=Failure.TIMEOUT, hint="is it running?",
    )  # fmt: skip
    listings = tuple(
        replace(each, is_requested=each.name == "openai", is_fallback=each.name == "minilm")
        for each in PROVIDERS
    )

    def make(bus: Bus) -> SampleEngine:
        return Hangs(bus, current=replace(STATUS, provider=failed), listings=listings)

    app = MemtuiApp(make, UiOptions(theme="memtui-dark"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.search_screen.engine is not None)
        await pilot.press("f9")
        screen = app.screen
        assert isinstance(screen, ProvidersScreen)
        await until(pilot, lambda: bool(screen.listings))
        assert "! minilm           fallback" in screen_text(app)
        assert "found    ✓ the model file is there" in screen_text(app)
        assert "answers instead" not in screen_text(app)
        app.providers.choose("openai")
        await pilot.pause()
        assert "failed   ✗ openai: timeout; minilm answers instead" in screen_text(app)
        assert "is it running?" not in screen_text(app)
        await pilot.press("t")
        await until(pilot, asked.is_set)
    assert closed.wait(5)
    app.memories.close()
    assert isinstance(app.engine, Hangs)
    assert app.engine.calls.count("close") == 1
