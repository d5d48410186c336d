"""Proof: recorded queries run again, and compared with the program's own answers."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from memtui.engine.foreign.agent import (
    ForeignFacts,
    ForeignTarget,
    agent_ranking,
    query_vectors_of,
    read_facts,
)
from memtui.engine.foreign.answers import (
    RecordedHit,
    RecordedLeg,
    RecordedQuery,
    RecordedResult,
    Recording,
)
from memtui.engine.foreign.legs import (
    AgentDatabase,
    Asked,
    ForeignRetriever,
    tables_of,
)
from memtui.engine.foreign.query_vectors import GivenVectors, QueryVectors
from memtui.model import (
    CandidatePool,
    Chunk,
    DateRule,
    Drop,
    Hit,
    Leg,
    LegState,
    LegStatus,
    Operation,
    Ranked,
    Ranking,
    Reason,
    SearchMode,
    Stage,
)
from memtui.ranking.mmr import snippet_text
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import for_mode
from memtui.ranking.trace import find
from memtui.retrieval.openclaw.keyword import merge_keyword_hits
from memtui.retrieval.openclaw.pool import make_pool, read_chunks, with_file_times
from memtui.retrieval.openclaw.release import Release, release_of
from memtui.retrieval.openclaw.tables import KeywordHit, SearchScope

if TYPE_CHECKING:
    from memtui.index.foreign.opening import Opened
    from memtui.retrieval.openclaw.pool import FileTime
    from memtui.retrieval.openclaw.tables import IndexTables


def verify(
    target: ForeignTarget,
    recording: Recording,
    *,
    given: GivenVectors | None = None,
    profile: str | None = None,
    env: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Verification:
    """Run a recording against an index and compare.

    Vectors of queries come from `given`, else as a search finds them. Raises
    `IndexMissing`, `IndexUnusable`, and `SettingsError` for a file that cannot be used.
    """
    index = AgentDatabase(target.database)
    try:
        facts = index.read(lambda opened: read_facts(opened, target, profile))
        vectors = query_vectors_of(index, facts, given, os.environ if env is None else env)
        try:
            return Verifier(facts, recording, vectors).run(progress)
        finally:
            vectors.close()
    finally:
        index.close()


@dataclass(frozen=True, slots=True)
class Verification:
    """How a whole recording compares."""

    profile: str
    chosen_because: str
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether every query does."""
        return all(verdict.agrees for verdict in self.verdicts)

    @property
    def score_difference(self) -> float:
        """The largest of all differences."""
        return max((verdict.score_difference for verdict in self.verdicts), default=0.0)


