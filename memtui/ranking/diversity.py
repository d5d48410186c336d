"""The MMR stage: diversity within each group of candidates that may change places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memtui.model import Numbers, Operation, Reason, Stage
from memtui.ranking import mmr
from memtui.ranking.exact import tier_groups
from memtui.ranking.record import Step
from memtui.ranking.stage_state import Standing


def mmr_stage(standing: Standing) -> Step | None:
    """Reorder by MMR; the effective score is the score less the redundancy in the same unit.

    With span = max - min of the scores, lambda * relevance - (1 - lambda) * similarity orders as
    score - ((1 - lambda) / lambda) * span * similarity does (both divided by lambda and scaled
    back). At lambda 0 (below a millionth) there is no such unit: the effective score is minus the
    similarity.
    """
    setting = standing.ranking.mmr
    if not setting.enabled or not standing.order:
        return None
    groups = tier_groups(standing)
    if len(groups) == 1:
        return _diversify(standing, standing.sorted_by(standing.scores))
    return _join([_diversify(standing, group) for group in groups if group])


def _diversify(standing: Standing, order: Sequence[int]) -> Step:
    """Reorder one group; `order` comes best first."""
    lambda_ = min(1.0, max(0.0, standing.ranking.mmr.lambda_))
    ordered_scores = [standing.scores[index] for index in order]
    chosen = mmr.select(ordered_scores, overlap_matrix(standing, order), lambda_)
    span = (ordered_scores[0] - ordered_scores[-1]) or 1.0
    has_unit = lambda_ >= 1e-6
    penalty = ((1 - lambda_) / lambda_) * span if has_unit else -1.0
    effective = list(standing.scores)
    operands: list[float | None] = [None] * len(standing.rows)
    place = {index: position for position, index in enumerate(order)}
    for index, position in place.items():
        similarity = chosen.max_similarity[position]
        operand = penalty * similarity
        operands[index] = operand
        effective[index] = standing.scores[index] - operand if has_unit else operand

    def describe(index: int) -> tuple[Reason, Numbers]:
        position = place[index]
        twin = chosen.twin(position)
        similarity, relevance = chosen.max_similarity[position], chosen.relevance[position]
        if twin < 0:
            reason = Reason.FIRST if chosen.order[0] == position else Reason.OK
        else:
            reason = Reason.REDUNDANT
        return reason, {
            "lambda": lambda_,
            "relevance": relevance,
            "max_similarity": similarity,
            "mmr": mmr.mmr_score(relevance, similarity, lambda_),
            "span": span,
            "similar_to": standing.rows[order[twin]].chunk.id if twin >= 0 else None,
        }

    return Step(
        Stage.MMR,
        Operation.SUBTRACT if has_unit else Operation.REPLACE,
        effective,
        [order[position] for position in chosen.order],
        operands=operands,
        describe=describe,
        numbers={"lambda": lambda_, "span": span},
        is_score=False,
    )


def _join(steps: Sequence[Step]) -> Step:
    """One step of the groups' steps, in their order; each candidate is told by its own group."""
    owner = {index: step for step in steps for index in step.order}
    scores = list(steps[0].scores)
    operands: list[float | None] = [None] * len(scores)
    for index, step in owner.items():
        scores[index] = step.scores[index]
        operands[index] = step.operands[index] if step.operands is not None else None

    def describe(index: int) -> tuple[Reason, Numbers]:
        return owner[index].describe(index)

    order = [index for step in steps for index in step.order]
    return replace(steps[-1], scores=scores, order=order, operands=operands, describe=describe)


def overlap_matrix(standing: Standing, order: Sequence[int]) -> mmr.Matrix:
    """The similarity matrix of these rows, cut out of the pool's own matrix; not to be changed.

    The last one is kept with the pool: MMR on and off, or another lambda, leaves the order.
    """
    empty = standing.ranking.mmr.empty_similarity
    key = f"overlap:{empty}"
    cached = standing.pool.derived.get(key)
    if cached is None:
        ids = tuple(standing.pool.chunks)
        places = {chunk_id: place for place, chunk_id in enumerate(ids)}
        matrix = mmr.similarity_matrix([standing.pool.chunks[i] for i in ids], empty)
        cached = standing.pool.derived[key] = (places, matrix)
    places, matrix = cached
    wanted = [places[standing.rows[index].chunk.id] for index in order]
    kept: tuple[list[int] | None, mmr.Matrix]
    kept = standing.pool.derived.get(f"{key}, cut", (None, matrix))
    if kept[0] != wanted:
        kept = wanted, matrix.take(wanted, axis=0).take(wanted, axis=1)
        standing.pool.derived[f"{key}, cut"] = kept
    return kept[1]
