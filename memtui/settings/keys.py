"""The keys of the configuration, read off the schema: types, trust, sample, rankings as keys."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import EnumMeta
from functools import cache, reduce
from operator import attrgetter, getitem
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final, Literal, get_args, get_origin

from msgspec import Meta, Struct
from msgspec.structs import fields, replace

from memtui.data import read_table
from memtui.model import Ranking
from memtui.settings.actions import ACTION_IDS, ACTIONS
from memtui.settings.schema import BUILT_IN, ProfileName, RankingSettings, Settings, Table
from memtui.settings.toml import toml_key, toml_value

KEYMAP: Final = "keymap"
PROFILES: Final = "profiles"
RANKING: Final = "ranking"
NAME_RULE: Final = "a-z, 0-9, `.`, `_` and `-`, first a letter or digit, at most 64"
LONGEST_SHOWN: Final = 80
LOCAL_PROVIDERS: Final = frozenset(
    {"auto", "none", "minilm", "use-multilingual", "wordllama", "gguf"}
)
"""Providers that send nothing anywhere."""
NO_MINIMUM: Final = "off"
WEIGHTS: Final = ("vector_weight", "keyword_weight")
_PROFILE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class Leaf(Struct, frozen=True):
    """A key that holds a value: its dotted name, its attribute in `Settings`, what it takes."""

    key: str
    attribute: str
    type: Any
    default: Any

    @property
    def optional(self) -> bool:
        """Whether it can be unset; an empty string in a file unsets it."""
        return type(None) in _parts(self.type)

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return bool in _parts(self.type)

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it takes, where it takes no others."""
        for part in _parts(self.type):
            if get_origin(part) is Literal:
                return get_args(part)
            if isinstance(part, EnumMeta):
                return tuple(part)
        return ()

    def clamp(self, value: float) -> float:
        """Return the number of its range that is nearest."""
        for meta in _parts(self.type):
            if isinstance(meta, Meta):
                value = value if meta.ge is None else max(value, meta.ge)
                value = value if meta.le is None else min(value, meta.le)
        return value


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield an annotation and everything that it is made of."""
    yield annotation
    if get_origin(annotation) is not Literal:
        for part in get_args(annotation):
            yield from _parts(part)


@cache
def leaves() -> Mapping[str, Leaf]:
    """Return every key by its dotted name, but for bindings and the own profiles."""

    def below(table: type[Table], names: str, attributes: str) -> Iterator[Leaf]:
        for info in fields(table):
            name, attribute = f"{names}{info.encode_name}", f"{attributes}{info.name}"
            if isinstance(info.default, Table):
                yield from below(type(info.default), f"{name}.", f"{attribute}.")
            elif attribute not in {f"{KEYMAP}.bindings", PROFILES}:
                yield Leaf(name, attribute, info.type, info.default)

    return {leaf.key: leaf for leaf in below(Settings, "", "")}


@cache
def known_keys() -> frozenset[str]:
    """Return every key that may be set, bindings included."""
    return frozenset(leaves()) | {f"{KEYMAP}.{id_}" for id_ in ACTION_IDS}


@cache
def tables() -> frozenset[str]:
    """Return the dotted names of the tables."""
    parts = [key.split(".") for key in leaves()]
    return frozenset(".".join(one[:n]) for one in parts for n in range(1, len(one))) | {PROFILES}


def binding_id(key: str) -> str | None:
    """Return the action id of a binding key, `None` for any other key."""
    table, _, action = key.partition(".")
    return action if table == KEYMAP and action not in {"", "preset"} else None


def leaf_of(key: str) -> Leaf | None:
    """Return the leaf of a key outside of `[profiles]`; `None` where no value belongs."""
    if binding_id(key) is None:
        return leaves().get(key)
    return Leaf(key, "", str, "") if key in known_keys() else None


PROFILE_START: Final = Leaf("profile", "profile", ProfileName, BUILT_IN[0])
"""The built-in profile that an own one starts from; its other keys are those of `[ranking]`."""


def profile_key(name: str, key: str) -> str:
    """Return the dotted name of a key of an own profile: `profiles.fast.k`.

    A name with a dot is quoted, as in the file: `profiles."fast.2".k`.
    """
    return f"{toml_key((PROFILES, name))}.{key}"


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted key as the nested mapping that `Settings` is made of."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        action = binding_id(key)
        *path, name = key.split(".") if action is None else (KEYMAP, "bindings", action)
        reduce(lambda table, part: table.setdefault(part, {}), path, result)[name] = value
    return result


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the known word most like `word`, or `None` when nothing is like it."""
    candidates = sorted(names)
    close = difflib.get_close_matches(word[:200], candidates, n=1, cutoff=0.6)
    if close:
        return close[0]
    last = word[:200].rsplit(".", 1)[-1]
    by_last = {name.rsplit(".", 1)[-1]: name for name in reversed(candidates)}
    close = difflib.get_close_matches(last, by_last, n=1, cutoff=0.75)
    return by_last[close[0]] if close else None


def shown_name(name: str) -> str:
    """Return a profile's name to print: cut where it is too long, quotes for an empty one."""
    return name[:LONGEST_SHOWN] or '""'


def name_problem(name: str) -> str:
    """Return why an own profile cannot have this name; empty when it can."""
    if name in BUILT_IN:
        return "is built in: an own profile needs another name"
    return "" if _PROFILE_NAME.fullmatch(name) else f"cannot be a profile's name: {NAME_RULE}"


