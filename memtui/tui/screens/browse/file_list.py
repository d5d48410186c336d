"""The files of a memory as a tree that folds: filtered, by place and source, then by folder."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import dropwhile, islice
from typing import TYPE_CHECKING

from msgspec import Struct
from textual.content import Content
from textual.widgets import Static

from memtui.model import Reason
from memtui.model.browsing import DayTotals, FileState, MemoryFile
from memtui.report.words import BROWSED_WORDS
from memtui.retrieval.query import FileFilter, parse_query
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import Timers, in_background
from memtui.tui.glyphs import Glyphs
from memtui.tui.widgets.row_list import Row
from memtui.tui.widgets.timeline import WEEKDAYS

if TYPE_CHECKING:
    from memtui.tui.screens.browse.browse_screen import BrowseScreen

SOONEST = 1.0
"""Seconds between two looks at the files while they change."""
WORKSPACE = "workspace"
"""The place of the files below the folder that was opened."""
MOST_LEVELS = 32
"""Folders deeper than this are shown as one."""
_ROOMY = 46
"""Cells from which on a row has room for sizes."""
_DAY_SECONDS = 86_400
_WORST = (FileState.ERROR, FileState.NOT_INDEXED, FileState.STALE, FileState.CHANGED)
_DIGITS = re.compile(r"(\d{1,18})", re.ASCII)
STATE_STYLES = {
    FileState.CURRENT: "",
    FileState.CHANGED: "$state-warn",
    FileState.STALE: "$state-warn",
    FileState.ERROR: "$state-error",
    FileState.NOT_INDEXED: fmt.MUTED,
}


class Sort(StrEnum):
    """The order of the files; all but `name` put the files of a place into one list."""

    NAME = "name"
    DATE = "date"
    """Newest first."""
    SIZE = "size"
    """Largest first."""
    CHUNKS = "chunks"
    """Most first."""
    RECALLS = "recalls"
    """Fewest first: what no query brings up; then files that have no chunk to bring up."""


# --- the tree -------------------------------------------------------------------------------------


class TreeLine(Struct, frozen=True):
    """A line of the tree: a file, or a place or folder with the sums of all files in it."""

    id: str
    depth: int
    name: str
    state: FileState
    """Of a folder the state of its files that wants most attention."""
    file: MemoryFile | None = None
    source: str = ""
    """Of a place: what its files are."""
    count: int = 1
    chunks: int = 0
    size: int = 0
    """Bytes."""


_Parted = list[tuple[list[str], MemoryFile]]
"""Files, each with the folders that it is in and its name."""


def tree_lines(
    files: Iterable[MemoryFile],
    sort: Sort = Sort.NAME,
    recalled: Mapping[str, int] | None = None,
) -> list[TreeLine]:
    """Put files under their places; with `Sort.NAME` under their folders too.

    Returns every line from top to bottom. Folders with nothing but one folder in them are joined
    with it. `recalled`: how often the queries bring up each file, by path; without it
    `Sort.RECALLS` is by name.
    """
    places: dict[tuple[str, str], _Parted] = defaultdict(list)
    for file in files:
        place = file.place.rstrip("/") + "/"
        path = file.path.removeprefix(place) if len(place) > 1 else file.path
        parts = _parts(path) if sort is Sort.NAME else [path]
        places[file.place, file.source].append((parts, file))

    def lines_of(parted: _Parted, id_: str, name: str, source: str, depth: int) -> list[TreeLine]:
        inside: dict[str, _Parted] = defaultdict(list)
        alone: list[tuple[str, MemoryFile]] = []
        for (part, *rest), file in parted:
            if rest:
                inside[part].append((rest, file))
            else:
                alone.append((part, file))
        if not source and not alone and len(inside) == 1:
            ((only, parted),) = inside.items()
            return lines_of(parted, f"{id_}/{only}", f"{name}/{only}", "", depth)
        alone.sort(key=lambda one: (_number(one[1], sort, recalled), natural(one[0])))
        lines = [
            TreeLine(
                f"{file.source}\0{file.path}", depth + 1, part, file.state, file,
                chunks=file.chunks, size=file.size or 0,
            )
            for part, file in alone
        ]  # fmt: skip
        for part in sorted(inside, key=natural):
            lines += lines_of(inside[part], f"{id_}/{part}", part, "", depth + 1)
        leaves = [line for line in lines if line.file is not None]
        states = {line.state for line in leaves}
        folder = TreeLine(
            id_, depth, name,
            next((state for state in _WORST if state in states), FileState.CURRENT),
            source=source,
            count=len(leaves),
            chunks=sum(line.chunks for line in leaves),
            size=sum(line.size for line in leaves),
        )  # fmt: skip
        return [folder, *lines]

    def rank(at: tuple[str, str]) -> tuple[int, str, str]:
        # The workspace first, then memory before sessions, then by name.
        place, source = at
        return (0 if place == WORKSPACE else 1 if source == "memory" else 2, place, source)

    return [
        line
        for at in sorted(places, key=rank)
        for line in lines_of(places[at], f"{at[0]}\0{at[1]}", *at, 0)
    ]


def _number(file: MemoryFile, sort: Sort, recalled: Mapping[str, int] | None) -> float:
    match sort:
        case Sort.DATE if file.day is not None:
            return -file.day.toordinal() * _DAY_SECONDS
        case Sort.DATE if (when := file.changed) is not None:
            return -(when.toordinal() * _DAY_SECONDS + (when.hour * 60 + when.minute) * 60)
        case Sort.SIZE:
            return -(file.size or 0)
        case Sort.CHUNKS:
            return -file.chunks
        case Sort.RECALLS if recalled is not None:
            return recalled.get(file.path, 0) if file.chunks else math.inf
    return 0.0


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part] or [path]
    if path.startswith("/"):
        parts[0] = "/" + parts[0]
    if len(parts) > MOST_LEVELS:
        parts = [*parts[: MOST_LEVELS - 2], "/".join(parts[MOST_LEVELS - 2 : -1]), parts[-1]]
    return parts


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts names by their letters, and numbers in them by their value."""
    pieces = enumerate(_DIGITS.split(name.casefold()))
    return tuple((int(piece), "") if at % 2 else (-1, piece) for at, piece in pieces)


