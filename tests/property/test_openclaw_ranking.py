"""memtui's ranking under the OpenClaw profiles against a literal reference, over random pools."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtui.model import (
    SearchMode,
)
from memtui.ranking.pipeline import rank
from tests.support.examples import examples
from tests.support.openclaw_literal import (
    Candidate,
    Release,
    Settings,
    asked,
)
from tests.support.openclaw_literal import rank as reference
from tests.support.openclaw_pools import (
    MODES,
    NOW,
    NOW_MS,
    Legs,
    legs,
    pool_of,
    ranking_of,
    searches,
)

EXAMPLES = examples(40)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("release", Release)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_memtui_ranks_as_the_reference(
    release: Release, mode: SearchMode, data: st.DataObject
) -> None:
    found = data.draw(legs(release))
    search = data.draw(searches(release, mode))
    assert_same(found, search, mode)


def assert_same(found: Legs, search: Settings, mode: SearchMode = SearchMode.HYBRID) -> list[str]:
    expected = reference(asked(found.vector, search), asked(found.keyword, search), search)
    hits = rank(pool_of(found, search.release), ranking_of(search, mode), now=search.now).hits
    assert [hit.chunk.id for hit in hits] == [answer.id for answer in expected]
    for hit, answer in zip(hits, expected, strict=True):
        assert hit.score == pytest.approx(answer.score, abs=1e-12, rel=0)
    return [answer.id for answer in expected]


OLD = float(NOW_MS - 40_000_000_000)


def test_lower_case_memory_file_is_evergreen_only_in_the_first_release() -> None:
    hits = (
        Candidate("lower", "memory.md", vector_score=0.9, mtime=OLD),
        Candidate("upper", "MEMORY.md", vector_score=0.8, mtime=OLD),
    )
    for release in Release:
        search = Settings(release, decay_enabled=True, min_score=0.0, now=NOW)
        order = assert_same(Legs(hits, ()), search)
        assert order == (["lower", "upper"] if release is Release.A else ["upper", "lower"])


def test_keyword_search_alone_does_not_age_in_the_first_release() -> None:
    hits = (
        Candidate("old", "memory/2026-01-01.md", text_score=1.0),
        Candidate("new", "memory/2026-11-16.md", text_score=0.5),
    )
    for release in Release:
        search = Settings(release, provider=False, decay_enabled=True, min_score=0.0, now=NOW)
        order = assert_same(Legs((), hits), search, SearchMode.KEYWORD_ONLY)
        assert order == (["old", "new"] if release is Release.A else ["new", "old"])


def test_a_chunk_of_the_same_lines_as_a_keyword_hit_counts_as_one() -> None:
    vector = (Candidate("one-model", "memory/a.md", vector_score=0.4),)
    keyword = (Candidate("other-model", "memory/a.md", bm25=-0.5),)
    for release, order in {
        Release.A: [],
        Release.B: [],
        Release.C: ["one-model", "other-model"],
        Release.D: ["one-model", "other-model"],
    }.items():
        assert assert_same(Legs(vector, keyword), Settings(release, now=NOW)) == order
    for release in (Release.B, Release.C, Release.D):
        low = Settings(release, vector_weight=0.5, text_weight=0.1, min_score=0.3, now=NOW)
        assert "one-model" in assert_same(Legs(vector, keyword), low)
    strict = (Candidate("one-model", "memory/a.md", vector_score=0.9),)
    for release in Release:
        assert assert_same(Legs(strict, keyword), Settings(release, now=NOW)) == ["one-model"]


def test_scores_that_decay_makes_equal_keep_the_order_of_the_legs() -> None:
    vector = (Candidate("aged", "memory/2026-10-17.md", vector_score=0.8),)
    keyword = (Candidate("evergreen", "MEMORY.md", text_score=0.4),)
    noon = datetime(2026, 11, 16, tzinfo=UTC)
    for release in (Release.B, Release.C):
        even = Settings(release, 0.5, 0.5, min_score=0.0, decay_enabled=True, now=noon)
        assert assert_same(Legs(vector, keyword), even) == ["aged", "evergreen"]
        turned = Legs(
            (
                Candidate("evergreen", "MEMORY.md", vector_score=0.4),
                Candidate("aged", "memory/2026-10-17.md", vector_score=0.2),
            ),
            (Candidate("aged", "memory/2026-10-17.md", text_score=0.6),),
        )
        assert assert_same(turned, even) == ["evergreen", "aged"]


def test_vectors_alone_are_sorted_again_by_what_decay_left_in_the_newest_release() -> None:
    hits = (
        Candidate("old", "memory/2026-01-01.md", vector_score=0.9),
        Candidate("new", "memory/2026-11-16.md", vector_score=0.8),
    )
    for release in Release:
        search = Settings(release, hybrid=False, decay_enabled=True, min_score=0.0, now=NOW)
        order = assert_same(Legs(hits, ()), search, SearchMode.VECTOR_ONLY)
        assert order == (["new", "old"] if release is Release.D else ["old", "new"])


def test_pictures_count_by_their_vector_unless_vectors_count_for_nothing() -> None:
    hits = (
        Candidate("note", "notes/a.md", vector_score=0.9),
        Candidate("picture", "media/photo.png", vector_score=0.8),
    )
    plain = Settings(Release.D, min_score=0.0, now=NOW)
    assert assert_same(Legs(hits, ()), plain) == ["picture", "note"]
    textual = replace(plain, vector_weight=0.0, text_weight=1.0)
    assert assert_same(Legs(hits, ()), textual) == ["picture", "note"]
