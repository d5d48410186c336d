"""The language of a text, and what a word of a query finds by its stem."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from memtui.retrieval.leg_detail import explain_keyword
from memtui.retrieval.marks import match_spans
from memtui.retrieval.query import parse_query
from memtui.text.languages import language_of
from memtui.text.tokens import index_text
from tests.support.rows import IndexFile

KNOWN: dict[str, Any] = tomllib.loads(
    Path(__file__).parents[1].joinpath("data", "languages.toml").read_text("utf-8")
)
GERMAN = "In den roten Häusern am Markt wurden die Gaben von Müller und der Router verwahrt."
ENGLISH = ["He has the gift of the gab.", "The router is on the hause of the mast."]


def found(index: IndexFile, text: str, *, typing: bool = False) -> dict[int, list[str]]:
    """Ask by words alone; the rows, each with what is marked in its text."""
    hits = {}
    for hit in index.ask(text, limit=10, typing=typing).hits:
        note = index.text_of(hit.rowid)
        hits[hit.rowid] = [note[start:end] for start, end in match_spans(note, hit.terms)]
    return hits


@pytest.mark.parametrize(("language", "text"), KNOWN["texts"].items())
def test_a_short_text_tells_its_language(language: str, text: str) -> None:
    assert language_of(text) == language.strip()


@pytest.mark.parametrize("text", KNOWN["left"].values(), ids=KNOWN["left"].keys())
def test_other_texts_are_left_to_the_tokenizer(text: str) -> None:
    assert not language_of(text)
    if text.isascii():
        assert index_text(text) == text


@pytest.mark.parametrize(("language", "forms"), KNOWN["forms"].items())
def test_every_form_of_a_word_finds_it(index: IndexFile, language: str, forms: str) -> None:
    first, *others = forms.split()
    text = f"{KNOWN['texts'][language]} {first}"
    index.add_all([text, *KNOWN["left"].values()])
    for form in others:
        assert first in found(index, form)[1], form


@pytest.mark.parametrize(("query", "typing", "hits"), KNOWN["stems"])
def test_a_stem_meets_no_word_of_another_language(
    index: IndexFile, query: str, typing: bool, hits: dict[str, list[str]]
) -> None:
    index.add_all([GERMAN, *ENGLISH])
    assert found(index, query, typing=typing) == {int(row): words for row, words in hits.items()}


def test_a_word_and_its_stems_are_one_term_of_the_score(index: IndexFile) -> None:
    index.add_all([GERMAN, *ENGLISH])
    for row in (1, 3):
        explained = explain_keyword(index.connection, parse_query("routers"), row)
        ((phrase,),) = (term.phrases for term in explained.terms)
        assert (phrase.tokens, phrase.tf, phrase.df) == (("router", "rout"), 1, 2)
        assert explained.score == pytest.approx(-phrase.share)
