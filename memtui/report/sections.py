"""The sections of a report that need no arithmetic: the trace, ranks, legs, passages, the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from memtui.model import Leg, Ranked, Reason, SearchMode, Stage
from memtui.model.inquiry import Inquiry, LegPlace, Outcome, Passages, TraceStep
from memtui.ranking.trace import Explanation
from memtui.report import words
from memtui.report.arithmetic import Step, place_of, steps_of
from memtui.report.model import Column, Mark, Row, Section, SectionId, Tone
from memtui.report.words import Spell

EXCERPT_LINES = 12
_FACTS = (Column("name"), Column("what"))
_FACT_WORDS: Mapping[str, str] = {
    "match": "MATCH",
    "keywords": "one by one",
    "query_vector_from": "from",
}
_MODE_WORDS: Mapping[SearchMode, str] = {
    SearchMode.HYBRID: "both legs",
    SearchMode.KEYWORD_ONLY: "the keyword leg alone, with weight 1",
    SearchMode.VECTOR_ONLY: "the vector leg alone, with weight 1",
}
_OUTCOMES: Mapping[Outcome, tuple[Mark, Tone, str]] = {
    Outcome.PASSED: (Mark.PASSED, Tone.OK, ""),
    Outcome.PUSHED_OUT: (Mark.FAILED, Tone.WARN, "pushed beyond k"),
    Outcome.MISSED: (Mark.FAILED, Tone.WARN, "missed"),
    Outcome.LOST: (Mark.FAILED, Tone.ERROR, "lost"),
    Outcome.SKIPPED: (Mark.NOT_ASKED, Tone.MUTED, "skipped"),
}
_CHUNK_IDS = frozenset({"similar_to", "duplicate_of"})


# --- the trace ----------------------------------------------------------------------------------


def trace_section(
    ranked: Ranked, inquiry: Inquiry, told: Explanation | None, spell: Spell
) -> Section:
    """One line for each station and stage; the first failure is the strong one."""
    first = inquiry.first_failure
    scores = {} if told is None else {s.at: s for s in steps_of(ranked, told, spell)}
    rows = []
    for step in inquiry.steps:
        mark, tone, outcome = _OUTCOMES[step.outcome]
        of = f" of {step.of}" if step.of is not None else ""
        rank = f"#{step.rank}{of}" if step.rank is not None else ""
        what = ", ".join(_step_words(ranked, step, scores, spell))
        told_so = ": ".join(part for part in (outcome, what) if part)
        rows.append(Row((_at(step), rank, told_so), mark, tone, step is first))
    columns = (Column("station"), Column("rank"), Column("what"))
    return Section(SectionId.TRACE, "trace", columns, tuple(rows))


def failure_words(ranked: Ranked, step: TraceStep, told: Explanation | None, spell: Spell) -> str:
    """What cost a place its rank: why, where, and what was compared there."""
    scores = {} if told is None else {s.at: s for s in steps_of(ranked, told, spell)}
    why, *compared = _step_words(ranked, step, scores, spell)
    if step.outcome is Outcome.PUSHED_OUT:
        why, compared = _OUTCOMES[step.outcome][2], [why, *compared]
    rank = f" #{step.rank}" if step.rank is not None else ""
    details = f" ({', '.join(compared)})" if compared else ""
    return f"{why}, at {_at(step)}{rank}{details}"


def _step_words(
    ranked: Ranked, step: TraceStep, scores: Mapping[Leg | Stage, Step], spell: Spell
) -> Iterator[str]:
    """The reason, then the arithmetic of a stage where there is one, else every number."""
    if step.outcome is Outcome.LOST and step.reason is Reason.OK:
        yield "out of the list"
    elif step.outcome not in (Outcome.PASSED, Outcome.PUSHED_OUT) and step.reason is not Reason.OK:
        yield words.reason_words(step.reason)
    score = scores.get(step.at) if isinstance(step.at, Stage) else None
    if score is None or score.value is None:
        yield from _compared(ranked, step, spell)
        return
    if score.before is not None:
        yield f"{spell(score.value)} = {spell(score.before)} {score.formula}"
    else:
        joint = " " if step.at is Stage.MIN_SCORE else ", "
        yield f"{spell(score.value)}{joint}{score.formula}"
    if step.other and step.other not in score.formula:
        yield f"behind {step.other}"


def _at(step: TraceStep) -> str:
    if isinstance(step.at, Stage):
        return words.STAGE_WORDS[step.at]
    return words.STATION_WORDS[step.at]


def _compared(ranked: Ranked, step: TraceStep, spell: Spell) -> Iterator[str]:
    if step.reason is not Reason.OK and step.outcome is Outcome.PASSED:
        yield words.reason_words(step.reason)
    if step.words:
        yield f"words {' '.join(step.words)}"
    for name, value in step.numbers.items():
        if value is None:
            continue
        if name not in _CHUNK_IDS:
            yield f"{name.replace('_', ' ')} {_spelled(value, spell)}"
        elif not step.other:
            yield f"{name.replace('_', ' ')} {place_of(ranked, str(value))}"
    if step.other and step.reason is not Reason.NO_FILE:
        yield step.other


def _spelled(value: float | int | str, spell: Spell) -> str:
    if isinstance(value, float) and not value.is_integer():
        return spell(value)
    return spell.number(value)


# --- the legs -----------------------------------------------------------------------------------


def legs_section(ranked: Ranked) -> Section:
    """The mode of the search, then how each leg answered and what it searched for."""
    mode = ranked.pool.search_mode
    told = f"{mode.value}: {_MODE_WORDS[mode]}, profile {ranked.ranking.profile}"
    rows = [Row(("mode", told))]
    for leg in (Leg.VECTOR, Leg.KEYWORD):
        state = ranked.pool.states.get(leg)
        if state is None:
            continue
        tone = Tone.VECTOR if leg is Leg.VECTOR else Tone.KEYWORD
        rows.append(Row((leg.value, words.leg_words(state)), None, tone))
        for name, value in state.facts.items():
            if value not in {None, ""}:
                label = _FACT_WORDS.get(name, name.replace("_", " "))
                rows.append(Row((f"  {label}", str(value)), None, Tone.MUTED))
    return Section(SectionId.LEGS, "what was searched", _FACTS, tuple(rows))


# --- ranks --------------------------------------------------------------------------------------


def ranks_section(
    ranked: Ranked, told: Explanation | None, places: Mapping[Leg, LegPlace], spell: Spell
) -> Section:
    """The rank through all stages, among all chunks of each leg, and without a stage."""
    rows = list(_ranks_told(told)) if told is not None else []
    for leg in (Leg.VECTOR, Leg.KEYWORD):
        place = places.get(leg)
        if place is not None:
            tone = Tone.VECTOR if leg is Leg.VECTOR else Tone.KEYWORD
            rows.append(
                Row((f"{leg.value}, of all", place_words(ranked, place, spell)), None, tone)
            )
    return Section(SectionId.RANKS, "ranks", _FACTS, tuple(rows))


def _ranks_told(told: Explanation) -> Iterator[Row]:
    if told.leg_ranks:
        legs = ", ".join(f"{leg} #{rank}" for leg, rank in told.leg_ranks.items())
        yield Row(("by leg", legs))
    if told.ranks:
        stages = " -> ".join(f"{words.STAGE_WORDS[stage]} #{rank}" for stage, rank in told.ranks)
        yield Row(("by stage", stages))
    for name, rank in told.without.items():
        yield Row((f"without {name}", "not shown" if rank is None else f"rank {rank}"))


def place_words(ranked: Ranked, place: LegPlace, spell: Spell) -> str:
    """Where a chunk stands in one leg among all chunks, or why that is not known."""
    if place.rank is None:
        return f"-: {words.reason_words(place.reason)}"
    keyword = place.asked and place.asked != ranked.pool.query.strip()
    by = f" (by the keyword {place.asked})" if keyword else ""
    raw = f", {spell(place.rank.raw)}" if place.rank.raw is not None else ""
    return f"#{place.rank.position + 1} of {place.rank.total}{raw}{by}"


# --- the text -----------------------------------------------------------------------------------


def passages_section(passages: Passages, spell: Spell) -> Section:
    """The passages nearest to the query, marked as what they are: an illustration."""
    model = f" by {passages.model}" if passages.model else ""
    notes = [f"an illustration{model}: the vector of the whole chunk ranks, not these"]
    if not passages.found:
        why = words.reason_words(passages.reason) if passages.reason is not Reason.OK else "none"
        notes = [f"no passages: {why}"]
    rows = tuple(
        Row((spell(found.cosine), " ".join(passages.text[found.start : found.end].split())))
        for found in passages.found
    )
    columns = (Column("cosine", right=True), Column("passage"))
    return Section(SectionId.PASSAGES, "nearest passages", columns, rows, tuple(notes))


def excerpt_section(text: str) -> Section:
    """The first lines of a chunk as the index holds it."""
    lines: Sequence[str] = text.rstrip("\n").split("\n")
    left = len(lines) - EXCERPT_LINES
    missing = f"{words.count(left, 'line')} more" if left > 0 else ""
    quoted = "\n".join(lines[:EXCERPT_LINES])
    return Section(SectionId.EXCERPT, "text", quoted=quoted, missing=missing)
