"""Proof: recorded queries run again, and compared with the program's own answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from memtui.engine.common import utc_now
from memtui.engine.foreign.answers import RecordedQuery, Recording
from memtui.engine.foreign.comparison import Verdict, compare
from memtui.engine.foreign.facts import ForeignFacts, query_vectors_of, read_facts
from memtui.engine.foreign.profile import agent_ranking
from memtui.engine.foreign.replay import ChunkIds, empty_pool, pool_from_legs
from memtui.engine.foreign.retriever import (
    Asked,
    ForeignIndex,
    ForeignRetriever,
    QueryVectorFinder,
    tables_of,
)
from memtui.engine.foreign.target import ForeignTarget
from memtui.engine.query_vectors import GivenVectors
from memtui.model import CandidatePool, Leg, Ranked, Ranking, SearchMode
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import for_mode
from memtui.retrieval.openclaw.release import release_of
from memtui.retrieval.openclaw.tables import SearchScope

if TYPE_CHECKING:
    from memtui.index.foreign.opening import Opened


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
    index = ForeignIndex(target.database)
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

    def __init__(
        self, facts: ForeignFacts, recording: Recording, vectors: QueryVectorFinder
    ) -> None:
        self._facts = facts
        self._recording = recording
        settings = recording.settings
        self._release = release_of(facts.choice.profile)
        self._base = settings.onto(agent_ranking(facts.choice.profile, facts.search))
        self._mode = settings.mode(facts.mode)
        self._now = recording.now or utc_now()
        self._index = ForeignIndex(facts.target.database, tokenizer=settings.tokenizer)
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
