"""Embedding services that tests break and mend: what they say, and what they were sent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from memtui.embedding.provider import Provider, ProviderIdentity, Vector, Vectors
from memtui.embedding.registry import Registration
from memtui.errors import IsCancelled, ProviderError, never, stop_if
from memtui.memory.documents import text_hash
from memtui.model import Failure, Usage
from memtui.settings.schema import EmbeddingSettings
from memtui.text.tokens import dominant_script
from tests.support.embedding import HashedProvider, known_providers

KEY_REFUSED = ProviderError(
    "HTTP 401 from api.example: the key was refused",
    hint="check the key",
    failure=Failure.KEY_REFUSED,
)
DOWN = ProviderError("HTTP 503 from api.example", failure=Failure.SERVICE_DOWN)


@dataclass
class Service:
    """A service by a name: its model turns a text into a direction of its own.

    `refusal` fails every call, `unloadable` every creation; while `hanging` is set a call waits
    until it is cancelled. `texts` and `queries` are what was embedded, in order.
    """

    name: str
    model: str = "model-one"
    dimensions: int = 16
    remote: bool = False
    knows_dimensions: bool = True
    input_bytes: int | None = None
    batch_size: int = 4
    scripts: tuple[str, ...] = ()
    """The scripts that its model reads; empty: all."""
    refusal: ProviderError | None = None
    unloadable: ProviderError | None = None
    before: Callable[[], None] | None = None
    """Called at the beginning of each call for documents."""
    alter: Callable[[Sequence[str], Vectors], Vectors] | None = None
    """Makes the answer to documents another one."""
    hanging: threading.Event = field(default_factory=threading.Event)
    entered: threading.Event = field(default_factory=threading.Event)
    """Set once a call hangs."""
    texts: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    choices: list[EmbeddingSettings] = field(default_factory=list)
    """What providers were created with."""
    open: int = 0
    """Providers that were created and not closed."""

    def identity(self, choice: EmbeddingSettings) -> ProviderIdentity:
        """Tell what a provider of a choice makes."""
        model = choice.model or self.model
        known = self.dimensions if self.knows_dimensions else None
        return ProviderIdentity(self.name, model, known, text_hash(model), self.input_bytes)

    def create(self, choice: EmbeddingSettings) -> Provider:
        """Make a provider, or raise what was set."""
        self.choices.append(choice)
        if self.unloadable is not None:
            raise self.unloadable
        self.open += 1
        return _Caller(self, self.identity(choice))

    def registration(self) -> Registration:
        """How it is made known."""
        return Registration(
            self.name,
            self.create,
            lambda choice: "made for tests",
            self.identity,
            "of tests",
            lambda choice: ("", self.remote),
            self.reads,
        )

    def reads(self, text: str) -> bool:
        """Tell whether its model reads a text."""
        return not self.scripts or dominant_script(text, self.scripts)


class _Caller(Provider):
    """A provider that asks a service."""

    def __init__(self, service: Service, identity: ProviderIdentity) -> None:
        self.identity, self.dimensions = identity, identity.dimensions
        self.address = "api.example" if service.remote else ""
        self.remote = service.remote
        self.batch_size = service.batch_size
        self._service = service
        self._closed = False
        self._hashed = HashedProvider(model=identity.model, dimensions=service.dimensions)
        self._salt = f"{service.name} {identity.model} "

    def embed_query(self, text: str, *, cancelled: IsCancelled = never) -> Vector:
        self._begin(cancelled)
        self._service.queries.append(text)
        self.dimensions = self._service.dimensions
        return self._hashed.embed_query(self._salt + text)

    def embed_documents(self, texts: Sequence[str], *, cancelled: IsCancelled = never) -> Vectors:
        if self._service.before is not None:
            self._service.before()
        self._begin(cancelled)
        self._service.texts.extend(texts)
        self.dimensions = self._service.dimensions
        vectors = self._hashed.embed_documents([self._salt + text for text in texts])
        return vectors if self._service.alter is None else self._service.alter(texts, vectors)

    def reads(self, text: str) -> bool:
        return self._service.reads(text)

    def usage(self) -> Usage:
        return self._hashed.usage()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._service.open -= 1

    def _begin(self, cancelled: IsCancelled) -> None:
        if self._closed:
            raise ProviderError("the provider is closed", failure=Failure.CLOSED)
        pause = threading.Event()
        while self._service.hanging.is_set():
            self._service.entered.set()
            stop_if(cancelled)
            pause.wait(0.01)
        stop_if(cancelled)
        if self._service.refusal is not None:
            raise self._service.refusal


@contextmanager
def registered(*services: Service) -> Iterator[None]:
    """Make services known by their names, for as long as the block runs."""
    with known_providers(*(service.registration() for service in services)):
        yield