def nearest_profile(name: str, choices: Iterable[str]) -> str:
    """Return what to try instead of a name that is not known, as a phrase."""
    names = tuple(choices)
    near = nearest(name, names)
    return f"did you mean {near}?" if near else f"one of {', '.join(names)}"


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
    """Return the keys whose values need trust, in the order of `PROTECTED`."""
    return tuple(
        key
        for key, needs in PROTECTED.items()
        if key in values and (needs is None or needs(values[key]))
    )


# --- the sample -----------------------------------------------------------------------------------


def sample_config() -> str:
    """Return a TOML document with every key as a comment: explanation, then `# key = default`."""
    descriptions = read_table("settings.toml")
    words = descriptions["sample"]
    parts = [words["header"]]
    table = ""
    for leaf in leaves().values():
        section, _, name = leaf.key.rpartition(".")
        if section != table:
            if table.startswith(RANKING) and not section.startswith(RANKING):
                parts.append(words["own_profile"])
            table = section
            parts.append(f"\n[{section}]\n{words['ranking'] if section == RANKING else ''}")
        parts.append(f"\n# {reduce(getitem, leaf.key.split('.'), descriptions)}\n")
        if leaf.key in PROTECTED:
            parts.append(f"# {words['needs_trust'].get(leaf.key, words['needs_trust']['any'])}\n")
        value = toml_value(default_of(leaf.key))
        if len(value) > LONGEST_SHOWN:
            rows = textwrap.wrap(value[1:-1], 80, break_long_words=False, break_on_hyphens=False)
            value = "[\n" + "".join(f"#\t{row}\n" for row in rows) + "#]"
        parts.append(f"#{name} = {value}\n")
    parts.append("\n# Keys of the actions, separated by commas; empty: no key.\n")
    for action in ACTIONS:
        keys = toml_value(",".join(action.keys))
        parts.append(f"#{toml_value(action.id)} = {keys}  # {action.help}\n")
    return "".join(parts)


def default_of(key: str) -> Any:
    """Return the default of a key; of a ranking value that is not set, that of profile `memtui`."""
    default = leaves()[key].default
    if default is not None or not key.startswith(f"{RANKING}."):
        return default
    return values_of(Ranking()).get(key.removeprefix(f"{RANKING}."))


# --- a ranking as the keys of `[ranking]` that make it --------------------------------------------


@cache
def _attributes() -> Mapping[str, str]:
    """Return the attribute, of a part after a dot, that holds each key of `[ranking]`."""
    start = f"{RANKING}."
    ranking = (leaf for leaf in leaves().values() if leaf.key.startswith(start))
    return {leaf.key.removeprefix(start): leaf.attribute.removeprefix(start) for leaf in ranking}


def values_of(ranking: Ranking) -> dict[str, Any]:
    """Return every key of `[ranking]` but the profile with the value that the ranking has."""
    values = {
        key: attrgetter(name)(ranking)
        for key, name in _attributes().items()
        if key not in {"profile", "decay.preset"}
    }
    return values | {"min_score": NO_MINIMUM if ranking.min_score is None else ranking.min_score}


def set_keys(settings: RankingSettings) -> dict[str, Any]:
    """Return the keys that are set, in the order of the table; always with the profile."""
    values = {key: attrgetter(name)(settings) for key, name in _attributes().items()}
    return {key: value for key, value in values.items() if value is not None}


def keys_for(ranking: Ranking, base: Ranking) -> dict[str, Any]:
    """Return the fewest keys that make a ranking of `base`, in the order of the table.

    The vector weight stands alone where the keyword weight is the rest to 1. What no key can
    change is not compared: see `has_rules_of`.
    """
    values, there = values_of(ranking), values_of(base)
    changed = {key for key, value in values.items() if value != there[key]}
    if changed & set(WEIGHTS):
        changed = changed - set(WEIGHTS) | set(WEIGHTS[:1] if is_rest(ranking) else WEIGHTS)
    return {key: value for key, value in values.items() if key in changed}


def is_rest(ranking: Ranking) -> bool:
    """Tell whether the keyword weight is what the vector weight leaves of 1."""
    return ranking.keyword_weight == round(1.0 - ranking.vector_weight, 10)


def has_rules_of(ranking: Ranking, base: Ranking) -> bool:
    """Tell whether two rankings differ only in their names and in what `keys_for` returns."""
    values = values_of(ranking) | {"profile": ranking.profile, "min_score": ranking.min_score}
    return with_values(base, values) == ranking


def with_values(ranking: Ranking, values: Mapping[str, Any]) -> Ranking:
    """Return a ranking with other values, by keys of `[ranking]`."""
    for key, value in values.items():
        part, dot, name = _attributes()[key].partition(".")
        inner = replace(getattr(ranking, part), **{name: value}) if dot else value
        ranking = replace(ranking, **{part: inner})
    return ranking


def base_of(ranking: Ranking, built_in: Mapping[str, Ranking]) -> str:
    """Return the built-in profile whose rules a ranking has: its own, else the first that fits.

    A ranking with rules of its own belongs to the first profile of all, memtui's.
    """
    names = [name for name in dict.fromkeys((ranking.profile, *built_in)) if name in built_in]
    fitting = (name for name in names if has_rules_of(ranking, built_in[name]))
    return next(fitting, next(iter(built_in)))
