"""The truth about another program's index as rows and facts: pure functions of the status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from memtui.model import IndexStatus
from memtui.model.status import (
    FileState,
    FileTruth,
    Finding,
    ForeignStatus,
    IdentityField,
    Truth,
)
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.screens.base import BaseScreen
from memtui.tui.widgets import index_status
from memtui.tui.widgets.index_status import (
    FILE_STATE_GLYPHS,
    FILE_STATE_STYLES,
    SEVERITY_GLYPHS,
    SEVERITY_STYLES,
    agent_name,
    counts,
    error_line,
    found_line,
    opened_line,
    state_line,
)
from memtui.tui.widgets.key_bar import KeyBar
from memtui.tui.widgets.line_view import Fact, Facts
from memtui.tui.widgets.row_list import Row, RowList

if TYPE_CHECKING:
    from memtui.engine import Engine


FILES_SHOWN = 500
"""More files than this are counted and not drawn: drawing thousands of rows would be felt."""
_FIELD = 19
_STATE = 13
FILE_ORDER = (
    FileState.STALE,
    FileState.ORPHAN,
    FileState.NEVER_INDEXED,
    FileState.SKIPPED,
    FileState.CURRENT,
)
"""What a sync would touch comes first."""
_COUNTED = {FileState.NEVER_INDEXED: "new"}
"""Shorter words for the line that counts every state."""
_UNKNOWN = "not known here"

_AGREEMENT = {
    True: ("✓", "$state-ok", "agree"),
    False: ("✗", "$state-error", "differ"),
    None: ("?", fmt.MUTED, "cannot be compared here"),
}
_VECTOR_STYLES = {"complete": "$state-ok", "absent": "$state-error", "empty": "$state-error"}


def place_facts(status: IndexStatus, foreign: ForeignStatus) -> list[Fact]:
    """Which index it is, and how it is read."""
    facts: list[Fact] = [
        ("agent", Content(agent_name(foreign))),
        ("database", Content(fmt.home_relative(status.index_dir))),
        ("", Content.assemble(opened_line(foreign), (", read only", fmt.MUTED))),
        ("workspace", Content(fmt.home_relative(status.root) if status.root else _UNKNOWN)),
    ]
    if foreign.truth is not None and foreign.truth.database_read:
        facts.append(("agent reads", Content(fmt.home_relative(foreign.truth.database_read))))
    return facts


def state_facts(status: IndexStatus, foreign: ForeignStatus, now: datetime) -> list[Fact]:
    """How much the index holds, and what its vectors are like."""
    truth = foreign.truth
    provider = status.provider
    size = f"{provider.dimensions} d  " if provider.dimensions else ""
    backend = size + safe_line(status.vector_backend)
    facts: list[Fact] = [
        ("holds", Content.assemble(counts(status), f"  {fmt.counted(status.vectors, 'vector')}")),
        ("made with", Content(safe_line(foreign.query_vectors))),
        ("tokenizer", Content(safe_line(status.tokenizer))),
        ("found", found_line(foreign)),
    ]
    if truth is not None:
        style = _VECTOR_STYLES.get(truth.vector_state, "$state-warn")
        whole = "$state-ok" if truth.integrity == "ok" else "$state-error"
        whether = Content.styled(safe_line(truth.vector_state), style)
        facts[-1:-1] = [
            ("vectors", Content.assemble(whether, f"  {backend}")),
            ("integrity", Content.styled(safe_line(truth.integrity), whole)),
        ]
    if status.errors:
        facts.append(("problem", error_line(status, now)))
    return facts


# --- rows, and each of them in full -----------------------------------------------------------


def finding_row(finding: Finding, width: int) -> Content:
    """A finding: its severity and code, then what it means in as many lines as that needs."""
    style = f"bold {SEVERITY_STYLES[finding.severity]}"
    names = f"  ⏎ {fmt.count(max(finding.count, len(finding.names)))}" if finding.names else ""
    head = Content.assemble(
        (f" {SEVERITY_GLYPHS[finding.severity]} ", style),
        (safe_line(finding.code), style),
        (names, fmt.MUTED),
    )
    lines = Content(safe_line(finding.message)).wrap(max(width - 3, 8))
    return Content("\n").join(
        [fmt.fit(head, width), *(Content.assemble("   ", line) for line in lines)]
    )


def finding_detail(finding: Finding) -> list[Content]:
    """Everything about a finding."""
    mark = f"{SEVERITY_GLYPHS[finding.severity]} {finding.severity.value}"
    lines = [Content.styled(mark, SEVERITY_STYLES[finding.severity])]
    lines.append(Content(safe_line(finding.message)))
    if finding.names:
        lines += [Content(""), *(Content(f"  {safe_line(name)}") for name in finding.names)]
        more = finding.count - len(finding.names)
        if more > 0:
            lines.append(Content.styled(f"  and {fmt.count(more)} more", fmt.MUTED))
    return lines


def identity_row(field: IdentityField, width: int) -> Content:
    """`✗ model  stored → expected`, one value where both agree."""
    mark, style, _ = _AGREEMENT[field.agrees]
    stored, expected = _value(field.stored), _value(field.expected)
    if field.agrees:
        value = Content(stored)
    elif field.expected is None:
        note = field.note or "expected: not known here"
        value = Content.assemble(stored, (f"  {safe_line(note)}", fmt.MUTED))
    else:
        value = Content.assemble((stored, style), (" → ", fmt.MUTED), (expected, "bold"))
    name = (f"{safe_line(field.name):<{_FIELD}} ", fmt.MUTED)
    return fmt.fit(Content.assemble((f"{mark} ", style), name, value), width)


def identity_detail(field: IdentityField) -> list[Content]:
    """Both values whole, and the note."""
    mark, style, words = _AGREEMENT[field.agrees]
    lines = [
        Content.styled(f"{mark} {words}", style),
        Content.assemble(("stored    ", fmt.MUTED), _value(field.stored)),
        Content.assemble(("expected  ", fmt.MUTED), _value(field.expected)),
    ]
    return [*lines, Content(""), Content(safe_line(field.note))] if field.note else lines


def _value(value: str | None) -> str:
    return fmt.NOTHING if value is None else safe_line(value) or '""'


def _words(state: FileState) -> str:
    return state.value.replace("_", " ")


def state_counts(files: Sequence[FileTruth]) -> Content:
    """How many files are in each state, what drifted first: `~ 2 stale  ✓ 14 current`."""
    counter = Counter(file.state for file in files)
    parts = []
    for state in FILE_ORDER:
        if counter[state]:
            mark = (f"{FILE_STATE_GLYPHS[state]} ", FILE_STATE_STYLES[state])
            words = _COUNTED.get(state, _words(state))
            parts.append(Content.assemble(mark, f"{fmt.count(counter[state])} {words}"))
    return Content("  ").join(parts)


def file_row(file: FileTruth, width: int) -> Content:
    """`~ stale  memory/a.md  the file changed after it was indexed`; nothing more when current."""
    state = f"{FILE_STATE_GLYPHS[file.state]} {_words(file.state):<{_STATE}} "
    head = Content.styled(state, FILE_STATE_STYLES[file.state])
    shown = Content(safe_line(file.path))
    if file.state is FileState.CURRENT or not file.reason:
        return fmt.fit(Content.assemble(head, shown), width)
    room = max(width - head.cell_length, 8)
    shown = shown.truncate(max(room * 3 // 5, 8), ellipsis=True)
    reason = (f"  {safe_line(file.reason)}", fmt.MUTED)
    return fmt.fit(Content.assemble(head, shown, reason), width)


def file_detail(file: FileTruth, now: datetime) -> list[Content]:
    """The state of a file, why, and both times."""

    def time(when: datetime | None) -> str:
        if when is None:
            return fmt.NOTHING
        return f"{when.astimezone():%Y-%m-%d %H:%M:%S}  {fmt.ago(when, now)}"

    facts = {
        "source": safe_line(file.source),
        "chunks": fmt.count(file.chunks),
        "on disk": time(file.on_disk),
        "in index": time(file.in_index),
    }
    mark = f"{FILE_STATE_GLYPHS[file.state]} {_words(file.state)}"
    lines = [Content.styled(mark, FILE_STATE_STYLES[file.state])]
    if file.reason:
        lines.append(Content(safe_line(file.reason)))
    lines.append(Content(""))
    return lines + [
        Content.assemble((f"{label:<10}", fmt.MUTED), value) for label, value in facts.items()
    ]


def coverage_lines(truth: Truth) -> list[Content]:
    """The sources, then the models and sizes of the vectors."""
    lines = []
    for part in truth.coverage:
        whole = part.on_disk is None or part.on_disk == part.indexed
        disk = _UNKNOWN if part.on_disk is None else f"{fmt.count(part.on_disk)} on disk"
        indexed = (f"{disk}, {fmt.count(part.indexed)} indexed", "" if whole else "$state-warn")
        source = (f"{safe_line(part.source):<10} ", "bold")
        lines.append(Content.assemble(source, indexed, f", {fmt.counted(part.chunks, 'chunk')}"))
    many = len([share for share in truth.models if share.dimensions]) > 1
    for share in truth.models:
        size = f"{share.dimensions} d" if share.dimensions else "no vector"
        style = "$state-warn" if many or not share.dimensions else ""
        name = (f"{safe_line(share.model) or fmt.NOTHING}  {size}", style)
        chunks = f"  {fmt.counted(share.chunks, 'chunk')}"
        lines.append(Content.assemble(("model      ", fmt.MUTED), name, chunks))
    return lines


def _plain_rows(lines: Sequence[Content]) -> list[Row]:
    def draw(line: Content, width: int) -> Content:
        return fmt.fit(Content.assemble(" ", line), width)

    return [Row(str(at), partial(draw, line)) for at, line in enumerate(lines)]


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


class DetailScreen(BaseScreen[None], ModalScreen[None]):
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

    def __init__(self, title: str, lines: list[Content]) -> None:
        super().__init__()
        self._title = title
        self._detail = Content("\n").join(lines)

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

    def __init__(self, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.glyphs = glyphs
        self._truth: Truth | None = None
        self._findings: tuple[Finding, ...] = ()
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
        return self.engine.now() if self.engine is not None else datetime.now(UTC)

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
        self.query_one("#truth-place", Facts).show_facts(place_facts(status, foreign))
        numbers = state_facts(status, foreign, self.now())
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
        findings = [Row(str(n), partial(finding_row, f), 0) for n, f in enumerate(self._findings)]
        self._fill("findings", findings, "nothing wrong")
        identity = [Row(str(n), partial(identity_row, f)) for n, f in enumerate(truth.identity)]
        self._fill("identity", identity, "nothing stored")
        self._fill("coverage", _plain_rows(coverage_lines(truth)), "nothing")
        leftovers = [Content(safe_line(name)) for name in truth.leftovers]
        self._fill("leftovers", _plain_rows(leftovers), "none")
        self._show_files(truth)

    def _show_files(self, truth: Truth) -> None:
        shown: Sequence[FileTruth] = truth.files
        words = _DRIFTED
        if self._filter == _DRIFTED:
            shown = truth.drifted
        elif self._filter:
            shown = [file for file in truth.files if file.state == self._filter]
            words = _words(FileState(self._filter))
        ordered = sorted(shown, key=lambda file: FILE_ORDER.index(file.state))[:FILES_SHOWN]
        rows = [Row(f"{file.source}:{file.path}", partial(file_row, file)) for file in ordered]
        self._fill("files", rows, "none")
        rest = f"  first {fmt.count(FILES_SHOWN)} shown" if len(shown) > FILES_SHOWN else ""
        only = f"  only {words} ({fmt.count(len(shown))})" if self._filter else ""
        files = self._list("files")
        files.border_title = Content.assemble(f"Files  {fmt.count(len(truth.files))}", only, rest)
        files.border_subtitle = state_counts(truth.files)

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

    def _detail_of(self, name: str, row_id: str) -> tuple[str, list[Content]] | None:
        truth = self._truth
        if truth is None or not row_id:
            return None
        if name == "findings":
            finding = self._findings[int(row_id)]
            return finding.code, finding_detail(finding)
        if name == "identity":
            field = truth.identity[int(row_id)]
            return field.name, identity_detail(field)
        if name == "leftovers":
            line = Content(safe_line(truth.leftovers[int(row_id)]))
            return "left beside the database", [line]
        for file in truth.files if name == "files" else ():
            if f"{file.source}:{file.path}" == row_id:
                return file.path, file_detail(file, self.now())
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
        kinds = ["", _DRIFTED, *(s.value for s in FILE_ORDER if s in there)]
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
