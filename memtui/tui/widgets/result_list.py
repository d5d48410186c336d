"""The ranked results, and the candidates that are not in the list."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from textual.content import Content

from memtui.model import Drop, Hit, Ranked
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.widgets.row_list import Row, RowList

if TYPE_CHECKING:
    from memtui.engine.source import RecentFile
    from memtui.tui.widgets.result_row import RowLook

QUERY, FILE = "query:", "file:"
"""How the ids of rows begin while the query is empty: queries asked and notes changed last."""
SHOWN_QUERIES = 5
SHOWN_DROPS = 24
"""More near misses than this are counted in the title and not drawn."""
SORTS = ("rank", "vector", "keyword", "date")


class ResultList(RowList):
    """The hits of the last answer, in rank order or in another order for looking."""

    def show_hits(self, hits: Sequence[Hit], look: RowLook, keep: str | None) -> None:
        """Show hits in the given order, choosing the chunk `keep` when it is among them."""
        self.set_rows([_row(hit, look) for hit in hits], keep, first=True)


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
        first = drops[:SHOWN_DROPS]
        rows = [
            _drop(drop, look) for drop in (*first, *(drop for drop in gone if drop not in first))
        ]
        if keep is None and [row.id for row in rows] == [row.id for row in self.rows]:
            keep = self.chosen_id
        self.set_rows(rows, keep, first=True)
        more = f", first {SHOWN_DROPS}" if len(drops) > SHOWN_DROPS else ""
        out = (f"  {look.glyphs.down} {len(gone)} out", "$state-error bold") if gone else ""
        self.border_title = Content.assemble(f"Not shown ({fmt.count(len(drops))}{more})", out)
        self.border_subtitle = Content("n hides")


def sorted_hits(ranked: Ranked, sort: str) -> list[Hit]:
    """The hits in an order for looking; `rank` is the list's own."""
    match sort:
        case "vector" | "keyword":
            return sorted(ranked.hits, key=lambda hit: _leg_place(hit, sort))
        case "date":
            return sorted(ranked.hits, key=_newest_first)
        case _:
            return list(ranked.hits)


def query_terms(ranked: Ranked) -> tuple[str, ...]:
    """Every query term that some candidate holds, as the query spells it."""
    terms: dict[str, None] = {}
    for hits in ranked.pool.hits.values():
        for hit in hits:
            terms.update(dict.fromkeys(hit.terms))
    return tuple(terms)


def _row(hit: Hit, look: RowLook) -> Row:
    # Imported late: ranking needs numpy, and the first paint does not.
    from memtui.tui.widgets.result_row import hit_row

    return Row(hit.chunk.id, lambda width: hit_row(hit, look, width), look.lines)


def _drop(drop: Drop, look: RowLook) -> Row:
    # Imported late: ranking needs numpy, and the first paint does not.
    from memtui.tui.widgets.result_row import drop_row

    return Row(drop.chunk.id, lambda width: drop_row(drop, look, width), min(look.lines, 2))


def _leg_place(hit: Hit, leg: str) -> tuple[int, int]:
    part = next((part for name, part in hit.legs.items() if name.value == leg), None)
    return (1, hit.rank) if part is None else (0, part.position)


def _newest_first(hit: Hit) -> tuple[int, int]:
    day = hit.chunk.day
    newest = day.toordinal() if day else hit.chunk.mtime_ns // 86_400_000_000_000 + 719_163
    return (-newest, hit.rank)


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
        text = Content.assemble(("asked    ", fmt.MUTED), safe_line(query))
        return text.truncate(max(width, 1), ellipsis=True)

    return Row(QUERY + query, draw)


def _file_row(file: RecentFile, now: datetime) -> Row:
    def draw(width: int) -> Content:
        # Imported late: ranking needs numpy, and the first paint does not.
        from memtui.tui.widgets.result_row import place_text

        when = fmt.ago(file.mtime, now)
        tail = f"  {fmt.counted(file.lines, 'line')}  {when:>12}"
        room = max(width - 9 - len(tail), 6)
        place = place_text(file.path, None, room)
        text = Content.assemble(
            ("changed  ", fmt.MUTED),
            place,
            " " * (room - place.cell_length),
            (tail, fmt.MUTED),
        )
        return text.truncate(max(width, 1), ellipsis=True)

    return Row(FILE + file.path, draw)
