"""The options of the command line that make a change of a ranking."""

from __future__ import annotations

from collections.abc import Mapping

from memtui.model import Ranking
from memtui.ranking.counterfactual import Change, Parameter, apply

OFF = "off"
"""As a minimum score: none at all, whatever the profile says."""

_NUMBERS: Mapping[Parameter, str] = {
    Parameter.FUSION: "--fusion",
    Parameter.RRF_K: "--rrf-k",
    Parameter.HALF_LIFE: "--half-life",
    Parameter.FLOOR: "--floor",
    Parameter.MIN_SCORE: "--min-score",
    Parameter.LAMBDA: "--lambda",
    Parameter.K: "-n",
    Parameter.CANDIDATE_MULTIPLIER: "--candidate-multiplier",
}
_SWITCHES: Mapping[Parameter, tuple[str, str]] = {
    Parameter.DECAY: ("--no-decay", "--decay"),
    Parameter.RERANK: ("--no-rerank", "--rerank"),
    Parameter.DEDUP: ("--no-dedup", "--dedup"),
    Parameter.MMR: ("--no-mmr", "--mmr"),
}


def flags_of(ranking: Ranking, change: Change) -> str:
    """The options that make a change of `ranking`, as they are typed: `--min-score 0.25`."""
    parameter, new = change.parameter, change.new
    if parameter is Parameter.VECTOR_WEIGHT:
        changed = apply(ranking, parameter, new)
        return f"--weights {changed.vector_weight!r},{changed.keyword_weight!r}"
    if parameter in _SWITCHES:
        return _SWITCHES[parameter][new is True]
    return f"{_NUMBERS[parameter]} {OFF if new is None else new}"
