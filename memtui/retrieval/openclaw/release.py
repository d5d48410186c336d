"""The rules by which OpenClaw's releases search, as values: one for each profile."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from memtui.errors import SettingsError
from memtui.settings.openclaw.releases import PREFIX, release_rules


class ShortTerms(StrEnum):
    """Which terms of fewer than three characters are searched as substrings under trigram."""

    NONE = "none"
    CJK = "cjk"
    ALL = "all"


class Expansion(StrEnum):
    """When a query is searched keyword by keyword, and how the answers are merged.

    `WITHOUT_PROVIDER_ALWAYS`: each keyword instead of the query, best score. `WITHOUT_PROVIDER`:
    only when the whole query finds nothing, best score. `WHEN_EMPTY`: with a provider too, at
    most six, best text score. `WHEN_THIN`: also when the query fills fewer than the candidates,
    beside its own hits.
    """

    WITHOUT_PROVIDER_ALWAYS = "without_provider_always"
    WITHOUT_PROVIDER = "without_provider"
    WHEN_EMPTY = "when_empty"
    WHEN_THIN = "when_thin"


class Release(msgspec.Struct, frozen=True):
    """The search rules of one release."""

    profile: str
    short_terms: ShortTerms
    expansion: Expansion
    filters_by_model: bool = False
    """The keyword leg sees only chunks of the provider's model when there is a provider."""
    live_chunks_only: bool = False
    """Full-text rows whose chunk is gone are left out."""
    match_failure: bool = False
    """A MATCH that fails falls back to substrings instead of finding nothing."""
    substring_score: float = 1.0
    """The text score of a hit that no BM25 value backs."""
    has_boost: bool = True
    """Boosts by shared words, path and length (`scoreFallbackKeywordResult`)."""
    has_paths: bool = False
    """Searches paths too, and puts exact names first."""
    has_knn: bool = True
    """Vectors are preselected by sqlite-vec's own search, by L2 distance, eight times too many."""
    max_knn: int | None = None


RELEASES: Final = {
    f"{PREFIX}{name}": msgspec.convert({"profile": f"{PREFIX}{name}", **rules["search"]}, Release)
    for name, rules in release_rules().items()
}


def release_of(profile: str) -> Release:
    """Return the search rules of a profile; raises `SettingsError` for one that is no release."""
    if profile in RELEASES:
        return RELEASES[profile]
    raise SettingsError(
        f"{profile} is not how the agent's program searches",
        hint=f"choose one of {', '.join(RELEASES)}",
    )
