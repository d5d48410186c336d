"""What screens about places of the memory lead to: the editor, the chunk, the file, a citation."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, cast

from textual.app import SuspendNotSupported
from textual.screen import Screen

from memtui.bus import Event, Subscription, changes_content
from memtui.model import citation
from memtui.text.sanitize import safe_line
from memtui.tui.background import in_background, tell

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.tui.app import MemtuiApp


# --- places --------------------------------------------------------------------------------------


def app_of(screen: Screen[Any]) -> MemtuiApp:
    """Return the application that a screen belongs to."""
    return cast("MemtuiApp", screen.app)


def query_address(engine: Engine | None) -> str:
    """Return the address a query is sent to, safe for one line; empty when it stays here."""
    provider = engine.index.status().provider if engine is not None else None
    if provider is None or not provider.remote:
        return ""
    return safe_line(provider.address) or "another machine"


def follow_index(screen: Screen[Any], changed: Callable[[], None]) -> Subscription:
    """Call `changed` on the event loop whenever the index may hold something else."""

    def handle(event: Event) -> None:
        if changes_content(event):
            screen.call_later(changed)

    return app_of(screen).bus.subscribe(Event, handle)


def edit_at(
    screen: Screen[Any], path: str, line: int, then: Callable[[], None] = lambda: None
) -> None:
    """Open a file of the index in the editor at a line, index what changed, then call `then`."""
    engine = app_of(screen).engine
    if engine is None:
        return

    def edit(file: Path | None) -> None:
        if file is None:
            tell(screen, f"No file to edit: {path} lies in a database.", warning=True)
        elif edit_place(screen, file, line):
            engine.index.sync()
            then()

    in_background(screen, lambda: engine.browse.file_of(path), edit, description="find the file")


def show_chunk_at(screen: Screen[Any], path: str, line: int) -> None:
    """Show everything about the chunk that holds a line of a file."""
    app = app_of(screen)
    engine = app.engine
    if engine is None:
        return

    def find_chunk() -> str | None:
        chunks = engine.browse.chunks_of(path)
        return next((one.id for one in chunks if one.start_line <= line <= one.end_line), None)

    def show(chunk_id: str | None) -> None:
        if chunk_id is not None:
            app.open_chunk(chunk_id)
        else:
            tell(screen, "No chunk of the index holds this line.", warning=True)

    in_background(screen, find_chunk, show, description="find the chunk of a line")


def browse_to(screen: Screen[Any], path: str, line: int, chunk_id: str = "") -> None:
    """Show a place on the browse screen, a turn on the screen of conversations."""
    app = app_of(screen)
    if app.is_conversation(path):
        app.open_turn(path, line)
    else:
        app.open_place(path, line, chunk_id or None)


def act_on_place(
    screen: Screen[Any], verb: str, path: str, start_line: int, end_line: int, chunk_id: str
) -> None:
    """Do with some lines of a file what a key asks for: `edit`, `browse`, `chunk` or `cite`."""
    match verb:
        case "edit":
            edit_at(screen, path, start_line)
        case "browse":
            browse_to(screen, path, start_line, chunk_id)
        case "chunk" if chunk_id:
            app_of(screen).open_chunk(chunk_id)
        case "chunk":
            show_chunk_at(screen, path, start_line)
        case "cite":
            cite_lines(screen, path, start_line, end_line)


def cite(screen: Screen[Any], place: str) -> None:
    """Copy a place, a citation such as `path#L12-L31`."""
    place = safe_line(place)
    screen.app.copy_to_clipboard(place)
    tell(screen, f"copied {place}")


def cite_lines(screen: Screen[Any], path: str, start_line: int, end_line: int) -> None:
    """Copy the citation of some lines of a file."""
    cite(screen, citation(path, start_line, end_line))


# --- the editor: an argument list, never a shell --------------------------------------------------

_ARGUMENTS: Mapping[str, str] = {
    "hx helix subl sublime_text zed zeditor lapce": "{place}",
    "code code-insiders codium vscodium cursor windsurf": "-g {place}",
    "kate mate idea pycharm": "--line {line} {file}",
    "notepad open xdg-open ed": "{file}",
}
"""How editors take a file and a line; every other one as `+12 file`."""


def editor_command(configured: str | None, environment: Mapping[str, str]) -> list[str]:
    """Split the configured editor, `$VISUAL` or `$EDITOR` into arguments.

    Falls back to `vi`, on Windows to `notepad`. Raises `ValueError` when quotes do not close.
    """
    for text in (configured, environment.get("VISUAL"), environment.get("EDITOR")):
        if text and text.strip():
            return shlex.split(text, posix=os.name != "nt")
    return ["notepad"] if os.name == "nt" else ["vi"]


def editor_arguments(command: list[str], path: str, line: int) -> list[str]:
    """Return the argument list that opens `path` at 1-based `line`, in the editor's own syntax."""
    name = PurePath(command[0]).name.removesuffix(".exe").removesuffix(".cmd").lower()
    form = next(
        (form for names, form in _ARGUMENTS.items() if name in names.split()), "+{line} {file}"
    )
    values = {"file": path, "line": line, "place": f"{path}:{line}"}
    return [*command, *(part.format_map(values) for part in form.split())]


def edit_place(screen: Screen[Any], file: Path, line: int) -> bool:
    """Run the editor on a file at a 1-based line, with the terminal given up meanwhile.

    False when no editor ran; why, and what it ended with, is told.
    """
    app = app_of(screen)
    try:
        command = editor_command(app.options.editor, os.environ)
        arguments = editor_arguments(command, str(file), line)
        with app.suspend():
            code = subprocess.run(arguments, check=False).returncode
    except SuspendNotSupported:
        tell(screen, safe_line(f"No editor here. The place is {file}:{line}"), warning=True)
        return False
    except (OSError, ValueError) as error:
        tell(screen, f"The editor did not start: {error}\nSet `editor` or $EDITOR.", error=True)
        return False
    if code:
        tell(screen, safe_line(f"{arguments[0]} ended with code {code}"), warning=True)
    screen.refresh()
    return True