class Verifier:
    """Runs the queries of one recording against one index."""

    def __init__(self, facts: ForeignFacts, recording: Recording, vectors: QueryVectors) -> None:
        self._facts = facts
        self._recording = recording
        settings = recording.settings
        self._release = release_of(facts.choice.profile)
        self._base = settings.onto(agent_ranking(facts.choice.profile, facts.search))
        self._mode = settings.mode(facts.mode)
        self._now = recording.now or datetime.now(UTC)
        self._index = AgentDatabase(facts.target.database, tokenizer=settings.tokenizer)
        self._retriever = ForeignRetriever(
            self._index, self._release, vectors, facts.target.workspace
        )

    def run(self, progress: Callable[[int, int], None] | None = None) -> Verification:
        """Compare every query; raises `IndexUnusable` when the index cannot be read."""
        total = len(self._recording.queries)
        verdicts = []
        try:
            ids = self._index.read(ChunkIds)
            notes = tuple(self._index.read(self._notes))
            for number, record in enumerate(self._recording.queries, start=1):
                verdicts.append(self._verdict(record, ids))
                if progress is not None:
                    progress(number, total)
        finally:
            self._index.close()
        choice = self._facts.choice
        return Verification(choice.profile, choice.because, tuple(verdicts), notes)

    def _verdict(self, record: RecordedQuery, ids: ChunkIds) -> Verdict:
        ranking = self._ranking(record)
        scope = self._scope(record)
        if scope.sources == ():
            return compare(
                record, rank(self._nothing(record, ranking), ranking, now=self._now), None
            )
        asked = Asked(record.text, ranking, self._mode, scope)
        pool = self._retriever.retrieve(asked, lambda: False)
        if self._mode is not SearchMode.KEYWORD_ONLY and pool.search_mode is not self._mode:
            detail = pool.states[Leg.VECTOR].detail
            return Verdict(record.text, False, len(record.results), 0.0, str(Leg.VECTOR), detail)
        ranked = rank(pool, ranking, now=self._now)
        legs = self._index.read(lambda opened: self._from_legs(opened, record, ids, ranking))
        return compare(record, ranked, legs)

    def _ranking(self, record: RecordedQuery) -> Ranking:
        base, keys = self._base, record.active_project_keys
        chosen = replace(
            base,
            k=base.k if record.max_results is None else record.max_results,
            min_score=base.min_score if record.min_score is None else record.min_score,
            project_keys=base.project_keys if keys is None else keys,
        )
        return for_mode(chosen, self._mode)

    def _scope(self, record: RecordedQuery) -> SearchScope:
        model = self._recording.settings.model or self._facts.identity.model
        without = self._mode is SearchMode.KEYWORD_ONLY
        return SearchScope(None if without else model, self._sources(record))

    def _sources(self, record: RecordedQuery) -> tuple[str, ...] | None:
        """The enabled ones of those that were asked for; empty when none of them is."""
        enabled = self._recording.settings.sources
        if enabled is None:
            enabled = self._facts.scope.sources
        if not record.sources:
            return enabled
        return tuple(s for s in record.sources if enabled is None or s in enabled)

    def _nothing(self, record: RecordedQuery, ranking: Ranking) -> CandidatePool:
        """What a query finds that asks for no enabled source: the program does not search."""
        return empty_pool(
            record.text, "no source that was asked for is enabled", ranking.candidates, self._mode
        )

    def _from_legs(
        self, opened: Opened, record: RecordedQuery, ids: ChunkIds, ranking: Ranking
    ) -> Ranked | None:
        pool = pool_from_legs(
            opened,
            tables_of(opened.layout),
            self._release,
            record,
            ids,
            limit=ranking.candidates,
            mode=self._mode,
            dates=ranking.decay.dates,
            file_time=self._retriever.file_time,
        )
        return None if pool is None else rank(pool, ranking, now=self._now)

    def _notes(self, opened: Opened) -> Iterator[str]:
        wanted = self._recording.settings.tokenizer
        stored = self._facts.identity.fts_tokenizer or "unicode61"
        if wanted is not None and wanted != stored:
            yield f"recorded with tokenizer {wanted}: keyword tables made anew in memory"
        if not opened.vec_readable and self._mode is not SearchMode.KEYWORD_ONLY:
            yield "sqlite-vec cannot read this index: cosines are computed by memtui"


END_TO_END = 1e-6
"""How far scores may be apart: the program's cosine is single precision."""
FROM_LEGS = 1e-12
"""How far scores may be apart that start from the program's own hits."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one query compares."""

    query: str
    agrees: bool
    results: int
    """How many results the program gave."""
    score_difference: float
    """The largest difference of a score, a vector score or a text score; 0 to the last bit."""
    stage: str | None = None
    """The first stage that differs; `None` when nothing does."""
    detail: str = ""
    from_legs: float | None = None
    """The largest difference of a score that starts from the recorded legs; `None`: not told."""


Place: TypeAlias = tuple[str, int, int]
Pairs: TypeAlias = dict[int, int]
"""Where a result of the program is among memtui's hits: position to position, both from 0."""


def compare(record: RecordedQuery, ranked: Ranked, legs: Ranked | None) -> Verdict:
    """Compare one query; `legs` is what the recorded legs rank to, where that can be told."""
    pairs = _paired(record, ranked)
    difference = _largest(
        _difference(ranked.hits[ours], record.results[theirs]) for theirs, ours in pairs.items()
    )
    from_legs = _score_difference(legs, record) if legs is not None else None
    verdict = Verdict(record.text, True, len(record.results), difference, from_legs=from_legs)
    stage = _first_difference(record, ranked, pairs)
    if stage is None and from_legs is not None and not from_legs <= FROM_LEGS:
        stage = "recorded legs", f"ranked from them, a score differs by {from_legs:.3g}"
    if stage is None:
        return verdict
    return replace(verdict, agrees=False, stage=stage[0], detail=stage[1])


def _paired(record: RecordedQuery, ranked: Ranked) -> Pairs:
    """Pair by place; chunks that share one by their order, and where some lack, by rank first."""
    got = _positions(_place(hit.chunk) for hit in ranked.hits)
    wanted = _positions(result.place for result in record.results)
    pairs: Pairs = {}
    for place, theirs in wanted.items():
        ours = got.get(place, [])
        same = set(ours) & set(theirs) if len(ours) != len(theirs) else set()
        pairs |= {position: position for position in same}
        left = ([n for n in theirs if n not in same], [n for n in ours if n not in same])
        pairs |= dict(zip(*left, strict=False))
    return pairs


def _positions(places: Iterable[Place]) -> dict[Place, list[int]]:
    found: dict[Place, list[int]] = {}
    for position, place in enumerate(places):
        found.setdefault(place, []).append(position)
    return found


