"""How much text one embedding input and one request may hold, in UTF-8 bytes.

OpenClaw counts a byte as a token (OPENCLAW.md section 3): more is never sent than a model takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

Item = TypeVar("Item")

DEFAULT_LIMIT: Final = 8192
LOCAL_LIMIT: Final = 2048
"""For a model that runs in the program itself and declares no limit."""
BATCH_BYTES: Final = 8000
"""Of one request, and of one input when an index is made."""


def byte_size(text: str) -> int:
    """UTF-8 bytes of a text; a lone surrogate counts three, as the character that replaces it."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def whole(text: str) -> str:
    """A text whose lone surrogates, which no service takes, are U+FFFD; as many bytes long."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def split_input(text: str, limit: int) -> list[str]:
    """Cut text into parts of at most `limit` UTF-8 bytes, never inside a character.

    The parts joined are the text. A character of more than `limit` bytes is a part by itself. Text
    within the limit, the empty one too, is one part. Raises `ValueError` for a limit below 1.
    """
    if limit < 1:
        raise ValueError(f"an input cannot be at most {limit} bytes long")
    if byte_size(text) <= limit:
        return [text]
    return ["".join(part) for part in batches(text, byte_size, limit)]


def batches(
    items: Iterable[Item], size: Callable[[Item], int], limit: int = BATCH_BYTES
) -> Iterator[list[Item]]:
    """Fill batches of at most `limit` with items, in order, each as full as it can be.

    An item that is larger than a batch goes alone. Gives a batch as soon as it is full.
    """
    batch: list[Item] = []
    used = 0
    for item in items:
        needed = size(item)
        if batch and used + needed > limit:
            yield batch
            batch, used = [], 0
        batch.append(item)
        used += needed
    if batch:
        yield batch
