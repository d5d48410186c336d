"""What is shown of one finding: the reason, and the text or both texts."""

from __future__ import annotations

from textual.content import Content

from memtui.model import citation
from memtui.model.browsing import CareFinding, CarePlace, CareReport, CareRule
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.caring.words import RULES, looked_at
from memtui.tui.glyphs import Glyphs
from memtui.tui.side_by_side import SideText, one_text, two_texts


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
    lines = list(Content(RULES[rule].about).wrap(width))
    if rule in report.skipped:
        told = f"{glyphs.skipped} not applied: {safe_line(report.skipped[rule])}"
        return lines + list(Content.styled(told, "$state-warn").wrap(width))
    count = sum(finding.rule is rule for finding in report.findings)
    found = fmt.counted(count, "finding") if count else "nothing found"
    return lines + list(
        Content.styled(f"{looked_at(report, rule)}, {found}", fmt.MUTED).wrap(width)
    )
