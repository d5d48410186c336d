"""Numbers, ages and codes in words: one wording for the command line, exports and every screen."""

from __future__ import annotations

import math
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, Final

from msgspec import Struct, convert

from memtui.data import read_table
from memtui.model import Chunk, Drop, Hit, Leg, LegState, LegStatus, Ranked, Reason, Stage
from memtui.model.browsing import CareRule
from memtui.model.inquiry import Station
from memtui.ranking.stages import DAY as ONE_DAY
from memtui.ranking.stages import chunk_day
from memtui.ranking.strength import Strength, measure, strength
from memtui.ranking.trace import best_passage, first_citing, stage_score
from memtui.retrieval.marks import snippet
from memtui.retrieval.query import day_rule, local_day
from memtui.text.sanitize import counted, safe_line

MINUS: Final = "\u2212"
NOTHING: Final = "–"
SECOND, MINUTE, HOUR, DAY = 1, 60, 3600, 86_400
_EVER_DAYS = 36_500
_LONGEST_CUT = 20
"""Characters that are left out at most so that a line ends with a whole word."""


class RuleWords(Struct, frozen=True):
    """A rule of care: its name, what one thing that it judges is called, what it finds."""

    title: str
    judged: str
    about: str
    advice: str


_WORDS: Final = read_table("words.toml")
WORDS: Final[Mapping[str, Mapping[str, str]]] = _WORDS
"""Words by their table and code, for the tables that have no name of their own below."""
LEG_WORDS: Final[Mapping[str, str]] = _WORDS["leg"]
FEATURE_WORDS: Final[Mapping[str, str]] = _WORDS["feature"]
VALUE_WORDS: Final[Mapping[str, str]] = {**_WORDS["fusion"], **_WORDS["value"]}
ARITHMETIC: Final[Mapping[str, list[str]]] = _WORDS["arithmetic"]
WEIGHT: Final = "weight: "
PARAMETER_WORDS: Final[Mapping[str, str]] = {
    **_WORDS["parameter"],
    **{f"context.{name}": f"{WEIGHT}{words}" for name, words in FEATURE_WORDS.items()},
}
REASON_WORDS: Final[Mapping[str, str]] = _WORDS["reason"]
reason_words: Final = REASON_WORDS.__getitem__
FILE_STATE_WORDS: Final[Mapping[str, str]] = _WORDS["file_state"]
FLAGS: Final[Mapping[str, str | list[str]]] = _WORDS["flag"]
PANEL_WORDS: Final[Mapping[str, list[str]]] = _WORDS["panel"]
PROFILE_WORDS: Final[Mapping[str, str]] = _WORDS["profile"]
ALIKE_WORDS: Final[Mapping[str, list[str]]] = _WORDS["alike"]
OUTCOME_WORDS: Final[Mapping[str, list[str]]] = _WORDS["outcome"]
VERDICT_WORDS: Final[Mapping[str, str]] = _WORDS["verdict"]
SWEPT_PARAMETERS: Final[Mapping[str, Mapping[str, Any]]] = _WORDS["swept"]
STRENGTH_MATCHES: Final[Mapping[str | None, str]] = {None: "", **_WORDS["strength_match"]}
WITHOUT_CONTEXT: Final = "without context: whole chunks, from their first line"
NOTHING_GOOD: Final = "nothing matches well"
RULE_WORDS: Final = convert(_WORDS["rule"], dict[CareRule, RuleWords])
"""Every rule, in the order of the screen."""


def match_words(ranked: Ranked, scored: Hit | Drop) -> str:
    """Return the strength of a match in at most seven cells; `by name` for an exact name first."""
    tiers = stage_score(scored, Stage.TIERS)
    if tiers is not None and tiers.reason is Reason.EXACT_PATH:
        return "by name"
    return strength(ranked, scored) or ""


def strength_words(ranked: Ranked, scored: Hit | Drop) -> str:
    """Return the strength of a match, and the numbers or else the rule behind it."""
    if (match := measure(ranked, scored)) is None:
        return ""
    cosine = "cosine" if Leg.VECTOR in scored.legs else "not among the nearest"
    shares = (
        f"{exact(weight)} × {FEATURE_WORDS.get(name, cosine)} {score(value)}"
        for name, weight, value in match.shares
    )
    template = WORDS["strength"].get(f"{match.strength} {match.rule}", "")
    rule = template.format(share=percent(match.total, 1), cosine=score(match.total))
    sign = "≥" if match.strength is Strength.STRONG else "<"
    sum_ = f"{' + '.join(shares)} = {score(match.total)} {sign} {score(match.limit)}"
    if "vector" not in {name for name, *_ in match.shares}:
        sum_ += "; meaning not measured"
    return f"{match.strength}: {sum_ if match.shares else rule}"


def aside_words(ranked: Ranked, hit: Hit) -> str:
    """Say what keeps a result below the minimum score, or which one has its lines already."""
    rules = {Reason.RELAXED, Reason.FREE_PLACE} & {one.reason for one in hit.stages}
    first = first_citing(ranked, hit) or hit
    same = [f"same lines as #{first.rank}"] if first.rank < hit.rank else []
    return ", ".join([*map(reason_words, rules), *same])


