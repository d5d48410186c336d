"""The care screen: what of the memory needs care, rule by rule, with texts and the way there."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Input, Static

from memtui.bus import Event, Subscription
from memtui.engine.care import MOST_FINDINGS
from memtui.model.browsing import CareFinding, CarePlace, CareReport, CareRule
from memtui.report.words import RULE_WORDS
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import LongTask
from memtui.tui.bindings import bindings
from memtui.tui.bridge import CHANGES, changes_content
from memtui.tui.glyphs import glyphs
from memtui.tui.options import UiOptions
from memtui.tui.place_actions import (
    app_of,
    browse_to,
    cite_lines,
    edit_at,
    follow_index,
    query_address,
    show_chunk_at,
)
from memtui.tui.screens.base import BaseScreen
from memtui.tui.screens.care_findings import (
    RULE_ROW,
    care_rows,
    finding_lines,
    haystacks,
    place_name,
    rule_lines,
    summary,
)
from memtui.tui.widgets.key_bar import KeyBar
from memtui.tui.widgets.line_view import LineView
from memtui.tui.widgets.query_bar import SafeInput
from memtui.tui.widgets.row_list import RowList

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.tui.app import MemtuiApp

_METER_CELLS = 16


class CareLook:
    """The newest report about the memory of one engine, kept while the program runs."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.report: CareReport | None = None
        self.haystacks: list[str] = []
        self.chosen: CareFinding | None = None
        """The finding that was chosen last."""
        self.is_current = False
        """Whether the report is of the index as it is now."""
        self._subscription = engine.bus.subscribe(CHANGES, self._index_changed)

    def _index_changed(self, event: Event) -> None:
        if changes_content(event):
            self.is_current = False

    @property
    def chosen_id(self) -> str | None:
        """Where the newest report has the finding that was chosen last."""
        if self.report is None or self.chosen is None:
            return None
        place = _place_of(self.chosen)
        findings = enumerate(self.report.findings)
        return next((str(at) for at, one in findings if _place_of(one) == place), None)

    def close(self) -> None:
        """Listen to changes no more."""
        self._subscription.close()


def _place_of(finding: CareFinding) -> tuple[object, ...]:
    return finding.rule, finding.place.path, finding.place.start_line


