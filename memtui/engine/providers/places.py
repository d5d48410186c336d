"""Where a provider sends text, as its settings say before it is loaded."""

from __future__ import annotations

from typing import NamedTuple

from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.registry import Registration
from memtui.text.sanitize import safe_line


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
