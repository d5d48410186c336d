"""`memtui profiles`: named rankings, listed, shown, saved, shared and removed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from memtui.cli.common_options import Invocation, Subgroup, command
from memtui.cli.output import DIM, Line
from memtui.errors import SettingsError
from memtui.model import Ranking, Stage
from memtui.model.rankings import Evidence
from memtui.ranking.context import with_weights
from memtui.ranking.profiles import PROFILES as BUILT_IN
from memtui.report.explanation import differences
from memtui.report.words import PARAMETER_WORDS, PROFILE_WORDS, step_name
from memtui.settings import schema
from memtui.settings.files import MAX_CONFIG_BYTES, SettingsProblems, parse_config, read_config
from memtui.settings.load import SettingsFiles, Source, file_layer, values_in
from memtui.settings.toml import toml_key, toml_value
from memtui.settings.write import Plan, plan_profile, plan_profiles, plan_removal, write

STDIN = "-"


@command("profiles", cls=Subgroup)
def profiles(invocation: Invocation) -> int | None:
    """List the named rankings; show, save, share and remove your own."""
    if click.get_current_context().invoked_subcommand is not None:
        return None
    loaded = invocation.settings_here()
    settings = loaded.settings
    entries: list[dict[str, Any]] = []
    lines: list[Line] = []
    names = settings.named_rankings()
    width = max(map(len, names))
    for name in names:
        own, start, keys = settings.profiles.get(name), name, dict[str, Any]()
        source, place, places, note = "built in", "", list[str](), ""
        made_of = f"built in: {PROFILE_WORDS[name]}" if own is None else ""
        if own is not None:
            (source, place, _), *others = loaded.origins[schema.profile_key(name)]
            places = [origin.place for origin in others]
            keys = schema.values_of(own)
            made_of = start = keys.pop("profile")
            note = f"  # {source} {', over '.join([place, *places])}"
        idle = own.without_effect(BUILT_IN[start]) if own is not None else ()
        base = schema.values_of(BUILT_IN[start])
        for key, value in keys.items():
            # A copy sets what it has in common, too.
            if value != base.get(key):
                made_of += f", {key} = {toml_value(value)}{' (no effect)' if key in idle else ''}"
        is_used = name == settings.ranking.profile
        entries.append(
            {
                "name": name,
                "built_in": own is None,
                "in_use": is_used,
                "profile": start,
                "keys": keys,
                "without_effect": idle,
                "source": source,
                "place": place,
                "overrode": places,
            }
        )
        lines.append([f"{'*' if is_used else ' '} {name:<{width}}  {made_of}", (note, DIM)])
    return invocation.respond({"profiles": entries}, lines, warnings=loaded.warnings)


@command("profiles show", of=profiles)
def show_profile(invocation: Invocation, name: str) -> int:
    """Print profile NAME as TOML for `profiles add`; of a built-in one a copy with a new name."""
    settings = invocation.settings_here().settings
    rankings = settings.named_rankings()
    if name not in rankings:
        raise SettingsError(
            f"no such profile: {schema.shown_name(name)}",
            hint=schema.nearest_profile(name, rankings),
        )
    ranking, own = rankings[name], settings.profiles.get(name)
    if own is not None:
        keys, lines = schema.values_of(own), [f"[{toml_key((schema.PROFILES, name))}]"]
        lines += [f"{key} = {toml_value(value)}" for key, value in keys.items()]
    else:
        keys = schema.values_of(ranking)
        lines = list(_copy_lines(name, ranking, keys))
    made = {"name": name, "built_in": own is None, "keys": keys, "ranking": ranking}
    return invocation.respond({"profile": made, "toml": "\n".join(lines)}, data=lines)


def _copy_lines(name: str, ranking: Ranking, keys: Mapping[str, Any]) -> Iterator[str]:
    """Yield a built-in profile as one of another name, each key with what the screen calls it."""
    weights = with_weights(ranking, Evidence.WORD_PIECES)
    yield f"# {name} is built in: {PROFILE_WORDS[name]}."
    yield f"# Its steps in order: {', '.join(map(step_name, ranking.stages))}."
    for label, _, value in differences(BUILT_IN["memtui"], ranking):
        if label not in {"steps", *(PARAMETER_WORDS[key] for key in keys)}:
            yield f"# {label}: {value} (no key sets it)"
    yield f"[{toml_key((schema.PROFILES, f'my-{name}'))}]"
    for key, value in keys.items():
        part, _, feature = key.partition(".")
        if part not in {*Stage} - {*ranking.stages}:
            is_auto = value == schema.OWN_WEIGHT
            auto = f"; auto: {getattr(weights.context, feature)}" if is_auto else ""
            yield f"{key} = {toml_value(value)}  # {PARAMETER_WORDS[key]}{auto}"


@command("profiles save", of=profiles)
def save_profile(invocation: Invocation, name: str, force: bool) -> int:
    """Save the ranking that the settings and the options give as profile NAME."""
    if invocation.now is not None:
        raise click.UsageError("--now is no part of a ranking")
    loaded = invocation.settings_here()
    files = SettingsFiles(invocation.env, invocation.root_if_any())
    settings, ranking = loaded.settings, loaded.settings.configured_ranking()
    warnings = [*loaded.warnings, *settings.unused(settings.ranking, ranking)]
    plan = plan_profile(files, name, ranking, force=force)
    return _write(invocation, "saved", [name], plan, files, warnings)


@command("profiles add", of=profiles)
def add_profiles(invocation: Invocation, file: str, force: bool) -> int:
    """Take over the profiles of FILE (`-`: stdin), as `memtui profiles show` prints them."""
    if file == STDIN:
        data = sys.stdin.buffer.read(MAX_CONFIG_BYTES + 1)
        if len(data) > MAX_CONFIG_BYTES:
            raise SettingsError(f"stdin: larger than {MAX_CONFIG_BYTES} bytes")
        shared = parse_config(Path("stdin"), data)
    else:
        path = invocation.path(file)
        shared = read_config(path)
        if shared is None:
            raise SettingsError(f"no such file: {path}")
    tables = None if shared is None else shared.table.get(schema.PROFILES)
    if shared is None or not tables or not isinstance(tables, dict):
        where = "stdin" if file == STDIN else file
        raise SettingsError(f"{where} has no profile", hint="a profile is a table [profiles.NAME]")
    alone = replace(shared, table={schema.PROFILES: tables})
    layer, problems = file_layer(Source.USER, alone)
    if problems:
        raise SettingsProblems(problems)
    own = schema.Settings.parse(schema.nested(values_in(layer))).profiles
    checked = {name: schema.values_of(profile) for name, profile in own.items()}
    files = SettingsFiles(invocation.env, invocation.root_if_any())
    plan = plan_profiles(files, checked, force=force)
    others = sorted(set(shared.table) - {schema.PROFILES})
    lost = [f"not taken over: {', '.join(others)}"] if others else []
    return _write(invocation, "added", list(checked), plan, files, lost)


@command("profiles remove", of=profiles)
def remove_profile(invocation: Invocation, name: str) -> int:
    """Take profile NAME out of your own configuration file."""
    files = SettingsFiles(invocation.env, invocation.root_if_any())
    return _write(invocation, "removed", [name], plan_removal(files, name), files)


def _write(
    invocation: Invocation,
    done: str,
    names: list[str],
    plan: Plan,
    files: SettingsFiles,
    warnings: Sequence[str] = (),
) -> int:
    write(plan, files)
    path = plan.file.path
    lines = [f"{done} {', '.join(names)} in {path}"]
    return invocation.respond({done: names, "path": path}, lines, warnings=[*warnings, *plan.notes])
