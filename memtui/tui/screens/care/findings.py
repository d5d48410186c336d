"""The findings of a look in words and rows: rules, headings, places, texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from textual.content import Content

from memtui.model import citation
from memtui.model.browsing import CareFinding, CarePlace, CareReport, CareRule
from memtui.report.words import RULE_WORDS
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import Glyphs
from memtui.tui.side_by_side import SideText, one_text, two_texts
from memtui.tui.widgets.result_rows import place_text
from memtui.tui.widgets.row_list import Row


def looked_at(report: CareReport, rule: CareRule) -> str:
    """How much a rule judged, or that it could not be applied: `142 files looked at`."""
    if rule in report.skipped:
        return "not applied"
    judged = report.looked_at.get(rule)
    if judged is None:
        return "nothing looked at"
    return f"{fmt.counted(judged, RULE_WORDS[rule].judged)} looked at"


def summary(report: CareReport) -> str:
    """What was found in all: `23 findings by 5 of 8 rules, 1 not applied`."""
    found = {finding.rule for finding in report.findings}
    applied = len(RULE_WORDS) - len(report.skipped)
    if not report.findings:
        told = f"nothing found by {fmt.counted(applied, 'rule')}"
    else:
        findings = fmt.counted(len(report.findings), "finding")
        told = f"{findings} by {len(found)} of {fmt.counted(applied, 'rule')}"
    return f"{told}, {len(report.skipped)} not applied" if report.skipped else told


RULE_ROW = "rule:"
"""Begins the id of a heading; a finding's id is its place in the report."""
_GAP = 2
_RELATIONS: Mapping[CareRule, str] = {CareRule.NEAR_DUPLICATE: "=", CareRule.UNREACHABLE: "behind"}
"""How a place stands to the one that it is compared with."""


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding's row, and what the filter looks in: rule, paths and reason in lower case."""

    rule: CareRule
    text: str
    row: Row


def finding_rows(findings: Sequence[CareFinding]) -> tuple[FindingRow, ...]:
    """The row of every finding; made once for a report."""
    return tuple(
        FindingRow(finding.rule, _haystack(finding), Row(str(at), partial(finding_line, finding)))
        for at, finding in enumerate(findings)
    )


def _haystack(finding: CareFinding) -> str:
    rule, other = finding.rule, finding.other
    parts = (RULE_WORDS[rule].title, rule.value, finding.place.path, finding.message)
    return "\n".join((*parts, other.path if other is not None else "")).casefold()


def care_rows(
    report: CareReport, findings: Sequence[FindingRow], most: int, wanted: str, glyphs: Glyphs
) -> list[Row]:
    """A heading for every rule, below it those of its findings that hold every word of `wanted`.

    Rules that found something come first, then those that could not be applied.
    While there is a filter, rules without any are left out, but for those that it names.
    """
    words = wanted.casefold().split()
    totals = Counter(one.rule for one in findings)
    shown: dict[CareRule, list[Row]] = {rule: [] for rule in RULE_WORDS}
    for one in findings:
        if all(word in one.text for word in words):
            shown[one.rule].append(one.row)
    rows: list[Row] = []
    order = sorted(RULE_WORDS, key=lambda rule: (not totals[rule], rule not in report.skipped))
    for rule in order:
        found = shown[rule]
        if words and not found and not _names(rule, words):
            continue
        draw = partial(rule_line, report, rule, (len(found), totals[rule], most), glyphs)
        rows += [Row(RULE_ROW + rule.value, draw), *found]
    return rows


def _names(rule: CareRule, words: Sequence[str]) -> bool:
    title = f"{RULE_WORDS[rule].title}\n{rule.value}".casefold()
    return all(word in title for word in words)


def rule_line(
    report: CareReport, rule: CareRule, counts: tuple[int, int, int], glyphs: Glyphs, width: int
) -> Content:
    """A heading: `! Near-duplicates  4          8 911 pairs looked at`."""
    shown, total, most = counts
    is_skipped = rule in report.skipped
    if is_skipped:
        mark, style = glyphs.skipped, fmt.MUTED
    elif total:
        mark, style = glyphs.degraded, "$state-warn"
    else:
        mark, style = glyphs.passed, "$state-ok"
    number = "" if is_skipped else "none" if not total else fmt.count(total)
    if total >= most:
        number = f"the first {number}"
    if shown != total:
        number = f"{fmt.count(shown)} of {number}"
    head = Content.assemble(
        (f"{mark} ", style), (RULE_WORDS[rule].title, "bold"), f"  {number}" if number else ""
    )
    told = looked_at(report, rule)
    if is_skipped:
        told = f"{told}: {safe_line(report.skipped[rule])}"
    room = width - head.cell_length - _GAP
    if room < 8:
        return fmt.fit(head, width)
    aside = fmt.fit(Content.styled(told, fmt.MUTED), room)
    gap = _GAP + room - aside.cell_length
    return Content.assemble(head, " " * (_GAP if is_skipped else gap), aside)


def finding_line(finding: CareFinding, width: int) -> Content:
    """A finding: its place, the other place or the reason."""
    indent = "  "
    if finding.other is not None:
        relation = _RELATIONS.get(finding.rule, "and")
        half = max(8, (width - len(indent) - len(relation) - 4) // 2)
        return Content.assemble(
            indent,
            _place(finding.place, half),
            (f"  {relation}  ", fmt.MUTED),
            _place(finding.other, half),
        )
    place = _place(finding.place, max(8, width - len(indent)))
    room = width - len(indent) - place.cell_length - _GAP
    if room < 12:
        return Content.assemble(indent, place)
    reason = fmt.fit(Content.styled(safe_line(finding.message), fmt.MUTED), room)
    return Content.assemble(indent, place, " " * _GAP, reason)


def _place(place: CarePlace, width: int) -> Content:
    return place_text(place.path, place.start_line, width)


def place_name(place: CarePlace) -> str:
    """`path#L12-L31`, safe for one line."""
    return safe_line(citation(place.path, place.start_line, place.end_line))


def finding_lines(finding: CareFinding, width: int, glyphs: Glyphs) -> list[Content]:
    """The reason, then the text; with another place both texts side by side.

    The texts are shown as they come, which is with credentials masked.
    """
    lines = list(Content.styled(safe_line(finding.message), "bold").wrap(width))
    query = finding.numbers.get("query")
    if isinstance(query, str):
        head = Content.styled("asked: ", fmt.MUTED)
        lines += Content.assemble(head, safe_line(query)).wrap(width)
    lines.append(Content(""))
    if finding.other is None:
        return lines + one_text(_side(finding.place), width)
    compared = finding.rule is CareRule.NEAR_DUPLICATE
    sides = _side(finding.place), _side(finding.other)
    return lines + two_texts(*sides, width, glyphs, compared=compared, folded=compared)


def _side(place: CarePlace) -> SideText:
    return SideText(place_name(place), place.start_line, place.text, place.end_line)


def rule_lines(report: CareReport, rule: CareRule, width: int, glyphs: Glyphs) -> list[Content]:
    """What a rule looks for, how much it judged, and why it could not be applied."""
    lines = list(Content(RULE_WORDS[rule].about).wrap(width))
    if rule in report.skipped:
        told = f"{glyphs.skipped} not applied: {safe_line(report.skipped[rule])}"
        return lines + list(Content.styled(told, "$state-warn").wrap(width))
    count = sum(finding.rule is rule for finding in report.findings)
    found = fmt.counted(count, "finding") if count else "nothing found"
    return lines + list(
        Content.styled(f"{looked_at(report, rule)}, {found}", fmt.MUTED).wrap(width)
    )
