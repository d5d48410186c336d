"""The places that values come from: files, environment and flags, each checked by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from memtui.settings.files import ConfigFile
from memtui.settings.keys import ACTION_IDS
from memtui.settings.leaves import (
    KEYMAP_PRESET,
    PROFILES,
    RANKING,
    binding_id,
    known_keys,
    leaf_of,
    leaves,
    nested,
    path_of,
    profile_key,
    profile_of,
    tables,
    value_of,
)
from memtui.settings.limits import ValidationError
from memtui.settings.places import CONFIG_VARIABLE
from memtui.settings.problems import Problem, ProblemCode, nearest
from memtui.settings.profile_names import LONGEST_SHOWN, name_problem, nearest_profile
from memtui.settings.schema import BUILT_IN, Settings
from memtui.settings.transcripts import SOURCES_ARE, SOURCES_KEY

ENV_PREFIX: Final = "MEMTUI_"
MOST_HINTS: Final = 50
RESERVED_VARIABLES: Final = frozenset({"MEMTUI_ROOT", CONFIG_VARIABLE})
"""Variables that are not settings."""

_KEY_VARIABLE: Final = "embedding.key_env"
_KEEPS_A_KEY: Final = re.compile(r"(?i)^embedding\..*(key|token|secret|password)")


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
    place: Callable[[str], str]
    """Where a key of this layer was set."""

    @property
    def profiles(self) -> tuple[str, ...]:
        """The names of the own profiles that it defines, in their order."""
        owned = (profile_of(key) for key in self.values)
        return tuple(dict.fromkeys(within[0] for within in owned if within is not None))


def file_layer(source: Source, file: ConfigFile) -> tuple[Layer, list[Problem]]:
    """The values of a file; unknown keys and wrong values are problems and left out."""
    problems: list[Problem] = []
    raw: dict[str, Any] = {}
    paths: dict[str, tuple[str, ...]] = {}
    _flatten(file, file.table, (), raw, paths, problems)

    def place(key: str) -> str:
        return file.place(paths.get(key, path_of(key)))

    return _checked(source, raw, place, problems, strict=True)


def _flatten(
    file: ConfigFile,
    table: Mapping[str, Any],
    path: tuple[str, ...],
    raw: dict[str, Any],
    paths: dict[str, tuple[str, ...]],
    problems: list[Problem],
) -> None:
    for name, value in table.items():
        here = (*path, name)
        key = ".".join(here)
        if path == (PROFILES,):
            _flatten_profile(file, name, value, raw, paths, problems)
            continue
        if key in leaves():
            raw[key], paths[key] = value, here
        elif key in tables() and isinstance(value, dict):
            _flatten(file, value, here, raw, paths, problems)
        elif key in tables():
            problems.append(
                Problem(ProblemCode.WRONG_VALUE, file.place(here), key, f"must be a table [{key}]")
            )
        elif isinstance(value, dict) and _leads_to_binding(key):
            _flatten(file, value, here, raw, paths, problems)
        elif binding_id(key) in ACTION_IDS:
            raw[key], paths[key] = value, here
        else:
            problems.append(unknown_key(file.place(here), key, before=len(problems)))


def _flatten_profile(
    file: ConfigFile,
    name: str,
    value: Any,
    raw: dict[str, Any],
    paths: dict[str, tuple[str, ...]],
    problems: list[Problem],
) -> None:
    """The keys of one own profile; a table without any is a profile, too."""
    here = (PROFILES, name)
    table = profile_key(name[:LONGEST_SHOWN], "").removesuffix(".")
    wrong = name_problem(name) if isinstance(value, dict) else f"must be a table [{table}]"
    if wrong:
        problems.append(Problem(ProblemCode.WRONG_VALUE, file.place(here), table, wrong))
        return
    start = profile_key(name, "profile")
    raw[start], paths[start] = "memtui", here

    def walk(inner: Mapping[str, Any], steps: tuple[str, ...]) -> None:
        for part, held in inner.items():
            below = ".".join((*steps, part))
            key, model = profile_key(name, below), f"{RANKING}.{below}"
            if model in leaves():
                raw[key], paths[key] = held, (*here, *steps, part)
            elif model in tables() and isinstance(held, dict):
                walk(held, (*steps, part))
            elif model in tables():
                place = file.place((*here, *steps, part))
                message = f"must be a table [{key}]"
                problems.append(Problem(ProblemCode.WRONG_VALUE, place, key, message))
            else:
                known = [profile_key(name, k.partition(".")[2]) for k in leaves() if _ranks(k)]
                at = file.place((*here, *steps, part))
                problems.append(unknown_key(at, key, known, before=len(problems)))

    walk(value, ())


def _ranks(key: str) -> bool:
    return key.startswith(f"{RANKING}.")


def _leads_to_binding(key: str) -> bool:
    """Whether a table holds bindings because its ids have dots, as in `[keymap.query]`."""
    table = binding_id(key)
    return table is not None and any(id_.startswith(f"{table}.") for id_ in ACTION_IDS)


def unknown_key(
    place: str, key: str, known: Iterable[str] | None = None, *, before: int = 0
) -> Problem:
    """The problem of a key that does not exist, with the nearest that does.

    After `before` = `MOST_HINTS` other problems no nearest key is looked for: a file with
    thousands of unknown keys is of another program, and must not hold up the start.
    """
    from memtui.settings.shown import masked_text

    near = None
    if before < MOST_HINTS:
        near = nearest(key, known_keys() | tables() - {""} if known is None else known)
    hint = f"did you mean {near}?" if near else "`memtui config show` lists every key"
    if _KEEPS_A_KEY.search(key):
        hint = "no key is kept here: embedding.key_env or embedding.key_command says where it is"
    return Problem(
        ProblemCode.UNKNOWN_KEY, place, masked_text(key), "no such key", hint, fatal=False
    )


def environment_layer(env: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    """The values of `MEMTUI_*` variables; `__` goes one table down, an empty value sets nothing."""
    problems: list[Problem] = []
    raw: dict[str, Any] = {}
    variables: dict[str, str] = {}
    for variable in sorted(env):
        text = env[variable]
        if not variable.startswith(ENV_PREFIX) or variable in RESERVED_VARIABLES or not text:
            continue
        key = ".".join(variable.removeprefix(ENV_PREFIX).lower().split("__"))
        if key not in known_keys():
            problems.append(_unknown_variable(variable, key))
            continue
        variables[key] = f"${variable}"
        try:
            raw[key] = _parse_list(text) if key in leaves() and leaves()[key].many else text
        except ValueError as error:
            problems.append(Problem(ProblemCode.WRONG_VALUE, f"${variable}", key, str(error)))
    return _checked(
        Source.ENVIRONMENT, raw, lambda key: variables.get(key, ""), problems, strict=False
    )


def variable_of(key: str) -> str:
    """The environment variable of a dotted key."""
    return ENV_PREFIX + key.upper().replace(".", "__")


def _unknown_variable(variable: str, key: str) -> Problem:
    near = nearest(key, known_keys())
    hint = f"did you mean ${variable_of(near)}?" if near else "`memtui config show` lists every key"
    return Problem(
        ProblemCode.UNKNOWN_KEY, f"${variable}", "", "no such setting", hint, fatal=False
    )


def _parse_list(text: str) -> list[Any]:
    if not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("must be a JSON array or words separated by commas") from error
    assert isinstance(value, list)
    return value


def flag_layer(flags: Mapping[str, Any]) -> tuple[Layer, list[Problem]]:
    """The values of flags by dotted key; a value may be a `Flag` that names its option."""
    given = {
        key: value if isinstance(value, Flag) else Flag("", value) for key, value in flags.items()
    }
    return _checked(
        Source.FLAG,
        {key: flag.value for key, flag in given.items() if flag.value is not None},
        lambda key: given[key].name if key in given else "",
        [],
        strict=False,
    )


def _checked(
    source: Source,
    raw: Mapping[str, Any],
    place: Callable[[str], str],
    problems: list[Problem],
    *,
    strict: bool,
) -> tuple[Layer, list[Problem]]:
    """Validate the values of a layer one by one, so that each problem names its key."""
    values: dict[str, Any] = {}
    for key, value in raw.items():
        leaf = leaf_of(key)
        if leaf is not None and leaf.optional and value == "":
            values[key] = None
            continue
        if (wrong := _wrong_start(key, value)) is not None:
            problems.append(Problem(ProblemCode.WRONG_VALUE, place(key), key, *wrong))
            continue
        try:
            checked = Settings.model_validate(
                nested({key: value}), strict=None if strict else False
            )
        except (ValueError, OverflowError, RecursionError) as error:
            problems.append(
                Problem(ProblemCode.WRONG_VALUE, place(key), key, _explained(error, key, value))
            )
            continue
        values[key] = value_of(checked, key)
    return Layer(source, values, place), problems


def _wrong_start(key: str, value: Any) -> tuple[str, str] | None:
    """What is wrong with the built-in profile that an own one names, and what to do."""
    within = profile_of(key)
    if within is None or within[1] != "profile" or not isinstance(value, str) or value in BUILT_IN:
        return None
    message = f"no built-in profile {value[:80]!r}: own profiles do not start from one another"
    return message, nearest_profile(value, BUILT_IN)


def _explained(error: Exception, key: str, value: Any) -> str:
    """What a value must be instead, in one line."""
    if not isinstance(error, ValidationError):
        return f"cannot be used: {type(error).__name__}"
    message = error.message.replace("Input should be", "must be")
    if key == SOURCES_KEY and error.kind == "string_pattern_mismatch":
        return SOURCES_ARE
    if error.kind == "string_pattern_mismatch":
        message = "must be an address that starts with http:// or https://, or a plain name"
    if key == _KEY_VARIABLE:
        # Whoever gives no name of a variable may have given the key itself.
        return "must be the name of an environment variable, not the key"
    if isinstance(value, str):
        from memtui.settings.shown import shown_value

        value = shown_value(key, value)
    shown = repr(value) if isinstance(value, str | int | float | bool) else type(value).__name__
    return f"{message}, not {shown[:80]}"


def is_binding(key: str) -> bool:
    """Whether a key is an entry of `[keymap]` other than the preset."""
    return key != KEYMAP_PRESET and binding_id(key) is not None
