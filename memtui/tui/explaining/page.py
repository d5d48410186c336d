"""The sections of an explanation: what each shows of what is known so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from textual.content import Content

from memtui.model import Chunk, Hit, Leg, Ranked, Ranking
from memtui.model.inquiry import Inquiry, LegPlace, Place
from memtui.ranking.trace import Explanation, explain
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.arithmetic import axis, raw_score, steps_of
from memtui.tui.explaining.facts import BOOSTED, LABEL, facts_of, leg_fact, sent_facts
from memtui.tui.explaining.findings import Findings, Part, Subject
from memtui.tui.explaining.least_lines import least_lines
from memtui.tui.explaining.lines import heading, joined, pending, problem
from memtui.tui.explaining.passage_lines import (
    SHOWN,
    illustration_note,
    passage_lines,
    text_lines,
    text_note,
)
from memtui.tui.explaining.term_table import keyword_lines
from memtui.tui.explaining.trace_lines import trace_lines
from memtui.tui.explaining.wording import verdict_of
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.verdicts import counterfactuals, place
from memtui.tui.widgets.facts import fact_lines
from memtui.tui.widgets.result_list import query_terms
from memtui.tui.widgets.waterfall import waterfall_lines

COPY_WIDTH = 96
_AMONG = {Leg.KEYWORD: "that match", Leg.VECTOR: "in the index"}


@dataclass(frozen=True, slots=True)
class Page:
    """One subject of one result list, with what is known about it."""

    ranked: Ranked
    subject: Subject
    glyphs: Glyphs = UNICODE
    explanation: Explanation | None = None
    """`None` for what is not in the pool."""
    findings: Findings = field(default_factory=Findings)
    ranking: Ranking | None = None
    """What `ranked` was asked with; `None`: what ran."""

    @property
    def inquiry(self) -> Inquiry | None:
        """What the engine says, once it is known."""
        return self.findings.inquiry

    @property
    def chunk(self) -> Chunk | None:
        """The chunk, where there is one and it is known."""
        if self.explanation is not None:
            return self.explanation.scored.chunk
        return self.inquiry.chunk if self.inquiry is not None else None

    @property
    def shown(self) -> bool:
        """Whether it is in the list."""
        if self.explanation is not None:
            return isinstance(self.explanation.scored, Hit)
        return self.inquiry is not None and self.inquiry.shown

    @property
    def is_chunk(self) -> bool:
        """Whether there is a chunk that the legs can say something about."""
        return self.chunk is not None or isinstance(self.subject, str)

    def title(self) -> Content:
        """The place, and its rank or that it is not shown."""
        count = len(self.ranked.hits)
        if self.explanation is None and self.inquiry is None:
            where = self.glyphs.ellipsis
        elif self.explanation is not None and isinstance(self.explanation.scored, Hit):
            where = f"{self.explanation.scored.rank} of {count}"
        else:
            where = "not shown"
        return Content.assemble("Explain  ", (self.named(), "bold"), f"  {where}")

    def named(self) -> str:
        """How the subject is written."""
        if self.chunk is not None:
            return place(self.chunk)
        return safe_line(str(self.subject)) if isinstance(self.subject, Place) else "a chunk"

    def verdict(self) -> Content:
        """Whether and where it is shown, and where it would be under other settings."""
        scored = self.explanation.scored if self.explanation is not None else None
        told = verdict_of(self.ranked, scored, self.inquiry)
        if not told:
            failed = self.findings.problems.get(Part.INQUIRY)
            if failed is not None:
                return Content.styled(f"{self.glyphs.error} {failed}", "$state-error")
            return pending(self.glyphs, "looking for it in the index")
        others = ""
        if self.explanation is not None:
            others = counterfactuals(self.explanation.without, self.explanation.rank)
        style = f"bold ${'state-ok' if self.shown else 'state-warn'}"
        return Content.assemble((told + ".", style), f"  {others}" if others else "")

    # --- sections -------------------------------------------------------------------------------

    def trace(self, width: int) -> list[Content]:
        """Every step of what is not shown; nothing for a result."""
        if self.shown:
            return []
        waiting = Part.INQUIRY in self.findings.due
        lines = [heading("Trace", width, self.glyphs, "first failure bold")]
        scored = self.explanation.scored if self.explanation is not None else None
        lines += trace_lines(self.ranked, scored, self.inquiry, width, self.glyphs, waiting=waiting)
        if (told := self.findings.problems.get(Part.INQUIRY)) is not None:
            lines += problem(self.glyphs, told, width)
        return [*lines, Content("")] if len(lines) > 1 else []

    def least(self, width: int) -> list[Content]:
        """What would bring it in, without a chosen line; nothing for a result."""
        if not self.offers_changes:
            return []
        return [line.content for line in least_lines(self.findings, None, width, self.glyphs)]

    @property
    def offers_changes(self) -> bool:
        """Whether changes are there, are being looked for, or could not be found out."""
        found, parts = self.findings, {Part.LEAST, Part.WORDS}
        known = found.least is not None or found.words is not None
        return not self.shown and (known or bool(parts & (found.due | set(found.problems))))

    def keyword(self, width: int) -> list[Content]:
        """The keyword leg: how it answered, then every term; nothing for a place without chunk."""
        if not self.is_chunk:
            return []
        terms = self.inquiry.terms if self.inquiry is not None else None
        lines = self._leg_head(Leg.KEYWORD, width)
        sent = sent_facts(self.ranked, self.explanation)
        if terms is not None:
            lines += keyword_lines(terms, width, self.glyphs)
            boosted = [fact for fact in sent if fact[0] == BOOSTED]
            return lines + fact_lines(boosted, width, LABEL)
        lines += fact_lines(sent, width, LABEL)
        if Part.INQUIRY in self.findings.due:
            lines.append(pending(self.glyphs, "the terms"))
        return lines

    def vector(self, width: int) -> list[Content]:
        """The vector leg: cosine, rank among all, nearest passages."""
        if not self.is_chunk:
            return []
        lines = self._leg_head(Leg.VECTOR, width)
        passages = self.findings.passages
        note = Content.styled(illustration_note(passages), fmt.MUTED)
        lines.append(fmt.fit(joined(["nearest passages", note]), width))
        if (told := self.findings.problems.get(Part.PASSAGES)) is not None:
            found = problem(self.glyphs, told, width)
        elif passages is not None:
            found = passage_lines(passages, width, self.glyphs)
        elif Part.PASSAGES in self.findings.due:
            found = [pending(self.glyphs, "comparing sentence by sentence")]
        else:
            return lines[:-1]
        return lines + found + [Content("")] * max(0, SHOWN - len(found))

    def text(self, width: int) -> list[Content]:
        """The text of the chunk."""
        chunk = self.chunk
        if chunk is None:
            return []
        passages = self.findings.passages
        head = heading("Text as indexed", width, self.glyphs, text_note(passages))
        return [head, *text_lines(chunk.text, query_terms(self.ranked), passages, width)]

    def _leg_head(self, leg: Leg, width: int) -> list[Content]:
        name = f"{leg.value.capitalize()} leg"
        lines = [heading(name, width, self.glyphs)]
        lines += leg_fact(self.ranked, leg, self.glyphs).wrap(width)
        return lines + self._standing(leg, width)

    def _standing(self, leg: Leg, width: int) -> list[Content]:
        """What the index says of the chunk, and its rank among all chunks."""
        parts: list[Content | str] = []
        part = self.explanation.scored.legs.get(leg) if self.explanation is not None else None
        place_ = self.inquiry.leg_places.get(leg) if self.inquiry is not None else None
        if part is not None:
            parts.append(Content.styled(raw_score(leg, part), "bold"))
        elif place_ is not None and place_.rank is not None and place_.rank.raw is not None:
            raw = fmt.number(place_.rank.raw, 3)
            parts.append(Content.styled(f"{fmt.LEG_UNITS[leg]} {raw}", "bold"))
        if place_ is not None:
            parts.append(_place_words(self.ranked, leg, place_))
        elif Part.INQUIRY in self.findings.due:
            parts.append(pending(self.glyphs, "rank among all chunks"))
        told = joined(parts)
        return list(told.wrap(width)) if told else []


def page_of(
    ranked: Ranked,
    subject: Subject,
    glyphs: Glyphs = UNICODE,
    findings: Findings | None = None,
    ranking: Ranking | None = None,
) -> Page:
    """The page of a subject with what the ranking knows, and what was found out beside it."""
    found = findings or Findings()
    chunk_id = subject if isinstance(subject, str) else None
    if chunk_id is None and found.inquiry is not None and found.inquiry.chunk is not None:
        chunk_id = found.inquiry.chunk.id
    told = explain(ranked, chunk_id) if chunk_id in ranked.pool.chunks and chunk_id else None
    return Page(ranked, subject, glyphs, told, found, ranking)


def page_text(page: Page, width: int = COPY_WIDTH) -> str:
    """The explanation as plain text, for a message or a bug report."""
    lines = [page.title(), *page.verdict().wrap(width), Content(""), *page.trace(width)]
    if page.explanation is not None:
        steps = steps_of(page.ranked, page.explanation.scored)
        lines += waterfall_lines(steps, axis(page.ranked), width, page.glyphs)
        lines.append(Content(""))
        lines += fact_lines(facts_of(page.ranked, page.explanation, page.glyphs), width, LABEL)
    for section in (page.least(width), page.keyword(width), page.vector(width)):
        lines += [Content(""), *section] if section else []
    return "\n".join(line.plain.rstrip() for line in lines) + "\n"


def _place_words(ranked: Ranked, leg: Leg, place_: LegPlace) -> Content:
    if place_.rank is None:
        return Content.styled(f"no rank: {fmt.reason_words(place_.reason)}", "$state-warn")
    rank = place_.rank
    by = ""
    if place_.asked and place_.asked != ranked.pool.query.strip():
        by = f" by the keyword {safe_line(place_.asked)}"
    return Content.assemble(
        (fmt.rank(rank.position + 1), "bold"),
        (f" of {fmt.counted(rank.total, 'chunk')} {_AMONG[leg]}{by}", fmt.MUTED),
    )
