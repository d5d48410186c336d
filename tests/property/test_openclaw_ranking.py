"""memtui's ranking under the OpenClaw profiles against a literal reference, over random pools."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtui.model import (
    SearchMode,
)
from memtui.ranking.pipeline import rank
from tests.support.examples import examples
from tests.support.openclaw_literal import (
    Answer,
    Settings,
    asked,
    candidate_count,
    decay_factor,
    merge,
    select,
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
from tests.support.openclaw_rules import (
    Candidate,
    Release,
    bm25_rank_to_score,
    collation,
    decay_multiplier,
    exact_path_tie,
    importance_multiplier,
    is_evergreen,
    jaccard,
    lexical_boost,
    mmr,
    mmr_score,
    path_date,
    similarity,
    tokenize,
)

DATA = Path(__file__).parent.parent / "data"
VERSIONS = {"2026_4_26": Release.B, "2026_9_6": Release.D}


def known(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def named(cases: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in cases]


HYBRID, MMR = known("hybrid_merge"), known("mmr")
DECAY, BM25 = known("temporal_decay"), known("bm25_score")


# The reference itself against the known answers.


def hit(row: Mapping[str, Any]) -> Candidate:
    """A hit as the vector files write it; a text score of 0 beside a path score is no body match."""
    body = row.get("textScore") or not row.get("pathScore")
    return Candidate(
        row["id"],
        row["path"],
        source=row.get("source", "memory"),
        start_line=row.get("startLine", 1),
        end_line=row.get("endLine", 1),
        snippet=row.get("snippet", ""),
        vector_score=row.get("vectorScore", row.get("score")),
        text_score=row.get("textScore") if body else None,
        path_score=row.get("pathScore"),
        exact_path_tier=row.get("exactPathSpecificity", 0),
        importance=row.get("importance"),
        project_keys=(row["projectKey"],) if "projectKey" in row else (),
    )


def parameters(given: Mapping[str, Any], release: Release) -> Settings:
    diversity, decay = given.get("mmr", {}), given.get("temporalDecay", {})
    return Settings(
        release,
        vector_weight=given["vectorWeight"],
        text_weight=given["textWeight"],
        mmr_enabled=diversity.get("enabled", False),
        mmr_lambda=diversity.get("lambda", 0.7),
        decay_enabled=decay.get("enabled", False),
        half_life_days=decay.get("halfLifeDays", 30),
        active_project_keys=tuple(given.get("activeProjectKeys", ())),
        now=datetime.fromtimestamp(given.get("nowMs", 0) / 1000, UTC),
    )


def assert_rows(answers: Sequence[Answer], expected: Sequence[Mapping[str, Any]]) -> None:
    assert [answer.path for answer in answers] == [row["path"] for row in expected]
    for answer, row in zip(answers, expected, strict=True):
        assert answer.score == pytest.approx(row["score"], abs=1e-15, rel=1e-13)
        assert answer.vector_score == row.get("vectorScore", answer.vector_score)
        assert answer.text_score == row.get("textScore", answer.text_score)
        assert answer.snippet == row.get("snippet", answer.snippet)
        assert answer.start_line == row.get("startLine", answer.start_line)


@pytest.mark.parametrize(
    ("case", "version"),
    [
        pytest.param(case, version, id=f"{version}-{case['name']}")
        for case in HYBRID["cases"]
        for version in VERSIONS
        if f"expected_{version}" in case
    ],
)
def test_reference_merges_as_released(case: Mapping[str, Any], version: str) -> None:
    expected, given = case[f"expected_{version}"], case["input"]
    settings = parameters(given, VERSIONS[version])
    answers = merge([hit(r) for r in given["vector"]], [hit(r) for r in given["keyword"]], settings)
    assert_rows(answers, expected)


def answer(row: Mapping[str, Any]) -> Answer:
    return Answer(
        row["path"],
        row["path"],
        row["source"],
        row["startLine"],
        row["endLine"],
        row["score"],
        row["vectorScore"],
        row["textScore"],
        row["snippet"],
    )


def range_of(text: str) -> tuple[str, str, int, int]:
    source, path, start, end = text.split(":")
    return source, path, int(start), int(end)


@pytest.mark.parametrize("case", named(HYBRID["selection"]))
def test_reference_selects_as_released(case: Mapping[str, Any]) -> None:
    settings = Settings(Release.D, max_results=case["maxResults"], min_score=case["minScore"])
    ranges = [range_of(text) for text in case["keyword_ranges"]]
    chosen = select([answer(row) for row in case["merged"]], ranges, settings)
    assert [found.path for found in chosen] == case["expected_2026_9_6_paths"]


@pytest.mark.parametrize("case", named(HYBRID["minscore_relax_2026_4_26"]))
def test_reference_relaxes_as_released(case: Mapping[str, Any]) -> None:
    settings = Settings(Release.B)
    found = Answer("a", "a.md", "memory", 1, 1, case["merged_score"], 0.0, 1.0, "")
    ranges = [("memory", "a.md", 1, 1)] if case["in_keyword_results"] else []
    assert bool(select([found], ranges, settings)) is case["kept"]


def test_reference_multiplies_as_released() -> None:
    for case in HYBRID["exact_path_tie"]:
        assert exact_path_tie(case["content"]) == case["score"]
    for case in HYBRID["importance_multiplier"]:
        assert importance_multiplier(case["importance"]) == case["multiplier"]
    for case in known("config_and_output")["candidate_count"]:
        settings = Settings(
            Release.B, max_results=case["maxResults"], candidate_multiplier=case["multiplier"]
        )
        assert candidate_count(settings) == case["out"]


@pytest.mark.parametrize("case", named(BM25["cases"]))
def test_reference_maps_bm25_as_released(case: Mapping[str, Any]) -> None:
    rank = float(case["rank"])
    assert bm25_rank_to_score(rank, signed=False) == case["clamp_form"]
    assert bm25_rank_to_score(rank, signed=True) == case["signed_form"]


@pytest.mark.parametrize("case", named(known("fallback_boost")["cases"]))
def test_reference_boosts_as_released(case: Mapping[str, Any]) -> None:
    boost = lexical_boost(case["query"], case["path"], case["text"])
    assert min(1.0, case["ftsScore"] + boost) == pytest.approx(case["score_2026_4_26"], abs=1e-15)


def test_reference_compares_texts_as_released() -> None:
    for case in MMR["tokenize"]:
        assert sorted(tokenize(case["input"])) == sorted(case["tokens"])
    for case in MMR["jaccard"]:
        assert jaccard(set(case["a"]), set(case["b"])) == case["expected"]
    for case in MMR["text_similarity_by_tokens"]:
        for release in VERSIONS.values():
            assert similarity(case["a"], case["b"], release) == case["expected"]
    for case in MMR["mmr_score"]:
        value = mmr_score(case["relevance"], case["similarity"], case["lambda"])
        assert value == pytest.approx(case["expected"], abs=1e-15)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", named(MMR["rerank"]))
def test_reference_diversifies_as_released(case: Mapping[str, Any], version: str) -> None:
    items = [(row["id"], float(row["score"]), row["text"]) for row in case["items"]]
    lambda_ = case["config"].get("lambda", MMR["defaults"]["lambda"])
    ordered = [item[0] for item in mmr(items, lambda_, VERSIONS[version])]
    assert ordered == case[f"order_{version}"]
    assert ordered == case.get("asserted_upstream_order", ordered)


def test_reference_takes_texts_without_words_by_their_release() -> None:
    assert similarity("привет", "мир", Release.C) == 1.0
    assert similarity("привет", "мир", Release.D) == 0.0
    assert similarity(" Привет", "привет\n", Release.D) == 1.0
    assert similarity("привет", "hello", Release.B) == 0.0


@pytest.mark.parametrize("version", VERSIONS)
def test_reference_ages_as_released(version: str) -> None:
    release = VERSIONS[version]
    for case in DECAY["multipliers"]:
        multiplier = decay_multiplier(case["age_days"], case["half_life_days"])
        assert multiplier == pytest.approx(case["multiplier"], rel=1e-13)
    assert decay_multiplier(7, 30) == pytest.approx(0.8507, abs=5e-5)
    assert decay_multiplier(7, math.inf) == decay_multiplier(7, math.nan) == 1.0
    for case in DECAY["path_dates"]:
        day = path_date(case["path"], release)
        assert (day.isoformat() if day else None) == case[f"date_{version}"], case["path"]
        assert is_evergreen(case["path"], release) is case[f"evergreen_{version}"], case["path"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", named(DECAY["merged"]))
def test_reference_decays_as_released(case: Mapping[str, Any], version: str) -> None:
    settings = Settings(
        VERSIONS[version],
        vector_weight=1.0,
        text_weight=0.0,
        decay_enabled=True,
        half_life_days=case["half_life_days"],
        now=datetime.fromisoformat(case["now"]),
    )
    assert_rows(
        merge([hit(row) for row in case["vector"]], [], settings), case[f"expected_{version}"]
    )


def test_reference_ages_files_as_released() -> None:
    evergreen, by_time, stored = DECAY["file_cases"]
    for row, before, after in zip(
        evergreen["files"], evergreen["scores_in"], evergreen["scores_out"], strict=True
    ):
        mtime = datetime.fromisoformat(row["mtime"]).replace(tzinfo=UTC).timestamp() * 1000
        for release in Release:
            settings = Settings(release, decay_enabled=True)
            factor = decay_factor(Candidate("a", row["path"], mtime=mtime), settings)
            assert before * factor == after
    settings = Settings(Release.B, decay_enabled=True, half_life_days=by_time["half_life_days"])
    then = settings.now - timedelta(days=by_time["files"][0]["mtime_days_before_now"])
    found = Candidate(
        "a", by_time["files"][0]["path"], by_time["source"], mtime=then.timestamp() * 1000
    )
    factor = decay_factor(found, settings)
    assert by_time["score_in"] * factor == pytest.approx(by_time["score_out_close_to"])
    newest = Settings(Release.D, decay_enabled=True)
    unknown = Candidate("a", "sessions/main/x.jsonl", stored["source"])
    assert decay_factor(unknown, newest) == 1.0


def test_reference_orders_paths_by_letters_before_case() -> None:
    paths = ["USER.md", "memory/b.md", "MEMORY.md", "memory/a-b.md", "memory/a.md", "memory.md"]
    assert sorted(paths, key=collation) == [
        "memory.md",
        "MEMORY.md",
        "memory/a-b.md",
        "memory/a.md",
        "memory/b.md",
        "USER.md",
    ]


# memtui against the reference.

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
