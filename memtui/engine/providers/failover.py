"""Chooses the provider that answers: the chosen one, another while it fails, or the index's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from msgspec.structs import replace

from memtui.embedding.provider import (
    MOST_FAILURES,
    PROBE_TEXT,
    REFUSALS,
    Provider,
    ProviderIdentity,
    TextsRefused,
    Vector,
    Vectors,
    WordPieces,
    bisect_rejected,
    is_for_good,
    one_line,
)
from memtui.embedding.registry import other_of, registration_of, resolve
from memtui.errors import Cancelled, IsCancelled, MemtuiError, ProviderError, SettingsError, never
from memtui.model import Failure, ProviderState, Reason, Usage
from memtui.settings.files import StateFolder
from memtui.settings.schema import EmbeddingSettings
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.embedding.batch import BatchInterface

KEYWORD_ONLY: Final = "keyword search only, as configured"
FIRST_PROBE_SECONDS: Final = 60.0
LAST_PROBE_SECONDS: Final = 900.0

T = TypeVar("T")


@dataclass(eq=False)
class WatchedProvider(Provider):
    """One choice of provider: loads it once, and counts its failures.

    It may be asked once `load` has returned it; any error but `Cancelled` leaves as
    `ProviderError`. `failed` is told of each call that failed, and `closing` stops every call.
    Usable from any thread. Raises `SettingsError` for a name or model that does not exist.
    """

    choice: EmbeddingSettings
    failed: Callable[[WatchedProvider, ProviderError], None]
    closing: threading.Event

    def __post_init__(self) -> None:
        choice = self.choice
        self.registration = registration = resolve(choice)
        """`None` for keyword search alone."""
        self.outage: ProviderError | None = None
        """The failure, for good or too often; `None` while it may be asked."""
        self.foreseen: ProviderError | None = None
        """The lack of a key, a file or a package, until it is loaded all the same."""
        self.misses = 0
        """Calls that failed one after the other."""
        self.inner: Provider | None = None
        """The provider that was loaded."""
        self.identity = ProviderIdentity(choice.provider, "", None, "")
        self._lock = threading.Lock()
        if registration is not None:
            # Worked out once: what `auto` means must not change while its index is made.
            self._concrete = replace(choice, provider=registration.name)
            self.identity = registration.identity(self._concrete)
            self.dimensions = self.identity.dimensions
            self.address, self.remote = registration.destination(self._concrete)
            try:
                registration.check(self._concrete)
            except MemtuiError as error:
                self.foreseen = as_provider_error(error)

    def load(self, *, again: bool = False) -> Provider | None:
        """Load the provider, or return this one when it is loaded; blocks while it loads.

        `None` with an `outage` where it fails; tried anew after that only with `again`.
        """
        with self._lock:
            if self.registration is None or (self.outage is not None and not again):
                return None
            if self.inner is None:
                try:
                    inner = self.registration.create(self._concrete)
                except Exception as error:
                    # Its libraries may raise anything while they load, and settings that were
                    # right when it was chosen may mean no model any more.
                    self.outage = as_provider_error(error)
                    return None
                if self.closing.is_set():
                    inner.close()
                # A model's file may tell more than the settings did.
                self.identity, self.dimensions = inner.identity, inner.dimensions
                self.address, self.remote = inner.address, inner.remote
                self.batch_size = inner.batch_size
                self.inner, self.foreseen = inner, None
            return self

    @property
    def withholds(self) -> bool:
        return self.remote and not self.choice.send_credentials

    def embed_query(self, text: str, *, cancelled: IsCancelled = never) -> Vector:
        return self._call(lambda inner, stop: inner.embed_query(text, cancelled=stop), cancelled)

    def embed_documents(self, texts: Sequence[str], *, cancelled: IsCancelled = never) -> Vectors:
        """Embed texts; raises `TextsRefused` where some are refused and others are not."""

        def embed_or_split(inner: Provider, stop: IsCancelled) -> Vectors:
            try:
                return inner.embed_documents(texts, cancelled=stop)
            except ProviderError as error:
                if error.failure not in REFUSALS:
                    raise
                some = partial(inner.embed_documents, cancelled=stop)
                raise bisect_rejected(some, texts, error) from None

        return self._call(embed_or_split, cancelled)

    def word_pieces(
        self, text: str, starts: Sequence[int], *, cancelled: IsCancelled = never
    ) -> list[WordPieces] | None:
        return self._call(
            lambda inner, stop: inner.word_pieces(text, starts, cancelled=stop), cancelled
        )

    def _call(self, embed: Callable[[Provider, IsCancelled], T], cancelled: IsCancelled) -> T:
        assert self.inner is not None
        closing = self.closing.is_set
        try:
            answer = embed(self.inner, lambda: closing() or cancelled())
        except TextsRefused:
            self.misses = 0
            raise
        except Exception as error:
            if isinstance(error, Cancelled) or closing():
                raise Cancelled from error
            failure = error if isinstance(error, ProviderError) else as_provider_error(error)
            self.failed(self, failure)
            raise failure from error
        self.misses, self.dimensions = 0, self.inner.dimensions
        return answer

    def reads(self, text: str) -> bool:
        return self.inner is None or self.inner.reads(text)

    def usage(self) -> Usage:
        return self.inner.usage() if self.inner is not None else Usage()

    def batches(self, cancelled: IsCancelled) -> BatchInterface | None:
        return self.inner.batches(cancelled) if self.inner is not None else None

    def close(self) -> None:
        if self.inner is not None:
            self.inner.close()

    def mend(self, outage: ProviderError | None = None) -> None:
        """Count its failures from now on; with an `outage` it still fails."""
        self.outage = outage
        self.misses = 0

    @property
    def failure(self) -> ProviderError | None:
        """The outage, or else the lack that is foreseen."""
        return self.outage or self.foreseen

    def state(self, more: str = "") -> ProviderState:
        """Return what is known without loading anything; `more` follows how it failed."""
        requested, identity = self.choice.provider, self.identity
        if self.registration is None:
            return ProviderState(requested, None, None, None, Reason.DISABLED, KEYWORD_ONLY)
        makes = identity.name, identity.model, self.dimensions
        state = ProviderState(requested, *makes, remote=self.remote, address=self.address)
        if (failure := self.failure) is None:
            return state
        detail = f"{self.failure_line()}{more}" + (f" ({failure.hint})" if failure.hint else "")
        state = replace(state, actual=None, state=Reason.PROVIDER_FAILED, detail=detail)
        return replace(state, failure=failure.failure, hint=failure.hint)

    def failure_line(self) -> str:
        """Return one line that says who failed, and how."""
        name, message = self.identity.name, self.failure.message if self.failure else ""
        return message if message.lower().startswith(name.lower()) else f"{name}: {message}"


def as_provider_error(error: Exception) -> ProviderError:
    """Return what an error of a provider, its library or the settings says, safe to show."""
    if isinstance(error, ProviderError | SettingsError):
        failure = error.failure if isinstance(error, ProviderError) else Failure.BAD_SETTING
        return ProviderError(safe_line(error.message), hint=safe_line(error.hint), failure=failure)
    kind, text = type(error).__name__, one_line(error)
    return ProviderError(kind if text == kind else f"{kind}: {text}")


class ProviderFailover:
    """Hands the provider that answers now to the engine thread and the index thread.

    The primary is the chosen one. When it cannot be loaded, fails for good, or fails three times
    in a row, `fallback` answers instead, and the primary is asked for one vector on a thread of
    its own after 60 s, then twice as long each time up to 15 minutes; when it answers it is taken
    back. `changed` is called, from any thread, when another provider answers than before or the
    chosen one works again. Methods may be called from any thread.
    """

    def __init__(
        self,
        choice: EmbeddingSettings,
        fallback: EmbeddingSettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.changed: Callable[[], None] = lambda: None
        self.closing = threading.Event()
        """Set when every call is to end."""
        self.primary: WatchedProvider
        self.fallback: WatchedProvider | None
        self.acting: WatchedProvider
        """The provider that answers now: the primary, or the fallback in its stead."""
        self._fallback_choice = fallback
        self._choose(choice)
        self._clock = clock
        self._lock = threading.RLock()
        self._others: dict[ProviderIdentity, WatchedProvider | None] = {}
        """Providers of vectors of earlier choices, and of packaged models; `None`: none."""
        self._delay = FIRST_PROBE_SECONDS
        self._timer: threading.Timer | None = None
        self._due = 0.0
        self._taken_back = float("-inf")

    @property
    def identity(self) -> ProviderIdentity | None:
        """Whose vectors an index is to hold now; `None` for keyword search alone."""
        return self.acting.identity if self.acting.registration is not None else None

    @property
    def spared(self) -> ProviderIdentity | None:
        """The primary's identity while another answers: its vectors will be wanted again."""
        return self.primary.identity if self.acting is not self.primary else None

    @property
    def is_untried(self) -> bool:
        """Return whether nothing is known of the chosen provider but its settings."""
        primary = self.primary
        return primary.registration is not None and not (primary.inner or primary.failure)

    def get(self) -> tuple[Provider | None, ProviderState]:
        """Load the provider that answers or return the loaded one; blocks while it loads."""
        slot = self.acting
        before = slot.outage, slot.identity
        provider = slot.load()
        if slot.outage is not before[0]:
            self._fall_back(slot)
        elif slot.identity != before[1] and slot is self.acting:
            self.changed()
        return (provider, self.state()) if slot is self.acting else self.get()

    def made_by(
        self, maker: ProviderIdentity | None
    ) -> tuple[Provider | None, ProviderState | None]:
        """Return the provider whose queries may be compared with vectors of `maker`.

        That is who answers now, or one that answered before, or the packaged model that made
        them. (`None`, state) says why it does not answer, (`None`, `None`) that nobody knows it.
        Without a maker, and for keyword search alone, it is who answers now.
        """
        acting, primary = self.acting, self.primary
        if maker is None or maker == acting.identity or acting.registration is None:
            if self._others and acting.inner is not None:
                with self._lock:
                    idle, self._others = self._others, {}
                for other in filter(None, idle.values()):
                    other.close()
            is_ready = acting.inner is not None and acting.outage is None
            return (acting, None) if is_ready else self.get()
        slots = self._others | {one.identity: one for one in (self.fallback, primary) if one}
        if maker not in slots:
            choice = local_choice(maker, primary.choice)
            slots[maker] = self._others[maker] = self.watch(choice) if choice else None
        slot = slots[maker]
        if slot is None:
            return None, None
        return slot.load(), slot.state(self._again() if slot is primary else "")

    def local(self) -> tuple[Provider | None, ProviderState]:
        """Return a provider that keeps text on this machine: who answers, or the fallback."""
        provider, state = self.get()
        if provider is None or not provider.remote:
            return provider, state
        fallback = self.fallback
        if fallback is not None and not fallback.remote and (provider := fallback.load()):
            return provider, fallback.state()
        return None, replace(state, actual=None, state=Reason.DISABLED)

    def state(self, *, lasting: bool = False) -> ProviderState:
        """Return what is known without loading anything; `lasting`: nothing that soon passes."""
        with self._lock:
            primary, acting = self.primary, self.acting
        again = "" if lasting else self._again()
        if primary.foreseen and not primary.outage:
            acting = self.fallback or primary
        if acting is primary:
            return primary.state(again)
        if acting.failure:
            return primary.state(f"; {acting.failure_line()}{again}")
        failed = primary.state(f"; {acting.identity.name} answers instead{again}")
        kept = {name: getattr(failed, name) for name in ("requested", "detail", "failure", "hint")}
        return replace(acting.state(), state=Reason.FALLBACK, **kept)

    def _again(self) -> str:
        if self._timer is None:
            return ""
        return f"; tried again in {max(1, round(self._due - self._clock()))} s"

    def switch(self, choice: EmbeddingSettings) -> None:
        """Choose another provider; the former one goes on answering for the vectors it made.

        Raises `SettingsError` for a name or model that does not exist; nothing is changed then.
        """
        with self._lock:
            before = filter(None, (self.primary, self.fallback))
            self._choose(choice)
            self._others |= {slot.identity: slot for slot in before if slot.inner is not None}
            self._delay, self._taken_back = FIRST_PROBE_SECONDS, float("-inf")
            self._probe_in(None)
        self.changed()

    def retry(self) -> None:
        """Ask a provider that failed again soon: the user has asked for work."""
        with self._lock:
            self._others = {maker: slot for maker, slot in self._others.items() if slot}
            if self.primary.outage is None:
                return
            self._delay = FIRST_PROBE_SECONDS
            if self.acting is self.primary:
                self.primary.mend()
            self._probe_in(None if self.acting is self.primary else 0.0)

    def probe(self) -> None:
        """Ask a primary that failed for one vector; let it answer again if it does."""
        slot, outage = self.primary, None
        if slot.outage is None or self.closing.is_set():
            return
        try:
            if slot.load(again=True) is None or slot.inner is None:
                outage = slot.outage
            else:
                slot.inner.embed_query(PROBE_TEXT, cancelled=self.closing.is_set)
        except Exception as error:
            outage = as_provider_error(error)
        with self._lock:
            if slot is not self.primary or self.closing.is_set():
                return
            slot.mend(outage)
            if outage is not None:
                self._delay = min(self._delay * 2, LAST_PROBE_SECONDS)
                self._probe_in(self._delay)
                if self.fallback is not None:
                    self.fallback.mend()
                return
            self.acting = slot
            self._taken_back = self._clock()
            self._probe_in(None)
        self.changed()

    def stop(self) -> None:
        """Stop every call that runs, and let none begin."""
        self.closing.set()
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        self.stop()
        for slot in filter(None, (self.primary, self.fallback, *self._others.values())):
            slot.close()

    def _choose(self, choice: EmbeddingSettings) -> None:
        primary, fallback = self.watch(choice), None
        if self._fallback_choice is not None and primary.registration is not None:
            fallback = self.watch(self._fallback_choice)
            # Of two providers of one name the second would fail as the first did.
            if fallback.registration is None or fallback.identity.name == primary.identity.name:
                fallback = None
        self.primary, self.fallback, self.acting = primary, fallback, primary

    def watch(self, choice: EmbeddingSettings) -> WatchedProvider:
        """Return the provider of a choice, not yet loaded."""
        return WatchedProvider(choice, self._note_failure, self.closing)

    def _probe_in(self, seconds: float | None) -> None:
        """Probe once, on a thread of its own, in so many seconds; `None`: do not."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
            if seconds is not None and not self.closing.is_set():
                self._due = self._clock() + seconds
                self._timer = threading.Timer(seconds, self.probe)
                self._timer.name, self._timer.daemon = "memtui-probe", True
                self._timer.start()

    def _note_failure(self, slot: WatchedProvider, error: ProviderError) -> None:
        if error.failure == Failure.CLOSED:
            # Let go of during the call: that says nothing about the provider.
            return
        with self._lock:
            slot.misses += 1
            for_good = is_for_good(error.failure)
            if slot.outage is not None or not (for_good or slot.misses >= MOST_FAILURES):
                return
            slot.outage = as_provider_error(error)
        self._fall_back(slot)

    def _fall_back(self, slot: WatchedProvider) -> None:
        with self._lock:
            if slot is not self.primary or self.acting is not slot:
                return
            self.acting = self.fallback or slot
            # One that answers a probe and fails at work must not be switched to and fro.
            is_relapse = self._clock() - self._taken_back < LAST_PROBE_SECONDS
            longer = min(self._delay * 2, LAST_PROBE_SECONDS)
            self._delay = longer if is_relapse else FIRST_PROBE_SECONDS
            self._probe_in(self._delay)
        if not self.closing.is_set():
            self.changed()


def local_choice(
    maker: ProviderIdentity, configured: EmbeddingSettings
) -> EmbeddingSettings | None:
    """Return the choice that gives the local provider `maker`; `None` when none here does.

    Never a service: text is sent only where the user chose to. `configured` may know its file.
    """
    plain = other_of(configured, maker.name)
    plain = replace(plain, model=maker.model, dimensions=maker.dimensions)
    for choice in (plain, replace(configured, provider=maker.name)):
        # There may be no provider of that name, or no such model, or it may lack something.
        with suppress(MemtuiError):
            registration = registration_of(maker.name)
            if registration.identity(choice) == maker and not registration.destination(choice)[1]:
                registration.check(choice)
                return choice
    return None


FILE_NAME: Final = "provider.json"
"""The file in the index folder; there only while the chosen provider does not answer."""


def write_marker(folder: Path, state: ProviderState) -> None:
    """Write down a state that has to be explained, without a key; remove the file for any other."""
    if state.state in (Reason.FALLBACK, Reason.PROVIDER_FAILED):
        StateFolder(folder).write_json(FILE_NAME, msgspec.to_builtins(state))
    else:
        (folder / FILE_NAME).unlink(missing_ok=True)


def read_marker(folder: Path) -> ProviderState | None:
    """Return what the last index run said; `None` where there was nothing to explain."""
    recorded = StateFolder(folder).read_json(FILE_NAME)
    values = recorded.items() if isinstance(recorded, dict) else ()
    clean = {name: safe_line(v) if isinstance(v, str) else v for name, v in values}
    try:
        return msgspec.convert(clean, ProviderState)
    except msgspec.ValidationError:
        return None
