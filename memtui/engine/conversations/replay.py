"""Asking a search of the memory again: the present index, the present parameters, and why not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from memtui.engine.conversations.recalled import PathNames, as_stored, compare, overlap
from memtui.errors import MemtuiError
from memtui.index.reader import ChunkRange
from memtui.model import Drop, Ranked, Ranking, Reason
from memtui.model.conversations import MemoryCall, RecallChange, RecallRow, Replayed

MOST_RESULTS: Final = 200
"""The most results that a call can ask again for."""
_LIMITS: Final = (
    "maxResults",
    "max_results",
    "limit",
    "k",
    "top_k",
    "topK",
    "n_results",
    "num_results",
    "count",
)
"""What memory tools call the number of results, OpenClaw's own first."""


class Asked(Protocol):
    """What asking again needs of an engine."""

    def search(self, text: str, *, ranking: Ranking | None = None, typing: bool = False) -> Ranked:
        """Search and wait for the whole answer."""

    def chunk_ranges(self, path: str) -> Sequence[ChunkRange]:
        """Where the chunks of a file are."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known of the memory beside the list that a search gives."""

    names: PathNames
    root: Path
    transcripts: Callable[[], frozenset[str]] = frozenset
    """Tells the stored paths of the transcripts that are there, indexed or not."""


def results_wanted(call: MemoryCall) -> int | None:
    """How many results a call asked for, 1 to 200; `None` when it does not say."""
    for name in _LIMITS:
        value = call.arguments.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if 1 <= value < float("inf"):
            return min(int(value), MOST_RESULTS)
    return None


def without_limit(call: MemoryCall) -> MemoryCall:
    """The call as if it had not said how many results it wanted."""
    kept = {name: value for name, value in call.arguments.items() if name not in _LIMITS}
    return replace(call, arguments=kept)


def replay(engine: Asked, call: MemoryCall, ranking: Ranking, around: Surroundings) -> Replayed:
    """Search for the query of a call, and put what came back then beside what comes back now.

    As many results as the call asked for, else as the ranking gives. What an engine raises is the
    `problem` of the answer. Where it is not known what came back then, every row has entered.
    """
    if not call.query.strip():
        return Replayed(call, (), "the call has no query")
    wanted = results_wanted(call)
    asked = ranking if wanted is None else replace(ranking, k=wanted)
    try:
        ranked = engine.search(call.query, ranking=asked, typing=False)
        then = [as_stored(recalled, around.names) for recalled in call.returned or ()]
        rows = [
            _explained(engine, row, ranked, around) if row.change is RecallChange.LEFT else row
            for row in compare(then, ranked.hits)
        ]
    except MemtuiError as error:
        return Replayed(call, (), " ".join(str(error).split()))
    return Replayed(call, tuple(rows))


def _explained(engine: Asked, row: RecallRow, ranked: Ranked, around: Surroundings) -> RecallRow:
    """A row that left, with why, and with the chunk that is at its place now."""
    drop = _dropped(row, ranked.drops)
    if drop is not None:
        return replace(row, why=drop.reason, chunk_id=drop.chunk.id)
    shown = [hit.chunk for hit in ranked.hits if hit.chunk.path == row.path]
    ranges = engine.chunk_ranges(row.path)
    place = row.start_line, row.end_line
    here = [found for found in ranges if overlap(place, (found.start_line, found.end_line)) > 0]
    if here:
        best = max(here, key=lambda found: overlap(place, (found.start_line, found.end_line)))
        is_shown = any(chunk.id == best.chunk_id for chunk in shown)
        # Its lines are in the list within a chunk that was, and is, another place of it.
        why = Reason.DUPLICATE_TEXT if is_shown else Reason.OUTSIDE_CANDIDATES
        return replace(row, why=why, chunk_id=best.chunk_id)
    if ranges:
        return replace(row, why=Reason.NO_CHUNK_AT_LINE)
    if not row.path:
        # A result that names no file: nothing can be told about it.
        return row
    is_there = _exists(around.root, row.path) or row.path in around.transcripts()
    return replace(row, why=Reason.NOT_INDEXED if is_there else Reason.NO_FILE)


def _dropped(row: RecallRow, drops: Sequence[Drop]) -> Drop | None:
    """The candidate at the place that came furthest."""
    place = row.start_line, row.end_line
    for drop in drops:
        chunk = drop.chunk
        if chunk.path == row.path and overlap(place, (chunk.start_line, chunk.end_line)) > 0:
            return drop
    return None


def _exists(root: Path, path: str) -> bool:
    try:
        return bool(path) and (root / path).is_file()
    except (OSError, ValueError):
        # A name that no file can have, or a folder that may not be looked into.
        return False
