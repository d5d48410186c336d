"""Fusion and the stages after it: each looks at the state and returns a step."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from posixpath import splitext
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from memtui.data import read_table
from memtui.model import (
    EPOCH,
    NOTES,
    CandidatePool,
    Chunk,
    DateRule,
    Fusion,
    Leg,
    LegHit,
    MinScoreRule,
    Numbers,
    Operation,
    Ranking,
    Reason,
    ScoreMapping,
    SearchMode,
    TieRule,
)
from memtui.ranking.collation import collation_key


def bm25_score(raw: float, mapping: ScoreMapping) -> float:
    """Map SQLite's `bm25()` to a score.

    `clamp` is 1 / (1 + max(0, raw)) (OpenClaw up to 2026.3.2): FTS5 values are negative, so every
    match scores 1. `signed` (2026.3.13 on) is r / (1 + r) with r = -raw for negative values, and
    1 / (1 + raw) otherwise. A value that is not finite scores 1/1000 under both. `given` returns
    the value itself.
    """
    if mapping is ScoreMapping.GIVEN:
        return raw
    if not math.isfinite(raw):
        return 1 / 1000
    if mapping is ScoreMapping.SIGNED and raw < 0:
        return -raw / (1 - raw)
    return 1 / (1 + max(0.0, raw))


def min_max(values: Sequence[float]) -> list[float]:
    """Scale values to 0..1; a flat list becomes all 1 (memini `FuseScores`).

    A value that is not finite becomes 0 and does not count for the others.
    """
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < len(values):
        scaled = iter(min_max(finite))
        return [next(scaled) if math.isfinite(value) else 0.0 for value in values]
    low, high = min(values, default=0.0), max(values, default=0.0)
    span = high - low
    if not span > 0:
        return [1.0] * len(values)
    return [(value - low) / span for value in values]


LEG_ORDER = (Leg.VECTOR, Leg.KEYWORD)
"""Vector first: ties keep the order in which OpenClaw's `mergeHybridResults` merges the legs."""

ONLY_LEG: Mapping[SearchMode, Leg] = {
    SearchMode.KEYWORD_ONLY: Leg.KEYWORD,
    SearchMode.VECTOR_ONLY: Leg.VECTOR,
    SearchMode.FILTERS_ONLY: Leg.KEYWORD,
}

TEXT_SUFFIXES = frozenset({".md", ".markdown", ".txt", ".jsonl"})
RRF_K_DEFAULT = 5.0


class FusedRow(NamedTuple):
    """A candidate and its parts: leg -> (hit, mapped score, weight), in the order of the legs."""

    chunk: Chunk
    parts: tuple[tuple[Leg, LegHit, float, float], ...]
    score: float
    path_tier: int
    """The exactness with which the query names the file, over all legs."""

    @property
    def keyword_hit(self) -> LegHit | None:
        leg, hit, _, _ = self.parts[-1]
        return hit if leg is Leg.KEYWORD else None


def text_score(hit: LegHit, mapping: ScoreMapping) -> float:
    """Return the score of a keyword hit's text before any boost: the leg's, else its BM25."""
    return hit.score if hit.score is not None else bm25_score(hit.raw, mapping)


def keyword_value(hit: LegHit, ranking: Ranking) -> float:
    """Return what the profile weights of a keyword hit.

    The text score, boosted where the profile boosts. A hit without a text score (a path alone)
    counts by its path score, unless the query names the file exactly: that is another stage's
    business (OpenClaw 2026.9 `hybrid.ts`). On its own the keyword leg counts every body match,
    and an exact name without one as 1.
    """
    text = text_score(hit, ranking.keyword_mapping) if hit.has_body else 0.0
    boosted = hit.boosted if ranking.lexical_boost and hit.boosted is not None else text
    alone = ranking.search_mode is SearchMode.KEYWORD_ONLY
    if text > 0 or (alone and hit.has_body):
        return boosted
    if hit.path_tier > 0:
        return 1.0 if alone else 0.0
    return hit.path_raw if hit.path_raw is not None else text


