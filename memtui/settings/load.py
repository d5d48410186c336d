"""Loading the settings: files, environment and flags, each checked by itself, then merged."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final, NamedTuple

from msgspec import ValidationError, convert

from memtui.settings.files import (
    CONFIG_VARIABLE,
    PROJECT_FILE,
    PROJECT_TABLE_FILE,
    ConfigFile,
    Problem,
    ProblemCode,
    SettingsProblems,
    read_config,
    user_config_file,
)
from memtui.settings.keys import (
    LONGEST_SHOWN,
    PROFILES,
    RANKING,
    Leaf,
    binding_id,
    is_table,
    key_of,
    known_keys,
    leaf_of,
    leaves,
    name_problem,
    names_beside,
    nearest,
    nearest_profile,
    nested,
    profile_key,
    profile_of,
    shown_name,
    value_of,
)
from memtui.settings.schema import BUILT_IN, Settings
from memtui.settings.shown import KEY_VARIABLE, masked_text, shown_value
from memtui.settings.storage import StateFolder
from memtui.settings.toml import toml_key

ENV_PREFIX: Final = "MEMTUI_"
MOST_HINTS: Final = 50
RESERVED_VARIABLES: Final = frozenset({"MEMTUI_ROOT", CONFIG_VARIABLE})
"""Variables that are not settings."""
EVERY_KEY: Final = "`memtui config show` lists every key"
PROJECT_PREFIX: Final = ("tool", "memtui")
TRUST_FILE: Final = "trusted.json"
LOCAL_PROVIDERS: Final = frozenset(
    {"auto", "none", "minilm", "use-multilingual", "wordllama", "gguf"}
)
"""Providers that send nothing anywhere."""
SOURCES_KEY: Final = "transcripts.sources"
SOURCES_ARE: Final = (
    "each must be openclaw, openclaw:AGENT, claude-code, claude-code:PROJECT or codex; files and "
    "folders belong to transcripts.paths"
)

_KEEPS_A_KEY: Final = re.compile(r"(?i)^embedding\..*(key|token|secret|password)")
_SWITCHES: Final = dict.fromkeys(("on", "yes", "y", "t"), True) | dict.fromkeys(
    ("off", "no", "n", "f"), False
)
_BOUND: Final = re.compile(r"Expected `\w+` (of length )?([<>]=?) (\S+)")
_BOUNDS: Final = {
    ">=": "greater than or equal to",
    "<=": "less than or equal to",
    ">": "greater than",
    "<": "less than",
}
_WRONG_TYPE: Final = re.compile(r"Expected `([^`]+)`, got .*")
_TYPES: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
}


# --- what a project's file may not decide before its owner is trusted -----------------------------


def _always(value: Any) -> bool:
    return True


def _is_remote(provider: str) -> bool:
    return provider not in LOCAL_PROVIDERS


def _leaves_folder(paths: Iterable[str]) -> bool:
    """Whether one of the paths leads out of the folder that it is given in."""
    return any(
        path.startswith(("~", "$", "/", "\\"))
        or bool(PureWindowsPath(path).drive)
        or ".." in PurePosixPath(path.replace("\\", "/")).parts
        for path in paths
    )


PROTECTED: Final[Mapping[str, Callable[[Any], bool]]] = {
    "editor": _always,
    "pager": _always,
    "embedding.provider": _is_remote,
    "embedding.fallback": _is_remote,
    "embedding.allow_remote": bool,
    "embedding.base_url": _always,
    "embedding.key_env": _always,
    "embedding.key_command": _always,
    "embedding.model_path": _always,
    "embedding.ca_file": _always,
    "embedding.batch": bool,
    "index.data_dir": _always,
    "memory.extra_paths": _leaves_folder,
    "transcripts.sources": bool,
    "transcripts.paths": _leaves_folder,
}
"""The closed set of keys that run commands, reach other machines, or read or write elsewhere,
each with the test of which values do."""


def protected_keys(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys whose values need trust, in the order of `PROTECTED`."""
    return tuple(key for key, needs in PROTECTED.items() if key in values and needs(values[key]))


def is_trusted(file: ConfigFile, state: StateFolder) -> bool:
    """Whether exactly this content of this file was trusted."""
    return _trusted(state).get(os.path.realpath(file.path)) == file.sha256


def trust(file: ConfigFile, state: StateFolder) -> None:
    """Remember the file's content as trusted; raises OSError when the state cannot be written."""
    trusted = _trusted(state) | {os.path.realpath(file.path): file.sha256}
    state.write_json(TRUST_FILE, trusted)


