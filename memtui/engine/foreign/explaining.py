"""Questions about one chunk of another program's index: its terms, ranks, why it is not shown."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from memtui.engine.foreign import holding
from memtui.engine.foreign.holding import Held
from memtui.engine.foreign.insight import ForeignInsight
from memtui.engine.foreign.standing import named_on_disk, note_standing, transcript_standing
from memtui.engine.inquiry import ChunkFacts, Evidence, inquiry_of
from memtui.engine.insight import Places, refused
from memtui.engine.passages import passages_of
from memtui.engine.places import readings, spellings
from memtui.engine.query_vectors import QueryVector
from memtui.engine.standing import FileStanding, ambiguous, sought
from memtui.engine.words_to_try import MOST_WORDS, WordsToTry
from memtui.errors import Cancelled, IndexMissing
from memtui.index.foreign.sessions import SOURCE as SESSIONS
from memtui.model import CandidatePool, Leg, ProviderState, Ranked, Reason, SearchMode
from memtui.model.inquiry import Inquiry, KeywordExplanation, Passages, Place
from memtui.retrieval.openclaw.plan import searched_part
from memtui.retrieval.openclaw.release import release_of
from memtui.retrieval.query import split_filters
from memtui.text.ecmascript import trim

if TYPE_CHECKING:
    from pathlib import Path

    from memtui.embedding.provider import Provider
    from memtui.engine.foreign.facts import ForeignFacts
    from memtui.engine.foreign.retriever import (
        ForeignIndex,
        ForeignRetriever,
        QueryVectorFinder,
    )
    from memtui.engine.providers.failover import ProviderHolder
    from memtui.engine.searching import SearchLoop
    from memtui.index.foreign.opening import Opened
    from memtui.retrieval.openclaw.vector import Vector

T = TypeVar("T")
_OTHER_WORD = "memtui"


class EmbeddedModel:
    """memtui's own model, loaded when an illustration is first asked for; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: ProviderHolder | None = None

    def get(self) -> tuple[Provider | None, ProviderState]:
        """Load it or return the one that is loaded, and say why there is none."""
        from memtui.embedding.choice import EMBEDDED_DEFAULT, EmbeddingChoice
        from memtui.engine.providers.failover import ProviderHolder

        with self._lock:
            if self._holder is None:
                self._holder = ProviderHolder(EmbeddingChoice(EMBEDDED_DEFAULT))
            holder = self._holder
        return holder.get()

    def close(self) -> None:
        """Let go of it."""
        with self._lock:
            if self._holder is not None:
                self._holder.close()