def mapped_scores(hits: Mapping[Leg, Sequence[LegHit]], ranking: Ranking) -> dict[Leg, list[float]]:
    """Return the score of every hit of each leg that fusion weights, by the method of the profile.

    `weighted_sum`: the cosine as it is, 0 where it is not finite, and the text through the
    profile's mapping. `relative_score`: each leg scaled to 0..1 between its worst and its best
    candidate (memini `FuseScores`). `rrf`: 1 / (k + position), position from 0 (Cormack et al.
    2009; memini `Fuse`); k <= 0 means 5.
    """
    if ranking.fusion is Fusion.RRF:
        k = ranking.rrf_k if ranking.rrf_k > 0 else RRF_K_DEFAULT
        return {leg: [1 / (k + index) for index in range(len(hits[leg]))] for leg in LEG_ORDER}
    cosines = [hit.raw for hit in hits[Leg.VECTOR]]
    if ranking.fusion is Fusion.RELATIVE_SCORE:
        sign = 1.0 if ranking.keyword_mapping is ScoreMapping.GIVEN else -1.0
        texts = [sign * hit.raw for hit in hits[Leg.KEYWORD]]
        return {Leg.VECTOR: min_max(cosines), Leg.KEYWORD: min_max(texts)}
    return {
        Leg.VECTOR: [cosine if math.isfinite(cosine) else 0.0 for cosine in cosines],
        Leg.KEYWORD: [keyword_value(hit, ranking) for hit in hits[Leg.KEYWORD]],
    }


def taken_hits(pool: CandidatePool, ranking: Ranking) -> dict[Leg, Sequence[LegHit]]:
    """Return the hits of each leg that take part in a ranking."""
    most = None if pool.sized and pool.limit == ranking.candidates else ranking.candidates
    only = ONLY_LEG.get(ranking.search_mode)
    return {leg: pool.hits[leg][:most] if only in (None, leg) else () for leg in LEG_ORDER}


def fuse(pool: CandidatePool, ranking: Ranking) -> tuple[list[FusedRow], list[str]]:
    """Fuse the first `ranking.candidates` hits of each leg.

    Returns the candidates in the order in which the legs name them (vector first), unsorted, and
    the ids of chunks of the pool that no leg has among its candidates.
    """
    mode, hits = ranking.search_mode, taken_hits(pool, ranking)
    mapped = mapped_scores(hits, ranking)
    weights = {Leg.VECTOR: ranking.vector_weight, Leg.KEYWORD: ranking.keyword_weight}
    if mode is not SearchMode.HYBRID:
        weights = dict.fromkeys(LEG_ORDER, 1.0)
    keeps_media = ranking.media_keeps_vector and ranking.vector_weight > 0
    parts: dict[str, list[tuple[Leg, LegHit, float, float]]] = {}
    for leg in LEG_ORDER:
        weight = weights[leg]
        for hit, value in zip(hits[leg], mapped[leg], strict=True):
            parts.setdefault(hit.chunk_id, []).append((leg, hit, value, weight))
    rows = []
    for chunk_id, legs in parts.items():
        chunk, score, tier = pool.chunks[chunk_id], 0.0, 0
        if keeps_media and is_vector_only_media(chunk, legs):
            legs = [(*legs[0][:3], 1.0)]
        for _, hit, value, weight in legs:
            score += weight * value
            tier = max(tier, hit.path_tier)
        rows.append(FusedRow(chunk, tuple(legs), score, tier))
    return rows, [chunk_id for chunk_id in pool.chunks if chunk_id not in parts]


def is_vector_only_media(chunk: Chunk, parts: Sequence[tuple[Leg, LegHit, float, float]]) -> bool:
    """Return whether only the vector leg found a file that is not text, by its suffix."""
    is_vector_only = len(parts) == 1 and parts[0][0] is Leg.VECTOR
    return is_vector_only and splitext(chunk.path)[1].lower() not in TEXT_SUFFIXES


Described = tuple[Reason, Numbers]
"""The reason and the numbers that a stage gives for one candidate."""


class Step(Struct, frozen=True):
    """The effect of one stage, by candidate index: scores after it and the surviving order."""

    operation: Operation
    scores: Sequence[float]
    order: Sequence[int]
    operands: Sequence[float | None] | None = None
    dropped: tuple[int, ...] = ()
    described: Mapping[int, Described] = {}
    """By candidate; those that are not here are `OK`, without numbers."""
    numbers: Numbers = {}
    """Of the whole stage."""
    is_score: bool = True
    """False when `scores` only explain an order: later stages go on with the scores before."""


