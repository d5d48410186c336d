"""Browsing: tree, words, weeks, outline, filter, rendering, and the screen while things change."""

from __future__ import annotations

from calendar import day_abbr
from datetime import UTC, date, datetime
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from textual.color import Color

from memtui.bus import FileIndexed
from memtui.engine.browse import Browse
from memtui.model import Chunk, FileState, Reason
from memtui.model.browsing import DayTotals, MemoryFile
from memtui.retrieval.query import parse_query
from memtui.text.sanitize import HOSTILE
from memtui.tui import glyphs
from memtui.tui.present import sign_of
from memtui.tui.screens.browse import file_list
from memtui.tui.screens.browse.browse_screen import BrowseScreen
from memtui.tui.screens.browse.file_list import (
    Sort,
    file_line,
    filter_files,
    state_words,
    tree_lines,
)
from memtui.tui.screens.browse.markdown import MOST_LINES, Heading, headings, render, too_much
from memtui.tui.screens.browse.reader import chunk_at, path_filter
from memtui.tui.widgets.timeline import HeatMap, Measure, levels, month_labels, moved
from tests.support.known import load
from tests.support.small_memory import NOW, SmallMemory
from tests.tui.harness import held_history, press, press_at_once, resize, running, settle

CHANGED = datetime(2026, 2, 8, 12, 0, tzinfo=UTC)
HOSTILE_NAME = "memory/\x1b]2;PWNED\x07\u202eevil\nname [/] [@click=app.quit]x[/].md"


def memory_file(
    path: str, source: str = "memory", place: str = "workspace", **given: Any
) -> MemoryFile:
    """A file whose day is the date in its name."""
    try:
        day: date | None = date.fromisoformat(path.rpartition("/")[2][:10])
    except ValueError:
        day = None
    file = MemoryFile(path, source, place, FileState.CURRENT, 1200, CHANGED, 1, 10, day)
    return replace(file, **given)


FILES = (
    memory_file("MEMORY.md", chunks=3, size=5000),
    memory_file("memory/2026-02-10.md", chunks=2, size=2000),
    memory_file("memory/2026-02-09.md", state=FileState.STALE, size=900),
    memory_file("memory/projects/router.md", size=800),
    memory_file("memory/projects/2026-02-10.md", size=400),
    memory_file("memory/gone.md", state=FileState.ORPHAN, size=None),
    memory_file("memory/locked.md", state=FileState.ERROR, chunks=0),
    memory_file("memory/link.md", state=FileState.SKIPPED, chunks=0),
    memory_file(HOSTILE_NAME, size=10),
    memory_file("/home/ann/vault/ideas.md", place="/home/ann/vault", size=700),
    memory_file("sessions/main/3f9a.jsonl", "sessions", "agent main", chunks=8),
)


def test_the_tree_has_places_then_files_then_folders() -> None:
    files = [
        memory_file("memory/b.md"),
        memory_file("sessions/main/1.jsonl", "sessions", "agent main"),
        memory_file("MEMORY.md"),
        memory_file("memory/topics/deep/x10.md"),
        memory_file("memory/topics/deep/x9.md"),
        memory_file("memory/w10/c.md"),
        memory_file("memory/w9/c.md"),
        memory_file("memory/.git", state=FileState.SKIPPED),
        memory_file("/vault/a/n.md", place="/vault"),
    ]
    names = [
        " " * len(one.around) + one.name + ("" if one.file else "/") for one in tree_lines(files)
    ]
    assert names == [
        *("workspace/", " MEMORY.md", " memory/", "  b.md", "  topics/deep/"),
        *("   x9.md", "   x10.md", "  w9/", "   c.md", "  w10/", "   c.md", "  .git"),
        *("/vault/", " a/", "  n.md"),
        *("agent main/", " sessions/main/", "  1.jsonl"),
    ]


def test_other_orders_list_the_files_of_a_place_without_folders() -> None:
    files = [
        memory_file("a.md", size=30, chunks=2),
        memory_file("b.md", size=1, chunks=9),
        memory_file("2026-02-01.md", size=None, chunks=0),
    ]
    orders = {
        Sort.SIZE: ["a.md", "b.md", "2026-02-01.md"],
        Sort.CHUNKS: ["b.md", "a.md", "2026-02-01.md"],
        # The undated last, however new they are.
        Sort.DATE: ["2026-02-01.md", "a.md", "b.md"],
        # What never came up first, and last what has no chunk that could.
        Sort.RECALLS: ["b.md", "a.md", "2026-02-01.md"],
    }
    for sort, names in orders.items():
        assert [line.name for line in tree_lines(files, sort, {"a.md": 3})[1:]] == names


