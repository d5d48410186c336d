"""Why a place is in a list or not, made of what was read about it: pure, one step a station.

A leg that does not give a chunk while the other does is `MISSED`. When no leg gives it, it was
`LOST` at the first station behind which nothing could save it any more, which is the last one that
refuses it; the steps end there. A leg that was not asked saves nothing, so it decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from memtui.engine.ports import FileStanding
from memtui.model import (
    CandidatePool,
    Chunk,
    Drop,
    Hit,
    Leg,
    LegStatus,
    Numbers,
    Ranked,
    Reason,
    Stage,
    StageScore,
    citation,
)
from memtui.model.inquiry import (
    FoundBy,
    Inquiry,
    KeywordExplanation,
    LegPlace,
    Outcome,
    Place,
    Station,
    TraceStep,
)
from memtui.ranking.fusion import ONLY_LEG
from memtui.ranking.trace import find
from memtui.retrieval.vector import CODED_BACKEND


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
    query, place, steps = ranked.pool.query, evidence.place, tuple(_steps(evidence))
    if facts is None:
        return Inquiry(query, place, None, steps, None)
    rank = next((hit.rank for hit in ranked.hits if hit.chunk.id == facts.chunk.id), None)
    return Inquiry(query, place, facts.chunk, steps, rank, facts.terms, facts.places)


def _steps(evidence: Evidence) -> Iterator[TraceStep]:
    facts, discovered = evidence.facts, _discovered(evidence)
    yield discovered
    if discovered.outcome is Outcome.LOST:
        return
    yield _indexed(evidence)
    if facts is None:
        return
    legs = [_KeywordLeg(evidence.ranked, facts).steps(), _VectorLeg(evidence.ranked, facts).steps()]
    yield from _settled(legs)
    if any(leg.gives for leg in legs):
        yield from _stage_steps(evidence.ranked, facts.chunk.id)


def _discovered(evidence: Evidence) -> TraceStep:
    file = evidence.file
    if not file.checked:
        outcome = Outcome.SKIPPED
    elif file.reason is Reason.OK:
        return TraceStep(Station.DISCOVERED, Outcome.PASSED, numbers=file.numbers)
    else:
        outcome = Outcome.LOST if evidence.facts is None else Outcome.MISSED
    return TraceStep(Station.DISCOVERED, outcome, file.reason, file.numbers, other=file.detail)


def _indexed(evidence: Evidence) -> TraceStep:
    file, facts, numbers = evidence.file, evidence.facts, evidence.numbers
    outcome, reason = Outcome.PASSED, Reason.OK
    if facts is None:
        outcome, reason = Outcome.LOST, evidence.missing
    else:
        lines = {"start_line": facts.chunk.start_line, "end_line": facts.chunk.end_line}
        numbers = {**numbers, **lines}
        if facts.gone:
            outcome, reason = Outcome.MISSED, Reason.VANISHED
        elif file.stale or (file.checked and file.reason is not Reason.OK):
            outcome, reason = Outcome.MISSED, Reason.STALE
    return TraceStep(Station.INDEXED, outcome, reason, numbers, other=file.path)


@dataclass(frozen=True, slots=True)
class _LegSteps:
    """What one leg makes of a chunk."""

    steps: tuple[TraceStep, ...]
    gives: bool = False
    """Whether the chunk is among the leg's candidates."""


def _settled(legs: Sequence[_LegSteps]) -> list[TraceStep]:
    """Return the steps in the order of the stations, with the loss where there is one."""
    order = list(Station)
    steps = [step for leg in legs for step in leg.steps]
    steps.sort(key=lambda step: order.index(Station(step.at)))
    if any(leg.gives for leg in legs):
        return steps
    refusing = [place for place, step in enumerate(steps) if step.outcome is Outcome.MISSED]
    # No leg was asked: what keeps the query itself from being searched comes first.
    asked = [place for place, step in enumerate(steps) if step.reason is not Reason.DISABLED]
    last = refusing[-1] if refusing else asked[0] if asked else 0
    return [*steps[:last], replace(steps[last], outcome=Outcome.LOST)]


