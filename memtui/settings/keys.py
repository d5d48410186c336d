"""The keys of the configuration: their names, trust, sample, rankings as keys."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, reduce
from operator import attrgetter, getitem
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final

from memtui.data import read_table
from memtui.model import Ranking
from memtui.ranking.profiles import PROFILES as BUILT_IN
from memtui.settings.actions import ACTION_IDS, ACTIONS
from memtui.settings.schema import (
    KEYMAP,
    NO_MINIMUM,
    PROFILES,
    RANKING,
    WEIGHTS,
    Leaf,
    leaves,
    ranking_attributes,
    with_values,
)
from memtui.settings.toml import key_parts, toml_key, toml_value

NAME_RULE: Final = "a-z, 0-9, `.`, `_` and `-`, first a letter or digit, at most 64"
LONGEST_SHOWN: Final = 80
LOCAL_PROVIDERS: Final = frozenset(
    {"auto", "none", "minilm", "use-multilingual", "wordllama", "gguf"}
)
"""Providers that send nothing anywhere."""


@cache
def known_keys() -> Mapping[str, Leaf]:
    """Return every key that may be set outside of `[profiles]`, bindings included."""
    bindings = [f"{KEYMAP}.{id_}" for id_ in ACTION_IDS]
    return {**leaves(), **{key: Leaf(key, str, "") for key in bindings}}


@cache
def tables() -> frozenset[str]:
    """Return the dotted names of the tables."""
    parts = [key.split(".") for key in known_keys()]
    return frozenset(".".join(one[:n]) for one in parts for n in range(1, len(one))) | {PROFILES}


def key_of(path: Sequence[str]) -> str:
    """Return the dotted key of a path in a file: `ranking.k`, `profiles.fast.k`.

    Only the name of a profile is quoted where it needs it, as in the file: `profiles."fast.2".k`.
    """
    if path[0] == PROFILES and len(path) > 1:
        return ".".join((toml_key((PROFILES, path[1][:LONGEST_SHOWN])), *path[2:]))
    return ".".join(path)


def path_of(key: str) -> tuple[str, ...]:
    """Return the path of a key in a file; the name of a profile or an action is one part."""
    table, _, rest = key.partition(".")
    if table == KEYMAP and rest:
        return table, rest
    # Only a name in quotes takes a parser.
    return key_parts(key) if '"' in key else tuple(key.split("."))


def profile_key(name: str, key: str = "profile") -> str:
    """Return the dotted key of a key of an own profile; every profile has `profile`."""
    return key_of((PROFILES, name, key))


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted key as the nested mapping that `Settings` is made of."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        *path, name = path_of(key)
        if path == [KEYMAP] and name != "preset":
            path.append("bindings")
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
    is_name = re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name)
    return "" if is_name else f"cannot be a profile's name: {NAME_RULE}"


def nearest_profile(name: str, choices: Iterable[str]) -> str:
    """Return what to try instead of a name that is not known, as a phrase."""
    names = tuple(choices)
    near = nearest(name, names)
    return f"did you mean {near}?" if near else f"one of {', '.join(names)}"


_NEEDS_TRUST: Final[Mapping[str, Callable[[Any], bool]]] = {
    "any": lambda value: True,
    "set": bool,
    "remote": lambda provider: provider not in LOCAL_PROVIDERS,
    "outside": lambda paths: any(
        path.startswith(("~", "$", "/", "\\"))
        or PureWindowsPath(path).drive
        or ".." in PurePosixPath(path.replace("\\", "/")).parts
        for path in paths
    ),
}


def protected_keys(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys whose values need trust, in the order of their table."""
    return tuple(
        key
        for key, which in read_table("settings.toml")["protected"].items()
        if key in values and _NEEDS_TRUST[which](values[key])
    )


def sample_config() -> str:
    """Return a TOML document with every key as a comment: explanation, then `# key = default`."""
    descriptions = read_table("settings.toml")
    words, protected = descriptions["sample"], descriptions["protected"]
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
        if leaf.key in protected:
            parts.append(f"# {words['needs_trust'][protected[leaf.key]]}\n")
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
    return values_of(Ranking()).get(key.partition(".")[2]) if default is None else default


def values_of(ranking: Ranking) -> dict[str, Any]:
    """Return every key of `[ranking]` but a preset with the value that the ranking has."""
    attributes = {key: one for key, one in ranking_attributes().items() if key != "decay.preset"}
    values = {key: attrgetter(name)(ranking) for key, name in attributes.items()}
    return values | {"min_score": NO_MINIMUM if ranking.min_score is None else ranking.min_score}


def keys_for(ranking: Ranking, base: Ranking) -> dict[str, Any]:
    """Return the profile of `base` and the fewest keys that make a ranking of it, in their order.

    The vector weight stands alone where the keyword weight is the rest to 1. What no key can
    change is not compared: see `has_rules_of`.
    """
    values, there = values_of(ranking), values_of(base)
    changed = {key for key, value in values.items() if value != there[key]} - {"profile"}
    if changed & set(WEIGHTS):
        is_rest = ranking.keyword_weight == round(1.0 - ranking.vector_weight, 10)
        changed = changed - set(WEIGHTS) | set(WEIGHTS[:1] if is_rest else WEIGHTS)
    keys = {key: value for key, value in values.items() if key in changed}
    return {"profile": base.profile, **keys}


def has_rules_of(ranking: Ranking, base: Ranking) -> bool:
    """Tell whether two rankings differ only in their names and in what `keys_for` returns."""
    return with_values(base, values_of(ranking)) == ranking


def base_of(ranking: Ranking) -> str:
    """Return the built-in profile whose rules a ranking has: its own, else the first that fits.

    A ranking with rules of its own belongs to the first profile of all, memtui's.
    """
    names = [name for name in dict.fromkeys((ranking.profile, *BUILT_IN)) if name in BUILT_IN]
    fitting = (name for name in names if has_rules_of(ranking, BUILT_IN[name]))
    return next(fitting, next(iter(BUILT_IN)))
