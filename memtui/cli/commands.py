"""The commands and their options; what they do is loaded when one runs."""

from __future__ import annotations

from typing import Any

import click

from memtui.cli.browse_commands import care, chunk
from memtui.cli.config_commands import config
from memtui.cli.filter_options import filter_options, filtered
from memtui.cli.group import OPEN, FolderGroup
from memtui.cli.invocation import Invocation
from memtui.cli.options import (
    demo_option,
    explain_options,
    foreign_options,
    place_options,
    private_option,
    query_vectors_option,
    ranking_flags,
    ranking_options,
    refused_foreign_options,
)
from memtui.cli.profile_commands import profiles
from memtui.cli.sessions_commands import replay, sessions

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
TOPICS = (
    *("agents", "browse", "care", "config", "exit-codes", "keys"),
    *("providers", "ranking", "search", "sessions"),
)
SHELLS = ("bash", "fish", "zsh")
READS_AN_INDEX = frozenset(
    {"care", "chunk", "demo", "explain", "index", "replay", "search", "sessions"}
    | {"status", "verify", OPEN}
)
"""Commands for which `--agent` and `--index` before the command mean something."""


@click.group(cls=FolderGroup, context_settings=CONTEXT, invoke_without_command=True)
@query_vectors_option
@foreign_options
@private_option
@place_options
@click.option("--version", is_flag=True, help="Print the version; with --json those of libraries.")
@click.pass_context
def program(
    ctx: click.Context, /, root: str | None, as_json: bool, version: bool, **options: Any
) -> int | None:
    """See what your AI agent remembers, and why it recalls it.

    Without a command, opens FOLDER in the terminal interface; without FOLDER, the memory that is
    found ($MEMTUI_ROOT, here, the OpenClaw workspace). With --agent or --index, opens the index
    of an OpenClaw agent and changes nothing of it; --root FOLDER is then its workspace.
    """
    ctx.obj = ctx.obj.with_options(root=root, json=as_json, **options)
    command = ctx.invoked_subcommand
    if ctx.obj.foreign and command is not None and command not in READS_AN_INDEX:
        raise click.UsageError(f"--agent and --index mean nothing to `memtui {command}`", ctx)
    if version:
        from memtui.cli.version import show_version

        ctx.exit(show_version(ctx.obj))
    if ctx.invoked_subcommand is None:
        from memtui.cli.opening import open_folder

        return open_folder(ctx.obj, None)
    return None


@program.command(OPEN, hidden=True)
@click.argument("folder", type=click.Path())
@query_vectors_option
@foreign_options
@private_option
@place_options
@click.pass_obj
def open_(obj: Invocation, /, folder: str, root: str | None, as_json: bool, **options: Any) -> int:
    """Open FOLDER in the terminal interface."""
    from memtui.cli.opening import open_folder

    return open_folder(obj.with_options(root=root, json=as_json, **options), folder)


@program.command()
@private_option
@place_options
@click.pass_obj
def demo(obj: Invocation, /, root: str | None, as_json: bool, private: bool) -> int:
    """Open a bundled sample memory in the terminal interface."""
    from memtui.cli.opening import open_folder

    called = obj.with_options(root=root, json=as_json, demo=True, private=private)
    return open_folder(called, None)


@program.command(epilog="`memtui help search` tells about the query language and the output.")
@click.argument("query", nargs=-1, required=True)
@filter_options
@ranking_options
@click.option("--explain", is_flag=True, help="The arithmetic of every result.")
@click.option("--jsonl", is_flag=True, help="One JSON document for each result.")
@click.option("--plain", is_flag=True, help="Sentences: no columns, no bars, no colour.")
@click.option("--paths", is_flag=True, help="Only the files of the results, best first.")
@click.option("--zero-ok", is_flag=True, help="Exit with 0 when nothing is found.")
@click.option("--raw", is_flag=True, help="Leave control characters of notes as they are.")
@query_vectors_option
@foreign_options
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
    agent: str | None,
    index: str | None,
    query_vectors: str | None,
    **options: Any,
) -> int:
    """Search the memory for QUERY."""
    from memtui.cli.search import run_search

    called = obj.with_options(
        root=root, json=as_json, demo=demo, agent=agent, index=index, query_vectors=query_vectors
    )
    asked = filtered(" ".join(query), options)
    return run_search(called.with_flags(ranking_flags(options)), asked, options)


@program.command(short_help="Why a result, a line or a file is in the list or not.")
@click.argument("query", nargs=-1, required=True)
@explain_options
@filter_options
@ranking_options
@click.option("--raw", is_flag=True, help="Leave control characters of notes as they are.")
@query_vectors_option
@foreign_options
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
    agent: str | None,
    index: str | None,
    query_vectors: str | None,
    **options: Any,
) -> int:
    """Show why a result, a line or a file is in the list of QUERY or not, with every number.

    Of what is not shown: where it was lost, the least change of each parameter that brings it in,
    and the words that would. Exits with 1 when there is no such rank or no such file.
    """
    from memtui.cli.explain import run_explain

    if options["rank"] is not None and options["chunk"] is not None:
        raise click.UsageError("--rank and --chunk exclude each other")
    called = obj.with_options(
        root=root, json=as_json, demo=demo, agent=agent, index=index, query_vectors=query_vectors
    )
    asked = filtered(" ".join(query), options)
    return run_explain(called.with_flags(ranking_flags(options)), asked, options)


