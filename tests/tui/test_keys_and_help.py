"""Binding ids, key names and keymaps; the palette; the help; dialogs."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import msgspec
import pytest
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from memtui.data import read_table
from memtui.engine.ports import RebuildCost
from memtui.model import Fusion
from memtui.ranking.profiles import PROFILES
from memtui.settings.actions import ACTION_IDS, ACTIONS, ALL_ACTIONS, Action
from memtui.settings.schema import KeymapSettings, Settings
from memtui.tui.bindings import PRESETS, bindings, is_typed, key_name, resolve_keymap
from memtui.tui.commands import MemtuiCommands
from memtui.tui.glyphs import AsciiFilter
from memtui.tui.options import UiOptions
from memtui.tui.screens.dialogs import Confirm, FirstRunHint, HelpScreen, help_groups, rebuild_facts
from memtui.tui.screens.explain import ExplainScreen
from memtui.tui.widgets.bars import SCREENS
from memtui.tui.widgets.lists import TextBlock
from memtui.tui.widgets.preview import Preview
from memtui.tui.widgets.timeline import HeatMap
from tests.support.conversations import talk
from tests.support.hostile import ALL
from tests.support.known import cases, load
from tests.support.small_memory import SmallMemory
from tests.tui.harness import dark, resize, running, screen_text, settle
from tests.tui.reader_samples import Cost, ReaderApp, note

MEANINGS = load("key_meanings")
STEPS = {*"jkhlgG", "up", "down", "left", "right", "home", "end", "pageup", "pagedown"} | {
    *("tab", "shift+tab", "space", "ctrl+d", "ctrl+u", "ctrl+n", "ctrl+j", "ctrl+k"),
    *("alt+p", "alt+less_than_sign", "alt+greater_than_sign"),
}
"""Keys that move or scroll, wherever they are."""
SUBJECT = re.compile(".*(result|question|match|finding)")


def bound(preset: str) -> list[tuple[Action, str]]:
    """Every action of the table with each of its keys."""
    own = {name: keys.split(",") for name, keys in PRESETS[preset].items()}
    return [
        (action, {"slash": "/"}.get(key, key))
        for action in ALL_ACTIONS
        for key in own.get(action.id, action.keys)
    ]


@pytest.mark.parametrize("preset", PRESETS)
def test_every_key_has_one_meaning_on_every_screen_and_in_every_dialog(preset: str) -> None:
    wrong = [
        f"{key} in {action.where}: {action.title or action.run}"
        for action, key in bound(preset)
        if not (key in STEPS and not SUBJECT.fullmatch(action.title))
        and not re.fullmatch(MEANINGS.get(key, ""), action.title or action.run)
    ]
    assert wrong == []


def test_no_meaning_is_of_a_key_that_is_gone() -> None:
    assert MEANINGS.keys() - {key for preset in PRESETS for _, key in bound(preset)} == set()


def test_no_key_of_a_place_has_two_actions() -> None:
    dialogs = ("configuration", "confirm", "difference", "explain", "place", "providers", "write")
    places = [{"search", "app"}, *({"dialog", name} for name in (*dialogs, "transcripts"))]
    for where in (*places, *({action.where} for action in ALL_ACTIONS)):
        keys = Counter(
            key for action in ALL_ACTIONS if action.where in where for key in action.keys
        )
        assert {key for key, count in keys.items() if count > 1} == set(), where


def test_every_configurable_action_has_an_id_of_its_own_and_help() -> None:
    assert len(ACTION_IDS) == len(ACTIONS)
    assert all(action.title and action.help for action in ACTIONS)


def test_presets_name_known_actions() -> None:
    for preset in PRESETS.values():
        assert set(preset) <= ACTION_IDS


def test_bindings_are_made_from_the_table() -> None:
    made = [binding for binding in bindings("search") if isinstance(binding, Binding)]
    assert [binding.description for binding in made if binding.show] == [
        "query", "MMR", "decay", "explain", "sync",
    ]  # fmt: skip
    by_id = {binding.id: binding for binding in made}
    assert by_id["half_life.up"].tooltip == "Old notes fade slower"
    assert by_id["result.edit"].key == "e,ctrl+o"
    assert by_id["result.edit"].tooltip == "Open the note in the editor, at its line"


def test_unknown_names_are_told_and_the_rest_is_used() -> None:
    keymap, problems = resolve_keymap("nano", {"mmr.toggle": "f10", "mmr.tggle": "f8"})
    assert keymap == {"mmr.toggle": "f10"}
    assert len(problems) == 2
    assert "mmr.tggle" in problems[1]


async def test_two_actions_that_want_one_key_are_told_once(memory: SmallMemory) -> None:
    keymap = KeymapSettings(bindings={"mmr.toggle": "ctrl+t", "lambda.up": "f7"})
    async with running(memory.open, options=UiOptions(Settings(keymap=keymap))) as run:
        await run.search()
        await run.press("escape", "m", "2", "1")
        assert run.toasts == ["keymap: one key for lambda.up, pin.toggle"]


@pytest.mark.parametrize(("key", "name", "typed"), load("interface")["names of keys"])
def test_keys_are_named_as_they_are_pressed(key: str, name: str, typed: bool) -> None:
    assert key_name(key) == name
    assert is_typed(key) is typed


async def test_every_action_preset_profile_and_theme_is_offered(memory: SmallMemory) -> None:
    async with running(memory.open, size=(120, 40), query="router config") as run:
        screen = run.app.search_screen
        commands = {command.name: command for command in MemtuiCommands(screen).commands()}
        for action in ACTIONS:
            if (
                action.id != "suspend"
                and action.where != "list"
                and not {"up", "down"} & set(action.keys)
            ):
                assert action.title in commands, action.id
        assert commands["MMR"].keys[:2] == ("m", "F2")
        commands["preset: diverse"].run()
        assert (screen.state.ranking.mmr.enabled, screen.state.ranking.mmr.lambda_) == (True, 0.5)
        commands["preset: recent"].run()
        assert screen.state.ranking.decay.half_life_days == 14
        assert not screen.state.ranking.mmr.enabled
        commands["profile: openclaw-2026.9"].run()
        assert screen.state.ranking == PROFILES["openclaw-2026.9"]
        commands["preset: reset to configuration"].run()
        assert screen.state.ranking == run.app.options.ranking
        commands["fusion: reciprocal rank"].run()
        assert screen.state.ranking.fusion is Fusion.RRF
        assert {f"theme: {name}" for name in run.app.available_themes} <= set(commands)
        commands["theme: memtui-light"].run()
        assert run.app.theme == "memtui-light"


async def test_the_palette_finds_the_right_thing_first(memory: SmallMemory) -> None:
    async with running(memory.open, query="router config") as run:
        for typed, first in load("interface")["commands of the palette"]:
            hits = [hit async for hit in MemtuiCommands(run.app.search_screen).search(typed)]
            assert max(hits, key=lambda hit: hit.score).text == first, typed


async def test_actions_of_other_screens_are_run_from_the_palette(memory: SmallMemory) -> None:
    async with running(memory.open, size=(120, 40), query="router config") as run:
        commands = {one.name: one for one in MemtuiCommands(run.app.search_screen).commands()}
        commands["explain: copy text"].run()
        await run.until(lambda: "router config" in run.app.clipboard)
        await run.press("escape")
        commands["browse: timeline"].run()
        await run.until(lambda: isinstance(run.app.focused, HeatMap))
        on_browse = {one.name: one for one in MemtuiCommands(run.app.screen).commands()}
        on_browse["preset: keyword heavy"].run()
        await settle(run.app, run.pilot)
        assert run.toasts[-1] == "Search ranks by preset: keyword heavy now."
        await run.press("1")
        commands["query: path:"].run()
        assert run.app.search_screen.query_input.value == "router config path:"


@pytest.mark.parametrize(("keys", "why"), load("interface")["keys without anything to do"])
async def test_a_key_that_has_nothing_to_do_says_why(
    keys: str, why: str, memory: SmallMemory
) -> None:
    async with running(memory.open, size=(120, 40), query="garden") as run:
        await run.press("escape")
        if keys.startswith("2"):
            run.app.open_place("memory/topics/garden.md")
            await run.until(lambda: "Tomatoes" in run.text)
            keys = keys.removeprefix("2 ")
        *steps, key = keys.split()
        for step in steps:
            await run.press(step)
        await run.press(key)
        assert run.toasts == [why]


class KeyApp(ReaderApp):
    """An application with a few keys of its own."""

    options = UiOptions()
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m,f2", "variety", "MMR", tooltip="Variety on or off", id="mmr.toggle"),
        Binding("left_square_bracket", "less", "λ −0.05", id="lambda.down"),
        Binding("r", "busy", "sync", id="sync"),
        Binding("colon,space", "command", "command", id="command"),
    ]

    def action_variety(self) -> None:
        """Do nothing."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey one action."""
        return None if action == "busy" else True


