"""MaxSim: how near the words of a query come to the word pieces of a passage.

MaxSim = sum over the query's pieces of rarity * the largest cosine to a piece of the passage, by
the sum of the rarities (Khattab and Zaharia, "ColBERT", 2020, with weights). All numbers are whole
127ths, whose products a float32 holds exactly: the same bits in whatever order they are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import groupby
from typing import TYPE_CHECKING, Final

from memtui.embedding.provider import Provider
from memtui.errors import ProviderError
from memtui.retrieval.connection import Connection
from memtui.retrieval.features import Similarity, rarity
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.passages import PIECE_UNIT, PassageRow, fetch_pieces

AROUND: Final = 2
"""The passages before and behind that the wider MaxSim looks at."""

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
) -> dict[int, list[Similarity]]:
    """Return the MaxSim of each passage of some chunks, alone and with `AROUND` on either side.

    0 to 1; 0 where there are no pieces.
    """
    import numpy as np

    # Between two chunks there is room for the neighbours that the ends do not have.
    places, width = dict[int, range](), AROUND
    for chunk, passages in chunks.items():
        places[chunk] = range(width, width + len(passages))
        width += len(passages) + AROUND
    pieces_at = {
        place: pieces
        for chunk, passages in chunks.items()
        for place, pieces in zip(places[chunk], passages, strict=True)
        if len(pieces)
    }
    nearest = np.zeros((len(query), width))
    if pieces_at:
        starts = np.cumsum([0, *map(len, pieces_at.values())])[:-1]
        near = cosines(query, np.concatenate([*pieces_at.values()]))
        best = np.maximum.reduceat(near, starts, axis=1)
        nearest[:, [*pieces_at]] = np.maximum(best, 0.0)
    around = np.zeros_like(nearest)
    windows = np.lib.stride_tricks.sliding_window_view(nearest, 2 * AROUND + 1, axis=1)
    around[:, AROUND:-AROUND] = windows.max(axis=2)
    similar = np.zeros((2, width))
    # Piece by piece: a product of matrices would round by position.
    for weight, *rows in zip(rarity, nearest, around, strict=True):
        similar += weight / (sum(rarity) or 1.0) * np.array(rows)
    alone, wide = similar.tolist()
    return {chunk: [(alone[at], wide[at]) for at in here] for chunk, here in places.items()}


def similarities(
    connection: Connection,
    provider: Provider,
    leg: KeywordLeg,
    query: str,
    passages: Mapping[int, Sequence[PassageRow]],
    embedded: Set[int],
) -> dict[int, list[Similarity]]:
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
    rarities = list[float]()
    for word, pieces_of_word in groupby(words):
        count = len([*pieces_of_word])
        is_word = any(map(str.isalnum, word))
        weight = rarity(leg.frequency(word)[1], leg.tokens) if is_word else 0.0
        rarities += [weight / count] * count
    return max_similarities(vectors, rarities, kept)
