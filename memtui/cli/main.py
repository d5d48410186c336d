"""The program: its commands, help and completions; the terminal interface it opens; its ends.

Every way a command can end is an exit code and a clean message.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from importlib import import_module
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import click

from memtui import __version__, errors
from memtui.cli.common_options import (
    VECTORS_NEED_AN_AGENT,
    Interface,
    Invocation,
    Subgroup,
    command,
)
from memtui.cli.output import Output, OutputFailed, at_terminal, delivering, silence_stdout
from memtui.data import DATA_FOLDER
from memtui.memory.workspace import home_folder
from memtui.report.suggested_commands import COMMANDS
from memtui.settings.actions import ACTIONS
from memtui.settings.files import StateFolder
from memtui.settings.shown import masked_text
from memtui.text.redact import redact
from memtui.text.sanitize import safe_line

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
_MODULES = {name: row["module"] for name, row in COMMANDS.items() if "module" in row}
"""The module of `memtui.cli` in which each command is; it is loaded when it is called."""
_TOPIC_FOLDER = DATA_FOLDER / "help"
MOST_CRASHES = 5
"""The traces of so many crashes are kept."""
LONGEST_MESSAGE = 200
"""Characters of an exception's message that are told."""
_LIBRARIES = ("apsw", "click", "numpy", "onnxruntime", "sqlite-vec", "textual", "watchdog")


class ReaderGone(Exception):
    """Whoever read stdout has closed it; click would end the program with 1 for that."""


