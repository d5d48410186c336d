"""OpenClaw's configuration: where it keeps it and its state, its files, its agents, their search.

The places are those of `src/config/paths.ts`. What `read_config` returns holds no secret: keys,
headers and addresses of embedding services are read at the moment of a call, show themselves in no
`repr` and are dropped after it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from memtui.model import CONVERSATIONS
from memtui.settings.containment import is_inside
from memtui.settings.files import cause_of, read_bytes, value_in
from memtui.settings.openclaw import schema
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
    """Return the places of the configuration, in the one named file or folder if there is one."""
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

    Of an error only position and kind are repeated, no text: the file holds secrets.
    """
    import pyjson5

    try:
        text = read_bytes(path, MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"{path}:{line}: not UTF-8") from None
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path}: cannot be read: {cause_of(error)}") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise Unreadable(f"{path}:{line}: holds a NUL character, so it is no text")
    try:
        return pyjson5.decode(text, maxdepth=MAX_DEPTH)
    except pyjson5.Json5Exception as error:
        message = str(error.args[0])
    except (ValueError, OverflowError, RecursionError):
        raise Unreadable(f"{path}: broken JSON5: holds what cannot be read") from None
    # Its offsets count from 1; only that of extra data is the end of what came before it.
    position = _POSITION.search(message)
    cause = _CODE_POINT.sub(lambda code: repr(chr(int(code[1], 16))), _POSITION.sub("", message))
    cause = _NAMED.sub(r"\1", cause)
    before = text[: max(0, int(position[1]) - 1) if position else 0]
    if message.startswith("Extra data"):
        after = text[len(before) + 1 :]
        before = text[: len(text) - len(after.lstrip())]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    raise Unreadable(f"{path}:{line}:{column}: broken JSON5: {cause[:1].lower()}{cause[1:]}")


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
    files, problems = count(1), list[str]()

    def resolved(value: Any, chain: tuple[Path, ...], *, deep: bool = True) -> Any:
        """Return a value with its includes done, in itself and, if `deep`, in all below it.

        `chain` are the files on the way here, the one that holds the value last.
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
        if not is_inside(str(file), str(path.parent)):
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
    """Return a text with `${NAME}` filled in; raises `ValueError` for one that is not set."""

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
_CITATIONS: Final = (None, "auto", "on", "off")
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
) -> schema.OpenClawConfig:
    """Read OpenClaw's configuration, of those in `config_candidates`; never raises for its content.

    A missing file gives the defaults; a broken one gives the defaults, `broken`, and one problem
    that says where. API keys and header values are not kept.
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
    return plain or schema.DEFAULT_AGENT


def object_at(content: Any, place: str, problems: list[str], effect: str = "") -> dict[str, Any]:
    """Return an object of the document; empty for anything else, which is a problem."""
    if content is not None and not isinstance(content, dict):
        problems.append(f"{place}: must be an object{effect}")
    return content if isinstance(content, dict) else {}


def agents_in(document: Any, problems: list[str]) -> list[Table]:
    """Return the agents of a document, each once; what cannot be one is a problem."""
    agents = object_at(value_in(document, "agents"), "agents", problems)
    entries: list[tuple[Any, str, Any]] = []
    listed = agents.get("list")
    if isinstance(listed, list):
        entries += [(value_in(one, "id"), f"agents.list[{n}]", one) for n, one in enumerate(listed)]
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
    return list(tables.values()) or [Table("agents", {}, schema.DEFAULT_AGENT)]


def path_below(layout: schema.Layout | None) -> str:
    """Return the dotted way from an agent to its keys of memory search."""
    return schema.NEW_LAYOUT if layout == schema.NEW_LAYOUT else "memorySearch"


