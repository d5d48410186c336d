"""Which embedding providers there are, and how one is chosen and loaded."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from memtui.embedding.choice import AUTO, EMBEDDED_DEFAULT, NONE
from memtui.embedding.provider import Provider, ProviderIdentity
from memtui.errors import SettingsError
from memtui.model import Failure, ProviderState
from memtui.settings.schema import EmbeddingSettings

_MODULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "minilm": "minilm",
        "use-multilingual": "use_multilingual",
        "wordllama": "wordllama",
        "gguf": "gguf",
        "openai": "remote.provider",
        "gemini": "remote.provider",
        "voyage": "remote.provider",
        "mistral": "remote.provider",
        "ollama": "remote.provider",
    }
)
"""By name, the module below `memtui.embedding` whose `REGISTRATIONS` has it."""

AUTO_REMOTE: Final = ("openai", "gemini", "voyage", "mistral")
"""The services that `auto` may choose, in the order of OpenClaw's (OPENCLAW.md, section 10)."""


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a provider can work, as far as a look tells that loads and asks nothing."""

    works: bool
    detail: str
    """One line: what was found, or what is missing."""
    hint: str = ""
    """The next step, where something is missing."""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Registration:
    """A provider that can be chosen by name, without its libraries being loaded."""

    name: str
    remote: bool
    """Whether it is a service, by its own address on another machine."""
    create: Callable[[EmbeddingSettings], Provider]
    """Load it, ready to embed; raises `ProviderError`."""
    look: Callable[[EmbeddingSettings], Availability]
    """A cheap look, which loads and asks nothing; never raises."""
    identity: Callable[[EmbeddingSettings], ProviderIdentity]
    """What `create` would give, without loading it."""
    summary: str = ""
    """A few words for people."""


_registered: dict[str, Registration] = {}


def register(registration: Registration) -> None:
    """Make a provider known under its name; a later one of the same name takes its place."""
    _registered[registration.name] = registration


def unregister(name: str) -> None:
    """Forget a provider that was registered."""
    _registered.pop(name, None)


def provider_names() -> tuple[str, ...]:
    """Every name that a setting may hold, `auto` and `none` among them."""
    return (AUTO, *dict.fromkeys((*_MODULES, *_registered)), NONE)


def registration_of(name: str) -> Registration:
    """The provider of a name; raises `SettingsError` where there is none."""
    if name in _registered:
        return _registered[name]
    if name in _MODULES:
        module = importlib.import_module(f"memtui.embedding.{_MODULES[name]}")
        registrations: Mapping[str, Registration] = module.REGISTRATIONS
        return registrations[name]
    import difflib

    valid = provider_names()
    nearest = difflib.get_close_matches(name.lower(), valid, n=1, cutoff=0.4)
    meant = f'did you mean "{nearest[0]}"? ' if nearest else ""
    raise SettingsError(
        f'no embedding provider is named "{name}"', hint=f"{meant}valid: {', '.join(valid)}"
    )


def resolve(choice: EmbeddingSettings) -> Registration | None:
    """The provider that a choice means, `auto` worked out; `None` for keyword search alone.

    `auto` is a configured local model whose file is there, then, where `allow_remote` says so,
    the first service whose key is found, else the embedded one. Raises `SettingsError` for a
    name that does not exist.
    """
    if choice.provider == NONE:
        return None
    if choice.provider != AUTO:
        return registration_of(choice.provider)
    if choice.model_path and registration_of("gguf").look(choice).works:
        return registration_of("gguf")
    if choice.allow_remote:
        for name in AUTO_REMOTE:
            if registration_of(name).look(choice).works:
                return registration_of(name)
    return registration_of(EMBEDDED_DEFAULT)


def provider_identity(choice: EmbeddingSettings) -> ProviderIdentity | None:
    """Tell what the chosen provider would be, without loading it; `None` for keyword only.

    Raises `SettingsError` for a name or model that does not exist.
    """
    registration = resolve(choice)
    return None if registration is None else registration.identity(choice)


def state_of(choice: EmbeddingSettings, provider: Provider) -> ProviderState:
    """The state of a provider that is loaded and well."""
    return ProviderState(
        requested=choice.provider,
        actual=provider.name,
        model=provider.model,
        dimensions=provider.dimensions,
        remote=provider.remote,
        address=provider.address,
    )
