"""The bar is drawn from the trace alone, and its cells add up."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from memtui.model import Decay, Fusion, Hit, Mmr, Operation, Ranking, Rerank, Stage
from memtui.tui.glyphs import ASCII, UNICODE
from memtui.tui.widgets.score_bar import bar_parts, bar_scale, score_bar
from tests.tui.samples import make_ranked

EVERYTHING = Ranking(decay=Decay(enabled=True), mmr=Mmr(enabled=True))


def hits(ranking: Ranking) -> tuple[Hit, ...]:
    """The sample's hits under a ranking."""
    return make_ranked(ranking).hits


@pytest.mark.parametrize(
    "ranking",
    [
        Ranking(),
        EVERYTHING,
        replace(EVERYTHING, fusion=Fusion.WEIGHTED_SUM),
        replace(EVERYTHING, fusion=Fusion.RRF),
        replace(EVERYTHING, rerank=Rerank(enabled=True)),
        replace(EVERYTHING, mmr=Mmr(enabled=True, lambda_=0.3)),
    ],
)
def test_parts_add_up_to_the_effective_score_and_the_losses(ranking: Ranking) -> None:
    for hit in hits(ranking):
        parts = bar_parts(hit)
        kept = parts.vector + parts.keyword + parts.gain
        assert kept == pytest.approx(max(0.0, hit.effective), abs=1e-9)
        penalty = hit.score - max(0.0, hit.effective)
        assert parts.mmr == pytest.approx(max(0.0, penalty), abs=1e-9)


def test_without_later_stages_the_parts_are_the_contributions() -> None:
    for hit in hits(Ranking()):
        parts = bar_parts(hit)
        contributions = {leg.value: part.contribution for leg, part in hit.legs.items()}
        assert parts.vector == pytest.approx(contributions.get("vector", 0.0))
        assert parts.keyword == pytest.approx(contributions.get("keyword", 0.0))
        assert parts.mmr == parts.decay == parts.loss == parts.gain == 0.0


def test_decay_shrinks_both_legs_alike() -> None:
    old = next(hit for hit in hits(Ranking(decay=Decay(enabled=True))) if hit.chunk.day)
    factor = next(s.operand for s in old.stages if s.stage is Stage.DECAY)
    assert factor is not None
    parts = bar_parts(old)
    for leg, part in old.legs.items():
        assert getattr(parts, leg.value) == pytest.approx(part.contribution * factor)


def test_at_lambda_0_no_penalty_is_drawn() -> None:
    for hit in hits(Ranking(mmr=Mmr(enabled=True, lambda_=0.0))):
        assert any(s.operation is Operation.REPLACE for s in hit.stages if s.stage is Stage.MMR)
        assert bar_parts(hit).mmr == 0.0


@pytest.mark.parametrize("width", [1, 4, 12, 20])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_a_bar_has_exactly_its_width(width: int, glyphs: object) -> None:
    for hit in hits(EVERYTHING):
        assert (
            score_bar(hit, width, 1.0, UNICODE if glyphs is UNICODE else ASCII).cell_length == width
        )


def test_cells_follow_the_numbers() -> None:
    for hit in hits(Ranking()):
        cells = Counter(score_bar(hit, 1000, 1.0, UNICODE).plain)
        parts = bar_parts(hit)
        assert cells["█"] == pytest.approx(parts.vector * 1000, abs=1)
        assert cells["▒"] == pytest.approx(parts.keyword * 1000, abs=1)


def test_full_width_is_1_unless_every_bar_is_short_or_one_is_longer() -> None:
    assert bar_scale(hits(Ranking())) == 1.0
    small = hits(Ranking(fusion=Fusion.RRF))
    assert bar_scale(small) == max(bar_parts(hit).total for hit in small) < 0.5
    assert bar_scale(()) == 1.0
