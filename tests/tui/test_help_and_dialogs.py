"""The help is read off the active bindings; dialogs name what they ask."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest
from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from memtui.engine.source import RebuildCost
from memtui.tui.screens.dialogs import ConfirmRebuild, FirstRunHint, cost_words
from memtui.tui.screens.help import HelpScreen, help_groups
from memtui.tui.widgets.preview import Preview
from tests.tui.harness import running, until
from tests.tui.reader_samples import Cost, ReaderApp, note, screen_text


class KeyApp(ReaderApp):
    """An application with a few keys of its own."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m,f2", "variety", "MMR", tooltip="Variety on or off", id="mmr.toggle"),
        Binding("left_square_bracket", "less", "λ −0.05", id="lambda.down"),
        Binding("r", "busy", "sync", id="sync"),
    ]

    def action_variety(self) -> None:
        """Do nothing."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey one action."""
        return None if action == "busy" else True


async def test_the_focused_pane_comes_first_and_the_application_last() -> None:
    preview = Preview()
    app = KeyApp(Vertical(preview))
    async with app.run_test(size=(100, 60)) as pilot:
        preview.focus()
        await pilot.pause()
        groups = help_groups(app.screen, preview)
        assert groups[0].title == "Preview"
        assert groups[0].hint == Preview.HELP
        assert [group.title for group in groups[-2:]] == ["Everywhere", "Editing and scrolling"]
        app.push_screen(HelpScreen(preview))
        await pilot.pause()
        text = screen_text(app)
        assert text.index("back to the chunk") < text.index("Variety on or off")
        assert "F2" in text


async def test_every_active_binding_is_listed() -> None:
    preview = Preview()
    app = KeyApp(Vertical(preview))
    async with app.run_test(size=(100, 60)) as pilot:
        preview.focus()
        await pilot.pause()
        listed = {
            (line.binding.action, key)
            for group in help_groups(app.screen, preview)
            for line in group.lines
            for key in line.keys
        }
        active = [a for a in app.screen.active_bindings.values() if not a.binding.system]
        assert len(listed) == len(active)


async def test_keys_that_a_text_box_takes_are_listed_and_told_apart() -> None:
    box = Input()
    app = KeyApp(box)
    async with app.run_test(size=(100, 60)) as pilot:
        box.focus()
        await pilot.pause()
        groups = help_groups(app.screen, box)
        line = next(
            line for group in groups for line in group.lines if line.binding.description == "MMR"
        )
        assert line.keys == ("m", "F2")
        assert line.typed == ("m",)


async def test_the_help_follows_the_keymap() -> None:
    app = KeyApp()
    async with app.run_test(size=(100, 60)) as pilot:
        app.set_keymap({"mmr.toggle": "f9"})
        app.push_screen(HelpScreen())
        await pilot.pause()
        text = screen_text(app)
        assert "F9" in text
        assert "F2" not in text


async def test_hostile_text_can_be_pasted_into_the_search_of_the_help() -> None:
    app = KeyApp(Preview())
    async with app.run_test(size=(100, 30)) as pilot:
        app.push_screen(HelpScreen())
        await pilot.pause()
        app.screen.query_one(Input).post_message(events.Paste("\x1b[31m[/x] \u202e"))
        await pilot.pause()
        assert "\x1b" not in screen_text(app)
        assert "no key does that" in screen_text(app)


async def test_typing_narrows_the_help() -> None:
    app = KeyApp(Preview())
    async with app.run_test(size=(100, 60)) as pilot:
        app.push_screen(HelpScreen())
        await pilot.pause()
        await pilot.press(*"variety")
        text = screen_text(app)
        assert "MMR" in text
        assert "page down" not in text
        app.screen.query_one(Input).value = "nothing does this"
        await pilot.pause()
        assert "no key does that" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, HelpScreen)


