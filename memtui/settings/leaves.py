"""The keys of the configuration as dotted names, read off the schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from memtui.settings.keys import ACTION_IDS
from memtui.settings.schema import KeymapSettings, Settings

KEYMAP: Final = "keymap"
KEYMAP_PRESET: Final = "keymap.preset"


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


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """The model behind a field that is a table, `None` for a field that holds a value."""
    annotation = field.annotation
    return (
        annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
    )


@cache
def leaves() -> Mapping[str, Leaf]:
    """Every key by its dotted name, but for the bindings of `[keymap]`."""
    return {leaf.key: leaf for leaf in _walk(Settings, (), ())}


def _walk(
    model: type[BaseModel], names: tuple[str, ...], attributes: tuple[str, ...]
) -> list[Leaf]:
    found: list[Leaf] = []
    for attribute, field in model.model_fields.items():
        if model is KeymapSettings and attribute == "bindings":
            continue
        path = (*names, field.alias or attribute)
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
    names = {KEYMAP, ""}
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


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key as the nested mapping that `Settings` validates."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        action = binding_id(key)
        path = [KEYMAP, "bindings", action] if action is not None else key.split(".")
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
    value: Any = settings
    for attribute in leaves()[key].attributes:
        value = getattr(value, attribute)
    return value
