"""One embedding provider that was chosen: loaded once, watched, and what is known of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.provider import Maker, Provider, ProviderIdentity, identity_of, maker_of
from memtui.embedding.registry import Registration, create_provider, resolve
from memtui.engine.providers.places import sent_to
from memtui.engine.providers.watch import WatchedProvider
from memtui.errors import ProviderError, SettingsError
from memtui.model import Failure, ProviderState, Reason
from memtui.text.sanitize import safe_line


@dataclass(frozen=True, slots=True)
class Outage:
    """How a provider failed."""

    message: str
    """One line, without the hint."""
    failure: Failure
    hint: str = ""

    @classmethod
    def of(cls, error: ProviderError) -> Outage:
        """Make it of the error of a call."""
        return cls(safe_line(error.message), Failure(error.failure), safe_line(error.hint))

    @classmethod
    def of_state(cls, state: ProviderState) -> Outage:
        """Make it of the state of a provider that could not be loaded."""
        message = state.detail.removesuffix(f" ({state.hint})") if state.hint else state.detail
        failure = state.failure or Failure.MODEL_FAILED
        return cls(safe_line(message), failure, safe_line(state.hint))


class ProviderSlot:
    """A provider and whether it works; every method may be called from any thread.

    `report(slot, error)` is told how each call of the provider ended. Raises `SettingsError`
    for a name that does not exist.
    """

    def __init__(
        self,
        choice: EmbeddingChoice,
        report: Callable[[ProviderSlot, ProviderError | None], None],
        closing: Callable[[], bool],
    ) -> None:
        self.choice = choice
        self.registration: Registration | None = resolve(choice)
        self.outage: Outage | None = None
        """How it failed, for good or too often; `None` while it may be asked."""
        self.misses = 0
        """Calls that failed one after the other."""
        self._report = report
        self._closing = closing
        self._lock = threading.Lock()
        self._provider: WatchedProvider | None = None
        self._state: ProviderState | None = None
        self._identity: ProviderIdentity | None = None
        if self.registration is not None:
            # Worked out once: what `auto` means must not change while its index is made.
            self._concrete = replace(choice, provider=self.registration.name)

    @property
    def identity(self) -> ProviderIdentity | None:
        """What it makes; `None` for keyword search alone.

        Told without loading, but perhaps by reading a model's file, so only when it is needed.
        Raises `SettingsError` for a model that does not exist.
        """
        if self._identity is None and self.registration is not None:
            self._identity = self.registration.identity(self._concrete)
        return self._identity

    @property
    def name(self) -> str:
        """The provider's name, `auto` worked out; `none` for keyword search alone."""
        return self.registration.name if self.registration else self.choice.provider

    @property
    def is_loaded(self) -> bool:
        """Whether loading was tried, with success or not."""
        return self._state is not None or self.registration is None

    @property
    def maker(self) -> Maker | None:
        """Whose vectors it makes."""
        return maker_of(self.identity) if self.identity is not None else None

    def load(self, *, again: bool = False) -> Provider | None:
        """Load the provider or return the loaded one; blocks while it loads.

        `None` with an `outage` when it cannot be loaded; only with `again` is that tried anew.
        """
        if self.registration is None:
            return None
        with self._lock:
            if self._state is None or (again and self._provider is None):
                provider, state = self._created()
                if provider is not None:
                    self._take(provider)
                else:
                    self.outage = Outage.of_state(state)
                self._state = state
            return self._provider

    def renew(self) -> None:
        """Forget a failure: let it be loaded again, where it could not, and be asked again."""
        with self._lock:
            if self._provider is None:
                self._state = None
            self.outage = None
            self.misses = 0

    def state(self) -> ProviderState:
        """Tell what is known without loading anything, as if nothing had failed."""
        provider, identity = self._provider, self.identity
        requested = self.choice.provider
        if self.registration is None or identity is None:
            detail = "keyword search only, as configured"
            return ProviderState(requested, None, None, None, Reason.DISABLED, detail)
        if provider is None:
            name, (address, remote) = self.name, sent_to(self.registration, self.choice)
            model, dimensions = identity.model, identity.dimensions
            return ProviderState(requested, name, model, dimensions, remote=remote, address=address)
        return ProviderState(
            requested,
            provider.name,
            provider.model,
            provider.dimensions,
            remote=provider.remote,
            address=provider.address,
        )

    def close(self) -> None:
        """Let go of the provider, unless it is just being loaded."""
        if self._lock.acquire(blocking=False):
            try:
                if self._provider is not None:
                    self._provider.close()
                    self._provider, self._state = None, None
            finally:
                self._lock.release()

    def _created(self) -> tuple[Provider | None, ProviderState]:
        try:
            return create_provider(self._concrete)
        except SettingsError as error:
            # They were right when it was chosen: a model's file is another one now.
            return None, ProviderState(
                self.choice.provider,
                None,
                None,
                None,
                Reason.PROVIDER_FAILED,
                str(error),
                failure=Failure.BAD_SETTING,
                hint=error.hint,
            )

    def _take(self, provider: Provider) -> None:
        if self._closing():
            provider.close()
        known = self.identity
        assert known is not None
        dimensions = provider.dimensions or known.dimensions
        # A model's file may tell more than the settings did.
        made = identity_of(provider)
        self._identity = made._replace(dimensions=dimensions, input_bytes=known.input_bytes)
        self._provider = WatchedProvider(
            provider, lambda error: self._report(self, error), self._closing, dimensions
        )
