"""The arithmetic of one score, step by step: every number is read from the trace.

The why panel, the explain screen, the comparison of two results and every export show these steps,
so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise

from msgspec import Struct

from memtui.model import (
    Chunk,
    Drop,
    Fusion,
    Hit,
    Leg,
    LegScore,
    LegStatus,
    Operation,
    Ranked,
    Reason,
    ScoreMapping,
    SearchMode,
    Stage,
    StageScore,
    citation,
)
from memtui.ranking.trace import Explanation
from memtui.report import words
from memtui.report.layout import Column, Extent, Mark, Row, Section, SectionId, Tone
from memtui.report.words import MINUS, Spell
from memtui.text.sanitize import safe_line

LEGS = (Leg.VECTOR, Leg.KEYWORD)
_TONES: Mapping[Leg | Stage, Tone] = {
    Leg.VECTOR: Tone.VECTOR,
    Leg.KEYWORD: Tone.KEYWORD,
    Stage.FUSION: Tone.PLAIN,
    Stage.DECAY: Tone.DECAY,
    Stage.DEDUP: Tone.DECAY,
    Stage.MIN_SCORE: Tone.DECAY,
    Stage.CUT: Tone.DECAY,
    Stage.MMR: Tone.MMR,
}
"""Every other stage puts another score in the place of the sum."""
_TIER_WORDS: Mapping[int, str] = {3: "its path", 2: "its file name", 1: "its bare name"}
_SHARED_WORDS = 14


class ScoreStep(Struct, frozen=True):
    """One line of the arithmetic."""

    kind: Leg | Stage
    sign: str
    """The sign of its effect on the score: `+ = × − →` or empty."""
    value: float | None
    """The score after the step, or the leg's contribution; `None` when there is none."""
    rank: int | None
    formula: str
    """The numbers that make `value`: `0.3 × 0.920`."""
    note: str = ""
    """The origin of the numbers: `min-max of cos 0.431`."""
    brief: str = ""
    """The same for narrow places."""
    extent: Extent | None = None
    """The part of the axis that the step adds or takes away."""
    failed: bool = False
    """True if this is the step that lost the chunk."""

    @property
    def word(self) -> str:
        """The name of the leg or the stage."""
        return words.step_name(self.kind)

    @property
    def tone(self) -> Tone:
        """The meaning of its colour."""
        return _TONES.get(self.kind, Tone.RERANK)


def arithmetic_section(ranked: Ranked, explanation: Explanation, spell: Spell) -> Section:
    """The waterfall of one chunk of the pool, from the raw values to the last stage."""
    rows = []
    for step in score_steps(ranked, explanation.scored, spell):
        cells = (
            f"{step.sign:<2}{step.word}",
            "" if step.value is None else spell(step.value),
            "" if step.rank is None else words.rank(step.rank),
            "  ".join(filter(None, (step.formula, step.note))),
        )
        mark, tone = None, step.tone if step.value is not None else Tone.MUTED
        if step.failed:
            mark, tone = Mark.FAILED, Tone.ERROR
        rows.append(Row(cells, mark, tone, extent=step.extent))
    columns = (Column("step"), Column("score", right=True), Column("rank"), Column("arithmetic"))
    notes: tuple[str, ...] = ()
    if (similar := explanation.similar) is not None:
        ordered = sorted(similar.shared, key=lambda word: (word[:1].isdigit(), word))
        more = len(ordered) - _SHARED_WORDS
        tail = f" and {words.count(more)} more" if more > 0 else ""
        shared = f": {', '.join(ordered[:_SHARED_WORDS])}{tail}" if ordered else ""
        jaccard = spell.number(similar.similarity)
        notes = (f"most like {similar.citation}, Jaccard {jaccard}{shared}",)
    return Section(
        SectionId.ARITHMETIC, "arithmetic", columns, tuple(rows), notes, axis=axis(ranked)
    )