async def test_the_help_has_every_active_key_those_of_the_focused_pane_first() -> None:
    preview = Preview()
    app = KeyApp(Vertical(preview))
    async with app.run_test(size=(100, 60)) as pilot:
        preview.focus()
        await pilot.pause()
        groups = help_groups(app.screen, preview)
        assert groups[0][:2] == tuple(read_table("keys.toml")["panes"]["Preview"].values())
        assert groups[-1][0] == "Everywhere"
        lines = [line for _, _, group in groups for line in group]
        listed = {(line.binding.action, key) for line in lines for key in line.keys}
        active = app.screen.active_bindings.values()
        assert len(listed) == sum(bool(one.binding.id) for one in active), "the program's own"
        assert not any(key.startswith("super+") for _, key in listed)
        app.set_keymap({"lambda.down": "f9"})
        app.push_screen(HelpScreen())
        await pilot.pause()
        text = screen_text(app)
        assert "F9" in text, "the help follows the keymap"
        assert text.index("back to the chunk") < text.index("Variety on or off")
        assert "F2" in text
        assert "(not now)" in next(line for line in text.splitlines() if " sync " in line)


@pytest.mark.parametrize(
    ("keys", "first"), [(["f1"], "Query"), (["escape", "question_mark"], "Results")]
)
async def test_the_help_says_what_can_be_typed_and_what_the_signs_of_the_list_mean(
    keys: list[str], first: str, memory: SmallMemory
) -> None:
    async with running(memory.open, size=(100, 60), query="router") as run:
        await run.press(*keys)
        text = run.app.screen.query_one("#help-text", TextBlock).render().plain
        assert re.findall(r"(?m)^ *(Query|Results)$", text)[0] == first
        for explained in load("interface")["signs in the help"]:
            assert re.search(rf"(?m)^ *{explained}", text)
        await run.press(*"f1")
        assert re.search(r"│ +\? F1 +help", run.text)
        await run.press("backspace", "backspace", *"path:")
        assert "path:network" in run.text
        assert "6 of 55 " not in run.text


