"""Whether and where a chunk is shown, in one sentence, and how its place is written."""

from __future__ import annotations

from collections.abc import Mapping

from memtui.model import Chunk, Drop, Hit, Leg, Ranked, Reason, citation
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt


def verdict(ranked: Ranked, scored: Hit | Drop) -> str:
    """Whether and where the chunk is shown, or at which stage it was lost by which numbers."""
    if isinstance(scored, Hit):
        return f"SHOWN at rank {scored.rank}"
    numbers = scored.numbers
    match scored.reason:
        case Reason.OUTSIDE_CANDIDATES:
            places = [f"{leg} #{numbers[f'{leg}_rank']}" for leg in Leg if f"{leg}_rank" in numbers]
            found = f" ({', '.join(places)})" if places else ""
            why = f"outside the first {numbers.get('candidates')} of each leg{found}"
        case Reason.BELOW_MIN_SCORE:
            minimum = numbers.get("min_score")
            limit = fmt.number(float(minimum)) if isinstance(minimum, int | float) else fmt.NOTHING
            why = f"{fmt.score(scored.score)} < minimum {limit}"
        case Reason.CUT_AT_K:
            rank = scored.stages[-1].rank if scored.stages else None
            why = f"rank {rank} > k {numbers.get('k')}"
        case Reason.DUPLICATE_TEXT:
            why = f"same text as {place_of(ranked, numbers.get('duplicate_of'))}"
        case _:
            why = fmt.reason_words(scored.reason)
    return f"NOT SHOWN: {why}"


def counterfactuals(without: Mapping[str, int | None], rank: int | None) -> str:
    """The ranks under other settings: `Would be 2 without MMR, 5 without decay.`"""
    names = {"mmr": "MMR", "decay": "decay"}
    if not without:
        return ""
    if all(other == rank for other in without.values()):
        return f"The same without {' or '.join(names.get(name, name) for name in without)}."
    parts = [
        f"{'not shown' if other is None else other} without {names.get(name, name)}"
        for name, other in without.items()
    ]
    return f"Would be {', '.join(parts)}."


def place_of(ranked: Ranked, chunk_id: object) -> str:
    """The citation of a chunk of the pool, made safe for the screen."""
    chunk = ranked.pool.chunks.get(chunk_id) if isinstance(chunk_id, str) else None
    return place(chunk) if chunk is not None else "another chunk"


def place(chunk: Chunk) -> str:
    """The citation of a chunk, made safe for the screen."""
    return safe_line(citation(chunk.path, chunk.start_line, chunk.end_line))
