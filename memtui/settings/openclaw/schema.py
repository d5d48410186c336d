"""Memory search in OpenClaw's configuration: its keys, how each is read, and rules between them.

The clamps and the rules are those of OpenClaw up to 2026.7.1 (`src/agents/memory-search.ts`).
Every reader raises `ValueError` whose message continues "KEY: ".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args, get_origin

from msgspec import Struct
from msgspec.structs import fields, replace

MAX_CANDIDATES: Final = 200
DEFAULT_WEIGHTS: Final = (0.7, 0.3)
DEFAULT_HALF_LIFE: Final = 30
DEFAULT_LAMBDA: Final = 0.7
_LARGEST: Final = 2**53 - 1
Reader: TypeAlias = Callable[[Any], Any]


def _wrong(what: str, value: Any) -> ValueError:
    if isinstance(value, str):
        shown = repr(value) if len(value) <= 60 else "a long text"
    elif isinstance(value, bool):
        shown = "true" if value else "false"
    elif isinstance(value, int | float):
        shown = f"{value:.10g}" if abs(value) <= _LARGEST else "a number that large"
    else:
        shown = {dict: "an object", list: "a list", type(None): "null"}.get(type(value), "that")
    return ValueError(f"must {what}, not {shown}")


def flag(value: Any) -> bool:
    """Read `true` or `false`."""
    if isinstance(value, bool):
        return value
    raise _wrong("be true or false", value)


def text(value: Any) -> str:
    """Read a text, blanks around it dropped."""
    if isinstance(value, str):
        return value.strip()
    raise _wrong("be a text", value)


def word(value: Any) -> str:
    """Read a text that is not empty."""
    if stripped := text(value):
        return stripped
    raise ValueError("must not be empty")


def one_of(*words: str) -> Reader:
    """Make a reader of one of some words."""

    def read(value: Any) -> str:
        if isinstance(value, str) and value in words:
            return value
        raise _wrong(f"be {' or '.join(words)}", value)

    return read


def some_of(*words: str) -> Reader:
    """Make a reader of a list of some words, each once, in their order."""

    def read(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise _wrong("be a list", value)
        for item in value:
            if item not in words:
                raise _wrong(f"list only {', '.join(words)}", item)
        return tuple(dict.fromkeys(value))

    return read


def names(value: Any) -> tuple[str, ...]:
    """Read the names of an object's keys, lower-case and sorted; its values are not kept."""
    if isinstance(value, dict):
        return tuple(sorted({str(key).strip().lower() for key in value}))
    raise _wrong("be an object", value)


def extra_paths(value: Any) -> tuple[tuple[str, str], ...]:
    """Read paths, each a text or `{path, pattern}`, as `(path, pattern)`; empty ones are left out.

    The first of two that are the same stays.
    """
    if not isinstance(value, list):
        raise _wrong("be a list of paths", value)
    pairs: dict[tuple[str, str], None] = {}
    for item in value:
        content = item if isinstance(item, dict) else {"path": item}
        path, pattern = content.get("path"), content.get("pattern")
        if not isinstance(path, str):
            raise _wrong("list texts or objects with a path", item)
        if path.strip():
            pairs[path.strip(), pattern.strip() if isinstance(pattern, str) else ""] = None
    return tuple(pairs)


