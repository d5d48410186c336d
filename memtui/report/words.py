"""Numbers, ages and codes in words: one wording for the command line, exports and every screen."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from memtui.model import (
    Chunk,
    DateRule,
    Failure,
    Fusion,
    Leg,
    LegState,
    LegStatus,
    Reason,
    ScoreMapping,
    Stage,
)
from memtui.model.browsing import CareRule
from memtui.model.inquiry import Station
from memtui.model.status import FileState
from memtui.ranking.decay import age_in_days, chunk_day
from memtui.text.sanitize import safe_line

MINUS: Final = "\u2212"
NOTHING: Final = "–"
SECOND, MINUTE, HOUR, DAY = 1, 60, 3600, 86_400
_EVER_DAYS = 36_500
_SPARKS = "▁▂▃▄▅▆▇█"

LEG_UNITS: Final[Mapping[Leg, str]] = {Leg.VECTOR: "cos", Leg.KEYWORD: "bm25"}

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
    Stage.MMR: "MMR",
    Stage.EXACT_PATH: "name score",
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
FUSION_WORDS: Final[Mapping[Fusion, str]] = {
    Fusion.WEIGHTED_SUM: "weighted sum",
    Fusion.RELATIVE_SCORE: "relative score",
    Fusion.RRF: "reciprocal rank",
}
MAPPING_WORDS: Final[Mapping[ScoreMapping, str]] = {
    ScoreMapping.CLAMP: "clamped",
    ScoreMapping.SIGNED: "signed",
    ScoreMapping.GIVEN: "as given",
}
PARAMETER_WORDS: Final[Mapping[str, str]] = {
    "vector_weight": "vector weight",
    "fusion": "fusion method",
    "rrf_k": "RRF constant",
    "decay.enabled": "temporal decay",
    "decay.half_life_days": "half-life",
    "decay.floor": "decay floor",
    "rerank.enabled": "composite rerank",
    "dedup": "duplicate removal",
    "min_score": "minimum score",
    "mmr.enabled": "MMR",
    "mmr.lambda": "MMR λ",
    "k": "results k",
    "candidate_multiplier": "candidates × k",
}
"""By the key of the settings."""

REASON_WORDS: Final[Mapping[Reason, str]] = {
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
    Reason.NO_TERMS: "the query has no words",
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
    Reason.INDEX_FAILED: "the index cannot be read",
    Reason.EXTENSION_MISSING: "sqlite-vec cannot be loaded",
    Reason.NOT_REPRODUCIBLE: "not reproducible here",
    Reason.FILE_NAME: "file name",
    Reason.FRONT_MATTER: "front matter",
    Reason.FILE_TIME: "file time",
    Reason.EVERGREEN: "evergreen, no date",
    Reason.NO_DATE: "no date, and no file to ask",
    Reason.OUTSIDE_CANDIDATES: "outside the candidates",
    Reason.DUPLICATE_TEXT: "same text as a better result",
    Reason.BELOW_MIN_SCORE: "below the minimum score",
    Reason.CUT_AT_K: "below the last shown rank",
    Reason.OTHER_PROJECT: "of another project",
    Reason.OFF: "off",
    Reason.RELAXED: "kept by the relaxed minimum",
    Reason.EXACT_PATH: "the query names the file",
    Reason.SUBSTRING_ONLY: "found by substrings: no BM25 value",
    Reason.REDUNDANT: "like a better result",
    Reason.FIRST: "first choice",
    Reason.NOT_MATCHED: "nothing that was asked finds it",
    Reason.PATH_ALONE: "found by its path alone: no BM25 value",
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
FAILURE_WORDS: Final[Mapping[Failure, str]] = {
    Failure.NOT_INSTALLED: "not installed",
    Failure.NO_FILE: "no file",
    Failure.BROKEN_FILE: "broken file",
    Failure.NO_KEY: "no key",
    Failure.BAD_SETTING: "wrong setting",
    Failure.KEY_REFUSED: "key refused",
    Failure.FORBIDDEN: "forbidden",
    Failure.NO_MODEL: "no such model",
    Failure.TOO_LARGE: "text too large",
    Failure.BAD_REQUEST: "bad request",
    Failure.RATE_LIMITED: "rate limited",
    Failure.SERVICE_DOWN: "service down",
    Failure.REDIRECTED: "redirected",
    Failure.BAD_ANSWER: "bad answer",
    Failure.DIMENSIONS_DIFFER: "other dimensions",
    Failure.TIMEOUT: "timeout",
    Failure.UNREACHABLE: "unreachable",
    Failure.CUT: "connection cut",
    Failure.MODEL_FAILED: "model failed",
    Failure.CLOSED: "closed",
}
FILE_STATE_WORDS: Final[Mapping[FileState, str]] = {
    FileState.CURRENT: "as indexed",
    FileState.STALE: "stale: changed since it was indexed",
    FileState.ORPHAN: "orphan: no longer in the memory",
    FileState.NEVER_INDEXED: "never indexed",
    FileState.SKIPPED: "skipped",
}
AGENT_GETS: Final[Mapping[str, str]] = {
    "search_disabled": "the agent gets nothing while its memory search is switched off",
    "qmd_backend": "another program answers the agent",
    "other_database_read": "the agent searches another database",
    "keyword_only_served": "the agent searches keywords only until its index is rebuilt",
    "paused": "the agent gets nothing until its index is rebuilt (openclaw memory index --force)",
}
"""By the code of the finding; every other one pauses the agent's search."""
LEFT_OUT_WORDS: Final[Mapping[str, str]] = {
    "no_text": "no text",
    "inter_session": "from another session",
    "system_wrapper": "a system message",
    "cron_prompt": "a scheduled prompt",
    "heartbeat_prompt": "a heartbeat",
    "heartbeat_reply": "the answer to a heartbeat",
    "silent_reply": "a silent reply",
    "exec_completion": "the end of a command",
    "heartbeat_turn": "part of a heartbeat",
    "recalled_memory": "recalled memory",
    "generated_run": "the program's own run",
    "meta": "the program's own note",
    "sidechain": "from a subagent",
    "command": "a command and its output",
    "compact_summary": "the summary of what was compacted",
    "context": "context that the program added",
    "instructions": "instructions of the program",
    "interrupted": "an interruption",
    "notification": "a notification",
    "program_reply": "an answer of the program itself",
    "duplicate": "recorded twice",
}
"""Why the index has none of a turn, by a code of `transcripts.generated.Dropped`."""