class _LegLook:
    """What one leg makes of one chunk; the base of both legs."""

    leg: Leg
    stations: tuple[Station, Station]
    """Those of the leg itself and of its pool."""
    rank_name: str
    """Names the rank among all rows in the numbers of the pool's step."""

    def __init__(self, ranked: Ranked, facts: ChunkFacts) -> None:
        pool = ranked.pool
        self.ranked, self.facts = ranked, facts
        self.state = pool.states.get(self.leg)
        self.place = facts.places.get(self.leg)
        self.rank = self.place.rank if self.place is not None else None
        hits = pool.hits.get(self.leg, ())
        self.hit = next((hit for hit in hits if hit.chunk_id == facts.chunk.id), None)

    def steps(self) -> _LegSteps:
        """Return the leg's own step, and that of its pool where the leg finds the chunk."""
        step = self._not_asked() or self._own_step()
        return self._in_pool(step) if step.outcome is Outcome.PASSED else _LegSteps((step,))

    def _own_step(self) -> TraceStep:
        raise NotImplementedError

    def _step(
        self,
        outcome: Outcome,
        reason: Reason,
        numbers: Numbers | None = None,
        words: tuple[str, ...] = (),
        other: str = "",
    ) -> TraceStep:
        return TraceStep(self.stations[0], outcome, reason, numbers or {}, words=words, other=other)

    def _not_asked(self) -> TraceStep | None:
        """Return the step of a leg that takes no part, or did not answer; `None`: it did."""
        state = self.state
        only = ONLY_LEG.get(self.ranked.ranking.search_mode, self.leg)
        if only is not self.leg or state is None:
            # A release without the vector of the query goes on without the leg: its state says why.
            if state is None or state.status is LegStatus.OK:
                return self._step(Outcome.SKIPPED, Reason.DISABLED)
            return self._step(Outcome.SKIPPED, state.reason, other=state.detail)
        if state.status is LegStatus.OK:
            return None
        if state.reason is Reason.NO_VECTORS and self.leg is Leg.VECTOR:
            # The leg had nothing to compare: what the chunk lacks says more.
            return self._lacking(Reason.NO_VECTORS, state.detail)
        reason = Reason.INDEX_FAILED if state.reason is Reason.OK else state.reason
        is_skipped = state.status is LegStatus.SKIPPED
        return self._step(
            Outcome.SKIPPED if is_skipped else Outcome.MISSED, reason, other=state.detail
        )

    def _lacking(self, otherwise: Reason, detail: str = "") -> TraceStep:
        """Return the step of a chunk whose vector cannot be compared."""
        facts = self.facts
        reason = otherwise if facts.vector is Reason.OK else facts.vector
        other = facts.chunk.model if facts.vector is Reason.OTHER_MODEL else detail
        return self._step(Outcome.MISSED, reason, other=other)

    def _in_pool(self, found: TraceStep) -> _LegSteps:
        """Add the rank against the limit, of a chunk that the leg finds."""
        pool, candidates = self.ranked.pool, self.ranked.ranking.candidates
        hit, rank, limit = self.hit, self.rank, min(pool.limit, candidates)
        position, total = hit.position if hit is not None else None, None
        if hit is None and rank is not None and rank.position >= limit:
            # Within the limit the leg would have given it: a release orders otherwise than the
            # one MATCH, or the index changed.
            position = rank.position
        if rank is not None and position is not None and position < rank.total:
            # A release ranks path hits and keywords besides what one MATCH counts.
            total = rank.total
        numbers: dict[str, float | int | str | None] = {"limit": limit}
        if rank is not None and rank.position != position:
            numbers[self.rank_name] = rank.position + 1
        # Of a leg that sized its answer by itself every hit is a candidate.
        takes_all = pool.sized and pool.limit == candidates
        gives = hit is not None and (takes_all or hit.position < limit)
        reason = Reason.OK if gives else Reason.OUTSIDE_CANDIDATES
        estimates = self.state is not None and self.state.facts.get("backend") == CODED_BACKEND
        if rank is not None and position is None and not pool.sized and not estimates:
            # The search would have given it: it was before the index held the chunk.
            reason = Reason.NOT_YET_INDEXED
        outcome = Outcome.PASSED if gives else Outcome.MISSED
        shown = position + 1 if position is not None else None
        step = TraceStep(self.stations[1], outcome, reason, numbers, shown, total)
        return _LegSteps((found, step), gives)


