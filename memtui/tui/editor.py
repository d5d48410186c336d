"""Which command opens a file at a line: an argument list, never a shell."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from textual.app import App, SuspendNotSupported

from memtui.text.sanitize import safe, safe_line

_FILE_LINE = frozenset({"hx", "helix", "subl", "sublime_text", "zed", "zeditor", "lapce"})
_GOTO = frozenset({"code", "code-insiders", "codium", "vscodium", "cursor", "windsurf"})
_LINE_FLAG = {
    "kate": "--line",
    "mate": "--line",
    "idea": "--line",
    "pycharm": "--line",
}
_PLAIN = frozenset({"notepad", "open", "xdg-open", "ed"})


def editor_command(configured: str | None, environment: Mapping[str, str]) -> list[str]:
    """Split the configured editor, `$VISUAL` or `$EDITOR` into arguments.

    Falls back to `vi`, on Windows to `notepad`. Raises `ValueError` when quotes do not close.
    """
    for text in (configured, environment.get("VISUAL"), environment.get("EDITOR")):
        if text and text.strip():
            return shlex.split(text, posix=os.name != "nt")
    return ["notepad"] if os.name == "nt" else ["vi"]


def editor_arguments(command: list[str], path: str, line: int) -> list[str]:
    """The whole argument list that opens `path` at 1-based `line`, in the editor's own syntax."""
    name = PurePath(command[0]).name.removesuffix(".exe").removesuffix(".cmd").lower()
    if name in _GOTO:
        return [*command, "-g", f"{path}:{line}"]
    if name in _FILE_LINE:
        return [*command, f"{path}:{line}"]
    if name in _PLAIN:
        return [*command, path]
    if flag := _LINE_FLAG.get(name):
        return [*command, flag, str(line), path]
    return [*command, f"+{line}", path]


@dataclass(frozen=True, slots=True)
class Edited:
    """How it went: whether an editor ran, and one line to tell, if there is something to."""

    ran: bool
    told: str = ""
    is_error: bool = False


def edit_place(app: App[Any], configured: str | None, file: Path, line: int) -> Edited:
    """Run the editor on a file at a 1-based line, with the screen given up meanwhile.

    `configured` is the command of the settings, `None` for `$VISUAL` or `$EDITOR`.
    """
    try:
        command = editor_command(configured, os.environ)
        arguments = editor_arguments(command, str(file), line)
        with app.suspend():
            code = subprocess.run(arguments, check=False).returncode
    except SuspendNotSupported:
        return Edited(False, safe_line(f"No editor here. The place is {file}:{line}"))
    except (OSError, ValueError) as error:
        told = safe(f"The editor did not start: {error}\nSet `editor` or $EDITOR.")
        return Edited(False, told, is_error=True)
    return Edited(True, safe_line(f"{arguments[0]} ended with code {code}") if code else "")
