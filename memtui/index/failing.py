"""When a provider is given up, and why vectors are missing: words and numbers alone."""

from __future__ import annotations

from dataclasses import dataclass

from memtui.model import Failure, Reason

PROBE_TEXT = "memory"
"""What a provider is asked for to see whether it answers."""

MOST_FAILURES = 3
"""So many failed calls in a row, each after its own retries, and a provider is given up."""

_OF_ONE_TEXT = frozenset({Failure.TOO_LARGE, Failure.BAD_REQUEST, Failure.MODEL_FAILED})

OF_THE_SERVICE = frozenset(
    {
        Failure.RATE_LIMITED,
        Failure.SERVICE_DOWN,
        Failure.TIMEOUT,
        Failure.UNREACHABLE,
        Failure.CUT,
    }
)
"""Failures that hardly a text can be the cause of."""


def is_for_good(failure: Failure) -> bool:
    """Whether another text would fail as well, now and a little later."""
    return not failure.is_passing and failure not in _OF_ONE_TEXT


@dataclass(frozen=True, slots=True)
class VectorProblem:
    """Why vectors are still missing."""

    reason: Reason
    detail: str
    failure: Failure | None = None
    is_of_texts: bool = False
    """Whether the provider works, and would not take some texts."""
    passes: bool = True
    """Whether a later sync asks again by itself."""
