"""OpenClaw's configuration: where it keeps it and its state, its files, its agents, their search.

The places are those of `src/config/paths.ts`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from memtui.settings.files import cause_of, read_bytes
from memtui.settings.openclaw.schema import (
    DEFAULT_AGENT,
    KEYS,
    NEW_LAYOUT,
    OLD_LAYOUT,
    AgentConfig,
    Layout,
    MemorySearchConfig,
    OpenClawConfig,
    normalised_weights,
)
from memtui.text.sanitize import safe_line

STATE_FOLDERS: Final = (".openclaw", ".clawdbot", ".moldbot", ".moltbot")
"""The state folder in the home folder under its name of today and those it had before."""
STATE_VARIABLES: Final = ("OPENCLAW_STATE_DIR", "CLAWDBOT_STATE_DIR")
CONFIG_NAMES: Final = ("openclaw.json", "clawdbot.json", "moldbot.json", "moltbot.json")
_UNSET: Final = frozenset({"", "undefined", "null"})


def variable(env: Mapping[str, str], *names: str) -> str:
    """Return the first of some variables that is set, without blanks around it."""
    values = (env.get(name, "").strip() for name in names)
    return next((value for value in values if value not in _UNSET), "")


def home_of(env: Mapping[str, str], home: Path) -> Path:
    """Return the home folder that OpenClaw works with: `$OPENCLAW_HOME`, else the user's."""
    named = variable(env, "OPENCLAW_HOME")
    return expanded(named, home) if named else home


def expanded(path: str, home: Path) -> Path:
    """Return a path as OpenClaw reads it: absolute, `~` at its start is the home folder."""
    path = path.strip().replace("\0", "")
    if path == "~" or path.startswith(("~/", "~\\")):
        path = str(home) + path[1:]
    return Path(os.path.abspath(path))


def state_dir_of(env: Mapping[str, str], home: Path) -> Path:
    """Return the state folder: `$OPENCLAW_STATE_DIR`, else the first that is there, newest name."""
    base = home_of(env, home)
    if named := variable(env, *STATE_VARIABLES):
        return expanded(named, base)
    folders = [base / name for name in STATE_FOLDERS]
    return next((folder for folder in folders if os.path.isdir(folder)), folders[0])


def config_candidates(
    env: Mapping[str, str], home: Path, state_dir: Path | None = None
) -> tuple[Path, ...]:
    """Return the places of the configuration, first one first; a named file is the only one.

    With `state_dir`, only that folder is looked at: the environment speaks of another one.
    """
    base = home_of(env, home)
    folders = [state_dir_of(env, home), *(base / name for name in STATE_FOLDERS)]
    if state_dir is not None:
        folders = [state_dir]
    elif named := variable(env, "OPENCLAW_CONFIG_PATH", "CLAWDBOT_CONFIG_PATH"):
        return (expanded(named, base),)
    return tuple(folder / name for folder in dict.fromkeys(folders) for name in CONFIG_NAMES)


def config_file(env: Mapping[str, str], home: Path, state_dir: Path | None = None) -> Path | None:
    """Return the configuration that OpenClaw reads; `None`: there is none, named or not."""
    return next(filter(os.path.lexists, config_candidates(env, home, state_dir)), None)


MAX_BYTES: Final = 2 * 2**20
"""Largest file that is read; also OpenClaw's limit for an included one."""
MAX_DEPTH: Final = 200
"""Objects and lists inside one another."""

_POSITION = re.compile(r"(?: starting)? near (\d+)")
_CODE_POINT = re.compile(r"U\+([0-9A-Fa-f]{4,6})")
_NAMED = re.compile(r"b'([^']*)'")


class Unreadable(Exception):
    """A file that cannot be used; the message is one line with place, cause and position."""


