"""One embedding provider as an engine uses it: its choice, how its calls end, its state."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec.structs import replace

from memtui.embedding.choice import NONE, other_of
from memtui.embedding.provider import (
    PROBE_TEXT,
    Maker,
    Provider,
    ProviderIdentity,
    TextsRefused,
    Vector,
    Vectors,
    bisect_rejected,
    identity_of,
    is_refusal,
    maker_of,
)
from memtui.embedding.registry import Registration, resolve, state_of
from memtui.errors import Cancelled, ProviderError, SettingsError
from memtui.model import Failure, ProviderState, Reason
from memtui.settings.schema import EmbeddingSettings
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.embedding.batch.protocols import BatchService
    from memtui.settings.schema import EmbeddingSettings

KEYWORD_ONLY = "keyword search only, as configured"


class SentTo(NamedTuple):
    """Where text goes."""

    address: str
    """The host; empty when it stays in this program, or the settings do not tell."""
    remote: bool
    """Whether it leaves this machine."""


def sent_to(registration: Registration, choice: EmbeddingSettings) -> SentTo:
    """Tell where the provider of a choice would send text; asks nothing."""
    from memtui.embedding.services import SERVICES, address_of

    service = SERVICES.get(registration.name)
    if service is None:
        return SentTo("", registration.remote)
    try:
        address = address_of(service, choice.base_url or "")
    except ValueError:
        # Its look says what is wrong with the address.
        return SentTo("", registration.remote)
    return SentTo(safe_line(address.shown), not address.is_loopback)


def choice_for(embedding: EmbeddingSettings, name: str) -> EmbeddingSettings:
    """The choice of a provider by name; another than the configured one gets `other_of`."""
    if name == requested_name(embedding):
        return replace(embedding, provider=name)
    return other_of(embedding, name)


def requested_name(embedding: EmbeddingSettings) -> str:
    """The provider that the settings mean, `auto` worked out; `none` for no provider.

    An unknown name stays as it is.
    """
    try:
        meant = resolve(embedding)
    except SettingsError:
        return embedding.provider
    return meant.name if meant is not None else NONE


T = TypeVar("T")


class WatchedProvider:
    """Passes everything on to `inner`; any error but `Cancelled` leaves as `ProviderError`.

    `report` is told of each call that ended: the error, or `None` for an answer. An answer with
    fewer or more vectors than texts, or of other dimensions than `dimensions`, is a failure.
    `closing` stops every call, whatever its caller says.
    """

    def __init__(
        self,
        inner: Provider,
        report: Callable[[ProviderError | None], None],
        closing: Callable[[], bool],
        dimensions: int | None = None,
    ) -> None:
        self.inner = inner
        self.name = inner.name
        self.model = inner.model
        self.fingerprint = inner.fingerprint
        self.address = inner.address
        self.remote = inner.remote
        self.batch_size = inner.batch_size
        self.reads = inner.reads
        self.usage = inner.usage
        self.close = inner.close
        self._report = report
        self._closing = closing
        self._expected = dimensions

    @property
    def dimensions(self) -> int | None:
        """How many numbers a vector has; `None` until the first answer tells."""
        return self.inner.dimensions or self._expected

    def embed_query(self, text: str, *, cancelled: Callable[[], bool] | None = None) -> Vector:
        """Embed a query; raises `ProviderError` or `Cancelled`."""

        def ask(stopped: Callable[[], bool]) -> Vector:
            vector = self.inner.embed_query(text, cancelled=stopped)
            self._check(vector.shape, vector.shape[:-1])
            return vector

        return self._watched(ask, cancelled)

    def embed_documents(
        self, texts: Sequence[str], *, cancelled: Callable[[], bool] | None = None
    ) -> Vectors:
        """Embed texts in their order; raises `ProviderError` or `Cancelled`.

        `TextsRefused` where the service refuses some of them and answers all the same.
        """

        def ask(stopped: Callable[[], bool]) -> Vectors:
            def embed(some: Sequence[str]) -> Vectors:
                vectors = self.inner.embed_documents(some, cancelled=stopped)
                self._check(vectors.shape, (len(some),))
                return vectors

            try:
                return embed(texts)
            except ProviderError as error:
                if not is_refusal(error):
                    raise
                raise bisect_rejected(embed, texts, error, PROBE_TEXT) from error

        return self._watched(ask, cancelled)

    def batches(self, cancelled: Callable[[], bool]) -> BatchService | None:
        """The batch interface; what it is asked for is not watched."""
        return self.inner.batches(lambda: self._closing() or cancelled())

    def _watched(
        self, ask: Callable[[Callable[[], bool]], T], cancelled: Callable[[], bool] | None
    ) -> T:
        try:
            answer = ask(lambda: self._closing() or (cancelled is not None and cancelled()))
        except Cancelled:
            raise
        except TextsRefused:
            self._report(None)
            raise
        except Exception as error:
            if self._closing():
                raise Cancelled from error
            failed = error if isinstance(error, ProviderError) else as_provider_error(error)
            self._report(failed)
            raise failed from error
        self._report(None)
        return answer

    def _check(self, shape: tuple[int, ...], count: tuple[int, ...]) -> None:
        if shape[:-1] != count:
            message = f"{self.name} answered {_rows(shape[:-1])} for {_rows(count)}"
            raise ProviderError(message, failure=Failure.BAD_ANSWER)
        if self._expected is not None and shape[-1] != self._expected:
            message = f"{self.name} gave vectors of {shape[-1]} numbers, not of {self._expected}"
            hint = "another model answers than before; check the model and the dimensions"
            raise ProviderError(message, hint=hint, failure=Failure.DIMENSIONS_DIFFER)


def as_provider_error(error: Exception) -> ProviderError:
    """What an error of a provider, of its library or of the settings says, safe to show."""
    if isinstance(error, ProviderError | SettingsError):
        failure = error.failure if isinstance(error, ProviderError) else Failure.BAD_SETTING
        return ProviderError(safe_line(error.message), hint=safe_line(error.hint), failure=failure)
    text = safe_line(" ".join(str(error).split()))[:300]
    kind = type(error).__name__
    return ProviderError(f"{kind}: {text}" if text else kind)


def _rows(count: tuple[int, ...]) -> str:
    number = count[0] if count else 1
    return f"{number} {'vector' if number == 1 else 'vectors'}"


class ProviderSlot:
    """A provider and whether it works; every method may be called from any thread.

    `report(slot, error)` is told how each call of the provider ended. Raises `SettingsError`
    for a name that does not exist.
    """

    def __init__(
        self,
        choice: EmbeddingSettings,
        report: Callable[[ProviderSlot, ProviderError | None], None],
        closing: Callable[[], bool],
    ) -> None:
        self.choice = choice
        self.registration: Registration | None = resolve(choice)
        self.name = self.registration.name if self.registration else choice.provider
        """The provider's name, `auto` worked out; `none` for keyword search alone."""
        self.provider: WatchedProvider | None = None
        self.is_loaded = self.registration is None
        """Whether loading was tried, with success or not."""
        self.outage: ProviderError | None = None
        """How it failed, for good or too often; `None` while it may be asked."""
        self.misses = 0
        """Calls that failed one after the other."""
        self._report = report
        self._closing = closing
        self._lock = threading.Lock()
        self._identity: ProviderIdentity | None = None
        # Worked out once: what `auto` means must not change while its index is made.
        self._concrete = replace(choice, provider=self.name)

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
            if not self.is_loaded or (again and self.provider is None):
                try:
                    self._take(self.registration.create(self._concrete))
                except Exception as error:
                    # Its libraries may raise anything while they load, and settings that were
                    # right when it was chosen may mean no model any more.
                    self.outage = as_provider_error(error)
                self.is_loaded = True
            return self.provider

    def renew(self) -> None:
        """Forget a failure: let it be loaded again, where it could not, and be asked again."""
        with self._lock:
            if self.provider is None:
                self.is_loaded = self.registration is None
            self.outage = None
            self.misses = 0

    def state(self) -> ProviderState:
        """Tell what is known without loading anything, as if nothing had failed."""
        provider, identity, choice = self.provider, self.identity, self.choice
        if self.registration is None or identity is None:
            return ProviderState(choice.provider, None, None, None, Reason.DISABLED, KEYWORD_ONLY)
        if provider is not None:
            return state_of(choice, provider)
        place = sent_to(self.registration, choice)
        return ProviderState(
            requested=choice.provider,
            actual=self.name,
            model=identity.model,
            dimensions=identity.dimensions,
            remote=place.remote,
            address=place.address,
        )

    def close(self) -> None:
        """Let go of the provider, unless it is just being loaded."""
        if self._lock.acquire(blocking=False):
            try:
                if self.provider is not None:
                    self.provider.close()
                    self.provider, self.is_loaded = None, False
            finally:
                self._lock.release()

    def _take(self, provider: Provider) -> None:
        if self._closing():
            provider.close()
        expected = self.identity
        assert expected is not None
        dimensions = provider.dimensions or expected.dimensions
        # A model's file may tell more than the settings did.
        made = identity_of(provider)
        self._identity = made._replace(dimensions=dimensions, input_bytes=expected.input_bytes)
        self.provider = WatchedProvider(
            provider, lambda error: self._report(self, error), self._closing, dimensions
        )
