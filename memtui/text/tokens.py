"""Words for the keyword leg: what goes into the full-text index, and what a query asks of it.

Scripts without spaces are split beforehand, because SQLite's `unicode61` tokenizer takes a whole
Chinese clause for one word: Han, kana and Hangul into pairs and single characters, Thai, Lao,
Myanmar and Khmer into triples and pairs. The words of a text in one of Snowball's languages are
written as their stems. Everything else is left to the tokenizer, which folds case and diacritics
and stems English. Both sides are normalised to NFKC, with the barred d as d.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter
from itertools import pairwise
from operator import add
from typing import Literal

from msgspec import Struct

from memtui.data import read_table
from memtui.text.ecmascript import well_formed
from memtui.text.languages import language_of, stem_text

FTS5_TOKENIZE = "porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
"""Value of FTS5's `tokenize` option; marks count as letters so that Thai words stay whole."""

MAX_QUERY_CHARS = 4096
"""Characters of a query that are read; what follows is left out."""

MIN_PREFIX_LETTERS = 3
"""From how many letters on the word being typed also finds longer words."""

STOP_WORDS = frozenset(read_table("english.toml")["stop_words"].split())
"""Too common to search for, in lower case."""

TermKind = Literal["word", "gram", "phrase", "prefix", "star"]
"""A `prefix` is still being typed, a `star` asks for exactly the words that begin so."""