class StageState(Struct, frozen=True):
    """The state of every candidate before a stage; `order` holds the survivors, best first."""

    pool: CandidatePool
    ranking: Ranking
    now: datetime
    rows: Sequence[FusedRow]
    scores: Sequence[float]
    order: Sequence[int]

    def sorted_by(self, scores: Sequence[float]) -> list[int]:
        """Sort the survivors by score, best first; equal ones as the profile's tie rule says."""
        if self.ranking.tie_rule is TieRule.LEG_ORDER:
            # A release sorts once, after decay: ties that decay makes keep the order of the merge.
            return sorted(self.order, key=lambda index: (-scores[index], index))
        if self.ranking.tie_rule is TieRule.STABLE:
            return sorted(self.order, key=scores.__getitem__, reverse=True)
        return sorted(self.order, key=lambda index: (-scores[index], self.location(index)))

    def text_score(self, index: int) -> float:
        """Return the text score of a candidate before any boost; 0 without one."""
        hit = self.rows[index].keyword_hit
        if hit is None or not hit.has_body:
            return 0.0
        return text_score(hit, self.ranking.keyword_mapping)

    def lexical_rank(self, index: int) -> float:
        """Return the private score of a body match without a BM25 value (2026.9 `hybrid.ts`)."""
        hit = self.rows[index].keyword_hit
        if hit is None or not hit.has_body or self.text_score(index) != 0:
            return 0.0
        return hit.boosted or 0.0

    def location(self, index: int) -> tuple[object, ...]:
        """Return what tells equal scores apart by their place; the smaller is first."""
        row = self.rows[index]
        if self.ranking.tie_rule is TieRule.PLACE:
            chunk = row.chunk
            return chunk.path, chunk.start_line, chunk.end_line, chunk.id
        chunk, path = row.chunk, collation_key(row.chunk.path)
        if self.ranking.search_mode is SearchMode.KEYWORD_ONLY:
            hit = row.keyword_hit
            path_score = hit.path_raw or 0.0 if hit is not None and not row.path_tier else 0.0
            return (-self.text_score(index), -path_score, path, chunk.start_line, chunk.id)
        return (-self.lexical_rank(index), path, chunk.start_line, chunk.end_line)


def fusion_stage(state: StageState) -> Step:
    """Sort the fused candidates."""
    order, method = state.sorted_by(state.scores), str(state.ranking.fusion)
    return Step(Operation.SUM, state.scores, order, numbers={"method": method})


def cut_stage(state: StageState) -> Step:
    """Keep the first k; none when k is not above 0."""
    k = max(0, state.ranking.k)
    shown, dropped, numbers = list(state.order[:k]), tuple(state.order[k:]), {"k": k}
    described = dict.fromkeys(shown, (Reason.OK, numbers))
    described |= dict.fromkeys(dropped, (Reason.CUT_AT_K, numbers))
    return Step(Operation.KEEP, state.scores, shown, None, dropped, described, numbers)


def multiplied(
    state: StageState, factors: Sequence[float], described: Mapping[int, Described] | None = None
) -> Step:
    """Multiply the score of each candidate by its factor, and sort."""
    scores = [score * factor for score, factor in zip(state.scores, factors, strict=True)]
    order = state.sorted_by(scores)
    return Step(Operation.MULTIPLY, scores, order, factors, described=described or {})


DAY = timedelta(days=1)
_DATES = read_table("dates.toml")


def decay_factors(
    ages_days: Sequence[float | None], half_life_days: float, floor: float = 0.0
) -> list[float]:
    """Return floor + (1 - floor) * 2^(-age / half-life) for each age, 0 to 1.

    An age below 0 counts as 0; `None` (evergreen) gives 1. A half-life that is not finite or not
    above 0 gives 1. Written as exp(-ln 2 / half-life * age), as OpenClaw's `temporal-decay.ts`
    does, to agree to the last bit.
    """
    if not math.isfinite(half_life_days) or half_life_days <= 0:
        return [1.0] * len(ages_days)
    rate, rest, exp = -(math.log(2) / half_life_days), 1 - floor, math.exp
    return [
        1.0 if age is None else floor + rest * exp(rate * age) if age > 0 else floor + rest
        for age in ages_days
    ]