class ForeignExplaining:
    """Answers questions about chunks; the part of `ForeignMachine` that looks at one of them.

    Reads the index on the engine thread, notes and model on the caller's. Methods raise
    `IndexMissing` once the engine is closed, and `IndexUnusable` for an index that cannot be read.
    """

    facts: ForeignFacts
    root: Path
    now: Callable[[], datetime]
    _loop: SearchLoop
    _index: ForeignIndex
    _retriever: ForeignRetriever
    _vectors: QueryVectorFinder
    _embedded: EmbeddedModel
    _closed: threading.Event

    def keyword_terms(self, ranked: Ranked, chunk_id: str) -> KeywordExplanation | None:
        """Open the keyword leg down to the terms; `None` for a chunk without full-text row."""
        return self._read(lambda opened: self._insight(opened, ranked, chunk_id).keyword_terms())

    def leg_places(self, ranked: Ranked, chunk_id: str) -> Places:
        """Where a chunk stands in each leg among all chunks, however few the pool takes."""

        def places() -> Places:
            vector = self._query_vector(ranked.pool)
            return self._index.read(
                lambda opened: self._insight(opened, ranked, chunk_id).places(
                    self._retriever.stored, vector
                )
            )

        return self._called(places)

    def inquire(self, ranked: Ranked, chunk_id: str) -> Inquiry:
        """Say why a chunk is in the list or not, through every station and stage."""

        def asked() -> tuple[ChunkFacts | None, Held]:
            vector = self._query_vector(ranked.pool)
            return self._index.read(lambda opened: self._facts(opened, ranked, chunk_id, vector))

        facts, held = self._called(asked)
        if facts is None:
            unknown = FileStanding("", checked=False)
            return inquiry_of(Evidence(ranked, Place(chunk_id), unknown, missing=Reason.VANISHED))
        chunk = facts.chunk
        file = self._standing(held, chunk.path)
        return inquiry_of(Evidence(ranked, Place(chunk.path, chunk.start_line), file, facts))

    def inquire_at(self, ranked: Ranked, place: Place) -> Inquiry:
        """Say why a file, or a line of it, is in the list or not.

        Of a file without a line, the chunk that comes nearest to the list. Paths may be written
        as people write them; see `memtui.engine.places`.
        """
        held = self._read(
            lambda opened: self._with_transcript(opened, holding.held_at(opened, place, self.root))
        )
        if not held.is_held:
            return inquiry_of(self._not_held(ranked, held))
        file = self._standing(held, held.path)

        def asked() -> Evidence:
            vector = self._query_vector(ranked.pool)
            return self._index.read(lambda opened: self._at(opened, ranked, held, file, vector))

        return inquiry_of(self._called(asked))

    def passages(self, ranked: Ranked, chunk_id: str) -> Passages:
        """The passages of a chunk nearest to the query, by memtui's own model.

        An illustration: the vectors of the index are those of another model.
        """
        text = self._read(lambda opened: holding.text_by_id(opened, chunk_id))
        listed = ranked.pool.chunks.get(chunk_id)
        if text is None and listed is not None:
            text = listed.text
        if text is None:
            return Passages("", (), Reason.VANISHED)
        provider, state = self._embedded.get()
        query = searched_part(trim(split_filters(ranked.pool.query)[0]))
        return passages_of(text, query, None, provider, state)

    def words_to_try(self, ranked: Ranked, chunk_id: str, limit: int = MOST_WORDS) -> WordsToTry:
        """The chunk's most distinctive words that the query lacks, the rarest first.

        No word where the vectors of changed queries would come from a service elsewhere, or from
        nowhere although the query itself had one.
        """

        def asked() -> WordsToTry:
            reason = self._other_queries(ranked.pool)
            if reason is not Reason.OK:
                return WordsToTry((), reason)
            query = split_filters(ranked.pool.query)[0]
            return WordsToTry(
                self._index.read(lambda opened: holding.rare_words(opened, chunk_id, query, limit))
            )

        return self._called(asked)

    def _other_queries(self, pool: CandidatePool) -> Reason:
        """Why another text cannot be searched as this query was; nothing is asked elsewhere."""
        if pool.search_mode is SearchMode.KEYWORD_ONLY and self.facts.mode is pool.search_mode:
            return Reason.OK
        other = f"{searched_part(trim(split_filters(pool.query)[0]))} {_OTHER_WORD}"
        # As if it were still being typed: then no service on another machine is asked.
        found = self._vectors.find(other, typing=True, cancelled=self._closed.is_set)
        if isinstance(found, QueryVector):
            # A file that has a vector for this text has one for all: it is not this text's own.
            return Reason.NOT_REPRODUCIBLE if found.origin == "file" else Reason.OK
        if found.reason is Reason.PENDING or refused(pool, Leg.VECTOR) is None:
            return found.reason
        return Reason.OK

    def paths(self) -> Sequence[str]:
        """Every file that the index holds, by path."""
        return self._read(holding.all_paths)

    def _insight(self, opened: Opened, ranked: Ranked, chunk_id: str) -> ForeignInsight:
        release = release_of(self.facts.choice.profile)
        filters = split_filters(ranked.pool.query)[1]
        scope = self._retriever.masks.scope(opened, self.facts.scope, filters)
        return ForeignInsight(opened, release, scope, ranked, chunk_id, filters)

    def _query_vector(self, pool: CandidatePool) -> Vector | None:
        """The vector that a pool was searched with, outside of any reading of the index."""
        if refused(pool, Leg.VECTOR) is not None:
            return None
        query = split_filters(pool.query)[0]
        found = self._vectors.find(query, typing=False, cancelled=self._closed.is_set)
        return found.values if isinstance(found, QueryVector) else None

    def _facts(
        self, opened: Opened, ranked: Ranked, chunk_id: str, vector: Vector | None
    ) -> tuple[ChunkFacts | None, Held]:
        facts = self._insight(opened, ranked, chunk_id).facts(self._retriever.stored, vector)
        if facts is None:
            return None, Held(Place(chunk_id))
        chunk = facts.chunk
        held = holding.held_path(opened, Place(chunk.path), chunk.path, chunk.source)
        return facts, self._with_transcript(opened, held)

    def _at(
        self,
        opened: Opened,
        ranked: Ranked,
        held: Held,
        file: FileStanding,
        vector: Vector | None,
    ) -> Evidence:
        """On the engine thread: the chunk at a line of a file that the index holds."""
        found = sought(
            file, held.place.line, held.ranges, lambda: holding.indexed_lines(opened, held.path)
        )
        vectors = self._retriever.stored
        chosen = holding.nearest(opened, ranked, found.ids, self.facts.scope, vectors, vector)
        facts = holding.best(
            self._insight(opened, ranked, chunk_id).facts(vectors, vector) for chunk_id in chosen
        )
        place = replace(held.place, path=held.path)
        return Evidence(ranked, place, file, facts, found.missing, found.numbers)

    def _not_held(self, ranked: Ranked, held: Held) -> Evidence:
        """A file that the index does not hold: what the workspace says of it."""
        first: FileStanding | None = None
        for reading in readings(held.place):
            for path in spellings(reading.path, self.root):
                file = note_standing(self.facts, path, None)
                if file.reason is not Reason.NO_FILE:
                    place = replace(reading, path=file.path)
                    missing = Reason.NOT_YET_INDEXED if file.checked else Reason.NOT_INDEXED
                    return Evidence(ranked, place, file, None, missing)
                first = first or file
        assert first is not None
        if held.several:
            return Evidence(ranked, held.place, ambiguous(first, held.several))
        for reading in readings(held.place):
            named = named_on_disk(self.facts, spellings(reading.path, self.root))
            if named is not None:
                file = note_standing(self.facts, named, None)
                place = replace(reading, path=named)
                return Evidence(ranked, place, file, None, Reason.NOT_YET_INDEXED)
        return Evidence(ranked, held.place, first)

    def _standing(self, held: Held, path: str) -> FileStanding:
        if held.transcript is not None:
            return held.transcript
        return note_standing(self.facts, path, held.row)

    def _with_transcript(self, opened: Opened, held: Held) -> Held:
        """Transcripts may be rows of the database itself: they are looked at on this thread."""
        if held.source != SESSIONS or not held.is_held:
            return held
        standing = transcript_standing(opened, self.facts, held.path, held.row, self.now())
        return replace(held, transcript=standing)

    def _read(self, function: Callable[[Opened], T]) -> T:
        return self._called(lambda: self._index.read(function))

    def _called(self, function: Callable[[], T]) -> T:
        try:
            return self._loop.call(function).result()
        except (Cancelled, CancelledError):
            raise IndexMissing("the index is closed") from None
