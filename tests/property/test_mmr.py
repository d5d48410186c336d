"""MMR's quick selection against the definition, row by row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memtui.ranking.mmr import Matrix, select

SIMILARITIES = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0])
"""Few, so that many are equal: ties decide."""


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[float], Matrix, float]:
    count = draw(st.integers(1, 12))
    scores = sorted(draw(st.lists(st.floats(0, 1), min_size=count, max_size=count)), reverse=True)
    matrix = np.eye(count)
    for first in range(count):
        for second in range(first):
            matrix[first, second] = matrix[second, first] = draw(SIMILARITIES)
    return scores, matrix, draw(st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0]))


def by_definition(
    scores: list[float], matrix: Matrix, lambda_: float
) -> tuple[list[int], list[float], list[int]]:
    """Order, greatest similarity to what was chosen before, and the row of that similarity."""
    span = scores[0] - scores[-1]
    relevance = [(score - scores[-1]) / span if span > 0 else 1.0 for score in scores]
    order: list[int] = []
    nearest, twins = [0.0] * len(scores), [-1] * len(scores)
    while len(order) < len(scores):
        values: dict[int, float] = {}
        for row in range(len(scores)):
            if row not in order:
                beside = [lambda_ * relevance[row]]
                beside += [lambda_ * relevance[row] - (1 - lambda_) * matrix[row, o] for o in order]
                values[row] = min(beside)
        chosen = max(values, key=lambda row: (values[row], -row))
        for other in order:
            if matrix[chosen, other] > nearest[chosen]:
                nearest[chosen], twins[chosen] = float(matrix[chosen, other]), other
        order.append(chosen)
    return order, nearest, twins


@given(cases())
def test_the_order_and_the_twins_are_those_of_the_definition(
    case: tuple[list[float], Matrix, float],
) -> None:
    scores, matrix, lambda_ = case
    order, nearest, twins = by_definition(scores, matrix, lambda_)
    chosen = select(scores, matrix, lambda_)
    assert chosen.order == order
    assert chosen.max_similarity == nearest
    assert all(np.copysign(1, value) == 1 for value in chosen.max_similarity)
    assert chosen.twins == twins