def parse(path: Path) -> Any:
    """Read a JSON5 file; raises `Unreadable`.

    Only the position and the kind of an error are repeated, never the text around it: the file
    holds secrets.
    """
    import pyjson5

    try:
        text = read_bytes(path, MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"{path}:{line}: not UTF-8") from None
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path}: cannot be read: {cause_of(error)}") from None
    try:
        return pyjson5.decode(text, maxdepth=MAX_DEPTH)
    except pyjson5.Json5Exception as error:
        message = str(error.args[0])
    except (ValueError, OverflowError, RecursionError):
        raise Unreadable(f"{path}: broken JSON5: holds what cannot be read") from None
    # Its offsets count from 1; only that of extra data is the end of what came before it.
    position = _POSITION.search(message)
    what = _NAMED.sub(
        r"\1", _CODE_POINT.sub(lambda code: repr(chr(int(code[1], 16))), _POSITION.sub("", message))
    )
    before = text[: max(0, int(position[1]) - 1) if position else 0]
    if message.startswith("Extra data"):
        after = text[len(before) + 1 :]
        before = text[: len(text) - len(after.lstrip())]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    raise Unreadable(f"{path}:{line}:{column}: broken JSON5: {what[:1].lower()}{what[1:]}")


MAX_INCLUDES: Final = 10
"""Includes inside one another, as OpenClaw has it."""
MAX_FILES: Final = 100
"""Included files altogether."""
INCLUDE: Final = "$include"


def read_sections(path: Path, names: Sequence[str]) -> tuple[Any, list[str]]:
    """Read a file with the includes of some sections done, and say what is wrong with those.

    A file outside the folder of the configuration, one that includes itself, more than ten inside
    one another and files that cannot be read are problems; the keys beside the include still hold.
    Raises `Unreadable` for the file itself.
    """
    root, files, problems = os.path.realpath(path.parent), count(1), list[str]()

    def resolved(value: Any, chain: tuple[Path, ...], *, deep: bool = True) -> Any:
        """Return a value with its includes done, in itself and, if `deep`, in all below it.

        `chain` are the files on the way here, the one that holds the value last. Included files
        are always done as a whole: their includes are relative to themselves.
        """
        if isinstance(value, list) and deep:
            return [resolved(item, chain) for item in value]
        if not isinstance(value, dict):
            return value
        rest = {
            name: resolved(item, chain) if deep else item
            for name, item in value.items()
            if name != INCLUDE
        }
        if INCLUDE not in value:
            return rest
        merged: Any = {}
        included = [value[INCLUDE]] if isinstance(value[INCLUDE], str) else value[INCLUDE]
        if not isinstance(included, list) or not all(isinstance(name, str) for name in included):
            problems.append(f"{chain[-1]}: {INCLUDE} must be a path or a list of paths")
            included = []
        for name in included:
            merged = merge(merged, content_of(name, chain))
        if rest and not isinstance(merged, dict):
            problems.append(f"{chain[-1]}: {INCLUDE} beside other keys must name an object")
            return rest
        return merge(merged, rest) if rest else merged

    def content_of(name: str, chain: tuple[Path, ...]) -> Any:
        file = Path(os.path.normpath(chain[-1].parent / name))
        number = next(files)
        is_inside = False
        with suppress(ValueError, OSError):
            is_inside = os.path.commonpath([root, os.path.realpath(file)]) == root
        if not is_inside:
            problem = "leads out of the folder of the configuration"
        elif file in chain:
            problem = "includes itself"
        elif len(chain) > MAX_INCLUDES:
            problem = f"is more than {MAX_INCLUDES} includes deep"
        elif number > MAX_FILES:
            problem = f"is left out: more than {MAX_FILES} included files"
        else:
            try:
                return resolved(parse(file), (*chain, file))
            except Unreadable as error:
                problem = f"is not usable: {error}"
        problems.append(f"{chain[-1]}: {INCLUDE} {name[:200]!r} {problem}")
        return {}

    document = resolved(parse(path), (path,), deep=False)
    if isinstance(document, dict):
        for name in (name for name in names if name in document):
            document[name] = resolved(document[name], (path,))
    return document, problems