class _KeywordLeg(_LegLook):
    leg = Leg.KEYWORD
    stations = (Station.KEYWORD_LEG, Station.KEYWORD_POOL)
    rank_name = "bm25_rank"

    def _own_step(self) -> TraceStep:
        hit, terms = self.hit, self.facts.terms
        refusal = self._refusal() if hit is None else None
        if refusal is not None:
            return refusal
        if hit is None:
            by_substrings = terms is not None and terms.found_by is FoundBy.SUBSTRINGS
            reason = Reason.SUBSTRING_ONLY if by_substrings else Reason.OK
            raw, words = self.rank.raw if self.rank is not None else None, _words_held(terms)
        else:
            reason = Reason.OK if hit.score is None else Reason.SUBSTRING_ONLY
            reason = reason if hit.has_body else Reason.PATH_ALONE
            raw, words = hit.raw if reason is Reason.OK else None, hit.terms
        numbers: Numbers = {"bm25": raw} if raw is not None else {}
        return self._step(Outcome.PASSED, reason, numbers, words)

    def _refusal(self) -> TraceStep | None:
        """Say why the leg does not find the chunk; `None` when it does, however far down."""
        terms, filters, missed = self.facts.terms, self.facts.filters, Outcome.MISSED
        if terms is None or not terms.indexed:
            return self._step(missed, Reason.NOT_INDEXED)
        searched = [*([terms] if terms.sent else []), *terms.keywords]
        if terms.found_by is FoundBy.PATH or any(one.found for one in searched):
            if self.place is not None and self.place.reason is Reason.FILTERED:
                return self._step(missed, Reason.FILTERED, words=filters)
            return None
        # An agent's program wants every word in a row, memtui what is quoted.
        state = self.state
        requires = self.ranked.pool.sized or (state is not None and "required" in state.facts)
        required = terms.missing if terms.sent and requires else ()
        numbers = {"terms": len(terms.terms), "pruned": len(terms.pruned)}
        dropped = tuple(text for text in required if text in terms.dropped)
        if dropped and len(dropped) == len(required):
            return self._step(missed, Reason.TOKENIZER_DROPS, numbers, dropped, terms.tokenizer)
        if required:
            return self._step(missed, Reason.TERM_MISSING, numbers, required)
        if filters:
            return self._step(missed, Reason.FILTERED, words=filters)
        if terms.terms and len(terms.dropped) == len(terms.terms):
            words, tokenizer = terms.dropped, terms.tokenizer
            return self._step(missed, Reason.TOKENIZER_DROPS, numbers, words, tokenizer)
        stopped = state is not None and state.reason is Reason.ONLY_STOP_WORDS
        reason = Reason.ONLY_STOP_WORDS if stopped else Reason.NOT_MATCHED
        asked = [term.text for one in searched for term in one.terms]
        asked += [term.text for term in terms.pruned]
        return self._step(missed, reason, numbers, tuple(dict.fromkeys(asked)))


class _VectorLeg(_LegLook):
    leg = Leg.VECTOR
    stations = (Station.VECTOR_LEG, Station.VECTOR_POOL)
    rank_name = "cosine_rank"

    def _own_step(self) -> TraceStep:
        hit, place, facts = self.hit, self.place, self.facts
        if hit is None:
            if place is not None and place.reason is Reason.FILTERED:
                lacks = facts.terms is not None and not facts.filters
                missing = facts.terms.missing if facts.terms is not None and lacks else ()
                reason = Reason.TERM_MISSING if missing else Reason.FILTERED
                return self._step(Outcome.MISSED, reason, words=missing or facts.filters)
            if facts.vector is not Reason.OK or place is None:
                return self._lacking(Reason.NOT_INDEXED)
            if place.reason is Reason.NO_VECTOR:
                return self._step(Outcome.MISSED, Reason.NO_VECTOR)
        ranked_by = hit or self.rank
        cosine = ranked_by.raw if ranked_by is not None else None
        numbers: Numbers = {"cosine": cosine} if cosine is not None else {}
        return self._step(Outcome.PASSED, facts.vector, numbers)


