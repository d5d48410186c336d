"""Recorded answers of the agent's own program: what it found, under which settings, when."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from memtui.errors import SettingsError
from memtui.model import Ranking, SearchMode
from memtui.settings.files import UnreadableJson, read_json
from memtui.settings.openclaw import schema as v
from memtui.text.sanitize import safe_line

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RecordedHit:
    """A hit of a recorded leg: the first 16 digits of the chunk id, and its scores."""

    chunk: str
    score: float
    vector_score: float | None
    text_score: float | None


@dataclass(frozen=True, slots=True)
class RecordedLeg:
    """One search of one leg as the program ran it."""

    kind: str
    """`searchKeyword` or `searchVector`."""
    argument: str | None
    """What the keyword leg was asked."""
    limit: int
    hits: tuple[RecordedHit, ...]


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """A result as the program's `--json` prints it."""

    path: str
    start_line: int
    end_line: int
    score: float
    vector_score: float | None
    text_score: float | None
    snippet: str | None
    source: str | None

    @property
    def place(self) -> tuple[str, int, int]:
        """What tells a chunk apart in the program's answers, which hold no ids."""
        return self.path, self.start_line, self.end_line


@dataclass(frozen=True, slots=True)
class RecordedQuery:
    """One query and what the program answered; its options are taken as they are."""

    text: str
    max_results: int | None
    min_score: float | None
    sources: tuple[str, ...]
    """The sources that were asked for; empty: those of the settings."""
    active_project_keys: tuple[str, ...] | None
    results: tuple[RecordedResult, ...]
    legs: tuple[RecordedLeg, ...] | None
    """`None` when legs were not recorded."""


@dataclass(frozen=True, slots=True)
class RecordedSettings:
    """The settings of a recording, clamped as the program clamps what is configured.

    `None`: not written there, so the index's own hold; of two weights, the default of the one
    that is not written.
    """

    max_results: int | None = None
    min_score: float | None = None
    hybrid: bool | None = None
    vector_weight: float | None = None
    text_weight: float | None = None
    candidate_multiplier: int | None = None
    mmr: bool | None = None
    mmr_lambda: float | None = None
    decay: bool | None = None
    half_life_days: int | None = None
    provider: str | None = None
    model: str | None = None
    tokenizer: str | None = None
    sources: tuple[str, ...] | None = None
    active_project_keys: tuple[str, ...] | None = None

    def onto(self, base: Ranking) -> Ranking:
        """The ranking that was recorded; weights are divided by their sum, as the program does."""
        vector, text = self._weights(base)
        return replace(
            base,
            k=_given(self.max_results, base.k),
            min_score=_given(self.min_score, base.min_score),
            candidate_multiplier=_given(self.candidate_multiplier, base.candidate_multiplier),
            vector_weight=vector,
            keyword_weight=text,
            mmr=replace(
                base.mmr,
                enabled=_given(self.mmr, base.mmr.enabled),
                lambda_=_given(self.mmr_lambda, base.mmr.lambda_),
            ),
            decay=replace(
                base.decay,
                enabled=_given(self.decay, base.decay.enabled),
                half_life_days=_given(self.half_life_days, base.decay.half_life_days),
            ),
            project_keys=_given(self.active_project_keys, base.project_keys),
        )

    def mode(self, otherwise: SearchMode) -> SearchMode:
        """Which legs the program searched with."""
        if self.provider is not None and self.provider in {"none", ""}:
            return SearchMode.KEYWORD_ONLY
        if self.hybrid is None:
            return otherwise
        return SearchMode.HYBRID if self.hybrid else SearchMode.VECTOR_ONLY

    def _weights(self, base: Ranking) -> tuple[float, float]:
        if self.vector_weight is None and self.text_weight is None:
            return base.vector_weight, base.keyword_weight
        vector, text = v.DEFAULT_WEIGHTS
        return v.normalised_weights(
            _given(self.vector_weight, vector), _given(self.text_weight, text)
        )


@dataclass(frozen=True, slots=True)
class Recording:
    """A file of answers."""

    now: datetime | None
    """The program's clock; `None`: not written."""
    settings: RecordedSettings
    queries: tuple[RecordedQuery, ...]


def load_recording(path: Path) -> Recording:
    """Read a recording, plain or gzipped JSON.

    Either an object with `queries` (and perhaps `now` in milliseconds and `settings`), or a list
    of objects with `query` and `results`. Raises `SettingsError` that names the query, by its
    number from 1, and the key that cannot be used.
    """
    try:
        return _recording(read_json(path))
    except UnreadableJson as error:
        raise _bad(path, error.what, error.line) from None
    except ValueError as error:
        raise _bad(path, str(error)) from None


@dataclass(frozen=True, slots=True)
class _Fields:
    """One object of a recording, read key by key; raises `ValueError` that names the key."""

    content: Mapping[str, Any]
    place: str = ""
    """What comes before a key in an error: `query 3: opts.`."""

    def get(self, key: str, read: Callable[[Any], T]) -> T | None:
        """A value; `None` where there is none, or null."""
        value = self.content.get(key)
        return None if value is None else self._read(key, value, read)

    def need(self, key: str, read: Callable[[Any], T]) -> T:
        """A value that must be there."""
        if key not in self.content:
            raise ValueError(f"{self.place}{key} is missing")
        return self._read(key, self.content[key], read)

    def inner(self, key: str) -> _Fields:
        """An object below; empty where there is none, or null."""
        content: Mapping[str, Any] = self.get(key, _object) or {}
        return _Fields(content, f"{self.place}{key}.")

    def _read(self, key: str, value: Any, read: Callable[[Any], T]) -> T:
        try:
            return read(value)
        except ValueError as error:
            raise ValueError(f"{self.place}{key} {error}") from None


