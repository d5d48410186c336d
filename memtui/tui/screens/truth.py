"""The index screen of another program's index: what it really holds, against what it should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from memtui.model import IndexStatus
from memtui.model.status import FileState, FileTruth, Finding, ForeignStatus, Truth
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.screens.base import BaseScreen, Modal
from memtui.tui.widgets import index_status, truth_rows
from memtui.tui.widgets.index_status import state_line
from memtui.tui.widgets.key_bar import KeyBar
from memtui.tui.widgets.line_view import Facts
from memtui.tui.widgets.row_list import Row, RowList

if TYPE_CHECKING:
    from memtui.engine import Engine

REFRESH_SECONDS = 1.0
_LABEL = 12
_DRIFTED = "drifted"

SECTIONS: Mapping[str, str] = {
    "facts": "Facts",
    "findings": "Findings",
    "identity": "Identity",
    "files": "Files",
    "coverage": "Coverage",
    "leftovers": "Leftovers",
}
"""The parts of the screen by id, in the order of Tab."""


class DetailScreen(Modal[None]):
    """One row in full."""

    BINDING_GROUP_TITLE = "Detail"
    BINDINGS: ClassVar[list[BindingType]] = bindings("detail")
    DEFAULT_CSS = """
    DetailScreen {
        align: center middle;
        background: $background 60%;
        & #detail-box {
            width: 92; max-width: 100%; height: auto; max-height: 80%;
            padding: 0 2;
            background: $surface;
            border: round $primary;
            border-title-color: $foreground;
            border-subtitle-color: $foreground 68%;
            scrollbar-size-vertical: 1;
        }
        &.-short #detail-box { max-height: 100%; }
    }
    """

    def __init__(self, title: str, detail: Content) -> None:
        super().__init__()
        self._title = title
        self._detail = detail

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="detail-box"):
            yield Static(self._detail, markup=False)

    def on_mount(self) -> None:
        """Name what is shown."""
        box = self.query_one("#detail-box")
        box.border_title = Content(safe_line(self._title))
        box.border_subtitle = Content("esc back")
        box.focus()

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.query_one("#detail-box").scroll_relative(y=lines, animate=False)


class TruthScreen(BaseScreen[None]):
    """Facts, findings, identity, files, coverage, leftovers; `s` looks at the index again."""

    CSS_PATH = "truth.tcss"
    BINDING_GROUP_TITLE = "Index"
    BINDINGS: ClassVar[list[BindingType]] = bindings("truth")

    def __init__(self, *, glyphs: Glyphs = UNICODE, now: datetime | None = None) -> None:
        super().__init__()
        self.glyphs = glyphs
        self._now = now
        self._truth: Truth | None = None
        self._findings: tuple[Finding, ...] = ()
        self._files: tuple[FileTruth, ...] = ()
        self._filter = ""
        """A state, `drifted`, or empty for all files."""
        self._front = "findings"

    def compose(self) -> ComposeResult:
        yield Static(id="truth-state", markup=False)
        yield Static(id="truth-sections", markup=False)
        with VerticalScroll(id="facts"), Container(id="truth-columns"):
            yield Facts(label_width=_LABEL, id="truth-place")
            yield Facts(label_width=_LABEL, id="truth-numbers")
        with Container(id="truth-body"):
            with Vertical(id="truth-left"):
                yield RowList(id="findings", marker=self.glyphs.marker, gap=0, secondary=True)
                yield RowList(id="identity", marker=self.glyphs.marker, gap=0, secondary=True)
            with Vertical(id="truth-right"):
                yield RowList(id="files", marker=self.glyphs.marker, gap=0, secondary=True)
                yield RowList(id="coverage", marker=self.glyphs.marker, gap=0, secondary=True)
                yield RowList(id="leftovers", marker=self.glyphs.marker, gap=0, secondary=True)
        with Horizontal(id="truth-keys"):
            yield KeyBar()

    def on_mount(self) -> None:
        """Show the status now and every second from here on."""
        self.query_one("#facts").border_title = "Index"
        self._bring_to_front(self._front)
        self._list("findings").focus()
        self.call_after_refresh(self.refresh_status)
        self.set_interval(REFRESH_SECONDS, self._tick)

    @property
    def engine(self) -> Engine | None:
        """The engine of the application, once it is open."""
        return cast("Engine | None", getattr(self.app, "engine", None))

    def now(self) -> datetime:
        """The clock that ages are counted from."""
        return self._now or (self.engine.now() if self.engine is not None else datetime.now(UTC))

    def _list(self, name: str) -> RowList:
        return self.query_one(f"#{name}", RowList)

    def _tick(self) -> None:
        if self.is_current:
            self.refresh_status()

    # --- what is shown --------------------------------------------------------------------------

    def refresh_status(self) -> None:
        """Show the newest snapshot."""
        if self.engine is not None:
            self.show(self.engine.index.status())

    def show(self, status: IndexStatus) -> None:
        """Show a snapshot; the lists are drawn again only for another report."""
        foreign = status.foreign
        if foreign is None:
            return
        lines = (state_line(status, self.glyphs), index_status.profile_line(foreign))
        self.query_one("#truth-state", Static).update(Content("\n").join(lines))
        self.query_one("#truth-place", Facts).show_facts(truth_rows.place_facts(status, foreign))
        numbers = truth_rows.state_facts(status, foreign, self.now())
        self.query_one("#truth-numbers", Facts).show_facts(numbers)
        if foreign.truth is None or foreign.truth is not self._truth:
            self._show_lists(foreign)
        self._name_sections(foreign)

    def _show_lists(self, foreign: ForeignStatus) -> None:
        truth = self._truth = foreign.truth
        if truth is None:
            word = "examining…" if foreign.examining else "not examined: s examines"
            for rows in self.query(RowList):
                self._fill(rows.id or "", [], word)
            return
        self._findings = index_status.worst_first(foreign)
        self._fill("findings", truth_rows.finding_rows(self._findings), "nothing wrong")
        self._fill("identity", truth_rows.identity_rows(truth.identity), "nothing stored")
        self._fill("coverage", truth_rows.coverage_rows(truth), "nothing")
        self._fill("leftovers", truth_rows.leftover_rows(truth.leftovers), "none")
        self._show_files(truth)

    def _show_files(self, truth: Truth) -> None:
        self._files = truth.files
        shown: Sequence[FileTruth] = truth.files
        if self._filter == _DRIFTED:
            shown = truth.drifted
        elif self._filter:
            shown = [file for file in truth.files if file.state == self._filter]
        self._fill("files", truth_rows.file_rows(shown), "none")
        more = len(shown) - truth_rows.FILES_SHOWN
        rest = f"  first {fmt.count(truth_rows.FILES_SHOWN)} shown" if more > 0 else ""
        files = self._list("files")
        chosen = truth_rows.state_words(FileState(self._filter)) if self._is_state() else "drifted"
        only = f"  only {chosen} ({fmt.count(len(shown))})" if self._filter else ""
        files.border_title = Content.assemble(f"Files  {fmt.count(len(truth.files))}", only, rest)
        files.border_subtitle = truth_rows.state_counts(truth.files)

    def _is_state(self) -> bool:
        return bool(self._filter) and self._filter != _DRIFTED

    def _fill(self, name: str, rows: Sequence[Row], empty: str) -> None:
        rows_ = rows or [Row("", lambda width: Content.styled(f" {empty}", fmt.MUTED))]
        widget = self._list(name)
        widget.set_rows(rows_, widget.chosen_id)
        widget.border_title = Content(f"{SECTIONS[name]}  {fmt.count(len(rows)) if rows else ''}")

    def _name_sections(self, foreign: ForeignStatus) -> None:
        """One line that names the lists where one is shown at a time."""
        truth = foreign.truth
        counts = {
            "findings": len(self._findings),
            "identity": len([f for f in truth.identity if f.agrees is False]) if truth else 0,
            "files": len(truth.drifted) if truth else 0,
            "leftovers": len(truth.leftovers) if truth else 0,
        }
        parts = []
        for name, title in SECTIONS.items():
            number = f" {counts[name]}" if counts.get(name) else ""
            style = "bold reverse" if name == self._front else ""
            parts.append(Content.styled(f" {title}{number} ", style))
        self.query_one("#truth-sections", Static).update(Content(" ").join(parts))

    def _bring_to_front(self, name: str) -> None:
        self._front = name
        self.set_class(name == "facts", "-facts")
        for other in SECTIONS:
            self.query_one(f"#{other}").set_class(other == name, "-front")
        for box in ("#truth-left", "#truth-right"):
            widget = self.query_one(box)
            widget.set_class(bool(widget.query(f"#{name}")), "-front")

    @on(events.DescendantFocus)
    def list_entered(self, event: events.DescendantFocus) -> None:
        """Show the list that got the keys, where one is shown at a time."""
        name = event.widget.id or ""
        if name in SECTIONS and name != self._front:
            self._bring_to_front(name)
            self.refresh_status()

    # --- one row --------------------------------------------------------------------------------

    @on(RowList.Chosen)
    def row_chosen(self, message: RowList.Chosen) -> None:
        """Keep the choice in this screen."""
        message.stop()

    @on(RowList.Opened)
    def row_opened(self, message: RowList.Opened) -> None:
        """Show a row in full."""
        message.stop()
        detail = self._detail_of(message.row_list.id or "", message.row_id)
        if detail is not None:
            self.app.push_screen(DetailScreen(*detail))

    def _detail_of(self, name: str, row_id: str) -> tuple[str, Content] | None:
        truth = self._truth
        if truth is None or not row_id:
            return None
        match name:
            case "findings":
                finding = self._findings[int(row_id)]
                return finding.code, truth_rows.finding_detail(finding)
            case "identity":
                field = truth.identity[int(row_id)]
                return field.name, truth_rows.identity_detail(field)
            case "files":
                for file in truth.files:
                    if f"{file.source}:{file.path}" == row_id:
                        return file.path, truth_rows.file_detail(file, self.now())
                return None
            case "leftovers":
                return "left beside the database", Content(safe_line(truth.leftovers[int(row_id)]))
            case _:
                return None

    # --- keys -----------------------------------------------------------------------------------

    def action_examine(self) -> None:
        """Look at the index again; nothing of it is changed."""
        if self.engine is not None:
            self.engine.index.sync()
            self.refresh_status()

    def action_rebuild(self) -> None:
        """Say whose index it is."""
        self.app.notify(f"{index_status.REBUILD_HINT}.", markup=False, timeout=6)

    def action_filter(self) -> None:
        """Show the files of the next state: all, drifted, then each state there is."""
        if self._truth is None:
            return
        there = {file.state for file in self._truth.files}
        kinds = ["", _DRIFTED, *(s.value for s in truth_rows.FILE_ORDER if s in there)]
        at = kinds.index(self._filter) if self._filter in kinds else 0
        self._filter = kinds[(at + 1) % len(kinds)]
        self._show_files(self._truth)
        self._bring_to_front("files")
        self._list("files").focus()

    def action_section(self, step: int) -> None:
        """Give the keys to the next list."""
        names = list(SECTIONS)
        name = names[(names.index(self._front) + step) % len(names)]
        self._bring_to_front(name)
        self.call_after_refresh(self.query_one(f"#{name}").focus)
        self.refresh_status()
