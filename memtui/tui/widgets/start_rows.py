"""What the list holds while the query is empty: the last queries and the notes changed last."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from textual.content import Content

from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.widgets.result_row import QUIET, place_text
from memtui.tui.widgets.row_list import Row

if TYPE_CHECKING:
    from memtui.engine.source import RecentFile

QUERY = "query:"
FILE = "file:"
SHOWN_QUERIES = 5


def start_rows(
    queries: Sequence[str], files: Sequence[RecentFile], now: datetime
) -> tuple[Row, ...]:
    """Rows with ids `query:…` and `file:…`."""
    return (
        *(_query_row(query) for query in queries[:SHOWN_QUERIES]),
        *(_file_row(file, now) for file in files),
    )


def _query_row(query: str) -> Row:
    def draw(width: int) -> Content:
        text = Content.assemble(("asked    ", QUIET), safe_line(query))
        return text.truncate(max(width, 1), ellipsis=True)

    return Row(QUERY + query, draw)


def _file_row(file: RecentFile, now: datetime) -> Row:
    def draw(width: int) -> Content:
        when = fmt.ago(file.mtime, now)
        tail = f"  {fmt.counted(file.lines, 'line')}  {when:>12}"
        room = max(width - 9 - len(tail), 6)
        place = place_text(file.path, None, room)
        text = Content.assemble(
            ("changed  ", QUIET),
            place,
            " " * (room - place.cell_length),
            (tail, QUIET),
        )
        return text.truncate(max(width, 1), ellipsis=True)

    return Row(FILE + file.path, draw)
