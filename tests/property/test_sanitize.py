"""Whatever comes in, nothing that could command a terminal goes out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memtui.text.sanitize import HOSTILE, safe, safe_line

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
