"""Groups of commands: each is loaded when it is called, and the nearest name is offered."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

from memtui.cli.output import delivering
from memtui.settings.keys import nearest

OPEN = "open"
"""Name of the hidden command that opens the terminal interface on a folder."""
COMMANDS = {
    **dict.fromkeys(("agents", "doctor", "providers"), "diagnosis"),
    **dict.fromkeys(("care", "chunk"), "browse"),
    **dict.fromkeys(("completions", "help"), "help"),
    **dict.fromkeys(("config", "trust"), "config"),
    **dict.fromkeys(("demo", OPEN), "opening"),
    "explain": "explain",
    **dict.fromkeys(("index", "status", "verify"), "index"),
    "profiles": "profiles",
    **dict.fromkeys(("replay", "sessions"), "sessions"),
    "search": "search",
}
"""The module of `memtui.cli` in which each command is."""
EXAMPLES = """\
Examples:
  memtui                            open the memory found here, in a terminal interface
  memtui search "router vlan" -n 3  search without it; --json for programs
  memtui demo                       look around in a bundled sample memory
"""


class ReaderGone(Exception):
    """Whoever read stdout has closed it; click would end the program with 1 for that."""


class FolderGroup(click.Group):
    """The program: a first word that is no command and names a folder opens that folder."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands without loading them."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"memtui.cli.{COMMANDS[cmd_name]}")
        return next(
            value
            for value in vars(module).values()
            if isinstance(value, click.Command) and value.name == cmd_name
        )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first word."""
        word = args[0]
        if word in COMMANDS:
            return word, self.get_command(ctx, word), args[1:]
        if looks_like_folder(word):
            return OPEN, self.get_command(ctx, OPEN), args
        names = [name for name in self.list_commands(ctx) if name != OPEN]
        near = nearest(word, names)
        hint = f"Did you mean `memtui {near}`?" if near else f"Commands: {', '.join(names)}."
        raise click.UsageError(f"{word!r} is neither a command nor a folder. {hint}", ctx)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command and hand its output over; raises `ReaderGone` when nobody wants it."""
        try:
            result = super().invoke(ctx)
            with delivering():
                sys.stdout.flush()
        except BrokenPipeError as error:
            raise ReaderGone from error
        return result

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show examples before everything else."""
        formatter.write(EXAMPLES + "\n")
        super().format_help(ctx, formatter)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show both ways to call memtui."""
        formatter.write_usage("memtui", "[OPTIONS] [FOLDER]")
        formatter.write_usage("memtui", "[OPTIONS] COMMAND [ARGS]...", prefix="       ")


def looks_like_folder(word: str) -> bool:
    """Tell whether a word names a folder: it is one, or it has a path separator or a `~`."""
    if word.startswith("-"):
        return False
    separators = [os.sep, *([os.altsep] if os.altsep else [])]
    return (
        word in {".", ".."}
        or word.startswith("~")
        or any(separator in word for separator in separators)
        or os.path.isdir(word)
    )


class Subgroup(click.Group):
    """A group within the program.

    A first word that is no command is the argument of the `default` command where there is one,
    else the nearest command is named.
    """

    def __init__(self, *args: Any, default: str | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._default = default

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first word."""
        word = args[0]
        if word in self.commands:
            return word, self.commands[word], args[1:]
        if self._default is not None:
            return self._default, self.commands[self._default], args
        near = nearest(word, list(self.commands))
        hint = f"Did you mean {near!r}?" if near else f"One of {', '.join(self.commands)}."
        raise click.UsageError(f"no such command: {word!r}. {hint}", ctx)