@dataclass(frozen=True, slots=True)
class RuleWords:
    """A rule of care: its name, what one thing that it judges is called, what it finds."""

    title: str
    judged: str
    about: str


RULE_WORDS: Final[Mapping[CareRule, RuleWords]] = {
    CareRule.NEAR_DUPLICATE: RuleWords(
        "Near-duplicates",
        "chunk",
        "Chunks that say nearly the same: both take places in a list where one would do.",
    ),
    CareRule.UNREACHABLE: RuleWords(
        "Unreachable files",
        "file",
        "Files that a query by their own first words does not bring into the top k.",
    ),
    CareRule.EMPTY_FILE: RuleWords(
        "Empty files", "file", "Files without any text that could be found."
    ),
    CareRule.LONG_FILE: RuleWords(
        "Long files", "file", "Files so long that their parts compete with each other."
    ),
    CareRule.DATED_FACT: RuleWords(
        "Dated facts in undated files",
        "file",
        "Facts with a date of their own in a file that has none: they never decay.",
    ),
    CareRule.BROKEN_LINK: RuleWords("Broken links", "file", "Links to notes that are not there."),
    CareRule.LONG_LINE: RuleWords(
        "Long lines", "file", "Lines so long that a chunk is cut in the middle of them."
    ),
    CareRule.CREDENTIAL: RuleWords(
        "Credentials",
        "file",
        "Text shaped like a key or a password; it is masked here, and stands in the file as it is.",
    ),
}
"""Every rule, in the order of the screen."""


