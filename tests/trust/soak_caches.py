"""Caches with a bound that two hours of one user do not reach: full before anything is measured.

What fills them is of the size of what the user's events put there, so that it makes no difference
to what is held when an entry gives way to another. A cache that two hours do fill is not here: the
first half of the samples, which is not measured, fills it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from rich.segment import Segment
from textual.dom import DOMNode
from textual.geometry import Region, Spacing

from memtui.ranking.mmr import tokenize
from memtui.ranking.stage_state import collation_key
from memtui.retrieval.porter import stem
from tests.trust.processes_notes import line

_LINES: Final = 4
"""Lines of a note, as the soak writes it."""

_WITH_A_REGION: Final = ("overlaps", "contains_region", "intersection", "union", "__contains__")
_WITH_OTHERS: Final[Mapping[str, Callable[[int], tuple[Any, ...]]]] = {
    "translate": lambda number: ((number, number),),
    "grow": lambda number: (Spacing(0, number, 0, number),),
    "shrink": lambda number: (Spacing(0, number, 0, number),),
    "split": lambda number: (number, 1),
    "split_vertical": lambda number: (number,),
    "split_horizontal": lambda number: (number,),
}
"""What Textual remembers of rectangles by their places: of every line a widget was ever drawn in,
and of every size a toast or a dialog ever had."""


def fill_word_caches() -> None:
    """Fill what is kept of words and short texts by the engine."""
    for number in _up_to(stem):
        stem(f"filling{number}")
    for number in _up_to(collation_key):
        collation_key(f"filling{number}")
    for number in _up_to(tokenize):
        # The words in which notes are compared for their likeness are kept by the text of a chunk.
        tokenize("\n".join(line(f"filling{number}", number, part) for part in range(_LINES)))


def fill_drawing_caches(nodes: Iterable[DOMNode]) -> None:
    """Fill what Textual keeps of rectangles, of cut lines, and of widgets that were looked up.

    `nodes`: those that stay as long as the application, and are asked for what is on them.
    """
    for name in _WITH_A_REGION:
        for number in _up_to(getattr(Region, name)):
            getattr(Region, name)(Region(0, 0, number, 1), Region(number, 0, 1, 1))
    for name, others in _WITH_OTHERS.items():
        for number in _up_to(getattr(Region, name)):
            getattr(Region, name)(Region(0, 0, number, 1), *others(number))
    for number in _up_to(Segment._split_cells):
        # Rich keeps by its text every line with a character that is not ASCII and that it cut.
        Segment._split_cells(Segment(f"{number:>79}…"), 40)
    for node in nodes:
        # A node found is kept by how often the widgets had changed: each toast makes new entries.
        for number in range(1, node._query_one_cache.maxsize + 1):
            node._query_one_cache[-number, "#filling", None] = node


def _up_to(cached: Any) -> range:
    """As many numbers as a cached function keeps results; raises TypeError for one without end."""
    return range(cached.cache_info().maxsize)