def result_score(ranked: Ranked, scored: Hit | Drop) -> str:
    """Return the score of a result or a near miss; a dash where filters alone list by date."""
    return score(scored.effective if ranked.pool.is_scored else None)


def nothing_words(ranked: Ranked) -> str:
    """Say why no result is shown: a filter, the minimum score, or nothing that matches."""
    keyword = ranked.pool.states[Leg.KEYWORD]
    reasons = [keyword.detail] if keyword.reason in {Reason.FILTERED, Reason.NARROWED} else []
    below = [one.score for one in ranked.drops if one.reason is Reason.BELOW_MIN_SCORE]
    if below:
        minimum = short_number(ranked.ranking.min_score)
        reasons = [f"{count(len(below), 'candidate')} below the minimum score {minimum}"]
        reasons.append(f"the best with {score(max(below))}")
    no_words = {Reason.EMPTY_QUERY, Reason.NO_TERMS}
    reasons += [reason_words(keyword.reason)] if keyword.reason in no_words else []
    return ", ".join(reasons) or "no match in words"


def step_name(step: Leg | Stage | Station) -> str:
    """A leg or a stage in at most twelve cells, or a station."""
    return WORDS["stage"].get(step) or WORDS["station"].get(step) or LEG_WORDS[step]


def leg_name(leg: Leg) -> str:
    """Return a leg as people know it: `keyword match`, `meaning match`."""
    return f"{LEG_WORDS[leg]} match"


TOLD_REASONS: Final = (
    *(Reason.ONLY_FILTERS, Reason.NARROWED, Reason.PHRASE_RELAXED, Reason.FILTERED),
    *(Reason.ONLY_STOP_WORDS, Reason.NO_PIECES),
)
"""The ways of answering another query than was typed, none, or by less than there should be, which
are told beside the list."""


def leg_words(state: LegState) -> str:
    """Return the outcome of a leg: `ok`, `skipped (the query is empty)`."""
    if state.status is LegStatus.OK:
        is_told = state.reason in {Reason.FILTERED, Reason.NARROWED} or not state.detail
        return "ok" if is_told else f"ok ({state.detail})"
    if state.reason in (Reason.NOT_REPRODUCIBLE, Reason.SCRIPT_NOT_SUPPORTED) and state.detail:
        return state.detail
    reason = reason_words(state.reason)
    detail = f": {state.detail}" if state.detail not in ("", reason) else ""
    return f"{state.status} ({reason}{detail})"


def leg_reason(state: LegState) -> str:
    """Return the reason why a leg did not answer, its detail where that says more."""
    is_told = state.reason is Reason.NOT_REPRODUCIBLE or state.status is LegStatus.PENDING
    return (is_told and safe_line(state.detail)) or reason_words(state.reason)


def leg_note(leg: Leg, state: LegState, *, brief: bool = True) -> str:
    """A leg that did not answer, for one line: `no meaning match: switched off`."""
    # The last part says what to do: "needs openai/…; press Enter to ask api.openai.com".
    todo = safe_line(state.detail).rpartition("; ")[2]
    if state.status is LegStatus.PENDING:
        return f"~ {leg_name(leg)}: {todo or 'still searching'}"
    if state.reason is Reason.NOT_REPRODUCIBLE:
        return f"only words are searched, not meaning: {todo if brief else state.detail}"
    name = leg_name(leg)
    return f"no {name}: {leg_reason(state)}" if brief else f"{name} {leg_words(state)}"


def left_out_words(code: str) -> str:
    """Return the reason why the index has none of a turn; a code without words is shown itself."""
    return safe_line(WORDS["left_out"].get(code, code.replace("_", " ")))


def number(value: float | None, decimals: int = 2) -> str:
    """A number with fixed decimals and a true minus sign; `–` for none and what is not finite."""
    if value is None or not math.isfinite(value):
        return NOTHING
    text = f"{abs(value):.{decimals}f}"
    return MINUS + text if value < 0 and float(text) != 0 else text


score: Final = partial(number, decimals=3)
"""A score with three decimals: `0.819`, `−0.043`."""


