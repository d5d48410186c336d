"""Where text has no spaces between words, asked of the very function that fills the index."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from memtui.text.tokens import index_text


class Run(NamedTuple):
    """A piece of text of one kind of script."""

    start: int
    text: str
    grams: int
    """How long the n-grams are into which the index cuts it; 0 where words have spaces."""


@functools.lru_cache(maxsize=8192)
def gram_length(character: str) -> int:
    """Tell into n-grams of what length the index cuts this character's script; 0 for none."""
    if character.isspace() or not index_text(character).startswith(" "):
        return 0
    return len(index_text(character * 4).split()[0])


def runs(text: str) -> Iterator[Run]:
    """Cut text where its kind of script changes."""
    if text.isascii():
        if text:
            yield Run(0, text, 0)
        return
    start = 0
    for length, characters in groupby(text, gram_length):
        piece = "".join(characters)
        yield Run(start, piece, length)
        start += len(piece)


def is_spaceless(text: str) -> bool:
    """Tell whether any of it is in a script without spaces between words."""
    return not text.isascii() and any(map(gram_length, text))