@program.command()
@click.option("--force", is_flag=True, help="Build the index anew; vectors come from the cache.")
@click.option("--watch", is_flag=True, help="Go on and follow changes, until Ctrl-C.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@refused_foreign_options
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
    **foreign: Any,
) -> int:
    """Index what has changed since the last time."""
    from memtui.cli.index import run_index

    if watch and dry_run:
        raise click.UsageError("--watch and --dry-run exclude each other")
    called = obj.with_options(root=root, json=as_json, demo=demo, **foreign)
    return run_index(called, force=force, watch=watch, dry_run=dry_run)


@program.command(short_help="Show the state of the index and what is wrong.")
@click.option("--deep", is_flag=True, help="Ask the provider and check the database, too.")
@foreign_options
@demo_option
@place_options
@click.pass_obj
def status(
    obj: Invocation,
    /,
    root: str | None,
    as_json: bool,
    demo: bool,
    deep: bool,
    **foreign: Any,
) -> int:
    """Show the state of the index, and everything that is wrong with it.

    With --agent or --index: what the agent's index really holds against what it should hold.
    That is always a deep look: every file is compared and the database is checked, no provider
    is asked. Exits with 0 when the index can be searched, whatever is found, and with 3 when it
    cannot be read or there is none.
    """
    called = obj.with_options(root=root, json=as_json, demo=demo, **foreign)
    if called.foreign:
        from memtui.cli.status_foreign import run_foreign_status

        return run_foreign_status(called)
    from memtui.cli.status import run_status

    return run_status(called, deep=deep)


@program.command(short_help="Compare with recorded answers of the agent's own program.")
@click.option(
    "--against",
    metavar="FILE",
    type=click.Path(),
    multiple=True,
    required=True,
    help="Answers of `openclaw memory search --json`; may be repeated.",
)
@click.option("--profile", help="Search as this release. [default: the index decides]")
@click.option("--verbose", is_flag=True, help="Name the queries that agree, too.")
@query_vectors_option
@foreign_options
@place_options
@click.pass_obj
def verify(
    obj: Invocation,
    /,
    root: str | None,
    as_json: bool,
    agent: str | None,
    index: str | None,
    query_vectors: str | None,
    **options: Any,
) -> int:
    """Run recorded queries on an agent's index and compare with the recorded answers.

    Exits with 0 when all agree, with 1 when one differs: the first stage that does is named.
    """
    from memtui.cli.verify import run_verify

    called = obj.with_options(
        root=root, json=as_json, agent=agent, index=index, query_vectors=query_vectors
    )
    named = {"agent": called.agent, "index": called.index, "query_vectors": called.query_vectors}
    return run_verify(called, {**options, **named})


@program.command(short_help="List the OpenClaw agents of this machine and their indexes.")
@place_options
@click.pass_obj
def agents(obj: Invocation, /, root: str | None, as_json: bool) -> int:
    """List the OpenClaw agents of this machine: index, model, size, last change, problems.

    Looks where OpenClaw does: $OPENCLAW_STATE_DIR, ~/.openclaw and its profiles, the older
    names. Exits with 1 when there is none.
    """
    from memtui.cli.agents import run_agents

    return run_agents(obj.with_options(json=as_json))


@program.command(short_help="List the embedding providers and how each of them is.")
@place_options
@click.pass_obj
def providers(obj: Invocation, /, root: str | None, as_json: bool) -> int:
    """List the embedding providers: state, model, dimensions, where text goes, what is missing.

    Loads none of them and asks nobody; `memtui doctor --probe` does.
    """
    from memtui.cli.providers import run_providers

    return run_providers(obj.with_options(root=root, json=as_json))


@program.command(short_help="Look at everything and say what is wrong, with the next step.")
@click.option("--probe", is_flag=True, help="Ask the configured and the local providers, too.")
@demo_option
@place_options
@click.pass_obj
def doctor(obj: Invocation, /, root: str | None, as_json: bool, probe: bool, demo: bool) -> int:
    """Look at settings, folders, notes, index, watcher, agents and embedding providers.

    Works without a memory folder and with broken settings. With --probe one word is embedded by
    every provider that is configured or runs on this machine; no other service is asked. Exits
    with the code of the problem that has to be put right first (`memtui help exit-codes`).
    """
    from memtui.cli.doctor import run_doctor

    return run_doctor(obj.with_options(root=root, json=as_json, demo=demo), probe=probe)


program.add_command(config)
program.add_command(profiles)
program.add_command(sessions)
program.add_command(care)
program.add_command(chunk)
program.add_command(replay)


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
    """Explain TOPIC.

    Topics: agents, browse, care, config, exit-codes, keys, providers, ranking, search, sessions.
    """
    from memtui.cli.topics import show_topic

    called = ctx.obj.with_options(root=root, json=as_json)
    parent = ctx.parent
    return show_topic(called, topic, parent.get_help() if parent is not None else "")
