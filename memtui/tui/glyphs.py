"""The characters of the interface, in two sets: Unicode, and ASCII for fonts without blocks."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import asdict
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter


class Glyphs(Struct, frozen=True):
    """One character (cell width 1) per meaning; the values given here are the Unicode ones."""

    # Ranks and the parts of a score.
    vector: str = "█"
    keyword: str = "▒"
    mmr: str = "◇"
    decay: str = "╌"
    rerank: str = "▓"
    """The part that a later stage took away or added beyond the legs."""
    up: str = "▲"
    down: str = "▼"
    same: str = "="
    new: str = "*"
    marker: str = "›"
    prompt: str = "›"
    meter_full: str = "━"
    meter_empty: str = "─"
    passed: str = "✓"
    skipped: str = "–"
    pin: str = "◆"
    arrow: str = "→"

    # The state of an index, and of a file in it.
    ready: str = "●"
    indexing: str = "◐"
    stale: str = "◌"
    degraded: str = "!"
    error: str = "✗"
    no_index: str = "○"
    changed: str = "●"
    problem: str = "!"
    not_indexed: str = "·"

    # Files: the tree, the timeline, the margin of a file, rendered Markdown.
    opened: str = "▾"
    folded: str = "▸"
    density: str = "·░▒▓█"
    """Five characters, from a day without notes to the fullest days."""
    chosen_day: str = "◆"
    in_chunk: str = "▌"
    """In the margin of the lines of the chunk that is shown."""
    chunk_start: str = "╭"
    chunk_end: str = "╰"
    chunk_line: str = "│"
    chunk_overlap: str = "║"
    """A line that two chunks share."""
    chunk_both: str = "├"
    """A line of two chunks where one of them begins or ends."""
    chunk_only: str = "["
    """A chunk of one line."""
    bullet: str = "•"
    quote: str = "▎"
    done: str = "☑"
    undone: str = "☐"
    column: str = "│"
    """Between the cells of a table."""
    crossing: str = "┼"
    """The rule of a table as it crosses a column."""

    rule: str = "─"
    ellipsis: str = "…"


_IN_ASCII = str.maketrans(
    "█▒◇╌▓▲▼›━─✓–◆→●◐◌✗○·▾▸▌╭╰│║├•▎☑☐┼…╮╯┌┐└┘┤┬┴┊┆−×⏎⇧←◀≥λ▁▂▃▄▅▆▇",
    "#=x.+^v>=-+-@>*%oX-.v>|,`|H+*|x_+~.',.`'+++::-x<+<<>l_..--==",
)
"""Also for what Textual draws, such as frames, and for the signs in this program's words."""
UNICODE = Glyphs()
ASCII = Glyphs(
    **{name: glyph.translate(_IN_ASCII) for name, glyph in asdict(UNICODE).items()}
    | {"density": ".-+*#"}
)


class AsciiFilter(LineFilter):
    """Draws every line of the screen in ASCII, as far as it is no text of another script."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [one._replace(text=one.text.translate(_IN_ASCII)) for one in segments]
