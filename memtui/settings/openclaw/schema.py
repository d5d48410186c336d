"""Reading single values of OpenClaw's configuration: types, clamps, and rules between them.

The clamps and the rules are those of OpenClaw up to 2026.7.1 (`src/agents/memory-search.ts`).
Every reader raises `ValueError` whose message continues "KEY: ".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

MAX_CANDIDATES: Final = 200
DEFAULT_WEIGHTS: Final = (0.7, 0.3)
DEFAULT_HALF_LIFE: Final = 30
DEFAULT_LAMBDA: Final = 0.7
_LARGEST: Final = 2**53 - 1
_Read = TypeVar("_Read")
_Default = TypeVar("_Default")


def flag(value: Any) -> bool:
    """Read `true` or `false`."""
    if isinstance(value, bool):
        return value
    raise ValueError(_must("be true or false", value))


def text(value: Any) -> str:
    """Read a text, blanks around it dropped."""
    if isinstance(value, str):
        return value.strip()
    raise ValueError(_must("be a text", value))


def word(value: Any) -> str:
    """Read a text that is not empty."""
    found = text(value)
    if found:
        return found
    raise ValueError("must not be empty")


def one_of(*words: str) -> Callable[[Any], str]:
    """Make a reader of one of some words."""

    def read(value: Any) -> str:
        if isinstance(value, str) and value in words:
            return value
        raise ValueError(_must(f"be {' or '.join(words)}", value))

    return read


def is_set(value: Any) -> bool:
    """Tell only whether there is something: a secret is looked at and not kept."""
    return bool(value)


def names(value: Any) -> tuple[str, ...]:
    """Read the names of an object's keys, lower-case and sorted; its values are not kept."""
    if isinstance(value, dict):
        return tuple(sorted({str(key).strip().lower() for key in value}))
    raise ValueError(_must("be an object", value))


def number(value: Any) -> float:
    """Read a number; infinity is one, NaN is not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(_must("be a number", value))
    try:
        found = float(value)
    except OverflowError:
        found = math.inf if value > 0 else -math.inf
    if math.isnan(found):
        raise ValueError("must be a number, not NaN")
    return found


def whole(value: Any) -> int:
    """Read a whole number; `6.0` is one."""
    found = number(value)
    if not found.is_integer() or abs(found) > _LARGEST:
        raise ValueError(_must("be a whole number", value))
    return int(found)


def count(low: int) -> Callable[[Any], int]:
    """Make a reader of whole numbers from `low` on."""

    def read(value: Any) -> int:
        found = whole(value)
        if found < low:
            raise ValueError(f"must be at least {low}, not {found}")
        return found

    return read


def positive(value: Any) -> float:
    """Read a finite number from 0 on."""
    found = number(value)
    if found < 0 or math.isinf(found):
        raise ValueError(_must("be 0 or more", value))
    return found


def share(value: Any) -> float:
    """Read a number, clamped to 0 to 1."""
    return min(1.0, max(0.0, number(value)))


def floored(low: int, high: int = _LARGEST) -> Callable[[Any], int]:
    """Make a reader of numbers that are rounded down and clamped."""
    return lambda value: math.floor(min(float(high), max(float(low), number(value))))


def finite_or(
    otherwise: _Default, read: Callable[[Any], _Read]
) -> Callable[[Any], _Read | _Default]:
    """Make a reader that takes another value for a number that is not finite."""

    def read_finite(value: Any) -> _Read | _Default:
        if isinstance(value, float) and not math.isfinite(value):
            return otherwise
        return read(value)

    return read_finite


multiplier: Final = floored(1, 20)
"""Reads how many times the results are candidates."""
half_life: Final = finite_or(DEFAULT_HALF_LIFE, floored(1))
"""Reads a half-life in days."""


def sources(value: Any) -> tuple[str, ...]:
    """Read the sources, each once, in their order; which hold is `enabled_sources`' to say."""
    return _words(value, ("memory", "sessions"))


def modalities(value: Any) -> tuple[str, ...]:
    """Read the kinds of media; `all` means image and audio."""
    found = _words(value, ("image", "audio", "all"))
    return ("image", "audio") if "all" in found else found


