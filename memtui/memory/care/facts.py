"""Facts with a date in notes that have none: they never decay, however old they get."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Final, NamedTuple

from memtui.memory.care.lines import LineKind, NoteLine, note_lines, without_code
from memtui.memory.care.masking import place_in
from memtui.model import Document
from memtui.model.browsing import CareFinding, CareRule

MOST_ENTRIES: Final = 3
"""A section in which more lines begin with a date is a log: its entries are meant to be dated."""

_MONTHS: Final = (
    ("january", "jan", "januar", "janvier", "enero"),
    ("february", "feb", "februar", "février", "febrero"),
    ("march", "mar", "märz", "mars", "marzo"),
    ("april", "apr", "avril", "abril"),
    ("may", "mai", "mayo"),
    ("june", "jun", "juni", "juin", "junio"),
    ("july", "jul", "juli", "juillet", "julio"),
    ("august", "aug", "août", "agosto"),
    ("september", "sep", "sept", "septembre", "septiembre"),
    ("october", "oct", "oktober", "octobre", "octubre"),
    ("november", "nov", "novembre", "noviembre"),
    ("december", "dec", "dezember", "décembre", "diciembre"),
)
_MONTH_NUMBER: Final = {name: n for n, names in enumerate(_MONTHS, start=1) for name in names}
_MONTH = "|".join(sorted(_MONTH_NUMBER, key=len, reverse=True))
_YEAR = re.compile(r"(?:19|20)\d\d")
_NUMERIC = re.compile(
    r"(?<![\w/.=:@#-])(?P<y>(?:19|20)\d\d)(?P<s>[-/.])(?P<m>\d{1,2})(?P=s)(?P<d>\d{1,2})"
    r"(?![\w/@-]|\.\w)"
)
_WORDED = re.compile(
    rf"(?<![\w-])(?:(?P<d1>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+|de\s+)?)?(?P<m>{_MONTH})\.?\s+"
    r"(?:de\s+)?(?:(?P<d2>\d{1,2})(?:st|nd|rd|th)?,?\s+)?(?P<y>(?:19|20)\d\d)(?![\w-])",
    re.IGNORECASE,
)
_EUROPEAN = re.compile(
    r"(?<![\w/.=:@#-])(?P<d>\d{1,2})\.\s?(?P<m>\d{1,2})\.\s?(?P<y>(?:19|20)\d\d)(?![\w/@-]|\.\w)"
)
_EAST_ASIAN = re.compile(
    r"(?P<y>(?:19|20)\d\d)\s?年\s?(?P<m>\d{1,2})\s?月(?:\s?(?P<d>\d{1,2})\s?日)?"
)
_SHAPES: Final = (_NUMERIC, _WORDED, _EUROPEAN, _EAST_ASIAN)
# What makes of a date the one of a state stands right before it or right after it.
_STATE_BEFORE = re.compile(
    r"(?:\b(?:as of|since|effective|until|updated|for now|right now|at present|changed|switched|"
    r"last (?:checked|seen|updated|verified|known|measured|tested)|"
    r"stand|seit|ab|depuis|à partir|desde|a partir)\b|截至|截止|自从|自)"
    r"[\s:(,*_]*(?:(?:the|on|from|in|of|dem|der|den|vom|le|du|el|del|de)\b[\s:(*_]*)?$",
    re.IGNORECASE,
)
_CHANGE_BEFORE = re.compile(
    r"\b(?:changed|switched|moved|upgraded|migrated|raised|lowered|increased|reduced) "
    r"(?:to|from|us to|me to)\b[^.;:!?]{0,80}\b(?:on|in)\s+$",
    re.IGNORECASE,
)
_NOW = re.compile(
    r"\b(?:currently|at present|at the moment|for now|right now|is now|are now|derzeit|aktuell|"
    r"zurzeit|actuellement|actualmente|ahora)\b|目前|现在",
    re.IGNORECASE,
)
_IN_BRACKETS = re.compile(r"[(（][^()（）\d]{0,15}$")
_STATE_AFTER = re.compile(r"\s?(?:現在|以来|から|起|至今|以後)")
_BEFORE: Final = 160
_OLDEST_YEARS: Final = 10
"""What was so long ago is history, told as such."""
_LASTING = re.compile(
    r"\b(?:born|birth\w*|anniversar\w*|wedding|married|died|founded|established|graduated|"
    r"written|wrote|planned|bought|purchased|issued|expir\w*|valid|warranty|invoice|serial|published|released|"
    r"copyright|licen[cs]ed?|signed|due|deadline|cutoff|geboren|geburtstag|"
    rf"(?:by|before)(?=[^.;:,]{{0,20}}(?:\b(?:19|20)\d\d\b|\b(?:{_MONTH})\b))|"
    r"geheiratet|gegründet|gekauft|gültig|frist|fällig|naissance|née?|acheté|valable|nacid[ao]|"
    r"comprado|válid[ao]|(?:every|each) year|yearly|annual\w*|jährlich|jedes jahr|chaque année|"
    r"cada año|history|example|called|named|version|schema|format|rfc|api|model|spec\w*)\b|"
    r"\be\.g\.|\bz\. ?B\.|出生|生まれ|有效期|有効期限",
    re.IGNORECASE,
)
_LOG = re.compile(
    r"\b(?:change ?logs?|logs?|history|releases?|archives?|timeline|journal|diary|minutes|"
    r"meetings?|incidents?|decisions?|versions?|milestones?|events?|trips?|travel\w*|past|done|closed|"
    r"verlauf|protokoll\w*|historique|historial)\b",
    re.IGNORECASE,
)
_LINKED = re.compile(r"\[\[[^\[\]]*\]\]|\]\([^()]*\)|<[^<>]*>|https?://\S+")
_SAID = re.compile(r"\"[^\"]*\"|“[^“”]*”|„[^„“”]*[“”]|«[^«»]*»|(?<!\w)'[^']{1,80}'(?!\w)")
_BEGINNING = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])?[ \t]*[*_(\[]{0,3}")
_TASK = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[[ xX/-]\]")
_QUOTED = re.compile(r"[ \t]*>")
_LONGEST_LINE: Final = 4_000


def dated_facts(document: Document, today: date) -> Iterator[CareFinding]:
    """The lines of an undated note that say how something is, or became, at a date up to today.

    A fact is a line that begins with a day, or says that something holds as of, since or until a
    day or month. Left out: notes with a date of their own, notes and sections that are logs,
    headings, code, tables, quotations, tasks, dates in links and names, dates to come, and what
    stays true (births, purchases, papers).
    """
    path = document.file.path
    if document.day is not None or _LOG.search(_name(path)):
        return
    lines = [line for line in note_lines(document.text) if _may_state(line)]
    entries = Counter(line.section for line in lines if _begins_with_day(line.text))
    for line in lines:
        day = _stated(line, is_log=entries[line.section] > MOST_ENTRIES, today=today)
        if day is not None:
            yield CareFinding(
                CareRule.DATED_FACT,
                place_in(document, line.number, line.number, line.text.strip()),
                f"stated of {day}, in a note without a date that never decays: move it to a "
                "dated note, or keep it current",
                numbers={"day": day},
            )


def _name(path: str) -> str:
    return re.sub(r"[/_.-]+", " ", path)


def _may_state(line: NoteLine) -> bool:
    if line.kind is not LineKind.TEXT or len(line.text) > _LONGEST_LINE:
        return False
    if _LOG.search(line.section) or next(_days(line.section), None) is not None:
        return False
    # A table need not begin with its bar.
    return not (_TASK.match(line.text) or _QUOTED.match(line.text) or " | " in line.text)


def _begins_with_day(text: str) -> bool:
    start = _BEGINNING.match(text)
    at = start.end() if start is not None else 0
    return any(one.start == at and one.exact for one in _dates(text))


def _stated(line: NoteLine, *, is_log: bool, today: date) -> str | None:
    """The date of the fact that a line states; `None` for a line without one."""
    text = _blanked(_SAID, _blanked(_LINKED, without_code(line.text)))
    dates = list(_dates(text))
    if not dates or _LASTING.search(text):
        return None
    if any(one.day > today for one in dates):
        return None
    begins = not is_log and _begins_with_day(text)
    for one in dates:
        is_recent = today.year - one.day.year <= _OLDEST_YEARS
        if is_recent and (_is_of_a_state(text, one) or (one.exact and begins)):
            return one.shown
    return None


def _is_of_a_state(text: str, one: _Date) -> bool:
    """Whether a date is the one since when, or at which, something holds."""
    before = text[max(0, one.start - _BEFORE) : one.start]
    if _STATE_BEFORE.search(before) or _CHANGE_BEFORE.search(before):
        return True
    if _STATE_AFTER.match(text, one.end):
        return True
    return _IN_BRACKETS.search(before) is not None and _NOW.search(text) is not None


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda found: " " * len(found[0]), text)


def _days(text: str) -> Iterator[date]:
    return (one.day for one in _dates(text))


class _Date(NamedTuple):
    """A date of a text: its place, its first day, how it is written, whether it names a day."""

    start: int
    end: int
    day: date
    shown: str
    exact: bool


def _dates(text: str) -> Iterator[_Date]:
    if _YEAR.search(text) is None:
        return
    found = [match for shape in _SHAPES for match in shape.finditer(text)]
    for match in sorted(found, key=lambda match: match.start()):
        parts = match.groupdict()
        written = parts.get("d") or parts.get("d1") or parts.get("d2")
        month = parts["m"]
        number = int(month) if month.isdigit() else _MONTH_NUMBER[month.lower()]
        try:
            day = date(int(parts["y"]), number, int(written or 1))
        except ValueError:
            continue
        yield _Date(match.start(), match.end(), day, match[0], written is not None)
