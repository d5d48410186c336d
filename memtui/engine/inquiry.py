"""Why a place is in a list or not, made of what was read about it: pure, one step a station.

A leg that does not give a chunk while the other does is `MISSED`. When no leg gives it, it was
`LOST` at the first station behind which nothing could save it any more, which is the last one that
refuses it; the steps end there. A leg that was not asked saves nothing, so it decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from memtui.engine.inquiry_legs import LegSteps, leg_steps
from memtui.engine.inquiry_stages import stage_steps
from memtui.engine.standing import FileStanding
from memtui.model import Chunk, Leg, Numbers, Ranked, Reason
from memtui.model.inquiry import (
    Inquiry,
    KeywordExplanation,
    LegPlace,
    Outcome,
    Place,
    Station,
    TraceStep,
)


@dataclass(frozen=True, slots=True)
class ChunkFacts:
    """What the index says of one chunk under one search."""

    chunk: Chunk
    terms: KeywordExplanation | None = None
    places: Mapping[Leg, LegPlace] = field(default_factory=dict)
    vector: Reason = Reason.OK
    """Why its vector cannot be compared with the query's: there is none, it is zero, or of another
    model."""
    filters: tuple[str, ...] = ()
    """The filters of the query that leave it out, as they were typed."""
    gone: bool = False
    """The list still has it, the index no longer."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that was read about one place."""

    ranked: Ranked
    place: Place
    file: FileStanding
    facts: ChunkFacts | None = None
    """`None` when the index holds no chunk there; `missing` says why."""
    missing: Reason = Reason.NOT_YET_INDEXED
    numbers: Numbers = field(default_factory=dict)
    """What was compared to find no chunk."""


def inquiry_of(evidence: Evidence) -> Inquiry:
    """Follow a place through all stations and stages, up to where it was lost."""
    facts, ranked = evidence.facts, evidence.ranked
    steps = list(_steps(evidence))
    if facts is None:
        return Inquiry(ranked.pool.query, evidence.place, None, tuple(steps), None)
    rank = next((hit.rank for hit in ranked.hits if hit.chunk.id == facts.chunk.id), None)
    return Inquiry(
        ranked.pool.query,
        evidence.place,
        facts.chunk,
        tuple(steps),
        rank,
        facts.terms,
        facts.places,
    )


def _steps(evidence: Evidence) -> Iterator[TraceStep]:
    discovered = _discovered(evidence)
    yield discovered
    if discovered.outcome is Outcome.LOST:
        return
    yield _indexed(evidence)
    facts = evidence.facts
    if facts is None:
        return
    legs = leg_steps(
        evidence.ranked, facts.chunk, facts.terms, facts.places, facts.filters, facts.vector
    )
    yield from settled(legs)
    if any(leg.gives for leg in legs):
        yield from stage_steps(evidence.ranked, facts.chunk.id)


def _discovered(evidence: Evidence) -> TraceStep:
    file = evidence.file
    if not file.checked:
        return TraceStep(
            Station.DISCOVERED, Outcome.SKIPPED, file.reason, file.numbers, other=file.detail
        )
    outcome = Outcome.PASSED
    if file.reason is not Reason.OK:
        outcome = Outcome.LOST if evidence.facts is None else Outcome.MISSED
    detail = file.detail if file.reason is not Reason.OK else ""
    return TraceStep(Station.DISCOVERED, outcome, file.reason, file.numbers, other=detail)


def _indexed(evidence: Evidence) -> TraceStep:
    file, facts = evidence.file, evidence.facts
    if facts is None:
        reason, numbers = evidence.missing, evidence.numbers
        return TraceStep(Station.INDEXED, Outcome.LOST, reason, numbers, other=file.path)
    chunk = facts.chunk
    numbers = {**evidence.numbers, "start_line": chunk.start_line, "end_line": chunk.end_line}
    outcome, reason = Outcome.PASSED, Reason.OK
    if facts.gone:
        outcome, reason = Outcome.MISSED, Reason.VANISHED
    elif file.stale or (file.checked and file.reason is not Reason.OK):
        outcome, reason = Outcome.MISSED, Reason.STALE
    return TraceStep(Station.INDEXED, outcome, reason, numbers, other=file.path)


def settled(legs: Sequence[LegSteps]) -> list[TraceStep]:
    """The steps of the legs in the order of the stations, with the loss where there is one."""
    order = list(Station)
    steps = sorted((step for leg in legs for step in leg.steps), key=lambda s: order.index(_at(s)))
    if any(leg.gives for leg in legs):
        return steps
    refusing = [place for place, step in enumerate(steps) if step.outcome is Outcome.MISSED]
    if refusing:
        last = refusing[-1]
    else:
        # No leg was asked: what keeps the query itself from being searched comes first.
        asked = [n for n, step in enumerate(steps) if step.reason is not Reason.DISABLED]
        last = asked[0] if asked else 0
    return [*steps[:last], replace(steps[last], outcome=Outcome.LOST)]


def _at(step: TraceStep) -> Station:
    assert isinstance(step.at, Station)
    return step.at
