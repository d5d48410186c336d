"""Searches and their results as documents: every number and name as in the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from memtui.model import Chunk, Drop, Hit, Ranked, citation
from memtui.model.status import FileState
from memtui.report import words
from memtui.report.json_text import plain
from memtui.retrieval.marks import snippet

SNIPPET: Final = 300
"""Cells of a hit's snippet."""
FileStates: TypeAlias = Mapping[str, FileState]
"""By path, how the files of an agent's index agree with it."""


def search_entry(ranked: Ranked) -> dict[str, Any]:
    """Return a search: what was asked with which parameters, and how each leg answered."""
    ranking, pool = ranked.ranking, ranked.pool
    states: dict[str, Any] = plain(pool.states)
    return {
        "query": pool.query,
        "now": ranked.trace.now,
        "ranking": {**plain(ranking), "candidates": ranking.candidates},
        "search_mode": pool.search_mode,
        "legs": {leg: {"state": state.pop("status"), **state} for leg, state in states.items()},
    }


def hit_entry(hit: Hit, states: FileStates | None = None) -> dict[str, Any]:
    """Return a result; with `states`, of an agent's index, also how its file is.

    `file_state` is null for a file that nobody could compare.
    """
    file_state = {} if states is None else {"file_state": states.get(hit.chunk.path)}
    return {
        "rank": hit.rank,
        **_place(hit.chunk),
        "score": hit.score,
        "effective": hit.effective,
        "legs": hit.legs,
        "stages": hit.stages,
        "snippet": excerpt_of(hit, SNIPPET)[0],
        **file_state,
    }


def drop_entry(drop: Drop) -> dict[str, Any]:
    """Return a candidate that is not in the list."""
    names = ("stage", "reason", "score", "numbers", "legs", "stages")
    return {**_place(drop.chunk), **{name: getattr(drop, name) for name in names}}


def _place(chunk: Chunk) -> dict[str, Any]:
    return {
        "chunk_id": chunk.id,
        "path": chunk.path,
        "source": chunk.source,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "citation": citation(chunk.path, chunk.start_line, chunk.end_line),
        "model": chunk.model,
    }


def excerpt_of(hit: Hit, width: int) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the part of a hit's text around its matched terms, at most `width` cells, and where
    the terms are in it.
    """
    terms = tuple(dict.fromkeys(term for part in hit.legs.values() for term in part.terms))
    cut = snippet(hit.chunk.text, terms, width)
    text, spans = cut.text, tuple(cut.spans)
    if words.fitting(text, width) < len(text):
        end = words.fitting(text, width - 1)
        text, spans = text[:end] + "…", tuple(span for span in spans if span[1] <= end)
    return text, spans
