"""`memtui sessions` and `memtui replay`: their options; what they do is loaded when one runs."""

from __future__ import annotations

from typing import Any

import click

from memtui.cli.group import PlaceGroup
from memtui.cli.invocation import Invocation
from memtui.cli.options import (
    F,
    demo_option,
    foreign_options,
    parameter_options,
    place_options,
    query_vectors_option,
    ranking_flags,
    refused_foreign_options,
)

SHOW = "show"
"""Name of the hidden command that prints one conversation."""
EPILOG = "`memtui help sessions` tells what is read, what is indexed and how to opt in."
_DEFAULT_LIMIT = 20


def turn_options(function: F) -> F:
    """`--full` and `--jsonl`: how one conversation is printed, before its name or behind it."""
    for option in (
        click.option("--jsonl", is_flag=True, help="Of one: a JSON document for each turn."),
        click.option("--full", is_flag=True, help="Of one: whole texts, and all that tools gave."),
    ):
        function = option(function)
    return function


def source_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """What a shell can be offered to opt in."""
    return [name for name in ("openclaw", "claude-code", "codex") if name.startswith(incomplete)]


@click.group(
    cls=PlaceGroup,
    default=SHOW,
    invoke_without_command=True,
    subcommand_metavar="[PATH_OR_ID | COMMAND]",
    short_help="List the conversations behind the memory, or print one.",
    epilog=EPILOG,
)
@click.option("--source", metavar="NAME", shell_complete=source_names, help="Only of this source.")
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=_DEFAULT_LIMIT,
    show_default=True,
    help="How many; 0: all.",
)
@click.option("--coverage", is_flag=True, help="What of each source is indexed, what not and why.")
@turn_options
@foreign_options
@demo_option
@place_options
@click.pass_context
def sessions(
    ctx: click.Context,
    /,
    root: str | None,
    as_json: bool,
    demo: bool,
    agent: str | None,
    index: str | None,
    **options: Any,
) -> int | None:
    """List the conversations behind the memory, newest first, or print one of them.

    PATH_OR_ID is a path of the list, a file, or (the beginning of) a session's id. Nothing is
    opted in by looking: `memtui sessions --coverage` says what is indexed, `memtui sessions
    enable` opts in. Exits with 1 when there is no conversation.
    """
    ctx.obj = ctx.obj.with_options(root=root, json=as_json, demo=demo, agent=agent, index=index)
    if ctx.invoked_subcommand is not None:
        return None
    from memtui.cli.sessions import list_sessions
    from memtui.cli.sessions_sources import show_coverage

    if options["full"] or options["jsonl"]:
        raise click.UsageError("--full and --jsonl need PATH_OR_ID", ctx)
    if options["coverage"]:
        return show_coverage(ctx.obj, options["source"])
    return list_sessions(ctx.obj, options["source"], options["limit"])


@sessions.command(SHOW, hidden=True)
@click.argument("name", metavar="PATH_OR_ID")
@turn_options
@foreign_options
@demo_option
@place_options
@click.pass_context
def show(
    ctx: click.Context,
    /,
    name: str,
    root: str | None,
    as_json: bool,
    demo: bool,
    full: bool,
    jsonl: bool,
    **foreign: Any,
) -> int:
    """Print one conversation: who says what, tools folded to one line with its size."""
    from memtui.cli.sessions import show_session

    before = ctx.parent.params if ctx.parent is not None else {}
    called = ctx.obj.with_options(root=root, json=as_json, demo=demo, **foreign)
    full, jsonl = full or before.get("full", False), jsonl or before.get("jsonl", False)
    return show_session(called, name, full=full, jsonl=jsonl)


@sessions.command("enable", short_help="Index the conversations of a source, too.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=source_names)
@refused_foreign_options
@place_options
@click.pass_obj
def enable(
    obj: Invocation, /, names: tuple[str, ...], root: str | None, as_json: bool, **foreign: Any
) -> int:
    """Opt in to the conversations of NAME: openclaw, openclaw:AGENT, claude-code,
    claude-code:PROJECT, codex, or the path of a transcript or a folder of them.

    Says what will be indexed and writes it to your configuration; `memtui index` then takes the
    conversations in. Credentials are masked before anything is kept.
    """
    from memtui.cli.sessions_sources import enable_sources

    return enable_sources(obj.with_options(root=root, json=as_json, **foreign), names)


@sessions.command("disable", short_help="Index the conversations of a source no longer.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=source_names)
@refused_foreign_options
@place_options
@click.pass_obj
def disable(
    obj: Invocation, /, names: tuple[str, ...], root: str | None, as_json: bool, **foreign: Any
) -> int:
    """Take NAME out of your configuration; `memtui index` then takes it out of the index."""
    from memtui.cli.sessions_sources import disable_sources

    return disable_sources(obj.with_options(root=root, json=as_json, **foreign), names)


@click.command(short_help="Ask again what the agent asked its memory, and compare.", epilog=EPILOG)
@click.argument("name", required=False, metavar="[PATH_OR_ID]")
@click.option("--changed", is_flag=True, help="Only searches that give something else now.")
@click.option(
    "--limit", type=click.IntRange(1), help="So many searches, the newest. [default: all]"
)
@click.option("--k", type=click.IntRange(1, 200), help="So many results, whatever was asked for.")
@parameter_options
@click.option("--jsonl", is_flag=True, help="One JSON document for each search.")
@query_vectors_option
@foreign_options
@demo_option
@place_options
@click.pass_obj
def replay(
    obj: Invocation,
    /,
    name: str | None,
    root: str | None,
    as_json: bool,
    demo: bool,
    agent: str | None,
    index: str | None,
    query_vectors: str | None,
    **options: Any,
) -> int:
    """Ask every search of the memory again that a conversation records, and compare.

    What came back then is beside what comes back now: = the same rank, ~ moved, + new, - gone and
    why. With PATH_OR_ID the searches of one conversation. Exits with 1 when there is nothing to
    show.
    """
    from memtui.cli.replay import run_replay

    called = obj.with_options(
        root=root, json=as_json, demo=demo, agent=agent, index=index, query_vectors=query_vectors
    )
    flags = ranking_flags({**options, "limit": options["k"]})
    return run_replay(called.with_flags(flags), name, options)
