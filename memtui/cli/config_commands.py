"""`memtui config`: its commands and their options."""

from __future__ import annotations

import click

from memtui.cli.group import Subgroup
from memtui.cli.invocation import Invocation
from memtui.cli.options import place_options


@click.group(cls=Subgroup)
def config() -> None:
    """Show, check and create the configuration."""


@config.command("show")
@click.argument("keys", nargs=-1)
@place_options
@click.pass_obj
def config_show(obj: Invocation, /, keys: tuple[str, ...], root: str | None, as_json: bool) -> int:
    """Show every value in force, where it comes from and what it overrode.

    KEYS narrow it down: `ranking.k`, or a table such as `ranking.mmr`.
    """
    from memtui.cli.config import show_config

    return show_config(obj.with_options(root=root, json=as_json), keys)


@config.command("path")
@place_options
@click.pass_obj
def config_path(obj: Invocation, /, root: str | None, as_json: bool) -> int:
    """Show where configuration, state and indexes are."""
    from memtui.cli.config import show_paths

    return show_paths(obj.with_options(root=root, json=as_json))


@config.command("validate")
@place_options
@click.pass_obj
def config_validate(obj: Invocation, /, root: str | None, as_json: bool) -> int:
    """Check the configuration; anything wrong, unknown keys included, exits with 2."""
    from memtui.cli.config import validate_config

    return validate_config(obj.with_options(root=root, json=as_json))


@config.command("init")
@click.option("--force", is_flag=True, help="Replace the file that is there.")
@click.option("--from-openclaw", is_flag=True, help="Take over what OpenClaw's configuration says.")
@click.option("--agent", metavar="NAME", help="Whose memory search, with --from-openclaw.")
@click.option(
    "--state-dir",
    metavar="DIR",
    type=click.Path(),
    help="Where OpenClaw's configuration is, with --from-openclaw.",
)
@place_options
@click.pass_obj
def config_init(
    obj: Invocation,
    /,
    root: str | None,
    as_json: bool,
    force: bool,
    from_openclaw: bool,
    agent: str | None,
    state_dir: str | None,
) -> int:
    """Write a configuration file with every key and its default, as comments."""
    called = obj.with_options(root=root, json=as_json)
    if from_openclaw:
        from memtui.cli.config_openclaw import init_from_openclaw

        return init_from_openclaw(called, agent=agent, state_dir=state_dir, force=force)
    if agent is not None or state_dir is not None:
        raise click.UsageError("--agent and --state-dir need --from-openclaw")
    from memtui.cli.config import init_config

    return init_config(called, force=force)
