"""No text from outside is parsed as markup or reaches the terminal as a control character."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest

from memtui.bus import Bus, LegDegraded, SearchFailed, SyncFailed
from memtui.engine.source import RecentFile
from memtui.model import (
    ErrorRecord,
    IndexState,
    Leg,
    LegState,
    LegStatus,
    ProviderState,
    Ranking,
    Reason,
    WatcherState,
)
from memtui.tui.app import MOST_WARNINGS
from memtui.tui.options import UiOptions
from memtui.tui.widgets.row_list import RowList
from tests.tui.harness import Running, render_lines, running, settle, until
from tests.tui.samples import (
    NOW,
    STATUS,
    SampleEngine,
    SampleSource,
    make_chunk,
    make_pool,
)

SHARING = 5
"""So many texts hold all attacks together, for what needs a running application."""
HUGE = (160, 44)
"""The smallest screen with three columns and rows of four lines."""
BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
ATTACKS = (
    "- [x] done",
    "[/]",
    "[/foo]",
    "[@click=app.quit]hi[/]",
    "[r",
    'arr[0] [1, "3"]',
    "\x1b]2;PWNED\x1b\\",
    "\x1b]52;c;UFdORUQ=\x07",
    "\x9b31mred \x00 \x7f \x08 \x0b \x0c \r",
    "\u202egnp.exe\u2066 bidi",
    "\ud800 lone",
    "e\u0301\u0301\u0301 👩‍👩‍👧‍👦 家\u200b族",
    "$leg-vector {0} %s \\ ] [[",
    "a" * 5000,
    "",
)


def make_hostile(engine: SampleEngine, text: str) -> None:
    """Make every text of an engine the attack."""
    path = f"memory/{text[:200].replace('/', '_') or 'empty'}.md"
    chunks = [make_chunk(path, 1, 3, f"{text}\nrouter {text}\n{text}")]
    chunks.append(make_chunk(f"{path}2", 1, 1, f"{text} other"))
    engine.pool = make_pool(
        chunks=chunks,
        terms=(text[:40] or "router", "router"),
        vector=LegState(LegStatus.FAILED, Reason.PROVIDER_FAILED, text),
    )
    engine.current = replace(
        STATUS,
        root=text,
        pending=(text,),
        pending_count=1,
        provider=ProviderState(text, text, text, 3, Reason.PROVIDER_FAILED, text),
        vector_backend=text,
        tokenizer=text,
        watcher=WatcherState("events", text, datetime.now(UTC)),
        errors=(ErrorRecord(NOW, text, text),),
        warnings=(text,),
        state=IndexState.DEGRADED,
    )
    engine.sources = {path: SampleSource(path, [text, text], "changed", detail=text)}
    engine.recents = [RecentFile(path, datetime.now(UTC), 3)]


def check(run: Running) -> None:
    """No forbidden character in any cell, and no cell missing."""
    for line in render_lines(run.app):
        assert not BAD.search(line), repr(line)


TOLD = MOST_WARNINGS // 2


@pytest.mark.parametrize("first", range(0, len(ATTACKS), TOLD))
async def test_hostile_settings_are_told_when_the_program_opens(first: int) -> None:
    texts = ATTACKS[first : first + TOLD]

    def make(bus: Bus) -> SampleEngine:
        engine = SampleEngine(bus)
        make_hostile(engine, ATTACKS[6])
        return engine

    options = UiOptions(
        theme="memtui-dark",
        ranking=Ranking(k=1, profile=ATTACKS[3]),
        warnings=texts,
        keymap={text[:30] or "x": "f9" for text in texts},
    )
    async with running(make, options=options, size=(200, 60)) as run:
        check(run)
        assert len(run.toasts) == 2 * len(texts)


async def test_of_many_warnings_the_first_are_told() -> None:
    options = UiOptions(warnings=tuple(f"wrong {number}" for number in range(500)))
    async with running(options=options) as run:
        assert len(run.toasts) == MOST_WARNINGS + 1
        assert run.toasts[-1] == f"{500 - MOST_WARNINGS} more: memtui config validate"


async def test_hostile_text_goes_through_every_widget() -> None:
    attacks = [" ".join(ATTACKS[first::SHARING]) for first in range(SHARING)]
    async with running(size=HUGE) as run:
        for text in attacks:
            await _attack(run, text)
        await run.pilot.press("ctrl+r")
        await settle(run.app, run.pilot)
        assert len(run.app.screen.query_one(RowList).rows) >= len([one for one in attacks if one])
        check(run)
        await run.pilot.press("escape")
        await run.pilot.resize_terminal(58, 15)
        for number, text in enumerate(attacks):
            make_hostile(run.engine, text)
            await run.search(f"router {number}")
            check(run)


async def _attack(run: Running, text: str) -> None:
    """Bring a text into every widget."""
    screen = run.app.search_screen
    make_hostile(run.engine, text)
    screen.query_input.value = ""
    await settle(run.app, run.pilot)
    check(run)
    await run.search("router")
    screen.rankings.change(Ranking(k=1, profile=text[:50]))
    check(run)
    await run.pilot.press("escape", "y", "Y", "o", "m")
    run.app.bus.publish(SyncFailed(text, NOW))
    run.app.bus.publish(LegDegraded(Leg.VECTOR, Reason.PROVIDER_FAILED, text))
    await settle(run.app, run.pilot)
    check(run)
    screen.query_input.value = f'router path:"{text[:300]}" after:{text[:20]}'
    screen.notes.history.add(text)
    await settle(run.app, run.pilot)
    check(run)
    run.app.clear_notifications()


def _is_asked(run: Running, query: str) -> bool:
    return bool(run.engine.asked) and run.engine.asked[-1][1] == query


async def test_hostile_errors_are_shown_as_text() -> None:
    def make(bus: Bus) -> SampleEngine:
        return SampleEngine(bus, silent=True)

    async with running(make) as run:
        screen = run.app.search_screen
        for number, text in enumerate(ATTACKS[:11]):
            screen.query_input.value = ""
            screen.query_input.value = f"router {number}"
            await until(run.pilot, partial(_is_asked, run, screen.query_input.value))
            run.app.bus.publish(SearchFailed(run.engine.asked[-1][0], text))
            await settle(run.app, run.pilot)
            check(run)
            assert "the search failed" in run.text
            run.app.clear_notifications()


async def test_an_engine_that_cannot_be_opened_says_why() -> None:
    def broken(bus: Bus) -> SampleEngine:
        raise OSError("no [/] space \x1b[2J left")

    from memtui.tui.app import MemtuiApp

    app = MemtuiApp(broken, UiOptions(theme="memtui-dark"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: bool(app.search_screen.engine_error))
        await pilot.pause()
        text = "\n".join(render_lines(app))
        assert "cannot open this memory" in text
        assert "no [/] space ␛[2J left" in text
        await pilot.press("escape", "r", "x", "e", "R", "q")
    assert app.return_code == 0
