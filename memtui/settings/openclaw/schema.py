"""What OpenClaw's configuration says about memory search: values, defaults, key names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from memtui.settings.openclaw import values as v

Layout = Literal["agents.defaults.memorySearch", "memory.search"]
OLD_LAYOUT: Final = "agents.defaults.memorySearch"
"""Where the keys are up to 2026.7.1, with `agents.list[].memorySearch` for one agent."""
NEW_LAYOUT: Final = "memory.search"
"""Where the keys are from 2026.8.1 on, with `agents.entries.*.memory.search` for one agent."""

DEFAULT_AGENT: Final = "main"


@dataclass(frozen=True, slots=True)
class MemorySearchConfig:
    """Memory search of one agent, defaults and clamps applied as OpenClaw up to 2026.7 does.

    The defaults are those of OpenClaw 2026.4. What a release makes of them, above all the ones
    with fixed values, is `effective`'s to say. API keys and header values are never in here.
    """

    enabled: bool = True
    provider: str = "auto"
    model: str = ""
    """As written; empty means the provider's default."""
    fallback: str = "none"
    sources: tuple[str, ...] = ("memory",)
    session_memory: bool = False
    remember_across_conversations: bool = False
    extra_paths: tuple[str, ...] = ()
    """As written, `${VAR}` filled in; relative ones are below the workspace."""
    extra_path_patterns: tuple[tuple[str, str], ...] = ()
    """`(path, glob)` for each extra path that is narrowed down (2026.9)."""
    remote_base_url: str = ""
    remote_headers: tuple[str, ...] = ()
    """The names alone, lower-case and sorted."""
    remote_api_key_set: bool = False
    remote_batch_enabled: bool = False
    output_dimensionality: int | None = None
    input_type: str = ""
    query_input_type: str = ""
    document_input_type: str = ""
    local_model_path: str = ""
    local_model_cache_dir: str = ""
    store_path: str = ""
    """The database of generation 1 where it is not at its usual place."""
    tokenizer: str = "unicode61"
    vector_enabled: bool = True
    vector_extension_path: str = ""
    chunk_tokens: int = 400
    chunk_overlap: int = 80
    max_results: int = 6
    min_score: float = 0.35
    hybrid_enabled: bool = True
    vector_weight: float = 0.7
    text_weight: float = 0.3
    candidate_multiplier: int = 4
    mmr_enabled: bool = False
    mmr_lambda: float = 0.7
    decay_enabled: bool = False
    half_life_days: int = 30
    cache_enabled: bool = True
    cache_max_entries: int | None = None
    multimodal_enabled: bool = False
    multimodal_modalities: tuple[str, ...] = ()
    multimodal_max_file_bytes: int = 10 * 2**20
    sync_on_session_start: bool = True
    sync_on_search: bool = True
    sync_watch: bool = True
    watch_debounce_ms: int = 1500
    interval_minutes: float = 0
    delta_bytes: int = 100_000
    delta_messages: int = 50
    post_compaction_force: bool = True
    citations: str = "auto"
    """`memory.citations`: on, off or auto."""
    set_keys: frozenset[str] = frozenset()
    """The dotted keys below the root of the layout that were written, `query.maxResults`."""


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """One agent: its id, the folder of its notes, its memory search."""

    name: str
    workspace: Path | None = None
    search: MemorySearchConfig = MemorySearchConfig()
    is_default: bool = False
    """Whether the program uses this one when none is named."""


@dataclass(frozen=True, slots=True)
class OpenClawConfig:
    """The parts of OpenClaw's configuration that memtui understands."""

    path: Path | None = None
    """The file that was read, `None` when there is none."""
    layout: Layout | None = None
    """`None` when no key of memory search is written."""
    agents: tuple[AgentConfig, ...] = (AgentConfig(DEFAULT_AGENT, is_default=True),)
    problems: tuple[str, ...] = ()
    """One line each, safe to show."""
    broken: bool = False
    """The file is there and could not be read at all."""
    defaults: MemorySearchConfig = MemorySearchConfig()
    """Memory search of an agent that is not listed."""
    version: str = ""
    """The release that wrote the file last (`meta.lastTouchedVersion`), if it says so."""
    backend: str = "builtin"
    """`memory.backend`; with `qmd` the program searches another index first."""

    def agent(self, name: str) -> AgentConfig:
        """The agent of that id, made from the defaults when it is not listed."""
        for agent in self.agents:
            if agent.name == name:
                return agent
        path = self.defaults.store_path.replace("{agentId}", name)
        return AgentConfig(name, None, replace(self.defaults, store_path=path))

    @property
    def default_agent(self) -> AgentConfig:
        """The agent that the program uses when none is named."""
        return next((agent for agent in self.agents if agent.is_default), self.agents[0])


