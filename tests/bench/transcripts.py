"""Conversations in bulk: the first index beside searches, the memory it takes, the next start."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from textual import events
from textual.app import App, ComposeResult
from textual.widgets import Input

from memtui.bus import Bus, SearchReady
from memtui.engine import Engine
from memtui.errors import IndexMissing
from memtui.index.transcripts.scope import TranscriptHomes
from memtui.model import IndexState
from memtui.settings import Settings
from memtui.tui.app import MemtuiApp
from memtui.tui.options import UiOptions
from memtui.tui.pauses import short_pauses
from tests.bench.indexing import stat_all
from tests.bench.measure import MILLISECONDS, SECONDS, Measurement, Plan, Series, paired, percentile
from tests.support.transcript_corpus import WORDS
from tests.tui.harness import until
from tests.tui.test_loop_lag import KEY_SECONDS, Probe

TRANSCRIPTS = 2_000
"""Of 1 MB each, when the largest size asked for is 100,000; fewer in proportion."""
SIZE = 10**6
SHARE = 0.2
"""How much of a transcript somebody says; the rest is output of tools."""
_PATIENCE = 4 * 3600.0
_PAUSE = 0.05


def measure_transcripts(plan: Plan) -> Iterator[Measurement]:
    """Index so many transcripts in a process that is searched meanwhile; then start again."""
    place, count = corpus_of(plan)
    folder = _sessions(place)
    found = in_a_process("tests.bench.transcripts", place)
    name = f"{count:,} transcripts of 1 MB"
    note = f"{found['chunks']:,.0f} chunks, {SHARE:.0%} of the bytes is said by somebody"
    yield Measurement(f"first index, {name}", Series([found["seconds"]]), "s", note=note)
    waits = Series([found["search_p50"], found["search_p95"]])
    most = f"{found['searches']:.0f} searches, the longest {found['search_max']:.0f} ms"
    yield Measurement("  searches meanwhile", waits, "ms", note=most)
    peak = Series([found["peak"] / 1e6])
    base = Series([found["base"] / 1e6])
    held = f"of it not of files at most {found['anonymous'] / 1e6:.0f} MB"
    yield Measurement("  peak resident", peak, "MB", "before", base, note=held)

    def ours(_: int) -> None:
        with _engine(place) as engine:
            engine.index.sync(wait=True)

    def theirs(_: int) -> None:
        assert stat_all(folder) == count

    took, bare = paired(ours, theirs, range(3 * plan.rounds), SECONDS)
    yield Measurement(f"start, {name} unchanged", took, "s", "scandir + stat", bare, "< 0.5 s")
    shutil.rmtree(place)


def corpus_of(plan: Plan) -> tuple[Path, int]:
    """The folder with the transcripts, written where they are not there yet, and how many."""
    count = min(TRANSCRIPTS, max(plan.sizes) // 50)
    place = plan.place / f"transcripts-{count}"
    folder = _sessions(place)
    if not folder.exists():
        _write(folder, count)
        (place / "notes").mkdir()
        (place / "notes" / "MEMORY.md").write_text("# A note about the harbor\n", encoding="utf-8")
    return place, count


def _sessions(place: Path) -> Path:
    return place / "home" / "agents" / "main" / "sessions"


def _write(folder: Path, count: int) -> None:
    """Transcripts with words of their own: messages, and after each what a tool put out."""
    chosen = random.Random(0)
    output = " ".join(chosen.choices(WORDS, k=2000))
    folder.mkdir(parents=True)
    parts: list[bytes] = []
    size = 0
    while size < SIZE:
        text = " ".join(chosen.choices(WORDS, k=60)) + " file0000"
        said = {"role": ("user", "assistant")[len(parts) % 2], "content": text}
        tool = {"role": "toolResult", "toolCallId": "c", "toolName": "read"}
        much = output[: int(len(text) * (1 / SHARE - 1))]
        tool |= {"content": [{"type": "text", "text": much}]}  # type: ignore[dict-item]
        for message in (said, tool):
            record = {"type": "message", "timestamp": "2026-10-01T10:00:00Z", "message": message}
            parts.append(json.dumps(record).encode() + b"\n")
            size += len(parts[-1])
    whole = b"".join(parts)
    for number in range(count):
        path = folder / f"00000000-0000-4000-8000-{number:012d}.jsonl"
        path.write_bytes(whole.replace(b"file0000", b"file%04d" % number))
        os.utime(path, (1.7e9, 1.7e9))


def in_a_process(module: str, place: Path) -> Mapping[str, Any]:
    """What a module prints as JSON about the transcripts at `place`."""
    command = [sys.executable, "-m", module, os.fspath(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def _engine(place: Path) -> Engine:
    settings = Settings.model_validate(
        {"embedding": {"provider": "none"}, "transcripts": {"sources": ["openclaw"]}}
    )
    homes = TranscriptHomes(openclaw=place / "home")
    return Engine.open(place / "notes", settings, data_dir=place / "data", homes=homes)


def _index_and_search(place: Path) -> dict[str, float]:
    """Index in the background and search without a pause until that is done."""
    shutil.rmtree(place / "data", ignore_errors=True)
    took: list[float] = []
    anonymous = 0
    with _engine(place) as engine:
        base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        began = perf_counter()
        engine.index.sync()
        while not engine.wait_idle(_PAUSE) and perf_counter() - began < _PATIENCE:
            asked = perf_counter()
            try:
                engine.search.ask(f"what was said in file{len(took) % 1000:04d}")
            except IndexMissing:
                # The writer has not made the file yet.
                continue
            took.append((perf_counter() - asked) * MILLISECONDS)
            anonymous = max(anonymous, anonymous_bytes())
        seconds = perf_counter() - began
        assert not engine.index.status().errors, engine.index.status().errors
        chunks = engine.index.status().chunks
    took.sort()
    return {
        "seconds": seconds,
        "chunks": chunks,
        "searches": len(took),
        "search_p50": took[len(took) // 2],
        "search_p95": took[len(took) * 95 // 100],
        "search_max": took[-1],
        "base": base,
        "anonymous": anonymous,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def anonymous_bytes() -> int:
    """Bytes of memory that are no pages of files."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


if __name__ == "__main__":
    print(json.dumps(_index_and_search(Path(sys.argv[1]))))


QUERIES = ("what was said in file0007", "harbor", "who asked about the file", "garden")
_IDLE_SECONDS = 20.0
_SAMPLE_SECONDS = 0.5
_SCREEN_PATIENCE = 2 * 3600.0


def measure_transcripts_screen(plan: Plan) -> Iterator[Measurement]:
    """Index so many transcripts while queries are typed into the open screen."""
    place, count = corpus_of(plan)
    found: dict[str, Any] = dict(in_a_process("tests.bench.transcripts", place))
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
    settings = Settings.model_validate(
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
    app.close_engine()
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


def measured(place: Path, patience: float = _SCREEN_PATIENCE) -> dict[str, Any]:
    """Type while everything is indexed, for so many seconds at most."""
    shutil.rmtree(place / "data", ignore_errors=True)
    idle = asyncio.run(_idle())
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with short_pauses():
        found = asyncio.run(_indexing(place, patience))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {**found, "idle": idle, "base": base, "peak": peak}


if __name__ == "__main__":
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    print(json.dumps(measured(Path(sys.argv[1]))))
