"""A prompt for a file or a line of it, with the paths of the index to choose from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from memtui.engine.places import parse_place
from memtui.model.inquiry import Place
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import in_background
from memtui.tui.bindings import bindings
from memtui.tui.screens.base import BaseScreen
from memtui.tui.widgets.query_bar import SafeInput
from memtui.tui.widgets.row_list import Row, RowList

_AS_TYPED = "\x00typed"
"""Id of the row that takes what was typed as it is; no path holds a NUL."""


class PlacePrompt(BaseScreen[Place | None], ModalScreen[Place | None]):
    """Takes `PATH` or `PATH:LINE`, whether the index holds it or not. Returns the place."""

    BINDING_GROUP_TITLE = "Trace a file or a line"
    BINDINGS: ClassVar[list[BindingType]] = bindings("place")

    DEFAULT_CSS = """
    PlacePrompt {
        align: center middle;
        background: $background 60%;
        & > Vertical { width: 84; max-width: 100%; height: 18; max-height: 100%; }
        & Input { border: round $primary; border-title-color: $primary; background: $background; }
        & Input:focus { border: round $primary; background-tint: $foreground 0%; }
        & RowList { height: 1fr; background: $background; }
        & #place-problem { height: 1; padding: 0 2; color: $state-warn; background: $background; }
    }
    """

    def __init__(self, paths: Callable[[], Sequence[str]], typed: str = "") -> None:
        """`paths` is asked on a worker thread; `typed` is in the box to begin with."""
        super().__init__()
        self._read_paths = paths
        self._paths: Sequence[str] | None = None
        self._typed = typed

    def compose(self) -> ComposeResult:
        """A line over the paths that it may mean."""
        with Vertical():
            yield SafeInput(self._typed, placeholder="PATH or PATH:LINE", id="place")
            yield Static(id="place-problem", markup=False)
            yield RowList(id="place-list")

    def on_mount(self) -> None:
        """Offer the paths of the index as soon as they are read."""
        box = self.query_one(Input)
        box.border_title = Content("Why is a file or a line shown, or not?")
        box.action_end()
        self.query_one(RowList).border_subtitle = Content("⏎ trace  tab complete  esc back")
        self._show(self._typed)
        in_background(
            self, self._read_paths, self._paths_read, group="paths", description="list the paths"
        )

    def _paths_read(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self._show(self.query_one(Input).value)

    @on(Input.Changed)
    def place_changed(self, event: Input.Changed) -> None:
        """Show the paths that it may mean."""
        event.stop()
        self._show(event.value)

    @on(Input.Submitted)
    def place_submitted(self, event: Input.Submitted) -> None:
        """Trace what is chosen."""
        event.stop()
        self._take(self.query_one(RowList).chosen_id)

    @on(RowList.Opened)
    def path_opened(self, message: RowList.Opened) -> None:
        """Trace the path that was opened."""
        message.stop()
        self._take(message.row_id)

    @on(RowList.Chosen)
    def path_chosen(self, message: RowList.Chosen) -> None:
        """Keep the choice in this screen."""
        message.stop()

    def action_move(self, step: int) -> None:
        """Move the choice while typing."""
        self.query_one(RowList).action_move(step)

    def action_complete(self) -> None:
        """Write the chosen path into the line, to go on with its line number."""
        chosen = self.query_one(RowList).chosen_id
        if chosen is not None and chosen != _AS_TYPED:
            box = self.query_one(Input)
            box.value = chosen
            box.action_end()

    def _take(self, chosen: str | None) -> None:
        typed = self.query_one(Input).value.strip()
        is_path = chosen is not None and chosen != _AS_TYPED
        try:
            place = read_place(typed, self._paths or ()) if typed or not is_path else Place("")
        except NoPlace as problem:
            self._tell(str(problem))
            return
        self.dismiss(Place(chosen, place.line) if is_path and chosen else place)

    def _show(self, typed: str) -> None:
        self._tell("")
        typed = typed.strip()
        paths = completions(typed, self._paths or ())
        rows = [_row(path, path) for path in paths]
        if typed and typed not in paths:
            rows.append(_row(_AS_TYPED, typed, self._note(typed)))
        widget = self.query_one(RowList)
        widget.set_rows(rows)
        title = "reading the paths…"
        if self._paths is not None:
            more = f", first {SHOWN} shown" if len(paths) == SHOWN else ""
            title = fmt.counted(len(self._paths), "indexed file") + more
        widget.border_title = Content(title)

    def _note(self, typed: str) -> str:
        is_indexed = self._paths is None or parse_place(typed).path in self._paths
        return "" if is_indexed else "as typed, not in the index"

    def _tell(self, problem: str) -> None:
        self.query_one("#place-problem", Static).update(Content(problem))


def _row(row_id: str, path: str, note: str = "") -> Row:
    def draw(width: int) -> Content:
        folder, slash, name = safe_line(path).rpartition("/")
        line = Content.assemble(
            (folder + slash, fmt.MUTED),
            (name, "$primary"),
            (f"  {note}" if note else "", "$state-warn"),
        )
        return fmt.fit(line, width)

    return Row(row_id, draw)


SHOWN = 50
"""So many paths are offered at most."""


class NoPlace(ValueError):
    """What was typed names no place; the message says why, in one line."""


def read_place(text: str, paths: Sequence[str] = ()) -> Place:
    """Understand `PATH`, `PATH:12` and `PATH#L12-L31`; raises `NoPlace`.

    A name that the index holds is taken whole, even when it ends in a number.
    """
    named = text.strip()
    if not named:
        raise NoPlace("Name a file, or a line of it: memory/2026-02-10.md:12")
    if named in paths:
        return Place(named)
    place = parse_place(named)
    if place.line is not None and place.line < 1:
        raise NoPlace(safe_line(f"{named}: lines count from 1"))
    return place


def completions(text: str, paths: Sequence[str]) -> list[str]:
    """The paths that begin with what was typed, then those whose name does, then any that hold it.

    A line number behind the path does not count; at most `SHOWN`.
    """
    typed = parse_place(text.strip()).path.casefold()

    def place_in_list(path: str) -> int:
        folded = path.casefold()
        name = folded.rpartition("/")[2]
        return 0 if folded.startswith(typed) else 1 if name.startswith(typed) else 2

    return sorted((path for path in paths if typed in path.casefold()), key=place_in_list)[:SHOWN]
