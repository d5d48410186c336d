"""How late the event loop calls back while the program indexes and a person types queries.

A probe on the loop asks to be called 20 ms later, again and again, and notes how late it was. A
delay of 200 ms would count as one late call among many, although whoever pressed a key anywhere in
it waited; so the calls that should have come meanwhile are noted too, each with its own delay. The
percentiles are therefore those of a key that comes at any moment.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from textual import events
from textual.app import App

from memtui.bus import Bus
from memtui.engine import Engine
from memtui.index.transcripts.discovery import TranscriptHomes
from memtui.memory.workspace import demo_root
from memtui.settings.schema import EmbeddingSettings, Settings, TranscriptSettings
from memtui.tui.app import MemtuiApp
from tests.bench.frame import MILLISECONDS, Judged, Limit, Measurement, Plan, Series
from tests.bench.indexing import TRANSCRIPT_BYTES, write_transcripts
from tests.support.conversations import WORDS, Homes, said
from tests.tui.harness import dark, until

MOST_MS = 50.0
COPIES = {"notes": 50, "notes with vectors": 8}
"""Copies of the demo memory: as many as are still indexed when the probe ends."""
_INTERVAL = 0.020
_KEY_SECONDS = 0.070
_SECONDS = 2.0
_CONVERSATIONS = 60
_QUERIES = ("router vlan config", "standup time", "deploy rollback", "恐龙", "backup nas restore")


def measure_loop(plan: Plan) -> Iterator[Measurement]:
    """Type queries into the running interface, at rest and while everything is indexed anew."""
    for kind in (*COPIES, "conversations"):
        busy, quiet = Series(), Series()
        for _ in range(plan.rounds):
            with tempfile.TemporaryDirectory(prefix="memtui-loop-") as temporary:
                asyncio.run(_typed(Path(temporary), kind, busy, quiet))
        yield Measurement(
            f"lateness of the event loop, indexing {kind}", busy, "ms", "at rest", quiet,
            aim=f"p95 <= {MOST_MS:.0f} ms", limit=Limit(MOST_MS, Judged.P95),
        )  # fmt: skip


async def _typed(place: Path, kind: str, busy: Series, quiet: Series) -> None:
    """Open the interface on a new memory, and note the lateness of the loop in milliseconds."""
    root, homes, sources = place / "memory", TranscriptHomes(), tuple[str, ...]()
    if kind in COPIES:
        _copy_the_demo(root, COPIES[kind])
    else:
        root.mkdir()
        (root / "MEMORY.md").write_text("# The router\n\nVLAN 20 is for guests.\n")
        homes, sources = _many_conversations(place / "homes"), ("openclaw",)
    settings = Settings(
        embedding=EmbeddingSettings(provider="minilm" if "vectors" in kind else "none"),
        transcripts=TranscriptSettings(sources=sources),
    )

    def open_engine(bus: Bus) -> Engine:
        data = place / "data"
        return Engine.open(root, settings, bus=bus, data_dir=data, warm=True, homes=homes)

    app = MemtuiApp(open_engine, dark(root=root))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = app.search_screen
        await until(pilot, lambda: screen.engine is not None, 30)
        assert screen.engine is not None
        index = screen.engine.index
        await _type_queries(app, quiet)
        index.sync()
        phase = "vectors" if "vectors" in kind else "files"

        def has_begun() -> bool:
            progress = index.status().progress
            return progress is not None and progress.phase == phase and progress.done > 0

        await until(pilot, has_begun, 60)
        await _type_queries(app, busy)
        index.cancel()
    app.memories.close()


async def _type_queries(app: App[int], late: Series) -> None:
    """Type queries at the pace of a fast typist, whatever the loop does.

    Not `pilot.press`: it waits until the process is idle, which one that indexes never is.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + _SECONDS
    pause = [""] * 5
    keys = itertools.cycle([key for query in _QUERIES for key in (*query, *pause, "ctrl+u")])

    def press() -> None:
        if key := next(keys):
            name = "space" if key == " " else key
            app.post_message(events.Key(name, key if len(key) == 1 else None))
        if loop.time() < end:
            loop.call_later(_KEY_SECONDS, press)

    press()
    while (due := loop.time() + _INTERVAL) < end:
        await asyncio.sleep(_INTERVAL)
        seconds = max(0.0, loop.time() - due)
        while seconds >= 0.0:
            late.wall.append(seconds * MILLISECONDS)
            seconds -= _INTERVAL


def _copy_the_demo(root: Path, times: int) -> None:
    """Copy the demo memory, no chunk of one copy like that of another."""
    for number in range(times):
        copy = root / f"copy-{number:02}"
        shutil.copytree(demo_root(), copy)
        for note in copy.rglob("*.md"):
            mark = f"\n\n({number}) ".encode()
            note.write_bytes(note.read_bytes().replace(b"\n\n", mark))


def _many_conversations(place: Path) -> TranscriptHomes:
    """Write transcripts of 1 MB, a fifth of which is said, and one with a message of 5 MB."""
    homes, chosen = Homes(place), random.Random(5)
    write_transcripts(place / "openclaw/agents/main/sessions", _CONVERSATIONS)
    pasted = " ".join(chosen.choices(WORDS, k=10**6))[: 5 * TRANSCRIPT_BYTES]
    homes.openclaw("0001-pasted.jsonl", [said("user", pasted)])
    return homes.homes