def number(value: Any) -> float:
    """Read a number; infinity is one, NaN is not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong("be a number", value)
    try:
        as_float = float(value)
    except OverflowError:
        as_float = math.inf if value > 0 else -math.inf
    if math.isnan(as_float):
        raise ValueError("must be a number, not NaN")
    return as_float


def whole(low: int | None = None) -> Reader:
    """Make a reader of whole numbers, from `low` on; `6.0` is one."""

    def read(value: Any) -> int:
        as_float = number(value)
        if not as_float.is_integer() or abs(as_float) > _LARGEST:
            raise _wrong("be a whole number", value)
        if low is not None and as_float < low:
            raise ValueError(f"must be at least {low}, not {int(as_float)}")
        return int(as_float)

    return read


def positive(value: Any) -> float:
    """Read a finite number from 0 on."""
    as_float = number(value)
    if as_float < 0 or math.isinf(as_float):
        raise _wrong("be 0 or more", value)
    return as_float


def share(value: Any) -> float:
    """Read a number, clamped to 0 to 1."""
    return min(1.0, max(0.0, number(value)))


def floored(low: int, high: int = _LARGEST) -> Reader:
    """Make a reader of numbers that are rounded down and clamped."""
    return lambda value: math.floor(min(float(high), max(float(low), number(value))))


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
    """The field that takes the value of a key, its name below the root, how it is read."""

    field: str
    name: str
    read: Reader


class MemorySearchConfig(Struct, frozen=True):
    """Memory search of one agent, defaults and clamps applied as OpenClaw up to 2026.7 does.

    The defaults are those of OpenClaw 2026.4. What a release makes of them, above all the ones
    with fixed values, is `effective`'s to say. API keys and header values are never in here.
    """

    enabled: Annotated[bool, "enabled", flag] = True
    provider: Annotated[str, "provider", word] = "auto"
    model: Annotated[str, "model", text] = ""
    """As written; empty means the provider's default."""
    fallback: Annotated[str, "fallback", word] = "none"
    sources: Annotated[tuple[str, ...], "sources", some_of("memory", "sessions")] = ("memory",)
    session_memory: Annotated[bool, "experimental.sessionMemory", flag] = False
    remember_across_conversations: Annotated[bool, "rememberAcrossConversations", flag] = False
    extra_paths: Annotated[tuple[str, ...], "extraPaths", extra_paths] = ()
    """As written, `${VAR}` filled in; relative ones are below the workspace."""
    extra_path_patterns: tuple[tuple[str, str], ...] = ()
    """`(path, glob)` for each extra path that is narrowed down (2026.9)."""
    remote_base_url: Annotated[str, "remote.baseUrl", text] = ""
    remote_headers: Annotated[tuple[str, ...], "remote.headers", names] = ()
    """The names alone, lower-case and sorted."""
    remote_api_key_set: Annotated[bool, "remote.apiKey", bool] = False
    remote_batch_enabled: Annotated[bool, "remote.batch.enabled", flag] = False
    output_dimensionality: Annotated[int | None, "outputDimensionality", whole(1)] = None
    input_type: Annotated[str, "inputType", text] = ""
    query_input_type: Annotated[str, "queryInputType", text] = ""
    document_input_type: Annotated[str, "documentInputType", text] = ""
    local_model_path: Annotated[str, "local.modelPath", text] = ""
    local_model_cache_dir: Annotated[str, "local.modelCacheDir", text] = ""
    store_path: Annotated[str, "store.path", text] = ""
    """The database of generation 1 where it is not at its usual place."""
    tokenizer: Annotated[str, "store.fts.tokenizer", one_of("unicode61", "trigram")] = "unicode61"
    vector_enabled: Annotated[bool, "store.vector.enabled", flag] = True
    vector_extension_path: Annotated[str, "store.vector.extensionPath", text] = ""
    chunk_tokens: Annotated[int, "chunking.tokens", whole()] = 400
    chunk_overlap: Annotated[int, "chunking.overlap", whole()] = 80
    max_results: Annotated[int, "query.maxResults", whole(1)] = 6
    min_score: Annotated[float, "query.minScore", share] = 0.35
    hybrid_enabled: Annotated[bool, "query.hybrid.enabled", flag] = True
    vector_weight: Annotated[float, "query.hybrid.vectorWeight", share] = 0.7
    text_weight: Annotated[float, "query.hybrid.textWeight", share] = 0.3
    candidate_multiplier: Annotated[int, "query.hybrid.candidateMultiplier", floored(1, 20)] = 4
    mmr_enabled: Annotated[bool, "query.hybrid.mmr.enabled", flag] = False
    mmr_lambda: Annotated[float, "query.hybrid.mmr.lambda", finite_or(DEFAULT_LAMBDA, share)] = 0.7
    decay_enabled: Annotated[bool, "query.hybrid.temporalDecay.enabled", flag] = False
    half_life_days: Annotated[
        int, "query.hybrid.temporalDecay.halfLifeDays", finite_or(DEFAULT_HALF_LIFE, floored(1))
    ] = 30
    cache_enabled: Annotated[bool, "cache.enabled", flag] = True
    cache_max_entries: Annotated[int | None, "cache.maxEntries", finite_or(None, floored(1))] = None
    multimodal_enabled: Annotated[bool, "multimodal.enabled", flag] = False
    multimodal_modalities: Annotated[
        tuple[str, ...], "multimodal.modalities", some_of("image", "audio", "all")
    ] = ()
    multimodal_max_file_bytes: Annotated[int, "multimodal.maxFileBytes", whole(1)] = 10 * 2**20
    sync_on_session_start: Annotated[bool, "sync.onSessionStart", flag] = True
    sync_on_search: Annotated[bool, "sync.onSearch", flag] = True
    sync_watch: Annotated[bool, "sync.watch", flag] = True
    watch_debounce_ms: Annotated[int, "sync.watchDebounceMs", whole(0)] = 1500
    interval_minutes: Annotated[float, "sync.intervalMinutes", positive] = 0
    delta_bytes: Annotated[int, "sync.sessions.deltaBytes", floored(0)] = 100_000
    delta_messages: Annotated[int, "sync.sessions.deltaMessages", floored(0)] = 50
    post_compaction_force: Annotated[bool, "sync.sessions.postCompactionForce", flag] = True
    citations: str = "auto"
    """`memory.citations`: on, off or auto."""
    set_keys: frozenset[str] = frozenset()
    """The dotted keys below the root of the layout that were written, `query.maxResults`."""


KEYS: Final = tuple(
    Key(field.name, *get_args(field.type)[1:])
    for field in fields(MemorySearchConfig)
    if get_origin(field.type) is Annotated
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
