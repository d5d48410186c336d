"""Styles of numbers and codes on screen; their words are those of every report."""

from __future__ import annotations

import os
from collections.abc import Mapping

from textual.content import Content

from memtui.model import IndexState, Leg, LegStatus, Stage
from memtui.report.words import (
    DAY,
    FUSION_WORDS,
    HOUR,
    LEG_UNITS,
    MAPPING_WORDS,
    MINUS,
    MINUTE,
    NOTHING,
    REASON_WORDS,
    SECOND,
    STAGE_WORDS,
    ago,
    clock,
    count,
    days,
    duration,
    leg_note,
    leg_reason,
    number,
    percent,
    rank,
    reason_words,
    rounded,
    score,
    short_number,
    sparkline,
)
from memtui.report.words import count as counted
from memtui.report.words import short_age as age
from memtui.text.sanitize import safe_line
from memtui.text.sizes import size_words as size

__all__ = [
    "DAY",
    "FUSION_WORDS",
    "HOUR",
    "LEG_GLYPHS",
    "LEG_STATUS_GLYPHS",
    "LEG_STATUS_STYLES",
    "LEG_STYLES",
    "LEG_UNITS",
    "MAPPING_WORDS",
    "MINUS",
    "MINUTE",
    "MUTED",
    "NOTHING",
    "REASON_WORDS",
    "REPLACING_STAGES",
    "SECOND",
    "STAGE_STYLES",
    "STAGE_WORDS",
    "STATE_STYLES",
    "age",
    "ago",
    "clock",
    "count",
    "counted",
    "days",
    "duration",
    "fit",
    "home_relative",
    "leg_note",
    "leg_reason",
    "number",
    "percent",
    "rank",
    "reason_words",
    "rounded",
    "score",
    "short_number",
    "size",
    "sparkline",
    "state_word",
]

MUTED = "$foreground 68%"
"""The style of labels and asides; `$text-muted` has no colour inside `Content`."""

LEG_GLYPHS: Mapping[Leg, str] = {Leg.VECTOR: "█", Leg.KEYWORD: "▒"}
LEG_STYLES: Mapping[Leg, str] = {Leg.VECTOR: "$leg-vector", Leg.KEYWORD: "$leg-keyword"}
STAGE_STYLES: Mapping[Stage, str] = {
    Stage.FUSION: "$foreground",
    Stage.IDENTITY: "$leg-rerank",
    Stage.IMPORTANCE: "$leg-rerank",
    Stage.PROJECT: "$leg-rerank",
    Stage.TIERS: "$leg-rerank",
    Stage.DECAY: "$leg-decay",
    Stage.RERANK: "$leg-rerank",
    Stage.DEDUP: "$leg-decay",
    Stage.MIN_SCORE: "$leg-decay",
    Stage.MMR: "$leg-mmr",
    Stage.EXACT_PATH: "$leg-rerank",
    Stage.CUT: "$leg-decay",
}
REPLACING_STAGES: frozenset[Leg | Stage] = frozenset(
    stage for stage, style in STAGE_STYLES.items() if style == "$leg-rerank"
)
"""Stages whose step is drawn as a new score rather than as a part of the sum."""

STATE_STYLES: Mapping[IndexState, str] = {
    IndexState.READY: "$state-ok",
    IndexState.INDEXING: "$state-warn",
    IndexState.STALE: "$state-warn",
    IndexState.DEGRADED: "$state-warn",
    IndexState.ERROR: "$state-error",
    IndexState.NO_INDEX: "$state-warn",
}
LEG_STATUS_GLYPHS: Mapping[LegStatus, str] = {
    LegStatus.OK: "✓",
    LegStatus.SKIPPED: "○",
    LegStatus.PENDING: "…",
    LegStatus.FAILED: "✗",
}
LEG_STATUS_STYLES: Mapping[LegStatus, str] = {
    LegStatus.OK: "$state-ok",
    LegStatus.SKIPPED: "$state-warn",
    LegStatus.PENDING: "$state-warn",
    LegStatus.FAILED: "$state-error",
}


def state_word(state: IndexState) -> str:
    """The state as words: `no index`, not `no_index`."""
    return state.value.replace("_", " ")


def home_relative(path: str) -> str:
    """Write a folder with `~` for the home folder, safe for one line."""
    home = os.path.expanduser("~")
    inside = path == home or path.startswith(home + os.sep)
    return safe_line("~" + path[len(home) :] if inside and len(home) > 1 else path)


def fit(content: Content, width: int) -> Content:
    """Cut a line to `width` cells, at least one, with an ellipsis where something is lost."""
    return content.truncate(max(width, 1), ellipsis=True)