# --- codes --------------------------------------------------------------------------------------


def reason_words(reason: Reason) -> str:
    """A reason code in words."""
    return REASON_WORDS[reason]


def step_name(step: Leg | Stage | Station) -> str:
    """A leg, a stage or a station in at most twelve cells."""
    if isinstance(step, Leg):
        return step.value
    return STAGE_WORDS[step] if isinstance(step, Stage) else STATION_WORDS[step]


def leg_words(state: LegState) -> str:
    """How a leg answered: `ok`, `skipped (the query is empty)`."""
    if state.status is LegStatus.OK:
        return "ok"
    if state.reason is Reason.NOT_REPRODUCIBLE and state.detail:
        return state.detail
    detail = f": {state.detail}" if state.detail else ""
    return f"{state.status} ({reason_words(state.reason)}{detail})"


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


def leg_note(leg: Leg, state: LegState) -> str:
    """A leg that did not answer, for one line: `no vector: switched off`, `~ vector pending`."""
    if state.status is LegStatus.PENDING:
        # The last part says what to do: "needs openai/…; press Enter to ask api.openai.com".
        todo = safe_line(state.detail).rpartition("; ")[2]
        return f"~ {leg.value}: {todo}" if todo else f"~ {leg.value} pending"
    return f"no {leg.value}: {leg_reason(state, brief=True)}"


def left_out_words(code: str) -> str:
    """Why the index has none of a turn; a code without words speaks for itself."""
    return safe_line(LEFT_OUT_WORDS.get(code, code.replace("_", " ")))


def left_out_counts(left_out: Mapping[str, int]) -> list[tuple[str, int]]:
    """Counts by code as words with their counts, the most frequent first."""
    ordered = sorted(left_out.items(), key=lambda item: -item[1])
    return [(left_out_words(code), number) for code, number in ordered]


# --- numbers ------------------------------------------------------------------------------------


def number(value: float, decimals: int = 2) -> str:
    """A number with fixed decimals and a true minus sign; `–` for one that is not finite."""
    if not math.isfinite(value):
        return NOTHING
    text = f"{abs(value):.{decimals}f}"
    return MINUS + text if value < 0 and float(text) != 0 else text


def score(value: float) -> str:
    """A score with three decimals: `0.819`, `−0.043`."""
    return number(value, 3)


