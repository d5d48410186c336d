"""The index screen: everything about the index and what keeps it up to date."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import DataTable, Static

from memtui.model import IndexState, IndexStatus, Reason, SkippedFile
from memtui.report import providers as words
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui import provider_words
from memtui.tui.background import in_background
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.screens.base import BaseScreen
from memtui.tui.screens.dialogs import ConfirmRebuild
from memtui.tui.widgets.index_status import (
    progress_line,
    state_line,
    status_lines,
)
from memtui.tui.widgets.key_bar import KeyBar
from memtui.tui.widgets.line_view import Fact, Facts

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.engine.ports import RebuildCost

REFRESH_SECONDS = 1.0
ERRORS_SHOWN = 20
_LABEL = 12
_METER_CELLS = 48

Rows = tuple[tuple[str, ...], ...]


class StatusTable(DataTable[Text]):
    """A table of plain text cells that is rebuilt only when its rows differ; `none` when empty."""

    DEFAULT_CSS = """
    StatusTable {
        height: auto;
        max-height: 14;
        background: transparent;
        border: round $foreground 25%;
        border-title-color: $text-muted;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
        &:focus {
            border: round $primary;
            border-title-color: $primary;
            background-tint: $foreground 0%;
        }
        & > .datatable--header { background: transparent; color: $foreground 68%; }
        & > .datatable--cursor { background: transparent; color: $foreground; }
        &:focus > .datatable--cursor { background: $foreground 14%; }
        &.-empty { color: $foreground 68%; }
        & > .datatable--odd-row, & > .datatable--even-row { background: transparent; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings("table")

    def __init__(self, title: str, columns: Sequence[str], *, right: int = 0, id: str) -> None:  # noqa: A002
        super().__init__(id=id, cursor_type="row", show_row_labels=False, zebra_stripes=False)
        self._title = title
        self._columns = tuple(columns)
        self._right = right
        self._rows: Rows | None = None

    def on_mount(self) -> None:
        """Name the columns; the last `right` of them hold numbers."""
        for place, name in enumerate(self._columns):
            self.add_column(self._cell(name, place))

    def show_rows(self, rows: Rows, total: int) -> None:
        """Show these rows; `total` counts also those that are left out."""
        self.border_title = Content.assemble(self._title, f"  {fmt.count(total)}")
        if rows == self._rows:
            return
        self._rows = rows
        place = self.cursor_row
        self.clear()
        self.set_class(not rows, "-empty")
        shown = rows or (("none", *("" for _ in self._columns[1:])),)
        self._fit_columns(shown)
        for row in shown:
            self.add_row(*(self._cell(text, place) for place, text in enumerate(row)))
        if rows:
            self.move_cursor(row=min(place, len(rows) - 1), animate=False)

    def _fit_columns(self, rows: Rows) -> None:
        """Make each column as wide as what it holds now.

        Textual does so when it is idle, and never makes one narrower: what is painted before that
        is cut at the widths of the rows that are gone, and kept.
        """
        for place, column in enumerate(self.ordered_columns):
            cells = (self._cell(row[place], place) for row in rows)
            column.content_width = max(column.label.cell_len, *(cell.cell_len for cell in cells))

    def _cell(self, text: str, place: int) -> Text:
        number = place >= len(self._columns) - self._right
        return Text(safe_line(text), justify="right" if number else "left", no_wrap=True)


class IndexScreen(BaseScreen[None]):
    """State, sources, waiting and skipped files, errors; brought up to date every second."""

    CSS_PATH = "index.tcss"
    BINDING_GROUP_TITLE = "Index"
    BINDINGS: ClassVar[list[BindingType]] = bindings("index_screen")

    def __init__(self, *, glyphs: Glyphs = UNICODE, now: datetime | None = None) -> None:
        super().__init__()
        self.glyphs = glyphs
        self._now = now

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="index-body"):
            with Vertical(id="index-left"):
                with Container(id="index-state"):
                    yield Static(id="index-state-line", markup=False)
                    yield Static(id="index-progress", markup=False)
                    yield Facts(label_width=_LABEL, id="index-facts")
                yield StatusTable(
                    "Sources", ("source", "files", "chunks"), right=2, id="index-sources"
                )
            with Vertical(id="index-right"):
                yield StatusTable("Waiting", ("file",), id="index-pending")
                yield StatusTable("Skipped", ("file", "why"), id="index-skipped")
                yield StatusTable("Errors", ("when", "where", "what"), id="index-errors")
        with Horizontal(id="index-keys"):
            yield KeyBar()

    def on_mount(self) -> None:
        """Show the status now and every second from here on."""
        self.query_one("#index-state").border_title = "Index"
        self.query_one("#index-body").focus()
        self.call_after_refresh(self.refresh_status)
        self.set_interval(REFRESH_SECONDS, self._tick)

    @property
    def engine(self) -> Engine | None:
        """The engine of the application, once it is open."""
        return cast("Engine | None", getattr(self.app, "engine", None))

    def _tick(self) -> None:
        if self.is_current:
            self.refresh_status()

    def refresh_status(self) -> None:
        """Show the newest snapshot."""
        if self.engine is not None:
            self.show(self.engine.index.status())
        else:
            self.query_one("#index-state-line", Static).update("opening the index…")

    def show(self, status: IndexStatus) -> None:
        """Show a snapshot."""
        now = self._now or (self.engine.now() if self.engine else datetime.now(UTC))
        self.query_one("#index-state-line", Static).update(state_line(status, self.glyphs))
        self._show_progress(status)
        self.query_one(Facts).show_facts(index_facts(status, now, self.glyphs))
        tables = {table.id: table for table in self.query(StatusTable)}
        for name, (rows, total) in table_rows(status, now).items():
            tables[name].show_rows(rows, total)

    def _show_progress(self, status: IndexStatus) -> None:
        line = self.query_one("#index-progress", Static)
        line.display = status.progress is not None
        if status.progress is None:
            return
        progress = status.progress
        width = min(_METER_CELLS, max(20, self.query_one("#index-state").content_size.width - 28))
        done = f"  {fmt.count(progress.done)} of {fmt.count(progress.total)} {progress.phase}"
        line.update(
            Content.assemble(
                progress_line(progress, width, self.glyphs),
                (safe_line(done), ""),
                (f"\n{safe_line(progress.current)}" if progress.current else "", fmt.MUTED),
            )
        )

    # --- actions --------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what needs an engine that is not open yet."""
        if action in ("sync", "rebuild") and self.engine is None:
            return None
        return True

    def action_sync(self) -> None:
        """Index what changed."""
        if self.engine is not None:
            self.engine.index.sync()
            self.refresh_status()

    def action_rebuild(self) -> None:
        """Ask before indexing everything again, with the price."""
        if self.engine is not None:
            ask_to_rebuild(self, self.engine, self.refresh_status)


def ask_to_rebuild(
    screen: BaseScreen[Any], engine: Engine, begun: Callable[[], object] = lambda: None
) -> None:
    """Ask before indexing everything again, with the price; `begun` is called once it runs."""

    def confirmed(answer: bool | None) -> None:
        if answer:
            engine.index.rebuild()
            begun()

    def ask(cost: RebuildCost) -> None:
        provider = engine.index.status().provider
        name = provider.actual or provider.requested
        screen.app.push_screen(ConfirmRebuild(cost, name), confirmed)

    in_background(
        screen,
        engine.index.rebuild_cost,
        ask,
        group="price",
        description="price the rebuild",
        exclusive=True,
    )


def index_facts(status: IndexStatus, now: datetime, glyphs: Glyphs = UNICODE) -> list[Fact]:
    """Everything about the index that is not a table."""
    lines, provider = status_lines(status, now, glyphs), status.provider
    index = f"{fmt.home_relative(status.index_dir)}  generation {status.generation}"
    # Who makes the vectors, why not another and what to do about it, and where text goes.
    next_step = provider.hint if provider.hint and provider.state is not Reason.OK else ""
    facts: list[Fact] = [
        ("holds", lines["holds"]),
        ("folder", Content(fmt.home_relative(status.root))),
        ("index", Content(index)),
        ("writer", Content(safe_line(status.writer))),
        ("provider", lines["provider"]),
        *([("next", Content.styled(words.brief(next_step), "bold"))] if next_step else ()),
        ("model", lines["model"]),
        ("text", provider_words.text_line(provider)),
        ("vectors", lines["vectors"]),
        ("tokenizer", Content(safe_line(status.tokenizer))),
        *((label, lines[label]) for label in ("cache", "watcher", "last sync")),
    ]
    if status.last_sync is not None:
        stats = status.last_sync
        did = (
            f"{fmt.counted(stats.files_seen, 'file')} seen, "
            f"{fmt.counted(stats.chunks_written, 'chunk')} written, "
            f"{fmt.count(stats.chunks_embedded)} embedded, "
            f"{fmt.counted(stats.cache_hits, 'cache hit')}"
        )
        facts.append(("", Content.styled(did, fmt.MUTED)))
    if status.usage.requests:
        facts.append(("spent", Content(words.usage_words(status.usage))))
    facts += [
        ("warning", Content.styled(safe_line(line), "$state-warn")) for line in status.warnings
    ]
    if status.state is IndexState.NO_INDEX:
        facts.append(("next", Content("r indexes this folder; search works while it runs")))
    return facts


def table_rows(status: IndexStatus, now: datetime) -> dict[str, tuple[Rows, int]]:
    """The rows of every table by its id, and how many there are in all."""
    errors = status.errors[: -ERRORS_SHOWN - 1 : -1]  # they come oldest first
    return {
        "index-sources": (
            tuple(
                (source.source, fmt.count(source.files), fmt.count(source.chunks))
                for source in status.sources
            ),
            len(status.sources),
        ),
        "index-pending": (tuple((path,) for path in status.pending), status.pending_count),
        "index-skipped": (
            tuple((file.path, _why_skipped(file)) for file in status.skipped),
            len(status.skipped),
        ),
        "index-errors": (
            tuple((fmt.ago(error.at, now), error.where, error.message) for error in errors),
            len(status.errors),
        ),
    }


def _why_skipped(file: SkippedFile) -> str:
    words = fmt.reason_words(file.reason)
    return f"{words}: {file.detail}" if file.detail else words
