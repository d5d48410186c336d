"""A batch interface that is ready to be asked: its words, its place, and how to get there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from memtui.embedding.batch.calls import Call, Target
from memtui.embedding.batch.files import MistralBatches, OpenAiBatches, VoyageBatches
from memtui.embedding.batch.gemini import GeminiBatches
from memtui.embedding.batch.protocol import BatchProtocol
from memtui.embedding.choice import BATCH_TIMEOUT
from memtui.embedding.limits import byte_size
from memtui.embedding.provider import ProviderIdentity
from memtui.embedding.usage import UsageMeter

if TYPE_CHECKING:
    from memtui.embedding.remote.failures import Asked
    from memtui.embedding.remote.replies import Reply

_PROTOCOLS: Final[dict[str, Callable[[Target], BatchProtocol]]] = {
    "openai": OpenAiBatches,
    "voyage": VoyageBatches,
    "mistral": MistralBatches,
    "gemini": GeminiBatches,
}


class Transport(Protocol):
    """Sends calls; usable from any thread, each call ends within 0.1 s of a stop."""

    def send(self, call: Call, *, timeout: float, cancelled: Callable[[], bool]) -> Reply:
        """Give the answer, whatever its status; raises `ServiceError`, `Cancelled`."""

    def download(
        self, call: Call, *, timeout: float, cancelled: Callable[[], bool]
    ) -> Iterator[bytes]:
        """Give the body of a success as it comes in, however large.

        `timeout` is the longest pause in it. Raises `ServiceError`, also for a body that ends
        before its end and for a status other than a success, and `Cancelled`.
        """


@dataclass(frozen=True, slots=True)
class BatchService:
    """The batch interface of one provider, with one model."""

    protocol: BatchProtocol
    transport: Transport
    target: Target
    identity: ProviderIdentity
    """What its vectors are stored under."""
    asked: Asked
    """Who is asked, for the words of a failure."""
    meter: UsageMeter
    """Counts what was asked for."""
    input_bytes: int
    """The most UTF-8 bytes of one text."""
    minimum: int = 1000
    """From how many texts on a batch is worth it."""
    timeout: float = BATCH_TIMEOUT
    """Seconds for one request; for a file, without anything coming in."""

    def takes(self, text: str) -> bool:
        """Whether a text may be sent: services refuse a blank one, and one that is too long."""
        return bool(text.strip()) and byte_size(text) <= self.input_bytes


def has_batches(provider: str) -> bool:
    """Whether a provider of this name has a batch interface."""
    return provider in _PROTOCOLS


def batch_protocol(provider: str, target: Target) -> BatchProtocol:
    """The batch interface of a provider; raises `KeyError` for one that has none."""
    return _PROTOCOLS[provider](target)
