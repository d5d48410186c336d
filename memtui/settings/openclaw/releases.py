"""A configuration as a release acts on it, as memtui's settings, and a ranking as one.

A release has keys that it does not know and values that it has fixed. Whatever takes one by its
name raises `SettingsError` for a release without a profile.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from memtui.data import read_table
from memtui.errors import SettingsError
from memtui.model import CONVERSATIONS, DateRule, Fusion, Ranking, SearchMode
from memtui.model.status import Identity, IndexGeneration
from memtui.settings.openclaw import schema
from memtui.settings.openclaw.read import expanded
from memtui.settings.schema import leaves, with_values

PREFIX: Final = "openclaw-"
"""The beginning of the name of a release's profile."""
_VERSION = re.compile(r"v?(\d{4})\.(\d{1,3})(?:\.(\d{1,5}))?")

ShortTerms: TypeAlias = Literal["none", "cjk", "all"]
"""The terms of fewer than three characters that are searched as substrings under trigram."""
Expansion: TypeAlias = Literal[
    "without_provider_always", "without_provider", "when_empty", "when_thin"
]
"""The case in which a query is searched keyword by keyword, and how the answers are merged.

`without_provider_always`: each keyword instead of the query, best score. `without_provider`:
only when the whole query finds nothing, best score. `when_empty`: with a provider too, at
most six, best text score. `when_thin`: also when the query fills fewer than the candidates,
beside its own hits.
"""


class Release(Struct, frozen=True):
    """The effect of a release on a configuration, and the rules by which it searches."""

    name: str
    layout: schema.Layout
    """The table with the keys of memory search."""
    no_effect: tuple[str, ...]
    """Keys and whole tables of memory search of which it takes no notice."""
    fixed: Mapping[str, Any]
    """Values, by the field of the configuration, that it has whatever is written."""
    short_terms: ShortTerms
    expansion: Expansion
    generations: tuple[IndexGeneration, ...]
    """The forms of an index that it can have made."""
    before: tuple[int, ...] = ()
    """The first version that follows the rules of the next release; empty for the newest."""
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

    def ignores(self, key: str) -> bool:
        """Return whether the release takes no notice of a dotted key."""
        return any(key == name or key.startswith(f"{name}.") for name in self.no_effect)


_TABLES: Final = read_table("openclaw-releases.toml")
RELEASES: Final = {
    PREFIX + name: msgspec.convert({"name": name, **rules}, Release)
    for name, rules in _TABLES["releases"].items()
}
"""The releases that rankings have profiles for, by profile, oldest first."""
RELEASE_NAMES: Final = tuple(release.name for release in RELEASES.values())


def release_named(name: str) -> Release:
    """Return a release by its name or its profile's; raises `SettingsError` for no release."""
    profile = PREFIX + name.removeprefix(PREFIX)
    if profile in RELEASES:
        return RELEASES[profile]
    raise SettingsError(
        f"{name} is not how the agent's program searches",
        hint=f"choose one of {', '.join(RELEASES)}",
    )


def effective(config: schema.MemorySearchConfig, release: str) -> schema.MemorySearchConfig:
    """Put the values that hold in `release` in the place of those that are written.

    Provider `auto` (also: none written) is `openai` from 2026.6 on, and the model is the
    provider's default where none is written and the provider is known.
    """
    rules, base = release_named(release), schema.MemorySearchConfig()
    values = {key.field: getattr(base, key.field) for key in schema.KEYS if rules.ignores(key.name)}
    for field, value in rules.fixed.items():
        values[field] = tuple(value) if isinstance(value, list) else value
    if not (config.session_memory or rules.name == "2026.9"):
        values["sources"] = tuple(s for s in config.sources if s != CONVERSATIONS) or base.sources
    provider = config.provider
    if provider == "auto" and rules.name in {"2026.7", "2026.9"}:
        provider = "openai"
    # A model is stored without the provider in front of it.
    prefixes = _TABLES["providers"].get(provider, {}).get("prefixes", ())
    prefix = next((one for one in prefixes if config.model.startswith(one)), "")
    model = config.model.removeprefix(prefix) or default_model(provider)
    return replace(config, **values, provider=provider, model=model)


def ignored_keys(config: schema.MemorySearchConfig, release: str) -> tuple[str, ...]:
    """Return the written keys of which a release takes no notice, in the order of `KEYS`."""
    names = filter(release_named(release).ignores, (key.name for key in schema.KEYS))
    return tuple(name for name in names if name in config.set_keys)


def default_model(provider: str) -> str:
    """Return the model of a provider when none is written; empty where memtui cannot know it."""
    return str(_TABLES["providers"].get(provider, {}).get("model", ""))


