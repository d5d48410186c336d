"""Questions about one chunk: why it is in a list or not, and what would change that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from memtui.engine.inquiry import ChunkFacts, Evidence, inquiry_of
from memtui.engine.places import meant, readings, spellings
from memtui.engine.ports import FileStanding, Index, IndexedFile, Reading
from memtui.engine.what_if import MOST_WORDS, WordsToTry, find_changes, word_changes
from memtui.memory.documents import split_lines
from memtui.model import Chunk, Drop, Leg, Numbers, Ranked, Reason
from memtui.model.inquiry import Inquiry, LegPlace, Passages, Place, WordChanges
from memtui.retrieval.passages import nearest_passages

if TYPE_CHECKING:
    from memtui.engine.search import Search
    from memtui.engine.what_if import LeastChanges
    from memtui.index.reader import ChunkRange
    from memtui.model import Ranking
    from memtui.model.inquiry import KeywordExplanation
    from memtui.ranking.counterfactual import Parameter

MOST_NAMED = 5
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
            chunk = facts.chunk
            return facts, reading.file_at(Place(chunk.path), chunk.source)

        answer = self._index.read(look, ranked.pool)
        facts, held = answer or (None, None)
        listed = ranked.pool.chunks.get(chunk_id)
        if facts is None and listed is not None:
            facts = ChunkFacts(listed, gone=True)
        if facts is None:
            missing = Reason.VANISHED if answer is not None else Reason.NO_INDEX
            unknown = FileStanding("", checked=False)
            return inquiry_of(Evidence(ranked, Place(chunk_id), unknown, None, missing))
        chunk = facts.chunk
        file = self._index.standing(chunk.path, held)
        return inquiry_of(Evidence(ranked, Place(chunk.path, chunk.start_line), file, facts))

    def inquire_at(self, ranked: Ranked, place: Place) -> Inquiry:
        """Say why a file, or a line of it, is in the list or not.

        Of a file without a line, the chunk that comes nearest to the list. Paths may be written
        as people write them; see `memtui.engine.places`.
        """
        held = self._index.read(partial(self._held_at, place=place))
        if held is None or not held.is_held:
            return inquiry_of(self._not_held(ranked, place, held))
        file = self._index.standing(held.place.path, held)
        evidence = self._index.read(
            lambda reading: _nearest_chunk(reading, ranked, held, file), ranked.pool
        )
        return inquiry_of(evidence or self._not_held(ranked, place, None))

    def passages(self, ranked: Ranked, chunk_id: str) -> Passages:
        """Return the passages of a chunk nearest to the query: an illustration.

        It is made by a model on this machine; no sentence of a note is sent to a service for it.
        Never raises for a provider that fails.
        """

        def look(reading: Reading) -> Chunk | None:
            rowid = reading.row_of(chunk_id)
            return reading.chunks([rowid]).get(rowid) if rowid is not None else None

        chunk = self._index.read(look) or ranked.pool.chunks.get(chunk_id)
        if chunk is None:
            is_there = self._index.stamp() is not None
            return Passages("", (), Reason.VANISHED if is_there else Reason.NO_INDEX)
        text, query = chunk.text, self._index.query_text(ranked.pool.query)
        provider, state, vector = self._index.local_model(query)
        if provider is None:
            return Passages(text, (), Reason.DISABLED if state.state is Reason.OK else state.state)
        if not query:
            return Passages(text, (), Reason.EMPTY_QUERY, provider.model)
        if not (provider.reads(query) and provider.reads(text)):
            return Passages(text, (), Reason.SCRIPT_NOT_SUPPORTED, provider.model)
        try:
            vector = provider.embed_query(query) if vector is None else vector
            if not vector.any():
                return Passages(text, (), Reason.ZERO_QUERY_VECTOR, provider.model)
            found = nearest_passages(text, vector, provider.embed_documents)
        except Exception:
            # Whatever a provider raises, its failure is its own: the explanation goes on without.
            return Passages(text, (), Reason.PROVIDER_FAILED, provider.model)
        return Passages(text, found, Reason.OK if found else Reason.NO_VECTOR, provider.model)

    def words_to_try(self, ranked: Ranked, chunk_id: str) -> WordsToTry:
        """Return the chunk's most distinctive words that the query lacks, the rarest first.

        No word where changed queries cannot be searched as the query itself was.
        """
        reason = self._index.other_queries(ranked.pool)
        if reason is not Reason.OK:
            return WordsToTry((), reason)
        query = ranked.pool.query
        words = self._index.read(lambda rows: rows.rare_words(chunk_id, query, MOST_WORDS))
        return WordsToTry(words or ())

    def least_changes(
        self,
        ranked: Ranked,
        ranking: Ranking,
        chunk_id: str,
        places: Mapping[Leg, LegPlace],
        *,
        progress: Callable[[Parameter], None] | None = None,
    ) -> LeastChanges:
        """Find the least change of each parameter alone that brings a chunk in, by searching.

        See `memtui.engine.what_if.find_changes`. Raises what a search raises.
        """
        return find_changes(
            self._search.ask,
            ranked,
            ranking,
            chunk_id,
            places,
            chunks=self._index.status().chunks,
            progress=progress,
        )

    def word_changes(
        self,
        ranked: Ranked,
        ranking: Ranking,
        chunk: Chunk,
        terms: KeywordExplanation | None,
        *,
        progress: Callable[[str], None] | None = None,
    ) -> WordChanges:
        """Find words that, added to the query or left out of it, bring a chunk in.

        See `memtui.engine.what_if.word_changes`. Raises what a search raises.
        """
        return word_changes(
            self._search.ask, self.words_to_try, ranked, ranking, chunk, terms, progress=progress
        )

    def _held_at(self, reading: Reading, place: Place) -> IndexedFile:
        """Find the file that a place names, as people write paths."""
        for one in readings(place):
            for path in spellings(one.path, self._index.root):
                held = reading.file_at(replace(one, path=path))
                if held.is_held:
                    return held
        paths = reading.paths()
        several: tuple[str, ...] = ()
        for one in readings(place):
            found = meant(spellings(one.path, self._index.root), paths)
            if found.path is not None:
                return reading.file_at(replace(one, path=found.path))
            several = several or found.several
        return IndexedFile(place, several=several)

    def _not_held(self, ranked: Ranked, place: Place, held: IndexedFile | None) -> Evidence:
        """A file that the index does not hold: what the file system says of it."""
        has_index = held is not None

        def evidence(reading: Place, file: FileStanding) -> Evidence:
            missing = Reason.NOT_YET_INDEXED if file.checked else Reason.NOT_INDEXED
            missing = missing if has_index else Reason.NO_INDEX
            return Evidence(ranked, replace(reading, path=file.path), file, None, missing)

        first: FileStanding | None = None
        for reading in readings(place):
            for path in spellings(reading.path, self._index.root):
                file = self._index.standing(path, None)
                if file.reason is not Reason.NO_FILE:
                    return evidence(reading, file)
                first = first or file
        assert first is not None
        if held is not None and held.several:
            return Evidence(ranked, place, _ambiguous(first, held.several))
        for reading in readings(place):
            named = self._index.named_on_disk(spellings(reading.path, self._index.root))
            if named is not None:
                return evidence(reading, self._index.standing(named, None))
        return Evidence(ranked, place, first)


def _nearest_chunk(
    reading: Reading, ranked: Ranked, held: IndexedFile, file: FileStanding
) -> Evidence:
    """The chunk at a line of a file that the index holds, or the one nearest to the list."""
    path = held.place.path
    ids, missing, numbers = chunks_at(
        file, held.place.line, held.ranges, lambda: reading.indexed_text(path)[1]
    )
    best = best_in_pool(ranked, ids)
    chosen = [best] if best is not None else reading.nearest(ranked, ids)
    facts = [one for one in (reading.facts(ranked, chunk_id) for chunk_id in chosen) if one]
    nearest = min(facts, key=_best_position) if facts else None
    return Evidence(ranked, held.place, file, nearest, missing, numbers)


def chunks_at(
    file: FileStanding,
    line: int | None,
    ranges: Sequence[ChunkRange],
    indexed_text: Callable[[], str],
) -> tuple[tuple[str, ...], Reason, Numbers]:
    """Find the chunks at a line of the file as it is now; all of them without a line.

    With them, why there are none where that is so, and what was compared. `indexed_text` is
    asked for the version in the index where the file is another one.
    """
    place, missing = line, Reason.NO_CHUNK_AT_LINE
    if line is not None and file.lines is not None:
        place = indexed_line(line, file.lines, split_lines(indexed_text()))
        if place is None and 1 <= line <= len(file.lines) and file.lines[line - 1].strip():
            missing = Reason.STALE
    ids = tuple(
        one.chunk_id
        for one in ranges
        if line is None or (place is not None and one.start_line <= place <= one.end_line)
    )
    numbers: dict[str, float | int | str | None] = {"chunks": len(ranges)}
    if line is not None:
        numbers["line"] = line
    if ranges:
        numbers["last_line"] = max(one.end_line for one in ranges)
    return ids, missing, numbers


def indexed_line(line: int, now: Sequence[str], indexed: Sequence[str]) -> int | None:
    """The line of the indexed version that a line of the changed file was, both 1-based.

    The same text at the same place, or else nearest to it; `None` when the index never had it.
    """
    if not 1 <= line <= len(now):
        return None
    text = now[line - 1]
    if line <= len(indexed) and indexed[line - 1].removesuffix("\r") == text:
        return line
    if not text.strip():
        return None
    same = [n for n, other in enumerate(indexed, start=1) if other.removesuffix("\r") == text]
    return min(same, key=lambda number: (abs(number - line), number), default=None)


def best_in_pool(ranked: Ranked, ids: Collection[str]) -> str | None:
    """The chunk with the best rank in the list, else with the best rank after fusion.

    Candidates come before chunks of the pool that the ranking does not look at; `None` when the
    pool holds none of `ids`.
    """
    wanted = frozenset(ids)
    shown = [hit for hit in ranked.hits if hit.chunk.id in wanted]
    if shown:
        return min(shown, key=lambda hit: hit.rank).chunk.id
    drops = [drop for drop in ranked.drops if drop.chunk.id in wanted]
    return min(drops, key=_fused_rank).chunk.id if drops else None


def _fused_rank(drop: Drop) -> tuple[bool, float]:
    if drop.stages:
        return False, drop.stages[0].rank
    ranks = [number for name, number in drop.numbers.items() if name.endswith("_rank")]
    return True, min((float(rank) for rank in ranks if rank is not None), default=0.0)


def _best_position(facts: ChunkFacts) -> float:
    ranks = [place.rank.position for place in facts.places.values() if place.rank is not None]
    return min(ranks, default=float("inf"))


def _ambiguous(file: FileStanding, several: Sequence[str]) -> FileStanding:
    """A file that is not there under a name that several others end in."""
    named = ", ".join(several[:MOST_NAMED])
    rest = f" and {len(several) - MOST_NAMED} more" if len(several) > MOST_NAMED else ""
    return replace(file, detail=f"it could be {named}{rest}", numbers={"files": len(several)})
