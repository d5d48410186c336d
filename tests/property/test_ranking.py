"""Invariants of the ranking pipeline over random pools and random rankings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memtui.engine.explain import inquiry_of
from memtui.engine.ports import ChunkFacts, FileStanding
from memtui.model import (
    CandidatePool,
    Decay,
    Drop,
    Hit,
    Leg,
    MinScoreRule,
    Mmr,
    Operation,
    Ranking,
    Reason,
    Rerank,
    SearchMode,
    Stage,
    StageScore,
)
from memtui.model.inquiry import Place
from memtui.ranking.mmr import Matrix, select
from memtui.ranking.pipeline import difference, for_mode, rank
from memtui.ranking.profiles import PROFILES
from memtui.ranking.stages import chunk_day
from memtui.ranking.trace import explain
from memtui.report.arithmetic import score_steps
from memtui.report.explanation import Explained, drop_words, report_of
from memtui.report.json_text import drop_entry, hit_entry
from memtui.report.layout import SectionId
from memtui.tui import fmt
from memtui.tui.widgets.result_rows import RowContext, draw_drop, draw_hit
from tests.support.dice import examples
from tests.support.known import load
from tests.support.pools import NOW, chunk, pool, pools, rankings, release_pools, release_rankings

APPLY: Mapping[Operation, Callable[[float, float], float]] = {
    Operation.MULTIPLY: lambda before, operand: before * operand,
    Operation.REPLACE: lambda before, operand: operand,
    Operation.SUBTRACT: lambda before, operand: before - operand,
}


def after(stage: StageScore, fused: float) -> float:
    """What the operation makes of the score before it."""
    if stage.operation is Operation.SUM:
        return fused
    if stage.operation is Operation.KEEP:
        return stage.before
    assert stage.operand is not None
    return APPLY[stage.operation](stage.before, stage.operand)


def assert_sums(scored: Hit | Drop) -> None:
    """Go through the stages of one candidate, from its legs to its score."""
    fused = 0.0
    for leg in scored.legs.values():
        assert leg.contribution == leg.weight * leg.mapped
        fused += leg.contribution
    score, effective = fused, None
    for stage in scored.stages:
        assert stage.before == score
        assert stage.after == after(stage, fused)
        if stage.stage is not Stage.MMR:
            score = stage.after
            # An exact name is shown with its public score.
            is_named = stage.stage is Stage.EXACT_PATH and stage.reason is Reason.EXACT_PATH
            effective = None if is_named else effective
        elif stage.operation is Operation.SUBTRACT:
            # The order of MMR is explained by a score of its own; the score goes on as it was.
            effective = stage.after
    assert scored.score == score
    assert scored.effective == (score if effective is None else effective)


OF_PROFILES = [
    replace(
        base,
        decay=replace(base.decay, enabled=decays),
        mmr=replace(base.mmr, enabled=diverse),
        rerank=replace(base.rerank, enabled=True) if reranks else Rerank(),
    )
    for base in PROFILES.values()
    for decays, diverse, reranks in product((False, True), repeat=3)
]
CASES = st.one_of(
    st.tuples(pools(), rankings()),
    st.tuples(pools(), st.sampled_from(OF_PROFILES)),
    st.tuples(release_pools(), release_rankings()),
)


@given(CASES, st.sampled_from(SearchMode), st.sampled_from(MinScoreRule))
@settings(max_examples=examples(200))
def test_hits_and_drops_are_the_pool_with_a_place_and_a_sum_in_every_stage(
    case: tuple[CandidatePool, Ranking], mode: SearchMode, rule: MinScoreRule
) -> None:
    candidates, ranking = case[0], for_mode(replace(case[1], min_score_rule=rule), mode)
    ranked = rank(candidates, ranking, now=NOW)
    assert [hit.rank for hit in ranked.hits] == list(range(1, len(ranked.hits) + 1))
    assert len(ranked.hits) <= ranking.k
    everything: list[Hit | Drop] = [*ranked.hits, *ranked.drops]
    assert sorted(scored.chunk.id for scored in everything) == sorted(candidates.chunks)
    assert len(ranked.drops) == len(list(ranked.drops))
    ranks: dict[Stage, list[int]] = {}
    for scored in everything:
        assert_sums(scored)
        assert explain(ranked, scored.chunk.id).scored == scored
        lost_in = scored.stages[-1:] if isinstance(scored, Drop) else ()
        for stage in scored.stages:
            if stage not in lost_in:
                ranks.setdefault(stage.stage, []).append(stage.rank)
    for of_stage in ranks.values():
        assert sorted(of_stage) == list(range(1, len(of_stage) + 1))
    # Those of the near misses go on where the list ends, each once, up to the last candidate.
    behind = [drop.stages[-1].rank for drop in ranked.drops if drop.stages]
    assert behind == list(range(len(ranked.hits) + 1, len(ranked.hits) + 1 + len(behind)))
    with pytest.raises(KeyError):
        explain(ranked, "no such chunk")


@given(CASES, st.sampled_from(SearchMode))
@settings(max_examples=examples(60))
def test_row_explanation_trace_and_json_give_one_score_and_one_reason(
    case: tuple[CandidatePool, Ranking], mode: SearchMode
) -> None:
    ranked = rank(case[0], for_mode(case[1], mode), now=NOW)
    look = RowContext(2, 1.0, ranked)
    everything: list[Hit | Drop] = [*ranked.hits, *ranked.drops]
    for scored in everything:
        place, score = Place(scored.chunk.path), fmt.score(scored.effective)
        inquiry = inquiry_of(ranked, place, FileStanding(place.path), ChunkFacts(scored.chunk))
        explained = Explained(ranked, ranked.ranking, inquiry)
        report = report_of(explained)
        if isinstance(scored, Hit):
            row, entry = draw_hit(scored, look, 200), hit_entry(ranked, scored)
            verdict = "SHOWN at rank"
            assert f"{scored.rank}, score {score}" in report.verdict
        else:
            row, entry = draw_drop(scored, look, 200), drop_entry(ranked, scored)
            verdict = f"NOT SHOWN: {(why := drop_words(scored, ranked))}"
            assert why in row.plain
            assert not scored.stages or inquiry.steps[-1].reason == entry["reason"]
        assert report.verdict.startswith(verdict)
        assert f" {score} " in row.plain.split("\n")[0]
        pool = next(section for section in report.sections if section.id is SectionId.LEGS).rows[1]
        counts = {step.of for step in inquiry.steps if step.at is Stage.FUSION} or {0}
        assert counts == {0} or int(pool.cells[1].split()[0]) in counts
        assert entry["effective"] == scored.effective
        # Nothing that follows MMR goes back to the score before it.
        shown = [step.value for step in score_steps(ranked, scored) if step.kind is Stage.CUT]
        assert shown in ([], [scored.effective])


@given(pools(), rankings())
def test_lambda_one_is_pure_relevance(pool: CandidatePool, ranking: Ranking) -> None:
    without = rank(pool, replace(ranking, mmr=Mmr(enabled=False)), now=NOW)
    with_one = rank(pool, replace(ranking, mmr=Mmr(enabled=True, lambda_=1.0)), now=NOW)
    assert [h.chunk.id for h in with_one.hits] == [h.chunk.id for h in without.hits]


@given(pools(), st.floats(0.05, 0.95))
def test_effective_scores_fall_down_the_list(pool: CandidatePool, lambda_: float) -> None:
    ranking = replace(PROFILES["memtui"], mmr=Mmr(enabled=True, lambda_=lambda_))
    ranked = rank(pool, ranking, now=NOW)
    for upper, lower in pairwise(ranked.hits):
        assert lower.effective <= upper.effective + 1e-9


@settings(max_examples=40, deadline=None)
@given(pools(), rankings(), rankings())
def test_a_difference_leads_back_to_the_first_list(
    pool: CandidatePool, first: Ranking, second: Ranking
) -> None:
    before, after = (rank(pool, ranking, now=NOW) for ranking in (first, second))
    changes = difference(before, after)
    in_both = {one: rank for one, rank in after.ranks.items() if one not in changes.entered}
    places = {one: rank + changes.moved.get(one, 0) for one, rank in in_both.items()}
    assert {**places, **changes.left} == before.ranks


SIMILARITIES = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0])
"""Few, so that many are equal: ties decide."""


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[float], Matrix, float]:
    count = draw(st.integers(1, 12))
    scores = sorted(draw(st.lists(st.floats(0, 1), min_size=count, max_size=count)), reverse=True)
    matrix = np.eye(count)
    for first in range(count):
        for second in range(first):
            matrix[first, second] = matrix[second, first] = draw(SIMILARITIES)
    return scores, matrix, draw(st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0]))


def by_definition(
    scores: list[float], matrix: Matrix, lambda_: float
) -> tuple[list[int], list[float], list[int]]:
    """Order, greatest similarity to what was chosen before, and the row of that similarity."""
    span = scores[0] - scores[-1]
    relevance = [(score - scores[-1]) / span if span > 0 else 1.0 for score in scores]
    order: list[int] = []
    nearest, twins = [0.0] * len(scores), [-1] * len(scores)
    while len(order) < len(scores):
        values: dict[int, float] = {}
        for row in range(len(scores)):
            if row not in order:
                beside = [lambda_ * relevance[row]]
                beside += [lambda_ * relevance[row] - (1 - lambda_) * matrix[row, o] for o in order]
                values[row] = min(beside)
        chosen = max(values, key=lambda row: (values[row], -row))
        for other in order:
            if matrix[chosen, other] > nearest[chosen]:
                nearest[chosen], twins[chosen] = float(matrix[chosen, other]), other
        order.append(chosen)
    return order, nearest, twins


@given(cases())
def test_the_order_and_the_twins_are_those_of_the_definition(
    case: tuple[list[float], Matrix, float],
) -> None:
    scores, matrix, lambda_ = case
    order, nearest, twins = by_definition(scores, matrix, lambda_)
    chosen = select(scores, matrix, lambda_)
    assert chosen.order == order
    assert chosen.max_similarity == nearest
    assert all(np.copysign(1, value) == 1 for value in chosen.max_similarity)
    assert chosen.twins == twins


ASKED_AT = datetime(2026, 11, 16, tzinfo=UTC)
OLD = int((ASKED_AT - timedelta(days=460)).timestamp()) * 10**9
RELEASES = ("2026.2", "2026.4", "2026.7", "2026.9")


def of(
    vector: dict[str, float], keyword: dict[str, float], *, texts: bool = True, **fields: Any
) -> CandidatePool:
    """Chunks of these paths with their raw scores; those of keywords are text scores."""
    paths = dict.fromkeys((*vector, *keyword))
    made = pool([chunk(path, path=path, **fields) for path in paths], list(vector.items()))
    hits = pool([], (), list(keyword.items())).hits
    leg = next(leg for leg, found in hits.items() if found) if keyword else None
    if leg is None:
        return made
    given = tuple(
        replace(hit, score=hit.raw, boosted=hit.raw) if texts else hit for hit in hits[leg]
    )
    return replace(made, hits={**made.hits, leg: given})


@pytest.mark.parametrize("case", load("release_orders"))
def test_the_order_of_each_release(case: str) -> None:
    vector, keyword, mode, ages, changes, orders = load("release_orders")[case]
    candidates = of(vector, keyword, mtime_ns=OLD)
    for release, order in zip(RELEASES, orders, strict=True):
        base = PROFILES[f"openclaw-{release}"]
        decay, mmr = replace(base.decay, enabled=ages), replace(base.mmr, enabled=False)
        ranking = replace(base, min_score=0.0, decay=decay, mmr=mmr, **changes)
        ranked = rank(candidates, for_mode(ranking, SearchMode(mode)), now=ASKED_AT)
        if order is not None:
            assert [hit.chunk.id for hit in ranked.hits] == order, release


@pytest.mark.parametrize(
    ("minimum", "weights", "counts"),
    [(0.35, (0.7, 0.3), [0, 0, 2, 2]), (0.3, (0.5, 0.1), [0, 1, 2, 2])],
)
def test_a_chunk_of_the_same_lines_as_a_keyword_hit_counts_as_one(
    minimum: float, weights: tuple[float, float], counts: list[int]
) -> None:
    candidates = of({"one": 0.4}, {"other": -0.5}, texts=False)
    same = {name: replace(one, path="memory/a.md") for name, one in candidates.chunks.items()}
    for release, count in zip(RELEASES, counts, strict=True):
        base = replace(PROFILES[f"openclaw-{release}"], min_score=minimum)
        ranking = replace(base, vector_weight=weights[0], keyword_weight=weights[1])
        ranked = rank(replace(candidates, chunks=same), ranking, now=ASKED_AT)
        assert len(ranked.hits) == count, release


@pytest.mark.parametrize(("keys", "active", "factor"), load("agents")["projects of notes"])
def test_a_note_of_the_active_projects_counts_more(
    keys: list[str], active: list[str], factor: float
) -> None:
    base = replace(PROFILES["openclaw-2026.9"], min_score=None, project_keys=tuple(active))
    candidates = of({"MEMORY.md": 0.5}, {}, project_keys=tuple(keys))
    (hit,) = rank(candidates, base, now=ASKED_AT).hits
    assert hit.score == 0.5 * base.vector_weight * factor


def test_what_is_no_memory_file_is_not_evergreen() -> None:
    of_session = replace(chunk("a", path="memory/projects.md", mtime_ns=OLD), source="sessions")
    for release in RELEASES:
        rule = PROFILES[f"openclaw-{release}"].decay.dates
        assert chunk_day(of_session, rule)[1] is Reason.FILE_TIME
        assert chunk_day(replace(of_session, source="memory"), rule)[1] is Reason.EVERGREEN


@pytest.mark.parametrize("path", ["CLAUDE.md", "CLAUDE.local.md", "tools/AGENTS.md"])
def test_instructions_of_a_project_do_not_age_by_the_rule_of_memtui(path: str) -> None:
    instructions = chunk("a", path=path, mtime_ns=OLD)
    for profile, reason in {
        "memtui": Reason.EVERGREEN,
        "openclaw-2026.9": Reason.FILE_TIME,
    }.items():
        assert chunk_day(instructions, PROFILES[profile].decay.dates)[1] is reason


def test_an_exact_name_that_content_backs_comes_before_a_name_alone() -> None:
    candidates = of({}, {"notes/alone.md": 0.9, "notes/backed.md": 0.1})
    alone, backed = candidates.hits[Leg.KEYWORD]
    named = replace(alone, path_tier=3, has_body=False), replace(backed, path_tier=3)
    hits = {**candidates.hits, Leg.KEYWORD: named}
    base = PROFILES["openclaw-2026.9"]
    plain = replace(base, min_score=None, decay=Decay(), mmr=replace(base.mmr, enabled=False))
    ranked = rank(replace(candidates, hits=hits), plain, now=ASKED_AT)
    assert [hit.chunk.id for hit in ranked.hits] == ["notes/backed.md", "notes/alone.md"]


def test_a_release_takes_what_it_would_have_fetched_itself() -> None:
    paths = [f"notes/{n}.md" for n in range(6)]
    pool_of_six = replace(of(dict.fromkeys(paths, 0.9), {}), sized=True, limit=6)
    base = replace(PROFILES["openclaw-2026.4"], k=1, candidate_multiplier=3)
    outside = [d for d in rank(pool_of_six, base, now=ASKED_AT).drops if not d.stages]
    assert [drop.chunk.id for drop in outside] == paths[3:]
    same = replace(pool_of_six, limit=base.candidates)
    assert all(drop.stages for drop in rank(same, base, now=ASKED_AT).drops)
