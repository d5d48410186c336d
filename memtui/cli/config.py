"""`memtui config` and `memtui trust`: showing, checking, creating and trusting a configuration."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import click
from msgspec.structs import asdict

from memtui.cli.common_options import Invocation, Subgroup, command
from memtui.cli.output import DIM, EXIT_NOTHING, Line, at_terminal
from memtui.errors import SettingsError
from memtui.report.json_text import plain
from memtui.settings import files, load, schema
from memtui.settings.openclaw.read import agent_id, config_candidates, expanded, read_config
from memtui.settings.openclaw.releases import release_of, to_settings
from memtui.settings.shown import shown_value
from memtui.settings.toml import toml_value
from memtui.text.sanitize import escaped, safe_line


@click.group(cls=Subgroup)
def config() -> None:
    """Show, check and create the configuration."""


@command("config show", of=config)
def show_config(invocation: Invocation, keys: Sequence[str]) -> int:
    """Show every value in force, where it comes from and what it overrode."""
    loaded = invocation.settings_here()
    chosen, names = set[str](), {*schema.known_keys(), *schema.tables()}
    for name in keys:
        inside = [key for key in loaded.origins if f"{key}.".startswith(f"{name}.")]
        if not inside and name not in names:
            near = schema.nearest(name, names)
            hint = f"did you mean {near}?" if near else load.EVERY_KEY
            raise SettingsError(f"no such key: {name}", hint=hint)
        chosen.update(inside)
    origins = {key: values for key, values in loaded.origins.items() if not keys or key in chosen}
    # What holds for each key of `[ranking]`: the profile's value, or what follows from others.
    base = schema.values_of(loaded.settings.base_ranking())
    applied = schema.values_of(loaded.settings.configured_ranking())
    entries: list[dict[str, Any]] = []
    lines: list[Line] = []
    width = max(map(len, origins), default=0)
    for key, values in origins.items():
        first, *others = (one._replace(value=shown_value(key, one.value)) for one in values)
        name, in_force = key.removeprefix(f"{schema.RANKING}."), first.value
        value, *overrode = (
            "(unset)" if one.value is None else toml_value(one.value) for one in (first, *others)
        )
        if key != name and name in applied:
            in_force = shown_value(key, applied[name])
            if first.value is None:
                why = "profile" if applied[name] == base[name] else "follows"
                value = f"{toml_value(in_force)}  # {why}"
        entries.append(
            {
                "key": key,
                "value": first.value,
                "in_force": in_force,
                "source": first.source,
                "place": first.place,
                "overrode": [one._asdict() for one in others],
            }
        )
        history = [f"{first.source} {first.place}".rstrip()]
        for one, text in zip(others, overrode, strict=True):
            history.append(" ".join(filter(None, ("over", one.source, one.place, text))))
        origin = "" if first.source is load.Source.DEFAULT else f"  # {', '.join(history)}"
        lines.append([f"{key:<{width}} = {value}", (origin, DIM)])
    project = None if loaded.project is None else loaded.project.path
    return invocation.respond(
        {"settings": entries, "user_file": loaded.user.path, "project_file": project},
        lines,
        warnings=loaded.warnings,
    )


@command("config path", of=config)
def show_paths(invocation: Invocation) -> int:
    """Show where configuration, state and indexes are."""
    root = invocation.root_if_any()
    places = {"user": files.user_config_file(invocation.env)}
    if root is not None:
        places["project"] = root / files.PROJECT_FILE
        places["pyproject"] = root / files.PROJECT_TABLE_FILE
    places |= {"state": files.state_dir(), "data": files.data_dir()}
    entries = [
        {"name": name, "path": path, "exists": os.path.lexists(path)}
        for name, path in places.items()
    ]
    row = "{name:<10}{path}{note}".format
    lines = [row(**one, note="" if one["exists"] else "  (not there)") for one in entries]
    return invocation.respond({"paths": entries}, lines)


@command("config forget-view", of=config)
def forget_view(invocation: Invocation) -> int:
    """Forget what was chosen on the screen: theme, preview, panel, sort, what is not shown."""
    file = files.state_dir() / files.VIEW
    try:
        is_forgotten = files.remove_view(file.parent)
    except OSError as error:
        raise SettingsError(f"cannot remove {file}: {files.cause_of(error)}") from error
    lines = [f"removed {file}" if is_forgotten else "nothing is remembered of the view"]
    return invocation.respond({"path": file, "removed": is_forgotten}, lines)


@command("config validate", of=config)
def validate_config(invocation: Invocation) -> int:
    """Check the configuration; anything wrong, unknown keys included, exits with 2."""
    problems = load.SettingsFiles(invocation.env, invocation.root_if_any()).read().problems
    # Untrusted keys are only named.
    valid = "memtui: the configuration is valid" + ", without what is ignored" * bool(problems)
    failing = [one for one in problems if one.fatal or one.code == "unknown_key"]
    entries = [
        {"severity": "error" if problem in failing else "warning", **asdict(problem)}
        for problem in problems
    ]
    return invocation.respond(
        {"valid": not failing, "problems": entries},
        (invocation.completed(str(problem)) for problem in problems),
        notes=[] if failing else [valid],
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
    path, text = files.user_config_file(invocation.env), schema.sample_config()
    answer: dict[str, Any] = {}
    line, notes = f"wrote {path}", list[str]()
    if from_openclaw:
        text, answer, notes = _from_openclaw(invocation, name, state_dir)
        line += " for OpenClaw {release}: {release_why}".format(**answer)
    elif name is not None or state_dir is not None:
        raise click.UsageError("--agent and --state-dir need --from-openclaw")
    if not force and os.path.isfile(path):
        raise SettingsError(
            f"{path} is there already", hint="`memtui config init --force` replaces it"
        )
    files.replace_text(path, text, None if force else "")
    return invocation.respond({"path": path, "written": True, **answer}, [line], notes=notes)


def _from_openclaw(
    invocation: Invocation, name: str | None, state_dir: str | None
) -> tuple[str, dict[str, Any], list[str]]:
    """Return OpenClaw's configuration as one of memtui, what to answer, and notes.

    Behind every setting stands the key that it comes from. Raises `SettingsError` when there is no
    configuration, when it cannot be read, and for an agent that it does not list.
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
    agents = {one.name: one for one in source.agents}
    agent = source.default_agent if name is None else agents.get(agent_id(name))
    if agent is None:
        hint = schema.nearest_profile(name or "", agents)
        raise SettingsError(f"no agent {name} in {source.path}", hint=hint)
    release, why = release_of(source)
    conversion = to_settings(agent, release)
    lines = [
        f"# memtui: configuration, from {safe_line(str(source.path))}, agent {agent.name}.",
        f"# As OpenClaw {release} searches: {safe_line(why)}.",
        "# `memtui config init --force` replaces this with every key and its default.",
    ]
    for table, keys in groupby(schema.leaves(), lambda key: key.rpartition(".")[0]):
        settings = [key for key in keys if key in conversion.settings]
        lines += ["", f"[{table}]"] if settings else []
        for key in settings:
            origin = conversion.sources[key]
            if origin in agent.search.set_keys:
                origin = f"{source.layout}: {origin}"
            elif " " not in origin:
                origin += ", OpenClaw's default"
            value = toml_value(conversion.settings[key])
            lines.append(f"{key.removeprefix(f'{table}.')} = {value}  # {safe_line(origin)}")
    if conversion.cannot:
        lines += ["", "# Not taken over:"]
        lines += [f"#   {safe_line(line)}" for line in conversion.cannot]
    notes = [f"memtui: {problem}" for problem in source.problems]
    notes += [f"memtui: not taken over: {line}" for line in conversion.cannot]
    others = [one for one in agents if one != agent.name]
    if others and name is None:
        notes.append(f"memtui: of agent {agent.name}; --agent takes {', '.join(others)} as well")
    answer = {
        "from": source.path,
        "agent": agent.name,
        "release": release,
        "release_why": why,
        "settings": conversion.settings,
        "not_taken_over": conversion.cannot,
        "problems": source.problems,
    }
    return "\n".join(lines) + "\n", answer, notes


