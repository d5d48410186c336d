"""Binding ids, key names and keymaps."""

from __future__ import annotations

from collections import Counter

import pytest

from memtui.tui.bindings import (
    APP_BINDINGS,
    LIST_BINDINGS,
    SEARCH_BINDINGS,
    all_bindings,
    is_typed,
    key_for,
    key_name,
)
from memtui.tui.keymap import PRESETS, resolve_keymap


def test_every_binding_has_an_id_of_its_own() -> None:
    counts = Counter(binding.id for binding in all_bindings())
    assert None not in counts
    assert max(counts.values()) == 1


def test_no_key_has_two_meanings() -> None:
    for bindings in ((*SEARCH_BINDINGS, *APP_BINDINGS), LIST_BINDINGS):
        keys = Counter(key for binding in bindings for key in binding.key.split(","))
        assert {key for key, count in keys.items() if count > 1} == set()


def test_presets_name_known_bindings() -> None:
    known = {binding.id for binding in all_bindings()}
    for preset in PRESETS.values():
        assert set(preset) <= known


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
