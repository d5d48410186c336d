"""What screens about places of the memory have in common: edit, cite, browse, follow the index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from textual.message import Message

from memtui.bus import Event, Subscription
from memtui.model import Chunk, citation
from memtui.text.sanitize import safe_line
from memtui.tui.bridge import CHANGES, changes_content
from memtui.tui.editor import edit_place
from memtui.tui.glyphs import glyphs
from memtui.tui.options import UiOptions
from memtui.tui.screens.base import BaseScreen

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.tui.app import MemtuiApp


class ContentChanged(Message):
    """The index holds something else now."""

    def can_replace(self, message: Message) -> bool:
        """Let a burst collapse into its last message."""
        return isinstance(message, ContentChanged)


class PlaceScreen(BaseScreen[None]):
    """A screen over the memory that leads to places of its files."""

    def __init__(self, options: UiOptions) -> None:
        super().__init__()
        self.options = options
        self.glyphs = glyphs(options.glyphs)
        self._subscription: Subscription | None = None

    @property
    def memtui(self) -> MemtuiApp:
        """The application."""
        return cast("MemtuiApp", self.app)

    @property
    def engine(self) -> Engine | None:
        """The engine of the application, once it is open."""
        return self.memtui.engine

    @property
    def remote(self) -> str:
        """Where the text of a query is sent, safe for one line; empty when it stays here."""
        provider = self.engine.index.status().provider if self.engine is not None else None
        if provider is None or not provider.remote:
            return ""
        return safe_line(provider.address) or "another machine"

    @property
    def is_small(self) -> bool:
        """Whether one pane is shown at a time."""
        return self.size.width < 60 or self.size.height < 16

    def layout_classes(self) -> dict[str, bool]:
        """Those of every screen, and whether one pane is shown at a time."""
        return {**super().layout_classes(), "-small": self.is_small}

    def follow_index(self) -> None:
        """Tell this screen from now on when the index holds something else."""
        self._subscription = self.memtui.bus.subscribe(CHANGES, self._index_event)

    def _index_event(self, event: Event) -> None:
        if changes_content(event):
            self.post_message(ContentChanged())

    def on_unmount(self) -> None:
        """Stop following the index."""
        if self._subscription is not None:
            self._subscription.close()

    # --- places ---------------------------------------------------------------------------------

    def edit_at(self, path: str, line: int) -> None:
        """Open a file of the index in the editor at a line, and index what changed."""
        engine = self.engine
        if engine is not None:
            self.in_background(
                lambda: engine.browse.file_of(path),
                lambda file: self._open_editor(path, file, line),
                group="place",
                description="find the file to edit",
            )

    def _open_editor(self, path: str, file: Path | None, line: int) -> None:
        if file is None:
            self.tell(safe_line(f"No file to edit: {path} is none on disk."), warning=True)
            return
        edited = edit_place(self.app, self.options.editor, file, line)
        if edited.told:
            self.tell(edited.told, warning=not edited.is_error, error=edited.is_error)
        if edited.ran and self.engine is not None:
            self.refresh()
            self.engine.index.sync()

    def show_chunk_at(self, path: str, line: int) -> None:
        """Show everything about the chunk that holds a line of a file."""
        engine = self.engine
        if engine is not None:
            self.in_background(
                lambda: engine.browse.chunks_of(path),
                lambda chunks: self._show_chunk(chunks, line),
                group="place",
                description="find the chunk of a line",
            )

    def _show_chunk(self, chunks: Sequence[Chunk], line: int) -> None:
        for chunk in chunks:
            if chunk.start_line <= line <= chunk.end_line:
                self.memtui.open_chunk(chunk.id)
                return
        self.tell("No chunk of the index holds this line.", warning=True)

    def browse_to(self, path: str, line: int, chunk_id: str = "") -> None:
        """Show a place on the browse screen, a turn on the screen of conversations."""
        if self.memtui.is_conversation(path):
            self.memtui.open_turn(path, line)
        else:
            self.memtui.open_place(path, line, chunk_id or None)

    def cite(self, path: str, start_line: int, end_line: int) -> None:
        """Copy `path#L12-L31`."""
        place = safe_line(citation(path, start_line, end_line))
        self.app.copy_to_clipboard(place)
        self.tell(f"copied {place}")
