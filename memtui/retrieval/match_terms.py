"""Reading a MATCH expression back: the terms it joins and the phrases of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

Joiner: TypeAlias = Literal["AND", "OR"]

_TOKEN = re.compile(
    r'\s*(?:(?P<phrase>"(?:[^"]|"")*"(?:\s*\*)?)|(?P<word>AND|OR|NOT)\b'
    r"|(?P<open>(?:NEAR\s*)?\()|(?P<close>\))|(?P<distance>,\s*\d+))"
)
_ONE_PHRASE = re.compile(r'"[^"]*"')


@dataclass(frozen=True, slots=True)
class MatchTerm:
    """One operand of a MATCH expression: a phrase, or something in parentheses."""

    match: str
    phrases: tuple[str, ...]
    """FTS5 expressions of its phrases, in the order in which FTS5 numbers them."""

    @property
    def text(self) -> str:
        """The phrase without its quotes; an operand of several phrases as it is."""
        if self.phrases != (self.match,):
            return self.match
        quoted = self.match.rstrip("* ")
        star = "*" if self.match.endswith("*") else ""
        return quoted[1:-1].replace('""', '"') + star


@dataclass(frozen=True, slots=True)
class MatchTerms:
    """What an expression joins, and how."""

    joiner: Joiner
    """AND where there is but one operand."""
    terms: tuple[MatchTerm, ...]


def match_terms(match: str) -> MatchTerms:
    """Take a MATCH expression apart at its outermost AND or OR.

    Understands what memtui and OpenClaw write: quoted phrases, `*`, AND or OR between operands, and
    anything of these, NOT and NEAR within parentheses. Raises ValueError for anything else.
    """
    if _ONE_PHRASE.fullmatch(match):
        return MatchTerms("AND", (MatchTerm(match, (match,)),))
    joiners: set[str] = set()
    terms: list[MatchTerm] = []
    depth, start = 0, 0
    phrases: list[str] = []
    expects_operand = True
    for found in _tokens(match):
        kind, text = found.lastgroup, found[0].strip()
        if depth == 0 and (kind in ("phrase", "open")) != expects_operand:
            raise _unreadable(match, found.start())
        if depth == 0 and kind == "word":
            joiners.add(text)
            expects_operand = True
            continue
        if depth == 0:
            start, phrases = match.index(text, found.start()), []
        depth += {"open": 1, "close": -1}.get(kind or "", 0)
        if kind == "phrase":
            phrases.append(text)
        if depth == 0 and not phrases:
            raise _unreadable(match, start)
        if depth == 0:
            terms.append(MatchTerm(match[start : found.end()], tuple(phrases)))
            expects_operand = False
    joiner = joiners.pop() if joiners else "AND"
    if depth or expects_operand or joiners or joiner not in ("AND", "OR"):
        raise _unreadable(match, len(match))
    return MatchTerms("AND" if joiner == "AND" else "OR", tuple(terms))


def _tokens(match: str) -> Iterator[re.Match[str]]:
    place, end = 0, len(match.rstrip())
    while place < end:
        found = _TOKEN.match(match, place)
        if found is None:
            raise _unreadable(match, place)
        yield found
        place = found.end()


def _unreadable(match: str, place: int) -> ValueError:
    return ValueError(f"not an expression of quoted terms, at character {place}: {match}")
