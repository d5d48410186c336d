"""Small dialogs: the price of a rebuild, and the keys of a first run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from memtui.model import Chunk, citation
from memtui.report import providers as words
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import Glyphs
from memtui.tui.screens.base import BaseScreen
from memtui.tui.side_by_side import SideText, two_texts
from memtui.tui.widgets.line_view import LineView
from memtui.tui.widgets.query_bar import SafeInput
from memtui.tui.widgets.row_list import Row, RowList

if TYPE_CHECKING:
    from memtui.engine.ports import RebuildCost


def cost_words(cost: RebuildCost, provider: str) -> str:
    """The price of a rebuild: `re-embed 51 of 1 284 chunks, ~20 k tokens with minilm (local)`."""
    place = "remote" if cost.remote else "local"
    name = f"{safe_line(provider)} ({place})" if provider else place
    missing = cost.chunks - cost.cached
    if missing <= 0:
        return f"no chunk needs embedding: {fmt.counted(cost.chunks, 'vector')} in the cache"
    return (
        f"re-embed {fmt.counted(missing, 'chunk')}, ~{fmt.rounded(cost.tokens_estimate)} tokens"
        f" with {name}; {fmt.percent(cost.cached, cost.chunks)} cached"
    )


class ConfirmRebuild(BaseScreen[bool], ModalScreen[bool]):
    """Asks before everything is indexed again, naming what that costs."""

    CSS_PATH = "dialogs.tcss"
    AUTO_FOCUS = "#no"  # Enter keeps the index: the harmless answer.
    BINDING_GROUP_TITLE = "Rebuild"
    BINDINGS: ClassVar[list[BindingType]] = bindings("rebuild")

    def __init__(self, cost: RebuildCost, provider: str = "") -> None:
        super().__init__()
        self.cost = cost
        self.provider = provider

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as box:
            box.border_title = "Rebuild the index"
            box.border_subtitle = Content("y rebuild  n or esc keep")
            yield Static(self._price(), markup=False)
            with Horizontal(id="dialog-buttons"):
                yield Button("Rebuild", id="yes", variant="warning", compact=True)
                yield Button("Keep", id="no", variant="default", compact=True)

    def _price(self) -> Content:
        files = fmt.counted(self.cost.files, "file")
        chunks = fmt.counted(self.cost.chunks, "chunk")
        lines = [
            Content.assemble(f"Read {files} and write ", (chunks, "bold"), " again:"),
            Content.styled(cost_words(self.cost, self.provider) + ".", "bold"),
            Content(""),
        ]
        if self.cost.remote:
            place = words.brief(self.cost.address) or "the provider"
            lines.append(Content.styled(f"Note text is sent to {place}.", "$state-warn"))
        lines.append(
            Content.styled("Search keeps the present index until the new one is ready.", fmt.MUTED)
        )
        return Content("\n").join(lines)

    def action_answer(self, answer: bool) -> None:
        """Answer by key."""
        self.dismiss(answer)

    @on(Button.Pressed)
    def _answer_by_button(self, event: Button.Pressed) -> None:
        event.stop()
        self.dismiss(event.button.id == "yes")


class FirstRunHint(BaseScreen[None], ModalScreen[None]):
    """The five keys to begin with, shown once."""

    CLOSING_KEYS = frozenset({"escape", "enter"})
    CSS_PATH = "dialogs.tcss"
    BINDING_GROUP_TITLE = "Welcome"
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("/", "type a question; results follow as you type"),
        ("m", "variety: similar results make room for others (MMR)"),
        ("d", "age: old notes lose weight (decay)"),
        ("x", "the arithmetic that put a result where it is"),
        ("?", "every other key"),
    )

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as box:
            box.border_title = "Five keys to begin with"
            box.border_subtitle = Content("any key begins")
            lines = [
                Content.assemble((f" {key} ", "bold $accent"), f"  {text}")
                for key, text in self.KEYS
            ]
            yield Static(Content("\n").join(lines), markup=False)

    def on_click(self) -> None:
        """Go away at the first click."""
        self.dismiss(None)


class SideScreen(BaseScreen[None], ModalScreen[None]):
    """The text of a chunk, and beside it that of another one."""

    BINDING_GROUP_TITLE = "Side by side"
    BINDINGS: ClassVar[list[BindingType]] = bindings("side")
    DEFAULT_CSS = """
    SideScreen {
        align: center middle;
        background: $background 60%;
        & #side-box { width: 96%; max-width: 180; height: 90%; background: $surface; }
        & #side-view { border-title-color: $foreground; border-subtitle-color: $foreground 68%; }
        &.-narrow #side-box, &.-short #side-box { width: 100%; max-width: 100%; height: 100%; }
    }
    """

    def __init__(self, first: Chunk, second: Chunk, glyphs: Glyphs) -> None:
        super().__init__()
        self._sides = tuple(
            SideText(
                citation(chunk.path, chunk.start_line, chunk.end_line),
                chunk.start_line,
                chunk.text,
            )
            for chunk in (first, second)
        )
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        with Vertical(id="side-box"):
            yield LineView(id="side-view")

    def on_mount(self) -> None:
        """Show both texts."""
        view = self.query_one(LineView)
        view.border_title = Content.assemble(
            "Side by side  ", ("- only left", "$state-error"), "  ", ("+ only right", "$state-ok"),
            "  ~ words differ",
        )  # fmt: skip
        view.border_subtitle = Content("j/k scroll  esc back")
        left, right = self._sides
        view.lay_out(lambda width: two_texts(left, right, width, self._glyphs))
        view.focus()


_MOST_LINES = 14


class Chooser(BaseScreen[str], ModalScreen[str]):
    """Rows with one of them chosen; the result is the id of the row that was opened.

    With a filter, typing leaves the rows whose id holds every typed word.
    """

    BINDING_GROUP_TITLE = "Choice"
    BINDINGS: ClassVar[list[BindingType]] = bindings("chooser")
    DEFAULT_CSS = """
    Chooser {
        align: center middle;
        background: $background 60%;
        & #chooser-box { width: 80; max-width: 100%; height: auto; max-height: 100%; }
        & #chooser { background: $surface; }
        & Input { border: round $primary; border-title-color: $primary; background: $background; }
        & Input:focus { background-tint: $foreground 0%; }
    }
    """

    def __init__(
        self,
        title: str,
        rows: Sequence[Row],
        chosen: str | None = None,
        *,
        filtered: bool = False,
    ) -> None:
        super().__init__()
        self._title = title
        self._rows = rows
        self._first = chosen
        self._filtered = filtered

    def compose(self) -> ComposeResult:
        with Vertical(id="chooser-box"):
            if self._filtered:
                yield SafeInput(placeholder="filter", id="chooser-filter")
            yield RowList(id="chooser")

    def on_mount(self) -> None:
        """List the rows."""
        rows = self.query_one("#chooser", RowList)
        rows.styles.height = min(max(len(self._rows), 1), _MOST_LINES) + 2
        rows.border_title = Content(safe_line(self._title))
        rows.border_subtitle = Content("⏎ open  esc back")
        rows.set_rows(self._rows, self._first, empty="nothing to choose from yet")
        if not self._filtered:
            rows.focus()

    @on(Input.Changed)
    def filter_changed(self, event: Input.Changed) -> None:
        """Leave the rows that hold every typed word."""
        event.stop()
        words = event.value.lower().split()
        rows = [row for row in self._rows if all(word in row.id.lower() for word in words)]
        self.query_one(RowList).set_rows(rows, empty="none holds these words")

    @on(Input.Submitted)
    def filter_submitted(self, event: Input.Submitted) -> None:
        """Take the chosen row."""
        event.stop()
        self.query_one(RowList).action_open()

    @on(RowList.Opened)
    def opened(self, message: RowList.Opened) -> None:
        """Take the row."""
        message.stop()
        self.dismiss(message.row_id)

    @on(RowList.Chosen)
    def chosen(self, message: RowList.Chosen) -> None:
        """Keep the choice here."""
        message.stop()

    def action_move(self, step: int) -> None:
        """Move the choice while typing."""
        self.query_one(RowList).action_move(step)


def choose_query(queries: Sequence[str]) -> Chooser:
    """Return a dialog with the queries asked before, newest first; typing narrows them."""

    def row(query: str) -> Row:
        return Row(query, lambda width: fmt.fit(Content(safe_line(query)), width))

    return Chooser("Queries asked before", [row(query) for query in queries], filtered=True)