def merge(base: Any, over: Any) -> Any:
    """Merge as OpenClaw merges includes: lists one after the other, objects key by key."""
    if isinstance(base, list) and isinstance(over, list):
        return [*base, *over]
    if isinstance(base, dict) and isinstance(over, dict):
        both = {name: merge(base[name], over[name]) for name in base.keys() & over.keys()}
        return {**base, **over, **both}
    return over


_VARIABLE = re.compile(r"(\$?)\$\{([A-Z_][A-Z0-9_]*)\}")


def filled(text: str, env: Mapping[str, str]) -> str:
    """Return a text with `${NAME}` replaced from `env`, `$${NAME}` by `${NAME}` itself.

    Raises `ValueError` for a variable that is not set or empty. Only names in capitals count.
    """

    def value(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        if not env.get(match[2]):
            raise ValueError(f"names ${{{match[2]}}}, which is not set here")
        return env[match[2]]

    return _VARIABLE.sub(value, text)


_SECRETS: Final = frozenset({"remote.apiKey", "remote.headers"})
_JOINED: Final = "extraPaths"
_NOT_AGENTS: Final = frozenset({"defaults", "list", "entries", "ownership"})
_CITATIONS: Final = ("auto", "on", "off")
_AGENT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.IGNORECASE)
_DEFAULTS_HOLD: Final = "; its defaults are used"


class Table(Struct, frozen=True):
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
    if path is None:
        return reader.config({}, None)
    try:
        document, reader.problems = read_sections(path, ("agents", "memory"))
        if not isinstance(document, dict):
            raise Unreadable(f"{path}: must be an object")
    except Unreadable as error:
        reader.problems = [str(error)]
        return replace(reader.config({}, path), broken=True)
    return reader.config(document, path)


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
        owners = [document, *(agent.content for agent in agents)]
        is_new = any(deep(one, *steps_of(NEW_LAYOUT)) is not None for one in owners)
        defaults = deep(document, "agents", "defaults")
        old = [deep(one, *steps_of(OLD_LAYOUT)) for one in (defaults, *owners[1:])]
        is_old = any(content is not None for content in old)
        # Of both layouts the newer one, which newer releases read.
        layout: Layout | None = NEW_LAYOUT if is_new else OLD_LAYOUT if is_old else None
        if is_new and is_old:
            text = f"both memorySearch and {NEW_LAYOUT} are written: {NEW_LAYOUT} is read"
            self.problems.append(text)
        place: str = layout or OLD_LAYOUT
        shared = self._table(document, place, place.split("."))
        citations = deep(document, "memory", "citations")
        if citations not in _CITATIONS:
            if citations is not None:
                self.problems.append("memory.citations: must be auto, on or off; auto is used")
            citations = "auto"
        for_others = self._search([shared], citations)
        marked = (agent.name for agent in agents if agent.content.get("default") is True)
        default = next(marked, agents[0].name)
        steps = steps_of(layout)
        configs = []
        for agent in agents:
            place = f"{agent.place}.{'.'.join(steps)}"
            search = self._search([shared, self._table(agent.content, place, steps)], citations)
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
            defaults=for_others,
            version=version if isinstance(version, str) else "",
            backend=backend if isinstance(backend, str) else "builtin",
        )

    def _table(self, content: Any, place: str, steps: Sequence[str]) -> Table:
        return Table(place, object_at(deep(content, *steps), place, self.problems, _DEFAULTS_HOLD))

    def _search(self, tables: Sequence[Table], citations: str) -> MemorySearchConfig:
        """Read tables, weakest first, into one configuration.

        The strongest table that has a key decides; extra paths are joined. A value of the wrong
        type or with a variable that is not set is a problem, and the default is used in its place.
        """
        groups = {key.name.rpartition(".")[0] for key in KEYS}
        groups |= {group.rpartition(".")[0] for group in groups}
        for table in tables:
            for group in sorted(groups - {""}):
                self._table(table.content, f"{table.place}.{group}", group.split("."))
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
            # Transcripts only where they are allowed, notes where nothing is.
            sources=tuple(name for name in config.sources if name != "sessions" or sessions)
            or MemorySearchConfig().sources,
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
