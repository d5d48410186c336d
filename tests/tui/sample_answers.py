"""What the sample engine knows of one chunk: computed from its pool, as a real engine would."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from memtui.engine.explain import inquiry_of
from memtui.engine.places import meant, readings
from memtui.engine.ports import ChunkFacts, FileStanding
from memtui.model import Chunk, Leg, LegHit, Ranked, Reason
from memtui.model.inquiry import (
    FoundBy,
    Inquiry,
    KeywordExplanation,
    LegPlace,
    LegRank,
    Passages,
    PhraseScore,
    Place,
    TermScore,
)
from memtui.retrieval.passages import nearest_passages

_WORD = re.compile(r"\w+")
_DIMS = 64


def explained(chunk: Chunk, chunks: Sequence[Chunk], ranked: Ranked) -> KeywordExplanation:
    """The BM25 formula over the sample's words, scaled so that the shares are those of the hit."""
    held = [_WORD.findall(one.text.lower()) for one in chunks]
    own = _WORD.findall(chunk.text.lower())
    average = sum(map(len, held)) / len(held)
    hit = _hit(ranked, Leg.KEYWORD, chunk.id)
    terms = []
    for word in dict.fromkeys(_WORD.findall(ranked.pool.query.lower())):
        tf, df = own.count(word), sum(word in words for words in held)
        idf = max(math.log((len(held) - df + 0.5) / (df + 0.5)), 1e-6)
        share = idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * len(own) / average)) if tf else 0.0
        phrase = PhraseScore(f'"{word}"', (word,), tf, df, idf, share)
        terms.append(TermScore(word, f'"{word}"', False, tf > 0, share, (phrase,)))
    found = any(term.held for term in terms)
    return KeywordExplanation(
        rowid=chunks.index(chunk) + 1,
        match=" OR ".join(term.match for term in terms) or None,
        tokenizer="porter unicode61",
        indexed=True,
        found=found,
        score=hit.raw if hit is not None else None,
        terms=tuple(terms),
        rows=len(held),
        length=len(own),
        average_length=average,
        asked=ranked.pool.query,
        found_by=FoundBy.MATCH if found else FoundBy.NOTHING,
    )


def places(chunk: Chunk, chunks: Sequence[Chunk], ranked: Ranked) -> Mapping[Leg, LegPlace]:
    """Where a chunk stands in each leg: as the pool says, all others behind what it can hold."""
    found = {}
    for place, leg in enumerate(Leg):
        hits = ranked.pool.hits[leg]
        hit = _hit(ranked, leg, chunk.id)
        if hit is not None:
            rank = LegRank(hit.position, max(len(hits), len(chunks)), hit.raw)
            found[leg] = LegPlace(rank, asked=ranked.pool.query)
        elif leg is Leg.VECTOR and hits:
            position = max(len(hits), ranked.pool.limit)
            behind = LegRank(position, len(chunks) + 60, hits[-1].raw - 0.1 - place)
            found[leg] = LegPlace(behind)
        else:
            found[leg] = LegPlace(None, Reason.NOT_MATCHED)
    return found


def inquiry(ranked: Ranked, chunks: Sequence[Chunk], chunk_id: str) -> Inquiry:
    """Why a chunk of the sample is shown or not."""
    chunk = next((one for one in chunks if one.id == chunk_id), None)
    if chunk is None:
        nowhere = FileStanding("", checked=False)
        return inquiry_of(ranked, Place(chunk_id), nowhere, missing=Reason.VANISHED)
    facts = ChunkFacts(chunk, explained(chunk, chunks, ranked), places(chunk, chunks, ranked))
    place = Place(chunk.path, chunk.start_line)
    return inquiry_of(ranked, place, FileStanding(chunk.path), facts)


def inquiry_at(ranked: Ranked, chunks: Sequence[Chunk], place: Place) -> Inquiry:
    """Why a line or a file of the sample is shown or not."""
    for reading in readings(place):
        wanted = reading.path.removeprefix("./")
        known = dict.fromkeys(one.path for one in chunks)
        path = wanted if wanted in known else meant([wanted], known).path
        if path is None:
            continue
        of_file = [one for one in chunks if one.path == path]
        line = reading.line
        at = [one for one in of_file if line is None or one.start_line <= line <= one.end_line]
        if not at:
            file = FileStanding(path)
            named = Place(path, line)
            numbers = {"line": line, "chunks": len(of_file)}
            return inquiry_of(ranked, named, file, None, Reason.NO_CHUNK_AT_LINE, numbers)
        ranks = {hit.chunk.id: hit.rank for hit in ranked.hits}
        best = min(at, key=lambda one: ranks.get(one.id, len(chunks) + 1))
        return inquiry(ranked, chunks, best.id)
    gone = FileStanding(place.path, Reason.NO_FILE, "no such file or directory")
    return inquiry_of(ranked, place, gone)


def passages(ranked: Ranked, chunks: Sequence[Chunk], chunk_id: str) -> Passages:
    """The sentences nearest to the query, by a vector of hashed words."""
    chunk = next((one for one in chunks if one.id == chunk_id), None)
    if chunk is None:
        return Passages("", (), Reason.VANISHED)
    query = _hashed([ranked.pool.query])[0]
    found = nearest_passages(chunk.text, query, _hashed)
    return Passages(chunk.text, found, Reason.OK if found else Reason.NO_VECTOR, "hashed-words")


def lacking(ranked: Ranked, chunks: Sequence[Chunk], chunk_id: str, limit: int) -> tuple[str, ...]:
    """The rarest words of a chunk that the query lacks."""
    text = next((one.text for one in chunks if one.id == chunk_id), "")
    asked = set(_WORD.findall(ranked.pool.query.lower()))
    words = dict.fromkeys(w for w in _WORD.findall(text.lower()) if len(w) > 1 and w not in asked)
    held = [set(_WORD.findall(one.text.lower())) for one in chunks]
    return tuple(sorted(words, key=lambda word: sum(word in one for one in held))[:limit])


def _hit(ranked: Ranked, leg: Leg, chunk_id: str) -> LegHit | None:
    return next((hit for hit in ranked.pool.hits[leg] if hit.chunk_id == chunk_id), None)


def _hashed(texts: Sequence[str]) -> NDArray[np.float32]:
    rows = np.zeros((len(texts), _DIMS), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        for word in _WORD.findall(text.lower()):
            row[zlib.crc32(word.encode("utf-8", "replace")) % _DIMS] += 1.0
    return rows