def test_folders_hold_their_files_and_tell_the_worst_state() -> None:
    lines = tree_lines(FILES)
    workspace = lines[0]
    assert (workspace.name, workspace.number) == ("workspace", 8)
    assert workspace.state is FileState.ERROR
    left = [memory_file(f"{one}.md", state=one) for one in (FileState.STALE, FileState.ORPHAN)]
    assert tree_lines(left)[0].state is FileState.ORPHAN
    projects = next(line for line in lines if line.name == "projects")
    assert (len(projects.files), projects.size, projects.state) == (2, 1200, FileState.CURRENT)
    router = next(line for line in lines if line.name == "router.md")
    assert (router.around[0], router.around[-1]) == (projects.id, workspace.id)
    assert len(router.around) == 3
    within = [line.name for line in lines if projects.id in line.around]
    assert within == ["2026-02-10.md", "router.md"]
    assert sum(not line.around for line in lines) == 3


@pytest.mark.parametrize(
    ("state", "reason", "detail", "told"), load("interface")["states of files"]
)
def test_a_state_has_a_badge_and_words_with_why(
    state: str, reason: str, detail: str, told: list[str]
) -> None:
    kept, why = FileState(state), Reason(reason)
    file = memory_file("x.md", state=kept, reason=why, detail=detail, chunks=0)
    assert [sign_of("browsed", kept)[0], state_words(file)] == told
    assert len({sign_of("browsed", one)[0] for one in FileState}) == len(FileState) - 1
    assert "never recalled" in file_line(FILES[0], CHANGED, {}).plain


def test_paths_of_many_folders_and_of_none_are_no_trouble() -> None:
    deep = memory_file("/".join(["a"] * 2000) + "/b.md")
    odd = [memory_file(path) for path in ("//", "a//b.md", "/abs.md", "")]
    many = [memory_file(f"n{n % 50:02}/{n}.md") for n in range(20_000)]
    lines = tree_lines([deep, *odd, *many])
    assert sum(line.file is not None for line in lines) == 20_005
    assert max(len(line.around) for line in lines) <= 32


