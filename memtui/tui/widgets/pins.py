"""The pinned chunks: one line each, through every query and every change of a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content

from memtui.model import Chunk, Hit, Ranked
from memtui.report.explanation import drop_words, failure_words
from memtui.tui import format as fmt
from memtui.tui.glyphs import Glyphs
from memtui.tui.widgets.line_view import TextBlock
from memtui.tui.widgets.result_rows import place_text

if TYPE_CHECKING:
    from memtui.model.inquiry import Inquiry

MOST = 2
"""The oldest makes room for a third."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A pinned chunk and how it stands in the list on screen."""

    chunk: Chunk
    standing: Content
    shown: bool = False


def standing(
    ranked: Ranked | None, chunk: Chunk, inquiry: Inquiry | None, problem: str, glyphs: Glyphs
) -> Pin:
    """How a chunk stands in a list; `inquiry` says it for what is not in the pool."""
    if ranked is None:
        return Pin(chunk, Content.styled("followed from the next query on", fmt.MUTED))
    for hit in ranked.hits:
        if hit.chunk.id == chunk.id:
            return Pin(chunk, _rank(hit, ranked), shown=True)
    drop = next((drop for drop in ranked.drops if drop.chunk.id == chunk.id), None)
    if drop is not None:
        why = drop_words(drop, ranked)
    elif problem:
        why = problem
    elif inquiry is None:
        why = glyphs.ellipsis
    else:
        failure = inquiry.first_failure
        why = failure_words(failure, brief=True) if failure is not None else "not in this list"
    return Pin(chunk, Content.assemble(("not shown: ", "$state-warn"), (why, fmt.MUTED)))


def _rank(hit: Hit, ranked: Ranked) -> Content:
    return Content.assemble(
        (fmt.rank(hit.rank), "bold $state-ok"),
        (f" of {len(ranked.hits)}", fmt.MUTED),
        (f"  {fmt.score(hit.effective)}", fmt.MUTED),
    )


class Pins(TextBlock):
    """One line for each pin; not there without any."""

    DEFAULT_CSS = "Pins { padding: 0 1; display: none; }"

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(id="pins")
        self.glyphs = glyphs

    def show_pins(self, pins: Sequence[Pin]) -> None:
        """Show these pins."""
        self.display = bool(pins)
        self.show(lambda width: [self._line(pin, width) for pin in pins])

    def _line(self, pin: Pin, width: int) -> Content:
        mark = Content.styled(f"{self.glyphs.pin} ", "bold $primary")
        room = max(width // 3, width - pin.standing.cell_length - mark.cell_length - 2)
        named = place_text(pin.chunk.path, pin.chunk.start_line, room)
        return fmt.fit(Content.assemble(mark, named, "  ", pin.standing), width)
