"""Everything that an index holds about one chunk; on the engine thread."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from memtui.engine.browsing.shelf import Holdings
from memtui.engine.browsing.terms import TermTable
from memtui.model import DateRule
from memtui.model.browsing import ChunkRecord
from memtui.ranking.decay import chunk_day

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def record_of(holdings: Holdings, chunk_id: str, dates: DateRule) -> ChunkRecord | None:
    """Read and compute what there is to know of a chunk; `None` when it is gone.

    `dates` says what its age is counted from. Raises what SQLite raises.
    """
    rowid = holdings.row_of(chunk_id)
    chunk = holdings.chunks([rowid]).get(rowid) if rowid is not None else None
    if rowid is None or chunk is None:
        return None
    words = holdings.words
    tokens, terms = TermTable(words).counted(chunk.text) if words is not None else (0, ())
    stored = holdings.vector(rowid)
    return ChunkRecord(
        chunk=replace(chunk, day_from=chunk_day(chunk, dates)[1]),
        rowid=rowid,
        tokens=tokens,
        characters=len(chunk.text),
        terms=terms,
        provider=stored.provider,
        dimensions=stored.dimensions,
        norm=_norm(stored.values),
        vector_state=stored.state,
        changed=holdings.changed(chunk),
        importance=chunk.importance,
    )


def _norm(vector: NDArray[np.floating] | None) -> float | None:
    """The length of a vector; `None` for one that is not finite."""
    if vector is None:
        return None
    # In double precision: the sum of many small squares.
    length = math.sqrt(math.fsum(float(number) ** 2 for number in vector.tolist()))
    return length if math.isfinite(length) else None
