"""From a query to what is asked of FTS5: tokens, MATCH expressions, substrings, keywords."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Final

from msgspec import Struct

from memtui.data import read_table
from memtui.settings.openclaw.releases import ShortTerms
from memtui.text.ecmascript import SPACE, trim
from memtui.text.tokens import MAX_QUERY_CHARS

TRIGRAM: Final = "trigram"

_TOKEN = re.compile(r"\w+")
_SHORT_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u3131-\u3163]")
_PARTIAL_WORD = re.compile(r"(?<!\w)\w+\Z")
_MATCHABLE = 3
"""FTS5's trigram tokenizer cannot find a term with fewer characters."""


class KeywordPlan(Struct, frozen=True):
    """A MATCH expression (or none) and terms that must occur as substrings."""

    match: str | None
    substrings: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to ask."""
        return self.match is None and not self.substrings


def searched_part(query: str) -> str:
    """Return the searched part of a query: at most `MAX_QUERY_CHARS`, without a word that is cut.

    SQLite's `bm25()` takes time with the square of the number of terms.
    """
    if len(query) <= MAX_QUERY_CHARS:
        return query
    head = query[:MAX_QUERY_CHARS]
    if _TOKEN.match(query, MAX_QUERY_CHARS) is None:
        return head
    return _PARTIAL_WORD.sub("", head) or head


def tokens(text: str) -> list[str]:
    """The runs of letters, digits and underscores of every script, in order, with duplicates.

    The rule of 2026.2.17 to 2026.9.6: combining marks end a token.
    """
    return _TOKEN.findall(text)


def tokens_with_marks(text: str) -> list[str]:
    """The tokens of the path leg, which keep combining marks (2026.8.1 on)."""
    spaced = "".join(
        char if char == "_" or unicodedata.category(char)[0] in "LMN" else " " for char in text
    )
    return spaced.split()


def match_all(terms: Sequence[str]) -> str | None:
    """Every term quoted, joined with AND; `None` without terms."""
    return " AND ".join('"{}"'.format(term.replace('"', "")) for term in terms) or None


def plan_keyword(
    query: str, *, tokenizer: str, short_terms: ShortTerms, marks: bool = False
) -> KeywordPlan:
    """Plan one keyword search (`planKeywordSearch`).

    Under the trigram tokenizer, terms too short to match become substring conditions: those with
    a CJK character up to 2026.7, every script's from 2026.9.
    """
    if tokenizer != TRIGRAM or short_terms == "none":
        return KeywordPlan(match_all(tokens(query)))
    long: list[str] = []
    short: list[str] = []
    for term in tokens_with_marks(query) if marks else tokens(query):
        is_short = len(term) < _MATCHABLE and (
            short_terms == "all" or _SHORT_CJK.search(term) is not None
        )
        (short if is_short else long).append(term)
    return KeywordPlan(match_all(long), tuple(short))


def like_pattern(term: str) -> str:
    """A LIKE pattern that finds a term anywhere; the escape character is a backslash."""
    escaped = term.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


_KANA = re.compile("[\u3040-\u30ff]")
_HAN = re.compile("[\u4e00-\u9fff]")
_HAN_ONLY = re.compile("[\u4e00-\u9fff]+")
_JAPANESE_PART = re.compile("[a-z0-9_]+|[\u30a0-\u30ffー]+|[\u4e00-\u9fff]+|[\u3040-\u309f]{2,}")
_HANGUL = re.compile("[\uac00-\ud7af\u3131-\u3163]")
_SYLLABLE = re.compile("[\uac00-\ud7af]")
_ASCII_WORD = re.compile("[a-z0-9_]+", re.IGNORECASE | re.ASCII)
_ASCII_LETTERS = re.compile("[a-zA-Z]+")
_ASCII_DIGITS = re.compile("[0-9]+")
_SHORTEST_WORD = 3
_word_lists: Final = partial(read_table, "openclaw-stop-words.toml")


@cache
def stop_words() -> frozenset[str]:
    """The words of seven languages that no keyword search asks for."""
    return frozenset(" ".join(_word_lists()["stop_words"].values()).split())


def extract_keywords(query: str, *, trigram: bool) -> list[str]:
    """The keywords of a query, lower case, each once, in order.

    Kana is taken run by run, Han as characters and adjacent pairs (under the trigram tokenizer as
    one block), Hangul as the word and its stem without the longest trailing particle. Stop words
    of seven languages, ASCII words of one or two letters, plain numbers and symbols are left out.
    """
    # Split at white space and punctuation; symbols stay.
    spaced = "".join(
        " " if char in SPACE or unicodedata.category(char).startswith("P") else char
        for char in trim(query).lower()
    )
    keywords: dict[str, None] = {}
    for segment in filter(None, spaced.split(" ")):
        for token in _keywords_of(segment, trigram):
            if token not in stop_words() and _is_useful(token):
                keywords.setdefault(token)
    return list(keywords)


def _keywords_of(segment: str, trigram: bool) -> list[str]:
    if _KANA.search(segment):
        words: list[str] = []
        for part in _JAPANESE_PART.findall(segment):
            words.append(part)
            if not trigram and _HAN_ONLY.fullmatch(part):
                words += map("".join, pairwise(part))
        return words
    if _HAN.search(segment):
        characters = _HAN.findall(segment)
        pairs = map("".join, pairwise(characters))
        return ["".join(characters)] if trigram else [*characters, *pairs]
    if not _HANGUL.search(segment):
        return [segment]
    stop, particles = _word_lists()["stop_words"]["korean"].split(), _word_lists()["particles"]
    stems = (segment.removesuffix(particle) for particle in particles.split())
    stem = next((stem for stem in stems if stem not in ("", segment)), None)
    words = [] if segment in stop or stem in stop else [segment]
    if stem and stem not in stop:
        is_word = len(stem) >= 2 if _SYLLABLE.search(stem) else _ASCII_WORD.fullmatch(stem)
        words += [stem] if is_word else []
    return words


def _is_useful(token: str) -> bool:
    if _ASCII_LETTERS.fullmatch(token):
        return len(token) >= _SHORTEST_WORD
    if _ASCII_DIGITS.fullmatch(token):
        return False
    return any(unicodedata.category(character)[0] not in "PS" for character in token)
