"""What the threads of the browse screen post to it; facts, in the past tense."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from memtui.model import Chunk
from memtui.model.browsing import DayTotals, MemoryFile
from memtui.tui.browsing.outline import Heading
from memtui.tui.browsing.rendering import RenderedLine
from memtui.tui.browsing.tree import Folder

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.engine.source import SourceText


@dataclass
class FilesListed(Message):
    """The files and the days of a memory; `error` says why there are none."""

    engine: Engine
    files: Sequence[MemoryFile] = ()
    days: Sequence[DayTotals] = ()
    error: str = ""
    seconds: float = 0.0


@dataclass
class TreeArranged(Message):
    """The tree of what a filter lets through; `ticket` is that of the wish."""

    ticket: int
    tree: tuple[Folder, ...]
    count: int
    problems: tuple[str, ...] = ()
    recalled: Mapping[str, int] | None = None
    """What the files were sorted by, where that is how often they come up."""


@dataclass
class FileRead(Message):
    """A file with its chunks and headings; without a source, why it cannot be shown."""

    engine: Engine
    path: str
    source: SourceText | None = None
    chunks: Sequence[Chunk] = ()
    outline: Sequence[Heading] = ()
    error: str = ""


@dataclass
class MarkdownRendered(Message):
    """A file as rendered Markdown for a width."""

    path: str
    lines: Sequence[RenderedLine]
    width: int
    line: int


@dataclass
class RecallsProgressed(Message):
    """So many queries of the history were asked again."""

    ticket: int
    done: int
    total: int

    def can_replace(self, message: Message) -> bool:
        """Let a burst collapse into its last message."""
        return isinstance(message, RecallsProgressed)


@dataclass
class RecallsCounted(Message):
    """How often the chunks of each file come up; `error` says why that is not known."""

    ticket: int
    recalled: Mapping[str, int] | None
    days: Sequence[DayTotals] = ()
    error: str = ""


@dataclass
class PlaceFound(Message):
    """Where a file is on disk; without a file there is none to edit."""

    path: str
    file: str | None
    line: int
