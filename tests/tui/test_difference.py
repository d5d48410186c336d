"""What changed in a note, as hunks that can be walked through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.tui.screens.dialogs import DifferenceScreen
from memtui.tui.side_by_side import unified_lines
from tests.tui.harness import settle, until
from tests.tui.reader_samples import HOSTILE, ReaderApp, screen_text

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


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60), (20, 6)])
async def test_the_keys_walk_from_change_to_change(size: tuple[int, int]) -> None:
    before = [f"line {number}" for number in range(400)]
    after = [f"{line} new" if number % 100 == 50 else line for number, line in enumerate(before)]
    app = ReaderApp()
    async with app.run_test(size=size) as pilot:
        await app.push_screen(DifferenceScreen("memory/[x].md", before, after))
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
        await pilot.press("G", "g", "l", "l")
        assert not any(line.startswith("- ") for line in screen.view.plain.split("\n"))
        await pilot.press("h", "h", "j", "k", "space", "pageup", "N")
        assert "- line 50" in screen.view.plain
        assert screen.view.scroll_target_y == 0
        await pilot.press("escape")
        assert not isinstance(app.screen, DifferenceScreen)


async def test_equal_texts_and_hostile_lines() -> None:
    app = ReaderApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await app.push_screen(DifferenceScreen("a.md", ["same"], ["same"]))
        await until(pilot, lambda: "only the file's time changed" in screen_text(app))
        await pilot.press("escape")
        await app.push_screen(DifferenceScreen("\x1b[31m.md", ["old"], list(HOSTILE)))
        await until(pilot, lambda: "+ - [x] done" in screen_text(app))
        text = screen_text(app)
        assert not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 for c in text)
