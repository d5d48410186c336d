"""memini as it is now: quality, and the time that a query names; known answers and the rules."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from memtui.ranking.memini import (
    TEMPORAL_BOOST,
    TIER_WEIGHTS,
    Anchor,
    Weights,
    composite,
    effective_confidence,
    proximity,
    quality,
    salience,
    targeted,
    time_anchor,
)
from tests.support.known import load

KNOWN: dict[str, Any] = load("memini_rerank")
CURRENT: dict[str, Any] = KNOWN["current_version"]
TARGETING: dict[str, Any] = KNOWN["temporal_targeting"]
NOW = datetime.fromisoformat(TARGETING["now"])


def order(items: list[dict[str, Any]], weights: Weights | None = None) -> list[str]:
    """The ids in the order of the composite; what a case leaves out is equal for all."""
    worth = [
        quality(
            item.get("tier", "episodic"),
            item.get("importance", 0.0),
            confidence=item.get("confidence"),
            accesses=item.get("access_count", 0),
        )
        for item in items
    ]
    relevance = [item.get("relevance", 1.0) for item in items]
    scores = [
        composite(value / max(relevance), good / max(worth), weights=weights)
        for value, good in zip(relevance, worth, strict=True)
    ]
    ranked = sorted(range(len(items)), key=lambda index: -scores[index])
    return [items[index]["id"] for index in ranked]


def spread(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An item `name x8` stands for eight."""
    found: list[dict[str, Any]] = []
    for item in items:
        name, _, count = item["id"].partition(" x")
        found += [{**item, "id": name}] * int(count or 1)
    return found


@pytest.mark.parametrize("case", CURRENT["asserted"], ids=lambda case: case["name"])
def test_order_by_quality(case: dict[str, Any]) -> None:
    items = spread(case["items"])
    found = order(items)
    if "first" in case:
        assert found[0] == case["first"]
    assert found == case.get("order", found)
    alone = order(items, Weights(relevance=1.0, quality=0.0))
    if "first_with_relevance_only" in case:
        assert alone[0] == case["first_with_relevance_only"]
    assert case.keys() & {"first", "order"}


def test_weights() -> None:
    known = CURRENT["weights"]
    assert Weights() == Weights(
        relevance=known["relevance"],
        quality=known["quality"],
        recency=known["recency"],
        importance=known["importance"],
    )
    assert dict(TIER_WEIGHTS) == CURRENT["tier_weights"]
    assert composite(0.5, 0.5) == 0.5 * (0.8 + 0.2 * 0.5)
    every = Weights(recency=0.3, importance=0.1)
    value = composite(0.5, 0.5, recency_value=0.5, importance=7, weights=every)
    assert value == pytest.approx(0.45 + 0.15 + 0.1)


def test_quality_is_made_of_what_it_says() -> None:
    assert salience("semantic", 0.5) == pytest.approx(0.675)
    assert salience("unheard of", 3) == 0.5
    assert quality("semantic", 1, confidence=0.5, accesses=3, idle_days=6) == pytest.approx(
        0.9 * 0.5 * (1 + math.log(4))
    )
    assert quality("working", 1, confidence=0.5, idle_days=7) == pytest.approx(0.3 / math.e)


@pytest.mark.parametrize(
    ("tier", "confidence", "idle_days", "expected"),
    [
        ("episodic", 0.2, 0, 1.0),
        ("semantic", None, 900, 1.0),
        ("semantic", 0.9, 7, 0.9),
        ("semantic", 0.9, 21, 0.8),
        ("procedural", 0.9, 900, 0.05),
        ("semantic", 4.0, 0, 1.0),
    ],
)
def test_confidence(tier: str, confidence: float | None, idle_days: float, expected: float) -> None:
    assert effective_confidence(tier, confidence, idle_days) == pytest.approx(expected)


@pytest.mark.parametrize("case", TARGETING["cases"], ids=lambda case: case["q"])
def test_known_times(case: dict[str, Any]) -> None:
    anchor = time_anchor(case["q"], NOW)
    if "anchor" in case:
        assert anchor is case["anchor"] is None
        return
    days = case.get("days")
    if days is None:
        days = (NOW - datetime.fromisoformat(case["target"]).replace(tzinfo=UTC)).days
    assert anchor == Anchor(days, case["tol"])


@pytest.mark.parametrize(
    ("query", "anchor"),
    [
        ("a couple of days ago", Anchor(2, 2)),
        ("2 months ago", Anchor(60, 10)),
        ("my trip last month", Anchor(30, 7)),
        ("what changed recently", Anchor(14, 14)),
        ("the decision on March 14th", Anchor(79, 2)),
        ("the painting shared on october 13, 2023", Anchor(962, 2)),
        ("in the winter", Anchor(137, 45)),
        ("in june", Anchor(351, 15)),
        ("may i ask a question", None),
        ("on february 31st", None),
        ("9999999999 days ago", None),
    ],
)
def test_times(query: str, anchor: Anchor | None) -> None:
    assert time_anchor(query, NOW) == anchor


def test_proximity_and_boost() -> None:
    assert TARGETING["boost"] == TEMPORAL_BOOST
    assert TARGETING["proximity"].startswith("1 within tol days, linear to 0 at 3*tol; score*(1+")
    anchor = Anchor(21, 5)
    for age, expected in ((21, 1), (26, 1), (16, 1), (31, 0.5), (11, 0.5), (36, 0), (90, 0)):
        assert proximity(age, anchor) == pytest.approx(expected)
    assert proximity(0, Anchor(0, 0)) == 0
    assert targeted(0.5, 1) == 0.5 * 1.4
    assert targeted(0.5, 0) == 0.5


def test_a_date_does_not_displace_relevance() -> None:
    anchor = time_anchor("what did I decide 3 weeks ago", NOW)
    assert anchor is not None
    strong, weak = targeted(1.0, proximity(1, anchor)), targeted(0.6, proximity(21, anchor))
    assert strong > weak
    equal = targeted(0.5, proximity(21, anchor))
    assert equal > targeted(0.5, proximity(1, anchor))


def test_now_may_be_of_any_zone() -> None:
    shifted = NOW.astimezone(timezone(timedelta(hours=-9)))
    assert shifted.month != NOW.month
    assert time_anchor("in june", shifted) == time_anchor("in june", NOW)
