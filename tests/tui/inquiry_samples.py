"""Values as answers to questions about a chunk hold them."""

from __future__ import annotations

from memtui.model import Chunk
from memtui.model.inquiry import (
    FoundBy,
    KeywordExplanation,
    Passage,
    Passages,
    PhraseScore,
    PrunedTerm,
    SubstringTerm,
    TermScore,
)


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
