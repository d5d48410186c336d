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
    LegHit,
    LegState,
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
    LegRank,
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


_POOLS = {Leg.KEYWORD: Station.KEYWORD_POOL, Leg.VECTOR: Station.VECTOR_POOL}
_RANKS = {Leg.KEYWORD: "bm25_rank", Leg.VECTOR: "cosine_rank"}
_LEGS = {Leg.KEYWORD: Station.KEYWORD_LEG, Leg.VECTOR: Station.VECTOR_LEG}


@dataclass(frozen=True, slots=True)
class LegSteps:
    """What one leg makes of a chunk."""

    steps: tuple[TraceStep, ...]
    gives: bool = False
    """Whether the chunk is among the leg's candidates."""


@dataclass(frozen=True, slots=True)
class _Asked:
    ranked: Ranked
    chunk: Chunk
    leg: Leg
    place: LegPlace | None

    @property
    def state(self) -> LegState | None:
        return self.ranked.pool.states.get(self.leg)

    @property
    def hit(self) -> LegHit | None:
        hits = self.ranked.pool.hits.get(self.leg, ())
        return next((hit for hit in hits if hit.chunk_id == self.chunk.id), None)

    @property
    def rank(self) -> LegRank | None:
        return self.place.rank if self.place is not None else None

    @property
    def limit(self) -> int:
        """How many candidates the ranking takes of the leg."""
        pool = self.ranked.pool
        return min(pool.limit, self.ranked.ranking.candidates)

    @property
    def takes_all(self) -> bool:
        """Whether the leg sized its answer by itself: then every hit is a candidate."""
        pool = self.ranked.pool
        return pool.sized and pool.limit == self.ranked.ranking.candidates

    @property
    def is_exact(self) -> bool:
        """Whether what the leg ranks within the limit surely is a candidate."""
        state = self.state
        estimates = state is not None and state.facts.get("backend") == CODED_BACKEND
        return not self.ranked.pool.sized and not estimates

    @property
    def requires(self) -> bool:
        """Whether a row must hold words: an agent's program wants all, memtui what is quoted."""
        state = self.state
        return self.ranked.pool.sized or (state is not None and "required" in state.facts)

    def step(
        self,
        outcome: Outcome,
        reason: Reason,
        numbers: Numbers | None = None,
        words: tuple[str, ...] = (),
        other: str = "",
    ) -> TraceStep:
        station = _LEGS[self.leg]
        return TraceStep(station, outcome, reason, numbers or {}, words=words, other=other)


def leg_steps(
    ranked: Ranked,
    chunk: Chunk,
    terms: KeywordExplanation | None,
    places: Mapping[Leg, LegPlace],
    filters: tuple[str, ...],
    vector: Reason,
) -> tuple[LegSteps, LegSteps]:
    """What the keyword leg and the vector leg make of a chunk, each by itself.

    `vector` says why the chunk's vector cannot be compared, `filters` which filters leave it out.
    """
    keyword = _Asked(ranked, chunk, Leg.KEYWORD, places.get(Leg.KEYWORD))
    nearest = _Asked(ranked, chunk, Leg.VECTOR, places.get(Leg.VECTOR))
    return (
        _not_asked(keyword) or _keyword(keyword, terms, filters),
        _not_asked(nearest, vector) or _vector(nearest, terms, filters, vector),
    )


def _not_asked(asked: _Asked, vector: Reason = Reason.OK) -> LegSteps | None:
    """The step of a leg that takes no part, or did not answer; `None` for one that did."""
    only = ONLY_LEG.get(asked.ranked.ranking.search_mode, asked.leg)
    state = asked.state
    if only is not asked.leg or state is None:
        # A release without the vector of the query goes on without the leg: its state says why.
        failed = state is not None and state.status is not LegStatus.OK
        why = state.reason if state is not None and failed else Reason.DISABLED
        detail = state.detail if state is not None and failed else ""
        return LegSteps((asked.step(Outcome.SKIPPED, why, other=detail),))
    if state.status is LegStatus.OK:
        return None
    reason = state.reason
    if reason is Reason.NO_VECTORS and asked.leg is Leg.VECTOR:
        # The leg had nothing to compare: what the chunk lacks says more.
        lacking = vector if vector is not Reason.OK else Reason.NO_VECTORS
        other = asked.chunk.model if vector is Reason.OTHER_MODEL else state.detail
        return LegSteps((asked.step(Outcome.MISSED, lacking, other=other),))
    if reason is Reason.OK:
        reason = Reason.INDEX_FAILED
    outcome = Outcome.SKIPPED if state.status is LegStatus.SKIPPED else Outcome.MISSED
    return LegSteps((asked.step(outcome, reason, other=state.detail),))


