"""The files of a memory as a tree that folds: filtered, by place and source, then by folder."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from textual.content import Content

from memtui.engine.browse import days_of, recalls_of
from memtui.engine.search import Tops
from memtui.model import NOTES, FileState, Reason
from memtui.model.browsing import MemoryFile
from memtui.report.status import LOOKS_FOR
from memtui.report.words import WORDS, day_age
from memtui.retrieval.query import day_rule, parse_query
from memtui.text.sanitize import safe_line
from memtui.tui import fmt, glyphs
from memtui.tui.background import LongTask, in_background, tell
from memtui.tui.bindings import next_of
from memtui.tui.place_actions import app_of
from memtui.tui.present import sign_of
from memtui.tui.screens.common import Timers
from memtui.tui.widgets.lists import Row
from memtui.tui.widgets.query_bar import QueryBar
from memtui.tui.widgets.timeline import Measure

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
_DIGITS = re.compile(r"(\d{1,18})", re.ASCII)


class Sort(StrEnum):
    """The order of the files; all but `name` put the files of a place into one list."""

    NAME = "name"
    DATE = "date"
    """Newest first, then the undated, what was changed last first."""
    SIZE = "size"
    """Largest first."""
    CHUNKS = "chunks"
    """Most first."""
    RECALLS = "recalls"
    """Fewest first: what no query brings up; then files that have no chunk to bring up."""


class TreeLine(Struct, frozen=True):
    """A line of the tree: a file, or a place or folder with all files in it."""

    id: str
    name: str
    files: Sequence[MemoryFile]
    """The file alone, or those of the place or folder."""
    around: tuple[str, ...] = ()
    """The ids of the folders that it lies in, innermost first."""
    file: MemoryFile | None = None
    source: str = ""
    """Of a place: what its files are."""

    @property
    def state(self) -> FileState:
        """The state of the files that wants most attention."""
        states = {file.state for file in self.files}
        return max(states, key=tuple(FileState).index, default=FileState.CURRENT)

    @property
    def number(self) -> int:
        """The number of files that are not left out."""
        return sum(file.state is not FileState.SKIPPED for file in self.files)

    @property
    def size(self) -> int:
        return sum(file.size or 0 for file in self.files)


_Parted = list[tuple[list[str], MemoryFile]]
"""Files, each with the folders that it is in and its name."""


def tree_lines(
    files: Iterable[MemoryFile], sort: Sort = Sort.NAME, recalled: Mapping[str, int] | None = None
) -> list[TreeLine]:
    """Put files under their places; with `Sort.NAME` under their folders too.

    Returns every line from top to bottom, last in a folder what is left out. Folders with nothing
    but one folder in them are joined with it. `recalled`: how often the queries bring up each
    file, by path; without it `Sort.RECALLS` is by name.
    """
    # The workspace first, then memory before sessions, then by name.
    places: dict[tuple[bool, bool, str, str], _Parted] = defaultdict(list)
    for file in files:
        place = file.place.rstrip("/") + "/"
        path = file.path.removeprefix(place) if len(place) > 1 else file.path
        parts = [path]
        if sort is Sort.NAME:
            parts = [part for part in path.split("/") if part] or [path]
            if path.startswith("/"):
                parts[0] = "/" + parts[0]
            if len(parts) > MOST_LEVELS:
                parts[MOST_LEVELS - 2 : -1] = ["/".join(parts[MOST_LEVELS - 2 : -1])]
        rank = file.place != WORKSPACE, file.source != NOTES, file.place, file.source
        places[rank].append((parts, file))

    def lines_of(
        parted: _Parted, id_: str, name: str, around: tuple[str, ...] = (), source: str = ""
    ) -> list[TreeLine]:
        inside: dict[str, _Parted] = defaultdict(list)
        alone: list[tuple[str, MemoryFile]] = []
        for (part, *rest), file in parted:
            if rest:
                inside[part].append((rest, file))
            else:
                alone.append((part, file))
        if not source and not alone and len(inside) == 1:
            ((only, parted),) = inside.items()
            return lines_of(parted, f"{id_}/{only}", f"{name}/{only}", around)
        alone.sort(key=lambda one: (*_sort_numbers(one[1], sort, recalled), natural(one[0])))
        lines = [TreeLine(id_, name, [file for _, file in parted], around, source=source)]
        around, left_out = (id_, *around), list[TreeLine]()
        for part, file in alone:
            line = TreeLine(f"{file.source}\0{file.path}", part, [file], around, file)
            (left_out if file.state is FileState.SKIPPED else lines).append(line)
        for part in sorted(inside, key=natural):
            lines += lines_of(inside[part], f"{id_}/{part}", part, around)
        return lines + left_out

    return [
        line
        for rank, parted in sorted(places.items(), key=lambda item: item[0])
        for line in lines_of(parted, "\0".join(rank[2:]), rank[2], source=rank[3])
    ]


def _sort_numbers(
    file: MemoryFile, sort: Sort, recalled: Mapping[str, int] | None
) -> tuple[float, float]:
    if sort is Sort.DATE:
        changed = file.changed.timestamp() // 60 if file.changed is not None else 0
        return -file.day.toordinal() if file.day is not None else 0, -changed
    if sort is Sort.RECALLS and recalled is not None:
        return recalled.get(file.path, 0) if file.chunks else math.inf, 0
    return {Sort.SIZE: -(file.size or 0), Sort.CHUNKS: -file.chunks}.get(sort, 0), 0


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts names by their letters, and numbers in them by their value."""
    pieces = enumerate(_DIGITS.split(name.casefold()))
    return tuple((int(piece), "") if at % 2 else (-1, piece) for at, piece in pieces)


