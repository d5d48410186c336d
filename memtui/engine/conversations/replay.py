"""Asking a search of the memory again, and what came back then beside what comes back now."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from memtui.engine.places import CITED, file_meant
from memtui.model import Chunk, Hit
from memtui.model.browsing import ChunkRange
from memtui.model.conversations import MemoryCall, RecallChange, Recalled, RecallRow

MOST_RESULTS: Final = 200
"""The most results that a call can ask again for."""

_LIMITS: Final = (
    *("maxResults", "max_results", "limit", "k", "top_k", "topK"),
    *("n_results", "num_results", "count"),
)
"""Names of the number of results in memory tools, OpenClaw's own first."""


def results_wanted(call: MemoryCall) -> int | None:
    """Return how many results a call asked for, 1 to 200; `None` when it does not say."""
    values = (call.arguments.get(name) for name in _LIMITS)
    numbers = (one for one in values if isinstance(one, int | float) and not isinstance(one, bool))
    return next((min(int(one), MOST_RESULTS) for one in numbers if 1 <= one < math.inf), None)


def as_stored(recalled: Recalled, root: Path, paths: Collection[str]) -> Recalled:
    """Return the place with the path that the index has for it, and the lines that it cites.

    A path that the index does not hold loses its citation alone.
    """
    path = file_meant(recalled.path, root, paths)
    if path is not None or (cited := CITED.fullmatch(recalled.path)) is None:
        return replace(recalled, path=path or recalled.path)
    path, start, end = cited["path"], recalled.start_line, recalled.end_line
    if not start:
        start = int(cited["line"])
        end = max(start, int(cited["end"] or start))
    path = file_meant(path, root, paths) or path
    return replace(recalled, path=path, start_line=start, end_line=end)


def compare(then: Sequence[Recalled], now: Sequence[Hit]) -> list[RecallRow]:
    """Put two lists of places side by side: each place of either is in exactly one row.

    Two places are one when the path is the same and their lines overlap; a place without lines
    is any part of its file. Where several fit, the one with the most lines in common counts, then
    the one with the nearest rank. Rows come by the rank now, then by the rank then. Paths must be
    as the index stores them.
    """
    positions: dict[str, list[int]] = {}
    for position, hit in enumerate(now):
        positions.setdefault(hit.chunk.path, []).append(position)
    pairs = [
        (-shared, abs(before - after), after, before)
        for before, recalled in enumerate(then)
        for after in positions.get(recalled.path, ())
        if (shared := overlap(recalled, now[after].chunk)) > 0
    ]
    partner: dict[int, int] = {}
    for _, _, after, before in sorted(pairs):
        if after not in partner and before not in partner.values():
            partner[after] = before
    rows = []
    for at, hit in enumerate(now):
        chunk, match = hit.chunk, partner.get(at)
        change = RecallChange.SAME if match == at else RecallChange.MOVED
        row = RecallRow(
            path=chunk.path,
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            change=RecallChange.ENTERED if match is None else change,
            rank_then=None if match is None else match + 1,
            rank_now=at + 1,
            score_then=None if match is None else then[match].score,
            score_now=hit.score,
            chunk_id=chunk.id,
        )
        rows.append(row)
    for at, recalled in enumerate(then):
        if at not in partner.values():
            place = recalled.path, recalled.start_line, recalled.end_line
            rows.append(RecallRow(*place, RecallChange.LEFT, at + 1, None, recalled.score))
    return rows


def overlap(place: Recalled | RecallRow, chunk: Chunk | ChunkRange) -> float:
    """Return the share of the lines of two places that both have; small for unknown lines."""
    start, end = place.start_line, max(place.start_line, place.end_line)
    if start <= 0:
        return 1e-9
    both = min(end, chunk.end_line) - max(start, chunk.start_line) + 1
    return max(0, both) / (max(end, chunk.end_line) - min(start, chunk.start_line) + 1)
