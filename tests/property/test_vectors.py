"""Cleaned vectors are finite and of length one or zero, and survive the cache bit for bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from memtui.embedding.provider import clean_vectors

doubles = arrays.arrays(
    np.float64,
    st.tuples(st.integers(0, 5), st.integers(1, 16)),
    elements=st.floats(width=64, allow_nan=True, allow_infinity=True),
)
singles = arrays.arrays(
    np.float32,
    st.tuples(st.integers(1, 5), st.integers(1, 16)),
    elements=st.floats(-100, 100, width=32, allow_subnormal=False),
)


@given(doubles)
def test_rows_are_finite_and_of_length_one_or_zero(vectors: NDArray[np.float64]) -> None:
    cleaned = clean_vectors(vectors)
    assert cleaned.shape == vectors.shape
    assert cleaned.dtype == np.float32
    assert np.isfinite(cleaned).all()
    lengths = np.linalg.norm(cleaned.astype(np.float64), axis=-1)
    assert all(length == 0.0 or abs(length - 1.0) < 1e-6 for length in lengths)


@given(doubles)
def test_rows_do_not_depend_on_their_neighbours(vectors: NDArray[np.float64]) -> None:
    together = clean_vectors(vectors)
    for row, vector in enumerate(vectors):
        np.testing.assert_array_equal(together[row], clean_vectors(vector))


@given(singles)
def test_directions_are_kept(vectors: NDArray[np.float32]) -> None:
    cleaned = clean_vectors(vectors).astype(np.float64)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    visible = (lengths > 1e-9)[:, 0]
    np.testing.assert_allclose((cleaned * lengths)[visible], vectors[visible], rtol=1e-5, atol=1e-5)
    assert not cleaned[(lengths < 1e-11)[:, 0]].any()


@given(doubles)
def test_cleaning_twice_changes_next_to_nothing(vectors: NDArray[np.float64]) -> None:
    once = clean_vectors(vectors)
    np.testing.assert_allclose(clean_vectors(once), once, atol=2e-7)
