"""Whatever the text, the ids are well formed and do not depend on how the text is sliced."""

from __future__ import annotations

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from memtui.embedding import wordpiece
from memtui.embedding.wordpiece import MAX_IDS, load_wordpiece

TOKENIZER = load_wordpiece()
CLS, SEP = 101, 102

anything = st.text(st.characters(codec=None), max_size=400)
notes = st.text(st.sampled_from("abcE .,-\n\té中かกह\u0301\u200b\x00-_'"), max_size=1_000)


def inner(text: str) -> list[int]:
    """The ids between `[CLS]` and `[SEP]`, uncut."""
    return TOKENIZER.encode(text, max_ids=100_000)[1:-1]


@given(anything | notes)
def test_ids_are_well_formed(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert 2 <= len(ids) <= MAX_IDS
    assert (ids[0], ids[-1]) == (CLS, SEP)
    assert all(100 <= number < 30_522 and number not in (CLS, SEP) for number in ids[1:-1])


@given(anything | notes)
def test_the_cut_is_a_prefix(text: str) -> None:
    assert TOKENIZER.encode(text)[1:-1] == inner(text)[: MAX_IDS - 2]


@given(notes, st.integers(1, 40))
def test_slices_do_not_show(text: str, size: int) -> None:
    whole = TOKENIZER.encode(text)
    with mock.patch.object(wordpiece, "_SLICE", size):
        assert TOKENIZER.encode(text) == whole


@given(anything, anything)
def test_a_blank_parts_texts(left: str, right: str) -> None:
    assert inner(f"{left} {right}") == inner(left) + inner(right)


@given(st.text(st.characters(max_codepoint=0x7F), max_size=200))
def test_case_does_not_matter(text: str) -> None:
    assert TOKENIZER.encode(text.upper()) == TOKENIZER.encode(text.lower())
