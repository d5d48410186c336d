"""Reading OpenClaw's configuration: where its keys are, its agents, their search."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from memtui.settings.openclaw.document import (
    Unreadable,
    config_file,
    expanded,
    filled,
    home_of,
    read_sections,
    state_dir_of,
)
from memtui.settings.openclaw.schema import (
    DEFAULT_AGENT,
    KEYS,
    NEW_LAYOUT,
    OLD_LAYOUT,
    AgentConfig,
    Layout,
    MemorySearchConfig,
    OpenClawConfig,
    enabled_sources,
    normalised_weights,
)
from memtui.text.sanitize import safe_line

_SECRETS: Final = frozenset({"remote.apiKey", "remote.headers"})
_JOINED: Final = "extraPaths"
_NOT_AGENTS: Final = frozenset({"defaults", "list", "entries", "ownership"})
_CITATIONS: Final = ("auto", "on", "off")
_AGENT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.IGNORECASE)
_DEFAULTS_HOLD: Final = "; its defaults are used"


@dataclass(frozen=True, slots=True)
class Table:
    """An object of memory search keys, or of an agent, and the dotted way to it."""

    place: str
    content: Mapping[str, Any]
    name: str = ""
    """The agent's id."""


def read_config(
    env: Mapping[str, str], home: Path, *, state_dir: Path | None = None
) -> OpenClawConfig:
    """Read OpenClaw's configuration; never raises for its content.

    Looks at `$OPENCLAW_CONFIG_PATH`, else in the state folder (`$OPENCLAW_STATE_DIR`, else
    `~/.openclaw`, else its older names); `state_dir` names the only folder to look in. A missing
    file gives the defaults; a broken one gives the defaults, `broken`, and one problem that says
    where. API keys and header values are not kept.
    """
    path = config_file(env, home, state_dir)
    reader = _Reader(env, home_of(env, home), state_dir or state_dir_of(env, home))
    document: Any = {}
    broken = ""
    if path is not None:
        try:
            document, reader.problems = read_sections(path, ("agents", "memory"))
            broken = "" if isinstance(document, dict) else f"{path}: must be an object"
        except Unreadable as error:
            broken = str(error)
    if broken:
        reader.problems, document = [broken], {}
    return replace(reader.config(document, path), broken=bool(broken))


def agent_id(name: Any) -> str:
    """Return an agent's id as OpenClaw normalises it: lower-case letters, digits, `_` and `-`."""
    text = name.strip() if isinstance(name, str) else ""
    if _AGENT_ID.fullmatch(text):
        return text.lower()
    plain = re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-")[:64]
    return plain or DEFAULT_AGENT


def deep(content: Any, *steps: str) -> Any:
    """Return what stands below these names; `None` where nothing does."""
    for step in steps:
        content = content.get(step) if isinstance(content, Mapping) else None
    return content


def object_at(content: Any, place: str, problems: list[str], effect: str = "") -> dict[str, Any]:
    """Return an object of the document; empty for anything else, which is a problem."""
    if content is not None and not isinstance(content, dict):
        problems.append(f"{place}: must be an object{effect}")
    return content if isinstance(content, dict) else {}


def agents_in(document: Any, problems: list[str]) -> list[Table]:
    """Return the agents of a document, each once; what cannot be one is a problem."""
    agents = object_at(deep(document, "agents"), "agents", problems)
    entries: list[tuple[Any, str, Any]] = []
    listed = agents.get("list")
    if isinstance(listed, list):
        entries += [(deep(one, "id"), f"agents.list[{n}]", one) for n, one in enumerate(listed)]
    elif listed is not None:
        problems.append("agents.list: must be a list")
    for name, item in object_at(agents.get("entries"), "agents.entries", problems).items():
        entries.append((name, f"agents.entries.{name}", item))
    for name, item in agents.items():
        if name not in _NOT_AGENTS and isinstance(item, dict) and "memory" in item:
            entries.append((name, f"agents.{name}", item))
    tables: dict[str, Table] = {}
    for name, place, content in entries:
        if isinstance(content, dict):
            tables.setdefault(agent_id(name), Table(place, content, agent_id(name)))
        else:
            problems.append(f"{place}: must be an object")
    return list(tables.values()) or [Table("agents", {}, DEFAULT_AGENT)]


def steps_of(layout: Layout | None) -> tuple[str, ...]:
    """Return the way from an agent to its keys of memory search."""
    return ("memory", "search") if layout == NEW_LAYOUT else ("memorySearch",)