class Program(Subgroup):
    """The program: a first word that is no command and names a folder opens that folder."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands without loading them."""
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        module = import_module(f"memtui.cli.{_MODULES[cmd_name]}")
        commands = (one for one in vars(module).values() if isinstance(one, click.Command))
        return next(command for command in commands if command.name == cmd_name)

    def takes(self, word: str) -> bool:
        """Tell whether a word names a folder: it is there, or has a separator or a `~`."""
        has_separator = any(mark in word for mark in (os.sep, os.altsep) if mark)
        is_like_a_folder = word in {".", ".."} or word.startswith("~") or has_separator
        return not word.startswith("-") and (is_like_a_folder or os.path.isdir(word))

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
        formatter.write((_TOPIC_FOLDER / "examples.txt").read_text("utf-8") + "\n")
        super().format_help(ctx, formatter)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show both ways to call memtui."""
        formatter.write_usage("memtui", "[OPTIONS] [FOLDER]")
        formatter.write_usage("memtui", "[OPTIONS] COMMAND [ARGS]...", prefix="       ")


@command("memtui", cls=Program)
def program(invocation: Invocation, version: bool) -> int | None:
    """See what your AI agent remembers, and why it recalls it."""
    ctx = click.get_current_context()
    name = ctx.invoked_subcommand
    # The demo says itself that it excludes an agent.
    reads_index = name in (None, "demo") or {"agent", "no agent"} & {*COMMANDS[name].get("on", ())}
    if invocation.foreign and not reads_index:
        message = f"--agent and --index mean nothing to `memtui {name}`"
        raise click.NoSuchOption("--agent", message, ctx=ctx)
    if version:
        import platform
        from importlib import metadata

        def version_of(name: str) -> str | None:
            return next((one.version for one in metadata.distributions(name=name)), None)

        document = {
            "version": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "libraries": {name: version_of(name) for name in _LIBRARIES if invocation.json},
        }
        ctx.exit(invocation.respond(document, [f"memtui {__version__}"]))
    return open_folder(invocation, None) if name is None else None


@command("open")
def open_command(invocation: Invocation, folder: str) -> int:
    """Open FOLDER in the terminal interface."""
    return open_folder(invocation, folder)


@command("demo")
def demo(invocation: Invocation) -> int:
    """Open a bundled sample memory in the terminal interface."""
    return open_folder(invocation.with_options(demo=True), None)


def open_folder(invocation: Invocation, folder: str | None) -> int:
    """Open the terminal interface on `folder`, the demo, or the memory that is found.

    Where no memory is found, a person at a terminal is offered the demo. With `--agent` or
    `--index` it is opened on that agent's index.
    """
    if folder is not None and invocation.root is not None:
        raise errors.SettingsError("FOLDER and --root exclude each other")
    if folder is not None and invocation.foreign:
        raise errors.SettingsError(
            "FOLDER excludes --agent and --index", hint="--root FOLDER gives the agent's workspace"
        )
    if invocation.json:
        raise errors.SettingsError(
            "--json needs a command", hint="`memtui search QUERY --json`, `memtui --help`"
        )
    is_dumb = invocation.env.get("TERM") == "dumb"
    if is_dumb or not at_terminal():
        raise errors.SettingsError(
            f"the terminal interface needs a terminal{', and TERM=dumb is none' * is_dumb}",
            hint="`memtui search QUERY` and `memtui status` work without one",
        )
    if invocation.foreign:
        from memtui.cli.session import open_agent

        # What cannot be opened is one line and no screen.
        session = open_agent(invocation)
        return invocation.interface(session.workspace, session.loaded, foreign=session.engine)
    if invocation.query_vectors is not None:
        raise errors.SettingsError(VECTORS_NEED_AN_AGENT)
    is_given = folder is not None or invocation.root is not None
    is_named = is_given or invocation.demo or bool(invocation.env.get("MEMTUI_ROOT"))
    try:
        workspace = invocation.workspace(folder)
    except errors.WorkspaceNotFound as error:
        if is_given:
            raise
        if not is_named:
            from memtui.index.foreign.agents import agents_here

            agents = agents_here(invocation.env, invocation.home)
            if any(agent.database is not None for agent in agents):
                return invocation.interface(None, invocation.settings(None), choose=True)
        output = invocation.output()
        output.note(f"memtui: {error.message}")
        output.note(f"  {error.hint}")
        if not click.confirm("Look around in the bundled demo instead?", default=True, err=True):
            raise click.exceptions.Exit(error.exit_code) from error
        invocation = invocation.with_options(demo=True)
        workspace = invocation.workspace()
    loaded = invocation.settings(workspace.root)
    choose = not is_named and not invocation.demo and workspace.root != invocation.here
    return invocation.interface(workspace, loaded, demo=invocation.demo, choose=choose)


@command("completions")
def completions(invocation: Invocation, shell: str) -> int:
    """Print the completion script of SHELL: `eval "$(memtui completions bash)"`."""
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    assert completion is not None, "every shell of the choice has one"
    program = click.get_current_context().find_root().command
    script = completion(program, {}, "memtui", "_MEMTUI_COMPLETE").source()
    return invocation.respond({"shell": shell, "script": script}, data=script.splitlines())


@command("help")
def help_(invocation: Invocation, topic: str | None) -> int:
    """Explain TOPIC, or a command."""
    root = click.get_current_context().find_root()
    topics = sorted(file.stem for file in _TOPIC_FOLDER.glob("*.md"))
    if topic is None:
        names = click.wrap_text(", ".join(topics), 80, "  ", "  ")
        text = f"{root.get_help()}\n\nTopics (memtui help TOPIC):\n{names}"
    elif topic not in topics:
        text = click.Context(program.get_command(root, topic), root, topic).get_help()
    else:
        text = (_TOPIC_FOLDER / f"{topic}.md").read_text("utf-8")
        width = max(len(action.id) for action in ACTIONS)
        for action in ACTIONS if topic == "keys" else ():
            head = f"  {' '.join(action.keys):<16}{action.id:<{width}}  "
            text += click.wrap_text(action.help, 80, head, " " * len(head)) + "\n"
    output = invocation.output()
    if not output.out_is_terminal or invocation.json:
        document = {"topic": topic, "topics": topics, "text": text}
        return invocation.respond(document, text.rstrip("\n").split("\n"))
    # Help is shown even when the configuration is broken; then $PAGER decides alone.
    try:
        pager = invocation.settings(None).settings.pager
    except errors.MemtuiError as error:
        output.note(f"memtui: {error.message}")
    else:
        if pager:
            os.environ["PAGER"] = pager
    click.echo_via_pager(text)
    return 0


def run(arguments: Sequence[str], interface: Interface) -> int:
    """Run memtui with these arguments and return the exit code.

    `interface` opens the terminal interface. Errors go to stderr; with `--json` they are the one
    document on stdout.
    """
    env = dict(os.environ)
    # A folder that was removed leaves the top folder.
    here = Path(os.sep)
    with suppress(FileNotFoundError):
        here = Path.cwd()
    called = Invocation(interface, env, here, home_folder())
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
        error = errors.MemtuiError("interrupted", code="interrupted", exit_code=EXIT_INTERRUPTED)
    except click.ClickException as failure:
        ctx = getattr(failure, "ctx", None)
        hint = f"`{ctx.command_path} --help` shows how" if ctx is not None else ""
        option = getattr(failure, "option_name", "--")
        parameters = ctx.command.params if ctx is not None else ()
        is_of_query = any(one.name == "query" for one in parameters)
        if is_of_query and not option.startswith("--"):
            before = [*takewhile(lambda word: not word.startswith(option), arguments)]
            typed = shlex.join(["memtui", *before, "--", *arguments[len(before) : len(before) + 1]])
            hint = f"a word of a query that begins with - stands behind --: `{typed}`"
        message = failure.format_message()
        if option == "--demo" and ctx is not None:
            message = f"--demo means nothing to `{ctx.command_path}`"
            hint = hint if ctx.parent else "`memtui demo` opens the demo"
        if isinstance(failure, click.NoSuchOption) and option in ("--agent", "--index"):
            hint = "`memtui status --agent NAME` tells what is wrong with an agent's index"
        error = errors.MemtuiError(message, hint=hint, code="usage", exit_code=EXIT_USAGE)
    except errors.MemtuiError as failure:
        error = failure
    except Exception as failure:
        error = errors.OutOfMemory() if errors.is_out_of_memory(failure) else _crash(failure)
    _report(env, error, as_json=wants_json(arguments))
    return error.exit_code


def wants_json(arguments: Sequence[str]) -> bool:
    """Tell whether JSON is asked for among the arguments, however wrong the others are."""
    options = list(takewhile(lambda argument: argument != "--", arguments))
    names_it = not {"--json", "--jsonl", "--format=json"}.isdisjoint(options)
    return names_it or ("--format", "json") in pairwise(options)


def _report(env: Mapping[str, str], error: errors.MemtuiError, *, as_json: bool) -> None:
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


def thread_crashed(details: threading.ExceptHookArgs) -> None:
    """Report an exception that ended a thread, in the place of Python's own trace."""
    # Textual's thread that writes to the terminal ends like this when somebody closes it.
    is_of_terminal = details.thread is not None and details.thread.name == "textual-output"
    if isinstance(details.exc_value, Exception) and not is_of_terminal:
        _report(os.environ, _crash(details.exc_value), as_json=False)


