"""Parses a typed query: words, exact phrases, and the files and rows that may be found."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from difflib import get_close_matches
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from memtui.data import read_table
from memtui.memory.documents import tags_of
from memtui.model import CONVERSATIONS
from memtui.retrieval.connection import FOLDING, Connection, tokens
from memtui.text.sanitize import listed
from memtui.text.tokens import QueryTerms, fold_text, grams, query_terms, quote, split_scripts

MAX_LENGTH = 4000
"""Characters of a query that are looked at; what is pasted beyond is named as a problem."""

_SQL: Final = read_table("queries.toml")["filters"]
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "＂": '"'})
_SYNTAX: Final = read_table("query.toml")
_PIECE = re.compile(_SYNTAX["piece"], re.IGNORECASE | re.VERBOSE)
_WORD = re.compile(r"(?P<word>\S+)|(?P<key>(?P<phrase>(?!)))")
_NAMED = re.compile(r"([a-z]+:)(?![/:])", re.IGNORECASE)
_STAR, _QUOTED_STAR = re.compile(r"\*\w"), re.compile(r"\w\*")
_NOT_CLOSED: Final = 'a quote " is not closed'
_OTHER_LANGUAGE = re.compile(r"AND|OR|NOT|NEAR(?:/\d+|\(.*)")
"""The operators of full-text engines, which memtui does not have."""

_FIELDS: Final[Mapping[str, str]] = _SYNTAX["fields"]
"""The fields of `Filters` by what is typed for them."""
_FILTERS: Final = f"use {' '.join([*_FIELDS][:-1])}"


class Filters(Struct, frozen=True):
    """A choice of files. Values of one field are alternatives, the fields all have to fit."""

    sources: tuple[str, ...] = ()
    path_globs: tuple[str, ...] = ()
    """With `*`, `?` or `[`: the path, or its end from a folder on; otherwise any part of it."""
    after: date | None = None
    """Only files of this day or later."""
    before: date | None = None
    """Only files of an earlier day than this."""
    tags: tuple[str, ...] = ()
    """Globs; a tag below a fitting one, as `home/network` is below `home`, fits as well."""
    excluded: tuple[str, ...] = ()
    """Words, beginnings of words with `*`, and phrases: no chunk that holds one of them."""

    def fields(self) -> Iterator[tuple[Filters, list[str]]]:
        """Yield each field, but each excluded word by itself, with its values as they are typed."""
        for key, field in _FIELDS.items():
            value = getattr(self, field)
            for part in [(one,) for one in value] if key == "-" else filter(None, [value]):
                values = map(str, part if isinstance(part, tuple) else (part,))
                typed = [f'{key}"{one}"' if " " in one else f"{key}{one}" for one in values]
                yield replace(NO_FILTERS, **{field: part}), typed

    def fits(self, *, path: str, source: str, day: date | str | None, mtime_ns: int) -> bool:
        """Tell whether a file takes part, whatever it holds.

        `path` as the index stores it; `day` is the file's own, or its ISO form; a file without
        one is of the local day of `mtime_ns` (ns since the epoch). Letter case does not count.
        """
        if self.sources and source.casefold() not in map(str.casefold, self.sources):
            return False
        folded = path.casefold()
        if self.path_globs and not any(path_pattern(g).search(folded) for g in self.path_globs):
            return False
        own = date.fromisoformat(day) if isinstance(day, str) and day else day
        if not isinstance(own, date):
            own = local_day(mtime_ns)
        late_enough = self.after is None or own >= self.after
        return late_enough and (self.before is None or own < self.before)

    def fits_tags(self, text: str) -> bool:
        """Tell whether a text has a tag that lets its file take part."""
        globs = [f"{glob.removeprefix('#').casefold()}/*" for glob in self.tags]
        return any(fnmatchcase(f"{tag}/", glob) for tag in tags_of(text) for glob in globs)


@lru_cache(maxsize=64)
def path_pattern(glob: str) -> re.Pattern[str]:
    """Compile what a casefolded path has to hold to fit `path:GLOB`."""
    folded = glob.casefold()
    if not re.search(r"[*?\[]", folded):
        return re.compile(re.escape(folded))
    # A path, or its end from a folder on.
    return re.compile(rf"\A(?:{translate(folded)}|{translate(f'*/{folded}')})")


def local_day(mtime_ns: int) -> date:
    """Return the day of a file's last change, as a calendar here shows it."""
    try:
        return datetime.fromtimestamp(mtime_ns / 1e9).date()
    except (OverflowError, OSError, ValueError):
        # A file system may hold years that no calendar here has.
        return date.max if mtime_ns > 0 else date.min