def filter_files(
    files: Sequence[MemoryFile], text: str
) -> tuple[Sequence[MemoryFile], tuple[str, ...]]:
    """Return files whose paths hold every word and fit `path:`, `source:`, `after:`, `before:`.

    The second is what could not be understood. The letter case does not count. The name of a place
    is looked at too, except for the one that most files are in.
    """
    query = parse_query(text, typing=True)
    phrases = [phrase.casefold() for phrase in query.phrases]
    words = [*phrases, *query.text.replace('"', " ").casefold().split()]
    without = [word.removesuffix("*").casefold() for word in query.filters.excluded]

    def fits(file: MemoryFile) -> bool:
        name = f"{'' if file.place == WORKSPACE else file.place} {file.path}".casefold()
        changed = int(file.changed.timestamp()) * 1_000_000_000 if file.changed is not None else 0
        is_named = all(word in name for word in words) and not any(word in name for word in without)
        return is_named and query.filters.fits(
            path=file.path, source=file.source, day=file.day, mtime_ns=changed
        )

    return [file for file in files if fits(file)], (*query.problems, *query.unlisted)


def state_words(file: MemoryFile) -> str:
    why = file.detail or ("" if file.reason is Reason.OK else fmt.reason_words(file.reason))
    if file.state is FileState.CURRENT and not file.chunks:
        why = why or "no text in it"
    words = WORDS["browsed"][file.state]
    return safe_line(why if why.startswith(words) else f"{words}: {why}" if why else words)


def file_line(
    file: MemoryFile, now: datetime, recalled: Mapping[str, int] | None = None
) -> Content:
    """Draw the state of a file and its numbers, the most important first."""
    character, style = sign_of("browsed", file.state)
    words = [fmt.count(file.chunks, "chunk")] if file.chunks else []
    if file.chunks and recalled is not None:
        times = recalled.get(file.path, 0)
        words.insert(0, f"recalled {fmt.count(times)}×" if times else "never recalled")
    if file.lines:
        words.append(fmt.count(file.lines, "line"))
    if file.size is not None:
        words.append(fmt.size_words(file.size))
    if file.day is not None:
        words.append(f"{file.day:%a} {file.day.isoformat()}")
    if file.changed is not None:
        words.append(f"changed {fmt.ago(file.changed, now)}")
    style = style or ("$state-warn" if file.detail else "$state-ok")
    state = f"{character} {state_words(file)}".strip()
    return Content.assemble((state, style), ("  " + " · ".join(words), fmt.MUTED))