def short_number(value: object, decimals: int = 3) -> str:
    """A number without needless zeros: `30`, `0.7`, `0.125`; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    text = number(value, decimals)
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.2g}" if text == "0" and value else text


@dataclass(frozen=True, slots=True)
class Spell:
    """How numbers are written: scores, and everything else that was compared."""

    score: Callable[[float], str]
    number: Callable[[object], str]

    def __call__(self, value: float) -> str:
        """Write a score."""
        return self.score(value)


EXACT: Final = Spell(lambda value: repr(float(value)), lambda value: short_number(value, 6))
"""For text: a score can be read back to the last bit."""
SHORT: Final = Spell(score, short_number)
"""For screens and pictures."""


def count(value: int, noun: str = "", plural: str = "", after: str = "") -> str:
    """A whole number in groups of three, with its noun: `1 284`, `1 file`, `2 files to index`."""
    digits = f"{value:,}".replace(",", " ").replace("-", MINUS)
    named = noun if value == 1 else plural or noun + "s"
    return f"{digits} {named}{after}" if noun else digits


def rounded(value: int) -> str:
    """A count that need not be exact: `840`, `12 k`, `0.5 M`, `1.3 G`."""
    for limit, unit in ((1e9, "G"), (1e5, "M" if value >= 1e5 else "k"), (1e4, "k")):
        if value >= limit:
            scaled = value / {"G": 1e9, "M": 1e6, "k": 1e3}[unit]
            return f"{scaled:.0f} {unit}" if scaled >= 10 else f"{scaled:.1f} {unit}"
    return count(value)


def percent(part: float, whole: float) -> str:
    """A share in whole per cent that is 100 only when it is all: `61 %`."""
    if whole <= 0:
        return NOTHING
    return f"{min(100, max(0, math.floor(100 * part / whole)))} %"


def rank(position: int | None) -> str:
    """A rank as `#4`, or a dash for none."""
    return NOTHING if position is None else f"#{position}"


def moved(places: int) -> str:
    """Movement against the rank after fusion: `+2`, `-1`, `=`."""
    return f"{places:+d}" if places else "="


def sparkline(ranks: list[int]) -> str:
    """Ranks as a line of bars, the best rank highest; empty when there is no movement to show."""
    if len(ranks) < 2 or min(ranks) == max(ranks):
        return ""
    low, high = min(ranks), max(ranks)
    top = len(_SPARKS) - 1
    return "".join(_SPARKS[round(top * (high - value) / (high - low))] for value in ranks)


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
    minutes, secs = divmod(max(0, round(seconds)), MINUTE)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"


def age_of(chunk: Chunk, rule: DateRule, now: datetime) -> float | None:
    """Age of a chunk in days, `None` for an evergreen one."""
    day, _ = chunk_day(chunk, rule)
    return None if day is None else age_in_days(day, now)


def short_age(days: float | None) -> str:
    """`today`, `3d`, `5mo`, `2y`, `ahead` for a date to come, `ever` for none."""
    if days is None or days >= _EVER_DAYS:
        return "ever"
    if days <= -1:
        return "ahead"
    if days < 1:
        return "today"
    if days < 60:
        return f"{int(days)}d"
    return f"{int(days / 30.4375)}mo" if days < 730 else f"{int(days / 365.25)}y"


def long_age(days: float | None) -> str:
    """An age as a sentence says it."""
    if days is None:
        return "no date"
    if days <= -1:
        return f"{count(int(-days), 'day')} ahead"
    return "today" if days < 1 else f"{count(int(days), 'day')} old"


def days(value: float) -> str:
    """A number of days in words: `3 d`, `0.5 d`, `today`, `2 d ahead`."""
    if abs(value) < 0.05:
        return "today"
    if value < 0:
        return f"{short_number(-value, 1)} d ahead"
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


# --- cells of a terminal ------------------------------------------------------------------------


def cells_of(text: str) -> int:
    """How many cells of a terminal a line takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def padded(text: str, width: int) -> str:
    """A line that takes `width` cells: filled with blanks, or cut off at the end."""
    if cells_of(text) > width:
        text = text[: fitting(text, width - 1)] + "…"
    return text + " " * (width - cells_of(text))


def ending(text: str, width: int, ellipsis: str = "…") -> str:
    """The end of a path that takes at most `width` cells."""
    if cells_of(text) <= width:
        return text
    kept = fitting(text[::-1], width - len(ellipsis))
    return ellipsis + text[len(text) - kept :]


def wrapped(line: str, width: int, indent: str = "") -> Iterator[str]:
    """Yield a line as several of at most `width` cells, broken at spaces where there are any.

    Only as much of the line is measured as may fit: one of megabytes is cut in linear time.
    """
    room = max(1, width - cells_of(indent))
    at = 0
    while True:
        count = room + 1
        while cells_of(head := line[at : at + count]) <= room and at + count < len(line):
            count *= 2  # characters without a width
        if cells_of(head) <= room:
            yield f"{indent}{head}".rstrip()
            return
        end = fitting(head, room) or 1
        space = head.rfind(" ", 1, end + 1)
        cut = space if space > 0 else end
        yield f"{indent}{head[:cut]}".rstrip()
        at += cut
        while line.startswith(" ", at):
            at += 1


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
