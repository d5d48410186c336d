"""Recorded answers of the agent's own program: what it found, under which settings, when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memtui.errors import SettingsError
from memtui.model import Ranking, SearchMode
from memtui.settings.json_files import UnreadableJson, read_json
from memtui.text.sanitize import safe_line


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
    """One query and what the program answered."""

    text: str
    max_results: int | None
    min_score: float | None
    sources: tuple[str, ...] | None
    results: tuple[RecordedResult, ...]
    legs: tuple[RecordedLeg, ...] | None
    """`None` when legs were not recorded."""


@dataclass(frozen=True, slots=True)
class RecordedSettings:
    """The settings of a recording; `None`: not written there, so the index's own hold."""

    max_results: int | None = None
    min_score: float | None = None
    hybrid: bool | None = None
    vector_weight: float | None = None
    text_weight: float | None = None
    candidate_multiplier: float | None = None
    mmr: bool | None = None
    mmr_lambda: float | None = None
    decay: bool | None = None
    half_life_days: float | None = None
    provider: str | None = None
    model: str | None = None
    tokenizer: str | None = None
    sources: tuple[str, ...] | None = None
    active_project_keys: tuple[str, ...] = ()

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
            project_keys=self.active_project_keys or base.project_keys,
        )

    def mode(self, otherwise: SearchMode) -> SearchMode:
        """Which legs the program searched with."""
        if self.provider is not None and self.provider in {"none", ""}:
            return SearchMode.KEYWORD_ONLY
        if self.hybrid is None:
            return otherwise
        return SearchMode.HYBRID if self.hybrid else SearchMode.VECTOR_ONLY

    def _weights(self, base: Ranking) -> tuple[float, float]:
        if self.vector_weight is None or self.text_weight is None:
            return base.vector_weight, base.keyword_weight
        vector = min(1.0, max(0.0, self.vector_weight))
        text = min(1.0, max(0.0, self.text_weight))
        total = vector + text
        return (vector / total, text / total) if total > 0 else (0.7, 0.3)


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
    of objects with `query` and `results`. Raises `SettingsError` that says what is wrong where.
    """
    try:
        return _recording(read_json(path))
    except UnreadableJson as error:
        raise _bad(path, error.what, error.line) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _bad(path, _said(error)) from error


def _recording(content: Any) -> Recording:
    if isinstance(content, Sequence) and not isinstance(content, str):
        return Recording(None, RecordedSettings(), tuple(map(_query, content)))
    if "queries" not in content and "query" in content:
        content = {"queries": [content]}
    now = content.get("now")
    return Recording(
        now=datetime.fromtimestamp(float(now) / 1000, UTC) if now is not None else None,
        settings=_settings(content.get("settings") or {}),
        queries=tuple(map(_query, content["queries"])),
    )


def _settings(content: Mapping[str, Any]) -> RecordedSettings:
    query = content.get("query") or {}
    hybrid = query.get("hybrid") or {}
    mmr, decay = hybrid.get("mmr") or {}, hybrid.get("temporalDecay") or {}
    sources = content.get("sources")
    return RecordedSettings(
        max_results=query.get("maxResults"),
        min_score=query.get("minScore"),
        hybrid=hybrid.get("enabled"),
        vector_weight=hybrid.get("vectorWeight"),
        text_weight=hybrid.get("textWeight"),
        candidate_multiplier=hybrid.get("candidateMultiplier"),
        mmr=mmr.get("enabled"),
        mmr_lambda=mmr.get("lambda"),
        decay=decay.get("enabled"),
        half_life_days=decay.get("halfLifeDays"),
        provider=content.get("provider"),
        model=content.get("model"),
        tokenizer=(content.get("fts") or {}).get("tokenizer"),
        sources=tuple(sources) if sources else None,
        active_project_keys=tuple(content.get("activeProjectKeys") or ()),
    )


def _query(content: Mapping[str, Any]) -> RecordedQuery:
    options = content.get("opts") or {}
    legs = content.get("legs")
    sources = options.get("sources")
    return RecordedQuery(
        text=str(content["query"]),
        max_results=options.get("maxResults"),
        min_score=options.get("minScore"),
        sources=tuple(sources) if sources else None,
        results=tuple(map(_result, content["results"])),
        legs=tuple(map(_leg, legs)) if legs is not None else None,
    )


def _result(content: Mapping[str, Any]) -> RecordedResult:
    return RecordedResult(
        path=str(content["path"]),
        start_line=int(content["startLine"]),
        end_line=int(content["endLine"]),
        score=float(content["score"]),
        vector_score=_number(content.get("vectorScore")),
        text_score=_number(content.get("textScore")),
        snippet=content.get("snippet"),
        source=content.get("source"),
    )


def _leg(content: Mapping[str, Any]) -> RecordedLeg:
    return RecordedLeg(
        kind=str(content["leg"]),
        argument=content.get("arg"),
        limit=int(content["limit"]),
        hits=tuple(
            RecordedHit(str(chunk), float(score), _number(vector), _number(text))
            for chunk, score, vector, text in content["hits"]
        ),
    )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _given(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


def _bad(path: Path, what: str, line: int | None = None) -> SettingsError:
    place = safe_line(str(path)) + (f":{line}" if line else "")
    return SettingsError(
        f"cannot use the recorded answers in {place}: {what}",
        hint='it must hold {"queries": [{"query": …, "results": […]}, …]}',
    )


def _said(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing"
    return str(error) or type(error).__name__