def chunk_day(chunk: Chunk, rule: DateRule) -> tuple[datetime | None, Reason]:
    """Return the moment a chunk dates from (UTC), and its origin; `None` when evergreen.

    The memtui rule takes the date in the file name, then the one in the front matter; `MEMORY.md`,
    `USER.md`, the instructions of projects and undated notes under `memory/` are evergreen;
    everything else has its file time.
    OpenClaw's rules (`temporal-decay.ts`) leave a file without a known time as it is.
    """
    is_memtui, names = rule is DateRule.MEMTUI, _DATES[rule]
    path, day, origin, is_dated = chunk.path, chunk.day, chunk.day_from, chunk.day is not None
    if not is_memtui:
        path = path.replace("\\", "/").removeprefix("./")
        match = re.search(names["dated"], path, re.ASCII)
        day, origin, is_dated = None, None, match is not None
        if match is not None:
            # An impossible date matches the pattern: such a file is neither dated nor evergreen.
            with suppress(ValueError):
                day = date(*map(int, match.groups()))
    if day is not None:
        return datetime(day.year, day.month, day.day, tzinfo=UTC), origin or Reason.FILE_NAME
    is_instruction = path.rpartition("/")[2] in names.get("instructions", ())
    is_named = is_instruction or path.removeprefix("./") in names["evergreen"]
    is_undated_note = path.startswith("memory/") and not is_dated
    if (is_named or is_undated_note) and (is_memtui or chunk.source == NOTES):
        return None, Reason.EVERGREEN
    if not is_memtui and chunk.mtime_ns <= 0:
        return None, Reason.NO_DATE
    # A JavaScript date holds whole milliseconds.
    microseconds = chunk.mtime_ns // (1000 if is_memtui else 1_000_000) * (1 if is_memtui else 1000)
    try:
        return EPOCH + timedelta(microseconds=microseconds), Reason.FILE_TIME
    except OverflowError:
        return None, Reason.NO_DATE


def decay_stage(state: StageState) -> Step:
    """Multiply by the decay factor of the chunk's age; evergreen chunks keep their score."""
    setting, dates = state.ranking.decay, dates_of(state)
    ages = [None if day is None else (state.now - day) / DAY for day, _ in dates]
    days, floor = setting.half_life_days, setting.floor
    described: dict[int, Described] = {}
    for index, ((day, source), age) in enumerate(zip(dates, ages, strict=True)):
        written = day.date().isoformat() if day else None
        numbers = {"age_days": age, "half_life_days": days, "floor": floor, "date": written}
        described[index] = source, numbers
    return multiplied(state, decay_factors(ages, days, floor), described)


def dates_of(state: StageState) -> list[tuple[datetime | None, Reason]]:
    return [chunk_day(row.chunk, state.ranking.decay.dates) for row in state.rows]


INVALID_PROJECT = "!invalid-project-annotation"
"""The project key that OpenClaw gives an annotation it could not read."""


def importance_stage(state: StageState) -> Step | None:
    """Multiply by what the profile makes of a note's importance."""
    factors = [importance_multiplier(row.chunk.importance) for row in state.rows]
    return multiplied(state, factors) if any(factor != 1.0 for factor in factors) else None


def project_stage(state: StageState) -> Step | None:
    """Multiply by what the profile makes of a note's projects; an invalid project is left out."""
    active, rows = state.ranking.project_keys, state.rows
    factors = [project_multiplier(row.chunk.project_keys, active) for row in rows]
    lost = tuple(
        index for index in state.order if INVALID_PROJECT in rows[index].chunk.project_keys
    )
    if not lost and all(factor == 1.0 for factor in factors):
        return None
    step = multiplied(state, factors, dict.fromkeys(lost, (Reason.OTHER_PROJECT, {})))
    return replace(step, order=[index for index in step.order if index not in lost], dropped=lost)


def importance_multiplier(importance: float | None) -> float:
    """0.75 + 0.05 * n with n cut to whole numbers 1..10 (OpenClaw 2026.9); none gives 1."""
    if importance is None:
        return 1.0
    return 0.75 + 0.05 * min(10, max(1, math.floor(importance)))


def project_multiplier(keys: Sequence[str], active: Sequence[str]) -> float:
    """1.15 when every key is active, 0.9 otherwise, 1 without keys or active keys (2026.9)."""
    if not keys or not active:
        return 1.0
    return 1.15 if set(keys) <= set(active) else 0.9


# Exact names: files that the query names come first, by tier (OpenClaw 2026.8 on, `hybrid.ts`).
# Three stages, because the release carries two scores for such a candidate: a private one, which
# decay, importance, project and MMR work on, and a public one, which is shown and compared with the
# minimum. The same holds for a substring match that no BM25 value backs.


def tie_score(content: float) -> float:
    """Half for the name, half for the content cut to 0..1: what an exact name ranks by."""
    return (1 + max(0.0, min(1.0, content))) / 2


