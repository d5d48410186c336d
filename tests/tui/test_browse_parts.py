"""The parts of the browse screen as pure functions: tree, weeks, outline, filter, rendering."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.model import Reason
from memtui.model.browsing import DayTotals, FileState, MemoryFile
from memtui.retrieval.query import FileFilter, parse_query
from memtui.text.sanitize import HOSTILE
from memtui.tui.glyphs import ASCII, UNICODE
from memtui.tui.screens.browse.file_words import badge, file_line, state_words
from memtui.tui.screens.browse.markdown import MOST_LINES, Heading, headings, render, too_much
from memtui.tui.screens.browse.reader import chunk_at, path_filter
from memtui.tui.screens.browse.tree import (
    Sort,
    all_folders,
    build_tree,
    filter_files,
    flatten,
    folders_around,
)
from memtui.tui.widgets.timeline import (
    Measure,
    levels,
    month_labels,
    moved,
    window_ending,
)
from tests.tui.browse_samples import FILES, HOSTILE_NAME, chunks_in, memory_file, note_lines
from tests.tui.samples import NOW


def drawn(files: list[MemoryFile], sort: Sort = Sort.NAME, *folded: str) -> list[str]:
    lines = flatten(build_tree(files, sort), folded)
    return [" " * line.depth + line.name + ("/" if line.folder else "") for line in lines]


# --- tree -----------------------------------------------------------------------------------------


def test_the_tree_has_places_then_files_then_folders() -> None:
    files = [
        memory_file("memory/b.md"),
        memory_file("sessions/main/1.jsonl", source="sessions", place="agent main"),
        memory_file("MEMORY.md"),
        memory_file("memory/topics/deep/x10.md"),
        memory_file("memory/topics/deep/x9.md"),
        memory_file("/vault/a/n.md", place="/vault"),
    ]
    assert drawn(files) == [
        "workspace/",
        " MEMORY.md",
        " memory/",
        "  b.md",
        "  topics/deep/",
        "   x9.md",
        "   x10.md",
        "/vault/",
        " a/",
        "  n.md",
        "agent main/",
        " sessions/main/",
        "  1.jsonl",
    ]


def test_other_orders_list_the_files_of_a_place_without_folders() -> None:
    files = [
        memory_file("memory/small.md", size=1, chunks=9, days_ago=5),
        memory_file("memory/2026-02-12.md", size=30, chunks=2, days_ago=300),
        memory_file("top.md", size=None, chunks=0, days_ago=2),
    ]
    assert drawn(files, Sort.SIZE)[1:] == [" memory/2026-02-12.md", " memory/small.md", " top.md"]
    assert drawn(files, Sort.CHUNKS)[1:] == [" memory/small.md", " memory/2026-02-12.md", " top.md"]
    # What never came up first, and last what has no chunk that could.
    recalled = {"memory/small.md": 3}
    assert [line.name for line in flatten(build_tree(files, Sort.RECALLS, recalled), ())][1:] == [
        "memory/2026-02-12.md",
        "memory/small.md",
        "top.md",
    ]
    # A file's own day counts before its last change.
    assert drawn(files, Sort.DATE)[1:] == [" memory/2026-02-12.md", " top.md", " memory/small.md"]


def test_folders_count_and_tell_the_worst_state_and_fold() -> None:
    tree = build_tree(FILES)
    workspace = tree[0]
    assert (workspace.name, workspace.count, workspace.chunks) == ("workspace", 11, 11)
    assert workspace.worst is FileState.ERROR
    projects = next(folder for folder in all_folders(tree) if folder.name == "projects")
    assert (projects.count, projects.size, projects.worst) == (2, 1200, FileState.CURRENT)
    around = folders_around(tree, "memory/projects/router.md")
    assert around[-1] == projects.id
    assert len(around) == 3
    assert folders_around(tree, "nothing.md") == ()
    open_ids = [line.id for line in flatten(tree, ())]
    folded = [line.id for line in flatten(tree, {projects.id})]
    assert set(open_ids) - set(folded) == {
        line.id for line in flatten(tree, ()) if (line.name, line.file) in projects.named
    }
    assert len(list(flatten(tree, {folder.id for folder in tree}))) == len(tree)


def test_a_path_of_many_folders_and_one_of_none_are_no_trouble() -> None:
    deep = memory_file("/".join(["a"] * 2000) + "/b.md")
    odd = [memory_file(path) for path in ("//", "a//b.md", "/abs.md", "")]
    lines = list(flatten(build_tree([deep, *odd]), ()))
    assert sum(line.file is not None for line in lines) == 5
    assert max(line.depth for line in lines) <= 32


# --- words ----------------------------------------------------------------------------------------


def test_every_state_has_a_badge_and_words_with_why() -> None:
    told = {file.path: (badge(file.state, UNICODE), state_words(file)) for file in FILES}
    assert told["MEMORY.md"] == (" ", "indexed")
    assert told["memory/2026-02-09.md"] == ("●", "changed since it was indexed")
    assert told["memory/gone.md"] == ("◌", "file gone, still in the index")
    assert told["memory/locked.md"] == ("!", "error: Permission denied")
    assert told["memory/link.md"] == ("·", "not indexed: a link, not followed")
    for reason in Reason:
        file = memory_file("x.md", state=FileState.NOT_INDEXED, reason=reason)
        told_words = state_words(file).removeprefix("not indexed")
        assert "_" not in told_words
        assert told_words.startswith(": ") or reason is Reason.OK
    assert len({badge(state, ASCII) for state in FileState}) == len(FileState)
    line = file_line(FILES[1], NOW, UNICODE).plain
    assert line == "indexed  2 chunks · 12 lines · 2.0 KB · Tue 2026-02-10 · changed 3 d ago"
    for times, words in ((0, "never recalled"), (1200, "recalled 1 200×")):
        line = file_line(FILES[1], NOW, UNICODE, {FILES[1].path: times}).plain
        assert line.startswith(f"indexed  {words} · 2 chunks")
    assert "recall" not in file_line(memory_file("x.md", chunks=0), NOW, UNICODE, {}).plain


# --- weeks ----------------------------------------------------------------------------------------


def totals(day: date, size: int, *, recalls: int | None = None) -> DayTotals:
    return DayTotals(day, ("memory/n.md",), size, size // 10, recalls)


def test_a_window_ends_with_the_week_of_its_day_and_begins_on_a_monday() -> None:
    window = window_ending(date(2026, 2, 13))
    assert window.day(0, 0) == date(2025, 2, 10)
    assert window.day(52, 4) == date(2026, 2, 13)
    assert window.day(52, 6) == date(2026, 2, 15)
    assert window.place(date(2025, 2, 13)) == (0, 3)
    assert window.place(date(2026, 2, 16)) is None
    assert window.day(53, 0) is None
    assert window.holding(date(2026, 2, 16)).place(date(2026, 2, 16)) == (52, 0)
    assert window.holding(date(2024, 1, 1)).place(date(2024, 1, 1)) == (0, 0)
    assert window.holding(date(2025, 7, 1)) == window


def test_months_stand_above_the_week_of_their_first_day() -> None:
    labels = month_labels(window_ending(date(2026, 2, 13)))
    assert labels == "  Mar  Apr May Jun  Jul Aug  Sep Oct Nov  Dec Jan Feb "[:53]
    assert len(labels) == 53
    wide = month_labels(window_ending(date(2026, 2, 13)), 2)
    assert wide.index("Mar") == 2 * labels.index("Mar")


@given(st.dates(), st.integers(1, 60))
def test_every_day_of_the_calendar_has_a_window_that_shows_it(day: date, weeks: int) -> None:
    window = window_ending(day, weeks)
    week, weekday = window.place(day) or (-1, -1)
    assert (week, weekday) == (weeks - 1, day.weekday())
    assert window.day(week, weekday) == day
    assert moved(moved(day, 10**7), -(10**8)) == date.min
    month_labels(window)


def test_levels_are_quarters_of_the_days_that_have_any() -> None:
    start = date(2026, 1, 1)
    days = [totals(start + timedelta(number), size) for number, size in enumerate((10, 20, 30, 40))]
    assert list(levels(days, Measure.BYTES).values()) == [1, 2, 3, 4]
    huge = [*days, totals(date(2026, 2, 1), 10**9), totals(date(2026, 2, 2), 0)]
    assert list(levels(huge, Measure.BYTES).values()) == [1, 2, 3, 4, 4, 0]
    assert set(levels([totals(day.day, 7) for day in days], Measure.CHUNKS).values()) == {0}
    recalled = [totals(start, 10, recalls=2), totals(moved(start, 1), 10, recalls=0)]
    assert list(levels(recalled, Measure.RECALLS).values()) == [4, 0]
    assert list(levels(days, Measure.RECALLS).values()) == [0, 0, 0, 0]
    assert levels((), Measure.BYTES) == {}


# --- outline --------------------------------------------------------------------------------------

OUTLINED = """---
title: "# not a heading"
---
# One #
text
```python
# code
```
~~~
## still code
```
~~~
   ### Three ###
#hashtag
####### seven
Setext
======
Another one
---

---
- item
---
    # indented code
> # quoted
##
\t# tab
# Last"""


def test_headings_are_those_of_the_text_and_none_of_code() -> None:
    assert headings(OUTLINED.split("\n")) == [
        Heading(4, 1, "One"),
        Heading(13, 3, "Three"),
        Heading(16, 1, "Setext"),
        Heading(18, 2, "Another one"),
        Heading(26, 2, ""),
        Heading(28, 1, "Last"),
    ]
    assert headings([]) == []
    assert headings(["```", "# in a fence that never ends"]) == []
    assert len(headings(["# x"] * 6000)) == 5000
    assert headings(["# " + "a" * 1_000_000])[0].text.startswith("aaaa")