def release_of_version(version: str) -> Release | None:
    """Return the release whose rules a version follows, 2026.4 for `2026.4.26`; `None` for none."""
    match = _VERSION.match(version.strip())
    if match is None:
        return None
    number = tuple(int(part or 0) for part in match.groups())
    return next(one for one in RELEASES.values() if not one.before or number < one.before)


def release_of(config: schema.OpenClawConfig) -> tuple[str, str]:
    """Return the release that a configuration is for, and how that was told, as a phrase.

    The version that wrote the file decides where it has this layout, else the layout: the newer
    one is that of 2026.9, the older one was last that of 2026.7. Without any key, 2026.9.
    """
    written = release_of_version(config.version)
    if written is not None and config.layout in {None, written.layout}:
        return written.name, f"the configuration was last written by {config.version}"
    if config.layout == schema.OLD_LAYOUT:
        return "2026.7", f"the last release that has its keys under {schema.OLD_LAYOUT}"
    if config.layout == schema.NEW_LAYOUT:
        return "2026.9", f"its keys are under {schema.NEW_LAYOUT}"
    return "2026.9", "the configuration does not tell, so the newest"


KEYWORD_ONLY_MODEL: Final = "fts-only"
NO_PROVIDER: Final = "none"
CHUNKING_VERSION: Final = 5
"""The version that 2026.9 writes; 2026.8.1 wrote 3, earlier releases nothing."""
PROVENANCE_VERSION: Final = 1

_ANY_ORDER = re.compile(r"[a-z0-9/]*")
"""Paths that every collation sorts alike."""


def json_digest(value: Any) -> str:
    """Return the sha256 of a value's JSON, as the program hashes scopes and cache keys."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def expected_identity(
    search: schema.MemorySearchConfig,
    workspace: Path | None,
    release: str,
    *,
    home: Path | None = None,
) -> Identity:
    """Return what an index of this release and configuration should say; `None`: not known.

    Not known are the provider that `auto` chooses up to 2026.5, a local model's name, the key of
    a provider whose cache key data holds an address, and the length of vectors. 2026.2 wrote
    neither sources, scope nor tokenizer.
    """
    name, config = release_named(release).name, effective(search, release)
    oldest, newest = name == "2026.2", name == "2026.9"
    # A local model is stored under names of its own.
    model = None if config.provider in {"auto", "local"} else config.model or None
    key = scope = None
    if config.provider == NO_PROVIDER:
        model = KEYWORD_ONLY_MODEL
        # In this order, as an adapter without cache key data of its own has them.
        key = json_digest({"provider": NO_PROVIDER, "model": KEYWORD_ONLY_MODEL})
    paths = None if oldest else _scope_paths(config, workspace, home, expands=newest)
    if paths is not None:
        multimodal = {
            "enabled": config.multimodal_enabled,
            "modalities": sorted(config.multimodal_modalities),
            "maxFileBytes": config.multimodal_max_file_bytes,
        }
        scope = json_digest({"extraPaths": paths, "multimodal": multimodal})
    return Identity(
        model=model,
        provider=None if config.provider == "auto" else config.provider,
        provider_key=key,
        sources=None if oldest else tuple(sorted(config.sources)),
        scope_hash=scope,
        chunk_tokens=config.chunk_tokens,
        chunk_overlap=config.chunk_overlap,
        vector_dims=None,
        fts_tokenizer=None if oldest else config.tokenizer,
        chunking_version=CHUNKING_VERSION if newest else None,
        provenance_version=PROVENANCE_VERSION if newest else None,
    )


def _scope_paths(
    config: schema.MemorySearchConfig, workspace: Path | None, home: Path | None, *, expands: bool
) -> list[str | Mapping[str, str]] | None:
    """Return extra paths as they are hashed; `None` where place or order cannot be known.

    `expands` holds for 2026.9: `~` is the home folder. Up to 2026.7 they are sorted by UTF-16
    unit, from 2026.8 on by the rules of a language.
    """
    patterns = dict(config.extra_path_patterns)
    absolute: dict[tuple[str, str], None] = {}
    for path in config.extra_paths:
        if expands and path.startswith("~"):
            if home is None:
                return None
            place = str(expanded(path, home))
        elif not os.path.isabs(path) and workspace is None:
            return None
        else:
            place = os.path.abspath(os.path.join(workspace or "", path))
        absolute[(place.replace("\\", "/"), patterns.get(path, ""))] = None
    ordered = sorted(absolute, key=lambda pair: pair[0].encode("utf-16-be", "surrogatepass"))
    if expands and len(ordered) > 1:
        paths = [path for path, _ in ordered]
        is_plain = not patterns and all(_ANY_ORDER.fullmatch(path) for path in paths)
        if not is_plain or any(later.startswith(path) for path, later in pairwise(paths)):
            return None
    return [{"path": path, "pattern": pattern} if pattern else path for path, pattern in ordered]


_SETTINGS: Final = {
    field: f"{table}.{name}"
    for table in ("ranking", "chunking")
    for field, name in _TABLES[table].items()
}
"""memtui's settings, by the fields of the configuration that they are taken from."""
_NAMES: Final = {key.field: key.name for key in schema.KEYS}
_QUIET: Final = frozenset({"enabled", "fallback", "remote.apiKey", "provider", "model", "sources"})
"""Keys that need no line of their own when they are not taken over."""


