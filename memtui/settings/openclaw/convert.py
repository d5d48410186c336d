"""OpenClaw's memory search as memtui's own settings, and a ranking as OpenClaw's configuration."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any, Final

from msgspec import Struct

from memtui.model import DateRule, Fusion, Ranking
from memtui.model.rankings import SearchMode
from memtui.settings.openclaw.releases import effective, ignored_keys, release_named
from memtui.settings.openclaw.schema import (
    DEFAULT_HALF_LIFE,
    DEFAULT_LAMBDA,
    DEFAULT_WEIGHTS,
    KEYS,
    MAX_CANDIDATES,
    AgentConfig,
    MemorySearchConfig,
    candidate_count,
    normalised_weights,
)
from memtui.settings.schema import leaves, with_values

RANKING_FIELDS: Final = {
    "max_results": "ranking.k",
    "min_score": "ranking.min_score",
    "vector_weight": "ranking.vector_weight",
    "text_weight": "ranking.keyword_weight",
    "candidate_multiplier": "ranking.candidate_multiplier",
    "mmr_enabled": "ranking.mmr.enabled",
    "mmr_lambda": "ranking.mmr.lambda",
    "decay_enabled": "ranking.decay.enabled",
    "half_life_days": "ranking.decay.half_life_days",
}
"""Fields of the configuration that make a ranking, and memtui's settings for the same."""
_SETTINGS: Final = {
    **RANKING_FIELDS,
    "chunk_tokens": "chunking.tokens",
    "chunk_overlap": "chunking.overlap",
}
_NAMES: Final = {key.field: key.name for key in KEYS}
_QUIET: Final = frozenset({"enabled", "fallback", "remote.apiKey", "provider", "model", "sources"})
"""Keys that need no line of their own when they are not taken over."""


def with_fields(ranking: Ranking, values: Mapping[str, Any]) -> Ranking:
    """Return a ranking with values of fields of the configuration; those of no ranking are left."""
    by_key = {
        RANKING_FIELDS[field].removeprefix("ranking."): value
        for field, value in values.items()
        if field in RANKING_FIELDS
    }
    if "decay.half_life_days" in by_key:
        by_key["decay.half_life_days"] = float(by_key["decay.half_life_days"])
    return with_values(ranking, by_key)


class Conversion(Struct, frozen=True):
    """memtui's settings by dotted key, where each comes from, and what has no counterpart."""

    settings: Mapping[str, Any]
    sources: Mapping[str, str]
    """For each setting the key below the root of the layout, or a phrase."""
    cannot: tuple[str, ...]


def to_settings(agent: AgentConfig, release: str) -> Conversion:
    """Translate an agent's memory search, as `release` acts on it, into settings of memtui.

    Every ranking value is there, also those of OpenClaw's defaults, so that the result does not
    depend on memtui's. What `release` ignores is not taken over. Raises `SettingsError` for
    a release without a profile.
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
        cannot.append(f"{key} false: memtui asks both legs; the vector leg has all the weight")
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
    if "sessions" in search.sources:
        cannot.append("sources sessions: memtui's own index has no transcripts")
    cannot += [f"{key}: has no effect in OpenClaw {name}" for key in ignored]
    taken = {*sources.values(), *map(_NAMES.get, _SETTINGS), "query.hybrid.enabled"}
    rest = sorted(written - taken - _QUIET)
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
    """Write a ranking in the key layout of `release`.

    Every key of the ranking that the release has is written, with OpenClaw's default beside those
    that differ from it. Raises `SettingsError` for a release without a profile.
    """
    rules, defaults = release_named(release), effective(MemorySearchConfig(), release)
    days = ranking.decay.half_life_days
    values = {
        "max_results": min(MAX_CANDIDATES, max(1, ranking.k)),
        "min_score": ranking.min_score or 0.0,
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
    own = f"openclaw-{release}"
    decay, mmr, candidates = ranking.decay, ranking.mmr, ranking.candidates
    weights = (ranking.vector_weight, ranking.keyword_weight)
    dates = {"2026.2": DateRule.OPENCLAW_2026_2, "2026.9": DateRule.OPENCLAW_2026_8}
    if ranking.profile != own:
        yield f"profile {ranking.profile}: order of the stages and rules are those of {own}"
    if ranking.k > MAX_CANDIDATES:
        yield f"k {ranking.k}: more than {MAX_CANDIDATES} candidates are never ranked"
    if ranking.min_score is None:
        yield "no minimum score: 0 is the lowest, results below it are left out"
    if ranking.fusion is not Fusion.WEIGHTED_SUM:
        yield f"fusion {ranking.fusion.value}: OpenClaw only adds weighted scores"
    if decay.enabled and decay.floor > 0:
        yield f"decay floor {decay.floor:g}: OpenClaw has none, decay goes to 0"
    if decay.enabled and decay.dates is not dates.get(release, DateRule.OPENCLAW_2026_4):
        yield f"dates of decay: by the rule of {own}, not {decay.dates.value}"
    if ranking.rerank.enabled:
        yield "rerank: OpenClaw has none"
    if ranking.dedup:
        yield "dedup: OpenClaw has none"
    if ranking.search_mode is SearchMode.KEYWORD_ONLY:
        yield 'keyword leg alone: a matter of the provider (provider: "none")'
    if release == "2026.9":
        if ranking.search_mode is SearchMode.VECTOR_ONLY:
            yield "vector leg alone: hybrid search is always on"
        if weights != DEFAULT_WEIGHTS:
            yield f"weights {weights[0]:g} and {weights[1]:g}: fixed at 0.7 and 0.3"
        if candidates != MAX_CANDIDATES:
            yield f"{candidates} candidates of each leg: fixed at {MAX_CANDIDATES}"
        if not mmr.enabled:
            yield "MMR off: always on"
        elif mmr.lambda_ != DEFAULT_LAMBDA:
            yield f"MMR lambda {mmr.lambda_:g}: fixed at 0.7"
        if not decay.enabled:
            yield "decay off: always on"
        elif decay.half_life_days != DEFAULT_HALF_LIFE:
            yield f"half-life {decay.half_life_days:g} days: fixed at 30"
        return
    if not math.isclose(sum(weights), 1.0, abs_tol=1e-9):
        shares = "{:.4g} and {:.4g}".format(*normalised_weights(*weights))
        yield f"weights {weights[0]:g} and {weights[1]:g}: divided by their sum, {shares}"
    times = written["candidate_multiplier"]
    if ranking.candidate_multiplier != times:
        yield f"candidate multiplier {ranking.candidate_multiplier}: {_MOST_TIMES} is the most"
    taken = candidate_count(written["max_results"], times)
    if candidates != taken:
        yield f"{candidates} candidates of each leg: OpenClaw takes {taken}"
    days = written["half_life_days"]
    if decay.enabled and decay.half_life_days != days:
        yield f"half-life {decay.half_life_days:g} days: whole days, {days}"
    if release == "2026.2" and (mmr.enabled or decay.enabled):
        yield "MMR and decay: only from 2026.2.17 on"