def short_number(value: object, decimals: int = 3) -> str:
    """A number without needless zeros: `30`, `0.7`, `0.125`; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    text = number(value, decimals)
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.2g}".replace("-", MINUS) if text == "0" and value else text


def exact(value: float, decimals: int = 2) -> str:
    """A number with so many decimals, and more where it takes more to be the value: `0.704`."""
    return max(number(value, decimals), short_number(value, 9), key=len)


def count(value: int, noun: str = "", plural: str = "", after: str = "") -> str:
    """A whole number with its noun: `1,284`, `1 file`, `2 files to read`."""
    return counted(value, noun, plural).replace("-", MINUS, 1) + after


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
    return f"{min(100 if part >= whole else 99, max(0, round(100 * part / whole)))} %"


def rank(position: int | None) -> str:
    """A rank as `#4`, or a dash for none."""
    return NOTHING if position is None else f"#{position}"


def duration(seconds: float) -> str:
    """Return a duration: `38 ms`, `2.4 s`, `12 s`, `1 min 5 s`, `2 h 10 min`."""
    if seconds < 0.9995:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), MINUTE)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def age_words(ranked: Ranked, chunk: Chunk) -> str:
    """The age of a chunk by the dates that its ranking counts from, or its day for a filter."""
    day, _ = chunk_day(chunk, ranked.ranking.decay.dates)
    if None in (day, chunk.day) and day_rule(ranked.pool.query):
        return f"file {chunk.day or local_day(chunk.mtime_ns)}"
    return age(None if day is None else (ranked.trace.now - day) / ONE_DAY)


def day_age(day: date, now: datetime) -> str:
    """The age of a day, from its midnight in UTC on."""
    return age((now - datetime.combine(day, time(), UTC)) / ONE_DAY)


def age(days: float | None) -> str:
    """An age in whole days, months or years, never rounded up: `today`, `3 d`, `5 mo`, `2 y`.

    `in 3 d` is to come; `undated` does not age.
    """
    if days is None or days >= _EVER_DAYS:
        return "undated"
    if abs(days) < 1:
        return "today"
    length = abs(days)
    number, unit = (length, "d") if length < 60 else (length / 30.4375, "mo")
    if length >= 730:
        number, unit = length / 365.25, "y"
    return f"{'in ' if days < 0 else ''}{int(number)} {unit}"


def ago(when: datetime, now: datetime | None = None) -> str:
    """The time since a moment: `just now`, `3 s ago`, `5 min ago`, `2 h ago`.

    A day and more are written as every age is: `12 d ago`, `7 mo ago`. What is later than the
    clock, as the files of the demo are, has its day.
    """
    seconds = ((now or datetime.now(UTC)) - when).total_seconds()
    if seconds <= -DAY:
        return f"{when:%Y-%m-%d}"
    if seconds < 2:
        return "just now"
    for limit, unit, name in ((MINUTE, SECOND, "s"), (HOUR, MINUTE, "min"), (DAY, HOUR, "h")):
        if seconds < limit:
            return f"{int(seconds // unit)} {name} ago"
    return f"{age(seconds / DAY)} ago"


def cells_of(text: str) -> int:
    """Return the cells of a terminal that a line takes."""
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
    shown = fitting(text[::-1], width - len(ellipsis))
    return ellipsis + text[len(text) - shown :]


def wrapped(line: str, width: int, indent: str = "") -> Iterator[str]:
    """Yield a line as several of at most `width` cells, broken at spaces where there are any."""
    for start, end in line_spans(line, width - cells_of(indent)):
        yield f"{indent}{line[start:end]}".rstrip()


def line_spans(line: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield where each of these lines begins and ends, one at least, without the spaces between.

    Between wide characters, which words are written with that have no spaces, a line ends anywhere.
    """
    room, at = max(1, width), 0
    ends: Sequence[int] = range(len(line) + 1)
    if not line.isascii():
        ends = [0, *accumulate(map(_width, line))]
    while True:
        end = max(at + 1, bisect_right(ends, ends[at] + room, lo=at) - 1)
        if end >= len(line):
            yield at, len(line)
            return
        is_wide = 2 in (ends[end] - ends[end - 1], ends[end + 1] - ends[end])
        space = -1 if is_wide else line.rfind(" ", at + 1, end + 1)
        cut = space if space > 0 else end
        yield at, cut
        at = cut
        while line.startswith(" ", at):
            at += 1
        if at == len(line):
            return


def fitting(text: str, cells: int) -> int:
    """Return the number of characters of a line that fit into so many cells."""
    if text.isascii():
        return min(len(text), cells)
    used = 0
    for place, character in enumerate(text):
        used += _width(character)
        if used > cells:
            return place
    return len(text)


def best_text(hit: Hit | Drop, width: int) -> str:
    """Return the text of a candidate from its best passage on, as far as `width` takes."""
    text, (start, end) = hit.chunk.text, best_passage(hit) or (0, len(hit.chunk.text))
    return text[start : max(end, start + width)]


def excerpt_of(hit: Hit, width: int) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the part of a hit's text around its matched terms, at most `width` cells, and where
    the terms are in it. With context it begins at the best passage.
    """
    terms = tuple(dict.fromkeys(term for part in hit.legs.values() for term in part.terms))
    # What is as short as a line goes on with the text behind it, so that cutting it shows.
    length = width if len(best_text(hit, width)) > width else 2 * width
    cut = snippet(best_text(hit, length), terms, length)
    text, spans = cut.text, cut.spans
    if fitting(text, width) < len(text):
        end = fitting(text, width - 1)
        space = text.rfind(" ", max(0, end - _LONGEST_CUT), end + 1)
        end = space if space > 0 else end
        text, spans = text[:end] + "…", tuple(span for span in spans if span[1] <= end)
    return text, spans


@lru_cache(1 << 14)
def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
