"""The batch interface of a provider that asks a service, ready to be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from memtui.embedding.batch.calls import Target
from memtui.embedding.batch.service import BatchService, batch_protocol, has_batches
from memtui.embedding.batch.transport import ClientTransport
from memtui.embedding.protocols import request_headers
from memtui.embedding.services import Service
from memtui.errors import ProviderError
from memtui.model import Failure

if TYPE_CHECKING:
    from memtui.embedding.keys.finding import FoundKey
    from memtui.embedding.remote.provider import RemoteProvider


def open_batches(provider: RemoteProvider, cancelled: Callable[[], bool]) -> BatchService | None:
    """The batch interface of a provider; `None` where none is wanted or the service has none.

    Looks for the key. Raises `ProviderError` where it is missing or cannot be sent, `Cancelled`.
    """
    plan, choice = provider.plan, provider.plan.choice
    if not choice.batch.enabled or not has_batches(plan.service.name):
        return None
    key = provider.keys.current(cancelled)
    asked = provider.asked(key)
    try:
        headers = _key_headers(plan.service, key)
    except ValueError as error:
        words = f"{plan.service.name}: {error}"
        raise ProviderError(words, hint=asked.key_hint, failure=Failure.NO_KEY) from None
    target = Target(
        plan.service,
        plan.address,
        plan.model,
        headers,
        plan.asked_dimensions,
        plan.templates.document,
    )
    return BatchService(
        protocol=batch_protocol(plan.service.name, target),
        transport=ClientTransport(provider.client, asked, _Renewal(provider, key)),
        target=target,
        identity=plan.identity._replace(dimensions=provider.dimensions),
        asked=asked,
        meter=provider.meter,
        input_bytes=plan.input_bytes,
        minimum=choice.batch.minimum,
        timeout=choice.traffic.batch_timeout,
    )


class _Renewal:
    """Looks for another key when the service refuses the one at hand."""

    def __init__(self, provider: RemoteProvider, key: FoundKey) -> None:
        self._provider = provider
        self._key = key

    def __call__(self, cancelled: Callable[[], bool]) -> Mapping[str, str]:
        """The headers of another key; none where there is none that can be sent."""
        try:
            found = self._provider.keys.current(cancelled, refused=self._key)
            if found.value == self._key.value:
                return {}
            self._key = found
            return _key_headers(self._provider.plan.service, found)
        except (ProviderError, ValueError):
            # What the service said of the first key is what is told.
            return {}


def _key_headers(service: Service, key: FoundKey) -> dict[str, str]:
    """The headers that a key goes in; raises `ValueError` for one that cannot be sent."""
    headers = request_headers(service, key.value)
    del headers["content-type"], headers["accept"]
    return headers
