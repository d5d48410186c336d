"""Reading a note for the preview, and saying whether it is still what was indexed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from memtui.memory.documents import read_document, split_lines
from memtui.memory.paths import absolute_path
from memtui.model import SourceFile


@dataclass(frozen=True, slots=True)
class SourceText:
    """A note as it is on disk now."""

    path: str
    lines: list[str]
    state: str
    """`current`, `changed` (since it was indexed) or `gone`."""
    hash: str
    detail: str = ""
    """One line about `state`; empty when current."""
    on_disk: list[str] | None = None
    """The file as it is now, where `lines` are the indexed ones: what differs can be shown."""


@dataclass(frozen=True, slots=True)
class RecentFile:
    """A note that changed lately."""

    path: str
    mtime: datetime
    lines: int


@dataclass(frozen=True, slots=True)
class RebuildCost:
    """What indexing everything again would take."""

    files: int
    chunks: int
    cached: int
    """Chunks whose vector is in the cache and need not be embedded."""
    tokens_estimate: int
    """Tokens of the chunks that would be embedded, at four characters a token."""
    remote: bool
    price: float | None = None
    """What the tokens cost, in `currency`; `None` where no price is known."""
    currency: str = ""
    """ISO 4217; empty where nothing is charged, and for the user's own price."""
    as_of: str = ""
    """The day or month of the price list; empty where the price is of none."""
    provider: str = ""
    """Who would make the vectors; empty: nobody."""
    model: str = ""
    address: str = ""
    """The host that text would be sent to; empty when it stays in this program."""


def read_source(root: Path, path: str, indexed_hash: str | None, indexed_text: str) -> SourceText:
    """Read the note at `path` below `root`.

    `indexed_hash` is the hash in the index, `None` when it is not indexed; when the file is gone
    or cannot be read, `indexed_text` is shown instead and `detail` says why.
    """
    absolute = Path(absolute_path(path, str(root)))
    try:
        stat = absolute.stat()
        document = read_document(
            SourceFile(path, absolute, "memory", stat.st_size, stat.st_mtime_ns, stat.st_ino)
        )
    except FileNotFoundError:
        return SourceText(path, split_lines(indexed_text), "gone", "", "file gone; indexed text")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return SourceText(path, split_lines(indexed_text), "gone", "", f"{reason}; indexed text")
    is_current = indexed_hash is None or document.hash == indexed_hash
    state, detail = ("current", "") if is_current else ("changed", "changed since it was indexed")
    return SourceText(path, split_lines(document.text), state, document.hash, detail)
