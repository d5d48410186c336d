"""Conversations in bulk: the first index beside searches, the memory it takes, the next start."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from memtui.engine import Engine
from memtui.errors import IndexMissing
from memtui.index.transcripts.discovery import TranscriptHomes
from memtui.settings.schema import Settings
from tests.bench.frame import MILLISECONDS, SECONDS, Measurement, Plan, Series, paired
from tests.bench.indexing import stat_all
from tests.support.conversations import WORDS

TRANSCRIPTS = 2_000
"""Of 1 MB each, when the largest size asked for is 100,000; fewer in proportion."""
SIZE = 10**6
SHARE = 0.2
"""How much of a transcript somebody says; the rest is output of tools."""
_PATIENCE = 4 * 3600.0
_PAUSE = 0.05


def measure_transcripts(plan: Plan) -> Iterator[Measurement]:
    """Index so many transcripts in a process that is searched meanwhile; then start again."""
    place, count = _corpus_of(plan)
    folder = _sessions(place)
    found = _in_a_process(place)
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


def _corpus_of(plan: Plan) -> tuple[Path, int]:
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


def _in_a_process(place: Path) -> Mapping[str, Any]:
    command = [sys.executable, "-m", "tests.bench.transcripts", os.fspath(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured: Mapping[str, Any] = json.loads(done.stdout)
    return measured


def _engine(place: Path) -> Engine:
    settings = Settings.parse(
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
            anonymous = max(anonymous, _anonymous_bytes())
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


def _anonymous_bytes() -> int:
    """Bytes of memory that are no pages of files."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


if __name__ == "__main__":
    print(json.dumps(_index_and_search(Path(sys.argv[1]))))
