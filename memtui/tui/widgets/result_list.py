"""The ranked results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from memtui.model import Hit, Ranked
from memtui.tui.widgets.row_list import Row, RowList

if TYPE_CHECKING:
    from memtui.tui.widgets.result_row import RowLook

SORTS = ("rank", "vector", "keyword", "date")


class ResultList(RowList):
    """The hits of the last answer, in rank order or in another order for looking."""

    def show_hits(self, hits: Sequence[Hit], look: RowLook, keep: str | None) -> None:
        """Show hits in the given order, choosing the chunk `keep` when it is among them."""
        self.set_rows([_row(hit, look) for hit in hits], keep, first=True)


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

    def draw(width: int) -> Content:
        return hit_row(hit, look, width)

    return Row(hit.chunk.id, draw, look.lines)


def _leg_place(hit: Hit, leg: str) -> tuple[int, int]:
    part = next((part for name, part in hit.legs.items() if name.value == leg), None)
    return (1, hit.rank) if part is None else (0, part.position)


def _newest_first(hit: Hit) -> tuple[int, int]:
    day = hit.chunk.day
    newest = day.toordinal() if day else hit.chunk.mtime_ns // 86_400_000_000_000 + 719_163
    return (-newest, hit.rank)
