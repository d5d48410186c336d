"""What browsing asks of an index, whoever made it: its files, and one reading of its rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from memtui.model import Chunk, Document, Reason, SkippedFile
from memtui.model.browsing import MemoryFile
from memtui.retrieval.connection import Connection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Words:
    """The full-text table of an index, and how a text gets into it."""

    connection: Connection
    table: str
    tokenizer: str
    """The table's `tokenize` option."""
    spelled: Callable[[str], str]
    """What the text column holds for a text."""
    schema: str = "main"


@dataclass(frozen=True, slots=True)
class StoredVector:
    """A chunk's vector as it is stored, shape (dims,); `None` with the reason there is none."""

    values: NDArray[np.floating] | None
    state: Reason
    provider: str
    """Who makes the vectors of the index; empty when nobody does."""
    dimensions: int | None


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors that may be compared: `rowids` int64 (n,), `matrix` (n, dims), unit or not."""

    rowids: NDArray[np.int64]
    matrix: NDArray[np.floating]
    live: NDArray[np.bool_]
    """(n,): which rows may be found."""


class Holdings(Protocol):
    """One reading of an index; everything on the engine thread, of one moment."""

    @property
    def words(self) -> Words | None:
        """The full-text table; `None` for an index without one."""

    @property
    def size(self) -> int:
        """How many chunks there are."""

    def row_of(self, chunk_id: str) -> int | None:
        """The row of a chunk; `None` when it is gone."""

    def chunks(self, rowids: Iterable[int]) -> Mapping[int, Chunk]:
        """Read chunks by row; those that are gone are missing from the answer."""

    def rows_of(self, path: str) -> Sequence[int]:
        """The rows of a file's chunks, in the order of their lines."""

    def rows_after(self, rowid: int, limit: int, source: str) -> Sequence[int]:
        """The next rows of one source, ascending; to read all of them in pieces."""

    def same_text(self, rowid: int) -> Sequence[int]:
        """The other rows with exactly the text of one."""

    def changed(self, chunk: Chunk) -> datetime | None:
        """When the chunk's file changed last, as far as the index or the disk says."""

    def vector(self, rowid: int) -> StoredVector:
        """The vector of a chunk."""

    def vectors(self, rowid: int) -> Vectors | Reason:
        """The vectors that those of one row may be compared with; why not, otherwise."""


def never() -> bool:
    """What goes on until it is done."""
    return False


class Shelf(Protocol):
    """The files of a memory and its index; any thread."""

    def files(self, cancelled: Callable[[], bool] = never) -> list[MemoryFile]:
        """Every file that is found on disk or held by the index, by path; raises `Cancelled`."""

    def file_of(self, path: str) -> Path | None:
        """Where a file is on disk; `None` for what is no file of its own."""

    def documents(self, cancelled: Callable[[], bool]) -> Iterator[Document | SkippedFile]:
        """Read the notes as they are on disk now, by path; why one cannot be read."""

    @property
    def chunk_tokens(self) -> int:
        """How many tokens a chunk of the index holds at most."""

    @property
    def notes_missing(self) -> str:
        """Why no note can be read, in one line; empty when they can."""

    def read(self, function: Callable[[Holdings], T]) -> T | None:
        """Read the index on the engine thread; `None` when there is none yet."""

    def stamp(self) -> Hashable:
        """Another one whenever the index has changed; `None` without an index."""
