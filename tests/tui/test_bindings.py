"""Binding ids, key names and keymaps."""

from __future__ import annotations

from collections import Counter

import pytest
from textual.binding import Binding

from memtui.settings.actions import ACTION_IDS, ACTIONS, ALL_ACTIONS
from memtui.tui.bindings import PRESETS, bindings, is_typed, key_for, key_name, resolve_keymap


def test_no_key_of_a_place_has_two_meanings() -> None:
    for places in ({"search", "app"}, *({action.where} for action in ALL_ACTIONS)):
        keys = Counter(
            key for action in ALL_ACTIONS if action.where in places for key in action.keys
        )
        assert {key for key, count in keys.items() if count > 1} == set(), places


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
    assert by_id["half_life.up"].tooltip == "Old notes lose slower"
    assert by_id["result.edit"].key == "e,ctrl+o"
    assert by_id["result.edit"].tooltip == "Open the note in the editor, at its line"


def test_unknown_names_are_told_and_the_rest_is_used() -> None:
    keymap, problems = resolve_keymap("nano", {"mmr.toggle": "f7", "mmr.tggle": "f8"})
    assert keymap == {"mmr.toggle": "f7"}
    assert len(problems) == 2
    assert "mmr.tggle" in problems[1]


@pytest.mark.parametrize(
    ("key", "name", "typed"),
    [
        ("slash", "/", True),
        ("question_mark", "?", True),
        ("m", "m", True),
        ("R", "R", True),
        ("left_curly_bracket", "{", True),
        ("less_than_sign", "<", True),
        ("minus", "-", True),
        ("plus", "+", True),
        ("equals_sign", "=", True),
        ("f2", "F2", False),
        ("ctrl+q", "^q", False),
        ("escape", "esc", False),
        ("shift+f6", "⇧F6", False),
        ("up", "↑", False),
        ("tab", "tab", False),
    ],
)
def test_keys_are_named_as_they_are_pressed(key: str, name: str, typed: bool) -> None:
    assert key_name(key) == name
    assert is_typed(key) is typed


def test_while_typing_only_keys_that_are_not_typed_are_named() -> None:
    assert key_for(["ctrl+q", "q"], typing=False) == "q"
    assert key_for(["m", "f2"], typing=True) == "f2"
    assert key_for(["slash"], typing=True) is None
