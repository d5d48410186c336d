"""The passages of a text that are nearest to a query, sentence by sentence.

An illustration: the vector leg compares the whole chunk's vector, and no score is made of these.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from memtui.model.inquiry import Passage
from memtui.retrieval.marks import Span

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Embed: TypeAlias = Callable[[Sequence[str]], NDArray[np.float32]]
    """Turns n texts into vectors, shape (n, dims)."""

MOST_PASSAGES = 48
"""So many are embedded at most; of more sentences, neighbours are taken together."""
LONGEST = 400
"""Characters; a longer sentence is cut between words."""

# A new paragraph, list item, heading, quotation, table row or code fence; not a wrapped line.
_BLOCK = re.compile(r"\n(?=[ \t]*(?:$|\n|[-*+>|][ \t|-]|\d{1,3}[.)][ \t]|#{1,6}[ \t]|```|~~~))")
_HEADING = re.compile(r"[ \t]*#{1,6}[ \t][^\n]*\n")
_MARKER = re.compile(
    r"(?:(?:[-*+>|]|\d{1,3}[.)]|#{1,6})[ \t]+|\[[ xX]\][ \t]+|\s+)*(?:(?:```|~~~)\w*[ \t]*\n)?"
)
_CLOSING = "\"'”’»)\\]}*_`」』）】》"
# Of some marks in a row the first tells for all of them: each would be tried to the end else.
_END = re.compile(
    rf"(?P<spaced>(?<![.!?…؟।॥])[.!?…]|[؟।॥])[.!?…]*[{_CLOSING}]*(?=\s|$)"
    rf"|[。！？｡．]+[{_CLOSING}]*",
    re.MULTILINE,
)
_ABBREVIATIONS = frozenset(
    {"mr", "mrs", "ms", "dr", "prof", "st", "vs", "cf", "ca", "approx", "nr", "fig", "vol"}
    | {"e.g", "i.e", "z.b", "d.h", "u.a", "bzw", "inkl", "evtl"}
)
_LAST_WORD = re.compile(r"[^\W\d_](?:[^\W\d_]|\.(?=\w))*$")


def sentences(text: str) -> tuple[Span, ...]:
    """Cut a text into sentences, as ascending (start, end) in characters that do not overlap.

    Ends at `.`, `!`, `?` before a space, at `。！？` anywhere, and where a paragraph, list item,
    heading or table row begins. Every letter and digit is in one of them, and each holds at least
    one; only the markers of lists, headings and code fences are left out.
    """
    spans: list[Span] = []
    for start, end in _blocks(text):
        marker = _MARKER.match(text, start, end)
        first = marker.end() if marker else start
        for ending in (*_END.finditer(text, first, end), None):
            if ending is not None and ending["spaced"] == ".":
                before = _LAST_WORD.search(text[max(first, ending.start() - 16) : ending.start()])
                # The full stop of `e.g.`, `Dr.` or `J.` ends no sentence.
                word = before[0] if before is not None else ""
                if word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isupper()):
                    continue
            last = ending.end() if ending is not None else end
            spans += _pieces(text, first, last)
            first = last
    return tuple(spans)


def nearest_passages(
    text: str, query: NDArray[np.float32], embed: Embed, *, limit: int = 3
) -> tuple[Passage, ...]:
    """Find the `limit` passages of a text nearest to a query vector (dims,), best first.

    An illustration of what the text has to do with the query: the chunk's own cosine is that of
    the whole text and no mean of these. All are embedded in one call. Passages to which the model
    gives no usable vector are left out; equal ones stand in the order of the text. Raises what
    `embed` raises, and ValueError when its vectors are not of the query's length.
    """
    import numpy as np

    parts = sentences(text)
    size = max(1, -(-len(parts) // MOST_PASSAGES))
    groups = [parts[place : place + size] for place in range(0, len(parts), size)]
    spans = [(group[0][0], group[-1][1]) for group in groups]
    length = _length(query)
    if not spans or limit <= 0 or not math.isfinite(length) or length == 0:
        return ()
    vectors = np.asarray(embed([text[start:end] for start, end in spans]), dtype=np.float32)
    if vectors.shape != (len(spans), len(query)):
        raise ValueError(f"vectors of shape {vectors.shape} for {len(spans)} x {len(query)}")
    passages: list[Passage] = []
    for (start, end), vector in zip(spans, vectors, strict=True):
        norm = _length(vector)
        if math.isfinite(norm) and norm > 0:
            cosine = _dot(vector, query) / (norm * length)
            passages.append(Passage(start, end, min(1.0, max(-1.0, cosine))))
    return tuple(sorted(passages, key=lambda passage: -passage.cosine)[:limit])


def _dot(left: NDArray[np.float32], right: NDArray[np.float32]) -> float:
    """Return the product of two vectors, rounded once: the same on every processor."""
    return math.fsum(left.astype("float64") * right.astype("float64"))


def _length(vector: NDArray[np.float32]) -> float:
    return math.sqrt(_dot(vector, vector))


def _blocks(text: str) -> Iterator[Span]:
    start = 0
    for end in [*(beginning.end() for beginning in _BLOCK.finditer(text)), len(text)]:
        heading = _HEADING.match(text, start, end)
        if heading is not None:
            yield start, heading.end()
            start = heading.end()
        yield start, end
        start = end


def _pieces(text: str, start: int, end: int) -> Iterator[Span]:
    """Trim a sentence, and cut one that is too long; nothing for one without letter or digit."""
    while start < end:
        cut = end
        if end - start > LONGEST:
            space = text.rfind(" ", start + LONGEST // 2, start + LONGEST)
            cut = space if space > start else start + LONGEST
        piece = text[start:cut]
        if any(map(str.isalnum, piece)):
            first = start + len(piece) - len(piece.lstrip())
            yield first, first + len(piece.strip())
        start = cut
