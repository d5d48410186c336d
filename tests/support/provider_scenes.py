"""A workspace whose provider tests break, mend and switch, with a clock that stands still."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue

from memtui.bus import Bus
from memtui.engine import Engine
from memtui.index.database import open_database, read_meta
from memtui.model import IndexState, Leg, LegState
from memtui.settings.schema import EmbeddingSettings, Settings
from tests.support.embedding_services import Clock
from tests.support.services import Service, registered
from tests.support.small_memory import indexer_of, own_index, write_notes

WAIT = 20.0
NOTES = {
    f"memory/{name}.md": f"# {name}\n\nA note about the {name}.\n"
    for name in ("heron", "router", "garden", "kyoto", "lotus", "bicycle")
}


@dataclass
class Scene:
    """A workspace with two services, an engine and a clock that stands still."""

    root: Path
    data: Path
    first: Service
    spare: Service
    clock: Clock

    def open(self, bus: Bus | None = None, **embedding: object) -> Engine:
        values = {"provider": "first", "fallback": "spare", **embedding}
        settings = Settings(embedding=EmbeddingSettings.parse(values))
        return Engine.open(self.root, settings, data_dir=self.data, bus=bus, clock=self.clock)

    def synced(self, bus: Bus | None = None, **embedding: object) -> Engine:
        """Open it, and wait until all is indexed."""
        engine = self.open(bus, **embedding)
        engine.index.sync(wait=True)
        return engine

    def meta(self) -> dict[str, str]:
        """What the live index says of itself."""
        folder = next(self.data.iterdir())
        live = (folder / "CURRENT").read_text(encoding="ascii").strip()
        with closing(open_database(folder / live, readonly=True)) as connection:
            return read_meta(connection)


def until(condition: Callable[[], bool]) -> None:
    """Wait for another thread."""
    end = time.monotonic() + WAIT
    pause: Queue[None] = Queue()
    while not condition():
        assert time.monotonic() < end, "it never came true"
        with suppress(Empty):
            pause.get(timeout=0.005)


def settled(engine: Engine, provider: str) -> None:
    """Wait until a provider answers and its index is live and complete."""

    def is_so() -> bool:
        status = engine.index.status()
        return (
            status.provider.actual == provider
            and status.state in (IndexState.READY, IndexState.DEGRADED)
            and indexer_of(engine).wait_idle(WAIT)
        )

    until(is_so)


def vector_leg(engine: Engine, query: str = "heron") -> LegState:
    return engine.search.ask(query).pool.states[Leg.VECTOR]


def seconds_left(engine: Engine) -> int | None:
    """Read off the state when a provider that failed is asked again."""
    words = re.search(r"tried again in (\d+) s", engine.index.status().provider.detail)
    return int(words[1]) if words else None


def ring(engine: Engine, clock: Clock, seconds: float) -> None:
    """Let time pass; ask a provider that failed again when it is time."""
    left = seconds_left(engine)
    clock.now += seconds
    if left is not None and left <= seconds:
        own_index(engine).providers.probe()


@contextmanager
def opened_scene(folder: Path) -> Iterator[Scene]:
    """Write the notes into `folder` and make two services known, `first` and `spare`."""
    root = folder / "workspace"
    write_notes(root, NOTES)
    first, spare = Service("first"), Service("spare", model="model-two")
    with registered(first, spare):
        yield Scene(root, folder / "data", first, spare, Clock())