_EAST_ASIAN = (
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3\U00020000-\U0003134f"
)
SOUTH_EAST_ASIAN = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Scripts whose words are written together, as ranges of a character class."""
_UNSPACED = re.compile(f"([{_EAST_ASIAN}]+)|([{SOUTH_EAST_ASIAN}]+)")
_LETTERS = re.compile(r"[^\W_]+")
_WITHOUT_BARS = str.maketrans("\u0111\u0110", "dD")
_VIETNAMESE = re.compile("[\u0103\u00e2\u00ea\u00f4\u01a1\u01b0\u0111\u1ea1-\u1ef9]", re.IGNORECASE)

# At most 4096 characters: composing a longer run of marks takes quadratic time. A cut before one
# of these changes neither normalisation nor grams: none combines with what stands before it, and
# none is part of a run that is split into grams. Where none comes, the cut is after 4096, wherever
# that is.
_PIECE = re.compile(
    "(?s:.{1,4096})"
    "(?=[\x00-\x7f\u2010-\u2027\u3000-\u3003\u3008-\u3011\uff01\uff0c\uff1a\uff1b\uff1f]|\\Z)"
    "|(?s:.{4096})"
)


class QueryTerm(Struct, frozen=True):
    """One thing a query looks for: `text` as the query spells it, `fts` ready for `MATCH`."""

    text: str
    fts: str
    kind: TermKind


class QueryTerms(Struct, frozen=True):
    """The terms of a query, and the stop words that were left out of it."""

    terms: tuple[QueryTerm, ...]
    stop_words: tuple[str, ...]
    only_stop_words: bool = False
    """True if the terms are all stop words, which count for want of others."""


def index_text(text: str) -> str:
    """Turn text into what the full-text column holds."""
    language = language_of(text)
    return stem_text(fold_text(text), language) if language else fold_text(text)


def fold_text(text: str) -> str:
    """Write text in NFKC, what has no spaces as its grams."""
    if text.isascii():
        return text
    pieces = [unicodedata.normalize("NFKC", piece) for piece in _PIECE.findall(text)]
    return "".join(_UNSPACED.sub(_spread, piece.translate(_WITHOUT_BARS)) for piece in pieces)


def query_terms(text: str, *, prefix_last: bool = False, stars: bool = False) -> QueryTerms:
    """Read a query into terms: grams of unspaced scripts, words, and Vietnamese word pairs.

    Stop words are left out unless they are all there is. With `prefix_last`, a last word of at
    least three letters that ends the text also finds longer words; with `stars` every word does
    that has a `*` behind it and then a blank or the end.
    """
    raw = unicodedata.normalize("NFKC", text[:MAX_QUERY_CHARS])
    folded = raw.translate(_WITHOUT_BARS)
    terms: dict[str, QueryTerm] = {}
    for run in split_scripts(folded)[1::2]:
        terms |= {gram: QueryTerm(gram, quote(gram), "gram") for gram in grams(run)}
    spaced = only_spaced(folded)
    # Marks stay inside a word as they do in the index: they are the vowels of Hindi and of pointed
    # Arabic, and whole words would be lost without them.
    spans: list[tuple[int, int]] = []
    for letters in _LETTERS.finditer(spaced):
        start, end = letters.span()
        if spans and spans[-1][1] == start:
            start = spans.pop()[0]
        while end < len(spaced) and unicodedata.category(spaced[end]).startswith("M"):
            end += 1
        spans.append((start, end))
    words = [(folded[start:end].lower(), raw[start:end]) for start, end in spans]
    typing = (
        prefix_last
        and bool(spans)
        and spans[-1][1] == len(folded)
        and spans[-1][1] - spans[-1][0] >= MIN_PREFIX_LETTERS
    )
    begun = {
        word
        for (word, _), (_, end) in zip(words, spans, strict=True)
        if stars and folded[end : end + 1] == "*" and not folded[end + 1 : end + 2].strip()
    }
    searched = [pair for pair in words if pair[0] not in STOP_WORDS - begun]
    only_stop_words = not searched and not terms
    if only_stop_words:
        searched = words
    kinds: dict[str, TermKind] = dict.fromkeys(begun, "star")
    if typing and words[-1] in searched:
        kinds.setdefault(words[-1][0], "prefix")
    for word, spelled in searched:
        star = "*" if word in kinds else ""
        terms.setdefault(word, QueryTerm(spelled, quote(word) + star, kinds.get(word, "word")))
    if _VIETNAMESE.search(raw):
        # Most Vietnamese words have two syllables, written apart.
        for at, ((first, first_text), (second, second_text)) in enumerate(pairwise(words)):
            key = f"{first} {second}"
            star = "*" if typing and at == len(words) - 2 else ""
            phrase = QueryTerm(f"{first_text} {second_text}", quote(key) + star, "phrase")
            terms.setdefault(key, phrase)
    dropped = dict.fromkeys(word for word, _ in words if (word, _) not in searched)
    only_stop_words &= bool(words) and not begun
    return QueryTerms(tuple(terms.values()), tuple(dropped), only_stop_words)


def quote(term: str) -> str:
    """Write a term as an FTS5 string literal, without NUL and lone surrogates, which break it."""
    return '"' + well_formed(term).replace("\0", " ").replace('"', '""') + '"'


def split_scripts(text: str) -> list[str]:
    """Cut a text in NFKC where its script changes: odd places are scripts without spaces."""
    if text.isascii():
        return [text]
    # Of the two groups that tell the scripts apart, one has the run and the other nothing.
    return [part for part in _UNSPACED.split(text) if part is not None]


@functools.lru_cache(4096)
def are_apart(pair: str) -> bool:
    """Tell whether a text cut between these two characters has the tokens of the whole."""
    if pair.isascii():
        return not (pair[0].isalnum() and pair[1].isalnum())
    before, after = map(fold_text, pair)
    ends = unicodedata.category(before[-1]), unicodedata.category(after[0])
    is_word = all(end[0] in "LNM" or end == "Co" for end in ends)
    return fold_text(pair) == before + after and not is_word


def grams(run: str) -> list[str]:
    """Cut a run of a script without spaces into its n-grams."""
    length = 3 if re.match(f"[{SOUTH_EAST_ASIAN}]", run) else 2
    return [run[at : at + length] for at in range(max(1, len(run) - length + 1))]


def only_spaced(text: str) -> str:
    """Return a text in NFKC with blanks for scripts without spaces, and the barred d as d.

    Every character keeps its place.
    """
    if text.isascii():
        return text
    return _UNSPACED.sub(lambda run: " " * len(run.group()), text).translate(_WITHOUT_BARS)


def dominant_script(text: str, scripts: tuple[str, ...]) -> bool:
    """Tell whether at least half of the letters are of `scripts`; text without letters counts too.

    A script is what the Unicode names of its letters begin with: `"CYRILLIC "`. A letter of double
    width is a syllable or a word, and counts twice.
    """
    letters = {
        char: count * (2 if unicodedata.east_asian_width(char) in "WF" else 1)
        for char, count in Counter(text[:MAX_QUERY_CHARS]).items()
        if char.isalpha()
    }
    named = (char for char in letters if unicodedata.name(char, "").startswith(scripts))
    return 2 * sum(letters[char] for char in named) >= sum(letters.values())


def _spread(run: re.Match[str]) -> str:
    """Write a run as its grams, and as shorter grams too, so that short queries find it."""
    text = run[0]
    # Without a loop in Python: half of the text of a memory may be Chinese.
    pairs = " ".join(map(add, text, text[1:]))
    if run.lastindex == 1:
        return f" {pairs} {' '.join(text)} " if pairs else f" {text} "
    triples = " ".join(map("".join, zip(text, text[1:], text[2:], strict=False)))
    return f" {triples} {pairs} " if triples else f" {text} "
