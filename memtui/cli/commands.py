"""The commands and their options; what they do is loaded when one runs."""

from __future__ import annotations

from typing import Any

import click

from memtui.cli.group import OPEN, FolderGroup, Subgroup
from memtui.cli.invocation import Invocation
from memtui.cli.options import demo_option, place_options, ranking_flags, ranking_options

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
TOPICS = ("config", "exit-codes", "keys", "ranking", "search")
SHELLS = ("bash", "fish", "zsh")


@click.group(cls=FolderGroup, context_settings=CONTEXT, invoke_without_command=True)
@place_options
@click.option("--version", is_flag=True, help="Print the version; with --json those of libraries.")
@click.pass_context
def program(ctx: click.Context, root: str | None, as_json: bool, version: bool) -> int | None:
    """See what your AI agent remembers, and why it recalls it.

    Without a command, opens FOLDER in the terminal interface; without FOLDER, the memory that is
    found ($MEMTUI_ROOT, here, the OpenClaw workspace).
    """
    ctx.obj = ctx.obj.with_options(root=root, json=as_json)
    if version:
        from memtui.cli.version import show_version

        ctx.exit(show_version(ctx.obj))
    if ctx.invoked_subcommand is None:
        from memtui.cli.opening import open_folder

        return open_folder(ctx.obj, None)
    return None


@program.command(OPEN, hidden=True)
@click.argument("folder", type=click.Path())
@place_options
@click.pass_obj
def open_(obj: Invocation, /, folder: str, root: str | None, as_json: bool) -> int:
    """Open FOLDER in the terminal interface."""
    from memtui.cli.opening import open_folder

    return open_folder(obj.with_options(root=root, json=as_json), folder)


@program.command()
@place_options
@click.pass_obj
def demo(obj: Invocation, /, root: str | None, as_json: bool) -> int:
    """Open a bundled sample memory in the terminal interface."""
    from memtui.cli.opening import open_folder

    return open_folder(obj.with_options(root=root, json=as_json, demo=True), None)


@program.command(epilog="`memtui help search` tells about the query language and the output.")
@click.argument("query", nargs=-1, required=True)
@ranking_options
@click.option("--explain", is_flag=True, help="The arithmetic of every result.")
@click.option("--jsonl", is_flag=True, help="One JSON document for each result.")
@click.option("--plain", is_flag=True, help="Sentences: no columns, no bars, no colour.")
@click.option("--paths", is_flag=True, help="Only the files of the results, best first.")
@click.option("--zero-ok", is_flag=True, help="Exit with 0 when nothing is found.")
@click.option("--raw", is_flag=True, help="Leave control characters of notes as they are.")
@demo_option
@place_options
@click.pass_obj
def search(
    obj: Invocation,
    /,
    query: tuple[str, ...],
    root: str | None,
    as_json: bool,
    demo: bool,
    **options: Any,
) -> int:
    """Search the memory for QUERY."""
    from memtui.cli.search import run_search

    called = obj.with_options(root=root, json=as_json, demo=demo)
    return run_search(called.with_flags(ranking_flags(options)), " ".join(query), options)


@program.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--rank", type=click.IntRange(1), help="The result of this rank. [default: 1]")
@click.option("--chunk", metavar="PATH#L4", help="The chunk at this place, shown or not.")
@ranking_options
@click.option("--raw", is_flag=True, help="Leave control characters of notes as they are.")
@demo_option
@place_options
@click.pass_obj
def explain(
    obj: Invocation,
    /,
    query: tuple[str, ...],
    root: str | None,
    as_json: bool,
    demo: bool,
    **options: Any,
) -> int:
    """Show every number behind the rank of one result of QUERY."""
    from memtui.cli.explain import run_explain

    if options["rank"] is not None and options["chunk"] is not None:
        raise click.UsageError("--rank and --chunk exclude each other")
    called = obj.with_options(root=root, json=as_json, demo=demo)
    return run_explain(called.with_flags(ranking_flags(options)), " ".join(query), options)


@program.command()
@click.option("--force", is_flag=True, help="Build the index anew; vectors come from the cache.")
@click.option("--watch", is_flag=True, help="Go on and follow changes, until Ctrl-C.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@demo_option
@place_options
@click.pass_obj
def index(
    obj: Invocation,
    /,
    root: str | None,
    as_json: bool,
    demo: bool,
    force: bool,
    watch: bool,
    dry_run: bool,
) -> int:
    """Index what has changed since the last time."""
    from memtui.cli.index import run_index

    if watch and dry_run:
        raise click.UsageError("--watch and --dry-run exclude each other")
    called = obj.with_options(root=root, json=as_json, demo=demo)
    return run_index(called, force=force, watch=watch, dry_run=dry_run)


@program.command(short_help="Show the state of the index and what is wrong.")
@click.option("--deep", is_flag=True, help="Ask the provider and check the database, too.")
@demo_option
@place_options
@click.pass_obj
def status(obj: Invocation, /, root: str | None, as_json: bool, demo: bool, deep: bool) -> int:
    """Show the state of the index, and everything that is wrong with it."""
    from memtui.cli.status import run_status

    return run_status(obj.with_options(root=root, json=as_json, demo=demo), deep=deep)


@program.group(cls=Subgroup)
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
@place_options
@click.pass_obj
def config_init(obj: Invocation, /, root: str | None, as_json: bool, force: bool) -> int:
    """Write a configuration file with every key and its default, as comments."""
    from memtui.cli.config import init_config

    return init_config(obj.with_options(root=root, json=as_json), force=force)


@program.command(short_help="Trust a memory folder's own configuration.")
@click.argument("folder", required=False, type=click.Path())
@click.option("--dry-run", is_flag=True, help="Only show what would be allowed.")
@click.option("--revoke", is_flag=True, help="Stop trusting the file.")
@place_options
@click.pass_obj
def trust(
    obj: Invocation,
    folder: str | None,
    root: str | None,
    as_json: bool,
    dry_run: bool,
    revoke: bool,
) -> int:
    """Let the configuration file of FOLDER set commands and endpoints.

    Holds for exactly this content of the file: a change has to be trusted again.
    """
    from memtui.cli.trust import run_trust

    called = obj.with_options(root=folder or root, json=as_json)
    return run_trust(called, dry_run=dry_run, revoke_it=revoke)


@program.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@place_options
@click.pass_obj
def completions(obj: Invocation, /, shell: str, root: str | None, as_json: bool) -> int:
    """Print the completion script of SHELL: `eval "$(memtui completions bash)"`."""
    from memtui.cli.completions import print_completions

    return print_completions(obj.with_options(root=root, json=as_json), program, shell)


@program.command("help")
@click.argument("topic", required=False, type=click.Choice(TOPICS))
@place_options
@click.pass_context
def help_(ctx: click.Context, topic: str | None, root: str | None, as_json: bool) -> int:
    """Explain TOPIC: config, exit-codes, keys, ranking, search."""
    from memtui.cli.topics import show_topic

    called = ctx.obj.with_options(root=root, json=as_json)
    parent = ctx.parent
    return show_topic(called, topic, parent.get_help() if parent is not None else "")
