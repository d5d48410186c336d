"""The parts that every section of an explanation is drawn with."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from memtui.tui import format as fmt
from memtui.tui.glyphs import Glyphs

WAITING = "$foreground 68%"
MIN_ROOM = 8


def heading(title: str, width: int, glyphs: Glyphs, note: str | Content = "") -> Content:
    """A line that begins a section: its title, a note, and a rule to the right edge."""
    told = Content.assemble((title, "bold $primary"))
    aside = note if isinstance(note, Content) else Content.styled(note, fmt.MUTED)
    if aside:
        told = Content.assemble(told, "  ", aside)
    room = width - told.cell_length - 1
    if room < 1:
        return fmt.fit(told, width)
    return Content.assemble(told, " ", (glyphs.rule * room, "$foreground 25%"))


def hanging(
    head: Content, body: Content | str, width: int, indent: int | None = None
) -> list[Content]:
    """A head and what follows it, wrapped under itself, or under `indent` cells."""
    column = head.cell_length if indent is None else indent
    text = body if isinstance(body, Content) else Content(body)
    if not text:
        return [head]
    if head.cell_length + text.cell_length <= width:
        return [Content.assemble(head, text)]
    if column == head.cell_length:
        lines = text.wrap(max(MIN_ROOM, width - column))
        return [
            Content.assemble(head if number == 0 else " " * column, line)
            for number, line in enumerate(lines)
        ]
    lines = text.wrap(max(MIN_ROOM, width - column))
    return [head, *(Content.assemble(" " * column, line) for line in lines)]


def pending(glyphs: Glyphs, what: str) -> Content:
    """A part that is still being looked for."""
    return Content.styled(f"{glyphs.ellipsis} {what}", WAITING)


def problem(glyphs: Glyphs, text: str, width: int) -> list[Content]:
    """A part that could not be found out, with the reason."""
    head = Content.styled(f"{glyphs.error} ", "$state-error")
    return hanging(head, Content.styled(text, "$state-error"), width)


def joined(parts: Sequence[Content | str], gap: str = "  ") -> Content:
    """The parts that say something, in one line."""
    told = [part if isinstance(part, Content) else Content(part) for part in parts]
    return Content(gap).join([part for part in told if part])
