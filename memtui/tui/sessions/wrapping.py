"""Wrapping long texts by cells: places in the text, so that nothing is copied."""

from __future__ import annotations

from memtui.text.sanitize import safe

Span = tuple[int, int]

TAB = "    "


def display_text(text: str) -> str:
    """A text as it is shown: tabs expanded, controls made visible, no blank lines at the end."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if "\t" in text:
        text = text.replace("\t", TAB)
    return safe(text).rstrip()


def wrap(text: str, width: int) -> list[Span]:
    """Cut a text into lines of at most `width` cells, at spaces where there are any.

    Returns the start and the end of each line, in characters; one empty line for an empty text.
    """
    width = max(1, width)
    spans: list[Span] = []
    start = 0
    while True:
        end = text.find("\n", start)
        stop = len(text) if end < 0 else end
        _wrap_line(text, start, stop, width, spans)
        if end < 0:
            return spans
        start = end + 1


def _wrap_line(text: str, start: int, end: int, width: int, spans: list[Span]) -> None:
    # Without wide characters a cell is a character, and nothing has to be measured.
    is_plain = end - start <= width // 2 or text[start:end].isascii()
    while is_plain and end - start > width:
        cut = text.rfind(" ", start + 1, start + width + 1)
        spans.append((start, cut if cut > start else start + width))
        start = cut + 1 if cut > start else start + width
    while not is_plain:
        fits = _fitting(text, start, end, width)
        if fits >= end:
            break
        cut = text.rfind(" ", start + 1, fits + 1)
        spans.append((start, cut if cut > start else fits))
        start = cut + 1 if cut > start else fits
    spans.append((start, end))


def _fitting(text: str, start: int, end: int, width: int) -> int:
    """The place up to which a text fits into `width` cells; at least one character."""
    from rich.cells import get_character_cell_size

    cells = 0
    for place in range(start, end):
        cells += get_character_cell_size(text[place])
        if cells > width:
            return max(place, start + 1)
    return end
