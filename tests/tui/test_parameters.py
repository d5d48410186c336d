"""Stepping parameters and naming what changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memtui.model import Decay, Fusion, Ranking
from memtui.tui import parameters as p


def test_lambda_stops_at_its_ends_and_stays_on_the_grid() -> None:
    ranking = Ranking()
    for _ in range(30):
        ranking = p.step_lambda(ranking, -1)
    assert ranking.mmr.lambda_ == 0.0
    for step in range(1, 21):
        ranking = p.step_lambda(ranking, 1)
        assert ranking.mmr.lambda_ == round(step * 0.05, 2)
    assert p.step_lambda(ranking, 1) == ranking


@pytest.mark.parametrize(
    ("days", "direction", "expected"),
    [
        (30, 1, 60),
        (30, -1, 14),
        (7, -1, 7),
        (365, 1, 365),
        (20, 1, 30),
        (20, -1, 14),
        (1000, 1, 365),
    ],
)
def test_half_life_goes_along_its_steps(days: float, direction: int, expected: float) -> None:
    ranking = Ranking(decay=Decay(half_life_days=days))
    assert p.step_half_life(ranking, direction).decay.half_life_days == expected


def test_keyword_weight_is_the_rest() -> None:
    ranking = p.step_vector_weight(Ranking(), 1)
    assert (ranking.vector_weight, ranking.keyword_weight) == (0.35, 0.65)


def test_k_stays_between_1_and_50() -> None:
    assert p.step_k(Ranking(k=1), -1).k == 1
    assert p.step_k(Ranking(k=50), 1).k == 50


def test_fusion_goes_round() -> None:
    ranking = Ranking(fusion=Fusion.WEIGHTED_SUM)
    seen = []
    for _ in range(3):
        ranking = p.cycle_fusion(ranking)
        seen.append(ranking.fusion)
    assert seen == [Fusion.RELATIVE_SCORE, Fusion.RRF, Fusion.WEIGHTED_SUM]


def test_changes_are_named() -> None:
    base = Ranking()
    assert p.describe_change(base, p.toggle_mmr(base)) == "MMR on"
    assert p.describe_change(p.toggle_decay(base), base) == "decay off"
    assert p.describe_change(base, p.step_lambda(base, -1)) == "λ 0.70→0.65"
    assert p.describe_change(base, p.step_k(base, 1)) == "k 6×4→7×4"
    assert p.describe_change(base, replace(base, dedup=True)) == "parameters changed"


def test_what_differs_from_the_configuration_is_marked() -> None:
    base = p.toggle_mmr(Ranking())
    changed = {x.id: x for x in p.parameters(p.step_lambda(base, -1), base) if x.configured}
    assert list(changed) == ["mmr"]
    assert (changed["mmr"].value, changed["mmr"].configured) == ("0.65", "0.70")
    assert p.changed_count(base, Ranking()) == 1
    assert p.changed_count(base, base) == 0
