"""The part of a result's text that is shown in its place."""

from __future__ import annotations

from dataclasses import dataclass, field

from memtui.model import Hit
from memtui.report import words


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The part of a chunk that is shown, and where query terms are in it."""

    text: str
    spans: tuple[tuple[int, int], ...] = field(default=())


def excerpt_of(hit: Hit, width: int) -> Excerpt:
    """The part of a hit's text around its matched terms, at most `width` cells."""
    from memtui.retrieval.marks import snippet

    terms = tuple(dict.fromkeys(term for part in hit.legs.values() for term in part.terms))
    cut = snippet(hit.chunk.text, terms, width)
    fitting = words.fitting(cut.text, width)
    if fitting < len(cut.text):
        fitting = words.fitting(cut.text, width - 1)
        spans = tuple(span for span in cut.spans if span[1] <= fitting)
        return Excerpt(cut.text[:fitting] + "…", spans)
    return Excerpt(cut.text, tuple(cut.spans))
