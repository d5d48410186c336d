"""Actions on a place of the memory: the editor, the chunk, the file, a citation."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace
from textual.app import SuspendNotSupported
from textual.screen import Screen

from memtui.data import DATA_FOLDER, read_table
from memtui.memory.documents import split_lines
from memtui.model import Chunk, citation
from memtui.settings.files import make_folder, state_dir, write_new
from memtui.text.sanitize import safe_line
from memtui.tui.background import in_background, tell
from memtui.tui.fmt import home_relative

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.engine.ports import Index, SourceText
    from memtui.tui.app import MemtuiApp


def app_of(screen: Screen[Any]) -> MemtuiApp:
    return cast("MemtuiApp", screen.app)


def query_address(engine: Engine) -> str:
    """Return where a query is sent, as a safe line; empty: nowhere."""
    provider = engine.index.status().provider
    return (safe_line(provider.address) or "another machine") if provider.remote else ""


def edit_at(
    screen: Screen[Any], path: str, line: int, then: Callable[[], None] = lambda: None
) -> None:
    """Open a file of the index in the editor at a line, index what changed, then call `then`."""
    engine = app_of(screen).engine
    if engine is None:
        return

    def edit(file: Path | None) -> None:
        if file is None:
            why = "is no file, or it is not known where it lies."
            if app_of(screen).is_conversation(path):
                why = "is a conversation of the agent: s reads it."
            tell(screen, safe_line(f"Nothing to edit: {path} {why}"), warning=True)
        elif file.is_dir():
            tell(screen, f"No file to edit: {path} is a folder.", warning=True)
        elif edit_place(screen, file, line):
            engine.index.sync()
            then()

    in_background(screen, lambda: engine.index.files.path_of(path), edit, "find the file")


def act_on_place(
    screen: Screen[Any], verb: str, path: str, start_line: int, end_line: int, chunk_id: str
) -> None:
    """Do with some lines of a file what a key asks for: `edit`, `read`, `browse`, `chunk`, `cite`.

    A turn is read on the screen of conversations. Where no chunk is named, it is the one that
    holds the first line.
    """
    app = app_of(screen)
    match verb:
        case "edit":
            edit_at(screen, path, start_line)
        case "read" | "browse" if app.is_conversation(path):
            app.open_turn(path, start_line)
        case "read" | "browse":
            app.open_place(path, start_line, chunk_id or None, alone=verb == "read")
        case "chunk" if chunk_id:
            app.open_chunk(chunk_id)
        case "chunk" if (engine := app.engine) is not None:

            def show(chunks: Sequence[Chunk]) -> None:
                for chunk in chunks:
                    if chunk.start_line <= start_line <= chunk.end_line:
                        app.open_chunk(chunk.id)
                        return
                tell(screen, "No chunk of the index holds this line.", warning=True)

            read = partial(engine.browse.chunks_of, path)
            in_background(screen, read, show, "find the chunk of a line")
        case "cite":
            cite(screen, path, start_line, end_line)


def show_difference(screen: Screen[Any], path: str) -> None:
    """Show what of a file changed since it was indexed; it is read again for that."""
    from memtui.tui.screens.dialogs import DifferenceScreen

    def read(index: Index) -> SourceText:
        source = index.files.source(path)
        is_note = source.on_disk is None and not app_of(screen).is_conversation(path)
        if not (is_note and source.state == "changed"):
            return source
        text = index.read(lambda reading: reading.indexed_text(path)) or ""
        return replace(source, lines=split_lines(text), on_disk=source.lines)

    def show(source: SourceText) -> None:
        if source.on_disk is not None:
            screen.app.push_screen(DifferenceScreen(source))
        else:
            why = source.detail or "this is the file as it is on disk"
            tell(screen, safe_line(f"No difference to show: {why}."))

    engine = app_of(screen).engine
    if not path or engine is None:
        tell(screen, "No difference to show: choose an indexed file.")
    else:
        in_background(screen, lambda: read(engine.index), show, "compare the file")


def cite(screen: Screen[Any], path: str, start_line: int = 0, end_line: int = 0) -> None:
    """Copy a path, or the citation of some lines such as `path#L12-L31`."""
    place = safe_line(citation(path, start_line, end_line) if start_line else path)
    screen.app.copy_to_clipboard(place)
    tell(screen, f"copied {place}")


def editor_arguments(
    configured: str | None, environment: Mapping[str, str], path: str, line: int
) -> list[str]:
    """Return the argument list that opens `path` at 1-based `line`, in the editor's own syntax.

    The editor is the configured one, `$VISUAL` or `$EDITOR`, else `vi`, on Windows `notepad`. It is
    given an argument list, never a shell's command. Raises `ValueError` when quotes do not close.
    """
    texts = (configured, environment.get("VISUAL"), environment.get("EDITOR"))
    fallback = "notepad" if os.name == "nt" else "vi"
    text = next((text for text in texts if text and text.strip()), fallback)
    command = shlex.split(text, posix=os.name != "nt")
    name = PurePath(command[0]).name.removesuffix(".exe").removesuffix(".cmd").lower()
    forms = read_table("editors.toml")["arguments"].items()
    form = next((form for names, form in forms if name in names.split()), "+{line} {file}")
    values = {"file": path, "line": line, "place": f"{path}:{line}"}
    return [*command, *(part.format_map(values) for part in form.split())]


def edit_place(screen: Screen[Any], file: Path, line: int) -> bool:
    """Run the editor on a file at a 1-based line, with the terminal given up meanwhile.

    Of what comes with memtui, such as the demo, a copy in the state folder is opened. False when
    no editor ran; why, and what it ended with, is told.
    """
    app = app_of(screen)
    failure: OSError | ValueError | None = None
    code = 0
    try:
        if is_of_demo := file.resolve().is_relative_to(DATA_FOLDER):
            file = _copied(file.resolve(), app.options.state_dir or state_dir())
        arguments = editor_arguments(app.options.settings.editor, os.environ, str(file), line)
        if shutil.which(arguments[0]) is None:
            raise FileNotFoundError(f"there is no program {arguments[0]}")
        with app.suspend():
            # Textual takes the terminal back only where nothing is raised in here.
            try:
                code = subprocess.run(arguments, check=False).returncode
            except OSError as error:
                failure = error
    except SuspendNotSupported:
        tell(screen, safe_line(f"No editor here. The place is {file}:{line}"), warning=True)
        return False
    except (OSError, ValueError) as error:
        failure = error
    if failure is not None:
        why = safe_line(str(failure))
        tell(screen, f"The editor did not start: {why}; set `editor` or $EDITOR.", error=True)
        return False
    if code:
        tell(screen, safe_line(f"{arguments[0]} ended with code {code}"), warning=True)
    if is_of_demo:
        place = safe_line(home_relative(str(file)))
        tell(screen, f"The demo is not edited; this was a copy: {place}")
    screen.refresh()
    return True


def _copied(file: Path, folder: Path) -> Path:
    """Return the user's copy of a file of the demo, made when there is none."""
    copy = folder / file.relative_to(DATA_FOLDER)
    make_folder(copy.parent)
    with suppress(FileExistsError):
        write_new(copy, file.read_bytes())
    return copy