def identity_stage(state: StageState) -> Step | None:
    """Give exact names and substring matches the private score that they are ranked by."""
    is_aged = state.ranking.decay.enabled
    is_keyword_only = state.ranking.search_mode is SearchMode.KEYWORD_ONLY
    scores = list(state.scores)
    described: dict[int, Described] = {}
    for index in state.order:
        tier, content = state.rows[index].path_tier, state.scores[index]
        if tier and is_aged:
            is_backed = not is_keyword_only or _is_backed(state, index)
            scores[index] = tie_score(content if is_backed else 0.0)
        elif is_keyword_only:
            continue
        elif tier:
            scores[index] = content if content > 0 else 1.0
        elif content == 0 and (lexical := state.lexical_rank(index)):
            scores[index] = lexical
        else:
            continue
        reason = Reason.EXACT_PATH if tier else Reason.SUBSTRING_ONLY
        described[index] = reason, {"tier": tier, "content": content}
    return _replaced(scores, state.sorted_by(scores), described) if described else None


def _replaced(
    scores: Sequence[float], order: Sequence[int], described: Mapping[int, Described]
) -> Step:
    return Step(Operation.REPLACE, scores, order, scores, described=described)


def tiers_stage(state: StageState) -> Step | None:
    """Put exact names first, by tier; what only a substring backs goes back to its public 0."""
    is_hybrid = state.ranking.search_mode is SearchMode.HYBRID
    scores = list(state.scores)
    described: dict[int, Described] = {}
    for index in state.order:
        row = state.rows[index]
        if row.path_tier:
            described[index] = Reason.EXACT_PATH, {"tier": row.path_tier}
        elif is_hybrid and row.score == 0 and state.lexical_rank(index) > 0:
            described[index] = Reason.SUBSTRING_ONLY, {"ranked_by": scores[index]}
            scores[index] = 0.0
    if not described:
        return None
    *exact, others = tier_groups(state)
    order = [index for group in exact for index in group]
    order += sorted(others, key=lambda index: -scores[index])
    return _replaced(scores, order, described)


def exact_path_stage(state: StageState) -> Step | None:
    """Show exact names with their public score: 1 times the project multiplier."""
    scores = list(state.scores)
    described: dict[int, Described] = {}
    for index in state.order:
        row = state.rows[index]
        if row.path_tier:
            numbers = {"tier": row.path_tier, "ranked_by": scores[index]}
            described[index] = Reason.EXACT_PATH, numbers
            active = state.ranking.project_keys
            scores[index] = project_multiplier(row.chunk.project_keys, active)
    return _replaced(scores, list(state.order), described) if described else None


def tier_groups(state: StageState) -> list[list[int]]:
    """Return the survivors in the groups that MMR may not mix: tiers 3, 2, 1, then everything else.

    Without decay a tier is two groups: what content backs, and what the name alone backs. Only
    groups with members are given, except the last, which always is.
    """
    groups: dict[tuple[int, bool], list[int]] = {(0, False): []}
    for index in state.order:
        tier = state.rows[index].path_tier
        is_bare = tier > 0 and not state.ranking.decay.enabled and not _is_backed(state, index)
        groups.setdefault((-tier, is_bare), []).append(index)
    return [groups[group] for group in sorted(groups)]


def _is_backed(state: StageState, index: int) -> bool:
    if state.ranking.search_mode is SearchMode.KEYWORD_ONLY:
        hit = state.rows[index].keyword_hit
        return hit is not None and hit.has_body
    return state.rows[index].score > 0 or state.lexical_rank(index) > 0


NEUTRAL_IMPORTANCE = 0.5


def rerank_stage(state: StageState) -> Step:
    """Replace the score by the composite of memini's `RerankWith`.

    w_rel * score / maximum + w_rec * recency + w_imp * importance, where `maximum` is the best
    score of the list; when it is not above 0 the relevance part is 0. Importance is cut to 0..1.
    """
    weights = state.ranking.rerank
    maximum = max((state.scores[index] for index in state.order), default=0.0)
    scores, dates = list(state.scores), dates_of(state)
    described: dict[int, Described] = {}
    for index in state.order:
        day, source = dates[index]
        age = 0.0 if day is None else (state.now - day) / DAY
        freshness = recency(age, weights.recency_scale_days)
        stored_importance = state.rows[index].chunk.importance
        importance = NEUTRAL_IMPORTANCE if stored_importance is None else stored_importance
        relevance = scores[index] / maximum if maximum > 0 else 0.0
        scores[index] = (
            weights.relevance * relevance
            + weights.recency * freshness
            + weights.importance * min(1.0, max(0.0, importance))
        )
        described[index] = (
            source,
            {
                "maximum": maximum,
                "recency": freshness,
                "importance": importance,
                "relevance_weight": weights.relevance,
                "recency_weight": weights.recency,
                "importance_weight": weights.importance,
            },
        )
    return _replaced(scores, state.sorted_by(scores), described)


