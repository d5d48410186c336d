"""The embedding provider of an engine: loaded once, when a vector is first needed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from memtui.embedding.provider import (
    EmbeddingChoice,
    Provider,
    ProviderIdentity,
    create_provider,
    provider_identity,
)
from memtui.model import ProviderState, Reason

RETRY_SECONDS = 30.0


class ProviderHolder:
    """Hands the same provider to the engine thread and the index thread.

    A provider that could not be loaded is tried again after 30 s, or when `retry` is called.
    """

    def __init__(
        self, choice: EmbeddingChoice, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.choice = choice
        self.identity: ProviderIdentity | None = provider_identity(choice)
        self._clock = clock
        self._lock = threading.Lock()
        self._provider: Provider | None = None
        self._state: ProviderState | None = None
        self._tried_at = 0.0
        self._closed = False

    @property
    def is_loaded(self) -> bool:
        """Whether the provider was asked for and answered, well or not."""
        return self._state is not None

    def get(self) -> tuple[Provider | None, ProviderState]:
        """Load the provider or return the one that is loaded; blocks while it loads."""
        with self._lock:
            if self._state is None or self._may_retry(self._state):
                self._provider, self._state = create_provider(self.choice)
                self._tried_at = self._clock()
                if self._closed and self._provider is not None:
                    self._provider.close()
            return self._provider, self._state

    def retry(self) -> None:
        """Let the next `get` try again after a failure."""
        self._tried_at = -RETRY_SECONDS

    def state(self) -> ProviderState:
        """Tell what is known without loading anything."""
        if self._state is not None:
            return self._state
        identity = self.identity
        if identity is None:
            return ProviderState(self.choice.provider, None, None, None, Reason.DISABLED)
        return ProviderState(
            self.choice.provider, identity.name, identity.model, identity.dimensions
        )

    def close(self) -> None:
        """Let go of the provider."""
        self._closed = True
        if self._lock.acquire(blocking=False):
            try:
                if self._provider is not None:
                    self._provider.close()
            finally:
                self._lock.release()

    def _may_retry(self, state: ProviderState) -> bool:
        failed = state.state is Reason.PROVIDER_FAILED
        return failed and self._clock() - self._tried_at >= RETRY_SECONDS
