"""The day a note is about: from its file name, or from the front matter it starts with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

_DAY = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)", re.ASCII)
_FENCE_MARK = "---"
_FENCE = re.compile(rf"{_FENCE_MARK}[ \t]*\r?")
_END_FENCE = re.compile(r"(?:---|\.\.\.)[ \t]*\r?")
_ENTRY = re.compile(r"([A-Za-z]{1,16})[ \t]*:[ \t]*(.*)")
_NUMBER = re.compile(r"\d{1,3}(?:\.\d{1,9})?", re.ASCII)
_DAY_KEYS = ("date", "day", "created")
_MAX_LINES = 200
_MAX_LINE_CHARS = 2000
_SCALE_TOP = 10.0


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What the front matter says; `end_line` is the 1-based line that closes it, 0 without one."""

    day: date | None = None
    importance: float | None = None
    """0 to 1."""
    end_line: int = 0


def day_of_path(path: str) -> date | None:
    """Find the first valid YYYY-MM-DD in the file name (not in the folders) of a path."""
    return _first_day(path.rsplit("/", 1)[-1])


def front_matter(text: str) -> FrontMatter:
    """Read the block between `---` lines that starts a text, for the keys a ranking uses.

    `date`, `day` or `created` (in this order of precedence) begins with a YYYY-MM-DD; `importance`
    is a number from 0 to 1, or above 1 to 10 and then divided by ten. Of a key given twice the
    first counts. What cannot be read is left out; nothing is raised. A block is at most 200 lines.
    """
    if not text.startswith(_FENCE_MARK):
        return FrontMatter()
    values: dict[str, str] = {}
    for number, line in enumerate(_leading_lines(text), start=1):
        if number == 1:
            if not _FENCE.fullmatch(line):
                return FrontMatter()
            continue
        if _END_FENCE.fullmatch(line):
            return FrontMatter(_day(values), _importance(values.get("importance", "")), number)
        entry = _ENTRY.match(line)
        if entry:
            values.setdefault(entry[1].lower(), entry[2])
    return FrontMatter()


def _leading_lines(text: str) -> Iterator[str]:
    """Give the first lines of a text, each cut to a length no date or number reaches."""
    at = 0
    for _ in range(_MAX_LINES):
        end = text.find("\n", at, at + _MAX_LINE_CHARS)
        if end >= 0:
            yield text[at:end]
        else:
            yield text[at : at + _MAX_LINE_CHARS]
            end = text.find("\n", at + _MAX_LINE_CHARS)
        if end < 0:
            return
        at = end + 1


def _first_day(text: str) -> date | None:
    for match in _DAY.finditer(text):
        day = _valid_day(match)
        if day is not None:
            return day
    return None


def _valid_day(match: re.Match[str]) -> date | None:
    try:
        return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return None


def _day(values: dict[str, str]) -> date | None:
    for key in _DAY_KEYS:
        match = _DAY.match(_bare(values.get(key, "")))
        day = _valid_day(match) if match else None
        if day is not None:
            return day
    return None


def _importance(value: str) -> float | None:
    number = _NUMBER.fullmatch(_bare(value))
    if number is None or float(number[0]) > _SCALE_TOP:
        return None
    importance = float(number[0])
    return importance / _SCALE_TOP if importance > 1 else importance


def _bare(value: str) -> str:
    """Take a value out of its quotes, or off the comment behind it."""
    value = value.strip()
    if value[:1] in {'"', "'"}:
        return value[1:].partition(value[0])[0].strip()
    return re.split(r"[ \t]#", value, maxsplit=1)[0].strip()
