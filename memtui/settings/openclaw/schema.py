"""Memory search in OpenClaw's configuration: its keys, how each is read, and rules between them.

The clamps and the rules are those of OpenClaw up to 2026.7.1 (`src/agents/memory-search.ts`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args, get_origin

from msgspec import Meta, Struct
from msgspec.structs import fields, replace

from memtui.settings.schema import Leaf

MAX_CANDIDATES: Final = 200
DEFAULT_WEIGHTS: Final = (0.7, 0.3)
DEFAULT_HALF_LIFE: Final = 30
DEFAULT_LAMBDA: Final = 0.7
_LARGEST: Final = 2**53 - 1
Reader: TypeAlias = Callable[[Any], Any]

_Word = Annotated[str, Meta(min_length=1, description="be a text that is not empty")]
_Whole = Annotated[int, Meta(ge=-_LARGEST, le=_LARGEST, description="be a whole number")]
_FromOne = Annotated[int, Meta(ge=1, le=_LARGEST, description="be a whole number from 1")]
_FromZero = Annotated[int, Meta(ge=0, le=_LARGEST, description="be a whole number from 0")]
_Minutes = Annotated[float, Meta(ge=0, le=sys.float_info.max, description="be 0 or more")]
# Infinity is one, NaN is none.
_NUMBER: Final = Leaf(
    "", Annotated[float, Meta(ge=-sys.float_info.max, description="be a number")], None
)


def names(value: Any) -> tuple[str, ...]:
    """Read the names of an object's keys, lower-case and sorted; its values are not kept."""
    if isinstance(value, dict):
        return tuple(sorted({str(key).strip().lower() for key in value}))
    raise ValueError("must be an object")


def extra_paths(value: Any) -> tuple[tuple[str, str], ...]:
    """Read paths, each a text or `{path, pattern}`, as `(path, pattern)`, each path once."""
    pairs: dict[tuple[str, str], None] = {}
    for item in value if isinstance(value, list) else [None]:
        content = item if isinstance(item, dict) else {"path": item}
        path, pattern = content.get("path"), content.get("pattern")
        if not isinstance(path, str):
            raise ValueError("must be a list of texts or objects with a path")
        if path.strip():
            pairs[path.strip(), pattern.strip() if isinstance(pattern, str) else ""] = None
    return tuple(pairs)


def share(value: Any) -> float:
    """Read a number, clamped to 0 to 1."""
    number: float = _NUMBER.check(value)
    return min(1.0, max(0.0, number))


def floored(low: int, high: int = _LARGEST) -> Reader:
    """Make a reader of numbers that are rounded down and clamped."""
    return lambda value: math.floor(min(float(high), max(float(low), _NUMBER.check(value))))


def finite_or(otherwise: Any, read: Reader) -> Reader:
    """Make a reader that takes another value for a number that is not finite."""

    def read_finite(value: Any) -> Any:
        is_finite = not isinstance(value, float) or math.isfinite(value)
        return read(value) if is_finite else otherwise

    return read_finite


def normalised_weights(vector: float, keyword: float) -> tuple[float, float]:
    """Return two weights, each within 0 to 1, divided by their sum; 0.7 and 0.3 when it is 0."""
    vector, keyword = share(vector), share(keyword)
    total = vector + keyword
    return (vector / total, keyword / total) if total > 0 else DEFAULT_WEIGHTS


def candidate_count(max_results: int, times: float) -> int:
    """Return how many candidates each leg gives: 1 to 200."""
    return min(MAX_CANDIDATES, max(1, math.floor(max_results * times)))


Layout = Literal["agents.defaults.memorySearch", "memory.search"]
OLD_LAYOUT: Final = "agents.defaults.memorySearch"
"""The table of the keys up to 2026.7.1, with `agents.list[].memorySearch` for one agent."""
NEW_LAYOUT: Final = "memory.search"
"""The table of the keys from 2026.8.1 on, with `agents.entries.*.memory.search` for one agent."""

DEFAULT_AGENT: Final = "main"


class Key(Struct, frozen=True):
    """The field that takes the value of a key, its type, and the key's name below the root."""

    field: str
    type: Any
    name: str
    reader: Reader | None = None
    """Reads what takes more than a check of its type."""

    def read(self, value: Any) -> Any:
        """Read a value, `6.0` as 6, or raise `ValueError` whose message continues "KEY: "."""
        if self.reader is not None:
            return self.reader(value)
        if isinstance(value, str):
            value = value.strip()
        elif isinstance(value, float) and value.is_integer():
            value = int(value)
        return Leaf(self.name, self.type, None).check(value)


