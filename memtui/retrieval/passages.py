"""The passages of a chunk: as the index keeps them, and those nearest to a query."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from memtui.data import read_table
from memtui.memory.passages import PassageFlag, passages
from memtui.model.inquiry import Passage
from memtui.retrieval.connection import FOLDING, Connection, damaged, tokens, vector_checksum
from memtui.text.languages import PASSAGE_END
from memtui.text.tokens import are_apart, index_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Embed: TypeAlias = Callable[[Sequence[str]], NDArray[np.float32]]
    """Turns n texts into vectors, shape (n, dims)."""

MOST_PASSAGES = 48
"""So many are embedded at most; of more passages, neighbours are taken together."""

_SQL = read_table("queries.toml")["passages"]
_ROW = struct.Struct("<4I")
_EVERY_FLAG = sum(PassageFlag)


class PassageRow(NamedTuple):
    """A passage as the index keeps it, with its place among the tokens of its chunk.

    The first has what stands before it, too, and each what stands up to the next.
    """

    start: int
    end: int
    flags: int
    """Of `PassageFlag`."""
    first_token: int
    tokens: int


def pack_passages(text: str) -> tuple[str, bytes]:
    """Return what the full-text column holds of a chunk's text, and its passages.

    Four little-endian uint32 each: first character, the one behind the last, flags, tokens.
    """
    cut, text = passages(text), text.replace(PASSAGE_END, " ")
    # Within a word that is too long there is no cut: its tokens are those of its first passage.
    inner = [one.start for one in cut[1:] if are_apart(text[one.start - 1 : one.start + 1])]
    bounds = pairwise([0, *inner, len(text)])
    words = index_text(PASSAGE_END.join([text[start:end] for start, end in bounds]))
    parts = words.split(PASSAGE_END)
    counts = dict(zip([0, *inner], (len(tokens(part, FOLDING)) for part in parts), strict=True))
    rows = [
        _ROW.pack(one.start, one.end, one.flags, counts.get(one.start if place else 0, 0))
        for place, one in enumerate(cut)
    ]
    return "".join(parts), b"".join(rows)


def unpack_passages(packed: Any, length: int) -> list[PassageRow]:
    """Read the passages that the index keeps of a text of `length` characters.

    Raises what SQLite raises about damage for what cannot be those.
    """
    rows, behind, first = list[PassageRow](), 0, 0
    is_whole = type(packed) is bytes and len(packed) % _ROW.size == 0
    for start, end, flags, count in _ROW.iter_unpack(packed if is_whole else b""):
        is_whole &= behind <= start < end <= length and flags <= _EVERY_FLAG
        rows.append(PassageRow(start, end, flags, first, count))
        behind, first = end, first + count
    if not is_whole:
        raise damaged("the passages of a chunk are not those that were written")
    return rows


def fetch_passages(
    connection: Connection, lengths: Mapping[int, int]
) -> dict[int, list[PassageRow]]:
    """Read the passages of chunks, given the length of each text; an older index has none.

    Raises what SQLite raises about damage for what cannot be those of the text.
    """
    if not connection.execute(_SQL["are_kept"]).get:
        return {}
    rows = connection.execute(_SQL["of_chunks"], (json.dumps(sorted(lengths)),))
    return {row: unpack_passages(packed, lengths[row]) for row, packed in rows}


PIECE_NUMBERS, PIECE_UNIT = 32, 127
"""The length of a vector of a word piece, and the whole number that stands for 1 in it."""


def pack_pieces(vectors: Sequence[NDArray[np.float32]]) -> bytes:
    """Return as the index keeps them the word pieces of each passage, shape (n, 32), length 1.

    The little-endian uint16 number of each passage's, then each rounded to 127ths, as int8.
    """
    import numpy as np

    counts = np.array([len(rows) for rows in vectors], "<u2")
    return counts.tobytes() + b"".join(
        np.rint(PIECE_UNIT * rows).astype("i1").tobytes() for rows in vectors
    )


def unpack_pieces(packed: Any, passages: int) -> list[NDArray[np.int8]]:
    """Read the word pieces of so many passages, each of shape (n, 32).

    Raises what SQLite raises about damage for what cannot be those.
    """
    import numpy as np

    head = 2 * passages
    is_whole = type(packed) is bytes and len(packed) >= head
    counts = np.frombuffer(packed[:head], "<u2") if is_whole else np.zeros(0, int)
    if not is_whole or len(packed) != head + PIECE_NUMBERS * int(counts.sum()):
        raise damaged("the word pieces of a chunk are not those that were written")
    rows = np.frombuffer(packed, np.int8, offset=head).reshape(-1, PIECE_NUMBERS)
    return [rows[start:end] for start, end in pairwise([0, *np.cumsum(counts).tolist()])]


def has_pieces(connection: Connection) -> bool:
    """Return whether an index has a table for word pieces, which an older one has not."""
    return bool(connection.execute(_SQL["have_pieces"]).get)


def fetch_pieces(
    connection: Connection, passages: Mapping[int, int]
) -> dict[int, list[NDArray[np.int8]]]:
    """Read the word pieces of chunks by row number, given how many passages each has.

    Those without any are left out. Raises what SQLite raises about damage for what was changed.
    """
    if not has_pieces(connection):
        return {}
    rows: list[Any] = connection.execute(_SQL["pieces"], (json.dumps(sorted(passages)),)).fetchall()
    return {
        row: unpack_pieces(
            packed if checksum == vector_checksum(row, packed) else None, passages[row]
        )
        for row, packed, checksum in rows
    }


def nearest_passages(
    text: str, query: NDArray[np.float32], embed: Embed, *, limit: int = 3
) -> tuple[Passage, ...]:
    """Find the `limit` passages of a text nearest to a query vector (dims,), best first.

    An illustration of what the text has to do with the query: the chunk's own cosine is that of
    the whole text and no mean of these. All are embedded in one call. Passages to which the model
    gives no vector but zeros are left out; equal ones stand in the order of the text. Raises what
    `embed` raises.
    """
    parts = passages(text)
    size = max(1, -(-len(parts) // MOST_PASSAGES))
    groups = [parts[place : place + size] for place in range(0, len(parts), size)]
    spans = [(group[0].start, group[-1].end) for group in groups]
    vectors = embed([text[start:end] for start, end in spans]) if spans else ()
    scored_passages: list[Passage] = []
    for (start, end), vector in zip(spans, vectors, strict=True):
        if norm := _length(vector):
            cosine = _dot(vector, query) / (norm * _length(query))
            scored_passages.append(Passage(start, end, min(1.0, max(-1.0, cosine))))
    return tuple(sorted(scored_passages, key=lambda passage: -passage.cosine)[:limit])


def _dot(left: NDArray[np.float32], right: NDArray[np.float32]) -> float:
    """Return the product of two vectors, rounded once: the same on every processor."""
    return math.fsum(left.astype("float64") * right.astype("float64"))


def _length(vector: NDArray[np.float32]) -> float:
    return math.sqrt(_dot(vector, vector))
