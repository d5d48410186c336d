"""The findings of a look through the memory as rows of a list and as lines of a pane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

RULE_ROW = "rule:"
"""Begins the id of a heading; a finding's id is its place in the report."""
_GAP = 2
_RELATIONS: Mapping[CareRule, str] = {CareRule.NEAR_DUPLICATE: "=", CareRule.UNREACHABLE: "behind"}
"""How a place stands to the one that it is compared with."""


def looked_at(report: CareReport, rule: CareRule) -> str:
    """Return how much a rule judged, or that it could not be applied: `142 files looked at`."""
    if rule in report.skipped:
        return "not applied"
    judged = report.looked_at.get(rule)
    if judged is None:
        return "nothing looked at"
    return f"{fmt.count(judged, RULE_WORDS[rule].judged)} looked at"


def summary(report: CareReport) -> str:
    """Return what there is in all: `23 findings by 5 of 8 rules, 1 not applied`."""
    rules = fmt.count(len(RULE_WORDS) - len(report.skipped), "rule")
    if report.findings:
        findings = fmt.count(len(report.findings), "finding")
        by = f"{findings} by {len({one.rule for one in report.findings})} of {rules}"
    else:
        by = f"nothing found by {rules}"
    return f"{by}, {len(report.skipped)} not applied" if report.skipped else by


def haystacks(findings: Sequence[CareFinding]) -> list[str]:
    """Return what the filter looks in, once for a report: rule, paths and reason in lower case."""
    return [
        "\n".join(
            (
                *(RULE_WORDS[one.rule].title, one.rule.value, one.place.path, one.message),
                one.other.path if one.other is not None else "",
            )
        ).casefold()
        for one in findings
    ]


def care_rows(
    report: CareReport, searched: Sequence[str], most: int, words: str, glyphs: Glyphs
) -> list[Row]:
    """Return a heading for every rule, and below it those of its findings that hold all words.

    `searched` are the haystacks. Rules that found something come first, then those that could not
    be applied. With words, rules without any finding are left out, but for those that they name.
    """
    parts = words.casefold().split()
    totals = dict.fromkeys(RULE_WORDS, 0)
    shown: dict[CareRule, list[Row]] = {rule: [] for rule in RULE_WORDS}
    for at, (finding, text) in enumerate(zip(report.findings, searched, strict=True)):
        totals[finding.rule] += 1
        if all(part in text for part in parts):
            shown[finding.rule].append(Row(str(at), partial(finding_line, finding)))
    rows: list[Row] = []
    for rule in sorted(RULE_WORDS, key=lambda rule: (not totals[rule], rule not in report.skipped)):
        title = f"{RULE_WORDS[rule].title}\n{rule.value}".casefold()
        if shown[rule] or all(part in title for part in parts):
            counts = (len(shown[rule]), totals[rule], most)
            draw = partial(rule_line, report, rule, counts, glyphs)
            rows += [Row(RULE_ROW + rule.value, draw), *shown[rule]]
    return rows


def rule_line(
    report: CareReport, rule: CareRule, counts: tuple[int, int, int], glyphs: Glyphs, width: int
) -> Content:
    """Draw a heading: `! Near-duplicates  4          8 911 pairs looked at`."""
    shown, total, most = counts
    judged, number, gap = looked_at(report, rule), "", _GAP
    if rule in report.skipped:
        mark, style = glyphs.skipped, fmt.MUTED
        judged = f"{judged}: {safe_line(report.skipped[rule])}"
    else:
        mark, style = (glyphs.degraded, "$state-warn") if total else (glyphs.passed, "$state-ok")
        number = fmt.count(total) if total else "none"
    if total >= most:
        number = f"the first {number}"
    if shown != total:
        number = f"{fmt.count(shown)} of {number}"
    head = Content.assemble(
        (f"{mark} ", style), (RULE_WORDS[rule].title, "bold"), f"  {number}" if number else ""
    )
    room = width - head.cell_length - _GAP
    if room < 8:
        return fmt.fit(head, width)
    aside = fmt.fit(Content.styled(judged, fmt.MUTED), room)
    if rule not in report.skipped:
        gap += room - aside.cell_length
    return Content.assemble(head, " " * gap, aside)


def finding_line(finding: CareFinding, width: int) -> Content:
    """Draw a finding: its place, and the other place or the reason."""
    room = width - 2
    if finding.other is not None:
        relation = _RELATIONS.get(finding.rule, "and")
        half = max(8, (room - len(relation) - 4) // 2)
        places = [place_text(one.path, one.start_line, half) for one in _places(finding)]
        return Content.assemble("  ", places[0], (f"  {relation}  ", fmt.MUTED), places[1])
    place = place_text(finding.place.path, finding.place.start_line, max(8, room))
    room -= place.cell_length + _GAP
    if room < 12:
        return Content.assemble("  ", place)
    reason = fmt.fit(Content.styled(safe_line(finding.message), fmt.MUTED), room)
    return Content.assemble("  ", place, " " * _GAP, reason)


def place_name(place: CarePlace) -> str:
    """Return `path#L12-L31`, safe for one line."""
    return safe_line(citation(place.path, place.start_line, place.end_line))


def finding_lines(finding: CareFinding, width: int, glyphs: Glyphs) -> list[Content]:
    """Draw the reason, then the text; with another place both texts side by side.

    The texts are shown as they come, which is with credentials masked.
    """
    lines = list(Content.styled(safe_line(finding.message), "bold").wrap(width))
    query = finding.numbers.get("query")
    if isinstance(query, str):
        lines += Content.assemble(("asked: ", fmt.MUTED), safe_line(query)).wrap(width)
    lines.append(Content(""))
    sides = [
        SideText(place_name(one), one.start_line, one.text, one.end_line)
        for one in _places(finding)
    ]
    if len(sides) == 1:
        return lines + one_text(sides[0], width)
    compared = finding.rule is CareRule.NEAR_DUPLICATE
    return lines + two_texts(sides[0], sides[1], width, glyphs, compared=compared, folded=compared)


def _places(finding: CareFinding) -> list[CarePlace]:
    return [finding.place] if finding.other is None else [finding.place, finding.other]


def rule_lines(report: CareReport, rule: CareRule, width: int, glyphs: Glyphs) -> list[Content]:
    """Draw what a rule looks for, how much it judged, and why it could not be applied."""
    lines = list(Content(RULE_WORDS[rule].about).wrap(width))
    if rule in report.skipped:
        why = f"{glyphs.skipped} not applied: {safe_line(report.skipped[rule])}"
        return lines + list(Content.styled(why, "$state-warn").wrap(width))
    count = sum(finding.rule is rule for finding in report.findings)
    number = fmt.count(count, "finding") if count else "nothing found"
    return lines + list(
        Content.styled(f"{looked_at(report, rule)}, {number}", fmt.MUTED).wrap(width)
    )
