"""The index screen: facts and lists of an index, memtui's own or an agent's, as they are now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Static

from memtui.engine import Engine
from memtui.model import IndexState, IndexStatus
from memtui.model.status import FileState, FileTruth
from memtui.report.layout import Row as ReportRow
from memtui.report.layout import Tone
from memtui.report.status import present_errors, state_words, status_sections, tone_of
from memtui.report.words import WORDS, ago
from memtui.text.sanitize import safe_line
from memtui.tui import fmt, glyphs
from memtui.tui.bindings import bindings, key_name, next_of
from memtui.tui.place_actions import app_of
from memtui.tui.present import STYLES
from memtui.tui.screens.common import PartLine, act_on_part, after_refresh
from memtui.tui.screens.dialogs import DetailScreen
from memtui.tui.widgets.bars import KeyBar, ScreenBar
from memtui.tui.widgets.index_status import LABEL, facts_of, index_facts, progress_line, state_line
from memtui.tui.widgets.lists import Row, RowList, TextBlock, fact_lines

REFRESH_SECONDS = 1.0
SHOWN = 500
"""More rows than this are counted and not drawn: drawing thousands would be felt."""
FILE_ORDER = (*(state for state in FileState if state is not FileState.CURRENT), FileState.CURRENT)
"""The files that a sync would touch come first."""
DRIFTED = "drifted"
_METER_CELLS = 48
_STATE = 13


class IndexScreen(Screen[None]):
    """State, facts and lists of memtui's own index; brought up to date every second."""

    CSS_PATH = "index.tcss"
    BINDINGS = bindings("index_screen")
    LEFT: ClassVar[Sequence[str]] = ("pending", "skipped")
    RIGHT: ClassVar[Sequence[str]] = ("errors",)
    """The lists, by their names in the report."""
    FIRST: ClassVar[str] = "facts"
    """The part that has the keys to begin with."""
    action_part = act_on_part

    parts = query_one(PartLine)

    def __init__(self, engine: Engine) -> None:
        super().__init__(id="index")
        self.engine = engine
        self.state_filter = ""
        """A state of files, `drifted`, or empty for all files of an agent's index."""
        self._rows: dict[str, Sequence[ReportRow | FileTruth]] = {}
        """The subjects of the rows of each list."""
        self._listed: object = None
        """The status of the lists that are shown: they are drawn anew for another one."""

    def compose(self) -> ComposeResult:
        yield ScreenBar()
        yield Static(id="index-state", markup=False)
        names = "facts", *self.LEFT, *self.RIGHT
        yield PartLine({name: name.capitalize() for name in names}, self.FIRST)
        with VerticalScroll(id="facts", classes="part"), Container(id="index-columns"):
            yield TextBlock(id="index-first")
            yield TextBlock(id="index-second")
        with Container(id="index-body", classes="part"):
            for side in (self.LEFT, self.RIGHT):
                with Vertical(classes="index-side part"):
                    for name in side:
                        yield RowList(id=name, gap=0, secondary=True, classes="part")
        yield KeyBar()

    def on_mount(self) -> None:
        self.query_one("#facts").border_title = "Index"
        self.query_one("#index-second").border_title = "Technical details"
        self.parts.show(self.FIRST)
        # Not before it is displayed, where one part is shown at a time.
        self.call_after_refresh(self.query_one(f"#{self.FIRST}").focus)
        after_refresh(self, self.refresh_status)
        self.set_interval(REFRESH_SECONDS, self.refresh_status)

    def refresh_status(self) -> None:
        if not self.is_current:
            return
        status, now = self.engine.index.status(), self.engine.now()
        lines, progress = [state_line(status)], status.progress
        if status.foreign is None:
            lines[0] += Content.styled(f"  {what_is_listed(status)}", fmt.MUTED)
        if progress is not None:
            width = min(_METER_CELLS, max(20, self.size.width - 32))
            done = f"  {fmt.count(progress.done)} of {fmt.count(progress.total)} {progress.phase}"
            lines.append(progress_line(progress, width) + safe_line(done))
            lines.append(Content.styled(safe_line(progress.current), fmt.MUTED))
        self.query_one("#index-state", Static).update(Content("\n").join(lines))
        words = app_of(self).completed("`memtui search WORDS`").strip("`").split(" ")
        # A quoted path begins with its quote and stays as it is: no shell expands ~ in one.
        shell = Content(" ".join(map(fmt.home_relative, words)))
        facts = [*index_facts(status, now), ("shell", shell)]
        for name, shown in (("first", facts), ("second", facts_of(status, now, "technical"))):
            block = self.query_one(f"#index-{name}", TextBlock)
            block.show(partial(fact_lines, shown, column=LABEL))
        ages = [ago(error.at, now) for error in status.errors]
        about = status.pending, status.skipped, status.errors, status.foreign, status.writer
        listed = (*about, self.state_filter, ages)
        if listed != self._listed:
            self._listed = listed
            self._fill_lists(status, now)

    def _fill_lists(self, status: IndexStatus, now: datetime) -> None:
        sections = {section.id: section.rows for section in status_sections(status, now)}
        foreign, empty, titles = status.foreign, "none", {"facts": "Facts"}
        truth = foreign.truth if foreign is not None else None
        if foreign is not None and truth is None:
            empty = "checking…" if foreign.examining else "not checked yet: r check"
        for name in (*self.LEFT, *self.RIGHT):
            widget = self.query_one(f"#{name}", RowList)
            listed: Sequence[ReportRow] = sections.get(name, ())
            about: Sequence[ReportRow | FileTruth] = listed
            attention = total = status.pending_count if name == "pending" else len(listed)
            note = ""
            if name == "identity":
                attention = sum(row.tone is Tone.ERROR for row in listed)
            elif name == "coverage":
                attention = 0
            elif name == "files" and truth is not None:
                total, attention = len(truth.files), len(truth.drifted)
                matching = truth.drifted if self.state_filter == DRIFTED else truth.files
                files = [one for one in matching if self.state_filter in ("", DRIFTED, one.state)]
                files.sort(key=lambda file: FILE_ORDER.index(file.state))
                about = files
                if self.state_filter:
                    only = f"only {self.state_filter.replace('_', ' ')}"
                    note = f"  {only} ({fmt.count(len(about))})"
                note += f"  first {fmt.count(SHOWN)} shown" if len(about) > SHOWN else ""
                counter = Counter(file.state for file in truth.files)
                widget.border_subtitle = Content("  ").join(
                    file_state(state, f"{fmt.count(counter[state])} ")
                    for state in FILE_ORDER
                    if counter[state]
                )
            self._rows[name] = about = about[:SHOWN]
            rows = [
                Row(f"{one.source}:{one.path}", partial(file_line, one))
                if isinstance(one, FileTruth)
                else Row(str(at), partial(self._line, name, one), 0 if name == "findings" else 1)
                for at, one in enumerate(about)
            ]
            is_unknown = name == "files" and not status.root
            why = "not compared: the workspace is not known" if is_unknown else empty
            widget.set_rows(rows, widget.chosen_id, empty=why)
            count = f"{fmt.count(total)}{note}" if rows else ""
            widget.border_title = Content(f"{name.capitalize()}  {count}")
            if rows or foreign is not None:
                titles[name] = f"{name.capitalize()} {attention or ''}".rstrip()
            widget.set_class(name not in titles, "-empty")
        for side, names in zip(self.query(".index-side"), (self.LEFT, self.RIGHT), strict=True):
            side.set_class(titles.keys().isdisjoint(names), "-empty")
        self.parts.entitle(titles)
        if self.parts.front not in titles:
            self.parts.show(self.FIRST)
            self.query_one(f"#{self.FIRST}").focus()

    def _line(self, name: str, row: ReportRow, width: int) -> Content:
        marks = glyphs.SIGNS["listed"]
        # By the list what is neither right nor wrong.
        mark = marks.get(row.tone, marks.get(name, " "))
        head = Content.styled(f" {mark} ", f"bold {STYLES[row.tone]}")
        aside = f"  ({fmt.count(row.count)}, {key_name('enter')} list)" if row.names else ""
        shown = Content.assemble(safe_line(row.cells[-1]), (aside, fmt.MUTED))
        room = max(width - 3, 8)
        lines = shown.wrap(room) if name == "findings" else [fmt.fit(shown, room)]
        return head + Content("\n   ").join(lines)

    @on(RowList.Opened)
    def row_opened(self, message: RowList.Opened) -> None:
        name, at = message.row_list.id or "", message.row_list.cursor
        row = self._rows[name][at] if at is not None else None
        if isinstance(row, FileTruth):
            self.app.push_screen(DetailScreen(row.path, file_lines(row, self.engine.now())))
        elif isinstance(row, ReportRow):
            detail = [safe_line(row.cells[-1]), *(f"  {safe_line(one)}" for one in row.names)]
            lines = list(map(Content, detail))
            if row.count > len(row.names) > 0:
                more = f"  and {fmt.count(row.count - len(row.names))} more"
                lines.append(Content.styled(more, fmt.MUTED))
            self.app.push_screen(DetailScreen(name.capitalize(), lines))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "part" or parameters[0] != "parts" or len(self.parts.titles) > 1 or None

    def worded(self, binding: Binding) -> Binding:
        """Offer neither sync nor rebuild where another memtui keeps the index."""
        is_other = self.engine.index.status().has_other_writer
        if is_other and "search_screen" in binding.action:
            return replace(binding, show=False, tooltip=WORDS["writer"]["not_now"])
        return binding