class _Reader:
    """Reads one document; what is wrong with it is told in `problems`."""

    def __init__(self, env: Mapping[str, str], home: Path, state: Path) -> None:
        self._env, self._home, self._state = env, home, state
        self.problems: list[str] = []

    def config(self, document: Mapping[str, Any], path: Path | None) -> OpenClawConfig:
        agents = agents_in(document, self.problems)
        layout = self._layout(document, agents)
        shared = []
        if layout is not None:
            content = deep(document, *layout.split("."))
            content = object_at(content, layout, self.problems, _DEFAULTS_HOLD)
            shared = [Table(layout, content)]
        citations = deep(document, "memory", "citations")
        if citations not in _CITATIONS:
            if citations is not None:
                self.problems.append("memory.citations: must be auto, on or off; auto is used")
            citations = "auto"
        defaults = self._search(shared, citations)
        marked = [agent.name for agent in agents if agent.content.get("default") is True]
        default = (marked or [agents[0].name])[0]
        steps = steps_of(layout)
        configs = []
        for agent in agents:
            own = []
            if layout is not None:
                place = f"{agent.place}.{'.'.join(steps)}"
                content = deep(agent.content, *steps)
                content = object_at(content, place, self.problems, _DEFAULTS_HOLD)
                own = [Table(place, content)]
            search = self._search([*shared, *own], citations)
            if search.store_path:
                store = expanded(search.store_path.replace("{agentId}", agent.name), self._home)
                search = replace(search, store_path=str(store))
            folder = self._workspace(document, agent, is_default=agent.name == default)
            configs.append(AgentConfig(agent.name, folder, search, agent.name == default))
        backend = deep(document, "memory", "backend")
        version = deep(document, "meta", "lastTouchedVersion")
        return OpenClawConfig(
            path,
            layout,
            tuple(configs),
            tuple(dict.fromkeys(map(safe_line, self.problems))),
            defaults=defaults,
            version=version if isinstance(version, str) else "",
            backend=backend if isinstance(backend, str) else "builtin",
        )

    def _layout(self, document: Mapping[str, Any], agents: Sequence[Table]) -> Layout | None:
        """Return the layout that is written; of both, the newer one, which newer releases read."""
        contents = [agent.content for agent in agents]
        new = any(deep(one, "memory", "search") is not None for one in (document, *contents))
        old = deep(document, *OLD_LAYOUT.split(".")) is not None or any(
            one.get("memorySearch") is not None for one in contents
        )
        if new and old:
            text = f"both memorySearch and {NEW_LAYOUT} are written: {NEW_LAYOUT} is read"
            self.problems.append(text)
        return NEW_LAYOUT if new else OLD_LAYOUT if old else None

    def _search(self, tables: Sequence[Table], citations: str) -> MemorySearchConfig:
        """Read tables, weakest first, into one configuration.

        The strongest table that has a key decides; extra paths are joined. A value of the wrong
        type or with a variable that is not set is a problem, and the default is used in its place.
        """
        for table in tables:
            self.problems += _wrong_shapes(table)
        values: dict[str, Any] = {}
        paths: dict[str, str] = {}
        set_keys: set[str] = set()
        for key in KEYS:
            written = [(one, deep(one.content, *key.name.split("."))) for one in tables]
            written = [(one, value) for one, value in written if value is not None]
            if written:
                set_keys.add(key.name)
            is_joined = key.name == _JOINED
            for table, value in written if is_joined else written[-1:]:
                try:
                    if is_joined:
                        for path, pattern in key.read(value):
                            paths.setdefault(filled(path, self._env), pattern)
                    else:
                        is_plain = isinstance(value, str) and key.name not in _SECRETS
                        value = filled(value, self._env) if is_plain else value
                        values[key.field] = key.read(value)
                except ValueError as error:
                    effect = "it is left out" if is_joined else "the default is used"
                    self.problems.append(f"{table.place}.{key.name}: {error}; {effect}")
        config = MemorySearchConfig(**values)
        tokens = max(1, config.chunk_tokens)
        vector, text = normalised_weights(config.vector_weight, config.text_weight)
        sessions = config.session_memory or config.remember_across_conversations
        modalities = config.multimodal_modalities
        if not modalities or "all" in modalities:
            modalities = ("image", "audio")
        return replace(
            config,
            extra_paths=tuple(paths),
            extra_path_patterns=tuple(pair for pair in paths.items() if pair[1]),
            chunk_tokens=tokens,
            chunk_overlap=min(tokens - 1, max(0, config.chunk_overlap)),
            vector_weight=vector,
            text_weight=text,
            sources=enabled_sources(
                config.sources or MemorySearchConfig().sources, sessions=sessions
            ),
            multimodal_modalities=modalities if config.multimodal_enabled else (),
            citations=citations,
            set_keys=frozenset(set_keys),
        )

    def _workspace(self, document: Mapping[str, Any], agent: Table, *, is_default: bool) -> Path:
        """Find the folder of an agent's notes: its own, else made from the defaults.

        An agent that is not the default one has a folder in that of the defaults in newer releases
        and in the state folder in older ones: the one that is there counts.
        """
        own = self._folder(agent.content.get("workspace"), f"{agent.place}.workspace")
        if own is not None:
            return own
        place = "agents.defaults.workspace"
        shared = self._folder(deep(document, *place.split(".")), place)
        if not is_default:
            beside = self._state / f"workspace-{agent.name}"
            places = [beside] if shared is None else [shared / agent.name, beside]
        elif shared is not None:
            places = [shared]
        else:
            name = self._env.get("OPENCLAW_PROFILE", "").strip()
            folder = "workspace" if name.lower() in {"", "default"} else f"workspace-{name}"
            places = [self._state / folder, self._home / ".openclaw" / folder]
        return next((place for place in places if os.path.isdir(place)), places[0])

    def _folder(self, value: Any, place: str) -> Path | None:
        if value is None or value == "":
            return None
        try:
            if not isinstance(value, str):
                raise ValueError("must be a text")
            text = filled(value, self._env).strip()
        except ValueError as error:
            self.problems.append(f"{place}: {error}; the default is used")
            return None
        return expanded(text, self._home) if text else None


def _wrong_shapes(table: Table) -> Iterator[str]:
    """Yield what stands where an object of keys is needed, each place once."""
    groups = {key.name.rpartition(".")[0] for key in KEYS}
    parents = {group.rpartition(".")[0] for group in groups}
    for group in sorted((groups | parents) - {""}):
        value = deep(table.content, *group.split("."))
        if value is not None and not isinstance(value, dict):
            yield f"{table.place}.{group}: must be an object{_DEFAULTS_HOLD}"
