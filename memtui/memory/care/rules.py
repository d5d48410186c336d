"""Rules over one note: credentials, dated facts, length, and first words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Final, NamedTuple

from memtui.memory.care.duplicates import words_of
from memtui.memory.care.lines import LineKind, note_lines, without_code
from memtui.memory.care.masking import finding_in, is_secret, known_tokens
from memtui.memory.care.patterns import MONTHS, load_patterns
from memtui.memory.chunking import size_estimate
from memtui.memory.discover import ROOT_FILES
from memtui.memory.documents import split_lines
from memtui.model import Document
from memtui.model.browsing import CareFinding, CareRule
from memtui.text.redact import MASK, mask, redact

_BLOCK_START = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_BLOCK_BODY = re.compile(r"[A-Za-z0-9+/=]{40,}")
_DIGIT = re.compile("[0-9]")
_BLOCK_LINES: Final = 4
_LONGEST_CHECKED_LINE: Final = 100_000


def credentials(document: Document) -> Iterator[CareFinding]:
    """Yield the lines of a note that hold what is shaped like a credential, one finding a line.

    Code is checked, too: that is where they are pasted. The text of a finding is masked.
    """
    lines = split_lines(document.text)
    for number, line in enumerate(lines, start=1):
        if _BLOCK_START.search(line):
            below = lines[number - 1 : number + _BLOCK_LINES]
            if not any(_BLOCK_BODY.search(one) for one in below):
                continue
            text, what = line.strip(), "a private key"
        elif tokens := secrets_of(line[:_LONGEST_CHECKED_LINE]):
            text, what = line, f"a credential ({', '.join(dict.fromkeys(map(mask, tokens)))})"
            for token in tokens:
                text = text.replace(token, mask(token))
        else:
            continue
        advice = f"looks like {what}: keep it in a password manager, and change it"
        yield finding_in(CareRule.CREDENTIAL, document.file, (number, number), text, advice)


def secrets_of(line: str) -> list[str]:
    """Return what in a line is shaped like a secret and is neither a placeholder nor a word."""
    if _DIGIT.search(line) is None:
        return []
    tokens: list[str] = []

    def collect(token: str) -> str:
        tokens.append(token)
        return MASK

    redact(line, masked=collect)
    tokens = list(dict.fromkeys((*filter(is_secret, tokens), *known_tokens(line))))
    return [one for one in tokens if not any(one != other and one in other for other in tokens)]


MOST_ENTRIES: Final = 3
"""A section in which more lines begin with a date is a log: its entries are meant to be dated."""

_DATES: Final = load_patterns("dates")
_FACTS: Final = load_patterns("facts")
_YEAR = re.compile(r"(?:19|20)\d\d")
_BEFORE: Final = 160
_OLDEST_YEARS: Final = 10
"""What was so long ago is history, told as such."""
_LONGEST_LINE: Final = 4_000


class _Date(NamedTuple):
    """A date of a text: its place, its first day, how it is written, whether it names a day."""

    start: int
    end: int
    day: date
    shown: str
    exact: bool


def dated_facts(document: Document, today: date) -> Iterator[CareFinding]:
    """Yield the lines of an undated note that say how something is, or became, up to today.

    A fact is a line that begins with a day, or says that something holds as of, since or until a
    day or month. Left out: notes with a date of their own, notes and sections that are logs,
    headings, code, tables, quotations, tasks, dates in links and names, dates to come, and what
    stays true (births, purchases, papers).
    """
    path = document.file.path
    if document.day is not None or _FACTS["log"].search(re.sub(r"[/_.-]+", " ", path)):
        return
    lines = [
        line
        for line in note_lines(document.text)
        if line.kind is LineKind.TEXT
        and len(line.text) <= _LONGEST_LINE
        and not _FACTS["log"].search(line.section)
        and not any(_dates(line.section))
        # A table need not begin with its bar.
        and not (_FACTS["task_or_quote"].match(line.text) or " | " in line.text)
    ]
    entries = Counter(line.section for line in lines if _begins_with_day(line.text))
    for line in lines:
        text = without_code(line.text)
        text = _FACTS["elsewhere"].sub(lambda match: " " * len(match[0]), text)
        dates = list(_dates(text))
        if not dates or _FACTS["lasting"].search(text) or any(one.day > today for one in dates):
            continue
        begins = entries[line.section] <= MOST_ENTRIES and _begins_with_day(text)
        for one in dates:
            is_recent = today.year - one.day.year <= _OLDEST_YEARS
            if is_recent and (_is_of_a_state(text, one) or (one.exact and begins)):
                advice = (
                    f"stated of {one.shown}, in a note without a date that never decays: "
                    "move it to a dated note, or keep it current"
                )
                place = line.number, line.number
                yield finding_in(
                    CareRule.DATED_FACT,
                    document.file,
                    place,
                    line.text.strip(),
                    advice,
                    day=one.shown,
                )
                break


def _begins_with_day(text: str) -> bool:
    start = _FACTS["beginning"].match(text)
    at = start.end() if start is not None else 0
    return any(one.start == at and one.exact for one in _dates(text))


def _is_of_a_state(text: str, one: _Date) -> bool:
    """Return whether a date is the one since when, or at which, something holds."""
    before = text[max(0, one.start - _BEFORE) : one.start]
    return bool(
        _FACTS["state_before"].search(before)
        or _FACTS["state_after"].match(text, one.end)
        or (_FACTS["in_brackets"].search(before) and _FACTS["now"].search(text))
    )


def _dates(text: str) -> Iterator[_Date]:
    if _YEAR.search(text) is None:
        return
    matches = (match for shape in _DATES.values() for match in shape.finditer(text))
    for match in sorted(matches, key=lambda match: match.start()):
        parts = match.groupdict()
        written = parts.get("d") or parts.get("d1") or parts.get("d2")
        month = parts["m"]
        number = int(month) if month.isdigit() else MONTHS[month.lower()]
        try:
            day = date(int(parts["y"]), number, int(written or 1))
        except ValueError:
            continue
        yield _Date(match.start(), match.end(), day, match[0], written is not None)


LONG_FILE_CHARACTERS: Final = 100_000
LONG_ROOT_CHARACTERS: Final = 20_000
"""Of MEMORY.md and USER.md, which agents put into every prompt: OpenClaw cuts them there."""
MOST_TITLE_WORDS: Final = 6
"""A file of headings alone that says no more than this is empty; a longer title says something."""
_UNBROKEN = re.compile(r"[\x21-\x7e]{120,}")
_CHARACTERS_PER_TOKEN: Final = 4
_ENOUGH: Final = 1_000
"""So many characters of a line tell whether it says anything."""


def empty_file(document: Document) -> Iterator[CareFinding]:
    """Yield a file in which nothing is said: no word but front matter and a short title."""
    title = 0
    for line in note_lines(document.text):
        words = len(words_of(line.text[:_ENOUGH]))
        if line.kind is LineKind.HEADING:
            title += words
        elif words and line.kind not in {LineKind.FRONT_MATTER, LineKind.BLANK}:
            return
    if title <= MOST_TITLE_WORDS:
        what = "nothing but a title" if title else "no word"
        lines = 1, max(1, document.text.count("\n"))
        advice = f"{what} in this file: write the note, or remove it"
        yield finding_in(CareRule.EMPTY_FILE, document.file, lines, document.text.strip(), advice)


def long_file(document: Document) -> Iterator[CareFinding]:
    """Yield a file that is better split: it is read as a whole, and each of its chunks competes."""
    is_root = document.file.path in ROOT_FILES
    limit = LONG_ROOT_CHARACTERS if is_root else LONG_FILE_CHARACTERS
    length, last = len(document.text), document.text.count("\n") + 1
    if length > limit:
        why = "agents cut it in the prompt" if is_root else "split it by topic"
        yield finding_in(
            CareRule.LONG_FILE,
            document.file,
            (1, last),
            document.text,
            f"{length:,} characters, over {limit:,}: {why}",
            characters=length,
            limit=limit,
            lines=last,
        )


def long_lines(document: Document, chunk_tokens: int) -> Iterator[CareFinding]:
    """Yield lines that are cut in the middle because a chunk of `chunk_tokens` cannot hold them.

    Code, tables and lines that are mostly one unbroken run (base64, URLs, minified text) are left
    out: nobody would wrap them.
    """
    limit = chunk_tokens * _CHARACTERS_PER_TOKEN
    for number, text, kind, _ in note_lines(document.text):
        # A character weighs at most 16.
        if kind is not LineKind.TEXT or len(text) < limit // 16:
            continue
        size = size_estimate(text)
        unbroken = sum(map(len, _UNBROKEN.findall(text)))
        if size > limit and 2 * unbroken <= len(text):
            yield finding_in(
                CareRule.LONG_LINE,
                document.file,
                (number, number),
                text,
                f"{len(text):,} characters in one line: it is cut inside, wrap it",
                characters=len(text),
                size=size,
                limit=limit,
            )


WORDS: Final = 10
"""How many words are asked for."""
FEWEST: Final = 3
"""A note that begins with fewer words says too little to be asked for by them."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_LONGEST: Final = 40
_CHARACTERS: Final = 200


def first_words(document: Document) -> str:
    """Return the first words of a note without front matter and code, joined by blanks.

    Empty for a note that says too little. No word of it means anything in the query language.
    """
    words: list[str] = []
    size = 0
    for line in note_lines(document.text):
        if line.kind in {LineKind.FRONT_MATTER, LineKind.CODE, LineKind.BLANK}:
            continue
        for word in _WORD.findall(line.text[: _CHARACTERS * 4]):
            words.append(word[:_LONGEST])
            size += len(words[-1]) + 1
            if len(words) == WORDS or size > _CHARACTERS:
                return " ".join(words)
    return " ".join(words) if len(words) >= FEWEST else ""
