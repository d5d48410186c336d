"""How numbers, times and codes are written on screen: pure functions, no Textual.

Nothing here computes a score; every value comes from a trace or a status and is only spelled out.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from datetime import UTC, datetime

from textual.content import Content

from memtui.model import (
    Fusion,
    IndexState,
    Leg,
    LegState,
    LegStatus,
    Reason,
    ScoreMapping,
    Stage,
)
from memtui.text.sanitize import safe_line
from memtui.text.sizes import size_words

THIN_SPACE = "\u2009"
MINUS = "\u2212"
NOTHING = "–"
MUTED = "$foreground 68%"
"""The style of labels and asides; `$text-muted` has no colour inside `Content`."""

SECOND, MINUTE, HOUR, DAY = 1, 60, 3600, 86_400
_EVER_DAYS = 36_500


# --- numbers ------------------------------------------------------------------------------------


def score(value: float) -> str:
    """A score with three decimals and a true minus sign: `0.819`, `−0.043`."""
    return number(value, 3)


def number(value: float, decimals: int = 2) -> str:
    """A number with fixed decimals; `–` for one that is not finite."""
    if not math.isfinite(value):
        return NOTHING
    text = f"{abs(value):.{decimals}f}"
    return MINUS + text if value < 0 and float(text) != 0 else text


def short_number(value: float, decimals: int = 3) -> str:
    """As `number`, without zeros at the end: `30`, `0.7`, `0.125`."""
    text = number(value, decimals)
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(value: int) -> str:
    """A whole number in groups of three: `1 284` (thin space)."""
    return f"{value:,}".replace(",", THIN_SPACE).replace("-", MINUS)


def counted(value: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun: `1 file`, `1 284 chunks`."""
    return f"{count(value)} {noun if value == 1 else plural or noun + 's'}"


def rounded(value: int) -> str:
    """A count that need not be exact: `840`, `12 k`, `0.5 M`, `1.3 G`."""
    for limit, unit in ((1e9, "G"), (1e5, "M" if value >= 1e5 else "k"), (1e4, "k")):
        if value >= limit:
            size = {"G": 1e9, "M": 1e6, "k": 1e3}[unit]
            scaled = value / size
            return f"{scaled:.0f} {unit}" if scaled >= 10 else f"{scaled:.1f} {unit}"
    return count(value)


def percent(part: float, whole: float) -> str:
    """A share in whole per cent that is 100 only when it is all: `61 %`."""
    if whole <= 0:
        return NOTHING
    share = math.floor(100 * part / whole)
    return f"{min(100, max(0, share))} %"


def size(bytes_: int) -> str:
    """A file size: `840 B`, `12 KB`, `5.8 MB`."""
    return size_words(bytes_)


def rank(position: int | None) -> str:
    """A rank as `#4`, or a dash for none."""
    return NOTHING if position is None else f"#{position}"


SPARKS = "▁▂▃▄▅▆▇█"


def sparkline(ranks: list[int]) -> str:
    """Ranks as a line of bars, the best rank highest; empty when there is no movement to show."""
    if len(ranks) < 2 or min(ranks) == max(ranks):
        return ""
    low, high = min(ranks), max(ranks)
    top = len(SPARKS) - 1
    return "".join(SPARKS[round(top * (high - value) / (high - low))] for value in ranks)


# --- times --------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """How long something took: `38 ms`, `2.4 s`, `1:05 min`, `2:10 h`."""
    if seconds < 0.9995:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), MINUTE)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    return f"{minutes // 60}:{minutes % 60:02} h"