def visible_lines(lines: Iterable[TreeLine], folded: Collection[str]) -> Iterator[TreeLine]:
    """Yield the lines of a tree without what lies in folded folders."""
    depth = math.inf
    for line in lines:
        if line.depth <= depth:
            depth = line.depth if line.id in folded else math.inf
            yield line


def folders_around(lines: Sequence[TreeLine], at: int) -> list[str]:
    """Return the ids of the folders that a line lies in, innermost first."""
    ids, depth = [], lines[at].depth
    for line in reversed(lines[:at]):
        if line.depth < depth:
            ids.append(line.id)
            depth = line.depth
    return ids


def filter_files(
    files: Sequence[MemoryFile], text: str
) -> tuple[Sequence[MemoryFile], tuple[str, ...]]:
    """Return files whose paths hold every word and fit `path:`, `source:`, `after:`, `before:`.

    The second is what could not be understood. The letter case does not count. The name of a place
    is looked at too, except for the one that most files are in.
    """
    if not text.strip():
        return files, ()
    query = parse_query(text, typing=True)
    words = [word.casefold() for word in query.text.split()]
    filters = FileFilter(query.filters)

    def fits(file: MemoryFile) -> bool:
        name = f"{'' if file.place == WORKSPACE else file.place} {file.path}".casefold()
        changed = int(file.changed.timestamp()) * 1_000_000_000 if file.changed is not None else 0
        return all(word in name for word in words) and filters.fits(
            path=file.path, source=file.source, day=file.day, mtime_ns=changed
        )

    return [file for file in files if fits(file)], query.problems


# --- words ----------------------------------------------------------------------------------------


def badge(state: FileState, glyphs: Glyphs) -> str:
    """Return one character for the state of a file; a space for one that is current."""
    return {
        FileState.CURRENT: " ",
        FileState.CHANGED: glyphs.changed,
        FileState.STALE: glyphs.stale,
        FileState.ERROR: glyphs.problem,
        FileState.NOT_INDEXED: glyphs.not_indexed,
    }[state]


def state_words(file: MemoryFile) -> str:
    """Return the state of a file in words, with why."""
    why = file.detail or ("" if file.reason is Reason.OK else fmt.reason_words(file.reason))
    words = BROWSED_WORDS[file.state]
    return safe_line(words if not why or why == words else f"{words}: {why}")