def with_fields(ranking: Ranking, values: Mapping[str, Any]) -> Ranking:
    """Return a ranking with values of fields of the configuration; those of no ranking are left."""
    names = _TABLES["ranking"]
    by_key = {names[field]: value for field, value in values.items() if field in names}
    if "decay.half_life_days" in by_key:
        by_key["decay.half_life_days"] = float(by_key["decay.half_life_days"])
    return with_values(ranking, by_key)


class Conversion(Struct, frozen=True):
    """memtui's settings by dotted key, where each comes from, and what has no counterpart."""

    settings: Mapping[str, Any]
    sources: Mapping[str, str]
    """For each setting the key below the root of the layout, or a phrase."""
    cannot: tuple[str, ...]


def to_settings(agent: schema.AgentConfig, release: str) -> Conversion:
    """Translate an agent's memory search, as `release` acts on it, into settings of memtui.

    Every ranking value is there, also those of OpenClaw's defaults, so that the result does not
    depend on memtui's. What `release` ignores is not taken over.
    """
    name, search = release_named(release).name, effective(agent.search, release)
    ignored = ignored_keys(agent.search, release)
    settings: dict[str, Any] = {}
    sources: dict[str, str] = {}
    cannot: list[str] = []

    def put(setting: str, value: Any, source: str) -> None:
        """Keep a setting; a number is brought within the range that the schema has for it."""
        for meta in leaves()[setting].metas:
            inside = value if meta.ge is None else max(value, meta.ge)
            inside = inside if meta.le is None else min(inside, meta.le)
            if inside != value:
                cannot.append(f"{source} {value:g}: {inside:g} is as far as memtui goes")
            value = inside
        settings[setting], sources[setting] = value, source

    put("ranking.profile", f"openclaw-{name}", "the release")
    for field, setting in _SETTINGS.items():
        value = getattr(search, field)
        put(setting, float(value) if field == "half_life_days" else value, _NAMES[field])
    if not search.hybrid_enabled:
        key = "query.hybrid.enabled"
        put("ranking.vector_weight", 1.0, key)
        put("ranking.keyword_weight", 0.0, key)
        cannot.append(
            f"{key} false: memtui does both matches; the meaning match has all the weight"
        )
    if search.extra_paths:
        patterns = dict(search.extra_path_patterns)
        paths = tuple(
            f"{path.rstrip('/')}/{patterns[path]}" if path in patterns else path
            for path in search.extra_paths
        )
        put("memory.extra_paths", paths, "extraPaths")
    written = search.set_keys - set(ignored)
    if "sync.watch" in written:
        put("index.watch", search.sync_watch, "sync.watch")
    if "sync.watchDebounceMs" in written:
        put("index.debounce_seconds", search.watch_debounce_ms / 1000, "sync.watchDebounceMs")
    if search.provider == "none":
        put("embedding.provider", "none", "provider")
    else:
        model = f" {search.model}" if search.model else ""
        cannot.append(
            f"provider {search.provider}{model}: memtui's own index keeps memtui's provider"
        )
    if not search.enabled:
        cannot.append("enabled false: memtui searches all the same")
    if CONVERSATIONS in search.sources:
        cannot.append("sources sessions: memtui's own index has no transcripts")
    cannot += [f"{key}: has no effect in OpenClaw {name}" for key in ignored]
    used_keys = {*sources.values(), *map(_NAMES.get, _SETTINGS), "query.hybrid.enabled"}
    rest = sorted(written - used_keys - _QUIET)
    if rest:
        cannot.append(f"no counterpart: {', '.join(rest)}")
    return Conversion(settings, sources, tuple(dict.fromkeys(cannot)))


_MOST_TIMES: Final = 20
_INDENT: Final = "  "