def clock(seconds: float) -> str:
    """Time left as `0:12` or `1:02:07`."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, HOUR)
    minutes, secs = divmod(rest, MINUTE)
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"


def age(days: float | None) -> str:
    """An age in the narrow form of a row: `now`, `5h`, `3d`, `14mo`, `6y`; `ever` for no date."""
    if days is None or days >= _EVER_DAYS:
        return "ever"
    if days < 0:
        return "ahead" if days <= -1 else "today"
    if days < 1 / 24:
        return "now"
    if days < 1:
        return f"{int(days * 24)}h"
    if days < 366:
        return f"{int(days)}d"
    months = int(days / 30.4375)
    return f"{months}mo" if months < 36 else f"{int(days / 365.25)}y"


def days(value: float) -> str:
    """A number of days in words: `3 d`, `0.5 d`, `today`, `2 d ahead`."""
    if value < 0:
        return f"{short_number(-value, 1)} d ahead" if value <= -0.05 else "today"
    if value < 0.05:
        return "today"
    return f"{value:.0f} d" if value >= 10 else f"{short_number(value, 1)} d"


def ago(when: datetime | None, now: datetime | None = None) -> str:
    """The time since a moment: `just now`, `3 s ago`, `5 min ago`, `2 h ago`, `12 d ago`."""
    if when is None:
        return "never"
    reference = now if now is not None else datetime.now(UTC)
    if when.tzinfo is None and reference.tzinfo is not None:
        when = when.astimezone()
    seconds = (reference - when).total_seconds()
    if seconds < 2:
        return "just now"
    for limit, unit, name in ((MINUTE, SECOND, "s"), (HOUR, MINUTE, "min"), (DAY, HOUR, "h")):
        if seconds < limit:
            return f"{int(seconds // unit)} {name} ago"
    return f"{int(seconds // DAY)} d ago"


# --- words --------------------------------------------------------------------------------------

LEG_GLYPHS: Mapping[Leg, str] = {Leg.VECTOR: "█", Leg.KEYWORD: "▒"}
LEG_STYLES: Mapping[Leg, str] = {Leg.VECTOR: "$leg-vector", Leg.KEYWORD: "$leg-keyword"}
LEG_UNITS: Mapping[Leg, str] = {Leg.VECTOR: "cos", Leg.KEYWORD: "bm25"}

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
STAGE_WORDS: Mapping[Stage, str] = {
    Stage.FUSION: "fused",
    Stage.IDENTITY: "by name",
    Stage.IMPORTANCE: "weight",
    Stage.PROJECT: "project",
    Stage.TIERS: "on top",
    Stage.DECAY: "decay",
    Stage.RERANK: "rerank",
    Stage.DEDUP: "dedup",
    Stage.MIN_SCORE: "min",
    Stage.MMR: "mmr",
    Stage.EXACT_PATH: "shown as",
    Stage.CUT: "cut",
}
STAGE_NAMES: Mapping[Stage, str] = {
    Stage.FUSION: "fusion",
    Stage.IDENTITY: "the score that an exact name is ranked by",
    Stage.IMPORTANCE: "the importance multiplier",
    Stage.PROJECT: "the project multiplier",
    Stage.TIERS: "exact names first",
    Stage.DECAY: "temporal decay",
    Stage.RERANK: "composite rerank",
    Stage.DEDUP: "duplicate removal",
    Stage.MIN_SCORE: "the minimum score",
    Stage.MMR: "MMR",
    Stage.EXACT_PATH: "the score that an exact name is shown with",
    Stage.CUT: "the cut at k",
}

REPLACING_STAGES: frozenset[Leg | Stage] = frozenset(
    {
        Stage.IDENTITY,
        Stage.IMPORTANCE,
        Stage.PROJECT,
        Stage.TIERS,
        Stage.RERANK,
        Stage.EXACT_PATH,
    }
)
"""Stages whose step is drawn as a new score rather than as a part of the sum."""

REASON_WORDS: Mapping[Reason, str] = {
    Reason.OK: "ok",
    Reason.SYMLINK: "a link, not followed",
    Reason.IGNORED: "ignored",
    Reason.NOT_REGULAR: "not a regular file",
    Reason.UNREADABLE: "cannot be read",
    Reason.TOO_LARGE: "too large",
    Reason.DUPLICATE_FILE: "the same file under another name",
    Reason.OUTSIDE_ROOT: "outside the memory folder",
    Reason.VANISHED: "vanished while it was read",
    Reason.NOT_A_TRANSCRIPT: "no transcript that is known",
    Reason.NO_MESSAGES: "no messages",
    Reason.GENERATED_RUN: "a run that the program had with itself",
    Reason.ARCHIVE_NOT_READ: "an archive, listed without its text",
    Reason.MALFORMED_LINES: "lines that are no record",
    Reason.LINE_TOO_LONG: "lines too long to read",
    Reason.EMPTY_QUERY: "the query is empty",
    Reason.ONLY_STOP_WORDS: "the query has only stop words",
    Reason.NO_TERMS: "the query has no words to look for",
    Reason.QUERY_TOO_SHORT: "the query is too short",
    Reason.ZERO_QUERY_VECTOR: "the query's vector is zero",
    Reason.SCRIPT_NOT_SUPPORTED: "the model does not read this script",
    Reason.DISABLED: "switched off",
    Reason.NO_INDEX: "no index yet",
    Reason.NO_VECTORS: "no vectors yet",
    Reason.PENDING: "still running",
    Reason.PROVIDER_FAILED: "provider failed",
    Reason.FALLBACK: "another provider answers",
    Reason.DIMENSIONS_DIFFER: "the index has other dimensions",
    Reason.INDEX_FAILED: "the index could not be read",
    Reason.EXTENSION_MISSING: "sqlite-vec is missing",
    Reason.NOT_REPRODUCIBLE: "not reproducible here",
    Reason.FILE_NAME: "file name",
    Reason.FRONT_MATTER: "front matter",
    Reason.FILE_TIME: "file time",
    Reason.EVERGREEN: "evergreen, no date",
    Reason.NO_DATE: "no date, and no file to ask",
    Reason.OUTSIDE_CANDIDATES: "outside the candidates of both legs",
    Reason.DUPLICATE_TEXT: "same text as a better result",
    Reason.BELOW_MIN_SCORE: "below the minimum score",
    Reason.CUT_AT_K: "below the last shown rank",
    Reason.OTHER_PROJECT: "belongs to another project",
    Reason.OFF: "off",
    Reason.RELAXED: "kept by the relaxed minimum",
    Reason.EXACT_PATH: "the query names the file",
    Reason.SUBSTRING_ONLY: "found by substrings, no BM25 value",
    Reason.REDUNDANT: "alike a better result",
    Reason.FIRST: "first choice, nothing above it",
    Reason.NOT_MATCHED: "not found by what was asked",
    Reason.PATH_ALONE: "found by its path alone",
    Reason.FILTERED: "left out by a filter or phrase",
    Reason.NO_VECTOR: "no vector",
    Reason.NOT_INDEXED: "not in the index",
    Reason.TOO_MANY: "too many to count at once",
    Reason.NO_FILE: "no such file",
    Reason.NOT_A_NOTE: "not a file of the memory",
    Reason.NOT_YET_INDEXED: "not indexed yet",
    Reason.STALE: "changed since it was indexed",
    Reason.NO_CHUNK_AT_LINE: "no chunk at this line",
    Reason.TERM_MISSING: "a required word is missing",
    Reason.TOKENIZER_DROPS: "the tokenizer drops the words",
    Reason.OTHER_MODEL: "its vector is of another model",
    Reason.ZERO_VECTOR: "its vector is zero",
    Reason.PUSHED_DOWN: "pushed down",
}

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
FUSION_WORDS: Mapping[Fusion, str] = {
    Fusion.WEIGHTED_SUM: "weighted sum",
    Fusion.RELATIVE_SCORE: "relative score",
    Fusion.RRF: "reciprocal rank",
}
MAPPING_WORDS: Mapping[ScoreMapping, str] = {
    ScoreMapping.CLAMP: "clamped",
    ScoreMapping.SIGNED: "signed",
    ScoreMapping.GIVEN: "as given",
}


def state_word(state: IndexState) -> str:
    """The state as words: `no index`, not `no_index`."""
    return state.value.replace("_", " ")


def reason_words(reason: Reason) -> str:
    """A reason code in words."""
    return REASON_WORDS[reason]


def leg_note(leg: Leg, state: LegState) -> str:
    """A leg that did not answer, for one line: `no vector: switched off`, `~ vector pending`."""
    if state.status is LegStatus.PENDING:
        # The last part says what to do: "needs openai/…; press Enter to ask api.openai.com".
        todo = safe_line(state.detail).rpartition("; ")[2]
        return f"~ {leg.value}: {todo}" if todo else f"~ {leg.value} pending"
    return f"no {leg.value}: {leg_reason(state, brief=True)}"


def leg_reason(state: LegState, *, brief: bool = False) -> str:
    """Why a leg did not answer: the detail where it says more than the reason."""
    words = reason_words(state.reason)
    told = state.reason is Reason.NOT_REPRODUCIBLE or state.status is LegStatus.PENDING
    if not told or not state.detail:
        return words
    detail = safe_line(state.detail)
    if brief:
        detail = detail.partition("; ")[0]
    unfinished = state.status is LegStatus.PENDING or detail.startswith(words)
    return detail if unfinished else f"{words}: {detail}"


def home_relative(path: str) -> str:
    """Write a folder with `~` for the home folder, safe for one line."""
    home = os.path.expanduser("~")
    inside = path == home or path.startswith(home + os.sep)
    return safe_line("~" + path[len(home) :] if inside and len(home) > 1 else path)


def fit(content: Content, width: int) -> Content:
    """Cut a line to `width` cells, at least one, with an ellipsis where something is lost."""
    return content.truncate(max(width, 1), ellipsis=True)
