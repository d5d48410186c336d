"""Credentials in text, masked as OpenClaw masks them before it indexes a conversation, and more.

A token of 18 characters or more keeps its first six and last four, a shorter one nothing, unless
another mask is asked for; a PEM block keeps its first and last line. Recognised are what is called
a secret in assignments, JSON, flags, headers and commands, tokens with the prefix of a service, and
what is random beside a word for a secret. The wide list leaves what OpenClaw 2026.4.26 masks and is
no credential, such as `KEY=F10`. Every pattern takes time in proportion to the text.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import groupby
from typing import Final, Literal

from msgspec import Struct

from memtui.data import read_table
from memtui.text.ecmascript import SPACE, utf16_length

SHORTEST_HINTED: Final = 18
"""A token with fewer characters is masked whole."""
MASK: Final = "***"

_FIRST, _LAST = 6, 4
_FLAGS: Final = re.IGNORECASE | re.ASCII
_PEM_MARK: Final = "PRIVATE KEY-----"
_PEM_BEGIN = re.compile(rf"-----BEGIN [A-Z ]*{_PEM_MARK}", _FLAGS)
_PEM_END = re.compile(rf"-----END [A-Z ]*{_PEM_MARK}", _FLAGS)
_MASKED = re.compile(rf"\S{{{_FIRST}}}…\S{{{_LAST}}}")


class Rule(Struct, frozen=True):
    """One shape of a credential."""

    expression: str
    """Its last group that is not empty is the secret; without groups the whole match is."""
    needs: tuple[str, ...]
    """Lower case; a text with none of these cannot match, and is not searched."""
    flags: re.RegexFlag = _FLAGS
    must: Literal["", "value", "random", "token"] = ""
    """The kind of text that a secret of this shape is."""
    begins: bool = False
    """A match begins with one of the words that it needs."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """The expression, compiled where a text needs it: all of them take 30 ms of a start."""
        return _compiled(self.expression, self.flags)

    def matches(self, text: str, lowered: str) -> Iterator[re.Match[str]]:
        """Yield what the expression finds in a text, from left to right."""
        # A capital may have two characters in lower case.
        if not self.begins or len(lowered) != len(text):
            yield from self.pattern.finditer(text)
            return
        end = 0
        for place in _places(lowered, self.needs):
            if place >= end and (match := self.pattern.match(text, place)):
                yield match
                end = match.end()

    def secret_in(self, candidate: str) -> str:
        """Return what is secret of what the expression found; empty if nothing can be."""
        if not self.must:
            return candidate
        # What ends a sentence, a piece of code or a string behind it is no part of it.
        bare = candidate.rstrip("\\`'\")]}.,;:*")
        if _PLACEHOLDER.pattern.search(candidate):
            return ""
        return bare if self.must == "value" or _is_random(bare, _LEAST_LENGTH[self.must]) else ""


@lru_cache(maxsize=2)
def _places(text: str, words: tuple[str, ...]) -> list[int]:
    places: list[int] = []
    for word in words:
        at = -1
        while (at := text.find(word, at + 1)) >= 0:
            places.append(at)
    return sorted(places)


_compiled = cache(re.compile)
_TABLE: Final = read_table("credentials.toml")
_LISTS: Final[dict[str, list[str]]] = _TABLE["lists"]
_WORDS: Final = {name: "|".join(parts) for name, parts in _LISTS.items()} | {
    **{name: str(_TABLE[name]) for name in ("names", "json names")},
    **{"s": "[<space>]", "space": SPACE},
}
_DIGIT, _CAPITAL, _SMALL = re.compile("[0-9]"), re.compile("[A-Z]"), re.compile("[a-z]")
_PLACEHOLDER: Final = Rule(_WORDS["placeholder"], ())
_IDENTIFIER: Final = Rule(_WORDS["identifier"], (), re.ASCII)
_LEAST_LENGTH: Final = {"random": 6, "token": 20}


def _is_random(text: str, least: int) -> bool:
    """Return whether a text of so many characters or more is random: no words in a row."""
    kinds = sum(kind.search(text) is not None for kind in (_DIGIT, _CAPITAL, _SMALL))
    # A word may have capitals within, such as PostgreSQL; a long one is the name of a class.
    is_short = 12 <= len(text) < _LEAST_LENGTH["token"]
    if len(text) < least or kinds < 2 or not (is_short or _DIGIT.search(text)):
        return False
    # Shannon entropy: words repeat their letters, and a short text has less at best.
    shares = [count / len(text) for count in Counter(text).values()]
    bits = -sum(share * math.log2(share) for share in shares)
    is_word = bits < min(2.8, math.log2(len(text)) - 0.8)
    return not (is_word or _IDENTIFIER.pattern.match(text))


def _rules(name: str, must: Literal["", "random"] = "") -> tuple[Rule, ...]:
    rules: list[Rule] = []
    for row in _TABLE[name]:
        expression = row["pattern"]
        for word, meaning in _WORDS.items():
            expression = expression.replace(f"<{word}>", meaning)
        needs = tuple(one for part in row["needs"] for one in _LISTS.get(part[1:-1], [part]))
        flags = re.ASCII if row.get("case") else _FLAGS
        rules.append(Rule(expression, needs, flags, row.get("must", must), "begins" in row))
    return tuple(rules)


OPENCLAW_2026_4: Final = _rules("openclaw named")
"""Rules by the name of a secret, as release 2026.4.26 orders them; PEM blocks and tokens follow."""
OPENCLAW_2026_4_TOKENS: Final = _rules("openclaw tokens")
"""Tokens that are told by their own shape."""
NAMED: Final = (*_rules("first"), *_rules("openclaw named", "random"), *_rules("named"))
"""Rules by the name of a secret: OpenClaw's shapes, and those that it lets through."""
TOKENS: Final = (*_rules("openclaw tokens", "random"), *_rules("tokens"))
"""Tokens that are told by their own shape: OpenClaw's, then those that it lets through."""

