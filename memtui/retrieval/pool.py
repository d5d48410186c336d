"""Chunks of conversations as they may be shown, ranked all the same by what the index holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from typing import Final

from memtui.model import CandidatePool, Chunk, Leg, LegHit, Reason
from memtui.ranking.mmr import snippet_text
from memtui.retrieval.connection import Connection
from memtui.retrieval.legs import LegAnswer, RowHit

CONVERSATIONS: Final = "sessions"
"""The source that conversations have in every index."""
UNMASKED: Final = ("transcript_redaction", "openclaw")
"""In the meta table of an index with credentials that only the wide list masks."""


def with_mask(chunk: Chunk) -> Chunk:
    """The chunk of a conversation with its credentials masked by the wide list.

    What MMR compares stays what the index holds, as `snippet`.
    """
    if chunk.source != CONVERSATIONS:
        return chunk
    from memtui.text.redact import redact_spoken

    text = redact_spoken(chunk.text)
    return chunk if text == chunk.text else replace(chunk, text=text, snippet=snippet_text(chunk))


_CHUNKS = """
SELECT c.id, c.chunk_id, f.path, f.source, c.start_line, c.end_line, c.text, c.hash, c.model,
       f.day, f.day_from, f.mtime_ns, f.importance
FROM chunks c JOIN files f ON f.id = c.file_id
WHERE c.id IN (SELECT value FROM json_each(?))
"""
_UNMASKED = "SELECT count(*) FROM meta WHERE key = ? AND value = ?"


def fetch_chunks(connection: Connection, rowids: Iterable[int]) -> dict[int, Chunk]:
    """Read chunks by their row numbers; rows that are gone are missing from the answer.

    The text of a conversation is as it may be shown: credentials masked.
    """
    # One parameter for any number of rows: the statement is prepared once.
    wanted = json.dumps(sorted(set(rowids)))
    rows = connection.execute(_CHUNKS, (wanted,)).fetchall()
    chunks = {}
    for rowid, *columns, day, day_from, mtime_ns, importance in rows:
        own_day = date.fromisoformat(day) if day else None
        values = (*columns, own_day, Reason(day_from) if day_from else None, mtime_ns, importance)
        chunks[rowid] = Chunk(*values)
    has_conversations = any(chunk.source == CONVERSATIONS for chunk in chunks.values())
    if has_conversations and connection.execute(_UNMASKED, UNMASKED).fetchall()[0][0]:
        return {rowid: with_mask(chunk) for rowid, chunk in chunks.items()}
    return chunks


def build_pool(
    connection: Connection,
    query: str,
    answers: Mapping[Leg, LegAnswer],
    *,
    limit: int,
    generation: int = 0,
    elapsed_ms: float = 0.0,
) -> CandidatePool:
    """Fetch the chunks of both legs' hits and make one pool of them.

    `answers` holds an answer for each leg. A chunk that was removed since its leg found it is
    left out, and the positions of the hits behind it close up.
    """
    rowids = {hit.rowid for answer in answers.values() for hit in answer.hits}
    chunks = fetch_chunks(connection, rowids) if rowids else {}
    return CandidatePool(
        query=query,
        chunks={chunk.id: chunk for chunk in chunks.values()},
        hits={leg: _hits(answers[leg].hits, chunks) for leg in Leg},
        states={leg: answers[leg].state for leg in Leg},
        limit=limit,
        generation=generation,
        elapsed_ms=elapsed_ms,
    )


def _hits(found: tuple[RowHit, ...], chunks: Mapping[int, Chunk]) -> tuple[LegHit, ...]:
    present = (hit for hit in found if hit.rowid in chunks)
    return tuple(
        LegHit(chunks[hit.rowid].id, position, hit.raw, hit.terms)
        for position, hit in enumerate(present)
    )
