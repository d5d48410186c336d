"""Packing that stops and goes on gives the chunks of packing at once."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.memory.chunking import Packer, Rules, chunk_text
from memtui.model import ChunkSpan
from tests.property.test_chunking import ALL_RULES, OVERLAPS, TEXTS, TOKENS


@given(TEXTS, TOKENS, OVERLAPS, st.sampled_from(ALL_RULES), st.sets(st.integers(0, 20)))
def test_stopping_between_any_lines_changes_nothing(
    text: str, tokens: int, overlap: int, rules: Rules, stops: set[int]
) -> None:
    packer = Packer(tokens, overlap, rules)
    chunks: list[ChunkSpan] = []
    for number, line in enumerate(text.split("\n"), start=1):
        chunks += packer.feed(number, line)
        before = packer.held
        assert chunks + packer.finish() == chunk_text(
            "\n".join(text.split("\n")[:number]), tokens=tokens, overlap=overlap, rules=rules
        )
        assert packer.held == before
        if number in stops:
            packer = Packer(tokens, overlap, rules, json.loads(json.dumps(before)))
    assert chunks + packer.finish() == chunk_text(text, tokens=tokens, overlap=overlap, rules=rules)


@given(TEXTS, TEXTS, TOKENS, OVERLAPS, st.sampled_from(ALL_RULES))
def test_a_cut_shares_nothing(
    first: str, second: str, tokens: int, overlap: int, rules: Rules
) -> None:
    packer = Packer(tokens, overlap, rules)
    chunks: list[ChunkSpan] = []
    for text in (first, second):
        for number, line in enumerate(text.split("\n"), start=1):
            chunks += packer.feed(number, line)
        chunks += packer.cut()
    assert chunks == [
        chunk
        for text in (first, second)
        for chunk in chunk_text(text, tokens=tokens, overlap=overlap, rules=rules)
    ]
    assert packer.held == []
    assert packer.finish() == packer.cut() == []


def test_lines_keep_the_numbers_that_they_are_fed_with() -> None:
    packer = Packer(8, 0)
    made = packer.feed(7, "a" * 20) + packer.feed(7, "b" * 20) + packer.feed(9, "c") + packer.cut()
    assert [(chunk.start_line, chunk.end_line, chunk.text) for chunk in made] == [
        (7, 7, "a" * 20),
        (7, 9, "b" * 20 + "\nc"),
    ]


@pytest.mark.parametrize("held", [[[1, "a"]], [["a", "b"]], [["a", None]]])
def test_what_was_never_held_is_refused(held: list[list[str | int]]) -> None:
    with pytest.raises(ValueError, match="pairs"):
        Packer(held=held)
