"""Loading the settings: files, environment and flags, each checked by itself, then merged."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

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
    PROFILE_START,
    PROFILES,
    RANKING,
    Leaf,
    binding_id,
    known_keys,
    leaf_of,
    leaves,
    name_problem,
    nearest,
    nearest_profile,
    nested,
    profile_key,
    protected_keys,
    shown_name,
    tables,
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
NO_KEY_HERE: Final = (
    "no key is kept here: embedding.key_env or embedding.key_command says where it is"
)
TRUST_FILE: Final = "trusted.json"
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


# --- the files of projects that are trusted -------------------------------------------------------


def is_trusted(file: ConfigFile, state: StateFolder) -> bool:
    """Tell whether exactly this content of this file was trusted."""
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


class Given(NamedTuple):
    """A value that a source gave for a key, and where."""

    source: Source
    place: str
    """`file:line`, `$VARIABLE` or the flag; empty for a default."""
    value: Any


class Layer(Struct, frozen=True):
    """The values of one source, checked, by dotted key."""

    source: Source
    values: Mapping[str, Any] = {}
    places: Mapping[str, str] = {}
    """Of the keys of profiles, too, as `profile_key` names them."""
    profiles: Mapping[str, Mapping[str, Any]] = {}
    """The own profiles that it defines, in their order, each with its keys."""

    def place(self, key: str) -> str:
        """Return `file:line`, `$VARIABLE` or the flag that set a key of this layer."""
        return self.places.get(key, "")

    def every_value(self) -> dict[str, Any]:
        """Return the values with those of profiles among them."""
        of_profiles = {
            profile_key(name, key): value
            for name, keys in self.profiles.items()
            for key, value in keys.items()
        }
        return {**self.values, **of_profiles}


def file_layer(source: Source, file: ConfigFile) -> tuple[Layer, list[Problem]]:
    """Return the values of a file; unknown keys and wrong values are problems and left out."""
    problems: list[Problem] = []
    rows: list[_Row] = []

    def wrong(key: str, message: str, path: tuple[str, ...]) -> None:
        problems.append(Problem(ProblemCode.WRONG_VALUE, file.place(path), key, message))

    def walk(table: Mapping[str, Any], path: tuple[str, ...], profile: str) -> None:
        """Read a table; one below a profile has the keys of `[ranking]`."""
        for name, value in table.items():
            here = (*path, name)
            if path == (PROFILES,):
                start_profile(name, value, here)
                continue
            key = setting = ".".join(here)
            if profile:
                within = ".".join(here[2:])
                key, setting = profile_key(profile, within), f"{RANKING}.{within}"
            is_start = profile and setting == f"{RANKING}.profile"
            leaf = PROFILE_START if is_start else leaf_of(setting)
            if leaf is not None:
                rows.append(_Row(key, leaf, file.place(here), value, profile))
            elif setting != PROFILES and not any(
                one.startswith(f"{setting}.") for one in known_keys()
            ):
                unknown(key, profile, file.place(here))
            elif isinstance(value, dict):
                walk(value, here, profile)
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
        rows.append(_Row(key, PROFILE_START, file.place(path), BUILT_IN[0], name))
        walk(value, path, name)

    def unknown(key: str, profile: str, place: str) -> None:
        near = None
        if len(problems) < MOST_HINTS:
            names = known_keys() | tables()
            if profile:
                rankings = (one.partition(".") for one in leaves() if one.startswith(f"{RANKING}."))
                names = frozenset(profile_key(profile, within) for _, _, within in rankings)
            near = nearest(key, names)
        hint = f"did you mean {near}?" if near else EVERY_KEY
        hint = NO_KEY_HERE if _KEEPS_A_KEY.search(key) else hint
        code, message = ProblemCode.UNKNOWN_KEY, "no such key"
        problems.append(Problem(code, place, masked_text(key), message, hint, fatal=False))

    walk(file.table, (), "")
    layer, wrong_values = _checked(source, rows, strict=True)
    return layer, [*problems, *wrong_values]


def environment_layer(env: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    """Return the values of `MEMTUI_*` variables; `__` goes one table down, empty sets nothing."""
    problems: list[Problem] = []
    rows: list[_Row] = []
    for variable in sorted(env):
        text, place = env[variable], f"${variable}"
        if not variable.startswith(ENV_PREFIX) or variable in RESERVED_VARIABLES or not text:
            continue
        key = variable.removeprefix(ENV_PREFIX).lower().replace("__", ".")
        leaf = leaf_of(key)
        if leaf is None:
            near = nearest(key, known_keys())
            hint = f"did you mean ${variable_of(near)}?" if near else EVERY_KEY
            code, message = ProblemCode.UNKNOWN_KEY, "no such setting"
            problems.append(Problem(code, place, "", message, hint, fatal=False))
            continue
        value: Any = text
        if isinstance(leaf.default, tuple):
            value = [part.strip() for part in text.split(",") if part.strip()]
            try:
                value = json.loads(text) if text.lstrip().startswith("[") else value
            except (ValueError, RecursionError):
                message = "must be a JSON array or words separated by commas"
                problems.append(Problem(ProblemCode.WRONG_VALUE, place, key, message))
                continue
        rows.append(_Row(key, leaf, place, value))
    layer, wrong_values = _checked(Source.ENVIRONMENT, rows)
    return layer, [*problems, *wrong_values]


def variable_of(key: str) -> str:
    """Return the environment variable of a dotted key."""
    return ENV_PREFIX + key.upper().replace(".", "__")


def flag_layer(flags: Mapping[str, Any]) -> tuple[Layer, list[Problem]]:
    """Return the values of flags by dotted key; a value may be a `Flag` that names its option."""
    rows = []
    for key, value in flags.items():
        flag, leaf = value if isinstance(value, Flag) else Flag("", value), leaf_of(key)
        assert leaf is not None
        if flag.value is not None:
            rows.append(_Row(key, leaf, flag.name, flag.value))
    return _checked(Source.FLAG, rows)


class _Row(NamedTuple):
    """A value as a source has it."""

    key: str
    leaf: Leaf
    place: str
    value: Any
    profile: str = ""
    """The own profile that it belongs to."""


def _checked(
    source: Source, rows: Sequence[_Row], *, strict: bool = False
) -> tuple[Layer, list[Problem]]:
    """Check the values of a layer one by one, so that each problem names its key.

    Without `strict` texts may stand for numbers. The last row of a key counts.
    """
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    profiles: dict[str, dict[str, Any]] = {row.profile: {} for row in rows if row.profile}
    last = {row.key: row for row in rows}
    for key, leaf, place, given, profile in last.values():
        value = given
        try:
            if isinstance(value, str):
                # An environment may have bytes that are no UTF-8.
                value.encode()
                if not strict:
                    value = value.strip()
                    value = _SWITCHES.get(value.lower(), value) if leaf.is_switch else value
            is_unset = leaf.optional and given == ""
            value = None if is_unset else convert(value, leaf.type, strict=strict)
        except (ValueError, RecursionError) as error:
            message, hint = _explained(leaf, given, error)
            problems.append(Problem(ProblemCode.WRONG_VALUE, place, key, message, hint))
            continue
        if profile:
            profiles[profile][key.removeprefix(profile_key(profile, ""))] = value
        else:
            values[key] = value
    places = {key: row.place for key, row in last.items()}
    return Layer(source, values, places, profiles), problems


def _explained(leaf: Leaf, value: Any, error: Exception) -> tuple[str, str]:
    """Return what a value must be instead, in one line, and what to do."""
    if leaf is PROFILE_START and isinstance(value, str):
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


class Loaded(Struct, frozen=True, dict=True):
    """The settings in force, where they come from, and what is wrong with them."""

    settings: Settings = Settings()
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
        """Return what a source gave."""
        return next((one for one in self.layers if one.source is source), Layer(source))

    def file(self, source: Source, root: Path | None) -> ConfigFile:
        """Return the file of a source to write in: `.memtui.toml` of a folder without another.

        Raises `SettingsError` where there is no folder.
        """
        if source is Source.USER:
            return self.user or ConfigFile(self.user_file)
        if root is None:
            raise SettingsError("there is no workspace to write settings in")
        return self.project or ConfigFile(root / PROJECT_FILE)

    @cached_property
    def origins(self) -> Mapping[str, tuple[Given, ...]]:
        """What was given for each dotted key, strongest first: the first is in force.

        There is one for every key of the schema, and for every binding and key of a profile that
        is set. A profile is one value: the strongest file that defines it gives all of its keys.
        """
        values = [(layer, layer.every_value()) for layer in self.layers]
        bound = {key for layer in self.layers for key in layer.values if binding_id(key)}
        profiles = {
            name: keys for one in reversed(self.layers) for name, keys in one.profiles.items()
        }
        of_profiles = (profile_key(name, key) for name, keys in profiles.items() for key in keys)
        origins: dict[str, tuple[Given, ...]] = {}
        for key in (*leaves(), *sorted(bound), *of_profiles):
            given = [
                Given(layer.source, layer.place(key), of_layer[key])
                for layer, of_layer in values
                if key in of_layer
            ]
            origins[key] = tuple(given or [Given(Source.DEFAULT, "", leaves()[key].default)])
        return origins


class SettingsFiles(Struct, frozen=True):
    """Where settings come from, read anew at every call, and the files that may be written."""

    env: Mapping[str, str]
    root: Path | None = None
    """The workspace whose own file counts; `None`: the user's file alone."""
    flags: Mapping[str, Any] = {}
    """Values or `Flag`s by dotted key; `None` sets nothing."""
    state: StateFolder | None = None

    def load(self) -> Loaded:
        """Return the settings: flag > environment > project > user > default.

        Raises `SettingsProblems` for anything but unknown keys and untrusted values, which are
        warnings.
        """
        loaded = self.read()
        if fatal := [problem for problem in loaded.problems if problem.fatal]:
            raise SettingsProblems(fatal)
        return loaded

    def read(self) -> Loaded:
        """Do the same without raising for what files hold: what cannot be used is left out."""
        problems: list[Problem] = []
        user_file, user = user_config_file(self.env), None
        try:
            user = read_config(user_file)
            if user is None and self.env.get(CONFIG_VARIABLE):
                place, message = f"${CONFIG_VARIABLE}", f"no such file: {user_file}"
                problems.append(Problem(ProblemCode.UNREADABLE, place, "", message))
        except SettingsProblems as error:
            problems += error.problems
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
    """Read the workspace's own configuration: `.memtui.toml`, else that of its pyproject.toml."""
    files = []
    for name, prefix in ((PROJECT_FILE, ()), (PROJECT_TABLE_FILE, ("tool", "memtui"))):
        try:
            file = None if root is None else read_config(root / name, prefix)
        except SettingsProblems as error:
            problems += error.problems
        else:
            files += [] if file is None else [file]
    if len(files) > 1:
        place, message = str(files[1].path), f"not read, because {PROJECT_FILE} is there too"
        code = ProblemCode.SHADOWED_FILE
        problems.append(Problem(code, place, "tool.memtui", message, fatal=False))
    return files[0] if files else None


