"""`memtui explain`: one chunk of a search, from its raw scores to the verdict."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memtui.cli import words
from memtui.cli.documents import drop_entry, file_states, hit_entry, legs_entry, ranking_entry
from memtui.cli.invocation import Invocation
from memtui.cli.results import excerpt_of
from memtui.cli.search import EXIT_NOTHING, EXIT_OK, search
from memtui.cli.session import Session, open_reading
from memtui.cli.waterfall import print_searched, print_waterfall
from memtui.errors import QueryError
from memtui.model import Hit, Ranked
from memtui.ranking.trace import Explanation, explain

_PLACE = re.compile(r"(?P<path>.+?)(?:#L|:)(?P<line>\d{1,9})(?:-L?\d{1,9})?\Z", re.DOTALL)


def run_explain(invocation: Invocation, query: str, options: Mapping[str, Any]) -> int:
    """Print the arithmetic of one result; 1 when there is no such result."""
    with open_reading(invocation, options["now"]) as session:
        ranked, warnings = search(session, query)
        output = invocation.output(raw=options["raw"])
        chunk_id, missing = _chosen(session, ranked, options)
        told = explain(ranked, chunk_id) if chunk_id is not None else None
        if invocation.json:
            document = _document(ranked, told, missing, warnings)
            if told is not None and isinstance(told.scored, Hit):
                states = file_states(session.engine.status())
                document["hit"] = hit_entry(told.scored, excerpt_of(told.scored, 300).text, states)
            output.document(document)
        else:
            for warning in warnings:
                output.note(f"memtui: {warning}")
            if session.is_foreign:
                print_searched(output, ranked)
            if chunk_id is not None:
                print_waterfall(output, ranked, chunk_id)
            else:
                output.note(f"memtui: {missing}")
    return EXIT_OK if chunk_id is not None else EXIT_NOTHING


def _chosen(session: Session, ranked: Ranked, options: Mapping[str, Any]) -> tuple[str | None, str]:
    """The id of the chunk that is asked for, or why there is none."""
    if options["chunk"] is not None:
        return _chunk_at(session, ranked, options["chunk"])
    rank = options["rank"] or 1
    if rank <= len(ranked.hits):
        return ranked.hits[rank - 1].chunk.id, ""
    return (
        None,
        f"there is no rank {rank}: the search has {words.count(len(ranked.hits), 'result')}",
    )


def _chunk_at(session: Session, ranked: Ranked, place: str) -> tuple[str | None, str]:
    found = _PLACE.fullmatch(place)
    if found is None:
        raise QueryError(f"--chunk {place!r} is not a place", hint="memory/2026-02-10.md#L12")
    line = int(found["line"])
    at_line = [
        chunk.chunk_id
        for chunk in session.engine.chunk_ranges(found["path"])
        if chunk.start_line <= line <= chunk.end_line
    ]
    if not at_line:
        return None, f"the index holds no chunk at {place}"
    in_pool = next((chunk_id for chunk_id in at_line if chunk_id in ranked.pool.chunks), None)
    if in_pool is None:
        return None, f"no leg found {place} among its first {ranked.pool.limit}"
    return in_pool, ""


def _document(
    ranked: Ranked, told: Explanation | None, missing: str, warnings: list[str]
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "query": ranked.pool.query,
        "now": ranked.trace.now,
        "ranking": ranking_entry(ranked),
        "search_mode": ranked.pool.search_mode,
        "legs": legs_entry(ranked),
        "shown": told is not None and told.rank is not None,
        "hit": None,
        "drop": None,
        "warnings": warnings,
    }
    if told is None:
        return {**document, "missing": missing}
    scored = told.scored
    if not isinstance(scored, Hit):
        document["drop"] = drop_entry(scored)
    return {
        **document,
        "ranks": [{"stage": stage, "rank": rank} for stage, rank in told.ranks],
        "leg_ranks": told.leg_ranks,
        "without": told.without,
        "similar": told.similar,
    }
