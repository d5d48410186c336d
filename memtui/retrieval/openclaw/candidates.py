"""The vector leg of a release, and the candidate pool of both legs: hits and their chunks."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from memtui.model import CandidatePool, Chunk, DateRule, Leg, LegHit, LegState, Reason, SearchMode
from memtui.model.reasons import NOTES
from memtui.ranking.stages import chunk_day
from memtui.retrieval.connection import Connection
from memtui.retrieval.openclaw import tables
from memtui.retrieval.openclaw.keyword_leg import exact_path_tier, words_of
from memtui.retrieval.openclaw.terms import TRIGRAM, searched_part, tokens
from memtui.retrieval.pool import with_mask
from memtui.settings.openclaw.releases import Release
from memtui.text.ecmascript import simple_fold, trim
from memtui.text.tokens import STOP_WORDS

Vector: TypeAlias = NDArray[np.float64]
VectorBatches: TypeAlias = Iterable[tuple[Sequence[str], NDArray[np.floating]]]
"""Chunk ids and their vectors (n, dims), in the order of rows, in batches."""

OVERSAMPLE = 8
VEC0, SCAN = "sqlite-vec", "scan"


class VectorAnswer(Struct, frozen=True):
    """Chunk ids with their cosine, best first, and how they were found."""

    hits: tuple[tuple[str, float], ...]
    backend: str
    searched: int
    """Number of vectors that were compared, or asked of the vector table."""


def nearest_chunks(
    connection: Connection,
    layout: tables.Layout,
    release: Release,
    vector: Vector,
    limit: int,
    scope: tables.SearchScope,
    stored: VectorBatches,
    *,
    vec_readable: bool,
) -> VectorAnswer:
    """Find the `limit` nearest chunks of the scope's model, as one release does.

    `vector` is not zero; `stored` are compared where sqlite-vec cannot read the index. Raises what
    SQLite raises: it refuses `k` above 4096.
    """
    vec, blob = layout.vec, vector.astype("<f4").tobytes()
    condition, sources = scope.visible("c.source", layout)
    where, values = f" AND c.model = ?{condition}", (scope.model or "", *sources)

    def nearest(depth: int | None) -> tuple[tuple[str, float], ...]:
        """Compare the `depth` nearest vectors by sqlite-vec's own search; `None`: every vector."""
        among = "1=1" if depth is None else "v.embedding MATCH ? AND k = ?"
        chosen = () if depth is None else (blob, depth)
        parts = {"vec": vec, "chunks": layout.chunks, "among": among, "where": where}
        sql = tables.SQL["nearest"].format(**parts)
        rows = list(connection.execute(sql, (blob, *chosen, *values, limit)))
        # sqlite-vec answers NULL where a stored vector is zero or not finite: SQLite sorts it
        # first, and in the program's `1 - dist` null counts as 0. Such a chunk scores 1 there.
        return tuple((tables.text_of(chunk_id) or "", 1 - (dist or 0.0)) for chunk_id, dist in rows)

    if vec is None or not vec_readable:
        return scan(vector, stored, limit)
    if not release.has_knn:
        hits = nearest(None)
        return VectorAnswer(hits, VEC0, limit)
    ceiling = release.max_knn or sys.maxsize
    depth = min(limit * OVERSAMPLE, ceiling)
    hits = nearest(depth)
    if len(hits) < limit:
        count = f"SELECT COUNT(*) FROM {layout.chunks} c WHERE 1=1{where}"
        matching = connection.execute(count, values).get
        every = connection.execute(f"SELECT COUNT(*) FROM {vec}").get
        # Among the nearest, too few are of the model: every vector is asked for.
        wider = min(every, ceiling)
        if matching > len(hits) and wider > depth:
            hits, depth = nearest(wider), wider
        if wider < every and len(hits) < min(limit, matching):
            return scan(vector, stored, limit)
    return VectorAnswer(hits, VEC0, depth)


def scan(vector: Vector, stored: VectorBatches, limit: int | None = None) -> VectorAnswer:
    """Compare every vector in double precision; equal cosines keep the order of rows.

    Of two vectors the shorter length counts; the cosine with one that is zero is 0.
    """
    ids, cosines = list[str](), list[float]()
    for names, batch in stored:
        size = min(len(vector), batch.shape[1])
        first, rows = vector[:size], batch[:, :size].astype(np.float64, copy=False)
        norms = np.sqrt(first @ first) * np.sqrt(np.einsum("ij,ij->i", rows, rows))
        products = rows @ first
        ids += names
        cosines += np.divide(products, norms, out=np.zeros_like(products), where=norms > 0).tolist()
    every = np.array(cosines)
    finite = np.flatnonzero(np.isfinite(every))
    best = finite[np.argsort(-every[finite], kind="stable")][:limit].tolist()
    return VectorAnswer(tuple((ids[place], cosines[place]) for place in best), SCAN, len(ids))


def is_zero(vector: Vector) -> bool:
    """Tell whether nothing can be compared: no number, or in float32 all zero or one not finite."""
    with np.errstate(over="ignore", under="ignore"):
        single = vector.astype(np.float32)
    return not single.any() or not np.isfinite(single).all()