def revoke(path: Path, state: StateFolder) -> bool:
    """Forget that a file was trusted; `False` when it was not."""
    trusted = _trusted(state)
    if trusted.pop(os.path.realpath(path), None) is None:
        return False
    state.write_json(TRUST_FILE, trusted)
    return True


def _trusted(state: StateFolder) -> dict[str, str]:
    value = state.read_json(TRUST_FILE)
    if not isinstance(value, dict):
        return {}
    return {key: digest for key, digest in value.items() if isinstance(digest, str)}


# --- layers ---------------------------------------------------------------------------------------


class Source(StrEnum):
    """Where a value comes from, weakest first."""

    DEFAULT = "default"
    USER = "user"
    PROJECT = "project"
    ENVIRONMENT = "environment"
    FLAG = "flag"


STRENGTH: Final = (Source.FLAG, Source.ENVIRONMENT, Source.PROJECT, Source.USER)
"""The sources that give values, strongest first."""


class Flag(NamedTuple):
    """A value given on the command line, with the name of its option."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Layer:
    """The values of one source, checked, by dotted key."""

    source: Source
    values: Mapping[str, Any]
    places: Mapping[str, str]

    def place(self, key: str) -> str:
        """`file:line`, `$VARIABLE` or the flag that set a key of this layer."""
        return self.places.get(key, "")

    @property
    def profiles(self) -> tuple[str, ...]:
        """The names of the own profiles that it defines, in their order."""
        owned = (profile_of(key) for key in self.values)
        return tuple(dict.fromkeys(within[0] for within in owned if within is not None))


def file_layer(source: Source, file: ConfigFile) -> tuple[Layer, list[Problem]]:
    """The values of a file; unknown keys and wrong values are problems and left out."""
    problems: list[Problem] = []
    raw: dict[str, Any] = {}
    places: dict[str, str] = {}

    def take(key: str, value: Any, path: tuple[str, ...]) -> None:
        raw[key], places[key] = value, file.place(path)

    def wrong(key: str, message: str, path: tuple[str, ...]) -> None:
        problems.append(Problem(ProblemCode.WRONG_VALUE, file.place(path), key, message))

    def walk(table: Mapping[str, Any], path: tuple[str, ...]) -> None:
        for name, value in table.items():
            here = (*path, name)
            key = key_of(here)
            if path == (PROFILES,):
                start_profile(name, value)
            elif leaf_of(key) is not None:
                take(key, value, here)
            elif not is_table(key):
                problems.append(_unknown_key(file.place(here), key, len(problems)))
            elif isinstance(value, dict):
                walk(value, here)
            else:
                wrong(key, f"must be a table [{key}]", here)

    def start_profile(name: str, value: Any) -> None:
        """Take one own profile; a table without any key is a profile, too."""
        path = (PROFILES, name)
        table = toml_key((PROFILES, name[:LONGEST_SHOWN]))
        why = name_problem(name) if isinstance(value, dict) else f"must be a table [{table}]"
        if why:
            wrong(table, why, path)
        else:
            take(profile_key(name, "profile"), BUILT_IN[0], path)
            walk(value, path)

    walk(file.table, ())
    return _checked(source, raw, places, problems, strict=True)


def _unknown_key(place: str, key: str, before: int) -> Problem:
    """The problem of a key that does not exist, with the nearest that does.

    After `before` = `MOST_HINTS` other problems no nearest key is looked for: a file with
    thousands of unknown keys is of another program, and must not hold up the start.
    """
    near = nearest(key, names_beside(key)) if before < MOST_HINTS else None
    hint = f"did you mean {near}?" if near else EVERY_KEY
    if _KEEPS_A_KEY.search(key):
        hint = "no key is kept here: embedding.key_env or embedding.key_command says where it is"
    return Problem(
        ProblemCode.UNKNOWN_KEY, place, masked_text(key), "no such key", hint, fatal=False
    )


def environment_layer(env: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    """The values of `MEMTUI_*` variables; `__` goes one table down, an empty value sets nothing."""
    problems: list[Problem] = []
    raw: dict[str, Any] = {}
    places: dict[str, str] = {}
    for variable in sorted(env):
        text, place = env[variable], f"${variable}"
        if not variable.startswith(ENV_PREFIX) or variable in RESERVED_VARIABLES or not text:
            continue
        key = ".".join(variable.removeprefix(ENV_PREFIX).lower().split("__"))
        if key not in known_keys():
            near = nearest(key, known_keys())
            hint = f"did you mean ${variable_of(near)}?" if near else EVERY_KEY
            code, message = ProblemCode.UNKNOWN_KEY, "no such setting"
            problems.append(Problem(code, place, "", message, hint, fatal=False))
            continue
        places[key] = place
        try:
            raw[key] = _parse_list(text) if key in leaves() and leaves()[key].many else text
        except (ValueError, RecursionError):
            message = "must be a JSON array or words separated by commas"
            problems.append(Problem(ProblemCode.WRONG_VALUE, place, key, message))
    return _checked(Source.ENVIRONMENT, raw, places, problems, strict=False)


def variable_of(key: str) -> str:
    """The environment variable of a dotted key."""
    return ENV_PREFIX + key.upper().replace(".", "__")


def _parse_list(text: str) -> list[Any]:
    if not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    value: list[Any] = json.loads(text)
    return value


def flag_layer(flags: Mapping[str, Any]) -> tuple[Layer, list[Problem]]:
    """The values of flags by dotted key; a value may be a `Flag` that names its option."""
    given = {
        key: value if isinstance(value, Flag) else Flag("", value) for key, value in flags.items()
    }
    raw = {key: flag.value for key, flag in given.items() if flag.value is not None}
    places = {key: flag.name for key, flag in given.items()}
    return _checked(Source.FLAG, raw, places, [], strict=False)


def _checked(
    source: Source,
    raw: Mapping[str, Any],
    places: Mapping[str, str],
    problems: list[Problem],
    *,
    strict: bool,
) -> tuple[Layer, list[Problem]]:
    """Check the values of a layer one by one, so that each problem names its key.

    Without `strict` texts may stand for numbers.
    """
    values: dict[str, Any] = {}
    for key, given in raw.items():
        leaf, value = leaf_of(key), given
        assert leaf is not None
        try:
            if isinstance(value, str):
                # An environment may have bytes that are no UTF-8.
                value.encode()
                if not strict:
                    value = value.strip()
                    value = _SWITCHES.get(value.lower(), value) if leaf.is_switch else value
            is_unset = leaf.optional and given == ""
            values[key] = None if is_unset else convert(value, leaf.type, strict=strict)
        except (ValueError, RecursionError) as error:
            message, hint = _explained(leaf, given, error)
            problems.append(Problem(ProblemCode.WRONG_VALUE, places[key], key, message, hint))
    return Layer(source, values, places), problems


def _explained(leaf: Leaf, value: Any, error: Exception) -> tuple[str, str]:
    """What a value must be instead, in one line, and what to do."""
    within = profile_of(leaf.key)
    if within is not None and within[1] == "profile" and isinstance(value, str):
        message = f"no built-in profile {value[:80]!r}: own profiles do not start from one another"
        return message, nearest_profile(value, BUILT_IN)
    if leaf.key == KEY_VARIABLE:
        # Whoever gives no name of a variable may have given the key itself.
        return "must be the name of an environment variable, not the key", ""
    message = str(error).partition(" - at ")[0]
    if leaf.key == SOURCES_KEY and "regex" in message:
        return SOURCES_ARE, ""
    if isinstance(error, UnicodeEncodeError):
        message = "must be Unicode"
    elif not isinstance(error, ValidationError):
        return f"cannot be used: {type(error).__name__}", ""
    elif bound := _BOUND.fullmatch(message):
        number = f"{float(bound[3]):.15g}"
        message = f"must be {_BOUNDS[bound[2]]} {number}"
        if bound[1]:
            most = "at most" if "<" in bound[2] else "at least"
            message = f"must have {most} {number} characters"
    elif "regex" in message:
        message = "must be an address that starts with http:// or https://, or a plain name"
    elif leaf.choices and isinstance(value, str):
        message = f"must be one of {', '.join(leaf.choices)}"
    elif wrong := _WRONG_TYPE.fullmatch(message):
        names = [name for name in wrong[1].split(" | ") if name != "null"]
        message = f"must be {' or '.join(_TYPES.get(name, name) for name in names)}"
    if isinstance(value, str):
        value = shown_value(leaf.key, value)
    shown = repr(value) if isinstance(value, str | int | float | bool) else type(value).__name__
    return f"{message}, not {shown[:80]}", ""


# --- the settings in force ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Given:
    """A value that a source gave for a key, and where."""

    source: Source
    place: str
    value: Any


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the value of a key comes from, and what it took the place of."""

    key: str
    value: Any
    given: tuple[Given, ...] = ()
    """What the sources gave, strongest first; empty for a default."""

    @property
    def source(self) -> Source:
        """The source of the value."""
        return self.given[0].source if self.given else Source.DEFAULT

    @property
    def place(self) -> str:
        """`file:line`, `$VARIABLE` or the flag; empty for a default."""
        return self.given[0].place if self.given else ""

    @property
    def overrode(self) -> tuple[Given, ...]:
        """The values that were given too and did not win."""
        return self.given[1:]


