"""The first words of a note, as somebody who remembers how it begins would type them."""

from __future__ import annotations

import re
from typing import Final

from memtui.memory.care.lines import LineKind, lines_as_read
from memtui.model import Document

WORDS: Final = 10
"""How many words are asked for."""
FEWEST: Final = 3
"""A note that begins with fewer words says too little to be asked for by them."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_LONGEST: Final = 40
_CHARACTERS: Final = 200


def first_words(document: Document) -> str:
    """The first words of a note without front matter and code, joined by blanks.

    Empty for a note that says too little. No word of it means anything in the query language.
    """
    words: list[str] = []
    size = 0
    for line in lines_as_read(document.text):
        if line.kind in {LineKind.FRONT_MATTER, LineKind.CODE, LineKind.BLANK}:
            continue
        for word in _WORD.findall(line.text[: _CHARACTERS * 4]):
            words.append(word[:_LONGEST])
            size += len(words[-1]) + 1
            if len(words) == WORDS or size > _CHARACTERS:
                return " ".join(words)
    return " ".join(words) if len(words) >= FEWEST else ""
