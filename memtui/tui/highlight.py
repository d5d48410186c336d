"""Syntax colours for a window of lines: never a whole file, never more than bounded work a line.

Pygments' Markdown lexer takes time quadratic in the distance to the next bracket, so a hostile
note could hold the loop for minutes when whole windows are lexed. Markdown is therefore lexed line
by line and only as far as `LEX_LIMIT`; the code inside fences is lexed block by block.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pygments.token import Token
from rich.cells import cell_len, set_cell_size

from memtui.text.sanitize import safe
from memtui.tui.format import MUTED

if TYPE_CHECKING:
    from pygments.lexer import Lexer

Piece = tuple[str, str]
"""A run of text and its style, which may name theme variables."""

WINDOW = 200
MAX_CELLS = 2_000
LEX_LIMIT = 400
TAB = 4
_LOOKBACK = 2_000
_WINDOWS_KEPT = 12
_FRONT_MATTER_LINES = 60

_FENCE = re.compile(r"\s*(?:>\s*)*(?P<ticks>`{3,}|~{3,})\s*(?P<language>[\w+#-]*)")
_FENCE_LINE = "fence"
_TEXT = ""

LANGUAGES: Mapping[str, str] = {
    "bash": "bash", "sh": "bash", "shell": "bash", "zsh": "bash", "console": "console",
    "c": "c", "h": "c", "cpp": "cpp", "css": "css", "tcss": "css", "diff": "diff",
    "patch": "diff", "dockerfile": "docker", "go": "go", "html": "html", "ini": "ini",
    "conf": "ini", "java": "java", "javascript": "javascript", "js": "javascript",
    "json": "json", "jsonl": "jsonl", "kotlin": "kotlin", "lua": "lua", "make": "make",
    "makefile": "make", "nginx": "nginx", "php": "php", "powershell": "powershell",
    "py": "python", "python": "python", "rb": "ruby", "ruby": "ruby", "rs": "rust",
    "rust": "rust", "sql": "sql", "swift": "swift", "toml": "toml", "ts": "typescript",
    "typescript": "typescript", "xml": "xml", "yaml": "yaml", "yml": "yaml",
}  # fmt: skip
"""Names that a fence or a file may use for a lexer; any other name is shown without colours."""

_LINE_BY_LINE: Mapping[str, str] = {"jsonl": "json"}
"""Languages whose lines have nothing to do with one another, and the lexer of such a line.

