"""The index screen: facts and lists of an index, memtui's own or an agent's, as they are now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from msgspec import Struct
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from memtui.model import IndexStatus
from memtui.model.status import FileState, FileTruth
from memtui.report.layout import Row as ReportRow
from memtui.report.layout import Tone
from memtui.report.status import state_words, status_sections, tone_of
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import tell
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.present import STYLES
from memtui.tui.screens.common import after_refresh
from memtui.tui.screens.dialogs import DetailScreen, ask_to_rebuild
from memtui.tui.widgets.index_status import (
    LABEL,
    REBUILD_HINT,
    index_facts,
    progress_line,
    state_line,
)
from memtui.tui.widgets.key_bar import KeyBar
from memtui.tui.widgets.line_view import Facts, fact_lines
from memtui.tui.widgets.row_list import Row, RowList

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.tui.app import MemtuiApp

REFRESH_SECONDS = 1.0
SHOWN = 500
"""More rows than this are counted and not drawn: drawing thousands would be felt."""
FILE_ORDER = (*(state for state in FileState if state is not FileState.CURRENT), FileState.CURRENT)
"""The files that a sync would touch come first."""
DRIFTED = "drifted"
_METER_CELLS = 48
_STATE = 13

Entry = tuple[Row, str, Callable[[], Sequence[Content]]]
"""One row of a list, and title and text of what Enter shows of it."""


class Listing(Struct, frozen=True):
    """One list of the screen."""

    entries: Sequence[Entry] = ()
    total: int = 0
    """Entries with those that are left out."""
    attention: int = 0
    """Entries that somebody should look at, told where one list is shown at a time."""
    note: str = ""
    """Said beside the title."""
    empty: str = "none"
    """Said where there is no entry."""
    footer: Content | str = ""


class IndexScreen(Screen[None]):
    """State, facts and lists of memtui's own index; brought up to date every second."""

    CSS_PATH = "index.tcss"
    BINDING_GROUP_TITLE = "Index"
    BINDINGS: ClassVar[list[BindingType]] = bindings("index_screen")
    LEFT: ClassVar[Sequence[str]] = ("pending", "skipped")
    RIGHT: ClassVar[Sequence[str]] = ("errors",)
    """The lists, by their names in the report."""
    FIRST: ClassVar[str] = "facts"
    """The part that has the keys to begin with."""

    def __init__(self, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.glyphs = glyphs
        self.front = self.FIRST
        """The part that is shown where there is room for one."""
        self.state_filter = ""
        """A state of files, `drifted`, or empty for all files of an agent's index."""
        self._listings: Mapping[str, Listing] = {}
        self._listed: object = None
        """The status of the lists that are shown: they are drawn anew for another one."""

    def compose(self) -> ComposeResult:
        yield Static(id="index-state", markup=False)
        yield Static(id="index-parts", markup=False)
        with VerticalScroll(id="facts", classes="index-part"), Container(id="index-columns"):
            yield Facts(label_width=LABEL, id="index-first")
            yield Facts(label_width=LABEL, id="index-second")
        with Container(id="index-body"):
            for side in (self.LEFT, self.RIGHT):
                with Vertical(classes="index-side"):
                    for name in side:
                        rows = RowList(id=name, marker=self.glyphs.marker, gap=0, secondary=True)
                        yield rows.add_class("index-part")
        yield KeyBar()

    def on_mount(self) -> None:
        self.query_one("#facts").border_title = "Index"
        self._bring_to_front(self.FIRST)
        # Not before it is displayed, where one part is shown at a time.
        self.call_after_refresh(self.query_one(f"#{self.FIRST}").focus)
        after_refresh(self, self.refresh_status)
        self.set_interval(REFRESH_SECONDS, self._tick)

    @property
    def engine(self) -> Engine | None:
        """The engine of the application, once it is open."""
        return cast("MemtuiApp", self.app).engine

    def _tick(self) -> None:
        if self.is_current:
            self.refresh_status()

    # --- what is shown --------------------------------------------------------------------------

    def refresh_status(self) -> None:
        """Show the newest snapshot."""
        if self.engine is None:
            self.query_one("#index-state", Static).update("opening the index…")
            return
        status, now = self.engine.index.status(), self.engine.now()
        lines, progress = [state_line(status, self.glyphs)], status.progress
        if progress is not None:
            width = min(_METER_CELLS, max(20, self.size.width - 32))
            done = f"  {fmt.count(progress.done)} of {fmt.count(progress.total)} {progress.phase}"
            lines.append(progress_line(progress, width, self.glyphs) + safe_line(done))
            lines.append(Content.styled(safe_line(progress.current), fmt.MUTED))
        self.query_one("#index-state", Static).update(Content("\n").join(lines))
        facts = index_facts(status, now)
        half = (len(facts) + 1) // 2
        self.query_one("#index-first", Facts).show_facts(facts[:half])
        self.query_one("#index-second", Facts).show_facts(facts[half:])
        # Ages are told to the minute.
        about = status.pending, status.skipped, status.errors, status.foreign
        listed = (*about, self.state_filter, now.minute)
        if listed != self._listed:
            self._listed, self._listings = listed, self.make_listings(status, now)
            for name, listing in self._listings.items():
                widget = self.query_one(f"#{name}", RowList)
                rows = [row for row, _, _ in listing.entries]
                empty = Content.styled(f" {listing.empty}", fmt.MUTED)
                widget.set_rows(rows or [Row("", partial(fmt.fit, empty))], widget.chosen_id)
                count = f"{fmt.count(listing.total)}{listing.note}" if rows else ""
                widget.border_title = Content(f"{name.capitalize()}  {count}")
                widget.border_subtitle = listing.footer
        self._name_parts()

    def _name_parts(self) -> None:
        """Write the line that names the parts, for where one is shown at a time."""
        parts = {"facts": "Facts"}
        for name, listing in self._listings.items():
            parts[name] = f"{name.capitalize()} {listing.attention or ''}".rstrip()
        self.query_one("#index-parts", Static).update(
            Content(" ").join(
                Content.styled(f" {title} ", "bold reverse" if name == self.front else "")
                for name, title in parts.items()
            )
        )

    def make_listings(self, status: IndexStatus, now: datetime) -> dict[str, Listing]:
        """Return the lists by name: the rows of the report's sections."""
        sections = {section.id: section.rows for section in status_sections(status, now)}
        listings = {}
        for name in (*self.LEFT, *self.RIGHT):
            rows = sections.get(name, ())
            entries = [self._entry(name, at, row) for at, row in enumerate(rows[:SHOWN])]
            total = status.pending_count if name == "pending" else len(rows)
            wrong = {"coverage": 0, "identity": sum(row.tone is Tone.ERROR for row in rows)}
            listings[name] = Listing(entries, total, wrong.get(name, total))
        return listings

    def _entry(self, name: str, at: int, row: ReportRow) -> Entry:
        """Return a row with a glyph for its tone; what it is about is told on Enter."""
        glyphs, text, wraps = self.glyphs, safe_line(row.cells[-1]), name == "findings"
        marks = {Tone.OK: glyphs.passed, Tone.WARN: glyphs.degraded, Tone.ERROR: glyphs.error}
        # What is neither right nor wrong.
        mark = marks.get(row.tone, {"findings": "i", "identity": "?"}.get(name, " "))
        head = Content.styled(f" {mark} ", f"bold {STYLES[row.tone]}")
        aside = f"  ⏎ {fmt.count(row.count)}" if row.names else ""
        shown = Content.assemble(text, (aside, fmt.MUTED))

        def draw(width: int) -> Content:
            room = max(width - 3, 8)
            lines = shown.wrap(room) if wraps else [fmt.fit(shown, room)]
            return head + Content("\n   ").join(lines)

        detail = [Content(text), *(Content(f"  {safe_line(one)}") for one in row.names)]
        if row.count > len(row.names) > 0:
            more = f"  and {fmt.count(row.count - len(row.names))} more"
            detail.append(Content.styled(more, fmt.MUTED))
        return Row(str(at), draw, 0 if wraps else 1), name.capitalize(), lambda: detail

    # --- parts ----------------------------------------------------------------------------------

    def _bring_to_front(self, name: str) -> None:
        self.front = name
        for part in self.query(".index-part"):
            part.set_class(part.id == name, "-front")
        for side in self.query(".index-side"):
            side.set_class(bool(side.query(f"#{name}")), "-front")
        self.query_one("#index-body").set_class(name != "facts", "-front")

    @on(events.DescendantFocus)
    def part_entered(self, event: events.DescendantFocus) -> None:
        """Show the part that got the keys, where one is shown at a time."""
        name = event.widget.id or ""
        if name != self.front and event.widget.has_class("index-part"):
            self._bring_to_front(name)
            self._name_parts()

    def action_section(self, step: int) -> None:
        names = ["facts", *self.LEFT, *self.RIGHT]
        name = names[(names.index(self.front) + step) % len(names)]
        self._bring_to_front(name)
        self._name_parts()
        self.call_after_refresh(self.query_one(f"#{name}").focus)

    @on(RowList.Opened)
    def row_opened(self, message: RowList.Opened) -> None:
        """Show a row in full."""
        for row, title, detail in self._listings[message.row_list.id or ""].entries:
            if row.id == message.row_id:
                self.app.push_screen(DetailScreen(title, detail()))

    # --- keys -----------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what needs an engine that is not open yet."""
        return None if action in ("sync", "rebuild") and self.engine is None else True

    def action_sync(self) -> None:
        """Index what changed, or look at an agent's index again: nothing of that is changed."""
        if self.engine is not None:
            self.engine.index.sync()
            self.refresh_status()

    def action_rebuild(self) -> None:
        if self.engine is not None:
            ask_to_rebuild(self, self.engine, self.glyphs, self.refresh_status)


class AgentIndexScreen(IndexScreen, inherit_bindings=False):
    """State, facts, findings, identity, files, coverage and leftovers of an agent's index."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("truth")
    LEFT = ("findings", "identity")
    RIGHT = ("files", "coverage", "leftovers")
    FIRST = "findings"

    def make_listings(self, status: IndexStatus, now: datetime) -> dict[str, Listing]:
        """Return the lists by name, files by their state."""
        foreign = status.foreign
        truth = foreign.truth if foreign is not None else None
        if foreign is None or truth is None:
            word = "not examined: s examines"
            word = "examining…" if foreign is not None and foreign.examining else word
            return {name: Listing(empty=word) for name in (*self.LEFT, *self.RIGHT)}
        listings = super().make_listings(status, now)
        return {**listings, "files": self._files(truth.files, len(truth.drifted), now)}

    def _files(self, files: Sequence[FileTruth], drifted: int, now: datetime) -> Listing:
        shown = [file for file in files if self.state_filter in ("", file.state.value)]
        if self.state_filter == DRIFTED:
            shown = [file for file in files if file.state in FILE_ORDER[:3]]
        only = self.state_filter.replace("_", " ")
        note = f"  only {only} ({fmt.count(len(shown))})" if only else ""
        note += f"  first {fmt.count(SHOWN)} shown" if len(shown) > SHOWN else ""
        shown.sort(key=lambda file: FILE_ORDER.index(file.state))
        entries = [self._file_entry(file, now) for file in shown[:SHOWN]]
        counter = Counter(file.state for file in files)
        footer = Content("  ").join(
            self._file_state(state, f"{fmt.count(counter[state])} ")
            for state in FILE_ORDER
            if counter[state]
        )
        return Listing(entries, len(files), drifted, note, footer=footer)

    def _file_state(self, state: FileState, count: str = "") -> Content:
        glyph = {
            FileState.CURRENT: self.glyphs.passed,
            FileState.STALE: "~",
            FileState.ORPHAN: self.glyphs.error,
            FileState.NEVER_INDEXED: "+",
            FileState.SKIPPED: self.glyphs.not_indexed,
        }[state]
        mark = (f"{glyph} ", STYLES[tone_of(state)])
        return Content.assemble(mark, f"{count}{state_words(state)}")

    def _file_entry(self, file: FileTruth, now: datetime) -> Entry:
        """Return a row `~ stale  memory/a.md  the file changed`; on Enter, both times as well."""
        state = self._file_state(file.state).stylize(STYLES[tone_of(file.state)])
        reason = Content(safe_line(file.reason))

        def draw(width: int) -> Content:
            head = state.pad_right(_STATE + 3 - state.cell_length)
            path = Content(safe_line(file.path))
            if file.state is FileState.CURRENT or not file.reason:
                return fmt.fit(head + path, width)
            path = fmt.fit(path, max(max(width - head.cell_length, 8) * 3 // 5, 8))
            return fmt.fit(Content.assemble(head, path, "  ", reason.stylize(fmt.MUTED)), width)

        def detail() -> list[Content]:
            changed, indexed = (
                f"{when.astimezone():%Y-%m-%d %H:%M:%S}  {fmt.ago(when, now)}"
                if when
                else fmt.NOTHING
                for when in (file.on_disk, file.in_index)
            )
            facts = [
                ("source", Content(safe_line(file.source))),
                ("chunks", Content(fmt.count(file.chunks))),
                ("on disk", Content(changed)),
                ("in index", Content(indexed)),
            ]
            return [state, reason, Content(""), *fact_lines(facts, 200)]

        return Row(f"{file.source}:{file.path}", draw), file.path, detail

    def action_rebuild(self) -> None:
        tell(self, f"{REBUILD_HINT}.")

    def action_filter(self) -> None:
        """Show the files of the next state: all, drifted, then each state there is."""
        foreign = self.engine.index.status().foreign if self.engine is not None else None
        if foreign is not None and foreign.truth is not None:
            there = {file.state for file in foreign.truth.files}
            kinds = ["", DRIFTED, *(state.value for state in FILE_ORDER if state in there)]
            at = kinds.index(self.state_filter) if self.state_filter in kinds else 0
            self.state_filter = kinds[(at + 1) % len(kinds)]
            self.query_one("#files").focus()
            self.refresh_status()
