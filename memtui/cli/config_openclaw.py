"""The user's configuration file, made from what OpenClaw's configuration says of an agent."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from memtui.cli.config import write_config
from memtui.cli.invocation import Invocation
from memtui.errors import SettingsError
from memtui.settings.keys import leaves
from memtui.settings.toml import toml_value
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.settings.openclaw import AgentConfig, Conversion, OpenClawConfig, Release


def init_from_openclaw(
    invocation: Invocation, *, agent: str | None, state_dir: str | None, force: bool
) -> int:
    """Write the user's configuration file from OpenClaw's; an existing one only with `force`.

    What cannot be taken over is said on stderr. Raises `SettingsError` when there is no
    configuration, when it cannot be read, and for an agent that it does not list.
    """
    from memtui.settings.openclaw import read_config, release_of, to_settings

    home = invocation.home()
    folder = _folder(state_dir, home)
    config = read_config(invocation.env, home, state_dir=folder)
    _require(config, invocation, home, folder)
    chosen = _chosen(config, agent)
    release, why = release_of(config)
    conversion = to_settings(chosen, release)
    path = write_config(invocation, _text(config, chosen, conversion, release, why), force=force)
    output = invocation.output()
    if invocation.json:
        output.document(
            {
                "path": path,
                "written": True,
                "from": config.path,
                "agent": chosen.name,
                "release": release,
                "release_why": why,
                "settings": conversion.settings,
                "not_taken_over": conversion.cannot,
                "problems": config.problems,
            }
        )
        return 0
    for problem in config.problems:
        output.note(f"memtui: {problem}")
    for line in conversion.cannot:
        output.note(f"memtui: not taken over: {line}")
    others = [other.name for other in config.agents if other is not chosen]
    if others and agent is None:
        output.note(f"memtui: of agent {chosen.name}; --agent takes {', '.join(others)} as well")
    output.line(output.clean(f"wrote {path} for OpenClaw {release}: {why}"))
    return 0


def _folder(state_dir: str | None, home: Path) -> Path | None:
    from memtui.settings.openclaw.document import expanded

    return None if state_dir is None else expanded(state_dir, home)


def _require(
    config: OpenClawConfig, invocation: Invocation, home: Path, folder: Path | None
) -> None:
    if config.broken:
        raise SettingsError(config.problems[0], hint="put the file right; nothing was written")
    if config.path is None:
        from memtui.settings.openclaw import config_candidates

        first = config_candidates(invocation.env, home, folder)[0]
        raise SettingsError(
            f"no OpenClaw configuration: {first} is not there",
            hint="--state-dir or $OPENCLAW_CONFIG_PATH names another place",
        )


def _chosen(config: OpenClawConfig, name: str | None) -> AgentConfig:
    from memtui.settings.openclaw import agent_id

    if name is None:
        return config.default_agent
    known = {agent.name: agent for agent in config.agents}
    if agent_id(name) in known:
        return known[agent_id(name)]
    near = get_close_matches(name[:100], known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(known)}"
    raise SettingsError(f"no agent {name} in {config.path}", hint=hint)


def _text(
    config: OpenClawConfig, agent: AgentConfig, conversion: Conversion, release: Release, why: str
) -> str:
    """A TOML document with every setting and behind it the key that it comes from."""
    lines = [
        f"# memtui: configuration, from {_comment(str(config.path))}, agent {agent.name}.",
        f"# As OpenClaw {release} searches: {_comment(why)}.",
        "# `memtui config init --force` replaces this with every key and its default.",
    ]
    table = ""
    for key in (key for key in leaves() if key in conversion.settings):
        section, _, name = key.rpartition(".")
        if section != table:
            table = section
            lines += ["", f"[{section}]"]
        source = _source(conversion.sources[key], config, agent)
        lines.append(f"{name} = {toml_value(conversion.settings[key])}  # {_comment(source)}")
    if conversion.cannot:
        lines += ["", "# Not taken over:"]
        lines += [f"#   {_comment(line)}" for line in conversion.cannot]
    return "\n".join(lines) + "\n"


def _source(source: str, config: OpenClawConfig, agent: AgentConfig) -> str:
    if source in agent.search.set_keys:
        return f"{config.layout}: {source}" if config.layout else source
    return source if " " in source else f"{source}, OpenClaw's default"


def _comment(text: str) -> str:
    return safe_line(text)
