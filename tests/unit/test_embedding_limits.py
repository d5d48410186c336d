"""How inputs are cut, batched and tried again: known answers of OpenClaw, and the rules by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.embedding.limits import KNOWN_LIMITS, batches, byte_size, input_limit, split_input
from memtui.embedding.retry import (
    LIMITED,
    PASSING,
    Schedule,
    halved,
    is_retryable,
    is_splittable,
    retried,
    with_jitter,
)
from tests.support.known import cases, load, text_of, utf16_length

RETRY: dict[str, Any] = load("embedding_limits")["retry"]
TWO_LINES = "\n".join(["😀" * 2100] * 2)


@pytest.mark.parametrize("case", cases("embedding_limits", "split"))
def test_known_parts(case: dict[str, Any]) -> None:
    provider = case["provider"]
    limit = input_limit(
        provider["id"], declared=provider.get("maxInputTokens"), hard_cap=case["hard_cap"]
    )
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


@pytest.mark.parametrize("case", RETRY["classification"], ids=lambda case: case["message"])
def test_known_failures(case: dict[str, Any]) -> None:
    message = case["message"]
    assert is_retryable(message) is case.get("retryable", is_retryable(message))
    assert is_splittable(message) is case.get("splittable", is_splittable(message))
    assert case.keys() & {"retryable", "splittable"}


class Failing:
    """Fails so many times, then gives what it was called with; notes sizes and pauses."""

    def __init__(self, failures: int = 0, message: str = "HTTP 503") -> None:
        self.failures = failures
        self.message = message
        self.sizes: list[int] = []
        self.pauses: list[int] = []

    def run(self) -> str:
        self.sizes.append(1)
        if len(self.sizes) <= self.failures:
            raise OSError(self.message)
        return "done"

    def refuse(self, items: Sequence[str]) -> Sequence[str]:
        self.sizes.append(len(items))
        if len(items) > 1:
            raise OSError(self.message)
        return [item.upper() for item in items]


def test_known_waits() -> None:
    known = RETRY["waits_base_500_max_attempts_3"]
    failing = Failing(2)
    assert retried(failing.run, wait=failing.pauses.append) == "done"
    assert failing.pauses == known["two_failures_then_ok"]
    assert len(failing.sizes) == known["calls"]


@pytest.mark.parametrize("case", RETRY["jitter"], ids=str)
def test_known_jitter(case: dict[str, Any]) -> None:
    assert with_jitter(case["delay"], case["random"], case["max"]) == case["out"]


def test_known_halves() -> None:
    failing = Failing(message="431 request_headers_too_large")
    assert halved("abcd", failing.refuse) == ["A", "B", "C", "D"]
    assert failing.sizes == RETRY["split_sizes_on_431"]


# --- by hand ----------------------------------------------------------------------------------


def test_attempts_end_with_the_last_failure() -> None:
    failing = Failing(9)
    with pytest.raises(OSError, match="HTTP 503"):
        retried(failing.run, wait=failing.pauses.append)
    assert failing.pauses == [500, 1000]
    assert len(failing.sizes) == 3


@pytest.mark.parametrize(
    ("schedule", "pauses"),
    [
        (PASSING, [500, 1000]),
        (LIMITED, [5000, 10_000, 20_000, 40_000]),
        (Schedule(4, 900, 1000), [900, 1000, 1000]),
    ],
    ids=["passing", "limited", "short"],
)
def test_pauses_grow_up_to_the_longest(schedule: Schedule, pauses: list[int]) -> None:
    found = [schedule.pause(failures) for failures in range(1, schedule.attempts + 1)]
    assert found == [*pauses, None]


def test_a_failure_that_stays_is_not_tried_again() -> None:
    failing = Failing(9, "HTTP 401: no such key")
    with pytest.raises(OSError, match="401"):
        retried(failing.run, wait=failing.pauses.append)
    assert (len(failing.sizes), failing.pauses) == (1, [])


def test_a_pause_can_be_refused() -> None:
    def wait(_pause: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retried(Failing(1).run, wait=wait)


def test_other_failures_are_not_halved() -> None:
    failing = Failing(message="HTTP 401")
    with pytest.raises(OSError, match="401"):
        halved("abcd", failing.refuse)
    assert failing.sizes == [4]


def test_odd_batches_have_the_larger_half_first() -> None:
    failing = Failing(message="ECONNRESET")
    assert halved("abc", failing.refuse) == ["A", "B", "C"]
    assert failing.sizes == [3, 2, 1, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "limit"),
    [
        ({"provider": "local"}, 2048),
        ({"provider": "openai", "model": "text-embedding-ada-002"}, 8192),
        (
            {"provider": "openai", "model": "text-embedding-ada-002", "known": KNOWN_LIMITS},
            8191,
        ),
        ({"provider": "voyage", "model": "voyage-3-lite", "known": KNOWN_LIMITS}, 16000),
        ({"provider": "voyage", "model": "voyage-3-lite", "declared": 9}, 9),
        ({"provider": "local", "declared": 4096}, 4096),
        ({"provider": "local", "declared": 0, "hard_cap": 0}, 2048),
        ({"provider": "x", "hard_cap": 9000}, 8192),
    ],
    ids=str,
)
def test_limits(arguments: dict[str, Any], limit: int) -> None:
    assert input_limit(**arguments) == limit


def literal_split(text: str, limit: int) -> list[str]:
    """The rule word for word: a binary search over UTF-16 units for what still fits."""
    units = text.encode("utf-16-le")
    count, at, parts = len(units) // 2, 0, []

    def size(start: int, end: int) -> int:
        return len(units[2 * start : 2 * end].decode("utf-16-le", "replace").encode())

    def splits_a_pair(at: int) -> bool:
        return 0 < at < count and units[2 * at + 1] in range(0xDC, 0xE0)

    while at < count:
        low, high, best = at + 1, count, at
        while low <= high:
            middle = (low + high) // 2
            if size(at, middle) <= limit:
                best, low = middle, middle + 1
            else:
                high = middle - 1
        if splits_a_pair(best):
            best -= 1
        if best <= at:
            best = at + (2 if splits_a_pair(at + 1) else 1)
        parts.append(units[2 * at : 2 * best].decode("utf-16-le"))
        at = best
    return parts or [text]


@given(st.text(st.sampled_from("aé中😀")), st.integers(1, 12))
def test_cuts_agree_with_a_binary_search(text: str, limit: int) -> None:
    parts = split_input(text, limit)
    assert parts == literal_split(text, limit)
    assert "".join(parts) == text
    assert all(byte_size(part) <= limit or len(part) == 1 for part in parts)


def test_lone_surrogates_are_cut_whole() -> None:
    assert split_input("\ud800a\ud800", 3) == ["\ud800", "a", "\ud800"]
    assert byte_size("\ud800") == 3


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


def test_batches_come_as_they_fill() -> None:
    endless = iter(lambda: 5, 0)
    assert next(batches(endless, lambda size: size, 10)) == [5, 5]
