"""The embedding providers that there are, and how one is chosen and loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from memtui.embedding.provider import Provider, ProviderIdentity
from memtui.errors import ProviderError, SettingsError
from memtui.settings.schema import OF_ONE_PROVIDER, PROVIDERS, EmbeddingSettings

AUTO: Final = "auto"
NONE: Final = "none"
EMBEDDED_DEFAULT: Final = "minilm"
AUTO_REMOTE: Final = ("openai", "gemini", "voyage", "mistral")
"""The services that `auto` may choose, in the order of OpenClaw's (OPENCLAW.md, section 10)."""


class Registration(Struct, frozen=True):
    """A provider that can be chosen by name, without its libraries being loaded."""

    name: str
    create: Callable[[EmbeddingSettings], Provider]
    """Load it, ready to embed; raises `ProviderError`."""
    check: Callable[[EmbeddingSettings], str]
    """Say in one line what it finds here, without loading or asking; raises `ProviderError` or
    `SettingsError` where something is missing."""
    identity: Callable[[EmbeddingSettings], ProviderIdentity]
    """Return the identity of what `create` would give, without loading it."""
    summary: str = ""
    """A few words for people."""
    destination: Callable[[EmbeddingSettings], tuple[str, bool]] = lambda choice: ("", False)
    """The host that `create` would send text to, empty where it stays in this program or the
    settings do not tell, and whether text leaves this machine; asks nothing."""
    reads: Callable[[str], bool] = lambda text: True
    """Tell whether the model, as far as is known, reads the script of a text."""


def registration_of(name: str) -> Registration:
    """Return the provider of a name; raises `SettingsError` where there is none."""
    if name in PROVIDERS:
        registrations: Mapping[str, Registration] = import_module(PROVIDERS[name]).REGISTRATIONS
        return registrations[name]
    raise SettingsError(f'no embedding provider is named "{name}"')


def resolve(choice: EmbeddingSettings) -> Registration | None:
    """Return the provider that a choice means, `auto` worked out; `None` for keyword search alone.

    `auto` is a configured local model whose file is there, then, where `allow_remote` says so,
    the first service whose key is found, else the embedded one. Raises `SettingsError` for a
    name that does not exist, which no file of settings gives.
    """
    if choice.provider == NONE:
        return None
    if choice.provider != AUTO:
        return registration_of(choice.provider)
    candidates = ["gguf"] if choice.model_path else []
    candidates += AUTO_REMOTE if choice.allow_remote else ()
    for registration in map(registration_of, candidates):
        with suppress(ProviderError, SettingsError):
            registration.check(choice)
            return registration
    return registration_of(EMBEDDED_DEFAULT)


def requested_name(embedding: EmbeddingSettings) -> str:
    """Return the provider that the settings mean; `none` for none."""
    meant = resolve(embedding)
    return meant.name if meant is not None else NONE


def choice_for(embedding: EmbeddingSettings, name: str) -> EmbeddingSettings:
    """Return the settings of a provider by name; another than the configured gets `other_of`."""
    if name == requested_name(embedding):
        return replace(embedding, provider=name)
    return other_of(embedding, name)


def other_of(configured: EmbeddingSettings, name: str) -> EmbeddingSettings:
    """Return the settings of another provider than the configured one: its own default model."""
    unset = dict.fromkeys(OF_ONE_PROVIDER)
    return replace(configured, provider=name, allow_remote=False, **unset)
