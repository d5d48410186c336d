"""The rankings that can be put side by side, by name, and which two come first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memtui.model import Ranked, Ranking

CONFIGURED, CURRENT = "configured", "current"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two rankings; without a list while it is searched for, or where that failed."""

    name: str
    ranking: Ranking
    ranked: Ranked | None = None
    error: str = ""


def choices(
    configured: Ranking, current: Ranking, profiles: Mapping[str, Ranking]
) -> Mapping[str, Ranking]:
    """Every ranking that a side can show, by name: configured, current, then the named ones."""
    return {CONFIGURED: configured, CURRENT: current, **profiles}


def first_names(
    configured: Ranking, current: Ranking, profiles: Mapping[str, Ranking]
) -> tuple[str, str]:
    """Configured and current; where they are one, the current ranking and the next profile."""
    if configured != current:
        return CONFIGURED, CURRENT
    names = list(profiles)
    at = names.index(current.profile) if current.profile in profiles else -1
    following = names[at + 1 :] + names[: at + 1]
    return CURRENT, next((one for one in following if profiles[one] != current), CONFIGURED)
