"""Loading the settings: files, environment and options, each checked by itself, then merged."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from msgspec import Meta, Struct, convert, field

from memtui.errors import SettingsError
from memtui.ranking.profiles import PROFILES as BUILT_IN
from memtui.settings.files import (
    CONFIG_VARIABLE,
    PROJECT_FILE,
    PROJECT_TABLE_FILE,
    ConfigFile,
    Problem,
    SettingsProblems,
    StateFolder,
    read_config,
    user_config_file,
)
from memtui.settings.schema import (
    KEYMAP,
    PROFILES,
    RANKING,
    Leaf,
    MemorySettings,
    ProfileName,
    Settings,
    key_of,
    known_keys,
    leaves,
    name_problem,
    nearest,
    nearest_profile,
    nested,
    path_of,
    profile_key,
    protected_keys,
    shown_name,
    tables,
)
from memtui.settings.shown import masked_text

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
REDACTION: Final = "transcripts.redaction"
IGNORE: Final = "memory.ignore"

_START_RULE: Final = (
    f"be built in, own profiles do not start from one another: {', '.join(BUILT_IN)}"
)
_PROFILE_START: Final = Leaf(
    "profile", Annotated[ProfileName, Meta(description=_START_RULE)], "memtui"
)
"""The built-in profile that an own one starts from; its other keys are those of `[ranking]`."""
_KEEPS_A_KEY: Final = re.compile(r"(?i)^embedding\..*(key|token|secret|password)")
_SWITCHES: Final = dict.fromkeys(("on", "yes", "y", "t"), True) | dict.fromkeys(
    ("off", "no", "n", "f"), False
)


def is_trusted(file: ConfigFile, state: StateFolder) -> bool:
    """Tell whether exactly this content of this file was trusted."""
    return _trusted(state).get(os.path.realpath(file.path)) == file.sha256


def trust(file: ConfigFile, state: StateFolder, *, revoke: bool = False) -> None:
    """Remember the file's content as trusted, or that none is; raises OSError."""
    path, trusted = os.path.realpath(file.path), _trusted(state)
    if not revoke:
        state.write_json(TRUST_FILE, trusted | {path: file.sha256})
    elif trusted.pop(path, None) is not None:
        state.write_json(TRUST_FILE, trusted)


def _trusted(state: StateFolder) -> dict[str, Any]:
    value = state.read_json(TRUST_FILE)
    return value if isinstance(value, dict) else {}


class Source(StrEnum):
    """The source of a value, weakest first."""

    DEFAULT = "default"
    USER = "user"
    PROJECT = "project"
    ENVIRONMENT = "environment"
    FLAG = "flag"


STRENGTH: Final = (Source.FLAG, Source.ENVIRONMENT, Source.PROJECT, Source.USER)
"""The sources that give values, strongest first."""


class Given(NamedTuple):
    """A value that a source gave for a key, and where."""

    source: Source
    place: str
    """`file:line`, `$VARIABLE` or the option; empty for a default."""
    value: Any


Layer: TypeAlias = Mapping[str, Given]
"""The values of one source, checked, by dotted key; `profile_key` names those of profiles."""
Row: TypeAlias = tuple[str, Leaf, Given]
"""A value that a source gave for a key, not checked yet."""


def values_in(layer: Layer) -> dict[str, Any]:
    """Return the values of a layer, by dotted key."""
    return {key: entry.value for key, entry in layer.items()}


