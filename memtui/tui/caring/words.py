"""The rules of care in words: what each is called, what it looks at, what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memtui.model.browsing import CareReport, CareRule
from memtui.tui import format as fmt


@dataclass(frozen=True, slots=True)
class RuleWords:
    """A rule: its name, what one thing that it judges is called, what it finds."""

    title: str
    judged: str
    about: str


RULES: Mapping[CareRule, RuleWords] = {
    CareRule.NEAR_DUPLICATE: RuleWords(
        "Near-duplicates",
        "chunk",
        "Chunks that say nearly the same: both take places in a list where one would do.",
    ),
    CareRule.UNREACHABLE: RuleWords(
        "Unreachable files",
        "file",
        "Files that a query by their own first words does not bring into the top k.",
    ),
    CareRule.EMPTY_FILE: RuleWords(
        "Empty files", "file", "Files without any text that could be found."
    ),
    CareRule.LONG_FILE: RuleWords(
        "Long files", "file", "Files so long that their parts compete with each other."
    ),
    CareRule.DATED_FACT: RuleWords(
        "Dated facts in undated files",
        "file",
        "Facts with a date of their own in a file that has none: they never decay.",
    ),
    CareRule.BROKEN_LINK: RuleWords("Broken links", "file", "Links to notes that are not there."),
    CareRule.LONG_LINE: RuleWords(
        "Long lines", "file", "Lines so long that a chunk is cut in the middle of them."
    ),
    CareRule.CREDENTIAL: RuleWords(
        "Credentials",
        "file",
        "Text shaped like a key or a password; it is masked here, and stands in the file as it is.",
    ),
}
"""Every rule, in the order of the screen."""


def looked_at(report: CareReport, rule: CareRule) -> str:
    """How much a rule judged, or that it could not be applied: `142 files looked at`."""
    if rule in report.skipped:
        return "not applied"
    judged = report.looked_at.get(rule)
    if judged is None:
        return "nothing looked at"
    return f"{fmt.counted(judged, RULES[rule].judged)} looked at"


def summary(report: CareReport) -> str:
    """What was found in all: `23 findings by 5 of 8 rules, 1 not applied`."""
    found = {finding.rule for finding in report.findings}
    applied = len(RULES) - len(report.skipped)
    if not report.findings:
        told = f"nothing found by {fmt.counted(applied, 'rule')}"
    else:
        findings = fmt.counted(len(report.findings), "finding")
        told = f"{findings} by {len(found)} of {fmt.counted(applied, 'rule')}"
    return f"{told}, {len(report.skipped)} not applied" if report.skipped else told