_KEY_PART = re.compile(_TABLE["key part"], re.MULTILINE)
_SECRET_NAME = re.compile(_TABLE["secret name"])
_STRONG_NAME = Rule(f"(?:{_WORDS['strong']})$", ())
_SEPARATORS = re.compile(r"[-_.\s]+")
_DEEPEST: Final = 100


def mask(token: str) -> str:
    """A token's first six and last four characters; nothing of one shorter than 18."""
    if len(token) < SHORTEST_HINTED:
        return MASK
    return f"{token[:_FIRST]}…{token[-_LAST:]}"


def redact(
    text: str,
    named: Sequence[Rule] = NAMED,
    tokens: Sequence[Rule] = TOKENS,
    *,
    masked: Callable[[str], str] = mask,
) -> str:
    """Mask the credentials in a text; `masked` is what a token becomes.

    `named` rules come first, then PEM blocks, then `tokens`; each sees what the one before left.
    """
    return apply_rules(redact_pem(apply_rules(text, named, masked)), tokens, masked)


def credential_line(text: str) -> int | None:
    """Return the line, from 0, of the first credential in a text; `None` where there is none.

    In a piece of a text that is what may be a piece of a private key, too; what is left of one that
    was masked is none.
    """
    text = _MASKED.sub(MASK, text)
    if (masked := redact(text)) == text:
        part = _KEY_PART.search(text)
        return text.count("\n", 0, part.start()) if part is not None else None
    pairs = zip(text.split("\n"), masked.split("\n"), strict=False)
    return next((number for number, (line, after) in enumerate(pairs) if line != after), 0)