@dataclass(frozen=True, slots=True)
class Key:
    """A key below the root of either layout, the field that takes its value, how it is read."""

    name: str
    field: str
    read: Callable[[Any], Any]
    """From the parsed value to the field's; raises `ValueError` that says what it must be."""


KEYS: Final[tuple[Key, ...]] = (
    Key("enabled", "enabled", v.flag),
    Key("provider", "provider", v.word),
    Key("model", "model", v.text),
    Key("fallback", "fallback", v.word),
    Key("sources", "sources", v.sources),
    Key("experimental.sessionMemory", "session_memory", v.flag),
    Key("rememberAcrossConversations", "remember_across_conversations", v.flag),
    Key("extraPaths", "extra_paths", v.extra_paths),
    Key("remote.baseUrl", "remote_base_url", v.text),
    Key("remote.headers", "remote_headers", v.names),
    Key("remote.apiKey", "remote_api_key_set", v.is_set),
    Key("remote.batch.enabled", "remote_batch_enabled", v.flag),
    Key("outputDimensionality", "output_dimensionality", v.count(1)),
    Key("inputType", "input_type", v.text),
    Key("queryInputType", "query_input_type", v.text),
    Key("documentInputType", "document_input_type", v.text),
    Key("local.modelPath", "local_model_path", v.text),
    Key("local.modelCacheDir", "local_model_cache_dir", v.text),
    Key("store.path", "store_path", v.text),
    Key("store.fts.tokenizer", "tokenizer", v.one_of("unicode61", "trigram")),
    Key("store.vector.enabled", "vector_enabled", v.flag),
    Key("store.vector.extensionPath", "vector_extension_path", v.text),
    Key("chunking.tokens", "chunk_tokens", v.whole),
    Key("chunking.overlap", "chunk_overlap", v.whole),
    Key("query.maxResults", "max_results", v.count(1)),
    Key("query.minScore", "min_score", v.share),
    Key("query.hybrid.enabled", "hybrid_enabled", v.flag),
    Key("query.hybrid.vectorWeight", "vector_weight", v.share),
    Key("query.hybrid.textWeight", "text_weight", v.share),
    Key("query.hybrid.candidateMultiplier", "candidate_multiplier", v.multiplier),
    Key("query.hybrid.mmr.enabled", "mmr_enabled", v.flag),
    Key("query.hybrid.mmr.lambda", "mmr_lambda", v.mmr_lambda),
    Key("query.hybrid.temporalDecay.enabled", "decay_enabled", v.flag),
    Key("query.hybrid.temporalDecay.halfLifeDays", "half_life_days", v.half_life),
    Key("cache.enabled", "cache_enabled", v.flag),
    Key("cache.maxEntries", "cache_max_entries", v.entries),
    Key("multimodal.enabled", "multimodal_enabled", v.flag),
    Key("multimodal.modalities", "multimodal_modalities", v.modalities),
    Key("multimodal.maxFileBytes", "multimodal_max_file_bytes", v.count(1)),
    Key("sync.onSessionStart", "sync_on_session_start", v.flag),
    Key("sync.onSearch", "sync_on_search", v.flag),
    Key("sync.watch", "sync_watch", v.flag),
    Key("sync.watchDebounceMs", "watch_debounce_ms", v.count(0)),
    Key("sync.intervalMinutes", "interval_minutes", v.positive),
    Key("sync.sessions.deltaBytes", "delta_bytes", v.at_least_zero),
    Key("sync.sessions.deltaMessages", "delta_messages", v.at_least_zero),
    Key("sync.sessions.postCompactionForce", "post_compaction_force", v.flag),
)
