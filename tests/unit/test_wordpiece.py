"""WordPiece gives the ids that the model's own tokenizer gives, well formed whatever the text."""

from __future__ import annotations

import gzip
import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.embedding.wordpiece import MAX_IDS, WordPiece
from memtui.errors import ProviderError

KNOWN = json.loads((Path(__file__).parent.parent / "data" / "minilm.json").read_text("utf-8"))
UNK, CLS, SEP = 100, 101, 102


@pytest.fixture(scope="module")
def tokenizer() -> WordPiece:
    return WordPiece()


@pytest.mark.parametrize("case", KNOWN["cases"], ids=lambda case: ascii(case["text"][:24]))
def test_known_answers(tokenizer: WordPiece, case: dict[str, Any]) -> None:
    assert tokenizer.encode(case["text"]) == case["ids"]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("CAFÉ", "cafe"),
        ("cafe\u0301", "cafe"),
        ("ΜΕΝΟΣ", "μενοσ"),  # no final sigma: letters are made small one by one
        ("İstanbul", "istanbul"),
        ("a\x00b\u200dc\ufffd\x85d", "abcd"),
        ("a\u00a0b\u3000c\u2028d\r\ne", "a b c d e"),
        ("x=y", "x = y"),
        ("«ja»", "« ja »"),
        ("日本", "日 本"),
        ("\ud800lone", "lone"),
    ],
)
def test_folding(tokenizer: WordPiece, text: str, same: str) -> None:
    assert tokenizer.encode(text) == tokenizer.encode(same)


def test_kana_and_hangul_stay_words_of_their_letters(tokenizer: WordPiece) -> None:
    assert tokenizer.encode("が") == tokenizer.encode("か")
    assert tokenizer.encode("한국") != tokenizer.encode("한 국")


def test_longest_piece_is_taken_first() -> None:
    tokenizer = WordPiece(["[UNK]", "[CLS]", "[SEP]", "un", "una", "##ffa", "##able", "##ble"])
    assert tokenizer.encode("unaffable unable") == [1, 4, 5, 7, 4, 7, 2]
    assert tokenizer.encode("unffable") == [1, 3, 5, 7, 2]
    assert tokenizer.encode("unaxe") == [1, 0, 2]


def test_word_of_more_than_100_letters_is_unknown(tokenizer: WordPiece) -> None:
    assert UNK not in tokenizer.encode("a" * 100)
    assert tokenizer.encode("a" * 101 + " dog") == [CLS, UNK, *tokenizer.encode("dog")[1:]]


def test_control_names_in_a_note_stay_text(tokenizer: WordPiece) -> None:
    ids = tokenizer.encode("[SEP] [MASK] [CLS]")
    assert [number for number in ids if number <= 103] == [CLS, SEP]


def test_cuts_at_the_limit(tokenizer: WordPiece) -> None:
    ids = tokenizer.encode("dog " * 1_000)
    assert len(ids) == MAX_IDS
    assert (ids[0], ids[-1]) == (CLS, SEP)
    assert tokenizer.encode("dog " * 1_000, max_ids=4) == [CLS, ids[1], ids[1], SEP]


@pytest.mark.parametrize("char", ["a", " ", "\x00", "\u0301", "我", "."])
def test_a_million_of_one_character(tokenizer: WordPiece, char: str) -> None:
    assert 2 <= len(tokenizer.encode(char * 1_000_000)) <= MAX_IDS


def test_vocabulary_without_control_pieces_is_refused() -> None:
    with pytest.raises(ProviderError, match=r"\[SEP\]"):
        WordPiece(["[UNK]", "[CLS]", "a"])


@pytest.mark.parametrize(
    "content", [b"", b"not gzip", gzip.compress(b"\xff\xfe", mtime=0)[:-4], None]
)
def test_a_damaged_vocabulary_file_is_a_provider_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "minilm-vocab.txt.gz").write_bytes(content)
    monkeypatch.setattr(resources, "files", lambda package: tmp_path)
    with pytest.raises(ProviderError):
        WordPiece()


TOKENIZER = WordPiece()
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


@given(anything, anything)
def test_a_blank_parts_texts(left: str, right: str) -> None:
    assert inner(f"{left} {right}") == inner(left) + inner(right)


@given(st.text(st.characters(max_codepoint=0x7F), max_size=200))
def test_case_does_not_matter(text: str) -> None:
    assert TOKENIZER.encode(text.upper()) == TOKENIZER.encode(text.lower())