# --- filter and places ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("router", ["memory/projects/router.md"]),
        ("ROUTER proj", ["memory/projects/router.md"]),
        ("vault", ["/home/ann/vault/ideas.md"]),
        ("agent", ["sessions/main/3f9a.jsonl"]),
        ("workspace", []),
        ("source:sessions", ["sessions/main/3f9a.jsonl"]),
        ("path:projects after:2026-02-10 before:2026-02-11", ["memory/projects/2026-02-10.md"]),
        ("path:*/router.md", ["memory/projects/router.md"]),
        ("nothing-here", []),
    ],
)
def test_the_filter_takes_words_and_the_filters_of_a_query(text: str, expected: list[str]) -> None:
    assert [file.path for file in filter_files(FILES, text).files] == expected


@pytest.mark.parametrize(
    "path", ["memory/a.md", "my notes/[x] a*b?.md", 'memory/"quoted" name.md', HOSTILE_NAME]
)
def test_a_search_in_a_file_lets_this_file_through(path: str) -> None:
    query = parse_query(f"{path_filter(path)} words")
    assert query.problems == ()
    assert query.text == "words"
    accepts = FileFilter(query.filters)
    assert accepts.fits(path=path, source="memory", day=None, mtime_ns=0)
    assert not accepts.fits(path="memory/other.md", source="memory", day=None, mtime_ns=0)


