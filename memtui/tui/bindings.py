"""Bindings made from the action table, how keys are named and step, which work now, presets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from msgspec import Struct
from textual.actions import parse
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.keys import key_to_character
from textual.screen import Screen
from textual.widgets import Input

from memtui.data import read_table
from memtui.engine import Engine
from memtui.report.words import WORDS
from memtui.settings.actions import ACTION_IDS, ALL_ACTIONS, HIDDEN
from memtui.tui.glyphs import ASCII_ONLY

T = TypeVar("T")

_TABLES = read_table("keys.toml")
_KEY_NAMES: Mapping[str, str] = _TABLES["names"]
PRESETS: Mapping[str, Mapping[str, str]] = _TABLES["presets"]
"""Key presets by name; each names only what differs from the default."""
_NAMESPACES = frozenset({"app", "screen", "focused"})
"""The names before the dot of an action that Textual resolves itself."""
_WORD_KEYS = frozenset({"slash", "minus", "plus", "space", "comma", "at"})


def bindings(*places: str) -> list[BindingType]:
    """Return the bindings of places of the action table: those of the key bar first, in order."""
    made: list[BindingType] = []
    actions = [action for action in ALL_ACTIONS if action.where in places]
    for action in sorted(actions, key=lambda action: (action.bar == HIDDEN, action.bar)):
        space, run = "", action.run
        if run.startswith("app.") and run.count(".") == 2:
            space, run = "app.", run.removeprefix("app.")
        part, dot, call = run.partition(".")
        if dot and part not in _NAMESPACES:
            # Of a controller: `rankings.step('k', 1)` is run by the screen.
            name, _, arguments = call.removesuffix(")").partition("(")
            run = f"part('{part}', '{name}', ({arguments}{',' if arguments else ''}))"
        help_ = "" if action.help == action.title else action.help.removeprefix(f"{action.title}: ")
        binding = Binding(
            # Textual has no binding without a key: this one no terminal sends.
            ",".join(action.keys) or action.id,
            space + run,
            action.title,
            show=action.bar != HIDDEN,
            priority=action.priority,
            tooltip=help_[:1].upper() + help_[1:],
            id=action.id or f"{action.where}:{action.run}",
        )
        made.append(binding)
    return made


def _bound(action_id: str, keymap: Mapping[str, str]) -> list[str]:
    action = next(action for action in ALL_ACTIONS if action.id == action_id)
    keys = keymap.get(action_id) or ",".join(action.keys) or action_id
    return [one.key for one in Binding.make_bindings([(keys, action.run)])]


def keys_of(node: DOMNode, action_id: str) -> list[str]:
    """Return the keys of an action of the table as they are bound now."""
    return _bound(action_id, getattr(node.app, "keymap", {}))


def key_name(key: str) -> str:
    """Write a key the way the footer shows it: `slash` is `/`, `ctrl+q` is `^q`."""
    ascii_only, name = ASCII_ONLY.get(), _KEY_NAMES.get(key, "")
    if name and (name.isascii() or not ascii_only):
        return name
    shift = "shift+" if ascii_only else "⇧"
    for modifier, written in (("ctrl+", "^"), ("shift+", shift), ("alt+", "alt+")):
        if key.startswith(modifier):
            return written + key_name(key.removeprefix(modifier))
    if key.startswith("f") and key[1:].isdigit():
        return key.upper()
    character = key_to_character(key) or ""
    return character if character.isprintable() and character.strip() else key


def is_typed(key: str) -> bool:
    """Tell whether a focused input takes this key as text."""
    return len(key_name(key)) == 1 and (len(key) == 1 or "_" in key or key in _WORD_KEYS)


def key_while_typing(action_id: str, keymap: Mapping[str, str]) -> str:
    """Write the key of an action that works while a text is typed, too: `F5`, or `Esc R`."""
    keys = _bound(action_id, keymap)
    others = [key for key in keys if not is_typed(key)]
    return key_name(others[0]) if others else f"Esc {key_name(keys[0])}"


class KeyedAction(Struct, frozen=True):
    """An action that keys lead to now."""

    node: DOMNode
    """The node that runs it."""
    binding: Binding
    """The binding of its first key."""
    enabled: bool
    """True if it can be run now."""
    keys: list[str]
    typed: list[str]
    """Those of the keys that the focused text box takes as text."""


def keyed_actions(screen: Screen[object]) -> Sequence[KeyedAction]:
    """Return the described actions of the focused widget, its ancestors and the application.

    Unlike `Screen.active_bindings` this has the keys that a focused text box takes as text.
    Keys that another binding hides are left out.
    """
    active, focused = screen.active_bindings, screen.focused
    is_typing = isinstance(focused, Input)
    keymap: Mapping[str, str] = getattr(screen.app, "keymap", {})
    engine: Engine | None = getattr(screen.app, "engine", None)
    lacks_files = engine is not None and bool(engine.index.files.notes_missing)
    actions: dict[tuple[DOMNode, str], KeyedAction] = {}
    for node in (focused or screen).ancestors_with_self:
        bound = {
            key: binding
            for kind in (reversed(type(node).__mro__) if is_typing else ())
            for binding in Binding.make_bindings(vars(kind).get("BINDINGS", ()))
            for key in keymap.get(binding.id or "", binding.key).split(",")
        }
        own = {key: one.binding for key, one in active.items() if one.node is node}
        for key, binding in (bound | own).items():
            if (word := getattr(node, "worded", None)) is not None:
                # The place that answers it words it.
                binding = word(binding)
            if key == "enter" and (opens := getattr(node, "opens", "")):
                about = WORDS["opens"].get(opens, binding.tooltip)
                binding = replace(binding, description=opens, show=True, tooltip=about)
            is_own = key in own
            # Textual knows no character for `-` and `+`, which are typed as well.
            is_text = isinstance(focused, Input) and (
                is_typed(key) or focused.check_consume_key(key, key_to_character(key))
            )
            is_hidden = not is_own and (key in active or not is_text)
            if is_hidden or not binding.description or binding.system:
                continue
            state: bool | None
            if is_own:
                state = active[key].enabled or None
            else:
                space, name, parameters = parse(binding.action)
                state = (node.app if space == "app" else node).check_action(name, parameters)
            if state is not False:
                is_enabled = bool(state) and not (lacks_files and "'edit'" in binding.action)
                new = KeyedAction(node, binding, is_enabled, [], [])
                keyed = actions.setdefault((node, binding.action), new)
                if key != binding.id:
                    keyed.keys.append(key)
                if is_text:
                    keyed.typed.append(key)
    return list(actions.values())


def resolve_keymap(preset: str, overrides: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Combine a preset with the user's own keys.

    Returns the mapping for `App.set_keymap` and one line for each thing that cannot be used.
    """
    problems = [f"keymap: no binding {name!r}" for name in overrides if name not in ACTION_IDS]
    if preset not in PRESETS:
        problems.insert(0, f"keymap: no preset {preset!r}; there are {', '.join(PRESETS)}")
    own = {name: keys for name, keys in overrides.items() if name in ACTION_IDS}
    keymap = {**PRESETS.get(preset, {}), **own}
    # Textual takes a second key of one action for another action that wants the same key.
    by_key = defaultdict[str, list[str]](list)
    for name in sorted(ACTION_IDS):
        for key in _bound(name, keymap):
            by_key[key].append(name)
    clashes = [names for names in by_key.values() if len(names) > 1 and own.keys() & set(names)]
    problems += dict.fromkeys(f"keymap: one key for {', '.join(names)}" for names in clashes)
    return keymap, problems


def next_of(values: Iterable[T], present: T, step: int = 1) -> T:
    """Return the value that is so many steps after the present one; the first follows the last."""
    ordered = list(values)
    return ordered[(ordered.index(present) + step) % len(ordered)]
