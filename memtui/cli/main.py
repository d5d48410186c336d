"""Running the command line: every way a command can end is an exit code and a clean message."""

from __future__ import annotations

import os
import platform
import traceback
from collections.abc import Sequence
from importlib import metadata

import click

from memtui import __version__
from memtui.cli.group import OPEN, FolderGroup, ReaderGone
from memtui.cli.invocation import Interface, Invocation
from memtui.cli.options import on_memory
from memtui.cli.output import Output, OutputFailed, silence_stdout
from memtui.errors import MemtuiError, SettingsError
from memtui.settings.shown import masked_text
from memtui.settings.storage import StateFolder

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
READS_AN_INDEX = frozenset(
    {"care", "chunk", "demo", "explain", "index", "replay", "search", "sessions"}
    | {"status", "verify", OPEN}
)
"""Commands for which `--agent` and `--index` before the command mean something."""
_LIBRARIES = ("apsw", "click", "numpy", "onnxruntime", "sqlite-vec", "textual", "watchdog")


@click.group(cls=FolderGroup, context_settings=CONTEXT, invoke_without_command=True)
@on_memory(vectors=True, agent=True, private=True)
@click.option("--version", is_flag=True, help="Print the version; with --json those of libraries.")
def program(invocation: Invocation, version: bool) -> int | None:
    """See what your AI agent remembers, and why it recalls it.

    Without a command, opens FOLDER in the terminal interface; without FOLDER, the memory that is
    found ($MEMTUI_ROOT, here, the OpenClaw workspace). With --agent or --index, opens the index
    of an OpenClaw agent and changes nothing of it; --root FOLDER is then its workspace.
    """
    ctx = click.get_current_context()
    ctx.obj = invocation
    command = ctx.invoked_subcommand
    if invocation.foreign and command is not None and command not in READS_AN_INDEX:
        raise click.UsageError(f"--agent and --index mean nothing to `memtui {command}`", ctx)
    if version:
        ctx.exit(_show_version(invocation))
    if command is None:
        from memtui.cli.opening import open_folder

        return open_folder(invocation, None)
    return None


def _show_version(invocation: Invocation) -> int:
    document = {
        "version": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "libraries": {name: _installed(name) for name in _LIBRARIES if invocation.json},
    }
    return invocation.respond(document, [f"memtui {__version__}"])


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def run(arguments: Sequence[str], interface: Interface) -> int:
    """Run memtui with these arguments and return the exit code.

    `interface` opens the terminal interface. Errors go to stderr; with `--json` they are the one
    document on stdout.
    """
    env = dict(os.environ)
    as_json = wants_json(arguments)
    try:
        result = program.main(
            list(arguments), "memtui", standalone_mode=False, obj=Invocation(interface, env)
        )
        return result if isinstance(result, int) else 0
    except (BrokenPipeError, ReaderGone):
        silence_stdout()
        return 0
    except OutputFailed as error:
        silence_stdout()
        return _fail(env, False, error)
    except (click.Abort, KeyboardInterrupt):
        return _fail(
            env, as_json, MemtuiError("interrupted", code="interrupted", exit_code=EXIT_INTERRUPTED)
        )
    except click.ClickException as error:
        ctx = getattr(error, "ctx", None)
        hint = f"`{ctx.command_path} --help` shows how" if ctx is not None else ""
        message = error.format_message()
        return _fail(
            env, as_json, MemtuiError(message, hint=hint, code="usage", exit_code=EXIT_USAGE)
        )
    except MemtuiError as error:
        return _fail(env, as_json, error)
    except Exception as error:
        return _fail(env, as_json, _crash(error))


def wants_json(arguments: Sequence[str]) -> bool:
    """Tell whether JSON is asked for among the arguments, however wrong the others are."""
    before = ""
    for argument in arguments:
        if argument == "--":
            return False
        if argument in {"--json", "--jsonl", "--format=json"}:
            return True
        if (before, argument) == ("--format", "json"):
            return True
        before = argument
    return False


def _fail(env: dict[str, str], as_json: bool, error: MemtuiError) -> int:
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
    return error.exit_code


def _crash(error: Exception) -> MemtuiError:
    """Keep the traceback of what should not have happened in the state folder."""
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
