"""The preview: scrolling to a chunk, marks, states, big files, selection, and colours of code."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from textual.containers import Vertical
from textual.pilot import Pilot

from memtui.engine.ports import SourceText
from memtui.text.sanitize import HOSTILE as NEVER
from memtui.tui.highlight import MAX_CELLS, Highlighter, code_pieces, display_line, line_languages
from memtui.tui.widgets.preview import Preview
from memtui.tui.widgets.why_panel import WhyPanel
from tests.support.hostile import ALL
from tests.tui.harness import press_at_once, screen_text
from tests.tui.reader_samples import ReaderApp, Source, note
from tests.tui.samples import CHUNKS, RANKING, make_chunk, make_ranked

SIZE = (60, 14)


def _first() -> SourceText:
    return note(120)


async def _shown(pilot: Pilot[object], preview: Preview, source: SourceText | None) -> str:
    preview.show(source, CHUNKS[0], ["router", "config"])
    await pilot.pause()
    return screen_text(pilot.app)


async def test_it_scrolls_to_the_chunk_with_two_lines_of_context() -> None:
    preview = Preview()
    async with ReaderApp(preview).run_test(size=SIZE) as pilot:
        text = await _shown(pilot, preview, _first())
        assert preview.top[0] == 10
        assert "  12 ▌Configured Omada router" in text
        assert "  11  ## Network" in text
        assert "13 ▌- [x] backup config" in text
        assert "memory/2026-02-10.md#L12-L31" in text
        marked = [s for s in preview.render_line(2) if s.style and s.style.underline]
        assert [s.text for s in marked if s.style and s.style.bold][:1] == ["router"]
        before = [segment.style for segment in preview.render_line(1)]
        pilot.app.theme = "memtui-light"
        await pilot.pause()
        assert [segment.style for segment in preview.render_line(1)] != before
        await pilot.resize_terminal(60, 6)
        preview.show(_first(), CHUNKS[0], ["router", "config"], lines=(14, 14))
        assert preview.top[0] == 14, "a low one has no room for context"


@pytest.mark.parametrize("match", [13, 22, 25, 29])
async def test_the_first_match_is_visible_and_the_chunk_start_when_both_fit(match: int) -> None:
    preview = Preview()
    lines = ["plain"] * 60
    lines[match - 1] = lines[29] = "the router"
    async with ReaderApp(preview).run_test(size=SIZE) as pilot:
        await _shown(pilot, preview, Source("memory/2026-02-10.md", lines))
        height = preview.scrollable_content_region.height
        top = preview.top[0]
        assert top <= match < top + height
        assert (top <= 12) is (match < 12 + height)
        # Other words scroll to their own first match.
        lines[27] = "a gateway"
        preview.show(Source("memory/2026-02-10.md", lines), CHUNKS[0], ["gateway"])
        await pilot.pause()
        assert "gateway" in screen_text(pilot.app)


async def test_the_chunk_is_shown_until_the_note_is_read() -> None:
    preview = Preview()
    async with ReaderApp(preview).run_test(size=SIZE) as pilot:
        text = await _shown(pilot, preview, None)
        assert "12 ▌Configured Omada router" in text
        assert "loading · memory/2026-02-10.md" in text
        await _shown(pilot, preview, _first())
        assert preview.top[0] == 10


async def test_nothing_and_an_empty_note_are_told() -> None:
    preview = Preview()
    async with ReaderApp(preview).run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert "Select a result" in screen_text(pilot.app)
        preview.show(Source("memory/empty.md", [""]), None, ())
        await pilot.pause()
        assert "This note is empty." in screen_text(pilot.app)
        preview.show(None, None, ())
        await pilot.pause()
        assert "Select a result" in screen_text(pilot.app)
        # The line numbers of a chunk are those of another program's database.
        far = replace(CHUNKS[0], start_line=2**53, end_line=2**53)
        preview.show(None, far, ())
        await pilot.pause()
        assert str(2**53) in screen_text(pilot.app)


async def test_reading_the_same_note_again_keeps_the_place() -> None:
    preview = Preview()
    async with ReaderApp(preview).run_test(size=SIZE) as pilot:
        await _shown(pilot, preview, _first())
        preview.focus()
        await pilot.press("G")
        place = preview.scroll_offset.y
        assert place > 50
        await _shown(pilot, preview, note(140))
        assert preview.scroll_offset.y == place
        await pilot.press("full_stop")
        assert preview.top[0] == 10
        top = preview.scroll_offset.y
        await press_at_once(pilot, "j", "k", "k", "space")
        assert preview.scroll_offset.y == top - 1 + preview.size.height - 1


@pytest.mark.parametrize(
    "line",
    [
        "a word and another " * 40_000,
        "0123456789" * 70_000,
        "路由器配置" * 140_000,
        "路 由器 e\u0301 \tx " * 30_000,
    ],
    ids=["words", "digits", "CJK", "mixed"],
)
async def test_a_line_wraps_whole_and_only_what_is_visible_is_drawn(line: str) -> None:
    preview = Preview()
    app = ReaderApp(preview)
    async with app.run_test(size=SIZE) as pilot:
        start = time.process_time()
        preview.show(Source("a.md", [f"{line}ROUTER", "next"]), None, ["router"])
        await pilot.pause()
        assert time.process_time() - start < 3.0
        rows = [row.replace("│", "").rstrip() for row in screen_text(app).split("\n")[1:-1]]
        assert rows[0].startswith("   1  ")
        assert not any(row[:6].strip() for row in rows[1:]), "one number a line"
        assert "…" not in screen_text(app)
        assert max(map(cell_len, rows)) > 50
        preview.focus()
        await pilot.press("n")
        assert "ROUTER" in screen_text(app), "the end of the line is reached by its match"
        await pilot.press("G")
        assert "   2  next" in screen_text(app)
        for y in range(preview.size.height):
            assert preview.render_line(y).cell_length == preview.scrollable_content_region.width


async def test_the_bar_of_a_chunk_and_the_match_follow_a_line_that_wraps() -> None:
    preview = Preview(is_file=True)
    text = "plain words " * 12 + "router"
    chunks = [make_chunk("a.md", 1, 1, text), make_chunk("a.md", 2, 2, "after")]
    app = ReaderApp(preview)
    async with app.run_test(size=SIZE) as pilot:
        preview.show(Source("a.md", [text, "after"]), chunks[0], ["router"], chunks=chunks)
        await pilot.pause()
        rows = screen_text(app).split("\n")[1:6]
        assert [row[1:9] for row in rows] == [
            "   1 ▌╭ ", "     ▌│ ", "     ▌│ ", "     ▌╰ ", "   2  [ ",
        ]  # fmt: skip
        preview.focus()
        await pilot.press("n")
        assert preview.chosen is not None
        assert text[preview.chosen.start : preview.chosen.end] == "router"
        before = preview.top
        await pilot.resize_terminal(40, 14)
        assert preview.top[0] == before[0]
        # What is copied has the line ends of the note.
        preview.text_select_all()
        await pilot.pause()
        assert app.screen.get_selected_text() == f"{text}\nafter"


async def test_a_drag_selects_text() -> None:
    preview = Preview()
    app = ReaderApp(preview)
    async with app.run_test(size=SIZE) as pilot:
        preview.show(Source("a.md", ["alpha beta gamma", "delta"]), None, ())
        await pilot.pause()
        await pilot.mouse_down(preview, offset=(7 + 6, 1))
        await pilot.hover(preview, offset=(7 + 10, 1))
        await pilot.mouse_up(preview, offset=(7 + 10, 1))
        await pilot.pause()
        assert (app.screen.get_selected_text() or "").startswith("beta")


def _assert_clean(text: str) -> None:
    assert not NEVER.search(text.replace("\n", "")), NEVER.findall(text)


async def test_selected_text_is_clean() -> None:
    app = ReaderApp()
    preview, attack = Preview(), ALL
    source = Source(f"memory/{attack}.md", [attack, f"{attack} router", "```py"], "changed", attack)
    preview.show(source, make_chunk(source.path, 1, 2, attack), [attack, "router"])
    async with app.run_test(size=(80, 20)) as pilot:
        await app.mount(preview)
        await pilot.pause()
        preview.text_select_all()
        await pilot.pause()
        _assert_clean(app.screen.get_selected_text() or "")
        _assert_clean(screen_text(app))


async def test_without_colour_meaning_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    preview, panel, result = Preview(), WhyPanel(), make_ranked(RANKING)
    preview.show(
        Source("memory/note.md", ["a note"]), make_chunk("memory/note.md", 1, 1, "a note"), ()
    )
    panel.explain(result, result.hits[2].chunk.id)
    app = ReaderApp(Vertical(preview, panel))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        text = screen_text(app)
        assert "▌" in text
        for glyph in "█▒◇╌":
            assert glyph in text
        colours = {
            segment.style.color.triplet
            for strip in app.screen._compositor.render_strips()
            for segment in strip
            if segment.style and segment.style.color and segment.style.color.triplet
        }
        assert all(len(set(colour)) == 1 for colour in colours)


def _text(highlighter: Highlighter, index: int) -> str:
    return "".join(part for part, _ in highlighter.line(index))


def test_fences_and_front_matter_are_told_from_text() -> None:
    lines = "---\ndate: x\n---\ntext\n```python\na = 1\n```\n~~~\n```\n~~~\nend".split("\n")
    assert line_languages(lines) == [
        "yaml", "yaml", "yaml", "", "fence", "python", "fence", "fence", "text", "fence", "",
    ]  # fmt: skip
    # A line far inside a fence is code.
    lines = ["```python", *["x = 1"] * 3000, "```", "text"]
    assert Highlighter(lines, "a.md").line(2999) == Highlighter(["x = 1"], "a.py").line(0)


def test_a_language_is_told_by_the_fence_or_the_name_of_the_file() -> None:
    assert Highlighter(["```no-such-language", "x = 1", "```"], "a.md").line(1) == [("x = 1", "")]
    for name, is_coloured in (("a/b.py", True), ("a/b.md", False), ("a/b.unknown", False)):
        pieces = Highlighter(["def f(): pass"], name).line(0)
        assert any(style for _, style in pieces) is is_coloured
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
