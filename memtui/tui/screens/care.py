"""The care screen: what of the memory needs care, rule by rule, with texts and the way there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Input, Static

from memtui.engine import Engine
from memtui.engine.care import MOST_FINDINGS
from memtui.model import Progress
from memtui.model.browsing import CareFinding, CareReport, CareRule
from memtui.report.words import RULE_WORDS
from memtui.text.sanitize import safe_line
from memtui.tui import fmt, glyphs
from memtui.tui.background import LongTask, tell
from memtui.tui.bindings import bindings
from memtui.tui.place_actions import act_on_place, query_address
from memtui.tui.present import error_line
from memtui.tui.side_by_side import SideText, one_text, two_texts
from memtui.tui.widgets.bars import KeyBar, ScreenBar, draw_key
from memtui.tui.widgets.index_status import progress_line
from memtui.tui.widgets.lists import Draw, LineView, Row, RowList
from memtui.tui.widgets.query_bar import SafeInput
from memtui.tui.widgets.result_rows import place_text

_HEADING = "rule:"
"""Begins the id of a heading."""
_METER_CELLS = 21
_RELATIONS: Mapping[CareRule, str] = {CareRule.NEAR_DUPLICATE: "=", CareRule.UNREACHABLE: "behind"}
"""The relation of a place to the one that it is compared with."""


class CareScreen(Screen[None]):
    """Every rule with its findings; the newest report stays while the memory is open."""

    CSS_PATH = "care.tcss"
    BINDINGS = bindings("care")

    filter_box = query_one("#care-filter", SafeInput)
    findings = query_one("#care-list", RowList)
    detail = query_one("#care-detail", LineView)

    def __init__(self, engine: Engine) -> None:
        super().__init__(id="care")
        self.engine = engine
        self.report: CareReport | None = None
        """The newest report about the memory."""
        self._by_row: dict[str, CareFinding] = {}
        """Its findings by the ids of their rows."""
        self._is_current = False
        """True if the report is of the index as it is now."""
        self._looking = LongTask(self)
        self._problem = ""

    def compose(self) -> ComposeResult:
        yield ScreenBar()
        with Horizontal(id="care-head"):
            yield Static(id="care-state", markup=False)
            yield SafeInput(placeholder="/ filter: path or rule", id="care-filter", compact=True)
        with Container(id="care-body"):
            yield RowList(id="care-list", gap=0, opens="read")
            yield LineView(id="care-detail")
        yield KeyBar()

    def on_mount(self) -> None:
        self.findings.border_title = Content("Care")
        self.findings.focus()

    def on_screen_resume(self) -> None:
        """Look again where something changed; to learn what is reached, first words are asked."""
        self._show_state()
        is_due = not self._is_current and not self._looking.is_running
        if is_due and not query_address(self.engine):
            self.action_look()

    def content_changed(self) -> None:
        """Say that the report is older than the index."""
        self._is_current = False
        self._show_state()

    def action_look(self) -> None:

        def take(report: CareReport) -> None:
            if self.report is not None:
                tell(self, f"checked again: {fmt.count(len(report.findings), 'finding')}")
            self.report = report
            self._by_row = by_row(report.findings)
            self._show_report()

        self._problem = ""
        # A change while it goes on makes the report old before it is there.
        self._is_current = True
        self._looking.start(self.engine.browse.care, take, self._ended, self._show_state)
        self._show_state()

    def _ended(self, problem: str) -> None:
        """Say why a look gave no report; the screen looks again when it is opened again."""
        self._problem, self._is_current = problem, False
        self._show_state()

    def stop_running(self) -> bool:
        """Stop the look; false when none goes on."""
        if is_stopped := self._looking.stop():
            self._ended("stopped")
        return is_stopped

    @property
    def finding(self) -> CareFinding | None:
        """The chosen finding; `None` on the heading of a rule."""
        return self._by_row.get(self.findings.chosen_id or "")

    @on(Input.Changed)
    def _show_report(self) -> None:
        if self.report is None:
            return
        rows = care_rows(self.report, self.filter_box.value)
        ids, chosen = [row.id for row in rows], self.findings.chosen_id
        if chosen not in ids:
            chosen = next((one for one in ids if not one.startswith(_HEADING)), None)
        self.findings.set_rows(rows, chosen, empty="nothing holds these words")
        self._show_state()
        self._show_detail()

    def _show_state(self) -> None:
        report = self.report
        if self._looking.is_running:
            progress = Progress("checking", *self._looking.progress, rate=0.0, eta=None)
            meter = progress_line(progress, _METER_CELLS)
            state = Content.assemble("checking ", meter, "  ", draw_key("escape", "stop"))
        elif self._problem:
            state = error_line(f"{self._problem} · r rescan")
        elif report is None:
            address = query_address(self.engine)
            sent = f" (sends first words to {address})" if address else ""
            state = Content.styled(f"not checked yet · r rescan{sent}", fmt.MUTED)
        else:
            rule_count = len({one.rule for one in report.findings})
            clean = fmt.count(len(RULE_WORDS) - len(report.skipped) - rule_count, "rule")
            findings = fmt.count(len(report.findings), "finding")
            by = f"{findings} by {fmt.count(rule_count, 'rule')}, "
            words = f"{by if rule_count else 'nothing needs care: '}{clean} passed"
            words = words if any(report.looked_at.values()) else "no notes to check"
            words += f", {len(report.skipped)} not applied" if report.skipped else ""
            if self.filter_box.value.strip():
                shown = sum(row.id in self._by_row for row in self.findings.rows)
                words = f"{fmt.count(shown)} of {findings}"
            hint = "" if self._is_current else "checked before the last change · r rescan  "
            state = Content.assemble((hint, "$state-warn"), words)
        self.query_one("#care-state", Static).update(state)
        self.refresh_bindings()

    @on(RowList.Chosen)
    def _show_detail(self) -> None:
        report, finding, detail = self.report, self.finding, self.detail
        chosen = self.findings.chosen_id
        title = place = ""
        # On a heading the footer offers nothing to read.
        self.findings.opens = "read" if finding is not None else ""
        draw: Draw | None = None
        if finding is not None:
            title, place = RULE_WORDS[finding.rule].title, safe_line(finding.place.citation)
            draw = partial(finding_lines, finding)
        elif report is not None and chosen is not None:
            rule = CareRule(chosen.removeprefix(_HEADING))
            title, draw = RULE_WORDS[rule].title, partial(rule_lines, report, rule)
        detail.border_title, detail.border_subtitle = Content(title), Content(place)
        detail.lay_out(draw or (lambda width: []))
        self.refresh_bindings()

    def worded(self, binding: Binding) -> Binding:
        """Name what Esc does."""
        stops = binding.action == "close" and self._looking.is_running
        return replace(binding, description="stop") if stops else binding

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action != "place" or not self.is_mounted:
            return True
        finding = self.finding
        if finding is None or (parameters == ("chunk",) and not finding.place.text):
            return None
        return True if len(parameters) < 2 or finding.other else None

    @on(Input.Submitted)
    def action_to_list(self) -> None:
        self.findings.focus()

    def action_filter(self) -> None:
        self.filter_box.focus()

    @on(RowList.Opened)
    def row_opened(self) -> None:
        """Read the place of a finding over the whole width; a heading goes to its first finding."""
        if self.finding is not None:
            self.action_place("read")
        else:
            self.findings.action_move(1)

    def action_place(self, verb: str, is_other: bool = False) -> None:
        """Edit, browse, cite or show the chunk of the place, or of the one it is compared with."""
        if (finding := self.finding) is None:
            return
        if (place := finding.other if is_other else finding.place) is not None:
            act_on_place(self, verb, place.path, place.start_line, place.end_line, place.chunk_id)

    def action_finding(self, step: int, is_rule: bool = False) -> None:
        rows, at = self.findings.rows, self.findings.cursor or 0
        beyond = rows[at + 1 :] if step > 0 else rows[:at][::-1]
        ids = (row.id for row in beyond if row.id.startswith(_HEADING) is is_rule)
        if (row_id := next(ids, None)) is not None:
            self.findings.choose(row_id)

    def action_pane(self) -> None:
        (self.findings if self.detail.has_focus else self.detail).focus()

    def action_close(self) -> None:
        """Leave the filter, else stop what is looked for, else clear the filter, else go back."""
        if self.filter_box.has_focus:
            self.findings.focus()
        elif self.stop_running():
            return
        elif not self.filter_box.value:
            self.app.pop_screen()
        self.filter_box.value = ""


def by_row(findings: Sequence[CareFinding]) -> dict[str, CareFinding]:
    """Return the findings by the ids of their rows, which stay when one is worded anew."""
    rows: dict[str, CareFinding] = {}
    counts = Counter[str]()
    for finding in findings:
        place = f"{finding.rule.value} {finding.place.path}:{finding.place.start_line}"
        counts[place] += 1
        rows[f"{place} {counts[place]}"] = finding
    return rows


def care_rows(report: CareReport, words: str) -> list[Row]:
    """Return a heading for every rule, and below it those of its findings that hold all words.

    A finding holds those of its rule, its paths and its reason. Rules that found something come
    first, then those that could not be applied. With words, rules without any finding are left
    out, but for those that they name.
    """
    every: dict[CareRule, int] = defaultdict(int)
    shown: dict[CareRule, list[Row]] = defaultdict(list)

    for row_id, one in by_row(report.findings).items():
        every[one.rule] += 1
        paths = (place.path for place in one.places)
        texts = RULE_WORDS[one.rule].title, one.rule.value, one.message, *paths
        if fmt.holds_words("\n".join(texts), words):
            shown[one.rule].append(Row(row_id, partial(finding_line, one)))
    rows: list[Row] = []
    for rule in sorted(RULE_WORDS, key=lambda rule: (not every[rule], rule not in report.skipped)):
        if shown[rule] or fmt.holds_words(f"{RULE_WORDS[rule].title}\n{rule.value}", words):
            draw = partial(rule_line, report, rule, len(shown[rule]), every[rule])
            rows += [Row(_HEADING + rule.value, draw), *shown[rule]]
    return rows


def _judged_words(report: CareReport, rule: CareRule) -> str:
    """Return how much a rule judged, or why it could not be applied: `142 files checked`."""
    if rule in report.skipped:
        return f"not applied: {safe_line(report.skipped[rule])}"
    judged = report.looked_at.get(rule)
    return f"{fmt.count(judged, RULE_WORDS[rule].judged)} checked" if judged else "nothing to check"


def rule_line(report: CareReport, rule: CareRule, shown: int, total: int, width: int) -> Content:
    """Draw a heading: `! Near-duplicates  4          8,911 chunks checked`."""
    is_skipped = rule in report.skipped or not (total or report.looked_at.get(rule))
    mark, style = (glyphs.DEGRADED, "$state-warn") if total else (glyphs.PASSED, "$state-ok")
    number = f"  {fmt.count(total)}" if total else "  none"
    if total >= MOST_FINDINGS:
        number = f"  the first{number[1:]}"
    if shown != total:
        number = f"  {fmt.count(shown)} of{number[1:]}"
    if is_skipped:
        mark, style, number = glyphs.SKIPPED, fmt.MUTED, ""
    head = Content.assemble((f"{mark} ", style), (RULE_WORDS[rule].title, "bold"), number)
    aside = Content.styled(_judged_words(report, rule), fmt.MUTED)
    room = 0 if is_skipped else width - head.cell_length - aside.cell_length
    return fmt.fit(Content.assemble(head, " " * max(2, room), aside), width)


def rule_lines(report: CareReport, rule: CareRule, width: int) -> list[Content]:
    """Draw what a rule looks for, how much it judged, and why it could not be applied."""
    judged, count = _judged_words(report, rule), sum(one.rule is rule for one in report.findings)
    findings = fmt.count(count, "finding") if count else "nothing found"
    words = Content.styled(f"{judged}, {findings}", fmt.MUTED)
    if rule in report.skipped:
        words = Content.styled(f"{glyphs.SKIPPED} {judged}", "$state-warn")
    about = f"{RULE_WORDS[rule].about} {RULE_WORDS[rule].advice}"
    return [*Content(about).wrap(width), *words.wrap(width)]


def finding_line(finding: CareFinding, width: int) -> Content:
    """Draw a finding: its place, and the other place or what was found."""
    room = width - 2
    if finding.other is not None:
        relation = _RELATIONS.get(finding.rule, "and")
        half = max(8, (room - len(relation) - 4) // 2)
        first, second = (place_text(one.path, one.start_line, half) for one in finding.places)
        return Content.assemble("  ", first, (f"  {relation}  ", fmt.MUTED), second)
    place = place_text(finding.place.path, finding.place.start_line, max(8, room))
    text = " ".join(safe_line(finding.place.text).split())
    reason = f"  {safe_line(finding.message)}", (f"  {text}", fmt.MUTED)
    return fmt.fit(Content.assemble("  ", place, *reason), width)


def finding_lines(finding: CareFinding, width: int) -> list[Content]:
    """Draw what was found and what to do, then the text; with another place both side by side.

    The texts are shown as they come, which is with credentials masked.
    """
    lines = list(Content.styled(safe_line(finding.message), "bold").wrap(width))
    lines += Content.styled(RULE_WORDS[finding.rule].advice, fmt.MUTED).wrap(width)
    query = finding.numbers.get("query")
    if isinstance(query, str):
        lines += Content.assemble(("asked: ", fmt.MUTED), safe_line(query)).wrap(width)
    lines.append(Content(""))
    first, *others = (
        SideText(one.citation, one.start_line, one.text, one.end_line) for one in finding.places
    )
    if not others:
        return lines + one_text(first, width)
    compared = finding.rule is CareRule.NEAR_DUPLICATE
    return lines + two_texts(first, others[0], width, compared=compared, folded=compared)
