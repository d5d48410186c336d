"""What is done on the screens that need no query before their picture is taken."""

from __future__ import annotations

from textual.pilot import Pilot

from memtui.tui.app import MemtuiApp
from tests.support.picture_acts import rest

NOTE = "memory/2026-02-10.md"
TALK = "sessions/main/3f9a1c52-7d0e-4b6a-9f2b-51c6e0a7d431.jsonl"
GATE_LINE = 5
"""Where the agent asks its memory for the code of the gate."""


async def browse_a_note(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Show a daily note with its chunks, and the year above it."""
    await pilot.press("escape")
    app.open_place(NOTE, 19)
    await everything_read(app, pilot)
    if app.size.height > 30:
        await pilot.press("t")
        await everything_read(app, pilot)


async def look_at_the_year(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Walk on the timeline to a day with notes."""
    await pilot.press("escape", "2")
    await everything_read(app, pilot)
    await pilot.press("t")
    await everything_read(app, pilot)
    await pilot.press("N", "N")
    await everything_read(app, pilot)


async def open_a_chunk(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Look at the best result's chunk from every side."""
    await pilot.press("escape", "K")
    await everything_read(app, pilot)


async def open_care(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Look for what needs care."""
    await pilot.press("escape")
    app.action_show_care()
    await everything_read(app, pilot)


async def list_conversations(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Show the conversations."""
    await pilot.press("escape", "3")
    await everything_read(app, pilot)


async def read_a_conversation(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Read the newest conversation, with the first search of the memory unfolded."""
    await list_conversations(app, pilot)
    app.open_turn(TALK, GATE_LINE)
    await everything_read(app, pilot)


async def what_was_asked(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Show what the agent asked its memory in every conversation."""
    await list_conversations(app, pilot)
    await pilot.press("A")
    await everything_read(app, pilot)
    await pilot.press("down", "down", "down")
    await everything_read(app, pilot)


async def choose_sources(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Open the dialog in which conversations are opted in."""
    await list_conversations(app, pilot)
    await pilot.press("O")
    await everything_read(app, pilot)
    await pilot.press("space")
    await everything_read(app, pilot)


async def everything_read(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Wait until no worker runs any more and the screen stands still."""
    await pilot.pause()
    while any(not worker.is_finished for worker in app.workers):
        await app.workers.wait_for_complete()
        await pilot.pause()
    await rest(app, pilot)
