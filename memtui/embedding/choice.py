"""Which embedding provider is wanted, and everything that can be configured about one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from memtui.settings.schema import EmbeddingSettings

AUTO: Final = "auto"
NONE: Final = "none"
EMBEDDED_DEFAULT: Final = "minilm"

QUERY_TIMEOUT: Final = 60.0
BATCH_TIMEOUT: Final = 120.0


@dataclass(frozen=True, slots=True)
class KeyPlaces:
    """Where the key of a service is looked for, besides the service's own variables."""

    variable: str = ""
    """The name of an environment variable."""
    command: str = field(default="", repr=False)
    """A command that prints the key."""
    keyring: bool = True
    """Whether the system's keyring is asked, where the package `keyring` is installed."""
    agent_config: bool = True
    """Whether an OpenClaw configuration on this machine is looked at."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """How a service is asked: times in seconds, rates a minute with 0 for what answers tell."""

    query_timeout: float = QUERY_TIMEOUT
    batch_timeout: float = BATCH_TIMEOUT
    concurrency: int = 4
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    ca_file: str = ""
    """Certificates that are trusted besides the machine's own."""


@dataclass(frozen=True, slots=True)
class BatchUse:
    """Whether the batch interface of a service is used, and from how many texts on."""

    enabled: bool = False
    minimum: int = 1000


@dataclass(frozen=True, slots=True)
class EmbeddingChoice:
    """Which provider is wanted, and its settings."""

    provider: str = AUTO
    model: str | None = None
    """`None` is the provider's own default."""
    threads: int = 0
    """Threads of a local model; 0 lets the provider decide."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Settings that only one provider knows."""
    dimensions: int | None = None
    """How many numbers are asked for, of a service that can give fewer; `None`: its own number."""
    base_url: str = field(default="", repr=False)
    """The address of a service; empty: its own. What follows a `?` may be secret."""
    model_path: str = ""
    """The file of a local model."""
    allow_remote: bool = False
    """Whether `auto` may choose a service whose key is found."""
    query_prefix: str | None = None
    """Put before a query; `None`: what the model wants, where that is known."""
    document_prefix: str | None = None
    """Put before a chunk; `None`: what the model wants, where that is known."""
    price: float | None = None
    """Price of a million tokens, in the user's currency; `None`: the list price, where known."""
    keys: KeyPlaces = KeyPlaces()
    traffic: Traffic = Traffic()
    batch: BatchUse = BatchUse()


def choice_of(embedding: EmbeddingSettings) -> EmbeddingChoice:
    """The provider that the settings ask for."""
    return EmbeddingChoice(
        provider=embedding.provider,
        model=embedding.model,
        threads=embedding.threads,
        dimensions=embedding.dimensions,
        base_url=embedding.base_url or "",
        model_path=embedding.model_path or "",
        allow_remote=embedding.allow_remote,
        query_prefix=embedding.query_prefix,
        document_prefix=embedding.document_prefix,
        price=embedding.price,
        keys=KeyPlaces(
            embedding.key_env or "",
            embedding.key_command or "",
            embedding.keyring,
            embedding.agent_keys,
        ),
        traffic=Traffic(
            embedding.query_timeout,
            embedding.batch_timeout,
            embedding.concurrency,
            embedding.requests_per_minute,
            embedding.tokens_per_minute,
            embedding.ca_file or "",
        ),
        batch=BatchUse(embedding.batch, embedding.batch_minimum),
    )


def other_of(configured: EmbeddingChoice, name: str) -> EmbeddingChoice:
    """The choice of another provider than the configured one: its own default model.

    A model, an address, the place of a key, a prefix and a price belong to one provider and are
    not handed on; the file of a local model, how much is asked at once and whether batches are
    used are settings of all.
    """
    return EmbeddingChoice(
        provider=name,
        threads=configured.threads,
        model_path=configured.model_path,
        keys=replace(configured.keys, variable="", command=""),
        traffic=configured.traffic,
        batch=configured.batch,
    )


def fallback_of(embedding: EmbeddingSettings) -> EmbeddingChoice:
    """The provider that takes over when the configured one fails."""
    return other_of(choice_of(embedding), embedding.fallback)
