"""Remote providers at a server on this machine, with pauses that nobody waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec.structs import replace as changed

from memtui.embedding.api_keys import FoundKey
from memtui.embedding.http import Pacer, Sender
from memtui.embedding.registry import register, unregister
from memtui.embedding.remote import REGISTRATIONS, RemoteProvider, plan_of
from memtui.embedding.services import Address, Service
from memtui.settings.schema import EmbeddingSettings
from tests.support.embedding_services import SERVICE_PATHS, EmbeddingServer

PROVIDERS = ("openai", "gemini", "voyage", "mistral", "ollama")
KEY = "sk-SECRET-of-the-environment-91c4"
KEY_VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "voyage": "VOYAGE_API_KEY",
    "mistral": "MISTRAL_API_KEY",
}
MODEL = "tiny-embed"
"""A model that no table knows, so that its number of dimensions is learned."""
NO_OTHER_KEYS: dict[str, Any] = {"keyring": False, "agent_keys": False}


@dataclass
class Clock:
    """Time that goes on only when somebody waits; `pauses` are what was waited."""

    now: float = 1000.0
    pauses: list[float] = field(default_factory=list)

    def time(self) -> float:
        """Seconds."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Let time go on at once."""
        self.pauses.append(seconds)
        self.now += seconds


@dataclass
class Keys:
    """Gives one key after the other; the last one stays."""

    values: list[str] = field(default_factory=lambda: [KEY])
    asked: int = 0

    def find(
        self,
        service: Service,
        address: Address,
        choice: EmbeddingSettings,
        env: Mapping[str, str] | None = None,
        *,
        cancelled: Callable[[], bool] | None = None,
    ) -> FoundKey:
        """Find the next key."""
        self.asked += 1
        value = self.values.pop(0) if len(self.values) > 1 else self.values[0]
        return FoundKey(value, "OPENAI_API_KEY" if value else "")


def base_url(provider: str, server: EmbeddingServer) -> str:
    """The address of a server as it is configured for a provider."""
    return server.url + SERVICE_PATHS.get(provider, "")


def choice_at(provider: str, server: EmbeddingServer, **fields: Any) -> EmbeddingSettings:
    """The settings for a provider at a server; `fields` are further ones."""
    usual = {
        "base_url": base_url(provider, server),
        "model": MODEL,
        "query_timeout": 5.0,
        "batch_timeout": 5.0,
        "concurrency": 3,
        **NO_OTHER_KEYS,
    }
    return EmbeddingSettings(provider=provider, **{**usual, **fields})


def impatient(choice: EmbeddingSettings, seconds: float, **traffic: Any) -> EmbeddingSettings:
    """The same with other times."""
    return changed(choice, query_timeout=seconds, batch_timeout=seconds, **traffic)


def waiting_by(clock: Clock, choice: EmbeddingSettings) -> Sender:
    """What sends for a provider, with pauses that pass at once."""
    pacer = Pacer(choice.requests_per_minute, choice.tokens_per_minute, clock=clock.time)
    return Sender(pacer, sleep=clock.sleep, chance=lambda: 0.0, clock=clock.time)


@contextmanager
def remote_provider(
    choice: EmbeddingSettings,
    *,
    find: Callable[..., FoundKey] | None = None,
    clock: Clock | None = None,
) -> Iterator[RemoteProvider]:
    """Make a provider whose pauses pass at once, and close it in the end."""
    sender = waiting_by(clock or Clock(), choice)
    plan = plan_of(choice.provider, choice)
    provider = RemoteProvider(plan, sender, find or Keys().find)
    try:
        yield provider
    finally:
        provider.close()


@contextmanager
def registered_remote(clock: Clock) -> Iterator[list[RemoteProvider]]:
    """Let every remote provider that is created wait by `clock`; they are listed as they come."""
    made: list[RemoteProvider] = []

    def create(choice: EmbeddingSettings) -> RemoteProvider:
        provider = REGISTRATIONS[choice.provider].create(choice)
        assert isinstance(provider, RemoteProvider)
        provider.sender = waiting_by(clock, choice)
        made.append(provider)
        return provider

    for registration in REGISTRATIONS.values():
        register(replace(registration, create=create))
    try:
        yield made
    finally:
        for name in REGISTRATIONS:
            unregister(name)
