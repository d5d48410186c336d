"""The steps that made one chunk's score, as text and as extents on one axis.

Everything is read from the trace. The why-panel, the waterfall and the copied text all show these
steps, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memtui.model import (
    Chunk,
    Drop,
    Fusion,
    Hit,
    Leg,
    LegScore,
    LegStatus,
    Ranked,
    Reason,
    ScoreMapping,
    SearchMode,
    Stage,
    StageScore,
)
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import Glyphs
from memtui.tui.verdicts import place_of

LEGS = (Leg.VECTOR, Leg.KEYWORD)
_NOT_FOUND = "not found by this leg"


@dataclass(frozen=True, slots=True)
class ScoreStep:
    """One line of the arithmetic."""

    kind: Leg | Stage
    sign: str
    """How it acts on the score: `+ = × − →` or empty."""
    word: str
    style: str
    value: float | None
    """The score after the step, or the leg's contribution; `None` when there is none."""
    rank: int | None
    formula: str
    """The numbers that make `value`: `0.30 × 0.920`."""
    note: str = ""
    """Where the numbers come from: `min-max of cos 0.431`."""
    brief: str = ""
    """The same for narrow places, where it differs."""
    extent: tuple[float, float] = (0.0, 0.0)
    """The part of the axis that the step adds or takes away."""
    failed: bool = False
    """Whether this is the step that lost the chunk."""


def steps_of(ranked: Ranked, scored: Hit | Drop) -> tuple[ScoreStep, ...]:
    """Spell out the score of a hit or a near miss of `ranked`, first the legs, then the stages."""
    steps = []
    start = 0.0
    for leg in LEGS:
        part = scored.legs.get(leg)
        steps.append(_leg_step(ranked, scored, leg, part, start))
        start = steps[-1].extent[1] if part else start
    for stage in scored.stages:
        lost = isinstance(scored, Drop) and stage.stage is scored.stage
        step = _STAGES[stage.stage](ranked, stage, lost)
        if step is not None:
            steps.append(step)
    return tuple(steps)


def glyph_of(step: ScoreStep, glyphs: Glyphs) -> str:
    """The character that stands for a step in every bar and list."""
    match step.kind:
        case Leg.VECTOR | Leg.KEYWORD | Stage.DECAY | Stage.MMR:
            return str(getattr(glyphs, step.kind.value))
        case Stage.FUSION:
            return "="
        case stage if stage in fmt.REPLACING_STAGES:
            return glyphs.rerank
        case _:
            return glyphs.down if step.failed else "-"


def axis(ranked: Ranked) -> float:
    """The right end of the axis: the largest value any step of the shown results reaches."""
    values = [stage.after for hit in ranked.hits for stage in hit.stages]
    values += [stage.after for drop in ranked.drops[:1] for stage in drop.stages]
    largest = max(values, default=0.0)
    return largest if largest > 0 else 1.0


# --- legs ---------------------------------------------------------------------------------------


def _leg_step(
    ranked: Ranked, scored: Hit | Drop, leg: Leg, part: LegScore | None, start: float
) -> ScoreStep:
    sign = "+" if leg is Leg.KEYWORD and Leg.VECTOR in scored.legs else ""
    style = fmt.LEG_STYLES[leg]
    if part is None:
        why, brief = absence(ranked, leg, scored.chunk)
        return ScoreStep(leg, sign, leg.value, style, None, None, why, brief=brief)
    return ScoreStep(
        leg,
        sign,
        leg.value,
        style,
        part.contribution,
        part.position + 1,
        f"{fmt.number(part.weight)} × {fmt.score(part.mapped)}",
        _leg_note(ranked, leg, part),
        _boost(part) or raw_score(leg, part),
        (start, start + part.contribution),
    )


def absence(ranked: Ranked, leg: Leg, chunk: Chunk) -> tuple[str, str]:
    """Why a leg says nothing about a chunk: in full, and for narrow places."""
    # Imported late: ranking needs numpy, and the first paint does not.
    from memtui.ranking.trace import other_model

    state = ranked.pool.states.get(leg)
    if state is not None and state.status is not LegStatus.OK:
        why = fmt.leg_reason(state)
        return why, why if state.status is LegStatus.PENDING else fmt.reason_words(state.reason)
    other = other_model(ranked, chunk) if leg is Leg.VECTOR else None
    why = f"its vector is of another model: {safe_line(other)}" if other else _NOT_FOUND
    return why, why


def raw_score(leg: Leg, part: LegScore) -> str:
    """What the index itself said: `cos 0.431` or `bm25 −6.81`."""
    return f"{fmt.LEG_UNITS[leg]} {fmt.number(part.raw, 3 if leg is Leg.VECTOR else 2)}"


def _boost(part: LegScore) -> str:
    """How the boosted text score came about: `1.000 = 0.951 + boost`; empty without a boost."""
    if part.text_score is None or part.text_score == part.mapped:
        return ""
    return f"{fmt.score(part.mapped)} = {fmt.score(part.text_score)} + boost"