class CareScreen(BaseScreen[None]):
    """Every rule with what it found; the application keeps the report of a memory."""

    CSS_PATH = "care.tcss"
    BINDING_GROUP_TITLE = "Care"
    BINDINGS: ClassVar[list[BindingType]] = bindings("care")

    state_line = query_one("#care-state", Static)
    filter_box = query_one("#care-filter", SafeInput)
    findings = query_one("#care-list", RowList)
    detail = query_one("#care-detail", LineView)

    def __init__(self, options: UiOptions) -> None:
        super().__init__()
        self.glyphs = glyphs(options.glyphs)
        self.report: CareReport | None = None
        """What is shown."""
        self._look: CareLook | None = None
        self._looking = LongTask(self, "look through the memory")
        self._progress = (0, 0)
        self._problem = ""
        self._subscription: Subscription | None = None

    @property
    def memtui(self) -> MemtuiApp:
        """The application."""
        return app_of(self)

    def layout_classes(self) -> dict[str, bool]:
        """Return those of every screen, and whether one pane is shown at a time."""
        is_small = self.size.width < 60 or self.size.height < 16
        return {**super().layout_classes(), "-small": is_small}

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
        """Show the last report, or look through the memory."""
        self.findings.border_title = Content("Care")
        self.findings.focus()
        app = self.memtui
        if app.engine is None:
            return
        if app.care is None or app.care.engine is not app.engine:
            # That of a memory that was open before is forgotten.
            if app.care is not None:
                app.care.close()
            app.care = CareLook(app.engine)
        self._look = app.care
        self._subscription = follow_index(self, self._show_state)
        self._show_report(self._look.chosen_id)
        # To learn what can be reached, every file's first words are asked for.
        if not self._look.is_current and not query_address(app.engine):
            self.action_look()

    def on_unmount(self) -> None:
        """Stop looking, and following the index."""
        if self._looking.stop() and self._look is not None:
            self._look.is_current = False
        if self._subscription is not None:
            self._subscription.close()

    def on_resize(self, event: events.Resize) -> None:
        """Write the state for the width."""
        self.call_after_refresh(self._show_state)

    # --- looking --------------------------------------------------------------------------------

    def action_look(self) -> None:
        """Go through the whole memory, from the beginning."""
        look = self._look
        if look is None:
            return

        def take(report: CareReport) -> None:
            look.report, look.haystacks = report, haystacks(report.findings)
            self._show_report(look.chosen_id)
            self._show_state()

        self._progress, self._problem = (0, 0), ""
        # A change while it goes on makes the report old before it is there.
        look.is_current = True
        self._looking.start(
            lambda cancelled, progressed: look.engine.browse.care(
                cancelled=cancelled, progressed=progressed
            ),
            take,
            self._ended,
            self._progressed,
        )
        self._show_state()

    def _progressed(self, done: int, total: int) -> None:
        self._progress = (done, total)
        self._show_state()

    def _ended(self, problem: str) -> None:
        """Say why a look gave no report; the screen looks again when it is opened again."""
        self._problem = problem
        if self._look is not None:
            self._look.is_current = False
        self._show_state()

    # --- what is shown --------------------------------------------------------------------------

    def _show_report(self, keep: str | None = None) -> None:
        """Draw the rows of the newest report that the filter leaves, with `keep` chosen."""
        look = self._look
        if look is None or look.report is None:
            return
        self.report = look.report
        words = self.filter_box.value
        rows = care_rows(look.report, look.haystacks, MOST_FINDINGS, words, self.glyphs)
        ids = dict.fromkeys(row.id for row in rows)
        first = next((row_id for row_id in ids if not row_id.startswith(RULE_ROW)), None)
        chosen = next((one for one in (keep, self.findings.chosen_id) if one in ids), first)
        self.findings.set_rows(rows, chosen, empty="nothing holds these words")
        self._show_detail()

    def _show_state(self) -> None:
        self.state_line.update(self._state())
        self.refresh_bindings()

    def _state(self) -> Content:
        look = self._look
        if self._looking.is_running:
            done, total = self._progress
            full = min(_METER_CELLS, _METER_CELLS * done // total) if total > 0 else 0
            return Content.assemble(
                "looking ",
                (self.glyphs.meter_full * full, "$accent"),
                (self.glyphs.meter_empty * (_METER_CELLS - full), "$foreground 30%"),
                f" {fmt.percent(done, total)}" if total > 0 else "",
                ("  esc stops", fmt.MUTED),
            )
        if self._problem:
            text = f"{self.glyphs.error} {safe_line(self._problem)} · r tries again"
            return Content.styled(text, "$state-error")
        if look is None or self.report is None:
            address = query_address(self.memtui.engine)
            sent = f" (sends first words to {address})" if address else ""
            return Content.styled(f"not looked at · r looks{sent}", fmt.MUTED)
        hint = "" if look.is_current else "looked at before the last change · r look again  "
        return Content.assemble((hint, "$state-warn"), summary(self.report))

    @on(RowList.Chosen)
    def row_chosen(self, message: RowList.Chosen) -> None:
        """Show the texts of the chosen finding."""
        message.stop()
        if self._look is not None and self.finding is not None:
            self._look.chosen = self.finding
        self._show_detail()
        self.refresh_bindings()

    def _show_detail(self) -> None:
        report, finding, detail = self.report, self.finding, self.detail
        chosen = self.findings.chosen_id
        detail.border_title = detail.border_subtitle = ""
        if report is None or chosen is None:
            detail.lay_out(lambda width: ())
        elif finding is not None:
            detail.border_title = Content(RULE_WORDS[finding.rule].title)
            detail.border_subtitle = Content(place_name(finding.place))
            detail.lay_out(lambda width: finding_lines(finding, width, self.glyphs))
        else:
            rule = CareRule(chosen.removeprefix(RULE_ROW))
            detail.border_title = Content(RULE_WORDS[rule].title)
            detail.lay_out(lambda width: rule_lines(report, rule, width, self.glyphs))

    @property
    def finding(self) -> CareFinding | None:
        """The chosen finding; `None` on the heading of a rule."""
        chosen = self.findings.chosen_id
        if self.report is None or chosen is None or chosen.startswith(RULE_ROW):
            return None
        return self.report.findings[int(chosen)]

    # --- the filter -----------------------------------------------------------------------------

    @on(Input.Changed)
    def filter_changed(self, event: Input.Changed) -> None:
        """Leave what holds the words."""
        event.stop()
        self._show_report()

    @on(Input.Submitted)
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
            self.findings.action_move(1)

    def action_edit(self) -> None:
        """Open the place in the editor."""
        self._edit(self.finding.place if self.finding is not None else None)

    def action_edit_other(self) -> None:
        """Open the place it is compared with in the editor."""
        self._edit(self.finding.other if self.finding is not None else None)

    def _edit(self, place: CarePlace | None) -> None:
        if place is not None:
            edit_at(self, place.path, place.start_line)

    def action_browse(self) -> None:
        """See the place in its file."""
        if self.finding is not None:
            place = self.finding.place
            browse_to(self, place.path, place.start_line, place.chunk_id)

    def action_chunk(self) -> None:
        """See everything that the index holds about the chunk."""
        if self.finding is None:
            return
        place = self.finding.place
        if place.chunk_id:
            self.memtui.open_chunk(place.chunk_id)
        else:
            show_chunk_at(self, place.path, place.start_line)

    def action_cite(self) -> None:
        """Copy where it is."""
        if self.finding is not None:
            place = self.finding.place
            cite_lines(self, place.path, place.start_line, place.end_line)

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
        """Stop the look; false when none goes on."""
        if not self._looking.stop():
            return False
        self._ended("stopped")
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