def _first_difference(
    record: RecordedQuery, ranked: Ranked, pairs: Pairs
) -> tuple[str, str] | None:
    """The first stage at which memtui and the program part, and how."""
    return (
        _vector_leg_differs(record, ranked)
        or _parts_differ(record, ranked, pairs)
        or _missing(record, ranked, pairs)
        or _extra(ranked, pairs)
        or _order_differs(record, ranked)
        or _snippet_differs(record, ranked)
    )


def _vector_leg_differs(record: RecordedQuery, ranked: Ranked) -> tuple[str, str] | None:
    legs = [leg for leg in record.legs or () if leg.kind == VECTOR]
    hits = ranked.pool.hits[Leg.VECTOR]
    if not legs or ranked.pool.states[Leg.VECTOR].status is not LegStatus.OK:
        return None
    recorded = [(hit.chunk, hit.score) for leg in legs for hit in leg.hits]
    if len(recorded) != len(hits):
        return str(Leg.VECTOR), f"{len(hits)} hits, the program had {len(recorded)}"
    for hit, (chunk, score) in zip(hits, recorded, strict=True):
        if not abs(hit.raw - score) <= END_TO_END:
            said = f"hit {hit.position + 1} ({chunk}): {hit.raw!r}, the program had {score!r}"
            return str(Leg.VECTOR), said
    return None


def _parts_differ(record: RecordedQuery, ranked: Ranked, pairs: Pairs) -> tuple[str, str] | None:
    for position, result in enumerate(record.results):
        if position not in pairs:
            continue
        hit = ranked.hits[pairs[position]]
        for leg, recorded in ((Leg.VECTOR, result.vector_score), (Leg.KEYWORD, result.text_score)):
            value = _leg_value(hit, leg)
            if recorded is not None and not abs(value - recorded) <= END_TO_END:
                said = f"{_shown(result)}: {value!r}, the program had {recorded!r}"
                return str(leg), said
        if not abs(hit.score - result.score) <= END_TO_END:
            said = f"{_shown(result)}: {hit.score!r}, the program had {result.score!r}"
            return _last_scoring_stage(hit), said
    return None


def _missing(record: RecordedQuery, ranked: Ranked, pairs: Pairs) -> tuple[str, str] | None:
    shown = {hit.chunk.id for hit in ranked.hits}
    for position, result in enumerate(record.results):
        if position in pairs:
            continue
        candidates = (
            chunk_id
            for chunk_id, chunk in ranked.pool.chunks.items()
            if chunk_id not in shown and _place(chunk) == result.place
        )
        chunk_id = next(candidates, None)
        if chunk_id is None:
            return "candidates", f"{_shown(result)} is in neither leg's candidates"
        lost = find(ranked, chunk_id)
        stage = str(lost.stage if isinstance(lost, Drop) else Stage.CUT)
        return stage, f"{_shown(result)} was lost here; the program shows it"
    return None


def _extra(ranked: Ranked, pairs: Pairs) -> tuple[str, str] | None:
    known = frozenset(pairs.values())
    for position, hit in enumerate(ranked.hits):
        if position not in known:
            stage = Stage.MIN_SCORE if ranked.ranking.min_score is not None else Stage.CUT
            return str(stage), f"{hit.citation} is shown; the program does not show it"
    return None


def _order_differs(record: RecordedQuery, ranked: Ranked) -> tuple[str, str] | None:
    both = zip(ranked.hits, record.results, strict=False)
    for rank_number, (hit, result) in enumerate(both, start=1):
        ours, theirs = _place(hit.chunk), result.place
        if ours != theirs:
            mmr = ranked.ranking.mmr.enabled and Stage.MMR in ranked.ranking.stages
            stage = Stage.MMR if mmr else Stage.FUSION
            said = (
                f"rank {rank_number}: {ours[0]}:{ours[1]}, the program has {theirs[0]}:{theirs[1]}"
            )
            return str(stage), said
    return None


def _snippet_differs(record: RecordedQuery, ranked: Ranked) -> tuple[str, str] | None:
    for hit, result in zip(ranked.hits, record.results, strict=False):
        snippet = snippet_text(hit.chunk)
        if result.snippet is not None and snippet != result.snippet:
            return "snippet", f"{_shown(result)}: the text is another"
    return None


def _last_scoring_stage(hit: Hit) -> str:
    """The last stage that made a score: where a difference came in, if the parts agree."""
    changing = {Operation.SUM, Operation.MULTIPLY, Operation.REPLACE}
    stages = [
        stage.stage
        for stage in hit.stages
        if stage.operation in changing and (stage.operation is Operation.SUM or stage.operand)
    ]
    return str(stages[-1] if stages else Stage.FUSION)


