"""The signs that several modules draw, one cell wide each, and the ASCII of every sign."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from memtui.data import read_table

SIGNS: Mapping[str, Mapping[str, Any]] = read_table("signs.toml")
"""The signs of states, parts of a score and changes, by what they are of."""
ASCII_ONLY = ContextVar("ascii_only", default=False)
"""True where keys are named by words: the ASCII of their signs are other keys, as `<` and `^`."""

# Ranks and the parts of a score.
VECTOR = "█"
KEYWORD = "▒"
MMR = "◇"
DECAY = "╌"
RERANK = "▓"
"""The part that a later stage took away or added beyond the legs."""
GAINED = "▲"
LOST = "▼"
"""Places since fusion; every other movement is against another list."""
UP = "↑"
DOWN = "↓"
MARKER = "›"
METER_FULL = "━"
PASSED = "✓"
SKIPPED = "–"
PIN = "◆"

# The state of an index.
READY = "●"
DEGRADED = "!"
ERROR = "✗"
NO_INDEX = "○"

# Files: the tree, the timeline, the margin of a file, rendered Markdown.
OPENED = "▾"
FOLDED = "▸"
DENSITY = "·░▒▓█"
"""Five characters, from a day without notes to the fullest days."""
CHOSEN_DAY = "◆"

RULE = "─"

_IN_ASCII = str.maketrans(SIGNS["ascii"]["signs"], SIGNS["ascii"]["ascii"])
"""Also for what Textual draws, such as frames, and for the signs in this program's words."""
_WIDER: Mapping[str, str] = SIGNS["wider"]
"""Signs that one character does not make plain."""


def spell_arrows(text: str) -> str:
    """Write each arrow out in ASCII before a line is laid out: a full one has no room for it."""
    return text.replace("→", _WIDER["→"]) if ASCII_ONLY.get() else text


class AsciiFilter(LineFilter):
    """Draws every line of the screen in ASCII, as far as it is no text of another script."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Draw a line; where blanks or a frame further on have room, wide signs are written out."""
        cells = [(character, one) for one in segments for character in one.text]
        for at, (character, one) in enumerate(cells):
            if wide := _WIDER.get(character):
                rest = "".join(character for character, _ in cells[at + 1 :])
                starts = [rest.find(spare * len(wide)) for spare in " ─"]
                if (start := min((one for one in starts if one >= 0), default=-1)) >= 0:
                    del cells[at + 1 + start : at + start + len(wide)]
                    cells[at] = (wide, one)
        drawn = (one._replace(text=text.translate(_IN_ASCII)) for text, one in cells)
        return list(Segment.simplify(drawn))
