"""Random hits of the legs and random parameters, for memtui and for the literal reference."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from memtui.model import CandidatePool, Chunk, Leg, LegHit, LegState, LegStatus, Ranking, SearchMode
from memtui.ranking.profiles import PROFILES, for_mode
from tests.support.dice import Dice
from tests.support.openclaw_literal import (
    EPOCH,
    INVALID_PROJECT,
    Candidate,
    Release,
    Settings,
    bm25_rank_to_score,
)

NOW = datetime(2026, 11, 16, 12, 0, 0, 123_000, tzinfo=UTC)
NOW_MS = (NOW - EPOCH) // timedelta(milliseconds=1)
PROFILE = {release: f"openclaw-{release}" for release in Release}
MODES = {
    SearchMode.HYBRID: {},
    SearchMode.KEYWORD_ONLY: {"provider": False},
    SearchMode.VECTOR_ONLY: {"hybrid": False},
}
TEXTS = (
    "",
    "  ",
    "привет мир",
    " Привет мир\n",
    "совсем другое",
    "router vlan gateway",
    "Router VLAN gateway",
    "router vlan standup",
    "standup",
    "今天讨论 备份",
    "今天 router",
    "a1_b 서버",
)
PATHS = (
    "MEMORY.md",
    "memory.md",
    "./MEMORY.md",
    "USER.md",
    "memory/projects.md",
    "memory/sub/projects.md",
    "memory/2026-11-15.md",
    "./memory/2026-11-02.md",
    "memory\\2026-10-01.md",
    "memory/2026-02-30.md",
    "memory/2026-13-01.md",
    "memory/2027-01-01.md",
    "memory/2020-01-01.md",
    "memory/2026-11-01-1430.md",
    "memory/2026-11-01-vendor-pitch.md",
    "memory/team/2026-11-10.md",
    "memory/2026-11-10.txt",
    "notes/2026-11-01.md",
    "notes/memory/2026-11-01.md",
    "notes/a.md",
    "media/photo.png",
    "media/clip.wav",
    "memory/2026-11-03.png",
)
KEYS = ("one", "two", INVALID_PROJECT)


def close(*values: float, low: float, high: float) -> st.SearchStrategy[float]:
    """Mostly the given values, so that there are ties; else anything within the range."""
    return st.sampled_from(values) | st.floats(low, high, allow_nan=False)


TIERS = (0, 0, 0, 0, 0, 1, 1, 2, 3)
ROW = 96
"""Bytes that choose one candidate."""
MOST = 40


@dataclass(frozen=True, slots=True)
class Legs:
    """What the two legs found, best first, as the reference takes it."""

    vector: tuple[Candidate, ...]
    keyword: tuple[Candidate, ...]


def _place(dice: Dice) -> dict[str, Any]:
    mtime = float(dice.whole(NOW_MS - 40_000_000_000, NOW_MS + 9_000_000))
    return {
        "path": dice.one_of(PATHS),
        "text": dice.one_of(TEXTS),
        "start_line": dice.one_of([1, 1, 7, 30]),
        "end_line": dice.one_of([40, 50]),
        "mtime": dice.one_of([None, mtime]),
    }


def _body(dice: Dice) -> dict[str, Any]:
    found = {"bm25": dice.close(-0.5, -2.1, -4.2, 0.0, 1.0, low=-30.0, high=0.0)}
    boost = {"boost": dice.close(0.0, 0.25, 0.5, 1.5, low=0.0, high=1.5)}
    return found | dice.one_of([{}, boost])


def _given(dice: Dice) -> dict[str, Any]:
    return {"text_score": dice.one_of([0.0, 0.5, 1.0]), "boost": dice.one_of([0.0, 0.5, 0.75])}


def _path_alone(dice: Dice) -> dict[str, Any]:
    return {"path_score": dice.close(0.25, 0.5, low=0.0, high=1.0)}


def _found(dice: Dice, newest: bool) -> dict[str, Any] | None:
    """What the keyword leg says of a candidate, if anything."""
    last = _path_alone if newest else _body
    made = dice.one_of([None, _body, _body, _given, last])
    return None if made is None else made(dice)


def _of_the_newest(dice: Dice) -> dict[str, Any]:
    importance = {"importance": dice.one_of([0.0, 1.0, 5.0, 5.5, 10.0, 12.0])}
    keys = (dice.one_of(KEYS), dice.one_of(KEYS))[: 1 + dice.below(2)]
    chosen: dict[str, Any] = {"exact_path_tier": dice.one_of(TIERS)}
    return chosen | dice.one_of([{}, importance]) | dice.one_of([{}, {"project_keys": keys}])


@st.composite
def legs(draw: st.DrawFn, release: Release) -> Legs:
    """Random hits of both legs: one-sided, tied, equal in text, in place or in everything."""
    vector: list[tuple[float, int, Candidate]] = []
    keyword: list[tuple[float, int, Candidate]] = []
    newest = release is Release.D
    drawn = draw(st.binary(min_size=ROW * (MOST + 1), max_size=ROW * (MOST + 1)))
    first, *rows = (Dice(drawn[at : at + ROW]) for at in range(0, len(drawn), ROW))
    both = first.one_of([(True, True)] * 6 + [(True, False), (False, True)])
    for number, dice in enumerate(rows[: first.below(MOST + 1)]):
        more = _of_the_newest(dice) if newest else {}
        base = Candidate(f"c{number:02}", **_place(dice), **more)
        tie = dice.below(6)
        named = dice.below(3) > 0
        cosine = dice.close(0.0, -0.25, 0.5, 0.75, 1.0, low=-1.0, high=1.0)
        if named and both[0]:
            vector.append((-cosine, tie, replace(base, vector_score=cosine)))
        if (found := _found(dice, newest)) is not None and both[1]:
            hit = replace(base, **found)
            rank = hit.bm25 if hit.bm25 is not None else -1.0
            keyword.append((rank, tie, hit))
    return Legs(
        tuple(hit for _, _, hit in sorted(vector, key=lambda entry: entry[:2])),
        tuple(hit for _, _, hit in sorted(keyword, key=lambda entry: entry[:2])),
    )


@st.composite
def searches(draw: st.DrawFn, release: Release, mode: SearchMode) -> Settings:
    """Random parameters over their whole documented ranges, the ends among them."""
    weights = draw(
        st.sampled_from([(0.7, 0.3), (0.5, 0.5), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)])
        | st.floats(0, 1).map(lambda weight: (weight, 1 - weight))
    )
    return Settings(
        release,
        vector_weight=weights[0],
        text_weight=weights[1],
        max_results=draw(st.integers(1, 60)),
        min_score=draw(close(0.0, 0.0, 0.35, 0.35, 1.0, low=0.0, high=1.0)),
        candidate_multiplier=draw(st.integers(1, 20)),
        mmr_enabled=draw(st.booleans()),
        mmr_lambda=draw(close(0.0, 0.5, 0.7, 1.0, low=1e-3, high=1.0)),
        decay_enabled=draw(st.booleans()),
        half_life_days=draw(close(1.0, 30.0, 0.0, low=1.0, high=400.0)),
        active_project_keys=draw(st.sampled_from([(), ("one",), ("one", "two")])),
        now=NOW,
        **MODES[mode],
    )


def ranking_of(settings: Settings, mode: SearchMode) -> Ranking:
    """The same parameters as memtui takes them."""
    base = PROFILES[PROFILE[settings.release]]
    newest = settings.release is Release.D
    ranking = replace(
        base,
        k=settings.max_results,
        candidate_multiplier=int(settings.candidate_multiplier),
        vector_weight=settings.vector_weight,
        keyword_weight=settings.text_weight,
        min_score=settings.min_score,
        mmr=replace(base.mmr, enabled=settings.mmr_enabled, lambda_=settings.mmr_lambda),
        decay=replace(
            base.decay, enabled=settings.decay_enabled, half_life_days=settings.half_life_days
        ),
        project_keys=settings.active_project_keys if newest else (),
    )
    return for_mode(ranking, mode)


def chunk_of(hit: Candidate) -> Chunk:
    return Chunk(
        hit.id,
        hit.path,
        hit.source,
        hit.start_line,
        hit.end_line,
        hit.text,
        "",
        "test",
        mtime_ns=0 if hit.mtime is None else int(hit.mtime) * 1_000_000,
        importance=hit.importance,
        project_keys=hit.project_keys,
    )


def leg_hit(hit: Candidate, position: int, leg: Leg, release: Release) -> LegHit:
    if leg is Leg.VECTOR:
        assert hit.vector_score is not None
        return LegHit(hit.id, position, hit.vector_score, path_tier=hit.exact_path_tier)
    text = hit.text_score
    if text is None and hit.bm25 is not None:
        text = bm25_rank_to_score(hit.bm25, signed=release is not Release.A)
    return LegHit(
        hit.id,
        position,
        0.0 if hit.bm25 is None else hit.bm25,
        path_raw=hit.path_score,
        path_tier=hit.exact_path_tier,
        score=hit.text_score,
        boosted=None if text is None else min(1.0, text + hit.boost),
        has_body=text is not None,
    )


def pool_of(found: Legs, release: Release) -> CandidatePool:
    sides = {Leg.VECTOR: found.vector, Leg.KEYWORD: found.keyword}
    return CandidatePool(
        query="query",
        chunks={hit.id: chunk_of(hit) for side in sides.values() for hit in side},
        hits={
            leg: tuple(leg_hit(hit, place, leg, release) for place, hit in enumerate(side))
            for leg, side in sides.items()
        },
        states=dict.fromkeys(sides, LegState(LegStatus.OK)),
        limit=200,
    )
