"""The score of a result as a bar of text: a part for each leg, and what was taken away."""

from __future__ import annotations

from dataclasses import dataclass

from memtui.model import Fusion, Hit, Leg, Ranked, Stage

WIDTH = 16


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One character for each part of a bar."""

    vector: str
    keyword: str
    mmr: str
    decay: str
    up: str
    down: str


UNICODE = Glyphs("█", "▒", "◇", "╌", "▲", "▼")
ASCII = Glyphs("#", "=", "x", ".", "+", "-")


def full_length(ranked: Ranked) -> float:
    """The score that fills a bar: 1, or the largest of all where scores are not on that scale."""
    largest = max(
        (
            abs(stage.after)
            for hit in ranked.hits
            for stage in hit.stages
            if stage.stage != Stage.MMR
        ),
        default=0.0,
    )
    if ranked.ranking.fusion is Fusion.RRF:
        return largest or 1.0
    return max(1.0, largest)


def bar(hit: Hit, full: float, glyphs: Glyphs, width: int = WIDTH) -> str:
    """What is left of the score by leg, then what MMR and decay took; `width` cells at most."""
    taken = {
        stage.stage: max(0.0, stage.before - stage.after)
        for stage in hit.stages
        if stage.stage in {Stage.DECAY, Stage.MMR}
    }
    parts = {leg: max(0.0, part.contribution) for leg, part in hit.legs.items()}
    total = sum(parts.values())
    kept = max(0.0, hit.effective)
    lengths = [
        (glyphs.vector, kept * parts.get(Leg.VECTOR, 0.0) / total if total else kept),
        (glyphs.keyword, kept * parts.get(Leg.KEYWORD, 0.0) / total if total else 0.0),
        (glyphs.mmr, min(taken.get(Stage.MMR, 0.0), max(0.0, hit.score))),
        (glyphs.decay, taken.get(Stage.DECAY, 0.0)),
    ]
    drawn, cells, end = "", 0, 0.0
    for glyph, length in lengths:
        end += length / full * width
        upto = min(width, round(end))
        drawn += glyph * (upto - cells)
        cells = upto
    return drawn.ljust(width)
