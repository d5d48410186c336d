"""Questions about one chunk of memtui's own index: its terms, its ranks, why it is not shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from memtui.engine.words_to_try import MOST_WORDS, WordsToTry
from memtui.errors import IndexMissing
from memtui.model import Ranked, Reason
from memtui.retrieval.pool import fetch_chunks
from memtui.retrieval.query import parse_query

# What opens a chunk up is imported when somebody asks for it: a search does without.
if TYPE_CHECKING:
    from memtui.engine.conversations.stores import OwnTranscripts
    from memtui.engine.holding import Held
    from memtui.engine.inquiry import Evidence
    from memtui.engine.insight import Places
    from memtui.engine.providers.failover import ProviderHolder
    from memtui.engine.retriever import Retriever
    from memtui.engine.searching import SearchLoop
    from memtui.engine.standing import FileStanding
    from memtui.index.database import Connection
    from memtui.memory.discover import Scope
    from memtui.model.inquiry import Inquiry, KeywordExplanation, Passages, Place
    from memtui.retrieval.vector import VectorLeg

T = TypeVar("T")


class Explaining:
    """Answers questions about chunks; the part of `Engine` that looks at one of them.

    Reads the index on the engine thread, files and model on the caller's. Methods raise
    `IndexMissing` once the engine is closed, and `IndexUnusable` for an index that cannot be read.
    """

    _loop: SearchLoop
    _retriever: Retriever
    _scope: Scope
    transcripts: OwnTranscripts
    _holder: ProviderHolder

    def keyword_terms(self, ranked: Ranked, chunk_id: str) -> KeywordExplanation | None:
        """Open the keyword leg down to the terms; `None` for a chunk that is not indexed."""
        from memtui.engine import insight

        return self._called(lambda: insight.keyword_terms(self._retriever, ranked, chunk_id))

    def leg_places(self, ranked: Ranked, chunk_id: str) -> Places:
        """Where a chunk stands in each leg among all chunks, however few the pool takes."""
        from memtui.engine import insight

        return self._called(lambda: insight.leg_places(self._retriever, ranked, chunk_id))

    def inquire(self, ranked: Ranked, chunk_id: str) -> Inquiry:
        """Say why a chunk is in the list or not, through every station and stage."""
        from memtui.engine.holding import facts_by_id
        from memtui.engine.inquiry import ChunkFacts, Evidence, inquiry_of
        from memtui.engine.standing import FileStanding, standing_of
        from memtui.model.inquiry import Place

        held = self._read(lambda c: facts_by_id(self._retriever, c, ranked, chunk_id))
        chunk = held[0].chunk if held is not None else ranked.pool.chunks.get(chunk_id)
        if chunk is None:
            unknown = FileStanding("", checked=False)
            return inquiry_of(
                Evidence(ranked, Place(chunk_id), unknown, None, self._why_nothing(Reason.VANISHED))
            )
        facts, known = held if held is not None else (ChunkFacts(chunk, gone=True), None)
        file = standing_of(self._scope, chunk.path, known, self.transcripts.scope)
        return inquiry_of(Evidence(ranked, Place(chunk.path, chunk.start_line), file, facts))

    def inquire_at(self, ranked: Ranked, place: Place) -> Inquiry:
        """Say why a file, or a line of it, is in the list or not.

        Of a file without a line, the chunk that comes nearest to the list. Paths may be written
        as people write them; see `memtui.engine.places`.
        """
        from memtui.engine.holding import held_at
        from memtui.engine.inquiry import inquiry_of
        from memtui.engine.standing import standing_of

        held = self._read(lambda c: held_at(c, place, self._scope.root))
        if held is None or held.known is None:
            several = held.several if held is not None else ()
            return inquiry_of(self._not_held(ranked, place, several))
        file = standing_of(self._scope, held.path, held.known, self.transcripts.scope)
        evidence = self._read(lambda c: self._at(c, ranked, held, file))
        return inquiry_of(evidence or self._not_held(ranked, place, ()))

    def passages(self, ranked: Ranked, chunk_id: str) -> Passages:
        """The passages of a chunk nearest to the query: an illustration.

        It is made by a model on this machine; no sentence of a note is sent to a service for it.
        """
        from memtui.engine.insight import row_of
        from memtui.engine.passages import passages_of
        from memtui.model.inquiry import Passages

        def asked(connection: Connection) -> tuple[str | None, VectorLeg | None]:
            rowid = row_of(connection, chunk_id)
            chunks = fetch_chunks(connection, [rowid]) if rowid is not None else {}
            return (chunks[rowid].text if rowid in chunks else None), self._retriever.vector_leg

        query = parse_query(ranked.pool.query).text
        text, leg = self._read(asked) or (None, None)
        listed = ranked.pool.chunks.get(chunk_id)
        if text is None and listed is not None:
            text = listed.text
        if text is None:
            return Passages("", (), self._why_nothing(Reason.VANISHED))
        provider, state = self._holder.local()
        # The index may hold vectors of another model than the one that is asked here.
        same = leg is not None and leg.provider is provider
        vector = leg.remembered(query) if leg is not None and same else None
        return passages_of(text, query, vector, provider, state)

    def words_to_try(self, ranked: Ranked, chunk_id: str, limit: int = MOST_WORDS) -> WordsToTry:
        """The chunk's most distinctive words that the query lacks, the rarest first.

        No word where each changed query would have to be sent to a service.
        """
        from memtui.engine.insight import row_of
        from memtui.retrieval.leg_detail import rare_words

        leg = self._retriever.vector_leg
        provider = leg.provider if leg is not None else self._holder.get()[0]
        if provider is not None and provider.remote:
            return WordsToTry((), Reason.PENDING)

        def asked(connection: Connection) -> tuple[str, ...]:
            rowid = row_of(connection, chunk_id)
            if rowid is None:
                return ()
            text = fetch_chunks(connection, [rowid])[rowid].text
            return rare_words(connection, text, parse_query(ranked.pool.query).text, limit)

        return WordsToTry(self._read(asked) or ())

    def paths(self) -> Sequence[str]:
        """Every file that the index holds, by path; empty before the first index."""
        from memtui.engine.holding import all_paths

        return self._read(all_paths) or ()

    def _at(
        self, connection: Connection, ranked: Ranked, held: Held, file: FileStanding
    ) -> Evidence:
        """On the engine thread: the chunk at a line of a file that the index holds."""
        from memtui.engine.holding import best_facts
        from memtui.engine.inquiry import Evidence
        from memtui.engine.reading import indexed_note
        from memtui.engine.standing import sought

        found = sought(
            file, held.place.line, held.ranges, lambda: indexed_note(connection, held.path)[1]
        )
        facts = best_facts(self._retriever, connection, ranked, found.ids)
        place = replace(held.place, path=held.path)
        return Evidence(ranked, place, file, facts, found.missing, found.numbers)

    def _not_held(self, ranked: Ranked, place: Place, several: tuple[str, ...]) -> Evidence:
        """A file that the index does not hold: what the file system says of it."""
        from memtui.engine.inquiry import Evidence
        from memtui.engine.places import readings, spellings
        from memtui.engine.standing import ambiguous, standing_of

        missing = self._why_nothing(Reason.NOT_YET_INDEXED)
        first: FileStanding | None = None
        for reading in readings(place):
            for path in spellings(reading.path, self._scope.root):
                file = standing_of(self._scope, path, None)
                if file.reason is not Reason.NO_FILE:
                    return Evidence(ranked, replace(reading, path=file.path), file, None, missing)
                first = first or file
        assert first is not None
        if several:
            return Evidence(ranked, place, ambiguous(first, several))
        for reading in readings(place):
            found = self._named_on_disk(reading)
            if found is not None:
                return Evidence(ranked, replace(reading, path=found.path), found, None, missing)
        return Evidence(ranked, place, first)

    def _named_on_disk(self, place: Place) -> FileStanding | None:
        """The one file on disk that a bare name or the end of a path can mean."""
        from memtui.engine.places import meant, spellings
        from memtui.engine.standing import standing_of
        from memtui.memory.discover import discover

        found = discover(self._scope)
        paths = [file.path for file in found.files] + [file.path for file in found.skipped]
        named = meant(spellings(place.path, self._scope.root), paths)
        if named.path is None:
            return None
        return standing_of(self._scope, named.path, None)

    def _why_nothing(self, otherwise: Reason) -> Reason:
        return otherwise if self._has_index() else Reason.NO_INDEX

    def _has_index(self) -> bool:
        return self._read(lambda connection: True) or False

    def _read(self, read: Callable[[Connection], T]) -> T | None:
        """Read the index on the engine thread; `None` when there is none yet."""

        def reading() -> T | None:
            try:
                return self._retriever.read(read)
            except IndexMissing:
                return None

        return self._called(reading)

    def _called(self, function: Callable[[], T]) -> T:
        try:
            return self._loop.call(function).result()
        except CancelledError:
            raise IndexMissing("the index is closed") from None