def file_line(
    file: MemoryFile, now: datetime, glyphs: Glyphs, recalled: Mapping[str, int] | None = None
) -> Content:
    """Draw the state of a file and its numbers, the most important first."""
    state = f"{badge(file.state, glyphs)} {state_words(file)}".strip()
    words = [fmt.counted(file.chunks, "chunk")] if file.chunks else []
    if file.chunks and recalled is not None:
        times = recalled.get(file.path, 0)
        words.insert(0, f"recalled {fmt.count(times)}×" if times else "never recalled")
    if file.lines:
        words.append(fmt.counted(file.lines, "line"))
    if file.size is not None:
        words.append(fmt.size(file.size))
    if file.day is not None:
        words.append(f"{WEEKDAYS[file.day.weekday()]} {file.day.isoformat()}")
    if file.changed is not None:
        words.append(f"changed {fmt.ago(file.changed, now)}")
    style = STATE_STYLES[file.state] or ("$state-warn" if file.detail else "$state-ok")
    return Content.assemble((state, style), ("  " + " · ".join(words), fmt.MUTED))


def folder_line(folder: TreeLine) -> Content:
    """Draw what a folder holds."""
    files, chunks = fmt.counted(folder.count, "file"), fmt.counted(folder.chunks, "chunk")
    words = " · ".join((files, chunks, fmt.size(folder.size)))
    return Content.assemble((safe_line(folder.name), "bold"), (f"  {words}", fmt.MUTED))