def _keyword(asked: _Asked, terms: KeywordExplanation | None, filters: tuple[str, ...]) -> LegSteps:
    hit = asked.hit
    if hit is None:
        refused = _keyword_refusal(asked, terms, filters)
        if refused is not None:
            return LegSteps((refused,))
    reason = Reason.OK
    if hit is not None and not hit.has_body:
        reason = Reason.PATH_ALONE
    elif (hit is not None and hit.score is not None) or _only_substrings(hit, terms):
        reason = Reason.SUBSTRING_ONLY
    raw = hit.raw if hit is not None and reason is Reason.OK else None
    if hit is None and asked.rank is not None:
        raw = asked.rank.raw
    words = hit.terms if hit is not None else _held(terms)
    found = asked.step(Outcome.PASSED, reason, {"bm25": raw} if raw is not None else {}, words)
    return _in_pool(asked, found)


def _keyword_refusal(
    asked: _Asked, terms: KeywordExplanation | None, filters: tuple[str, ...]
) -> TraceStep | None:
    """Why the keyword leg does not find a chunk; `None` when it does, however far down."""
    missed = Outcome.MISSED
    if terms is None or not terms.indexed:
        return asked.step(missed, Reason.NOT_INDEXED)
    required = terms.missing if terms.sent and asked.requires else ()
    numbers = {"terms": len(terms.terms), "pruned": len(terms.pruned)}
    if _is_found(terms):
        if asked.place is not None and asked.place.reason is Reason.FILTERED:
            return asked.step(missed, Reason.FILTERED, words=filters)
        return None
    dropped = [text for text in required if text in terms.dropped]
    if dropped and len(dropped) == len(required):
        return asked.step(missed, Reason.TOKENIZER_DROPS, numbers, tuple(dropped), terms.tokenizer)
    if required:
        return asked.step(missed, Reason.TERM_MISSING, numbers, required)
    if filters:
        return asked.step(missed, Reason.FILTERED, words=filters)
    if terms.terms and len(terms.dropped) == len(terms.terms):
        return asked.step(missed, Reason.TOKENIZER_DROPS, numbers, terms.dropped, terms.tokenizer)
    state = asked.state
    if state is not None and state.reason is Reason.ONLY_STOP_WORDS:
        return asked.step(missed, Reason.ONLY_STOP_WORDS, numbers, _asked_words(terms))
    return asked.step(missed, Reason.NOT_MATCHED, numbers, _asked_words(terms))


def _vector(
    asked: _Asked,
    terms: KeywordExplanation | None,
    filters: tuple[str, ...],
    vector: Reason,
) -> LegSteps:
    hit, place = asked.hit, asked.place
    if hit is None:
        if place is not None and place.reason is Reason.FILTERED:
            missing = terms.missing if terms is not None and not filters else ()
            reason = Reason.TERM_MISSING if missing else Reason.FILTERED
            return LegSteps((asked.step(Outcome.MISSED, reason, words=missing or filters),))
        if vector is not Reason.OK:
            other = asked.chunk.model if vector is Reason.OTHER_MODEL else ""
            return LegSteps((asked.step(Outcome.MISSED, vector, other=other),))
        if place is None:
            return LegSteps((asked.step(Outcome.MISSED, Reason.NOT_INDEXED),))
        if place.reason is Reason.NO_VECTOR:
            return LegSteps((asked.step(Outcome.MISSED, Reason.NO_VECTOR),))
    cosine = hit.raw if hit is not None else asked.rank.raw if asked.rank is not None else None
    numbers: Numbers = {"cosine": cosine} if cosine is not None else {}
    return _in_pool(asked, asked.step(Outcome.PASSED, vector, numbers))


def _in_pool(asked: _Asked, found: TraceStep) -> LegSteps:
    """The rank against the limit, of a chunk that the leg finds."""
    hit, rank = asked.hit, asked.rank
    numbers: dict[str, float | int | str | None] = {"limit": asked.limit}
    position, total = _position(hit, rank, asked.limit), None
    if rank is not None and position is not None and position < rank.total:
        # A release ranks path hits and keywords besides what one MATCH counts.
        total = rank.total
    if rank is not None and rank.position != position:
        numbers[_RANKS[asked.leg]] = rank.position + 1
    is_candidate = hit is not None and (asked.takes_all or hit.position < asked.limit)
    reason = Reason.OK if is_candidate else Reason.OUTSIDE_CANDIDATES
    if rank is not None and position is None and asked.is_exact:
        # The search would have given it: it was before the index held the chunk.
        reason = Reason.NOT_YET_INDEXED
    step = TraceStep(
        _POOLS[asked.leg],
        Outcome.PASSED if is_candidate else Outcome.MISSED,
        reason,
        numbers,
        position + 1 if position is not None else None,
        total,
    )
    return LegSteps((found, step), gives=is_candidate)


