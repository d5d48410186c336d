"""State and helpers that every concern of the browse screen uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, cast

from textual.content import Content
from textual.getters import query_one
from textual.widgets import Input, Static

from memtui.model import Chunk
from memtui.model.browsing import DayTotals, MemoryFile
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.browsing.file_words import file_line, folder_line
from memtui.tui.browsing.marks import marks
from memtui.tui.browsing.outline import Heading
from memtui.tui.browsing.tree import Sort
from memtui.tui.glyphs import glyphs
from memtui.tui.options import UiOptions
from memtui.tui.screens.base import BaseScreen
from memtui.tui.widgets.file_tree import FileTree
from memtui.tui.widgets.file_view import FileView
from memtui.tui.widgets.rendered_view import RenderedView
from memtui.tui.widgets.row_list import RowList
from memtui.tui.widgets.timeline import Timeline

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.engine.source import SourceText
    from memtui.tui.app import MemtuiApp


@dataclass(frozen=True, slots=True)
class Wanted:
    """A place that is to be shown, as soon as the file is read."""

    path: str
    line: int = 1
    chunk_id: str | None = None
    is_last: bool = False
    """Whether its last chunk is meant."""
    is_asked: bool = False
    """Whether somebody asked for this line or chunk, and not for the file alone."""


class BrowseBase(BaseScreen[None]):
    """What the browse screen knows; the concerns are mixins over it."""

    file_tree = query_one("#file-tree", FileTree)
    view = query_one("#file-view", FileView)
    rendered_view = query_one("#rendered-view", RenderedView)
    outline_list = query_one("#outline", RowList)
    timeline = query_one("#timeline", Timeline)
    filter_input = query_one("#browse-filter", Input)

    def __init__(self, options: UiOptions) -> None:
        super().__init__(id="browse")
        self.options = options
        self.glyphs = glyphs(options.glyphs)
        self.marks = marks(options.glyphs)
        self.files: Sequence[MemoryFile] = ()
        self.by_path: Mapping[str, MemoryFile] = {}
        self.days: Sequence[DayTotals] = ()
        self.listed = False
        """Whether the files were listed once."""
        self.sort = Sort.NAME
        self.wanted: Wanted | None = None
        """The file that is shown, or is to be."""
        self.source: SourceText | None = None
        """The file that was read last."""
        self.outline: Sequence[Heading] = ()
        self.came_to_read = False
        """Whether a place was asked for from another screen, to which Escape leads back."""
        self.is_rendered = False
        self.outline_wanted: bool | None = None
        """Whether the headings are shown; `None` lets the size decide."""
        self.timeline_wanted: bool | None = None
        self.recalled: Mapping[str, int] | None = None
        """How often the queries bring up each file, by path; `None` before that is counted."""
        self.recall_note = ""
        """How the count of recalls stands, while the order waits for it."""
        self._shown_count = 0
        self.problems: tuple[str, ...] = ()

    @property
    def memtui(self) -> MemtuiApp:
        """The application."""
        return cast("MemtuiApp", self.app)

    @property
    def engine(self) -> Engine | None:
        """The engine of the application."""
        return cast("Engine | None", getattr(self.app, "engine", None))

    @property
    def is_built(self) -> bool:
        """Whether there are widgets to draw in."""
        return self.is_attached and bool(self.query("#file-tree"))

    @property
    def is_small(self) -> bool:
        """Whether one pane is shown at a time."""
        return self.size.width < 60 or self.size.height < 16

    def now(self) -> datetime:
        """The engine's clock."""
        return self.engine.now() if self.engine is not None else datetime.now(UTC)

    def today(self) -> date:
        """The day by the engine's clock, as a calendar here shows it."""
        return self.now().astimezone().date()

    @property
    def recalls_in_order(self) -> Mapping[str, int] | None:
        """How often each file comes up, while the files are in that order."""
        return self.recalled if self.sort is Sort.RECALLS else None

    @property
    def shown_file(self) -> MemoryFile | None:
        """The file that is shown, as the list knows it."""
        return self.by_path.get(self.wanted.path) if self.wanted is not None else None

    @property
    def current_chunk(self) -> Chunk | None:
        """The chunk that is marked in the preview."""
        return self.view.current

    def describe(self) -> None:
        """Write the line below: what is wrong with the filter, else what is chosen."""
        line = self.query_one("#browse-detail", Static)
        if self.problems:
            told = Content.styled(safe_line("; ".join(self.problems)), "$state-warn")
        elif self.file_tree.has_focus or self.shown_file is None:
            chosen = self.file_tree.chosen
            if chosen is not None and chosen.folder is not None:
                told = folder_line(chosen.folder)
            elif chosen is not None and chosen.file is not None:
                told = self._file_line(chosen.file)
            else:
                told = Content("")
        else:
            told = self._file_line(self.shown_file)
        line.update(told.truncate(max(1, self.size.width - 2), ellipsis=True), layout=False)

    def _file_line(self, file: MemoryFile) -> Content:
        return file_line(file, self.now(), self.marks, self.recalls_in_order)

    def show_count(self, shown: int | None = None) -> None:
        """Tell how many files there are, of how many, and in which order."""
        total = len(self.files)
        self._shown_count = shown = self._shown_count if shown is None else shown
        told = fmt.counted(total, "file") if shown == total else f"{fmt.count(shown)} of {total}"
        order = "" if self.sort is Sort.NAME else f"by {self.sort.value}  "
        if self.sort is Sort.RECALLS and self.recall_note:
            order, told = "", self.recall_note
        self.query_one("#browse-count", Static).update(Content(f"{order}{told}"), layout=False)

    # --- given by the other concerns --------------------------------------------------------------

    def want(self, wanted: Wanted) -> None:
        """Show a place of a file."""
        raise NotImplementedError

    def arrange_files(self) -> None:
        """Put the files that the filter lets through into the tree."""
        raise NotImplementedError

    def set_filter(self, text: str) -> None:
        """Put a text into the filter."""
        raise NotImplementedError