def _leg_note(ranked: Ranked, leg: Leg, part: LegScore) -> str:
    raw = raw_score(leg, part)
    if boost := _boost(part):
        return f"{boost}, {raw}"
    ranking = ranked.ranking
    match ranking.fusion:
        case Fusion.RELATIVE_SCORE:
            return f"min-max of {raw}"
        case Fusion.RRF:
            return f"1/({fmt.short_number(ranking.rrf_k)} + {part.position}), {raw}"
        case Fusion.WEIGHTED_SUM if leg is Leg.VECTOR:
            return raw
        case _ if ranking.keyword_mapping is ScoreMapping.GIVEN:
            return raw
        case _:
            return f"{fmt.MAPPING_WORDS[ranking.keyword_mapping]} {raw}"


# --- stages -------------------------------------------------------------------------------------


def _step(
    stage: StageScore,
    sign: str,
    formula: str,
    note: str = "",
    *,
    brief: str = "",
    extent: tuple[float, float] = (0.0, 0.0),
    value: float | None = None,
    failed: bool = False,
) -> ScoreStep:
    kind = stage.stage
    return ScoreStep(
        kind,
        sign,
        fmt.STAGE_WORDS[kind],
        fmt.STAGE_STYLES[kind],
        stage.after if value is None else value,
        stage.rank,
        formula,
        note,
        brief or note,
        extent,
        failed,
    )


def _fusion(ranked: Ranked, stage: StageScore, lost: bool) -> ScoreStep:
    alone = ranked.ranking.search_mode is not SearchMode.HYBRID
    word = "one leg alone" if alone else fmt.FUSION_WORDS[ranked.ranking.fusion]
    return _step(stage, "=", word, extent=(0.0, stage.after), failed=lost)


def _multiplied(ranked: Ranked, stage: StageScore, lost: bool) -> ScoreStep:
    ends = sorted((stage.before, stage.after))
    note = fmt.reason_words(stage.reason) if stage.reason is not Reason.OK else ""
    return _step(stage, "×", _factor(stage), note, extent=(ends[0], ends[1]), failed=lost)


def _decay(ranked: Ranked, stage: StageScore, lost: bool) -> ScoreStep:
    if stage.reason is Reason.EVERGREEN:
        words = fmt.reason_words(stage.reason)
        return _step(stage, "×", _factor(stage), words, brief="evergreen", failed=lost)
    brief = f"{fmt.reason_words(stage.reason)}, {fmt.days(_real(stage, 'age_days'))}"
    extent = (stage.after, stage.before)
    note = date_note(stage)
    return _step(stage, "×", _factor(stage), note, brief=brief, extent=extent, failed=lost)


def _factor(stage: StageScore) -> str:
    return f"× {fmt.score(stage.operand if stage.operand is not None else 1.0)}"


def date_note(stage: StageScore) -> str:
    """The date of a decay step and where it comes from: `2026-02-10, file name, 3 d`."""
    source = fmt.reason_words(stage.reason)
    age = stage.numbers.get("age_days")
    if stage.reason is Reason.EVERGREEN or not isinstance(age, int | float):
        return source
    return f"{stage.numbers.get('date')}, {source}, {fmt.days(float(age))}"


def decay_curve(stage: StageScore) -> str:
    """The curve of a decay step with its numbers: `2^(−3 d / 30 d)`."""
    age, half_life = _real(stage, "age_days"), _real(stage, "half_life_days")
    floor = _real(stage, "floor")
    power = (
        f"2^({fmt.MINUS}{fmt.short_number(max(0.0, age), 1)} d / {fmt.short_number(half_life)} d)"
    )
    if floor <= 0:
        return power
    return f"{fmt.short_number(floor)} + (1 {fmt.MINUS} {fmt.short_number(floor)}) × {power}"


def _rerank(ranked: Ranked, stage: StageScore, lost: bool) -> ScoreStep:
    parts = (
        f"{fmt.number(_real(stage, 'relevance_weight'))} × {fmt.score(stage.before)}"
        f"/{fmt.score(_real(stage, 'maximum'))}",
        f"{fmt.number(_real(stage, 'recency_weight'))} × {fmt.number(_real(stage, 'recency'))}",
        f"{fmt.number(_real(stage, 'importance_weight'))}"
        f" × {fmt.number(_real(stage, 'importance'))}",
    )
    return _step(
        stage, "→", " + ".join(parts), "relevance + recency + importance",
        extent=(0.0, stage.after), failed=lost,
    )  # fmt: skip


def _dedup(ranked: Ranked, stage: StageScore, lost: bool) -> ScoreStep | None:
    if not lost:
        return None
    twin = place_of(ranked, stage.numbers.get("duplicate_of"))
    return _step(stage, "", "same text", f"as {twin}", failed=True)