def read_chunks(
    connection: Connection, layout: tables.Layout, ids: Iterable[str]
) -> dict[str, Chunk]:
    """Read chunks by id, with importance and projects where the index keeps them.

    A row without id, path or text is left out.
    """
    return {chunk.id: chunk for chunk in chunk_rows(connection, layout, "id", ids).values()}


def chunk_rows(
    connection: Connection, layout: tables.Layout, column: str, keys: Iterable[str | int]
) -> dict[int, Chunk]:
    """Read chunks whose `column` is one of some keys, by rowid; as `read_chunks` otherwise."""
    source = tables.readable("c.source") if layout.legs_see_source else "NULL"
    recall, join = "NULL, NULL", ""
    if layout.recall is not None:
        is_text = "typeof(r.project_key) = 'text'"
        recall = f"r.importance, CASE WHEN {is_text} THEN {tables.readable('r.project_key')} END"
        join = f"LEFT JOIN {layout.recall} r ON r.chunk_id = c.id"
    sql = tables.SQL["chunks"].format(
        recall=recall, source=source, chunks=layout.chunks, join=join, column=column
    )
    chunks: dict[int, Chunk] = {}
    rows = list(connection.execute(sql, (json.dumps(list(keys)),)))
    for rowid, start, end, importance, projects, *values in rows:
        origin, chunk_id, path, text, digest, model = map(tables.text_of, values)
        if chunk_id is None or path is None or text is None:
            continue
        project_keys = (key.strip() for key in (tables.text_of(projects) or "").split(";"))
        chunks[rowid] = Chunk(
            *(chunk_id, path, origin or NOTES, tables.whole(start), tables.whole(end), text),
            *(digest or "", model or ""),
            importance=tables.finite(importance),
            project_keys=tuple(filter(None, project_keys)),
        )
    return chunks


def make_pool(
    query: str,
    chunks: Mapping[str, Chunk],
    *,
    keyword: Iterable[tables.KeywordHit],
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
    with the paths of vector hits too (2026.8 on). The text of a conversation is as it may be
    shown: credentials masked.
    """
    chunks_by_id, searched = dict(chunks), searched_part(trim(query))
    keyword_hits = []
    telling = [word for word in dict.fromkeys(tokens(searched)) if word.lower() not in STOP_WORDS]
    telling = telling or tokens(searched)
    for position, hit in enumerate(keyword):
        if hit.id not in chunks_by_id:
            end = hit.start_line + hit.text.count("\n")
            place = (hit.path, hit.source, hit.start_line, end)
            chunks_by_id[hit.id] = Chunk(hit.id, *place, hit.text, "", "")
        terms = matched_terms(searched, hit.text, tokenizer) if hit.has_body else ()
        keyword_hits.append(
            LegHit(
                hit.id,
                position,
                hit.rank if hit.rank is not None else 0.0,
                terms=terms,
                share=sum(word in terms for word in telling) / max(1, len(telling)),
                path_raw=hit.path_score,
                path_tier=hit.tier,
                score=hit.text_score if hit.rank is None else None,
                boosted=hit.score,
                has_body=hit.has_body,
            )
        )
    present = (pair for pair in vector if pair[0] in chunks_by_id)
    vector_hits = [
        LegHit(
            chunk_id,
            position,
            cosine,
            path_tier=exact_path_tier(searched, chunks_by_id[chunk_id].path) if names_files else 0,
        )
        for position, (chunk_id, cosine) in enumerate(present)
    ]
    return CandidatePool(
        query=query,
        chunks={chunk_id: with_mask(chunk) for chunk_id, chunk in chunks_by_id.items()},
        hits={Leg.VECTOR: tuple(vector_hits), Leg.KEYWORD: tuple(keyword_hits)},
        states=states,
        limit=limit,
        sized=True,
        search_mode=search_mode,
    )


def with_file_times(
    chunks: Mapping[str, Chunk], rule: DateRule, file_time: Callable[[str, str], int]
) -> dict[str, Chunk]:
    """Give their file's time to the chunks whose age comes from it; no other file is looked at.

    `file_time` is of a source and a path, in nanoseconds; 0 when there is none.
    """
    time_of = cache(file_time)
    # Without a time so far, a chunk that its file would date has none.
    return {
        chunk_id: replace(chunk, mtime_ns=time_of(chunk.source, chunk.path))
        if chunk_day(chunk, rule)[1] in (Reason.FILE_TIME, Reason.NO_DATE)
        else chunk
        for chunk_id, chunk in chunks.items()
    }


def matched_terms(query: str, text: str, tokenizer: str) -> tuple[str, ...]:
    """The words of a query that a text holds, each once, as the query spells them."""
    words = dict.fromkeys(tokens(query))
    if tokenizer == TRIGRAM:
        folded = simple_fold(text)
        return tuple(word for word in words if simple_fold(word) in folded)
    # A word of the query counts by the first one that it is when composed and folded.
    in_text = frozenset(words_of(text, True))
    return tuple(word for word in words if words_of(word, True)[0] in in_text)
