"""The fits of constants, by data that are made with known ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from memtui.model import FEATURES
from tests.bench.fit import Sample, fit_logistic, fit_weights, thresholds


def test_weights_that_made_the_answers_are_found_and_others_stay() -> None:
    drawn = np.random.default_rng(0)
    known = {"chunk": 3.0, "cover": 4.5, "question": -2.0}
    weights = np.array([known.get(name, 0.0) for name in FEATURES])
    fixed = np.where(np.array(FEATURES) == "question", weights, 0.0)
    samples = []
    for _ in range(2000):
        values = drawn.random((30, len(FEATURES)))
        shares = np.exp(values @ weights)
        is_answer = np.arange(30) == drawn.choice(30, p=shares / shares.sum())
        samples.append(Sample(0, values, [], is_answer, {}))

    fitted = fit_weights(samples, ["chunk", "cover"], fixed, weights)

    assert fitted == pytest.approx(weights, abs=0.25)
    assert fitted[FEATURES.index("question")] == -2.0


def test_rows_are_told_apart_by_the_weights_that_made_them() -> None:
    drawn = np.random.default_rng(0)
    rows = drawn.random((20_000, 2))
    is_positive = drawn.random(len(rows)) < 1 / (1 + np.exp(-(rows @ [4.0, -2.0] - 1)))

    assert fit_logistic(rows[is_positive], rows[~is_positive]) == pytest.approx([4, -2], abs=0.25)


@pytest.mark.parametrize(
    ("answered", "unanswered", "cuts"),
    [
        (range(100), range(100), (2.0, 89.05)),
        # A hundredth may not be cut off, and ties are not parted.
        ([1.0, *[3.0] * 9], [0.52] * 10, (1.0, 0.55)),
    ],
)
def test_thresholds_keep_to_their_shares(
    answered: Sequence[float], unanswered: Sequence[float], cuts: tuple[float, float]
) -> None:
    assert thresholds(np.array(answered), np.array(unanswered)) == pytest.approx(cuts)