class AgentIndexScreen(IndexScreen, inherit_bindings=False):
    """State, facts, findings, identity, files, coverage and leftovers of an agent's index."""

    BINDINGS = bindings("truth")
    LEFT = ("findings", "identity")
    RIGHT = ("files", "coverage", "leftovers")
    FIRST = "findings"

    @property
    def _file_states(self) -> set[FileState]:
        foreign = self.engine.index.status().foreign
        truth = foreign.truth if foreign is not None else None
        return {file.state for file in truth.files} if truth is not None else set()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        is_idle = action == "filter" and not self._file_states
        return None if is_idle else super().check_action(action, parameters)

    def action_filter(self) -> None:
        """Show the files of the next state: all, drifted, then each state there is."""
        states = self._file_states
        kinds = ["", DRIFTED, *(state.value for state in FILE_ORDER if state in states)]
        shown = self.state_filter if self.state_filter in kinds else ""
        self.state_filter = next_of(kinds, shown)
        self.query_one("#files").focus()
        self.refresh_status()


def what_is_listed(status: IndexStatus) -> str:
    """Say that everything is fine, and why, or what is not and where it is listed."""
    is_told = status.state in (IndexState.STALE, IndexState.NO_INDEX)
    counts = {"waiting": 0 if is_told else status.pending_count, "left out": len(status.skipped)}
    counts["failed"] = present_errors(status)
    listed = ", ".join(f"{fmt.count(number)} {label}" for label, number in counts.items() if number)
    if listed:
        # Of what waits only those to be taken out have a reason.
        has_why = status.skipped or status.removals or counts["failed"]
        return f"{listed}: tab shows which{', and why' * bool(has_why)}"
    if status.has_other_writer:
        return WORDS["writer"]["read_only"].format(status.writer) * (not is_told)
    files = fmt.count(status.files, "file")
    # What is left out is known once the files were looked at.
    is_fine = status.state is IndexState.READY and status.files > 0 and bool(status.last_sync)
    over = ", what failed before is over" if status.errors else " or failed"
    return f"everything is fine: {files} indexed, nothing waiting{over}" * is_fine


