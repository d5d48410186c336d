"""The settings of the embedding provider."""

from __future__ import annotations

from typing import Final

from memtui.settings.section import Field, Section

_PROVIDER: Final = r"^[a-z0-9][a-z0-9_-]{0,63}$"


class EmbeddingSettings(Section):
    """Who makes the vectors."""

    provider: str = Field(
        default="auto",
        pattern=_PROVIDER,
        description="auto: the model that comes with memtui, unless allow_remote or model_path say "
        "otherwise; none: keyword search alone; `memtui providers` lists the others.",
    )
    model: str | None = Field(
        default=None,
        max_length=256,
        description="The provider's model; empty: the provider's default.",
    )
    dimensions: int | None = Field(
        default=None,
        ge=1,
        le=16384,
        description="Numbers a vector has, of models that can give fewer; empty: all.",
    )
    fallback: str = Field(
        default="minilm",
        pattern=_PROVIDER,
        description="The provider that takes over when the first one fails; none: none does.",
    )
    allow_remote: bool = Field(
        default=False, description="Let auto choose a remote provider whose key is found."
    )
    base_url: str | None = Field(
        default=None,
        max_length=2048,
        pattern=r"^https?://[^\s]+$",
        description="Address of a remote provider; empty: the provider's own.",
    )
    key_env: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$",
        description="Environment variable that holds the key; empty: the provider's own ones.",
    )
    key_command: str | None = Field(
        default=None, max_length=4096, description="Command that prints the key."
    )
    keyring: bool = Field(
        default=True,
        description="Ask the system's keyring (service memtui), where the package keyring is.",
    )
    agent_keys: bool = Field(
        default=True, description="Look for the key in an OpenClaw configuration, too."
    )
    model_path: str | None = Field(
        default=None, max_length=4096, description="The model file of the provider gguf."
    )
    threads: int = Field(
        default=0,
        ge=0,
        le=256,
        description="CPU threads for a local model; 0: chosen by memtui.",
    )
    query_prefix: str | None = Field(
        default=None,
        max_length=1000,
        description="Put before a query; empty: what the model wants, where that is known.",
    )
    document_prefix: str | None = Field(
        default=None,
        max_length=1000,
        description="Put before a chunk; empty: what the model wants, where that is known.",
    )
    query_timeout: float = Field(
        default=60.0, gt=0, le=3600, description="Seconds to wait for the vector of a query."
    )
    batch_timeout: float = Field(
        default=120.0, gt=0, le=3600, description="Seconds to wait for the vectors of chunks."
    )
    concurrency: int = Field(
        default=4, ge=1, le=32, description="Requests to a remote provider at the same time."
    )
    requests_per_minute: int = Field(
        default=0, ge=0, le=10**6, description="Most requests a minute; 0: learned from answers."
    )
    tokens_per_minute: int = Field(
        default=0, ge=0, le=10**9, description="Most tokens a minute; 0: learned from answers."
    )
    ca_file: str | None = Field(
        default=None, max_length=4096, description="Certificates (PEM) to trust besides the usual."
    )
    batch: bool = Field(
        default=False,
        description="Use the provider's batch interface for large indexes: cheaper, slower.",
    )
    batch_minimum: int = Field(
        default=1000, ge=1, le=10**7, description="Chunks from which on a batch is worth it."
    )
    price: float | None = Field(
        default=None,
        ge=0,
        le=10**6,
        description="Price of a million tokens; empty: the provider's list price, where known.",
    )
