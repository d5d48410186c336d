"""What differs between two versions of a note, as the lines of a unified diff."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import ClassVar

from rich.segment import Segment
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip

from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.highlight import MAX_CELLS, display_line
from memtui.tui.screens.base import BaseScreen

CONTEXT = 3


class Mark(StrEnum):
    """What a line of a difference is, by its first character."""

    HUNK = "@"
    SAME = " "
    REMOVED = "-"
    ADDED = "+"


@dataclass(frozen=True, slots=True)
class DifferenceLine:
    """One line; `text` is as it is in the note, without its newline."""

    mark: Mark
    text: str


def difference(
    before: Sequence[str], after: Sequence[str], context: int = CONTEXT
) -> tuple[DifferenceLine, ...]:
    """The hunks that make `after` of `before`; empty when they are equal.

    What both begin and end with is left out first: most changes of a long note are small, and the
    comparison itself may take time quadratic in what is left.
    """
    head, tail = _common(before, after)
    head, tail = max(0, head - context), max(0, tail - context)
    old = before[head : len(before) - tail]
    new = after[head : len(after) - tail]
    return tuple(_lines(old, new, head, context))


def _common(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many lines both begin with, and how many of the rest they end with."""
    shortest = min(len(before), len(after))
    head = 0
    while head < shortest and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shortest - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return head, tail


def _lines(
    old: Sequence[str], new: Sequence[str], offset: int, context: int
) -> Iterator[DifferenceLine]:
    matcher = SequenceMatcher(None, old, new)
    for group in matcher.get_grouped_opcodes(context):
        first, last = group[0], group[-1]
        removed = _range(first[1] + offset, last[2] + offset)
        added = _range(first[3] + offset, last[4] + offset)
        yield DifferenceLine(Mark.HUNK, f"@@ -{removed} +{added} @@")
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                yield from (DifferenceLine(Mark.SAME, line) for line in old[old_from:old_to])
                continue
            yield from (DifferenceLine(Mark.REMOVED, line) for line in old[old_from:old_to])
            yield from (DifferenceLine(Mark.ADDED, line) for line in new[new_from:new_to])


def _range(start: int, stop: int) -> str:
    """A range of lines as unified diffs write it: an empty one names the line before it."""
    length = stop - start
    if length == 1:
        return f"{start + 1}"
    return f"{start + 1 if length else start},{length}"


COLUMNS = 8
_STYLES = {
    Mark.HUNK: "bold $accent",
    Mark.SAME: "",
    Mark.REMOVED: "$state-error",
    Mark.ADDED: "$state-ok",
}


