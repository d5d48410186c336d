"""The words of a text that tell it from the others: those that the fewest rows hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from memtui.retrieval.bm25 import NATIVE_TABLE
from memtui.retrieval.connection import Connection
from memtui.retrieval.openclaw.plan import TRIGRAM, well_formed
from memtui.retrieval.openclaw.plan import tokens as openclaw_tokens
from memtui.retrieval.openclaw.tables import IndexTables
from memtui.retrieval.stems import tokens
from memtui.text.stopwords import STOP_WORDS
from memtui.text.tokens import query_terms, quote

_SHORTEST = 2
_LONGEST = 40
"""A run without spaces that is longer is no word that anybody would add."""
_MATCHABLE = 3
_MOST_LOOKED_UP = 400
_MOST_COUNTED = 5000

Tokens = Callable[[str], list[str]]
Count = Callable[[str], int]


def rare_words(connection: Connection, text: str, query: str, limit: int) -> tuple[str, ...]:
    """The rarest words of a text that a query lacks, by how many chunks of the index hold them.

    Words as the index tokenizes them, each stem once; pairs of characters where a script has no
    spaces. Stop words and single letters are left out. Raises what SQLite raises.
    """

    def count(word: str) -> int:
        return _rows_with(connection, NATIVE_TABLE, quote(word))

    words = (term.text for term in query_terms(text).terms if term.kind in {"word", "gram"})
    return _rarest(words, query, limit, tokens, count)


def rare_words_openclaw(
    connection: Connection, tables: IndexTables, text: str, query: str, limit: int
) -> tuple[str, ...]:
    """As `rare_words`, by the full-text table of an OpenClaw index and its tokenizer.

    Under trigram, scripts without spaces give memtui's own pairs, and words of one or two ASCII
    letters, which the table cannot look up, are left out. Nothing without a full-text table.
    """
    fts = tables.fts
    if fts is None:
        return ()
    held = well_formed(text)
    if tables.tokenizer == TRIGRAM:
        terms = (term.text for term in query_terms(held).terms if term.kind in {"word", "gram"})
        words: Iterable[str] = (w for w in terms if len(w) >= _MATCHABLE or not w.isascii())
    else:
        words = openclaw_tokens(held)

    def count(word: str) -> int:
        if tables.tokenizer == TRIGRAM and len(word) < _MATCHABLE:
            return _MOST_COUNTED
        return _rows_with(connection, fts, quote(word))

    by_table = partial(tokens, tokenizer=tables.tokenizer)
    return _rarest(words, well_formed(query), limit, by_table, count)


def _rarest(
    words: Iterable[str], query: str, limit: int, tokens_of: Tokens, count: Count
) -> tuple[str, ...]:
    asked = frozenset(tokens_of(query))
    different: dict[tuple[str, ...], str] = {}
    for word in _useful(words):
        found = tuple(tokens_of(word))
        if found and not asked.issuperset(found):
            different.setdefault(found, word)
    chosen = list(different.values())[:_MOST_LOOKED_UP]
    # Words come before numbers, which are seldom what somebody remembers.
    keyed = [
        (word.isdigit(), count(word), not word.isalpha(), place, word)
        for place, word in enumerate(chosen)
    ]
    return tuple(word for *_, word in sorted(key for key in keyed if key[1])[:limit])


def _useful(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if _SHORTEST <= len(word) <= _LONGEST and word.lower() not in STOP_WORDS:
            yield word


def _rows_with(connection: Connection, table: str, match: str) -> int:
    sql = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {table} MATCH ? LIMIT ?)"
    return int(connection.execute(sql, (match, _MOST_COUNTED)).fetchall()[0][0])
