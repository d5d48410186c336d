"""OpenClaw's memory search as memtui's own settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from memtui.settings.leaves import leaves
from memtui.settings.openclaw.effective import Release, effective, known_release
from memtui.settings.openclaw.schema import AgentConfig, MemorySearchConfig

_RANKING: Final = (
    ("ranking.k", "max_results", "query.maxResults"),
    ("ranking.min_score", "min_score", "query.minScore"),
    ("ranking.vector_weight", "vector_weight", "query.hybrid.vectorWeight"),
    ("ranking.keyword_weight", "text_weight", "query.hybrid.textWeight"),
    (
        "ranking.candidate_multiplier",
        "candidate_multiplier",
        "query.hybrid.candidateMultiplier",
    ),
    ("ranking.mmr.enabled", "mmr_enabled", "query.hybrid.mmr.enabled"),
    ("ranking.mmr.lambda", "mmr_lambda", "query.hybrid.mmr.lambda"),
    ("ranking.decay.enabled", "decay_enabled", "query.hybrid.temporalDecay.enabled"),
    (
        "ranking.decay.half_life_days",
        "half_life_days",
        "query.hybrid.temporalDecay.halfLifeDays",
    ),
    ("chunking.tokens", "chunk_tokens", "chunking.tokens"),
    ("chunking.overlap", "chunk_overlap", "chunking.overlap"),
)
_FLOATS: Final = frozenset({"ranking.decay.half_life_days"})
_QUIET: Final = frozenset({"enabled", "fallback", "remote.apiKey", "provider", "model", "sources"})
"""Keys that need no line of their own when they are not taken over."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """memtui's settings by dotted key, where each comes from, and what has no counterpart."""

    settings: Mapping[str, Any]
    sources: Mapping[str, str]
    """For each setting the key below the root of the layout, or a phrase."""
    cannot: tuple[str, ...]


@dataclass(slots=True)
class _Work:
    settings: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    cannot: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def put(self, setting: str, value: Any, source: str) -> None:
        self.settings[setting] = self._within(setting, value, source)
        self.sources[setting] = source
        self.taken.add(source)

    def _within(self, setting: str, value: Any, source: str) -> Any:
        """A number within the range that the schema has for the setting."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        limits = leaves()[setting].field.limits
        low = value if limits.ge is None else limits.ge
        high = value if limits.le is None else limits.le
        inside = min(max(value, low), high)
        if inside != value:
            self.cannot.append(f"{source} {value:g}: {inside:g} is as far as memtui goes")
        return inside


def to_settings(agent: AgentConfig, release: str) -> Conversion:
    """Translate an agent's memory search, as `release` acts on it, into settings of memtui.

    Every ranking value is there, also those of OpenClaw's defaults, so that the result does not
    depend on memtui's. What `release` ignores is not taken over. Raises `ValueError` for a
    release without a profile.
    """
    known = known_release(release)
    held = effective(agent.search, known)
    search = held.search
    work = _Work()
    work.put("ranking.profile", f"openclaw-{known}", "the release")
    for setting, name, source in _RANKING:
        value = getattr(search, name)
        work.put(setting, float(value) if setting in _FLOATS else value, source)
    if not search.hybrid_enabled:
        _vector_leg_alone(work)
    _chunks(work)
    if search.extra_paths:
        work.put("memory.extra_paths", _extra_paths(search), "extraPaths")
    if "sync.watch" in search.set_keys and "sync.watch" not in held.ignored:
        work.put("index.watch", search.sync_watch, "sync.watch")
    if "sync.watchDebounceMs" in search.set_keys and "sync.watchDebounceMs" not in held.ignored:
        seconds = search.watch_debounce_ms / 1000
        work.put("index.debounce_seconds", seconds, "sync.watchDebounceMs")
    _provider(work, search)
    _leftovers(work, search, held.ignored, known)
    return Conversion(work.settings, work.sources, tuple(dict.fromkeys(work.cannot)))


def _vector_leg_alone(work: _Work) -> None:
    source = "query.hybrid.enabled"
    work.put("ranking.vector_weight", 1.0, source)
    work.put("ranking.keyword_weight", 0.0, source)
    work.cannot.append(f"{source} false: memtui asks both legs; the vector leg has all the weight")


def _chunks(work: _Work) -> None:
    """Keep the overlap below the size also after both were brought into range."""
    tokens, overlap = work.settings["chunking.tokens"], work.settings["chunking.overlap"]
    if overlap >= tokens:
        work.settings["chunking.overlap"] = tokens - 1


def _extra_paths(search: MemorySearchConfig) -> tuple[str, ...]:
    patterns = dict(search.extra_path_patterns)
    return tuple(
        f"{path.rstrip('/')}/{patterns[path]}" if path in patterns else path
        for path in search.extra_paths
    )


def _provider(work: _Work, search: MemorySearchConfig) -> None:
    if search.provider == "none":
        work.put("embedding.provider", "none", "provider")
        return
    model = f" {search.model}" if search.model else ""
    work.cannot.append(
        f"provider {search.provider}{model}: memtui's own index keeps memtui's provider"
    )


def _leftovers(
    work: _Work, search: MemorySearchConfig, ignored: tuple[str, ...], release: Release
) -> None:
    if not search.enabled:
        work.cannot.append("enabled false: memtui searches all the same")
    if "sessions" in search.sources:
        work.cannot.append("sources sessions: memtui's own index has no transcripts")
    work.cannot.extend(f"{name}: has no effect in OpenClaw {release}" for name in ignored)
    rest = sorted(search.set_keys - work.taken - _QUIET - set(ignored))
    if search.hybrid_enabled:
        rest = [name for name in rest if name != "query.hybrid.enabled"]
    if rest:
        work.cannot.append(f"no counterpart: {', '.join(rest)}")
