"""The answers of the legs, rows of the index with raw scores, and their pool of chunks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from heapq import nlargest
from typing import Final, NamedTuple, TypeAlias

from msgspec import convert
from msgspec.structs import replace

from memtui.data import read_table
from memtui.memory.chunking import chunk_id
from memtui.memory.documents import text_hash
from memtui.model import (
    CONVERSATIONS,
    CandidatePool,
    Chunk,
    Evidence,
    Leg,
    LegHit,
    LegState,
    LegStatus,
    PassageFeatures,
    Reason,
)
from memtui.ranking.mmr import snippet_text
from memtui.retrieval.connection import Connection, damaged, snapshot

EXACT_BACKEND: Final = "exact float32"
CODED_BACKEND: Final = "one-bit codes, exact rescoring"

_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def import_numpy() -> None:
    """Import numpy with its matrix products on one thread, unless the environment says otherwise.

    A product of a matrix and one vector is bound by memory: more threads read no faster and take
    the core that draws the screen. The variables are there for the import alone, so that no
    setting leaks into programs that memtui starts.
    """
    if "numpy" in sys.modules or any(name in os.environ for name in _ONE_THREAD):
        return
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        import numpy as np
    finally:
        for name in _ONE_THREAD:
            del os.environ[name]
    assert np


class RowHit(NamedTuple):
    """A chunk that a leg found, by its row number in the index.

    `raw` is SQLite's `bm25()` (lower is better) or a cosine (-1 to 1, higher is better).
    """

    rowid: int
    raw: float
    terms: tuple[str, ...] = ()
    """Keyword leg only: the query terms the chunk holds, as the query spells them."""
    share: float = 0.0
    """The share of the query's terms that these are."""
    places: Sequence[Sequence[int]] = ()
    """Keyword leg only: the token offsets of each term that is looked up, in the plan's order."""


class LegAnswer(NamedTuple):
    """The hits of a leg and how it answered.

    Best first, equal ones in no order; more than were asked for where some equal the last.
    """

    hits: tuple[RowHit, ...]
    state: LegState


NOTHING_ASKED: Final = LegState(LegStatus.SKIPPED, Reason.EMPTY_QUERY, "nothing to search for")

UNMASKED: Final = ("transcript_redaction", "openclaw")
"""In the meta table of an index with credentials that only the wide list masks."""


def with_mask(chunk: Chunk) -> Chunk:
    """Return the chunk of a conversation with its credentials masked by the wide list.

    What MMR compares stays what the index holds, as `snippet`.
    """
    if chunk.source != CONVERSATIONS:
        return chunk
    from memtui.text.redact import redact_spoken

    text = redact_spoken(chunk.text)
    return chunk if text == chunk.text else replace(chunk, text=text, snippet=snippet_text(chunk))


Measured: TypeAlias = tuple[Mapping[str, tuple[PassageFeatures, ...]], Evidence]
"""The passages of chunks, and what their features are made of."""

_SQL = read_table("queries.toml")["pool"]


def fetch_chunks(connection: Connection, rowids: Iterable[int]) -> dict[int, Chunk]:
    """Read chunks by their row numbers; rows that are gone are missing from the answer.

    The text of a conversation is as it may be shown: credentials masked. Raises what SQLite
    raises about damage for a chunk whose id is not that of its place, model and text, and
    `DecodeError` for a value of another type.
    """
    # One parameter for any number of rows: the statement is prepared once.
    listed = json.dumps(sorted(set(rowids)))
    rows = list(connection.execute(_SQL["chunks"], (listed,)))
    chunks = {}
    for rowid, *columns in rows:
        chunk = convert(dict(zip(Chunk.__struct_fields__, columns, strict=False)), Chunk)
        lines = chunk.start_line, chunk.end_line
        own_id = chunk_id(chunk.source, chunk.path, *lines, chunk.hash, chunk.model)
        if (chunk.id, chunk.hash) != (own_id, text_hash(chunk.text)):
            raise damaged(f"chunk {rowid} is not the one that was written")
        chunks[rowid] = chunk
    has_conversations = any(chunk.source == CONVERSATIONS for chunk in chunks.values())
    if has_conversations and connection.execute(_SQL["unmasked"], UNMASKED).get:
        return {rowid: with_mask(chunk) for rowid, chunk in chunks.items()}
    return chunks


def by_place(connection: Connection, rowids: Iterable[int]) -> list[int]:
    """Sort row numbers by the path and the lines of their chunks; those that are gone are first."""
    listed = json.dumps(list(rowids))
    return [row for (row,) in connection.execute(_SQL["by_place"], (listed,))]


def best_first(
    scores: Mapping[int, float], limit: int, in_order: Callable[[Iterable[int]], Sequence[int]]
) -> list[int]:
    """Return the `limit` rows of the highest scores, best first, equal ones as `in_order` sorts."""
    rows = list(scores)
    if len(rows) > limit > 0:
        least = nlargest(limit, scores.values())[-1]
        rows = [row for row in rows if scores[row] >= least]
    return sorted(in_order(rows), key=scores.__getitem__, reverse=True)[:limit]


def build_pool(
    connection: Connection,
    query: str,
    answers: Mapping[Leg, LegAnswer],
    *,
    limit: int,
    measure: Callable[[Mapping[int, Chunk]], Measured] = lambda chunks: ({}, Evidence.WORDS),
    generation: int = 0,
    elapsed_ms: float = 0.0,
) -> CandidatePool:
    """Fetch the chunks of the first `limit` hits of both legs and make one pool of them.

    `answers` holds an answer for each leg, `measure` gives the passages of chunks by row number. A
    chunk that was removed since its leg found it is left out, and the positions of the hits behind
    it close up.
    """
    best: dict[Leg, list[RowHit]] = {}
    # Another program may take a chunk away between its text and what is measured of it.
    with snapshot(connection):
        every = by_place(connection, {hit.rowid for leg in Leg for hit in answers[leg].hits})
        in_order = partial(sorted, key={row: place for place, row in enumerate(every)}.__getitem__)
        for leg in Leg:
            rows = {hit.rowid: hit for hit in answers[leg].hits}
            sign = 1.0 if leg is Leg.VECTOR else -1.0
            scores = {rowid: sign * hit.raw for rowid, hit in rows.items()}
            best[leg] = [rows[one] for one in best_first(scores, limit, in_order)]
        rowids = dict.fromkeys(hit.rowid for hits in best.values() for hit in hits)
        chunks = fetch_chunks(connection, rowids) if rowids else {}
        passages, evidence = measure(chunks)
    hits = {}
    for leg in Leg:
        present = [hit for hit in best[leg] if hit.rowid in chunks]
        hits[leg] = tuple(
            LegHit(chunks[hit.rowid].id, position, hit.raw, hit.terms, share=hit.share)
            for position, hit in enumerate(present)
        )
    return CandidatePool(
        query=query,
        chunks={chunks[row].id: chunks[row] for row in rowids if row in chunks},
        hits=hits,
        states={leg: answers[leg].state for leg in Leg},
        limit=limit,
        passages=passages,
        evidence=evidence,
        generation=generation,
        elapsed_ms=elapsed_ms,
    )
