"""Known answers of OpenClaw's query rules: plans, keywords, boosts, exact names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memtui.errors import SettingsError
from memtui.model import Chunk, DateRule, Reason
from memtui.ranking.collation import collation_key
from memtui.ranking.decay import chunk_day
from memtui.retrieval.openclaw.candidates import matched_terms
from memtui.retrieval.openclaw.fts_search import boosted_score, exact_path_tier
from memtui.retrieval.openclaw.release import RELEASES, ShortTerms, release_of
from memtui.retrieval.openclaw.terms import (
    KeywordPlan,
    extract_keywords,
    like_pattern,
    match_all,
    plan_keyword,
    searched_part,
    tokens,
)
from memtui.text.tokens import MAX_QUERY_CHARS

DATA = Path(__file__).parent.parent / "data"


def cases(name: str, key: str = "cases") -> list[Any]:
    content = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))[key]
    return [pytest.param(case, id=str(case.get("name", n))) for n, case in enumerate(content)]


SORTED_NAMES = (
    "../notes/a.md",
    "MEMORY.md",
    "memory/_x.md",
    "memory/(draft).md",
    "memory/#1.md",
    "memory/~tmp.md",
    "memory/10.md",
    "memory/2026-11-02-vendor.md",
    "memory/2026-11-02.md",
    "memory/9.md",
    "memory/a b.md",
    "memory/a-b.md",
    "memory/a.b.md",
    "memory/a.md",
    "memory/A.md",
    "memory/archive/2025-10-08-search.md",
    "memory/b.md",
    "memory/cafe.md",
    "memory/Café.md",
    "memory/cafz.md",
    "memory/łódź.md",
    "memory/notes-zh-1.md",
    "memory/strasse.md",
    "memory/straße.md",
    "memory/α.md",
    "memory/я.md",
    "memory/서버.md",
    "memory/あ.md",
    "memory/京都.md",
    "sessions/main/x.jsonl",
    "USER.md",
)
"""In the order that `localeCompare` of Node.js 20 (ICU, root locale) gives."""


def as_plan(expected: dict[str, Any]) -> KeywordPlan:
    return KeywordPlan(expected["matchQuery"], tuple(expected["substringTerms"]))


@pytest.mark.parametrize("case", cases("keyword_plan"))
@pytest.mark.parametrize(
    ("key", "profile"), [("v2026_4_26", "openclaw-2026.4"), ("v2026_9_6", "openclaw-2026.9")]
)
def test_keyword_plan(case: dict[str, Any], key: str, profile: str) -> None:
    release = RELEASES[profile]
    plan = plan_keyword(
        case["query"],
        tokenizer=case["tokenizer"],
        short_terms=release.short_terms,
    )
    assert plan == as_plan(case[key])


@pytest.mark.parametrize("case", cases("query_expansion"))
def test_keywords(case: dict[str, Any]) -> None:
    plain = extract_keywords(case["query"], trigram=False)
    assert plain == case["keywords_unicode61"]
    assert extract_keywords(case["query"], trigram=True) == case["keywords_trigram"]
    assert set(case["contains"]) <= set(plain)
    assert set(case["excludes"]).isdisjoint(plain)


@pytest.mark.parametrize("normalised", [False, True], ids=["2026.4.26", "2026.9.6"])
@pytest.mark.parametrize("case", cases("fallback_boost"))
def test_boost(case: dict[str, Any], normalised: bool) -> None:
    boosted = boosted_score(
        case["query"], case["path"], case["text"], case["ftsScore"], normalised=normalised
    )
    assert boosted == pytest.approx(case["score_2026_4_26"], abs=1e-15)


def test_the_boost_of_2026_9_compares_composed_text_without_case() -> None:
    decomposed, composed = "cafe\u0301 Σ", "CAFÉ ς"
    text = f"{composed} by the sea"
    newer = boosted_score(decomposed, "memory/x.md", text, 0.0, normalised=True)
    older = boosted_score(decomposed, "memory/x.md", text, 0.0, normalised=False)
    assert newer > older


@pytest.mark.parametrize("case", cases("hybrid_merge", "exact_path_specificity"))
def test_exact_path_tier(case: dict[str, Any]) -> None:
    for path in case["paths"]:
        assert exact_path_tier(case["query"], path["path"]) == path["specificity"]


@pytest.mark.parametrize(
    ("query", "path", "tier"),
    [
        ("MEMORY\\Deep\\README.MD", "memory/deep/readme.md", 3),
        ("cafe\u0301.md", "memory/Café.md", 2),
        (".hidden", "memory/.hidden", 2),
        ("archive.tar", "memory/archive.tar.gz", 1),
        ("./", "memory/a.md", 0),
    ],
)
def test_exact_names_fold_case_separators_and_marks(query: str, path: str, tier: int) -> None:
    assert exact_path_tier(query, path) == tier


@pytest.mark.parametrize("case", cases("fts_query"))
def test_match_expressions_of_every_release(case: dict[str, Any]) -> None:
    """Of 2026.2.17 on; that of 2026.2.1, ASCII words alone, no profile stands for."""
    assert match_all(tokens(case["input"])) == case["unicode"]
    assert case["same_in_2026_4_26"]


def test_short_terms_are_substrings_only_under_trigram() -> None:
    for rule in ShortTerms:
        assert plan_keyword("ab 成", tokenizer="unicode61", short_terms=rule).substrings == ()
    assert plan_keyword("ab", tokenizer="trigram", short_terms=ShortTerms.ALL).match is None


def test_like_pattern_finds_its_own_wildcards_literally() -> None:
    assert like_pattern("50%_\\") == "%50\\%\\_\\\\%"


def test_names_sort_as_locale_compare_sorts_them() -> None:
    names = [*SORTED_NAMES[::-1]]
    names.sort(key=collation_key)
    assert names == list(SORTED_NAMES)


def test_a_profile_that_is_no_release_is_refused() -> None:
    with pytest.raises(SettingsError, match="memtui is not how the agent's program searches"):
        release_of("memtui")


def test_the_part_of_a_query_that_is_searched() -> None:
    assert searched_part("a" * MAX_QUERY_CHARS) == "a" * MAX_QUERY_CHARS
    assert searched_part("a" * (MAX_QUERY_CHARS + 1)) == "a" * MAX_QUERY_CHARS
    words = "alpha " * 1000
    assert searched_part(words) == "alpha " * (MAX_QUERY_CHARS // 6)
    assert searched_part(" " * 1 + "b" * (MAX_QUERY_CHARS - 1) + " c") == " " + "b" * (
        MAX_QUERY_CHARS - 1
    )


@pytest.mark.parametrize("tokenizer", ["unicode61", "trigram"])
def test_the_terms_that_a_text_holds(tokenizer: str) -> None:
    query = "Router router gr\u00f6\u00dfe VLAN router"
    text = "the ROUTER of vlan 7"
    assert matched_terms(query, text, tokenizer) == ("Router", "router", "VLAN")
    assert matched_terms(query, f"{text} GR\u00d6\u1e9eE", tokenizer) == (
        "Router",
        "router",
        "gr\u00f6\u00dfe",
        "VLAN",
    )


RULES = [rule for rule in DateRule if rule is not DateRule.MEMTUI]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "path",
    ["memory/\uff12\uff10\uff12\uff16-\uff10\uff11-\uff10\uff11.md", "memory/2026-01-01.md\n"],
)
def test_dates_that_only_python_sees(path: str, rule: DateRule) -> None:
    chunk = Chunk("i", path, "memory", 1, 2, "t", "h", "m")
    assert chunk_day(chunk, rule) == (None, Reason.EVERGREEN)


@pytest.mark.parametrize("rule", DateRule)
def test_a_time_that_no_date_holds(rule: DateRule) -> None:
    chunk = Chunk("i", "sessions/a.jsonl", "sessions", 1, 2, "t", "h", "m", mtime_ns=10**24)
    assert chunk_day(chunk, rule) == (None, Reason.NO_DATE)
    assert chunk_day(replace(chunk, mtime_ns=10**40), rule) == (None, Reason.NO_DATE)
