"""No text from outside is parsed as markup or reaches the terminal as a control character."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from memtui.bus import Bus, LegDegraded, SearchFailed, SearchReady, SyncFailed
from memtui.engine.ports import RecentFile, SourceText
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
from memtui.tui.app import MOST_WARNINGS, MemtuiApp
from memtui.tui.options import UiOptions
from memtui.tui.screens.search.search_controller import Request
from memtui.tui.widgets.row_list import RowList
from tests.support.small_memory import NOW, SmallMemory
from tests.tui.harness import Running, render_lines, running, settle, until

SHARING = 3
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


def check(run: Running) -> None:
    """No forbidden character in any cell."""
    for line in render_lines(run.app):
        assert not BAD.search(line), repr(line)


def poison(run: Running, text: str) -> None:
    """Make every text that the engine gives of itself the attack."""
    status = replace(
        run.engine.index.status(),
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
    path = f"memory/{text[:200]}.md"
    note = SourceText(path, [text, text], "changed", "", detail=text)
    run.engine.index.status = lambda: status
    run.engine.browse.recent = lambda limit=20: [RecentFile(path, datetime.now(UTC), 3)]
    run.engine.browse.source = lambda path: note


async def answer(run: Running, text: str) -> None:
    """Publish the answer on screen as if every text of it were the attack."""
    screen = run.app.search_screen
    assert screen.state.ranked is not None
    pool = screen.state.ranked.pool
    chunks = {
        name: replace(chunk, path=f"memory/{text[:200]}.md", text=f"{text}\nrouter {text}")
        for name, chunk in pool.chunks.items()
    }
    hits = {
        Leg.VECTOR: (),
        Leg.KEYWORD: tuple(
            replace(hit, terms=(text[:40] or "router", "router")) for hit in pool.hits[Leg.KEYWORD]
        ),
    }
    failed = LegState(LegStatus.FAILED, Reason.PROVIDER_FAILED, text)
    states = {**pool.states, Leg.VECTOR: failed}
    hostile = replace(pool, query=text, chunks=chunks, hits=hits, states=states)
    ranked = run.engine.search.rerank(hostile, screen.state.ranking)
    assert screen.state.request is not None
    run.app.bus.publish(SearchReady(screen.state.request.number, ranked, True))
    await settle(run.app, run.pilot)
    check(run)


async def test_hostile_text_goes_through_every_widget(memory: SmallMemory) -> None:
    attacks = [" ".join(ATTACKS[first::SHARING]) for first in range(SHARING)]
    async with running(memory.open, size=HUGE) as run:
        screen = run.app.search_screen
        for text in attacks:
            poison(run, text)
            screen.query_input.value = ""
            await settle(run.app, run.pilot)
            check(run)
            await run.search("router")
            await answer(run, text)
            screen.rankings.change(Ranking(k=1, profile=text[:50]))
            await run.press("escape", "y", "Y", "o", "m")
            run.app.bus.publish(SyncFailed(text, NOW))
            run.app.bus.publish(LegDegraded(Leg.VECTOR, Reason.PROVIDER_FAILED, text))
            await settle(run.app, run.pilot)
            check(run)
            screen.query_input.value = f'router path:"{text[:300]}" after:{text[:20]}'
            screen.notes.queries = (text, *screen.notes.queries)
            await settle(run.app, run.pilot)
            check(run)
            run.app.clear_notifications()
        await run.press("ctrl+r")
        assert len(run.app.screen.query_one(RowList).rows) >= len(attacks)
        check(run)
        await run.press("escape")
        await run.pilot.resize_terminal(58, 15)
        for text in attacks[:2]:
            await run.search(f"router {attacks.index(text)}")
            await answer(run, text)


async def test_hostile_errors_are_shown_as_text(memory: SmallMemory) -> None:
    async with running(memory.open) as run:
        screen = run.app.search_screen
        for number, text in enumerate(ATTACKS[:11]):
            screen.search.show_start()
            screen.state.text = "router"
            screen.state.request = Request(number, "router", typing=True)
            run.app.bus.publish(SearchFailed(number, text))
            await settle(run.app, run.pilot)
            check(run)
            assert "the search failed" in run.text
            run.app.clear_notifications()


@pytest.mark.parametrize("first", range(0, len(ATTACKS), MOST_WARNINGS // 2))
async def test_hostile_settings_are_told_when_the_program_opens(
    first: int, memory: SmallMemory
) -> None:
    texts = ATTACKS[first : first + MOST_WARNINGS // 2]
    options = UiOptions(
        theme="memtui-dark",
        ranking=Ranking(k=1, profile=ATTACKS[3]),
        warnings=texts,
        keymap={text[:30] or "x": "f9" for text in texts},
    )
    async with running(memory.open, options=options, size=(200, 60)) as run:
        check(run)
        assert len(run.toasts) == 2 * len(texts)


async def test_of_many_warnings_the_first_are_told(memory: SmallMemory) -> None:
    options = UiOptions(warnings=tuple(f"wrong {number}" for number in range(500)))
    async with running(memory.open, options=options) as run:
        assert len(run.toasts) == MOST_WARNINGS + 1
        assert run.toasts[-1] == f"{500 - MOST_WARNINGS} more: memtui config validate"


async def test_an_engine_that_cannot_be_opened_says_why() -> None:
    def broken(bus: Bus) -> Any:
        raise OSError("no [/] space \x1b[2J left")

    app = MemtuiApp(broken, UiOptions(theme="memtui-dark"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: bool(app.search_screen.engine_error))
        await pilot.pause()
        text = "\n".join(render_lines(app))
        assert "cannot open this memory" in text
        assert "no [/] space ␛[2J left" in text
        await pilot.press("escape", "r", "x", "e", "R", "q")
    assert app.return_code == 0
