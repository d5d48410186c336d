"""No regular expression takes more than linear time."""

from __future__ import annotations

import re

import pytest

from memtui.embedding.http import duration
from memtui.memory.care.masking import is_secret, known_tokens
from tests.trials.growth import Pump, expressions, pumps_of


def test_every_call_of_re_is_found_with_its_pattern() -> None:
    found, unknown = expressions()
    assert unknown == []
    assert len(found) > 250
    assert any(one.methods == {"fullmatch"} for one in found)


@pytest.mark.parametrize(
    ("pattern", "hard"),
    [
        (r"(a+)+$", Pump("a", "", "\x01")),
        (r"[a-z]?[a-z]*(?:-[a-z]?[a-z]*)+", Pump("-a", "", "\x01")),
        (r"\s+$", Pump(" ", "", "\x01")),
    ],
)
def test_hard_texts_are_made_of_the_parts_of_a_pattern(pattern: str, hard: Pump) -> None:
    assert hard in pumps_of(re.compile(pattern))


# What follows took minutes, or longer than anybody waits, and ran with no other thread beside it.


def test_words_in_a_row_are_told_from_a_token_at_once() -> None:
    token = "sk-" + "a-" * 2000 + "9x7777"
    assert not is_secret(token)
    assert known_tokens(f"the key is {token}") == []
    assert not is_secret("words-in-a-row-and-Another_one99.x")
    assert is_secret("sk-Qz8vKp3LmWx5TnB2cYd7")
    assert known_tokens("8240917:Qz8vKp3LmWx5TnB2cYd7") == ["8240917:Qz8vKp3LmWx5TnB2cYd7"]


def test_digits_without_an_end_are_no_token_and_no_duration() -> None:
    digits = "0123456789" * 6000
    assert known_tokens(digits) == []
    assert duration(digits + "x") is None
    assert duration("6m0.5s") == 360.5
