"""Markdown drawn for reading: parsed by markdown-it, drawn as lines that open nothing.

The text is made safe for a terminal first, and entities stay as they are written, so that none of
them brings a control character back. HTML is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token
from textual.content import Content
from textual.style import Style

from memtui.memory.care.rules import WrittenLink, written_links
from memtui.report.words import count, line_spans
from memtui.text.sanitize import safe_line
from memtui.tui import glyphs
from memtui.tui.fmt import MUTED
from memtui.tui.highlight import LANGUAGES, code_pieces, display_line, front_matter_lines
from memtui.tui.widgets.preview import RenderedLine, link_style

MOST_LINES = 5_000
MOST_CHARACTERS = 400_000
_NARROWEST = 12
_DEEPEST = 6
"""Levels of quotes and lists that take room on the left."""
_WIDEST_CELL = 40

_PARSER = (
    MarkdownIt("commonmark", {"html": False, "maxNesting": 100})
    .enable(["table", "strikethrough"])
    .disable("entity")
)
_TASK = re.compile(r"\[([ xX])\] ")
_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}
_LINK = "$text-accent underline"


def too_much(lines: Sequence[str]) -> str:
    """Return why a text is not rendered, in one line; empty when it is."""
    characters = sum(map(len, lines))
    if len(lines) <= MOST_LINES and characters <= MOST_CHARACTERS:
        return ""
    size = f"{count(len(lines), 'line')}, {count(characters, 'character')}"
    return f"too long to render ({size}): shown as text"


def render(lines: Sequence[str], width: int) -> list[RenderedLine]:
    """Draw a Markdown text in `width` cells; call `too_much` first."""
    renderer = _Renderer(max(width, _NARROWEST))
    texts = [display_line(line) for line in lines]
    matter = front_matter_lines(lines)
    if matter:
        renderer.draw_code(texts[:matter], "yaml", 0)
    # Blank lines in place of the front matter keep the numbers of the lines behind it.
    renderer.draw(_PARSER.parse("\n".join([""] * matter + texts[matter:])))
    return renderer.lines


class _Renderer:
    def __init__(self, width: int) -> None:
        self.lines: list[RenderedLine] = []
        self._width = width
        self._indents: list[list[Content]] = []
        """The text that each quote or item puts before its lines: the last of them before the
        next line, the first one before all after it."""
        self._end = 0
        """The line, counted from 0, behind what was drawn last."""

    def draw(self, tokens: Sequence[Token]) -> None:
        stream = iter(tokens)
        for token in stream:
            start = _start(token)
            if start > self._end and token.nesting >= 0:
                self._put_blank(self._end)
            match token.type:
                case "blockquote_open":
                    self._indents.append([Content.styled("▎ ", "$text-secondary")])
                case "list_item_open":
                    bullet = f"{token.info}{token.markup}" if token.info else "•"
                    mark = Content.styled(f"{bullet} ", "$text-primary")
                    self._indents.append([Content(" " * mark.cell_length), mark])
                case "blockquote_close" | "list_item_close":
                    self._indents.pop()
                case "heading_open":
                    self._put_blank(start)
                    style = "$text-primary bold" + (" underline" if token.tag == "h1" else "")
                    for _, text in _paragraphs(next(stream)):
                        self._put_wrapped(text.stylize(style), start)
                    if token.tag in ("h1", "h2"):
                        self._put_blank(start)
                case "inline":
                    self._tick(token)
                    for offset, text in _paragraphs(token):
                        self._put_wrapped(text, start + offset)
                case "hr":
                    self._put(self._rule(self._room()), start)
                case "fence" | "code_block":
                    self._draw_block(token)
                case "table_open":
                    self._draw_table(takewhile(lambda one: one.type != "table_close", stream))
            if token.map is not None and token.type in _LEAVES:
                self._end = token.map[1]

    def draw_code(self, texts: Sequence[str], language: str, first: int) -> None:
        for number, pieces in enumerate(code_pieces(texts, language)):
            line = Content.assemble(*pieces)
            for start, end in line_spans(line.plain, self._room() - 2):
                self._put("  " + line[start:end], first + number)

    def _tick(self, inline: Token) -> None:
        """Put a box in place of the bullet where a task begins its item."""
        task = _TASK.match(inline.content)
        if task is not None and inline.children and self._indents and len(self._indents[-1]) > 1:
            inline.children[0].content = inline.children[0].content[task.end() :]
            is_done = task[1] != " "
            box = "☑" if is_done else "☐"
            mark = Content.styled(f"{box} ", "$text-success" if is_done else "$text-warning")
            self._indents[-1] = [Content(" " * mark.cell_length), mark]

    def _draw_block(self, token: Token) -> None:
        texts = token.content.removesuffix("\n").split("\n") if token.content else []
        start, room = _start(token), self._room()
        if token.type == "code_block":
            self.draw_code(texts, "text", start)
            return
        name = token.info.split()[0] if token.info.strip() else ""
        head = glyphs.RULE * 2 + (f" {name} " if name else "")
        self._put(Content.styled(head, MUTED) + self._rule(room - len(head)), start)
        self.draw_code(texts, LANGUAGES.get(name.lower(), "text"), start + 1)
        if token.map is not None and token.map[1] - start == len(texts) + 2:
            self._put(self._rule(room), token.map[1] - 1)

    def _draw_table(self, tokens: Iterable[Token]) -> None:
        rows: list[tuple[int, list[Content]]] = []
        for token in tokens:
            if token.type == "tr_open":
                rows.append((_start(token), []))
            elif token.type == "inline":
                rows[-1][1].append(Content(" ").join(text for _, text in _paragraphs(token)))
        columns = [
            max(1, *(min(cell.cell_length, _WIDEST_CELL) for cell in column))
            for column in zip(*(cells for _, cells in rows), strict=True)
        ]
        between = Content.styled(" │ ", MUTED)
        for number, (source, cells) in enumerate(rows):
            row = between.join(
                cell.truncate(width, ellipsis=True, pad=True)
                for cell, width in zip(cells, columns, strict=True)
            )
            self._put(row if number else row.stylize("bold"), source)
            if number == 0:
                line = "─┼─".join(glyphs.RULE * column for column in columns)
                self._put(Content.styled(line, MUTED), source + 1)

    def _rule(self, cells: int) -> Content:
        return Content.styled(glyphs.RULE * max(0, cells), MUTED)

    def _room(self) -> int:
        left = sum(below.cell_length for below, *_ in self._indents[:_DEEPEST])
        return max(_NARROWEST // 2, self._width - left)

    def _put_blank(self, source: int) -> None:
        if self.lines and self.lines[-1].content.plain:
            self.lines.append(RenderedLine(Content(""), source + 1))

    def _put_wrapped(self, text: Content, source: int) -> None:
        for line in text.wrap(self._room()) or [Content("")]:
            self._put(line, source)

    def _put(self, content: Content, source: int) -> None:
        left = [
            indent.pop() if len(indent) > 1 else indent[0] for indent in self._indents[:_DEEPEST]
        ]
        line = Content.assemble(*left, content).truncate(self._width, ellipsis=True)
        self.lines.append(RenderedLine(line, source + 1))


_LEAVES = frozenset({"inline", "hr", "fence", "code_block", "table_open", "heading_open"})


def _start(token: Token) -> int:
    """Return the line of the text, counted from 0, where a token begins."""
    return token.map[0] if token.map is not None else 0


def _paragraphs(inline: Token) -> list[tuple[int, Content]]:
    """Draw the text of a block, cut at its hard breaks, each part with its first line's offset."""
    parts: list[tuple[int, Content]] = []
    pieces: list[Content] = []
    styles: list[str | Style] = []
    links: list[tuple[str, int]] = []
    first = line = 0

    def put(text: str, *more: str | Style) -> None:
        content = Content(text)
        for style in (*styles, *more):
            content = content.stylize(style) if style else content
        pieces.append(content)

    for token in inline.children or ():
        name, _, edge = token.type.rpartition("_")
        if edge == "open" and name == "link":
            target = str(token.attrGet("href") or "")
            links.append((safe_line(unquote(target)), len(pieces)))
            styles += [_LINK, link_style(WrittenLink(0, 0, target))]
        elif edge == "close" and name == "link":
            del styles[-2:]
            target, began = links.pop()
            if target and target != "".join(piece.plain for piece in pieces[began:]):
                put(f" ({target})", MUTED)
        elif edge == "open":
            styles.append(_STYLES.get(name, ""))
        elif edge == "close":
            styles.pop()
        elif token.type == "hardbreak":
            parts.append((first, Content("").join(pieces)))
            pieces.clear()
            first = line = line + 1
            links = [(target, 0) for target, _ in links]
        elif token.type == "softbreak":
            put(" ")
            line += 1
        elif token.type == "code_inline":
            put(token.content, "$text-secondary")
        elif token.type == "image":
            put(f"[image: {token.content}]" if token.content else "[image]", MUTED)
        else:
            at = 0
            for link in written_links(token.content):
                if link.is_wiki and not links:
                    put(token.content[at : link.start])
                    shown = link.title or token.content[link.start + 2 : link.end - 2]
                    put(shown, _LINK, link_style(link))
                    at = link.end
            put(token.content[at:])
    return [*parts, (first, Content("").join(pieces))]


_OUTLINED = 100_000
"""Lines of a file that are looked at for headings."""
_BLOCKS = MarkdownIt("commonmark").disable(["inline", "entity"])


class Heading(NamedTuple):
    """A heading; `line` is 1-based, `level` 1 to 6."""

    line: int
    level: int
    text: str


def headings(lines: Sequence[str]) -> list[Heading]:
    """Return the headings of a text as CommonMark has them, in their order.

    Those in quotes, in lists and in the front matter do not count.
    """
    matter = front_matter_lines(lines)
    tokens = _BLOCKS.parse("\n".join([""] * matter + [*lines[matter:_OUTLINED]]))
    outline = []
    for place, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map is not None:
            # Of an underlined paragraph the last line is the heading.
            text = tokens[place + 1].content.rpartition("\n")[2]
            line = token.map[1] - (not token.markup.startswith("#"))
            outline.append(Heading(line, int(token.tag[1:]), text))
    return outline