def test_a_line_is_in_the_last_chunk_that_begins_before_it() -> None:
    chunks = chunks_in(FILES[0], note_lines("x", 3))
    assert [(chunk.start_line, chunk.end_line) for chunk in chunks] == [(1, 7), (7, 13), (13, 17)]
    assert [chunk_at(chunks, line) for line in (0, 1, 6, 7, 13, 99)] == [0, 0, 0, 1, 2, 2]
    assert chunk_at((), 3) is None


# --- rendering ------------------------------------------------------------------------------------

MARKDOWN = """# Title
one two
three\\
hard

- [ ] todo
- [x] **done** `code`
> quoted
1. first

| a | b |
|---|---|
| long cell | [x](http://e.org/a) |
```py
x = [1]
```
***
![pic](a.png) [[wiki]] \\*not\\* snake_case_name"""


def test_markdown_is_rendered_line_by_line() -> None:
    lines = render(MARKDOWN.split("\n"), 40, UNICODE)
    assert [(line.source, line.content.plain.rstrip()) for line in lines] == [
        (1, "Title"),
        (1, ""),
        (2, "one two three"),
        (4, "hard"),
        (5, ""),
        (6, "☐ todo"),
        (7, "☑ done code"),
        (8, "▎ quoted"),
        (9, "1. first"),
        (10, ""),
        (11, "a         │ b"),
        (12, "──────────┼───────────────────"),
        (13, "long cell │ x (http://e.org/a)"),
        (14, "── py " + "─" * 34),
        (15, "  x = [1]"),
        (16, "─" * 40),
        (17, "─" * 40),
        (18, "[image: pic] wiki *not* snake_case_name"),
    ]


def test_rendered_lines_keep_their_width_and_hold_no_command() -> None:
    text = "\x1b]2;PWNED\x07 [@click=app.quit]x[/] \u202e " + "路由器 word " * 40
    lines = [f"# {text}", text, f"- {text}", f"> {text}", f"| {text} | b |", "```", text, "```"]
    for width in (12, 33, 80):
        for line in render(lines, width, ASCII):
            assert line.content.cell_length <= width
            assert HOSTILE.search(line.content.plain) is None
            assert not any("@click" in str(span.style) for span in line.content.spans)


def test_lists_nest_and_an_entity_brings_no_control_character() -> None:
    text = "- a\n  - b\n    > c **d\n\n10) e ~~f~~ &#x202e;g [h](größe.md)"
    lines = [line.content.plain for line in render(text.split("\n"), 40, UNICODE)]
    assert lines == ["• a", "  • b", "    ▎ c **d", "", "10) e f &#x202e;g h (größe.md)"]


def test_what_is_too_long_is_not_rendered_and_brackets_take_no_time() -> None:
    assert too_much(["a"] * MOST_LINES) == ""
    assert too_much(["a"] * (MOST_LINES + 1)).startswith("too long to render")
    assert "characters" in too_much(["a" * 500_000])
    for piece in ("[", "![", "**", "`", "_a", "[a](", "\\"):
        assert render([piece * 2000], 40, UNICODE)
    assert render(["> " * 50 + "deep"], 40, UNICODE)[0].content.plain.endswith("deep")
