"""The characters of the interface, one per meaning, each one cell wide, and their ASCII."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

# Ranks and the parts of a score.
VECTOR = "█"
KEYWORD = "▒"
MMR = "◇"
DECAY = "╌"
RERANK = "▓"
"""The part that a later stage took away or added beyond the legs."""
UP = "▲"
DOWN = "▼"
SAME = "="
NEW = "*"
MARKER = "›"
PROMPT = "›"
METER_FULL = "━"
METER_EMPTY = "─"
PASSED = "✓"
SKIPPED = "–"
PIN = "◆"

# The state of an index, and of a file in it.
READY = "●"
INDEXING = "◐"
STALE = "◌"
DEGRADED = "!"
ERROR = "✗"
NO_INDEX = "○"
CHANGED = "●"
PROBLEM = "!"
NOT_INDEXED = "·"

# Files: the tree, the timeline, the margin of a file, rendered Markdown.
OPENED = "▾"
FOLDED = "▸"
DENSITY = "·░▒▓█"
"""Five characters, from a day without notes to the fullest days."""
CHOSEN_DAY = "◆"
IN_CHUNK = "▌"
"""In the margin of the lines of the chunk that is shown."""
CHUNK_START = "╭"
CHUNK_END = "╰"
CHUNK_LINE = "│"
CHUNK_OVERLAP = "║"
"""A line that two chunks share."""
CHUNK_BOTH = "├"
"""A line of two chunks where one of them begins or ends."""
CHUNK_ONLY = "["
"""A chunk of one line."""
BULLET = "•"
QUOTE = "▎"
DONE = "☑"
UNDONE = "☐"
COLUMN = "│"
"""Between the cells of a table."""
CROSSING = "┼"
"""The rule of a table as it crosses a column."""

RULE = "─"

_IN_ASCII = str.maketrans(
    "█▒◇╌▓░▲△▼›━─✓–◆→●◐◌✗○·▾▸▌╭╰│║├•▎☑☐┼…╮╯┌┐└┘┤┬┴┊┆−×⏎⌫⇧←↑↓◀≥λ▁▂▃▄▅▆▇",
    "#=x.+-^nv>=-+-@>*%oX-.v>|,`|H+*|x_+~.',.`'+++::-x<<+<^v<>l_..--==",
)
"""Also for what Textual draws, such as frames, and for the signs in this program's words."""


class AsciiFilter(LineFilter):
    """Draws every line of the screen in ASCII, as far as it is no text of another script."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [one._replace(text=one.text.translate(_IN_ASCII)) for one in segments]
