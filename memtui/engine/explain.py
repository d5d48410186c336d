"""Explains why a chunk is in a list or not, one step a station, and what would change that.

A leg that does not give a chunk while the other does is `MISSED`. When no leg gives it, it was
`LOST` at the first station behind which nothing could save it any more, which is the last one that
refuses it; the steps end there. A leg that was not asked saves nothing, so it decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from glob import escape
from itertools import zip_longest
from typing import Final

from msgspec.structs import replace

from memtui.engine.places import fitting, readings
from memtui.engine.ports import (
    ChunkFacts,
    FileStanding,
    Index,
    IndexedFile,
    Reading,
    SearchRequest,
    refused,
)
from memtui.engine.search import Search
from memtui.errors import MemtuiError
from memtui.memory.documents import split_lines
from memtui.model import Drop, Leg, LegHit, LegStatus, Numbers, Ranked, Reason, Stage
from memtui.model.inquiry import (
    FoundBy,
    Inquiry,
    Outcome,
    Passage,
    Passages,
    Place,
    Station,
    TraceStep,
    WordTable,
)
from memtui.ranking.stages import ONLY_LEG
from memtui.ranking.trace import best_passage, find
from memtui.retrieval.passages import nearest_passages
from memtui.retrieval.pool import CODED_BACKEND
from memtui.text.sanitize import listed

MOST_NAMED: Final = 5
"""So many files are named where several could be meant."""


class Explain:
    """Answers questions about chunks.

    Reads the index on the engine thread, files and model on the caller's. Methods raise
    `IndexMissing` once the engine is closed, and `IndexUnusable` for an index that cannot be read.
    """

    def __init__(self, index: Index, search: Search) -> None:
        self._index = index
        self._search = search

    def inquire(self, ranked: Ranked, chunk_id: str) -> Inquiry:
        """Say why a chunk is in the list or not, through every station and stage."""

        def look(reading: Reading) -> tuple[ChunkFacts | None, IndexedFile | None]:
            facts = reading.facts(ranked, chunk_id)
            if facts is None:
                return None, None
            return facts, reading.file_at(Place(facts.chunk.path), facts.chunk.source)

        answer = self._index.read(look, ranked.pool)
        facts, indexed = answer or (None, None)
        if facts is None and chunk_id in ranked.pool.chunks:
            facts = ChunkFacts(ranked.pool.chunks[chunk_id], gone=True)
        if facts is None:
            missing = Reason.VANISHED if answer is not None else Reason.NO_INDEX
            unknown = FileStanding("", checked=False)
            return inquiry_of(ranked, Place(chunk_id), unknown, missing=missing)
        place = Place(facts.chunk.path, facts.chunk.start_line)
        return inquiry_of(ranked, place, self._index.files.standing(place.path, indexed), facts)

    def inquire_at(self, ranked: Ranked, place: Place) -> Inquiry:
        """Say why a file, or a line of it, is in the list or not.

        Of a file without a line, the chunk that comes nearest to the list. Paths may be written
        as people write them; see `memtui.engine.places`.
        """
        indexed = self.indexed_at(place)
        if indexed is None or not indexed.is_held:
            return self._not_indexed(ranked, place, indexed)
        pool, path = ranked.pool, indexed.place.path
        file, best = self._index.files.standing(path, indexed), list[str]()
        has_failed = any(one.reason is Reason.PROVIDER_FAILED for one in pool.states.values())
        in_pool = any(one.path == path for one in pool.chunks.values())
        if indexed.place.line is None and not in_pool and not has_failed:
            # Search this file alone, in front of the query, which may end inside of a quotation;
            # as if it were being typed: then no service is asked for the vector again.
            text = f'path:"{escape(path)}" {pool.query}'
            request = SearchRequest(text, self._index.ranking, typing=True)
            with suppress(MemtuiError):
                hits = self._search.pool_of(request).hits.values()
                ids = [[hit.chunk_id for hit in of_leg] for of_leg in hits]
                # The best of each leg first.
                best = [one for level in zip_longest(*ids) for one in level if one is not None]
        inquiry = self._index.read(
            lambda reading: _nearest_chunk(reading, ranked, indexed, file, best), pool
        )
        return inquiry or self._not_indexed(ranked, place, indexed)

    def word_matches(self, ranked: Ranked, chunk_id: str) -> WordTable | None:
        """Compare the words of the query with those of the best passage; `None` without one."""
        if chunk_id not in ranked.pool.chunks or best_passage(find(ranked, chunk_id)) is None:
            return None
        return self._index.read(lambda reading: reading.word_matches(ranked, chunk_id), ranked.pool)

    def passages(self, ranked: Ranked, chunk_id: str) -> Passages:
        """Return the passages of a chunk nearest to the query: an illustration.

        It is made by a model on this machine; no sentence of a note is sent to a service for it.
        Never raises for a provider that fails.
        """

        stored = self._index.read(lambda reading: reading.chunk(chunk_id))
        chunk = stored[1] if stored is not None else ranked.pool.chunks.get(chunk_id)
        if chunk is None:
            is_there = self._index.stamp() is not None
            return Passages("", (), Reason.VANISHED if is_there else Reason.NO_INDEX)
        text, query = chunk.text, self._index.query_text(ranked.pool.query)
        provider, state = self._index.local_model()
        if provider is None:
            return Passages(text, (), Reason.DISABLED if state.state is Reason.OK else state.state)
        reason, nearest = Reason.OK, tuple[Passage, ...]()
        try:
            if not query:
                reason = Reason.EMPTY_QUERY
            elif not (provider.reads(query) and provider.reads(text)):
                reason = Reason.SCRIPT_NOT_SUPPORTED
            elif not (vector := provider.embed_query(query)).any():
                reason = Reason.ZERO_QUERY_VECTOR
            elif not (nearest := nearest_passages(text, vector, provider.embed_documents)):
                reason = Reason.NO_VECTOR
        except Exception:
            # Whatever a provider raises is its own: the explanation goes on without.
            reason = Reason.PROVIDER_FAILED
        return Passages(text, nearest, reason, provider.identity.model)

    def indexed_at(self, place: Place) -> IndexedFile | None:
        """Find the file that a place names, as people write paths; `None` without an index."""
        forms = readings(place, self._index.root)

        def find(reading: Reading) -> IndexedFile:
            for one, paths in forms:
                for path in paths:
                    indexed = reading.file_at(replace(one, path=path))
                    if indexed.is_held:
                        return indexed
            stored, several = reading.paths(), tuple[str, ...]()
            for one, paths in forms:
                matching = fitting(paths, stored)
                if len(matching) == 1:
                    return reading.file_at(replace(one, path=matching[0]))
                several = several or tuple(matching)
            return IndexedFile(place, several=several)

        return self._index.read(find)

    def _not_indexed(self, ranked: Ranked, place: Place, indexed: IndexedFile | None) -> Inquiry:
        def inquiry(written: Place, file: FileStanding) -> Inquiry:
            missing = Reason.NOT_YET_INDEXED if file.checked else Reason.NOT_INDEXED
            missing = missing if indexed is not None else Reason.NO_INDEX
            return inquiry_of(ranked, replace(written, path=file.path), file, missing=missing)

        spelled = readings(place, self._index.root)
        absent: list[FileStanding] = []
        for written, paths in spelled:
            for path in paths:
                file = self._index.files.standing(path, None)
                if file.reason is not Reason.NO_FILE:
                    return inquiry(written, file)
                absent.append(file)
        several = indexed.several if indexed is not None else ()
        if several:
            detail = f"it could be {listed(several, MOST_NAMED)}"
            file = replace(absent[0], detail=detail, numbers={"files": len(several)})
            return inquiry_of(ranked, place, file)
        on_disk = self._index.files.paths_on_disk()
        for written, paths in spelled:
            named = fitting(paths, on_disk)
            if len(named) == 1:
                return inquiry(written, self._index.files.standing(named[0], None))
        return inquiry_of(ranked, place, absent[0])


def _nearest_chunk(
    reading: Reading, ranked: Ranked, indexed: IndexedFile, file: FileStanding, best: Sequence[str]
) -> Inquiry:
    """Explain the chunk at a line of a file that the index holds, or the one nearest to the list.

    A chunk in the list comes before the candidates, those before chunks of the pool that the
    ranking does not look at; of a file without any of them, what a leg ranks best: the first of
    `best`.
    """
    place, chunks = indexed.place, indexed.chunks
    line, missing = place.line, Reason.NO_CHUNK_AT_LINE
    if place.line is not None and file.lines is not None:
        # The file is another version than the index holds: the line is where its text was, that of
        # the nearest line above where it is new. Blank lines are all alike.
        at, of_text = place.line, dict[str, list[int]]()
        for number, text in enumerate(split_lines(reading.indexed_text(place.path)), start=1):
            of_text.setdefault(text.removesuffix("\r"), []).append(number)
        above = file.lines[:at] if at <= len(file.lines) else ()
        matches = (of_text[text] for text in reversed(above) if text.strip() and text in of_text)
        same = next(matches, [1] if above else [])
        line = min(same, key=lambda number: (abs(number - at), number), default=None)
    if not chunks:
        missing = Reason.STALE if file.stale else Reason.NO_CHUNK
    at_line = [one for one in chunks if line and one.start_line <= line <= one.end_line]
    # A row of a list is named by the first line of its chunk, which another one may hold as well.
    begin = [one for one in at_line if one.start_line == line]
    ids = [one.id for one in begin or at_line or (chunks if place.line is None else ())]
    numbers: dict[str, float | int | str | None] = {"chunks": len(chunks)}
    if place.line is not None:
        numbers["line"] = place.line
    if chunks:
        numbers["last_line"] = max(one.end_line for one in chunks)

    def fused_rank(drop: Drop) -> tuple[bool, float]:
        if drop.stages:
            return False, drop.stages[0].rank
        ranks = [number for name, number in drop.numbers.items() if name.endswith("_rank")]
        return True, min((float(rank) for rank in ranks if rank is not None), default=0.0)

    in_list = [chunk_id for chunk_id in ranked.ranks if chunk_id in ids]
    drops = sorted((drop for drop in ranked.drops if drop.chunk.id in ids), key=fused_rank)
    ordered = [*in_list, *(drop.chunk.id for drop in drops), *(one for one in best if one in ids)]
    nearest = next(iter([*ordered, *ids]), None)
    if also := [f"#L{one.start_line}-L{one.end_line}" for one in at_line if one.id != nearest]:
        numbers["also"] = ", ".join(also)
    facts = reading.facts(ranked, nearest) if nearest is not None else None
    return inquiry_of(ranked, place, file, facts, missing, numbers)


def inquiry_of(
    ranked: Ranked,
    place: Place,
    file: FileStanding,
    facts: ChunkFacts | None = None,
    missing: Reason = Reason.NOT_YET_INDEXED,
    numbers: Numbers | None = None,
) -> Inquiry:
    """Follow a place through all stations and stages, up to where it was lost.

    Without `facts` the index holds no chunk there: `missing` says why, and `numbers` what was
    compared to find none.
    """
    query = ranked.pool.query
    numbers = numbers or {}
    is_refused = file.checked and file.reason is not Reason.OK
    outcome = Outcome.PASSED if file.checked else Outcome.SKIPPED
    if is_refused:
        outcome = Outcome.LOST if facts is None else Outcome.MISSED
    detail = "" if outcome is Outcome.PASSED else file.detail
    steps = [TraceStep(Station.DISCOVERED, outcome, file.reason, file.numbers, other=detail)]
    if facts is None:
        if outcome is not Outcome.LOST:
            steps.append(TraceStep(Station.INDEXED, Outcome.LOST, missing, numbers))
        return Inquiry(query, place, None, tuple(steps), None)
    reason = Reason.STALE if file.stale else Reason.OK
    reason = Reason.VANISHED if facts.gone else reason
    outcome = Outcome.PASSED if reason is Reason.OK else Outcome.MISSED
    numbers = {**numbers, "start_line": facts.chunk.start_line, "end_line": facts.chunk.end_line}
    steps.append(TraceStep(Station.INDEXED, outcome, reason, numbers, other=file.path))
    legs = [step for leg in _STATIONS for step in _leg_steps(ranked, facts, leg)]
    order = list(Station)
    legs.sort(key=lambda step: order.index(Station(step.at)))
    pools = {pool for _, pool, _ in _STATIONS.values()}
    if any(step.at in pools and step.outcome is Outcome.PASSED for step in legs):
        steps += [*legs, *_stage_steps(ranked, facts.chunk.id)]
    else:
        # What was not searched is said as well.
        legs.sort(key=lambda step: step.outcome is not Outcome.SKIPPED)
        refusing = [at for at, step in enumerate(legs) if step.outcome is Outcome.MISSED]
        # No leg was asked: what keeps the query itself from being searched comes first.
        searched = [at for at, step in enumerate(legs) if step.reason is not Reason.DISABLED]
        last = next(iter([*refusing[-1:], *searched]), 0)
        steps += [*legs[:last], replace(legs[last], outcome=Outcome.LOST)]
    chunk, rank = facts.chunk, ranked.ranks.get(facts.chunk.id)
    return Inquiry(query, place, chunk, (*steps,), rank, facts.terms, facts.places, facts.filters)


_STATIONS: Final = {
    Leg.KEYWORD: (Station.KEYWORD_LEG, Station.KEYWORD_POOL, "bm25_rank"),
    Leg.VECTOR: (Station.VECTOR_LEG, Station.VECTOR_POOL, "cosine_rank"),
}
"""The station of each leg and of its pool, and the name there of the rank among all rows."""


def _leg_steps(ranked: Ranked, facts: ChunkFacts, leg: Leg) -> list[TraceStep]:
    pool, state = ranked.pool, ranked.pool.states[leg]
    station, pool_station, rank_name = _STATIONS[leg]
    if ONLY_LEG.get(ranked.ranking.search_mode, leg) is not leg:
        # A release without the vector of the query goes on without the leg: its state says why.
        says_why = state.status is not LegStatus.OK
        reason, why = (state.reason, state.detail) if says_why else (Reason.DISABLED, "")
        return [TraceStep(station, Outcome.SKIPPED, reason, other=why)]
    if state.status is not LegStatus.OK:
        if state.reason is Reason.NO_VECTORS and leg is Leg.VECTOR:
            # The leg had nothing to compare: what the chunk lacks says more.
            return [_without_vector(facts, Reason.NO_VECTORS, state.detail)]
        outcome = Outcome.SKIPPED if state.status is LegStatus.SKIPPED else Outcome.MISSED
        reason = refused(pool, leg) or state.reason
        return [TraceStep(station, outcome, reason, other=state.detail)]
    hit = next((hit for hit in pool.hits[leg] if hit.chunk_id == facts.chunk.id), None)
    step = (_keyword_step if leg is Leg.KEYWORD else _vector_step)(ranked, facts, hit)
    if step.outcome is not Outcome.PASSED:
        return [step]
    # The rank against the limit, of a chunk that the leg finds.
    place, candidates = facts.places.get(leg), ranked.ranking.candidates
    rank, limit = place.rank if place is not None else None, min(pool.limit, candidates)
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
        numbers[rank_name] = rank.position + 1
    outcome, reason = Outcome.MISSED, Reason.OUTSIDE_CANDIDATES
    estimates = state.facts.get("backend") == CODED_BACKEND
    # Of a leg that sized its answer by itself every hit is a candidate.
    if hit is not None and ((pool.sized and pool.limit == candidates) or hit.position < limit):
        outcome, reason = Outcome.PASSED, Reason.OK
    elif rank is not None and position is None and not pool.sized and not estimates:
        # The search would have given it: it was before the index held the chunk.
        reason = Reason.NOT_YET_INDEXED
    shown = position + 1 if position is not None else None
    return [step, TraceStep(pool_station, outcome, reason, numbers, shown, total)]


def _keyword_step(ranked: Ranked, facts: ChunkFacts, hit: LegHit | None) -> TraceStep:
    terms, filters, place = facts.terms, facts.filters, facts.places.get(Leg.KEYWORD)
    passed = partial(TraceStep, Station.KEYWORD_LEG, Outcome.PASSED)
    missed = partial(TraceStep, Station.KEYWORD_LEG, Outcome.MISSED)
    passes = hit is not None or (place is not None and place.reason is Reason.OK)
    if passes and not ranked.pool.is_scored:
        return passed(Reason.ONLY_FILTERS, other=ranked.pool.states[Leg.KEYWORD].detail)
    if hit is not None:
        reason = Reason.OK if hit.score is None else Reason.SUBSTRING_ONLY
        reason = reason if hit.has_body else Reason.PATH_ALONE
        bm25: Numbers = {"bm25": hit.raw} if reason is Reason.OK else {}
        return passed(reason, bm25, words=hit.terms)
    if terms is None or not terms.indexed:
        return missed(Reason.NOT_INDEXED)
    searched = [*([terms] if terms.sent else []), *terms.keywords]
    if terms.found_by is FoundBy.PATH or any(one.found for one in searched):
        if place is not None and place.reason is Reason.FILTERED:
            return missed(Reason.FILTERED, words=filters)
        by_substrings = terms.found_by is FoundBy.SUBSTRINGS
        everything = (terms, *terms.keywords)
        matched = [term.text for one in everything for term in one.terms if term.held]
        matched += [term.text for one in everything for term in one.substrings if term.held]
        raw = place.rank.raw if place is not None and place.rank is not None else None
        return passed(
            Reason.SUBSTRING_ONLY if by_substrings else Reason.OK,
            {"bm25": raw} if raw is not None else {},
            words=tuple(dict.fromkeys(matched)),
        )
    # An agent's program wants every word in a row, memtui what is quoted.
    state = ranked.pool.states[Leg.KEYWORD]
    requires = ranked.pool.sized or "required" in state.facts
    required = terms.missing if terms.sent and requires else ()
    counts: Numbers = {"terms": len(terms.terms), "pruned": len(terms.pruned)}
    dropped = tuple(text for text in required if text in terms.dropped)
    if not required and not filters and len(terms.dropped) == len(terms.terms):
        dropped = terms.dropped
    if dropped and len(dropped) >= len(required):
        return missed(Reason.TOKENIZER_DROPS, counts, words=dropped, other=terms.tokenizer)
    if required:
        return missed(Reason.TERM_MISSING, counts, words=required)
    if filters:
        return missed(Reason.FILTERED, words=filters)
    stopped = state.reason is Reason.ONLY_STOP_WORDS
    looked_up = [term.text for one in searched for term in one.terms]
    looked_up += [term.text for term in terms.pruned]
    return missed(
        Reason.ONLY_STOP_WORDS if stopped else Reason.NOT_MATCHED,
        counts,
        words=tuple(dict.fromkeys(looked_up)),
    )


def _vector_step(ranked: Ranked, facts: ChunkFacts, hit: LegHit | None) -> TraceStep:
    place, terms = facts.places.get(Leg.VECTOR), facts.terms
    missed = partial(TraceStep, Station.VECTOR_LEG, Outcome.MISSED)
    if hit is None and place is not None and place.reason is Reason.FILTERED:
        missing = terms.missing if terms is not None and not facts.filters else ()
        reason = Reason.TERM_MISSING if missing else Reason.FILTERED
        return missed(reason, words=missing or facts.filters)
    if hit is None and (facts.vector is not Reason.OK or place is None):
        return _without_vector(facts, Reason.NOT_INDEXED)
    if hit is None and place is not None and place.reason is Reason.NO_VECTOR:
        return missed(Reason.NO_VECTOR)
    ranked_by = hit or (place.rank if place is not None else None)
    cosine = ranked_by.raw if ranked_by is not None else None
    numbers: Numbers = {"cosine": cosine} if cosine is not None else {}
    return TraceStep(Station.VECTOR_LEG, Outcome.PASSED, facts.vector, numbers)


def _without_vector(facts: ChunkFacts, otherwise: Reason, detail: str = "") -> TraceStep:
    reason = otherwise if facts.vector is Reason.OK else facts.vector
    other = facts.chunk.model if facts.vector is Reason.OTHER_MODEL else detail
    return TraceStep(Station.VECTOR_LEG, Outcome.MISSED, reason, other=other)


_OTHER: Final = {Stage.MMR: "similar_to", Stage.DEDUP: "duplicate_of"}
"""Numbers of stages that hold the id of another chunk: it is told as a citation."""


def _stage_steps(ranked: Ranked, chunk_id: str) -> Iterator[TraceStep]:
    """Yield every active stage that a candidate went through, the one that lost it last.

    `PUSHED_OUT` where a stage moves it from within k to beyond. Each step holds k and what the
    stage did to the score: `before`, `after`, `operand`, and the stage's own numbers. Raises
    `KeyError` when the pool does not hold the chunk.
    """
    scored, k = find(ranked, chunk_id), max(0, ranked.ranking.k)
    traces = {trace.stage: trace for trace in ranked.trace.stages if trace.active}
    before: int | None = None
    for stage in scored.stages:
        is_loss = isinstance(scored, Drop) and stage is scored.stages[-1]
        outcome, reason = Outcome.LOST if is_loss else Outcome.PASSED, stage.reason
        if not is_loss and before is not None and before <= k < stage.rank:
            outcome, reason = Outcome.PUSHED_OUT, Reason.PUSHED_DOWN
        before = stage.rank
        # What the stage compared, by name.
        numbers: dict[str, float | int | str | None] = {"after": stage.after}
        if stage.stage is Stage.FUSION:
            for leg, part in ((leg, scored.legs[leg]) for leg in Leg if leg in scored.legs):
                for name in ("raw", "mapped", "weight", "contribution"):
                    numbers[f"{leg}_{name}"] = getattr(part, name)
        else:
            numbers["before"] = stage.before
        if stage.operand is not None:
            numbers["operand"] = stage.operand
        if stage.stage is Stage.MIN_SCORE:
            numbers["score"] = stage.before
        if stage.stage in (Stage.DECAY, Stage.RERANK):
            numbers["date_from"] = str(stage.reason)
        for name, value in stage.numbers.items():
            numbers["similarity" if name == "max_similarity" else name] = value
        numbers["k"] = k
        chunk = ranked.pool.chunks.get(str(numbers.pop(_OTHER.get(stage.stage, ""), None)))
        other = chunk.citation if chunk is not None else ""
        trace = traces.get(stage.stage)
        of = len(trace.order) + len(trace.dropped) if trace is not None else None
        yield TraceStep(stage.stage, outcome, reason, numbers, stage.rank, of, other=other)
