"""`memtui [FOLDER]` and `memtui demo`: opening the terminal interface, or saying why not."""

from __future__ import annotations

import sys

import click

from memtui.cli.group import OPEN
from memtui.cli.invocation import VECTORS_NEED_AN_AGENT, Invocation
from memtui.cli.options import on_memory
from memtui.errors import SettingsError, WorkspaceNotFound


@click.command(OPEN, hidden=True)
@click.argument("folder", type=click.Path())
@on_memory(vectors=True, agent=True, private=True)
def open_command(invocation: Invocation, folder: str) -> int:
    """Open FOLDER in the terminal interface."""
    return open_folder(invocation, folder)


@click.command()
@on_memory(private=True)
def demo(invocation: Invocation) -> int:
    """Open a bundled sample memory in the terminal interface."""
    return open_folder(invocation.with_options(demo=True), None)


def open_folder(invocation: Invocation, folder: str | None) -> int:
    """Open the terminal interface on `folder`, the demo, or the memory that is found.

    Where no memory is found, a person at a terminal is offered the demo. With `--agent` or
    `--index` it is opened on that agent's index.
    """
    if folder is not None and invocation.root is not None:
        raise SettingsError("FOLDER and --root exclude each other")
    if folder is not None and invocation.foreign:
        raise SettingsError(
            "FOLDER excludes --agent and --index", hint="--root FOLDER gives the agent's workspace"
        )
    if invocation.json:
        raise SettingsError(
            "--json needs a command", hint="`memtui search QUERY --json`, `memtui --help`"
        )
    if not at_terminal():
        raise SettingsError(
            "the terminal interface needs a terminal",
            hint="`memtui search QUERY` and `memtui status` work without one",
        )
    if invocation.foreign:
        from memtui.cli.session import agent_opening

        # What cannot be opened is one line and no screen.
        loaded = invocation.settings(None)
        opening = agent_opening(invocation)
        engine = opening.open(invocation)
        return invocation.interface(opening.workspace(), loaded, foreign=engine)
    if invocation.query_vectors is not None:
        raise SettingsError(VECTORS_NEED_AN_AGENT)
    is_given = folder is not None or invocation.root is not None
    is_named = is_given or invocation.demo or bool(invocation.env.get("MEMTUI_ROOT"))
    try:
        workspace = invocation.workspace(folder)
    except WorkspaceNotFound as error:
        if is_given:
            raise
        if not is_named and _has_agents(invocation):
            return invocation.interface(None, invocation.settings(None), choose=True)
        _offer_demo(invocation, error)
        invocation = invocation.with_options(demo=True)
        workspace = invocation.workspace()
    loaded = invocation.settings(workspace.root)
    choose = not is_named and not invocation.demo and workspace.root != invocation.here()
    return invocation.interface(workspace, loaded, demo=invocation.demo, choose=choose)


def _has_agents(invocation: Invocation) -> bool:
    from memtui.index.foreign.discovery import agents_here

    agents = agents_here(invocation.env, invocation.home())
    return any(agent.database is not None for agent in agents)


def _offer_demo(invocation: Invocation, error: WorkspaceNotFound) -> None:
    """Ask whether the demo may take a memory's place; raises `click.exceptions.Exit` for no."""
    output = invocation.output()
    output.note(f"memtui: {error.message}")
    output.note(f"  {error.hint}")
    if not click.confirm("Look around in the bundled demo instead?", default=True, err=True):
        raise click.exceptions.Exit(error.exit_code)


def at_terminal() -> bool:
    """Tell whether a person sits in front of it: stdin and stdout are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()
