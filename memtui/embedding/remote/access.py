"""The key of one provider: looked for when it is first needed, and anew when it is refused."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.keys.finding import FoundKey, find_key, has_key
from memtui.embedding.remote.plan import Plan
from memtui.embedding.services import Address, Service
from memtui.errors import Cancelled, ProviderError
from memtui.model import Failure

Stopped = Callable[[], bool]

_LOOK: Final = 0.02


class KeyFinder(Protocol):
    """Finds the key for an address, each time anew; raises nothing but `Cancelled`."""

    def __call__(
        self,
        service: Service,
        address: Address,
        choice: EmbeddingChoice,
        env: Mapping[str, str] | None = None,
        *,
        cancelled: Stopped | None = None,
    ) -> FoundKey:
        """Find it; `env` is that of the process unless given."""


class KeyHolder:
    """Keeps the key of a provider in memory and nowhere else; usable from any thread."""

    def __init__(
        self, plan: Plan, *, find: KeyFinder = find_key, env: Mapping[str, str] | None = None
    ) -> None:
        self._plan = plan
        self._find = find
        self._env = env
        self._lock = threading.Lock()
        self._found: FoundKey | None = None

    def current(self, stopped: Stopped, *, refused: FoundKey | None = None) -> FoundKey:
        """The key to send, without a value where none is needed and none is there.

        With `refused`, which the service did not take, it is looked for once more. Raises
        `ProviderError` (`no_key`) where one is needed, and `Cancelled`; what is wrong at a place
        where a key might just lie keeps nobody from a server that needs none.
        """
        while not self._lock.acquire(timeout=_LOOK):
            if stopped():
                raise Cancelled
        try:
            if self._found is None or self._found is refused:
                self._found = self._find(
                    self._plan.service,
                    self._plan.address,
                    self._plan.choice,
                    self._env,
                    cancelled=stopped,
                )
            found = self._found
            if not found.value and self._plan.needs_key:
                # Whoever sets the key meanwhile shall not have to start again.
                self._found = None
        finally:
            self._lock.release()
        if not found.value and self._plan.needs_key:
            raise missing_key(self._plan, found)
        return found


def look_for_key(plan: Plan, env: Mapping[str, str] | None = None) -> FoundKey:
    """Look whether a key is there, without opening the place that holds it."""
    return has_key(plan.service, plan.address, plan.choice, os.environ if env is None else env)


def missing_key(plan: Plan, found: FoundKey) -> ProviderError:
    """The failure of a service that wants a key when none was found."""
    why = found.problem or found.withheld or f"no key for {plan.service.name} was found"
    return ProviderError(why, hint=key_hint(plan), failure=Failure.NO_KEY)


def key_hint(plan: Plan) -> str:
    """What to do for a key."""
    names = " or ".join(plan.service.key_variables)
    usual = f"set {names}, or " if names else "set "
    return f"{usual}embedding.key_env or embedding.key_command"
