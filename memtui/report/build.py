"""Building the report of one place of one search."""

from __future__ import annotations

from collections.abc import Iterator

from memtui.model import Hit, Ranked
from memtui.model.inquiry import TraceStep
from memtui.ranking.trace import Explanation
from memtui.report import words
from memtui.report.arithmetic import arithmetic_section
from memtui.report.changes import changes_section, words_section
from memtui.report.explained import Explained
from memtui.report.model import Report, Section
from memtui.report.sections import (
    excerpt_section,
    failure_words,
    legs_section,
    passages_section,
    ranks_section,
    trace_section,
)
from memtui.report.terms import term_sections
from memtui.report.words import Spell


def report_of(explained: Explained, *, spell: Spell = words.EXACT) -> Report:
    """Build the report; `spell` writes its scores, by default so that they can be read back."""
    return Report(
        explained.inquiry.citation,
        explained.inquiry.query,
        verdict_words(explained.ranked, explained.told, explained.inquiry.first_failure, spell),
        explained.inquiry.shown,
        tuple(section for section in _sections(explained, spell) if _says_something(section)),
    )


def verdict_words(
    ranked: Ranked, told: Explanation | None, first: TraceStep | None, spell: Spell
) -> str:
    """Whether and where a chunk is shown, else what cost it that, by which numbers."""
    scored = told.scored if told is not None else None
    if isinstance(scored, Hit):
        numbers = f"score {spell(scored.score)}, effective {spell(scored.effective)}"
        return f"SHOWN at rank {scored.rank}, {numbers}"
    if first is not None:
        return f"NOT SHOWN: {failure_words(ranked, first, told, spell)}"
    if scored is not None:
        stage = words.STAGE_WORDS[scored.stage]
        return f"NOT SHOWN: {words.reason_words(scored.reason)}, at {stage}"
    return "NOT SHOWN"


def _sections(explained: Explained, spell: Spell) -> Iterator[Section]:
    ranked, inquiry, told = explained.ranked, explained.inquiry, explained.told
    chunk = inquiry.chunk
    yield trace_section(ranked, inquiry, told, spell)
    if told is not None:
        yield arithmetic_section(ranked, told, spell)
    yield ranks_section(ranked, told, inquiry.leg_places, spell)
    if chunk is not None:
        yield from term_sections(ranked, chunk.id, inquiry.terms, spell)
    if explained.least is not None and not inquiry.shown:
        yield changes_section(
            explained.least, explained.ranking, inquiry.leg_places, in_pool=told is not None
        )
    if explained.words is not None and not inquiry.shown:
        yield words_section(explained.words)
    if explained.passages is not None:
        yield passages_section(explained.passages, spell)
    yield legs_section(ranked)
    if chunk is not None:
        yield excerpt_section(chunk.text)


def _says_something(section: Section) -> bool:
    return bool(section.rows or section.notes or section.quoted)
