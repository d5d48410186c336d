"""The arithmetic of one score as lines of text, every number from the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from memtui.cli import words
from memtui.cli.output import Output
from memtui.cli.results import leg_words
from memtui.model import (
    Chunk,
    Drop,
    Fusion,
    Hit,
    Leg,
    LegHit,
    LegScore,
    LegStatus,
    Ranked,
    Reason,
    SearchMode,
    Stage,
    StageScore,
    citation,
)
from memtui.ranking.trace import Explanation, explain, other_model

_STAGE_WORDS: Mapping[Stage, str] = {
    Stage.FUSION: "fused",
    Stage.MIN_SCORE: "minimum",
    Stage.EXACT_PATH: "exact path",
    Stage.IDENTITY: "exact name",
}
_FACT_WORDS: Mapping[str, str] = {
    "match": "MATCH",
    "substrings": "substrings",
    "keywords": "one by one",
    "query_vector": "query vector",
    "query_vector_from": "from",
}
_FUSION_WORDS: Mapping[Fusion, str] = {
    Fusion.WEIGHTED_SUM: "weighted sum",
    Fusion.RELATIVE_SCORE: "relative score: each leg scaled to 0..1",
    Fusion.RRF: "reciprocal rank fusion",
}


_MODE_WORDS: Mapping[SearchMode, str] = {
    SearchMode.HYBRID: "both legs",
    SearchMode.KEYWORD_ONLY: "the keyword leg alone, with weight 1",
    SearchMode.VECTOR_ONLY: "the vector leg alone, with weight 1",
}


def print_searched(output: Output, ranked: Ranked) -> None:
    """Print what each leg of an agent's search was asked, as its program asks it."""
    for line in searched(ranked):
        output.line(output.clean(line))


def searched(ranked: Ranked) -> Iterator[str]:
    """The mode of the search, then how each leg answered and what it searched for."""
    mode = ranked.pool.search_mode
    yield f"mode       {mode.value}: {_MODE_WORDS[mode]}, profile {ranked.ranking.profile}"
    for leg in (Leg.VECTOR, Leg.KEYWORD):
        state = ranked.pool.states.get(leg)
        if state is None:
            continue
        yield f"{leg.value:<11}{leg_words(state)}"
        for name, value in state.facts.items():
            if value not in {None, ""}:
                yield f"  {_FACT_WORDS.get(name, name.replace('_', ' ')):<14}{value}"


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
    chunk_id = scored.chunk.id
    for leg in (Leg.VECTOR, Leg.KEYWORD):
        part = scored.legs.get(leg)
        yield (
            _leg_line(ranked, chunk_id, leg, part)
            if part is not None
            else _absent_leg(ranked, leg, scored.chunk)
        )
    for stage in scored.stages:
        yield _stage_line(ranked, stage)
    if told.similar is not None:
        shared = ", ".join(told.similar.shared[:12])
        yield (
            f"  most like {told.similar.citation}: "
            f"Jaccard {words.number(told.similar.similarity)}" + (f" ({shared})" if shared else "")
        )
    yield from _verdict(ranked, told)


def _leg_line(ranked: Ranked, chunk_id: str, leg: Leg, part: LegScore) -> str:
    terms = f", terms {' '.join(part.terms)}" if part.terms else ""
    arithmetic = f"{words.exact(part.mapped)} x {words.number(part.weight)}"
    raw = f"{words.LEG_UNITS[leg]} {words.exact(part.raw)}"
    if part.text_score is not None and ranked.ranking.fusion is Fusion.WEIGHTED_SUM:
        raw = " -> ".join(_text_steps(_hit_of(ranked, chunk_id), part, part.text_score))
    return (
        f"  {leg:<11}{words.exact(part.contribution):<24}#{part.position + 1:<4}"
        f"{arithmetic}  from {raw}{terms}"
    )


def _hit_of(ranked: Ranked, chunk_id: str) -> LegHit | None:
    hits = ranked.pool.hits.get(Leg.KEYWORD, ())
    return next((hit for hit in hits if hit.chunk_id == chunk_id), None)


def _text_steps(hit: LegHit | None, part: LegScore, text_score: float) -> Iterator[str]:
    """From what the keyword leg found to the value that is weighted."""
    if hit is not None and not hit.has_body:
        yield "the path alone"
    else:
        no_bm25 = hit is not None and hit.score is not None
        yield "substrings, no bm25" if no_bm25 else f"bm25 {words.exact(part.raw)}"
        yield f"text score {words.exact(text_score)}"
    if hit is None or (part.mapped == text_score and hit.has_body):
        return
    if hit.has_body and part.mapped == hit.boosted:
        yield f"boosted {words.exact(part.mapped)}"
    elif part.mapped == hit.path_raw:
        yield f"path score {words.exact(part.mapped)}"
    else:
        yield f"counted as {words.exact(part.mapped)}"


def _absent_leg(ranked: Ranked, leg: Leg, chunk: Chunk) -> str:
    state = ranked.pool.states.get(leg)
    model = other_model(ranked, chunk) if leg is Leg.VECTOR else None
    if model is not None:
        why = f"its vector is of another model: {model}"
    elif state is not None and state.status is not LegStatus.OK:
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
    if stage.reason is Reason.SUBSTRING_ONLY:
        return "found by substrings: no BM25 value"
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
    Stage.IDENTITY: _exact_path,
    Stage.TIERS: _exact_path,
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