class _Reader:
    """Reads one document; what is wrong with it is told in `problems`."""

    def __init__(self, env: Mapping[str, str], home: Path, state: Path) -> None:
        self._env, self._home, self._state = env, home, state
        self.problems: list[str] = []

    def config(self, document: Mapping[str, Any], path: Path | None) -> schema.OpenClawConfig:
        agents = agents_in(document, self.problems)
        owners = [document, *(agent.content for agent in agents)]
        is_new = any(value_in(one, path_below(schema.NEW_LAYOUT)) is not None for one in owners)
        defaults = value_in(document, "agents.defaults")
        old = [value_in(one, path_below(schema.OLD_LAYOUT)) for one in (defaults, *owners[1:])]
        is_old = any(content is not None for content in old)
        # Of both layouts the newer one, which newer releases read.
        layout: schema.Layout | None = (
            schema.NEW_LAYOUT if is_new else schema.OLD_LAYOUT if is_old else None
        )
        if is_new and is_old:
            text = "both memorySearch and {0} are written: {0} is read"
            self.problems.append(text.format(schema.NEW_LAYOUT))
        place: str = layout or schema.OLD_LAYOUT
        shared = self._table(document, place, place)
        if value_in(document, "memory.citations") not in _CITATIONS:
            self.problems.append("memory.citations: must be auto, on or off; auto is used")
        for_others = self._search([shared])
        marked = (agent.name for agent in agents if agent.content.get("default") is True)
        default = next(marked, agents[0].name)
        below = path_below(layout)
        configs = []
        for agent in agents:
            own = self._table(agent.content, f"{agent.place}.{below}", below)
            search = self._search([shared, own])
            if search.store_path:
                store = expanded(search.store_path.replace("{agentId}", agent.name), self._home)
                search = replace(search, store_path=str(store))
            folder = self._workspace(document, agent, is_default=agent.name == default)
            configs.append(schema.AgentConfig(agent.name, folder, search, agent.name == default))
        backend = value_in(document, "memory.backend")
        version = value_in(document, "meta.lastTouchedVersion")
        return schema.OpenClawConfig(
            path,
            layout,
            tuple(configs),
            tuple(dict.fromkeys(map(safe_line, self.problems))),
            defaults=for_others,
            version=version if isinstance(version, str) else "",
            backend=backend if isinstance(backend, str) else "builtin",
        )

    def _table(self, content: Any, place: str, path: str) -> Table:
        return Table(
            place, object_at(value_in(content, path), place, self.problems, _DEFAULTS_HOLD)
        )

    def _search(self, tables: Sequence[Table]) -> schema.MemorySearchConfig:
        """Read tables, weakest first, into one configuration; extra paths are joined."""
        groups = {key.name.rpartition(".")[0] for key in schema.KEYS}
        groups |= {group.rpartition(".")[0] for group in groups}
        for table in tables:
            for group in sorted(groups - {""}):
                self._table(table.content, f"{table.place}.{group}", group)
        values: dict[str, Any] = {}
        paths: dict[str, str] = {}
        set_keys: set[str] = set()
        for key in schema.KEYS:
            written = [(one, value_in(one.content, key.name)) for one in tables]
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
        config = schema.MemorySearchConfig(**values)
        tokens = max(1, config.chunk_tokens)
        vector, text = schema.normalised_weights(config.vector_weight, config.text_weight)
        sessions = config.session_memory or config.remember_across_conversations
        names = dict.fromkeys(config.sources)
        modalities = tuple(dict.fromkeys(config.multimodal_modalities))
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
            sources=tuple(name for name in names if name != CONVERSATIONS or sessions)
            or schema.MemorySearchConfig().sources,
            multimodal_modalities=modalities if config.multimodal_enabled else (),
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
        shared = self._folder(value_in(document, place), place)
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
        text = _read_text(f"{place}:", value, self._env)
        if text.problem:
            self.problems.append(f"{text.problem}; the default is used")
        return expanded(text.value, self._home) if text.value else None


_PROVIDER_IDS: Final = {"gemini": "google"}
"""OpenClaw's name of a service where it speaks of models, if that is another."""
_SECTIONS: Final = ("agents", "memory", "models")
_VARIABLE_NAME = re.compile(r"[A-Z][A-Z0-9_]*_API_KEY")


@dataclass(frozen=True, slots=True)
class Secret:
    """A text, or headers by name, or why it cannot be read; the value is in no `repr`."""

    value: Any = field(default="", repr=False)
    problem: str = ""
    """One line, without any value."""


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """The agent's access to a service; of `remote` and of `models.providers`, kept apart."""

    api_key: Secret = Secret()
    headers: Secret = Secret({})
    provider_base_url: Secret = Secret()
    provider_api_key: Secret = Secret()
    provider_headers: Secret = Secret({})
    problem: str = ""
    """The reason why the whole file cannot be read."""


def read_remote(
    config: schema.OpenClawConfig, agent: str, env: Mapping[str, str], provider: str
) -> RemoteAccess:
    """Read what an agent uses for a provider, from its file; never raises for what that holds."""
    if config.path is None:
        return RemoteAccess()
    try:
        document, problems = read_sections(config.path, _SECTIONS)
        if problems:
            # An include that cannot be used may say where a key goes.
            raise Unreadable(problems[0])
    except Unreadable as error:
        return RemoteAccess(problem=str(error))
    tables: list[Any] = []
    if config.layout is not None:
        # The strongest first.
        own = (one.content for one in agents_in(document, []) if one.name == agent_id(agent))
        tables += [value_in(content, f"{path_below(config.layout)}.remote") for content in own]
        tables.append(value_in(document, f"{config.layout}.remote"))
    key, headers = (
        next(filter(None, (value_in(table, name) for table in tables)), None)
        for name in ("apiKey", "headers")
    )
    named = (
        content
        for name, content in _table(document, "models.providers").items()
        if _folded(name) == _PROVIDER_IDS.get(provider, provider) and isinstance(content, dict)
    )
    shared, place = next(filter(None, named), {}), "models.providers"
    return RemoteAccess(
        api_key=_read_secret("remote.apiKey", key, env),
        headers=_read_headers("remote.headers", headers, env),
        provider_base_url=_read_text(f"{place} baseUrl", shared.get("baseUrl"), env),
        provider_api_key=_read_secret(f"{place} apiKey", shared.get("apiKey"), env),
        provider_headers=_read_headers(f"{place} headers", shared.get("headers"), env),
    )