def _words(value: Any, known: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(_must("be a list", value))
    for item in value:
        if item not in known:
            raise ValueError(_must(f"list only {', '.join(known)}", item))
    return tuple(dict.fromkeys(value))


def extra_paths(value: Any) -> tuple[tuple[str, str], ...]:
    """Read paths, each a text or `{path, pattern}`, as `(path, pattern)`; empty ones are left out.

    The first of two that are the same stays.
    """
    if not isinstance(value, list):
        raise ValueError(_must("be a list of paths", value))
    return tuple(dict.fromkeys(pair for item in value if (pair := _extra_path(item))[0]))


def _extra_path(item: Any) -> tuple[str, str]:
    if isinstance(item, str):
        return item.strip(), ""
    if isinstance(item, dict) and isinstance(item.get("path"), str):
        pattern = item.get("pattern")
        return item["path"].strip(), pattern.strip() if isinstance(pattern, str) else ""
    raise ValueError(_must("list texts or objects with a path", item))


def enabled_sources(written: Iterable[str], *, sessions: bool) -> tuple[str, ...]:
    """The sources that hold: transcripts only where they are allowed, notes where nothing is."""
    found = tuple(name for name in written if name != "sessions" or sessions)
    return found or ("memory",)


def normalised_weights(vector: float, keyword: float) -> tuple[float, float]:
    """Two weights, each clamped to 0 to 1, divided by their sum; 0.7 and 0.3 when that is 0."""
    vector, keyword = share(vector), share(keyword)
    total = vector + keyword
    return (vector / total, keyword / total) if total > 0 else DEFAULT_WEIGHTS


def candidate_count(max_results: int, times: float) -> int:
    """How many candidates each leg gives: 1 to 200."""
    return min(MAX_CANDIDATES, max(1, math.floor(max_results * times)))


def chunk_size(tokens: int, overlap: int) -> tuple[int, int]:
    """Tokens of a chunk (at least 1) and of its overlap (below them, at least 0)."""
    return max(1, tokens), min(max(0, tokens - 1), max(0, overlap))


def _must(what: str, value: Any) -> str:
    if isinstance(value, str):
        shown = repr(value) if len(value) <= 60 else "a long text"
    elif isinstance(value, bool):
        shown = "true" if value else "false"
    elif isinstance(value, int | float):
        shown = f"{value:.10g}" if abs(value) <= _LARGEST else "a number that large"
    else:
        shown = {dict: "an object", list: "a list", type(None): "null"}.get(type(value), "that")
    return f"must {what}, not {shown}"


Layout = Literal["agents.defaults.memorySearch", "memory.search"]
OLD_LAYOUT: Final = "agents.defaults.memorySearch"
"""Where the keys are up to 2026.7.1, with `agents.list[].memorySearch` for one agent."""
NEW_LAYOUT: Final = "memory.search"
"""Where the keys are from 2026.8.1 on, with `agents.entries.*.memory.search` for one agent."""

DEFAULT_AGENT: Final = "main"


@dataclass(frozen=True, slots=True)
class Key:
    """A key below the root of either layout, the field that takes its value, how it is read."""

    name: str
    field: str
    read: Callable[[Any], Any]
    """From the parsed value to the field's; raises `ValueError` that says what it must be."""


def _key(name: str, read: Callable[[Any], Any], default: _Read) -> _Read:
    """A field that is read from a key below the root of either layout."""
    value: _Read = field(default=default, metadata={"name": name, "read": read})
    return value


@dataclass(frozen=True, slots=True)
class MemorySearchConfig:
    """Memory search of one agent, defaults and clamps applied as OpenClaw up to 2026.7 does.

    The defaults are those of OpenClaw 2026.4. What a release makes of them, above all the ones
    with fixed values, is `effective`'s to say. API keys and header values are never in here.
    """

    enabled: bool = _key("enabled", flag, True)
    provider: str = _key("provider", word, "auto")
    model: str = _key("model", text, "")
    """As written; empty means the provider's default."""
    fallback: str = _key("fallback", word, "none")
    sources: tuple[str, ...] = _key("sources", sources, ("memory",))
    session_memory: bool = _key("experimental.sessionMemory", flag, False)
    remember_across_conversations: bool = _key("rememberAcrossConversations", flag, False)
    extra_paths: tuple[str, ...] = _key("extraPaths", extra_paths, ())
    """As written, `${VAR}` filled in; relative ones are below the workspace."""
    extra_path_patterns: tuple[tuple[str, str], ...] = ()
    """`(path, glob)` for each extra path that is narrowed down (2026.9)."""
    remote_base_url: str = _key("remote.baseUrl", text, "")
    remote_headers: tuple[str, ...] = _key("remote.headers", names, ())
    """The names alone, lower-case and sorted."""
    remote_api_key_set: bool = _key("remote.apiKey", is_set, False)
    remote_batch_enabled: bool = _key("remote.batch.enabled", flag, False)
    output_dimensionality: int | None = _key("outputDimensionality", count(1), None)
    input_type: str = _key("inputType", text, "")
    query_input_type: str = _key("queryInputType", text, "")
    document_input_type: str = _key("documentInputType", text, "")
    local_model_path: str = _key("local.modelPath", text, "")
    local_model_cache_dir: str = _key("local.modelCacheDir", text, "")
    store_path: str = _key("store.path", text, "")
    """The database of generation 1 where it is not at its usual place."""
    tokenizer: str = _key("store.fts.tokenizer", one_of("unicode61", "trigram"), "unicode61")
    vector_enabled: bool = _key("store.vector.enabled", flag, True)
    vector_extension_path: str = _key("store.vector.extensionPath", text, "")
    chunk_tokens: int = _key("chunking.tokens", whole, 400)
    chunk_overlap: int = _key("chunking.overlap", whole, 80)
    max_results: int = _key("query.maxResults", count(1), 6)
    min_score: float = _key("query.minScore", share, 0.35)
    hybrid_enabled: bool = _key("query.hybrid.enabled", flag, True)
    vector_weight: float = _key("query.hybrid.vectorWeight", share, 0.7)
    text_weight: float = _key("query.hybrid.textWeight", share, 0.3)
    candidate_multiplier: int = _key("query.hybrid.candidateMultiplier", multiplier, 4)
    mmr_enabled: bool = _key("query.hybrid.mmr.enabled", flag, False)
    mmr_lambda: float = _key("query.hybrid.mmr.lambda", finite_or(DEFAULT_LAMBDA, share), 0.7)
    decay_enabled: bool = _key("query.hybrid.temporalDecay.enabled", flag, False)
    half_life_days: int = _key("query.hybrid.temporalDecay.halfLifeDays", half_life, 30)
    cache_enabled: bool = _key("cache.enabled", flag, True)
    cache_max_entries: int | None = _key("cache.maxEntries", finite_or(None, floored(1)), None)
    multimodal_enabled: bool = _key("multimodal.enabled", flag, False)
    multimodal_modalities: tuple[str, ...] = _key("multimodal.modalities", modalities, ())
    multimodal_max_file_bytes: int = _key("multimodal.maxFileBytes", count(1), 10 * 2**20)
    sync_on_session_start: bool = _key("sync.onSessionStart", flag, True)
    sync_on_search: bool = _key("sync.onSearch", flag, True)
    sync_watch: bool = _key("sync.watch", flag, True)
    watch_debounce_ms: int = _key("sync.watchDebounceMs", count(0), 1500)
    interval_minutes: float = _key("sync.intervalMinutes", positive, 0)
    delta_bytes: int = _key("sync.sessions.deltaBytes", floored(0), 100_000)
    delta_messages: int = _key("sync.sessions.deltaMessages", floored(0), 50)
    post_compaction_force: bool = _key("sync.sessions.postCompactionForce", flag, True)
    citations: str = "auto"
    """`memory.citations`: on, off or auto."""
    set_keys: frozenset[str] = frozenset()
    """The dotted keys below the root of the layout that were written, `query.maxResults`."""


KEYS: Final = tuple(
    Key(one.metadata["name"], one.name, one.metadata["read"])
    for one in fields(MemorySearchConfig)
    if one.metadata
)


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