class FileList:
    """The files of the memory as a tree that folds, and how often the queries recall them."""

    def __init__(self, screen: BrowseScreen) -> None:
        self.files: Mapping[str, MemoryFile] = {}
        """Every file, by path."""
        self.sort = Sort.NAME
        self.recalled: Mapping[str, int] | None = None
        """The times the queries bring up each file, by path; `None` before that is counted."""
        self.problems: tuple[str, ...] = ()
        """Problems of the filter, or the reason why there is no list."""
        self.lines: list[TreeLine] = []
        """The lines of the tree that are not hidden in a folder."""
        self.path_to_reveal = ""
        """The file that the cursor goes to, once it is there."""
        self._screen = screen
        self._folded: set[str] = set()
        """The ids of closed folders."""
        self._tree: Sequence[TreeLine] = ()
        self._is_filtered = False
        self._is_by_day = False
        """True where rows show the days that a filter asks for."""
        self._timers = Timers(screen)
        self._counting = LongTask(screen)
        self._note = ""
        """The progress of the count of recalls."""

    @property
    def chosen(self) -> TreeLine | None:
        cursor = self._screen.file_rows.cursor
        return self.lines[cursor] if cursor is not None else None

    @property
    def shown_recalls(self) -> Mapping[str, int] | None:
        """The same where rows and their order are about it."""
        return self.recalled if self.sort is Sort.RECALLS else None

    def load(self) -> None:
        screen = self._screen

        def take(files: Sequence[MemoryFile]) -> None:
            self.files = {file.path: file for file in files}
            self.show_days()
            self.arrange()

        def failed(error: str) -> None:
            self.problems = (f"cannot list the files: {safe_line(error)}",)
            screen.describe()

        in_background(screen, screen.engine.browse.files, take, failed, group="files")

    def changed_outside(self) -> None:
        """Follow files or an index that changed, but not at every change."""

        def follow() -> None:
            # Behind another screen nothing is listed; it is when this one comes to the front.
            if self._screen.is_current:
                self.load()

        if self._screen.is_mounted and not self._timers.is_running("load"):
            self._timers.start("load", SOONEST, follow)

    def show_days(self) -> None:
        """Show the days of the files, and today by the engine's clock as a calendar here has it."""
        days = {one.day: one for one in days_of(self.files.values(), self.recalled)}
        today = self._screen.engine.now().astimezone().date()
        self._screen.timeline.heat_map.show_days(days, today)

    def arrange(self) -> None:
        """Put what the filter lets through into the tree, off the loop; the newest wish wins."""
        text, sort = self._screen.filter_input.value, self.sort
        recalled = self.shown_recalls
        every = list(self.files.values())

        def arranged() -> tuple[Sequence[TreeLine], tuple[str, ...]]:
            files, problems = filter_files(every, text)
            return tree_lines(files, sort, recalled), problems

        in_background(
            self._screen,
            arranged,
            lambda result: self._show(*result),
            "filter the files",
            group="arrange",
        )

    def _show(self, tree: Sequence[TreeLine], problems: tuple[str, ...]) -> None:
        """Show the tree with the cursor where it was; every folder open at first in a filter."""
        screen, rows = self._screen, self._screen.file_rows
        is_filtered = bool(screen.filter_input.value.strip())
        if is_filtered and not self._is_filtered:
            self._folded = set()
        is_first = rows.chosen_id is None
        self._tree, self._is_filtered, self.problems = tree, is_filtered, problems
        self._is_by_day = bool(day_rule(screen.filter_input.value))
        self._show_lines()
        self._show_count()
        is_revealed = self._go_to_revealed()
        line = self.chosen
        if not is_revealed and (is_first or is_filtered) and line is not None and not line.file:
            # From the place that stands first to a file, so that there is something to read.
            line = next((one for one in self.lines if one.file is not None), line)
            rows.choose(line.id)
        screen.describe()

    def _show_lines(self, keep: str | None = None) -> None:
        self.lines = [line for line in self._tree if self._folded.isdisjoint(line.around)]
        rows = [Row(line.id, partial(self._draw_line, line)) for line in self.lines]
        empty = "no path fits: esc clears" if self.files else f"no notes; {LOOKS_FOR}"
        widget = self._screen.file_rows
        widget.set_rows(rows, keep or widget.chosen_id, empty=empty)
        numbers = "chunks" if self.shown_recalls is None else "recalls"
        widget.border_subtitle = Content(f"{numbers} · age")

    def _show_count(self) -> None:
        """Say how many files there are, of how many, what is left out, and in which order."""
        shown = Counter(line.number for line in self._tree if line.file is not None)
        total = sum(file.state is not FileState.SKIPPED for file in self.files.values())
        text = fmt.count(total, "file")
        if shown.total() < len(self.files):
            text = f"{fmt.count(shown[1])} of {fmt.count(total)}"
        if shown[0]:
            text += f", {fmt.count(shown[0])} skipped"
        if self.sort is Sort.RECALLS and self._note:
            text = self._note
        self._screen.query_one(QueryBar).show_note(f"by {self.sort.value}  {text}")

    def cycle_sort(self) -> None:
        """Show the files in another order; by recalls as soon as they are counted."""
        self.sort = next_of(Sort, self.sort)
        self.path_to_reveal = self._screen.reader.path
        self.arrange()
        self.count_recalls()

    def count_recalls(self) -> None:
        """Count recalls where days or files show them; stop where neither does any more."""
        screen, measure = self._screen, self._screen.timeline.heat_map.measure
        if self.sort is not Sort.RECALLS and measure is not Measure.RECALLS:
            self.stop_counting()
            return
        if self._counting.is_running:
            return
        search = app_of(screen).search_screen
        queries, ranking = search.notes.queries, search.state.ranking
        if not queries:
            self._show_note("no queries asked yet")
            tell(screen, "No queries asked yet: recalls count how often your searches find a note.")
            return
        self._show_note("counting…")

        def take(tops: Tops) -> None:
            self.recalled = recalls_of(tops)
            self._show_note("")
            self.show_days()
            if self.sort is Sort.RECALLS:
                self.arrange()

        def failed(error: str) -> None:
            self._show_note("not counted")
            tell(screen, f"recalls not counted: {error}", error=True)

        self._counting.start(
            partial(screen.engine.search.tops, queries, ranking=ranking),
            take,
            failed,
            lambda: self._show_note("{}/{} esc stops".format(*self._counting.progress)),
        )

    def stop_counting(self) -> bool:
        """Stop counting recalls; false when they are not counted."""
        was_running = self._counting.stop()
        self._show_note("not counted" if was_running else "")
        return was_running

    def _show_note(self, note: str) -> None:
        self._note = note
        self._screen.timeline.show_note(note)
        self._show_count()

    def reveal(self, path: str) -> None:
        """Put the cursor on a file; a filter that hides it is taken away."""
        self.path_to_reveal = path
        if not self._go_to_revealed() and path in self.files:
            self._screen.filter_input.value = ""
            self.arrange()

    def _go_to_revealed(self) -> bool:
        path = self.path_to_reveal
        line = next((one for one in self._tree if one.file and one.file.path == path), None)
        if line is None:
            return False
        self._folded.difference_update(line.around)
        self._show_lines()
        self.path_to_reveal = ""
        return self._screen.file_rows.choose(line.id)

    def toggle(self, folder_id: str) -> None:
        self._folded ^= {folder_id}
        self._show_lines(folder_id)

    def unfold(self) -> None:
        """Open the folder, or go into it; a file is opened."""
        line, rows = self.chosen, self._screen.file_rows
        if line is not None and line.id in self._folded:
            self.toggle(line.id)
        elif line is not None and line.file is None:
            rows.action_move(1)
        else:
            rows.action_open()

    def fold(self) -> None:
        """Close the folder; from a file go to the folder it is in."""
        line = self.chosen
        if line is not None and line.file is None and line.id not in self._folded:
            self.toggle(line.id)
        elif line is not None and line.around:
            self._screen.file_rows.choose(line.around[0], by_user=True)

    def fold_all(self) -> None:
        """Close every folder; open all when they are closed."""
        folders = [line for line in self._tree if line.file is None]
        inner = {line.id for line in folders if line.around}
        closable = inner or {line.id for line in folders}
        self._folded = set() if closable <= self._folded else closable
        keep = None
        if (line := self.chosen) is not None and line.file is not None:
            keep = next((one for one in reversed(line.around) if one in self._folded), line.id)
        self._show_lines(keep)

    def _draw_line(self, line: TreeLine, width: int) -> Content:
        file, is_roomy = line.file, width >= _ROOMY
        is_open = file is None and line.id not in self._folded
        if file is not None:
            when = "undated" if self.sort is Sort.DATE else ""
            changed = file.changed.astimezone().date() if self._is_by_day and file.changed else None
            if (day := file.day or changed) is not None:
                when = day_age(day, self._screen.engine.now())
            number = fmt.rounded(file.chunks) if file.chunks else ""
            if number and (recalled := self.shown_recalls) is not None:
                number = f"{fmt.rounded(recalled.get(file.path, 0))}×"
            size = fmt.size_words(file.size) if file.size is not None else ""
            last = size if self.sort is Sort.SIZE else when
            numbers = f" {number:>4} {size:>7} {when:>7}" if is_roomy else f" {number:>3} {last:>7}"
        elif is_roomy:
            numbers = f" {fmt.count(line.number, 'file')}  {fmt.size_words(line.size)}"
        else:
            numbers = f" {fmt.count(line.number):>4}"
        state = sign_of("browsed", FileState.CURRENT if is_open else line.state)
        right = Content.assemble(state, (numbers, fmt.MUTED))
        room = max(1, width - right.cell_length - 1)
        indent = " " * min(2 * len(line.around), max(0, room - 8))
        name, source = safe_line(line.name), safe_line(line.source)
        if file is None:
            shown = Content.assemble(
                f"{glyphs.OPENED if is_open else glyphs.FOLDED} ",
                (name if source else f"{name}/", "bold"),
                (f"  {source}" if source and source != name else "", fmt.MUTED),
            )
        else:
            folder, slash, last = name.rpartition("/")
            if folder and len(indent) + Content(name).cell_length > room:
                folder = "…"
            shown = Content.assemble((folder + slash, fmt.MUTED), (last, state[1]))
        return fmt.spread(indent + shown, right, width)
