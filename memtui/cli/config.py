"""Showing, checking and creating the configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memtui.cli.invocation import Invocation
from memtui.errors import SettingsError
from memtui.settings import Loaded, Origin, ProblemCode, Source, check_settings
from memtui.settings.files import data_dir, state_dir, user_config_file
from memtui.settings.keys import RANKING, known_keys, nearest, tables
from memtui.settings.sample import sample_config
from memtui.settings.shown import shown_value
from memtui.settings.toml import toml_value

_FAILS_VALIDATION = frozenset({ProblemCode.UNKNOWN_KEY})


def show_config(invocation: Invocation, keys: Sequence[str]) -> int:
    """Print values with their origins, all of them or those of some keys and tables."""
    found = invocation.workspace_if_any()
    loaded = invocation.settings(found.root if found else None)
    origins = _chosen(loaded.origins.values(), keys)
    output = invocation.output()
    if invocation.json:
        output.document(
            {
                "settings": [_entry(origin, _ranking_in_force(loaded)) for origin in origins],
                "user_file": loaded.user_file,
                "project_file": loaded.project_file,
                "warnings": loaded.warnings,
            }
        )
        return 0
    for warning in loaded.warnings:
        output.note(f"memtui: {warning}")
    width = max((len(origin.key) for origin in origins), default=0)
    in_force = _ranking_in_force(loaded)
    for origin in origins:
        value = _shown(origin.key, origin.value)
        if origin.value is None and origin.key in in_force:
            held, why = in_force[origin.key]
            value = f"{_shown(origin.key, held)}  # {why}"
        line = f"{origin.key:<{width}} = {value}"
        output.line(output.clean(line) + output.styled(output.clean(_history(origin)), 2))
    return 0


def _chosen(origins: Any, keys: Sequence[str]) -> list[Origin]:
    everything = list(origins)
    if not keys:
        return everything
    for key in keys:
        names = known_keys() | tables() - {""}
        if not any(_below(origin.key, key) for origin in everything) and key not in names:
            near = nearest(key, names)
            hint = f"did you mean {near}?" if near else "`memtui config show` lists every key"
            raise SettingsError(f"no such key: {key}", hint=hint)
    return [origin for origin in everything if any(_below(origin.key, key) for key in keys)]


def _below(key: str, table: str) -> bool:
    return key == table or key.startswith(f"{table}.")


def _ranking_in_force(loaded: Loaded) -> dict[str, tuple[Any, str]]:
    """What holds for each key of `[ranking]`: the profile's value, or what follows from others."""
    from memtui.ranking.profiles import PROFILES
    from memtui.settings.rankings import values_of

    base = values_of(loaded.settings.base_ranking(PROFILES))
    applied = values_of(loaded.settings.configured_ranking(PROFILES))
    return {
        f"{RANKING}.{key}": (value, "profile" if value == base[key] else "follows")
        for key, value in applied.items()
    }


def _entry(origin: Origin, in_force: Mapping[str, tuple[Any, str]]) -> dict[str, Any]:
    key = origin.key
    return {
        "key": key,
        "value": shown_value(key, origin.value),
        "in_force": shown_value(key, in_force[key][0] if key in in_force else origin.value),
        "source": origin.source,
        "place": origin.place,
        "overrode": [
            {"source": given.source, "place": given.place, "value": shown_value(key, given.value)}
            for given in origin.overrode
        ],
    }


def _history(origin: Origin) -> str:
    if origin.source is Source.DEFAULT:
        return ""
    parts = [f"{origin.source}{_at(origin.place)}"]
    parts += [
        f"over {given.source}{_at(given.place)} {_shown(origin.key, given.value)}"
        for given in origin.overrode
    ]
    return f"  # {', '.join(parts)}"


def _at(place: str) -> str:
    return f" {place}" if place else ""


def _shown(key: str, value: Any) -> str:
    return "(unset)" if value is None else toml_value(shown_value(key, value))


def show_paths(invocation: Invocation) -> int:
    """Print where configuration, state and indexes are, and which of them exist."""
    found = invocation.workspace_if_any()
    places: dict[str, Path] = {"user": user_config_file(invocation.env)}
    if found is not None:
        places["project"] = found.root / ".memtui.toml"
        places["pyproject"] = found.root / "pyproject.toml"
    places["state"] = state_dir()
    places["data"] = data_dir()
    output = invocation.output()
    if invocation.json:
        output.document(
            {
                "paths": [
                    {"name": name, "path": path, "exists": os.path.lexists(path)}
                    for name, path in places.items()
                ]
            }
        )
        return 0
    for name, path in places.items():
        mark = "" if os.path.lexists(path) else "  (not there)"
        output.line(output.clean(f"{name:<10}{path}{mark}"))
    return 0


def validate_config(invocation: Invocation) -> int:
    """Check every source; 0 when nothing is wrong, 2 otherwise. Untrusted keys are only named."""
    found = invocation.workspace_if_any()
    problems = check_settings(env=invocation.env, root=found.root if found else None)
    failing = [p for p in problems if p.fatal or p.code in _FAILS_VALIDATION]
    output = invocation.output()
    if invocation.json:
        output.document(
            {
                "valid": not failing,
                "problems": [
                    {
                        "code": problem.code,
                        "severity": "error" if problem in failing else "warning",
                        "place": problem.place,
                        "key": problem.key,
                        "message": problem.message,
                        "hint": problem.hint,
                    }
                    for problem in problems
                ],
            }
        )
    else:
        for problem in problems:
            output.line(output.clean(str(problem)))
        if not failing:
            output.note("memtui: the configuration is valid")
    return 2 if failing else 0


def init_config(invocation: Invocation, *, force: bool) -> int:
    """Write the sample to the user's configuration file; an existing one only with `force`."""
    path = write_config(invocation, sample_config(), force=force)
    output = invocation.output()
    if invocation.json:
        output.document({"path": path, "written": True})
    else:
        output.line(output.clean(f"wrote {path}"))
    return 0


def write_config(invocation: Invocation, text: str, *, force: bool) -> Path:
    """Write the user's configuration file and return its path; an existing one only with `force`.

    Raises `SettingsError` when it is there already or cannot be written.
    """
    from memtui.settings.storage import digest_of, replace_text

    path = user_config_file(invocation.env)
    digest = digest_of(path)
    if digest is not None and not force:
        raise SettingsError(
            f"{path} is there already", hint="`memtui config init --force` replaces it"
        )
    replace_text(path, text, digest)
    return path
