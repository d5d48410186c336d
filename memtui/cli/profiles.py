"""Named rankings: listing, showing, saving, sharing and removing them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memtui.cli.invocation import Invocation
from memtui.errors import SettingsError

if TYPE_CHECKING:
    from memtui.model import Ranking
    from memtui.settings import Loaded
    from memtui.settings.files import ConfigFile
    from memtui.settings.write import Plan, SettingsFiles

STDIN = "-"


def list_profiles(invocation: Invocation) -> int:
    """Print every named ranking: its name, what makes it, where it is from."""
    loaded = _loaded(invocation)
    output = invocation.output()
    entries = list(_entries(loaded))
    if invocation.json:
        output.document({"profiles": entries, "warnings": loaded.warnings})
        return 0
    for warning in loaded.warnings:
        output.note(f"memtui: {warning}")
    width = max(len(entry["name"]) for entry in entries)
    for entry in entries:
        mark = "*" if entry["in_use"] else " "
        line = f"{mark} {entry['name']:<{width}}  {_made_of(entry)}"
        output.line(output.clean(line) + output.styled(output.clean(_origin(entry)), 2))
    return 0


def _entries(loaded: Loaded) -> Iterator[dict[str, Any]]:
    from memtui.ranking.profiles import PROFILES
    from memtui.settings.keys import profile_key
    from memtui.settings.rankings import set_keys

    settings = loaded.settings
    named = settings.named_rankings(PROFILES)
    for name in named:
        own = settings.profiles.get(name)
        origin = loaded.origins[profile_key(name, "profile")] if own is not None else None
        keys = set_keys(own) if own is not None else {"profile": name}
        start = keys.pop("profile")
        idle = own.without_effect(PROFILES[start]) if own is not None else ()
        yield {
            "name": name,
            "built_in": own is None,
            "in_use": name == settings.ranking.profile,
            "profile": start,
            "keys": keys,
            "without_effect": [key.partition(".")[2] for key in idle],
            "source": origin.source if origin is not None else "built in",
            "place": origin.place if origin is not None else "",
            "overrode": [given.place for given in origin.overrode] if origin is not None else [],
        }


def _made_of(entry: Mapping[str, Any]) -> str:
    from memtui.settings.toml import toml_value

    if entry["built_in"]:
        return "built in"
    told = [
        f"{key} = {toml_value(value)}{' (no effect)' if _is_idle(key, entry) else ''}"
        for key, value in entry["keys"].items()
    ]
    return ", ".join([entry["profile"], *told])


def _is_idle(key: str, entry: Mapping[str, Any]) -> bool:
    return key in entry["without_effect"]


def _origin(entry: Mapping[str, Any]) -> str:
    if entry["built_in"]:
        return ""
    over = "".join(f", over {place}" for place in entry["overrode"])
    return f"  # {entry['source']} {entry['place']}{over}"


def show_profile(invocation: Invocation, name: str) -> int:
    """Print a profile as TOML: an own one to be shared, a built-in one key by key."""
    from memtui.ranking.profiles import PROFILES
    from memtui.settings.rankings import set_keys, values_of

    loaded = _loaded(invocation)
    ranking = _known(name, loaded)
    own = loaded.settings.profiles.get(name)
    keys = set_keys(own) if own is not None else {"profile": name, **values_of(ranking)}
    output = invocation.output()
    if invocation.json:
        made = {"name": name, "built_in": own is None, "keys": keys, "ranking": ranking}
        output.document({"profile": made, "toml": "\n".join(_toml(name, keys, PROFILES))})
        return 0
    for line in _toml(name, keys, PROFILES):
        output.data(line)
    return 0


def _toml(name: str, keys: Mapping[str, Any], built_in: Mapping[str, Ranking]) -> Iterator[str]:
    """A table as text; a built-in profile is chosen, not defined."""
    from memtui.settings.toml import toml_key, toml_value

    if name in built_in:
        stages = ", ".join(stage.value for stage in built_in[name].stages)
        yield f"# {name} is built in: {stages}."
        yield "[ranking]"
    else:
        yield f"[{toml_key(('profiles', name))}]"
    for key, value in keys.items():
        yield f"{key} = {toml_value(value)}"


def save_profile(invocation: Invocation, name: str, *, force: bool) -> int:
    """Give the ranking of the settings and the options a name, in the user's file."""
    from memtui.ranking.profiles import PROFILES
    from memtui.settings.keys import profile_key
    from memtui.settings.load import Source
    from memtui.settings.write import plan_profile, write

    loaded = _loaded(invocation)
    files = _files(invocation)
    user = next((layer for layer in loaded.layers if layer.source is Source.USER), None)
    if user is not None and name in user.profiles and not force:
        place = user.place(profile_key(name, "profile"))
        raise SettingsError(f"{name} is there already: {place}", hint="--force replaces it")
    ranking = loaded.settings.configured_ranking(PROFILES)
    plan = plan_profile(files, Source.USER, name, ranking, PROFILES)
    write(plan, files)
    return _told(invocation, "saved", [name], plan, loaded.warnings)


