"""The places of transcripts as rows, and what there is to know of one."""

from __future__ import annotations

from collections import Counter

from textual.content import Content

from memtui.model.conversations import TranscriptSource
from memtui.report.words import left_out_counts
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import ASCII, Glyphs
from memtui.tui.widgets.facts import Fact
from memtui.tui.widgets.row_list import Row

SKIPPED_SHOWN = 12
_NAME = 24
_FOUND = 18


def source_row(source: TranscriptSource, is_chosen: bool, glyphs: Glyphs) -> Row:
    """Whether it is chosen, its name, and how much of what was found is indexed."""

    def draw(width: int) -> Content:
        box = f"[{'x' if is_chosen else ' '}]"
        name = fmt.fit(Content(safe_line(source.name)), max(8, min(_NAME, width // 3)))
        gap = " " * max(1, min(_NAME, width // 3) - name.cell_length)
        found = _found_words(source)
        line = Content.assemble(
            (box, "bold $primary" if is_chosen else fmt.MUTED),
            " ",
            name,
            gap,
            (f"{found:<{_FOUND}}", "" if source.found else fmt.MUTED),
            *_state_words(source, is_chosen, glyphs),
        )
        return fmt.fit(line, width)

    return Row(source.name, draw)


def _found_words(source: TranscriptSource) -> str:
    if not source.folder:
        return "no such place"
    return f"{fmt.count(source.found)} found  {fmt.size(source.size)}" if source.found else "empty"


def _state_words(
    source: TranscriptSource, is_chosen: bool, glyphs: Glyphs
) -> tuple[tuple[str, str], ...]:
    if is_chosen != source.is_indexed:
        told = "will be indexed" if is_chosen else "will be taken out of the index"
        arrow = ">" if glyphs is ASCII else "→"
        return ((f" {arrow} {told}", "$state-warn"),)
    if not source.is_indexed:
        return ((" not indexed", fmt.MUTED),)
    return ((f" {fmt.count(source.indexed)} indexed", "$state-ok"),)


def source_facts(source: TranscriptSource) -> list[Fact]:
    """What is, or would be, indexed; how much; what is left out and why, by name."""
    facts: list[Fact] = [("index", Content(safe_line(source.detail)))] if source.detail else []
    if source.folder:
        facts.append(("folder", Content(fmt.home_relative(source.folder))))
    if source.is_indexed:
        held = (
            f"{fmt.counted(source.indexed, 'conversation')}, "
            f"{fmt.counted(source.messages, 'message')}, {fmt.counted(source.chunks, 'chunk')}"
        )
        facts.append(("holds", Content(held)))
    if not source.records_calls:
        facts.append(("tools", Content("Does not record what tools were asked.")))
    if source.left_out:
        told = ", ".join(
            f"{why} {fmt.count(number)}" for why, number in left_out_counts(source.left_out)
        )
        facts.append(("left out", Content(told)))
    if source.malformed:
        lines = f"{fmt.counted(source.malformed, 'line')} that are no record"
        facts.append(("malformed", Content.styled(lines, "$state-warn")))
    return [*facts, *_skipped(source)]


def _skipped(source: TranscriptSource) -> list[Fact]:
    if not source.skipped:
        return []
    counts = Counter(file.reason for file in source.skipped)
    told = "; ".join(f"{fmt.reason_words(why)} {fmt.count(n)}" for why, n in counts.most_common())
    facts: list[Fact] = [("skipped", Content(told))]
    for file in source.skipped[:SKIPPED_SHOWN]:
        why = safe_line(file.detail) or fmt.reason_words(file.reason)
        facts.append(("", Content.assemble(safe_line(file.path), (f"  {why}", fmt.MUTED))))
    more = len(source.skipped) - SKIPPED_SHOWN
    if more > 0:
        facts.append(("", Content.styled(f"and {fmt.count(more)} more", fmt.MUTED)))
    return facts
