"""Numbers, times and codes as they are written on screen."""

from __future__ import annotations

from datetime import timedelta

import pytest

from memtui.model import IndexState, LegStatus, Reason, Stage
from memtui.tui import format as fmt
from tests.tui.reader_samples import NOW


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.8194, "0.819"), (-0.0434, "−0.043"), (-0.0001, "0.000"), (float("nan"), "–")],
)
def test_scores_have_three_decimals_and_a_true_minus(value: float, expected: str) -> None:
    assert fmt.score(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0"), (999, "999"), (1284, "1 284"), (1_000_000, "1 000 000")],
)
def test_counts_are_grouped_in_threes(value: int, expected: str) -> None:
    assert fmt.count(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (840, "840"),
        (9_999, "9 999"),
        (12_400, "12 k"),
        (512_000, "0.5 M"),
        (2_500_000_000, "2.5 G"),
    ],
)
def test_estimates_are_short(value: int, expected: str) -> None:
    assert fmt.rounded(value) == expected


def test_a_share_is_a_hundred_only_when_it_is_all() -> None:
    assert fmt.percent(999, 1000) == "99 %"
    assert fmt.percent(1000, 1000) == "100 %"
    assert fmt.percent(1, 0) == fmt.NOTHING


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.038, "38 ms"), (2.41, "2.4 s"), (59.97, "1:00 min"), (65, "1:05 min"), (7800, "2:10 h")],
)
def test_durations_have_one_unit(seconds: float, expected: str) -> None:
    assert fmt.duration(seconds) == expected


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (None, "ever"),
        (-3, "ahead"),
        (0.4, "today"),
        (3.4, "3d"),
        (103, "3mo"),
        (500, "16mo"),
        (2600, "7y"),
    ],
)
def test_ages_are_narrow(days: float | None, expected: str) -> None:
    assert fmt.age(days) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (1, "just now"),
        (3, "3 s ago"),
        (300, "5 min ago"),
        (7200, "2 h ago"),
        (12 * 86400, "12 d ago"),
    ],
)
def test_moments_are_told_by_their_age(seconds: int, expected: str) -> None:
    assert fmt.ago(NOW - timedelta(seconds=seconds), NOW) == expected


def test_a_sparkline_shows_movement_with_the_best_rank_highest() -> None:
    assert fmt.sparkline([7, 7, 4, 3]) == "▁▁▆█"
    assert fmt.sparkline([3, 3]) == ""
    assert fmt.sparkline([3]) == ""


def test_every_code_has_words() -> None:
    assert set(fmt.REASON_WORDS) == set(Reason)
    assert set(fmt.STAGE_WORDS) == set(fmt.STAGE_STYLES) == set(Stage)
    assert set(fmt.STATE_STYLES) == set(IndexState)
    assert set(fmt.LEG_STATUS_GLYPHS) == set(fmt.LEG_STATUS_STYLES) == set(LegStatus)
