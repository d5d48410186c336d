"""The nearest rows of a vector view: an exact product, or one-bit codes and exact rescoring."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from memtui.retrieval.vector_view import Codes, Floats, Mask, RowIds, VectorView, sign_codes

Positions: TypeAlias = NDArray[np.intp]
Distances: TypeAlias = NDArray[np.uint16]

_ROWS_AT_A_TIME = 65_536
_RESCORED_AT_A_TIME = 1024
_SAMPLE_STEP = 16
_GROUP = 64
_GROUPS_PER_HIT = 8
# A float32 product of unit vectors is off by far less; candidates this near are all rescored.
_SLACK = 1e-5
_NEVER = np.iinfo(np.uint16).max

MIN_RESCORED = 16_384
RESCORED_PER_HIT = 100
RESCORED_SHARE = 128


def nearest(
    view: VectorView,
    query: Floats,
    limit: int,
    allowed: RowIds | None = None,
    *,
    rescored: int | None = None,
    products: Floats | None = None,
) -> list[tuple[int, float]]:
    """Find the `limit` live rows with the largest cosine, as (chunk row number, cosine).

    `query` has the shape (dims,) and length 1. Rows that are not in `allowed` are left out before
    anything is chosen. Best first, equal cosines by row number; the cosine of a row is the same
    float whichever rows surround it. `rescored` overrides how many rows of a coded view are
    compared exactly; `products` (count,) are those of every row with `query`, where they are known.
    """
    eligible = view.live if allowed is None else view.live & np.isin(view.rowids, allowed)
    available = int(np.count_nonzero(eligible))
    wanted = min(limit, available)
    if wanted <= 0:
        return []
    count = rescored or rescored_rows(view.count, limit)
    if view.codes is None:
        scores = view.matrix @ query if products is None else products
        if available < view.count:
            scores = np.where(eligible, scores, np.float32(-np.inf))
        rows = _leading(scores, wanted)
    else:
        if available > count:
            left_out = ~eligible if available < view.count else None
            near = _by_codes(view.codes, query, max(count, wanted), left_out)
        else:
            near = np.flatnonzero(eligible)
        rows = near[_leading(_products(view.matrix, near, query), wanted)]
    return _best(view, query, rows, wanted)


def rescored_rows(count: int, limit: int) -> int:
    """Tell how many rows of a coded view of `count` rows are compared exactly.

    Chosen so that at least 99 % of the true nearest rows are found, also when vectors lie in
    tight clusters.
    """
    return max(MIN_RESCORED, count // RESCORED_SHARE, RESCORED_PER_HIT * limit)


def _leading(scores: Floats, wanted: int) -> Positions:
    """Find the places of the `wanted` largest scores, and of all that rounding may hide.

    A score of minus infinity, a row that was left out, is never among them.
    """
    bound = _lower_bound(scores, wanted)
    if np.isneginf(bound):
        # Few rows are left, and some of them share a group: each of them is a candidate.
        return np.flatnonzero(scores > bound)
    return np.flatnonzero(scores >= bound - _SLACK)


def _lower_bound(scores: Floats, wanted: int) -> np.float32:
    """Give a number that at least `wanted` scores reach, and few more.

    It is the one in place `wanted` among the best of each of many groups, which is at most the
    one in that place among all. Rows of a group stand far apart, since neighbours are often alike.
    """
    groups = max(_GROUPS_PER_HIT * wanted, len(scores) // _GROUP)
    depth = len(scores) // groups
    if depth > 1:
        best = scores[: depth * groups].reshape(depth, groups).max(axis=0)
        scores = np.append(best, scores[depth * groups :])
    place = len(scores) - wanted
    bound: np.float32 = np.partition(scores, place)[place]
    return bound


def _products(matrix: Floats, rows: Positions, query: Floats) -> Floats:
    products = np.empty(len(rows), dtype=np.float32)
    for first in range(0, len(rows), _RESCORED_AT_A_TIME):
        part = slice(first, first + _RESCORED_AT_A_TIME)
        products[part] = matrix[rows[part]] @ query
    return products


def _by_codes(codes: Codes, query: Floats, wanted: int, left_out: Mask | None) -> Positions:
    distances = hamming(codes, sign_codes(query[None, :])[0])
    if left_out is not None:
        distances[left_out] = _NEVER
    bound = len(query)
    counts = np.bincount(distances[::_SAMPLE_STEP], minlength=bound + 1)[: bound + 1]
    threshold = int(np.searchsorted(np.cumsum(counts) * _SAMPLE_STEP, wanted))
    while threshold < bound and np.count_nonzero(distances <= threshold) < wanted:
        threshold += 1
    return np.flatnonzero(distances <= threshold)


def hamming(codes: Codes, query: Codes) -> Distances:
    """Count the signs in which each row differs from `query`: (words, n) and (words,) to (n,)."""
    words, count = codes.shape
    distances: Distances = np.zeros(count, dtype=np.uint16)
    for first in range(0, count, _ROWS_AT_A_TIME):
        part = distances[first : first + _ROWS_AT_A_TIME]
        for word in range(words):
            part += _ones(codes[word, first : first + _ROWS_AT_A_TIME] ^ query[word])
    return distances


def _ones_by_table(words: Codes) -> NDArray[np.uint8]:
    """Count the set bits of each word, where numpy has no function for it (before 2.0)."""
    pieces = _BITS_OF_16[words.view(np.uint16)].reshape(-1, 4)
    counts: NDArray[np.uint8] = pieces.sum(axis=1, dtype=np.uint8)
    return counts


def _count_table() -> NDArray[np.uint8]:
    every = np.arange(65_536, dtype=np.uint16).view(np.uint8).reshape(-1, 2)
    table: NDArray[np.uint8] = np.unpackbits(every, axis=1).sum(axis=1, dtype=np.uint8)
    return table


_BITS_OF_16 = _count_table()
_ones: Callable[[Codes], NDArray[np.uint8]] = getattr(np, "bitwise_count", _ones_by_table)


def _best(view: VectorView, query: Floats, rows: Positions, wanted: int) -> list[tuple[int, float]]:
    exact = query.astype(np.float64)
    cosines = np.empty(len(rows), dtype=np.float64)
    matrix = view.matrix
    for first in range(0, len(rows), _RESCORED_AT_A_TIME):
        block = matrix[rows[first : first + _RESCORED_AT_A_TIME]].astype(np.float64)
        # Row by row: a product of the whole block would round by position.
        cosines[first : first + len(block)] = np.einsum("ij,j->i", block, exact)
    rounded = np.clip(cosines, -1.0, 1.0).astype(np.float32)
    ids = view.rowids[rows]
    order = np.lexsort((ids, -rounded))[:wanted]
    return [(int(ids[place]), float(rounded[place])) for place in order]
