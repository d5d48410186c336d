"""Index text and query terms: known answers and the rules for words, grams, phrases and prefixes."""

from __future__ import annotations

import time
from typing import Any

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memtui.retrieval.connection import find_stems
from memtui.retrieval.openclaw.terms import match_all, tokens
from memtui.text.languages import language_of
from memtui.text.tokens import (
    FTS5_TOKENIZE,
    MAX_QUERY_CHARS,
    QueryTerms,
    dominant_script,
    index_text,
    query_terms,
    quote,
)
from tests.support.known import load

VECTORS: dict[str, Any] = load("fts_query")


@pytest.mark.parametrize("case", VECTORS["asserted_upstream"], ids=lambda case: case["input"])
def test_openclaw_query_asserted_upstream(case: dict[str, Any]) -> None:
    assert match_all(tokens(case["input"])) == case["expected"]


@pytest.mark.parametrize(("text", "indexed"), load("reading")["text of the index"])
def test_index_text(text: str, indexed: str) -> None:
    assert index_text(text) == indexed


def test_long_text_is_indexed_as_its_parts_are() -> None:
    line = "向量搜索、notes về đường, ไทย e\u0301 ｶﾞ\n"
    assert index_text(line * 3000) == index_text(line) * 3000


def test_a_bomb_of_combining_marks_costs_little() -> None:
    started = time.process_time()
    index_text("a" + "\u0301\u0327" * 100_000)
    query_terms("a" + "\u0301\u0327" * 100_000)
    assert time.process_time() - started < 20


def match_of(terms: QueryTerms) -> str | None:
    return " OR ".join(term.fts for term in terms.terms) or None


@pytest.mark.parametrize(
    ("text", "typing", "match", "stop_words", "terms"), load("reading")["terms of queries"]
)
def test_words_grams_pairs_prefixes_and_stop_words(
    text: str, typing: bool, match: str | None, stop_words: list[str], terms: list[list[str]]
) -> None:
    read = query_terms(text, prefix_last=typing)
    assert (match_of(read), list(read.stop_words)) == (match, stop_words)
    assert [[term.text, term.fts, term.kind] for term in read.terms] == terms


def test_only_the_start_of_a_huge_query_is_read() -> None:
    assert query_terms("a" * 10 * MAX_QUERY_CHARS).terms[0].text == "a" * MAX_QUERY_CHARS


def test_quote() -> None:
    assert quote('say "hi"') == '"say ""hi"""'
    assert quote("a\0b\ud800") == '"a b\ufffd"'


@pytest.mark.parametrize(("text", "latin"), load("reading")["dominant scripts"])
def test_dominant_script(text: str, *, latin: bool) -> None:
    assert dominant_script(text, ("LATIN ", "FULLWIDTH LATIN ")) is latin


KNOWN_LETTERS = st.one_of(
    st.sampled_from("aAbB sS tT the of an _-.,'\"*^:()\n\t0123456789éüß"),
    st.sampled_from("đĐơướấẤỹ\u0301\u0323\u0306"),
    st.sampled_from("東京検索索引ひらカナ中文备份。、，한국어각\u1100\u1161\uf900𠀀ｶﾞ①㍿"),
    st.sampled_from("ไทยสกน้ำລາວမြန်ខ្មែរ"),
    st.sampled_from("हिन्दीكَتَبשָׁלוֹםпривет"),
)
WORLD_TEXT = st.text(st.one_of(st.characters(), KNOWN_LETTERS), max_size=60)

CLUSTERS = (
    "a B s the of 12 é Đ ơ ấ e\u0301 東 京 検 ひら カナ 中文 备份 。 한국 어 𠀀 ｶﾞ ① ไ ท ข้อ มูล ລາ မြန် ខ្មែ "
    "हि न् दी كَ تَ שָׁ лив ет - . , ' \" * : ( )"
)
WRITTEN_TEXT = st.lists(st.sampled_from([*CLUSTERS.split(), " ", "\n", "\t"]), max_size=30).map(
    "".join
)
"""Text as people write it: marks stand on letters."""


@given(WORLD_TEXT)
def test_typing_changes_no_term_but_the_last(text: str) -> None:
    done, typing = query_terms(text), query_terms(text, prefix_last=True)
    assert typing.stop_words == done.stop_words
    assert len(typing.terms) == len(done.terms)
    starred = [term for term in typing.terms if term.fts.endswith("*")]
    assert sum(term.kind == "prefix" for term in starred) <= 1
    assert [term.fts.removesuffix("*") for term in typing.terms] == [t.fts for t in done.terms]


@pytest.fixture(scope="module")
def table() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    tokenize = FTS5_TOKENIZE.replace("'", "''")
    find_stems(connection)
    connection.execute("CREATE TABLE meta(key, value)")
    connection.execute(
        "CREATE VIRTUAL TABLE notes USING fts5"
        f"(text, content='', contentless_delete=1, tokenize='{tokenize}')"
    )
    return connection


def matched(table: apsw.Connection, match: str | None) -> list[int]:
    if match is None:
        return []
    return [
        int(row[0])
        for row in table.execute("SELECT rowid FROM notes WHERE notes MATCH ?", (match,))
    ]


@given(text=st.one_of(WORLD_TEXT, st.text(st.sampled_from("\"'*^+-:(){}\0 aOR\ud800\udfff"))))
@example(text="")
@example(text='"')
@example(text="\0")
@example(text="NEAR(a b)")
@example(text="w " * 2000)
@example(text=" ".join(f"w{n}" for n in range(1500)))
def test_no_input_breaks_the_match_expression(table: apsw.Connection, text: str) -> None:
    matched(table, quote(text))
    matched(table, quote(text) + "*")
    matched(table, match_of(query_terms(text, prefix_last=True)))
    matched(table, match_all(tokens(text)))


@given(text=WRITTEN_TEXT)
def test_a_note_is_found_by_each_of_its_words_and_grams(table: apsw.Connection, text: str) -> None:
    with table:
        table.execute("DELETE FROM notes; DELETE FROM meta")
        table.execute("INSERT INTO meta VALUES('language:' || ?, '')", (language_of(text),))
        table.execute("INSERT INTO notes(rowid, text) VALUES(7, ?)", (index_text(text),))
    for term in query_terms(text).terms:
        if term.kind != "phrase":
            assert matched(table, term.fts) == [7], term
