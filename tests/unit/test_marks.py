"""Where terms are marked in a note's own text, and which piece of it is shown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.retrieval.connection import tokens
from memtui.retrieval.marks import match_spans, snippet
from tests.support.known import load


def marked(text: str, *terms: str) -> list[str]:
    return [text[start:end] for start, end in match_spans(text, terms)]


@pytest.mark.parametrize(("text", "terms", "expected"), load("reading")["marked terms"])
def test_terms_are_found_as_the_index_finds_them(
    text: str, terms: list[str], expected: list[str]
) -> None:
    assert marked(text, *terms) == expected


@pytest.mark.parametrize(("text", "terms", "width", "shown", "marks"), load("reading")["snippets"])
def test_a_snippet_is_the_densest_piece(
    text: str, terms: list[str], width: int, shown: str, marks: list[str]
) -> None:
    cut = snippet(text, terms, width)
    assert cut.text == shown
    assert [cut.text[start:end] for start, end in cut.spans] == marks


ALPHABET = "abeginrsty ABÉéđĐ东京會議กขาไ\u0301\n\t-_*…ﾄｳﬁ\u200d😀"
TEXTS = st.text(ALPHABET, max_size=200)
SUFFIXES = load("reading")["suffixes of the stemmer"].split()
WORDS = st.tuples(
    st.text("abcdeiloustyx", max_size=6),
    st.sampled_from(SUFFIXES),
    st.sampled_from(["", *SUFFIXES]),
).map("".join)


@given(before=TEXTS, after=TEXTS)
def test_a_snippet_shows_a_match_where_there_is_one(before: str, after: str) -> None:
    cut = snippet(f"{before} zebra {after}", ["zebra"], 40)
    assert "zebra" in [cut.text[start:end] for start, end in cut.spans]


@given(
    words=st.lists(st.one_of(WORDS, st.text("abEéđ東", min_size=1, max_size=4)), max_size=12),
    asked=st.lists(WORDS, min_size=1, max_size=3),
    places=st.lists(st.integers(0, 12), max_size=3),
    break_=st.sampled_from([" ", "\n", ", ", "_"]),
)
def test_every_word_with_the_stem_of_a_term_is_marked(
    words: list[str], asked: list[str], places: list[int], break_: str
) -> None:
    # Forms that are certainly there, beside what only looks alike.
    for place, word in zip(places, asked, strict=False):
        words.insert(place, word + "s")
    text = break_.join(words)
    stems = {stem for word in asked for stem in tokens(word)}
    wanted = [
        (match.start(), match.end())
        for match in re.finditer(r"[^\W_]+", text)
        if match.group().isascii() and stems.issuperset(tokens(match.group()))
    ]
    marked = match_spans(text, asked)
    for start, end in wanted:
        assert any(low <= start and end <= high for low, high in marked), text[start:end]
    ascii_only = [span for span in marked if text[span[0] : span[1]].isascii()]
    assert set(ascii_only) <= set(wanted)
