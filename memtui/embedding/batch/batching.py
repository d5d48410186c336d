"""What a provider with a batch interface has, told without loading any of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from memtui.embedding.batch.service import BatchService


@runtime_checkable
class Batching(Protocol):
    """A provider that may have a batch interface."""

    def batches(self, cancelled: Callable[[], bool]) -> BatchService | None:
        """The batch interface; `None` where none is wanted or the service has none.

        May look for a key. Raises `ProviderError`, `Cancelled`.
        """
