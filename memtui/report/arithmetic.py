"""The arithmetic of one score, step by step: every number from the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from memtui.model import (
    Chunk,
    Drop,
    Fusion,
    Hit,
    Leg,
    LegHit,
    LegScore,
    LegStatus,
    Operation,
    Ranked,
    Reason,
    Stage,
    StageScore,
    citation,
)
from memtui.ranking.trace import Explanation, other_model
from memtui.report import words
from memtui.report.model import Column, Extent, Mark, Row, Section, SectionId, Tone
from memtui.report.words import Spell

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
_FUSION_WORDS: Mapping[Fusion, str] = {
    Fusion.WEIGHTED_SUM: "weighted sum",
    Fusion.RELATIVE_SCORE: "relative score: each leg scaled to 0..1",
    Fusion.RRF: "reciprocal rank fusion",
}
_NAMED_BY: Mapping[int, str] = {3: "by its path", 2: "by its file name", 1: "by its bare name"}
_SHARED_WORDS = 12
_GO_ON = frozenset({Operation.MULTIPLY, Operation.SUBTRACT})


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the arithmetic; `value` and `rank` are `None` where there are none."""

    at: Leg | Stage
    value: float | None
    rank: int | None
    formula: str
    tone: Tone
    extent: Extent | None = None
    lost: bool = False
    """Whether this step lost the chunk."""
    before: float | None = None
    """The score before a stage that the formula goes on from; `None` for every other step."""


def arithmetic_section(ranked: Ranked, told: Explanation, spell: Spell) -> Section:
    """The waterfall of one chunk of the pool, from the raw values to the last stage."""
    rows = tuple(
        Row(
            (
                step.at.value if isinstance(step.at, Leg) else words.STAGE_WORDS[step.at],
                "-" if step.value is None else spell(step.value),
                "-" if step.rank is None else f"#{step.rank}",
                step.formula,
            ),
            Mark.FAILED if step.lost else None,
            Tone.ERROR if step.lost else step.tone,
            extent=step.extent,
        )
        for step in steps_of(ranked, told, spell)
    )
    columns = (Column("step"), Column("score"), Column("rank"), Column("arithmetic"))
    return Section(
        SectionId.ARITHMETIC,
        "arithmetic",
        columns,
        rows,
        tuple(_like(told, spell)),
        axis=axis(ranked),
    )


def steps_of(ranked: Ranked, told: Explanation, spell: Spell) -> Iterator[Step]:
    """The steps of one chunk of the pool, first the legs, then the stages."""
    scored, start = told.scored, 0.0
    for leg in (Leg.VECTOR, Leg.KEYWORD):
        part = scored.legs.get(leg)
        if part is None:
            why = _absence(ranked, leg, scored.chunk)
            yield Step(leg, None, None, why, Tone.MUTED)
            continue
        end = start + part.contribution
        yield Step(
            leg,
            part.contribution,
            part.position + 1,
            _leg_formula(ranked, scored.chunk.id, leg, part, spell),
            _TONES[leg],
            _extent(start, end),
        )
        start = end
    for stage in scored.stages:
        yield Step(
            stage.stage,
            stage.after,
            stage.rank,
            _DESCRIBE.get(stage.stage, _plain_numbers)(ranked, stage, spell),
            _TONES.get(stage.stage, Tone.RERANK),
            _extent_of(stage),
            isinstance(scored, Drop) and stage.stage is scored.stage,
            stage.before if stage.operation in _GO_ON else None,
        )


def axis(ranked: Ranked) -> float:
    """The right end of the bars: the largest value that a step of what is shown reaches."""
    scored: list[Hit | Drop] = [*ranked.hits, *ranked.drops[:1]]
    largest = max((stage.after for one in scored for stage in one.stages), default=0.0)
    return largest if largest > 0 else 1.0


