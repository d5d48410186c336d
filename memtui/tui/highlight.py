"""Syntax colours for the lines in sight: never a whole file, never more than bounded work a line.

Pygments' Markdown lexer takes time quadratic in the distance to the next bracket, so a hostile
note could hold the loop for minutes when whole windows are lexed. Markdown is therefore lexed line
by line and only as far as `LEX_LIMIT`; the code inside fences is lexed block by block.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from textual.expand_tabs import expand_tabs_inline

from memtui.data import read_table
from memtui.memory.documents import front_matter
from memtui.text.sanitize import safe
from memtui.tui.fmt import MUTED

if TYPE_CHECKING:
    from pygments.lexer import Lexer

Piece = tuple[str, str]
"""A run of text and its style, which may name theme variables."""

WINDOW = 200
MAX_CELLS = 2_000
LEX_LIMIT = 400
TAB = 4
_FRONT_MATTER_LINES = 200

_FENCE = re.compile(r"\s*(?:>\s*)*(?P<ticks>`{3,}|~{3,})\s*(?P<language>[\w+#-]*)")
_FENCE_LINE = "fence"
_TEXT = ""
_MARKDOWN = {"", "md", "markdown", "txt"}
_DATA = read_table("syntax.toml")
_STYLES: Mapping[str, str] = _DATA["style"]
LANGUAGES: Mapping[str, str] = {
    **{name: name for name in _DATA["lexers"]["names"].split()},
    **_DATA["language"],
}
"""Lexers by the names that a fence or a file may use; any other name is shown without colours."""

_LINE_BY_LINE: Mapping[str, str] = {_TEXT: "markdown", _FENCE_LINE: "", "jsonl": "json"}
"""Languages whose lines have nothing to do with one another, and the lexer of such a line.

200 records of a transcript take some 50 ms on the loop; those in sight take 5.
"""


def display_line(line: str) -> str:
    """Return a line as it is shown: tabs expanded, controls visible, at most 2 000 cells."""
    text = safe(expand_tabs_inline(line[: MAX_CELLS + 1].removesuffix("\r"), TAB))
    if len(line) > MAX_CELLS or cell_len(text) > MAX_CELLS:
        text = set_cell_size(text, min(cell_len(text), MAX_CELLS) - 1).rstrip() + "…"
    return text


class Highlighter:
    """The coloured lines of one file: each is lexed when it is first shown."""

    def __init__(self, lines: Sequence[str], path: str) -> None:
        suffix = PurePosixPath(path).suffix.removeprefix(".").lower()
        language = LANGUAGES.get(suffix, "text")
        self._lines = lines
        self._languages = [language] * len(lines)
        if suffix in _MARKDOWN:
            self._languages = line_languages(lines)
        self._pieces: dict[int, list[Piece]] = {}

    def is_text(self, at: int) -> bool:
        """Tell a line of Markdown from code and from the fences around it."""
        return self._languages[at] == _TEXT

    def line(self, at: int) -> list[Piece]:
        """Return the pieces of one line, without its newline."""
        if at not in self._pieces:
            language, start, stop = self._languages[at], at, at + 1
            if language not in _LINE_BY_LINE:
                # The whole of its block, as far as that is within the same 200 lines.
                first, last = at - at % WINDOW, min(len(self._lines), at - at % WINDOW + WINDOW)
                while start > first and self._languages[start - 1] == language:
                    start -= 1
                while stop < last and self._languages[stop] == language:
                    stop += 1
            texts = [display_line(line) for line in self._lines[start:stop]]
            if language == _FENCE_LINE:
                block = [[(text, MUTED)] for text in texts]
            else:
                block = code_pieces(texts, _LINE_BY_LINE.get(language, language))
            self._pieces.update(zip(range(start, stop), block, strict=True))
        return self._pieces[at]


def front_matter_lines(lines: Sequence[str]) -> int:
    """Count the lines at the top that are front matter, with its fences."""
    top = [line[:LEX_LIMIT] for line in lines[:_FRONT_MATTER_LINES]]
    return front_matter("\n".join(top)).end_line


def line_languages(lines: Sequence[str]) -> list[str]:
    """Return the language of Markdown lines: empty for text, `fence` for a fence."""
    matter = front_matter_lines(lines)
    result = ["yaml"] * matter
    open_with, language = "", _TEXT
    for line in lines[matter:]:
        match = _FENCE.match(line[:LEX_LIMIT]) if "```" in line or "~~~" in line else None
        if match and not open_with:
            open_with = match["ticks"]
            language = LANGUAGES.get(match["language"].lower(), "text")
            result.append(_FENCE_LINE)
        elif match and match["ticks"].startswith(open_with) and not match["language"]:
            open_with, language = "", _TEXT
            result.append(_FENCE_LINE)
        else:
            result.append(language)
    return result


def code_pieces(texts: Sequence[str], language: str) -> list[list[Piece]]:
    """Colour a block of code; one list of pieces for each line."""
    heads = [text[:LEX_LIMIT] for text in texts]
    lines: list[list[Piece]] = [[]]
    tokens = _lexer(language).get_tokens_unprocessed("\n".join(heads) + "\n")
    for _, token, value in tokens:
        style = _style_of(str(token))
        for position, part in enumerate(value.split("\n")):
            if position:
                lines.append([])
            if part:
                lines[-1].append((part, style))
    for line, text in zip(lines, texts, strict=False):
        if len(text) > LEX_LIMIT:
            line.append((text[LEX_LIMIT:], ""))
    return lines[: len(texts)]


@lru_cache(maxsize=len(LANGUAGES))
def _lexer(language: str) -> Lexer:
    # Not imported with this module, which the first paint needs.
    from pygments.lexers import get_lexer_by_name

    options = {"handlecodeblocks": False} if language == "markdown" else {}
    return get_lexer_by_name(language, stripnl=False, **options)


@lru_cache(maxsize=512)
def _style_of(token: str) -> str:
    while token and token not in _STYLES:
        token = token.rpartition(".")[0]
    return _STYLES.get(token, "")