def credentials_in(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line, from 0, and the text of each credential that `redact` masks, PEM apart."""
    filled = apply_rules(apply_rules(text, NAMED, _filled), TOKENS, _filled)
    line = end = 0
    for filling in _FILLING.finditer(filled):
        line += text.count("\n", end, end := filling.start())
        # A text may have such a character of its own.
        if (token := text[slice(*filling.span())]) != filling[0]:
            yield line, token


def openclaw_redact(text: str) -> str:
    """Mask the credentials that OpenClaw masks, and no others."""
    return redact(text, OPENCLAW_2026_4, OPENCLAW_2026_4_TOKENS)


def redact_pem(text: str) -> str:
    """Keep the first and last line of every private key; on one line nothing of it."""
    if _PEM_MARK.lower() not in text.lower():
        return text
    parts: list[str] = []
    at = 0
    while (begin := _PEM_BEGIN.search(text, at)) is not None:
        # At least one character stands between the two marks.
        end = _PEM_END.search(text, begin.end() + 1)
        if end is None:
            break
        lines = [line for line in re.split(r"\r?\n", text[begin.start() : end.end()]) if line]
        block = f"{lines[0]}\n…redacted…\n{lines[-1]}" if len(lines) > 1 else MASK
        parts += (text[at : begin.start()], block)
        at = end.end()
    return "".join((*parts, text[at:]))


def apply_rules(text: str, rules: Sequence[Rule], masked: Callable[[str], str]) -> str:
    """Mask what each rule finds, one after the other; `masked` is what a token becomes."""
    lowered = text.lower()
    # Neighbours often need the same: it is looked for once.
    tried = (
        rule
        for needs, neighbours in groupby(rules, lambda rule: rule.needs)
        if any(map(lowered.__contains__, needs))
        for rule in neighbours
    )
    for rule in tried:
        parts: list[str] = []
        at = 0
        for match in rule.matches(text, lowered):
            group = next((n for n in range(match.re.groups, 0, -1) if match[n]), 0)
            if secret := rule.secret_in(match[group]):
                start = match.start(group)
                parts += (text[at:start], masked(secret))
                at = start + len(secret)
        if parts:
            text = "".join((*parts, text[at:]))
            lowered = text.lower()
    return text


def redact_name(name: str) -> str:
    """Mask the credentials in a name whose parts are joined by two underscores, as tools have."""
    return "__".join(map(redact, name.split("__"))) if "__" in name else redact(name)


def redact_path(path: str) -> str:
    """Mask the credentials in a path, part by part; the ending of a file stays."""
    return "/".join(map(_redact_part, path.split("/")))


@lru_cache(maxsize=8192)
def _redact_part(part: str) -> str:
    name, dot, ending = part.rpartition(".")
    return f"{redact_name(name)}{dot}{ending}" if name else redact_name(part)


def is_secret_name(name: str) -> bool:
    """Tell whether a key names a credential: `apiKey`, `DB_PASSWORD`, `x-auth-token`."""
    plain = _SEPARATORS.sub("", name).lower()
    return (_SECRET_NAME.search(plain) or _STRONG_NAME.pattern.search(name)) is not None


def redact_value(value: object, depth: int = _DEEPEST) -> object:
    """Mask the credentials in what JSON holds: in every text, and whole by the names of its keys.

    `{"name": NAME, "value": VALUE}` counts as a key, as in lists of environment variables. What is
    more than `depth` objects and lists down is masked whole.
    """
    if isinstance(value, str):
        return redact(value)
    if depth == 0 and isinstance(value, dict | list):
        return MASK
    if isinstance(value, list):
        return [redact_value(item, depth - 1) for item in value]
    if not isinstance(value, dict):
        return value
    named = next((value[key] for key in ("name", "key") if isinstance(value.get(key), str)), "")
    hides = "value" in value and isinstance(named, str) and is_secret_name(named)
    masked: dict[object, object] = {}
    for key, item in value.items():
        masked_key = redact(key) if isinstance(key, str) else key
        if isinstance(key, str) and (is_secret_name(key) or (hides and key == "value")):
            is_empty = item is None or item == "" or isinstance(item, bool)
            secret = mask(item) if isinstance(item, str) else MASK
            masked[masked_key] = item if is_empty else secret
        else:
            masked[masked_key] = redact_value(item, depth - 1)
    return masked


_WIDTH: Final = 800
"""UTF-16 units at which the lines of a conversation are wrapped."""
_LABEL = re.compile(r"(?:User|Assistant): ")
_FILL: Final = "\uffff"
"""Stands for a character of a credential, so that everything keeps its place."""
_FILLING = re.compile(f"{_FILL}+")
_NAMED_BEYOND: Final = (*_rules("rest"), *_rules("first"), *_rules("named"))
_TOKENS_BEYOND: Final = _rules("tokens")
_WORD_WITH_DIGIT = re.compile(rf"(?=[^{SPACE}]*\d)[^{SPACE}]{{4,}}")


@lru_cache(maxsize=1024)
def redact_spoken(text: str) -> str:
    """Mask what a release's list let through in a chunk of a conversation; lines stay lines.

    The first word of a chunk that begins within a line is masked if it holds a digit: it may be
    the end of a credential. One that is torn between two chunks otherwise is not recognised.
    """
    lines = text.split("\n")
    is_cut = _LABEL.match(text) is None
    parts = [(*_joint(lines, number), line) for number, line in enumerate(lines)]
    joined = "".join(between + line[start:] for between, start, line in parts)
    filled = apply_rules(apply_rules(joined, _NAMED_BEYOND, _filled), _TOKENS_BEYOND, _filled)
    if is_cut and (word := _WORD_WITH_DIGIT.match(filled)) is not None:
        filled = _filled(word[0]) + filled[word.end() :]
    if filled == joined:
        return text
    # The line and offset of each character of the joined lines.
    places: list[tuple[int, int]] = []
    for number, (between, start, line) in enumerate(parts):
        places += [(number, start)] * len(between)
        places += [(number, offset) for offset in range(start, len(line))]
    for filling in reversed(list(_FILLING.finditer(filled))):
        start, end = filling.span()
        # The first line of a credential has its mask; there may be several behind it.
        shown = mask(joined[start:end])
        for number, run in groupby(places[start:end], lambda place: place[0]):
            offsets = [offset for _, offset in run]
            line = lines[number]
            lines[number] = line[: offsets[0]] + shown + line[offsets[-1] + 1 :]
            shown = MASK
    return "\n".join(lines)


def _filled(token: str) -> str:
    return _FILL * len(token)


def _joint(lines: Sequence[str], number: int) -> tuple[str, int]:
    """Return what joins a line to the one before it, and how much of the line is left out."""
    if number == 0:
        return "", 0
    line, before = lines[number], lines[number - 1]
    label, earlier = _LABEL.match(line), _LABEL.match(before)
    if label is None:
        # A line that is longer than a chunk is cut anywhere.
        return "", 0
    if earlier is None:
        return " ", label.end()
    previous_text = before[earlier.end() :]
    if label[0] != earlier[0]:
        return "\n", 0
    used = utf16_length(previous_text)
    if used >= _WIDTH - 1 and " " not in previous_text:
        return "", label.end()
    following = utf16_length(line[label.end() :].partition(" ")[0])
    return (" ", label.end()) if used + 1 + following > _WIDTH else ("\n", 0)