NO_FILTERS: Final = Filters()


class Query(Struct, frozen=True):
    text: str
    """The text that is embedded: words and phrases in order, without filters and quotes."""
    terms: QueryTerms
    """The words outside quotes; a chunk may hold any of them."""
    phrases: tuple[str, ...] = ()
    """The quoted texts; a chunk has to hold every one of them."""
    filters: Filters = NO_FILTERS
    rest: str = ""
    """The text as it was typed without its filters, which another program's rules search."""
    problems: tuple[str, ...] = ()
    """One line each: what could not be understood, and what became of it."""
    relaxed: tuple[str, ...] = ()
    """Quoted texts that no chunk holds, whose words are among the `terms` instead."""
    spaceless: bool = False
    """True if the text has a script without spaces, where one character is a word."""

    @property
    def unlisted(self) -> list[str]:
        """Name what cannot narrow a list of names, which holds no text."""
        return ["tag: narrows a search alone, not this list"] if self.filters.tags else []


def _with_filter(filters: Filters, key: str, value: str) -> tuple[Filters, str]:
    """Add a filter to others; one that makes no sense is not added, and the text says why."""
    before = getattr(filters, _FIELDS[key])
    if key == "-" and (named := _NAMED.match(value)) and named[1].lower() in _FIELDS:
        return filters, f"-{value} is left out: a filter cannot be negated"
    if key == "-" and not phrase_segments(value):
        return filters, f'-"{value}" holds no letter or digit: left out'
    if isinstance(before, tuple):
        values = tuple(dict.fromkeys((*before, value)))
        return replace(filters, **{_FIELDS[key]: values}), ""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        return filters, f"{key}{value} is ignored, as it is not a date: write YYYY-MM-DD"
    try:
        day = date.fromisoformat(value)
    except ValueError as error:
        return filters, f"{key}{value} is ignored, as it is not a date: {error}"
    narrower = max if key == "after:" else min
    return replace(filters, **{_FIELDS[key]: narrower(before or day, day)}), ""


def parse_query(text: str, *, typing: bool = False, verbatim: bool = False) -> Query:
    """Take a query apart; never raises, whatever is typed.

    Syntax: words; `begin*`; `"an exact phrase"`, required; `-word` and `-"a phrase"`, excluded;
    `path:GLOB`, `source:NAME`, `tag:GLOB`, `after:YYYY-MM-DD` (that day or later),
    `before:YYYY-MM-DD` (earlier than that day); a value with spaces in quotes. A filter that makes
    no sense is a problem line and the rest is searched. With `typing` the last word counts as the
    beginning of a word from three letters on, and what is merely unfinished is no problem. What is
    `verbatim` has words alone.
    """
    filters = NO_FILTERS
    problems, words, texts = list[str](), list[str](), list[str]()
    phrases: dict[str, None] = {}
    rest, at, is_open = list[str](), 0, False
    readable = _readable(text[:MAX_LENGTH])
    if len(text) > MAX_LENGTH:
        problems.append(f"only the first {MAX_LENGTH} characters are searched")
    for match in (_WORD if verbatim else _PIECE).finditer(readable):
        is_open = False
        if match["key"]:
            if value := match["value"].strip('"'):
                filters, problem = _with_filter(filters, match["key"].lower(), value)
                problems += filter(None, [problem])
                if not problem:
                    rest.append(text[at : match.start()].strip())
                    at = match.end()
                if match["end"] == "" and not typing:
                    problems.append(f"{_NOT_CLOSED}: all behind it belongs to {match['key']}")
            elif not typing:
                problems.append(f"{match['key'].lower()} is ignored: no value right behind it")
            continue
        if word := match["word"]:
            words.append(word)
            texts += filter(None, [word.removesuffix("*")])
            is_open = match.end() == len(readable)
            problems += filter(None, [_misread(word)])
            continue
        quoted, is_open = match["phrase"].split(), not match["close"]
        texts += quoted
        if is_open:
            words += quoted
            if not typing:
                problems.append(_NOT_CLOSED + ": searched as single words" * bool(quoted))
        elif phrase_segments(match["phrase"]):
            phrases[" ".join(quoted)] = None
            if _QUOTED_STAR.search(match["phrase"]):
                problems.append(f'"{match["phrase"]}": a star in quotes does nothing')
        elif quoted:
            problems.append(f'"{match["phrase"]}" holds no letter or digit: left out')
    if filters.after and filters.before and filters.after >= filters.before:
        problems.append(f"no day is after:{filters.after} and before:{filters.before}")
    embedded = " ".join(texts)
    terms = query_terms(" ".join(words), prefix_last=typing and is_open, stars=not verbatim)
    everything = query_terms(embedded).terms if phrases else terms.terms
    return Query(
        text=embedded,
        terms=terms,
        phrases=tuple(phrases),
        filters=filters,
        rest=" ".join(filter(None, [*rest, text[at:].strip()])) if at else text,
        problems=tuple(dict.fromkeys(problems)),
        spaceless=any(term.kind == "gram" for term in everything),
    )


