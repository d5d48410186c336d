"""Memory search of one agent: the defaults of all agents, its own values over them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from memtui.settings.openclaw.document import (
    Includes,
    Unreadable,
    config_file,
    expanded,
    filled,
    home_of,
    parse,
    state_dir_of,
)
from memtui.settings.openclaw.schema import (
    DEFAULT_AGENT,
    KEYS,
    NEW_LAYOUT,
    OLD_LAYOUT,
    AgentConfig,
    Key,
    Layout,
    MemorySearchConfig,
    OpenClawConfig,
    chunk_size,
    enabled_sources,
    normalised_weights,
)
from memtui.text.sanitize import safe_line

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


_NOT_AGENTS: Final = frozenset({"defaults", "list", "entries", "ownership"})
_CITATIONS: Final = ("auto", "on", "off")
_AGENT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Entry:
    """An agent as the configuration lists it, and the dotted way to it."""

    name: str
    place: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What values refer to: variables, home folder, state folder and whether it was chosen."""

    env: Mapping[str, str]
    home: Path
    state: Path


def read_config(
    env: Mapping[str, str], home: Path, *, state_dir: Path | None = None
) -> OpenClawConfig:
    """Read OpenClaw's configuration; never raises for its content.

    Looks at `$OPENCLAW_CONFIG_PATH`, else in the state folder (`$OPENCLAW_STATE_DIR`, else
    `~/.openclaw`, else its older names); `state_dir` names the only folder to look in. A missing
    file gives the defaults; a broken one gives the defaults, `broken`, and one problem that says
    where. API keys and header values are not kept.
    """
    around = _Surroundings(env, home_of(env, home), state_dir or state_dir_of(env, home))
    path = config_file(env, home, state_dir)
    if path is None:
        return _interpreted({}, None, around, [])
    try:
        parsed = parse(path)
    except Unreadable as error:
        return replace(_interpreted({}, path, around, [str(error)]), broken=True)
    includes = Includes(path)
    document = includes.resolved(parsed, (path,), deep=False)
    if not isinstance(document, dict):
        return replace(_interpreted({}, path, around, [f"{path}: must be an object"]), broken=True)
    for name in ("agents", "memory"):
        if name in document:
            document[name] = includes.resolved(document[name], (path,))
    return _interpreted(document, path, around, includes.problems)


def _interpreted(
    document: Mapping[str, Any], path: Path | None, around: _Surroundings, problems: list[str]
) -> OpenClawConfig:
    entries = _entries(_object(document, "agents", "", problems), problems)
    layout = _layout(document, entries, problems)
    shared = _shared_tables(document, layout, problems)
    citations = _citations(document, problems)
    defaults, found = read_search(shared, around.env, citations)
    problems = [*problems, *found]
    default = _default_agent(entries)
    agents = []
    for entry in entries:
        own = _own_table(entry, layout, problems)
        search, found = read_search([*shared, *own], around.env, citations)
        problems.extend(found)
        folder = _workspace(document, entry, default, around, problems)
        named = _for_agent(search, entry.name, around)
        agents.append(AgentConfig(entry.name, folder, named, entry.name == default))
    backend = _deep(document, "memory", "backend")
    version = _deep(document, "meta", "lastTouchedVersion")
    return OpenClawConfig(
        path,
        layout,
        tuple(agents),
        tuple(dict.fromkeys(safe_line(problem) for problem in problems)),
        defaults=defaults,
        version=version if isinstance(version, str) else "",
        backend=backend if isinstance(backend, str) else "builtin",
    )


def agent_id(name: Any) -> str:
    """An agent's id as OpenClaw normalises it: lower-case letters, digits, `_` and `-`."""
    text = name.strip() if isinstance(name, str) else ""
    if _AGENT_ID.fullmatch(text):
        return text.lower()
    plain = re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-")[:64]
    return plain or DEFAULT_AGENT


def _entries(agents: Mapping[str, Any], problems: list[str]) -> list[_Entry]:
    found: dict[str, _Entry] = {}
    for name, place, content in _written_entries(agents, problems):
        id_ = agent_id(name)
        if not isinstance(content, dict):
            problems.append(f"{place}: must be an object")
        elif id_ not in found:
            found[id_] = _Entry(id_, place, content)
    return list(found.values()) or [_Entry(DEFAULT_AGENT, "agents", {})]