class MemorySearchConfig(Struct, frozen=True):
    """Memory search of one agent, defaults and clamps applied as OpenClaw up to 2026.7 does.

    The defaults are those of OpenClaw 2026.4. What a release makes of them, above all the ones
    with fixed values, is `effective`'s to say. API keys and header values are never in here.
    """

    enabled: Annotated[bool, "enabled"] = True
    provider: Annotated[_Word, "provider"] = "auto"
    model: Annotated[str, "model"] = ""
    """As written; empty means the provider's default."""
    fallback: Annotated[_Word, "fallback"] = "none"
    sources: Annotated[tuple[Literal["memory", "sessions"], ...], "sources"] = ("memory",)
    session_memory: Annotated[bool, "experimental.sessionMemory"] = False
    remember_across_conversations: Annotated[bool, "rememberAcrossConversations"] = False
    extra_paths: Annotated[tuple[str, ...], "extraPaths", extra_paths] = ()
    """As written, `${VAR}` filled in; relative ones are below the workspace."""
    extra_path_patterns: tuple[tuple[str, str], ...] = ()
    """`(path, glob)` for each extra path that is narrowed down (2026.9)."""
    remote_base_url: Annotated[str, "remote.baseUrl"] = ""
    remote_headers: Annotated[tuple[str, ...], "remote.headers", names] = ()
    """The names alone, lower-case and sorted."""
    remote_api_key_set: Annotated[bool, "remote.apiKey", bool] = False
    remote_batch_enabled: Annotated[bool, "remote.batch.enabled"] = False
    output_dimensionality: Annotated[_FromOne | None, "outputDimensionality"] = None
    input_type: Annotated[str, "inputType"] = ""
    query_input_type: Annotated[str, "queryInputType"] = ""
    document_input_type: Annotated[str, "documentInputType"] = ""
    local_model_path: Annotated[str, "local.modelPath"] = ""
    local_model_cache_dir: Annotated[str, "local.modelCacheDir"] = ""
    store_path: Annotated[str, "store.path"] = ""
    """The database of generation 1 where it is not at its usual place."""
    tokenizer: Annotated[Literal["unicode61", "trigram"], "store.fts.tokenizer"] = "unicode61"
    vector_enabled: Annotated[bool, "store.vector.enabled"] = True
    vector_extension_path: Annotated[str, "store.vector.extensionPath"] = ""
    chunk_tokens: Annotated[_Whole, "chunking.tokens"] = 400
    chunk_overlap: Annotated[_Whole, "chunking.overlap"] = 80
    max_results: Annotated[_FromOne, "query.maxResults"] = 6
    min_score: Annotated[float, "query.minScore", share] = 0.35
    hybrid_enabled: Annotated[bool, "query.hybrid.enabled"] = True
    vector_weight: Annotated[float, "query.hybrid.vectorWeight", share] = 0.7
    text_weight: Annotated[float, "query.hybrid.textWeight", share] = 0.3
    candidate_multiplier: Annotated[int, "query.hybrid.candidateMultiplier", floored(1, 20)] = 4
    mmr_enabled: Annotated[bool, "query.hybrid.mmr.enabled"] = False
    mmr_lambda: Annotated[float, "query.hybrid.mmr.lambda", finite_or(DEFAULT_LAMBDA, share)] = 0.7
    decay_enabled: Annotated[bool, "query.hybrid.temporalDecay.enabled"] = False
    half_life_days: Annotated[
        int, "query.hybrid.temporalDecay.halfLifeDays", finite_or(DEFAULT_HALF_LIFE, floored(1))
    ] = 30
    cache_enabled: Annotated[bool, "cache.enabled"] = True
    cache_max_entries: Annotated[int | None, "cache.maxEntries", finite_or(None, floored(1))] = None
    multimodal_enabled: Annotated[bool, "multimodal.enabled"] = False
    multimodal_modalities: Annotated[
        tuple[Literal["image", "audio", "all"], ...], "multimodal.modalities"
    ] = ()
    multimodal_max_file_bytes: Annotated[_FromOne, "multimodal.maxFileBytes"] = 10 * 2**20
    sync_on_session_start: Annotated[bool, "sync.onSessionStart"] = True
    sync_on_search: Annotated[bool, "sync.onSearch"] = True
    sync_watch: Annotated[bool, "sync.watch"] = True
    watch_debounce_ms: Annotated[_FromZero, "sync.watchDebounceMs"] = 1500
    interval_minutes: Annotated[_Minutes, "sync.intervalMinutes"] = 0
    delta_bytes: Annotated[int, "sync.sessions.deltaBytes", floored(0)] = 100_000
    delta_messages: Annotated[int, "sync.sessions.deltaMessages", floored(0)] = 50
    post_compaction_force: Annotated[bool, "sync.sessions.postCompactionForce"] = True
    set_keys: frozenset[str] = frozenset()
    """The dotted keys below the root of the layout that were written, `query.maxResults`."""


KEYS: Final = tuple(
    Key(field.name, field.type, *(one for one in notes if not isinstance(one, Meta)))
    for field in fields(MemorySearchConfig)
    if (notes := get_args(field.type)[1:]) and get_origin(field.type) is Annotated
)


class AgentConfig(Struct, frozen=True):
    """One agent: its id, the folder of its notes, its memory search."""

    name: str
    workspace: Path | None = None
    search: MemorySearchConfig = MemorySearchConfig()
    is_default: bool = False
    """True if the program uses this one when none is named."""


class OpenClawConfig(Struct, frozen=True):
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
        """Return the agent of that id, made from the defaults when it is not listed."""
        for agent in self.agents:
            if agent.name == name:
                return agent
        path = self.defaults.store_path.replace("{agentId}", name)
        return AgentConfig(name, None, replace(self.defaults, store_path=path))

    @property
    def default_agent(self) -> AgentConfig:
        """The agent that the program uses when none is named."""
        return next((agent for agent in self.agents if agent.is_default), self.agents[0])
