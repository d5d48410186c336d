"""Numbers, ages and reason codes in words, for people."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memtui.model import Chunk, DateRule, Leg, LegState, LegStatus, Reason, Stage
from memtui.model.inquiry import Station
from memtui.model.status import FileState
from memtui.ranking.decay import age_in_days, chunk_day

LEG_UNITS: Final[Mapping[Leg, str]] = {Leg.VECTOR: "cosine", Leg.KEYWORD: "bm25"}

STAGE_WORDS: Final[Mapping[Stage, str]] = {
    Stage.FUSION: "fused",
    Stage.IDENTITY: "exact name",
    Stage.DECAY: "decay",
    Stage.IMPORTANCE: "importance",
    Stage.PROJECT: "project",
    Stage.TIERS: "names first",
    Stage.RERANK: "rerank",
    Stage.DEDUP: "dedup",
    Stage.MIN_SCORE: "minimum",
    Stage.MMR: "mmr",
    Stage.EXACT_PATH: "exact path",
    Stage.CUT: "cut",
}
STATION_WORDS: Final[Mapping[Station, str]] = {
    Station.DISCOVERED: "discovered",
    Station.INDEXED: "indexed",
    Station.KEYWORD_LEG: "keyword leg",
    Station.VECTOR_LEG: "vector leg",
    Station.KEYWORD_POOL: "keyword pool",
    Station.VECTOR_POOL: "vector pool",
}

_REASONS: Final[Mapping[Reason, str]] = {
    Reason.SYMLINK: "a link, not followed",
    Reason.IGNORED: "ignored",
    Reason.NOT_REGULAR: "not a regular file",
    Reason.UNREADABLE: "not readable",
    Reason.TOO_LARGE: "too large",
    Reason.DUPLICATE_FILE: "another name of a file that is indexed",
    Reason.OUTSIDE_ROOT: "outside the memory folder",
    Reason.VANISHED: "vanished",
    Reason.EMPTY_QUERY: "the query is empty",
    Reason.ONLY_STOP_WORDS: "the query has only stop words",
    Reason.NO_TERMS: "the query has no words",
    Reason.QUERY_TOO_SHORT: "the query is too short",
    Reason.ZERO_QUERY_VECTOR: "the model sees nothing in the query",
    Reason.SCRIPT_NOT_SUPPORTED: "the model cannot read this script",
    Reason.DISABLED: "turned off",
    Reason.NO_INDEX: "no index",
    Reason.NO_VECTORS: "no vectors yet",
    Reason.PROVIDER_FAILED: "the embedding provider failed",
    Reason.DIMENSIONS_DIFFER: "the index holds vectors of another length",
    Reason.INDEX_FAILED: "the index cannot be read",
    Reason.EXTENSION_MISSING: "sqlite-vec cannot be loaded",
    Reason.NOT_REPRODUCIBLE: "not reproducible here",
    Reason.FILE_NAME: "date in the file name",
    Reason.FRONT_MATTER: "date in the front matter",
    Reason.FILE_TIME: "time of the file",
    Reason.EVERGREEN: "no date: evergreen",
    Reason.NO_DATE: "no date, and no file to take one from",
    Reason.OUTSIDE_CANDIDATES: "outside the candidates",
    Reason.DUPLICATE_TEXT: "the text of a better result",
    Reason.BELOW_MIN_SCORE: "below the minimum score",
    Reason.CUT_AT_K: "below the last shown rank",
    Reason.OTHER_PROJECT: "of another project",
    Reason.NOT_MATCHED: "nothing of what was asked for finds it",
    Reason.PATH_ALONE: "found by its path alone: no BM25 value",
    Reason.FILTERED: "left out by a filter or a quoted phrase",
    Reason.NO_VECTOR: "no usable vector of the model",
    Reason.NOT_INDEXED: "not in the index",
    Reason.TOO_MANY: "too many to count at once",
    Reason.NO_FILE: "there is no such file",
    Reason.NOT_A_NOTE: "not a file that the memory holds",
    Reason.NOT_YET_INDEXED: "not indexed yet",
    Reason.STALE: "changed since it was indexed",
    Reason.NO_CHUNK_AT_LINE: "no chunk at this line",
    Reason.TERM_MISSING: "a required word is missing",
    Reason.TOKENIZER_DROPS: "the tokenizer drops the words",
    Reason.OTHER_MODEL: "its vector is of another model",
    Reason.ZERO_VECTOR: "its vector is zero",
    Reason.PUSHED_DOWN: "pushed down",
    Reason.RELAXED: "below the minimum, let through by the profile's rule",
    Reason.EXACT_PATH: "the query names the file",
    Reason.SUBSTRING_ONLY: "found by substrings: no BM25 value",
    Reason.REDUNDANT: "like a better result",
    Reason.FIRST: "first choice",
}


_FILE_STATES: Final[Mapping[FileState, str]] = {
    FileState.CURRENT: "as indexed",
    FileState.STALE: "stale: changed since it was indexed",
    FileState.ORPHAN: "orphan: no longer in the memory",
    FileState.NEVER_INDEXED: "never indexed",
    FileState.SKIPPED: "skipped",
}


def file_state(state: FileState) -> str:
    """How a file and an agent's index agree."""
    return _FILE_STATES[state]


