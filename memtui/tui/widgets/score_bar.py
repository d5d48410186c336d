"""The stacked bar: what each leg gave to a score and what each later stage took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from textual.content import Content
from textual.style import Style

from memtui.model import Drop, Hit, Leg, Operation, Stage, StageScore
from memtui.tui.glyphs import Glyphs

BAR_META = {"part": "bar"}
_LOSS = {Stage.DECAY: "decay", Stage.MMR: "mmr"}
_ORDER = ("vector", "keyword", "gain", "mmr", "decay", "loss")


@dataclass(frozen=True, slots=True)
class BarParts:
    """The parts of a bar, in the unit of the fused score; none is below 0.

    What is left of the legs and of gains adds up to the effective score (when that is above 0);
    the losses follow to its right.
    """

    vector: float = 0.0
    keyword: float = 0.0
    gain: float = 0.0
    """Added by a stage after fusion."""
    mmr: float = 0.0
    decay: float = 0.0
    loss: float = 0.0
    """Taken by any other stage after fusion."""

    @property
    def total(self) -> float:
        """Length of the whole bar, losses included."""
        return self.vector + self.keyword + self.gain + self.mmr + self.decay + self.loss


def bar_parts(scored: Hit | Drop) -> BarParts:
    """Read the parts of a bar off the legs and the stages of a result.

    Multiplying stages shrink all legs alike, subtracting ones eat from the right. No score is
    computed here: every length is a contribution or a difference of a stage's before and after.
    """
    kept = {
        "vector": _contribution(scored, Leg.VECTOR),
        "keyword": _contribution(scored, Leg.KEYWORD),
        "gain": 0.0,
    }
    losses = {"mmr": 0.0, "decay": 0.0, "loss": 0.0}
    for stage in scored.stages:
        # A stage that keeps the score goes on from the score before MMR; and at lambda 0 the
        # effective score of MMR is no score. Neither has a length.
        at_lambda_0 = stage.stage is Stage.MMR and stage.operation is Operation.REPLACE
        if stage.operation is Operation.KEEP or at_lambda_0:
            continue
        _apply(stage, kept, losses)
    return BarParts(**kept, **losses)


def bar_scale(results: Iterable[Hit | Drop]) -> float:
    """The score that fills a bar: 1, or the longest bar when all are short or one is longer."""
    longest = max((bar_parts(result).total for result in results), default=1.0)
    return 1.0 if 0.5 <= longest <= 1.0 or longest <= 0 else longest


def score_bar(scored: Hit | Drop, width: int, scale: float, glyphs: Glyphs) -> Content:
    """Draw a bar of exactly `width` cells; a score of `scale` fills it."""
    parts = bar_parts(scored)
    pieces: list[Content | tuple[str, str]] = []
    filled = 0
    end = 0.0
    for name in _ORDER:
        end += getattr(parts, name)
        cells = min(width, round(end / scale * width)) - filled
        if cells > 0:
            glyph, style = _look(name, glyphs)
            pieces.append((glyph * cells, style))
            filled += cells
    pieces.append((" " * (width - filled), ""))
    return Content.assemble(*pieces).stylize(Style.from_meta(BAR_META))


def _contribution(scored: Hit | Drop, leg: Leg) -> float:
    part = scored.legs.get(leg)
    return max(0.0, part.contribution) if part else 0.0


def _apply(stage: StageScore, kept: dict[str, float], losses: dict[str, float]) -> None:
    total = sum(kept.values())
    target = max(0.0, stage.after)
    if target >= total:
        kept["gain"] += target - total
        return
    losses[_LOSS.get(stage.stage, "loss")] += total - target
    if stage.operation is Operation.SUBTRACT:
        excess = total - target
        for name in ("gain", "keyword", "vector"):
            eaten = min(kept[name], excess)
            kept[name] -= eaten
            excess -= eaten
        return
    for name in kept:
        kept[name] *= target / total


def _look(name: str, glyphs: Glyphs) -> tuple[str, str]:
    return {
        "vector": (glyphs.vector, "$leg-vector"),
        "keyword": (glyphs.keyword, "$leg-keyword"),
        "gain": (glyphs.rerank, "$leg-rerank"),
        "mmr": (glyphs.mmr, "$leg-mmr"),
        "decay": (glyphs.decay, "$leg-decay"),
        "loss": (glyphs.decay, "$leg-rerank"),
    }[name]
