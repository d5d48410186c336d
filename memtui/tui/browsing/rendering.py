"""Markdown as it is meant to look, for reading: a renderer of bounded work that opens nothing.

Everything is drawn from lines that were made safe for a terminal first. Links are shown as text;
nothing here can be followed, and no HTML is interpreted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from textual.content import Content

from memtui.tui.browsing.inline import inline
from memtui.tui.browsing.marks import Marks
from memtui.tui.browsing.tables import table_lines
from memtui.tui.format import MUTED
from memtui.tui.highlight import code_pieces, display_line, line_languages

MOST_LINES = 5_000
MOST_CHARACTERS = 400_000
_NARROWEST = 12
_FENCE_LINE = "fence"

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$")
_ITEM = re.compile(r"(\s*)([-*+]|\d{1,9}[.)])(?:[ \t]+(\[[ xX]\](?=\s))?[ \t]*|$)")
_QUOTE = re.compile(r" {0,3}((?:> ?)+)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-{2,})[ \t]*$")
_LANGUAGE = re.compile(r"[`~>\s]*([\w+#-]*)")


@dataclass(frozen=True, slots=True)
class RenderedLine:
    """A line as it is drawn, and the 1-based line of the file that it came from."""

    content: Content
    source: int


def too_much(lines: Sequence[str]) -> str:
    """Why a text is not rendered, in one line; empty when it is."""
    if len(lines) > MOST_LINES:
        return f"too long to render ({len(lines)} lines): shown as text"
    total = 0
    for line in lines:
        total += len(line)
        if total > MOST_CHARACTERS:
            return f"more than {MOST_CHARACTERS} characters, not rendered: shown as text"
    return ""


def render(lines: Sequence[str], width: int, marks: Marks) -> list[RenderedLine]:
    """Draw a Markdown text in `width` cells; call `too_much` first."""
    writer = _Writer(max(width, _NARROWEST), marks)
    languages = line_languages(lines, 0, len(lines))
    index = 0
    while index < len(lines):
        language = languages[index]
        if language == "":
            stop = index
            while stop < len(languages) and languages[stop] == "":
                stop += 1
            writer.prose([display_line(line) for line in lines[index:stop]], index)
        elif language == _FENCE_LINE:
            stop = index + 1
            writer.fence(display_line(lines[index]), index)
        else:
            stop = index
            while stop < len(languages) and languages[stop] == language:
                stop += 1
            writer.code([display_line(line) for line in lines[index:stop]], language, index)
        index = stop
    return writer.lines


@dataclass(slots=True)
class _Writer:
    width: int
    marks: Marks
    lines: list[RenderedLine] = field(default_factory=list)
    in_fence: bool = False

    def put(self, content: Content, index: int) -> None:
        self.lines.append(RenderedLine(content, index + 1))

    def blank(self, index: int) -> None:
        """An empty line, unless there is one already."""
        if self.lines and len(self.lines[-1].content):
            self.put(Content(""), index)

    def code(self, texts: Sequence[str], language: str, index: int) -> None:
        """A block of code, or the front matter, as it is."""
        for offset, pieces in enumerate(code_pieces(texts, language)):
            text = Content.assemble("  ", *pieces)
            self.put(text.truncate(self.width, ellipsis=True), index + offset)

    def fence(self, text: str, index: int) -> None:
        """The rule above or below a block of code, with its language."""
        self.in_fence = not self.in_fence
        match = _LANGUAGE.match(text)
        name = f" {match[1]} " if match is not None and match[1] and self.in_fence else ""
        rule = self.marks.rule * 2 + name
        rule += self.marks.rule * max(0, self.width - len(rule))
        self.put(Content.styled(rule[: self.width], MUTED), index)

    # --- prose ------------------------------------------------------------------------------------

    def prose(self, texts: Sequence[str], first: int) -> None:
        """Headings, lists, quotes, tables, rules and paragraphs."""
        index = 0
        while index < len(texts):
            index += self._block(texts, index, first)

    def _block(self, texts: Sequence[str], index: int, first: int) -> int:
        """Draw what begins at a line; how many lines it has."""
        text = texts[index]
        if not text.strip():
            self.blank(first + index)
            return 1
        heading = _HEADING.match(text)
        if heading is not None:
            self._heading(heading[2] or "", len(heading[1]), first + index)
            return 1
        if _RULE.match(text):
            self.put(Content.styled(self.marks.rule * self.width, MUTED), first + index)
            return 1
        if text.lstrip().startswith("|"):
            return self._table(texts, index, first)
        if _ITEM.match(text) or _QUOTE.match(text):
            self._marked(text, first + index)
            return 1
        return self._paragraph(texts, index, first)

    def _heading(self, text: str, level: int, index: int) -> None:
        self.blank(index)
        style = "$text-primary bold underline" if level == 1 else "$text-primary bold"
        for line in inline(text.strip()).wrap(self.width):
            self.put(line.stylize(style), index)
        if level <= 2:
            self.put(Content(""), index)

    def _table(self, texts: Sequence[str], index: int, first: int) -> int:
        stop = index
        while stop < len(texts) and texts[stop].lstrip().startswith("|"):
            stop += 1
        rows = table_lines(texts[index:stop], self.width, self.marks)
        for offset, row in enumerate(rows):
            self.put(row, first + index + offset)
        return stop - index

    def _marked(self, text: str, index: int) -> None:
        """A line of a list or of a quote, hanging below its mark."""
        quote = _QUOTE.match(text)
        head = Content("")
        if quote is not None:
            depth = quote[1].count(">")
            head = Content.styled(f"{self.marks.quote} " * min(depth, 6), "$text-secondary")
            text = text[quote.end() :]
        item = _ITEM.match(text)
        if item is not None:
            head += self._bullet(item)
            text = text[item.end() :]
        self._hanging(head, inline(text.strip()), index, quoted=quote is not None)

    def _bullet(self, item: re.Match[str]) -> Content:
        indent, bullet, box = min(len(item[1]), self.width // 3), item[2], item[3]
        shown = self.marks.bullet if bullet in "-*+" else bullet
        mark = f"{' ' * indent}{shown} "
        if box is None:
            return Content.styled(mark, "$text-primary")
        if box == "[ ]":
            return Content.styled(f"{' ' * indent}{self.marks.undone} ", "$text-warning")
        return Content.styled(f"{' ' * indent}{self.marks.done} ", "$text-success")

    def _hanging(self, head: Content, body: Content, index: int, *, quoted: bool) -> None:
        room = max(_NARROWEST // 2, self.width - head.cell_length)
        below = head if quoted and not head.plain.strip(f" {self.marks.quote}") else None
        below = below or Content(" " * head.cell_length)
        for number, line in enumerate(body.wrap(room) or [Content("")]):
            self.put((head if number == 0 else below) + line, index)

    def _paragraph(self, texts: Sequence[str], index: int, first: int) -> int:
        stop = index + 1
        while stop < len(texts) and not _begins_block(texts[stop]):
            stop += 1
        if stop < len(texts) and _UNDERLINE.match(texts[stop]) and stop == index + 1:
            self._heading(texts[index], 1 if "=" in texts[stop] else 2, first + index)
            return 2
        for offset, text in _joined(texts[index:stop]):
            for line in inline(text).wrap(self.width):
                self.put(line, first + index + offset)
        return stop - index


def _begins_block(text: str) -> bool:
    return (
        not text.strip()
        or text.lstrip().startswith("|")
        or any(rule.match(text) for rule in (_HEADING, _RULE, _ITEM, _QUOTE, _UNDERLINE))
    )


def _joined(texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The lines of a paragraph run together, cut where a line ends with a hard break."""
    start, parts = 0, list[str]()
    for offset, text in enumerate(texts):
        parts.append(text.strip().removesuffix("\\"))
        if text.endswith(("  ", "\\")):
            yield start, " ".join(parts)
            start, parts = offset + 1, []
    if parts:
        yield start, " ".join(parts)
