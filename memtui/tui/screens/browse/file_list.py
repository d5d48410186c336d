"""The list of files on the browse screen: loading, filtering, ordering and folding it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from memtui.model import Ranking
from memtui.model.browsing import DayTotals, FileState, MemoryFile
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import LongTask, in_background, tell
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
from memtui.tui.widgets.row_list import Row
from memtui.tui.widgets.timeline import Measure

if TYPE_CHECKING:
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
        self.lines: list[TreeLine] = []
        """The lines of the tree that are not hidden in a folder."""
        self.path_to_reveal: str | None = None
        """The file that the cursor goes to, once it is there."""
        self._screen = screen
        self._tree: Sequence[Folder] = ()
        self._is_filtered = False
        self._is_loading = self._is_stale = False
        self._load_seconds = 0.0
        self._timer: Timer | None = None
        self._ticket = 0
        self._shown_count = 0

    @property
    def chosen(self) -> TreeLine | None:
        """The line under the cursor."""
        cursor = self._screen.file_rows.cursor
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

        def take(files: Sequence[MemoryFile] | None, days: Sequence[DayTotals]) -> None:
            self._is_loading = False
            self._load_seconds = time.monotonic() - began
            if engine is not self._screen.engine or not self._screen.is_built:
                return
            if files is not None:
                self.is_listed, self.files = True, files
                self.by_path = {file.path: file for file in files}
                self._screen.timeline.show_days(days, self._screen.today())
                self.arrange()
            if self._is_stale:
                self.changed_outside()

        def failed(error: str) -> None:
            self.problems = (f"cannot list the files: {safe_line(error)}",)
            take(None, ())
            if self._screen.is_built:
                self._screen.describe()

        in_background(
            self._screen,
            lambda: (engine.browse.files(), engine.browse.days(self.recalled)),
            lambda listed: take(*listed),
            failed,
            description="list the files",
        )

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

        def arranged() -> tuple[Filtered, Sequence[Folder]]:
            if ticket != self._ticket:
                return Filtered(()), ()
            filtered = filter_files(self.files, text)
            return filtered, build_tree(filtered.files, sort, recalled)

        def take(result: tuple[Filtered, Sequence[Folder]]) -> None:
            if ticket == self._ticket:
                self._show(*result)

        in_background(self._screen, arranged, take, description="filter the files")

    def _show(self, filtered: Filtered, tree: Sequence[Folder]) -> None:
        """Show the tree with the cursor where it was; every folder open at first in a filter."""
        screen = self._screen
        self.problems = filtered.problems
        is_filtered = bool(screen.filter_input.value.strip())
        if is_filtered and not self._is_filtered:
            self.folded = set()
        is_first = screen.file_rows.chosen_id is None
        self._tree, self._is_filtered = tree, is_filtered
        self._flatten()
        self.show_count(len(filtered.files))
        if self.path_to_reveal is not None and self._choose_path(self.path_to_reveal):
            self.path_to_reveal = None
        elif (is_first or is_filtered) and self.chosen_file is None:
            # From the place that stands first to a file, so that there is something to read.
            first = next((line for line in self.lines if line.file is not None), None)
            if first is not None:
                screen.file_rows.choose(first.id)
        if is_filtered and self.chosen_file is not None:
            screen.reader.show_other(self.chosen_file.path)
        screen.describe()

    def _flatten(self, keep: str | None = None) -> None:
        self.lines = list(flatten(self._tree, self.folded))
        rows = [Row(line.id, partial(self._draw_line, line)) for line in self.lines]
        empty = "no file fits: esc clears" if self._is_filtered else "no Markdown notes here"
        widget = self._screen.file_rows
        widget.set_rows(rows, keep or widget.chosen_id, empty=empty)

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
        count = self._screen.query_one("#browse-count", Static)
        count.update(Content(text), layout=False)

    def cycle_sort(self) -> None:
        """Show the files in another order; by recalls as soon as they are counted."""
        orders = list(Sort)
        self.sort = orders[(orders.index(self.sort) + 1) % len(orders)]
        self.path_to_reveal = self._screen.reader.path
        self.arrange()
        self._screen.recalls.follow()

    # --- places in the tree ---------------------------------------------------------------------

    def reveal(self, path: str) -> None:
        """Put the cursor on a file; a filter that hides it is taken away."""
        self.path_to_reveal = path
        if self._choose_path(path):
            self.path_to_reveal = None
        elif path in self.by_path:
            self._screen.filter_input.value = ""
            self.arrange()

    def _choose_path(self, path: str) -> bool:
        around = folders_around(self._tree, path)
        if self.folded.intersection(around):
            self.folded.difference_update(around)
            self._flatten()
        line = next((one for one in self.lines if one.file and one.file.path == path), None)
        return line is not None and self._screen.file_rows.choose(line.id)

    def neighbour(self, path: str, step: int) -> MemoryFile | None:
        """Return the next file with chunks after a file, or before it; no folded ones."""
        files = [line.file for line in self.lines if line.file is not None]
        at = next((place for place, file in enumerate(files) if file.path == path), None)
        if at is None:
            return None
        ahead = files[at + 1 :] if step > 0 else files[:at][::-1]
        return next((file for file in ahead if file.chunks), None)

    def same_day(self, file: MemoryFile) -> list[MemoryFile]:
        """Return the other files of the same day that can be shown, by path."""
        others = [one for one in self.files if one.day == file.day and one.path != file.path]
        shown = [one for one in others if one.state is not FileState.ERROR]
        return sorted(shown, key=lambda one: one.path) if file.day is not None else []

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
            self._screen.file_rows.action_open()
        elif line.is_open:
            self._screen.file_rows.action_move(1)
        else:
            self.toggle(line.id)

    def fold(self) -> None:
        """Close the folder; from a file go to the folder it is in."""
        line, rows = self.chosen, self._screen.file_rows
        if line is None:
            return
        if line.folder is not None and line.is_open:
            self.toggle(line.id)
            return
        above = [one for one in self.lines[: rows.cursor] if one.depth < line.depth]
        if above:
            rows.choose(above[-1].id, by_user=True)

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
        file, folder = line.file, line.folder
        state = FileState.CURRENT if line.is_open else folder.worst if folder else FileState.CURRENT
        if file is not None:
            state, numbers = file.state, self._file_numbers(file, width)
        elif folder is not None and width >= _ROOMY:
            numbers = f" {fmt.counted(folder.count, 'file')}  {fmt.size(folder.size)}"
        else:
            numbers = f" {fmt.count(folder.count if folder else 0):>4}"
        glyphs = self._screen.glyphs
        right = Content.assemble((badge(state, glyphs), STATE_STYLES[state]), (numbers, fmt.MUTED))
        room = max(1, width - right.cell_length - 1)
        indent = " " * min(2 * line.depth, max(0, room - 8))
        name = self._folder_name(line) if folder else self._file_name(line, room - len(indent))
        left = (indent + name).truncate(room, ellipsis=True)
        return left + " " * max(1, width - left.cell_length - right.cell_length) + right

    def _folder_name(self, line: TreeLine) -> Content:
        assert line.folder is not None
        name, source = safe_line(line.name), safe_line(line.folder.source)
        glyphs = self._screen.glyphs
        return Content.assemble(
            f"{glyphs.opened if line.is_open else glyphs.folded} ",
            (name if source else f"{name}/", "bold"),
            (f"  {source}" if source and source != name else "", fmt.MUTED),
        )

    def _file_name(self, line: TreeLine, room: int) -> Content:
        assert line.file is not None
        style = STATE_STYLES[line.file.state]
        folder, slash, last = safe_line(line.name).rpartition("/")
        shown = Content.assemble((folder + slash, fmt.MUTED), (last, style))
        if shown.cell_length > room and folder:
            ellipsis = self._screen.glyphs.ellipsis
            shown = Content.assemble((f"{ellipsis}/", fmt.MUTED), (last, style))
        return shown

    def _file_numbers(self, file: MemoryFile, width: int) -> str:
        when = fmt.age(_days_since(file.changed, self._screen.now())) if file.changed else ""
        number = fmt.rounded(file.chunks) if file.chunks else ""
        if self.sort is Sort.RECALLS and self.recalled is not None:
            number = recall_words(file, self.recalled)
        if width < _ROOMY:
            return f" {number:>3} {when:>5}"
        size = fmt.size(file.size) if file.size is not None else ""
        return f" {number:>4} {size:>7} {when:>5}"


def _days_since(changed: datetime, now: datetime) -> float:
    if changed.tzinfo is None and now.tzinfo is not None:
        changed = changed.astimezone()
    # The demo tells its story at a clock of its own, and its files are as new as the installation.
    return max(0.0, (now - changed).total_seconds() / _DAY_SECONDS)


class RecallCounter:
    """Counts how often the queries of the history bring up files and days, where that is shown."""

    def __init__(self, screen: BrowseScreen) -> None:
        self._screen = screen
        self._task = LongTask(screen, "count the recalls")
        self._counted: tuple[Sequence[str], Ranking] | None = None
        """The queries and the ranking that recalls were counted with."""

    def cycle_measure(self) -> None:
        """Make days dark by bytes, by chunks, or by how often they come up in the searches."""
        timeline, order = self._screen.timeline, list(Measure)
        measure = order[(order.index(timeline.measure) + 1) % len(order)]
        if not timeline.display and not self._screen.has_class("-single"):
            self._screen.timeline_wanted = True
            self._screen.apply_layout()
        timeline.show_measure(measure, self._screen.today())
        self.follow()

    def follow(self) -> None:
        """Count where days or files show it; stop where neither does any more."""
        screen = self._screen
        by_recalls = screen.file_list.sort is Sort.RECALLS
        if not by_recalls and screen.timeline.measure is not Measure.RECALLS:
            self.stop()
        elif not self._task.is_running:
            self._count()

    def _count(self) -> None:
        screen, engine, files = self._screen, self._screen.engine, self._screen.file_list
        search = screen.memtui.search_screen
        question = search.notes.queries, search.ranking
        if not question[0]:
            self._note("no queries asked yet, nothing to count", "no queries yet")
            return
        if files.recalled is not None and self._counted == question:
            self._note("", "")
            return
        if engine is None:
            return
        self._counted = question
        self._note("counting…", "counting recalls")

        def take(counts: tuple[Mapping[str, int], Sequence[DayTotals]]) -> None:
            files.recalled, days = counts
            self._note("", "")
            screen.timeline.show_days(days, screen.today())
            if files.sort is Sort.RECALLS:
                files.arrange()

        def failed(error: str) -> None:
            self._counted = None
            self._note("", "recalls not counted")
            tell(screen, f"recalls not counted: {error}", error=True)

        def progressed(done: int, total: int) -> None:
            long = f"counting recalls: query {done} of {total}  esc stops"
            self._note(long, f"recalls {done}/{total} esc stops")

        self._task.start(
            lambda cancelled, report: (
                recalled := engine.browse.recalled(
                    question[0], ranking=question[1], cancelled=cancelled, progressed=report
                ),
                engine.browse.days(recalled),
            ),
            take,
            failed,
            progressed,
        )

    def stop(self) -> bool:
        """Stop counting; false when nothing was counted."""
        was_running = self._task.stop()
        if was_running:
            self._counted = None
            self._note("not counted", "recalls not counted")
        elif self._screen.is_built:
            self._screen.timeline.show_note("")
        return was_running

    def _note(self, text: str, brief: str) -> None:
        """Say how the count stands above the days, and briefly above the files."""
        if self._screen.is_built:
            self._screen.timeline.show_note(text)
            self._screen.file_list.note = brief
            self._screen.file_list.show_count()