def add_profiles(invocation: Invocation, file: str, *, force: bool) -> int:
    """Take over the profiles of a file that someone shared, all of them or none."""
    from memtui.settings.write import plan_profiles, write

    shared = _shared(invocation, file)
    profiles = _checked(shared)
    files = _files(invocation)
    plan = plan_profiles(files, profiles, force=force)
    write(plan, files)
    others = sorted(set(shared.table) - {"profiles"})
    lost = [f"not taken over: {', '.join(others)}"] if others else []
    return _told(invocation, "added", list(profiles), plan, lost)


def _shared(invocation: Invocation, file: str) -> ConfigFile:
    from memtui.settings.files import (
        MAX_CONFIG_BYTES,
        Problem,
        SettingsProblems,
        parse_config,
        read_config,
    )

    if file == STDIN:
        data = sys.stdin.buffer.read(MAX_CONFIG_BYTES + 1)
        if len(data) > MAX_CONFIG_BYTES:
            raise SettingsError(f"stdin: larger than {MAX_CONFIG_BYTES} bytes")
        found = parse_config(Path("stdin"), data)
    else:
        path = invocation.here() / os.path.expanduser(file)
        found = read_config(path)
        if found is None:
            raise SettingsError(f"no such file: {path}")
    if isinstance(found, Problem):
        raise SettingsProblems([found])
    if found is None or not isinstance(found.table.get("profiles"), dict):
        where = "stdin" if file == STDIN else file
        raise SettingsError(f"{where} has no profile", hint="a profile is a table [profiles.NAME]")
    return found


def _checked(shared: ConfigFile) -> dict[str, dict[str, Any]]:
    """The keys of every profile of a file; raises `SettingsProblems` for the first wrong one."""
    from dataclasses import replace

    from memtui.settings.files import SettingsProblems
    from memtui.settings.keys import profile_of
    from memtui.settings.load import Source, file_layer

    alone = replace(shared, table={"profiles": shared.table["profiles"]})
    layer, problems = file_layer(Source.USER, alone)
    if problems:
        raise SettingsProblems(problems)
    profiles: dict[str, dict[str, Any]] = {name: {} for name in layer.profiles}
    for key, value in layer.values.items():
        within = profile_of(key)
        if within is not None and value is not None:
            profiles[within[0]][within[1]] = value
    if not profiles:
        raise SettingsError(f"{shared.path} has no profile", hint="a profile is [profiles.NAME]")
    return profiles


def remove_profile(invocation: Invocation, name: str) -> int:
    """Take a profile out of the user's file."""
    from memtui.settings.write import plan_removal, write

    _known(name, _loaded(invocation))
    files = _files(invocation)
    plan = plan_removal(files, name)
    write(plan, files)
    return _told(invocation, "removed", [name], plan)


def _told(
    invocation: Invocation, what: str, names: list[str], plan: Plan, warnings: Sequence[str] = ()
) -> int:
    """Print what was written, and what else there is to know."""
    output, path = invocation.output(), plan.target.path
    known = [*warnings, *plan.notes]
    if invocation.json:
        output.document({what: names, "path": path, "warnings": known})
        return 0
    for warning in known:
        output.note(f"memtui: {warning}")
    output.line(output.clean(f"{what} {', '.join(names)} in {path}"))
    return 0


def _known(name: str, loaded: Loaded) -> Ranking:
    """The ranking of a name; raises `SettingsError` that tells the nearest."""
    from memtui.ranking.profiles import PROFILES
    from memtui.settings.keys import nearest_profile, shown_name

    named = loaded.settings.named_rankings(PROFILES)
    if name not in named:
        raise SettingsError(
            f"no such profile: {shown_name(name)}", hint=nearest_profile(name, named)
        )
    return named[name]


def _loaded(invocation: Invocation) -> Loaded:
    return invocation.settings(_root(invocation))


def _files(invocation: Invocation) -> SettingsFiles:
    from memtui.settings.write import SettingsFiles

    return SettingsFiles(invocation.env, _root(invocation))


def _root(invocation: Invocation) -> Path | None:
    found = invocation.workspace_if_any()
    return found.root if found is not None else None