class Fragment(Struct, frozen=True):
    """JSON5 to merge into openclaw.json, and one line for each parameter that it cannot say."""

    text: str
    cannot: tuple[str, ...]


def fragment(ranking: Ranking, release: str) -> Fragment:
    """Write a ranking in the key layout of `release`, with OpenClaw's default where it differs."""
    rules, defaults = release_named(release), effective(schema.MemorySearchConfig(), release)
    days = ranking.decay.half_life_days
    values = {
        "max_results": min(schema.MAX_CANDIDATES, max(1, ranking.k)),
        "min_score": min(1.0, ranking.min_score or 0.0),
        "hybrid_enabled": ranking.search_mode is not SearchMode.VECTOR_ONLY,
        "vector_weight": ranking.vector_weight,
        "text_weight": ranking.keyword_weight,
        "candidate_multiplier": min(_MOST_TIMES, max(1, ranking.candidate_multiplier)),
        "mmr_enabled": ranking.mmr.enabled,
        "mmr_lambda": ranking.mmr.lambda_,
        "decay_enabled": ranking.decay.enabled,
        "half_life_days": max(1, math.floor(days)) if math.isfinite(days) else 36500,
    }
    document: dict[str, Any] = {}
    for field, value in values.items():
        if rules.ignores(_NAMES[field]):
            continue
        *tables, name = f"{rules.layout}.{_NAMES[field]}".split(".")
        table = reduce(lambda outer, part: outer.setdefault(part, {}), tables, document)
        default = getattr(defaults, field)
        note = "" if value == default else f" // default {_json(default)}"
        table[name] = f"{_json(value)},{note}"
    lines = [f"// OpenClaw {rules.name}: merge into openclaw.json", "{", *_lines(document), "}"]
    return Fragment("\n".join(lines) + "\n", tuple(_cannot(ranking, rules.name, values)))


def _lines(table: Mapping[str, Any], indent: str = _INDENT) -> Iterator[str]:
    """Yield the lines of an object whose values are written already."""
    for name, value in table.items():
        if isinstance(value, str):
            yield f"{indent}{name}: {value}"
        else:
            yield f"{indent}{name}: {{"
            yield from _lines(value, indent + _INDENT)
            yield f"{indent}}},"


def _json(value: Any) -> str:
    is_whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if is_whole else value)


def _cannot(ranking: Ranking, release: str, written: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a release lacks, has fixed, or has otherwise; `written` values by field."""
    own = f"{PREFIX}{release}"
    decay, mmr, mode = ranking.decay, ranking.mmr, ranking.search_mode
    weights = (ranking.vector_weight, ranking.keyword_weight)
    dates = {"2026.2": DateRule.OPENCLAW_2026_2, "2026.9": DateRule.OPENCLAW_2026_8}
    limit = schema.candidate_count(written["max_results"], written["candidate_multiplier"])
    cases = {
        "profile": ranking.profile != own,
        "k": ranking.k > schema.MAX_CANDIDATES,
        "no_minimum": ranking.min_score is None,
        "fusion": ranking.fusion is not Fusion.WEIGHTED_SUM,
        "floor": decay.enabled and decay.floor > 0,
        "dates": decay.enabled and decay.dates is not dates.get(release, DateRule.OPENCLAW_2026_4),
        "rerank": ranking.rerank.enabled,
        "dedup": ranking.dedup,
        "keyword_only": mode is SearchMode.KEYWORD_ONLY,
    }
    if release == "2026.9":
        cases |= {
            "vector_only": mode is SearchMode.VECTOR_ONLY,
            "fixed_weights": weights != schema.DEFAULT_WEIGHTS,
            "fixed_candidates": ranking.candidates != schema.MAX_CANDIDATES,
            "mmr_off": not mmr.enabled,
            "fixed_lambda": mmr.enabled and mmr.lambda_ != schema.DEFAULT_LAMBDA,
            "decay_off": not decay.enabled,
            "fixed_half_life": decay.enabled and decay.half_life_days != schema.DEFAULT_HALF_LIFE,
        }
    else:
        cases |= {
            "divided_weights": not math.isclose(sum(weights), 1.0, abs_tol=1e-9),
            "multiplier": ranking.candidate_multiplier != written["candidate_multiplier"],
            "candidates": ranking.candidates != limit,
            "half_life": decay.enabled and decay.half_life_days != written["half_life_days"],
            "too_early": release == "2026.2" and (mmr.enabled or decay.enabled),
        }
    shares = schema.normalised_weights(*weights)
    for name in (name for name, holds in cases.items() if holds):
        words = _TABLES["cannot"][name]
        yield words.format(ranking, own=own, written=written, limit=limit, shares=shares)
