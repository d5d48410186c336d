"""What names a turn: one line with who, what, when, how much, and why the index has none of it."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from memtui.model.conversations import Turn, TurnKind
from memtui.report.words import left_out_words
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import ASCII, Glyphs
from memtui.tui.sessions import words

_DIM = "$foreground 60%"
_RULES = (TurnKind.RESET, TurnKind.COMPACTION)
_LOOKED_BACK = 100
"""So many turns are looked back at for the day before: each line is drawn often."""


def head_line(
    turns: Sequence[Turn], at: int, *, is_open: bool, width: int, glyphs: Glyphs, why: str = ""
) -> Content:
    """The line that names a turn; `why` is what is wrong with a line that is no record."""
    turn = turns[at]
    if turn.kind is TurnKind.MESSAGE:
        return fmt.fit(_message_head(turn, _stamp(turns, at)), width)
    if turn.kind is TurnKind.MALFORMED:
        told = f"{glyphs.degraded} line {turn.line} is no record"
        told += f": {why}" if why else ""
        return fmt.fit(Content.styled(safe_line(told), "$state-warn"), width)
    if turn.kind in _RULES:
        return _rule(turn, _stamp(turns, at), width, glyphs)
    return fmt.fit(_folded_head(turn, _stamp(turns, at), is_open, glyphs), width)


def _message_head(turn: Turn, stamp: str) -> Content:
    style = _DIM if turn.left_out else "$text-primary" if turn.role == "user" else "$text-secondary"
    left_out = f"  not indexed: {left_out_words(turn.left_out)}" if turn.left_out else ""
    return Content.assemble(
        (words.role_words(turn), f"{style} bold"),
        (f"  {stamp}" if stamp else "", _DIM),
        (f"  L{turn.line}", "$foreground 45%"),
        (left_out, "$state-warn"),
    )


def _folded_head(turn: Turn, stamp: str, is_open: bool, glyphs: Glyphs) -> Content:
    tool = safe_line(turn.tool)
    parts = [words.KIND_WORDS[turn.kind], tool, fmt.counted(turn.size, "character")]
    failed = "  failed" if turn.is_error else ""
    left_out = f"  not indexed: {left_out_words(turn.left_out)}" if turn.left_out else ""
    return Content.assemble(
        (f"{_fold(is_open, glyphs)} {'  '.join(part for part in parts if part)}", _DIM),
        (failed, "$state-error"),
        (f"  {stamp}" if stamp else "", _DIM),
        (left_out, "$state-warn"),
    )


def _fold(is_open: bool, glyphs: Glyphs) -> str:
    if glyphs is ASCII:
        return "-" if is_open else "+"
    return "▾" if is_open else "▸"


def _rule(turn: Turn, stamp: str, width: int, glyphs: Glyphs) -> Content:
    said = words.KIND_WORDS[turn.kind]
    size = f"  {fmt.counted(turn.size, 'character')}" if turn.size else ""
    middle = f" {said}{size}{'  ' + stamp if stamp else ''} "
    line = Content.styled(f"{glyphs.rule * 4}{middle}", "$state-warn")
    rest = glyphs.rule * max(0, width - line.cell_length)
    return fmt.fit(line + Content.styled(rest, "$state-warn"), width)


def more_line(more: int, glyphs: Glyphs) -> Content:
    """What of a text is not shown, and how to see it."""
    told = f"{glyphs.ellipsis} {fmt.counted(more, 'more character')}: enter shows them"
    return Content.styled(told, _DIM)


def _says(turn: Turn) -> bool:
    """Whether a turn is shown whatever is folded, and has a time."""
    return turn.kind is not TurnKind.OTHER and turn.timestamp_ms > 0


def _stamp(turns: Sequence[Turn], at: int) -> str:
    """The time of a turn, with its day where that is another one than before."""
    day, time = words.turn_time(turns[at].timestamp_ms)
    before = next(
        (
            words.turn_time(turns[i].timestamp_ms)[0]
            for i in range(at - 1, max(-1, at - 1 - _LOOKED_BACK), -1)
            if _says(turns[i])
        ),
        "",
    )
    return time if day == before else f"{day} {time}".strip()
