"""Why another provider made the index than the chosen one, for programs that only look at it."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from memtui.model import Failure, ProviderState, Reason
from memtui.text.sanitize import safe_line

FILE_NAME: Final = "provider.json"
"""The file in the index folder; there only while the chosen provider does not answer."""

_MOST_BYTES: Final = 2**16
_TOLD = frozenset({Reason.FALLBACK, Reason.PROVIDER_FAILED})


class ProviderMarker:
    """A small file that says which provider answers instead of the chosen one, and why.

    It holds no key and no text of a note. Who writes the index writes it.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._known: ProviderState | None = None

    def note(self, state: ProviderState) -> None:
        """Write down a state that has to be explained; remove the file for any other.

        Raises `OSError` when it cannot be written.
        """
        if state == self._known:
            return
        self._known = state
        if state.state not in _TOLD:
            self._path.unlink(missing_ok=True)
            return
        text = json.dumps(
            {
                "requested": state.requested,
                "actual": state.actual,
                "model": state.model,
                "dimensions": state.dimensions,
                "state": state.state.value,
                "detail": state.detail,
                "remote": state.remote,
                "address": state.address,
                "failure": state.failure.value if state.failure else None,
                "hint": state.hint,
            }
        )
        new = self._path.with_suffix(".json.tmp")
        descriptor = os.open(new, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(text)
        os.replace(new, self._path)

    def read(self) -> ProviderState | None:
        """What the last index run said; `None` when there was nothing to explain."""
        with suppress(OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return _state(json.loads(self._path.read_bytes()[:_MOST_BYTES]))
        return None


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


def _state(found: dict[str, Any]) -> ProviderState:
    actual, model, dimensions = found["actual"], found["model"], found["dimensions"]
    return ProviderState(
        requested=safe_line(str(found["requested"])),
        actual=None if actual is None else safe_line(str(actual)),
        model=None if model is None else safe_line(str(model)),
        dimensions=None if dimensions is None else int(dimensions),
        state=Reason(found["state"]),
        detail=safe_line(str(found["detail"])),
        remote=bool(found["remote"]),
        address=safe_line(str(found["address"])),
        failure=Failure(found["failure"]) if found["failure"] else None,
        hint=safe_line(str(found["hint"])),
    )
