"""The candidate pool of a release's search: its hits with the chunks they name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from memtui.model import CandidatePool, Chunk, DateRule, Leg, LegHit, LegState, Reason, SearchMode
from memtui.ranking.decay import chunk_day
from memtui.retrieval.connection import Connection
from memtui.retrieval.openclaw.boost import query_words, text_words
from memtui.retrieval.openclaw.keyword_hit import KeywordHit
from memtui.retrieval.openclaw.paths import exact_path_tier
from memtui.retrieval.openclaw.plan import TRIGRAM, tokens
from memtui.retrieval.openclaw.tables import IndexTables
from memtui.text.ecmascript import simple_fold

FileTime = Callable[[str, str], int]
"""(source, path) to the file's time in nanoseconds; 0 when there is none to ask."""

_DATED_BY_FILE = frozenset({Reason.FILE_TIME, Reason.NO_DATE})


def read_chunks(
    connection: Connection, tables: IndexTables, ids: Iterable[str]
) -> dict[str, Chunk]:
    """Read chunks by id, with importance and projects where the index keeps them."""
    source = "c.source" if tables.has_source else "'memory'"
    recall, join = "NULL, NULL", ""
    if tables.recall is not None:
        recall = "r.importance, r.project_key"
        join = f"LEFT JOIN {tables.recall} r ON r.chunk_id = c.id"
    sql = (
        f"SELECT c.id, c.path, {source}, c.start_line, c.end_line, c.text, c.hash, c.model, "
        f"{recall} FROM {tables.chunks} c {join} WHERE c.id IN (SELECT value FROM json_each(?))"
    )
    rows = connection.execute(sql, (json.dumps(list(ids)),)).fetchall()
    return {
        row[0]: Chunk(
            *(str(row[0]), str(row[1]), str(row[2]), int(row[3] or 0), int(row[4] or 0)),
            *(str(row[5]), str(row[6]), str(row[7])),
            importance=row[8],
            project_keys=_project_keys(row[9]),
        )
        for row in rows
    }


def make_pool(
    query: str,
    chunks: Mapping[str, Chunk],
    *,
    keyword: Iterable[KeywordHit],
    vector: Iterable[tuple[str, float]],
    states: Mapping[Leg, LegState],
    limit: int,
    search_mode: SearchMode,
    names_files: bool,
    tokenizer: str,
) -> CandidatePool:
    """Put the legs' hits and their chunks into one pool.

    A full-text row whose chunk is gone still is a hit up to 2026.5: it becomes a chunk of its own
    text. A vector hit whose chunk is gone is left out. With `names_files` the query is compared
    with the paths of vector hits too (2026.8 on).
    """
    held = dict(chunks)
    keyword_hits = []
    for position, hit in enumerate(keyword):
        if hit.id not in held:
            held[hit.id] = _orphan(hit)
        keyword_hits.append(_keyword_hit(hit, position, query, tokenizer))
    present = (pair for pair in vector if pair[0] in held)
    vector_hits = [
        LegHit(
            chunk_id,
            position,
            cosine,
            path_tier=exact_path_tier(query, held[chunk_id].path) if names_files else 0,
        )
        for position, (chunk_id, cosine) in enumerate(present)
    ]
    return CandidatePool(
        query=query,
        chunks=held,
        hits={Leg.VECTOR: tuple(vector_hits), Leg.KEYWORD: tuple(keyword_hits)},
        states=states,
        limit=limit,
        sized=True,
        search_mode=search_mode,
    )


def with_file_times(
    chunks: Mapping[str, Chunk], rule: DateRule, file_time: FileTime
) -> dict[str, Chunk]:
    """Give their file's time to the chunks whose age comes from it; no other file is looked at."""
    times: dict[tuple[str, str], int] = {}
    timed: dict[str, Chunk] = {}
    for chunk_id, chunk in chunks.items():
        # Without a time so far, a chunk that its file would date has none.
        if chunk_day(chunk, rule)[1] in _DATED_BY_FILE:
            key = (chunk.source, chunk.path)
            if key not in times:
                times[key] = file_time(*key)
            chunk = replace(chunk, mtime_ns=times[key])
        timed[chunk_id] = chunk
    return timed


def held_terms(query: str, text: str, tokenizer: str) -> tuple[str, ...]:
    """The words of a query that a text holds, as the query spells them."""
    if tokenizer != TRIGRAM and text.isascii():
        words = text_words(text, True).folded
    elif tokenizer != TRIGRAM:
        words = frozenset(tokens(simple_fold(text)))
    else:
        folded = simple_fold(text)
        return tuple(word for word in tokens(query) if simple_fold(word) in folded)
    return tuple(
        word for word in dict.fromkeys(tokens(query)) if query_words(word, True)[0] in words
    )


def _keyword_hit(hit: KeywordHit, position: int, query: str, tokenizer: str) -> LegHit:
    return LegHit(
        hit.id,
        position,
        hit.rank if hit.rank is not None else 0.0,
        terms=held_terms(query, hit.text, tokenizer) if hit.has_body else (),
        path_raw=hit.path_score,
        path_tier=hit.tier,
        score=hit.text_score if hit.rank is None else None,
        boosted=hit.score,
        has_body=hit.has_body,
    )


def _orphan(hit: KeywordHit) -> Chunk:
    end = hit.start_line + hit.text.count("\n")
    return Chunk(hit.id, hit.path, hit.source, hit.start_line, end, hit.text, "", "")


def _project_keys(stored: object) -> tuple[str, ...]:
    if not isinstance(stored, str):
        return ()
    return tuple(key.strip() for key in stored.split(";") if key.strip())
