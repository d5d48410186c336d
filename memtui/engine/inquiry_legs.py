"""Both legs as one chunk sees them: found or not, and its rank against the limit of the pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memtui.model import Chunk, Leg, LegHit, LegState, LegStatus, Numbers, Ranked, Reason
from memtui.model.inquiry import (
    FoundBy,
    KeywordExplanation,
    LegPlace,
    LegRank,
    Outcome,
    Station,
    TraceStep,
)
from memtui.ranking.fusion import ONLY_LEG
from memtui.retrieval.vector import CODED_BACKEND

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
