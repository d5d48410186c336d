"""Files without content, files that are too long, and lines that no chunk can hold whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from memtui.memory.care.lines import LineKind, note_lines
from memtui.memory.care.masking import place_in
from memtui.memory.care.shingles import words_of
from memtui.memory.discover import ROOT_FILES
from memtui.memory.weights import size_estimate
from memtui.model import Document
from memtui.model.browsing import CareFinding, CareRule

LONG_FILE_CHARACTERS: Final = 100_000
LONG_ROOT_CHARACTERS: Final = 20_000
"""Of MEMORY.md and USER.md, which agents put into every prompt: OpenClaw cuts them there."""
MOST_TITLE_WORDS: Final = 6
"""A file of headings alone that says no more than this is empty; a longer title says something."""
_UNBROKEN = re.compile(r"[\x21-\x7e]{120,}")
_CHARACTERS_PER_TOKEN: Final = 4
_ENOUGH: Final = 1_000
"""So many characters of a line tell whether it says anything."""


def empty_file(document: Document) -> CareFinding | None:
    """A file in which nothing is said: no word but front matter and a short title."""
    title = 0
    for line in note_lines(document.text):
        if line.kind in {LineKind.FRONT_MATTER, LineKind.BLANK}:
            continue
        words = len(words_of(line.text[:_ENOUGH]))
        if line.kind is not LineKind.HEADING and words:
            return None
        title += words
    if title > MOST_TITLE_WORDS:
        return None
    what = "nothing but a title" if title else "no word"
    lines = max(1, document.text.count("\n"))
    place = place_in(document, 1, lines, document.text.strip())
    return CareFinding(
        CareRule.EMPTY_FILE, place, f"{what} in this file: write the note, or remove it"
    )


def long_file(document: Document) -> CareFinding | None:
    """A file that is better split: it is read as a whole, and each of its chunks competes."""
    is_root = document.file.path in ROOT_FILES
    limit = LONG_ROOT_CHARACTERS if is_root else LONG_FILE_CHARACTERS
    length = len(document.text)
    if length <= limit:
        return None
    last = document.text.count("\n") + 1
    why = "agents cut it in the prompt" if is_root else "split it by topic"
    return CareFinding(
        CareRule.LONG_FILE,
        place_in(document, 1, last, document.text),
        f"{length:,} characters, over {limit:,}: {why}",
        numbers={"characters": length, "limit": limit, "lines": last},
    )


def long_lines(document: Document, chunk_tokens: int) -> Iterator[CareFinding]:
    """Lines that are cut in the middle because a chunk of `chunk_tokens` cannot hold them.

    Code, tables and lines that are mostly one unbroken run (base64, URLs, minified text) are left
    out: nobody would wrap them.
    """
    limit = chunk_tokens * _CHARACTERS_PER_TOKEN
    # A character weighs at most 16.
    shortest = limit // 16
    for line in note_lines(document.text):
        if line.kind is not LineKind.TEXT or len(line.text) < shortest:
            continue
        size = size_estimate(line.text)
        if size <= limit or _is_data(line.text):
            continue
        yield CareFinding(
            CareRule.LONG_LINE,
            place_in(document, line.number, line.number, line.text),
            f"{len(line.text):,} characters in one line: it is cut inside, wrap it",
            numbers={"characters": len(line.text), "size": size, "limit": limit},
        )


def _is_data(text: str) -> bool:
    unbroken = sum(len(run) for run in _UNBROKEN.findall(text))
    return 2 * unbroken > len(text)
