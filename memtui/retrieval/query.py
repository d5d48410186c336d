"""What a typed query asks for: words, exact phrases and filters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from memtui.text.tokens import QueryTerms, grams, index_text, query_terms, quote, split_scripts

MAX_LENGTH = 4000
"""Characters of a query that are looked at; what is pasted beyond is named as a problem."""

_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "＂": '"'})
_PIECE = re.compile(
    r'(?<!\S)(?P<key>path|source|after|before):(?P<value>"[^"]*"?|\S*)'
    r'|(?<![0-9A-Za-z])"(?P<phrase>[^"]*)(?P<close>"?)'
    r'|(?P<word>(?:[^\s"]|(?<=[0-9A-Za-z])")+)',
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Filters:
    """Which files take part. Values of one field are alternatives, the fields all have to fit."""

    sources: tuple[str, ...] = ()
    path_globs: tuple[str, ...] = ()
    """With `*`, `?` or `[`: the path, or its end from a folder on; otherwise any part of it."""
    after: date | None = None
    """Only files of this day or later."""
    before: date | None = None
    """Only files of an earlier day than this."""

    def __bool__(self) -> bool:
        return bool(self.sources or self.path_globs or self.after or self.before)


NO_FILTERS: Final = Filters()


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query."""

    raw: str
    """What was typed."""
    text: str
    """What is embedded: words and phrases without filters and quotes, in their order."""
    terms: QueryTerms
    """The words outside quotes; a chunk may hold any of them."""
    phrases: tuple[str, ...] = ()
    """The quoted texts; a chunk has to hold every one of them."""
    filters: Filters = NO_FILTERS
    problems: tuple[str, ...] = ()
    """One line each: what could not be understood and was left out."""
    spaceless: bool = False
    """Whether the text has a script without spaces, where one character is a word."""


@dataclass(slots=True)
class _Parts:
    words: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    phrases: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    path_globs: list[str] = field(default_factory=list)
    after: date | None = None
    before: date | None = None
    problems: list[str] = field(default_factory=list)
    open_word: bool = False
    """Whether the last piece is a word that may still grow."""

    @property
    def filters(self) -> Filters:
        sources, path_globs = dict.fromkeys(self.sources), dict.fromkeys(self.path_globs)
        return Filters(tuple(sources), tuple(path_globs), self.after, self.before)


def parse_query(text: str, *, typing: bool = False) -> Query:
    """Take a query apart; never raises, whatever is typed.

    Syntax: words; `"an exact phrase"`, required; `path:GLOB`, `source:NAME`, `after:YYYY-MM-DD`
    (that day or later), `before:YYYY-MM-DD` (earlier than that day); a value with spaces in
    quotes. A filter that makes no sense is a problem line and the rest is searched. With `typing`
    the last word counts as the beginning of a word from three letters on, and what is merely
    unfinished is no problem.
    """
    parts = _Parts()
    readable = _readable(text[:MAX_LENGTH])
    if len(text) > MAX_LENGTH:
        parts.problems.append(f"only the first {MAX_LENGTH} characters are searched")
    for match in _PIECE.finditer(readable):
        parts.open_word = False
        if match["key"]:
            value = match["value"].strip('"')
            if value:
                _add_filter(parts, match["key"].lower(), value)
            elif not typing:
                parts.problems.append(f"{match['key'].lower()}: has no value")
        elif match["phrase"] is not None:
            _add_phrase(parts, match["phrase"], bool(match["close"]), typing)
            parts.open_word = not match["close"]
        else:
            parts.words.append(match["word"])
            parts.texts.append(match["word"])
            parts.open_word = match.end() == len(readable)
    if parts.after and parts.before and parts.after >= parts.before:
        parts.problems.append(f"no day is after:{parts.after} and before:{parts.before}")
    embedded = " ".join(parts.texts)
    terms = query_terms(" ".join(parts.words), prefix_last=typing and parts.open_word)
    everything = query_terms(embedded).terms if parts.phrases else terms.terms
    return Query(
        raw=text,
        text=embedded,
        terms=terms,
        phrases=tuple(dict.fromkeys(parts.phrases)),
        filters=parts.filters,
        problems=tuple(dict.fromkeys(parts.problems)),
        spaceless=any(term.kind == "gram" for term in everything),
    )