def merge(layers: Sequence[Layer]) -> tuple[Settings, list[Problem]]:
    """Return the settings of layers, strongest first, and where they contradict one another."""
    values: dict[str, Any] = {}
    profiles: dict[str, Any] = {}
    for layer in reversed(layers):
        values |= layer.values
        # One that is defined again comes after the others.
        anew = {name: nested(keys) for name, keys in layer.profiles.items()}
        profiles = {name: one for name, one in profiles.items() if name not in anew} | anew
    settings = convert({**nested(values), PROFILES: profiles}, Settings)
    problems: list[Problem] = []

    def contradict(keys: Sequence[str], message: str) -> None:
        """Tell of a contradiction at the strongest of the keys that are part of it."""
        given = ((layer.place(k), k) for layer in layers for k in keys if k in layer.every_value())
        place, key = next(given, ("", keys[0]))
        problems.append(Problem(ProblemCode.CONTRADICTION, place, key, message))

    tokens, overlap = settings.chunking.tokens, settings.chunking.overlap
    if overlap >= tokens:
        message = f"chunking.overlap ({overlap}) must be below tokens ({tokens})"
        contradict(("chunking.overlap", "chunking.tokens"), message)
    rankings = {RANKING: settings.ranking} | {
        toml_key((PROFILES, name)): profile for name, profile in settings.profiles.items()
    }
    for table, ranking in rankings.items():
        if (ranking.vector_weight, ranking.keyword_weight) == (0.0, 0.0):
            both = (f"{table}.vector_weight", f"{table}.keyword_weight")
            contradict(both, "vector_weight and keyword_weight must not both be 0")
    key = f"{RANKING}.profile"
    names = (*BUILT_IN, *settings.profiles)
    for layer in layers:
        name = layer.values.get(key)
        if name is not None and name not in names:
            message, hint = f"no such profile: {shown_name(name)}", nearest_profile(name, names)
            code = ProblemCode.WRONG_VALUE
            problems.append(Problem(code, layer.place(key), key, message, hint))
    return settings, problems
