"""Which keys do what: a preset, and the user's own keys over it."""

from __future__ import annotations

from collections.abc import Mapping

from memtui.tui.bindings import all_bindings

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
    known = {binding.id for binding in all_bindings()}
    keymap = dict(PRESETS.get(preset, {}))
    for name, keys in overrides.items():
        if name in known:
            keymap[name] = keys
        else:
            problems.append(f"keymap: no binding {name!r}")
    return keymap, tuple(problems)
