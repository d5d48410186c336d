"""Marks and snippets hold for any text, and agree with FTS5's own tokenizer."""

from __future__ import annotations

import shlex
from itertools import pairwise

import apsw
from hypothesis import given, settings
from hypothesis import strategies as st

from memtui.retrieval.matches import fold, match_spans, snippet
from memtui.retrieval.porter import stem
from memtui.text.tokens import FTS5_TOKENIZE
from tests.support.examples import examples

ALPHABET = "abeginrsty ABÉéđĐ东京會議กขาไ\u0301\n\t-_*…ﾄｳﬁ\u200d😀"
TEXTS = st.text(ALPHABET, max_size=200)
TERMS = st.lists(st.text(ALPHABET, max_size=8), max_size=5)
SUFFIXES = [
    "ational", "tional", "enci", "anci", "izer", "logi", "bli", "alli", "entli", "eli", "ousli",
    "ization", "ation", "ator", "alism", "iveness", "fulness", "ousness", "aliti", "iviti",
    "biliti", "icate", "ative", "alize", "iciti", "ical", "ful", "ness", "al", "ance", "ence",
    "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize", "eed", "ed", "ing", "s", "es", "sses", "ies", "y", "e", "ll",
]  # fmt: skip
WORDS = st.tuples(
    st.text("abcdeiloustyx", max_size=6),
    st.sampled_from(SUFFIXES),
    st.sampled_from(["", *SUFFIXES]),
).map("".join)


@given(text=TEXTS, terms=TERMS)
def test_spans_are_ascending_and_apart(text: str, terms: list[str]) -> None:
    spans = match_spans(text, terms)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(before[1] < after[0] for before, after in pairwise(spans))


@given(text=TEXTS, terms=TERMS, width=st.integers(2, 120))
def test_a_snippet_is_one_line_of_the_text_within_the_width(
    text: str, terms: list[str], width: int
) -> None:
    cut = snippet(text, terms, width)
    assert len(cut.text) <= max(width, 3)
    assert cut.text.removeprefix("…").removesuffix("…") in " ".join(text.split())
    assert all(0 <= start < end <= len(cut.text) for start, end in cut.spans)
    assert 0 <= cut.line_offset <= text.count("\n")


@given(before=TEXTS, after=TEXTS)
def test_a_snippet_shows_a_match_where_there_is_one(before: str, after: str) -> None:
    cut = snippet(f"{before} zebra {after}", ["zebra"], 40)
    assert "zebra" in [cut.text[start:end] for start, end in cut.spans]


@given(word=WORDS)
@settings(max_examples=examples(500))
def test_stems_are_those_of_fts5(word: str) -> None:
    name, *options = shlex.split(FTS5_TOKENIZE)
    tokenizer = apsw.Connection("").fts5_tokenizer(name, options)
    tokens = tokenizer(
        word.encode(),
        apsw.FTS5_TOKENIZE_QUERY,
        None,
        include_offsets=False,
        include_colocated=False,
    )
    assert tokens == [stem(fold(word))]
