"""Which release an index belongs to, and the ranking that its agent is configured for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from memtui.index.foreign.opening import Layout
from memtui.index.foreign.rows import Origin
from memtui.model import Ranking, SearchMode
from memtui.model.status import Identity, IndexGeneration
from memtui.ranking.profiles import profile
from memtui.settings.openclaw import release_of_version

if TYPE_CHECKING:
    from memtui.settings.openclaw import MemorySearchConfig, OpenClawConfig

PREFIX = "openclaw-"
FTS_ONLY = "fts-only"
_NO_PROVIDER = frozenset({"none"})
_PATHS_SINCE = 3
"""The chunking version of 2026.8.1, which searches as 2026.9 does."""

_FITTING = {
    IndexGeneration.SIDECAR: ("2026.2", "2026.4"),
    IndexGeneration.AGENT: ("2026.7", "2026.9"),
    IndexGeneration.AGENT_BLOB: ("2026.9",),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A profile and how it was chosen, as a phrase."""

    profile: str
    because: str


def choose_profile(
    layout: Layout, identity: Identity, origin: Origin, config: OpenClawConfig | None
) -> Choice:
    """Choose the profile of the release that made an index.

    The tables bound the choice; within it the version that the database or the configuration
    names decides, else what the index records about itself.
    """
    fitting = _FITTING[layout.generation]
    for version, where in (
        (origin.app_version, "the database was written by"),
        (config.version if config else None, "the configuration was written by"),
    ):
        release = release_of_version(version) if version else None
        if release in fitting:
            return Choice(PREFIX + str(release), f"{where} {version}")
    return _by_tables(layout, identity)


def _by_tables(layout: Layout, identity: Identity) -> Choice:
    if layout.generation is IndexGeneration.AGENT_BLOB:
        return Choice("openclaw-2026.9", "vectors are stored as blobs")
    if layout.generation is IndexGeneration.AGENT:
        newer = (identity.chunking_version or 0) >= _PATHS_SINCE or layout.paths_fts is not None
        if newer:
            return Choice("openclaw-2026.9", "the index has a chunking version of 2026.8 or later")
        return Choice("openclaw-2026.7", "the index is inside the agent's database, as text")
    if identity.fts_tokenizer is not None or identity.scope_hash is not None:
        return Choice("openclaw-2026.4", "a file of its own that records its scope or tokenizer")
    return Choice("openclaw-2026.2", "a file of its own that records neither scope nor tokenizer")


def agent_ranking(name: str, search: MemorySearchConfig | None) -> Ranking:
    """The profile with what the agent's configuration sets; `search` is what the release sees."""
    base = profile(name)
    if search is None:
        return base
    return replace(
        base,
        k=search.max_results,
        min_score=search.min_score,
        candidate_multiplier=search.candidate_multiplier,
        vector_weight=search.vector_weight,
        keyword_weight=search.text_weight,
        mmr=replace(base.mmr, enabled=search.mmr_enabled, lambda_=search.mmr_lambda),
        decay=replace(
            base.decay,
            enabled=search.decay_enabled,
            half_life_days=float(search.half_life_days),
        ),
    )


def configured_mode(
    search: MemorySearchConfig | None, identity: Identity, *, has_fts: bool
) -> SearchMode:
    """Which legs the agent searches with: both, keywords without a provider, or vectors alone."""
    provider = search.provider if search is not None else identity.provider
    if identity.model == FTS_ONLY or provider in _NO_PROVIDER:
        return SearchMode.KEYWORD_ONLY
    if not has_fts or (search is not None and not search.hybrid_enabled):
        return SearchMode.VECTOR_ONLY
    return SearchMode.HYBRID
