"""The rows of a choice: a file with its state, a chunk with its lines and first words."""

from __future__ import annotations

from functools import partial

from textual.content import Content

from memtui.model import Chunk
from memtui.model.browsing import MemoryFile
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.browsing.file_words import badge
from memtui.tui.browsing.marks import Marks
from memtui.tui.widgets.row_list import Row

_HEAD_CHARACTERS = 200
"""So much of a chunk is looked at for its first words."""


def file_choice(file: MemoryFile, marks: Marks) -> Row:
    """A file by its path; the id of the row is the path."""
    return Row(file.path, partial(_draw_file, file, marks))


def chunk_choice(place: int, chunk: Chunk) -> Row:
    """The chunk at a place among those of its file, from 0; the id of the row is the place."""
    return Row(str(place), partial(_draw_chunk, place, chunk))


def _draw_file(file: MemoryFile, marks: Marks, width: int) -> Content:
    right = f" {badge(file.state, marks)} {fmt.counted(file.chunks, 'chunk')}"
    left = Content(safe_line(file.path)).truncate(max(1, width - len(right)), ellipsis=True)
    gap = " " * max(0, width - left.cell_length - len(right))
    return Content.assemble(left, gap, (right, fmt.MUTED))


def _draw_chunk(place: int, chunk: Chunk, width: int) -> Content:
    lines = f"{chunk.start_line}-{chunk.end_line}"
    words = " ".join(chunk.text[:_HEAD_CHARACTERS].split())
    row = Content.assemble(f"{place + 1:>4}", (f"  {lines:<11} ", fmt.MUTED), safe_line(words))
    return row.truncate(width, ellipsis=True)