def _recording(content: Any) -> Recording:
    if isinstance(content, list):
        content = {"queries": content}
    if not isinstance(content, dict):
        raise ValueError("it is neither an object nor a list")
    if "queries" not in content and "query" in content:
        content = {"queries": [content]}
    fields = _Fields(content)
    queries = fields.need("queries", _list)
    if not queries:
        raise ValueError("it holds no query")
    return Recording(
        now=fields.get("now", _moment),
        settings=_settings(fields.inner("settings")),
        queries=tuple(_query(query, f"query {n}") for n, query in enumerate(queries, start=1)),
    )


def _settings(settings: _Fields) -> RecordedSettings:
    query = settings.inner("query")
    hybrid = query.inner("hybrid")
    mmr, decay = hybrid.inner("mmr"), hybrid.inner("temporalDecay")
    sources = settings.get("sources", _names)
    return RecordedSettings(
        max_results=query.get("maxResults", v.count(1)),
        min_score=query.get("minScore", _share),
        hybrid=hybrid.get("enabled", v.flag),
        vector_weight=hybrid.get("vectorWeight", _share),
        text_weight=hybrid.get("textWeight", _share),
        candidate_multiplier=hybrid.get("candidateMultiplier", _multiplier),
        mmr=mmr.get("enabled", v.flag),
        mmr_lambda=mmr.get("lambda", _share),
        decay=decay.get("enabled", v.flag),
        half_life_days=decay.get("halfLifeDays", _half_life),
        provider=settings.get("provider", _name),
        model=settings.get("model", _name),
        tokenizer=settings.inner("fts").get("tokenizer", v.one_of("unicode61", "trigram")),
        sources=None if sources is None else v.enabled_sources(sources, sessions=True),
        active_project_keys=settings.get("activeProjectKeys", _names),
    )


def _query(content: Any, place: str) -> RecordedQuery:
    query = _fields(content, place)
    options = query.inner("opts")
    results = query.need("results", _list)
    legs = query.get("legs", _list)
    return RecordedQuery(
        text=query.need("query", _text),
        max_results=options.get("maxResults", v.count(1)),
        min_score=options.get("minScore", _finite),
        sources=options.get("sources", _names) or (),
        active_project_keys=options.get("activeProjectKeys", _names),
        results=tuple(
            _result(result, f"{place}, result {n}") for n, result in enumerate(results, start=1)
        ),
        legs=None
        if legs is None
        else tuple(_leg(leg, f"{place}, leg {n}") for n, leg in enumerate(legs, start=1)),
    )


def _result(content: Any, place: str) -> RecordedResult:
    result = _fields(content, place)
    return RecordedResult(
        path=result.need("path", _text),
        start_line=result.need("startLine", v.whole),
        end_line=result.need("endLine", v.whole),
        score=result.need("score", _finite),
        vector_score=result.get("vectorScore", _finite),
        text_score=result.get("textScore", _finite),
        snippet=result.get("snippet", _text),
        source=result.get("source", _text),
    )


def _leg(content: Any, place: str) -> RecordedLeg:
    leg = _fields(content, place)
    hits = leg.need("hits", _list)
    return RecordedLeg(
        kind=leg.need("leg", _text),
        argument=leg.get("arg", _text),
        limit=leg.need("limit", v.whole),
        hits=tuple(_hit(hit, f"{place}, hit {n}") for n, hit in enumerate(hits, start=1)),
    )


def _hit(content: Any, place: str) -> RecordedHit:
    keys = ("id", "score", "vectorScore", "textScore")
    if not isinstance(content, list) or len(content) != len(keys):
        raise ValueError(f"{place} must be a list of {', '.join(keys)}")
    hit = _Fields(dict(zip(keys, content, strict=True)), f"{place}: ")
    return RecordedHit(
        chunk=hit.need("id", _text),
        score=hit.need("score", _finite),
        vector_score=hit.get("vectorScore", _finite),
        text_score=hit.get("textScore", _finite),
    )


def _fields(content: Any, place: str) -> _Fields:
    if not isinstance(content, dict):
        raise ValueError(f"{place} must be an object")
    return _Fields(content, f"{place}: ")


def _object(value: Any) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise ValueError("must be an object")


def _list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    raise ValueError("must be a list")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise ValueError("must be a text")


def _name(value: Any) -> str:
    """A text that a database can be asked for."""
    name = _text(value)
    if any("\ud800" <= character <= "\udfff" for character in name):
        raise ValueError("must not have half of a surrogate pair")
    return name


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(map(_name, value))
    raise ValueError("must be a list of texts")


def _finite(value: Any) -> float:
    found = v.number(value)
    if math.isinf(found):
        raise ValueError("must be a finite number")
    return found


def _share(value: Any) -> float:
    return v.share(_finite(value))


def _multiplier(value: Any) -> int:
    return v.multiplier(_finite(value))


def _half_life(value: Any) -> int:
    return v.half_life(_finite(value))


def _moment(value: Any) -> datetime:
    milliseconds = _finite(value)
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        raise ValueError("must be milliseconds since 1970, within the calendar") from None


def _given(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value


def _bad(path: Path, what: str, line: int | None = None) -> SettingsError:
    place = safe_line(str(path)) + (f":{line}" if line else "")
    return SettingsError(
        f"cannot use the recorded answers in {place}: {what}",
        hint='it must hold {"queries": [{"query": …, "results": […]}, …]}',
    )
