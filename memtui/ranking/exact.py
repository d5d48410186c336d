"""Exact names: files that the query names come first, by tier (OpenClaw 2026.8 on, `hybrid.ts`).

Three stages, because the release carries two scores for such a candidate: a private one, which
decay, importance, project and MMR work on, and a public one, which is shown and compared with the
minimum. The same holds for a substring match that no BM25 value backs.
"""

from __future__ import annotations

from collections.abc import Sequence

from memtui.model import Operation, Reason, SearchMode, Stage
from memtui.ranking import stages
from memtui.ranking.stages import Described, StageState, Step

TIERS = (3, 2, 1)


def tie_score(content: float) -> float:
    """Half for the name, half for the content cut to 0..1: what an exact name ranks by."""
    return (1 + max(0.0, min(1.0, content))) / 2


def identity_stage(state: StageState) -> Step | None:
    """Give exact names and substring matches the private score that they are ranked by."""
    replaced = {
        index: score for index in state.order if (score := _private(state, index)) is not None
    }
    if not replaced:
        return None
    scores = list(state.scores)
    for index, score in replaced.items():
        scores[index] = score

    def describe(index: int) -> Described:
        if index not in replaced:
            return Reason.OK, {}
        tier = state.rows[index].path_tier
        reason = Reason.EXACT_PATH if tier else Reason.SUBSTRING_ONLY
        return reason, {"tier": tier, "content": state.scores[index]}

    order = state.sorted_by(scores)
    return Step(
        Stage.IDENTITY, Operation.REPLACE, scores, order, operands=scores, describe=describe
    )


def tiers_stage(state: StageState) -> Step | None:
    """Put exact names first, by tier; what only a substring backs goes back to its public 0."""
    hidden = frozenset(index for index in state.order if _is_hidden(state, index))
    groups = tier_groups(state)
    if len(groups) == 1 and not hidden:
        return None
    scores = [0.0 if index in hidden else score for index, score in enumerate(state.scores)]
    *exact, others = groups
    ordered = [index for group in exact for index in group]
    ordered += sorted(others, key=lambda index: -scores[index])

    def describe(index: int) -> Described:
        if index in hidden:
            return Reason.SUBSTRING_ONLY, {"ranked_by": state.scores[index]}
        tier = state.rows[index].path_tier
        return (Reason.EXACT_PATH, {"tier": tier}) if tier else (Reason.OK, {})

    return Step(Stage.TIERS, Operation.REPLACE, scores, ordered, operands=scores, describe=describe)


def exact_path_stage(state: StageState) -> Step | None:
    """Show exact names with their public score: 1 times the project multiplier."""
    exact = [index for index in state.order if state.rows[index].path_tier > 0]
    if not exact:
        return None
    active = state.ranking.project_keys
    scores = list(state.scores)
    for index in exact:
        scores[index] = stages.project_multiplier(state.rows[index].chunk.project_keys, active)
    named = frozenset(exact)

    def describe(index: int) -> Described:
        if index not in named:
            return Reason.OK, {}
        numbers = {"tier": state.rows[index].path_tier, "ranked_by": state.scores[index]}
        return Reason.EXACT_PATH, numbers

    return Step(
        Stage.EXACT_PATH,
        Operation.REPLACE,
        scores,
        list(state.order),
        operands=scores,
        describe=describe,
    )


def tier_groups(state: StageState) -> list[list[int]]:
    """Return the survivors in the groups that MMR may not mix: tiers 3, 2, 1, then everything else.

    Without decay a tier is two groups: what content backs, and what the name alone backs. Only
    groups with members are given, except the last, which always is.
    """
    if not any(state.rows[index].path_tier for index in state.order):
        return [list(state.order)]
    groups: list[list[int]] = []
    for tier in TIERS:
        members = [index for index in state.order if state.rows[index].path_tier == tier]
        groups += [group for group in _split(state, members) if group]
    return [*groups, [index for index in state.order if not state.rows[index].path_tier]]


def _split(state: StageState, members: Sequence[int]) -> tuple[list[int], list[int]]:
    if state.ranking.decay.enabled:
        return list(members), []
    backed = [index for index in members if _is_backed(state, index)]
    kept = frozenset(backed)
    return backed, [index for index in members if index not in kept]


def _is_backed(state: StageState, index: int) -> bool:
    if state.ranking.search_mode is SearchMode.KEYWORD_ONLY:
        hit = state.rows[index].keyword_hit
        return hit is not None and hit.has_body
    return state.rows[index].score > 0 or state.lexical_rank(index) > 0


def _private(state: StageState, index: int) -> float | None:
    """Return the private score of a candidate; `None` where the fused score serves."""
    row = state.rows[index]
    content = state.scores[index]
    if state.ranking.search_mode is SearchMode.KEYWORD_ONLY:
        if not row.path_tier or not state.ranking.decay.enabled:
            return None
        return tie_score(content if _is_backed(state, index) else 0.0)
    if row.path_tier:
        if state.ranking.decay.enabled:
            return tie_score(content)
        return content if content > 0 else 1.0
    return state.lexical_rank(index) if content == 0 and state.lexical_rank(index) else None


def _is_hidden(state: StageState, index: int) -> bool:
    """Return whether a candidate has no public score: a substring match without content."""
    row = state.rows[index]
    return (
        state.ranking.search_mode is SearchMode.HYBRID
        and not row.path_tier
        and row.score == 0
        and state.lexical_rank(index) > 0
    )
