"""A batch interface at the loopback server, a clock that nobody waits for, and a cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace as changed

from memtui.embedding.batch import BatchInterface, BatchRun, BatchStore
from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import ProviderIdentity, clean_vectors
from memtui.embedding.remote import RemoteProvider, plan_of
from memtui.index.database import open_database
from memtui.model import Usage
from memtui.settings.schema import EmbeddingSettings
from tests.support.batch_loopback import DIMENSIONS, BatchServer, batch_server, numbers_of
from tests.support.remote_embedding import Clock, Keys, waiting_by

NAMES = ("openai", "voyage", "mistral", "gemini")
KEY = "sk-batch-secret-5521"
PREFIX = "note: "


def hash_of(text: str) -> str:
    """The hash by which a text is stored."""
    return hashlib.sha256(text.encode()).hexdigest()


def texts_of(count: int, start: int = 0) -> dict[str, str]:
    """Texts by hash."""
    texts = [f"text {number} über ∑" for number in range(start, start + count)]
    return {hash_of(text): text for text in texts}


@dataclass(slots=True)
class FakeClock:
    """Seconds since 1970 that pass when somebody sleeps, `speed` times as fast."""

    now: float = 1_790_000_000.0
    speed: float = 1.0
    slept: float = 0.0
    longest: float = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds * self.speed
        self.slept += seconds
        self.longest = max(self.longest, seconds)


def make_interface(server: BatchServer, dimensions: int | None = DIMENSIONS) -> BatchInterface:
    """The batch interface of the service that a server speaks for."""
    choice = EmbeddingSettings(
        provider=server.service,
        model="model-1",
        base_url=server.base_url,
        dimensions=dimensions,
        document_prefix=PREFIX,
        batch_timeout=5.0,
        batch=True,
    )
    sender = waiting_by(Clock(), choice)
    provider = RemoteProvider(plan_of(server.service, choice), sender, Keys([KEY]).find)
    interface = provider.batches(bool)
    assert interface is not None
    return interface


class Ran(NamedTuple):
    """What came of a run, and how many of its texts have a vector now."""

    spent: Usage
    note: str
    waiting: bool
    done: int


@dataclass(slots=True)
class Bench:
    """Everything that a run needs, and what it said."""

    server: BatchServer
    interface: BatchInterface
    identity: ProviderIdentity
    folder: Path
    cache: EmbeddingCache
    clock: FakeClock = field(default_factory=FakeClock)
    told: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def store(self) -> BatchStore:
        """The store, as a new process opens it."""
        return BatchStore(self.folder / "batches.json")

    def run(self, texts: dict[str, str], **options: Any) -> Ran:
        """Run batches for texts, without waiting."""
        given: dict[str, Any] = {"clock": self.clock, "sleep": self.clock.sleep}
        provider = self.interface.provider
        choice = changed(provider.plan.choice, batch_minimum=options.pop("minimum", 1))
        provider.plan = replace(provider.plan, choice=choice)
        run = BatchRun(
            self.interface,
            self.identity,
            texts,
            texts.__getitem__,
            self.store,
            self.cache,
            progress=lambda *told: self.told.append(told),
            **(given | options),
        )
        outcome = run.run()
        done = len(self.vectors(texts))
        return Ran(outcome.spent, outcome.note, outcome.waiting, done)

    def limit(self, **limits: Any) -> None:
        """Let the service take less than it does."""
        vars(self.interface).update(limits)

    def vectors(self, texts: dict[str, str]) -> dict[str, list[float]]:
        """What the cache holds for texts."""
        found = self.cache.get_many(self.identity, texts)
        return {text_hash: vector.tolist() for text_hash, vector in found.items()}

    def everything(self) -> str:
        """The text of every file in the folder besides the cache."""
        paths = [path for path in self.folder.rglob("*") if path.is_file()]
        return "".join(path.read_bytes().decode("latin-1") for path in paths)


def expected(texts: dict[str, str]) -> dict[str, list[float]]:
    """The vectors that the cache should hold, bit for bit."""
    return {
        text_hash: clean_vectors(np.array(numbers_of(PREFIX + text))).tolist()
        for text_hash, text in texts.items()
    }


@contextmanager
def bench(name: str, folder: Path, **options: Any) -> Iterator[Bench]:
    """A server, a service and an empty cache for as long as the block runs."""
    with batch_server(name) as server:
        interface = make_interface(server, **options)
        identity = interface.provider.plan.identity._replace(fingerprint="f" * 64)
        cache = EmbeddingCache(folder / "cache.db", open_database)
        try:
            yield Bench(server, interface, identity, folder, cache)
        finally:
            cache.close()
            interface.provider.close()


def after(calls: int) -> Callable[[], bool]:
    """Become true after so many calls."""
    left = iter(range(calls))
    return lambda: next(left, None) is None
