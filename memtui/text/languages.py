"""The language of a text, and the stems of its words for the keyword leg.

English is left to the stemmer of the full-text index, and so are texts in a language that is not
known or that Snowball has no stemmer for. A stem ends in a character for private use that stands
for its language: so it is never taken for a word of another one, and FTS5's own stemmer, which
looks at the end of a word, leaves it as it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from functools import cache, lru_cache
from typing import Final

import Stemmer

from memtui.data import read_table

STEMMER: Final = Stemmer.version()
"""The release of the stemmers: another may give other stems."""

PASSAGE_END: Final = "\x1e"
"""No text holds it as a part of a word, and it stays what it is when text is normalised."""

_LATIN: Final = "LATIN"
_STEMMED: Final = frozenset(Stemmer.algorithms()) - {"english"}
_READ: Final = 1000
"""Characters of a text that tell its language."""
_FEWEST: Final = 3
"""So many different frequent words make a text of Latin letters one of their language: names in an
English note may hold two."""
_RAREST: Final = 20
"""One word in so many is a frequent one, at least."""
_FIRST_TAG: Final = 0x10F700

# The marks are the vowels of Hebrew, Arabic and the scripts of India. The underscore is for the
# caller to take out: without it one set of characters is three times as quick.
_WORDS = re.compile(
    "[\\w\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0dff]+"
)


@lru_cache(maxsize=64)
def language_of(text: str) -> str:
    """Return the language whose stemmer the words of a text take, as Snowball names it.

    Empty for English and where none is known.
    """
    words: list[str] = _WORDS.findall(
        unicodedata.normalize("NFKC", text[:_READ]).lower().replace("_", " ")
    )
    script = _LATIN
    if not text.isascii():
        of_script = defaultdict[str, list[str]](list)
        for word in words:
            of_script[_script(word[0])].append(word)
        letters = {name: len("".join(some)) for name, some in of_script.items()}
        script = max(letters, key=lambda name: (letters[name], name), default=_LATIN)
        words = of_script[script]
    frequent = Counter(filter(_languages().__contains__, words))
    counts_of = defaultdict[str, list[int]](list)
    for word, count in frequent.items():
        for language in _languages()[word]:
            counts_of[language].append(count)
    usual = read_table("languages.toml")["scripts"].get(script, "")
    # The order of equal ones must not change from run to run.
    ranked = {one: (sum(counts), one == usual, one) for one, counts in counts_of.items()}
    best = max(ranked, key=ranked.__getitem__, default=usual)
    is_doubtful = len(counts_of[best]) < _FEWEST or sum(counts_of[best]) * _RAREST < len(words)
    return "" if best not in _STEMMED or (script == _LATIN and is_doubtful) else best


@lru_cache(maxsize=65536)
def stems(word: str, language: str) -> tuple[str, ...]:
    """Return the stem of a word in lower case, in Latin letters without accents.

    Behind it stands the stem of the word written without accents, where that is another one. Empty
    for a word in another script than the language has, and for one with a digit.
    """
    if _script(word[0]) not in _scripts(language) or any(map(str.isdigit, word)):
        return ()
    # Made anew each time, which is cheap: one cannot serve two threads.
    stem = Stemmer.Stemmer(language).stemWord
    forms = [stem(word)]
    if _script(word[0]) == _LATIN and not word.isascii():
        forms = [_without_accents(forms[0]), _without_accents(stem(_without_accents(word)))]
    return tuple(dict.fromkeys(form + _tag(language) for form in forms))


def stem_text(text: str, language: str) -> str:
    """Replace the words of a text by their stems; second stems stand behind their passage."""
    more: list[str] = []

    def first(word: re.Match[str]) -> str:
        forms = stems(word[0].lower(), language) or (word[0],)
        if len(forms) > 1:
            more.append(f" {forms[1]} ")
        return forms[0]

    passages = []
    for passage in text.replace("_", " ").split(PASSAGE_END):
        passages.append(_WORDS.sub(first, passage) + "".join(more))
        more.clear()
    return PASSAGE_END.join(passages)


def stemmed_by(words: str) -> str:
    """Return the language whose stems the full-text index is given; empty for a text without."""
    names = list(read_table("languages.toml")["words"])
    tag = re.search(f"[{chr(_FIRST_TAG)}-{chr(_FIRST_TAG + len(names) - 1)}]", words)
    return names[ord(tag[0]) - _FIRST_TAG] if tag else ""


def without_tag(token: str) -> str:
    """Return a token of the full-text index as it is shown."""
    return token[:-1] if token[-1:] >= chr(_FIRST_TAG) else token


@cache
def _languages() -> dict[str, list[str]]:
    """Return the languages that each frequent word belongs to."""
    languages = defaultdict[str, list[str]](list)
    for language, words in read_table("languages.toml")["words"].items():
        for word in words.split():
            languages[word].append(language)
    return dict(languages)


@cache
def _scripts(language: str) -> frozenset[str]:
    words = read_table("languages.toml")["words"].get(language, "").split()
    return frozenset(_script(word[0]) for word in words)


@cache
def _tag(language: str) -> str:
    return chr(_FIRST_TAG + list(read_table("languages.toml")["words"]).index(language))


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def _without_accents(word: str) -> str:
    letters = unicodedata.normalize("NFD", word)
    return unicodedata.normalize("NFC", "".join(c for c in letters if not unicodedata.combining(c)))
