"""Control characters become visible, one for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.text.sanitize import HOSTILE, safe, safe_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]2;PWNED-TITLE\x1b\\", "␛]2;PWNED-TITLE␛\\"),
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("\x9b6n", "\ufffd6n"),
        ("a\x00b\x7fc", "a␀b␡c"),
        ("one\r\ntwo", "one␍\ntwo"),
        ("user\u202etxt.exe", "user\ufffdtxt.exe"),
        ("\u2066x\u2069", "\ufffdx\ufffd"),
        ("name\udcff.md", "name\ufffd.md"),
        ("row\u2028row\x85row", "row\ufffdrow\ufffdrow"),
    ],
)
def test_commands_to_the_terminal_become_visible(text: str, shown: str) -> None:
    assert safe(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- [x] done",
        "[/] [@click=app.quit]hi[/]",
        "tab\tand\nline",
        "Ấn Độ 東京 😀 e\u0301 👩‍👧",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert safe(text) == text


def test_one_row_has_neither_tab_nor_line_feed() -> None:
    assert safe_line("a\tb\nc\x1bd") == "a b c␛d"


def test_hostile_matches_every_character_that_is_replaced_and_no_other() -> None:
    codes = [*range(0x3000), *range(0xD700, 0xE100), *range(0xFF00, 0x10100)]
    for char in map(chr, codes):
        assert (safe(char) != char) == bool(HOSTILE.search(char))


ANY_TEXT = st.text(
    st.one_of(
        st.characters(),
        st.characters(categories=("Cc", "Cf", "Cs", "Zl", "Zp")),
        st.sampled_from("\x1b\x9b\x00\x7f\u202e\u2066\ud800\t\n"),
    )
)


@given(ANY_TEXT)
def test_output_is_harmless_of_equal_length_and_stable(text: str) -> None:
    for clean in (safe, safe_line):
        shown = clean(text)
        assert not HOSTILE.search(shown)
        assert len(shown) == len(text)
        assert clean(shown) == shown
    assert not {"\t", "\n"} & set(safe_line(text))
    assert safe(text).count("\n") == text.count("\n")


@given(ANY_TEXT)
def test_output_can_be_written_to_a_terminal(text: str) -> None:
    assert safe(text).encode("utf-8").decode("utf-8") == safe(text)
