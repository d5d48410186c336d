"""Cut documents into overlapping pieces of about equal size, with the lines they come from.

The rules are those of OpenClaw (OPENCLAW.md section 2), in the form of three releases: '2026.2'
counts UTF-16 units, '2026.4' weighs East Asian text, '2026.9' (the default) also keeps every chunk
within its budget. Each runs in time linear in the text, a chunk at a time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from memtui.errors import Cancelled
from memtui.memory.packing import NumberedLine, Packer
from memtui.memory.weights import Rules, size_estimate
from memtui.model import ChunkSpan, Document

__all__ = [
    "Packer",
    "Rules",
    "chunk_document",
    "chunk_id",
    "chunk_text",
    "iter_chunks",
    "remap_lines",
    "size_estimate",
]

_BLOCK = 1 << 16
_CURATED = frozenset({"MEMORY.md", "USER.md"})
_ENTRY_START = re.compile(r"- |#{1,6}(?:\s|$)")


def chunk_text(
    text: str,
    *,
    tokens: int = 400,
    overlap: int = 80,
    rules: Rules = "2026.9",
    per_entry: bool = False,
) -> list[ChunkSpan]:
    """Cut text into chunks of about `tokens` tokens of four characters, overlapping by `overlap`.

    Empty text gives one empty chunk. With `per_entry` a line that starts a bullet or a heading
    starts a new chunk, and nothing overlaps across such a start.
    """
    return list(iter_chunks(text, tokens=tokens, overlap=overlap, rules=rules, per_entry=per_entry))


def iter_chunks(
    text: str,
    *,
    tokens: int = 400,
    overlap: int = 80,
    rules: Rules = "2026.9",
    per_entry: bool = False,
) -> Iterator[ChunkSpan]:
    """Do what `chunk_text` does, one chunk at a time, so that a caller can stop in between."""
    packer = Packer(tokens, overlap, rules)
    if per_entry:
        lines = chain.from_iterable(_blocks(text))
        for group in _entries(enumerate(lines, start=1)):
            yield from packer.pack(group)
            yield from packer.cut()
        return
    is_ascii = text.isascii()
    if len(text) <= _BLOCK:
        yield from packer.pack_block(1, text.split("\n"), is_ascii=is_ascii, ends=True)
        return
    first = 1
    for block in _blocks(text):
        yield from packer.pack_block(first, block, is_ascii=is_ascii)
        first += len(block)
    yield from packer.finish()


def chunk_document(
    document: Document,
    *,
    tokens: int = 400,
    overlap: int = 80,
    rules: Rules = "2026.9",
    cancelled: Callable[[], bool] | None = None,
) -> list[ChunkSpan]:
    """Cut a document into the chunks that are indexed.

    Blank chunks are left out, and of chunks with the same lines and text all but the first (they
    would have one id). By the 2026.9 rules the curated `MEMORY.md` and `USER.md` are cut per entry.
    Raises `Cancelled` when `cancelled()` turns true.
    """
    per_entry = rules == "2026.9" and document.file.path in _CURATED
    chunks: dict[tuple[int, int, str], ChunkSpan] = {}
    for chunk in iter_chunks(
        document.text, tokens=tokens, overlap=overlap, rules=rules, per_entry=per_entry
    ):
        if cancelled is not None and cancelled():
            raise Cancelled
        if chunk.text and not chunk.text.isspace():
            chunks.setdefault((chunk.start_line, chunk.end_line, chunk.hash), chunk)
    return list(chunks.values())


def chunk_id(
    source: str, path: str, start_line: int, end_line: int, chunk_hash: str, model: str
) -> str:
    """Name a chunk: sha256 hex of `source:path:start_line:end_line:chunk_hash:model`."""
    recipe = f"{source}:{path}:{start_line}:{end_line}:{chunk_hash}:{model}"
    return hashlib.sha256(recipe.encode("utf-8", "surrogatepass")).hexdigest()


def remap_lines(chunks: Iterable[ChunkSpan], line_map: Sequence[int] | None) -> list[ChunkSpan]:
    """Replace the lines of chunks of a derived text by those of its source.

    `line_map[i]` is the source line of the text's line `i + 1`; lines beyond it stay as they are.
    """
    if not line_map:
        return list(chunks)

    def source_line(line: int) -> int:
        return line_map[line - 1] if line <= len(line_map) else line

    return [
        replace(
            chunk, start_line=source_line(chunk.start_line), end_line=source_line(chunk.end_line)
        )
        for chunk in chunks
    ]


def _blocks(text: str) -> Iterator[list[str]]:
    """Split at line feeds as `str.split` does, a block at a time."""
    start, end = 0, len(text)
    while end - start > _BLOCK:
        cut = text.rfind("\n", start, start + _BLOCK)
        if cut < 0:
            cut = text.find("\n", start + _BLOCK)
        if cut < 0:
            break
        yield text[start:cut].split("\n")
        start = cut + 1
    yield text[start:].split("\n")


def _entries(lines: Iterable[NumberedLine]) -> Iterator[list[NumberedLine]]:
    group: list[NumberedLine] = []
    for number, line in lines:
        if group and _ENTRY_START.match(line):
            yield group
            group = []
        group.append((number, line))
    yield group