def _misread(word: str) -> str:
    """Return a line about a word that looks like an operator and is none; empty for others."""
    if (named := _NAMED.match(word)) is not None:
        close = get_close_matches(named[1].lower(), list(_FIELDS), 1, cutoff=0.8)
        others = f"did you mean {close[0]}" if close else _FILTERS
        return f"{word} is searched as words: {others}" if close or word != named[1] else ""
    if _OTHER_LANGUAGE.fullmatch(word):
        return f"{word} is searched as a word: -word excludes, quotes require"
    return f"{word} is searched as words: a star ends a word" if _STAR.search(word) else ""


def query_problems(text: str, sources: Iterable[str], *, by_release: bool) -> list[str]:
    """Return what of a query is not understood by an index that has some sources.

    With `by_release` another program's rules search what is no filter.
    """
    query, names = parse_query(text[:MAX_LENGTH] if by_release else text), sorted(sources)
    there = f"is no source here: there is {', '.join(names)}"
    hints = {} if by_release else {CONVERSATIONS: _SYNTAX["sessions"]}
    unknown = [one for one in query.filters.sources if names and one.casefold() not in names]
    own = [f'"{phrase}"' for phrase in query.phrases]
    own += [f"{term.text}*" for term in query.terms.terms if term.kind == "star"]
    problems = [*query.problems, *(hints.get(one, f"source:{one} {there}") for one in unknown)]
    notes = (f"{one}: the agent's program searches its words" for one in own if by_release)
    return [*problems, *notes]


def day_rule(text: str) -> list[str]:
    """Return the rule for notes without a date, where a query asks for days."""
    filters = parse_query(text).filters
    return [_SYNTAX["undated"]] if filters.after or filters.before else []


