"""Completion scripts for shells."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from memtui.cli.invocation import Invocation


def print_completions(invocation: Invocation, program: click.Command, shell: str) -> int:
    """Print the script that makes `shell` complete memtui's commands and options."""
    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"no completions for {shell!r}")
    script = completion(program, {}, "memtui", "_MEMTUI_COMPLETE").source()
    output = invocation.output()
    if invocation.json:
        output.document({"shell": shell, "script": script})
    else:
        for line in script.splitlines():
            output.data(line)
    return 0
