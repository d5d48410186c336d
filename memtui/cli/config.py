"""`memtui config` and `memtui trust`: showing, checking, creating and trusting a configuration."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from msgspec.structs import asdict

from memtui.cli.common_options import Invocation, Subgroup, command
from memtui.cli.output import DIM, Line
from memtui.errors import SettingsError
from memtui.ranking.profiles import PROFILES
from memtui.settings.files import (
    Problem,
    ProblemCode,
    SettingsProblems,
    data_dir,
    state_dir,
    user_config_file,
)
from memtui.settings.keys import (
    known_keys,
    nearest,
    nearest_profile,
    protected_keys,
    sample_config,
    tables,
    values_of,
)
from memtui.settings.load import (
    EVERY_KEY,
    SettingsFiles,
    Source,
    file_layer,
    is_trusted,
    project_file,
    values_in,
)
from memtui.settings.load import revoke as revoke_trust
from memtui.settings.load import trust as record_trust
from memtui.settings.openclaw.convert import Conversion, to_settings
from memtui.settings.openclaw.read import agent_id, config_candidates, expanded, read_config
from memtui.settings.openclaw.releases import Release, release_of
from memtui.settings.openclaw.schema import AgentConfig, OpenClawConfig
from memtui.settings.schema import RANKING, leaves
from memtui.settings.shown import shown_value
from memtui.settings.storage import StateFolder, digest_of, replace_text
from memtui.settings.toml import toml_value
from memtui.text.sanitize import safe_line


@click.group(cls=Subgroup)
def config() -> None:
    """Show, check and create the configuration."""


@command("config show", of=config)
def show_config(invocation: Invocation, keys: Sequence[str]) -> int:
    """Show every value in force, where it comes from and what it overrode.

    KEYS narrow it down: `ranking.k`, or a table such as `ranking.mmr`.
    """
    loaded = invocation.settings_here()
    named: dict[str, list[str]] = {
        name: [key for key in loaded.origins if f"{key}.".startswith(f"{name}.")] for name in keys
    }
    for name, inside in named.items():
        if not inside and name not in known_keys() | tables():
            near = nearest(name, known_keys() | tables())
            hint = f"did you mean {near}?" if near else EVERY_KEY
            raise SettingsError(f"no such key: {name}", hint=hint)
    chosen = {key for inside in named.values() for key in inside}
    origins = {key: given for key, given in loaded.origins.items() if not keys or key in chosen}
    # What holds for each key of `[ranking]`: the profile's value, or what follows from others.
    base = values_of(loaded.settings.base_ranking(PROFILES))
    applied = values_of(loaded.settings.configured_ranking(PROFILES))
    in_force = {f"{RANKING}.{key}": value for key, value in applied.items()}
    entries: list[dict[str, Any]] = []
    lines: list[Line] = []
    width = max(map(len, origins), default=0)
    for key, ((source, place, value), *others) in origins.items():
        entries.append(
            {
                "key": key,
                "value": shown_value(key, value),
                "in_force": shown_value(key, in_force.get(key, value)),
                "source": source,
                "place": place,
                "overrode": [
                    {**one._asdict(), "value": shown_value(key, one.value)} for one in others
                ],
            }
        )
        shown = _shown(key, value)
        if value is None and key in in_force:
            is_profile = in_force[key] == base[key.removeprefix(f"{RANKING}.")]
            why = "profile" if is_profile else "follows"
            shown = f"{_shown(key, in_force[key])}  # {why}"
        history = ""
        if source is not Source.DEFAULT:
            parts = [f"{source} {place}".rstrip()]
            for one in others:
                over = " ".join(filter(None, (one.source, one.place)))
                parts.append(f"over {over} {_shown(key, one.value)}")
            history = f"  # {', '.join(parts)}"
        lines.append([f"{key:<{width}} = {shown}", (history, DIM)])
    project = None if loaded.project is None else loaded.project.path
    return invocation.respond(
        {"settings": entries, "user_file": loaded.user_file, "project_file": project},
        lines,
        warnings=loaded.warnings,
    )


def _shown(key: str, value: Any) -> str:
    return "(unset)" if value is None else toml_value(shown_value(key, value))


@command("config path", of=config)
def show_paths(invocation: Invocation) -> int:
    """Show where configuration, state and indexes are."""
    root = invocation.root_if_any()
    places: dict[str, Path] = {"user": user_config_file(invocation.env)}
    if root is not None:
        places["project"] = root / ".memtui.toml"
        places["pyproject"] = root / "pyproject.toml"
    places["state"] = state_dir()
    places["data"] = data_dir()
    entries = [
        {"name": name, "path": path, "exists": os.path.lexists(path)}
        for name, path in places.items()
    ]
    row = "{name:<10}{path}{note}".format
    lines = [row(**one, note="" if one["exists"] else "  (not there)") for one in entries]
    return invocation.respond({"paths": entries}, lines)


@command("config validate", of=config)
def validate_config(invocation: Invocation) -> int:
    """Check the configuration; anything wrong, unknown keys included, exits with 2."""
    problems = SettingsFiles(invocation.env, invocation.root_if_any()).read().problems
    # Untrusted keys are only named.
    failing = [one for one in problems if one.fatal or one.code is ProblemCode.UNKNOWN_KEY]
    entries = [
        {"severity": "error" if problem in failing else "warning", **asdict(problem)}
        for problem in problems
    ]
    return invocation.respond(
        {"valid": not failing, "problems": entries},
        map(str, problems),
        notes=[] if failing else ["memtui: the configuration is valid"],
        exit_code=2 if failing else 0,
    )


@command("config init", of=config)
def init_config(
    invocation: Invocation,
    force: bool,
    from_openclaw: bool,
    name: str | None,
    state_dir: str | None,
) -> int:
    """Write a configuration file with every key and its default, as comments."""
    if from_openclaw:
        return _init_from_openclaw(invocation, name, state_dir, force=force)
    if name is not None or state_dir is not None:
        raise click.UsageError("--agent and --state-dir need --from-openclaw")
    path = _write_config(invocation, sample_config(), force=force)
    return invocation.respond({"path": path, "written": True}, [f"wrote {path}"])


def _write_config(invocation: Invocation, text: str, *, force: bool) -> Path:
    """Write the user's configuration file and return its path; an existing one only with `force`.

    Raises `SettingsError` when it is there already or cannot be written.
    """
    path = user_config_file(invocation.env)
    digest = digest_of(path)
    if digest and not force:
        raise SettingsError(
            f"{path} is there already", hint="`memtui config init --force` replaces it"
        )
    replace_text(path, text, digest)
    return path


def _init_from_openclaw(
    invocation: Invocation, agent: str | None, state_dir: str | None, *, force: bool
) -> int:
    """Write the user's configuration file from OpenClaw's; what is not taken over is said.

    Raises `SettingsError` when there is no configuration, when it cannot be read, and for an agent
    that it does not list.
    """
    home = invocation.home
    folder = None if state_dir is None else expanded(state_dir, home)
    source = read_config(invocation.env, home, state_dir=folder)
    if source.broken:
        raise SettingsError(source.problems[0], hint="put the file right; nothing was written")
    if source.path is None:
        first = config_candidates(invocation.env, home, folder)[0]
        raise SettingsError(
            f"no OpenClaw configuration: {first} is not there",
            hint="--state-dir or $OPENCLAW_CONFIG_PATH names another place",
        )
    agents_by_id = {one.name: one for one in source.agents}
    chosen = agents_by_id.get(agent_id(agent)) if agent is not None else source.default_agent
    if chosen is None:
        hint = nearest_profile(agent or "", agents_by_id)
        raise SettingsError(f"no agent {agent} in {source.path}", hint=hint)
    release, why = release_of(source)
    conversion = to_settings(chosen, release)
    text = _config_text(source, chosen, conversion, release, why)
    path = _write_config(invocation, text, force=force)
    notes = [f"memtui: {problem}" for problem in source.problems]
    notes += [f"memtui: not taken over: {line}" for line in conversion.cannot]
    others = [other.name for other in source.agents if other is not chosen]
    if others and agent is None:
        notes.append(f"memtui: of agent {chosen.name}; --agent takes {', '.join(others)} as well")
    return invocation.respond(
        {
            "path": path,
            "written": True,
            "from": source.path,
            "agent": chosen.name,
            "release": release,
            "release_why": why,
            "settings": conversion.settings,
            "not_taken_over": conversion.cannot,
            "problems": source.problems,
        },
        [f"wrote {path} for OpenClaw {release}: {why}"],
        notes=notes,
    )


def _config_text(
    config: OpenClawConfig, agent: AgentConfig, conversion: Conversion, release: Release, why: str
) -> str:
    """A TOML document with every setting and behind it the key that it comes from."""
    lines = [
        f"# memtui: configuration, from {safe_line(str(config.path))}, agent {agent.name}.",
        f"# As OpenClaw {release} searches: {safe_line(why)}.",
        "# `memtui config init --force` replaces this with every key and its default.",
    ]
    table = ""
    for key in (key for key in leaves() if key in conversion.settings):
        section, _, name = key.rpartition(".")
        if section != table:
            table = section
            lines += ["", f"[{section}]"]
        source = conversion.sources[key]
        if source in agent.search.set_keys:
            source = f"{config.layout}: {source}" if config.layout else source
        elif " " not in source:
            source += ", OpenClaw's default"
        lines.append(f"{name} = {toml_value(conversion.settings[key])}  # {safe_line(source)}")
    if conversion.cannot:
        lines += ["", "# Not taken over:"]
        lines += [f"#   {safe_line(line)}" for line in conversion.cannot]
    return "\n".join(lines) + "\n"


@command("trust")
def trust(invocation: Invocation, folder: str | None, dry_run: bool, revoke: bool) -> int:
    """Let the configuration file of FOLDER set commands and endpoints.

    Holds for exactly this content of the file: a change has to be trusted again.
    """
    root = invocation.with_options(root=folder).workspace().root
    problems: list[Problem] = []
    file = project_file(root, problems)
    fatal = [problem for problem in problems if problem.fatal]
    if fatal:
        raise SettingsProblems(fatal)
    if file is None:
        raise SettingsError(f"no .memtui.toml and no [tool.memtui] in {root}")
    layer, _ = file_layer(Source.PROJECT, file)
    keys = protected_keys(values_in(layer))
    state = StateFolder()
    try:
        if revoke and not dry_run:
            revoke_trust(file.path, state)
        elif not dry_run:
            record_trust(file, state)
    except OSError as error:
        raise SettingsError(f"cannot write in {state.path}: {error.strerror}") from error
    allowed = [
        {"key": key, "value": shown_value(key, layer[key].value), "place": layer[key].place}
        for key in keys
    ]
    trusted = is_trusted(file, state)
    verb = "sets" if trusted else "would set"
    lines = [f"{file.path} is {'trusted' if trusted else 'not trusted'}"]
    lines += [f"  {verb} {entry['key']} = {entry['value']!r}" for entry in allowed]
    if not allowed:
        lines.append("  it sets nothing that needs trust")
    return invocation.respond(
        {
            "file": file.path,
            "sha256": file.sha256,
            "trusted": trusted,
            "dry_run": dry_run,
            "keys": allowed,
        },
        lines,
    )