def _min_score(ranked: Ranked, stage: StageScore, lost: bool) -> ScoreStep:
    minimum = fmt.number(_real(stage, "min_score"))
    relaxed = stage.reason is Reason.RELAXED
    sign = "<" if lost or relaxed else "≥"
    note = fmt.reason_words(stage.reason) if lost or relaxed else ""
    return _step(stage, "", f"{fmt.score(stage.after)} {sign} {minimum}", note, failed=lost)


def _mmr(ranked: Ranked, stage: StageScore, lost: bool) -> ScoreStep:
    similarity = _real(stage, "max_similarity")
    lambda_ = _real(stage, "lambda")
    if lambda_ <= 0:
        note = "variety only: relevance is ignored"
        return _step(stage, "→", f"{fmt.MINUS}{fmt.number(similarity)} alike", note, failed=lost)
    formula = f"{fmt.MINUS} {fmt.score(stage.operand or 0.0)}"
    twin = stage.numbers.get("similar_to")
    if twin is None:
        note = fmt.reason_words(Reason.FIRST) if stage.reason is Reason.FIRST else "nothing alike"
    else:
        note = f"{fmt.number(similarity)} alike"
    brief = f"{fmt.number(similarity)} like {place_of(ranked, twin)}" if twin else "nothing alike"
    extent = (stage.after, stage.before)
    return _step(stage, fmt.MINUS, formula, note, brief=brief, extent=extent, failed=lost)


def mmr_penalty(stage: StageScore) -> str:
    """The penalty with its numbers: `(1 − λ)/λ × span × similarity` at λ 0.70."""
    lambda_ = fmt.number(_real(stage, "lambda"))
    return (
        f"(1 {fmt.MINUS} {lambda_})/{lambda_} × {fmt.score(_real(stage, 'span'))} span"
        f" × {fmt.number(_real(stage, 'max_similarity'))} alike"
    )


def _identity(ranked: Ranked, stage: StageScore, lost: bool) -> ScoreStep | None:
    """What an exact name or a substring match is ranked by in place of its score."""
    if stage.reason is Reason.SUBSTRING_ONLY:
        note = "no BM25 value: ranked by the words found"
        return _replaced(stage, note, brief="no BM25 value", lost=lost)
    if stage.reason is not Reason.EXACT_PATH:
        return None
    if not ranked.ranking.decay.enabled:
        return _replaced(stage, "an exact name is ranked by its content", lost=lost)
    # The release counts the content as 0 where only the name was found: read it off the result.
    formula = f"(1 + {fmt.score(2 * stage.after - 1)})/2"
    return _replaced(stage, "half name, half content", formula, lost=lost)


def _tiers(ranked: Ranked, stage: StageScore, lost: bool) -> ScoreStep | None:
    """Exact names go before everything else, whatever they score."""
    if stage.reason is Reason.SUBSTRING_ONLY:
        note = f"no BM25 value: shown as {fmt.score(stage.after)}, ranked by {_ranked_by(stage)}"
        return _replaced(stage, note, brief="no BM25 value", lost=lost)
    if stage.reason is not Reason.EXACT_PATH:
        return None
    which = _TIER_WORDS.get(int(_real(stage, "tier")), "its name")
    return _replaced(stage, f"exact names first: {which}", brief=which, lost=lost)


def _exact_path(ranked: Ranked, stage: StageScore, lost: bool) -> ScoreStep | None:
    """The score that an exact name is shown with, and compared with the minimum."""
    if stage.reason is not Reason.EXACT_PATH:
        return None
    return _replaced(stage, f"for an exact name; ranked by {_ranked_by(stage)}", lost=lost)


def _replaced(
    stage: StageScore, note: str, formula: str = "", *, brief: str = "", lost: bool
) -> ScoreStep:
    return _step(
        stage, "→", formula or fmt.score(stage.after), note, brief=brief,
        extent=(0.0, stage.after), failed=lost,
    )  # fmt: skip


def _ranked_by(stage: StageScore) -> str:
    return fmt.score(_real(stage, "ranked_by"))


_TIER_WORDS: Mapping[int, str] = {
    3: "its path",
    2: "its file name",
    1: "its bare name",
}


def _cut(ranked: Ranked, stage: StageScore, lost: bool) -> ScoreStep | None:
    if not lost:
        return None
    return _step(stage, "", f"rank {stage.rank} > k {stage.numbers.get('k')}", failed=True)


_STAGES: Mapping[Stage, Callable[[Ranked, StageScore, bool], ScoreStep | None]] = {
    Stage.FUSION: _fusion,
    Stage.IDENTITY: _identity,
    Stage.IMPORTANCE: _multiplied,
    Stage.PROJECT: _multiplied,
    Stage.TIERS: _tiers,
    Stage.DECAY: _decay,
    Stage.RERANK: _rerank,
    Stage.DEDUP: _dedup,
    Stage.MIN_SCORE: _min_score,
    Stage.MMR: _mmr,
    Stage.EXACT_PATH: _exact_path,
    Stage.CUT: _cut,
}


def _real(stage: StageScore, name: str) -> float:
    value = stage.numbers.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
