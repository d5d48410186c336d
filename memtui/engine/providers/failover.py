"""Which provider answers now: the chosen one, another while it fails, or who made the index."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace as changed

from memtui.embedding.choice import AUTO, NONE
from memtui.embedding.provider import (
    MOST_FAILURES,
    PROBE_TEXT,
    Maker,
    Provider,
    ProviderIdentity,
    is_for_good,
    maker_of,
)
from memtui.embedding.registry import provider_names, registration_of
from memtui.engine.providers.slot import ProviderSlot, as_provider_error
from memtui.engine.providers.timer import Timer
from memtui.errors import Cancelled, MemtuiError, ProviderError
from memtui.model import Failure, ProviderState, Reason
from memtui.settings.schema import EmbeddingSettings
from memtui.settings.storage import StateFolder
from memtui.text.sanitize import safe_line


def local_choice(
    maker: Maker, dimensions: int | None, configured: EmbeddingSettings
) -> EmbeddingSettings | None:
    """The choice that gives the local provider `maker`; `None` when none here does.

    Never a service: text is sent only where the user chose to. `configured` may know the file of
    a local model.
    """
    if maker.name not in provider_names() or maker.name in (AUTO, NONE):
        return None
    registration = registration_of(maker.name)
    if registration.remote:
        return None
    plain = EmbeddingSettings(provider=maker.name, threads=configured.threads)
    named = changed(plain, model=maker.model)
    for choice in (
        plain,
        changed(plain, dimensions=dimensions),
        named,
        changed(named, dimensions=dimensions),
        changed(configured, provider=maker.name),
    ):
        try:
            identity = registration.identity(choice)
        except MemtuiError:
            # These settings mean no model that there is.
            continue
        if maker_of(identity) == maker and registration.look(choice).works:
            return choice
    return None


FIRST_PROBE_SECONDS: Final = 60.0
LAST_PROBE_SECONDS: Final = 900.0


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
        self._clock = clock
        self._closing = threading.Event()
        self._lock = threading.RLock()
        self._fallback_choice = fallback
        self._primary = self._slot(choice)
        self._fallback = self._fallback_for(self._primary)
        self._acting = self._primary
        """Who answers now: the primary, or the fallback in its stead."""
        self._has_fallen = False
        self._retired: list[ProviderSlot] = []
        self._unknown: set[Maker] = set()
        self._delay = FIRST_PROBE_SECONDS
        self._taken_back: float | None = None
        self._wished = False
        self.timer = Timer(self._probe, name="memtui-probe", clock=clock)
        """Rings when the primary is to be asked again."""

    # --- who answers ----------------------------------------------------------------------

    @property
    def choice(self) -> EmbeddingSettings:
        """What was chosen."""
        return self._primary.choice

    @property
    def answering(self) -> EmbeddingSettings:
        """The choice of the provider that answers now."""
        return self._acting.choice

    @property
    def identity(self) -> ProviderIdentity | None:
        """Whose vectors an index is to hold now; `None` for keyword search alone."""
        return self._acting.identity

    @property
    def spared(self) -> ProviderIdentity | None:
        """The primary's identity while another answers: its vectors will be wanted again."""
        return self._primary.identity if self._acting is not self._primary else None

    @property
    def is_loaded(self) -> bool:
        """Whether `get` has nothing to load."""
        return self._acting.is_loaded

    @property
    def is_untried(self) -> bool:
        """Whether nothing is known of the chosen provider but its settings."""
        slot = self._primary
        return not slot.is_loaded and slot.outage is None

    def get(self) -> tuple[Provider | None, ProviderState]:
        """Load the provider that answers or return the loaded one; blocks while it loads."""
        slot = self._acting
        if slot.outage is not None:
            return None, self.state()
        if slot.provider is not None:
            return slot.provider, self.state()
        before = slot.identity
        provider = slot.load()
        if provider is None and slot.outage is not None:
            self._fall(slot)
            return (None, self.state()) if self._acting is slot else self.get()
        if slot.identity != before and slot is self._acting:
            self.changed()
        return provider, self.state()

    def made_by(
        self, maker: Maker, dimensions: int | None
    ) -> tuple[Provider | None, ProviderState | None]:
        """The provider whose queries may be compared with vectors of `maker`.

        That is who answers now, or one that answered before, or the packaged model that made
        them. (`None`, state) says why it does not answer, (`None`, `None`) that nobody knows it.
        """
        if self._acting.maker == maker:
            provider, state = self.get()
            if self._acting.maker == maker:
                if provider is not None and (self._retired or self._has_fallen):
                    self._release()
                return provider, state
        # Not under the lock: to tell its maker a slot may have to read a model's file.
        slot = next((slot for slot in self._slots() if slot.maker == maker), None)
        if slot is None:
            slot = self._packaged(maker, dimensions)
        if slot is None:
            return None, None
        provider = slot.load() if slot.outage is None else None
        return provider, self._state_of(slot)

    def local(self) -> tuple[Provider | None, ProviderState]:
        """A provider that keeps text on this machine: the one that answers, or the fallback."""
        provider, state = self.get()
        fallback = self._fallback
        if provider is None or not provider.remote:
            return provider, state
        if fallback is None or fallback.outage is not None:
            return None, replace(state, actual=None, state=Reason.DISABLED)
        provider = fallback.load()
        if provider is not None and provider.remote:
            provider = None
        return provider, replace(fallback.state(), state=Reason.OK if provider else Reason.DISABLED)

    def state(self, *, lasting: bool = False) -> ProviderState:
        """Tell what is known without loading anything; `lasting`: nothing that passes by itself."""
        with self._lock:
            primary, acting, outage = self._primary, self._acting, self._primary.outage
        if outage is None:
            return primary.state()
        again = "" if lasting else self._again()
        line = _line(primary, outage)
        if acting is primary:
            return _failed(primary, outage, line + again)
        acting_outage = acting.outage
        if acting_outage is not None:
            return _failed(primary, outage, f"{line}; {_line(acting, acting_outage)}{again}")
        detail = f"{line}; {acting.name} answers instead{again}"
        return replace(
            acting.state(),
            requested=primary.choice.provider,
            state=Reason.FALLBACK,
            detail=_with_hint(detail, outage.hint),
            failure=Failure(outage.failure),
            hint=outage.hint,
        )

    def listed(self) -> tuple[str, str, str]:
        """The names of the provider that was chosen, that answers, and that takes over.

        `auto` is worked out; empty where there is none.
        """
        primary, fallback, acting = self._primary, self._fallback, self._acting
        answers = acting.outage is None and acting.registration is not None
        return (
            primary.name if primary.registration else "",
            acting.name if answers else "",
            fallback.name if fallback is not None else "",
        )

    # --- what changes it ------------------------------------------------------------------

    def switch(self, choice: EmbeddingSettings) -> None:
        """Choose another provider; the former one goes on answering for the vectors it made.

        Raises `SettingsError` for a name or model that does not exist; nothing is changed then.
        """
        primary = self._slot(choice)
        fallback = self._fallback_for(primary)
        # Told now, so that settings that mean no model are refused before anything changes.
        _ = primary.identity
        with self._lock:
            self._retired = [slot for slot in self._slots() if slot.is_loaded]
            self._primary, self._fallback, self._acting = primary, fallback, primary
            self._delay, self._taken_back = FIRST_PROBE_SECONDS, None
            self._unknown.clear()
            self.timer.cancel()
        self.changed()

    def retry(self) -> None:
        """Ask a provider that failed again soon: the user has asked for work."""
        with self._lock:
            self._unknown.clear()
            if self._primary.outage is None:
                return
            if self._acting is not self._primary:
                self._wished = True
                self.timer.set(0.0)
            else:
                self._primary.renew()
                self.timer.cancel()

    def is_closing(self) -> bool:
        """Whether every call is to end."""
        return self._closing.is_set()

    def stop(self) -> None:
        """Stop every call that runs, and let none begin."""
        self._closing.set()
        self.timer.close(0.0)

    def close(self) -> None:
        """Let go of the providers."""
        self.stop()
        for slot in self._slots():
            slot.close()
        self.timer.close()

    # --- inside ---------------------------------------------------------------------------

    def _slots(self) -> list[ProviderSlot]:
        with self._lock:
            return [self._primary, *([self._fallback] if self._fallback else []), *self._retired]

    def _slot(self, choice: EmbeddingSettings) -> ProviderSlot:
        return ProviderSlot(choice, self._heard, self._closing.is_set)

    def _fallback_for(self, primary: ProviderSlot) -> ProviderSlot | None:
        if self._fallback_choice is None or primary.registration is None:
            return None
        fallback = self._slot(self._fallback_choice)
        # Of two providers of one name the second would fail as the first did.
        return fallback if fallback.registration and fallback.name != primary.name else None

    def _release(self) -> None:
        """Let go of who answered for vectors that no live index holds any more."""
        with self._lock:
            idle = self._retired
            if self._fallback is not None and self._has_fallen and self._acting is self._primary:
                idle = [*idle, self._fallback]
                self._has_fallen = False
            self._retired = []
        for slot in idle:
            slot.close()

    def _packaged(self, maker: Maker, dimensions: int | None) -> ProviderSlot | None:
        if maker in self._unknown or self._primary.registration is None:
            return None
        choice = local_choice(maker, dimensions, self.choice)
        slot = self._slot(choice) if choice is not None else None
        with self._lock:
            if slot is None:
                self._unknown.add(maker)
            else:
                self._retired.append(slot)
        return slot

    def _heard(self, slot: ProviderSlot, error: ProviderError | None) -> None:
        """Note how a call of a provider ended."""
        if error is None:
            slot.misses = 0
            return
        if error.failure == Failure.CLOSED:
            # Let go of during the call: that says nothing about the provider.
            return
        with self._lock:
            slot.misses += 1
            for_good = is_for_good(Failure(error.failure))
            if slot.outage is not None or not (for_good or slot.misses >= MOST_FAILURES):
                return
            slot.outage = as_provider_error(error)
        self._fall(slot)

    def _fall(self, slot: ProviderSlot) -> None:
        """Let the fallback answer, and see to it that the primary is asked again."""
        with self._lock:
            if slot is not self._primary or self._acting is not slot:
                return
            if self._fallback is not None:
                self._acting, self._has_fallen = self._fallback, True
            since = None if self._taken_back is None else self._clock() - self._taken_back
            is_relapse = since is not None and since < LAST_PROBE_SECONDS
            # One that answers a probe and fails at work must not be switched to and fro.
            self._delay = self._longer() if is_relapse else FIRST_PROBE_SECONDS
            self.timer.set(self._delay)
        if self._closing.is_set():
            return
        self.changed()

    def _probe(self) -> None:
        """Ask the primary for one vector; on the timer's thread."""
        with self._lock:
            slot = self._primary
            if slot.outage is None or self._closing.is_set():
                return
        outage = self._asked(slot)
        with self._lock:
            if slot is not self._primary or self._closing.is_set():
                return
            if outage is not None:
                slot.outage = outage
                # Who is asked at a wish of the user keeps its turn.
                self._delay = self._delay if self._wished else self._longer()
                self._wished = False
                self.timer.set(self._delay)
                if self._fallback is not None and self._fallback.outage is not None:
                    self._fallback.renew()
                return
            slot.outage, slot.misses = None, 0
            self._acting = slot
            self._taken_back = self._clock()
        self.changed()

    def _asked(self, slot: ProviderSlot) -> ProviderError | None:
        """How a provider fails when it is asked for one vector; `None` when it answers."""
        provider = slot.load(again=True)
        if provider is None:
            return slot.outage
        try:
            provider.embed_query(PROBE_TEXT)
        except Cancelled:
            return slot.outage
        except ProviderError as error:
            return as_provider_error(error)
        return None

    def _longer(self) -> float:
        return min(self._delay * 2, LAST_PROBE_SECONDS)

    def _again(self) -> str:
        left = self.timer.left()
        return "" if left is None else f"; tried again in {max(1, round(left))} s"

    def _state_of(self, slot: ProviderSlot) -> ProviderState:
        # Read once: another thread may take the outage back.
        outage = slot.outage
        if outage is None:
            return slot.state()
        again = self._again() if slot is self._primary else ""
        return _failed(slot, outage, _line(slot, outage) + again)


