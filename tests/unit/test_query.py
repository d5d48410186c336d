"""What a typed query is taken to mean, and which files fit its filters."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest
from msgspec import convert

from memtui.retrieval.query import (
    MAX_LENGTH,
    Filters,
    Query,
    local_day,
    parse_query,
    phrase_segments,
    without_filters,
)
from tests.support.known import load


def words(query: Query) -> list[str]:
    return [term.text for term in query.terms.terms]


@pytest.mark.parametrize(("text", "rest", "filters"), load("reading")["filters of a query"])
def test_filters_are_taken_off(text: str, rest: str, filters: dict[str, Any]) -> None:
    query = parse_query(text)
    assert (query.rest, query.filters) == (rest, convert(filters, Filters))
    typed = [one for _, values in query.filters.fields() for one in values]
    assert without_filters(text, typed)[0] == " ".join(rest.split())


@pytest.mark.parametrize(
    ("text", "terms", "embedded", "phrases", "filters"), load("reading")["parts of queries"]
)
def test_words_phrases_and_filters_are_told_apart(
    text: str, terms: list[str], embedded: str, phrases: list[str], filters: dict[str, Any]
) -> None:
    """Filters of a kind are alternatives, and dates narrow; inches are no quotes."""
    query = parse_query(text)
    assert (words(query), query.text) == (terms, embedded)
    assert (list(query.phrases), query.problems) == (phrases, ())
    assert query.filters == convert(filters, Filters)


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
    assert filters.fits(path=path, source=source, day=None, mtime_ns=NOON) is expected
    for day in (date(2026, 3, 4), "2026-03-04"):
        assert filters.fits(path=path, source=source, day=day, mtime_ns=0) is expected


def test_a_time_outside_the_calendar_is_before_or_after_everything() -> None:
    assert local_day(2**63 - 1) >= date(2262, 1, 1)
    assert local_day(10**30) == date.max
    assert local_day(-(10**30)) == date.min
