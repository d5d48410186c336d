"""Opening a place of a file in the user's editor, from any screen."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from memtui.text.sanitize import safe, safe_line
from memtui.tui.editor import editor_arguments, editor_command


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