def score_steps(
    ranked: Ranked, scored: Hit | Drop, spell: Spell = words.SHORT
) -> tuple[ScoreStep, ...]:
    """Spell out the score of a hit or a near miss of `ranked`, first the legs, then the stages."""
    steps: list[ScoreStep] = []
    start = 0.0
    for leg in LEGS:
        sign = "+" if leg is Leg.KEYWORD and Leg.VECTOR in scored.legs else ""
        if (part := scored.legs.get(leg)) is None:
            why, brief = _absence(ranked, leg, scored.chunk)
            steps.append(ScoreStep(leg, sign, None, None, why, brief=brief))
            continue
        end = start + part.contribution
        formula = f"{spell.number(part.weight)} × {spell(part.mapped)}"
        note, brief = _leg_words(ranked, scored.chunk.id, leg, part, spell)
        extent: Extent | None = Extent(min(start, end), max(start, end))
        rank = part.position + 1
        steps.append(ScoreStep(leg, sign, part.contribution, rank, formula, note, brief, extent))
        start = end
    for stage in scored.stages:
        is_lost = isinstance(scored, Drop) and stage.stage is scored.stage
        if (about := _stage_words(ranked, stage, is_lost, spell)) is None:
            continue
        before, after = stage.before, stage.after
        extent = None
        if stage.operation in (Operation.MULTIPLY, Operation.SUBTRACT):
            extent = Extent(min(before, after), max(before, after))
        elif stage.operation is not Operation.KEEP and after > 0:
            extent = Extent(0.0, after)
        sign, formula, note, brief = about
        steps.append(
            ScoreStep(stage.stage, sign, after, stage.rank, formula, note, brief, extent, is_lost)
        )
    return tuple(steps)


def axis(ranked: Ranked) -> float:
    """The right end of the axis: the largest value any step of the shown results reaches."""
    scored: list[Hit | Drop] = [*ranked.hits, *ranked.drops[:1]]
    largest = max((stage.after for one in scored for stage in one.stages), default=0.0)
    return largest if largest > 0 else 1.0


def place_of(ranked: Ranked, chunk_id: object) -> str:
    """The citation of a chunk of the pool, safe for one line."""
    chunk = ranked.pool.chunks.get(chunk_id) if isinstance(chunk_id, str) else None
    return "another chunk" if chunk is None else place(chunk)


def place(chunk: Chunk) -> str:
    """The citation of a chunk, safe for one line."""
    return safe_line(citation(chunk.path, chunk.start_line, chunk.end_line))


def _absence(ranked: Ranked, leg: Leg, chunk: Chunk) -> tuple[str, str]:
    """Return why a leg says nothing about a chunk: in full, and for narrow places."""
    state = ranked.pool.states.get(leg)
    if state is not None and state.status is not LegStatus.OK:
        why = words.leg_reason(state)
        pending = state.status is LegStatus.PENDING
        return why, why if pending else words.reason_words(state.reason)
    searched = state.facts.get("model") if state is not None and leg is Leg.VECTOR else None
    why = "not found by this leg"
    if searched and chunk.model and chunk.model != searched:
        why = f"its vector is of another model: {safe_line(chunk.model)}"
    return why, why


def _leg_words(
    ranked: Ranked, chunk_id: str, leg: Leg, part: LegScore, spell: Spell
) -> tuple[str, str]:
    """Return where the value of a leg comes from: in full, and for narrow places."""
    raw = brief = f"{words.LEG_UNITS[leg]} {spell(part.raw)}"
    ranking, text = ranked.ranking, part.text_score
    if text is not None and text != part.mapped:
        brief = f"{spell(part.mapped)} = {spell(text)} + boost"
    if text is not None and ranking.fusion is Fusion.WEIGHTED_SUM:
        hit = next(hit for hit in ranked.pool.hits[Leg.KEYWORD] if hit.chunk_id == chunk_id)
        steps = [raw, f"text score {spell(text)}"]
        if not hit.has_body:
            steps = ["the path alone"]
        elif hit.score is not None:
            steps[0] = "substrings, no bm25"
        if part.mapped != text or not hit.has_body:
            kind = "counted as"
            if hit.has_body and part.mapped == hit.boosted:
                kind = "boosted"
            elif part.mapped == hit.path_raw:
                kind = "path score"
            steps.append(f"{kind} {spell(part.mapped)}")
        raw = " → ".join(steps)
    elif ranking.fusion is Fusion.RELATIVE_SCORE:
        raw = f"min-max of {raw}"
    elif ranking.fusion is Fusion.RRF:
        raw = f"1/({words.short_number(ranking.rrf_k)} + {part.position}), {raw}"
    elif leg is Leg.KEYWORD and ranking.keyword_mapping is not ScoreMapping.GIVEN:
        raw = f"{words.MAPPING_WORDS[ranking.keyword_mapping]} {raw}"
    return (f"{raw} ({safe_line(', '.join(part.terms))})" if part.terms else raw), brief


