"""Index text and query terms: known answers and the rules for words, grams, phrases and prefixes."""

from __future__ import annotations

import json
import time
import unicodedata
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memtui.retrieval.openclaw.terms import match_all, tokens
from memtui.text.tokens import (
    FTS5_TOKENIZE,
    MAX_QUERY_CHARS,
    QueryTerm,
    dominant_script,
    index_text,
    query_terms,
    quote,
)
from tests.support.known import load

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "fts_query.json").read_text("utf-8")
)


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


def test_words_grams_and_stop_words() -> None:
    read = query_terms("How do I restore the Backup 备份 of đường?")
    assert [(term.text, term.fts, term.kind) for term in read.terms[:3]] == [
        ("备份", '"备份"', "gram"),
        ("restore", '"restore"', "word"),
        ("Backup", '"backup"', "word"),
    ]
    assert QueryTerm("đường", '"duong"'.replace("uo", "ườ"), "word") in read.terms
    assert read.stop_words == ("how", "do", "i", "the", "of")


def test_a_query_of_stop_words_keeps_them() -> None:
    read = query_terms("to be or not to be")
    assert [term.text for term in read.terms] == ["to", "be", "or", "not"]
    assert read.stop_words == ()


def test_stop_words_beside_grams_are_dropped() -> None:
    read = query_terms("the 备份")
    assert read.match == '"备份"'
    assert read.stop_words == ("the",)


def test_vietnamese_syllables_are_also_asked_in_pairs() -> None:
    read = query_terms("xử lý thanh toán")
    assert [term.fts for term in read.terms if term.kind == "phrase"] == [
        '"xử lý"',
        '"lý thanh"',
        '"thanh toán"',
    ]


@pytest.mark.parametrize("text", ["", "   ", "?!", "\x00", "()*^"])
def test_nothing_to_ask(text: str) -> None:
    assert query_terms(text, prefix_last=True).match is None


@pytest.mark.parametrize(("text", "last", "kind"), load("reading")["words being typed"])
def test_the_word_being_typed_is_a_prefix(text: str, last: str, kind: str) -> None:
    term = query_terms(text, prefix_last=True).terms[-1]
    assert (term.fts, term.kind) == (last, kind)


def test_no_prefix_unless_asked_for() -> None:
    assert query_terms("router conf").match == '"router" OR "conf"'


def test_a_stop_word_being_typed_stays_a_stop_word() -> None:
    read = query_terms("router for", prefix_last=True)
    assert read.match == '"router"'
    assert read.stop_words == ("for",)


def test_a_word_repeated_while_typing_is_one_prefix() -> None:
    assert query_terms("conf router conf", prefix_last=True).match == '"conf"* OR "router"'


@pytest.mark.parametrize("word", ["हिन्दी", "كَتَبَ", "שָׁלוֹם", "தமிழ்"])
def test_vowel_marks_do_not_split_a_word(word: str) -> None:
    assert [term.text for term in query_terms(word).terms] == [unicodedata.normalize("NFKC", word)]


def test_the_last_pair_is_a_prefix_too() -> None:
    read = query_terms("thanh toấ", prefix_last=True)
    assert read.terms[-1] == QueryTerm("thanh toấ", '"thanh toấ"*', "phrase")


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
    matched(table, query_terms(text, prefix_last=True).match)
    matched(table, match_all(tokens(text)))


@given(text=WRITTEN_TEXT)
def test_a_note_is_found_by_each_of_its_words_and_grams(table: apsw.Connection, text: str) -> None:
    with table:
        table.execute("DELETE FROM notes")
        table.execute("INSERT INTO notes(rowid, text) VALUES(7, ?)", (index_text(text),))
    for term in query_terms(text).terms:
        if term.kind != "phrase":
            assert matched(table, term.fts) == [7], term
