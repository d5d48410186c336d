"""Two texts side by side: which lines stand beside each other, and what is marked."""

from __future__ import annotations

import pytest
from textual.content import Content

from memtui.tui.glyphs import ASCII, UNICODE
from memtui.tui.side_by_side import MOST_LINES, SideText, one_text, two_texts

LEFT = SideText("a.md#L8-L11", 8, "same\nthe old router\nonly here\nend")
RIGHT = SideText("b.md#L1-L3", 1, "same\nthe new router\nend")


def _marked(line: Content) -> set[str]:
    return {line.plain[span.start : span.end] for span in line.spans if "bold" in str(span.style)}


def test_equal_lines_stand_beside_each_other_and_other_words_are_marked() -> None:
    lines = two_texts(LEFT, RIGHT, 63, UNICODE)
    assert [line.plain.rstrip() for line in lines] == [
        "a.md#L8-L11                    │ b.md#L1-L3",
        " 8   same                      │  1   same",
        " 9 ~ the old router            │  2 ~ the new router",
        "10 ~ only here                 │",
        "11   end                       │  3   end",
    ]
    assert _marked(lines[2]) == {"old", "new"}
    assert _marked(lines[1]) == set()


def test_a_line_of_one_text_alone_has_its_sign() -> None:
    lines = two_texts(SideText("a", 1, "x\ny\nz"), SideText("b", 1, "x\nz"), 60, ASCII)
    assert lines[2].plain.rstrip().endswith("|")
    assert "2 - y" in lines[2].plain
    lines = two_texts(SideText("a", 1, "x\nz"), SideText("b", 1, "x\ny\nz"), 60, ASCII)
    assert "2 + y" in lines[2].plain


def test_texts_that_are_not_compared_are_not_marked() -> None:
    lines = two_texts(LEFT, RIGHT, 63, UNICODE, compared=False)
    assert "~" not in "".join(line.plain for line in lines)
    assert "10   only here" in lines[3].plain
    assert "3   end" in lines[3].plain


@pytest.mark.parametrize("width", [1, 8, 24, 50, 51, 80, 200])
def test_no_line_is_wider_than_there_is_room_once_there_is_some(width: int) -> None:
    wide = SideText("memory/家/网络.md#L1", 1, "路由器 配置 " * 40 + "\n" + "x" * 300)
    for lines in (two_texts(wide, RIGHT, width, UNICODE), one_text(wide, width)):
        assert width < 24 or max(line.cell_length for line in lines) <= width


def test_a_long_text_is_cut_and_the_rest_counted() -> None:
    long = SideText("a", 1, "\n".join(map(str, range(MOST_LINES + 5))))
    assert one_text(long, 40)[-1].plain == "and 5 more lines"
    assert "and 5 more lines" in two_texts(long, RIGHT, 80, UNICODE)[-1].plain
    assert "and 5 more lines" in [line.plain for line in two_texts(long, RIGHT, 20, UNICODE)]


def test_words_are_marked_in_any_form() -> None:
    lines = one_text(SideText("a", 1, "Routers are routed\nplain"), 40, ("router",))
    assert _marked(lines[0]) == {"Routers"}
    assert _marked(lines[1]) == set()


def test_what_is_the_same_is_folded_and_what_is_near_a_difference_is_not() -> None:
    left = SideText("a", 1, "\n".join(f"line {n}" for n in range(1, 41)))
    right = SideText("b", 1, left.text.replace("line 20", "row 20"))
    lines = [line.plain.rstrip() for line in two_texts(left, right, 63, UNICODE, folded=True)]
    assert lines[1].split("│") == ["     16 lines the same         ", "      16 lines the same"]
    assert [line[:14].rstrip() for line in lines[2:9]] == [
        *(f"{n}   line {n}" for n in (17, 18, 19)),
        "20 ~ line 20",
        *(f"{n}   line {n}" for n in (21, 22, 23)),
    ]
    assert "17 lines the same" in lines[9]
    assert len(lines) == 10
    stacked = [line.plain for line in two_texts(left, right, 30, UNICODE, folded=True)]
    assert sum("lines the same" in line for line in stacked) == 4


def test_a_text_that_is_only_the_beginning_of_its_place_says_how_much_is_missing() -> None:
    assert one_text(SideText("a", 5, "x\ny", 9), 40)[-1].plain == "and 3 more lines"
    assert one_text(SideText("a", 5, "x\ny", 6), 40)[-1].plain == "6   y"
