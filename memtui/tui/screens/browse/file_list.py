"""The list of files on the browse screen: loading, filtering, ordering and folding it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content
from textual.timer import Timer

from memtui.model.browsing import DayTotals, FileState, MemoryFile
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import in_background
from memtui.tui.screens.browse.file_words import STATE_STYLES, badge, recall_words
from memtui.tui.screens.browse.tree import (
    Filtered,
    Folder,
    Sort,
    TreeLine,
    all_folders,
    build_tree,
    filter_files,
    flatten,
    folders_around,
)
from memtui.tui.widgets.row_list import Row, RowList

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.tui.screens.browse.screen import BrowseScreen

SOONEST = 1.0
"""Seconds between two looks at the files while they change; more where a look takes long."""
_PATIENCE = 5
_ROOMY = 46
_DAY_SECONDS = 86_400


class FileList:
    """The files of the memory as a tree that folds; `folded` are ids of closed folders."""

    def __init__(self, screen: BrowseScreen) -> None:
        self.files: Sequence[MemoryFile] = ()
        self.by_path: Mapping[str, MemoryFile] = {}
        self.days: Sequence[DayTotals] = ()
        self.is_listed = False
        """Whether the files were listed once."""
        self.sort = Sort.NAME
        self.recalled: Mapping[str, int] | None = None
        """How often the queries bring up each file, by path; `None` before that is counted."""
        self.problems: tuple[str, ...] = ()
        """What is wrong with the filter, or why there is no list."""
        self.note = ""
        """How the count of recalls stands, while the order waits for it."""
        self.folded: set[str] = set()
        self._screen = screen
        self._glyphs = screen.glyphs
        self._tree: Sequence[Folder] = ()
        self.lines: list[TreeLine] = []
        """The lines of the tree that are not hidden in a folder."""
        self._is_filtered = False
        self._is_loading = self._is_stale = False
        self._load_seconds = 0.0
        self._timer: Timer | None = None
        self._ticket = 0
        self._shown_count = 0
        self._path_to_reveal: str | None = None

    @property
    def rows(self) -> RowList:
        """The widget."""
        return self._screen.file_rows

    @property
    def chosen(self) -> TreeLine | None:
        """The line under the cursor."""
        cursor = self.rows.cursor
        return self.lines[cursor] if cursor is not None else None

    @property
    def chosen_file(self) -> MemoryFile | None:
        """The file under the cursor."""
        return self.chosen.file if self.chosen is not None else None

    # --- loading --------------------------------------------------------------------------------

    def load(self) -> None:
        """List the files; while that goes on, once more afterwards."""
        engine = self._screen.engine
        if engine is None:
            return
        self._is_stale = self._is_loading
        if self._is_loading:
            return
        self._is_loading = True
        began = time.monotonic()

        def take(listed: tuple[Sequence[MemoryFile], Sequence[DayTotals]]) -> None:
            self._load_seconds = time.monotonic() - began
            self._loaded(engine, *listed)

        def failed(error: str) -> None:
            self.problems = (f"cannot list the files: {safe_line(error)}",)
            self._loaded(engine, None, ())

        in_background(
            self._screen,
            lambda: (engine.browse.files(), engine.browse.days(self.recalled)),
            take,
            failed,
            description="list the files",
        )

    def _loaded(
        self, engine: Engine, files: Sequence[MemoryFile] | None, days: Sequence[DayTotals]
    ) -> None:
        self._is_loading = False
        screen = self._screen
        if engine is not screen.engine or not screen.is_built:
            return
        if files is None:
            screen.describe()
        else:
            self.is_listed = True
            self.files, self.days = files, days
            self.by_path = {file.path: file for file in files}
            screen.timeline.show_days(days, screen.today())
            self.arrange()
        if self._is_stale:
            self.changed_outside()

    def changed_outside(self) -> None:
        """Follow files or an index that changed, but not at every change."""
        if self._timer is None and self._screen.is_built:
            wait = max(SOONEST, _PATIENCE * self._load_seconds)
            self._timer = self._screen.set_timer(wait, self._load_again)

    def _load_again(self) -> None:
        self._timer = None
        if self._screen.is_current:
            self.load()
        else:
            self._is_stale = True

    # --- filter and order -----------------------------------------------------------------------

    def arrange(self) -> None:
        """Put what the filter lets through into the tree, off the loop; the newest wish wins."""
        self._ticket += 1
        ticket, text, sort = self._ticket, self._screen.filter_input.value, self.sort
        recalled = self.recalled if sort is Sort.RECALLS else None

        def arranged() -> tuple[Filtered, tuple[Folder, ...]] | None:
            if ticket != self._ticket:
                return None
            filtered = filter_files(self.files, text)
            return filtered, build_tree(filtered.files, sort, recalled)

        def take(result: tuple[Filtered, tuple[Folder, ...]] | None) -> None:
            if result is not None and ticket == self._ticket:
                self._show(*result)

        in_background(self._screen, arranged, take, description="filter the files")

    def _show(self, filtered: Filtered, tree: tuple[Folder, ...]) -> None:
        """Show the tree with the cursor where it was; every folder open at first in a filter."""
        self.problems = filtered.problems
        is_filtered = bool(self._screen.filter_input.value.strip())
        if is_filtered and not self._is_filtered:
            self.folded = set()
        is_first = self.rows.chosen_id is None
        self._tree, self._is_filtered = tree, is_filtered
        self._flatten()
        self.show_count(len(filtered.files))
        if self._path_to_reveal is not None and self._choose_path(self._path_to_reveal):
            self._path_to_reveal = None
        elif (is_first or is_filtered) and self.chosen_file is None:
            # From the place that stands first to a file, so that there is something to read.
            first = next((line for line in self.lines if line.file is not None), None)
            if first is not None:
                self.rows.choose(first.id)
        if is_filtered and self.chosen_file is not None:
            self._screen.reader.show_other(self.chosen_file.path)
        self._screen.describe()

    def _flatten(self, keep: str | None = None) -> None:
        self.lines = flatten(self._tree, self.folded)
        rows = [Row(line.id, partial(self._draw_line, line)) for line in self.lines]
        empty = "no file fits: esc clears" if self._is_filtered else "no Markdown notes here"
        self.rows.set_rows(rows, keep or self.rows.chosen_id, empty=empty)

    def show_count(self, shown: int | None = None) -> None:
        """Say how many files there are, of how many, and in which order."""
        self._shown_count = self._shown_count if shown is None else shown
        total = len(self.files)
        text = f"{fmt.count(self._shown_count)} of {total}"
        if self._shown_count == total:
            text = fmt.counted(total, "file")
        if self.sort is not Sort.NAME:
            text = f"by {self.sort.value}  {text}"
        if self.sort is Sort.RECALLS and self.note:
            text = self.note
        self._screen.show_count(text)

    def cycle_sort(self) -> None:
        """Show the files in another order; by recalls as soon as they are counted."""
        orders = list(Sort)
        self.sort = orders[(orders.index(self.sort) + 1) % len(orders)]
        self._path_to_reveal = self._screen.reader.path
        self.arrange()
        self._screen.recalls.follow()

    # --- places in the tree ---------------------------------------------------------------------

    def reveal(self, path: str) -> None:
        """Put the cursor on a file; a filter that hides it is taken away."""
        self._path_to_reveal = path
        if self._choose_path(path):
            self._path_to_reveal = None
        elif path in self.by_path:
            self._screen.filter_input.value = ""
            self.arrange()

    def _choose_path(self, path: str) -> bool:
        around = folders_around(self._tree, path)
        if self.folded.intersection(around):
            self.folded.difference_update(around)
            self._flatten()
        line = next((one for one in self.lines if one.file and one.file.path == path), None)
        return line is not None and self.rows.choose(line.id)

    def forget_wish(self) -> None:
        """Let the cursor stay where it is when a file that was asked for appears."""
        self._path_to_reveal = None

    def neighbour(self, path: str, step: int) -> MemoryFile | None:
        """The next file with chunks after a file, or before it; folded folders are left out."""
        files = [line.file for line in self.lines if line.file is not None]
        at = next((place for place, file in enumerate(files) if file.path == path), None)
        if at is None:
            return None
        ahead = files[at + 1 :] if step > 0 else files[:at][::-1]
        return next((file for file in ahead if file.chunks), None)

    # --- folding --------------------------------------------------------------------------------

    def toggle(self, folder_id: str) -> None:
        """Open a folder that is closed, close one that is open."""
        self.folded ^= {folder_id}
        self._flatten(folder_id)

    def unfold(self) -> None:
        """Open the folder, or go into it; a file is opened."""
        line = self.chosen
        if line is None:
            return
        if line.folder is None:
            self.rows.action_open()
        elif line.is_open:
            self.rows.action_move(1)
        else:
            self.toggle(line.id)

    def fold(self) -> None:
        """Close the folder; from a file go to the folder it is in."""
        line = self.chosen
        if line is None:
            return
        if line.folder is not None and line.is_open:
            self.toggle(line.id)
            return
        for above in reversed(self.lines[: self.rows.cursor]):
            if above.depth < line.depth:
                self.rows.choose(above.id, by_user=True)
                return

    def fold_all(self) -> None:
        """Close every folder; open all when they are closed."""
        inner = {folder.id for place in self._tree for folder in all_folders(place.folders)}
        closable = inner or {folder.id for folder in all_folders(self._tree)}
        line = self.chosen
        self.folded = set() if closable <= self.folded else closable
        keep = None
        if line is not None and line.file is not None:
            around = folders_around(self._tree, line.file.path)
            keep = next((folder for folder in around if folder in self.folded), line.id)
        self._flatten(keep)

    # --- drawing --------------------------------------------------------------------------------

    def _draw_line(self, line: TreeLine, width: int) -> Content:
        right = (
            self._folder_numbers(line, width)
            if line.file is None
            else self._file_numbers(line.file, width)
        )
        room = max(1, width - right.cell_length - 1)
        left = self._folder_name(line, room) if line.file is None else self._file_name(line, room)
        return left + " " * max(1, width - left.cell_length - right.cell_length) + right

    def _folder_name(self, line: TreeLine, room: int) -> Content:
        assert line.folder is not None
        name, source = safe_line(line.name), safe_line(line.folder.source)
        mark = self._glyphs.opened if line.is_open else self._glyphs.folded
        return Content.assemble(
            f"{_indent(line, room)}{mark} ",
            (name if source else f"{name}/", "bold"),
            (f"  {source}" if source and source != name else "", fmt.MUTED),
        ).truncate(room, ellipsis=True)

    def _file_name(self, line: TreeLine, room: int) -> Content:
        assert line.file is not None
        indent, style = _indent(line, room), STATE_STYLES[line.file.state]
        rest = max(1, room - len(indent))
        folder, slash, last = safe_line(line.name).rpartition("/")
        shown = Content.assemble((folder + slash, fmt.MUTED), (last, style))
        if shown.cell_length > rest and folder:
            shown = Content.assemble((self._glyphs.ellipsis + "/", fmt.MUTED), (last, style))
        return Content.assemble(indent, shown.truncate(rest, ellipsis=True))

    def _folder_numbers(self, line: TreeLine, width: int) -> Content:
        assert line.folder is not None
        state = FileState.CURRENT if line.is_open else line.folder.worst
        text = f"{fmt.count(line.folder.count):>4}"
        if width >= _ROOMY:
            text = f"{fmt.counted(line.folder.count, 'file')}  {fmt.size(line.folder.size)}"
        return Content.assemble(
            (badge(state, self._glyphs), STATE_STYLES[state]), (f" {text}", fmt.MUTED)
        )

    def _file_numbers(self, file: MemoryFile, width: int) -> Content:
        when = fmt.age(_days_since(file.changed, self._screen.now())) if file.changed else ""
        number = fmt.rounded(file.chunks) if file.chunks else ""
        if self.sort is Sort.RECALLS and self.recalled is not None:
            number = recall_words(file, self.recalled)
        size = fmt.size(file.size) if file.size is not None else ""
        text = f" {number:>3} {when:>5}"
        if width >= _ROOMY:
            text = f" {number:>4} {size:>7} {when:>5}"
        return Content.assemble(
            (badge(file.state, self._glyphs), STATE_STYLES[file.state]), (text, fmt.MUTED)
        )


def _indent(line: TreeLine, room: int) -> str:
    return " " * min(2 * line.depth, max(0, room - 8))


def _days_since(changed: datetime, now: datetime) -> float:
    if changed.tzinfo is None and now.tzinfo is not None:
        changed = changed.astimezone()
    # The demo tells its story at a clock of its own, and its files are as new as the installation.
    return max(0.0, (now - changed).total_seconds() / _DAY_SECONDS)


def same_day(files: Sequence[MemoryFile], file: MemoryFile) -> list[MemoryFile]:
    """The other files of the same day that can be shown, by path."""
    if file.day is None:
        return []
    others = (one for one in files if one.day == file.day and one.path != file.path)
    return sorted(
        (one for one in others if one.state is not FileState.ERROR), key=lambda one: one.path
    )