def split_filters(text: str) -> tuple[str, Filters]:
    """Take the filters that can be used off a query: the rest as it was typed, and the filters.

    Without such a filter the rest is the whole text; what only looks like one stays in it.
    """
    parts = _Parts()
    rest: list[str] = []
    at = 0
    for match in _PIECE.finditer(_readable(text[:MAX_LENGTH])):
        key, problems = (match["key"] or "").lower(), len(parts.problems)
        value = (match["value"] or "").strip('"')
        if not key or not value:
            continue
        _add_filter(parts, key, value)
        if len(parts.problems) == problems:
            rest.append(text[at : match.start()])
            at = match.end()
    if not at:
        return text, NO_FILTERS
    rest.append(text[at:])
    return " ".join(piece for part in rest if (piece := part.strip())), parts.filters


def word_pieces(text: str, *, syntax: bool = True) -> tuple[tuple[int, int], ...]:
    """Where the words and quoted phrases of a query stand, as (start, end) in characters.

    Filters are left out. Without `syntax` nothing but blanks means anything.
    """
    readable = _readable(text[:MAX_LENGTH])
    if not syntax:
        return tuple(match.span() for match in re.finditer(r"\S+", readable))
    return tuple(match.span() for match in _PIECE.finditer(readable) if not match["key"])


def _readable(text: str) -> str:
    """Replace what SQLite cannot take or nobody can have meant to type, length kept."""
    text = text.translate(_QUOTES)
    if text.isprintable():
        return text
    return "".join(
        " "
        if unicodedata.category(char) == "Cc"
        else "\ufffd"
        if "\ud800" <= char <= "\udfff"
        else char
        for char in text
    )


def _add_phrase(parts: _Parts, phrase: str, closed: bool, typing: bool) -> None:
    words = phrase.split()
    if not words:
        return
    parts.texts.extend(words)
    if not closed:
        if not typing:
            parts.problems.append('a quote " is not closed: searched as single words')
        parts.words.extend(words)
    elif phrase_segments(phrase):
        parts.phrases.append(" ".join(words))
    else:
        parts.problems.append(f'"{phrase}" holds no letter or digit: left out')


def _add_filter(parts: _Parts, key: str, value: str) -> None:
    if key == "path":
        parts.path_globs.append(value)
    elif key == "source":
        parts.sources.append(value)
    elif (day := _day(parts, key, value)) is not None:
        if key == "after":
            parts.after = max(parts.after or day, day)
        else:
            parts.before = min(parts.before or day, day)


def _day(parts: _Parts, key: str, value: str) -> date | None:
    problem = "write YYYY-MM-DD"
    try:
        if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
            return date.fromisoformat(value)
    except ValueError as error:
        problem = str(error)
    parts.problems.append(f"{key}:{value} is no day: {problem}")
    return None


def phrase_match(phrases: Sequence[str]) -> str | None:
    """Write the FTS5 expression of rows that hold every phrase; `None` when nothing is left."""
    segments = [segment for phrase in phrases for segment in phrase_segments(phrase)]
    return " AND ".join(dict.fromkeys(segments)) or None


def phrase_segments(phrase: str) -> tuple[str, ...]:
    """Write a phrase as FTS5 phrases that all have to match; empty without letters and digits.

    A run of a script without spaces is the sequence of its n-grams. In the index shorter n-grams
    follow it, so that a word behind the run begins another segment: such a mixed phrase finds
    a few rows more than a comparison of text would.
    """
    segments: list[str] = []
    parts: list[str] = []
    for place, piece in enumerate(split_scripts(unicodedata.normalize("NFKC", phrase))):
        if place % 2 == 0:
            words = index_text(piece).split()
            parts += [word for word in words if any(map(str.isalnum, word))]
            continue
        parts += grams(piece)
        if len(piece) > 1:
            segments.append(" ".join(parts))
            parts = []
    segments.append(" ".join(parts))
    return tuple(dict.fromkeys(quote(segment) for segment in segments if segment))
