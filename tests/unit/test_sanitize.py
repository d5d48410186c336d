"""Control characters become visible, one for one."""

from __future__ import annotations

import pytest

from memtui.text.sanitize import HOSTILE, escaped, safe, safe_line
from tests.support.known import load


@pytest.mark.parametrize(("text", "shown"), load("reading")["commands to the terminal"])
def test_commands_to_the_terminal_become_visible(text: str, shown: str) -> None:
    assert safe(text) == shown


@pytest.mark.parametrize("text", load("reading")["ordinary text"])
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert safe(text) == text


def test_one_row_has_neither_tab_nor_line_feed() -> None:
    assert safe_line("a\tb\nc\x1bd") == "a b c␛d"


def test_hostile_matches_every_character_that_is_replaced_and_no_other() -> None:
    codes = [*range(0x3000), *range(0xD700, 0xE100), *range(0xFF00, 0x10100)]
    for char in map(chr, codes):
        assert (safe(char) != char) == bool(HOSTILE.search(char))


def test_a_value_is_written_with_nothing_unseen_in_it() -> None:
    unseen = "\x1b\n\u202e\u200b\u00a0\u3164\ufe0f\U000e0041\U000e0100"
    written = escaped([f"rm{unseen}", "東京 é"])
    assert "東京 é" in written
    assert not [one for one in unseen if one in written]
