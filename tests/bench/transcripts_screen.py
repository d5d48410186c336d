"""Conversations in bulk with the screen open: how free its loop stays while somebody types.

The real application runs on the real engine in a process of its own, without a terminal, and
queries are typed until the last conversation is indexed. Beside its loop stands that of an
application with nothing but a box to type into, before anything is indexed.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from textual import events
from textual.app import App, ComposeResult
from textual.widgets import Input

from memtui.bus import Bus, SearchReady
from memtui.engine import Engine
from memtui.index.transcripts.scope import TranscriptHomes
from memtui.model import IndexState
from memtui.settings import Settings
from memtui.tui.app import MemtuiApp
from memtui.tui.options import UiOptions
from tests.bench.measure import MILLISECONDS, Measurement, Plan, Series, percentile
from tests.bench.transcripts import anonymous_bytes, corpus_of, in_a_process
from tests.tui.harness import until
from tests.tui.test_loop_lag import KEY_SECONDS, Probe

QUERIES = ("what was said in file0007", "harbor", "who asked about the file", "garden")
_IDLE_SECONDS = 20.0
_SAMPLE_SECONDS = 0.5
_PATIENCE = 2 * 3600.0


def measure_transcripts_screen(plan: Plan) -> Iterator[Measurement]:
    """Index so many transcripts while queries are typed into the open screen."""
    place, count = corpus_of(plan)
    found: dict[str, Any] = dict(in_a_process("tests.bench.transcripts_screen", place))
    name = f"{count:,} transcripts of 1 MB"
    note = f"{found['chunks']:,} chunks" + ("" if found["is_whole"] else ", stopped before the end")
    yield Measurement(f"screen open, {name}", Series([found["seconds"]]), "s", note=note)
    late, idle = Series(found["late"]), Series(found["idle"])
    told = "; ".join(
        f"{label} " + " ".join(f"p{p} {percentile(one.wall, p / 100):.1f}" for p in (50, 95, 99))
        for label, one in (("indexing", late), ("idle", idle))
    )
    told += f" ms; {len(late.wall):,} calls, the latest {max(late.wall):.0f} ms"
    yield Measurement("  loop late", late, "ms", "idle loop, typed into", idle, note=told)
    took = Series(found["took"])
    told = f"{len(took.wall):,} answers, p95 {percentile(took.wall, 0.95):.0f} ms, the longest"
    yield Measurement("  key to answer", took, "ms", note=f"{told} {max(took.wall):.0f} ms")
    peak, base = Series([found["peak"] / 1e6]), Series([found["base"] / 1e6])
    told = f"of it not of files at most {found['anonymous'] / 1e6:.0f} MB"
    yield Measurement("  peak resident, screen", peak, "MB", "before", base, note=told)
    shutil.rmtree(place)


class _Typist:
    """Types queries at the pace of a fast typist, whatever the loop does, and probes the loop."""

    def __init__(self, app: App[int]) -> None:
        self._app = app
        self._loop = asyncio.get_running_loop()
        pause = [""] * 5
        self._keys = itertools.cycle([key for text in QUERIES for key in (*text, *pause, "ctrl+u")])
        self._handle = self._loop.call_later(KEY_SECONDS, self._press)
        self._probe = Probe()

    def _press(self) -> None:
        if key := next(self._keys):
            name = "space" if key == " " else key
            self._app.post_message(events.Key(name, key if len(key) == 1 else None))
        self._handle = self._loop.call_later(KEY_SECONDS, self._press)

    def stop(self) -> list[float]:
        """Stop; how late the loop was, in ms."""
        self._handle.cancel()
        self._probe.stop()
        return [late * MILLISECONDS for late in self._probe.late]


def _timed(engine: Engine) -> Engine:
    """Note when each search is asked for."""
    submit = engine.search.submit

    def timed(text: str, **options: Any) -> int:
        asked = perf_counter()
        sequence = submit(text, **options)
        _asked[sequence] = asked
        return sequence

    engine.search.submit = timed  # type: ignore[method-assign]
    return engine


_asked: dict[int, float] = {}


class _Trivial(App[int]):
    """Nothing but a box to type into."""

    def compose(self) -> ComposeResult:
        yield Input()


async def _idle() -> list[float]:
    app = _Trivial()
    async with app.run_test(size=(120, 40)):
        typist = _Typist(app)
        await asyncio.sleep(_IDLE_SECONDS)
        return typist.stop()


async def _indexing(place: Path, patience: float) -> dict[str, Any]:
    settings = Settings.parse(
        {"embedding": {"provider": "none"}, "transcripts": {"sources": ["openclaw"]}}
    )
    homes = TranscriptHomes(openclaw=place / "home")
    took: list[float] = []

    def ready(event: SearchReady) -> None:
        if event.complete and event.sequence in _asked:
            took.append((perf_counter() - _asked.pop(event.sequence)) * MILLISECONDS)

    def open_engine(bus: Bus) -> Engine:
        bus.subscribe(SearchReady, ready)
        return _timed(
            Engine.open(
                place / "notes", settings, bus=bus, data_dir=place / "data", warm=True, homes=homes
            )
        )

    app = MemtuiApp(open_engine, UiOptions(theme="memtui-dark", root=place / "notes"))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: app.search_screen.engine is not None, 60)
        engine = app.search_screen.engine
        assert isinstance(engine, Engine)
        began, most = perf_counter(), 0
        engine.index.sync()
        await until(pilot, _has_begun(engine), 120)
        typist = _Typist(app)
        while (
            engine.index.status().state is IndexState.INDEXING and perf_counter() - began < patience
        ):
            most = max(most, anonymous_bytes())
            await asyncio.sleep(_SAMPLE_SECONDS)
        late, seconds = typist.stop(), perf_counter() - began
        is_whole = engine.index.status().state is not IndexState.INDEXING
        status = engine.index.status()
        engine.index.cancel()
        assert not status.errors, status.errors
    app.memories.close()
    return {
        "seconds": seconds,
        "chunks": status.chunks,
        "is_whole": is_whole,
        "late": late,
        "took": took,
        "anonymous": most,
    }


def _has_begun(engine: Engine) -> Callable[[], bool]:
    def begun() -> bool:
        progress = engine.index.status().progress
        return progress is not None and progress.done > 0

    return begun


def measured(place: Path, patience: float = _PATIENCE) -> dict[str, Any]:
    """Type while everything is indexed, for so many seconds at most."""
    shutil.rmtree(place / "data", ignore_errors=True)
    idle = asyncio.run(_idle())
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    found = asyncio.run(_indexing(place, patience))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {**found, "idle": idle, "base": base, "peak": peak}


if __name__ == "__main__":
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    print(json.dumps(measured(Path(sys.argv[1]))))
