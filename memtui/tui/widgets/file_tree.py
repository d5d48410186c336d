"""The files of a memory as a tree that folds, with a badge, chunks and age for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from memtui.model.browsing import FileState, MemoryFile
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.browsing.file_words import STATE_STYLES, badge, recall_words
from memtui.tui.browsing.marks import UNICODE, Marks
from memtui.tui.browsing.tree import (
    Folder,
    TreeLine,
    all_folders,
    flatten,
    folders_around,
)
from memtui.tui.widgets.row_list import Row, RowList

_ROOMY = 46
_SECONDS = 86_400


class FileTree(RowList):
    """Places, folders and files; `folded` are the ids of the folders that are closed."""

    HELP = "● changed  ! error  · not indexed  ◌ file gone; the line below says why."
    BINDING_GROUP_TITLE = "Files"
    BINDINGS: ClassVar[list[BindingType]] = bindings("tree")

    def __init__(self, marks: Marks = UNICODE, *, marker: str = "›") -> None:
        super().__init__(id="file-tree", marker=marker, gap=0)
        self.marks = marks
        self.folded: set[str] = set()
        self._tree: Sequence[Folder] = ()
        self._shown: list[TreeLine] = []
        self._filtered = False
        self._nothing = ""
        self._recalled: Mapping[str, int] | None = None
        self._now = datetime.now(UTC)

    @property
    def tree_lines(self) -> Sequence[TreeLine]:
        """The lines that are not hidden in a folder."""
        return self._shown

    @property
    def chosen(self) -> TreeLine | None:
        """The line under the cursor."""
        return self._shown[self.cursor] if self.cursor is not None else None

    @property
    def chosen_file(self) -> MemoryFile | None:
        """The file under the cursor."""
        return self.chosen.file if self.chosen is not None else None

    def show_tree(
        self,
        tree: Sequence[Folder],
        now: datetime,
        *,
        filtered: bool,
        empty: str = "",
        recalled: Mapping[str, int] | None = None,
    ) -> None:
        """Show another tree; what a filter found is shown with every folder open.

        `recalled`: how often each file comes up, by path, shown in place of its chunks.
        """
        if filtered and not self._filtered:
            self.folded = set()
        self._tree, self._now, self._filtered = tree, now, filtered
        self._nothing, self._recalled = empty, recalled
        self._flatten()

    def reveal(self, path: str) -> bool:
        """Open the folders around a file and go to it; false when the tree has no such file."""
        around = folders_around(self._tree, path)
        if not around:
            return False
        if self.folded.intersection(around):
            self.folded.difference_update(around)
            self._flatten()
        for line in self._shown:
            if line.file is not None and line.file.path == path:
                return self.choose(line.id)
        return False

    def neighbour(self, path: str, step: int) -> MemoryFile | None:
        """The next file with chunks after a file, or before it; folded folders are left out."""
        files = [line.file for line in self._shown if line.file is not None]
        at = next((place for place, file in enumerate(files) if file.path == path), None)
        if at is None:
            return None
        ahead = files[at + 1 :] if step > 0 else files[:at][::-1]
        return next((file for file in ahead if file.chunks), None)

    def _flatten(self, keep: str | None = None) -> None:
        keep = keep or self.chosen_id
        self._shown = flatten(self._tree, self.folded)
        rows = [Row(line.id, partial(self._draw_line, line)) for line in self._shown]
        self.set_rows(rows, keep, empty=self._nothing)

    # --- folding ----------------------------------------------------------------------------------

    def action_unfold(self) -> None:
        """Open the folder, or go into it; a file is opened."""
        line = self.chosen
        if line is None:
            return
        if line.folder is None:
            self.action_open()
        elif line.is_open:
            self.move(1)
        else:
            self.toggle(line.id)

    def action_fold(self) -> None:
        """Close the folder; from a file go to the folder it is in."""
        line = self.chosen
        if line is None:
            return
        if line.folder is not None and line.is_open:
            self.toggle(line.id)
            return
        for above in reversed(self._shown[: self.cursor]):
            if above.depth < line.depth:
                self.choose(above.id, by_user=True)
                return

    def toggle(self, folder_id: str) -> None:
        """Open a folder that is closed, close one that is open."""
        self.folded ^= {folder_id}
        self._flatten(folder_id)

    def action_fold_all(self) -> None:
        """Close every folder; open all when they are closed."""
        folders = {folder.id for folder in all_folders(self._tree)}
        inner = {folder.id for place in self._tree for folder in all_folders(place.folders)}
        wanted = inner or folders
        line = self.chosen
        self.folded = set() if wanted <= self.folded else wanted
        keep = None
        if line is not None and line.file is not None:
            around = folders_around(self._tree, line.file.path)
            keep = next((folder for folder in around if folder in self.folded), line.id)
        self._flatten(keep)

    # --- drawing ----------------------------------------------------------------------------------

    def _draw_line(self, line: TreeLine, width: int) -> Content:
        right = self._right(line, width)
        room = max(1, width - right.cell_length - 1)
        left = self._left(line, room)
        gap = " " * max(1, width - left.cell_length - right.cell_length)
        return left + gap + right

    def _left(self, line: TreeLine, room: int) -> Content:
        indent = " " * min(2 * line.depth, max(0, room - 8))
        name = safe_line(line.name)
        if line.folder is not None:
            mark = self.marks.opened if line.is_open else self.marks.folded
            slash = "" if line.folder.source else "/"
            source = safe_line(line.folder.source)
            told = f"  {source}" if source and source != name else ""
            left = Content.assemble(
                f"{indent}{mark} ", (f"{name}{slash}", "bold"), (told, fmt.MUTED)
            )
            return left.truncate(room, ellipsis=True)
        style = STATE_STYLES[line.file.state] if line.file is not None else ""
        rest = max(1, room - len(indent))
        folder, slash, last = name.rpartition("/")
        shown = Content.assemble((folder + slash, fmt.MUTED), (last, style))
        if shown.cell_length > rest and folder:
            cut = Content.styled(self.marks.ellipsis + "/", fmt.MUTED)
            shown = cut + Content.styled(last, style)
        return Content.assemble(indent, shown.truncate(rest, ellipsis=True))

    def _right(self, line: TreeLine, width: int) -> Content:
        if line.folder is not None:
            state = FileState.CURRENT if line.is_open else line.folder.worst
            told = f"{fmt.count(line.folder.count):>4}"
            if width >= _ROOMY:
                told = f"{fmt.counted(line.folder.count, 'file')}  {fmt.size(line.folder.size)}"
            parts = [(badge(state, self.marks), STATE_STYLES[state]), (f" {told}", fmt.MUTED)]
            return Content.assemble(*parts)
        assert line.file is not None
        return self._file_numbers(line.file, width)

    def _file_numbers(self, file: MemoryFile, width: int) -> Content:
        when = fmt.age(_days_since(file, self._now)) if file.changed is not None else ""
        number = fmt.rounded(file.chunks) if file.chunks else ""
        if self._recalled is not None:
            number = recall_words(file, self._recalled)
        size = fmt.size(file.size) if file.size is not None else ""
        told = f" {number:>3} {when:>5}"
        if width >= _ROOMY:
            told = f" {number:>4} {size:>7} {when:>5}"
        return Content.assemble(
            (badge(file.state, self.marks), STATE_STYLES[file.state]), (told, fmt.MUTED)
        )


def _days_since(file: MemoryFile, now: datetime) -> float | None:
    if file.changed is None:
        return None
    changed = file.changed
    if changed.tzinfo is None and now.tzinfo is not None:
        changed = changed.astimezone()
    # The demo tells its story at a clock of its own, and its files are as new as the installation.
    return max(0.0, (now - changed).total_seconds() / _SECONDS)
