"""How inputs are cut, batched and tried again: known answers of OpenClaw, and the rules by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.embedding.provider import DEFAULT_LIMIT, LOCAL_LIMIT, batches, byte_size, split_input
from tests.support.embedding_services import embedding_server, right, rows_of, status, texts_in
from tests.support.known import cases, load, text_of, utf16_length
from tests.support.remote_embedding import choice_at, remote_provider

RETRY: dict[str, Any] = load("embedding_limits")["retry"]
TWO_LINES = "\n".join(["😀" * 2100] * 2)


@pytest.mark.parametrize("case", cases("embedding_limits", "split"))
def test_known_parts(case: dict[str, Any]) -> None:
    provider = case["provider"]
    usual = LOCAL_LIMIT if provider["id"] == "local" else DEFAULT_LIMIT
    limit = min(provider.get("maxInputTokens") or usual, case["hard_cap"] or usual)
    text = TWO_LINES if case["name"] == "emoji two lines" else text_of(case["text_recipe"])
    assert case["text_recipe"].endswith(f" {utf16_length(text)}")
    parts = split_input(text, limit)
    assert [byte_size(part) for part in parts] == case["parts_utf8_bytes"]
    assert ("".join(parts) == text) is case["joined_equals_input"]
    # Every part keeps the lines of the chunk it is cut from, so there is one pair for each.
    assert case["lines"] == [[1, 1]] * len(parts)


@pytest.mark.parametrize("case", cases("embedding_limits", "batches"))
def test_known_batches(case: dict[str, Any]) -> None:
    texts = case["texts"] if "texts" in case else ["x" * size for size in case["byte_sizes"]]
    found = list(batches(texts, byte_size, case["max"]))
    assert [len(batch) for batch in found] == case["batch_lengths"]
    assert [text for batch in found for text in batch] == texts


@pytest.mark.parametrize(
    ("texts", "sizes"), [("abcd", RETRY["split_sizes_on_431"]), ("abc", [3, 2, 1, 1, 1])]
)
def test_known_halves(texts: str, sizes: list[int]) -> None:
    """Of an odd number the first half is the larger one."""
    faults = [status(431) if size > 1 else right for size in sizes]
    with embedding_server(*faults) as server, remote_provider(choice_at("openai", server)) as it:
        np.testing.assert_array_equal(it.embed_documents(list(texts)), rows_of(texts))
        assert [len(texts_in(seen)) for seen in server.seen] == sizes


# --- by hand ----------------------------------------------------------------------------------


@given(st.text(st.sampled_from("aé中😀")), st.integers(1, 12))
def test_parts_are_as_long_as_they_can_be(text: str, limit: int) -> None:
    parts = split_input(text, limit)
    assert "".join(parts) == text
    assert all(byte_size(part) <= limit or len(part) == 1 for part in parts)
    for part, following in pairwise(parts):
        assert byte_size(part) + byte_size(following[0]) > limit


def test_a_limit_below_a_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 0 bytes"):
        split_input("a", 0)


@given(st.lists(st.integers(0, 12)), st.integers(1, 12))
def test_batches_are_as_full_as_they_can_be(sizes: list[int], limit: int) -> None:
    found = list(batches(sizes, lambda size: size, limit))
    assert [size for batch in found for size in batch] == sizes
    for batch in found:
        assert sum(batch) <= limit or len(batch) == 1
    for batch, following in pairwise(found):
        assert sum(batch) + following[0] > limit
