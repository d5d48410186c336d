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
from memtui.ranking.trace import Explanation, other_model
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
    """How it acts on the score: `+ = × − →` or empty."""
    value: float | None
    """The score after the step, or the leg's contribution; `None` when there is none."""
    rank: int | None
    formula: str
    """The numbers that make `value`: `0.3 × 0.920`."""
    note: str = ""
    """Where the numbers come from: `min-max of cos 0.431`."""
    brief: str = ""
    """The same for narrow places."""
    extent: Extent | None = None
    """The part of the axis that the step adds or takes away."""
    failed: bool = False
    """Whether this is the step that lost the chunk."""

    @property
    def word(self) -> str:
        """The name of the leg or the stage."""
        return words.step_name(self.kind)

    @property
    def tone(self) -> Tone:
        """What its colour stands for."""
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
        tone = step.tone if step.value is not None else Tone.MUTED
        mark, tone = (Mark.FAILED, Tone.ERROR) if step.failed else (None, tone)
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
        end, rank = start + part.contribution, part.position + 1
        formula = f"{spell.number(part.weight)} × {spell(part.mapped)}"
        about = _leg_words(ranked, scored.chunk.id, leg, part, spell)
        extent = _extent(start, end)
        steps.append(ScoreStep(leg, sign, part.contribution, rank, formula, *about, extent))
        start = end
    for stage in scored.stages:
        lost = isinstance(scored, Drop) and stage.stage is scored.stage
        step = _stage_step(ranked, stage, lost, spell)
        steps += [step] if step is not None else []
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


def _extent(one: float, other: float) -> Extent:
    return Extent(min(one, other), max(one, other))


# --- legs ---------------------------------------------------------------------------------------


def _absence(ranked: Ranked, leg: Leg, chunk: Chunk) -> tuple[str, str]:
    """Why a leg says nothing about a chunk: in full, and for narrow places."""
    state = ranked.pool.states.get(leg)
    if state is not None and state.status is not LegStatus.OK:
        why = words.leg_reason(state)
        pending = state.status is LegStatus.PENDING
        return why, why if pending else words.reason_words(state.reason)
    model = other_model(ranked, chunk) if leg is Leg.VECTOR else None
    why = "not found by this leg"
    if model is not None:
        why = f"its vector is of another model: {safe_line(model)}"
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
        hits = ranked.pool.hits.get(Leg.KEYWORD, ())
        hit = next((hit for hit in hits if hit.chunk_id == chunk_id), None)
        steps = [raw, f"text score {spell(text)}"]
        if hit is not None and not hit.has_body:
            steps = ["the path alone"]
        elif hit is not None and hit.score is not None:
            steps[0] = "substrings, no bm25"
        if hit is not None and not (part.mapped == text and hit.has_body):
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


# --- stages -------------------------------------------------------------------------------------


def _stage_step(ranked: Ranked, stage: StageScore, lost: bool, spell: Spell) -> ScoreStep | None:
    """Return how a stage acted on a score; `None` for one that has nothing to say of it."""
    numbers, reason, ranking = stage.numbers, stage.reason, ranked.ranking
    why = words.reason_words(reason)

    def real(name: str) -> float:
        value = numbers.get(name)
        return float(value) if isinstance(value, int | float) else 0.0

    def number(name: str) -> str:
        return spell.number(real(name))

    def step(sign: str, formula: str, note: str = "", brief: str = "") -> ScoreStep:
        extent = None
        if stage.operation in (Operation.MULTIPLY, Operation.SUBTRACT):
            extent = _extent(stage.before, stage.after)
        elif stage.operation is not Operation.KEEP and stage.after > 0:
            extent = Extent(0.0, stage.after)
        rank, value = stage.rank, stage.after
        return ScoreStep(stage.stage, sign, value, rank, formula, note, brief or note, extent, lost)

    factor = f"× {spell(1.0 if stage.operand is None else stage.operand)}"
    after = spell(stage.after)
    ranked_by = f"ranked by {spell(real('ranked_by'))}"
    match stage.stage:
        case Stage.FUSION:
            alone = ranking.search_mode is not SearchMode.HYBRID
            return step("=", "one leg alone" if alone else words.FUSION_WORDS[ranking.fusion])
        case Stage.IMPORTANCE | Stage.PROJECT:
            return step("×", factor, why if reason is not Reason.OK else "")
        case Stage.DECAY if numbers.get("age_days") is None:
            return step("×", factor, why, why.partition(",")[0])
        case Stage.DECAY:
            age = words.days(real("age_days"))
            days = words.short_number(max(0.0, real("age_days")), 1)
            power = f"2^({MINUS}{days} d / {number('half_life_days')} d)"
            if real("floor") > 0:
                power = f"{number('floor')} + (1 {MINUS} {number('floor')}) × {power}"
            note = f"= {power}, {numbers.get('date')}, {why}, {age}"
            return step("×", factor, note, f"{why}, {age}")
        case Stage.RERANK:
            formula = (
                f"{number('relevance_weight')} × {spell(stage.before)}/{spell(real('maximum'))}"
                f" + {number('recency_weight')} × {number('recency')}"
                f" + {number('importance_weight')} × {number('importance')}"
            )
            return step("→", formula, "relevance + recency + importance")
        case Stage.DEDUP if lost:
            return step("", "same text", f"as {place_of(ranked, numbers.get('duplicate_of'))}")
        case Stage.MIN_SCORE:
            is_below = lost or reason is Reason.RELAXED
            sign = "<" if is_below else "≥"
            return step("", f"{after} {sign} {number('min_score')}", why if is_below else "")
        case Stage.MMR:
            similarity, lambda_ = number("max_similarity"), number("lambda")
            if stage.operation is Operation.REPLACE:
                note = "variety only: relevance is ignored"
                return step("→", f"{MINUS}{similarity} alike", note)
            formula = f"{MINUS} {spell(stage.operand or 0.0)}"
            twin = numbers.get("similar_to")
            if twin is None:
                note = why if reason is Reason.FIRST else "nothing alike"
                return step(MINUS, formula, note, "nothing alike")
            like = f"{similarity} like {place_of(ranked, twin)}"
            share = f"(1 {MINUS} {lambda_})/{lambda_}"
            return step(MINUS, formula, f"= {share} × {spell(real('span'))} span × {like}", like)
        case Stage.IDENTITY if reason is Reason.SUBSTRING_ONLY:
            return step("→", after, "no BM25 value: ranked by the words found", "no BM25 value")
        case Stage.IDENTITY if reason is Reason.EXACT_PATH and not ranking.decay.enabled:
            return step("→", after, "an exact name is ranked by its content")
        case Stage.IDENTITY if reason is Reason.EXACT_PATH:
            # The release counts the content as 0 where only the name was found: read it off.
            content = spell(2 * stage.after - 1)
            return step("→", f"(1 + {content})/2", "half name, half content")
        case Stage.TIERS if reason is Reason.SUBSTRING_ONLY:
            note = f"no BM25 value: shown as {after}, {ranked_by}"
            return step("→", after, note, "no BM25 value")
        case Stage.TIERS if reason is Reason.EXACT_PATH:
            # Exact names go before everything else, whatever they score.
            which = _TIER_WORDS.get(int(real("tier")), "its name")
            return step("→", after, f"exact names first: {which}", which)
        case Stage.EXACT_PATH if reason is Reason.EXACT_PATH:
            # The score that an exact name is shown with, and compared with the minimum.
            return step("→", after, f"for an exact name; {ranked_by}")
        case Stage.CUT if lost:
            return step("", f"rank {stage.rank} > k {numbers.get('k')}")
    return None


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
