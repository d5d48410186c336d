"""What every answer to why a chunk is in a list, or not, has to agree with."""

from __future__ import annotations

from memtui.model import Ranked, Reason, Stage
from memtui.model.inquiry import Inquiry, Outcome, Station, TraceStep


def check(ranked: Ranked, found: Inquiry) -> None:
    listed = [hit.rank for hit in ranked.hits if found.chunk and hit.chunk.id == found.chunk.id]
    assert ([found.rank] if found.shown else []) == listed
    assert (found.first_failure is None) == found.shown
    lost = [step.outcome is Outcome.LOST for step in found.steps]
    assert lost == [False] * (len(lost) - 1) + [not found.shown]


def lost(inquiry: Inquiry) -> tuple[Station | Stage, Reason]:
    assert inquiry.first_failure is not None
    return inquiry.first_failure.at, inquiry.first_failure.reason


def step(inquiry: Inquiry, at: Station | Stage) -> TraceStep:
    return next(one for one in inquiry.steps if one.at is at)
