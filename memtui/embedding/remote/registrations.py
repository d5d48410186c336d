"""The services that can be chosen by name; nothing here loads what talks to one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.provider import ProviderIdentity
from memtui.embedding.registry import Availability, Registration
from memtui.embedding.remote.access import KeyHolder, look_for_key, missing_key
from memtui.embedding.remote.plan import Plan, plan_of
from memtui.errors import SettingsError
from memtui.model import Failure

if TYPE_CHECKING:
    from memtui.embedding.remote.provider import RemoteProvider

_SUMMARIES: Final = {
    "openai": "OpenAI, or any server that speaks as it does (embedding.base_url)",
    "gemini": "Google Gemini",
    "voyage": "Voyage AI",
    "mistral": "Mistral AI",
    "ollama": "Ollama, on this machine unless embedding.base_url says otherwise",
}


def create(name: str, choice: EmbeddingChoice) -> RemoteProvider:
    """Make the provider; no connection is opened yet.

    Raises `SettingsError` for settings that the service cannot follow, and `ProviderError`
    (`no_key`) where it wants a key and none is found.
    """
    from memtui.embedding.remote.client import ServiceClient
    from memtui.embedding.remote.pacing import Pacer
    from memtui.embedding.remote.provider import RemoteProvider
    from memtui.embedding.remote.sending import Sender

    plan = plan_of(name, choice)
    found = look_for_key(plan)
    if plan.needs_key and not found.is_there:
        raise missing_key(plan, found)
    traffic = choice.traffic
    client = ServiceClient(plan.address, concurrency=traffic.concurrency, ca_file=traffic.ca_file)
    pacer = Pacer(traffic.requests_per_minute, traffic.tokens_per_minute)
    return RemoteProvider(plan, client, KeyHolder(plan), Sender(pacer))


def look(name: str, choice: EmbeddingChoice) -> Availability:
    """Whether the settings and the key are there; asks nobody."""
    try:
        plan = plan_of(name, choice)
    except SettingsError as error:
        return Availability(False, error.message, error.hint, Failure.BAD_SETTING)
    found = look_for_key(plan)
    if plan.needs_key and not found.is_there:
        missing = missing_key(plan, found)
        return Availability(False, missing.message, missing.hint, Failure.NO_KEY)
    return Availability(True, _what_is_there(plan, found.origin))


def identity(name: str, choice: EmbeddingChoice) -> ProviderIdentity:
    """Tell what `create` gives; raises `SettingsError` as it does."""
    return plan_of(name, choice).identity


def _what_is_there(plan: Plan, origin: str) -> str:
    host = plan.address.shown
    return f"key of {origin}, for {host}" if origin else f"without a key, at {host}"


REGISTRATIONS: Final[Mapping[str, Registration]] = {
    name: Registration(
        name=name,
        remote=name != "ollama",
        create=partial(create, name),
        look=partial(look, name),
        identity=partial(identity, name),
        summary=summary,
    )
    for name, summary in _SUMMARIES.items()
}