def without_filters(text: str, filters: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """Take filters, as `Filters.fields` writes them, out of a query; of a day all of its key.

    Returns the rest, and what was taken out.
    """
    plain, rest, at, removed = [one.replace('"', "") for one in filters], "", 0, list[str]()
    gone = {one if one.startswith("-") else one.partition(":")[0] for one in plain}
    for match in _PIECE.finditer(_readable(text)):
        key = (match["key"] or "").lower().removesuffix(":")
        if (key + match["value"].strip('"') if key == "-" else key) in gone:
            rest, at = rest + text[at : match.start()], match.end()
            removed.append(f"{match['key'].lower()}{match['value']}")
    return " ".join((rest + text[at:]).split()), tuple(removed)


def word_pieces(text: str, *, syntax: bool = True) -> tuple[tuple[int, int], ...]:
    """Return where the words and quoted phrases of a query stand, as (start, end) in characters.

    Filters are left out. Without `syntax` nothing but blanks means anything.
    """
    pieces = (_PIECE if syntax else _WORD).finditer(_readable(text[:MAX_LENGTH]))
    return tuple(match.span() for match in pieces if not match["key"])


def _readable(text: str) -> str:
    """Replace what SQLite cannot take or nobody can have meant to type, length kept."""
    text = text.translate(_QUOTES)
    if text.isprintable():
        return text
    return re.sub("[\ud800-\udfff]", "\ufffd", re.sub("[\0-\x1f\x7f-\x9f]", " ", text))


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
            words = fold_text(piece).split()
            parts += [word for word in words if any(map(str.isalnum, word))]
            continue
        parts += grams(piece)
        if len(piece) > 1:
            segments.append(" ".join(parts))
            parts = []
    segments.append(" ".join(parts))
    return tuple(dict.fromkeys(quote(segment) for segment in segments if segment))


def narrowed(connection: Connection, query: Query) -> tuple[Query, set[int] | None]:
    """Return a query as it is searched, and the chunk rows that may be found; `None`: all.

    Phrases that no row has are taken as words if there are others. Raises what SQLite raises.
    """
    allowed = filtered_rows(connection, query.filters)
    if not query.phrases:
        return query, allowed
    holding = _holding(connection, *map(phrase_segments, query.phrases))
    if holding or not query.terms.terms:
        return query, holding if allowed is None else holding & allowed
    terms = query_terms(query.text)
    begun = (term for term in query.terms.terms if term.kind in {"prefix", "star"})
    terms = replace(terms, terms=tuple(dict.fromkeys((*terms.terms, *begun))))
    return replace(query, phrases=(), terms=terms, relaxed=query.phrases), allowed


def filtered_rows(connection: Connection, filters: Filters) -> set[int] | None:
    """Return the chunk rows that filters leave; `None`: all. Raises what SQLite raises."""
    if filters == NO_FILTERS:
        return None
    files = {
        file_id
        for file_id, path, source, day, mtime_ns in connection.execute(_SQL["files"])
        if filters.fits(path=path, source=source, day=day, mtime_ns=mtime_ns)
    }
    if filters.tags:
        texts = connection.execute(_SQL["may_have_tags"])
        files &= {file_id for file_id, text in texts if filters.fits_tags(text)}
    listed = (json.dumps(list(files)),)
    allowed = {row for (row,) in connection.execute(_SQL["of_files"], listed)}
    for excluded in filters.excluded:
        segments = list(phrase_segments(excluded))
        word = excluded.removesuffix("*")
        # Of a beginning whose stem is shorter only the word itself goes: others have that stem.
        if word != excluded and tokens(word) == tokens(word, FOLDING):
            segments[-1] += "*"
        allowed -= _holding(connection, segments)
    return allowed


def unfit_words(connection: Connection, query: Query) -> str:
    """Name what no chunk fits or holds, and what would; else empty. Raises what SQLite raises."""
    fields = ((" or ".join(typed), one) for one, typed in query.filters.fields())
    fitting = {typed: filtered_rows(connection, one) or set() for typed, one in fields}
    fitting |= {f'"{one}"': _holding(connection, phrase_segments(one)) for one in query.phrases}
    hint, alone = "", [typed for typed, some in fitting.items() if not some]
    verb = "holds" if all(typed[0] == '"' for typed in alone or fitting) else "fits"
    if any(typed.startswith("tag:") for typed in alone):
        texts = connection.execute(_SQL["may_have_tags"])
        tags = sorted(frozenset().union(*(tags_of(text) for _, text in texts)))
        near = chain(*(get_close_matches(tag, tags) for tag in query.filters.tags))
        hint = f" (tags here: {listed([*dict.fromkeys([*near, *tags])] or ['none'], 6)})"
    if any(typed.startswith(("after:", "before:")) for typed in alone):
        files = connection.execute(_SQL["files"])
        days = [day or str(local_day(mtime_ns)) for *_, day, mtime_ns in files] or ["none"]
        hint += f" (days here: {min(days)} to {max(days)})"
    if alone or not fitting or set.intersection(*fitting.values()):
        return f"no chunk {verb} {' or '.join(alone)}{hint}" if alone else ""
    others = {one: [fitting[two] for two in fitting if two != one] for one in fitting}
    without = [one for one in fitting if len(fitting) > 2 and set.intersection(*others[one])]
    hint = f"without {' or '.join(without)} some would" if without else "each alone fits some"
    return f"no chunk {verb} {' and '.join(fitting)} together ({hint})"


def _holding(connection: Connection, *phrases: Iterable[str]) -> set[int]:
    """Return the chunk rows that hold every segment of some phrases."""
    match = " AND ".join(dict.fromkeys(chain(*phrases)))
    return {row for (row,) in connection.execute(_SQL["holding"], (match,))}