@dataclass(frozen=True)
class Loaded:
    """The settings in force, the origin of each, and what was ignored on the way."""

    settings: Settings
    warnings: tuple[str, ...]
    user_file: Path
    project_file: Path | None
    """The project's file, if there is one, trusted or not."""
    layers: tuple[Layer, ...] = ()
    """What each source gave, strongest first."""

    @cached_property
    def origins(self) -> Mapping[str, Origin]:
        """Return the origin of each value by dotted key, only for who shows it.

        There is one for every key of the schema, and for every binding and key of a profile that
        is set. A profile is one value: the strongest file that defines it gives all of its keys.
        """
        bound = {
            key for layer in self.layers for key in layer.values if binding_id(key) is not None
        }
        profiles: dict[str, list[str]] = {}
        for layer in reversed(self.layers):
            profiles |= {name: [] for name in layer.profiles}
            for key in layer.values:
                if (within := profile_of(key)) is not None:
                    profiles[within[0]].append(key)
        origins: dict[str, Origin] = {}
        for key in (
            *leaves(),
            *sorted(bound),
            *(key for keys in profiles.values() for key in keys),
        ):
            given = tuple(
                Given(layer.source, layer.place(key), layer.values[key])
                for layer in self.layers
                if key in layer.values
            )
            origins[key] = Origin(key, value_of(self.settings, key), given)
        return origins


