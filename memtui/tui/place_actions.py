"""What screens about places of the memory lead to: the editor, the chunk, the file, a citation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from memtui.bus import Event, Subscription
from memtui.model import citation
from memtui.text.sanitize import safe_line
from memtui.tui.background import in_background, tell
from memtui.tui.bridge import CHANGES, changes_content
from memtui.tui.editor import edit_place

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.tui.app import MemtuiApp
    from memtui.tui.screens.base import BaseScreen


def app_of(screen: BaseScreen[Any]) -> MemtuiApp:
    """The application that a screen belongs to."""
    return cast("MemtuiApp", screen.app)


def query_address(engine: Engine | None) -> str:
    """Where the text of a query is sent, safe for one line; empty when it stays here."""
    provider = engine.index.status().provider if engine is not None else None
    if provider is None or not provider.remote:
        return ""
    return safe_line(provider.address) or "another machine"


def follow_index(screen: BaseScreen[Any], changed: Callable[[], None]) -> Subscription:
    """Call `changed` on the event loop whenever the index may hold something else."""

    def handle(event: Event) -> None:
        if changes_content(event):
            screen.call_later(changed)

    return app_of(screen).bus.subscribe(CHANGES, handle)


def edit_at(
    screen: BaseScreen[Any], path: str, line: int, then: Callable[[], None] = lambda: None
) -> None:
    """Open a file of the index in the editor at a line, index what changed, then call `then`."""
    app = app_of(screen)
    engine = app.engine
    if engine is None:
        return

    def edit(file: Path | None) -> None:
        if file is None:
            tell(screen, f"No file to edit: {path} lies in a database.", warning=True)
            return
        edited = edit_place(app, app.options.editor, file, line)
        if edited.told:
            tell(screen, edited.told, warning=not edited.is_error, error=edited.is_error)
        if edited.ran:
            screen.refresh()
            engine.index.sync()
            then()

    in_background(screen, lambda: engine.browse.file_of(path), edit, description="find the file")


def show_chunk_at(screen: BaseScreen[Any], path: str, line: int) -> None:
    """Show everything about the chunk that holds a line of a file."""
    app = app_of(screen)
    engine = app.engine
    if engine is None:
        return

    def chunk_id() -> str | None:
        chunks = engine.browse.chunks_of(path)
        return next((one.id for one in chunks if one.start_line <= line <= one.end_line), None)

    def show(found: str | None) -> None:
        if found is not None:
            app.open_chunk(found)
        else:
            tell(screen, "No chunk of the index holds this line.", warning=True)

    in_background(screen, chunk_id, show, description="find the chunk of a line")


def browse_to(screen: BaseScreen[Any], path: str, line: int, chunk_id: str = "") -> None:
    """Show a place on the browse screen, a turn on the screen of conversations."""
    app = app_of(screen)
    if app.is_conversation(path):
        app.open_turn(path, line)
    else:
        app.open_place(path, line, chunk_id or None)


def cite(screen: BaseScreen[Any], place: str) -> None:
    """Copy a place, a citation such as `path#L12-L31`."""
    place = safe_line(place)
    screen.app.copy_to_clipboard(place)
    tell(screen, f"copied {place}")


def cite_lines(screen: BaseScreen[Any], path: str, start_line: int, end_line: int) -> None:
    """Copy the citation of some lines of a file."""
    cite(screen, citation(path, start_line, end_line))
