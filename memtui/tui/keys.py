"""Every key that works now or after leaving the text box: the source of help and palette."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, cast

from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import key_to_character
from textual.screen import Screen

from memtui.tui.bindings import key_name


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
