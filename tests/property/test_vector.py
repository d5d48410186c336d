"""Vector search equals brute force, whatever is filtered, added and removed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from memtui.retrieval.vector_view import nearest
from tests.support.rows import unit_vectors, view_of

DIMS = 12
POOL = unit_vectors(60, DIMS, seed=1)
POOL[7] = POOL[8] = POOL[9]
POOL[10] = 0.0

Floats = NDArray[np.float32]
ROWS = st.sets(st.integers(0, 59), max_size=60)


def brute_force(rows: set[int], query: Floats, limit: int) -> list[tuple[int, float]]:
    found = []
    for row in rows:
        if POOL[row].any():
            products = POOL[row].astype(np.float64) * query.astype(np.float64)
            found.append((row, float(np.float32(products.sum()))))
    return sorted(found, key=lambda hit: (-round(hit[1], 6), hit[0]))[:limit]


def check(found: list[tuple[int, float]], expected: list[tuple[int, float]]) -> None:
    assert [row for row, _ in found] == [row for row, _ in expected]
    assert [cosine for _, cosine in found] == pytest.approx([c for _, c in expected], abs=1e-6)


@given(
    rows=ROWS,
    allowed=st.none() | ROWS,
    query=st.integers(0, 59).filter(lambda row: row != 10),
    limit=st.integers(0, 70),
    coded=st.booleans(),
)
@settings(deadline=None)
def test_the_nearest_allowed_rows_are_found(
    rows: set[int], allowed: set[int] | None, query: int, limit: int, coded: bool
) -> None:
    order = sorted(rows, key=lambda row: row * 37 % 61)
    view = view_of(order, POOL[order], exact_limit=-1 if coded else 10**6)
    assert (view.codes is not None) == coded
    mask = None if allowed is None else np.array(sorted(allowed), dtype=np.int64)
    expected = brute_force(rows if allowed is None else rows & allowed, POOL[query], limit)
    check(nearest(view, POOL[query], limit, mask), expected)


@given(
    start=ROWS,
    steps=st.lists(st.tuples(ROWS, ROWS), max_size=6),
    limit=st.sampled_from([-1, 200, 10**6]),
)
@settings(deadline=None)
def test_any_changes_end_where_a_fresh_view_begins(
    start: set[int], steps: list[tuple[set[int], set[int]]], limit: int
) -> None:
    first = sorted(start)
    view = view_of(first, POOL[first], exact_limit=limit)
    held = set(start)
    for added, removed in steps:
        before, held_before = view, held
        new = sorted(added)
        view = view.with_changes(new, POOL[new], sorted(removed))
        held = (held - removed) | added
        check(nearest(before, POOL[0], 60), brute_force(held_before, POOL[0], 60))
    check(nearest(view, POOL[3], 60), brute_force(held, POOL[3], 60))
    assert view.size == sum(bool(POOL[row].any()) for row in held)
