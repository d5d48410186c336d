"""Running the command line: every way a command can end is an exit code and a clean message."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from memtui.cli.commands import program
from memtui.cli.group import ReaderGone
from memtui.cli.invocation import Interface, Invocation
from memtui.cli.output import Output, OutputFailed, silence_stdout
from memtui.errors import MemtuiError, SettingsError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def run(arguments: Sequence[str], interface: Interface) -> int:
    """Run memtui with these arguments and return the exit code.

    `interface` opens the terminal interface. Errors go to stderr; with `--json` they are the one
    document on stdout.
    """
    env = dict(os.environ)
    as_json = wants_json(arguments)
    try:
        return _invoke(arguments, Invocation(interface, env))
    except (BrokenPipeError, ReaderGone):
        silence_stdout()
        return 0
    except OutputFailed as error:
        silence_stdout()
        return _fail(env, False, error.code, error.message, error.hint, error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _fail(env, as_json, "interrupted", "interrupted", "", EXIT_INTERRUPTED)
    except click.UsageError as error:
        hint = f"`{error.ctx.command_path} --help` shows how" if error.ctx else ""
        return _fail(env, as_json, "usage", error.format_message(), hint, EXIT_USAGE)
    except click.ClickException as error:
        return _fail(env, as_json, "usage", error.format_message(), "", EXIT_USAGE)
    except MemtuiError as error:
        return _fail(env, as_json, error.code, error.message, error.hint, error.exit_code)
    except Exception as error:
        return _crash(env, as_json, error)


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether JSON is asked for among the arguments, however wrong the others are."""
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


def _invoke(arguments: Sequence[str], invocation: Invocation) -> int:
    try:
        result: Any = program.main(
            args=list(arguments), prog_name="memtui", standalone_mode=False, obj=invocation
        )
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    return result if isinstance(result, int) else 0


def _fail(
    env: dict[str, str], as_json: bool, code: str, message: str, hint: str, exit_code: int
) -> int:
    try:
        output = Output(env)
        if as_json:
            error = {"code": code, "message": message, "hint": hint, "exit_code": exit_code}
            output.document({"error": error})
        else:
            output.progress("")
            output.note(f"memtui: {message}")
            if hint:
                output.note(f"  {hint}")
        output.flush()
    except (BrokenPipeError, OutputFailed):
        silence_stdout()
    return exit_code


def _crash(env: dict[str, str], as_json: bool, error: Exception) -> int:
    """Keep the traceback of what should not have happened in the state folder."""
    import traceback

    from memtui.settings.shown import masked_text
    from memtui.settings.storage import StateFolder

    try:
        state = StateFolder()
        where = str(state.path / "crash.log")
        state.write_text("crash.log", masked_text("".join(traceback.format_exception(error))))
    except OSError as failure:
        where = f"nowhere ({failure.strerror})"
    except SettingsError as failure:
        where = f"nowhere ({failure.message})"
    message = masked_text(f"this should not have happened: {type(error).__name__}: {error}")
    return _fail(env, as_json, "internal", message, f"traceback in {where}", EXIT_FAILED)