200 records of a transcript take some 50 ms on the loop; those in sight take 5.
"""

_MARKDOWN = {"", "md", "markdown", "txt"}

_STYLES: Mapping[object, str] = {
    Token.Comment: MUTED + " italic",
    Token.Generic.Heading: "$text-primary bold",
    Token.Generic.Subheading: "$text-primary bold",
    Token.Generic.Strong: "bold",
    Token.Generic.EmphStrong: "bold italic",
    Token.Generic.Emph: "italic",
    Token.Generic.Deleted: "strike",
    Token.Generic.Inserted: "$text-success",
    Token.Generic.Prompt: MUTED,
    Token.Keyword: "$text-accent",
    Token.Literal.Number: "$text-warning",
    Token.Literal.String.Backtick: "$text-secondary",
    Token.Literal.String: "$text-success",
    Token.Name.Attribute: "$text-secondary",
    Token.Name.Builtin: "$text-accent",
    Token.Name.Class: "$text-warning",
    Token.Name.Decorator: "$text-primary",
    Token.Name.Entity: "$text-secondary",
    Token.Name.Function: "$text-warning",
    Token.Name.Label: "$text-secondary",
    Token.Name.Tag: "$text-secondary",
    Token.Operator.Word: "$text-accent",
}


def display_line(line: str) -> str:
    """A source line as it is shown: tabs expanded, controls made visible, at most 2 000 cells."""
    text = line[: MAX_CELLS + 1].removesuffix("\r")
    if "\t" in text:
        text = _expand_tabs(text)
    text = safe(text)
    if len(line) > MAX_CELLS or cell_len(text) > MAX_CELLS:
        text = set_cell_size(text, min(cell_len(text), MAX_CELLS) - 1).rstrip() + "…"
    return text


def _expand_tabs(text: str) -> str:
    if text.isascii():
        return text.expandtabs(TAB)
    parts, cells = [], 0
    for part in text.split("\t"):
        cells += cell_len(part)
        spaces = TAB - cells % TAB
        cells += spaces
        parts.append(part + " " * spaces)
    return "".join(parts)[:-spaces]


def language_of(path: str) -> str:
    """The lexer of a file by the end of its name; empty for Markdown and everything unknown."""
    suffix = PurePosixPath(path).suffix.removeprefix(".").lower()
    return _TEXT if suffix in _MARKDOWN else LANGUAGES.get(suffix, "text")


class Highlighter:
    """The coloured lines of one file, made window by window and kept for the last few windows."""

    def __init__(self, lines: Sequence[str], path: str) -> None:
        self._lines = lines
        self._language = language_of(path)
        self._windows: OrderedDict[int, _Window] = OrderedDict()

    def line(self, index: int) -> list[Piece]:
        """The pieces of one line, without its newline."""
        number, offset = divmod(index, WINDOW)
        window = self._windows.get(number)
        if window is None:
            window = _Window(self._lines, number * WINDOW, self._language)
            self._windows[number] = window
            if len(self._windows) > _WINDOWS_KEPT:
                self._windows.popitem(last=False)
        else:
            self._windows.move_to_end(number)
        return window.line(offset)


class _Window:
    """200 lines: which language each is in, and their pieces as far as they were asked for."""

    def __init__(self, lines: Sequence[str], start: int, language: str) -> None:
        self._texts = [display_line(line) for line in lines[start : start + WINDOW]]
        stop = start + len(self._texts)
        if language:
            self._languages = [language] * len(self._texts)
        else:
            self._languages = line_languages(lines, start, stop)
        self._pieces: dict[int, list[Piece]] = {}

    def line(self, offset: int) -> list[Piece]:
        pieces = self._pieces.get(offset)
        if pieces is None:
            self._make(offset)
            pieces = self._pieces[offset]
        return pieces

    def _make(self, offset: int) -> None:
        language = self._languages[offset]
        if language == _FENCE_LINE:
            self._pieces[offset] = [(self._texts[offset], MUTED)]
        elif language == _TEXT:
            self._pieces[offset] = markdown_pieces(self._texts[offset])
        elif language in _LINE_BY_LINE:
            self._pieces[offset] = code_pieces([self._texts[offset]], _LINE_BY_LINE[language])[0]
        else:
            block = self._block(offset)
            texts = self._texts[block.start : block.stop]
            self._pieces.update(zip(block, code_pieces(texts, language), strict=True))

    def _block(self, offset: int) -> range:
        """The run of lines in the same language as this one."""
        start = 0
        for language, group in groupby(self._languages):
            stop = start + sum(1 for _ in group)
            if start <= offset < stop:
                return range(start, stop) if language else range(offset, offset + 1)
            start = stop
        return range(offset, offset + 1)


def line_languages(lines: Sequence[str], start: int, stop: int) -> list[str]:
    """The language of each Markdown line in `start..stop`: empty for text, `fence` for a fence.

    Fences opened more than 2 000 lines above `start` are not seen.
    """
    first = max(0, start - _LOOKBACK)
    result: list[str] = []
    matter = _front_matter_end(lines) if first == 0 else 0
    open_with, language = "", _TEXT
    for index in range(first, stop):
        line = lines[index][:LEX_LIMIT]
        kind = "yaml" if index < matter else language
        if index >= matter and ("```" in line or "~~~" in line):
            match = _FENCE.match(line)
            if match and not open_with:
                open_with = match["ticks"]
                language = LANGUAGES.get(match["language"].lower(), "text")
                kind = _FENCE_LINE
            elif match and match["ticks"].startswith(open_with) and not match["language"]:
                open_with, language, kind = "", _TEXT, _FENCE_LINE
        if index >= start:
            result.append(kind)
    return result


def _front_matter_end(lines: Sequence[str]) -> int:
    if not lines or lines[0].rstrip() != "---":
        return 0
    for index in range(1, min(len(lines), _FRONT_MATTER_LINES)):
        if lines[index].rstrip() == "---":
            return index + 1
    return 0


def markdown_pieces(text: str) -> list[Piece]:
    """Colour one line of Markdown; what lies beyond `LEX_LIMIT` stays plain."""
    head, tail = text[:LEX_LIMIT], text[LEX_LIMIT:]
    pieces = [(value.rstrip("\n"), style) for value, style in _lex(_markdown_lexer(), head + "\n")]
    return [piece for piece in (*pieces, (tail, "")) if piece[0]]


def code_pieces(texts: Sequence[str], language: str) -> list[list[Piece]]:
    """Colour a block of code; one list of pieces for each line."""
    heads = [text[:LEX_LIMIT] for text in texts]
    lines: list[list[Piece]] = [[]]
    for value, style in _lex(_code_lexer(language), "\n".join(heads) + "\n"):
        for position, part in enumerate(value.split("\n")):
            if position:
                lines.append([])
            if part:
                lines[-1].append((part, style))
    for line, text in zip(lines, texts, strict=False):
        if len(text) > LEX_LIMIT:
            line.append((text[LEX_LIMIT:], ""))
    return lines[: len(texts)]


def prepare() -> None:
    """Load what colours a note, on any thread: that takes longer than a key may."""
    list(_lex(_markdown_lexer(), "# note\n"))


@lru_cache(maxsize=1)
def _markdown_lexer() -> Lexer:
    # Not imported with this module, which the first paint needs.
    from pygments.lexers import get_lexer_by_name

    return get_lexer_by_name("markdown", handlecodeblocks=False, stripnl=False)


@lru_cache(maxsize=len(LANGUAGES))
def _code_lexer(language: str) -> Lexer:
    from pygments.lexers import get_lexer_by_name

    return get_lexer_by_name(language, stripnl=False)


def _lex(lexer: Lexer, code: str) -> Iterator[Piece]:
    for _, token_type, value in lexer.get_tokens_unprocessed(code):
        yield value, _style_of(token_type)


@lru_cache(maxsize=512)
def _style_of(token_type: object) -> str:
    while token_type is not None:
        style = _STYLES.get(token_type)
        if style is not None:
            return style
        token_type = getattr(token_type, "parent", None)
    return ""
