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

from memtui.errors import SettingsError
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
"""After so many problems of a file no nearest key is looked for: it is of another program."""
RESERVED_VARIABLES: Final = frozenset({"MEMTUI_ROOT", CONFIG_VARIABLE})
"""Variables that are not settings."""
EVERY_KEY: Final = "`memtui config show` lists every key"
TRUST_FILE: Final = "trusted.json"
LOCAL_PROVIDERS: Final = frozenset(
    {"auto", "none", "minilm", "use-multilingual", "wordllama", "gguf"}
)
"""Providers that send nothing anywhere."""
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


def _is_remote(provider: str) -> bool:
    return provider not in LOCAL_PROVIDERS


def _leaves_folder(paths: Iterable[str]) -> bool:
    return any(
        path.startswith(("~", "$", "/", "\\"))
        or bool(PureWindowsPath(path).drive)
        or ".." in PurePosixPath(path.replace("\\", "/")).parts
        for path in paths
    )


PROTECTED: Final[Mapping[str, Callable[[Any], bool] | None]] = {
    "editor": None,
    "pager": None,
    "embedding.provider": _is_remote,
    "embedding.fallback": _is_remote,
    "embedding.allow_remote": bool,
    "embedding.base_url": None,
    "embedding.key_env": None,
    "embedding.key_command": None,
    "embedding.model_path": None,
    "embedding.ca_file": None,
    "embedding.batch": bool,
    "index.data_dir": None,
    "memory.extra_paths": _leaves_folder,
    "transcripts.sources": bool,
    "transcripts.paths": _leaves_folder,
}
"""The closed set of keys that run commands, reach other machines, or read or write elsewhere,
each with the test of which values do; without one all do."""


def protected_keys(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys whose values need trust, in the order of `PROTECTED`."""
    return tuple(
        key
        for key, needs in PROTECTED.items()
        if key in values and (needs is None or needs(values[key]))
    )


def is_trusted(file: ConfigFile, state: StateFolder) -> bool:
    """Whether exactly this content of this file was trusted."""
    return _trusted(state).get(os.path.realpath(file.path)) == file.sha256


def trust(file: ConfigFile, state: StateFolder) -> None:
    """Remember the file's content as trusted; raises OSError when the state cannot be written."""
    state.write_json(TRUST_FILE, _trusted(state) | {os.path.realpath(file.path): file.sha256})


def revoke(path: Path, state: StateFolder) -> None:
    """Forget that a file was trusted; raises OSError when the state cannot be written."""
    trusted = _trusted(state)
    if trusted.pop(os.path.realpath(path), None) is not None:
        state.write_json(TRUST_FILE, trusted)


def _trusted(state: StateFolder) -> dict[str, Any]:
    value = state.read_json(TRUST_FILE)
    return value if isinstance(value, dict) else {}


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
    values: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)

    def place(self, key: str) -> str:
        """`file:line`, `$VARIABLE` or the flag that set a key of this layer."""
        return self.places.get(key, "")

    @property
    def profiles(self) -> Mapping[str, Mapping[str, Any]]:
        """The own profiles that it defines, in their order, each with its keys."""
        profiles: dict[str, dict[str, Any]] = {}
        for key, value in self.values.items():
            if (within := profile_of(key)) is not None:
                profiles.setdefault(within[0], {})[within[1]] = value
        return profiles


def file_layer(source: Source, file: ConfigFile) -> tuple[Layer, list[Problem]]:
    """The values of a file; unknown keys and wrong values are problems and left out."""
    problems: list[Problem] = []
    raw: dict[str, Any] = {}
    places: dict[str, str] = {}

    def wrong(key: str, message: str, path: tuple[str, ...]) -> None:
        problems.append(Problem(ProblemCode.WRONG_VALUE, file.place(path), key, message))

    def walk(table: Mapping[str, Any], path: tuple[str, ...]) -> None:
        for name, value in table.items():
            here = (*path, name)
            key = key_of(here)
            if path == (PROFILES,):
                start_profile(name, value, here)
            elif leaf_of(key) is not None:
                raw[key], places[key] = value, file.place(here)
            elif not is_table(key):
                problems.append(_unknown_key(file.place(here), key, len(problems)))
            elif isinstance(value, dict):
                walk(value, here)
            else:
                wrong(key, f"must be a table [{key}]", here)

    def start_profile(name: str, value: Any, path: tuple[str, ...]) -> None:
        table = toml_key((PROFILES, name[:LONGEST_SHOWN]))
        why = name_problem(name) if isinstance(value, dict) else f"must be a table [{table}]"
        if why:
            wrong(table, why, path)
            return
        # A table without any key is a profile, too.
        key = profile_key(name, "profile")
        raw[key], places[key] = BUILT_IN[0], file.place(path)
        walk(value, path)

    walk(file.table, ())
    return _checked(source, raw, places, problems, strict=True)


