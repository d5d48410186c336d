"""No text from outside is parsed as markup or reaches the terminal as a control character."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from memtui.bus import Bus, LegDegraded, SearchFailed, SyncFailed
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
from memtui.tui.options import UiOptions
from tests.tui.harness import Running, render_lines, running, settle
from tests.tui.samples import (
    NOW,
    STATUS,
    SampleEngine,
    SampleRecent,
    SampleSource,
    make_chunk,
    make_pool,
)

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


def hostile_engine(text: str) -> type[SampleEngine] | object:
    """An engine whose every text is the attack."""

    def make(bus: Bus) -> SampleEngine:
        path = f"memory/{text[:200].replace('/', '_') or 'empty'}.md"
        chunks = [make_chunk(path, 1, 3, f"{text}\nrouter {text}\n{text}")]
        chunks.append(make_chunk(f"{path}2", 1, 1, f"{text} other"))
        pool = make_pool(
            chunks=chunks,
            terms=(text[:40] or "router", "router"),
            vector=LegState(LegStatus.FAILED, Reason.PROVIDER_FAILED, text),
        )
        status = replace(
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
        return SampleEngine(
            bus,
            pool,
            status,
            sources={path: SampleSource(path, [text, text], "changed", detail=text)},
            recents=[SampleRecent(path, datetime.now(UTC), 3)],
        )

    return make


def check(run: Running) -> None:
    """No forbidden character in any cell, and no cell missing."""
    for line in render_lines(run.app):
        assert not BAD.search(line), repr(line)


@pytest.mark.parametrize("text", ATTACKS, ids=range(len(ATTACKS)))
async def test_hostile_text_goes_through_every_widget(text: str) -> None:
    options = UiOptions(
        theme="memtui-dark",
        ranking=Ranking(k=1, profile=text[:50]),
        warnings=(text,),
        keymap={text[:30] or "x": "f9"},
    )
    make = hostile_engine(text)
    assert callable(make)
    async with running(make, options=options, size=(200, 60)) as run:
        check(run)
        await run.search("router")
        check(run)
        await run.pilot.press("escape", "y", "Y", "o", "m")
        run.app.bus.publish(SyncFailed(text, NOW))
        run.app.bus.publish(LegDegraded(Leg.VECTOR, Reason.PROVIDER_FAILED, text))
        await settle(run.app, run.pilot)
        check(run)
        screen = run.app.search_screen
        screen.query_input.value = f'router path:"{text[:300]}" after:{text[:20]}'
        screen.history.add(text)
        await settle(run.app, run.pilot)
        check(run)
        await run.pilot.press("ctrl+r")
        await settle(run.app, run.pilot)
        check(run)
        await run.pilot.press("escape")
        await run.pilot.resize_terminal(58, 15)
        await run.pilot.pause()
        check(run)


@pytest.mark.parametrize("text", ATTACKS[:11], ids=range(11))
async def test_hostile_errors_are_shown_as_text(text: str) -> None:
    def make(bus: Bus) -> SampleEngine:
        return SampleEngine(bus, silent=True)

    async with running(make) as run:
        run.app.search_screen.query_input.value = "router"
        await run.pilot.pause(0.1)
        run.app.bus.publish(SearchFailed(run.engine.asked[-1][0], text))
        await settle(run.app, run.pilot)
        check(run)
        assert "the search failed" in run.text


async def test_an_engine_that_cannot_be_opened_says_why() -> None:
    def broken(bus: Bus) -> SampleEngine:
        raise OSError("no [/] space \x1b[2J left")

    from memtui.tui.app import MemtuiApp
    from tests.tui.harness import until

    app = MemtuiApp(broken, UiOptions(theme="memtui-dark"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: bool(app.search_screen.engine_error))
        await pilot.pause()
        text = "\n".join(render_lines(app))
        assert "cannot open this memory" in text
        assert "no [/] space ␛[2J left" in text
        await pilot.press("escape", "r", "x", "e", "R", "q")
    assert app.return_code == 0
