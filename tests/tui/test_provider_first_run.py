"""The question of a first run: who makes the vectors, where there is something to choose from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual import events

from memtui.bus import Bus
from memtui.model import IndexState
from memtui.settings import Flag, load_settings
from memtui.settings.storage import StateFolder
from memtui.tui.options import UiOptions, options_from
from memtui.tui.screens.dialogs import FirstRunHint
from memtui.tui.screens.providers.screen import ConfirmProvider, ProvidersScreen
from memtui.tui.screens.providers.switch import ASKED
from memtui.tui.screens.search.screen import WELCOMED
from tests.tui.harness import running, settle, until
from tests.tui.provider_samples import PROVIDERS
from tests.tui.samples import STATUS, SampleEngine

NOT_YET = replace(STATUS, state=IndexState.INDEXING, generation=0, files=0, chunks=0, vectors=0)


def new_memory(bus: Bus) -> SampleEngine:
    """A memory that was never indexed."""
    return SampleEngine(bus, current=NOT_YET)


async def test_the_question_comes_after_the_greeting_and_once(tmp_path: Path) -> None:
    options = UiOptions(theme="memtui-dark", state_dir=tmp_path)
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
        assert isinstance(app.screen, ProvidersScreen)
        assert app.screen.chosen is PROVIDERS[0]
        await run.pilot.press("down", "down", "enter")
        await until(run.pilot, lambda: isinstance(app.screen, ConfirmProvider))
        await run.pilot.press("escape", "home", "enter")
        await until(run.pilot, lambda: app.screen is app.search_screen)
        assert run.engine.switched == []
        assert run.engine.asked[-1][1] == "a"
    assert StateFolder(tmp_path).read_json(ASKED) == {"asked": True}
    async with running(new_memory, options=options) as run:
        await settle(run.app, run.pilot)
        await run.pilot.pause(0.15)
        assert run.app.screen is run.app.search_screen
        assert "providers" not in run.engine.calls


async def test_another_provider_can_be_chosen_at_once(tmp_path: Path) -> None:
    StateFolder(tmp_path).write_json(WELCOMED, {})
    options = UiOptions(theme="memtui-dark", state_dir=tmp_path)
    async with running(new_memory, options=options) as run:
        await until(run.pilot, lambda: isinstance(run.app.screen, ProvidersScreen))
        await run.pilot.press(*("down",) * 4, "enter")
        await until(run.pilot, lambda: isinstance(run.app.screen, ConfirmProvider))
        assert "switch and write to the settings" not in run.text
        await run.pilot.press("w", "s")
        await until(run.pilot, lambda: bool(run.engine.switched))
        assert run.engine.switched[0].provider == "openai"


async def test_keys_that_come_faster_than_they_are_handled_close_one_screen(tmp_path: Path) -> None:
    StateFolder(tmp_path).write_json(WELCOMED, {})
    options = UiOptions(theme="memtui-dark", state_dir=tmp_path)
    async with running(new_memory, options=options) as run:
        app = run.app
        await until(run.pilot, lambda: isinstance(app.screen, ProvidersScreen))
        for _ in range(3):
            app.post_message(events.Key("enter", "\r"))
        await until(run.pilot, lambda: app.screen is app.search_screen)
        await settle(app, run.pilot)
        await run.pilot.press("f9")
        providers = app.screen
        assert isinstance(providers, ProvidersScreen)
        await until(run.pilot, lambda: bool(providers.listings))
        await run.pilot.press(*("down",) * 4, "enter")
        await until(run.pilot, lambda: isinstance(app.screen, ConfirmProvider))
        confirm = app.screen
        for _ in range(2):
            confirm.dismiss(None)
        assert app.screen_stack[-1] is providers
        app.push_screen(FirstRunHint())
        assert app.screen_stack[-1] is not providers
        providers.dismiss(None)
        assert app.screen_stack == [app.search_screen]
        await settle(app, run.pilot)
        assert run.engine.switched == []


@pytest.mark.parametrize("case", ["indexed", "demo", "given", "nothing", "no state", "broken"])
async def test_nothing_is_asked(tmp_path: Path, case: str) -> None:
    folder = tmp_path / "state"
    if case == "broken":
        # A file where the folder should be: that it was asked could not be remembered.
        folder.write_text("")
    else:
        StateFolder(folder).write_json(WELCOMED, {})

    def make(bus: Bus) -> SampleEngine:
        engine = SampleEngine(bus) if case == "indexed" else new_memory(bus)
        if case == "nothing":
            engine.listings = tuple(
                replace(each, works=each.works and not each.remote) for each in PROVIDERS
            )
        return engine

    options = UiOptions(
        theme="memtui-dark",
        state_dir=None if case == "no state" else folder,
        demo=case == "demo",
        is_provider_given=case == "given",
    )
    async with running(make, options=options) as run:
        if case in ("nothing", "broken"):
            looked = "providers" if case == "nothing" else ""
            await until(run.pilot, lambda: not looked or looked in run.engine.calls)
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