def recency(age_days: float, scale_days: float) -> float:
    """exp(-age / scale), 0 to 1: 1/e at one scale (memini `RerankWith`); a future date gives 1."""
    return math.exp(-max(0.0, age_days) / scale_days)


def dedup_stage(state: StageState) -> Step:
    """Drop a chunk whose text equals that of a better one."""
    first: dict[str, int] = {}
    described: dict[int, Described] = {}
    for index in state.order:
        original = first.setdefault(text_key(state.rows[index].chunk), index)
        if original != index:
            chunk_id = state.rows[original].chunk.id
            described[index] = Reason.DUPLICATE_TEXT, {"duplicate_of": chunk_id}
    order, dropped = list(first.values()), tuple(described)
    return Step(Operation.KEEP, state.scores, order, None, dropped, described)


def text_key(chunk: Chunk) -> str:
    """Chunks with equal keys are duplicates: lower case, white space folded (memini `Dedup`).

    Of a text that is masked, which then has a snippet of its own, only the same text is one.
    """
    folded = _folded(chunk.text)
    return folded if chunk.snippet is None else f"{folded}\n{chunk.hash}"


@lru_cache(1024)
def _folded(text: str) -> str:
    return " ".join(text.lower().split())


def relaxed_minimum(ranking: Ranking) -> float:
    """Return the minimum of keyword hits when nothing reaches the other."""
    if ranking.relaxed_min_score is not None:
        return ranking.relaxed_min_score
    return min(ranking.min_score or 0.0, ranking.keyword_weight)


def min_score_stage(state: StageState) -> Step:
    """Drop what scores below the minimum, by the rule of the profile.

    Everything at or above it stays. `relaxed`: where nothing is, keyword hits stay above
    `relaxed_min_score`, or min(minimum, keyword weight) where that is not set. `fill` (2026.9):
    where nothing is, all keyword hits; else keyword-only hits for free places.
    """
    ranking, rows, scores = state.ranking, state.rows, state.scores
    minimum, rule = ranking.min_score or 0.0, ranking.min_score_rule
    # A release tells results apart by their range: chunks of one range are the same.
    ranges = [
        (row.chunk.source, row.chunk.path, row.chunk.start_line, row.chunk.end_line) for row in rows
    ]
    with_keyword = {
        place for row, place in zip(rows, ranges, strict=True) if row.keyword_hit is not None
    }
    strict = [index for index in state.order if scores[index] >= minimum]
    rescued: list[int] = []
    if rule is not MinScoreRule.PLAIN and not strict:
        lower = 0.0 if rule is MinScoreRule.FILL else relaxed_minimum(ranking)
        rescued = [
            index
            for index in state.order
            if scores[index] >= lower and ranges[index] in with_keyword
        ]
    elif rule is MinScoreRule.FILL:
        used_ranges = {ranges[index] for index in strict[: max(0, ranking.k)]}
        for index in state.order:
            if len(strict) + len(rescued) >= ranking.k:
                break
            place = ranges[index]
            is_free = scores[index] < minimum and place in with_keyword and place not in used_ranges
            cosines = (value for leg, _, value, _ in rows[index].parts if leg is Leg.VECTOR)
            if is_free and next(cosines, 0.0) == 0:
                used_ranges.add(place)
                rescued.append(index)
    numbers = {"min_score": minimum}
    described = dict.fromkeys(state.order, (Reason.BELOW_MIN_SCORE, numbers))
    described |= dict.fromkeys(strict, (Reason.OK, numbers))
    described |= dict.fromkeys(rescued, (Reason.FREE_PLACE if strict else Reason.RELAXED, numbers))
    order = strict + rescued
    dropped = tuple(index for index in state.order if described[index][0] is Reason.BELOW_MIN_SCORE)
    return Step(Operation.KEEP, scores, order, None, dropped, described, numbers)