def _written_entries(
    agents: Mapping[str, Any], problems: list[str]
) -> Iterator[tuple[Any, str, Any]]:
    listed = agents.get("list")
    if isinstance(listed, list):
        for number, item in enumerate(listed):
            name = item.get("id") if isinstance(item, dict) else None
            yield name, f"agents.list[{number}]", item
    elif listed is not None:
        problems.append("agents.list: must be a list")
    for name, item in _object(agents, "entries", "agents.", problems).items():
        yield name, f"agents.entries.{name}", item
    for name, item in agents.items():
        if name not in _NOT_AGENTS and isinstance(item, dict) and "memory" in item:
            yield name, f"agents.{name}", item


def _layout(
    document: Mapping[str, Any], entries: list[_Entry], problems: list[str]
) -> Layout | None:
    """Which layout is written; of both, the newer one, which is what newer releases read."""
    new = _deep(document, "memory", "search") is not None or any(
        _deep(entry.content, "memory", "search") is not None for entry in entries
    )
    old = _deep(document, "agents", "defaults", "memorySearch") is not None or any(
        entry.content.get("memorySearch") is not None for entry in entries
    )
    if new and old:
        problems.append(f"both memorySearch and {NEW_LAYOUT} are written: {NEW_LAYOUT} is read")
    return NEW_LAYOUT if new else OLD_LAYOUT if old else None


def _shared_tables(
    document: Mapping[str, Any], layout: Layout | None, problems: list[str]
) -> list[Table]:
    if layout is None:
        return []
    steps = layout.split(".")
    return _table(_deep(document, *steps), layout, problems)


def _own_table(entry: _Entry, layout: Layout | None, problems: list[str]) -> list[Table]:
    steps = ("memory", "search") if layout == NEW_LAYOUT else ("memorySearch",)
    if layout is None:
        return []
    return _table(_deep(entry.content, *steps), f"{entry.place}.{'.'.join(steps)}", problems)


def _table(content: Any, place: str, problems: list[str]) -> list[Table]:
    if content is None:
        return []
    if isinstance(content, dict):
        return [Table(place, content)]
    problems.append(f"{place}: must be an object; its defaults are used")
    return []


def _citations(document: Mapping[str, Any], problems: list[str]) -> str:
    mode = _deep(document, "memory", "citations")
    if mode in _CITATIONS:
        return str(mode)
    if mode is not None:
        problems.append("memory.citations: must be auto, on or off; auto is used")
    return "auto"


def _default_agent(entries: list[_Entry]) -> str:
    marked = [entry.name for entry in entries if entry.content.get("default") is True]
    return (marked or [entries[0].name])[0]


def _workspace(
    document: Mapping[str, Any],
    entry: _Entry,
    default: str,
    around: _Surroundings,
    problems: list[str],
) -> Path:
    """The folder of an agent's notes: its own, else made from the defaults.

    An agent that is not the default one has a folder in that of the defaults in newer releases and
    in the state folder in older ones: the one that is there counts.
    """
    own = _folder(entry.content.get("workspace"), f"{entry.place}.workspace", around, problems)
    if own is not None:
        return own
    shared = _folder(
        _deep(document, "agents", "defaults", "workspace"),
        "agents.defaults.workspace",
        around,
        problems,
    )
    if entry.name != default:
        beside = around.state / f"workspace-{entry.name}"
        places = [beside] if shared is None else [shared / entry.name, beside]
    elif shared is not None:
        places = [shared]
    else:
        name = around.env.get("OPENCLAW_PROFILE", "").strip()
        folder = "workspace" if name.lower() in {"", "default"} else f"workspace-{name}"
        places = [around.state / folder, around.home / ".openclaw" / folder]
    return next((place for place in places if os.path.isdir(place)), places[0])


def _folder(value: Any, place: str, around: _Surroundings, problems: list[str]) -> Path | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        problems.append(f"{place}: must be a text; the default is used")
        return None
    try:
        text = filled(value, around.env).strip()
    except ValueError as error:
        problems.append(f"{place}: {error}; the default is used")
        return None
    return expanded(text, around.home) if text else None


def _for_agent(search: MemorySearchConfig, name: str, around: _Surroundings) -> MemorySearchConfig:
    if not search.store_path:
        return search
    path = expanded(search.store_path.replace("{agentId}", name), around.home)
    return replace(search, store_path=str(path))


def _object(
    content: Mapping[str, Any], name: str, prefix: str, problems: list[str]
) -> Mapping[str, Any]:
    value = content.get(name)
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    problems.append(f"{prefix}{name}: must be an object")
    return {}


def _deep(content: Any, *steps: str) -> Any:
    for step in steps:
        if not isinstance(content, Mapping):
            return None
        content = content.get(step)
    return content