# --- the list -------------------------------------------------------------------------------------


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
        self._tree: Sequence[TreeLine] = ()
        self._is_filtered = False
        self._delayed = Timers(screen)
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

    def load(self) -> None:
        """List the files and their days."""
        engine, screen = self._screen.engine, self._screen
        if engine is None:
            return

        def take(files: Sequence[MemoryFile], days: Sequence[DayTotals]) -> None:
            self.is_listed, self.files = True, files
            self.by_path = {file.path: file for file in files}
            screen.timeline.show_days(days, screen.today())
            self.arrange()

        def failed(error: str) -> None:
            self.problems = (f"cannot list the files: {safe_line(error)}",)
            screen.describe()

        in_background(
            screen,
            lambda: (engine.browse.files(), engine.browse.days(self.recalled)),
            lambda listed: take(*listed),
            failed,
            description="list the files",
            group="files",
            exclusive=True,
        )

    def changed_outside(self) -> None:
        """Follow files or an index that changed, but not at every change."""

        def follow() -> None:
            # Behind another screen nothing is listed; it is when this one comes to the front.
            if self._screen.is_current:
                self.load()

        if self._screen.is_mounted and not self._delayed.is_running("load"):
            self._delayed.start("load", SOONEST, follow)

    def arrange(self) -> None:
        """Put what the filter lets through into the tree, off the loop; the newest wish wins."""
        text, sort = self._screen.filter_input.value, self.sort
        recalled = self.recalled if sort is Sort.RECALLS else None

        def arranged() -> tuple[Sequence[TreeLine], int, tuple[str, ...]]:
            files, problems = filter_files(self.files, text)
            return tree_lines(files, sort, recalled), len(files), problems

        in_background(
            self._screen,
            arranged,
            lambda result: self._show(*result),
            description="filter the files",
            group="arrange",
            exclusive=True,
        )

    def _show(self, tree: Sequence[TreeLine], count: int, problems: tuple[str, ...]) -> None:
        """Show the tree with the cursor where it was; every folder open at first in a filter."""
        screen = self._screen
        is_filtered = bool(screen.filter_input.value.strip())
        if is_filtered and not self._is_filtered:
            self.folded = set()
        is_first = screen.file_rows.chosen_id is None
        self._tree, self._is_filtered, self.problems = tree, is_filtered, problems
        self._show_lines()
        self.show_count(count)
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

    def _show_lines(self, keep: str | None = None) -> None:
        self.lines = list(visible_lines(self._tree, self.folded))
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
        self._screen.query_one("#browse-count", Static).update(Content(text), layout=False)

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
        places = (at for at, one in enumerate(self._tree) if one.file and one.file.path == path)
        if (at := next(places, None)) is None:
            return False
        around = folders_around(self._tree, at)
        if self.folded.intersection(around):
            self.folded.difference_update(around)
            self._show_lines()
        return self._screen.file_rows.choose(self._tree[at].id)

    def neighbour(self, path: str, step: int) -> MemoryFile | None:
        """Return the next file with chunks after a file, or before it; no folded ones."""
        files = [line.file for line in self.lines if line.file is not None][::step]
        ahead = dropwhile(lambda file: file.path != path, files)
        return next((file for file in islice(ahead, 1, None) if file.chunks), None)

    def same_day(self, file: MemoryFile) -> list[MemoryFile]:
        """Return the other files of the same day that can be shown, by path."""
        others = [one for one in self.files if one.day == file.day and one.path != file.path]
        return sorted(
            (one for one in others if one.state is not FileState.ERROR), key=lambda one: one.path
        )

    # --- folding --------------------------------------------------------------------------------

    def toggle(self, folder_id: str) -> None:
        """Open a folder that is closed, close one that is open."""
        self.folded ^= {folder_id}
        self._show_lines(folder_id)

    def unfold(self) -> None:
        """Open the folder, or go into it; a file is opened."""
        line = self.chosen
        if line is None:
            return
        if line.file is not None:
            self._screen.file_rows.action_open()
        elif line.id in self.folded:
            self.toggle(line.id)
        else:
            self._screen.file_rows.action_move(1)

    def fold(self) -> None:
        """Close the folder; from a file go to the folder it is in."""
        line, rows = self.chosen, self._screen.file_rows
        if line is None or rows.cursor is None:
            return
        if line.file is None and line.id not in self.folded:
            self.toggle(line.id)
        elif around := folders_around(self.lines, rows.cursor):
            rows.choose(around[0], by_user=True)

    def fold_all(self) -> None:
        """Close every folder; open all when they are closed."""
        folders = [line for line in self._tree if line.file is None]
        inner = {line.id for line in folders if line.depth}
        closable = inner or {line.id for line in folders}
        self.folded = set() if closable <= self.folded else closable
        keep = None
        if (line := self.chosen) is not None and line.file is not None:
            around = folders_around(self._tree, self._tree.index(line))
            keep = next((folder for folder in reversed(around) if folder in self.folded), line.id)
        self._show_lines(keep)

    # --- drawing --------------------------------------------------------------------------------

    def _draw_line(self, line: TreeLine, width: int) -> Content:
        file, glyphs = line.file, self._screen.glyphs
        is_open = file is None and line.id not in self.folded
        state = FileState.CURRENT if is_open else line.state
        if file is not None:
            now = self._screen.now()
            # The demo tells its story at a clock of its own, and its files are as new as the
            # installation.
            days = (now - file.changed).total_seconds() / _DAY_SECONDS if file.changed else 0.0
            when = fmt.age(max(0.0, days)) if file.changed else ""
            number = fmt.rounded(file.chunks) if file.chunks else ""
            if self.sort is Sort.RECALLS and self.recalled is not None:
                number = f"{fmt.rounded(self.recalled.get(file.path, 0))}×" if file.chunks else ""
            size = fmt.size(file.size) if file.size is not None else ""
            numbers = f" {number:>3} {when:>5}"
            if width >= _ROOMY:
                numbers = f" {number:>4} {size:>7} {when:>5}"
        elif width >= _ROOMY:
            numbers = f" {fmt.counted(line.count, 'file')}  {fmt.size(line.size)}"
        else:
            numbers = f" {fmt.count(line.count):>4}"
        right = Content.assemble((badge(state, glyphs), STATE_STYLES[state]), (numbers, fmt.MUTED))
        room = max(1, width - right.cell_length - 1)
        indent = " " * min(2 * line.depth, max(0, room - 8))
        if file is None:
            name, source = safe_line(line.name), safe_line(line.source)
            shown = Content.assemble(
                f"{glyphs.opened if is_open else glyphs.folded} ",
                (name if source else f"{name}/", "bold"),
                (f"  {source}" if source and source != name else "", fmt.MUTED),
            )
        else:
            folder, slash, last = safe_line(line.name).rpartition("/")
            if folder and len(indent) + Content(folder + slash + last).cell_length > room:
                folder = glyphs.ellipsis
            style = STATE_STYLES[file.state]
            shown = Content.assemble((folder + slash, fmt.MUTED), (last, style))
        left = fmt.fit(indent + shown, room)
        return left + " " * max(1, width - left.cell_length - right.cell_length) + right
