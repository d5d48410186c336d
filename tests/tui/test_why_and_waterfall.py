"""The why-panel and the waterfall: the arithmetic is the trace's, and it fits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.containers import Vertical

from memtui.model import Decay, Fusion, Leg, LegState, LegStatus, Mmr, Ranking, Reason, Stage
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES
from memtui.ranking.trace import find
from memtui.tui import format as fmt
from memtui.tui.arithmetic import axis, steps_of
from memtui.tui.glyphs import ASCII
from memtui.tui.verdicts import counterfactuals, verdict
from memtui.tui.widgets.waterfall import Waterfall, bar_cells, waterfall_lines
from memtui.tui.widgets.why_panel import WhyPanel, why_lines
from tests.tui.reader_samples import RANKING, ReaderApp, everything, pool, ranked, screen_text
from tests.tui.samples import CHUNKS, NOW, make_pool

RANKINGS = [
    *PROFILES.values(),
    RANKING,
    replace(RANKING, fusion=Fusion.RRF),
    replace(RANKING, fusion=Fusion.WEIGHTED_SUM, k=2, min_score=0.3),
    replace(RANKING, mmr=Mmr(enabled=True, lambda_=0.0)),
    replace(RANKING, decay=Decay(enabled=True, floor=0.8)),
]


def _why(text_of: Ranking, place: int = 0, width: int = 46) -> str:
    result = ranked(text_of)
    lines = why_lines(result, result.hits[place].chunk.id, width)
    return "\n".join(line.plain.rstrip() for line in lines)


def test_the_numbers_are_those_of_the_trace() -> None:
    result = ranked()
    for scored in everything(result):
        steps = {step.kind: step for step in steps_of(result, scored)}
        for leg, part in scored.legs.items():
            assert steps[leg].value == part.contribution
            assert steps[leg].rank == part.position + 1
        for stage in scored.stages:
            if stage.stage in steps:
                assert steps[stage.stage].value == stage.after
                assert steps[stage.stage].rank == stage.rank


def test_a_hit_is_told_stage_by_stage() -> None:
    text = _why(RANKING)
    assert "█ vector   0.30×1.000=0.300" in text
    assert "cos 0.431" in text
    assert "▒ keyword  0.70×1.000=0.700" in text
    assert "bm25 −6.81" in text
    assert "= fused    1.000" in text
    assert "2026-02-10, file name, 3.4 d" in text
    assert "SHOWN at rank 1" in text


def test_a_redundant_hit_names_its_twin() -> None:
    result = ranked()
    twin = next(hit for hit in result.hits if hit.chunk.path.endswith("02-09.md"))
    text = "\n".join(line.plain for line in why_lines(result, twin.chunk.id, 46))
    assert "like memory/2026-02-10.md#L12-L31" in text


def test_every_line_fits() -> None:
    for ranking in RANKINGS:
        result = ranked(ranking)
        for scored in everything(result):
            for width in (30, 44, 60, 100):
                lines = why_lines(result, scored.chunk.id, width)
                assert max(line.cell_length for line in lines) <= max(width, 46)


@pytest.mark.parametrize(
    "ranking", RANKINGS, ids=lambda ranking: f"{ranking.profile}-{ranking.fusion}"
)
def test_every_profile_is_drawn_within_its_width(ranking: Ranking) -> None:
    result = ranked(ranking)
    for scored in everything(result):
        steps = steps_of(result, scored)
        for width in (60, 76, 110, 160):
            for line in waterfall_lines(steps, axis(result), width):
                assert line.cell_length <= width


def test_a_leg_that_failed_says_why() -> None:
    base = pool()
    failed = LegState(LegStatus.FAILED, Reason.PROVIDER_FAILED)
    broken = replace(
        base,
        states={**base.states, Leg.VECTOR: failed},
        hits={**base.hits, Leg.VECTOR: ()},
    )
    result = ranked(candidates=broken)
    text = "\n".join(line.plain for line in why_lines(result, result.hits[0].chunk.id, 60))
    assert "vector   provider failed" in text


@pytest.mark.parametrize(
    ("ranking", "words"),
    [
        (replace(RANKING, k=2), "> k 2"),
        (replace(RANKING, min_score=0.3), "< minimum 0.30"),
        (replace(RANKING, dedup=True), "NOT SHOWN"),
        (
            replace(RANKING, k=1, candidate_multiplier=1, min_candidates=2),
            "outside the first 2 of each leg (vector #",
        ),
    ],
)
def test_a_near_miss_says_where_it_was_lost(ranking: Ranking, words: str) -> None:
    result = ranked(ranking)
    verdicts = [verdict(result, drop) for drop in result.drops]
    assert any(words in text and text.startswith("NOT SHOWN") for text in verdicts)


def test_equal_texts_name_the_better_one() -> None:
    base = pool()
    twins = {
        key: replace(item, text="the same words") if item.path != "MEMORY.md" else item
        for key, item in base.chunks.items()
    }
    result = ranked(replace(RANKING, dedup=True), replace(base, chunks=twins))
    lost = next(drop for drop in result.drops if drop.stage is Stage.DEDUP)
    assert "same text as memory/2026-02-10.md#L12-L31" in verdict(result, lost)


def test_other_settings_are_told_in_one_sentence() -> None:
    assert counterfactuals({"mmr": 2, "decay": None}, 4) == (
        "Would be 2 without MMR, not shown without decay."
    )
    assert counterfactuals({"mmr": 4, "decay": 4}, 4) == "The same without MMR or decay."
    assert counterfactuals({}, 4) == ""


def test_bars_stay_on_the_axis_and_show_something() -> None:
    assert bar_cells((0.0, 1.0), 1.0, 20) == (0, 20)
    assert bar_cells((0.0, 2.0), 1.0, 20) == (0, 20)
    assert bar_cells((0.5, 0.501), 1.0, 20)[1] == 1
    assert bar_cells((0.999, 1.0), 1.0, 20) == (19, 1)
    assert bar_cells((0.4, 0.4), 1.0, 20)[1] == 0
    assert bar_cells((-1.0, 0.0), 1.0, 20)[1] == 0


def test_the_ascii_set_is_ascii_where_it_draws() -> None:
    result = ranked()
    lines = waterfall_lines(steps_of(result, result.hits[2]), axis(result), 80, ASCII)
    text = "\n".join(line.plain for line in lines)
    assert "#" in text
    assert not set(text) & set("█▒◇╌▓")


async def test_the_panel_grows_with_its_lines_and_has_a_hint() -> None:
    panel = WhyPanel()
    async with ReaderApp(Vertical(panel)).run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        assert "Select a result" in screen_text(pilot.app)
        small = panel.size.height
        result = ranked()
        panel.show(result, result.hits[1].chunk.id)
        await pilot.pause()
        assert panel.size.height > small
        assert "SHOWN at rank 2" in screen_text(pilot.app)
        panel.show(result, "no such chunk")
        await pilot.pause()
        assert "Select a result" in screen_text(pilot.app)


async def test_the_waterfall_draws_every_step() -> None:
    waterfall = Waterfall()
    result = ranked()
    async with ReaderApp(Vertical(waterfall)).run_test(size=(80, 20)) as pilot:
        waterfall.show(steps_of(result, result.hits[0]), axis(result))
        await pilot.pause()
        text = screen_text(pilot.app)
        for word in ("vector", "+ keyword", "= fused", "× decay", "− mmr"):
            assert word in text
        assert fmt.score(result.hits[0].effective) in text


def test_a_vector_of_another_model_is_told_apart_from_one_that_was_not_found() -> None:
    searched = LegState(LegStatus.OK, facts={"model": "text-embedding-3-small"})
    other = replace(CHUNKS[0], model="ada\x1b[31m-002")
    same = replace(CHUNKS[1], model="text-embedding-3-small")
    found = make_pool(chunks=(other, same, *CHUNKS[2:]), vector=searched)
    found = replace(found, hits={**found.hits, Leg.VECTOR: found.hits[Leg.VECTOR][2:]})
    result = rank(found, Ranking(), now=NOW)
    formulas = [steps_of(result, find(result, chunk.id))[0].formula for chunk in (other, same)]
    assert formulas == [
        "its vector is of another model: ada␛[31m-002",
        "not found by this leg",
    ]
    narrow = " ".join(line.plain.strip() for line in why_lines(result, other.id, 46))
    assert "its vector is of another model: ada␛[31m-002" in narrow
