"""Running the command line: every way a command can end is an exit code and a clean message."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from memtui import __version__
from memtui.cli.common_options import COMMANDS, Interface, Invocation, command
from memtui.cli.output import Output, OutputFailed, delivering, silence_stdout
from memtui.errors import MemtuiError, SettingsError
from memtui.settings.keys import nearest
from memtui.settings.shown import masked_text
from memtui.settings.storage import StateFolder

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
OPEN = "open"
"""Name of the hidden command that opens the terminal interface on a folder."""
_MODULES = {name: row["module"] for name, row in COMMANDS.items() if "module" in row}
"""The module of `memtui.cli` in which each command is; it is loaded when it is called."""
READS_AN_INDEX = frozenset(
    name
    for name, row in COMMANDS.items()
    if name == "demo" or {"agent", "no agent"} & {*row.get("on", ())}
)
"""Commands for which `--agent` and `--index` before the command mean something."""
EXAMPLES = """\
Examples:
  memtui                            open the memory found here, in a terminal interface
  memtui search "router vlan" -n 3  search without it; --json for programs
  memtui demo                       look around in a bundled sample memory
"""
_LIBRARIES = ("apsw", "click", "numpy", "onnxruntime", "sqlite-vec", "textual", "watchdog")


class ReaderGone(Exception):
    """Whoever read stdout has closed it; click would end the program with 1 for that."""


class Program(click.Group):
    """The program: a first word that is no command and names a folder opens that folder."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands without loading them."""
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        if cmd_name not in _MODULES:
            return None
        module = import_module(f"memtui.cli.{_MODULES[cmd_name]}")
        return next(
            value
            for value in vars(module).values()
            if isinstance(value, click.Command) and value.name == cmd_name
        )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first word: a folder exists, or has a separator or a `~`."""
        word = args[0]
        if word in _MODULES:
            return word, self.get_command(ctx, word), args[1:]
        has_separator = any(mark in word for mark in (os.sep, os.altsep) if mark)
        is_like_a_folder = word in {".", ".."} or word.startswith("~") or has_separator
        if not word.startswith("-") and (is_like_a_folder or os.path.isdir(word)):
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


@command("memtui", cls=Program)
def program(invocation: Invocation, version: bool) -> int | None:
    """See what your AI agent remembers, and why it recalls it.

    Without a command, opens FOLDER in the terminal interface; without FOLDER, the memory that is
    found ($MEMTUI_ROOT, here, the OpenClaw workspace). With --agent or --index, opens the index
    of an OpenClaw agent and changes nothing of it; --root FOLDER is then its workspace.
    """
    ctx = click.get_current_context()
    ctx.obj = invocation
    name = ctx.invoked_subcommand
    if invocation.foreign and name is not None and name not in READS_AN_INDEX:
        raise click.UsageError(f"--agent and --index mean nothing to `memtui {name}`", ctx)
    if version:
        import platform
        from importlib import metadata

        libraries: dict[str, str | None] = {}
        for library in _LIBRARIES if invocation.json else ():
            try:
                libraries[library] = metadata.version(library)
            except metadata.PackageNotFoundError:
                libraries[library] = None
        document = {
            "version": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "libraries": libraries,
        }
        ctx.exit(invocation.respond(document, [f"memtui {__version__}"]))
    if name is None:
        from memtui.cli.interface import open_folder

        return open_folder(invocation, None)
    return None


def run(arguments: Sequence[str], interface: Interface) -> int:
    """Run memtui with these arguments and return the exit code.

    `interface` opens the terminal interface. Errors go to stderr; with `--json` they are the one
    document on stdout.
    """
    env = dict(os.environ)
    # A folder that was removed, and a user without a home, leave the top folder.
    here = home = Path(os.sep)
    with suppress(FileNotFoundError):
        here = Path.cwd()
    with suppress(RuntimeError):
        home = Path.home()
    called = Invocation(interface, env, here, home)
    try:
        result = program.main(list(arguments), "memtui", standalone_mode=False, obj=called)
        return result if isinstance(result, int) else 0
    except (BrokenPipeError, ReaderGone):
        silence_stdout()
        return 0
    except OutputFailed as failure:
        silence_stdout()
        _report(env, failure, as_json=False)
        return failure.exit_code
    except (click.Abort, KeyboardInterrupt):
        error = MemtuiError("interrupted", code="interrupted", exit_code=EXIT_INTERRUPTED)
    except click.ClickException as failure:
        ctx = getattr(failure, "ctx", None)
        hint = f"`{ctx.command_path} --help` shows how" if ctx is not None else ""
        message = failure.format_message()
        error = MemtuiError(message, hint=hint, code="usage", exit_code=EXIT_USAGE)
    except MemtuiError as failure:
        error = failure
    except Exception as failure:
        error = _crash(failure)
    _report(env, error, as_json=wants_json(arguments))
    return error.exit_code


def wants_json(arguments: Sequence[str]) -> bool:
    """Tell whether JSON is asked for among the arguments, however wrong the others are."""
    before = ""
    for argument in arguments:
        if argument == "--":
            return False
        is_format = (before, argument) == ("--format", "json")
        if is_format or argument in {"--json", "--jsonl", "--format=json"}:
            return True
        before = argument
    return False


def _report(env: Mapping[str, str], error: MemtuiError, *, as_json: bool) -> None:
    try:
        output = Output(env)
        if as_json:
            names = ("code", "message", "hint", "exit_code")
            output.document({"error": {name: getattr(error, name) for name in names}})
        else:
            output.progress("")
            output.note(f"memtui: {error.message}")
            if error.hint:
                output.note(f"  {error.hint}")
        output.flush()
    except (BrokenPipeError, OutputFailed):
        silence_stdout()


def _crash(error: Exception) -> MemtuiError:
    """Keep the traceback of what should not have happened in the state folder."""
    import traceback

    try:
        state = StateFolder()
        where = str(state.path / "crash.log")
        state.write_text("crash.log", masked_text("".join(traceback.format_exception(error))))
    except OSError as failure:
        where = f"nowhere ({failure.strerror})"
    except SettingsError as failure:
        where = f"nowhere ({failure.message})"
    message = masked_text(f"this should not have happened: {type(error).__name__}: {error}")
    return MemtuiError(message, hint=f"traceback in {where}", code="internal")
