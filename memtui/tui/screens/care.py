"""The care screen: what of the memory needs care, rule by rule, with texts and the way there."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.widgets import Input, Static
from textual.worker import Worker, get_current_worker

from memtui.errors import Cancelled
from memtui.model.browsing import CareFinding, CarePlace, CareReport, CareRule
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.caring.detail import finding_lines, place_name, rule_lines
from memtui.tui.caring.remembered import CareMemory, Looked, care_memory
from memtui.tui.caring.rows import RULE_ROW, care_rows, finding_rows
from memtui.tui.caring.words import RULES, summary
from memtui.tui.options import UiOptions
from memtui.tui.screens.place_base import ContentChanged, PlaceScreen
from memtui.tui.widgets.key_bar import KeyBar
from memtui.tui.widgets.line_view import LineView
from memtui.tui.widgets.query_bar import SafeInput
from memtui.tui.widgets.row_list import RowList

if TYPE_CHECKING:
    from memtui.engine import Engine

TELL_SECONDS = 0.1
"""So often a look through the memory tells how far it is."""
_METER_CELLS = 16


@dataclass
class CareProgressed(Message):
    """How far the look through the memory is."""

    done: int
    total: int

    def can_replace(self, message: Message) -> bool:
        """Let a burst collapse into its last message."""
        return isinstance(message, CareProgressed)


@dataclass
class CareLooked(Message):
    """The look ended: with a report, or with why there is none."""

    worker: Worker[None]
    memory: CareMemory
    looked: Looked | None
    problem: str = ""


class CareScreen(PlaceScreen):
    """Every rule with what it found; the report is kept while the index stays as it is."""

    CSS_PATH = "care.tcss"
    BINDING_GROUP_TITLE = "Care"
    BINDINGS: ClassVar[list[BindingType]] = bindings("care")

    state_line = query_one("#care-state", Static)
    filter_box = query_one("#care-filter", SafeInput)
    findings = query_one("#care-list", RowList)
    detail = query_one("#care-detail", LineView)

    def __init__(self, options: UiOptions) -> None:
        super().__init__(options)
        self._memory: CareMemory | None = None
        self._looked: Looked | None = None
        """What is shown."""
        self._looking: Worker[None] | None = None
        self._progress = (0, 0)
        self._problem = ""

    def compose(self) -> ComposeResult:
        with Horizontal(id="care-head"):
            yield Static(id="care-state", markup=False)
            yield SafeInput(placeholder="/ filter: path or rule", id="care-filter", compact=True)
        with Container(id="care-body"):
            yield RowList(id="care-list", marker=self.glyphs.marker, gap=0)
            yield LineView(id="care-detail")
        with Horizontal(id="care-keys"):
            yield KeyBar()

    def on_mount(self) -> None:
        """Show what is known, or look through the memory."""
        self.findings.border_title = Content("Care")
        self.findings.focus()
        if self.engine is None:
            return
        self._memory = care_memory(self.app, self.engine, self.memtui.bus)
        self.follow_index()
        self._show_report()
        # To learn what can be reached, every file's first words are asked for.
        if not self._memory.is_current and not self.remote:
            self.action_look()

    def on_resize(self, event: events.Resize) -> None:
        """Write what is known for the width."""
        self.call_after_refresh(self._show_state)

    # --- looking --------------------------------------------------------------------------------

    @property
    def report(self) -> CareReport | None:
        """What is shown."""
        return self._looked.report if self._looked is not None else None

    def action_look(self) -> None:
        """Go through the whole memory, from the beginning."""
        if self.engine is None or self._memory is None:
            return
        if self._looking is not None:
            self._looking.cancel()
        self._progress, self._problem = (0, 0), ""
        self._looking = self._look(self.engine, self._memory)
        self._show_state()

    @work(thread=True, group="care", exit_on_error=False, description="look through the memory")
    def _look(self, engine: Engine, memory: CareMemory) -> None:
        # Imported here: what the engine needs for it takes longer than a paint.
        from memtui.engine.care import MOST_FINDINGS

        worker, changes = cast("Worker[None]", get_current_worker()), memory.changes
        last = 0.0

        def progressed(done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last >= TELL_SECONDS and not worker.is_cancelled:
                last = time.monotonic()
                self.post_message(CareProgressed(done, total))

        try:
            report = engine.browse.care(
                cancelled=lambda: worker.is_cancelled, progressed=progressed
            )
            found = Looked(report, finding_rows(report.findings), MOST_FINDINGS, changes)
        except Cancelled:
            return
        except Exception as error:
            # Whatever goes wrong is told in the state line, with the key that tries again.
            told = str(error) or type(error).__name__
            self.post_message(CareLooked(worker, memory, None, told))
            return
        self.post_message(CareLooked(worker, memory, found))

    def on_care_progressed(self, message: CareProgressed) -> None:
        """Show how far it is."""
        message.stop()
        if self._looking is not None:
            self._progress = (message.done, message.total)
            self._show_state()

    def on_care_looked(self, message: CareLooked) -> None:
        """Show what was found, unless it was stopped or begun again meanwhile."""
        message.stop()
        if message.worker is not self._looking:
            return
        self._looking, self._problem = None, message.problem
        if message.looked is not None:
            message.memory.looked = message.looked
            self._show_report()
        self._show_state()

    def on_content_changed(self, message: ContentChanged) -> None:
        """Say that the report is of the index as it was."""
        message.stop()
        self._show_state()

    # --- what is shown --------------------------------------------------------------------------

    def _show_report(self) -> None:
        """Show the newest report, at the finding that was looked at last."""
        if self._memory is not None and self._memory.looked is not None:
            self._looked = self._memory.looked
            self._fill(self._memory.chosen_id)

    def _fill(self, keep: str | None = None) -> None:
        """Draw the rows that the filter leaves."""
        if self._looked is None:
            return
        looked, wanted = self._looked, self.filter_box.value
        rows = care_rows(looked.report, looked.rows, looked.most, wanted, self.glyphs)
        ids = dict.fromkeys(row.id for row in rows)
        for chosen in (keep, self.findings.chosen_id):
            if chosen in ids:
                break
        else:
            chosen = next((row_id for row_id in ids if not row_id.startswith(RULE_ROW)), None)
        self.findings.set_rows(rows, chosen, empty="nothing holds these words")
        self._show_detail()

    def _show_state(self) -> None:
        self.state_line.update(self._state())
        self.refresh_bindings()

    def _state(self) -> Content:
        if self._looking is not None:
            return self._looking_line()
        if self._problem:
            told = f"{self.glyphs.error} {safe_line(self._problem)} · r tries again"
            return Content.styled(told, "$state-error")
        if self.report is None:
            sent = f" (sends first words to {self.remote})" if self.remote else ""
            return Content.styled(f"not looked at · r looks{sent}", fmt.MUTED)
        found = summary(self.report)
        if self._memory is not None and not self._memory.is_current:
            hint = "looked at before the last change · r look again"
            return Content.assemble((hint, "$state-warn"), f"  {found}")
        return Content(found)

    def _looking_line(self) -> Content:
        done, total = self._progress
        full = min(_METER_CELLS, _METER_CELLS * done // total) if total > 0 else 0
        meter: list[tuple[str, str]] = [
            (self.glyphs.meter_full * full, "$accent"),
            (self.glyphs.meter_empty * (_METER_CELLS - full), "$foreground 30%"),
        ]
        far = f" {fmt.percent(done, total)}" if total > 0 else ""
        return Content.assemble("looking ", *meter, far, ("  esc stops", fmt.MUTED))

    @on(RowList.Chosen)
    def row_chosen(self, message: RowList.Chosen) -> None:
        """Show the texts of the chosen finding."""
        message.stop()
        if self._memory is not None and self.finding is not None:
            self._memory.chosen = self.finding
        self._show_detail()
        self.refresh_bindings()

    def _show_detail(self) -> None:
        report, finding, rule = self.report, self.finding, self._rule()
        if report is None:
            return
        if finding is not None:
            self.detail.border_title = Content(RULES[finding.rule].title)
            self.detail.border_subtitle = Content(place_name(finding.place))
            self.detail.lay_out(lambda width: finding_lines(finding, width, self.glyphs))
        elif rule is not None:
            self.detail.border_title = Content(RULES[rule].title)
            self.detail.border_subtitle = ""
            self.detail.lay_out(lambda width: rule_lines(report, rule, width, self.glyphs))
        else:
            self.detail.border_title = self.detail.border_subtitle = ""
            self.detail.lay_out(lambda width: ())

    @property
    def finding(self) -> CareFinding | None:
        """The chosen finding; `None` on the heading of a rule."""
        chosen = self.findings.chosen_id
        if self.report is None or chosen is None or chosen.startswith(RULE_ROW):
            return None
        return self.report.findings[int(chosen)]

    def _rule(self) -> CareRule | None:
        chosen = self.findings.chosen_id or ""
        return CareRule(chosen.removeprefix(RULE_ROW)) if chosen.startswith(RULE_ROW) else None

    # --- the filter -----------------------------------------------------------------------------

    @on(Input.Changed)
    def filter_changed(self, event: Input.Changed) -> None:
        """Leave what holds the words."""
        event.stop()
        self._fill()

    @on(Input.Submitted)
    def filter_done(self, event: Input.Submitted) -> None:
        """Go to the list."""
        event.stop()
        self.action_to_list()

    def action_to_list(self) -> None:
        """Give the keys to the list."""
        self.findings.focus()

    def action_filter(self) -> None:
        """Type words to filter by."""
        self.remove_class("-detail")
        self.filter_box.focus()

    # --- keys -----------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what the chosen row has not."""
        finding = self.finding if self.is_mounted else None
        if action in ("edit", "browse", "chunk", "cite"):
            return True if finding is not None else None
        if action == "edit_other":
            return True if finding is not None and finding.other is not None else None
        return True

    @on(RowList.Opened)
    def row_opened(self, message: RowList.Opened) -> None:
        """Open the place of a finding in the editor; a heading goes to its first finding."""
        message.stop()
        if self.finding is not None:
            self.action_edit()
        else:
            self.findings.action_cursor_down()

    def action_edit(self) -> None:
        """Open the place in the editor."""
        if self.finding is not None:
            self._edit(self.finding.place)

    def action_edit_other(self) -> None:
        """Open the place it is compared with in the editor."""
        if self.finding is not None and self.finding.other is not None:
            self._edit(self.finding.other)

    def _edit(self, place: CarePlace) -> None:
        self.edit_at(place.path, place.start_line)

    def action_browse(self) -> None:
        """See the place in its file."""
        if self.finding is not None:
            place = self.finding.place
            self.browse_to(place.path, place.start_line, place.chunk_id)

    def action_chunk(self) -> None:
        """See everything that the index holds about the chunk."""
        if self.finding is None:
            return
        place = self.finding.place
        if place.chunk_id:
            self.memtui.open_chunk(place.chunk_id)
        else:
            self.show_chunk_at(place.path, place.start_line)

    def action_cite(self) -> None:
        """Copy where it is."""
        if self.finding is not None:
            place = self.finding.place
            self.cite(place.path, place.start_line, place.end_line)

    def action_rule(self, step: int) -> None:
        """Go to the heading of the next or the previous rule."""
        rows = [row.id for row in self.findings.rows]
        chosen = self.findings.chosen_id
        at = rows.index(chosen) if chosen in rows else 0
        beyond = rows[at + 1 :] if step > 0 else rows[:at][::-1]
        heading = next((row_id for row_id in beyond if row_id.startswith(RULE_ROW)), None)
        if heading is not None:
            self.findings.choose(heading)

    def action_pane(self) -> None:
        """Give the keys to the other pane, in front where there is one at a time."""
        to_detail = not self.detail.has_focus
        self.set_class(to_detail, "-detail")
        self.call_after_refresh((self.detail if to_detail else self.findings).focus)

    def stop_running(self) -> bool:
        """Stop what is looked for; false when nothing is."""
        if self._looking is None:
            return False
        self._looking.cancel()
        self._looking, self._problem = None, "stopped"
        self._show_state()
        return True

    def action_close(self) -> None:
        """Leave the filter, else stop what is looked for, else go back."""
        if self.filter_box.has_focus:
            self.filter_box.value = ""
            self.findings.focus()
        elif self.stop_running():
            return
        elif self.has_class("-small") and self.has_class("-detail"):
            self.action_pane()
        else:
            super().action_close()
