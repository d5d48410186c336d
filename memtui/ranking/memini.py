"""memini as it is now: a quality that scales relevance, and targeting of the time a query names.

The profile `memini` is the version before (`rerank.composite`): a note has neither tier, confidence
nor a count of accesses, which the quality is made of.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from memtui.ranking.rerank import recency

RECENCY_DAYS: Final = 7.0
"""Days in which the recency of a short-term memory falls to 1/e."""
TEMPORAL_BOOST: Final = 0.4
_CONFIDENCE_FLOOR, _CONFIDENCE_LOSS = 0.05, 0.05
_UNKNOWN_TIER: Final = 0.5


class Tier(StrEnum):
    """How consolidated a memory is."""

    WORKING = "working"
    EPISODIC = "episodic"
    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"


TIER_WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {Tier.PROCEDURAL: 0.95, Tier.SEMANTIC: 0.9, Tier.EPISODIC: 0.55, Tier.WORKING: 0.3}
)
SHORT_TERM: Final = frozenset({Tier.WORKING, Tier.EPISODIC})


@dataclass(frozen=True, slots=True)
class Weights:
    """What the composite is made of (`DefaultRerankWeights`)."""

    relevance: float = 0.80
    quality: float = 0.20
    recency: float = 0.0
    importance: float = 0.0


@dataclass(frozen=True, slots=True)
class Anchor:
    """The time a query names: so many days before now, give or take `tolerance` days."""

    days: int
    tolerance: int


def salience(tier: str, importance: float) -> float:
    """Tier weight * (0.5 + 0.5 * importance), 0 to 1; an unknown tier weighs 0.5."""
    return TIER_WEIGHTS.get(tier, _UNKNOWN_TIER) * (0.5 + 0.5 * _unit(importance))


def effective_confidence(tier: str, confidence: float | None, idle_days: float) -> float:
    """How far a lasting memory is corroborated, 0.05 to 1.

    1 for short-term memories and where nothing is recorded. After a first week without use it
    loses 0.05 a week (`EffectiveConfidence`).
    """
    if tier in SHORT_TERM or confidence is None:
        return 1.0
    weeks = idle_days / 7
    known = _unit(confidence)
    if weeks <= 1:
        return known
    return max(_CONFIDENCE_FLOOR, known - _CONFIDENCE_LOSS * (weeks - 1))


def quality(
    tier: str,
    importance: float,
    *,
    confidence: float | None = None,
    accesses: int = 0,
    idle_days: float = 0.0,
) -> float:
    """Salience * confidence * (1 + ln(1 + accesses)), short-term also * exp(-idle_days / 7)."""
    value = (
        salience(tier, importance)
        * effective_confidence(tier, confidence, idle_days)
        * (1 + math.log1p(accesses))
    )
    return value * recency(idle_days, RECENCY_DAYS) if tier in SHORT_TERM else value


def composite(
    relevance: float,
    quality_share: float,
    *,
    recency_value: float = 0.0,
    importance: float = 0.0,
    weights: Weights | None = None,
) -> float:
    """rel * (w_rel + w_q * quality) + w_rec * recency + w_imp * importance.

    `relevance` and `quality_share` are divided by the best of the list, 0 where that is 0.
    """
    parts = weights if weights is not None else Weights()
    return (
        relevance * (parts.relevance + parts.quality * quality_share)
        + parts.recency * recency_value
        + parts.importance * _unit(importance)
    )


def proximity(age_days: float, anchor: Anchor) -> float:
    """1 within the tolerance of the anchor, falling to 0 at three times as far."""
    if anchor.tolerance <= 0:
        return 0.0
    off = abs(anchor.days - age_days)
    return max(0.0, min(1.0, 1 - (off - anchor.tolerance) / (2 * anchor.tolerance)))


def targeted(score: float, nearness: float, boost: float = TEMPORAL_BOOST) -> float:
    """Score * (1 + boost * nearness): a date lifts what is relevant, and nothing else."""
    return score * (1 + boost * nearness)


def time_anchor(query: str, now: datetime) -> Anchor | None:
    """The time that a query names in English, `None` when it names none.

    Relative ("3 weeks ago", "yesterday"), or a month, a season or a year, of which the last one
    that began before `now` (timezone-aware) is meant where no year is given. Numbers in words are
    not read.
    """
    text = query.lower()
    for pattern, days, tolerance in _RELATIVE:
        match = pattern.search(text)
        if match:
            count = int(match[1]) if match.groups() else 1
            return Anchor(count * days, tolerance)
    return _absolute(text, now.astimezone(UTC))


_RELATIVE: Final = tuple(
    (re.compile(pattern, re.ASCII), days, tolerance)
    for pattern, days, tolerance in (
        (r"(?<!\d)(\d{1,6})\s+days?\s+ago", 1, 2),
        (r"a\s+couple\s+(?:of\s+)?days?\s+ago", 2, 2),
        (r"yesterday", 1, 1),
        (r"(?<!\d)(\d{1,6})\s+weeks?\s+ago", 7, 5),
        (r"(?:a|last)\s+week\b", 7, 3),
        (r"(?<!\d)(\d{1,6})\s+months?\s+ago", 30, 10),
        (r"(?:a|last)\s+month\b", 30, 7),
        (r"(?:a|last)\s+year\b", 365, 30),
        (r"recently", 14, 14),
    )
)
_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september"),
    *("october", "november", "december"),
)
_SEASONS: Final[Mapping[str, int]] = MappingProxyType(
    {"spring": 4, "summer": 7, "fall": 10, "autumn": 10, "winter": 1}
)
"""The month in the middle of each, north of the equator."""
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d{2})\b"
_ABSOLUTE: Final = tuple(
    (re.compile(pattern, re.ASCII), tolerance)
    for pattern, tolerance in (
        (rf"\b{_MONTH}\s+{_DAY},?\s+{_YEAR}", 2),
        (rf"\b{_MONTH}\s+{_YEAR}", 15),
        (rf"\b{_MONTH}\s+{_DAY}\b", 2),
        # A month alone needs a preposition: "may I ask" names no time.
        (rf"\b(?:in|last|back in|since|during)\s+{_MONTH}\b", 15),
        (rf"\b(?:last|in the|this past)\s+(?P<season>{'|'.join(_SEASONS)})\b", 45),
        (rf"\bin\s+{_YEAR}", 120),
    )
)
_MIDDLE_DAY, _MIDDLE_MONTH = 15, 7


def _absolute(text: str, now: datetime) -> Anchor | None:
    for pattern, tolerance in _ABSOLUTE:
        match = pattern.search(text)
        target = _target(match.groupdict(), now) if match else None
        if target is not None:
            return Anchor(int((now - target).total_seconds() / 86_400), tolerance)
    return None


def _target(named: Mapping[str, str | None], now: datetime) -> datetime | None:
    month, season, year = named.get("month"), named.get("season"), named.get("year")
    day = int(named.get("day") or _MIDDLE_DAY)
    if month is None and season is None:
        return _moment(int(year or 0), _MIDDLE_MONTH, 1)
    number = _MONTHS.index(month) + 1 if month else _SEASONS[str(season)]
    if year is not None:
        return _moment(int(year), number, day)
    target = _moment(now.year, number, day)
    return target if target is None or target <= now else _moment(now.year - 1, number, day)


def _moment(year: int, month: int, day: int) -> datetime | None:
    try:
        return datetime(year, month, day, tzinfo=UTC)
    except ValueError:
        return None


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))
