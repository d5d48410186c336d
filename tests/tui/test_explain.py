"""Explanations on screen: sections, the why-panel and the score bar tell the numbers of the trace."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from textual.content import Content

from memtui.model import (
    Chunk,
    Decay,
    Fusion,
    Leg,
    LegState,
    LegStatus,
    Mmr,
    Ranking,
    Reason,
    Rerank,
)
from memtui.model.inquiry import (
    Passage,
    Passages,
)
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES
from memtui.ranking.trace import find
from memtui.report.arithmetic import bar_parts, bar_scale, part_cells, score_steps
from memtui.report.explanation import (
    Explained,
    report_of,
    verdict_words,
)
from memtui.report.layout import Extent
from memtui.report.words import SHORT
from memtui.tui.glyphs import ASCII, UNICODE, Glyphs
from memtui.tui.present import bar_cells, score_bar, section_rows, text_lines
from memtui.tui.widgets.why_panel import why_lines
from tests.tui.reader_samples import (
    RANKING,
    everything,
    ranked,
)
from tests.tui.samples import CHUNKS, NOW, make_pool, make_ranked

RANKINGS = [
    *PROFILES.values(),
    RANKING,
    replace(RANKING, fusion=Fusion.RRF),
    replace(RANKING, fusion=Fusion.WEIGHTED_SUM, k=2, min_score=0.3),
    replace(RANKING, mmr=Mmr(enabled=True, lambda_=0.0)),
    replace(RANKING, mmr=Mmr(enabled=True, lambda_=0.3), rerank=Rerank(enabled=True)),
    replace(RANKING, decay=Decay(enabled=True, floor=0.8)),
]


def make_passages(chunk: Chunk) -> Passages:
    """The first and the last sentence of a chunk."""
    text = chunk.text
    first = Passage(0, max(1, text.find(";") + 1), 0.62)
    last = Passage(text.rfind(" ") + 1, len(text), 0.41)
    return Passages(text, (first, last), model="sample-model")


def _drawn(explained: Explained, width: int = 100, glyphs: Glyphs = UNICODE) -> list[Content]:
    sections = report_of(explained, spell=SHORT).sections
    return [line for section in sections for _, line in section_rows(section, width, glyphs)]


# --- sections -----------------------------------------------------------------------------------


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("ranking", RANKINGS, ids=lambda one: f"{one.profile}-{one.fusion}")
def test_every_line_fits_and_ascii_is_ascii(ranking: Ranking, glyphs: Glyphs) -> None:
    result = ranked(ranking)
    for scored in everything(result):
        explained = Explained(result, ranking, subject=scored.chunk.id)
        for width in (40, 76, 160):
            for line in _drawn(explained, width, glyphs):
                assert line.cell_length <= width, line.plain
                assert glyphs is UNICODE or line.plain.isascii(), line.plain
        for line in why_lines(result, scored.chunk.id, 46, glyphs):
            assert line.cell_length <= 46, line.plain


def test_query_words_and_passages_are_marked_in_the_text() -> None:
    chunk = CHUNKS[0]
    result, passages = make_ranked(), make_passages(chunk)
    drawn = text_lines(chunk.text, result, passages, 200, UNICODE)
    first = passages.found[0]
    marked = {
        (style, line.plain[span.start : span.end])
        for line in drawn[1:]
        for span in line.spans
        for style in ("underline", "mark")
        if style in str(span.style)
    }
    assert ("underline", chunk.text[first.start : first.end]) in marked
    assert ("mark", "router") in marked
    other = text_lines(chunk.text, result, make_passages(CHUNKS[1]), 80, UNICODE)
    assert not any("underline" in str(span.style) for line in other for span in line.spans)


def test_bars_stay_on_the_axis_and_show_something() -> None:
    cells = {
        (0.0, 1.0): (0, 20),
        (0.0, 2.0): (0, 20),
        (0.999, 1.0): (19, 1),
        (0.5, 0.501): (10, 1),
        (0.4, 0.4): (8, 0),
        (-1.0, 0.0): (0, 0),
    }
    assert {ends: bar_cells(Extent(*ends), 1.0, 20) for ends in cells} == cells


# --- the why-panel ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranking", "words"),
    [
        (replace(RANKING, k=2), "> k 2"),
        (replace(RANKING, min_score=0.3), "< minimum 0.3"),
        (
            replace(RANKING, k=1, candidate_multiplier=1, min_candidates=2),
            "outside the first 2 of each leg (vector #",
        ),
    ],
)
def test_a_near_miss_says_where_it_was_lost(ranking: Ranking, words: str) -> None:
    result = ranked(ranking)
    verdicts = [verdict_words(result, drop) for drop in result.drops]
    assert any(words in text and text.startswith("NOT SHOWN") for text in verdicts)


def test_why_a_leg_says_nothing_of_a_chunk() -> None:
    searched = LegState(LegStatus.OK, facts={"model": "text-embedding-3-small"})
    other = replace(CHUNKS[0], model="ada\x1b[31m-002")
    same = replace(CHUNKS[1], model="text-embedding-3-small")
    found = make_pool(chunks=(other, same, *CHUNKS[2:]), vector=searched)
    found = replace(found, hits={**found.hits, Leg.VECTOR: found.hits[Leg.VECTOR][2:]})
    failed = {**found.states, Leg.VECTOR: LegState(LegStatus.FAILED, Reason.PROVIDER_FAILED)}
    result, broken = (
        rank(one, Ranking(), now=NOW) for one in (found, replace(found, states=failed))
    )
    formulas = [
        score_steps(one, find(one, chunk.id))[0].formula
        for one, chunk in ((result, other), (result, same), (broken, same))
    ]
    assert formulas == [
        "its vector is of another model: ada␛[31m-002",
        "not found by this leg",
        "provider failed",
    ]


# --- the score bar ------------------------------------------------------------------------------


@pytest.mark.parametrize("ranking", RANKINGS, ids=lambda one: f"{one.profile}-{one.fusion}")
def test_the_bar_adds_up_to_the_effective_score_and_the_losses(ranking: Ranking) -> None:
    result = ranked(ranking)
    at_lambda_0 = ranking.mmr.enabled and ranking.mmr.lambda_ == 0
    scale = bar_scale(everything(result))
    for hit in result.hits:
        parts = bar_parts(hit)
        effective = hit.score if at_lambda_0 else hit.effective
        kept = parts["vector"] + parts["keyword"] + parts["gain"]
        assert kept == pytest.approx(max(0.0, effective), abs=1e-9)
        assert min(parts.values()) >= 0
        for glyphs in (UNICODE, ASCII):
            bar = score_bar(hit, 20, scale, glyphs)
            assert bar.cell_length == 20
            counts = Counter(bar.plain)
            cells = dict(part_cells(hit, 20, scale))
            assert counts[glyphs.vector] == cells["vector"]
            assert counts[" "] == 20 - sum(cells.values())