def file_state(state: FileState, count: str = "") -> Content:
    """Return how a file stands, with a glyph: `~ stale`, and how many such files there are."""
    mark = f"{glyphs.SIGNS['examined'][state]} ", STYLES[tone_of(state)]
    return Content.assemble(mark, f"{count}{state_words(state)}")


def file_line(file: FileTruth, width: int) -> Content:
    """Draw a row: `~ stale  memory/a.md  the file changed`."""
    state = file_state(file.state).stylize(STYLES[tone_of(file.state)])
    head, path = state.pad_right(_STATE + 3 - state.cell_length), Content(safe_line(file.path))
    if file.state is FileState.CURRENT or not file.reason:
        return fmt.fit(head + path, width)
    path = fmt.fit(path, max(max(width - head.cell_length, 8) * 3 // 5, 8))
    reason = (safe_line(file.reason), fmt.MUTED)
    return fmt.fit(Content.assemble(head, path, "  ", reason), width)


def file_lines(file: FileTruth, now: datetime) -> list[Content]:
    """Return the state of a file, why, and when it was changed and indexed."""
    changed, indexed = (
        f"{when.astimezone():%Y-%m-%d %H:%M:%S}  {fmt.ago(when, now)}" if when else fmt.NOTHING
        for when in (file.on_disk, file.in_index)
    )
    facts = {
        "source": safe_line(file.source),
        "chunks": fmt.count(file.chunks),
        "on disk": changed,
        "in index": indexed,
    }
    state = file_state(file.state).stylize(STYLES[tone_of(file.state)])
    lines = fact_lines([(name, Content(value)) for name, value in facts.items()], 200, 10)
    return [state, Content(safe_line(file.reason)), Content(""), *lines]