def _failed(slot: ProviderSlot, outage: ProviderError, lines: str) -> ProviderState:
    return replace(
        slot.state(),
        actual=None,
        state=Reason.PROVIDER_FAILED,
        detail=_with_hint(lines, outage.hint),
        failure=Failure(outage.failure),
        hint=outage.hint,
    )


def _line(slot: ProviderSlot, outage: ProviderError) -> str:
    named = outage.message.lower().startswith(slot.name.lower())
    return outage.message if named else f"{slot.name}: {outage.message}"


def _with_hint(detail: str, hint: str) -> str:
    return f"{detail} ({hint})" if hint else detail


# --- for programs that only look at the index -----------------------------------------------------

FILE_NAME: Final = "provider.json"
"""The file in the index folder; there only while the chosen provider does not answer."""
_MOST_BYTES: Final = 2**16
_TOLD: Final = frozenset({Reason.FALLBACK, Reason.PROVIDER_FAILED})


class ProviderMarker:
    """A small file that says which provider answers instead of the chosen one, and why.

    It holds no key and no text of a note. Who writes the index writes it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._noted: ProviderState | None = None

    def note(self, state: ProviderState) -> None:
        """Write down a state that has to be explained; remove the file for any other.

        Raises `OSError` when it cannot be written.
        """
        if state == self._noted:
            return
        self._noted = state
        if state.state in _TOLD:
            StateFolder(self._folder).write_json(FILE_NAME, asdict(state))
        else:
            (self._folder / FILE_NAME).unlink(missing_ok=True)

    def read(self) -> ProviderState | None:
        """What the last index run said; `None` when there was nothing to explain."""
        try:
            data = (self._folder / FILE_NAME).read_bytes()
            return _marked(json.loads(data[:_MOST_BYTES]))
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None


def _marked(entry: dict[str, Any]) -> ProviderState:
    actual, model, dimensions = entry["actual"], entry["model"], entry["dimensions"]
    return ProviderState(
        requested=safe_line(str(entry["requested"])),
        actual=None if actual is None else safe_line(str(actual)),
        model=None if model is None else safe_line(str(model)),
        dimensions=None if dimensions is None else int(dimensions),
        state=Reason(entry["state"]),
        detail=safe_line(str(entry["detail"])),
        remote=bool(entry["remote"]),
        address=safe_line(str(entry["address"])),
        failure=Failure(entry["failure"]) if entry["failure"] else None,
        hint=safe_line(str(entry["hint"])),
    )


def marked_state(
    state: ProviderState, noted: ProviderState | None, *, is_untried: bool, followed: str
) -> ProviderState:
    """How the provider is; where nothing was tried yet, what the last index run found.

    `followed` is provider and model of an index that another program writes, else empty.
    """
    if noted is None or noted.requested != state.requested:
        return state
    if is_untried or (state.state is Reason.OK and followed == f"{noted.actual}/{noted.model}"):
        return noted
    return state
