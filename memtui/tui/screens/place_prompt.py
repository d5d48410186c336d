"""A prompt for a file or a line of it, with the paths of the index to choose from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from memtui.engine.places import parse_place
from memtui.model.inquiry import Place
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import in_background
from memtui.tui.bindings import bindings
from memtui.tui.screens.common import close
from memtui.tui.screens.dialogs import Dialog
from memtui.tui.widgets.query_bar import SafeInput
from memtui.tui.widgets.row_list import Row, RowList

SHOWN = 50
"""So many paths are offered at most."""
_AS_TYPED = "\x00typed"
"""Id of the row that takes what was typed as it is; no path holds a NUL."""


def completions(text: str, paths: Sequence[str]) -> list[str]:
    """Return paths that begin with the text, then those whose name does, then any that hold it.

    A line number behind the path does not count; at most `SHOWN`.
    """
    typed = parse_place(text.strip()).path.casefold()

    def place_in_list(path: str) -> int:
        folded = path.casefold()
        name = folded.rpartition("/")[2]
        return 0 if folded.startswith(typed) else 1 if name.startswith(typed) else 2

    return sorted((path for path in paths if typed in path.casefold()), key=place_in_list)[:SHOWN]


class PlacePrompt(Dialog[Place | None]):
    """Takes `PATH` or `PATH:LINE`, whether the index holds it or not. Returns the place."""

    BINDING_GROUP_TITLE = "Trace a file or a line"
    BINDINGS: ClassVar[list[BindingType]] = bindings("place")

    def __init__(self, read_paths: Callable[[], Sequence[str]], typed: str = "") -> None:
        """`read_paths` runs on a worker thread; `typed` is in the box to begin with."""
        super().__init__()
        self._read_paths, self._typed = read_paths, typed
        self._paths: Sequence[str] | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="place-box"):
            yield SafeInput(self._typed, placeholder="PATH or PATH:LINE", id="place")
            yield Static(id="place-problem", markup=False)
            yield RowList(id="place-list")

    def on_mount(self) -> None:
        """Offer the paths of the index as soon as they are read."""
        box = self.query_one(Input)
        box.border_title = Content("Why is a file or a line shown, or not?")
        box.action_end()
        self.query_one(RowList).border_subtitle = Content("⏎ trace  tab complete  esc back")
        self._show()
        in_background(
            self, self._read_paths, self._paths_read, group="paths", description="list the paths"
        )

    def _paths_read(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self._show()

    @property
    def typed(self) -> str:
        """The text of the box."""
        return self.query_one(Input).value.strip()

    @property
    def chosen_path(self) -> str:
        """The path that is chosen; empty where what was typed is, or nothing."""
        chosen = self.query_one(RowList).chosen_id
        return chosen if chosen is not None and chosen != _AS_TYPED else ""

    @on(Input.Changed)
    def _show(self) -> None:
        """Show the paths that the text may mean, then the text itself."""
        self._show_problem("")
        typed, rows = self.typed, self.query_one(RowList)
        paths = completions(typed, self._paths or ())
        offered = [_row(path, path) for path in paths]
        if typed and typed not in paths:
            is_indexed = self._paths is None or parse_place(typed).path in self._paths
            note = "" if is_indexed else "as typed, not in the index"
            offered.append(_row(_AS_TYPED, typed, note))
        rows.set_rows(offered)
        title = "reading the paths…"
        if self._paths is not None:
            more = f", first {SHOWN} shown" if len(paths) == SHOWN else ""
            title = fmt.counted(len(self._paths), "indexed file") + more
        rows.border_title = Content(title)

    def action_complete(self) -> None:
        """Write the chosen path into the line, to go on with its line number."""
        if self.chosen_path:
            box = self.query_one(Input)
            box.value = self.chosen_path
            box.action_end()

    def open_chosen(self) -> None:
        """Trace the chosen path, at the line that was typed, or what was typed."""
        path, typed = self.chosen_path, self.typed
        # A name that the index holds is taken whole, even when it ends in a number.
        place = Place(typed) if typed in (self._paths or ()) else parse_place(typed)
        if not typed and not path:
            self._show_problem("Name a file, or a line of it: memory/2026-02-10.md:12")
        elif place.line is not None and place.line < 1:
            self._show_problem(safe_line(f"{typed}: lines count from 1"))
        else:
            close(self, Place(path, place.line) if path else place)

    @on(RowList.Opened)
    def _path_opened(self) -> None:
        self.open_chosen()

    def _show_problem(self, problem: str) -> None:
        self.query_one("#place-problem", Static).update(Content(problem))


def _row(row_id: str, path: str, note: str = "") -> Row:
    folder, slash, name = safe_line(path).rpartition("/")
    line = Content.assemble(
        (folder + slash, fmt.MUTED),
        (name, "$primary"),
        (f"  {note}" if note else "", "$state-warn"),
    )
    return Row(row_id, lambda width: fmt.fit(line, width))
