"""From saving a note in an editor to its place among the results on the screen."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter

from memtui.index.watcher import FileEvents, WatchedFolder
from memtui.settings.schema import Settings
from tests.bench.corpus import Corpus
from tests.bench.measure import MILLISECONDS, Judged, Limit, Measurement, Plan, Series
from tests.bench.processes import environment
from tests.bench.screens import Program, Screen
from tests.bench.stores import copy, folder

OVER_MS = 150.0
CHUNKS = 10_000
_REPETITIONS = 3
_PATIENCE = 60.0
_ASKED = "zzsaved"


def measure_saving(plan: Plan) -> Iterator[Measurement]:
    """Save a note with a word that is asked for, against the watcher's event and the debounce."""
    made = folder(Corpus(), min(max(plan.sizes), CHUNKS), plan.place)
    with tempfile.TemporaryDirectory(prefix="memtui-saving-") as temporary:
        taken = copy(made, Path(temporary) / "index")
        env = environment(Path(temporary) / "home", MEMTUI_INDEX__DATA_DIR=str(taken.data))
        shown, seen = _saved(plan, made.root / "memory", made.root, env)
    yield Measurement(
        "save to result on screen", shown, "ms", "event + debounce", seen,
        aim=f"<= +{OVER_MS:.0f} ms",
        limit=Limit(OVER_MS, Judged.OVER),
        size=made.chunks,
    )  # fmt: skip


def _saved(plan: Plan, notes: Path, root: Path, env: Mapping[str, str]) -> tuple[Series, Series]:
    shown, seen = Series(), Series()
    debounce = Settings().index.debounce_seconds
    noticed: SimpleQueue[tuple[str, float]] = SimpleQueue()
    events = FileEvents(
        [WatchedFolder(str(notes), str(notes), True)],
        lambda change: noticed.put((change.path, perf_counter())),
    )
    with Program([sys.executable, "-m", "memtui", str(root)], env) as program:
        program.wait_for("ready")
        program.wait_for("  watching")
        program.press(_ASKED)
        program.watch(3.0)
        for number in range(_REPETITIONS * plan.rounds + plan.warm):
            path = notes / f"saved-{number}.md"
            began = perf_counter()
            _save(path, f"# number{number}x\n\n{_ASKED} number{number}x\n")
            at = program.wait_for(f"number{number}x", _PATIENCE)
            event = next(at for name, at in iter(noticed.get, None) if name == str(path))
            if number >= plan.warm:
                shown.wall.append((at - began) * MILLISECONDS)
                seen.wall.append((event - began + debounce) * MILLISECONDS)
            path.unlink()
            # Each save is over before the next: bursts are another matter.
            program.until(partial(_is_gone, f"number{number}x"), _PATIENCE)
    events.stop()
    return shown, seen


def _is_gone(text: str, screen: Screen) -> bool:
    return not any(text in row for row in screen.rows())


def _save(path: Path, text: str) -> None:
    """Write as editors do: a new file beside it, then over it."""
    beside = path.with_suffix(".tmp")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)
