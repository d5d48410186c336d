"""`memtui care`: what needs care, by rule, with both texts side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, zip_longest
from typing import Any

from memtui.cli.invocation import Invocation
from memtui.cli.output import Output
from memtui.cli.session import open_reading
from memtui.model import citation
from memtui.model.browsing import CareFinding, CarePlace, CareReport, CareRule
from memtui.report import words
from memtui.report.documents import care_entry

EXIT_NOTHING, EXIT_FOUND = 0, 1
_BOLD = 1
_LINES = 8
_INDENT = 4
_BETWEEN = " | "
_NAMES: Mapping[CareRule, str] = {
    CareRule.NEAR_DUPLICATE: "near-duplicates",
    CareRule.UNREACHABLE: "files that their own first words do not bring up",
    CareRule.EMPTY_FILE: "empty files",
    CareRule.LONG_FILE: "long files",
    CareRule.DATED_FACT: "dated facts in notes without a date",
    CareRule.BROKEN_LINK: "broken links",
    CareRule.LONG_LINE: "long lines",
    CareRule.CREDENTIAL: "text shaped like credentials",
}


def run_care(invocation: Invocation, options: Mapping[str, Any]) -> int:
    """Print what needs care; 1 when something does, 0 when nothing does."""
    chosen = {CareRule(rule) for rule in options["rules"]} or set(CareRule)
    output = invocation.output(raw=options["raw"])
    with open_reading(invocation) as session:
        report = session.engine.browse.care(
            progressed=lambda done, total: output.progress(f"care: {100 * done // total} %")
        )
        output.progress("")
    report = CareReport(
        tuple(finding for finding in report.findings if finding.rule in chosen),
        {rule: count for rule, count in report.looked_at.items() if rule in chosen},
        {rule: why for rule, why in report.skipped.items() if rule in chosen},
    )
    if invocation.json:
        output.document(care_entry(report))
    else:
        _print(output, report)
    return EXIT_FOUND if report.findings else EXIT_NOTHING


def _print(output: Output, report: CareReport) -> None:
    for rule, group in groupby(report.findings, lambda finding: finding.rule):
        findings = list(group)
        output.line(output.styled(f"{_NAMES[rule]} ({rule}): {len(findings)}", _BOLD))
        for finding in findings:
            output.line(output.clean(f"  {place_words(finding.place)}: {finding.message}"))
            for line in _texts(finding, output.width()):
                output.line(" " * _INDENT + output.clean(line))
        output.line()
    for rule, why in report.skipped.items():
        output.note(f"memtui: {rule} was not looked for: {why}")
    if not report.findings:
        looked = max(report.looked_at.values(), default=0)
        output.note(f"nothing needs care, of {looked:,} that were looked at")


def place_words(place: CarePlace) -> str:
    """Where a finding is, as a citation."""
    return citation(place.path, place.start_line, place.end_line)


def _texts(finding: CareFinding, width: int) -> Iterator[str]:
    room = width - _INDENT
    if finding.other is None:
        yield from wrapped(finding.place.text, room, _LINES // 2)
        return
    half = (room - len(_BETWEEN)) // 2
    heads = (place_words(finding.place), place_words(finding.other))
    left, right = (
        [words.ending(head, half), *wrapped(place.text, half, _LINES)]
        for head, place in zip(heads, (finding.place, finding.other), strict=True)
    )
    for first, second in zip_longest(left, right, fillvalue=""):
        yield f"{words.padded(first, half)}{_BETWEEN}{second}".rstrip()


def wrapped(text: str, width: int, most: int) -> Sequence[str]:
    """The first lines of a text, each of at most `width` cells; blank lines are left out."""
    from memtui.text.sanitize import safe_line

    lines: list[str] = []
    for line in text.split("\n"):
        # What is made safe may be wider than it was.
        rest = safe_line(line).rstrip()
        while rest:
            if len(lines) == most:
                lines[-1] = lines[-1][: words.fitting(lines[-1], width - 1)] + "…"
                return lines
            end = words.fitting(rest, width) or 1
            cut = rest.rfind(" ", width // 2, end + 1) if end < len(rest) else end
            cut = end if cut <= 0 else cut
            lines.append(rest[:cut].rstrip())
            rest = rest[cut:].lstrip()
    return lines