def _position(hit: LegHit | None, rank: LegRank | None, limit: int) -> int | None:
    """The place in the leg's own order; `None` for one within the limit that the leg did not give.

    By that place an answer of the leg would hold it: a release orders otherwise than the one
    MATCH, or the index changed.
    """
    if hit is not None:
        return hit.position
    return rank.position if rank is not None and rank.position >= limit else None


def _is_found(terms: KeywordExplanation) -> bool:
    searched = ([terms] if terms.sent else []) + list(terms.keywords)
    return terms.found_by is FoundBy.PATH or any(one.found for one in searched)


def _only_substrings(hit: LegHit | None, terms: KeywordExplanation | None) -> bool:
    return hit is None and terms is not None and terms.found_by is FoundBy.SUBSTRINGS


def _held(terms: KeywordExplanation | None) -> tuple[str, ...]:
    if terms is None:
        return ()
    searched = [terms, *terms.keywords]
    held = (term.text for one in searched for term in one.terms if term.held)
    substrings = (term.text for one in searched for term in one.substrings if term.held)
    return tuple(dict.fromkeys([*held, *substrings]))


def _asked_words(terms: KeywordExplanation) -> tuple[str, ...]:
    searched = ([terms] if terms.sent else []) + list(terms.keywords)
    asked = (term.text for one in searched for term in one.terms)
    return tuple(dict.fromkeys([*asked, *(term.text for term in terms.pruned)]))


_OTHER = {Stage.MMR: "similar_to", Stage.DEDUP: "duplicate_of"}
_RENAMED = {"max_similarity": "similarity"}
_DATED = frozenset({Stage.DECAY, Stage.RERANK})


def stage_steps(ranked: Ranked, chunk_id: str) -> Iterator[TraceStep]:
    """Every active stage that a candidate went through, the one that lost it last.

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
        yield _step(ranked, scored, stage, before, among.get(stage.stage), is_loss)
        before = stage.rank


def _step(
    ranked: Ranked,
    scored: Hit | Drop,
    stage: StageScore,
    before: int | None,
    among: int | None,
    is_loss: bool,
) -> TraceStep:
    k = max(0, ranked.ranking.k)
    outcome, reason = Outcome.PASSED, stage.reason
    if is_loss:
        outcome = Outcome.LOST
    elif before is not None and before <= k < stage.rank:
        outcome, reason = Outcome.PUSHED_OUT, Reason.PUSHED_DOWN
    return TraceStep(
        stage.stage,
        outcome,
        reason,
        _numbers(scored, stage) | {"k": k},
        stage.rank,
        among,
        other=_other(ranked, stage),
    )


def _numbers(scored: Hit | Drop, stage: StageScore) -> dict[str, float | int | str | None]:
    """What the stage compared, by name; ids of chunks are told as citations elsewhere."""
    numbers: dict[str, float | int | str | None] = {"after": stage.after}
    if stage.stage is Stage.FUSION:
        numbers |= _fused(scored)
    else:
        numbers["before"] = stage.before
    if stage.operand is not None:
        numbers["operand"] = stage.operand
    if stage.stage is Stage.MIN_SCORE:
        numbers["score"] = stage.before
    if stage.stage in _DATED:
        numbers["date_from"] = str(stage.reason)
    hidden = _OTHER.get(stage.stage)
    return numbers | {
        _RENAMED.get(name, name): value for name, value in stage.numbers.items() if name != hidden
    }


def _fused(scored: Hit | Drop) -> dict[str, float | int | str | None]:
    numbers: dict[str, float | int | str | None] = {}
    for leg in Leg:
        part = scored.legs.get(leg)
        if part is not None:
            numbers |= {
                f"{leg}_raw": part.raw,
                f"{leg}_mapped": part.mapped,
                f"{leg}_weight": part.weight,
                f"{leg}_contribution": part.contribution,
            }
    return numbers


def _other(ranked: Ranked, stage: StageScore) -> str:
    chunk_id = stage.numbers.get(_OTHER.get(stage.stage, ""))
    chunk = ranked.pool.chunks.get(chunk_id) if isinstance(chunk_id, str) else None
    return citation(chunk.path, chunk.start_line, chunk.end_line) if chunk is not None else ""


def refused(pool: CandidatePool, leg: Leg) -> Reason | None:
    """Return why a leg did not answer; `None` when it did."""
    state = pool.states.get(leg)
    if state is None:
        return Reason.DISABLED
    if state.status is LegStatus.OK:
        return None
    return Reason.INDEX_FAILED if state.reason is Reason.OK else state.reason
