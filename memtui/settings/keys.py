"""The keys of the configuration as dotted names, read off the schema, and the names of profiles."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import EnumMeta
from functools import cache
from operator import attrgetter
from typing import Any, Final, Literal, get_args, get_origin

from msgspec import Meta
from msgspec.structs import fields

from memtui.settings.actions import ACTION_IDS
from memtui.settings.schema import BUILT_IN, ProfileName, Settings, Table
from memtui.settings.toml import toml_key

KEYMAP: Final = "keymap"
KEYMAP_PRESET: Final = "keymap.preset"
PROFILES: Final = "profiles"
RANKING: Final = "ranking"
NAME_RULE: Final = "a-z, 0-9, `.`, `_` and `-`, first a letter or digit, at most 64"
LONGEST_SHOWN: Final = 80
_PROFILE_KEY = re.compile(
    rf"""{PROFILES}\.(?:"(?P<quoted>[a-z0-9._-]+)"|(?P<bare>[a-z0-9_-]+))\.(?P<key>.+)"""
)
_PROFILE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A key that holds a value: its dotted name, its attribute in `Settings`, what it takes."""

    key: str
    attribute: str
    type: Any
    default: Any

    @property
    def optional(self) -> bool:
        """Whether it can be unset; an empty string in a file unsets it."""
        return type(None) in _parts(self.type)

    @property
    def many(self) -> bool:
        """Whether it holds a list."""
        return isinstance(self.default, tuple)

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return bool in _parts(self.type)

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it takes, where it takes no others."""
        for part in _parts(self.type):
            if get_origin(part) is Literal:
                return get_args(part)
            if isinstance(part, EnumMeta):
                return tuple(part)
        return ()

    def clamp(self, value: float) -> float:
        """The number of its range that is nearest."""
        for meta in _parts(self.type):
            if isinstance(meta, Meta):
                value = value if meta.ge is None else max(value, meta.ge)
                value = value if meta.le is None else min(value, meta.le)
        return value


def _parts(annotation: Any) -> Iterator[Any]:
    """An annotation and everything that it is made of."""
    yield annotation
    if get_origin(annotation) is not Literal:
        for part in get_args(annotation):
            yield from _parts(part)


@cache
def leaves() -> Mapping[str, Leaf]:
    """Every key by its dotted name, but for the bindings of `[keymap]` and the own profiles."""
    return {leaf.key: leaf for leaf in _leaves_of(Settings, "", "")}


def _leaves_of(table: type[Table], names: str, attributes: str) -> Iterator[Leaf]:
    for info in fields(table):
        name, attribute = f"{names}{info.encode_name}", f"{attributes}{info.name}"
        if isinstance(info.default, Table):
            yield from _leaves_of(type(info.default), f"{name}.", f"{attribute}.")
        elif attribute not in {f"{KEYMAP}.bindings", PROFILES}:
            yield Leaf(name, attribute, info.type, info.default)


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
    match = _PROFILE_KEY.fullmatch(key)
    return (match["quoted"] or match["bare"], match["key"]) if match is not None else None


def leaf_of(key: str) -> Leaf | None:
    """What a key of any table holds; a key of a profile is as the one of `[ranking]`."""
    action = binding_id(key)
    if action is not None:
        return Leaf(key, "", str, "") if action in ACTION_IDS else None
    within = profile_of(key)
    if within is None:
        return leaves().get(key)
    if within[1] == "profile":
        return Leaf(key, "profile", ProfileName, BUILT_IN[0])
    return leaves().get(f"{RANKING}.{within[1]}")


def is_table(key: str) -> bool:
    """Whether a key is a table, also one of bindings because their ids have dots."""
    if key.startswith(f"{KEYMAP}."):
        return any(name.startswith(f"{key}.") for name in known_keys())
    within = profile_of(key)
    return (f"{RANKING}.{within[1]}" if within is not None else key) in tables()


def names_beside(key: str) -> frozenset[str]:
    """Every key and table that could have been meant by one that does not exist."""
    within = profile_of(key)
    if within is None:
        return known_keys() | tables() - {""}
    rankings = (name.partition(".") for name in leaves() if name.startswith(f"{RANKING}."))
    return frozenset(profile_key(within[0], name) for _, _, name in rankings)


def key_of(path: Sequence[str]) -> str:
    """The dotted name of a key by the way to it in a file."""
    if len(path) > 2 and path[0] == PROFILES:
        return profile_key(path[1], ".".join(path[2:]))
    return ".".join(path)


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key as the nested mapping that `Settings` is made of."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        action, within = binding_id(key), profile_of(key)
        path: Sequence[str] = key.split(".")
        if action is not None:
            path = (KEYMAP, "bindings", action)
        elif within is not None:
            path = (PROFILES, within[0], *within[1].split("."))
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
    if within is None:
        return attrgetter(leaves()[key].attribute)(settings)
    attribute = leaves()[f"{RANKING}.{within[1]}"].attribute.removeprefix(f"{RANKING}.")
    return attrgetter(attribute)(settings.profiles[within[0]])


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like `word`, or `None` when nothing is like it."""
    candidates = sorted(known)
    close = difflib.get_close_matches(word[:200], candidates, n=1, cutoff=0.6)
    if close:
        return close[0]
    last = word[:200].rsplit(".", 1)[-1]
    by_last = {name.rsplit(".", 1)[-1]: name for name in reversed(candidates)}
    close = difflib.get_close_matches(last, by_last, n=1, cutoff=0.75)
    return by_last[close[0]] if close else None


def shown_name(name: str) -> str:
    """A profile's name as it is told: cut where it is too long for one, quotes for an empty one."""
    return name[:LONGEST_SHOWN] or '""'


def name_problem(name: str) -> str:
    """Why an own profile cannot have this name; empty when it can."""
    if name in BUILT_IN:
        return "is built in: an own profile needs another name"
    return "" if _PROFILE_NAME.fullmatch(name) else f"cannot be a profile's name: {NAME_RULE}"


def nearest_profile(name: str, known: Iterable[str]) -> str:
    """What to try instead of a name that is not known, as a phrase."""
    names = tuple(known)
    near = nearest(name, names)
    return f"did you mean {near}?" if near else f"one of {', '.join(names)}"
