"""`memtui profiles` and its commands; what they do is loaded when one runs."""

from __future__ import annotations

from typing import Any

import click

from memtui.cli.group import Subgroup
from memtui.cli.invocation import Invocation
from memtui.cli.options import (
    own_profile_names,
    place_options,
    profile_names,
    ranking_flags,
    ranking_options,
)

SAVE_EPILOG = """\
Example: `memtui profiles save recent-heavy --half-life 14 -n 8`, then
`memtui search QUERY --profile recent-heavy`.
"""


@click.group(cls=Subgroup, invoke_without_command=True)
@place_options
@click.pass_context
def profiles(ctx: click.Context, /, root: str | None, as_json: bool) -> int | None:
    """List the named rankings; show, save, share and remove your own.

    Without a command: each with its name, what differs from the built-in that it starts from,
    and where it comes from; `*` marks the one in use. --profile and `ranking.profile` take every
    name, and P in the terminal interface goes from one to the next.
    """
    ctx.obj = ctx.obj.with_options(root=root, json=as_json)
    if ctx.invoked_subcommand is not None:
        return None
    from memtui.cli.profiles import list_profiles

    return list_profiles(ctx.obj)


@profiles.command("show", short_help="Print a profile as TOML.")
@click.argument("name", shell_complete=profile_names)
@place_options
@click.pass_obj
def profiles_show(obj: Invocation, /, name: str, root: str | None, as_json: bool) -> int:
    """Print profile NAME as TOML, ready to be shared; of a built-in one every key."""
    from memtui.cli.profiles import show_profile

    return show_profile(obj.with_options(root=root, json=as_json), name)


@profiles.command(
    "save",
    short_help="Save the ranking of the settings and the options as a profile.",
    epilog=SAVE_EPILOG,
)
@click.argument("name")
@ranking_options
@click.option("--force", is_flag=True, help="Replace the profile of that name.")
@place_options
@click.pass_obj
def profiles_save(
    obj: Invocation, /, name: str, root: str | None, as_json: bool, force: bool, **options: Any
) -> int:
    """Save the ranking that the settings and the options give as profile NAME.

    It goes into your own configuration file; everything else in it stays as it is.
    """
    from memtui.cli.profiles import save_profile

    if options.get("now") is not None:
        raise click.UsageError("--now is no part of a ranking")
    called = obj.with_options(root=root, json=as_json)
    return save_profile(called.with_flags(ranking_flags(options)), name, force=force)


@profiles.command("add", short_help="Take over the profiles of a file.")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--force", is_flag=True, help="Replace profiles of the same names.")
@place_options
@click.pass_obj
def profiles_add(
    obj: Invocation, /, file: str, root: str | None, as_json: bool, force: bool
) -> int:
    """Take over the profiles of FILE (`-`: stdin), as `memtui profiles show` prints them.

    Everything is checked first; nothing but tables [profiles.NAME] is taken.
    """
    from memtui.cli.profiles import add_profiles

    return add_profiles(obj.with_options(root=root, json=as_json), file, force=force)


@profiles.command("remove", short_help="Take a profile out of your configuration.")
@click.argument("name", shell_complete=own_profile_names)
@place_options
@click.pass_obj
def profiles_remove(obj: Invocation, /, name: str, root: str | None, as_json: bool) -> int:
    """Take profile NAME out of your own configuration file."""
    from memtui.cli.profiles import remove_profile

    return remove_profile(obj.with_options(root=root, json=as_json), name)
