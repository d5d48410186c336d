"""What a typed query is taken to mean."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memtui.model import LegStatus
from memtui.retrieval.filters import RowFilter
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.query import MAX_LENGTH, Query, parse_query, phrase_match, phrase_segments
from tests.support.rows import IndexFile


def words(query: Query) -> list[str]:
    return [term.text for term in query.terms.terms]


def test_words_phrases_and_filters_are_told_apart() -> None:
    query = parse_query(
        'router "rate limit" path:network/*.md source:sessions after:2026-01-02 before:2026-03-01 key'
    )
    assert words(query) == ["router", "key"]
    assert query.phrases == ("rate limit",)
    assert query.text == "router rate limit key"
    assert query.filters.path_globs == ("network/*.md",)
    assert query.filters.sources == ("sessions",)
    assert (query.filters.after, query.filters.before) == (date(2026, 1, 2), date(2026, 3, 1))
    assert query.problems == ()


def test_the_raw_text_is_kept_as_typed() -> None:
    assert parse_query("  a\tpath:x ").raw == "  a\tpath:x "


@pytest.mark.parametrize("text", ["", "   ", "path:notes", "after:2026-01-01 source:a", '""'])
def test_a_query_without_words_has_no_text(text: str) -> None:
    query = parse_query(text)
    assert query.text == ""
    assert query.terms.terms == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("after:2026-13-01 x", "after:2026-13-01 is no day: month must be in 1..12"),
        ("before:yesterday x", "before:yesterday is no day: write YYYY-MM-DD"),
        ("after:20260101 x", "after:20260101 is no day: write YYYY-MM-DD"),
        ("after:２０２６-01-01 x", "after:２０２６-01-01 is no day: write YYYY-MM-DD"),
        ("path: x", "path: has no value"),
        ('"never closed x', 'a quote " is not closed: searched as single words'),
        ('"?!" x', '"?!" holds no letter or digit: left out'),
        (
            "after:2026-02-01 before:2026-01-01 x",
            "no day is after:2026-02-01 and before:2026-01-01",
        ),
    ],
)
def test_what_makes_no_sense_is_a_problem_and_the_rest_is_searched(text: str, problem: str) -> None:
    query = parse_query(text)
    assert query.problems == (problem,)
    assert "x" in words(query)


@pytest.mark.parametrize("text", ["path:", "x after:", '"half a phr', 'x "'])
def test_what_is_unfinished_is_no_problem_while_typing(text: str) -> None:
    assert parse_query(text, typing=True).problems == ()


def test_a_filter_value_with_spaces_is_quoted() -> None:
    assert parse_query('path:"my notes/*" x').filters.path_globs == ("my notes/*",)


def test_repeated_filters_of_a_kind_are_alternatives_and_dates_narrow() -> None:
    filters = parse_query(
        "PATH:a path:b after:2026-01-01 after:2026-02-01 before:2026-05-01 before:2026-04-01"
    ).filters
    assert filters.path_globs == ("a", "b")
    assert (filters.after, filters.before) == (date(2026, 2, 1), date(2026, 4, 1))


def test_a_colon_elsewhere_is_text() -> None:
    query = parse_query("https://example.org/path:x todo:buy")
    assert not query.filters
    assert query.text == "https://example.org/path:x todo:buy"


def test_curly_quotes_are_quotes_and_inches_are_not() -> None:
    assert parse_query("“rate limit”").phrases == ("rate limit",)
    assert parse_query('a 27" screen').phrases == ()
    assert parse_query('关于"东京会议"的').phrases == ("东京会议",)


@pytest.mark.parametrize(
    ("text", "last", "kind"),
    [
        ("router ven", "ven", "prefix"),
        ("router ve", "ve", "word"),
        ("router vendor ", "vendor", "word"),
        ('router "half ven', "ven", "prefix"),
        ("vendor path:x", "vendor", "word"),
        ('vendor "a b"', "vendor", "word"),
    ],
)
def test_while_typing_the_last_word_is_a_beginning(text: str, last: str, kind: str) -> None:
    term = parse_query(text, typing=True).terms.terms[-1]
    assert (term.text, term.kind) == (last, kind)


def test_a_word_is_a_beginning_only_while_typing() -> None:
    assert parse_query("router ven").terms.terms[-1].kind == "word"


def test_one_character_of_a_script_without_spaces_is_a_word() -> None:
    assert parse_query("税").spaceless
    assert parse_query('"税"').spaceless
    assert not parse_query("a").spaceless


def test_control_characters_and_lone_surrogates_are_harmless() -> None:
    query = parse_query('x\x00b \ud800 "c\x1bd"')
    assert words(query) == ["x", "b"]
    assert query.phrases == ("c d",)
    query.text.encode()


def test_a_pasted_page_is_cut_and_that_is_said() -> None:
    query = parse_query("word " * MAX_LENGTH)
    assert len(query.text) <= MAX_LENGTH
    assert query.problems == (f"only the first {MAX_LENGTH} characters are searched",)


@pytest.mark.parametrize(
    ("phrase", "segments"),
    [
        ("rate limit", ('"rate limit"',)),
        ("rate - limit!", ('"rate limit!"',)),
        ("东京会议", ('"东京 京会 会议"',)),
        ("税", ('"税"',)),
        ("the 东京 plan", ('"the 东京"', '"plan"')),
        ("การประชุม", ('"การ ารป รปร ประ ระช ะชุ ชุม"',)),
        ("đường", ('"dường"',)),
        ("?!", ()),
    ],
)
def test_phrases_follow_the_way_text_is_indexed(phrase: str, segments: tuple[str, ...]) -> None:
    assert phrase_segments(phrase) == segments


def test_all_phrases_are_required() -> None:
    assert phrase_match(["a b", "c"]) == '"a b" AND "c"'
    assert phrase_match(["?"]) is None


PIECES = st.sampled_from(
    [
        '"', "“", "'", "(", ")", "*", ":", "^", "+", "-", "{", "}", ",", ";", "\\", "\x00", "\n", "\ud800",
        "AND", "OR", "NOT", "NEAR", "NEAR(", "text:", "rowid:", "chunks_fts", "--", "/*", "%", "_", "[",
        "path:", "source:", "after:", "before:", "after:2026-01-01", "path:[z-a]*", "path:**", "path:?",
        "the", "running", "vendor", "東京", "การ", "đường", "हिन्दी", "😀", "\u0301", "\u200d", "ß", "İ", " ", "  ",
    ]
)  # fmt: skip
QUERIES = st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=12).map("".join))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndexFile]:
    folder: Path = tmp_path_factory.mktemp("queries")
    made = IndexFile(folder)
    made.add_all(["the vendor was running", "東京の会議", "การประชุม", "đường sắt", "हिन्दी text"])
    yield made
    made.connection.close()


@given(text=QUERIES, typing=st.booleans())
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_any_query_is_answered(index: IndexFile, text: str, typing: bool) -> None:
    query = parse_query(text, typing=typing)
    assert query.raw == text
    allowed = RowFilter(index.connection).allowed(query)
    hits, state = KeywordLeg(index.connection).search(query, 10, allowed)
    assert state.status in (LegStatus.OK, LegStatus.SKIPPED), state.detail
    assert [hit.raw for hit in hits] == sorted(hit.raw for hit in hits)
    if allowed is not None:
        assert {hit.rowid for hit in hits} <= set(allowed.rowids.tolist())


@given(text=QUERIES)
@settings(max_examples=200)
def test_typing_changes_only_the_last_word_and_the_problems(text: str) -> None:
    done, typing = parse_query(text), parse_query(text, typing=True)
    assert (done.text, done.phrases, done.filters) == (typing.text, typing.phrases, typing.filters)
    assert set(typing.problems) <= set(done.problems)


@given(text=QUERIES)
@settings(max_examples=200)
def test_what_is_embedded_can_be_parsed_again_and_encoded(text: str) -> None:
    query = parse_query(text)
    query.text.encode()
    assert query.text == " ".join(query.text.split())