def _table(content: Any, path: str) -> Mapping[str, Any]:
    table = value_in(content, path)
    return table if isinstance(table, Mapping) else {}


def _folded(name: Any) -> str:
    return name.strip().lower() if isinstance(name, str) else ""


def _read_text(place: str, value: Any, env: Mapping[str, str]) -> Secret:
    try:
        if not isinstance(value, str | None):
            raise ValueError("must be a text")
        return Secret(filled(value or "", env).strip())
    except ValueError as error:
        return Secret(problem=f"{place} {error}")


def _read_secret(place: str, value: Any, env: Mapping[str, str]) -> Secret:
    """Read a text, the name of a variable, or a reference to one; no other store is asked."""
    if isinstance(value, Mapping):
        name = value.get("id") if value.get("source") == "env" else None
        if not isinstance(name, str):
            return Secret(problem=f"{place} refers to a store that is not read here")
    else:
        text = _read_text(place, value, env)
        name = text.value
        if not _VARIABLE_NAME.fullmatch(name):
            return text
    key = env.get(name, "").strip()
    shown = name if _VARIABLE_NAME.fullmatch(name) else "a variable"
    return Secret(key, "" if key else f"{place} names {shown}, which is not set here")


def _read_headers(place: str, value: Any, env: Mapping[str, str]) -> Secret:
    headers = value if isinstance(value, Mapping) else {}
    read = {str(name): _read_secret(f"a value of {place}", headers[name], env) for name in headers}
    problem = next((one.problem for one in read.values() if one.problem), "")
    return Secret({name: one.value for name, one in read.items() if one.value}, problem)


AUTH_PROFILES: Final = "auth-profiles.json"


def profile_keys(
    provider: str, agent: str, state: Path, env: Mapping[str, str]
) -> Iterator[Secret]:
    """Yield the keys for a provider in the profiles of an agent; never raises for what files hold.

    In their `order`, else as they stand there; `env` has the variables that a key may name.
    """
    profiles: dict[str, Any] = {}
    orders: dict[str, Any] = {}
    for name in dict.fromkeys((schema.DEFAULT_AGENT, agent)):
        path = state / "agents" / name / "agent" / AUTH_PROFILES
        try:
            store = parse(path) if os.path.lexists(path) else {}
        except Unreadable as error:
            yield Secret(problem=str(error))
            continue
        profiles |= _table(store, "profiles")
        orders |= _table(store, "order")
    names = {provider, _PROVIDER_IDS.get(provider, provider)}
    ids = next((ids for key, ids in orders.items() if _folded(key) in names), None)
    for profile_id in dict.fromkeys(map(str, ids)) if isinstance(ids, list) and ids else profiles:
        profile = profiles.get(profile_id)
        if not isinstance(profile, Mapping) or _folded(profile.get("provider")) not in names:
            continue
        # The program takes `mode` and `apiKey`, which its configuration has, for their own names.
        if profile.get("type", profile.get("mode")) == "api_key":
            written = profile.get("keyRef") or profile.get("key", profile.get("apiKey"))
            yield _read_secret("the key of a profile", written, env)


_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_QUOTED = re.compile(r"""(["'])(.*?)\1\s*(?:#.*)?""")
# Looked for where blanks begin alone: a line of blanks takes no time that grows with its square.
_COMMENT = re.compile(r"(?<!\s)\s+#.*")


def own_variables(env: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return the variables that OpenClaw would add to `env`, without those that are set there.

    Those of `.env` in its state folder come before those of `env` in its configuration. A file
    that cannot be read gives none.
    """
    variables: dict[str, str] = {}
    path = config_file(env, home)
    # What is wrong with the file is said by whoever reads the rest of it.
    with suppress(Unreadable):
        block = _table(read_sections(path, ("env",))[0], "env") if path is not None else {}
        texts = (pair for table in (block, _table(block, "vars")) for pair in table.items())
        variables = {str(name): text.strip() for name, text in texts if isinstance(text, str)}
    with suppress(OSError, ValueError):
        text = read_bytes(state_dir_of(env, home) / ".env").decode("utf-8-sig")
        for match in filter(None, map(_LINE.fullmatch, text.splitlines())):
            value = match[2].strip()
            quoted = _QUOTED.fullmatch(value)
            variables[match[1]] = quoted[2] if quoted else _COMMENT.sub("", value)
    return {name: value for name, value in variables.items() if value and not env.get(name)}