async def test_no_glyph_outside_the_chosen_set_is_drawn(memory: SmallMemory) -> None:
    options = dark("ascii")
    async with running(memory.open, size=(120, 40), options=options) as run:
        await run.press("escape", "2", "f1", shows="* changed  ! error  . not indexed")
        await run.press("escape", "1")
        await run.search("router")
        await run.until(lambda: bool(re.search(r"\d \|", run.text)))
        # The ASCII of an arrow is another key.
        for keys, named in load("interface")["screens in ASCII"]:
            await run.press(*keys)
            assert named in run.text
            # Notes hold letters of other scripts.
            assert not [
                one for one in run.text if not (one.isascii() or one.isalpha() or one in "。、")
            ]


@pytest.mark.parametrize(("line", "drawn"), cases("interface", "lines in ASCII"))
def test_arrows_and_folds_are_plain_where_a_line_has_room(line: str, drawn: str) -> None:
    segments = AsciiFilter().apply([Segment(line[:4]), Segment(line[4:])], Color(0, 0, 0))
    assert "".join(one.text for one in segments) == drawn


def test_the_help_of_explain_names_every_stage() -> None:
    lines = read_table("keys.toml")["panes"]["explain-box"]["hint"].splitlines()
    stages = {*read_table("words.toml")["stage"].values()}
    assert stages - {line.partition(" | ")[0] for line in lines} == set()


async def test_keys_that_a_text_box_takes_are_listed_and_told_apart() -> None:
    box = Input()
    app = KeyApp(box)
    async with app.run_test(size=(100, 60)) as pilot:
        box.focus()
        await pilot.pause()
        lines = [line for _, _, group in help_groups(app.screen, box) for line in group]
        named = {line.binding.description: (line.keys, line.typed) for line in lines}
        assert named["MMR"] == (["m", "f2"], ["m"])
        assert named["command"] == (["colon", "space"], ["colon", "space"])


async def test_typing_narrows_the_help_and_it_scrolls_meanwhile() -> None:
    preview = Preview()
    app = KeyApp(Vertical(preview))
    async with app.run_test(size=(80, 14)) as pilot:
        preview.show(note(), None, ())
        preview.focus()
        app.push_screen(HelpScreen())
        await pilot.pause()
        await pilot.press("pagedown", "pagedown", "down", "up")
        assert app.screen.query_one("#help-scroll").scroll_offset.y > 0
        await pilot.press("slash", *"variety")
        assert "MMR" in screen_text(app)
        assert "page down" not in screen_text(app)
        app.screen.query_one(Input).post_message(events.Paste("\x1b[31m[/x] \u202e"))
        await pilot.pause()
        assert "\x1b" not in screen_text(app)
        assert "nothing here says that" in screen_text(app)
        await pilot.press("escape")
        assert not isinstance(app.screen, HelpScreen)