@command("trust")
def trust(
    invocation: Invocation, folder: str | None, dry_run: bool, revoke: bool, yes: bool
) -> int:
    """Let the configuration file of FOLDER set commands and endpoints, once you have seen them."""
    root = invocation.with_options(root=folder).workspace().root
    problems: list[files.Problem] = []
    file = load.project_file(root, problems)
    if fatal := [problem for problem in problems if problem.fatal]:
        raise files.SettingsProblems(fatal)
    if file is None:
        raise SettingsError(f"no .memtui.toml and no [tool.memtui] in {root}")
    layer, _ = load.file_layer(load.Source.PROJECT, file)
    # It is somebody else's text and the very thing to judge: nothing is cut or masked.
    keys = [
        {"key": key, "value": plain(layer[key].value), "place": layer[key].place}
        for key in schema.protected_keys(load.values_in(layer), root)
    ]

    def lines(*, trusted: bool) -> list[str]:
        verb = "sets" if trusted else "would set"
        sets = [f"  {verb} {one['key']} = {escaped(one['value'])}" for one in keys]
        first = f"{file.path} is {'trusted' if trusted else 'not trusted'}"
        return [first, *(sets or ["  it sets nothing that needs trust"])]

    state = files.StateFolder()
    is_asked = keys and not (dry_run or revoke or yes or load.is_trusted(file, state))
    if is_asked:
        if invocation.json or not at_terminal():
            raise SettingsError(
                f"{file.path} is not trusted: there is nobody to ask",
                hint="`memtui trust --dry-run` shows what it sets, --yes trusts it",
            )
        invocation.output().lines(lines(trusted=False))
        if not click.confirm("Trust exactly this?", default=False, err=True):
            return EXIT_NOTHING
    try:
        if not dry_run and (keys or revoke):
            load.trust(file, state, revoke=revoke)
    except OSError as error:
        raise SettingsError(f"cannot write in {state.path}: {error.strerror}") from error
    trusted = load.is_trusted(file, state)
    report = lines(trusted=trusted)
    answer = {"file": file.path, "sha256": file.sha256, "trusted": trusted, "dry_run": dry_run}
    problems += load.SettingsFiles(invocation.env, root).read().problems if trusted else ()
    notes = [f"memtui: {problem}" for problem in problems if problem.fatal]
    shown = report[:1] if is_asked else report
    return invocation.respond({**answer, "keys": keys}, shown, notes=notes)
