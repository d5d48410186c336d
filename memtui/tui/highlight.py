"""Syntax colours for a window of lines: never a whole file, never more than bounded work a line.

Pygments' Markdown lexer takes time quadratic in the distance to the next bracket, so a hostile
note could hold the loop for minutes when whole windows are lexed. Markdown is therefore lexed line
by line and only as far as `LEX_LIMIT`; the code inside fences is lexed block by block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
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
    """The coloured lines of one file; 200 of them at a time are read for their languages."""

    def __init__(self, lines: Sequence[str], path: str) -> None:
        self._lines = lines
        self._language = language_of(path)
        self._start = -1
        """The first line of the window that is read."""
        self._texts: list[str] = []
        self._languages: list[str] = []
        self._pieces: dict[int, list[Piece]] = {}

    def line(self, index: int) -> list[Piece]:
        """Return the pieces of one line, without its newline."""
        offset = index % WINDOW
        if index - offset != self._start:
            self._read_window(index - offset)
        if offset not in self._pieces:
            self._colour(offset)
        return self._pieces[offset]

    def _read_window(self, start: int) -> None:
        self._start = start
        self._texts = [display_line(line) for line in self._lines[start : start + WINDOW]]
        stop = start + len(self._texts)
        self._languages = (
            [self._language] * len(self._texts)
            if self._language
            else line_languages(self._lines, start, stop)
        )
        self._pieces = {}

    def _colour(self, offset: int) -> None:
        """Colour a line of the window, with the whole of its block where it is code."""
        text, language = self._texts[offset], self._languages[offset]
        if language == _FENCE_LINE:
            self._pieces[offset] = [(text, MUTED)]
        elif language == _TEXT:
            self._pieces[offset] = markdown_pieces(text)
        elif language in _LINE_BY_LINE:
            self._pieces[offset] = code_pieces([text], _LINE_BY_LINE[language])[0]
        else:
            start, stop = offset, offset + 1
            while start > 0 and self._languages[start - 1] == language:
                start -= 1
            while stop < len(self._languages) and self._languages[stop] == language:
                stop += 1
            block = code_pieces(self._texts[start:stop], language)
            self._pieces.update(zip(range(start, stop), block, strict=True))


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