@pytest.mark.parametrize(("cost", "words"), cases("interface", "costs of a rebuild"))
def test_a_rebuild_is_priced_and_says_where_text_is_sent(
    cost: dict[str, Any], words: list[str]
) -> None:
    priced = msgspec.convert(msgspec.to_builtins(Cost()) | cost, RebuildCost)
    text = "\n".join(value.plain for _, value in rebuild_facts(priced))
    assert [word for word in words if word not in text] == []


async def test_enter_gives_the_harmless_answer(memory: SmallMemory) -> None:
    answers: list[str | None] = []
    async with running(memory.open) as run:
        for keys in ("R", "q", "escape", "enter", "left enter", "up enter", "y n escape"):
            choices = {"rebuild": (ALL, "R"), "keep": ("keep it", "esc")}
            dialog = Confirm(ALL, [], choices)
            run.app.push_screen(dialog, answers.append)
            await run.press(*keys.split())
        assert not any(0x7F <= ord(character) < 0xA0 for character in run.text)
    keep, rebuild = "keep", "rebuild"
    assert answers == [rebuild, keep, keep, keep, rebuild, rebuild, keep]


async def test_the_keys_of_a_dialog_stand_under_its_title(memory: SmallMemory) -> None:
    async with running(memory.open) as run:
        await run.app.push_screen(Confirm("Go on?", [], {"yes": ("yes", "y"), "no": ("no", "esc")}))
        dialog = run.app.screen
        groups = {title: lines for title, _, lines in help_groups(dialog, dialog.focused)}
        assert {line.node for line in groups["Confirm"]} == {dialog}


async def test_the_footer_names_the_keys_of_what_is_on_top(memory: SmallMemory) -> None:
    async with running(memory.open, query="router config") as run:
        for keys, footer in load("interface")["footers"]:
            await run.press("escape", *keys.split())
            assert run.text.splitlines()[-1].partition("   ")[0].strip() == footer


@pytest.mark.parametrize(("key", "typed"), [("m", "m"), ("escape", ""), ("enter", "")])
async def test_the_key_that_closes_the_hint_is_not_lost(
    key: str, typed: str, memory: SmallMemory
) -> None:
    async with running(memory.open) as run:
        run.app.push_screen(FirstRunHint())
        await run.pilot.pause()
        await run.press(key)
        assert not isinstance(run.app.screen, FirstRunHint)
        assert run.app.search_screen.query_input.value == typed
        await run.press("ctrl+u")
        run.app.push_screen(FirstRunHint())
        await run.pilot.pause()
        # As a terminal hands keys on: many are waiting before the first one is handled.
        for character in "heron txt":
            name = "space" if character == " " else character
            run.app.post_message(events.Key(name, character))
        run.app.post_message(events.Paste("pond"))
        await run.until(lambda: len(run.app.search_screen.query_input.value) == 13)
        assert run.app.search_screen.query_input.value == "heron txtpond"


async def test_every_key_of_the_greeting_works_behind_it(memory: SmallMemory) -> None:
    keys = re.compile(r"│ +(F\d|alt\+\d) ")
    before: list[str] = []
    async with running(memory.open, size=(100, 30)) as run:
        while True:
            run.app.push_screen(FirstRunHint())
            await run.pilot.pause()
            named = [
                match[1].lower() for line in run.text.splitlines() if (match := keys.search(line))
            ]
            if not named[len(before) :]:
                break
            before.append(named[len(before)])
            shown = (run.app.search_screen.state.ranking, None)
            await run.press(before[-1])
            after = (run.app.search_screen.state.ranking, run.app.screen)
            assert after[0] != shown[0] or after[1] is not run.app.search_screen, before[-1]
            await run.press("escape")
            run.app.action_show_screen("search")
            run.app.search_screen.query_input.focus()
            assert not run.app.search_screen.query_input.value
    assert len(before) == 4


async def test_the_bar_leads_to_every_screen_while_typing_and_by_a_click(
    memory: SmallMemory,
) -> None:
    names = [action.title for action in SCREENS.values()]
    async with running(memory.open, size=(100, 30)) as run:
        await run.press(*"heron")
        for number, name in enumerate(names, 1):
            await run.press(f"alt+{number}")
            assert run.app.screen.id == name.lower()
            assert run.text.splitlines()[0].split()[:10:2] == list("12345")
            marked = "".join(
                segment.text
                for segment in run.app.screen._compositor.render_strips()[0]
                if segment.style is not None and segment.style.reverse
            )
            assert marked.split() == [str(number), name]
        await run.pilot.click("ScreenBar", offset=(run.text.index("4 Care"), 0))
        await settle(run.app, run.pilot)
        assert run.app.screen.id == "care"
        await run.press("1")
        assert run.app.search_screen.query_input.value == "heron"
        for width, first in ((45, "1 Search 2 3 4 5"), (40, "1 Search 2 3 4 5")):
            await resize(run.pilot, (width, 20))
            assert run.text.split("\n")[0].split() == first.split()
        await resize(run.pilot, (40, 10))
        assert "Search" not in run.text, "where every line is needed there is none"


