"""The stages of OpenClaw 2026.9 in the arithmetic: exact names, substrings, importance, projects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from memtui.model import (
    CandidatePool,
    Chunk,
    Hit,
    Leg,
    LegHit,
    Numbers,
    Operation,
    Ranked,
    Reason,
    Stage,
    StageScore,
)
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import profile
from memtui.ranking.trace import find
from memtui.report.arithmetic import ScoreStep, score_steps
from memtui.tui.glyphs import UNICODE
from memtui.tui.present import step_glyph
from memtui.tui.widgets.why_panel import why_lines
from tests.tui.samples import CHUNKS, NOW, make_pool, make_ranked


def _pool(chunks: Mapping[str, Chunk], keyword: tuple[LegHit, ...]) -> CandidatePool:
    pool = make_pool("network.md")
    hits = {Leg.VECTOR: pool.hits[Leg.VECTOR][:3], Leg.KEYWORD: keyword}
    return replace(pool, chunks=dict(chunks), hits=hits)


def _ranked() -> tuple[Ranked, str, str]:
    """An exact name, and a note of importance 9 whose text score was boosted."""
    named, weighty = CHUNKS[2], replace(CHUNKS[0], importance=9)
    chunks = {chunk.id: chunk for chunk in CHUNKS} | {weighty.id: weighty}
    keyword = (
        LegHit(named.id, 0, -7.4, ("network",), path_tier=2, boosted=0.95),
        LegHit(weighty.id, 1, -3.0, ("router",), boosted=1.0),
    )
    ranking = replace(profile("openclaw-2026.9"), min_score=0.0)
    return rank(_pool(chunks, keyword), ranking, now=NOW), named.id, weighty.id


def _steps(ranked: Ranked, chunk_id: str) -> dict[object, ScoreStep]:
    return {step.kind: step for step in score_steps(ranked, find(ranked, chunk_id))}


def test_an_exact_name_tells_both_of_its_scores() -> None:
    ranked, named, _ = _ranked()
    steps = _steps(ranked, named)
    assert ranked.hits[0].chunk.id == named
    identity = steps[Stage.IDENTITY]
    assert identity.value is not None
    content = find(ranked, named).stages[0].after
    assert identity.formula == f"(1 + {content:.3f})/2"
    assert identity.value == (1 + content) / 2
    assert identity.note == "half name, half content"
    assert steps[Stage.TIERS].note == "exact names first: its file name"
    assert steps[Stage.EXACT_PATH].note.startswith("for an exact name; ranked by 0.")
    assert steps[Stage.EXACT_PATH].value == ranked.hits[0].score == 1.0
    assert step_glyph(steps[Stage.IDENTITY], UNICODE) == UNICODE.rerank


def test_importance_is_a_factor() -> None:
    ranked, _, weighty = _ranked()
    step = _steps(ranked, weighty)[Stage.IMPORTANCE]
    assert step.sign == "×"
    assert step.formula == "× 1.200"
    assert step.word == "importance"


def test_the_boost_is_told_between_bm25_and_the_contribution() -> None:
    ranked, _, weighty = _ranked()
    step = _steps(ranked, weighty)[Leg.KEYWORD]
    assert step.formula == "0.3 × 1.000"
    assert step.note == "bm25 −3.000 → text score 0.750 → boosted 1.000 (router)"
    assert step.brief == "1.000 = 0.750 + boost"


@pytest.mark.parametrize("width", [30, 46, 90])
def test_every_line_of_the_why_panel_fits(width: int) -> None:
    ranked, named, weighty = _ranked()
    for chunk_id in (named, weighty, CHUNKS[1].id):
        for line in why_lines(ranked, chunk_id, width):
            assert line.cell_length <= width or width < 40


@pytest.mark.parametrize(
    ("stage", "reason", "numbers", "note"),
    [
        (Stage.TIERS, Reason.EXACT_PATH, {"tier": 3}, "exact names first: its path"),
        (Stage.TIERS, Reason.EXACT_PATH, {"tier": 1}, "exact names first: its bare name"),
        (
            Stage.TIERS,
            Reason.SUBSTRING_ONLY,
            {"ranked_by": 0.5},
            "no BM25 value: shown as 0.400, ranked by 0.500",
        ),
        (
            Stage.IDENTITY,
            Reason.SUBSTRING_ONLY,
            {"content": 0.0},
            "no BM25 value: ranked by the words found",
        ),
        (Stage.PROJECT, Reason.OTHER_PROJECT, {}, "of another project"),
        (Stage.PROJECT, Reason.OK, {}, ""),
    ],
)
def test_every_stage_says_what_it_did(
    stage: Stage, reason: Reason, numbers: Numbers, note: str
) -> None:
    ranked = make_ranked()
    done = StageScore(stage, 0.5, 0.4, Operation.MULTIPLY, 0.8, 1, reason, numbers)
    hit: Hit = replace(ranked.hits[0], stages=(done,))
    step = score_steps(ranked, hit)[-1]
    assert step.note == note
    assert step.value == 0.4