def file_layer(source: Source, file: ConfigFile) -> tuple[Layer, list[Problem]]:
    """Return the values of a file; unknown keys and wrong values are problems and left out."""
    hints = iter(range(MOST_HINTS))

    def rows_in(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[Row | Problem]:
        """Read a table; one below a profile has the keys of `[ranking]`."""
        in_profile = path[:1] == (PROFILES,)
        for name, value in table.items():
            here = (*path, name)
            key, place = key_of(here), file.place(here)
            setting = ".".join((RANKING, *here[2:]) if in_profile else here)
            is_start = in_profile and setting == f"{RANKING}.profile"
            if leaf := _PROFILE_START if is_start else known_keys().get(setting):
                yield key, leaf, Given(source, place, value)
            elif setting not in tables():
                names = {*known_keys(), *tables()} if next(hints, None) is not None else set()
                near = nearest(setting, (k for k in names if not in_profile or RANKING in k))
                if near and in_profile:
                    near = near.replace(RANKING, key_of(here[:2]), 1)
                hint = f"did you mean {near}?" if near else EVERY_KEY
                hint = NO_KEY_HERE if _KEEPS_A_KEY.search(key) else hint
                yield Problem("unknown_key", place, masked_text(key), "no such key", hint)
            elif not isinstance(value, dict):
                yield Problem("wrong_value", place, key, f"must be a table [{key}]")
            elif path == (PROFILES,) and (why := name_problem(name)):
                yield Problem("wrong_value", place, key, why)
            else:
                if path == (PROFILES,):
                    # A table without any key is a profile, too.
                    start = Given(source, place, _PROFILE_START.default)
                    yield profile_key(name), _PROFILE_START, start
                yield from rows_in(value, here)

    return _checked(rows_in(file.table, ()), strict=True)


def environment_layer(env: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    """Return the values of `MEMTUI_*` variables; `__` goes one table down, empty sets nothing."""

    def rows() -> Iterator[Row | Problem]:
        for variable, text in sorted(env.items()):
            place, key = f"${variable}", variable.removeprefix(ENV_PREFIX)
            if key == variable or variable in RESERVED_VARIABLES or not text:
                continue
            key = key.lower().replace("__", ".")
            value: Any = text
            leaf = known_keys().get(key)
            if leaf is None:
                near = (nearest(key, known_keys()) or "").upper().replace(".", "__")
                hint = f"did you mean ${ENV_PREFIX}{near}?" if near else EVERY_KEY
                yield Problem("unknown_key", place, "", "no such setting", hint)
                continue
            if leaf.is_list:
                value = [part.strip() for part in text.split(",") if part.strip()]
                try:
                    value = json.loads(text) if text.lstrip().startswith("[") else value
                except (ValueError, RecursionError):
                    message = "must be a JSON array or words separated by commas"
                    yield Problem("wrong_value", place, key, message)
                    continue
            yield key, leaf, Given(Source.ENVIRONMENT, place, value)

    return _checked(rows())


def option_layer(options: Mapping[str, Any]) -> tuple[Layer, list[Problem]]:
    """Return the values of options by dotted key; a `Given` names its option."""
    return _checked(
        (key, known_keys()[key], one if isinstance(one, Given) else Given(Source.FLAG, "", one))
        for key, one in options.items()
    )


def _checked(rows: Iterable[Row | Problem], *, strict: bool = False) -> tuple[Layer, list[Problem]]:
    """Check a layer key by key, the last row counts; texts stand for numbers unless `strict`."""
    problems: list[Problem] = []
    layer: dict[str, Given] = {}
    for row in rows:
        if isinstance(row, Problem):
            problems.append(row)
            continue
        key, leaf, entry = row
        value = entry.value
        if isinstance(value, str) and not strict:
            value = value.strip()
            value = _SWITCHES.get(value.lower(), value) if bool in leaf.parts else value
        # An empty text unsets what need not be set.
        value = None if entry.value == "" and type(None) in leaf.parts else value
        try:
            layer[key] = entry._replace(value=leaf.check(value, strict=strict))
        except ValueError as error:
            problems.append(Problem("wrong_value", entry.place, key, str(error)))
    return layer, problems


class Loaded(Struct, frozen=True, dict=True):
    """The settings in force, where they come from, and what is wrong with them."""

    settings: Settings = Settings()
    layers: Mapping[Source, Layer] = field(default_factory=lambda: {one: {} for one in STRENGTH})
    """The values of each source, strongest first."""
    problems: tuple[Problem, ...] = ()
    user: ConfigFile = ConfigFile(Path())
    """The user's file, a new one where it is not there or cannot be read."""
    project: ConfigFile | None = None
    """The project's file, if there is one, trusted or not."""
    root: Path | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """The problems, one line each."""
        return tuple(map(str, self.problems))

    def file(self, source: Source) -> ConfigFile:
        """Return the file of a source to write in; raises `SettingsError` without a workspace."""
        if source is Source.USER:
            return self.user
        if self.root is None:
            raise SettingsError("there is no workspace to write settings in")
        return self.project or ConfigFile(self.root / PROJECT_FILE)

    @cached_property
    def origins(self) -> Mapping[str, tuple[Given, ...]]:
        """The values given for each dotted key, strongest first: the first is in force.

        There is one for every key of the schema, and for every binding and key of a profile that
        is set. A profile is one value: the strongest file that defines it gives all of its keys.
        """
        others = [key for key in in_force(self.layers) if key not in leaves()]
        # Bindings by name, then the profiles in their order.
        others.sort(key=lambda key: key if key.startswith(KEYMAP) else PROFILES)
        origins: dict[str, tuple[Given, ...]] = {}
        for key in (*leaves(), *others):
            entries = [layer[key] for layer in self.layers.values() if key in layer]
            origins[key] = tuple(entries or [Given(Source.DEFAULT, "", leaves()[key].default)])
        return origins


class SettingsFiles(Struct, frozen=True):
    """The sources of settings, read anew at every call, and the files that may be written."""

    env: Mapping[str, str]
    root: Path | None = None
    """The workspace whose own file counts; `None`: the user's file alone."""
    flags: Mapping[str, Any] = {}
    """Values by dotted key; a `Given` says of which option."""
    state: StateFolder | None = None

    def load(self) -> Loaded:
        """Return the settings: flag > environment > project > user > default.

        Raises `SettingsProblems` for anything but unknown keys and untrusted values.
        """
        loaded = self.read()
        if fatal := [problem for problem in loaded.problems if problem.fatal]:
            raise SettingsProblems(fatal)
        return loaded

    def read(self) -> Loaded:
        """Do the same without raising for what files hold: what cannot be used is left out."""
        problems: list[Problem] = []
        path = user_config_file(self.env)
        user = _read(path, (), problems) or ConfigFile(path)
        if user.is_new and not problems and self.env.get(CONFIG_VARIABLE):
            place, message = f"${CONFIG_VARIABLE}", f"no such file: {path}"
            problems.append(Problem("unreadable", place, "", message))
        project = project_file(self.root, problems)
        read = {
            Source.FLAG: option_layer(self.flags),
            Source.ENVIRONMENT: environment_layer(self.env),
            Source.PROJECT: file_layer(Source.PROJECT, project or ConfigFile(Path())),
            Source.USER: file_layer(Source.USER, user),
        }
        problems += [problem for _, wrong in read.values() for problem in wrong]
        layers = {source: layer for source, (layer, _) in read.items()}
        if self.root and project and not is_trusted(project, self.state or StateFolder()):
            trusted = dict(layers[Source.PROJECT])
            wrong = {
                problem.key: f"; it would be wrong then: {problem.message}"
                for problem in merge(layers)[1]
            }
            for key in protected_keys(values_in(trusted), self.root):
                place, hint = trusted.pop(key).place, "`memtui trust`"
                message = "ignored: a project file may not set it until you trust the file"
                problems.append(
                    Problem("protected", place, key, message + wrong.get(key, ""), hint)
                )
            layers[Source.PROJECT] = trusted
            if (more := trusted.get(IGNORE)) is not None:
                # It leaves out more, and nothing of what the user leaves out is read again.
                own = values_in(layers[Source.USER]).get(IGNORE, MemorySettings().ignore)
                trusted[IGNORE] = more._replace(value=(*dict.fromkeys((*own, *more.value)),))
            chosen = {layer[REDACTION].value for layer in layers.values() if REDACTION in layer}
            profiles = [
                entry
                for key, entry in trusted.items()
                if key == f"{RANKING}.profile" or key.startswith(f"{PROFILES}.")
            ]
            if profiles and chosen <= {"auto"}:
                # What is masked would follow the profile.
                trusted[REDACTION] = profiles[-1]._replace(value="wide")
        settings, contradictions = merge(layers)
        every = (*problems, *contradictions)
        return Loaded(settings, layers, every, user, project, self.root)


def project_file(root: Path | None, problems: list[Problem]) -> ConfigFile | None:
    """Read the workspace's own configuration: `.memtui.toml`, else that of its pyproject.toml."""
    places = {PROJECT_FILE: (), PROJECT_TABLE_FILE: ("tool", "memtui")} if root else {}
    read = [_read(Path(root or "", name), prefix, problems) for name, prefix in places.items()]
    files = [file for file in read if file is not None]
    if len(files) > 1:
        place, message = str(files[1].path), f"not read, because {PROJECT_FILE} is there too"
        problems.append(Problem("shadowed_file", place, "tool.memtui", message))
    return files[0] if files else None


def _read(path: Path, prefix: tuple[str, ...], problems: list[Problem]) -> ConfigFile | None:
    try:
        return read_config(path, prefix)
    except SettingsProblems as error:
        problems += error.problems
        return None


def in_force(layers: Mapping[Source, Layer]) -> Layer:
    """Merge layers, strongest first; a profile that is defined again comes after the others."""
    merged: dict[str, Given] = {}
    for layer in reversed([*layers.values()]):
        anew = {path_of(key)[:2] for key in layer if key.startswith(f"{PROFILES}.")}
        merged = {key: merged[key] for key in merged if path_of(key)[:2] not in anew} | {**layer}
    return merged


def merge(layers: Mapping[Source, Layer]) -> tuple[Settings, list[Problem]]:
    """Return the settings of layers, strongest first, and where they contradict one another."""
    settings = convert(nested(values_in(in_force(layers))), Settings)
    embedding = settings.embedding
    contradictions: dict[tuple[str, ...], str] = dict(embedding.unmet(embedding.provider))
    tokens, overlap = settings.chunking.tokens, settings.chunking.overlap
    if overlap >= tokens:
        message = f"chunking.overlap ({overlap}) must be below tokens ({tokens})"
        contradictions["chunking.overlap", "chunking.tokens"] = message
    rankings = {RANKING: settings.ranking} | {
        key_of((PROFILES, name)): profile for name, profile in settings.profiles.items()
    }
    for table, ranking in rankings.items():
        if (ranking.vector_weight, ranking.keyword_weight) == (0.0, 0.0):
            both = (f"{table}.vector_weight", f"{table}.keyword_weight")
            contradictions[both] = "the two weights must not both be 0"
    problems: list[Problem] = []
    for keys, message in contradictions.items():
        # It is told of the strongest of the keys.
        places = ((layer[k].place, k) for layer in layers.values() for k in keys if k in layer)
        problems.append(Problem("contradiction", *next(places), message))
    key, names = f"{RANKING}.profile", (*BUILT_IN, *settings.profiles)
    for _, place, name in [layer[key] for layer in layers.values() if key in layer]:
        if name not in names:
            message, hint = f"no such profile: {shown_name(name)}", nearest_profile(name, names)
            problems.append(Problem("wrong_value", place, key, message, hint))
    return settings, problems
