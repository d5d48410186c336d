"""Conversations: lines, chunks, filters, rows, and the screen while things change."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from memtui.errors import MemtuiError
from memtui.model import Chunk, Leg, LegState, LegStatus, Ranking, Reason
from memtui.model.conversations import (
    ConversationListing,
    MemoryCall,
    RecallChange,
    Recalled,
    RecallRow,
    Replayed,
    TranscriptKind,
    Turn,
    TurnKind,
)
from memtui.settings.load import SettingsFiles
from memtui.tui.screens.sessions import listing as words
from memtui.tui.screens.sessions import searches
from memtui.tui.screens.sessions.listing import SORTS, Matches, filtered, in_order, listing_row
from memtui.tui.screens.sessions.sessions_screen import SessionsScreen
from memtui.tui.screens.sessions.turn_view import (
    BETWEEN,
    CHUNK_START,
    IN_CHUNK,
    NO_CHUNK,
    TurnView,
    chunk_edges,
    chunk_of,
    display_text,
    turn_of,
    turn_with_words,
    wrap,
)
from memtui.tui.widgets.result_rows import start_rows
from tests.support.conversations import ATTACK as HOSTILE
from tests.support.conversations import Homes, append, asked, began, said, talk
from tests.support.known import cases
from tests.support.small_memory import SmallMemory, own_index
from tests.tui.harness import Running, all_lines, dark, press, resize, running, settle, until
from tests.tui.reader_samples import ReaderApp

MINE = '# mine\n[transcripts]\nsources = ["openclaw"]\n'
TALK, CODE_TALK = "sessions/main/s1.jsonl", "claude-code/-garden/c1.jsonl"
START = datetime(2026, 2, 10, 9, 12, tzinfo=UTC)
MAIN, ROWS = "sessions/main/3f9a.jsonl", "sessions/main/8e1d.jsonl"
CODE, OLD = "sessions/claude-code/-home/77aa.jsonl", "sessions/main/9c.jsonl.deleted.2026-02-09"


def listing(path: str, title: str, hours: float, **changes: Any) -> ConversationListing:
    """A conversation that begins so many hours after the first one."""
    begun = START + timedelta(hours=hours)
    made = ConversationListing(
        *(path, f"/home/{path}", TranscriptKind.OPENCLAW, "main", 48_000, begun),
        title=title,
        model="gpt-5.2",
        started=begun,
        ended=begun + timedelta(minutes=65),
        turns=12,
        calls=0,
        chunks=4,
    )
    return replace(made, **changes)


LISTINGS = (
    listing(MAIN, "Why does the router drop VLAN 20?", 0, calls=2),
    listing(
        *(CODE, f"Back up the NAS {HOSTILE}", 30),
        kind=TranscriptKind.CLAUDE_CODE,
        turns=None,
        chunks=None,
        state=Reason.DISABLED,
    ),
    listing(ROWS, "", 50, session="8e1d", malformed=2, state=Reason.MALFORMED_LINES),
    listing(OLD, "Old plans", -30, state=Reason.ARCHIVE_NOT_READ, chunks=None),
)


def turn(line: int, kind: TurnKind, role: str, text: str, **changes: Any) -> Turn:
    """A turn a minute after the one before."""
    when = int(START.timestamp() * 1000) + 60_000 * line
    return replace(Turn(line, kind, role, text, len(text), when), **changes)


TURNS = [
    turn(2, TurnKind.MESSAGE, "user", "Why does the router drop VLAN 20?"),
    turn(3, TurnKind.THINKING, "assistant", "The trunk port may not be tagged."),
    turn(3, TurnKind.TOOL_CALL, "assistant", '{"query": "router"}', tool="memory_search"),
    turn(4, TurnKind.TOOL_RESULT, "tool", '{"results": []}', tool="memory_search"),
    turn(5, TurnKind.MESSAGE, "assistant", "The trunk port, a trunk. " * 16, size=2_000),
    turn(6, TurnKind.MESSAGE, "user", "HEARTBEAT", left_out="heartbeat_prompt"),
    turn(7, TurnKind.MALFORMED, "system", "no JSON", timestamp_ms=0),
    turn(8, TurnKind.MESSAGE, "user", f"Token and {HOSTILE}\n\n\tindented"),
    turn(9, TurnKind.TOOL_RESULT, "tool", "exit 1", tool="exec", is_error=True),
    turn(11, TurnKind.MESSAGE, "assistant", "The needle was the firmware."),
    turn(12, TurnKind.RESET, "system", ""),
    turn(13, TurnKind.MESSAGE, "user", "Thanks", timestamp_ms=10**18),
]


def chunk(start: int, end: int) -> Chunk:
    """A chunk of the conversation."""
    return Chunk(f"chunk-{start}", MAIN, "sessions", start, end, "User: text", "hash", "minilm")


def call(query: str, *paths: str, is_known: bool = True) -> MemoryCall:
    """A search of the memory, and what came back."""
    returned = tuple(Recalled(path, 1, 9, 0.9) for path in paths) if is_known else None
    kind = TranscriptKind.OPENCLAW
    return MemoryCall(MAIN, 3, kind, "memory_search", query, START, returned=returned)


def row(path: str, then: int | None, now: int | None, change: RecallChange) -> RecallRow:
    """What became of a place."""
    return RecallRow(path, 1, 9, change, then, now)


MOVED = Replayed(
    call(f"router VLAN {HOSTILE}", "MEMORY.md", "a.md"),
    (
        row("a.md", 2, 1, RecallChange.MOVED),
        row("b.md", None, 2, RecallChange.ENTERED),
        row("MEMORY.md", 1, None, RecallChange.LEFT),
    ),
)
SAME = Replayed(call("firmware", "a.md"), (row("a.md", 1, 1, RecallChange.SAME),))
UNKNOWN = Replayed(call("tagged port", is_known=False), ())


@given(st.text(st.characters(codec="utf-8"), max_size=200), st.integers(2, 40))
def test_no_line_is_wider_than_asked_and_nothing_is_lost(raw: str, width: int) -> None:
    text = display_text(raw)
    spans = wrap(text, width)
    assert all(sum(map(cell_len, text[start:end])) <= width for start, end in spans)
    between = [text[a:b] for (_, a), (b, _) in itertools.pairwise(spans)]
    assert all(gap in ("", " ", "\n") for gap in between)
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)


async def test_turns_are_opened_folded_and_grow_and_the_one_in_front_stays_in_sight() -> None:
    view = TurnView(id="turns")
    app = ReaderApp(view)
    async with app.run_test(size=(60, 10)) as pilot:
        edges = chunk_edges(TURNS, [chunk(2, 5)])
        view.show_turns(TURNS, edges)
        view.focus()
        assert "tagged" not in all_lines(view), "what nobody says aloud is folded"
        await press(pilot, "j", "enter", "j", "j", "z")
        assert "tagged" in all_lines(view)
        assert "exit 1" in all_lines(view), "all of a kind are open"
        await press(pilot, "Z", "Z")
        told = [each.message for each in app._notifications]
        assert told[:2] == [
            "every tool result is open",
            "0 records shown: settings, snapshots, tasks",
        ]
        height = view.virtual_size.height
        assert height == all_lines(view).count("\n") + 1
        view.show_whole(4, "x " * 900 + "last.")
        assert "last." in all_lines(view)
        assert "more characters" not in all_lines(view)
        del view.wholes[4]
        view.show_turns(list(TURNS), edges)
        assert view.virtual_size.height == height, "read again it stays as it is"
        view.show_turns([*TURNS, TURNS[0]], [*edges, NO_CHUNK])
        assert view.virtual_size.height == height + 3, "what is open stays open"
        assert view.at == 3
        # By lines within the long answer, then on to the turn below.
        await press(pilot, "j", "j")
        assert view.at == 4
        await press(pilot, *"j" * 30)
        assert view.at > 6
        at, row = view.at, view.tops[view.at] - view.scroll_offset.y
        for size in ((40, 10), (90, 30), (60, 10)):
            await resize(pilot, size)
            top = view.tops[at] - view.scroll_offset.y
            assert (view.at, -1 <= top < view.size.height) == (at, True)
            assert top == row or size != (40, 10), "at the same place in the view"
        while view.at > 4:
            await press(pilot, "k")
        end = view.scroll_offset.y + view.scrollable_content_region.height
        assert end == view.tops[5], "from below a long turn is entered at its end"
        await press(pilot, "G", "k", "g")
        assert (view.at, view.scroll_offset.y) == (0, 0)
        await press(pilot, "right_square_bracket")
        assert TURNS[view.at].text == "HEARTBEAT"
        view.show_turns(rest := TURNS[1:], edges[1:])
        assert rest[view.at].text == "HEARTBEAT", "it begins otherwise: at the same line"
        assert "tagged" not in all_lines(view), "and is folded"
        await pilot.click("#turns", offset=(6, 2))
        assert view.turn is not None


def test_chunk_borders_follow_the_messages_that_are_indexed() -> None:
    edges = chunk_edges(TURNS, [chunk(2, 5), chunk(8, 11)])
    by_line = {(t.line, t.kind): edge for t, edge in zip(TURNS, edges, strict=True)}
    assert by_line[2, TurnKind.MESSAGE] == CHUNK_START
    assert by_line[3, TurnKind.THINKING] == BETWEEN
    assert by_line[5, TurnKind.MESSAGE] == IN_CHUNK
    assert by_line[6, TurnKind.MESSAGE] == NO_CHUNK
    assert by_line[12, TurnKind.RESET] == NO_CHUNK
    assert by_line[8, TurnKind.MESSAGE] == CHUNK_START
    overlapping = [chunk(1, 50), chunk(10, 12)]
    assert [chunk_of(overlapping, line) for line in (11, 20, 51)] == [1, 0, None]


@pytest.mark.parametrize(("line", "kind", "at"), cases("interface", "turns of lines"))
def test_a_line_leads_to_its_turn_or_the_one_before(line: int, kind: str, at: int) -> None:
    assert turn_of(TURNS, line, TurnKind(kind)) == at


@pytest.mark.parametrize(
    ("why", "terms", "start", "end", "line"), cases("interface", "turns of words")
)
def test_a_chunk_leads_to_the_turn_with_the_most_words_of_the_query(
    why: str, terms: list[str], start: int, end: int, line: int
) -> None:
    assert TURNS[turn_with_words(TURNS, start, end, terms)].line == line, why


@pytest.mark.parametrize(("text", "paths"), cases("interface", "filters of conversations"))
def test_a_filter_knows_words_and_the_filters_of_a_query(text: str, paths: list[str]) -> None:
    shown, problems = filtered(LISTINGS, text)
    assert sorted(each.path for each in shown) == paths
    assert problems == ()


def test_each_order_puts_another_conversation_first() -> None:
    longer = replace(LISTINGS[3], ended=LISTINGS[3].changed + timedelta(days=5))
    listings = (*LISTINGS[:3], longer)
    found = {CODE: Matches(1, 0), ROWS: Matches(0, 9)}
    first = {sort: in_order(listings, sort, found)[0].path for sort in SORTS}
    assert first == {
        "newest": longer.path,
        "longest": longer.path,
        "most results": CODE,
        "most searches": MAIN,
    }
    assert [each.path for each in in_order(LISTINGS, "most results", {})] == [
        each.path for each in in_order(LISTINGS, "newest", {})
    ]


def test_a_row_says_when_it_began_and_the_last_day_where_that_is_another() -> None:
    begun = datetime(2026, 2, 10, 12, tzinfo=UTC)
    listing = replace(LISTINGS[0], started=begun, ended=begun + timedelta(minutes=5))
    lasting = replace(listing, ended=begun + timedelta(days=3))
    day = words.day_and_time(begun)
    assert words.days(listing, 70) == day
    assert words.days(lasting, 70) == f"{day} to 02-13"
    assert words.days(lasting, 43) == "02-10 to 02-13"
    grown = replace(listing, ended=None, changed=begun + timedelta(days=400))
    assert words.days(grown, 70) == f"{day} to 2027-03-17"
    assert words.days(replace(listing, ended=begun - timedelta(days=9)), 70) == day


def test_every_state_has_a_badge() -> None:
    assert words.index_state(LISTINGS[2]) == "partly indexed, 4 chunks, 2 broken lines"
    run = replace(LISTINGS[0], state=Reason.GENERATED_RUN, detail="an automatic run (x)", chunks=0)
    told = "not indexed (source main off); 1 broken line left out"
    off = replace(run, state=Reason.DISABLED, detail=told, chunks=None, malformed=1)
    assert [words.index_state(one) for one in (run, off)] == [run.detail, told], "said once"
    assert "2 searches  not indexed" in listing_row(off, Matches(), lines=2).draw(90).plain
    assert all(words.badge(replace(LISTINGS[0], state=one)) for one in {*Reason} - {Reason.OK})


@pytest.mark.parametrize("when", [datetime.max, datetime.min])
@pytest.mark.parametrize("zone", ["UTC+12", "UTC-12"])
def test_the_ends_of_the_calendar_are_a_day(
    when: datetime, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        drawn = listing_row(
            replace(LISTINGS[0], started=when.replace(tzinfo=UTC)), Matches(), lines=2
        )
        assert str(when.year) in drawn.draw(90).plain
        far = replace(LISTINGS[0], started=when.replace(tzinfo=UTC))
        assert filtered([far], "after:2026-01-01")[0] == ([far] if when.year > 2026 else [])
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_search_that_was_not_recorded_is_never_the_same() -> None:
    assert searches.outcome_words(MOVED.call, MOVED)[0] == "1 moved, 1 new, 1 gone"
    assert searches.outcome_words(SAME.call, SAME)[0] == "1 result, unchanged"
    assert searches.outcome_words(UNKNOWN.call, UNKNOWN)[0] == (
        "what came back is not recorded; now 0 results"
    )
    assert UNKNOWN.is_same, "there is nothing that differs, and nothing that is known"
    assert searches.same_words((SAME,), 2) == "unchanged: 1 of 1 search so far, 2 in all"
    other = replace(SAME, call=replace(SAME.call, is_elsewhere=True))
    assert searches.outcome_words(other.call, other)[0] == "asked of another memory"
    assert searches.same_words((MOVED, SAME, UNKNOWN, other), 2) == "unchanged: 1 of 2 searches"
    failed = replace(SAME, rows=(), problem="no index")
    assert searches.same_words((failed, UNKNOWN), 2) == ""
    assert searches.outcome_words(SAME.call, failed)[0] == "no index"


def test_what_came_back_unrecorded_is_neither_new_nor_changed() -> None:
    entered = tuple(row(path, None, at, RecallChange.ENTERED) for at, path in enumerate("ab", 1))
    unknown = searches.comparison_rows(Replayed(UNKNOWN.call, entered))
    told = "\n".join(each.draw(80).plain for each in unknown)
    assert "new" not in told
    assert "now         ? → #1" in told
    known = searches.comparison_rows(Replayed(SAME.call, entered))
    assert "+ new" in known[0].draw(80).plain
    assert [one.id for one in searches.comparison_rows(MOVED)] == ["2", "0", "1"], "agent's order"
    itself = Replayed(SAME.call, (row(MAIN, None, 1, RecallChange.ENTERED),))
    assert "(this conversation)" in searches.comparison_rows(itself)[0].draw(80).plain
    failed = searches.call_row("a", SAME.call, Replayed(SAME.call, (), "no index " * 9))
    assert "2026-02-10" in failed.draw(60).plain, "when it was asked is told first"


@dataclass
class Talks:
    """The application with its sessions screen in front, and the file of a conversation."""

    run: Running
    file: Path
    screen: SessionsScreen

    async def press(self, *keys: str, shows: str = "") -> None:
        await self.run.press(*keys)
        await self.shows(shows)

    async def shows(self, *texts: str) -> None:
        """Wait until all of these are on screen."""
        await self.run.until(lambda: all(text in self.run.text for text in texts))
        await settle(self.run.app, self.run.pilot)

    async def read(self, path: str) -> None:
        """Open a conversation from the list."""
        self.screen.show_pane("list")
        self.screen.conversations.rows.choose(path)
        await self.press("enter")
        await self.run.until(lambda: self.screen.reader.conversation is not None)
        await settle(self.run.app, self.run.pilot)

    @property
    def line(self) -> int:
        """The line of the turn in front."""
        turn = self.screen.reader.view.turn
        assert turn is not None
        return turn.line


@asynccontextmanager
async def talking(
    small: SmallMemory, *, size: tuple[int, int] = (120, 40), talks: bool = True, **changes: Any
) -> AsyncIterator[Talks]:
    """Show the conversations of a small memory: with `talks` two, none of them indexed."""
    folder = small.root.parent
    config = folder / "config.toml"
    config.write_text(MINE)
    homes = talk(folder) if talks else Homes(folder)
    files = SettingsFiles({"MEMTUI_CONFIG": str(config)})
    options = dark(root=small.root, files=files, **changes)
    open_engine = partial(small.open, homes=homes.homes)
    async with running(open_engine, size=size, options=options) as run:
        await run.press("escape", "3")
        screen = run.screen(SessionsScreen)
        file = folder / "openclaw/agents/main/sessions/s1.jsonl"
        if talks:
            await run.until(lambda: len(screen.conversations.listings) == 2)
            await settle(run.app, run.pilot)
        yield Talks(run, file, screen)


async def test_a_conversation_that_grows_is_followed_and_only_read(memory: SmallMemory) -> None:
    async with talking(memory, size=(132, 40)) as talks:
        run, screen, reader = talks.run, talks.screen, talks.screen.reader
        before = talks.file.read_bytes()
        await talks.press("O")
        await talks.shows(
            "openclaw:main", "find none of its conversations: space, then enter, turns it on"
        )
        await talks.press("space", "space", "enter")
        assert run.app.screen is not screen, "nothing changed, nothing done"
        await talks.press("space", "enter")
        await run.until(lambda: bool(screen.conversations.listings[TALK].chunks))
        assert screen.conversations.listings[TALK].malformed == 1
        clock = (datetime(2026, 10, day, 11, tzinfo=UTC) for day in (3, 4))
        recent = start_rows((), run.engine.browse.recent(), lambda: next(clock))
        (row,) = (each for each in recent if each.id.endswith(TALK))
        assert "conversation  Why does the router drop" in row.draw(70).plain
        assert row.draw(70).plain.endswith("3 d ago"), "since something was said, as it is drawn"
        assert (memory.root.parent / "config.toml").read_text() == MINE, "for this session alone"
        run.app.run_query("needle firmware")
        await run.until(lambda: run.app.search_screen.state.answered_text == "needle firmware")
        await talks.press("s")
        await run.until(lambda: reader.conversation is not None)
        await settle(run.app, run.pilot)
        assert talks.line == 14, "not the first turn of the chunk: the one that says it"
        styles = [
            segment.style
            for strip in screen._compositor.render_strips()
            for segment in strip
            if segment.text == "firmware"
        ]
        assert any(style is not None and style.underline for style in styles), "it is marked"
        assert "│ indexed ┊ not" in str(reader.view.border_subtitle)
        append(talks.file, grown := said("user", "And close it at nine.", 10))
        reader.look()
        await talks.shows("entry 13/14")
        assert talks.line == 14, "the place stays"
        assert "changed since it was indexed" in str(reader.view.border_subtitle)
        conversation = reader.conversation
        reader.look()
        await settle(run.app, run.pilot)
        assert reader.conversation is conversation, "nothing is read in vain"
        append(talks.file, more := said("user", "Or at ten.", 11))
        await talks.press("r", shows="entry 13/15")
        await talks.press("q")
        assert run.app.screen is run.app.search_screen, "one key leads back"
        await talks.press("3")
        assert screen.pane == "list"
        for key in ("q", "escape"):
            await talks.press("enter", key)
            assert (screen.is_current, screen.pane) == (True, "list"), "to where it was opened"
        assert talks.file.read_bytes() == before + grown + more, "transcripts are only read"
        talks.file.unlink()
        run.app.action_show_screen("sessions")
        screen.conversations.load()
        await run.until(lambda: "gone from the disk" in str(reader.view.border_subtitle))
        run.app.open_turn("sessions/gone.jsonl", 1)
        await talks.shows("no conversation sessions/gone.jsonl")


async def test_keys_are_of_what_is_shown_and_esc_leads_back(memory: SmallMemory) -> None:
    async with talking(memory) as talks:
        run, screen = talks.run, talks.screen
        await talks.press("o", "o")
        assert "most results (search first)" in run.text
        await talks.press("o", "o")
        await talks.read(TALK)
        await talks.press("slash", *"tomato", "enter")
        assert "n next match" in run.text
        await talks.press("escape")
        assert "n next match" not in run.text
        await talks.press("n")
        assert screen.focused is screen.reader.view, "no letter is taken for a text"
        await talks.press("A", "o", "n")
        assert run.toasts == ["No match to go to: / looks for a text."], "n is the next search now"
        assert screen.conversations.sort_name == "newest", "the list is not shown"
        assert "2 not indexed: source off (O)" in run.text
        listings = screen.conversations.listings
        listings[TALK] = replace(listings[TALK], state=Reason.GENERATED_RUN)
        screen.conversations.show()
        await talks.shows("2 not indexed: 1 source off (O), 1 automatic run")
        listings[TALK] = replace(listings[TALK], state=Reason.STALE)
        screen.conversations.show()
        await talks.shows("1 source off (O), 1 changed sinc…")
        await talks.press("enter")
        assert run.app.screen is run.app.search_screen
        await talks.press("escape", "s", "escape")
        assert (screen.is_current, screen.pane) == (True, "searches")
        screen.searches.calls_list.action_move(-1)
        await talks.press("tab", "g", "b", shows="no such file: memory/gone.md")


async def test_the_newest_is_chosen_until_the_user_moves(memory: SmallMemory) -> None:
    async with talking(memory) as talks:
        shown = talks.screen.conversations
        first = shown.chosen_path
        (second,) = (path for path in shown.listings if path != first)

        def count(path: str, hours: int) -> None:
            """Put a conversation first, as counting its turns may."""
            ended = datetime(2030, 1, 1, hours, tzinfo=UTC)
            shown.listings[path] = replace(shown.listings[path], ended=ended)
            shown.show()

        count(second, 1)
        assert shown.chosen_path == second, "nobody chose the other one"
        await talks.press("down")
        assert shown.chosen_path == first
        count(first, 2)
        count(second, 3)
        assert shown.chosen_path == first


async def test_the_choice_of_sources_is_written(memory: SmallMemory) -> None:
    config = memory.root.parent / "config.toml"
    async with talking(memory) as talks:
        await talks.press("O", shows="claude-code")
        await talks.press("space", "j", "space", "w", shows="sources = [")
        assert config.read_text() == MINE, "nothing is written before it is agreed to"
        await talks.press("enter")
        await talks.run.until(lambda: 'sources = ["openclaw", "cl' in config.read_text())
        await talks.run.until(lambda: talks.run.app.screen is talks.screen)
        await talks.run.until(lambda: bool(talks.screen.conversations.listings[CODE_TALK].chunks))
        async with talking(memory) as second:
            await second.press("O", shows="what enter chooses here waits")
            await second.press("space", "enter")
            await second.run.until(lambda: "choice waits until" in str(second.run.toasts))
            await second.press("O", shows="on elsewhere, 1 indexed")
            await second.press("space", "w", shows="sources = [")
            await second.press("enter")
            await second.run.until(lambda: "Written, for every" in str(second.run.toasts[-1:]))
        await talks.press("O", shows="claude-code")
        await talks.press("space", "enter")
        await talks.run.until(lambda: "O, then w, writes it" in str(talks.run.toasts))
        await talks.press("O", shows="on for this run")
        config.write_text(MINE.replace('"]', '", "claude-code"]'))
        await talks.press("space", "w", shows="Nothing to write")
        await talks.press("enter")
        await talks.shows("→ on with enter", "Sources of conversations")
        assert "Written" not in str(talks.run.toasts[-1:]), "enter closes what there is to close"


async def test_what_is_written_beside_an_open_choice_stays(
    memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = memory.root.parent / "config.toml"
    monkeypatch.setattr("memtui.tui.screens.transcripts.LOOK_SECONDS", 0.1)
    async with talking(memory) as talks:
        index = own_index(talks.run.engine)
        index.settings_files = SettingsFiles({"MEMTUI_CONFIG": str(config)})
        await talks.press("O", shows="on, 0 indexed, 1 waiting")
        config.write_text(MINE.replace('"]', '", "claude-code"]'))
        await talks.run.until(lambda: talks.run.text.count("on, 0 indexed, 1 waiting") == 2)
        await talks.press("space", "enter")
        await talks.run.until(lambda: talks.run.app.screen is talks.screen)
        assert index.transcripts.scope.sources == ("claude-code",)
        await talks.press("O", shows="off for this run")
        await talks.press("space", shows="→ on with enter")
        config.write_text(MINE)
        await talks.press("w", shows="Nothing to write")
        await talks.press("escape", "enter")
        await talks.run.until(lambda: talks.run.app.screen is talks.screen)
        assert index.transcripts.scope.sources == ("openclaw:main",)


async def test_the_choice_of_the_demo_is_not_written(memory: SmallMemory) -> None:
    async with talking(memory, memory={"demo": ""}, size=(60, 20)) as talks:
        await talks.press("O", shows="claude-code")
        assert "w write" not in talks.run.text
        assert "were pruned." not in talks.run.text
        await talks.press("right", shows="were pruned.")
        await talks.press("question_mark", shows="on or off")
        assert "every source with a" in talks.run.text
        assert "keep the choice" not in talks.run.text
        await talks.press("escape", "space", "w", shows="look in the 1 found")
        await talks.press("enter")
        await talks.run.until(lambda: "memtui ends.'" in str(talks.run.toasts))


async def test_another_machine_is_asked_only_what_is_asked_for(
    memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(memory, size=(160, 50)) as talks:
        run, pane = talks.run, talks.screen.searches
        await talks.read(TALK)
        monkeypatch.setattr(f"{SessionsScreen.__module__}.edit_place", lambda *place: True)
        await talks.press("e")
        assert "credentials are masked only here" in str(run.toasts)
        await talks.press("A")
        await talks.shows("of 2 searches", "Two scales: then the agent's")
        state = LegState(LegStatus.FAILED, Reason.NOT_REPRODUCIBLE, "no vector; give one")
        replays, failed = pane.replays.items(), {Leg.VECTOR: state}
        pane.replays = {key: replace(one, failed=failed) for key, one in replays}
        pane.show()
        await talks.shows("only words are searched, not meaning: give one")
        talks.screen.show_pane("list")
        talks.screen.conversations.rows.choose(CODE_TALK)
        await talks.press("A")
        await talks.shows("No search of the memory in this conversation.", "Only calls of a memory")
        await talks.read(TALK)
        await talks.press("A")
        await talks.shows("Agent searches, this conversation  3", "of 2 searches")
        assert pane.comparison.choose(pane.comparison.rows[-1].id, by_user=True)
        assert (pane.comparison.cursor or 0) > 0
        pane.calls_list.action_move(1)
        await run.until(lambda: pane.comparison.cursor == 0)
        status = run.engine.index.status()
        provider = replace(status.provider, remote=True, address="api.example.org")
        distant = replace(status, provider=provider)
        monkeypatch.setattr(type(run.engine.index), "status", lambda index: distant)
        run.app.action_show_screen("search")
        run.app.search_screen.state.ranking = Ranking(k=2)
        await talks.press("escape", "3")
        await talks.shows("r ask again: the query goes to", "api.example.org")
        assert not pane.replays
        await talks.press("r")
        await run.until(lambda: list(pane.replays) == [pane.calls_list.chosen_id])


async def test_what_is_wrong_is_said_and_what_there_was_stays(
    memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = Mock(side_effect=MemtuiError("cannot read \x1b[31m/x"))
    async with talking(memory, size=(80, 24), talks=False) as talks:
        service, conversations = type(talks.run.engine.conversations), talks.screen.conversations
        await talks.shows(
            "No conversations found.", "Claude Code keeps no transcripts here: looked in "
        )
        await talks.press("tab", "enter")
        assert "Enter reads" not in talks.run.text
        assert "⏎ read" not in talks.run.text
        await talks.press("shift+tab")
        with monkeypatch.context() as patch:
            patch.setattr(service, "listings", fail)
            conversations.load()
            await talks.shows("✗ cannot read ␛[31m/x")
        talk(memory.root.parent)
        with monkeypatch.context() as patch:
            patch.setattr(service, "count", fail)
            await talks.press("1", "3")
            await talks.shows("Why does the router", "could not count the turns of the")
        with monkeypatch.context() as patch:
            for name in ("listings", "read", "memory_calls"):
                patch.setattr(service, name, fail)
            patch.setattr(type(talks.run.engine.index.transcripts), "use_sources", fail)
            conversations.load()
            await talks.shows("cannot list the conversations", "Why does the router")
            await talks.press("enter", shows="✗ cannot read ␛[31m/x")
            await talks.press("A")
            await talks.shows("Agent searches", "✗ cannot read ␛[31m/x")
            await talks.press("escape", "O", shows="openclaw:main")
            await talks.press("space", "enter", shows="✗ cannot read ␛[31m/x")


async def test_every_size_and_very_many_entries(memory: SmallMemory) -> None:
    texts = (said("user" if at % 2 else "assistant", "word " * 300, at) for at in range(2_000))
    question = asked("router", minScore=0.3)
    Homes(memory.root.parent).openclaw("many.jsonl", [began(), *texts, question])
    async with talking(memory, talks=False, size=(80, 24)) as talks:
        pilot = talks.run.pilot
        await until(pilot, lambda: len(talks.screen.conversations.listings) == 1)
        talks.run.app.open_turn("sessions/main/many.jsonl", 1_999)
        await talks.shows("line 1999")
        for size in ((59, 15), (1, 1), (160, 50)):
            await resize(pilot, size)
        await talks.shows("line 1999")
        talks.screen.show_pane("reader")
        await settle(talks.run.app, pilot)
        await talks.press("pagedown", "pageup", "pageup", "k")
        assert 1_950 < talks.line < 1_999
        await talks.press("g", "right_square_bracket", "right_square_bracket")
        assert talks.line == 5, "the next thing that the user said"
        await resize(pilot, (80, 24))
        await talks.press("A", "tab", shows="minScore")
        assert talks.screen.searches.calls_list.size.height == 3, "the rest is for the comparison"
        assert talks.screen.focused is talks.screen.searches.comparison
        await talks.press("shift+tab", "enter")
        await talks.shows("asked with your parameters, not with minScore 0.3")
        assert not talks.run.toasts, "they would lie over the preview"
        search = talks.run.app.search_screen
        assert search.results.has_focus, "no key goes into the query"
        await talks.press("slash", "x")
        assert "asked with your parameters" not in talks.run.text
