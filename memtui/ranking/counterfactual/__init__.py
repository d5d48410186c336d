"""Counterfactuals: what would bring a chunk into the list, and where a list changes."""

from __future__ import annotations

from memtui.ranking.counterfactual.change import (
    Change,
    ChangeKind,
    Counterfactuals,
    Needed,
    NoChange,
    NoChangeReason,
    Parameter,
    apply,
    needed,
    outside_pool,
)
from memtui.ranking.counterfactual.solve import Segment, Sweep, least_changes, sweep

__all__ = [
    "Change",
    "ChangeKind",
    "Counterfactuals",
    "Needed",
    "NoChange",
    "NoChangeReason",
    "Parameter",
    "Segment",
    "Sweep",
    "apply",
    "least_changes",
    "needed",
    "outside_pool",
    "sweep",
]
