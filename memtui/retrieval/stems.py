"""Tokens as SQLite's own FTS5 tokenizers make them, for queries, marks and explanations.

A tokenizer belongs to a connection; one of no file serves every thread that asks.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable
from typing import Any

from memtui.text.tokens import FTS5_TOKENIZE

FOLDING = FTS5_TOKENIZE.removeprefix("porter ")
"""The tokenizer of the index without its stemmer, which comes first and hands on to the rest."""

_FOR_A_QUERY = 1  # FTS5_TOKENIZE_QUERY in fts5.h

_SUFFIXES = (
    "ing", "ed", "es", "ies", "er", "ers", "ation", "ations", "ition", "ment", "ments", "ness",
    "able", "ful", "ive", "ity", "ities", "ally", "ize", "izing", "ion", "ions", "ence", "ences",
    "ance", "ances", "ible", "ational", "al",
)  # fmt: skip
_SHORTEST_BASE = 3


@functools.cache
def _tokenizer(options: str) -> Callable[..., Any]:
    import apsw

    name, *arguments = shlex.split(options)
    return apsw.Connection("").fts5_tokenizer(name, arguments)


def tokens(text: str, tokenizer: str = FTS5_TOKENIZE) -> list[str]:
    """Return the tokens of a query by a table's `tokenize` option; raises what SQLite raises."""
    found: list[str] = _tokenizer(tokenizer)(
        text.encode("utf-8", "replace"),
        _FOR_A_QUERY,
        None,
        include_offsets=False,
        include_colocated=False,
    )
    return found


def token_places(encoded: bytes, tokenizer: str = FTS5_TOKENIZE) -> list[tuple[int, int, str]]:
    """Return the tokens of a text in UTF-8, each with its first byte and the one behind it."""
    found: list[tuple[int, int, str]] = _tokenizer(tokenizer)(
        encoded, _FOR_A_QUERY, None, include_colocated=False
    )
    return found


def completions(beginning: str) -> tuple[str, ...]:
    """Finish a suffix that is begun, where the finished word has a stem of its own.

    `runni` becomes `running`, since its stem `run` does not begin with what is typed and no
    prefix finds it. `beginning` is folded: lower case without diacritics.
    """
    finished = [
        base + suffix
        for suffix in _SUFFIXES
        for length in range(1, len(suffix))
        if beginning.endswith(suffix[:length])
        and len(base := beginning[:-length]) >= _SHORTEST_BASE
    ]
    words: dict[str, str] = {}
    for word, stem in zip(finished, tokens(" ".join(finished)), strict=False):
        words.setdefault(stem, word)
    return tuple(word for stem, word in words.items() if not stem.startswith(beginning))


def word_with_stem(stem: str) -> str | None:
    """Find a word that FTS5 reduces to `stem`, since a query can only name words.

    A stem is often its own stem; `deploy`, the stem of `deployment`, is not.
    """
    words = [stem + end for end in ("", *_SUFFIXES)]
    stems = zip(words, tokens(" ".join(words)), strict=False)
    return next((word for word, own in stems if own == stem), None)