def _unknown_key(place: str, key: str, before: int) -> Problem:
    near = nearest(key, names_beside(key)) if before < MOST_HINTS else None
    hint = f"did you mean {near}?" if near else EVERY_KEY
    if _KEEPS_A_KEY.search(key):
        hint = "no key is kept here: embedding.key_env or embedding.key_command says where it is"
    code, key = ProblemCode.UNKNOWN_KEY, masked_text(key)
    return Problem(code, place, key, "no such key", hint, fatal=False)


def environment_layer(env: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    """The values of `MEMTUI_*` variables; `__` goes one table down, an empty value sets nothing."""
    problems: list[Problem] = []
    raw: dict[str, Any] = {}
    places: dict[str, str] = {}
    for variable in sorted(env):
        text, place = env[variable], f"${variable}"
        if not variable.startswith(ENV_PREFIX) or variable in RESERVED_VARIABLES or not text:
            continue
        key = variable.removeprefix(ENV_PREFIX).lower().replace("__", ".")
        if key not in known_keys():
            near = nearest(key, known_keys())
            hint = f"did you mean ${variable_of(near)}?" if near else EVERY_KEY
            code, message = ProblemCode.UNKNOWN_KEY, "no such setting"
            problems.append(Problem(code, place, "", message, hint, fatal=False))
            continue
        raw[key], places[key] = text, place
        if key in leaves() and leaves()[key].many:
            words = [part.strip() for part in text.split(",") if part.strip()]
            try:
                raw[key] = json.loads(text) if text.lstrip().startswith("[") else words
            except (ValueError, RecursionError):
                message = "must be a JSON array or words separated by commas"
                problems.append(Problem(ProblemCode.WRONG_VALUE, place, key, message))
                del raw[key]
    return _checked(Source.ENVIRONMENT, raw, places, problems, strict=False)


def variable_of(key: str) -> str:
    """The environment variable of a dotted key."""
    return ENV_PREFIX + key.upper().replace(".", "__")


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
    if leaf.key == "transcripts.sources" and "regex" in message:
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


class Given(NamedTuple):
    """A value that a source gave for a key, and where."""

    source: Source
    place: str
    """`file:line`, `$VARIABLE` or the flag; empty for a default."""
    value: Any


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the value of a key comes from, and what it took the place of."""

    key: str
    value: Any
    given: Given
    overrode: tuple[Given, ...]
    """The values that were given too and did not win, strongest first."""


@dataclass(frozen=True)
class Loaded:
    """The settings in force, where they come from, and what is wrong with them."""

    settings: Settings = field(default_factory=Settings)
    layers: tuple[Layer, ...] = ()
    """What each source gave, strongest first."""
    problems: tuple[Problem, ...] = ()
    user_file: Path = Path()
    user: ConfigFile | None = None
    """The user's file, if it is there and can be read."""
    project: ConfigFile | None = None
    """The project's file, if there is one, trusted or not."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The problems, one line each."""
        return tuple(map(str, self.problems))

    def layer(self, source: Source) -> Layer:
        """What a source gave."""
        return next((one for one in self.layers if one.source is source), Layer(source))

    def file(self, source: Source, root: Path | None) -> ConfigFile:
        """The file of a source to write in: of a folder `.memtui.toml`, unless it has another.

        Raises `SettingsError` where there is no folder.
        """
        if source is Source.USER:
            return self.user or ConfigFile(self.user_file)
        if root is None:
            raise SettingsError("there is no workspace to write settings in")
        return self.project or ConfigFile(root / PROJECT_FILE)

    @cached_property
    def origins(self) -> Mapping[str, Origin]:
        """The origin of each value by dotted key, only for who shows it.

        There is one for every key of the schema, and for every binding and key of a profile that
        is set. A profile is one value: the strongest file that defines it gives all of its keys.
        """
        bound = {key for one in self.layers for key in one.values if binding_id(key) is not None}
        profiles = {
            name: keys for one in reversed(self.layers) for name, keys in one.profiles.items()
        }
        of_profiles = (profile_key(name, key) for name, keys in profiles.items() for key in keys)
        origins: dict[str, Origin] = {}
        for key in (*leaves(), *sorted(bound), *of_profiles):
            value = value_of(self.settings, key)
            given = [
                Given(layer.source, layer.place(key), layer.values[key])
                for layer in self.layers
                if key in layer.values
            ] or [Given(Source.DEFAULT, "", value)]
            origins[key] = Origin(key, value, given[0], tuple(given[1:]))
        return origins


@dataclass(frozen=True, slots=True)
class SettingsFiles:
    """Where settings come from, read anew at every call, and the files that may be written."""

    env: Mapping[str, str]
    root: Path | None = None
    """The workspace whose own file counts; `None`: the user's file alone."""
    flags: Mapping[str, Any] = field(default_factory=dict)
    """Values or `Flag`s by dotted key; `None` sets nothing."""
    state: StateFolder | None = None

    @property
    def sources(self) -> tuple[Source, ...]:
        """The files that can be written."""
        return (Source.USER,) if self.root is None else (Source.USER, Source.PROJECT)

    def load(self) -> Loaded:
        """The settings: flag > environment > project > user > default.

        Raises `SettingsProblems` for anything but unknown keys and untrusted values, which are
        warnings.
        """
        loaded = self.read()
        if fatal := [problem for problem in loaded.problems if problem.fatal]:
            raise SettingsProblems(fatal)
        return loaded

    def read(self) -> Loaded:
        """The same without raising for what files hold: what cannot be used is left out."""
        problems: list[Problem] = []
        user_file = user_config_file(self.env)
        user = _read(user_file, (), problems)
        if user is None and self.env.get(CONFIG_VARIABLE) and not problems:
            place, message = f"${CONFIG_VARIABLE}", f"no such file: {user_file}"
            problems.append(Problem(ProblemCode.UNREADABLE, place, "", message))
        project = project_file(self.root, problems)
        layers = [flag_layer(self.flags), environment_layer(self.env)]
        if project is not None:
            layer, wrong = file_layer(Source.PROJECT, project)
            is_free = is_trusted(project, self.state or StateFolder())
            withheld = () if is_free else protected_keys(layer.values)
            message = "ignored: a project file may not set it until you trust the file"
            code, hint = ProblemCode.PROTECTED, "memtui trust"
            for key in withheld:
                wrong.append(Problem(code, layer.place(key), key, message, hint, fatal=False))
            values = {key: value for key, value in layer.values.items() if key not in withheld}
            layers.append((replace(layer, values=values), wrong))
        if user is not None:
            layers.append(file_layer(Source.USER, user))
        for _, of_layer in layers:
            problems += of_layer
        given = tuple(layer for layer, _ in layers)
        settings, contradictions = merge(given)
        problems += contradictions
        return Loaded(settings, given, tuple(problems), user_file, user, project)


def load_settings(
    *,
    flags: Mapping[str, Any] | None = None,
    env: Mapping[str, str],
    root: Path | None = None,
    state: StateFolder | None = None,
) -> Loaded:
    """Load the settings for a workspace, as `SettingsFiles.load` does."""
    return SettingsFiles(env, root, flags or {}, state).load()


def project_file(root: Path | None, problems: list[Problem]) -> ConfigFile | None:
    """The workspace's own configuration: `.memtui.toml`, else `[tool.memtui]` of pyproject.toml."""
    if root is None:
        return None
    own = _read(root / PROJECT_FILE, (), problems)
    shared = _read(root / PROJECT_TABLE_FILE, ("tool", "memtui"), problems)
    if own is not None and shared is not None:
        place, message = str(shared.path), f"not read, because {own.path.name} is there too"
        code = ProblemCode.SHADOWED_FILE
        problems.append(Problem(code, place, "tool.memtui", message, fatal=False))
    return own or shared


def _read(path: Path, prefix: tuple[str, ...], problems: list[Problem]) -> ConfigFile | None:
    file = read_config(path, prefix)
    if isinstance(file, Problem):
        problems.append(file)
        return None
    return file


def merge(layers: Sequence[Layer]) -> tuple[Settings, list[Problem]]:
    """The settings of layers given strongest first, and where they contradict one another.

    Where they cannot be put together at all the defaults hold.
    """
    merged: dict[str, Any] = {}
    for layer in reversed(layers):
        if anew := layer.profiles:
            merged = {
                key: value
                for key, value in merged.items()
                if (within := profile_of(key)) is None or within[0] not in anew
            }
        merged.update(layer.values)
    try:
        settings = Settings.parse(nested(merged))
    except ValidationError as error:
        return Settings(), [Problem(ProblemCode.WRONG_VALUE, "", "", str(error))]
    return settings, list(_contradictions(settings, layers))


def _contradictions(settings: Settings, layers: Sequence[Layer]) -> Iterator[Problem]:
    def problem(keys: Sequence[str], message: str) -> Problem:
        """A contradiction, at the strongest of the keys that are part of it."""
        given = ((layer.place(k), k) for layer in layers for k in keys if k in layer.values)
        place, key = next(given, ("", keys[0]))
        return Problem(ProblemCode.CONTRADICTION, place, key, message)

    tokens, overlap = settings.chunking.tokens, settings.chunking.overlap
    if overlap >= tokens:
        message = f"chunking.overlap ({overlap}) must be below tokens ({tokens})"
        yield problem(("chunking.overlap", "chunking.tokens"), message)
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
