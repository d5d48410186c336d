"""Opening the terminal interface, or saying why not."""

from __future__ import annotations

import sys

import click

from memtui.cli.invocation import Invocation
from memtui.errors import SettingsError, WorkspaceNotFound


def open_folder(invocation: Invocation, folder: str | None) -> int:
    """Open the terminal interface on `folder`, the demo, or the memory that is found.

    Where no memory is found, a person at a terminal is offered the demo.
    """
    if folder is not None and invocation.root is not None:
        raise SettingsError("FOLDER and --root exclude each other")
    if invocation.json:
        raise SettingsError(
            "--json needs a command", hint="`memtui search QUERY --json`, `memtui --help`"
        )
    if not at_terminal():
        raise SettingsError(
            "the terminal interface needs a terminal",
            hint="`memtui search QUERY` and `memtui status` work without one",
        )
    try:
        workspace = invocation.workspace(folder)
    except WorkspaceNotFound as error:
        if folder is not None or invocation.root is not None:
            raise
        output = invocation.output()
        output.note(f"memtui: {error.message}")
        output.note(f"  {error.hint}")
        if not click.confirm("Look around in the bundled demo instead?", default=True, err=True):
            return error.exit_code
        invocation = invocation.with_options(demo=True)
        workspace = invocation.workspace()
    loaded = invocation.settings(workspace.root)
    return invocation.interface(workspace, loaded, demo=invocation.demo)


def at_terminal() -> bool:
    """Whether a person sits in front of it: stdin and stdout are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()