def _crash(error: Exception) -> errors.MemtuiError:
    """Keep the trace of what should not have happened in the state folder, and tell where it is.

    The trace has no values of variables; what its messages hold of a credential is masked.
    """
    import traceback

    def masked(lines: Sequence[str]) -> str:
        text = "".join(lines).encode("utf-8", "backslashreplace").decode()
        return redact(masked_text(text))

    try:
        state = StateFolder()
        name = f"crash-{datetime.now():%Y%m%d-%H%M%S-%f}.txt"
        state.write_text(name, masked(traceback.format_exception(error)))
        trace = str(state.path / name)
        for older in sorted(state.path.glob("crash-*.txt"))[:-MOST_CRASHES]:
            older.unlink(missing_ok=True)
    except (OSError, errors.SettingsError) as failure:
        trace = f"nowhere ({getattr(failure, 'strerror', failure)})"
    steps = [
        f"{module}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if (module := frame.f_globals.get("__name__", "")).startswith("memtui.")
    ]
    description = safe_line(masked(traceback.format_exception_only(error)).strip())
    place = f" at {steps[-1]}" if steps else ""
    message = f"this should not have happened: {description[:LONGEST_MESSAGE]}{place}"
    return errors.MemtuiError(message, hint=f"trace in {trace}", code="internal")
