"""MaxSim: how near the words of a query come to the word pieces of a passage.

MaxSim = sum over the query's pieces of rarity * the largest cosine to a piece of the passage, by
the sum of the rarities (Khattab and Zaharia, "ColBERT", 2020, with weights). All numbers are whole
127ths, whose products a float32 holds exactly: the same bits in whatever order they are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import chain, groupby, islice
from math import fsum
from operator import add
from typing import TYPE_CHECKING, Final, NamedTuple

from memtui.embedding.provider import Provider
from memtui.errors import ProviderError
from memtui.model.inquiry import WordMatch
from memtui.retrieval.features import Similarity, rarity
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.passages import PIECE_NUMBERS, PIECE_UNIT

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


class QueryWord(NamedTuple):
    """A word of a query that has a letter or a digit."""

    text: str
    weight: float
    """Its rarity by that of all, 0 to 1."""
    vectors: NDArray[np.float32]
    """Of its pieces, shape (k, 32)."""


def weigh_words(provider: Provider, leg: KeywordLeg, query: str) -> list[QueryWord]:
    """Return the words of a query; none by a model without pieces. Raises `ProviderError`."""
    if not (pieces := provider.word_pieces(query, [0])):
        return []
    (texts, vectors), rarities = pieces[0], list[tuple[str, list[int], float]]()
    for text, run in groupby(range(len(texts)), texts.__getitem__):
        if any(map(str.isalnum, text)):
            rarities.append((text, [*run], rarity(leg.frequency(text)[1], leg.tokens)))
    total = sum(one for _, _, one in rarities)
    return [QueryWord(text, one / total, vectors[at]) for text, at, one in rarities]


def max_similarities(
    words: Sequence[QueryWord], chunks: Mapping[int, Sequence[Pieces]]
) -> dict[int, list[Similarity]]:
    """Return the MaxSim of each passage of some chunks, alone and with `AROUND` on either side.

    0 to 1; 0 where there are no pieces.
    """
    import numpy as np

    # Between two chunks there is room for the neighbours that the ends do not have.
    beside: list[Pieces] = [np.empty((0, PIECE_NUMBERS), np.int8)] * AROUND
    row, places = [*beside], dict[int, range]()
    for chunk, passages in chunks.items():
        places[chunk] = range(len(row), len(row) + len(passages))
        row += [*passages, *beside]
    pieces_at = {place: pieces for place, pieces in enumerate(row) if len(pieces)}
    query = np.concatenate([word.vectors for word in words])
    nearest = np.zeros((len(query), len(row)))
    if pieces_at:
        starts = np.cumsum([0, *map(len, pieces_at.values())])[:-1]
        near = cosines(query, np.concatenate([*pieces_at.values()]))
        best = np.maximum.reduceat(near, starts, axis=1)
        nearest[:, [*pieces_at]] = np.maximum(best, 0.0)
    around = np.zeros_like(nearest)
    windows = np.lib.stride_tricks.sliding_window_view(nearest, 2 * AROUND + 1, axis=1)
    around[:, AROUND:-AROUND] = windows.max(axis=2)
    similar = np.zeros((2, len(row)))
    rows = map(np.array, zip(nearest, around, strict=True))
    # Piece by piece: a product of matrices, or a sum of numpy's, would round by position.
    for _, weight, vectors in words:
        similar += weight * (reduce(add, islice(rows, len(vectors))) / len(vectors))
    alone, wide = similar.tolist()
    return {chunk: [(alone[at], wide[at]) for at in here] for chunk, here in places.items()}


def match_words(
    query: Sequence[QueryWord], words: Sequence[str], pieces: Pieces
) -> tuple[WordMatch, ...]:
    """Return the shares of a query's words in the MaxSim of a passage, whose sum is that, exactly.

    `words` are those that the `pieces` of the passage belong to.
    """
    matches = []
    for text, weight, vectors in query:
        near = cosines(vectors, pieces)
        best = [max(0.0, float(row.max(initial=0.0))) for row in near]
        nearest = {words[row.argmax()]: 0 for row, one in zip(near, best, strict=True) if one > 0}
        cosine = reduce(add, best) / len(best)
        matches.append(WordMatch(text, tuple(nearest), weight, cosine, weight * cosine))
    return tuple(matches)


def similarities(
    provider: Provider,
    leg: KeywordLeg,
    query: str,
    pieces: Mapping[int, Sequence[Pieces]],
    unread: Mapping[int, int],
) -> dict[int, list[Similarity]]:
    """Return the MaxSim of the passages of chunks, by row number, with a query that has a vector.

    `unread` are the numbers of passages of chunks that the model does not read: each counts as the
    others do on average. Empty where the words of the query cannot be had.
    """
    try:
        words = weigh_words(provider, leg, query)
    except ProviderError:
        # It went away since it made the vector: that is shown as the evidence.
        return {}
    if not words:
        return {}
    similar = max_similarities(words, pieces)
    alone, near = zip(*chain.from_iterable(similar.values()), strict=True)
    mean = fsum(alone) / len(alone), fsum(near) / len(near)
    return similar | {row: [mean] * count for row, count in unread.items()}
