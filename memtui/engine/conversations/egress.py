"""Where the text of conversations goes when they are indexed."""

from __future__ import annotations

from collections.abc import Sequence

from memtui.embedding.choice import choice_of, fallback_of
from memtui.embedding.registry import resolve
from memtui.engine.providers.places import sent_to
from memtui.model import ProviderListing
from memtui.settings import Settings


def hosts_of(providers: Sequence[ProviderListing]) -> tuple[str, ...]:
    """The other machines that get texts: of the provider, and of the one that takes over."""
    return tuple(
        one.address or one.name
        for one in providers
        if one.remote and (one.is_requested or one.is_actual or one.is_fallback)
    )


def hosts_in(settings: Settings) -> tuple[str, ...]:
    """The other machines that would get texts by these settings; asks nothing.

    Raises `SettingsError` for a provider that does not exist.
    """
    hosts = []
    for choice in (choice_of(settings.embedding), fallback_of(settings.embedding)):
        registration = resolve(choice)
        if registration is not None:
            place = sent_to(registration, choice)
            hosts += [place.address or registration.name] if place.remote else []
    return tuple(hosts)


def text_goes(hosts: Sequence[str]) -> str:
    """Where the indexed text goes: to those hosts, for its vectors, or nowhere."""
    if not hosts:
        return "all of it stays on this machine"
    return f"it is sent to {' and '.join(dict.fromkeys(hosts))}, which makes the vectors"
