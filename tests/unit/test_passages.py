"""The passages of a text: where they end, what they are, how an index keeps them, the nearest."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from pathlib import Path

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from memtui.memory.passages import LONGEST, PassageFlag, passages
from memtui.retrieval.connection import tokens
from memtui.retrieval.passages import (
    MOST_PASSAGES,
    fetch_passages,
    nearest_passages,
    pack_passages,
    unpack_passages,
    unpack_pieces,
)
from memtui.text.tokens import index_text
from tests.support.known import load
from tests.support.rows import IndexFile

QUERY = np.array([1.0, 0.0], dtype=np.float32)
TEXTS = st.text(
    st.sampled_from(
        "aB1. !?。！？,\t\n-*#>|`~:[)\"' 東京都กขé\u0301\u0e35\u30fb가ữ\x1e\ue000½\ud800"
    ),
    max_size=300,
) | st.lists(st.sampled_from(load("reading")["pieces of passages"]), max_size=12).map("".join)


def cut(text: str) -> list[str]:
    return [text[one.start : one.end] for one in passages(text)]


@pytest.mark.parametrize(("text", "expected"), load("reading")["passages"])
def test_passages(text: str, expected: list[str]) -> None:
    assert cut(text) == expected


@pytest.mark.parametrize(("text", "names"), load("reading")["flags of passages"])
def test_flags(text: str, names: str) -> None:
    expected = reduce(or_, map(PassageFlag.__getitem__, names.split()), PassageFlag(0))
    assert [one.flags for one in passages(text)] == [expected]


def test_long_passages_are_cut_between_words() -> None:
    pieces = cut("word " * 300)
    assert len(pieces) > 3
    assert all(len(piece) <= LONGEST and piece.endswith("word") for piece in pieces)
    assert cut("- " + "It is so. " * 50)[0] == ("It is so. " * 40).strip()
    # A run of Chinese is whole as long as it may be.
    assert cut("a，" + "字" * 399 + "。end") == ["a，", "字" * 399 + "。", "end"]
    assert [len(piece) for piece in cut("字" * 1000)] == [400, 400, 200]
    assert {len(piece) for piece in cut("ไทย " * 100)} == {63, 15}


@given(TEXTS)
def test_every_letter_and_digit_is_in_one_passage(text: str) -> None:
    last = 0
    for start, end, _ in passages(text):
        assert last <= start < end <= min(len(text), start + LONGEST)
        piece = text[start:end]
        assert piece == piece.strip()
        assert any(map(str.isalnum, piece))
        assert not any(map(str.isalnum, text[last:start]))
        last = end
    assert not any(map(str.isalnum, text[last:]))


@pytest.mark.parametrize("piece", load("reading")["pieces of hostile texts"])
def test_hostile_texts_take_linear_time(piece: str) -> None:
    text = piece * (300_000 // len(piece))
    assert all(end - start <= LONGEST for start, end, _ in passages(text))


@given(TEXTS)
def test_the_index_keeps_the_tokens_of_each_passage(text: str) -> None:
    words, packed = pack_passages(text)
    whole = tokens(index_text(text))
    assert tokens(words) == whole
    rows = unpack_passages(packed, len(text))
    assert [(start, end, flags) for start, end, flags, *_ in rows] == list(passages(text))
    assert not rows or sum(row.tokens for row in rows) == len(whole)
    for row in rows[1:]:
        before, after = (
            len(tokens(index_text(part))) for part in (text[: row.start], text[row.start :])
        )
        # Within a word that is too long no token begins with a passage.
        assert before + after != len(whole) or row.first_token == before


def test_passages_are_read_from_an_index(tmp_path: Path) -> None:
    index = IndexFile(tmp_path)
    texts = [
        *load("reading")["notes in many languages"],
        "...",
        "a\0b. c",
        "Ann: Where? 東京。\nBob: here.",
    ]
    rows = index.add_all(texts)
    lengths = {row: len(text) for row, text in zip(rows, texts, strict=True)}
    kept = fetch_passages(index.connection, lengths)
    for row, text in zip(rows, texts, strict=True):
        assert kept[row] == unpack_passages(pack_passages(text)[1], len(text))
    instances = "CREATE VIRTUAL TABLE temp.instances USING fts5vocab(main, chunks_fts, instance)"
    index.connection.execute(instances)
    for row, found in kept.items():
        sizes = index.connection.execute(
            "SELECT count(*) FROM temp.instances WHERE doc = ?", (row,)
        )
        assert sizes.get == sum(one.tokens for one in found)
    index.connection.execute("ALTER TABLE chunks DROP COLUMN passages")
    assert fetch_passages(index.connection, lengths) == {}


@pytest.mark.parametrize(
    "packed", [None, "", b"1", bytes(16), pack_passages("One. Two.")[1][16:] * 2]
)
def test_damaged_passages_are_told(packed: object) -> None:
    with pytest.raises(apsw.CorruptError, match="passages"):
        unpack_passages(packed, 9)


@pytest.mark.parametrize("packed", [None, "", b"1", bytes(33), b"\1\0" + bytes(31), b"\1" * 34])
def test_damaged_word_pieces_are_told(packed: object) -> None:
    with pytest.raises(apsw.CorruptError, match="word pieces"):
        unpack_pieces(packed, 1)


class Embedder:
    """Gives each text the vector that its first word is."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked.append(list(texts))
        vectors = np.zeros((len(texts), 2), dtype=np.float32)
        for row, text in enumerate(texts):
            angle = float(text.split()[0].rstrip("."))
            if angle < 360:
                vectors[row] = 3 * np.cos(np.radians(angle)), 3 * np.sin(np.radians(angle))
        return vectors


def test_the_nearest_come_first_with_their_cosine() -> None:
    text = "90 across. 60 half. 0 same. 180 against."
    embed = Embedder()
    found = nearest_passages(text, 2 * QUERY, embed, limit=3)
    assert [text[p.start : p.end] for p in found] == ["0 same.", "60 half.", "90 across."]
    assert [p.cosine for p in found] == pytest.approx([1.0, 0.5, 0.0], abs=1e-6)
    assert len(embed.asked) == 1
    # Equal ones stand in the order of the text; those without a vector are left out.
    equal = nearest_passages("60 a. 500 zero. 60 b. 60 c.", QUERY, Embedder(), limit=2)
    assert [p.start for p in equal] == [0, 16]
    assert nearest_passages("...", QUERY, embed) == ()
    assert len(embed.asked) == 1


def test_many_sentences_are_taken_together() -> None:
    text = " ".join(f"{n % 360} word." for n in range(500))
    embed = Embedder()
    found = nearest_passages(text, QUERY, embed, limit=100)
    assert len(embed.asked[0]) <= MOST_PASSAGES
    assert " ".join(embed.asked[0]) == text
    assert len(found) == len(embed.asked[0])