class DifferenceView(ScrollView, can_focus=True):
    """The lines of a difference: only those on screen are drawn."""

    DEFAULT_CSS = """
    DifferenceView {
        height: 1fr;
        background: transparent;
        overflow-x: scroll;
        scrollbar-size-horizontal: 0;
        scrollbar-size-vertical: 1;
    }
    """

    def __init__(self) -> None:
        super().__init__(id="difference-view")
        self._lines: tuple[DifferenceLine, ...] = ()
        self._message = "comparing…"

    @property
    def lines(self) -> tuple[DifferenceLine, ...]:
        """What is shown."""
        return self._lines

    @property
    def hunks(self) -> list[int]:
        """Where the hunks begin."""
        return [at for at, line in enumerate(self._lines) if line.mark is Mark.HUNK]

    def show(self, lines: Sequence[DifferenceLine]) -> None:
        """Show these lines from the top."""
        self._lines = tuple(lines)
        self._message = "" if lines else "The text is the same: only the file's time changed."
        self.virtual_size = Size(MAX_CELLS + 1, len(self._lines))
        self.scroll_to(x=0, y=0, animate=False)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one line of the view: its mark, then its text."""
        width = self.scrollable_content_region.width
        at = int(self.scroll_offset.y) + y
        if self._message and y == 0:
            return self._strip(Content.styled(self._message, fmt.MUTED), 0, width)
        if at >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        line = self._lines[at]
        # A blank after the mark: notes are full of lines that begin with a dash themselves.
        mark = "" if line.mark is Mark.HUNK else f"{line.mark.value} "
        text = Content.styled(mark + display_line(line.text), _STYLES[line.mark])
        return self._strip(text, int(self.scroll_offset.x), width)

    def _strip(self, content: Content, left: int, width: int) -> Strip:
        strip = Strip(content.render_segments(self.visual_style))
        shown = strip.crop_extend(left, left + width, self.rich_style)
        if strip.cell_length > left + width > 1:
            ellipsis = Strip([Segment("…", self.rich_style)])
            shown = Strip.join([shown.crop(0, width - 1), ellipsis])
        return shown


@dataclass
class Compared(Message):
    """Two versions were compared."""

    lines: tuple[DifferenceLine, ...]


class DifferenceScreen(BaseScreen[None], ModalScreen[None]):
    """The indexed text against the file as it is now."""

    BINDING_GROUP_TITLE = "Difference"
    BINDINGS: ClassVar[list[BindingType]] = bindings("difference")

    DEFAULT_CSS = """
    DifferenceScreen {
        align: center middle;
        background: $background 60%;
        & #difference-box {
            width: 92%; max-width: 140; height: 90%;
            padding: 0 1;
            background: $surface;
            border: round $primary;
            border-title-color: $foreground;
            border-subtitle-color: $foreground 68%;
        }
        &.-narrow #difference-box, &.-short #difference-box {
            width: 100%; max-width: 100%; height: 100%;
        }
    }
    """

    def __init__(self, path: str, indexed: Sequence[str], on_disk: Sequence[str]) -> None:
        super().__init__()
        self._path = path
        self._indexed = indexed
        self._on_disk = on_disk

    def compose(self) -> ComposeResult:
        with Vertical(id="difference-box"):
            yield DifferenceView()

    def on_mount(self) -> None:
        """Compare beside the loop."""
        box = self.query_one("#difference-box")
        box.border_title = Content.assemble(
            ("- indexed", "$state-error"),
            "  ",
            ("+ on disk", "$state-ok"),
            f"  {safe_line(self._path)}",
        )
        box.border_subtitle = Content("n/N changes  j/k scroll  esc back")
        self._view.focus()
        self._compare()

    @property
    def _view(self) -> DifferenceView:
        return self.query_one(DifferenceView)

    @work(thread=True, exit_on_error=False, description="compare the two versions")
    def _compare(self) -> None:
        self.post_message(Compared(difference(self._indexed, self._on_disk)))

    @on(Compared)
    def compared(self, message: Compared) -> None:
        """Show the hunks, and how many lines they add and take away."""
        message.stop()
        self._view.show(message.lines)
        marks = [line.mark for line in message.lines]
        added, removed = marks.count(Mark.ADDED), marks.count(Mark.REMOVED)
        told = f"{fmt.counted(marks.count(Mark.HUNK), 'change')}, -{removed} +{added} lines"
        self.query_one("#difference-box").border_subtitle = Content(
            f"{told}   n/N changes  j/k scroll  esc back"
        )

    # --- keys -----------------------------------------------------------------------------------

    def action_hunk(self, step: int) -> None:
        """Put the next or the previous change at the top; the last ones only into view."""
        top, hunks = self._view.scroll_target_y, self._view.hunks
        beyond = [at for at in hunks if (at > top if step > 0 else at < top)]
        if beyond:
            self._view.scroll_to(y=beyond[0 if step > 0 else -1], animate=False)

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self._view.scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        """Scroll by pages."""
        self._view.scroll_relative(y=pages * max(1, self._view.size.height - 1), animate=False)

    def action_columns(self, steps: int) -> None:
        """Scroll to the side."""
        self._view.scroll_relative(x=steps * COLUMNS, animate=False)

    def action_end(self, step: int) -> None:
        """Go to the first or the last line."""
        self._view.scroll_to(y=self._view.max_scroll_y if step > 0 else 0, animate=False)