def place_of(ranked: Ranked, chunk_id: str) -> str:
    """The citation of a chunk of the pool, else the beginning of its id."""
    chunk = ranked.pool.chunks.get(chunk_id)
    if chunk is None:
        return chunk_id[:12]
    return citation(chunk.path, chunk.start_line, chunk.end_line)


def _like(told: Explanation, spell: Spell) -> Iterator[str]:
    if told.similar is None:
        return
    ordered = sorted(told.similar.shared, key=lambda word: (word[:1].isdigit(), word))
    shared = ", ".join(ordered[:_SHARED_WORDS])
    words_shared = f" ({shared})" if shared else ""
    similarity = spell.number(told.similar.similarity)
    yield f"most like {told.similar.citation}: Jaccard {similarity}{words_shared}"


def _extent(one: float, other: float) -> Extent:
    return Extent(min(one, other), max(one, other))


def _extent_of(stage: StageScore) -> Extent | None:
    match stage.operation:
        case Operation.KEEP:
            return None
        case operation if operation in _GO_ON:
            return _extent(stage.before, stage.after)
        case _:
            return _extent(0.0, stage.after)


# --- legs ---------------------------------------------------------------------------------------


def _leg_formula(ranked: Ranked, chunk_id: str, leg: Leg, part: LegScore, spell: Spell) -> str:
    terms = f", terms {' '.join(part.terms)}" if part.terms else ""
    raw = f"{words.LEG_UNITS[leg]} {spell(part.raw)}"
    if part.text_score is not None and ranked.ranking.fusion is Fusion.WEIGHTED_SUM:
        hit = _hit_of(ranked, chunk_id)
        raw = " -> ".join(_text_steps(hit, part, part.text_score, spell))
    return f"{spell(part.mapped)} x {spell.number(part.weight)}  from {raw}{terms}"


def _hit_of(ranked: Ranked, chunk_id: str) -> LegHit | None:
    hits = ranked.pool.hits.get(Leg.KEYWORD, ())
    return next((hit for hit in hits if hit.chunk_id == chunk_id), None)


def _text_steps(
    hit: LegHit | None, part: LegScore, text_score: float, spell: Spell
) -> Iterator[str]:
    """From what the keyword leg found to the value that is weighted."""
    if hit is not None and not hit.has_body:
        yield "the path alone"
    else:
        no_bm25 = hit is not None and hit.score is not None
        yield "substrings, no bm25" if no_bm25 else f"bm25 {spell(part.raw)}"
        yield f"text score {spell(text_score)}"
    if hit is None or (part.mapped == text_score and hit.has_body):
        return
    if hit.has_body and part.mapped == hit.boosted:
        yield f"boosted {spell(part.mapped)}"
    elif part.mapped == hit.path_raw:
        yield f"path score {spell(part.mapped)}"
    else:
        yield f"counted as {spell(part.mapped)}"


def _absence(ranked: Ranked, leg: Leg, chunk: Chunk) -> str:
    state = ranked.pool.states.get(leg)
    model = other_model(ranked, chunk) if leg is Leg.VECTOR else None
    if model is not None:
        return f"its vector is of another model: {model}"
    if state is not None and state.status is not LegStatus.OK:
        return f"{state.status}: {words.reason_words(state.reason)}"
    return f"not among the {len(ranked.pool.hits.get(leg, ()))} that the leg found"


# --- stages -------------------------------------------------------------------------------------


def _fusion(ranked: Ranked, stage: StageScore, spell: Spell) -> str:
    return f"sum of the legs ({_FUSION_WORDS[ranked.ranking.fusion]})"


def _decay(ranked: Ranked, stage: StageScore, spell: Spell) -> str:
    factor = f"x {spell(_operand(stage))}"
    numbers = stage.numbers
    if numbers.get("age_days") is None:
        return f"{factor} ({words.reason_words(stage.reason)})"
    return (
        f"{factor}: age {spell.number(numbers.get('age_days'))} days, "
        f"half-life {spell.number(numbers.get('half_life_days'))}, "
        f"floor {spell.number(numbers.get('floor'))}, "
        f"dated {numbers.get('date')} ({words.reason_words(stage.reason)})"
    )


