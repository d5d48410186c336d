"""The chunk screen: what the index holds about one chunk, what is like it, what it answers."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from typing import cast

import pytest

from memtui.bus import FileIndexed
from memtui.model import Reason
from memtui.model.browsing import ChunkTerm, Neighbour, Neighbours
from memtui.tui.options import UiOptions
from memtui.tui.screens.chunk import screen as chunk_screen
from memtui.tui.screens.chunk.lookup import chunk_near
from memtui.tui.screens.chunk.screen import SECTIONS, ChunkScreen
from memtui.tui.screens.dialogs import SideScreen
from memtui.tui.screens.help import help_groups
from memtui.tui.widgets.row_list import RowList
from tests.tui.care_samples import FIRST, SECOND, CareSample
from tests.tui.harness import Running, press, resize, running, settle, until
from tests.tui.reader_samples import HOSTILE
from tests.tui.samples import STATUS, make_chunk

SIZES = [(80, 24), (120, 40), (200, 60)]
QUERIES = ("router vlan", "dns", "guest portal", "mtu")
BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _engine(run: Running) -> CareSample:
    return cast("CareSample", run.engine)


async def _open(run: Running, chunk_id: str = FIRST.id) -> ChunkScreen:
    run.app.search_screen.notes.queries = tuple(QUERIES)
    run.app.open_chunk(chunk_id)
    await settle(run.app, run.pilot)
    return cast("ChunkScreen", run.app.screen)


async def _press(run: Running, *keys: str) -> str:
    await press(run.pilot, *keys)
    await settle(run.app, run.pilot)
    return run.text


async def _parts(run: Running) -> str:
    """Everything, part after part."""
    texts = [run.text]
    for _ in SECTIONS:
        texts.append(await _press(run, "tab"))
    return "\n".join(texts)


EVERYTHING = (
    "memory/2026-02-10.md#L12-L31",
    f"id          {FIRST.id[:32]}",
    f"text hash   {FIRST.hash[:32]}",
    "25 tokens, 24 terms, 150 characters, 20",
    "demo  by minilm",
    "384 dimensions, norm 1.0000",
    "2026-02-10  3 d ago, from the file name",
    "importance  0.7",
    "2 d ago",
    "memory  row 7",
    "13   - [x] backup config",
    "Terms  24",
    "vlan            2      4/1 284",
    "Near-duplicates  1",
    "By vector  9",
    "By shared words  9",
    "memory/2026-02-09.md:4",
    "shared 20, 30, backup",
    "Queries that it answers  2",
    "#1  0.900  router vlan",
    "#2  0.800  guest portal",
    "of 4 queries",
)


async def test_everything_can_be_seen_at_every_size() -> None:
    async with running(CareSample, size=SIZES[0]) as run:
        screen = await _open(run)
        text = await _parts(run)
        for part in (screen.like, screen.terms):
            part.focus()
            text += await _press(run, "G") + await _press(run, "pageup", "pageup")
        for words in EVERYTHING:
            assert words in text, words
        screen.like.focus()
        await press(run.pilot, "g")
        await resize(run.pilot, SIZES[1])
        for words in (*EVERYTHING[:12], "By vector  9", *EVERYTHING[-3:]):
            assert words in run.text, words
        await resize(run.pilot, SIZES[2])
        for words in EVERYTHING:
            assert words in run.text, words
        assert _engine(run).asked_queries == [QUERIES], "the queries are asked once"


async def _sort_terms(run: Running, screen: ChunkScreen) -> None:
    """Go through the orders of the terms, and from the last term into the text."""
    screen.terms.focus()
    firsts = {}
    for _ in range(4):
        subtitle = str(screen.terms.border_subtitle)
        firsts[subtitle.partition(" · ")[0]] = [row.id for row in screen.terms.rows[1:3]]
        await _press(run, "o")
    assert firsts == {
        "rarest first": ["12h", "dhcp"],
        "most frequent first": ["router", "config"],
        "by count first": ["vlan", "12h"],
        "by name first": ["12h", "13"] if "13" in firsts else ["12h", "20"],
    }
    await _press(run, "G", "enter")
    assert screen.text.has_focus
    assert "Configured Omada router" in run.text


def _show_no_answers(screen: ChunkScreen) -> None:
    """What the list says of queries when there is none to ask again."""
    assert str(screen.answers.border_subtitle) == "of 4 queries · ⏎ asks it"
    answered, screen.queries.answered = screen.queries.answered, ()
    screen.show_queries()
    assert str(screen.answers.border_subtitle) == "of 4 queries"
    assert str(screen.answers.border_title) == "Queries that it answers"
    screen.queries.answered = answered
    screen.show_queries()


async def test_terms_are_sorted_and_keys_lead_on_and_back() -> None:
    async with running(CareSample, size=(120, 40)) as run:
        screen = await _open(run)
        await _sort_terms(run, screen)
        _show_no_answers(screen)
        screen.like.focus()
        await _press(run, "d")
        assert any(isinstance(one, SideScreen) for one in run.app.screen_stack)
        assert "memory/2026-02-10.md#L12-L31" in run.text
        assert "memory/2026-02-09.md#L4-L22" in run.text
        await _press(run, "escape", "enter")
        other = cast("ChunkScreen", run.app.screen)
        assert other.lookup.chunk_id == SECOND.id
        assert "again after firmware" in run.text
        await _press(run, "escape")
        assert run.app.screen is screen
        await _press(run, "p")
        assert run.app.search_screen.pinned == (FIRST.id,)
        await _press(run, "y")
        assert run.app.clipboard == "memory/2026-02-10.md#L12-L31"
        await _press(run, "Y", "e")
        assert run.app.clipboard == FIRST.text
        assert "/home/ann/memory/memory/2026-02-10.md:12" in run.toasts[-1]
        screen.answers.focus()
        await _press(run, "j", "enter")
        assert len(run.app.screen_stack) == 1
        assert run.app.search_screen.query_input.value == "guest portal"


async def test_it_is_reached_from_a_result_and_from_its_explanation() -> None:
    async with running(CareSample, size=(120, 40)) as run:
        await run.search()
        await press(run.pilot, "down", "escape")
        chosen = run.app.search_screen.selected_id
        lines = [line for group in help_groups(run.app.screen, None) for line in group.lines]
        assert [line.binding.description for line in lines if "K" in line.keys] == ["chunk"]
        await _press(run, "K")
        assert cast("ChunkScreen", run.app.screen).lookup.chunk_id == chosen
        await _press(run, "escape", "x")
        explain = run.app.screen
        await _press(run, "K")
        assert cast("ChunkScreen", run.app.screen).lookup.chunk_id == chosen
        await _press(run, "escape")
        assert run.app.screen is explain


# --- at work ------------------------------------------------------------------------------------


async def test_a_chunk_that_goes_shows_the_way_to_what_is_there_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunk_screen, "FOLLOW_PAUSE", 0.02)
    async with running(CareSample, size=(80, 24)) as run:
        engine = _engine(run)
        screen = await _open(run)
        now = make_chunk(FIRST.path, 14, 20, "Configured the router anew.")
        engine.outside = (now,)
        engine.gone.add(FIRST.id)
        engine.bus.publish(FileIndexed(FIRST.path, 1))
        await until(run.pilot, lambda: screen.lookup.is_gone)
        assert "f shows what stands there now: L14-L20" in await _press(run)
        assert "13   - [x] backup config" in run.text, "what was there can still be read"
        await _press(run, "f")
        assert screen.lookup.chunk_id == now.id
        assert not screen.lookup.is_gone
        assert "Configured the router anew." in run.text
        engine.gone.add(now.id)
        engine.bus.publish(FileIndexed(FIRST.path, 0))
        await until(run.pilot, lambda: screen.lookup.is_gone)
        assert "gone from the index, as its whole file is · esc back" in await _press(run, "f")
        engine.fails = "the index cannot be read: rebuild it"
        engine.bus.publish(FileIndexed(FIRST.path, 0))
        await until(run.pilot, lambda: "the index cannot be read" in run.text)
        engine.fails = ""
        await _press(run, "escape")
        await _open(run, "no-such-chunk")
        assert "no such chunk in the index · esc back" in run.text
        await _press(run, "d", "e", "p", "y", "Y", "a", "o", "tab", "tab", "enter", "escape")
        assert run.app.screen is run.app.search_screen


async def test_asking_the_queries_can_be_stopped_and_begun_again() -> None:
    async with running(CareSample, size=(120, 40)) as run:
        engine = _engine(run)
        engine.hold = threading.Event()
        run.app.search_screen.notes.queries = tuple(QUERIES)
        run.app.open_chunk(FIRST.id)
        await until(run.pilot, lambda: "asking 1 of 4 · a stops" in run.text)
        await run.pilot.press("a")
        await until(run.pilot, lambda: engine.stopped == ["queries"])
        assert "a asks the 4 queries of the history" in await _press(run)
        await run.pilot.press("a")
        await until(run.pilot, lambda: "asking 1 of 4" in run.text)
        engine.hold.set()
        assert "#1  0.900  router vlan" in await _press(run)
        engine.bus.publish(FileIndexed(FIRST.path, 1))
        await until(run.pilot, lambda: "before the last change · a asks again" in run.text)
        await _press(run, "escape")
        engine.hold = threading.Event()
        run.app.open_chunk(FIRST.id)
        await until(run.pilot, lambda: "asking 1 of 4" in run.text)
        await run.pilot.press("escape")
        await until(run.pilot, lambda: len(engine.stopped) == 2)
        remote = replace(STATUS.provider, remote=True, address="api.example.org")
        engine.current = replace(STATUS, provider=remote)
        asked = len(engine.asked_queries)
        await _open(run)
        assert "a asks the 4 queries" in run.text
        assert "api.example.org" in run.text
        assert len(engine.asked_queries) == asked, "nothing is sent away unasked"


async def test_hostile_texts_and_any_size() -> None:
    nasty = "\n".join(HOSTILE)
    chunk = make_chunk("memory/\x1b[6n[/].md", 1, 12, nasty)
    async with running(
        CareSample, size=(200, 60), options=UiOptions(theme="memtui-light", glyphs="ascii")
    ) as run:
        engine = _engine(run)
        engine.outside = (chunk,)
        record = engine.browse.chunk_record(chunk.id)
        assert record is not None
        engine.records[chunk.id] = replace(
            record,
            chunk=replace(chunk, model=HOSTILE[5], source=HOSTILE[7], project_keys=HOSTILE[:3]),
            terms=tuple(ChunkTerm(text, 1, 1) for text in HOSTILE),
            provider=HOSTILE[6],
            dimensions=None,
            norm=None,
            vector_state=Reason.NO_VECTORS,
            changed=None,
            importance=None,
        )
        one = Neighbour(chunk, 0.5, HOSTILE)
        engine.like = Neighbours((), Reason.NO_VECTORS, (one,), (one,))
        run.app.search_screen.notes.queries = tuple(HOSTILE)
        screen = await _open(run, chunk.id)
        assert "- [x] done" in run.text
        assert "none: no vectors yet" in run.text
        assert "By vector  no vectors yet" in run.text
        assert not BAD.search(run.text)
        for size in [(40, 10), (1, 1)]:
            await resize(run.pilot, size)
            for part in screen.query(RowList):
                part.focus()
                await run.pilot.press("G")
                assert not BAD.search(run.text)
        await _press(run, "d")
        assert not BAD.search(run.text)


def test_what_stands_at_the_lines_of_a_chunk_that_is_gone() -> None:
    gone = make_chunk("a.md", 10, 20, "gone")
    before, partly, mostly = (
        make_chunk("a.md", *lines, "x") for lines in ((1, 9), (10, 12), (13, 30))
    )
    assert chunk_near([before, partly, mostly], gone) == mostly
    assert chunk_near([before], gone) == before
    assert chunk_near([], gone) is None
