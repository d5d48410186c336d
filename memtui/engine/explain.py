"""Questions about one chunk: why it is in a list or not, and what would change that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from memtui.engine.inquiry import ChunkFacts, Evidence, inquiry_of
from memtui.engine.places import meant, readings, spellings
from memtui.engine.ports import FileStanding, Index, IndexedFile, Reading
from memtui.engine.what_if import MOST_WORDS, WordsToTry, find_changes, word_changes
from memtui.memory.documents import split_lines
from memtui.model import Chunk, Drop, Leg, Ranked, Reason
from memtui.model.inquiry import Inquiry, LegPlace, Passage, Passages, Place, WordChanges
from memtui.retrieval.passages import nearest_passages

if TYPE_CHECKING:
    from memtui.engine.search import Search
    from memtui.engine.what_if import LeastChanges
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
            return facts, reading.file_at(Place(facts.chunk.path), facts.chunk.source)

        answer = self._index.read(look, ranked.pool)
        facts, indexed = answer or (None, None)
        listed = ranked.pool.chunks.get(chunk_id)
        if facts is None and listed is not None:
            facts = ChunkFacts(listed, gone=True)
        if facts is None:
            missing = Reason.VANISHED if answer is not None else Reason.NO_INDEX
            unknown = FileStanding("", checked=False)
            return inquiry_of(Evidence(ranked, Place(chunk_id), unknown, None, missing))
        place = Place(facts.chunk.path, facts.chunk.start_line)
        file = self._index.standing(place.path, indexed)
        return inquiry_of(Evidence(ranked, place, file, facts))

    def inquire_at(self, ranked: Ranked, place: Place) -> Inquiry:
        """Say why a file, or a line of it, is in the list or not.

        Of a file without a line, the chunk that comes nearest to the list. Paths may be written
        as people write them; see `memtui.engine.places`.
        """
        indexed = self._index.read(lambda reading: self._indexed_at(reading, place))
        if indexed is None or not indexed.is_held:
            return inquiry_of(self._not_indexed(ranked, place, indexed))
        file = self._index.standing(indexed.place.path, indexed)
        evidence = self._index.read(
            lambda reading: _nearest_chunk(reading, ranked, indexed, file), ranked.pool
        )
        return inquiry_of(evidence or self._not_indexed(ranked, place, None))

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
        reason = Reason.OK
        nearest: tuple[Passage, ...] = ()
        if not query:
            reason = Reason.EMPTY_QUERY
        elif not (provider.reads(query) and provider.reads(text)):
            reason = Reason.SCRIPT_NOT_SUPPORTED
        else:
            try:
                vector = provider.embed_query(query) if vector is None else vector
                if vector.any():
                    nearest = nearest_passages(text, vector, provider.embed_documents)
                    reason = Reason.OK if nearest else Reason.NO_VECTOR
                else:
                    reason = Reason.ZERO_QUERY_VECTOR
            except Exception:
                # Whatever a provider raises is its own: the explanation goes on without.
                reason = Reason.PROVIDER_FAILED
        return Passages(text, nearest, reason, provider.model)

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

    def _indexed_at(self, reading: Reading, place: Place) -> IndexedFile:
        """Find the file that a place names, as people write paths."""
        for one in readings(place):
            for path in spellings(one.path, self._index.root):
                indexed = reading.file_at(replace(one, path=path))
                if indexed.is_held:
                    return indexed
        paths = reading.paths()
        several: tuple[str, ...] = ()
        for one in readings(place):
            meaning = meant(spellings(one.path, self._index.root), paths)
            if meaning.path is not None:
                return reading.file_at(replace(one, path=meaning.path))
            several = several or meaning.several
        return IndexedFile(place, several=several)

    def _not_indexed(self, ranked: Ranked, place: Place, indexed: IndexedFile | None) -> Evidence:
        """Say of a file that the index does not hold what the file system says of it."""

        def evidence(written: Place, file: FileStanding) -> Evidence:
            missing = Reason.NOT_YET_INDEXED if file.checked else Reason.NOT_INDEXED
            missing = missing if indexed is not None else Reason.NO_INDEX
            return Evidence(ranked, replace(written, path=file.path), file, None, missing)

        spelled = [(one, spellings(one.path, self._index.root)) for one in readings(place)]
        missing_files: list[FileStanding] = []
        for written, paths in spelled:
            for path in paths:
                file = self._index.standing(path, None)
                if file.reason is not Reason.NO_FILE:
                    return evidence(written, file)
                missing_files.append(file)
        if indexed is not None and indexed.several:
            return Evidence(ranked, place, _ambiguous(missing_files[0], indexed.several))
        for written, paths in spelled:
            named = self._index.named_on_disk(paths)
            if named is not None:
                return evidence(written, self._index.standing(named, None))
        return Evidence(ranked, place, missing_files[0])


def _nearest_chunk(
    reading: Reading, ranked: Ranked, indexed: IndexedFile, file: FileStanding
) -> Evidence:
    """Return the chunk at a line of a file that the index holds, or the one nearest to the list."""
    place, ranges = indexed.place, indexed.ranges
    line, missing = place.line, Reason.NO_CHUNK_AT_LINE
    if line is not None and file.lines is not None:
        # The file is another version than the index holds.
        lines = split_lines(reading.indexed_text(place.path)[1])
        line = indexed_line(line, file.lines, lines)
        at = place.line or 0
        if line is None and 1 <= at <= len(file.lines) and file.lines[at - 1].strip():
            missing = Reason.STALE
    ids = tuple(
        one.chunk_id
        for one in ranges
        if place.line is None or (line is not None and one.start_line <= line <= one.end_line)
    )
    numbers: dict[str, float | int | str | None] = {"chunks": len(ranges)}
    if place.line is not None:
        numbers["line"] = place.line
    if ranges:
        numbers["last_line"] = max(one.end_line for one in ranges)
    best = _best_in_pool(ranked, frozenset(ids))
    chosen = [best] if best is not None else reading.nearest(ranked, ids)
    facts = [one for one in (reading.facts(ranked, chunk_id) for chunk_id in chosen) if one]
    nearest = min(facts, key=_best_position) if facts else None
    return Evidence(ranked, place, file, nearest, missing, numbers)


def indexed_line(line: int, now: Sequence[str], indexed: Sequence[str]) -> int | None:
    """Return the line of the indexed version that a line of the changed file was, both 1-based.

    The same text at the same place, or else nearest to it; `None` when the index never had it.
    """
    if not 1 <= line <= len(now):
        return None
    text = now[line - 1]
    same = [n for n, other in enumerate(indexed, start=1) if other.removesuffix("\r") == text]
    if not text.strip():
        # Blank lines are all alike.
        same = [number for number in same if number == line]
    return min(same, key=lambda number: (abs(number - line), number), default=None)


def _best_in_pool(ranked: Ranked, ids: Collection[str]) -> str | None:
    """Return the chunk with the best rank in the list, else with the best rank after fusion.

    Candidates come before chunks of the pool that the ranking does not look at; `None` when the
    pool holds none of `ids`.
    """
    shown = [hit for hit in ranked.hits if hit.chunk.id in ids]
    if shown:
        return shown[0].chunk.id
    drops = [drop for drop in ranked.drops if drop.chunk.id in ids]
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
    """Describe a file that is not there under a name that several others end in."""
    named = ", ".join(several[:MOST_NAMED])
    rest = f" and {len(several) - MOST_NAMED} more" if len(several) > MOST_NAMED else ""
    return replace(file, detail=f"it could be {named}{rest}", numbers={"files": len(several)})