def _rerank(ranked: Ranked, stage: StageScore, spell: Spell) -> str:
    numbers = {name: spell.number(value) for name, value in stage.numbers.items()}
    return (
        f"{numbers['relevance_weight']} x {spell(stage.before)} / {numbers['maximum']}"
        f" + {numbers['recency_weight']} x {numbers['recency']} (recency)"
        f" + {numbers['importance_weight']} x {numbers['importance']} (importance)"
    )


def _min_score(ranked: Ranked, stage: StageScore, spell: Spell) -> str:
    minimum = spell.number(stage.numbers.get("min_score"))
    if stage.reason is Reason.OK:
        return f">= {minimum}"
    relaxed = f" ({words.reason_words(stage.reason)})" if stage.reason is Reason.RELAXED else ""
    return f"< {minimum}{relaxed}"


def _mmr(ranked: Ranked, stage: StageScore, spell: Spell) -> str:
    numbers = {name: spell.number(value) for name, value in stage.numbers.items()}
    twin = stage.numbers.get("similar_to")
    like = f" like {place_of(ranked, twin)}" if isinstance(twin, str) else ""
    penalty = f"- {spell(_operand(stage))}"
    if stage.operation is Operation.REPLACE:
        penalty = "variety only, relevance ignored"
    return (
        f"{penalty}: lambda {numbers['lambda']}, span {numbers['span']}, "
        f"similarity {numbers['max_similarity']}{like}; MMR {numbers['mmr']}"
    )


def _dedup(ranked: Ranked, stage: StageScore, spell: Spell) -> str:
    twin = stage.numbers.get("duplicate_of")
    return f"the text of {place_of(ranked, twin)}" if isinstance(twin, str) else "no better twin"


def _exact_path(ranked: Ranked, stage: StageScore, spell: Spell) -> str:
    if stage.reason is Reason.SUBSTRING_ONLY:
        return "found by substrings: no BM25 value"
    if stage.reason is not Reason.EXACT_PATH:
        return "the query does not name the file"
    tier = stage.numbers.get("tier")
    how = _NAMED_BY.get(tier) if isinstance(tier, int) else None
    numbers = {name: stage.numbers.get(name) for name in ("content", "ranked_by")}
    told = [
        f"{name.replace('_', ' ')} {spell(value)}"
        for name, value in numbers.items()
        if isinstance(value, int | float)
    ]
    return ", ".join(["the query names the file" + (f" {how}" if how else ""), *told])


def _cut(ranked: Ranked, stage: StageScore, spell: Spell) -> str:
    return f"{'within' if stage.reason is Reason.OK else 'beyond'} k = {stage.numbers.get('k')}"


def _plain_numbers(ranked: Ranked, stage: StageScore, spell: Spell) -> str:
    factor = f"x {spell(stage.operand)}" if stage.operand is not None else ""
    listed = ", ".join(f"{key} {spell.number(value)}" for key, value in stage.numbers.items())
    return " ".join(part for part in (factor, f"({listed})" if listed else "") if part)


_DESCRIBE: Mapping[Stage, Callable[[Ranked, StageScore, Spell], str]] = {
    Stage.FUSION: _fusion,
    Stage.DECAY: _decay,
    Stage.RERANK: _rerank,
    Stage.MIN_SCORE: _min_score,
    Stage.MMR: _mmr,
    Stage.DEDUP: _dedup,
    Stage.IDENTITY: _exact_path,
    Stage.TIERS: _exact_path,
    Stage.EXACT_PATH: _exact_path,
    Stage.CUT: _cut,
}


def _operand(stage: StageScore) -> float:
    return float("nan") if stage.operand is None else stage.operand