def _difference(hit: Hit, result: RecordedResult) -> float:
    differences = [abs(hit.score - result.score)]
    if result.vector_score is not None:
        differences.append(abs(_leg_value(hit, Leg.VECTOR) - result.vector_score))
    if result.text_score is not None:
        differences.append(abs(_leg_value(hit, Leg.KEYWORD) - result.text_score))
    return _largest(differences)


def _score_difference(ranked: Ranked, record: RecordedQuery) -> float:
    """The largest difference of a score; infinity when the lists are not the same."""
    if [_place(hit.chunk) for hit in ranked.hits] != [result.place for result in record.results]:
        return math.inf
    pairs = zip(ranked.hits, record.results, strict=True)
    return _largest(abs(hit.score - result.score) for hit, result in pairs)


def _largest(differences: Iterable[float]) -> float:
    """The largest of some differences; infinity when one is none, as NaN is."""
    return max((math.inf if math.isnan(d) else d for d in differences), default=0.0)


def _leg_value(hit: Hit, leg: Leg) -> float:
    """The cosine, or the text score before any boost; 0 when the leg did not find the chunk."""
    part = hit.legs.get(leg)
    if part is None:
        return 0.0
    if leg is Leg.VECTOR:
        return part.raw
    return part.mapped if part.text_score is None else part.text_score


def _place(chunk: Chunk) -> Place:
    return chunk.path, chunk.start_line, chunk.end_line


def _shown(result: RecordedResult) -> str:
    return f"{result.path}:{result.start_line}"


KEYWORD, VECTOR = "searchKeyword", "searchVector"
SHOWN_DIGITS = 16


class ChunkIds:
    """The chunks of an index by the beginning of their id, as recordings name them."""

    def __init__(self, opened: Opened) -> None:
        found = opened.connection.execute(f"SELECT id FROM {opened.layout.chunks}").fetchall()
        self._whole = {str(row[0])[:SHOWN_DIGITS]: str(row[0]) for row in found}

    def of(self, legs: Sequence[RecordedLeg]) -> dict[str, str] | None:
        """The whole ids of all recorded hits; `None` when one belongs to another index."""
        named = {hit.chunk for leg in legs for hit in leg.hits}
        if not named <= self._whole.keys():
            return None
        return {name: self._whole[name] for name in named}


def pool_from_legs(
    opened: Opened,
    tables: IndexTables,
    release: Release,
    record: RecordedQuery,
    ids: ChunkIds,
    *,
    limit: int,
    mode: SearchMode,
    dates: DateRule,
    file_time: FileTime,
) -> CandidatePool | None:
    """The pool that the recorded legs make.

    `None` when that cannot be told: no legs, legs of another index, or a release that does not
    record its whole-query leg (2026.9).
    """
    if record.legs is None or release.has_paths:
        return None
    whole = ids.of(record.legs)
    if whole is None:
        return None
    chunks = read_chunks(opened.connection, tables, whole.values())
    if not chunks.keys() >= set(whole.values()):
        return None
    keyword = [
        [_keyword_hit(hit, chunks[whole[hit.chunk]]) for hit in leg.hits]
        for leg in record.legs
        if leg.kind == KEYWORD
    ]
    vector = [
        (whole[hit.chunk], hit.vector_score if hit.vector_score is not None else hit.score)
        for leg in record.legs
        if leg.kind == VECTOR
        for hit in leg.hits
    ]
    state = LegState(LegStatus.OK)
    return make_pool(
        record.text,
        with_file_times(chunks, dates, file_time),
        keyword=merge_keyword_hits(keyword, release, has_provider=mode is SearchMode.HYBRID),
        vector=vector,
        states=dict.fromkeys(Leg, state),
        limit=limit,
        search_mode=mode,
        names_files=False,
        tokenizer=tables.tokenizer,
    )


def empty_pool(query: str, why: str, limit: int, mode: SearchMode) -> CandidatePool:
    """The pool of a query that no leg was asked; `why` as a phrase."""
    return CandidatePool(
        query=query,
        chunks={},
        hits=dict.fromkeys(Leg, ()),
        states=dict.fromkeys(Leg, LegState(LegStatus.SKIPPED, Reason.DISABLED, why)),
        limit=limit,
        sized=True,
        search_mode=mode,
    )


def _keyword_hit(hit: RecordedHit, chunk: Chunk) -> KeywordHit:
    text = hit.text_score if hit.text_score is not None else hit.score
    return KeywordHit(
        chunk.id, chunk.path, chunk.source, chunk.start_line, chunk.text, None, text, hit.score
    )
