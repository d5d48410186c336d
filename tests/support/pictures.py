"""Pictures that Textual draws: their text, what of it can be compared, and a rendering."""

from __future__ import annotations

import html
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from textual.pilot import Pilot

from memtui.tui.app import MemtuiApp
from memtui.tui.screens.dialogs import Confirm, DifferenceScreen
from memtui.tui.screens.providers import ProvidersScreen
from memtui.tui.widgets.lists import RowList
from tests.support.agent_scenes import CHANGED
from tests.tui.harness import render_lines, settle, until

CELL = 12.2
"""Width of a cell in the pictures that Textual draws."""


def comparable(lines: list[str]) -> list[str]:
    """Lines of a screen without what differs from run to run.

    Numbers become `#` (durations always differ, also in their unit), what is counted only now and
    then while an index fills may be missing, runs of bar glyphs and of white space become one.
    """
    text = (re.sub(r"-[0-9a-f]{12}\b", "-#", line) for line in lines)
    text = (re.sub(r"[−-]?\d+(?:[.,]\d+)?", "#", line) for line in text)
    text = (re.sub(r"# m?s\b", "# s", line) for line in text)
    text = (re.sub(r"[█▒╌◇━╸─]+", "▒", line) for line in text)
    text = (re.sub(r"\s*#/s\b|# of # +(?=exact)", "", line) for line in text)
    return [re.sub(r"\s+", " ", line).strip() for line in text]


def svg_lines(svg: str) -> list[str]:
    """The lines of text in a picture, of one frame after the other."""
    lines: list[str] = []
    pattern = r'<text[^>]*?x="([\d.]+)"[^>]*?clip-path="url\(#[^)]*?line-(\d+)\)"[^>]*>(.*?)</text>'
    for frame in svg.split("<svg "):
        rows: dict[int, list[tuple[float, str]]] = {}
        for x, row, content in re.findall(pattern, frame):
            text = html.unescape(re.sub(r"<[^>]+>", "", content)).replace("\xa0", " ")
            rows.setdefault(int(row), []).append((float(x), text))
        lines += ["".join(text for _, text in sorted(rows[row])) for row in sorted(rows)]
    return lines


def moving(frames: Sequence[tuple[float, str]]) -> str:
    """Return one picture that shows frames in turn, so many seconds each, again and again.

    Where nothing may move, or nothing can, the last one stands.
    """
    total, begins = sum(seconds for seconds, _ in frames), 0.0
    rules, layers = [], []
    for number, (seconds, svg) in enumerate(frames):
        first, last = (f"{100 * at / total:.2f}%" for at in (begins, begins + seconds))
        shown = "visible" if number == len(frames) - 1 else "hidden"
        rules.append(
            f".frame{number} {{ visibility: {shown}; animation: show{number} {total:g}s step-end"
            f" infinite }} @keyframes show{number} {{ 0% {{ visibility: hidden }}"
            f" {first} {{ visibility: visible }} {last} {{ visibility: hidden }} }}"
        )
        layers.append(f'<g class="frame{number}">{svg}</g>')
        begins += seconds
    box = re.search(r'viewBox="[^"]*"', frames[0][1])
    still = "@media (prefers-reduced-motion) { g { animation: none !important } }"
    style = "\n".join([*rules, still])
    body = "\n".join(layers)
    assert box is not None
    head = f'<svg {box[0]} xmlns="http://www.w3.org/2000/svg"><style>{style}</style>'
    return f"{head}\n{body}\n</svg>\n"


def on_grid(svg: str) -> str:
    """Place every word of a picture on its cell, whatever a renderer makes of spaces."""

    def place(match: re.Match[str]) -> str:
        before, x, between, content = match.groups()
        text = html.unescape(content)
        between = re.sub(r'textLength="[^"]*"', "", between)
        placed = []
        for word in re.finditer(r"\S+", text):
            position = float(x) + CELL * cell_len(text[: word.start()])
            word_text = html.escape(word.group())
            placed.append(f'<text{before}x="{position:g}"{between}>{word_text}</text>')
        return "".join(placed)

    return re.sub(r'<text([^>]*?)x="([\d.]+)"([^>]*clip-path[^>]*)>([^<]*)</text>', place, svg)


def to_png(svg: str, target: Path) -> None:
    """Render a picture with fonts that are installed; needs `rsvg-convert` (librsvg2-bin)."""
    plain = re.sub(r"@font-face\s*{[^}]*}", "", svg)
    plain = re.sub(r"font-family:[^;]*;", "font-family: DejaVu Sans Mono, WenQuanYi;", plain)
    plain = on_grid(plain).replace("font-size: 20px", "font-size: 20.265px")
    command = ["rsvg-convert", "--format=png", f"--output={target}"]
    subprocess.run(command, input=plain.encode(), check=True)


async def rest(app: MemtuiApp, pilot: Pilot[Any]) -> None:
    """Wait until two looks at the screen in a row see the same."""
    before: list[str] = []
    while before != (now := render_lines(app)) or not before:
        before = now
        await settle(app, pilot)
        await pilot.pause(0.15)


async def open_difference(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Open what changed in a note since the agent's program indexed it."""
    screen = app.search_screen
    assert screen.state.ranked is not None
    hit = next(hit for hit in screen.state.ranked.hits if hit.chunk.path == CHANGED)
    screen.results.choose(hit.chunk.id)
    await until(
        pilot, lambda: screen.state.source is not None and screen.state.source.path == CHANGED, 30
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
        await pilot.press("T")
        await everything_read(app, pilot)


async def open_care(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Look for what needs care."""
    await pilot.press("escape")
    app.action_show_screen("care")
    await everything_read(app, pilot)


async def read_a_conversation(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Read the newest conversation, with the first search of the memory unfolded."""
    await pilot.press("escape", "3")
    await everything_read(app, pilot)
    app.open_turn(TALK, GATE_LINE)
    await everything_read(app, pilot)


async def everything_read(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Wait until no worker runs any more and the screen stands still."""
    await pilot.pause()
    while any(not worker.is_finished for worker in app.workers):
        await app.workers.wait_for_complete()
        await pilot.pause()
    await rest(app, pilot)
