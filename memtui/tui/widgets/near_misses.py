"""The candidates that are not in the list, each with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from memtui.model import Drop
from memtui.tui import format as fmt
from memtui.tui.widgets.row_list import Row, RowList

if TYPE_CHECKING:
    from memtui.tui.widgets.result_row import RowLook

SHOWN = 24
"""More near misses than this are counted in the title and not drawn."""


class NearMisses(RowList):
    """The drops of the last answer, best first."""

    def on_mount(self) -> None:
        """Start with an empty list."""
        self.border_title = Content("Not shown")

    def show_drops(self, drops: Sequence[Drop], look: RowLook, keep: str | None = None) -> None:
        """Show why these chunks of the pool are not in the list; what has just left it is marked.

        Without a chunk to keep, another list starts at its top.
        """
        gone = [drop for drop in drops if drop.chunk.id in look.left]
        first = drops[:SHOWN]
        rows = [
            _row(drop, look) for drop in (*first, *(drop for drop in gone if drop not in first))
        ]
        if keep is None and [row.id for row in rows] == [row.id for row in self.rows]:
            keep = self.chosen_id
        self.set_rows(rows, keep, first=True)
        more = f", first {SHOWN}" if len(drops) > SHOWN else ""
        out = (f"  {look.glyphs.down} {len(gone)} out", "$state-error bold") if gone else ""
        self.border_title = Content.assemble(f"Not shown ({fmt.count(len(drops))}{more})", out)
        self.border_subtitle = Content("n hides")


def _row(drop: Drop, look: RowLook) -> Row:
    # Imported late: ranking needs numpy, and the first paint does not.
    from memtui.tui.widgets.result_row import drop_row

    def draw(width: int) -> Content:
        return drop_row(drop, look, width)

    return Row(drop.chunk.id, draw, min(look.lines, 2))