@dataclass(frozen=True, slots=True)
class Gathered:
    """The layers, strongest first, and everything that is wrong with them."""

    layers: tuple[Layer, ...]
    problems: tuple[Problem, ...]
    user_file: Path
    project: ConfigFile | None
    user: ConfigFile | None = None
    """The user's file, if it can be read."""


def load_settings(
    *,
    flags: Mapping[str, Any] | None = None,
    env: Mapping[str, str],
    root: Path | None = None,
    state: StateFolder | None = None,
) -> Loaded:
    """Load the settings for a workspace: flag > environment > project > user > default.

    `flags` maps dotted keys to values or `Flag`s; `None` values are not set. Raises
    `SettingsProblems` for anything but unknown keys and untrusted values, which are warnings.
    """
    return settle(gather(flags=flags or {}, env=env, root=root, state=state))


def settle(gathered: Gathered) -> Loaded:
    """What the sources come to; raises `SettingsProblems` as `load_settings` does."""
    settings, contradictions = merge(gathered.layers)
    problems = (*gathered.problems, *contradictions)
    fatal = [problem for problem in problems if problem.fatal]
    if fatal or settings is None:
        raise SettingsProblems(fatal)
    return Loaded(
        settings,
        tuple(str(problem) for problem in problems),
        gathered.user_file,
        gathered.project.path if gathered.project is not None else None,
        gathered.layers,
    )


def check_settings(
    *, env: Mapping[str, str], root: Path | None = None, state: StateFolder | None = None
) -> tuple[Problem, ...]:
    """Everything that is wrong with the configuration; never raises for its content."""
    gathered = gather(flags={}, env=env, root=root, state=state)
    return (*gathered.problems, *merge(gathered.layers)[1])


def gather(
    *,
    flags: Mapping[str, Any],
    env: Mapping[str, str],
    root: Path | None,
    state: StateFolder | None,
) -> Gathered:
    """Read every source; what cannot be used is left out and listed."""
    problems: list[Problem] = []
    user_file = user_config_file(env)
    user = _collect(read_config(user_file), problems)
    if user is None and env.get(CONFIG_VARIABLE) and not problems:
        problems.append(
            Problem(ProblemCode.UNREADABLE, f"${CONFIG_VARIABLE}", "", f"no such file: {user_file}")
        )
    project = project_file(root, problems)
    layers = [flag_layer(flags), environment_layer(env)]
    if project is not None:
        layers.append(_project_layer(project, state or StateFolder()))
    if user is not None:
        layers.append(file_layer(Source.USER, user))
    for _, of_layer in layers:
        problems += of_layer
    return Gathered(tuple(layer for layer, _ in layers), tuple(problems), user_file, project, user)


