"""A file of results as it comes in: line by line, checked as an inline answer is, then stored."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memtui.embedding.batch.protocol import BatchProtocol
from memtui.embedding.protocols import WrongAnswer, vectors_in
from memtui.embedding.provider import Vector, clean_vectors
from memtui.embedding.services import Service
from memtui.embedding.usage import estimated_tokens

if TYPE_CHECKING:
    from memtui.embedding.protocols import Answered

_LONGEST_LINE: Final = 2**20
"""Bytes; a vector of 16384 numbers as text is a third of it."""
_TOGETHER: Final = 128
"""Vectors that are stored at a time."""


class BrokenResults(ValueError):
    """A file that cannot be one of results; its text repeats nothing of it."""


@dataclass(slots=True)
class Taken:
    """What was taken out of the results so far."""

    stored: int = 0
    refused: int = 0
    """Lines for texts that are missing, which hold no vector that can be used."""
    tokens: int = 0
    estimated: bool = False
    """Whether some tokens were counted by their length."""


class ResultReader:
    """Stores the vectors of the texts that are missing, each once.

    A line of an id that is not among the missing texts says nothing to this run, whoever wrote
    it, and is passed over; so is a second line of an id. `store` gets vectors of length 1.
    """

    def __init__(
        self,
        protocol: BatchProtocol,
        service: Service,
        missing: set[str],
        texts: Mapping[str, str],
        *,
        dimensions: int | None,
        store: Callable[[dict[str, Vector]], None],
    ) -> None:
        self.taken = Taken()
        self.dimensions = dimensions
        """Learned from the first vectors where it is not known: what most of them have."""
        self._protocol = protocol
        self._service = service
        self._missing = missing
        self._texts = texts
        self._store = store
        self._held: dict[str, Answered] = {}

    def read(self, chunks: Iterable[bytes]) -> None:
        """Read a file; raises what `chunks` and `store` raise, what was stored stays.

        Raises `BrokenResults` for a line that is longer than any vector.
        """
        self._held.clear()
        try:
            for line in lines(chunks):
                self._take(line)
        finally:
            # What came before a cut is whole, and need not be embedded again.
            self._flush()

    def _take(self, line: bytes) -> None:
        try:
            found = self._protocol.read(json.loads(line))
        except (ValueError, RecursionError):
            return
        if found is None or found.text_hash not in self._missing or found.text_hash in self._held:
            return
        try:
            answered = vectors_in(self._service, found.answer, 1, self.dimensions)
        except WrongAnswer:
            self.taken.refused += 1
            return
        self._held[found.text_hash] = answered
        if len(self._held) >= _TOGETHER:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        if self.dimensions is None:
            sizes = Counter(answered.vectors.shape[1] for answered in self._held.values())
            self.dimensions = sizes.most_common(1)[0][0]
        good = {
            text_hash: answered
            for text_hash, answered in self._held.items()
            if answered.vectors.shape[1] == self.dimensions
        }
        self.taken.refused += len(self._held) - len(good)
        self._held.clear()
        if good:
            self._store({name: clean_vectors(found.vectors[0]) for name, found in good.items()})
        self.taken.stored += len(good)
        for text_hash, answered in good.items():
            self._missing.discard(text_hash)
            if answered.tokens is None:
                self.taken.estimated = True
            self.taken.tokens += (
                estimated_tokens(len(self._texts[text_hash]))
                if answered.tokens is None
                else answered.tokens
            )


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut what comes in at line feeds, empty lines left out; the last line may lack its own.

    Raises `BrokenResults` for a line of more than 1 MiB.
    """
    rest = bytearray()
    for chunk in chunks:
        rest += chunk
        *whole, last = rest.split(b"\n")
        rest = last
        for line in whole:
            if line.strip():
                yield bytes(line)
        if len(rest) > _LONGEST_LINE:
            raise BrokenResults("a line of the results is longer than a vector can be")
    if rest.strip():
        yield bytes(rest)