def reason_words(reason: Reason) -> str:
    """A reason code in words; a code without words speaks for itself."""
    return _REASONS.get(reason, reason.value.replace("_", " "))


def leg_words(state: LegState) -> str:
    """How a leg answered."""
    if state.status is LegStatus.OK:
        return "ok"
    if state.reason is Reason.NOT_REPRODUCIBLE and state.detail:
        return state.detail
    detail = f": {state.detail}" if state.detail else ""
    return f"{state.status} ({reason_words(state.reason)}{detail})"


def score(value: float) -> str:
    """A score with three decimals; a dash when it is not finite."""
    return f"{value:.3f}" if math.isfinite(value) else "-"


def number(value: object) -> str:
    """A number without needless zeros, at most six digits behind the point."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if not math.isfinite(value):
        return "-"
    text = f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return text if float(text) or not value else f"{value:.3g}"


def exact(value: float) -> str:
    """A number so that reading it back gives the same float."""
    return repr(float(value))


def short(value: float) -> str:
    """A score with four decimals, or two digits where those are all 0; a dash for none."""
    if not math.isfinite(value):
        return "-"
    text = f"{value:.4f}"
    return text if float(text) or not value else f"{value:.2g}"


def brief(value: object) -> str:
    """As `number`, but at most three digits behind the point."""
    return number(round(value, 3) or value if isinstance(value, float) else value)


@dataclass(frozen=True, slots=True)
class Spell:
    """How numbers are written: scores, and everything else that was compared."""

    score: Callable[[float], str]
    number: Callable[[object], str]

    def __call__(self, value: float) -> str:
        """Write a score."""
        return self.score(value)


EXACT: Final = Spell(exact, number)
"""For text: a score can be read back to the last bit."""
SHORT: Final = Spell(short, brief)
"""For pictures."""


def count(value: int, noun: str, after: str = "") -> str:
    """`1 file`, `2 files`; `after` follows the noun: `2 files to index`."""
    plural = f"{noun if value == 1 else noun + 's'}{after}"
    return f"{value:,} {plural}".replace(",", " ")


def age_of(chunk: Chunk, rule: DateRule, now: datetime) -> float | None:
    """Age of a chunk in days, `None` for an evergreen one."""
    day, _ = chunk_day(chunk, rule)
    return None if day is None else age_in_days(day, now)


def short_age(days: float | None) -> str:
    """`3d`, `5mo`, `2y`, `today`, `ahead` for a date to come, `ever` for none."""
    if days is None:
        return "ever"
    if days <= -1:
        return "ahead"
    if days < 1:
        return "today"
    if days < 60:
        return f"{int(days)}d"
    if days < 730:
        return f"{int(days / 30.44)}mo"
    return f"{int(days / 365.25)}y"


def long_age(days: float | None) -> str:
    """An age as a sentence says it."""
    if days is None:
        return "no date"
    if days <= -1:
        return f"{count(int(-days), 'day')} ahead"
    return "today" if days < 1 else f"{count(int(days), 'day')} old"


def moved(places: int) -> str:
    """Movement against the rank after fusion: `+2`, `-1`, `=`."""
    return f"{places:+d}" if places else "="


def cells_of(text: str) -> int:
    """How many cells of a terminal a line takes."""
    return sum(map(_width, text))


def padded(text: str, width: int) -> str:
    """A line that takes `width` cells: filled with blanks, or cut off at the end."""
    if cells_of(text) > width:
        text = text[: fitting(text, width - 1)] + "…"
    return text + " " * (width - cells_of(text))


def ending(text: str, width: int) -> str:
    """The end of a path that takes at most `width` cells."""
    if cells_of(text) <= width:
        return text
    kept = fitting(text[::-1], width - 1)
    return "…" + text[len(text) - kept :]


def fitting(text: str, cells: int) -> int:
    """How many characters of a line fit into so many cells of a terminal."""
    if len(text) <= cells and text.isascii():
        return len(text)
    used = 0
    for place, character in enumerate(text):
        used += _width(character)
        if used > cells:
            return place
    return len(text)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def duration(seconds: float) -> str:
    """`38 ms`, `2.4 s`, `1:05 min`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02} min"