def _words_held(terms: KeywordExplanation | None) -> tuple[str, ...]:
    everything = [terms, *terms.keywords] if terms is not None else []
    held = [term.text for one in everything for term in one.terms if term.held]
    held += [term.text for one in everything for term in one.substrings if term.held]
    return tuple(dict.fromkeys(held))


_OTHER = {Stage.MMR: "similar_to", Stage.DEDUP: "duplicate_of"}
_RENAMED = {"max_similarity": "similarity"}
_DATED = frozenset({Stage.DECAY, Stage.RERANK})


def _stage_steps(ranked: Ranked, chunk_id: str) -> Iterator[TraceStep]:
    """Yield every active stage that a candidate went through, the one that lost it last.

    `PUSHED_OUT` where a stage moves it from within k to beyond. Each step holds k and what the
    stage did to the score: `before`, `after`, `operand`, and the stage's own numbers. Raises
    `KeyError` when the pool does not hold the chunk.
    """
    scored = find(ranked, chunk_id)
    among = {
        trace.stage: len(trace.order) + len(trace.dropped)
        for trace in ranked.trace.stages
        if trace.active
    }
    before: int | None = None
    for stage in scored.stages:
        is_loss = isinstance(scored, Drop) and stage is scored.stages[-1]
        yield _stage_step(ranked, scored, stage, before, among.get(stage.stage), is_loss)
        before = stage.rank


def _stage_step(
    ranked: Ranked,
    scored: Hit | Drop,
    stage: StageScore,
    before: int | None,
    among: int | None,
    is_loss: bool,
) -> TraceStep:
    k = max(0, ranked.ranking.k)
    outcome, reason = Outcome.LOST if is_loss else Outcome.PASSED, stage.reason
    if not is_loss and before is not None and before <= k < stage.rank:
        outcome, reason = Outcome.PUSHED_OUT, Reason.PUSHED_DOWN
    hidden = _OTHER.get(stage.stage, "")
    other_id = stage.numbers.get(hidden)
    chunk = ranked.pool.chunks.get(other_id) if isinstance(other_id, str) else None
    other = citation(chunk.path, chunk.start_line, chunk.end_line) if chunk is not None else ""
    numbers = _numbers(scored, stage, hidden) | {"k": k}
    return TraceStep(stage.stage, outcome, reason, numbers, stage.rank, among, other=other)


def _numbers(
    scored: Hit | Drop, stage: StageScore, hidden: str
) -> dict[str, float | int | str | None]:
    """Return what the stage compared, by name; ids of chunks are told as citations elsewhere."""
    numbers: dict[str, float | int | str | None] = {"after": stage.after}
    if stage.stage is Stage.FUSION:
        for leg in Leg:
            part = scored.legs.get(leg)
            if part is not None:
                numbers |= {
                    f"{leg}_raw": part.raw,
                    f"{leg}_mapped": part.mapped,
                    f"{leg}_weight": part.weight,
                    f"{leg}_contribution": part.contribution,
                }
    else:
        numbers["before"] = stage.before
    if stage.operand is not None:
        numbers["operand"] = stage.operand
    if stage.stage is Stage.MIN_SCORE:
        numbers["score"] = stage.before
    if stage.stage in _DATED:
        numbers["date_from"] = str(stage.reason)
    return numbers | {
        _RENAMED.get(name, name): value for name, value in stage.numbers.items() if name != hidden
    }


def refused(pool: CandidatePool, leg: Leg) -> Reason | None:
    """Return why a leg did not answer; `None` when it did."""
    state = pool.states.get(leg)
    if state is None:
        return Reason.DISABLED
    if state.status is LegStatus.OK:
        return None
    return Reason.INDEX_FAILED if state.reason is Reason.OK else state.reason
