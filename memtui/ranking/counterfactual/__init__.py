"""Counterfactuals: what would bring a chunk into the list, and where a list changes."""

from __future__ import annotations

from memtui.ranking.counterfactual.change import (
    Change,
    ChangeKind,
    Counterfactuals,
    NoChange,
    NoChangeReason,
    Parameter,
    apply,
)
from memtui.ranking.counterfactual.outside import Needed, needed, outside_pool
from memtui.ranking.counterfactual.solve import least_changes
from memtui.ranking.counterfactual.sweeps import Segment, Sweep, sweep

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