def project_file(root: Path | None, problems: list[Problem]) -> ConfigFile | None:
    """The workspace's own configuration: `.memtui.toml`, else `[tool.memtui]` of pyproject.toml."""
    if root is None:
        return None
    own = _collect(read_config(root / PROJECT_FILE), problems)
    shared = _collect(read_config(root / PROJECT_TABLE_FILE, PROJECT_PREFIX), problems)
    if own is not None and shared is not None:
        place, message = str(shared.path), f"not read, because {own.path.name} is there too"
        code = ProblemCode.SHADOWED_FILE
        problems.append(Problem(code, place, "tool.memtui", message, fatal=False))
    return own or shared


def _collect(found: ConfigFile | Problem | None, problems: list[Problem]) -> ConfigFile | None:
    if isinstance(found, Problem):
        problems.append(found)
        return None
    return found


def _project_layer(file: ConfigFile, state: StateFolder) -> tuple[Layer, list[Problem]]:
    layer, problems = file_layer(Source.PROJECT, file)
    withheld = () if is_trusted(file, state) else protected_keys(layer.values)
    message = "ignored: a project file may not set it until you trust the file"
    for key in withheld:
        place, hint = layer.place(key), "memtui trust"
        problems.append(Problem(ProblemCode.PROTECTED, place, key, message, hint, fatal=False))
    values = {key: value for key, value in layer.values.items() if key not in withheld}
    return replace(layer, values=values), problems


def merge(layers: Sequence[Layer]) -> tuple[Settings | None, list[Problem]]:
    """The settings of layers given strongest first, and where they contradict one another."""
    merged: dict[str, Any] = {}
    for layer in reversed(layers):
        anew = set(layer.profiles)
        merged = {
            key: value
            for key, value in merged.items()
            if (within := profile_of(key)) is None or within[0] not in anew
        }
        merged.update(layer.values)
    try:
        settings = Settings.parse(nested(merged))
    except ValidationError as error:
        return None, [Problem(ProblemCode.WRONG_VALUE, "", "", str(error))]
    return settings, list(_contradictions(settings, layers))


def _contradictions(settings: Settings, layers: Sequence[Layer]) -> Iterator[Problem]:
    def problem(keys: Sequence[str], message: str) -> Problem:
        """A contradiction, at the strongest of the keys that are part of it."""
        for layer in layers:
            for key in keys:
                if key in layer.values:
                    return Problem(ProblemCode.CONTRADICTION, layer.place(key), key, message)
        return Problem(ProblemCode.CONTRADICTION, "", keys[0], message)

    tokens, overlap = settings.chunking.tokens, settings.chunking.overlap
    if overlap >= tokens:
        yield problem(
            ("chunking.overlap", "chunking.tokens"),
            f"chunking.overlap ({overlap}) must be below tokens ({tokens})",
        )
    tables = {RANKING: settings.ranking} | {
        toml_key((PROFILES, name)): profile for name, profile in settings.profiles.items()
    }
    for table, ranking in tables.items():
        if (ranking.vector_weight, ranking.keyword_weight) == (0.0, 0.0):
            keys = (f"{table}.vector_weight", f"{table}.keyword_weight")
            yield problem(keys, "vector_weight and keyword_weight must not both be 0")
    key = f"{RANKING}.profile"
    names = (*BUILT_IN, *settings.profiles)
    for layer in layers:
        name = layer.values.get(key)
        if name is not None and name not in names:
            message = f"no such profile: {shown_name(name)}"
            hint = nearest_profile(name, names)
            yield Problem(ProblemCode.WRONG_VALUE, layer.place(key), key, message, hint)


@dataclass(frozen=True, slots=True)
class SettingsFiles:
    """Where settings come from, read anew at every call, and the files that may be written."""

    env: Mapping[str, str]
    root: Path | None = None
    """The workspace whose own file counts; `None`: the user's file alone."""
    flags: Mapping[str, Any] = field(default_factory=dict)
    state: StateFolder | None = None

    @property
    def sources(self) -> tuple[Source, ...]:
        """The files that can be written."""
        return (Source.USER,) if self.root is None else (Source.USER, Source.PROJECT)

    def gather(self) -> Gathered:
        """Read every source; raises `SettingsProblems` for what cannot be used."""
        found = gather(flags=self.flags, env=self.env, root=self.root, state=self.state)
        settle(found)
        return found

    def load(self) -> Loaded:
        """The settings in force; raises `SettingsProblems`."""
        return settle(self.gather())
