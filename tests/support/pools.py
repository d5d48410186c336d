"""Candidate pools made by hand, for tests of ranking and of screens."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from memtui.model import (
    FEATURES,
    CandidatePool,
    Chunk,
    Context,
    Decay,
    Evidence,
    Fusion,
    Leg,
    LegHit,
    LegState,
    LegStatus,
    MinScoreRule,
    Mmr,
    PassageFeatures,
    Ranking,
    Reason,
    Rerank,
    ScoreMapping,
)
from memtui.ranking.profiles import PROFILES
from memtui.ranking.stages import INVALID_PROJECT, bm25_score
from tests.support.dice import Dice

NOW = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)


def chunk(
    chunk_id: str, text: str = "", *, path: str = "memory/note.md", line: int = 1, **fields: Any
) -> Chunk:
    """A chunk with sensible values for what a test does not care about."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Chunk(chunk_id, path, "memory", line, line + 1, text, digest, "test", **fields)


def pool(
    chunks: Iterable[Chunk],
    vector: Sequence[tuple[str, float]] = (),
    keyword: Sequence[tuple[str, float]] = (),
    *,
    query: str = "query",
    terms: tuple[str, ...] = (),
    tiers: Mapping[str, int] | None = None,
    path_scores: Mapping[str, float] | None = None,
) -> CandidatePool:
    """A pool from (chunk id, raw) lists, best first; the keyword leg found `terms`."""
    tiers, path_scores = tiers or {}, path_scores or {}

    def hits(leg: Sequence[tuple[str, float]], terms: tuple[str, ...] = ()) -> tuple[LegHit, ...]:
        return tuple(
            LegHit(i, n, raw, terms, path_scores.get(i), tiers.get(i, 0))
            for n, (i, raw) in enumerate(leg)
        )

    state = LegState(LegStatus.OK)
    return CandidatePool(
        query=query,
        chunks={item.id: item for item in chunks},
        hits={Leg.VECTOR: hits(vector), Leg.KEYWORD: hits(keyword, terms)},
        states={Leg.VECTOR: state, Leg.KEYWORD: state},
        limit=200,
    )


WORDS = ("router", "vlan", "gateway", "standup", "lantern", "备份", "京都", "서버", "a", "1")


CHUNK = 96
"""Bytes that choose one chunk and its places in the legs."""
FIRST_DAY = date(2025, 1, 1)
DAYS = (date(2027, 2, 1) - FIRST_DAY).days + 1


def _random_chunk(dice: Dice, number: int) -> Chunk:
    words = [dice.one_of(WORDS) for _ in range(5)][: dice.below(6)]
    day = dice.one_of([None, FIRST_DAY + timedelta(days=dice.below(DAYS))])
    return chunk(
        f"c{number}",
        " ".join(words),
        path=f"memory/{day}.md" if day else f"notes/{number % 3}.md",
        line=number + 1,
        day=day,
        day_from=Reason.FILE_NAME if day else None,
        mtime_ns=dice.whole(0, 2_000_000_000_000_000_000),
        importance=dice.one_of([None, dice.real(0.0, 1.0)]),
    )


def _random_leg(
    dice: Sequence[Dice], ids: Sequence[str], size: int, low: float, high: float
) -> list[tuple[str, float]]:
    """So many of the candidates in any order, each with a value that others may have as well."""
    order = sorted((one.below(2**16), number) for number, one in enumerate(dice))
    values = [one.real(low, high) for one in dice]
    common = [one.one_of([None, None, low, 0.0]) for one in dice]
    return [(ids[n], values[n] if (tied := common[n]) is None else tied) for _, n in order[:size]]


@st.composite
def pools(draw: st.DrawFn, max_chunks: int = 30) -> CandidatePool:
    """Random pools: ties, equal texts, empty legs, negative cosines, dated and evergreen paths."""
    size = CHUNK * (max_chunks + 1)
    drawn = draw(st.binary(min_size=size, max_size=size))
    first, *dice = (Dice(drawn[at : at + CHUNK]) for at in range(0, size, CHUNK))
    del dice[first.fewer(max_chunks) :]
    chunks = [_random_chunk(one, number) for number, one in enumerate(dice)]
    ids = [item.id for item in chunks]

    def leg(low: float, high: float) -> list[tuple[str, float]]:
        return _random_leg(dice, ids, first.below(len(ids) + 1), low, high)

    vector = sorted(leg(-1.0, 1.0), key=lambda hit: -hit[1])
    keyword = sorted(leg(-30.0, 0.0), key=lambda hit: hit[1])
    named = {i for i, _ in vector} | {i for i, _ in keyword}
    return pool([item for item in chunks if item.id in named], vector, keyword)


_PASSAGE = 28


@st.composite
def passage_pools(draw: st.DrawFn, max_chunks: int = 30, most: int = 4) -> CandidatePool:
    """Random pools whose chunks have up to so many passages each, with ties among their features."""
    plain = draw(pools(max_chunks))
    size = _PASSAGE * (most * len(plain.chunks) + 1)
    drawn = draw(st.binary(min_size=size, max_size=size))
    dice = iter([Dice(drawn[at : at + _PASSAGE]) for at in range(0, size, _PASSAGE)])
    passages = {}
    for name in plain.chunks:
        lines = [next(dice) for _ in range(most)]
        features = [tuple([line.below(33) / 32 for _ in FEATURES[1:]]) for line in lines]
        passages[name] = tuple(
            PassageFeatures(at, at + 1, values)
            for at, values in enumerate(features[: lines[0].below(most + 1)])
        )
    return replace(plain, passages=passages, evidence=next(dice).one_of(list(Evidence)))