async def test_a_key_that_does_nothing_now_says_so() -> None:
    app = KeyApp()
    async with app.run_test(size=(100, 60)) as pilot:
        app.push_screen(HelpScreen())
        await pilot.pause()
        line = next(line for line in screen_text(app).splitlines() if " sync " in line)
        assert "(not now)" in line


async def test_the_help_scrolls_while_typing() -> None:
    preview = Preview()
    app = KeyApp(Vertical(preview))
    async with app.run_test(size=(80, 14)) as pilot:
        preview.show(note(), None, ())
        preview.focus()
        app.push_screen(HelpScreen(preview))
        await pilot.pause()
        assert "Preview" in screen_text(app)
        await pilot.press("pagedown", "pagedown", "pagedown", "down", "up")
        await pilot.pause()
        assert app.screen.query_one("#help-scroll").scroll_offset.y > 0


@pytest.mark.parametrize(
    ("cost", "provider", "words"),
    [
        (Cost(), "minilm", "re-embed 51 chunks, ~0.5 M tokens with minilm (local); 96 % cached"),
        (replace(Cost(), cached=0, remote=True), "openai", "with openai (remote); 0 % cached"),
        (replace(Cost(), cached=1284), "minilm", "no chunk needs embedding"),
        (Cost(), "", "tokens with local"),
    ],
)
def test_the_price_is_named(cost: RebuildCost, provider: str, words: str) -> None:
    assert words in cost_words(cost, provider)


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["y"], True),
        (["n"], False),
        (["escape"], False),
        (["enter"], False),
        (["left", "enter"], True),
    ],
)
async def test_a_rebuild_needs_a_yes(keys: list[str], answer: bool) -> None:
    app = ReaderApp()
    answers: list[bool | None] = []
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(ConfirmRebuild(Cost(), "minilm"), answers.append)
        await pilot.pause()
        assert "re-embed 51 chunks, ~0.5 M tokens with minilm (local)" in screen_text(app)
        await pilot.press(*keys)
        await pilot.pause()
    assert answers == [answer]


async def test_a_remote_rebuild_says_that_text_is_sent() -> None:
    app = ReaderApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(ConfirmRebuild(replace(Cost(), remote=True), "openai"))
        await pilot.pause()
        assert "Note text is sent to the provider." in screen_text(app)
        app.push_screen(ConfirmRebuild(Cost(remote=True, address="api.example"), "openai"))
        await pilot.pause()
        assert "Note text is sent to api.example." in screen_text(app)


async def test_the_first_run_hint_names_five_keys() -> None:
    app = ReaderApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(FirstRunHint())
        await pilot.pause()
        text = screen_text(app)
        for key in "/mdx?":
            assert f" {key} " in text


@pytest.mark.parametrize(("key", "typed"), [("m", "m"), ("escape", ""), ("enter", "")])
async def test_the_key_that_closes_the_hint_is_not_lost(key: str, typed: str) -> None:
    async with running() as run:
        run.app.push_screen(FirstRunHint())
        await run.pilot.pause()
        await run.pilot.press(key)
        await run.pilot.pause()
        assert not isinstance(run.app.screen, FirstRunHint)
        assert run.app.search_screen.query_input.value == typed


async def test_what_is_typed_over_the_hint_keeps_its_order() -> None:
    async with running() as run:
        run.app.push_screen(FirstRunHint())
        await run.pilot.pause()
        # As a terminal hands keys on: many are waiting before the first one is handled.
        for character in "heron txt":
            key = "space" if character == " " else character
            run.app.post_message(events.Key(key, character))
        run.app.post_message(events.Paste("pond"))
        await until(run.pilot, lambda: len(run.app.search_screen.query_input.value) == 13)
        assert run.app.search_screen.query_input.value == "heron txtpond"


@pytest.mark.parametrize("key", ["f1", "f9"])
async def test_a_dialog_does_not_keep_the_program_from_ending(key: str) -> None:
    async with running() as run:
        await run.pilot.press(key)
        assert isinstance(run.app.screen, ModalScreen)
        await run.pilot.press("ctrl+q")
    assert run.app.return_code == 0
