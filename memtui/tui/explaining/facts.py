"""Everything about a chunk of the pool that is not a bar: ranks, formulas, what it is alike."""

from __future__ import annotations

from textual.content import Content

from memtui.model import Hit, Leg, LegState, LegStatus, Ranked, Stage
from memtui.ranking.trace import Explanation, stage_score
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.arithmetic import date_note, decay_curve, mmr_penalty
from memtui.tui.glyphs import ASCII, Glyphs
from memtui.tui.widgets.facts import Fact

LABEL = 13
"""Cells of the labels."""
BOOSTED = "boosted by"
_SHARED_WORDS = 14
_SENT = (
    ("MATCH sent", "match"),
    ("substrings", "substrings"),
    (BOOSTED, "keywords"),
    ("stop words", "stop_words"),
    ("pruned", "pruned"),
    ("tokenizer", "tokenizer"),
)
"""What the keyword leg tells about a query, with its label."""


def facts_of(ranked: Ranked, explanation: Explanation, glyphs: Glyphs) -> list[Fact]:
    """The query, the ranks, the formulas of decay and MMR, and the most similar result."""
    facts: list[Fact] = [("query", Content(safe_line(ranked.pool.query)))]
    facts += _rank_facts(explanation, glyphs)
    facts += _formula_facts(explanation)
    facts += _similar_facts(explanation)
    return facts


def sent_facts(ranked: Ranked, explanation: Explanation | None) -> list[Fact]:
    """What the keyword leg was asked, and the words by which it found this chunk."""
    facts: list[Fact] = []
    part = explanation.scored.legs.get(Leg.KEYWORD) if explanation is not None else None
    if part is not None and part.terms:
        facts.append(("words found", Content(safe_line(", ".join(part.terms)))))
    state = ranked.pool.states.get(Leg.KEYWORD)
    for label, key in _SENT:
        value = state.facts.get(key) if state is not None else None
        if value:
            facts.append((label, Content(safe_line(str(value)))))
    return facts


def leg_fact(ranked: Ranked, leg: Leg, glyphs: Glyphs) -> Content:
    """How a leg answered: `✓ ok  8 hits  4 ms  matrix  minilm`."""
    state = ranked.pool.states.get(leg)
    if state is None:
        return Content.styled("not asked", fmt.MUTED)
    marks = {
        LegStatus.OK: glyphs.passed,
        LegStatus.SKIPPED: glyphs.no_index,
        LegStatus.PENDING: glyphs.ellipsis,
        LegStatus.FAILED: glyphs.error,
    }
    head, *rest = _state_parts(ranked, leg, state)
    head = f"{marks[state.status]} {head}"
    return Content.assemble(
        (head, fmt.LEG_STATUS_STYLES[state.status]), *(f"  {part}" for part in rest)
    )


def _state_parts(ranked: Ranked, leg: Leg, state: LegState) -> list[str]:
    parts = [state.status.value]
    if state.status is not LegStatus.OK:
        parts.append(fmt.leg_reason(state))
    if state.detail and safe_line(state.detail) not in parts:
        parts.append(safe_line(state.detail))
    parts.append(fmt.counted(len(ranked.pool.hits.get(leg, ())), "hit"))
    if state.status is LegStatus.OK:
        parts.append(fmt.duration(state.elapsed_ms / 1000))
    parts += [
        safe_line(str(state.facts[name]))
        for name in ("backend", "provider", "model", "query_vector_from")
        if state.facts.get(name)
    ]
    return parts


def _rank_facts(explanation: Explanation, glyphs: Glyphs) -> list[Fact]:
    """The rank in each leg, then after every stage that can move a chunk."""
    shown = isinstance(explanation.scored, Hit)
    stages = [pair for pair in explanation.ranks if not (shown and pair[0] is Stage.CUT)]
    legs = Content("  ").join(_rank(leg, rank) for leg, rank in explanation.leg_ranks.items())
    after = [_rank(fmt.STAGE_WORDS[stage], rank) for stage, rank in stages]
    path = Content.styled(f"  {glyphs.arrow}  ", fmt.MUTED).join(
        [*([legs] if legs else []), *after]
    )
    spark = fmt.sparkline([rank for _, rank in stages]) if glyphs is not ASCII else ""
    if spark:
        path = Content.assemble(path, "   ", (spark, "$accent"))
    return [("ranks", path)] if path else []


def _rank(word: str, rank: int) -> Content:
    return Content.assemble(f"{word} ", (fmt.rank(rank), "bold"))


def _formula_facts(explanation: Explanation) -> list[Fact]:
    scored = explanation.scored
    facts: list[Fact] = []
    decay = stage_score(scored, Stage.DECAY)
    if decay is not None:
        facts.append(("date", Content(safe_line(date_note(decay)))))
        if decay.numbers.get("age_days") is not None:
            factor = fmt.score(decay.operand if decay.operand is not None else 1.0)
            facts.append(("decay", Content(f"{factor} = {decay_curve(decay)}")))
    mmr = stage_score(scored, Stage.MMR)
    if mmr is not None and mmr.numbers.get("similar_to") is not None and mmr.operand is not None:
        facts.append(("mmr", Content(f"{fmt.score(mmr.operand)} = {mmr_penalty(mmr)}")))
    return facts


def _similar_facts(explanation: Explanation) -> list[Fact]:
    similar = explanation.similar
    if similar is None:
        return []
    ordered = sorted(similar.shared, key=lambda word: (word[:1].isdigit(), word))
    words = [safe_line(word) for word in ordered[:_SHARED_WORDS]]
    more = len(similar.shared) - len(words)
    tail = f" and {fmt.count(more)} more" if more > 0 else ""
    alike = f"{safe_line(similar.citation)}  {fmt.number(similar.similarity)} Jaccard"
    shared = Content.styled(f"shared: {', '.join(words)}{tail}", fmt.MUTED)
    return [("most similar", Content(alike)), ("", shared)]
