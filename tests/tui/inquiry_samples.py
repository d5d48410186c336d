"""A sample engine that answers questions about chunks, and values as such answers hold them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from memtui.bus import SearchReady
from memtui.engine.explain import inquiry_of
from memtui.engine.ports import FileStanding
from memtui.model import CandidatePool, Chunk, Ranked, Ranking, Reason
from memtui.model.inquiry import (
    FoundBy,
    Inquiry,
    KeywordExplanation,
    Passage,
    Passages,
    PhraseScore,
    Place,
    PrunedTerm,
    SubstringTerm,
    TermScore,
)
from tests.tui.samples import SampleEngine, make_chunk

OUTSIDE = make_chunk("memory/2024-05-05.md", 1, 3, "Sold the old switch. Nobody asked for it.")
"""A chunk of the index that no leg brings into the pool."""


def term(text: str, tf: int, df: int, idf: float, share: float) -> TermScore:
    """A term of one word."""
    phrase = PhraseScore(f'"{text}"', (text.rstrip("s"),), tf, df, idf, share)
    return TermScore(text, phrase.match, False, tf > 0, share, (phrase,))


def make_terms(held: bool = True) -> KeywordExplanation:
    """The keyword leg of a chunk that holds one of two words, or none."""
    router = term("routers", 2, 9, 3.25, 3.5) if held else term("routers", 0, 9, 3.25, 0.0)
    return KeywordExplanation(
        rowid=7,
        match='"routers" OR "config"',
        tokenizer="porter unicode61",
        indexed=True,
        found=held,
        score=-3.5 if held else None,
        terms=(router, term("config", 0, 4, 4.1, 0.0)),
        rows=214,
        length=42,
        average_length=61.25,
        pruned=(PrunedTerm("home", 180, True),),
        stop_words=("the", "of"),
        substrings=(SubstringTerm("ER605", True),),
        missing=() if held else ("omada",),
        nowhere=("zzz",),
        asked="router config",
        found_by=FoundBy.MATCH if held else FoundBy.NOTHING,
    )


def make_passages(chunk: Chunk) -> Passages:
    """The first and the last sentence of a chunk."""
    text = chunk.text
    first = Passage(0, max(1, text.find(";") + 1), 0.62)
    last = Passage(text.rfind(" ") + 1, len(text), 0.41)
    return Passages(text, (first, last), model="sample-model")


@dataclass
class InquiringEngine(SampleEngine):
    """The sample engine, of which parts fail when named in `failing`, or wait for `gate`."""

    outside: tuple[Chunk, ...] = (OUTSIDE,)
    failing: set[str] = field(default_factory=set)
    gate: threading.Event | None = None
    """Passages wait for it, as for a slow model."""
    better: dict[str, CandidatePool] = field(default_factory=dict)
    """What a query that holds a word finds in place of the pool."""

    def answer(self, sequence: int, text: str, ranking: Ranking | None = None) -> None:
        """Publish an answer, first of the keyword leg alone as engines do."""
        pool = replace(self._pool(text), query=text)
        ranked = self.rerank(pool, ranking or Ranking())
        part = replace(ranked, hits=ranked.hits[:1])
        self.bus.publish(SearchReady(sequence, part, False))
        self.bus.publish(SearchReady(sequence, ranked, True))

    def ask(self, text: str, *, ranking: Ranking | None = None, typing: bool = False) -> Ranked:
        """Search by the same words."""
        self.calls.append(f"search {text}")
        return self.rerank(replace(self._pool(text), query=text), ranking or Ranking())

    def _pool(self, text: str) -> CandidatePool:
        words = text.casefold().split()
        return next((pool for word, pool in self.better.items() if word in words), self.pool)

    def inquire(self, ranked: Ranked, chunk_id: str) -> Inquiry:
        """Say why a chunk is shown or not."""
        self._fail("inquire")
        return super().inquire(ranked, chunk_id)

    def inquire_at(self, ranked: Ranked, place: Place) -> Inquiry:
        """Say why a place is shown or not; `huge.md` is too large to be indexed."""
        if place.path != "huge.md":
            return super().inquire_at(ranked, place)
        numbers = {"bytes": 20_000_000, "limit_bytes": 8_000_000}
        file = FileStanding(place.path, Reason.TOO_LARGE, numbers=numbers)
        return inquiry_of(ranked, place, file)

    def passages(self, ranked: Ranked, chunk_id: str) -> Passages:
        """The nearest passages, as soon as the gate is open."""
        if self.gate is not None:
            assert self.gate.wait(10)
        self._fail("passages")
        return super().passages(ranked, chunk_id)

    def paths(self) -> Sequence[str]:
        """What the index holds."""
        self._fail("paths")
        return super().paths()

    def _fail(self, part: str) -> None:
        if part in self.failing:
            raise RuntimeError(f"no {part} today")
