"""Two texts side by side: which lines stand beside each other, and what is marked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from memtui.engine.ports import SourceText
from memtui.tui.screens.dialogs import DifferenceScreen
from memtui.tui.side_by_side import (
    MOST_CHARACTERS,
    MOST_LINES,
    SideText,
    one_text,
    two_texts,
    unified_lines,
)
from tests.support.hostile import ATTACKS
from tests.support.known import load
from tests.tui.harness import all_lines, screen_text, settle, until
from tests.tui.reader_samples import ReaderApp

LEFT = SideText("a.md#L8-L11", 8, "same\nthe old router\nonly here\nend")
RIGHT = SideText("b.md#L1-L3", 1, "same\nthe new router\nend")


def _marked(line: Content) -> set[str]:
    return {line.plain[span.start : span.end] for span in line.spans if "bold" in str(span.style)}


@pytest.mark.parametrize(("first", "second", "lines"), load("interface")["texts side by side"])
def test_equal_lines_stand_beside_each_other_and_others_are_marked(
    first: list[Any], second: list[Any], lines: list[str]
) -> None:
    drawn = [line.plain for line in two_texts(SideText(*first), SideText(*second), 63)]
    squeezed = [" ".join(line.split()) for line in drawn]
    assert squeezed == [" ".join(line.split()) for line in lines]
    assert len({line.find("│") for line in drawn}) == 1


def test_the_words_that_differ_are_marked() -> None:
    lines = two_texts(LEFT, RIGHT, 63)
    assert [_marked(line) for line in lines[1:3]] == [set(), {"old", "new"}]
    alone = [line.plain for line in two_texts(LEFT, RIGHT, 63, compared=False)]
    assert alone[3].split() == ["10", "only", "here", "│", "3", "end"]
    assert "~" not in "".join(alone)
    lines = one_text(SideText("a", 1, "Routers are routed\nplain"), 40, ("router",))
    assert [_marked(line) for line in lines] == [{"Routers"}, set()]


@pytest.mark.parametrize("width", [1, 8, 24, 50, 51, 80, 200])
def test_no_line_is_wider_than_there_is_room_once_there_is_some(width: int) -> None:
    wide = SideText("memory/家/网络.md#L1", 1, "路由器 配置 " * 40 + "\n" + "x" * 300)
    for lines in (two_texts(wide, RIGHT, width), one_text(wide, width)):
        assert width < 24 or max(line.cell_length for line in lines) <= width


def test_a_long_text_is_cut_and_the_rest_counted() -> None:
    long = SideText("a", 1, "\n".join(map(str, range(MOST_LINES + 5))))
    assert one_text(long, 40)[-1].plain == "and 5 more lines"
    wide = SideText("a", 1, "\n".join(["x" * 500] * (MOST_CHARACTERS // 500 + 10)))
    assert one_text(wide, 600)[-1].plain == "and 10 more lines"
    assert one_text(SideText("a", 5, "x\ny", 9), 40)[-1].plain == "and 3 more lines"
    assert one_text(SideText("a", 5, "x\ny", 6), 40)[-1].plain == "6   y"
    assert "and 5 more lines" in two_texts(long, RIGHT, 80)[-1].plain


def test_what_is_the_same_is_folded_and_what_is_near_a_difference_is_not() -> None:
    left = SideText("a", 1, "\n".join(f"line {n}" for n in range(1, 41)))
    right = SideText("b", 1, left.text.replace("line 20", "row 20"))
    lines = [line.plain.rstrip() for line in two_texts(left, right, 63, folded=True)]
    assert lines[1].split("│") == ["     16 lines the same         ", "      16 lines the same"]
    assert [line[:14].rstrip() for line in lines[2:9]] == [
        *(f"{n}   line {n}" for n in (17, 18, 19)),
        "20 ~ line 20",
        *(f"{n}   line {n}" for n in (21, 22, 23)),
    ]
    assert "17 lines the same" in lines[9]
    assert len(lines) == 10


def test_what_is_near_a_line_at_the_top_of_one_text_is_not_folded() -> None:
    short = SideText("a", 1, "\n".join(f"line {n}" for n in range(1, 11)))
    long = SideText("b", 1, f"first\n{short.text}")
    for texts in ((short, long), (long, short)):
        lines = [line.plain for line in two_texts(*texts, 63, folded=True)]
        assert "first" in lines[1]
        assert [line.count(f"line {n}") for n, line in enumerate(lines[2:5], 1)] == [2, 2, 2]
        assert "7 lines the same" in lines[5]


LINES = st.lists(st.sampled_from(["a", "b", "c", "", "- [x]"]), max_size=40)


@given(LINES, LINES)
def test_the_hunks_are_those_of_a_unified_diff_and_make_the_second_of_the_first(
    before: list[str], after: list[str]
) -> None:
    lines = unified_lines(before, after)
    rebuilt, at = [], 0
    for line in lines:
        if line.startswith("@@"):
            start, _, length = line.split()[1].removeprefix("-").partition(",")
            begin = int(start) if length == "0" else int(start) - 1
            rebuilt += before[at:begin]
            at = begin
        elif line[0] == "+":
            rebuilt.append(line[1:])
        else:
            assert before[at] == line[1:]
            at += 1
            rebuilt += [line[1:]] if line[0] == " " else []
    assert rebuilt + before[at:] == after
    assert bool(lines) is (before != after)


def changed(path: str, indexed: list[str], on_disk: list[str]) -> DifferenceScreen:
    return DifferenceScreen(SourceText(path, indexed, "changed", on_disk=on_disk))


@pytest.mark.parametrize("size", [(120, 40), (20, 6)])
async def test_the_keys_walk_from_change_to_change(size: tuple[int, int]) -> None:
    before = [f"line {number}" for number in range(400)]
    before[49] = "wide" * 50
    after = [f"{line} new" if number % 100 == 50 else line for number, line in enumerate(before)]
    app = ReaderApp()
    async with app.run_test(size=size, notifications=True) as pilot:
        await app.push_screen(changed("memory/[x].md", before, after))
        screen = app.screen
        assert isinstance(screen, DifferenceScreen)
        await until(pilot, lambda: bool(screen.hunks))
        await settle(app, pilot)
        assert len(screen.hunks) == 4
        if size[0] >= 80:
            text = screen_text(app)
            assert "- line 50" in text
            assert "+ line 50 new" in text
            assert "4 changes, -4 +4 lines" in text
            assert "memory/[x].md" in text
        await pilot.press("n")
        assert screen.view.scroll_target_y == min(screen.hunks[1], screen.view.max_scroll_y)
        await pilot.press("G", "g", "j", "k", "space", "pageup", "N")
        assert "- line 50" in all_lines(screen.view)
        assert screen.view.scroll_target_y == 0
        await pilot.press("N")
        assert size[0] < 80 or "No change above what is shown." in screen_text(app)
        await pilot.press("escape")
        assert not isinstance(app.screen, DifferenceScreen)


async def test_equal_texts_and_hostile_lines() -> None:
    app = ReaderApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await app.push_screen(changed("a.md", ["same"], ["same"]))
        await until(pilot, lambda: "only the file's time changed" in screen_text(app))
        await pilot.press("escape")
        await app.push_screen(changed("\x1b[31m.md", ["old"], list(ATTACKS)))
        await until(pilot, lambda: "+ - [x] done" in screen_text(app))
        text = screen_text(app)
        assert not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 for c in text)