def _stage_words(
    ranked: Ranked, stage: StageScore, is_lost: bool, spell: Spell
) -> tuple[str, str, str, str] | None:
    """Return the sign, the formula, the note and the brief note of what a stage did to a score.

    `None` for a stage that has nothing to say of it.
    """
    numbers, reason, ranking = stage.numbers, stage.reason, ranked.ranking

    def real(name: str) -> float:
        value = numbers.get(name)
        return float(value) if isinstance(value, int | float) else 0.0

    def number(name: str) -> str:
        return spell.number(real(name))

    why = words.reason_words(reason)
    operand = spell(1.0 if stage.operand is None else stage.operand)
    factor, after = f"× {operand}", spell(stage.after)
    ranked_by = f"ranked by {spell(real('ranked_by'))}"
    sign, formula, note, brief = "→", after, "", ""
    match stage.stage:
        case Stage.FUSION:
            is_alone = ranking.search_mode is not SearchMode.HYBRID
            sign = "="
            formula = "one leg alone" if is_alone else words.FUSION_WORDS[ranking.fusion]
        case Stage.IMPORTANCE | Stage.PROJECT:
            sign, formula, note = "×", factor, why if reason is not Reason.OK else ""
        case Stage.DECAY if numbers.get("age_days") is None:
            sign, formula, note, brief = "×", factor, why, why.partition(",")[0]
        case Stage.DECAY:
            age = words.days(real("age_days"))
            days = words.short_number(max(0.0, real("age_days")), 1)
            power = f"2^({MINUS}{days} d / {number('half_life_days')} d)"
            if real("floor") > 0:
                power = f"{number('floor')} + (1 {MINUS} {number('floor')}) × {power}"
            note, brief = f"= {power}, {numbers.get('date')}, {why}, {age}", f"{why}, {age}"
            sign, formula = "×", factor
        case Stage.RERANK:
            formula = (
                f"{number('relevance_weight')} × {spell(stage.before)}/{spell(real('maximum'))}"
                f" + {number('recency_weight')} × {number('recency')}"
                f" + {number('importance_weight')} × {number('importance')}"
            )
            note = "relevance + recency + importance"
        case Stage.DEDUP if is_lost:
            twin = place_of(ranked, numbers["duplicate_of"])
            sign, formula, note = "", "same text", f"as {twin}"
        case Stage.MIN_SCORE:
            is_below = is_lost or reason is Reason.RELAXED
            compared = "<" if is_below else "≥"
            sign, formula = "", f"{after} {compared} {number('min_score')}"
            note = why if is_below else ""
        case Stage.MMR if stage.operation is Operation.REPLACE:
            formula = f"{MINUS}{number('max_similarity')} alike"
            note = "variety only: relevance is ignored"
        case Stage.MMR if numbers.get("similar_to") is None:
            note = why if reason is Reason.FIRST else "nothing alike"
            sign, formula, brief = MINUS, f"{MINUS} {spell(stage.operand or 0.0)}", "nothing alike"
        case Stage.MMR:
            brief = f"{number('max_similarity')} like {place_of(ranked, numbers['similar_to'])}"
            share = f"(1 {MINUS} {number('lambda')})/{number('lambda')}"
            sign, formula = MINUS, f"{MINUS} {spell(stage.operand or 0.0)}"
            note = f"= {share} × {spell(real('span'))} span × {brief}"
        case Stage.IDENTITY if reason is Reason.SUBSTRING_ONLY:
            note, brief = "no BM25 value: ranked by the words found", "no BM25 value"
        case Stage.IDENTITY if reason is Reason.EXACT_PATH and not ranking.decay.enabled:
            note = "an exact name is ranked by its content"
        case Stage.IDENTITY if reason is Reason.EXACT_PATH:
            # The release counts the content as 0 where only the name was found: read it off.
            content = spell(2 * stage.after - 1)
            formula, note = f"(1 + {content})/2", "half name, half content"
        case Stage.TIERS if reason is Reason.SUBSTRING_ONLY:
            note, brief = f"no BM25 value: shown as {after}, {ranked_by}", "no BM25 value"
        case Stage.TIERS if reason is Reason.EXACT_PATH:
            # Exact names go before everything else, whatever they score.
            brief = _TIER_WORDS[int(real("tier"))]
            note = f"exact names first: {brief}"
        case Stage.EXACT_PATH if reason is Reason.EXACT_PATH:
            # The score that an exact name is shown with, and compared with the minimum.
            note = f"for an exact name; {ranked_by}"
        case Stage.CUT if is_lost:
            sign, formula = "", f"rank {stage.rank} > k {numbers['k']}"
        case _:
            return None
    return sign, formula, note, brief or note


