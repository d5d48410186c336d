"""Comparing memtui's results with the program's own, stage by stage."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from memtui.engine.foreign.answers import RecordedQuery, RecordedResult
from memtui.engine.foreign.replay import VECTOR
from memtui.model import Chunk, Drop, Hit, Leg, LegStatus, Operation, Ranked, Stage
from memtui.ranking.mmr import snippet_text
from memtui.ranking.trace import find

END_TO_END = 1e-6
"""How far scores may be apart: the program's cosine is single precision."""
FROM_LEGS = 1e-12
"""How far scores may be apart that start from the program's own hits."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one query compares."""

    query: str
    agrees: bool
    results: int
    """How many results the program gave."""
    score_difference: float
    """The largest difference of a score, a vector score or a text score; 0 to the last bit."""
    stage: str | None = None
    """The first stage that differs; `None` when nothing does."""
    detail: str = ""
    from_legs: float | None = None
    """The largest difference of a score that starts from the recorded legs; `None`: not told."""


Place: TypeAlias = tuple[str, int, int]
Pairs: TypeAlias = dict[int, int]
"""Where a result of the program is among memtui's hits: position to position, both from 0."""


def compare(record: RecordedQuery, ranked: Ranked, legs: Ranked | None) -> Verdict:
    """Compare one query; `legs` is what the recorded legs rank to, where that can be told."""
    pairs = _paired(record, ranked)
    difference = _largest(
        _difference(ranked.hits[ours], record.results[theirs]) for theirs, ours in pairs.items()
    )
    from_legs = _score_difference(legs, record) if legs is not None else None
    verdict = Verdict(record.text, True, len(record.results), difference, from_legs=from_legs)
    stage = _first_difference(record, ranked, pairs)
    if stage is None and from_legs is not None and not from_legs <= FROM_LEGS:
        stage = "recorded legs", f"ranked from them, a score differs by {from_legs:.3g}"
    if stage is None:
        return verdict
    return replace(verdict, agrees=False, stage=stage[0], detail=stage[1])


def _paired(record: RecordedQuery, ranked: Ranked) -> Pairs:
    """Pair by place; chunks that share one by their order, and where some lack, by rank first."""
    got = _positions(_place(hit.chunk) for hit in ranked.hits)
    wanted = _positions(result.place for result in record.results)
    pairs: Pairs = {}
    for place, theirs in wanted.items():
        ours = got.get(place, [])
        same = set(ours) & set(theirs) if len(ours) != len(theirs) else set()
        pairs |= {position: position for position in same}
        left = ([n for n in theirs if n not in same], [n for n in ours if n not in same])
        pairs |= dict(zip(*left, strict=False))
    return pairs


def _positions(places: Iterable[Place]) -> dict[Place, list[int]]:
    found: dict[Place, list[int]] = {}
    for position, place in enumerate(places):
        found.setdefault(place, []).append(position)
    return found


def _first_difference(
    record: RecordedQuery, ranked: Ranked, pairs: Pairs
) -> tuple[str, str] | None:
    """The first stage at which memtui and the program part, and how."""
    return (
        _vector_leg_differs(record, ranked)
        or _parts_differ(record, ranked, pairs)
        or _missing(record, ranked, pairs)
        or _extra(ranked, pairs)
        or _order_differs(record, ranked)
        or _snippet_differs(record, ranked)
    )


def _vector_leg_differs(record: RecordedQuery, ranked: Ranked) -> tuple[str, str] | None:
    legs = [leg for leg in record.legs or () if leg.kind == VECTOR]
    hits = ranked.pool.hits[Leg.VECTOR]
    if not legs or ranked.pool.states[Leg.VECTOR].status is not LegStatus.OK:
        return None
    recorded = [(hit.chunk, hit.score) for leg in legs for hit in leg.hits]
    if len(recorded) != len(hits):
        return str(Leg.VECTOR), f"{len(hits)} hits, the program had {len(recorded)}"
    for hit, (chunk, score) in zip(hits, recorded, strict=True):
        if not abs(hit.raw - score) <= END_TO_END:
            said = f"hit {hit.position + 1} ({chunk}): {hit.raw!r}, the program had {score!r}"
            return str(Leg.VECTOR), said
    return None


