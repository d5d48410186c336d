"""Where a provider sends text, as its settings say before it is loaded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from memtui.embedding.choice import NONE, EmbeddingChoice, choice_of, other_of
from memtui.embedding.registry import Registration, resolve
from memtui.errors import SettingsError
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.settings.schema import EmbeddingSettings


class SentTo(NamedTuple):
    """Where text goes."""

    address: str
    """The host; empty when it stays in this program, or the settings do not tell."""
    remote: bool
    """Whether it leaves this machine."""


def sent_to(registration: Registration, choice: EmbeddingChoice) -> SentTo:
    """Tell where the provider of a choice would send text; asks nothing."""
    from memtui.embedding.services import SERVICES, address_of

    service = SERVICES.get(registration.name)
    if service is None:
        return SentTo("", registration.remote)
    try:
        address = address_of(service, choice.base_url)
    except ValueError:
        # Its look says what is wrong with the address.
        return SentTo("", registration.remote)
    return SentTo(safe_line(address.shown), not address.is_loopback)


def choice_for(embedding: EmbeddingSettings, name: str) -> EmbeddingChoice:
    """The choice of a provider by name; another than the configured one gets `other_of`."""
    configured = choice_of(embedding)
    if name == requested_name(embedding):
        return replace(configured, provider=name)
    return other_of(configured, name)


def requested_name(embedding: EmbeddingSettings) -> str:
    """The provider that the settings mean, `auto` worked out; `none` for no provider.

    An unknown name stays as it is.
    """
    try:
        meant = resolve(choice_of(embedding))
    except SettingsError:
        return embedding.provider
    return meant.name if meant is not None else NONE