# --- the stacked bar ----------------------------------------------------------------------------


def bar_parts(scored: Hit | Drop) -> dict[str, float]:
    """Read the parts of a score bar off the legs and the stages of a result, from left to right.

    In the unit of the fused score, none below 0: `vector` and `keyword` by the legs and `gain` by
    stages after fusion, which together are the effective score (when that is above 0); then what
    `mmr`, `decay` and other stages (`loss`) took. Multiplying stages shrink all legs alike,
    subtracting ones eat from the right. No score is computed here: every length is a contribution
    or a difference of a stage's before and after.
    """
    left = {leg.value: 0.0 for leg in LEGS} | {"gain": 0.0}
    for leg, part in scored.legs.items():
        left[leg.value] = max(0.0, part.contribution)
    losses = {"mmr": 0.0, "decay": 0.0, "loss": 0.0}
    for stage in scored.stages:
        # A stage that keeps the score goes on from the score before MMR; and at lambda 0 the
        # effective score of MMR is no score. Neither has a length.
        at_lambda_0 = stage.stage is Stage.MMR and stage.operation is Operation.REPLACE
        if stage.operation is Operation.KEEP or at_lambda_0:
            continue
        total, target = sum(left.values()), max(0.0, stage.after)
        if target >= total:
            left["gain"] += target - total
            continue
        excess = total - target
        losses[stage.stage.value if stage.stage.value in losses else "loss"] += excess
        if stage.operation is not Operation.SUBTRACT:
            left = {name: length * (target / total) for name, length in left.items()}
            continue
        for name in ("gain", "keyword", "vector"):
            eaten = min(left[name], excess)
            left[name] -= eaten
            excess -= eaten
    return left | losses


def part_cells(scored: Hit | Drop, width: int, scale: float) -> list[tuple[str, int]]:
    """Return how many of `width` cells each part fills; a score of `scale` fills all of them."""
    parts = bar_parts(scored)
    ends = [0, *(min(width, round(end / scale * width)) for end in accumulate(parts.values()))]
    return [(name, end - start) for name, (start, end) in zip(parts, pairwise(ends), strict=True)]


def bar_scale(results: Iterable[Hit | Drop]) -> float:
    """Return the score that fills a bar: 1, or the longest one when all are short or one longer."""
    longest = max((sum(bar_parts(result).values()) for result in results), default=1.0)
    return 1.0 if 0.5 <= longest <= 1.0 or longest <= 0 else longest
