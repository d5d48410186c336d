"""Where sentences end, and which of them are nearest to a query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from memtui.retrieval.passages import LONGEST, MOST_PASSAGES, nearest_passages, sentences
from tests.support.known import load

QUERY = np.array([1.0, 0.0], dtype=np.float32)


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


@pytest.mark.parametrize(("text", "expected"), load("reading")["sentences"])
def test_sentences(text: str, expected: list[str]) -> None:
    assert cut(text) == expected


def test_long_sentences_are_cut_between_words() -> None:
    pieces = cut("word " * 300)
    assert len(pieces) > 3
    assert all(len(piece) <= LONGEST and piece.endswith("word") for piece in pieces)
    assert all(len(piece) <= LONGEST for piece in cut("字" * 3000))


@given(st.text(st.sampled_from("aB1. !?。！\n-*#>|)\"' 東é\u0301"), max_size=300))
def test_sentences_keep_their_place(text: str) -> None:
    spans = sentences(text)
    last = 0
    for start, end in spans:
        assert last <= start < end <= len(text)
        piece = text[start:end]
        assert piece == piece.strip()
        assert any(map(str.isalnum, piece))
        # What lies between are marks: list numbers at most.
        assert not any(map(str.isalpha, text[last:start]))
        last = end
    assert not any(map(str.isalpha, text[last:]))


class Embedder:
    """Gives each text the vector that its first word is."""

    def __init__(self, dims: int = 2) -> None:
        self.asked: list[list[str]] = []
        self._dims = dims

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked.append(list(texts))
        vectors = np.zeros((len(texts), self._dims), dtype=np.float32)
        for row, text in enumerate(texts):
            angle = float(text.split()[0].rstrip("."))
            if angle < 360:
                vectors[row, :2] = 3 * np.cos(np.radians(angle)), 3 * np.sin(np.radians(angle))
            if angle == 999:
                vectors[row, 0] = np.nan
        return vectors


def test_the_nearest_come_first_with_their_cosine() -> None:
    text = "90 across. 60 half. 0 same. 180 against."
    embed = Embedder()
    found = nearest_passages(text, 2 * QUERY, embed, limit=3)
    assert [text[p.start : p.end] for p in found] == ["0 same.", "60 half.", "90 across."]
    assert [p.cosine for p in found] == pytest.approx([1.0, 0.5, 0.0], abs=1e-6)
    assert len(embed.asked) == 1
    # Equal ones stand in the order of the text; those without a usable vector are left out.
    equal = nearest_passages("60 a. 500 zero. 60 b. 999 nan. 60 c.", QUERY, Embedder(), limit=2)
    assert [p.start for p in equal] == [0, 16]
    with pytest.raises(ValueError, match="shape"):
        nearest_passages("0 a.", QUERY, Embedder(dims=3))


@pytest.mark.parametrize("query", [np.zeros(2), np.array([np.nan, 1.0])])
def test_a_query_without_direction_has_no_passages(query: NDArray[np.float64]) -> None:
    embed = Embedder()
    assert nearest_passages("0 a.", query.astype(np.float32), embed) == ()
    assert nearest_passages("...", QUERY, embed) == ()
    assert nearest_passages("0 a.", QUERY, embed, limit=0) == ()
    assert embed.asked == []


def test_many_sentences_are_taken_together() -> None:
    text = " ".join(f"{n % 360} word." for n in range(500))
    embed = Embedder()
    found = nearest_passages(text, QUERY, embed, limit=100)
    assert len(embed.asked[0]) <= MOST_PASSAGES
    assert " ".join(embed.asked[0]) == text
    assert len(found) == len(embed.asked[0])
