"""The parameters of a ranking in words, and what differs from the configured one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from memtui.model import Fusion, Ranking, SearchMode, Stage
from memtui.ranking.pipeline import for_mode
from memtui.ranking.trace import Difference
from memtui.report.words import FUSION_WORDS
from memtui.text.sanitize import safe_line

HALF_LIVES: tuple[float, ...] = (7, 14, 30, 60, 90, 180, 365)
WAS_ON, WAS_OFF = "was on", "was off"
MAX_K = 50
FUSION_NAMES: Mapping[str, str] = {**FUSION_WORDS, Fusion.RRF: "RRF"}
MODE_NAMES: Mapping[SearchMode, str] = {
    SearchMode.HYBRID: "both legs",
    SearchMode.KEYWORD_ONLY: "keyword only",
    SearchMode.VECTOR_ONLY: "vector only",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter as the interface names it; `configured` is empty when nothing changed."""

    id: str
    label: str
    value: str
    configured: str = ""
    on: bool | None = None
    """Whether a stage is on; `None` for a parameter that is not a switch."""


def parameters(ranking: Ranking, configured: Ranking) -> tuple[Parameter, ...]:
    """Name every parameter of the strip with its value and, when different, the configured one."""
    named = []
    for now, was in zip(_values(ranking), _values(configured), strict=True):
        before = was.value if now.value != was.value else ""
        if now.on != was.on:
            before = WAS_ON if was.on else WAS_OFF
        named.append(replace(now, configured=before))
    return tuple(named)


def in_effect(
    all_: Sequence[Parameter], ranking: Ranking, mode: SearchMode
) -> tuple[Parameter, ...]:
    """Return the parameters that do something when one leg searches alone, that leg named first."""
    if mode is SearchMode.HYBRID:
        return tuple(all_)
    stages = for_mode(ranking, mode).stages
    idle = {"vector", "keyword", "fusion"}
    idle |= {stage.value for stage in (Stage.MMR, Stage.DECAY) if stage not in stages}
    alone = Parameter("mode", "", MODE_NAMES[mode])
    return (alone, *(parameter for parameter in all_ if parameter.id not in idle))


def describe_change(before: Ranking, after: Ranking) -> str:
    """Say what changed between two rankings, as `λ 0.70→0.65`; another profile by its name."""
    if before.profile != after.profile:
        return f"profile {safe_line(after.profile)}"
    changes = []
    for was, now in zip(_values(before), _values(after), strict=True):
        stage, name = {"mmr": ("MMR", "λ"), "decay": ("decay", "half-life")}.get(
            now.id, ("", now.label)
        )
        if was.on != now.on:
            changes.append(f"{stage} {'on' if now.on else 'off'}")
        if was.value != now.value:
            changes.append(f"{name} {was.value}→{now.value}")
    return ", ".join(changes) or "parameters changed"


def _values(ranking: Ranking) -> tuple[Parameter, ...]:
    mmr, decay = ranking.mmr, ranking.decay
    floor = f" ≥{decay.floor:g}" if decay.floor else ""
    minimum = "off" if ranking.min_score is None else f"{ranking.min_score:.2f}"
    return (
        Parameter("mmr", "MMR λ", f"{mmr.lambda_:.2f}", on=mmr.enabled),
        Parameter("decay", "decay t½", f"{decay.half_life_days:g}d{floor}", on=decay.enabled),
        Parameter("vector", "vector", f"{ranking.vector_weight:.2f}"),
        Parameter("keyword", "keyword", f"{ranking.keyword_weight:.2f}"),
        Parameter("k", "k", f"{ranking.k}×{ranking.candidate_multiplier}"),
        Parameter("min_score", "min", minimum),
        Parameter("fusion", "fusion", FUSION_NAMES[ranking.fusion]),
        Parameter("profile", "profile", safe_line(ranking.profile)),
    )


def effect(moves: Difference) -> str:
    """Say what a change did to the list, as `2 moved, 1 in, 1 out`; empty: nothing."""
    counts = ((moves.moved, "moved"), (moves.entered, "in"), (moves.left, "out"))
    return ", ".join(f"{len(chunks)} {word}" for chunks, word in counts if chunks)