async def test_q_closes_what_is_on_top_and_quits_from_the_search_screen_alone(
    memory: SmallMemory,
) -> None:
    async with running(memory.open, size=(120, 40), query="router config") as run:
        await run.press("escape")
        for keys in ("2", "3", "4", "5", "K", "c", "S", "x", "5 R", "E", "t escape", "? escape"):
            await run.press(*keys.split())
            above = len(run.app.screen_stack)
            while len(run.app.screen_stack) > 1:
                await run.press("q")
                assert len(run.app.screen_stack) < above, keys
                above = len(run.app.screen_stack)
            assert run.app.is_running
            assert run.app.search_screen.results.has_focus, keys
        await run.pilot.press("q")
    assert run.app.return_code == 0


async def test_a_part_that_a_key_opened_is_closed_before_its_screen(
    memory: SmallMemory, tmp_path: Path
) -> None:
    opened = partial(memory.open, homes=talk(tmp_path).homes)
    async with running(opened, size=(120, 24), query="router config") as run:
        await run.press("escape")
        for keys, key, part, screen in load("interface")["parts of screens"]:
            await run.press(*keys.split())
            assert part in run.text
            await run.press(key)
            assert part not in run.text
            assert run.app.screen.id == screen
            assert run.app.is_running
            run.app.action_show_screen("search")


async def test_a_click_on_a_named_key_presses_it(memory: SmallMemory) -> None:
    async with running(memory.open, size=(120, 40), query="router config") as run:
        await run.press("escape")
        for hint in ("H Not shown", "x explain"):
            line = next(line for line in run.text.splitlines() if hint in line)
            await run.pilot.click(offset=(line.index(hint), run.text.splitlines().index(line)))
            await settle(run.app, run.pilot)
        assert not run.app.search_screen.shows_near_misses, "they were shown"
        assert isinstance(run.app.screen, ExplainScreen)


async def test_ctrl_c_clears_what_is_typed_before_it_quits(memory: SmallMemory) -> None:
    async with running(memory.open, query="router") as run:
        await run.press("escape", "2", "slash", *"mai", "ctrl+c")
        assert not cast("Input", run.app.focused).value, "the box that has the keys"
        await run.press("alt+1", "escape")
        for key in ("x", "S", "c", "enter", "P", "t", "ctrl+p"):
            await run.press(key, "ctrl+c")
            assert run.app.screen is run.app.search_screen, f"what {key} opened is closed"
            assert run.app.search_screen.query_input.value == "router"
        await run.press("slash", "ctrl+c")
        assert not run.app.search_screen.query_input.value
        assert run.app.search_screen.notes.queries[0] == "router", "it can be taken back"
        await run.pilot.press("ctrl+c")
    assert run.app.return_code is not None


async def test_behind_the_words_that_it_is_too_small_no_key_acts(memory: SmallMemory) -> None:
    async with running(memory.open, query="router") as run:
        await run.press("escape")
        await resize(run.pilot, (20, 5))
        await run.press("x", "m", "slash", "a")
        assert run.app.screen is run.app.search_screen
        await resize(run.pilot, (80, 24))
        assert run.app.search_screen.query_input.value == "router"
        assert not run.app.search_screen.state.ranking.mmr.enabled


async def test_a_click_beside_a_dialog_goes_back(memory: SmallMemory) -> None:
    answers: list[str | None] = []
    async with running(memory.open) as run:
        choices = {"rebuild": ("go on", "R"), "keep": ("keep it", "esc")}
        run.app.push_screen(Confirm("Go on?", [], choices), answers.append)
        await settle(run.app, run.pilot)
        await run.pilot.click("#confirm", offset=(3, 1))
        assert not answers
        await run.pilot.click(offset=(1, 1))
    assert answers == ["keep"]


@pytest.mark.parametrize("key", ["f1", "f9"])
async def test_a_dialog_does_not_keep_the_program_from_ending(
    key: str, memory: SmallMemory
) -> None:
    async with running(memory.open) as run:
        await run.press(key)
        assert isinstance(run.app.screen, ModalScreen)
        await run.pilot.press("ctrl+q")
    assert run.app.return_code == 0
