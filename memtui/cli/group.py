"""A command group that also takes a folder: `memtui notes/` and `memtui search` side by side."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from memtui.cli.output import delivering

OPEN = "open"
"""Name of the hidden command that opens the terminal interface on a folder."""

EXAMPLES = """\
Examples:
  memtui                            open the memory found here, in a terminal interface
  memtui search "router vlan" -n 3  search without it; --json for programs
  memtui demo                       look around in a bundled sample memory
"""


class ReaderGone(Exception):
    """Whoever read stdout has closed it; click would end the program with 1 for that."""


class FolderGroup(click.Group):
    """Commands by name; a first word that is none of them and names a folder opens that folder."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first word."""
        word = args[0]
        command = self.get_command(ctx, word)
        if command is not None:
            return word, command, args[1:]
        if looks_like_folder(word):
            return OPEN, self.get_command(ctx, OPEN), args
        raise click.UsageError(_unknown(word, self._visible(ctx)), ctx)

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

    def _visible(self, ctx: click.Context) -> list[str]:
        names = self.list_commands(ctx)
        return [name for name in names if not self.commands[name].hidden]


def looks_like_folder(word: str) -> bool:
    """Whether a word names a folder: it is one, or it has a path separator or a `~`."""
    if word.startswith("-"):
        return False
    separators = [os.sep, *([os.altsep] if os.altsep else [])]
    return (
        word in {".", ".."}
        or word.startswith("~")
        or any(separator in word for separator in separators)
        or os.path.isdir(word)
    )


def _unknown(word: str, commands: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word[:100], commands, n=1, cutoff=0.5)
    hint = f" Did you mean `memtui {near[0]}`?" if near else f" Commands: {', '.join(commands)}."
    return f"{word!r} is neither a command nor a folder.{hint}"


class Subgroup(click.Group):
    """A group of commands that names the nearest one when there is no such command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first word."""
        command = self.get_command(ctx, args[0])
        if command is None:
            import difflib

            near: Any = difflib.get_close_matches(args[0][:100], self.commands, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]!r}?" if near else f"One of {', '.join(self.commands)}."
            raise click.UsageError(f"no such command: {args[0]!r}. {hint}", ctx)
        return args[0], command, args[1:]


class PlaceGroup(click.Group):
    """A group in which a first word that is no command is the argument of the default one."""

    def __init__(self, *args: Any, default: str, **options: Any) -> None:
        """`default` names the command."""
        super().__init__(*args, **options)
        self._default = default

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first word."""
        command = self.get_command(ctx, args[0])
        if command is not None:
            return args[0], command, args[1:]
        return self._default, self.get_command(ctx, self._default), args
