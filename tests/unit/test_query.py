"""What a typed query is taken to mean, and which files fit its filters."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from memtui.retrieval.query import (
    MAX_LENGTH,
    NO_FILTERS,
    FileFilter,
    Filters,
    Query,
    local_day,
    parse_query,
    phrase_segments,
)
from tests.support.known import load


def words(query: Query) -> list[str]:
    return [term.text for term in query.terms.terms]


@pytest.mark.parametrize(
    ("text", "terms", "embedded", "phrases", "filters"),
    [
        (
            'router "rate limit" path:n/*.md source:sessions after:2026-01-02 before:2026-03-01 key',
            ["router", "key"],
            "router rate limit key",
            ("rate limit",),
            Filters(("sessions",), ("n/*.md",), date(2026, 1, 2), date(2026, 3, 1)),
        ),
        # Filters of a kind are alternatives, and dates narrow; a value with spaces is quoted.
        (
            'PATH:"a b" path:c after:2026-01-01 after:2026-02-01 before:2026-05-01 before:2026-04-01',
            [],
            "",
            (),
            Filters((), ("a b", "c"), date(2026, 2, 1), date(2026, 4, 1)),
        ),
        ("   ", [], "", (), NO_FILTERS),
        ('""', [], "", (), NO_FILTERS),
        # A colon elsewhere is text.
        (
            "https://a.org/path:x todo:buy",
            ["https", "org", "path", "x", "todo", "buy"],
            "https://a.org/path:x todo:buy",
            (),
            NO_FILTERS,
        ),
        # Curly quotes are quotes and inches are not.
        ("“rate limit”", [], "rate limit", ("rate limit",), NO_FILTERS),
        ('27" screen', ["27", "screen"], '27" screen', (), NO_FILTERS),
        ('x\x00b \ud800 "c\x1bd"', ["x", "b"], "x b \ufffd c d", ("c d",), NO_FILTERS),
    ],
)
def test_words_phrases_and_filters_are_told_apart(
    text: str, terms: list[str], embedded: str, phrases: tuple[str, ...], filters: Filters
) -> None:
    query = parse_query(text)
    assert (query.raw, words(query), query.text) == (text, terms, embedded)
    assert (query.phrases, query.filters, query.problems) == (phrases, filters, ())


@pytest.mark.parametrize(("text", "spaceless"), [("税", True), ('"税"', True), ("a", False)])
def test_one_character_of_a_script_without_spaces_is_a_word(text: str, spaceless: bool) -> None:
    assert parse_query(text).spaceless is spaceless


@pytest.mark.parametrize(("text", "problem"), load("reading")["problems of queries"])
def test_what_makes_no_sense_is_a_problem_and_the_rest_is_searched(text: str, problem: str) -> None:
    query = parse_query(text)
    assert query.problems == (problem,)
    assert "x" in words(query)


@pytest.mark.parametrize("text", ["path:", "x after:", '"half a phr', 'x "'])
def test_what_is_unfinished_is_no_problem_while_typing(text: str) -> None:
    assert parse_query(text, typing=True).problems == ()


@pytest.mark.parametrize(("text", "last", "kind"), load("reading")["last words"])
def test_while_typing_the_last_word_is_a_beginning(text: str, last: str, kind: str) -> None:
    term = parse_query(text, typing=True).terms.terms[-1]
    assert (term.text, term.kind) == (last, kind)
    assert parse_query(text).terms.terms[-1].kind == "word"


def test_a_pasted_page_is_cut_and_that_is_said() -> None:
    query = parse_query("word " * MAX_LENGTH)
    assert len(query.text) <= MAX_LENGTH
    assert query.problems == (f"only the first {MAX_LENGTH} characters are searched",)


@pytest.mark.parametrize(("phrase", "segments"), load("reading")["phrases"])
def test_phrases_follow_the_way_text_is_indexed(phrase: str, segments: list[str]) -> None:
    assert list(phrase_segments(phrase)) == segments


NOON = int(datetime(2026, 3, 4, 12).timestamp() * 1e9)


@pytest.mark.parametrize(("query", "expected"), load("reading")["one file and filters"])
def test_a_file_fits_or_not(query: str, expected: bool) -> None:
    filters = parse_query(query).filters
    path, source = "memory/home/network.md", "memory"
    assert FileFilter(filters).fits(path=path, source=source, day=None, mtime_ns=NOON) is expected
    of_day = date(2026, 3, 4)
    assert FileFilter(filters).fits(path=path, source=source, day=of_day, mtime_ns=0) is expected
    assert (
        FileFilter(filters).fits(path=path, source=source, day="2026-03-04", mtime_ns=0) is expected
    )


def test_a_time_outside_the_calendar_is_before_or_after_everything() -> None:
    assert local_day(2**63 - 1) >= date(2262, 1, 1)
    assert local_day(10**30) == date.max
    assert local_day(-(10**30)) == date.min
