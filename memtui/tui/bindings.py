"""Bindings made from the action table, how keys are named, which keys work now, key presets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.keys import key_to_character
from textual.screen import Screen

from memtui.settings.actions import ACTION_IDS, ALL_ACTIONS, HIDDEN, Action

_KEY_NAMES: Mapping[str, str] = {
    "escape": "esc",
    "enter": "⏎",
    "shift+tab": "⇧tab",
    "up": "↑",
    "down": "↓",
    "slash": "/",
    "minus": "-",
    "plus": "+",
    "left": "←",
    "right": "→",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "backspace": "⌫",
}
_NAMESPACES = frozenset({"app", "screen", "focused"})
"""What Textual resolves itself before the dot of an action."""
_WORD_KEYS = frozenset({"slash", "minus", "plus", "space", "comma"})


def bindings(*places: str) -> list[BindingType]:
    """Return the bindings of places of the action table: those of the key bar first, in order."""
    actions = [action for action in ALL_ACTIONS if action.where in places]
    shown = sorted((one for one in actions if one.bar != HIDDEN), key=lambda action: action.bar)
    return [_binding(action) for action in (*shown, *(a for a in actions if a.bar == HIDDEN))]


def _binding(action: Action) -> Binding:
    space, run = "", action.run
    if run.startswith("app.") and run.count(".") == 2:
        space, run = "app.", run.removeprefix("app.")
    part, dot, call = run.partition(".")
    if dot and part not in _NAMESPACES:
        # Of a controller: `rankings.step('k', 1)` is run by the screen.
        name, _, arguments = call.removesuffix(")").partition("(")
        run = f"part('{part}', '{name}', ({arguments}{',' if arguments else ''}))"
    run = space + run
    told = "" if action.help == action.title else action.help.removeprefix(f"{action.title}: ")
    return Binding(
        ",".join(action.keys),
        run,
        action.title,
        show=action.bar != HIDDEN,
        priority=action.priority,
        tooltip=told[:1].upper() + told[1:],
        id=action.id or f"{action.where}:{action.run}",
    )


def key_name(key: str) -> str:
    """Write a key the way the footer shows it: `slash` is `/`, `ctrl+q` is `^q`."""
    if key in _KEY_NAMES:
        return _KEY_NAMES[key]
    if key.startswith("ctrl+"):
        return "^" + key_name(key.removeprefix("ctrl+"))
    if key.startswith("shift+"):
        return "⇧" + key_name(key.removeprefix("shift+"))
    if key.startswith("alt+"):
        return "alt-" + key_name(key.removeprefix("alt+"))
    if key.startswith("f") and key[1:].isdigit():
        return key.upper()
    character = key_to_character(key) or ""
    return character if character.isprintable() and character.strip() else key


def is_typed(key: str) -> bool:
    """Tell whether a focused input takes this key as text."""
    return len(key_name(key)) == 1 and (len(key) == 1 or "_" in key or key in _WORD_KEYS)


def key_for(keys: Iterable[str], *, typing: bool) -> str | None:
    """Choose the key to name: a character, or while typing the first that is none."""
    characters: list[str] = []
    others: list[str] = []
    for key in keys:
        (characters if is_typed(key) else others).append(key)
    wanted = others if typing else characters + others
    return wanted[0] if wanted else None


# --- the keys that work now ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key, what it does and who does it."""

    node: DOMNode
    binding: Binding
    enabled: bool
    """Whether the action can be done now."""
    works: bool
    """False for a key that the focused text box takes as text."""


class Wording(Protocol):
    """A place that words its keys by what they do just now."""

    def worded(self, binding: Binding) -> Binding:
        """The binding as it is told; without a description it is not offered."""


def worded(node: DOMNode, binding: Binding) -> Binding:
    """A binding in the words of the place that answers it."""
    return cast("Wording", node).worded(binding) if hasattr(node, "worded") else binding


def known_keys(screen: Screen[object]) -> Iterator[KnownKey]:
    """The described bindings of the focused widget, its ancestors and the application.

    Unlike `Screen.active_bindings` this keeps the keys that a focused text box takes as text.
    Keys that another binding hides are left out.
    """
    active = screen.active_bindings
    focused = screen.focused
    for node in _nodes(screen):
        for key, bound in _bindings(node):
            binding = worded(node, bound)
            if not binding.description or binding.system:
                continue
            found = active.get(key)
            if found is not None:
                if found.node is node and found.binding.action == binding.action:
                    yield KnownKey(node, binding, found.enabled, True)
            elif focused is not None and focused.check_consume_key(key, key_to_character(key)):
                state = screen.app._check_action_state(binding.action, node)
                if state is not False:
                    yield KnownKey(node, binding, bool(state), False)


def key_label(key: str) -> str:
    """The key as it is written on a keyboard; its name where the character cannot be seen."""
    name = key_name(key)
    return name if name.isprintable() and name.strip() else key


def _nodes(screen: Screen[object]) -> list[DOMNode]:
    focused = screen.focused
    inside = list(focused.ancestors_with_self) if focused is not None else [screen]
    return [node for node in inside if node is not screen.app] + [screen.app]


def _bindings(node: DOMNode) -> Iterator[tuple[str, Binding]]:
    # Textual has no public way to a node's bindings with the keymap applied.
    bindings = node._bindings.copy()
    if node.app._keymap:
        bindings.apply_keymap(node.app._keymap)
    for key, found in bindings.key_to_bindings.items():
        for binding in found:
            yield key, binding


# --- key presets ---------------------------------------------------------------------------------

PRESETS: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "vim": {
        "preview.cycle": "v",
        "result.next": "down,ctrl+n,ctrl+j",
        "result.previous": "up,ctrl+k",
    },
    "emacs": {
        "query.focus": "slash,alt+s",
        "result.next": "down,ctrl+n",
        "list.next": "j,n,ctrl+n",
        "list.previous": "k,p",
        "list.first": "g,alt+less_than_sign",
        "list.last": "G,alt+greater_than_sign",
        "near_misses.toggle": "alt+n",
        "result.cite": "y,alt+w",
    },
}
"""Key presets by name; each names only what differs from the default."""


def resolve_keymap(
    preset: str, overrides: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Combine a preset with the user's own keys.

    Returns the mapping for `App.set_keymap` and one line for each thing that cannot be used.
    """
    problems: list[str] = []
    if preset not in PRESETS:
        problems.append(f"keymap: no preset {preset!r}; there are {', '.join(PRESETS)}")
    keymap = dict(PRESETS.get(preset, {}))
    for name, keys in overrides.items():
        if name in ACTION_IDS:
            keymap[name] = keys
        else:
            problems.append(f"keymap: no binding {name!r}")
    return keymap, tuple(problems)