@st.composite
def context_rankings(draw: st.DrawFn) -> Ranking:
    """Random rankings by passages: some weights from the index, some below 0."""
    weights = st.none() | st.integers(-8, 80).map(lambda quarters: quarters / 4)
    few = draw(st.dictionaries(st.sampled_from(FEATURES), weights))
    ranking = draw(rankings())
    context = Context(enabled=True, **few)
    return replace(ranking, profile="memtui", stages=Ranking().stages, context=context)


@st.composite
def rankings(draw: st.DrawFn) -> Ranking:
    """Random rankings over every method, stage and rule, within the documented ranges."""
    base = draw(st.sampled_from(list(PROFILES.values())))
    weight = draw(st.floats(0, 1))
    return Ranking(
        profile=base.profile,
        stages=base.stages,
        k=draw(st.integers(1, 12)),
        candidate_multiplier=draw(st.integers(1, 4)),
        min_candidates=draw(st.sampled_from([1, 10, 50])),
        fusion=draw(st.sampled_from(Fusion)),
        vector_weight=weight,
        keyword_weight=1 - weight,
        keyword_mapping=draw(st.sampled_from([ScoreMapping.CLAMP, ScoreMapping.SIGNED])),
        rrf_k=draw(st.sampled_from([5.0, 60.0])),
        decay=Decay(
            enabled=draw(st.booleans()),
            half_life_days=draw(st.floats(0.5, 400)),
            floor=draw(st.sampled_from([0.0, 0.5, 0.8])),
            dates=base.decay.dates,
        ),
        rerank=Rerank(enabled=draw(st.booleans())),
        dedup=draw(st.booleans()),
        min_score=draw(st.none() | st.floats(0, 1)),
        min_score_rule=draw(st.sampled_from(MinScoreRule)),
        mmr=Mmr(
            enabled=draw(st.booleans()),
            lambda_=draw(st.floats(0, 1)),
            empty_similarity=base.mmr.empty_similarity,
        ),
        importance_multiplier=base.importance_multiplier,
    )


PATHS = (
    *("MEMORY.md", "memory.md", "./MEMORY.md", "USER.md", "memory/projects.md"),
    *("memory/2026-11-15.md", "memory\\2026-10-01.md", "memory/2026-02-30.md"),
    *("memory/2027-01-01.md", "memory/2026-11-01-1430.md", "memory/team/2026-11-10.md"),
    *("notes/memory/2026-11-01.md", "notes/a.md", "media/photo.png", "memory/2026-11-03.png"),
)
KEYS = ((), (), (), ("one",), ("two",), ("one", "two"), ("one", INVALID_PROJECT))
_HIT = 64


@st.composite
def release_pools(draw: st.DrawFn, max_chunks: int = 30) -> CandidatePool:
    """Random pools as a release's legs give them: exact names, boosts, paths alone, projects."""
    plain = draw(pools(max_chunks))
    size = _HIT * max(1, len(plain.chunks))
    drawn = draw(st.binary(min_size=size, max_size=size))
    dice = {
        name: Dice(drawn[at : at + _HIT])
        for name, at in zip(plain.chunks, range(0, size, _HIT), strict=False)
    }
    chunks, tiers = {}, {}
    for name, one in plain.chunks.items():
        tiers[name] = dice[name].one_of([0, 0, 0, 0, 0, 1, 1, 2, 3])
        chunks[name] = replace(
            one,
            path=dice[name].one_of(PATHS),
            start_line=dice[name].one_of([1, 1, 7, 30]),
            end_line=dice[name].one_of([40, 50]),
            importance=dice[name].one_of([None, 0.0, 1.0, 5.5, 10.0, 12.0]),
            project_keys=dice[name].one_of(KEYS),
        )
    keyword = []
    for hit in plain.hits[Leg.KEYWORD]:
        chosen, text = dice[hit.chunk_id], bm25_score(hit.raw, ScoreMapping.SIGNED)
        boosted = min(1.0, text + chosen.one_of([0.0, 0.25, 0.5, 1.5]))
        given = chosen.one_of([0.0, 0.0, 0.5, 1.0])
        changes: Sequence[dict[str, Any]] = (
            {},
            {"boosted": boosted},
            {"score": given, "boosted": min(1.0, given + 0.5)},
            {"path_raw": chosen.close(0.25, 0.5, low=0.0, high=1.0), "has_body": False},
        )
        keyword.append(replace(hit, **chosen.one_of(changes)))
    hits = {Leg.VECTOR: plain.hits[Leg.VECTOR], Leg.KEYWORD: tuple(keyword)}
    named = {
        leg: tuple(replace(hit, path_tier=tiers[hit.chunk_id]) for hit in of_leg)
        for leg, of_leg in hits.items()
    }
    return replace(plain, chunks=chunks, hits=named)


RELEASES = tuple(name for name in PROFILES if name.startswith("openclaw"))


@st.composite
def release_rankings(draw: st.DrawFn, names: Sequence[str] = RELEASES) -> Ranking:
    """Random parameters of a release, within its documented ranges."""
    base = PROFILES[draw(st.sampled_from(names))]
    weights = draw(st.sampled_from([(0.7, 0.3), (0.5, 0.5), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)]))
    return replace(
        base,
        k=draw(st.integers(1, 12)),
        candidate_multiplier=draw(st.integers(1, 20)),
        vector_weight=weights[0],
        keyword_weight=weights[1],
        min_score=draw(st.sampled_from([0.0, 0.0, 0.35, 1.0]) | st.floats(0, 1)),
        mmr=replace(base.mmr, enabled=draw(st.booleans()), lambda_=draw(st.floats(0, 1))),
        decay=replace(
            base.decay, enabled=draw(st.booleans()), half_life_days=draw(st.floats(1, 400))
        ),
        project_keys=draw(st.sampled_from([(), ("one",), ("one", "two")])),
    )
