"""The terms of a text as a full-text table indexes them, and the rows that hold each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from memtui.engine.browsing.shelf import Words
from memtui.model.browsing import ChunkTerm
from memtui.retrieval.connection import tokens

_IN_ROWS, _IN_PLACES = "memtui_terms", "memtui_places"


class TermTable:
    """Counts of one full-text table; on the thread of its connection, for one reading."""

    def __init__(self, words: Words) -> None:
        self._words = words
        for vocabulary, kind in ((_IN_ROWS, "row"), (_IN_PLACES, "instance")):
            words.connection.execute(
                f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{vocabulary} "
                f"USING fts5vocab({words.schema}, {words.table}, {kind})"
            )

    def tokens(self, text: str) -> list[str]:
        """The terms of a text in their order, repetitions included."""
        return tokens(self._words.spelled(text), self._words.tokenizer)

    def frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        """In how many rows each term stands; 0 for one that the table does not have."""
        found = dict.fromkeys(terms, 0)
        rows = self._words.connection.execute(
            f"SELECT v.term, v.doc FROM json_each(?) j JOIN temp.{_IN_ROWS} v ON v.term = j.value",
            (json.dumps(list(found)),),
        ).fetchall()
        found.update((str(term), int(rows_with)) for term, rows_with in rows)
        return found

    def rows_with(self, term: str) -> list[int]:
        """The rows that hold a term, each once."""
        rows = self._words.connection.execute(
            f"SELECT DISTINCT doc FROM temp.{_IN_PLACES} WHERE term = ?", (term,)
        )
        return [rowid for (rowid,) in rows.fetchall()]

    def counted(self, text: str) -> tuple[int, tuple[ChunkTerm, ...]]:
        """How many terms a text has, and each of them, the rarest first."""
        counts = Counter(self.tokens(text))
        frequencies = self.frequencies(counts)
        terms = [ChunkTerm(term, count, frequencies[term]) for term, count in counts.items()]
        terms.sort(key=lambda term: (term.document_frequency, term.term))
        return counts.total(), tuple(terms)
