"""From a query to what is asked of FTS5: tokens, the MATCH expression and substring conditions."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from itertools import compress
from typing import Final

from memtui.retrieval.openclaw.release import ShortTerms, TokenRule
from memtui.text.tokens import MAX_QUERY_CHARS

TRIGRAM: Final = "trigram"

_ASCII_TOKEN = re.compile(r"[A-Za-z0-9_]+")
_UNICODE_TOKEN = re.compile(r"\w+")
_SHORT_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u3131-\u3163]")
_PARTIAL_WORD = re.compile(r"(?<!\w)\w+\Z")
_MATCHABLE = 3
"""FTS5's trigram tokenizer cannot find a term with fewer characters."""


@dataclass(frozen=True, slots=True)
class KeywordPlan:
    """What is asked: a MATCH expression (or none) and terms that must occur as substrings."""

    match: str | None
    substrings: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to ask."""
        return self.match is None and not self.substrings


def well_formed(text: str) -> str:
    """The text with U+FFFD for halves of pairs, as SQLite is given it by the program."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def searched_part(query: str) -> str:
    """What of a query is searched: at most `MAX_QUERY_CHARS`, the last word left out where cut.

    SQLite's `bm25()` takes time with the square of the number of terms.
    """
    if len(query) <= MAX_QUERY_CHARS:
        return query
    head = query[:MAX_QUERY_CHARS]
    if _UNICODE_TOKEN.match(query, MAX_QUERY_CHARS) is None:
        return head
    return _PARTIAL_WORD.sub("", head) or head


def tokens(text: str, rule: TokenRule = TokenRule.UNICODE) -> list[str]:
    """The runs of letters, digits and underscores, in order and with duplicates.

    `TokenRule.ASCII` is release 2026.2.1; 2026.2.17 to 2026.9.6 take the letters and digits of
    every script, and no combining marks.
    """
    pattern = _ASCII_TOKEN if rule is TokenRule.ASCII else _UNICODE_TOKEN
    return pattern.findall(text)


def tokens_with_marks(text: str) -> list[str]:
    """The tokens of the path leg, which keep combining marks (2026.8.1 on)."""
    found: list[str] = []
    start: int | None = None
    for index, character in enumerate(text):
        if character == "_" or unicodedata.category(character)[0] in "LMN":
            start = index if start is None else start
        elif start is not None:
            found.append(text[start:index])
            start = None
    return found if start is None else [*found, text[start:]]


def match_all(terms: list[str]) -> str | None:
    """Every term quoted, joined with AND; `None` without terms."""
    return " AND ".join('"{}"'.format(term.replace('"', "")) for term in terms) or None


def plan_keyword(
    query: str,
    *,
    tokenizer: str,
    rule: TokenRule = TokenRule.UNICODE,
    short_terms: ShortTerms = ShortTerms.CJK,
    marks: bool = False,
) -> KeywordPlan:
    """Plan one keyword search (`planKeywordSearch`).

    Under the trigram tokenizer, terms too short to match become substring conditions: those with
    a CJK character up to 2026.7, every script's from 2026.9.
    """
    found = tokens_with_marks(query) if marks and tokenizer == TRIGRAM else tokens(query, rule)
    if tokenizer != TRIGRAM or short_terms is ShortTerms.NONE:
        return KeywordPlan(match_all(found))
    is_short = [_is_short(term, short_terms) for term in found]
    long = [term for term, short in zip(found, is_short, strict=True) if not short]
    return KeywordPlan(match_all(long), tuple(compress(found, is_short)))


def like_pattern(term: str) -> str:
    """A LIKE pattern that finds a term anywhere; the escape character is a backslash."""
    escaped = term.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _is_short(term: str, rule: ShortTerms) -> bool:
    if len(term) >= _MATCHABLE:
        return False
    return rule is ShortTerms.ALL or _SHORT_CJK.search(term) is not None