def totals(day: date, size: int, *, recalls: int | None = None) -> DayTotals:
    """A day with a note of so many bytes."""
    return DayTotals(day, ("memory/n.md",), size, size // 10, recalls)


def test_months_stand_above_the_week_of_their_first_day() -> None:
    first = date(2025, 2, 10).toordinal()
    labels = month_labels(first, 53)
    assert labels == "  Mar  Apr May Jun  Jul Aug  Sep Oct Nov  Dec Jan Feb "[:53]
    wide = month_labels(first, 53, 2)
    assert [wide.index(name) for name in ("Mar", "Jan")] == [4, 92]
    assert len(wide) == 106


@given(st.integers(-100, date.max.toordinal()), st.integers(1, 60), st.sampled_from((1, 2)))
def test_weeks_anywhere_in_the_calendar_have_labels(first: int, weeks: int, step: int) -> None:
    assert len(month_labels(first, weeks, step)) == weeks * step


def test_a_day_is_as_dark_as_its_rank_among_the_days() -> None:
    start = date(2026, 1, 1)
    days = [totals(moved(start, number), size) for number, size in enumerate((10, 20, 30, 40))]
    assert list(levels(days, Measure.BYTES).values()) == [1, 2, 3, 4]
    huge = [*days, totals(date(2026, 2, 1), 10**9), totals(date(2026, 2, 2), 0)]
    assert list(levels(huge, Measure.BYTES).values()) == [1, 2, 3, 4, 4, 0]
    assert set(levels([totals(day.day, 7) for day in days], Measure.CHUNKS).values()) == {0}
    recalled = [totals(start, 10, recalls=2), totals(moved(start, 1), 10, recalls=0)]
    assert list(levels(recalled, Measure.RECALLS).values()) == [4, 0]
    assert not HeatMap().check_action("open", ()), "there is no day with notes"
    assert levels((), Measure.BYTES) == {}
    assert (moved(date.max, 1), moved(date.min, -1)) == (date.max, date.min)


def test_headings_are_those_of_the_text_and_none_of_code() -> None:
    assert headings(load("notes")["panes"]["memory/outlined.md"].split("\n")) == [
        Heading(4, 1, "One"),
        Heading(13, 3, "Three"),
        Heading(16, 1, "Setext"),
        Heading(18, 2, "Another one"),
        Heading(26, 2, ""),
        Heading(28, 1, "Last"),
    ]
    assert headings([]) == []
    assert headings(["```", "# in a fence that never ends"]) == []
    assert headings(["# " + "a" * 1_000_000])[0].text.startswith("aaaa")


@pytest.mark.parametrize(("text", "expected"), load("interface")["filters of files"])
def test_the_filter_takes_words_and_the_filters_of_a_query(text: str, expected: list[str]) -> None:
    assert [file.path for file in filter_files(FILES, text)[0]] == expected


@pytest.mark.parametrize(
    "path", ["memory/a.md", "my notes/[x] a*b?.md", 'memory/"quoted" name.md', HOSTILE_NAME]
)
def test_a_search_in_a_file_lets_this_file_through(path: str) -> None:
    query = parse_query(f"{path_filter(path)} words")
    assert query.problems == ()
    assert query.text == "words"
    accepts = query.filters
    assert accepts.fits(path=path, source="memory", day=None, mtime_ns=0)
    assert not accepts.fits(path="memory/other.md", source="memory", day=None, mtime_ns=0)


def test_a_line_is_in_the_last_chunk_that_begins_before_it() -> None:
    lines = ((1, 7), (7, 13), (13, 17))
    chunks = [Chunk(f"{at}", "a.md", "memory", *at, "x", "hash", "minilm") for at in lines]
    first, second, third = chunks
    assert [chunk_at(chunks, line) for line in (0, 1, 6)] == [first] * 3
    assert [chunk_at(chunks, line) for line in (7, 13, 99)] == [second, third, third]
    assert chunk_at((), 3) is None


def test_rendered_lines_keep_their_width_and_hold_no_command() -> None:
    text = "\x1b]2;PWNED\x07 [@click=app.quit]x[/] \u202e " + "路由器 word " * 40
    lines = [f"# {text}", text, f"- {text}", f"> {text}", f"| {text} | b |", "```", text, "```"]
    for width in (12, 33, 80):
        for line in render(lines, width):
            assert line.content.cell_length <= width
            assert HOSTILE.search(line.content.plain) is None
            assert not any("@click" in str(span.style) for span in line.content.spans)


def test_lists_nest_and_an_entity_brings_no_control_character() -> None:
    text = "- a\n  - b\n    > c **d\n\n10) e ~~f~~ &#x202e;g [h](größe.md)"
    lines = [line.content.plain for line in render(text.split("\n"), 40)]
    assert lines == ["• a", "  • b", "    ▎ c **d", "", "10) e f &#x202e;g h (größe.md)"]


def test_what_is_too_long_is_not_rendered_and_brackets_take_no_time() -> None:
    assert too_much(["a"] * MOST_LINES) == ""
    assert too_much(["a"] * (MOST_LINES + 1)).startswith("too long to render")
    assert "(1 line, 500,000 characters)" in too_much(["a" * 500_000])
    for piece in ("[", "![", "**", "`", "_a", "[a](", "\\"):
        assert render([piece * 2000], 40)
    assert render(["> " * 50 + "deep"], 40)[0].content.plain.endswith("deep")


async def test_recalls_are_counted_stopped_and_counted_again_for_other_queries(
    memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, asked = held_history(monkeypatch)
    async with running(memory.open) as run:
        notes = run.app.search_screen.notes
        await run.press("escape", "2", "o", "o", "o", "o", shows="No queries asked yet: recalls")
        await run.press("o", "o", "o")
        assert "by size" in run.text
        assert " B " in run.text, "what it is ordered by is shown where sizes have no room"
        await run.press("o", "o")
        notes.queries = queries = ("tomatoes", "lotus tea")
        await press(run.pilot, "o", "o", "o", "o", "o")
        await run.until(lambda: "by recalls  1/2 esc stops" in run.text)
        # The days may show something else meanwhile; escape stops, and only that.
        await press(run.pilot, "B", "escape")
        await run.until(lambda: asked == [queries, ()])
        await run.until(lambda: "by recalls  not counted" in run.text)
        goes_on.set()
        await run.press("o", "o", "o", "o", "o", shows="by recalls  12 files")
        assert asked == [queries, (), queries]
        await run.press("G", "B")
        assert "× · 3 chunks" in run.text
        await run.press("B", shows="recalled")
        notes.queries = ("ssid", *notes.queries)
        await run.press("o", "o", "o", "o", "o")
        await run.until(lambda: asked[-1] == notes.queries)


async def test_a_list_that_fails_keeps_what_there_was(
    memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_list, "SOONEST", 0.01)
    async with running(memory.open) as run:
        run.app.open_place("memory/people/mai.md", 3)
        screen = run.screen(BrowseScreen)
        await run.until(lambda: "Birthday" in run.text and bool(screen.file_list.lines))
        await run.press("right_square_bracket")
        await run.until(lambda: "next file: memory/topics/garden.md" in run.toasts)
        await run.press("escape")
        assert screen.file_rows.has_focus, "the first step back is the tree"
        await run.press("escape")
        assert run.app.screen is run.app.search_screen
        run.app.action_show_screen("browse")
        with monkeypatch.context() as patch:
            patch.setattr(Browse, "files", Mock(side_effect=OSError("disk on fire\x1b[31m")))
            run.engine.bus.publish(FileIndexed())
            await run.until(lambda: "cannot list the files: disk on fire" in run.text)
        assert len(screen.file_list.files) == 12
        run.app.open_place("not/there.md", 7)
        await settle(run.app, run.pilot)
        assert screen.reader.path == "not/there.md"


async def test_the_preview_is_of_the_marked_row_whatever_led_there(memory: SmallMemory) -> None:
    async with running(memory.open) as run:
        await run.press("escape", "2", "G")
        screen = run.screen(BrowseScreen)
        last = screen.reader.path
        await run.press("slash", *"mai")
        assert screen.reader.path == "memory/people/mai.md"
        await run.press("x", shows="no path fits: esc clears")
        await run.press("escape")
        assert "no path fits" not in run.text
        await run.press("escape")
        assert screen.reader.path == last, "where the filter was begun"
        assert screen.file_rows.chosen_id == f"memory\0{last}"
        (memory.root / last).write_text("word " * 40 + "and its end\n")
        await run.press("D", shows="and its end")
        await run.press("escape")
        await run.press("g", shows="A folder: Enter opens and closes it.")
        assert screen.reader.path == ""
        await run.press("j", shows="L outline")
        (memory.root / "MEMORY.md").write_text("")
        run.engine.index.sync(wait=True)
        await run.until(lambda: run.text.count("indexed: no text in it") == 2)
        assert "not in the index" not in run.text
        (memory.root / "MEMORY.md").write_text("\0" * 16)
        run.engine.index.sync(wait=True)
        await run.press("M", "M", shows="no text: 16 NUL bytes")
        assert "L outline" not in run.text
        assert "K chunk" not in run.text
        assert "file gone" not in run.text


async def test_a_place_far_down_is_gone_to_and_a_file_that_goes_is_still_read(
    memory: SmallMemory,
) -> None:
    note = memory.root / "memory/long.md"
    note.write_text("".join(f"line {number}\n" for number in range(1, 300)), "utf-8")
    async with running(memory.open) as run:
        run.engine.index.sync(wait=True)
        run.app.open_place("memory/long.md", 250)
        await run.until(lambda: "line 250" in run.text)
        screen = run.screen(BrowseScreen)
        assert screen.view.top[0] == 249
        (memory.root / "memory/one-line.md").write_text("word " * 2_000, "utf-8")
        run.engine.index.sync(wait=True)
        chunk = run.engine.browse.chunks_of("memory/one-line.md")[0]
        run.app.open_place(chunk.path, 1, chunk.id)
        await run.until(lambda: screen.view.chunk == chunk)
        source = screen.reader.source
        await run.press("K", "escape")
        await settle(run.app, run.pilot)
        assert screen.reader.source is source, "nothing changed: it is not read again"
        run.engine.bus.publish(FileIndexed())
        await run.until(lambda: screen.reader.source is not source)
        assert screen.view.chunk == chunk, "of several chunks of a line the one that was shown"
        run.app.open_place("memory/long.md", 250)
        await run.until(lambda: "line 250" in run.text)
        note.unlink()
        run.engine.index.sync(wait=True)
        await run.until(lambda: "file gone, no longer in the index" in run.text)
        assert "line 250" in run.text


async def test_keys_without_anything_to_do_at_any_size(memory: SmallMemory) -> None:
    empty = SmallMemory(memory.root / "none", memory.data / "none")
    empty.root.mkdir()
    async with running(empty.open, size=(50, 14)) as run:
        await run.press("escape", "2", shows="memtui looks for MEMORY.md")
        for size in ((50, 14), (1, 1), (160, 50)):
            await resize(run.pilot, size)
            await run.press(*"z o h l G y e K M T L D : @ f".split(), "enter", "escape", "escape")
            run.app.action_show_screen("browse")
        (empty.root / "MEMORY.md").write_text("x" * 1_000_000)
        run.engine.index.sync(wait=True)
        await run.until(lambda: "xxxx" in run.text)
        await run.press("M")
        assert any("1,000,000 characters): shown as text" in toast for toast in run.toasts)


async def test_the_timeline_names_its_days_and_its_cursor_and_warns_of_nothing(
    memory: SmallMemory,
) -> None:
    for name in "ab":
        (memory.root / f"memory/{NOW:%Y-%m-%d}-{name}.md").write_text("# of the day\n")
    async with running(memory.open, size=(120, 40)) as run:
        await run.press("escape", "2", "T")
        assert "B by bytes" in run.text
        assert "2 dated notes  26 B" in run.text
        assert "⏎ open the day  N previous notes  n next notes  / filter" in run.text
        assert all(f"│ {day} " in run.text for day in day_abbr)
        heat_map = run.screen(BrowseScreen).timeline.heat_map
        cursor = glyphs.CHOSEN_DAY
        assert f"{cursor} {heat_map.day:%a} {heat_map.day}" in run.text

        def colours() -> dict[str, object]:
            """The colour of the cursor and of the days around it."""
            rows = [heat_map.render_line(y) for y in range(1, 8)]
            return {one.text: one.style.color for row in rows for one in row if one.style}

        variables = run.app.theme_variables
        warning, focus = (Color.parse(variables[name]) for name in ("state-warn", "primary"))
        assert colours()[cursor] == focus.rich_color != warning.rich_color
        await run.press("escape")
        assert focus.rich_color not in colours().values(), "the focus alone has its colour"
        await run.press("T", "enter", shows="8 of 14")
        await run.until(lambda: run.screen(BrowseScreen).reader.path.endswith("-a.md"))


async def test_enter_reads_a_result_over_the_whole_width_and_leads_back_to_its_row(
    memory: SmallMemory,
) -> None:
    async with running(memory.open, size=(120, 30)) as run:
        await run.search("router config")
        search = run.app.search_screen
        await run.press("down")
        await press_at_once(run.pilot, "enter", "down")
        await run.press("escape", shows="router config")
        await run.press("escape")
        row = search.results.chosen_id
        for leave in ("escape", "q"):
            await run.press("enter")
            screen = run.screen(BrowseScreen)
            assert screen.view.outer_size.width == 120
            assert screen.view.rendered
            assert screen.view.chunk is not None
            assert screen.view.chunk.id == row
            await run.press("n")
            first = screen.view.chosen
            await run.press("n", "N")
            assert screen.view.chosen == first is not None
            assert "match 1 of " in run.text
            passage = screen.view.passage
            assert "outline" in screen.active_bindings["escape"].binding.tooltip
            await run.press("L", leave)
            assert (run.app.screen, screen.outline_rows.display) == (screen, False)
            assert screen.view.passage == passage != (0, 0)
            assert "M source" in run.text
            await run.press("M")
            assert not screen.view.rendered
            assert "─ Source  chunk" in run.text
            assert "╭│╰ each ║ two" in run.text
            assert f"{screen.view.chunk.start_line:>4} ▌" in run.text
            await run.press("M", leave)
            assert run.app.screen is search
            assert (search.results.has_focus, search.results.chosen_id) == (True, row)
        await run.press("enter", "2")
        browse = run.screen(BrowseScreen)
        assert browse.file_rows.display, "its own key shows the tree beside the file"
        assert (browse.reader.path, browse.view.chunk) == (screen.reader.path, screen.view.chunk)
        await run.press("escape", "escape")
        assert run.app.screen is search
        await run.press("enter")
        keys = set(run.screen(BrowseScreen).active_bindings)
        assert keys & {"L", "o", "B"} == {"L"}
        await run.press("T")
        assert browse.timeline.has_focus_within
        file = browse.file_list.files[screen.reader.path]
        assert browse.timeline.heat_map.day == file.day is not None
        await run.press("escape", "escape", "escape", "enter", "slash")
        assert search.query_input.has_focus


@pytest.mark.parametrize("rendered", [False, True])
async def test_links_are_followed_within_the_memory_and_told_beyond_it(
    memory: SmallMemory, rendered: bool
) -> None:
    links = load("interface")["links in a note"]
    (memory.root.parent / "outside.md").write_text("secret")
    folder = memory.root / "memory"
    (folder / "trips/kyoto.md").write_text("# Kyoto, spring\n")
    lines = [f"{'x ' * 20}\n"] * 90
    (folder / "topics/homelab.md").write_text("".join([*lines, "## The Router\n\nhere\n", *lines]))
    text = "\n\n".join(["`[[code]]`", *links, *lines, "## Far below", *lines])
    (folder / "links.md").write_text(text)
    async with running(memory.open, size=(100, 30)) as run:
        run.engine.index.sync(wait=True)
        run.app.open_place("memory/links.md", alone=rendered)
        await settle(run.app, run.pilot)
        screen = run.screen(BrowseScreen)
        for path, told in links.values():
            await run.press("tab")
            place, before = screen.view.chosen, screen.view.top
            await run.press("enter")
            if not path:
                assert told in run.toasts[-1]
                assert screen.reader.path == "memory/links.md"
                continue
            assert screen.reader.path == path
            assert told in run.text
            below, chunk = screen.view.top, screen.view.chunk
            assert chunk is not None
            assert told in chunk.text
            screen.reader.go_to_line(below[0])
            assert screen.view.top == below, "as the outline leads there"
            await run.press("backspace")
            assert (screen.reader.path, screen.view.top) == ("memory/links.md", before)
            await run.press("alt+right")
            assert (screen.reader.path, screen.view.top) == (path, below)
            await run.press("alt+left")
            screen.view.chosen = place
        await run.press("tab")
        assert screen.view.chosen is None, "beyond the last link the key is the screen's"


async def test_a_link_that_is_clicked_is_followed(memory: SmallMemory) -> None:
    (memory.root / "memory/links.md").write_text("one\n\nsee [[mai]] there\n")
    async with running(memory.open, size=(100, 30)) as run:
        run.engine.index.sync(wait=True)
        run.app.open_place("memory/links.md", alone=True)
        await settle(run.app, run.pilot)
        await run.pilot.click("#file-view", offset=(8, 3))
        await settle(run.app, run.pilot)
        assert run.screen(BrowseScreen).reader.path == "memory/people/mai.md"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "This note is empty."),
        (None, "file gone"),
        ("\x1b[31mbroken \u202e [[\x1b]]\n" * 3, "broken"),
        ("word " * 200_000, "1,000,000 characters): shown as text"),
    ],
    ids=["empty", "gone", "hostile", "huge"],
)
async def test_odd_files_are_read_as_they_are(
    memory: SmallMemory, content: str | None, told: str
) -> None:
    async with running(memory.open, size=(100, 30)) as run:
        await run.search("tomatoes")
        path = memory.root / "memory/topics/garden.md"
        path.unlink() if content is None else path.write_text(content)
        await run.press("escape", "enter", *["tab"] * 4, "n")
        assert told in run.text + "".join(run.toasts)
        assert {"No further link, and no other pane."} <= {*run.toasts}
        assert not HOSTILE.search(run.text.replace("\n", ""))
        assert content is not None or "omato" in run.text, "the indexed text is shown"
