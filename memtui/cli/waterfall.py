"""The arithmetic of one score as lines of text, every number from the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from memtui.cli import words
from memtui.cli.output import Output
from memtui.model import (
    Drop,
    Fusion,
    Hit,
    Leg,
    LegScore,
    LegStatus,
    Ranked,
    Reason,
    Stage,
    StageScore,
    citation,
)
from memtui.ranking.trace import Explanation, explain

_STAGE_WORDS: Mapping[Stage, str] = {
    Stage.FUSION: "fused",
    Stage.MIN_SCORE: "minimum",
    Stage.EXACT_PATH: "exact path",
}
_FUSION_WORDS: Mapping[Fusion, str] = {
    Fusion.WEIGHTED_SUM: "weighted sum",
    Fusion.RELATIVE_SCORE: "relative score: each leg scaled to 0..1",
    Fusion.RRF: "reciprocal rank fusion",
}


def print_waterfall(output: Output, ranked: Ranked, chunk_id: str) -> None:
    """Print raw values, contributions, every stage and the verdict of one chunk of the pool."""
    told = explain(ranked, chunk_id)
    chunk = told.scored.chunk
    place = citation(chunk.path, chunk.start_line, chunk.end_line)
    output.line(output.styled(output.clean(place), 1))
    for line in waterfall(ranked, told):
        output.line(output.clean(line))


def waterfall(ranked: Ranked, told: Explanation) -> Iterator[str]:
    """The lines, from the raw values to the verdict."""
    scored = told.scored
    for leg in (Leg.VECTOR, Leg.KEYWORD):
        part = scored.legs.get(leg)
        yield _leg_line(leg, part) if part is not None else _absent_leg(ranked, leg)
    for stage in scored.stages:
        yield _stage_line(ranked, stage)
    if told.similar is not None:
        shared = ", ".join(told.similar.shared[:12])
        yield (
            f"  most like {told.similar.citation}: "
            f"Jaccard {words.number(told.similar.similarity)}" + (f" ({shared})" if shared else "")
        )
    yield from _verdict(ranked, told)


def _leg_line(leg: Leg, part: LegScore) -> str:
    terms = f", terms {' '.join(part.terms)}" if part.terms else ""
    arithmetic = f"{words.exact(part.mapped)} x {words.number(part.weight)}"
    raw = f"{words.LEG_UNITS[leg]} {words.exact(part.raw)}"
    return (
        f"  {leg:<11}{words.exact(part.contribution):<24}#{part.position + 1:<4}"
        f"{arithmetic}  from {raw}{terms}"
    )


def _absent_leg(ranked: Ranked, leg: Leg) -> str:
    state = ranked.pool.states.get(leg)
    if state is not None and state.status is not LegStatus.OK:
        why = f"{state.status}: {words.reason_words(state.reason)}"
    else:
        why = f"not among the {len(ranked.pool.hits.get(leg, ()))} that the leg found"
    return f"  {leg:<11}{'-':<24}{'-':<5}{why}"


def _stage_line(ranked: Ranked, stage: StageScore) -> str:
    name = _STAGE_WORDS.get(stage.stage, stage.stage.value)
    describe = _DESCRIBE.get(stage.stage, _plain_numbers)
    return (
        f"  {name:<11}{words.exact(stage.after):<24}#{stage.rank:<4}{describe(ranked, stage)}"
    ).rstrip()


def _fusion(ranked: Ranked, stage: StageScore) -> str:
    return f"sum of the legs ({_FUSION_WORDS[ranked.ranking.fusion]})"


def _decay(ranked: Ranked, stage: StageScore) -> str:
    factor = f"x {words.exact(_operand(stage))}"
    numbers = stage.numbers
    if numbers.get("age_days") is None:
        return f"{factor} ({words.reason_words(stage.reason)})"
    return (
        f"{factor}: age {words.number(numbers.get('age_days'))} days, "
        f"half-life {words.number(numbers.get('half_life_days'))}, "
        f"floor {words.number(numbers.get('floor'))}, "
        f"dated {numbers.get('date')} ({words.reason_words(stage.reason)})"
    )


def _rerank(ranked: Ranked, stage: StageScore) -> str:
    numbers = {name: words.number(value) for name, value in stage.numbers.items()}
    return (
        f"{numbers['relevance_weight']} x {words.exact(stage.before)} / {numbers['maximum']}"
        f" + {numbers['recency_weight']} x {numbers['recency']} (recency)"
        f" + {numbers['importance_weight']} x {numbers['importance']} (importance)"
    )


def _min_score(ranked: Ranked, stage: StageScore) -> str:
    minimum = words.number(stage.numbers.get("min_score"))
    if stage.reason is Reason.OK:
        return f">= {minimum}"
    return f"< {minimum} ({words.reason_words(stage.reason)})"


def _mmr(ranked: Ranked, stage: StageScore) -> str:
    numbers = {name: words.number(value) for name, value in stage.numbers.items()}
    twin = stage.numbers.get("similar_to")
    like = f" like {_place(ranked, twin)}" if isinstance(twin, str) else ""
    penalty = f"- {words.exact(_operand(stage))}"
    if stage.operation.value == "replace":
        penalty = "variety only, relevance ignored"
    return (
        f"{penalty}: lambda {numbers['lambda']}, span {numbers['span']}, "
        f"similarity {numbers['max_similarity']}{like}; MMR {numbers['mmr']}"
    )


def _dedup(ranked: Ranked, stage: StageScore) -> str:
    twin = stage.numbers.get("duplicate_of")
    return f"the text of {_place(ranked, twin)}" if isinstance(twin, str) else "no better twin"


def _exact_path(ranked: Ranked, stage: StageScore) -> str:
    if stage.reason is not Reason.EXACT_PATH:
        return "the query does not name the file"
    return f"the query names the file (tier {words.number(stage.numbers.get('tier'))})"


def _cut(ranked: Ranked, stage: StageScore) -> str:
    return f"{'within' if stage.reason is Reason.OK else 'beyond'} k = {stage.numbers.get('k')}"


def _plain_numbers(ranked: Ranked, stage: StageScore) -> str:
    factor = f"x {words.exact(stage.operand)}" if stage.operand is not None else ""
    listed = ", ".join(f"{key} {words.number(value)}" for key, value in stage.numbers.items())
    return " ".join(part for part in (factor, f"({listed})" if listed else "") if part)


_DESCRIBE: Mapping[Stage, Callable[[Ranked, StageScore], str]] = {
    Stage.FUSION: _fusion,
    Stage.DECAY: _decay,
    Stage.RERANK: _rerank,
    Stage.MIN_SCORE: _min_score,
    Stage.MMR: _mmr,
    Stage.DEDUP: _dedup,
    Stage.EXACT_PATH: _exact_path,
    Stage.CUT: _cut,
}


def _verdict(ranked: Ranked, told: Explanation) -> Iterator[str]:
    scored = told.scored
    if isinstance(scored, Hit):
        yield (
            f"  SHOWN at rank {scored.rank}, score {words.exact(scored.score)}, "
            f"effective {words.exact(scored.effective)}"
        )
    else:
        yield f"  NOT SHOWN: {_lost(scored)}"
    ranks = " -> ".join(f"#{rank}" for _, rank in told.ranks)
    if ranks:
        yield f"  rank by stage: {ranks}"
    others = [
        f"{'not shown' if rank is None else f'rank {rank}'} without {name}"
        for name, rank in told.without.items()
    ]
    if others:
        yield f"  it would be {', '.join(others)}"


def _lost(drop: Drop) -> str:
    numbers = ", ".join(
        f"{key.replace('_', ' ')} {words.number(value)}"
        for key, value in drop.numbers.items()
        if not (isinstance(value, str) and len(value) == 64)
    )
    return f"{words.reason_words(drop.reason)}, at {drop.stage}" + (
        f" ({numbers})" if numbers else ""
    )


def _operand(stage: StageScore) -> float:
    return float("nan") if stage.operand is None else stage.operand


def _place(ranked: Ranked, chunk_id: str) -> str:
    chunk = ranked.pool.chunks.get(chunk_id)
    if chunk is None:
        return chunk_id[:12]
    return citation(chunk.path, chunk.start_line, chunk.end_line)
