"""What is done on a screen before its picture is taken."""

from __future__ import annotations

from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input

from memtui.tui.app import MemtuiApp
from memtui.tui.screens.dialogs import Confirm, DifferenceScreen
from memtui.tui.screens.explain import ExplainScreen
from memtui.tui.screens.place_prompt import PlacePrompt
from memtui.tui.screens.providers import ProvidersScreen
from memtui.tui.widgets.row_list import RowList
from tests.support.agent_scenes import CHANGED
from tests.tui.harness import render_lines, settle, until


async def rest(app: MemtuiApp, pilot: Pilot[Any]) -> None:
    """Wait until two looks at the screen in a row see the same."""
    before: list[str] = []
    while before != (now := render_lines(app)) or not before:
        before = now
        await settle(app, pilot)
        await pilot.pause(0.15)


async def press_explain(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Open the explanation of the second result."""
    await pilot.press("down", "f4")
    await until(pilot, lambda: isinstance(app.screen, ExplainScreen), 30)
    await everything_found(app, pilot)


async def trace_a_note(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Name a note that is not in the list, and wait until everything about it is known."""
    await pilot.press("escape", "t")
    await until(pilot, lambda: isinstance(app.screen, PlacePrompt), 30)
    app.screen.query_one(Input).value = "2026-04-21"
    await rest(app, pilot)
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, ExplainScreen), 30)
    await everything_found(app, pilot)


async def everything_found(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Wait until the explain screen looks for nothing any more."""

    def found() -> bool:
        screen = app.screen
        return isinstance(screen, ExplainScreen) and not screen.explained.due

    await until(pilot, found, 60)


async def compare_with_decay(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Put the list with decay beside the configured one."""
    await pilot.press("escape", "d")
    await rest(app, pilot)
    await pilot.press("c", "down")


async def sweep_lambda(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Draw the ranks against λ and go to the flip before the present value."""
    await pilot.press("escape", "S", "2")
    await rest(app, pilot)
    await pilot.press("left")


async def open_index(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Open the index screen."""
    await pilot.press("escape", "4")


async def toggle_decay(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Switch decay on, so that the strip tells what moved."""
    await pilot.press("f3")


async def open_help(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Open the help of the result list."""
    await pilot.press("escape", "question_mark")


async def choose_fourth(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Go to the fourth result: one that decay moved."""
    await pilot.press("down", "down", "down")


async def open_truth(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Open the index screen of an agent's index."""
    await pilot.press("escape", "i")


async def open_difference(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Open what changed in a note since the agent's program indexed it."""
    screen = app.search_screen
    assert screen.ranked is not None
    hit = next(hit for hit in screen.ranked.hits if hit.chunk.path == CHANGED)
    screen.results.choose(hit.chunk.id)
    await until(
        pilot, lambda: screen.notes.source is not None and screen.notes.source.path == CHANGED, 30
    )
    await pilot.press("f8")
    await until(pilot, lambda: isinstance(app.screen, DifferenceScreen), 30)


async def open_providers(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Open the list of the providers and go to the one whose key is there."""
    await pilot.press("escape", "E")
    screen = app.screen
    assert isinstance(screen, ProvidersScreen)
    await until(pilot, lambda: bool(screen.listings), 30)
    screen.query_one(RowList).choose("openai")


async def price_a_provider(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Ask what going over to that provider costs."""
    await open_providers(app, pilot)
    await rest(app, pilot)
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, Confirm), 30)
    await pilot.press("down")
