"""Colouring windows of lines within bounded time."""

from __future__ import annotations

import time

import pytest
from rich.cells import cell_len

from memtui.tui.highlight import (
    MAX_CELLS,
    Highlighter,
    code_pieces,
    display_line,
    language_of,
    line_languages,
)
from tests.tui.reader_samples import note


def _text(highlighter: Highlighter, index: int) -> str:
    return "".join(part for part, _ in highlighter.line(index))


def test_colours_never_change_the_text() -> None:
    lines = note(450).lines
    highlighter = Highlighter(lines, "memory/note.md")
    assert [_text(highlighter, index) for index in range(len(lines))] == [
        display_line(line) for line in lines
    ]


def test_fences_and_front_matter_are_told_from_text() -> None:
    lines = "---\ndate: x\n---\ntext\n```python\na = 1\n```\n~~~\n```\n~~~\nend".split("\n")
    assert line_languages(lines, 0, len(lines)) == [
        "yaml", "yaml", "yaml", "", "fence", "python", "fence", "fence", "text", "fence", "",
    ]  # fmt: skip
    # A window in the middle of a fence is code.
    lines = ["```python", *["x = 1"] * 300, "```", "text"]
    assert line_languages(lines, 200, 303) == ["python"] * 101 + ["fence", ""]


def test_a_language_is_told_by_the_fence_or_the_name_of_the_file() -> None:
    assert Highlighter(["```no-such-language", "x = 1", "```"], "a.md").line(1) == [("x = 1", "")]
    names = ("a/b.py", "a/b.md", "a/b.unknown")
    assert [language_of(name) for name in names] == ["py", "", "text"]
    assert any(style for _, style in Highlighter(["def f(): pass"], "a.py").line(0))
    assert _text(Highlighter(["- [x] [/] arr[0]"], "a.md"), 0) == "- [x] [/] arr[0]"


@pytest.mark.parametrize("line", ["a\tb", "路\tb", "\t\tb", "x" * 3 + "\t"])
def test_tabs_reach_the_next_multiple_of_four_cells(line: str) -> None:
    shown = display_line(line)
    assert "\t" not in shown
    before = shown[: -len(line.rpartition("\t")[2]) or None]
    assert cell_len(before) % 4 == 0


@pytest.mark.parametrize("character", ["x", "路", "e\u0301"])
def test_long_lines_end_in_an_ellipsis(character: str) -> None:
    shown = display_line(character * 1_000_000)
    assert shown.endswith("…")
    assert cell_len(shown) <= MAX_CELLS
    assert display_line("windows\r") == "windows"


@pytest.mark.parametrize(
    "attack",
    ["[", "[ ", "[a](", "* ", "**a ", "`", "_a ", "- [ ] ", "@a ", "<", "```x", "~~a ", "!["],
)
def test_hostile_markdown_takes_bounded_time(attack: str) -> None:
    lines = [(attack * 2000)[:2000]] * 200
    highlighter = Highlighter(lines, "memory/attack.md")
    start = time.process_time()
    for index in range(60):
        highlighter.line(index)
    assert time.process_time() - start < 1.0


def test_records_are_coloured_one_by_one() -> None:
    # An open string or brace in one record colours nothing of the next.
    records = ['{"type": "message", "text": "half', '{"type": "message", "n": 1}'] * 60
    highlighter = Highlighter(records, "sessions/a.jsonl")
    pieces = [highlighter.line(number) for number in range(20)]
    assert pieces[1] == pieces[3] == code_pieces([records[1]], "json")[0]
    assert any(style for _, style in pieces[1])
