"""What tells the releases of OpenClaw apart, and no recorded search happens to show."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memtui.model import CandidatePool, Decay, Leg, Reason, SearchMode
from memtui.ranking.decay import chunk_day
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES, for_mode
from tests.support.pools import chunk, pool

NOW = datetime(2026, 11, 16, tzinfo=UTC)
OLD = int((NOW - timedelta(days=460)).timestamp()) * 10**9
RELEASES = ("2026.2", "2026.4", "2026.7", "2026.9")
AGED, NEW, OLDER = "memory/2026-10-17.md", "memory/2026-11-16.md", "memory/2026-01-01.md"


def of(
    vector: dict[str, float], keyword: dict[str, float], *, texts: bool = True, **fields: Any
) -> CandidatePool:
    """Chunks of these paths with their raw scores; those of keywords are text scores."""
    paths = dict.fromkeys((*vector, *keyword))
    made = pool([chunk(path, path=path, **fields) for path in paths], list(vector.items()))
    hits = pool([], (), list(keyword.items())).hits
    leg = next(leg for leg, found in hits.items() if found) if keyword else None
    if leg is None:
        return made
    given = tuple(
        replace(hit, score=hit.raw, boosted=hit.raw) if texts else hit for hit in hits[leg]
    )
    return replace(made, hits={**made.hits, leg: given})


@pytest.mark.parametrize(
    ("candidates", "mode", "changes", "orders"),
    [
        # The lower-case memory file is evergreen in the first release only.
        (
            of({"memory.md": 0.9, "MEMORY.md": 0.8}, {}, mtime_ns=OLD),
            SearchMode.HYBRID,
            {"ages": True},
            [["memory.md", "MEMORY.md"], *[["MEMORY.md", "memory.md"]] * 3],
        ),
        # Keyword search alone does not age in the first release.
        (
            of({}, {OLDER: 1.0, NEW: 0.5}),
            SearchMode.KEYWORD_ONLY,
            {"ages": True},
            [[OLDER, NEW], *[[NEW, OLDER]] * 3],
        ),
        # Vectors alone are sorted again by what decay left in the newest release.
        (
            of({OLDER: 0.9, NEW: 0.8}, {}),
            SearchMode.VECTOR_ONLY,
            {"ages": True},
            [*[[OLDER, NEW]] * 3, [NEW, OLDER]],
        ),
        # Scores that decay makes equal keep the order of the legs.
        (
            of({AGED: 0.8}, {"MEMORY.md": 0.4}),
            SearchMode.HYBRID,
            {"ages": True, "vector_weight": 0.5, "keyword_weight": 0.5},
            [None, [AGED, "MEMORY.md"], [AGED, "MEMORY.md"], None],
        ),
        # Pictures count by their vector, unless vectors count for nothing.
        (
            of({"notes/a.md": 0.9, "media/photo.png": 0.8}, {}),
            SearchMode.HYBRID,
            {},
            [None, None, None, ["media/photo.png", "notes/a.md"]],
        ),
    ],
    ids=["lower case", "keywords", "vectors", "ties", "pictures"],
)
def test_the_order_of_each_release(
    candidates: CandidatePool, mode: SearchMode, changes: dict[str, Any], orders: list[Any]
) -> None:
    ages, changes = changes.get("ages", False), {k: v for k, v in changes.items() if k != "ages"}
    for release, order in zip(RELEASES, orders, strict=True):
        base = PROFILES[f"openclaw-{release}"]
        decay, mmr = replace(base.decay, enabled=ages), replace(base.mmr, enabled=False)
        ranking = replace(base, min_score=0.0, decay=decay, mmr=mmr, **changes)
        ranked = rank(candidates, for_mode(ranking, mode), now=NOW)
        if order is not None:
            assert [hit.chunk.id for hit in ranked.hits] == order, release


@pytest.mark.parametrize(
    ("minimum", "weights", "counts"),
    [(0.35, (0.7, 0.3), [0, 0, 2, 2]), (0.3, (0.5, 0.1), [0, 1, 2, 2])],
)
def test_a_chunk_of_the_same_lines_as_a_keyword_hit_counts_as_one(
    minimum: float, weights: tuple[float, float], counts: list[int]
) -> None:
    candidates = of({"one": 0.4}, {"other": -0.5}, texts=False)
    same = {name: replace(one, path="memory/a.md") for name, one in candidates.chunks.items()}
    for release, count in zip(RELEASES, counts, strict=True):
        base = replace(PROFILES[f"openclaw-{release}"], min_score=minimum)
        ranking = replace(base, vector_weight=weights[0], keyword_weight=weights[1])
        ranked = rank(replace(candidates, chunks=same), ranking, now=NOW)
        assert len(ranked.hits) == count, release


@pytest.mark.parametrize(
    ("keys", "active", "factor"),
    [
        ((), ("one",), 1.0),
        (("one",), (), 1.0),
        (("one",), ("one", "two"), 1.15),
        (("one", "two"), ("one",), 0.9),
        (("three",), ("one",), 0.9),
    ],
)
def test_a_note_of_the_active_projects_counts_more(
    keys: tuple[str, ...], active: tuple[str, ...], factor: float
) -> None:
    base = replace(PROFILES["openclaw-2026.9"], min_score=None, project_keys=active)
    candidates = of({"MEMORY.md": 0.5}, {}, project_keys=keys)
    (hit,) = rank(candidates, base, now=NOW).hits
    assert hit.score == 0.5 * base.vector_weight * factor


def test_what_is_no_memory_file_is_not_evergreen() -> None:
    of_session = replace(chunk("a", path="memory/projects.md", mtime_ns=OLD), source="sessions")
    for release in RELEASES:
        rule = PROFILES[f"openclaw-{release}"].decay.dates
        assert chunk_day(of_session, rule)[1] is Reason.FILE_TIME
        assert chunk_day(replace(of_session, source="memory"), rule)[1] is Reason.EVERGREEN


def test_an_exact_name_that_content_backs_comes_before_a_name_alone() -> None:
    candidates = of({}, {"notes/alone.md": 0.9, "notes/backed.md": 0.1})
    alone, backed = candidates.hits[Leg.KEYWORD]
    named = replace(alone, path_tier=3, has_body=False), replace(backed, path_tier=3)
    hits = {**candidates.hits, Leg.KEYWORD: named}
    base = PROFILES["openclaw-2026.9"]
    plain = replace(base, min_score=None, decay=Decay(), mmr=replace(base.mmr, enabled=False))
    ranked = rank(replace(candidates, hits=hits), plain, now=NOW)
    assert [hit.chunk.id for hit in ranked.hits] == ["notes/backed.md", "notes/alone.md"]


def test_a_release_takes_what_it_would_have_fetched_itself() -> None:
    paths = [f"notes/{n}.md" for n in range(6)]
    pool_of_six = replace(of(dict.fromkeys(paths, 0.9), {}), sized=True, limit=6)
    base = replace(PROFILES["openclaw-2026.4"], k=1, candidate_multiplier=3)
    outside = [d for d in rank(pool_of_six, base, now=NOW).drops if not d.stages]
    assert [drop.chunk.id for drop in outside] == paths[3:]
    same = replace(pool_of_six, limit=base.candidates)
    assert all(drop.stages for drop in rank(same, base, now=NOW).drops)
