"""The rules by which OpenClaw's releases search, as values: one for each profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from memtui.errors import SettingsError


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


@dataclass(frozen=True, slots=True)
class Release:
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


RELEASES: Mapping[str, Release] = MappingProxyType(
    {
        release.profile: release
        for release in (
            Release(
                "openclaw-2026.2",
                ShortTerms.NONE,
                Expansion.WITHOUT_PROVIDER_ALWAYS,
                filters_by_model=True,
                has_boost=False,
                has_knn=False,
            ),
            Release(
                "openclaw-2026.4",
                ShortTerms.CJK,
                Expansion.WITHOUT_PROVIDER,
                filters_by_model=True,
            ),
            Release(
                "openclaw-2026.7",
                ShortTerms.CJK,
                Expansion.WHEN_EMPTY,
                live_chunks_only=True,
                match_failure=True,
            ),
            Release(
                "openclaw-2026.9",
                ShortTerms.ALL,
                Expansion.WHEN_THIN,
                live_chunks_only=True,
                match_failure=True,
                substring_score=0.0,
                has_paths=True,
                max_knn=4096,
            ),
        )
    }
)


def release_of(profile: str) -> Release:
    """The search rules of a profile; raises `SettingsError` for one that is no release."""
    if profile in RELEASES:
        return RELEASES[profile]
    raise SettingsError(
        f"{profile} is not how the agent's program searches",
        hint=f"choose one of {', '.join(RELEASES)}",
    )
