"""The query rules of every release, known answers, and its keyword leg on real FTS5 tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from memtui.errors import SettingsError
from memtui.index.database import Connection, open_database
from memtui.model import Chunk, DateRule, Reason, ScoreMapping
from memtui.ranking.collation import collation_key
from memtui.ranking.stages import chunk_day
from memtui.retrieval.openclaw import keyword_leg
from memtui.retrieval.openclaw.candidates import matched_terms
from memtui.retrieval.openclaw.keyword_leg import (
    KeywordAnswer,
    OpenClawKeywordLeg,
    boosted_score,
    contains,
    contains_conditions,
    exact_path_tier,
)
from memtui.retrieval.openclaw.tables import KeywordHit, Layout, SearchScope
from memtui.retrieval.openclaw.terms import (
    KeywordPlan,
    extract_keywords,
    like_pattern,
    match_all,
    plan_keyword,
    searched_part,
    tokens,
)
from memtui.settings.openclaw.releases import RELEASES, Release, ShortTerms, release_named
from memtui.text.tokens import MAX_QUERY_CHARS
from tests.support.known import DATA, cases, load

FIRST, SECOND, THIRD, FOURTH = RELEASES.values()
PROFILES = {"2026.4.26": SECOND, "2026.9.6": FOURTH}
BY_PROFILE: dict[str, Any] = {"ids": lambda release: release.name}
MODEL, OTHER_MODEL = "text-embedding-3-small", "nomic-embed-text"
WITH_PROVIDER, WITHOUT_PROVIDER = SearchScope(MODEL), SearchScope(None)
MAPPING = ScoreMapping.SIGNED
CROSS_MODEL = "keyword search ignores the embedding model column"


class Tables:
    """The tables of one index, filled row by row."""

    def __init__(self, connection: Connection, tokenizer: str) -> None:
        self.connection = connection
        self.names = Layout(
            chunks="chunks", fts="fts", vec=None, paths_fts="paths", tokenizer=tokenizer
        )
        option = ", tokenize='trigram case_sensitive 0'" if tokenizer == "trigram" else ""
        connection.execute(
            "CREATE TABLE chunks(id TEXT PRIMARY KEY, path, source, start_line, end_line, text);"
            "CREATE VIRTUAL TABLE fts USING fts5(text, id UNINDEXED, path UNINDEXED,"
            f" source UNINDEXED, model UNINDEXED, start_line UNINDEXED, end_line UNINDEXED{option});"
            f"CREATE VIRTUAL TABLE paths USING fts5(path, source UNINDEXED{option})"
        )

    def add(
        self,
        chunk_id: str,
        text: str,
        path: str = "memory/note.md",
        *,
        model: str = MODEL,
        source: str = "memory",
        line: int = 1,
        alive: bool = True,
    ) -> None:
        if alive:
            self.connection.execute(
                "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?)",
                (chunk_id, path, source, line, line, text),
            )
        self.connection.execute(
            "INSERT INTO fts(text, id, path, source, model, start_line, end_line)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (text, chunk_id, path, source, model, line, line),
        )
        self.connection.execute(
            "INSERT INTO paths(path, source) SELECT ?1, ?2 WHERE NOT EXISTS"
            " (SELECT 1 FROM paths WHERE path = ?1 AND source = ?2)",
            (path, source),
        )

    def leg(
        self, release: Release, scope: SearchScope = WITH_PROVIDER, limit: int = 24
    ) -> OpenClawKeywordLeg:
        return OpenClawKeywordLeg(self.connection, self.names, release, scope, limit, MAPPING)

    def search(
        self, release: Release, query: str, scope: SearchScope = WITH_PROVIDER, limit: int = 24
    ) -> KeywordAnswer:
        return self.leg(release, scope, limit).search(query)

    def paths_found(self, query: str, limit: int = 24) -> list[KeywordHit]:
        """What 2026.9 finds by paths alone."""
        hits = self.search(FOURTH, query, limit=limit).hits
        return [hit for hit in hits if not hit.has_body]


def ids(answer: KeywordAnswer) -> list[str]:
    return [hit.id for hit in answer.hits]


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    opened = open_database(tmp_path / "index.db")
    yield opened
    opened.close()


@pytest.fixture
def words(connection: Connection) -> Tables:
    return Tables(connection, "unicode61")


@pytest.fixture
def trigrams(connection: Connection) -> Tables:
    return Tables(connection, "trigram")


@pytest.mark.parametrize("version", PROFILES)
@pytest.mark.parametrize(
    "case",
    [case for case in cases("keyword_plan", "search_expectations") if case.id != CROSS_MODEL],
)
def test_known_searches(
    connection: Connection, case: dict[str, Any], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = PROFILES[version]
    tables = Tables(connection, case["tokenizer"])
    for row in case["rows"]:
        tables.add(row["id"], row["text"], row["path"])
    forced = case.get("forced_match_expression")
    if forced is not None:
        monkeypatch.setattr(keyword_leg, "plan_keyword", lambda *_, **__: KeywordPlan(forced))
    if forced is not None and not release.match_failure:
        # Up to 2026.5 the leg finds nothing (OPENCLAW.md section 6).
        answer = tables.search(release, case["query"])
        assert answer.hits == ()
        assert answer.refusal == 'fts5: syntax error near "<"'
        return
    hits = tables.leg(release).body_hits(case["query"])
    assert [hit.id for hit in hits] == case["ids"]
    if "textScore_first" in case:
        assert hits[0].text_score == case["textScore_first"][version]


@pytest.mark.parametrize(
    "case", load("agents")["searches of releases"], ids=lambda case: str(case["what"])
)
def test_what_a_release_finds_and_which_keywords_it_asks_for(
    connection: Connection, case: dict[str, Any]
) -> None:
    tables = Tables(connection, case["tokenizer"])
    for chunk_id, text, *fields in case["rows"]:
        tables.add(chunk_id, text, **(fields[0] if fields else {}))
    for names, query, provider, limit, found, keywords in case["answers"]:
        scope = WITH_PROVIDER if provider == "provider" else WITHOUT_PROVIDER
        for release in (RELEASES[f"openclaw-{name}"] for name in names.split()):
            answer = tables.search(release, query, scope, limit=limit)
            assert " ".join(ids(answer)) == found
            assert " ".join(answer.keywords) == keywords
            for word in answer.keywords if not release.has_paths else ():
                alone = {hit.id: hit.score for hit in tables.search(release, word, scope).hits}
                assert all(hit.score >= alone.get(hit.id, 0.0) for hit in answer.hits)


@pytest.mark.parametrize("release", RELEASES.values(), **BY_PROFILE)
def test_sources_are_filtered_before_the_cut(words: Tables, release: Release) -> None:
    for number in range(5):
        words.add(f"s{number}", "router", f"sessions/{number}.jsonl", source="sessions")
    words.add("note", "router and many more words of a longer note")
    scope = SearchScope(MODEL, ("memory",))
    assert ids(words.search(release, "router", scope, limit=1)) == ["note"]
    assert ids(words.search(release, "router", SearchScope(MODEL, ()), limit=1)) == []


def test_a_path_before_the_text_is_taken_off(words: Tables) -> None:
    words.add("a", "memory/note.md\nrouter")
    assert words.search(THIRD, "router").hits[0].text == "router"


TEXTS = (
    *("plain ASCII, AK and ss", "PLAIN", "", "a\x00b k9", "gr\u00f6\u00dfe ak", "I\u0307 \u0130i"),
    *("\u212aelvin, \u017fo", "e\u0301a\u0300", "e\u0301k", "\u4eca\u5929 x_\u6210", "\uf900"),
)
TERMS = "ak K s so e \u00e9 E\u0301 \u4eca \u8c48 _ i 9 \u212a".split()


@pytest.mark.parametrize("term", TERMS)
def test_terms_are_told_in_sql_as_in_python(connection: Connection, term: str) -> None:
    OpenClawKeywordLeg(connection, Layout("t", None, None), FOURTH, WITH_PROVIDER)
    connection.execute("CREATE TABLE t(text)")
    for text in (*TEXTS, 199, None, b"\xffAk", "\u00e9".encode()):
        connection.execute("INSERT INTO t VALUES (?)", (text,))
    condition, values = contains_conditions("text", [term])
    found = connection.execute(f"SELECT rowid FROM t WHERE 1=1{condition}", values).fetchall()
    rows = connection.execute("SELECT rowid, text FROM t").fetchall()
    assert [row[0] for row in found] == [rowid for rowid, text in rows if contains(text, term)]


@pytest.mark.parametrize("scope", [WITH_PROVIDER, WITHOUT_PROVIDER], ids=["with", "without"])
@pytest.mark.parametrize("release", [SECOND, THIRD, FOURTH], **BY_PROFILE)
def test_more_short_terms_than_an_expression_takes(
    trigrams: Tables, release: Release, scope: SearchScope
) -> None:
    trigrams.add("a", "\u6771\u4eac")
    answer = trigrams.search(release, "\u6771\u4eac " * 1200, scope)
    assert answer.refusal.startswith("Expression tree is too large")
    by_keyword = [] if (release, scope) == (SECOND, WITH_PROVIDER) else ["a"]
    assert ids(answer) == by_keyword


@pytest.mark.parametrize("tokenizer", ["unicode61", "trigram"])
def test_paths_that_are_no_paths(connection: Connection, tokenizer: str) -> None:
    tables = Tables(connection, tokenizer)
    tables.add("good", "text", "memory/\u00e9 ab router.md")
    for chunk_id, path in (("bytes", "CAST(x'6162ff20726f75746572' AS TEXT)"), ("none", "NULL")):
        connection.execute(f"INSERT INTO paths(path, source) VALUES ({path}, 'memory')")
        connection.execute(
            f"INSERT INTO chunks VALUES (?, {path}, 'memory', 'x', 1, 'text')", (chunk_id,)
        )
    for query in ("router", "ab", "\u00e9"):
        found = {hit.id: hit.path for hit in tables.paths_found(query)}
        assert found.pop("good") == "memory/\u00e9 ab router.md"
        assert found in ({}, {"bytes": "ab\ufffd router"})


@pytest.fixture
def named(words: Tables) -> Tables:
    for number, path in enumerate(load("agents")["files with names"]):
        words.add(f"{number}a", "first words", path, line=1)
        words.add(f"{number}b", "second words", path, line=7)
    return words


@pytest.mark.parametrize(("query", "paths"), load("agents")["paths that a query names"])
def test_paths_that_a_query_names(named: Tables, query: str, paths: list[str]) -> None:
    found = [hit.path for hit in named.paths_found(query)]
    assert found[: len(paths)] == paths
    assert paths or found == []


def test_words_find_no_exact_name_that_the_whole_query_is_not(named: Tables) -> None:
    hits = named.paths_found("where is the router")
    assert len(hits) == 3
    assert {hit.tier for hit in hits} == {0}


def test_exact_names_come_first_and_do_not_use_up_places(named: Tables) -> None:
    named.add("body", "router router router", "memory/body.md")
    hits = named.search(FOURTH, "router", limit=1).hits
    assert [hit.tier for hit in hits] == [1, 1, 0]
    assert [hit.path for hit in hits[:2]] == ["memory/deep/router.md", "memory/router.md"]
    assert all(hit.score == 1.0 for hit in hits[:2])
    assert [hit.path for hit in named.paths_found("deep", limit=1)] == ["memory/deep/router.md"]


def test_paths_of_sources_that_are_off_stay_out(words: Tables) -> None:
    words.add("s", "text", "sessions/main/router.jsonl", source="sessions")
    words.add("m", "text", "memory/router.md")
    scope = SearchScope(MODEL, ("memory",))
    assert ids(words.search(FOURTH, "router", scope)) == ["m"]
    assert set(ids(words.search(FOURTH, "router"))) == {"m", "s"}


@pytest.mark.parametrize("form", ["caf\u00e9", "cafe\u0301"], ids=["NFC", "NFD"])
@pytest.mark.parametrize("tokenizer", ["unicode61", "trigram"])
def test_paths_are_found_in_either_composition(
    connection: Connection, tokenizer: str, form: str
) -> None:
    tables = Tables(connection, tokenizer)
    tables.add("c", "text", "memory/le caf\u00e9 noir.md")
    tables.add("d", "text", "memory/le cafe\u0301 blanc.md")
    assert {hit.path for hit in tables.paths_found(form)} == {
        "memory/le caf\u00e9 noir.md",
        "memory/le cafe\u0301 blanc.md",
    }


def test_an_index_without_full_text(words: Tables) -> None:
    bare = Layout(chunks="chunks", fts=None, vec=None)
    for release in RELEASES.values():
        leg = OpenClawKeywordLeg(words.connection, bare, release, WITH_PROVIDER, 24, MAPPING)
        assert leg.search("router").hits == ()


@pytest.mark.parametrize("case", cases("keyword_plan"))
@pytest.mark.parametrize(
    ("key", "profile"), [("v2026_4_26", "openclaw-2026.4"), ("v2026_9_6", "openclaw-2026.9")]
)
def test_keyword_plan(case: dict[str, Any], key: str, profile: str) -> None:
    release = RELEASES[profile]
    plan = plan_keyword(case["query"], tokenizer=case["tokenizer"], short_terms=release.short_terms)
    assert plan == KeywordPlan(case[key]["matchQuery"], tuple(case[key]["substringTerms"]))


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


@pytest.mark.parametrize(("query", "path", "tier"), load("agents")["exact names"])
def test_exact_names_fold_case_separators_and_marks(query: str, path: str, tier: int) -> None:
    assert exact_path_tier(query, path) == tier


@pytest.mark.parametrize("case", cases("fts_query"))
def test_match_expressions_of_every_release(case: dict[str, Any]) -> None:
    """Of 2026.2.17 on; that of 2026.2.1, ASCII words alone, no profile stands for."""
    assert match_all(tokens(case["input"])) == case["unicode"]
    assert case["same_in_2026_4_26"]


def test_short_terms_are_substrings_only_under_trigram() -> None:
    for rule in get_args(ShortTerms):
        assert plan_keyword("ab 成", tokenizer="unicode61", short_terms=rule).substrings == ()
    assert plan_keyword("ab", tokenizer="trigram", short_terms="all").match is None
    assert like_pattern("50%_\\") == "%50\\%\\_\\\\%"


def test_names_sort_as_locale_compare_sorts_them() -> None:
    """In the order that `localeCompare` of Node.js 20 (ICU, root locale) gives."""
    names = (DATA / "sorted_names.txt").read_text("utf-8").splitlines()
    assert sorted(sorted(names), key=collation_key) == names


def test_a_profile_that_is_no_release_is_refused() -> None:
    with pytest.raises(SettingsError, match="memtui is not how the agent's program searches"):
        release_named("memtui")


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