def _parts_differ(record: RecordedQuery, ranked: Ranked, pairs: Pairs) -> tuple[str, str] | None:
    for position, result in enumerate(record.results):
        if position not in pairs:
            continue
        hit = ranked.hits[pairs[position]]
        for leg, recorded in ((Leg.VECTOR, result.vector_score), (Leg.KEYWORD, result.text_score)):
            value = _leg_value(hit, leg)
            if recorded is not None and not abs(value - recorded) <= END_TO_END:
                said = f"{_shown(result)}: {value!r}, the program had {recorded!r}"
                return str(leg), said
        if not abs(hit.score - result.score) <= END_TO_END:
            said = f"{_shown(result)}: {hit.score!r}, the program had {result.score!r}"
            return _last_scoring_stage(hit), said
    return None


def _missing(record: RecordedQuery, ranked: Ranked, pairs: Pairs) -> tuple[str, str] | None:
    shown = {hit.chunk.id for hit in ranked.hits}
    for position, result in enumerate(record.results):
        if position in pairs:
            continue
        candidates = (
            chunk_id
            for chunk_id, chunk in ranked.pool.chunks.items()
            if chunk_id not in shown and _place(chunk) == result.place
        )
        chunk_id = next(candidates, None)
        if chunk_id is None:
            return "candidates", f"{_shown(result)} is in neither leg's candidates"
        lost = find(ranked, chunk_id)
        stage = str(lost.stage if isinstance(lost, Drop) else Stage.CUT)
        return stage, f"{_shown(result)} was lost here; the program shows it"
    return None


def _extra(ranked: Ranked, pairs: Pairs) -> tuple[str, str] | None:
    known = frozenset(pairs.values())
    for position, hit in enumerate(ranked.hits):
        if position not in known:
            stage = Stage.MIN_SCORE if ranked.ranking.min_score is not None else Stage.CUT
            return str(stage), f"{hit.citation} is shown; the program does not show it"
    return None


def _order_differs(record: RecordedQuery, ranked: Ranked) -> tuple[str, str] | None:
    both = zip(ranked.hits, record.results, strict=False)
    for rank_number, (hit, result) in enumerate(both, start=1):
        ours, theirs = _place(hit.chunk), result.place
        if ours != theirs:
            mmr = ranked.ranking.mmr.enabled and Stage.MMR in ranked.ranking.stages
            stage = Stage.MMR if mmr else Stage.FUSION
            said = (
                f"rank {rank_number}: {ours[0]}:{ours[1]}, the program has {theirs[0]}:{theirs[1]}"
            )
            return str(stage), said
    return None


def _snippet_differs(record: RecordedQuery, ranked: Ranked) -> tuple[str, str] | None:
    for hit, result in zip(ranked.hits, record.results, strict=False):
        snippet = snippet_text(hit.chunk)
        if result.snippet is not None and snippet != result.snippet:
            return "snippet", f"{_shown(result)}: the text is another"
    return None


def _last_scoring_stage(hit: Hit) -> str:
    """The last stage that made a score: where a difference came in, if the parts agree."""
    changing = {Operation.SUM, Operation.MULTIPLY, Operation.REPLACE}
    stages = [
        stage.stage
        for stage in hit.stages
        if stage.operation in changing and (stage.operation is Operation.SUM or stage.operand)
    ]
    return str(stages[-1] if stages else Stage.FUSION)


def _difference(hit: Hit, result: RecordedResult) -> float:
    differences = [abs(hit.score - result.score)]
    if result.vector_score is not None:
        differences.append(abs(_leg_value(hit, Leg.VECTOR) - result.vector_score))
    if result.text_score is not None:
        differences.append(abs(_leg_value(hit, Leg.KEYWORD) - result.text_score))
    return _largest(differences)


def _score_difference(ranked: Ranked, record: RecordedQuery) -> float:
    """The largest difference of a score; infinity when the lists are not the same."""
    if [_place(hit.chunk) for hit in ranked.hits] != [result.place for result in record.results]:
        return math.inf
    pairs = zip(ranked.hits, record.results, strict=True)
    return _largest(abs(hit.score - result.score) for hit, result in pairs)


def _largest(differences: Iterable[float]) -> float:
    """The largest of some differences; infinity when one is none, as NaN is."""
    return max((math.inf if math.isnan(d) else d for d in differences), default=0.0)


def _leg_value(hit: Hit, leg: Leg) -> float:
    """The cosine, or the text score before any boost; 0 when the leg did not find the chunk."""
    part = hit.legs.get(leg)
    if part is None:
        return 0.0
    if leg is Leg.VECTOR:
        return part.raw
    return part.mapped if part.text_score is None else part.text_score


def _place(chunk: Chunk) -> Place:
    return chunk.path, chunk.start_line, chunk.end_line


def _shown(result: RecordedResult) -> str:
    return f"{result.path}:{result.start_line}"
