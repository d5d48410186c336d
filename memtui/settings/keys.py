"""The keys of the configuration as dotted names, read off the schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, get_args

from memtui.settings.actions import ACTION_IDS
from memtui.settings.files import nearest
from memtui.settings.schema import BUILT_IN, KeymapSettings, Settings
from memtui.settings.section import FieldInfo, Section
from memtui.settings.toml import toml_key

KEYMAP: Final = "keymap"
KEYMAP_PRESET: Final = "keymap.preset"
PROFILES: Final = "profiles"
RANKING: Final = "ranking"
_PROFILE_KEY = re.compile(
    rf"""{PROFILES}\.(?:"(?P<quoted>[a-z0-9._-]+)"|(?P<bare>[a-z0-9_-]+))\.(?P<key>.+)"""
)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A key that holds a value: its dotted name, the way to it in `Settings`, its field."""

    key: str
    attributes: tuple[str, ...]
    field: FieldInfo

    @property
    def optional(self) -> bool:
        """Whether it can be unset; an empty string in a file unsets it."""
        return type(None) in get_args(self.field.annotation)

    @property
    def many(self) -> bool:
        """Whether it holds a list."""
        return isinstance(self.field.default, tuple)


def section_of(field: FieldInfo) -> type[Section] | None:
    """The class of a field that is a table, `None` for a field that holds a value."""
    return type(field.default) if isinstance(field.default, Section) else None


@cache
def leaves() -> Mapping[str, Leaf]:
    """Every key by its dotted name, but for the bindings of `[keymap]` and the own profiles."""
    return {leaf.key: leaf for leaf in _walk(Settings, (), ())}


def _walk(model: type[Section], names: tuple[str, ...], attributes: tuple[str, ...]) -> list[Leaf]:
    found: list[Leaf] = []
    for attribute, field in model.model_fields.items():
        if (model, attribute) in {(KeymapSettings, "bindings"), (Settings, PROFILES)}:
            continue
        path = (*names, field.name)
        steps = (*attributes, attribute)
        section = section_of(field)
        if section is None:
            found.append(Leaf(".".join(path), steps, field))
        else:
            found.extend(_walk(section, path, steps))
    return found


@cache
def tables() -> frozenset[str]:
    """The dotted names of the tables; the empty name is the top level."""
    names = {KEYMAP, PROFILES, ""}
    for key in leaves():
        parts = key.split(".")
        names.update(".".join(parts[:n]) for n in range(1, len(parts)))
    return frozenset(names)


@cache
def known_keys() -> frozenset[str]:
    """Every key that may be set, bindings included."""
    return frozenset(leaves()) | {f"{KEYMAP}.{id_}" for id_ in ACTION_IDS}


def binding_id(key: str) -> str | None:
    """The action id of a binding key, `None` for any other key."""
    if key == KEYMAP_PRESET or not key.startswith(f"{KEYMAP}."):
        return None
    return key.removeprefix(f"{KEYMAP}.")


def profile_key(name: str, key: str) -> str:
    """The dotted name of a key of an own profile: `k` of `fast` is `profiles.fast.k`.

    A name with a dot is quoted, as in the file: `profiles."fast.2".k`.
    """
    return f"{toml_key((PROFILES, name))}.{key}"


def profile_of(key: str) -> tuple[str, str] | None:
    """The own profile that a key belongs to and the key within it; `None` for any other key."""
    found = _PROFILE_KEY.fullmatch(key)
    return (found["quoted"] or found["bare"], found["key"]) if found is not None else None


def leaf_of(key: str) -> Leaf | None:
    """What a key of any table holds; a key of a profile is as the one of `[ranking]`."""
    within = profile_of(key)
    return leaves().get(key if within is None else f"{RANKING}.{within[1]}")


def path_of(key: str) -> tuple[str, ...]:
    """The way to a key in a file."""
    within = profile_of(key)
    if within is not None:
        return (PROFILES, within[0], *within[1].split("."))
    action = binding_id(key)
    return (KEYMAP, action) if action is not None else tuple(key.split("."))


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key as the nested mapping that `Settings` validates."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        action = binding_id(key)
        path = (KEYMAP, "bindings", action) if action is not None else path_of(key)
        target = result
        for part in path[:-1]:
            target = target.setdefault(part, {})
        target[path[-1]] = value
    return result


def value_of(settings: Settings, key: str) -> Any:
    """The value of a dotted key; `None` for a binding that is not set."""
    action = binding_id(key)
    if action is not None:
        return settings.keymap.bindings.get(action)
    within = profile_of(key)
    if within is not None:
        attributes = leaves()[f"{RANKING}.{within[1]}"].attributes[1:]
        return _followed(settings.profiles[within[0]], attributes)
    return _followed(settings, leaves()[key].attributes)


def _followed(value: Any, attributes: tuple[str, ...]) -> Any:
    for attribute in attributes:
        value = getattr(value, attribute)
    return value


NAME_RULE: Final = "a-z, 0-9, `.`, `_` and `-`, first a letter or digit, at most 64"
LONGEST_SHOWN: Final = 80
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def shown_name(name: str) -> str:
    """A name as it is told: cut where it is too long for one, quotes where there is none."""
    return name[:LONGEST_SHOWN] or '""'


def name_problem(name: str) -> str:
    """Why an own profile cannot have this name; empty when it can."""
    if name in BUILT_IN:
        return "is built in: an own profile needs another name"
    return "" if _NAME.fullmatch(name) else f"cannot be a profile's name: {NAME_RULE}"


def nearest_profile(name: str, known: Iterable[str]) -> str:
    """What to try instead of a name that is not known, as a phrase."""
    names = tuple(known)
    near = nearest(name, names)
    return f"did you mean {near}?" if near else f"one of {', '.join(names)}"
