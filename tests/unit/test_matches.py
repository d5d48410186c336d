"""Where terms are marked in a note's own text, and which piece of it is shown."""

from __future__ import annotations

import pytest

from memtui.retrieval.marks import match_spans, snippet


def marked(text: str, *terms: str) -> list[str]:
    return [text[start:end] for start, end in match_spans(text, terms)]


@pytest.mark.parametrize(
    ("text", "terms", "expected"),
    [
        ("Vendors ran; a vendor, VENDOR's", ["vendor"], ["Vendors", "vendor", "VENDOR"]),
        ("He was running and runs", ["run"], ["running", "runs"]),
        ("unrun prerun run", ["run"], ["run"]),
        ("snake_case_name", ["case"], ["case"]),
        ("Café, CAFE\u0301, cafe", ["café"], ["Café", "CAFE\u0301", "cafe"]),
        ("đường duong", ["đường"], ["đường", "duong"]),
        ("ﬁle ＦＩＬＥ", ["file"], ["ﬁle", "ＦＩＬＥ"]),
        ("a deploy, deployed, undeploy", ["deplo*"], ["deploy", "deployed"]),
        ("run, running", ["runni*"], ["run", "running"]),
        ("limit rate, Rate limits", ["rate limit"], ["Rate limits"]),
        ("rate rate limit", ["rate limit"], ["rate limit"]),
        ("我们在东京会议上", ["东京", "京会", "会议"], ["东京会议"]),
        ("东京 and 大阪 and 东京", ["东京"], ["东京", "东京"]),
        ("ﾄｳｷｮｳで", ["トウ", "キョウ"], ["ﾄｳｷｮｳ"]),
        ("การประชุมวันนี้", ["ประ", "ระช"], ["ประช"]),
        ("東京API設計", ["api"], ["API"]),
        ("ไทย English", ["english"], ["English"]),
        ("", ["x"], []),
        ("text", [], []),
        ("text", ["", "*", "!"], []),
    ],
)
def test_terms_are_found_as_the_index_finds_them(
    text: str, terms: list[str], expected: list[str]
) -> None:
    assert marked(text, *terms) == expected


def test_a_phrase_of_several_scripts_is_marked_piece_by_piece() -> None:
    assert marked("the 东京 plan", "the 东京 plan") == ["the", "东京", "plan"]


def test_a_short_text_is_its_own_snippet_on_one_line() -> None:
    cut = snippet("# Title\n\n  the\tvendor  key\r\n", ["vendor"], 80)
    assert cut.text == "# Title the vendor key"
    assert cut.spans == ((12, 18),)


def test_the_densest_piece_is_shown() -> None:
    text = "vendor\n" + "filler words here\n" * 40 + "the vendor API key\n" + "more of it\n" * 40
    cut = snippet(text, ["vendor", "key"], 60)
    assert len(cut.text) <= 60
    assert cut.text.startswith("…")
    assert cut.text.endswith("…")
    assert [cut.text[start:end] for start, end in cut.spans] == ["vendor", "key"]


def test_words_stay_whole_at_the_ends() -> None:
    text = "alpha bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike"
    cut = snippet(text, ["golf"], 30)
    assert set(cut.text.strip("…").split()) <= set(text.split())


def test_without_a_term_the_beginning_is_shown() -> None:
    cut = snippet("alpha bravo charlie delta", ["nothing"], 14)
    assert cut.text == "alpha bravo…"
    assert cut.spans == ()


def test_text_without_spaces_is_cut_to_the_width() -> None:
    cut = snippet("东" * 300 + "会议" + "京" * 300, ["会议"], 40)
    assert len(cut.text) <= 40
    assert [cut.text[start:end] for start, end in cut.spans] == ["会议"]


def test_a_match_longer_than_the_width_is_cut_too() -> None:
    cut = snippet("x " + "会" * 100, ["会"], 20)
    assert len(cut.text) <= 20
    assert all(0 <= start < end <= len(cut.text) for start, end in cut.spans)
