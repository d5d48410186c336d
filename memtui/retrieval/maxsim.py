"""MaxSim: how near the words of a query come to the word pieces of a passage.

MaxSim = sum over the query's pieces of rarity * the largest cosine to a piece of the passage, by
the sum of the rarities (Khattab and Zaharia, "ColBERT", 2020, with weights). All numbers are whole
127ths, whose products a float32 holds exactly: the same bits in whatever order they are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING

from memtui.embedding.provider import Provider
from memtui.errors import ProviderError
from memtui.retrieval.connection import Connection
from memtui.retrieval.features import rarity
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.passages import PIECE_UNIT, PassageRow, fetch_pieces

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pieces = NDArray[np.int8]
    """Word pieces of a passage, shape (n, 32), in 127ths."""


def cosines(query: NDArray[np.float32], pieces: Pieces) -> NDArray[np.float64]:
    """Return the cosines of a query's pieces (m, 32) to others (n, 32): shape (m, n), -1 to 1."""
    import numpy as np

    products = np.rint(query * PIECE_UNIT) @ pieces.astype(np.float32).T
    return np.clip(products.astype(np.float64) / PIECE_UNIT**2, -1.0, 1.0)


def max_similarities(
    query: NDArray[np.float32], rarity: Sequence[float], chunks: Mapping[int, Sequence[Pieces]]
) -> dict[int, list[float]]:
    """Return the MaxSim of each passage of some chunks, 0 to 1; 0 for one without pieces."""
    import numpy as np

    passages = [pieces for each in chunks.values() for pieces in each]
    present = [place for place, pieces in enumerate(passages) if len(pieces)]
    similar = np.zeros(len(passages))
    if present and sum(rarity) > 0:
        counts = [len(passages[place]) for place in present]
        starts = np.cumsum([0, *counts[:-1]])
        near = cosines(query, np.concatenate([passages[place] for place in present]))
        nearest = np.maximum(np.maximum.reduceat(near, starts, axis=1), 0.0)
        weights = np.array(rarity) / sum(rarity)
        # Piece by piece: a product of matrices would round by position.
        for weight, row in zip(weights, nearest, strict=True):
            similar[present] += weight * row
    values = iter(similar.tolist())
    return {chunk: [next(values) for _ in each] for chunk, each in chunks.items()}


def similarities(
    connection: Connection,
    provider: Provider,
    leg: KeywordLeg,
    query: str,
    passages: Mapping[int, Sequence[PassageRow]],
    embedded: Set[int],
) -> dict[int, list[float]]:
    """Return the MaxSim of the passages of chunks, by row number, with a query that has a vector.

    Empty where a chunk that has a vector, one of `embedded`, has no word pieces: those without
    would rank behind the others. Raises what SQLite raises about damage.
    """
    kept = fetch_pieces(connection, {row: len(rows) for row, rows in passages.items()})
    if not kept or not kept.keys() >= embedded:
        return {}
    try:
        pieces = provider.word_pieces(query, [0])
    except ProviderError:
        # It went away since it made the vector: that is shown as the evidence.
        return {}
    if not pieces:
        return {}
    [(words, vectors)] = pieces
    rarities = [
        rarity(leg.frequency(word)[1], leg.tokens) if any(map(str.isalnum, word)) else 0.0
        for word in words
    ]
    return max_similarities(vectors, rarities, kept)
