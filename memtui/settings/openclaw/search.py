"""Memory search of one agent: the defaults of all agents, its own values over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from memtui.settings.openclaw.document import filled
from memtui.settings.openclaw.schema import KEYS, Key, MemorySearchConfig
from memtui.settings.openclaw.values import chunk_size, enabled_sources, normalised_weights

_SECRETS: Final = frozenset({"remote.apiKey", "remote.headers"})
_JOINED: Final = "extraPaths"
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Table:
    """An object of memory search keys, and the dotted way to it."""

    place: str
    content: Mapping[str, Any]


@dataclass(slots=True)
class _Reading:
    """What one agent's tables gave so far."""

    env: Mapping[str, str]
    values: dict[str, Any] = field(default_factory=dict)
    set_keys: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


def read_search(
    tables: Sequence[Table], env: Mapping[str, str], citations: str = "auto"
) -> tuple[MemorySearchConfig, tuple[str, ...]]:
    """Read tables, weakest first, into one configuration, and say what is wrong with them.

    The strongest table that has a key decides; extra paths are joined. A value of the wrong type
    or with a variable that is not set is a problem, and the default is used in its place.
    """
    reading = _Reading(env)
    for table in tables:
        _report_shapes(table, reading)
    for key in KEYS:
        if key.name == _JOINED:
            _read_extra_paths(key, tables, reading)
        else:
            _read_key(key, tables, reading)
    values = reading.values
    base = MemorySearchConfig()
    chunks = chunk_size(
        values.get("chunk_tokens", base.chunk_tokens),
        values.get("chunk_overlap", base.chunk_overlap),
    )
    values["chunk_tokens"], values["chunk_overlap"] = chunks
    values["vector_weight"], values["text_weight"] = normalised_weights(
        values.get("vector_weight", base.vector_weight), values.get("text_weight", base.text_weight)
    )
    sessions = values.get("session_memory", False) or values.get(
        "remember_across_conversations", False
    )
    values["sources"] = enabled_sources(values.get("sources") or base.sources, sessions=sessions)
    if not values.get("multimodal_enabled", False):
        values["multimodal_modalities"] = ()
    elif not values.get("multimodal_modalities"):
        values["multimodal_modalities"] = ("image", "audio")
    config = MemorySearchConfig(**values, citations=citations, set_keys=frozenset(reading.set_keys))
    return config, tuple(reading.problems)


def _read_key(key: Key, tables: Sequence[Table], reading: _Reading) -> None:
    for table in reversed(tables):
        value = _lookup(table.content, key.name)
        if value is _MISSING or value is None:
            continue
        reading.set_keys.add(key.name)
        try:
            reading.values[key.field] = key.read(_substituted(key, value, reading.env))
        except ValueError as error:
            reading.problems.append(f"{table.place}.{key.name}: {error}; the default is used")
        return


def _read_extra_paths(key: Key, tables: Sequence[Table], reading: _Reading) -> None:
    found: dict[str, str] = {}
    for table in tables:
        value = _lookup(table.content, key.name)
        if value is _MISSING or value is None:
            continue
        reading.set_keys.add(key.name)
        try:
            for path, pattern in key.read(value):
                found.setdefault(filled(path, reading.env), pattern)
        except ValueError as error:
            reading.problems.append(f"{table.place}.{key.name}: {error}; it is left out")
    reading.values["extra_paths"] = tuple(found)
    reading.values["extra_path_patterns"] = tuple(pair for pair in found.items() if pair[1])


def _substituted(key: Key, value: Any, env: Mapping[str, str]) -> Any:
    if isinstance(value, str) and key.name not in _SECRETS:
        return filled(value, env)
    return value


def _report_shapes(table: Table, reading: _Reading) -> None:
    """Report what stands where an object of keys is needed, each place once."""
    groups = {key.name.rpartition(".")[0] for key in KEYS}
    parents = {group.rpartition(".")[0] for group in groups}
    for group in sorted((groups | parents) - {""}):
        value = _lookup(table.content, group)
        if value is _MISSING or value is None or isinstance(value, dict):
            continue
        reading.problems.append(f"{table.place}.{group}: must be an object; its defaults are used")


def _lookup(content: Any, dotted: str) -> Any:
    for part in dotted.split("."):
        if not isinstance(content, Mapping) or part not in content:
            return _MISSING
        content = content[part]
    return content
