"""Which command opens a file at a line: an argument list, never a shell."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import PurePath

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
