"""Chunks, sizes, ids and remapped lines against what three OpenClaw releases produced."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from itertools import product
from types import FrameType
from typing import Any, ClassVar, SupportsIndex
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from memtui.embedding.provider import clean_vectors
from memtui.errors import Cancelled
from memtui.memory.chunking import Packer, chunk_document, chunk_id, chunk_text, size_estimate
from memtui.model import ChunkSpan, Document, SourceFile
from tests.support.known import load, utf16_length

VECTORS: dict[str, Any] = load("chunking")
MIXED_LINE = "Line {}: 这是中英文混合的测试内容 with some English text"
CONTENTS = {
    "overlong ascii line": "a" * 4825,
    "20x20 ascii lines tokens 50": "\n".join(["a" * 20] * 20),
    "20x20 CJK lines tokens 50": "\n".join(["你" * 20] * 20),
    "english run tokens 100": "hello world this is a test. " * 50,
    "mixed CJK 30 lines": "\n".join(MIXED_LINE.format(number) for number in range(30)),
    "long CJK line tokens 200": "中" * 2000,
    "long latin line tokens 200": "a" * 2000,
    "default note": "# Title\n\n- one\n- two\n\n## Next\n" + "para " * 500,
}


def document(text: str, path: str = "memory/note.md") -> Document:
    file = SourceFile(path, f"/nowhere/{path}", "memory", len(text), 0, 0)
    return Document(file, text, "", None, None, None)


def lines_of(chunks: Iterable[ChunkSpan]) -> list[tuple[int, int]]:
    return [(chunk.start_line, chunk.end_line) for chunk in chunks]


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_known_chunks(case: dict[str, Any]) -> None:
    content = case["content"] if "content" in case else CONTENTS[case["name"]]
    chunks = list(chunk_text(content, **case["options"]))
    expected = case["v2026_9_6"]
    assert [
        {
            "startLine": chunk.start_line,
            "endLine": chunk.end_line,
            "utf16_length": utf16_length(chunk.text),
            "sha256": chunk.hash,
        }
        for chunk in chunks
    ] == [
        {key: want[key] for key in ("startLine", "endLine", "utf16_length", "sha256")}
        for want in expected
    ]
    for chunk, want in zip(chunks, expected, strict=True):
        assert chunk.text == want.get("text", chunk.text)
        assert chunk.text.startswith(want.get("head", ""))
        assert chunk.text.endswith(want.get("tail", ""))


@pytest.mark.parametrize("case", VECTORS["size_estimate"], ids=lambda case: ascii(case["text"]))
def test_known_sizes(case: dict[str, Any]) -> None:
    assert size_estimate(case["text"]) == case["weight_2026_9_6"]


@pytest.mark.parametrize(("text", "weight"), load("reading")["weights of characters"])
def test_weights(text: str, weight: int) -> None:
    assert size_estimate(text) == weight
    assert size_estimate(text * 30_000) == weight * 30_000


def test_known_chunk_id() -> None:
    example = VECTORS["chunk_id"]["example"]
    made = chunk_id(
        example["source"],
        example["path"],
        example["startLine"],
        example["endLine"],
        example["chunkHash"],
        example["model"],
    )
    assert made == example["id"]


@pytest.mark.parametrize("path", ["MEMORY.md", "USER.md"])
def test_curated_files_are_cut_per_entry(path: str) -> None:
    text = "# Facts\n- one\n- two\n"
    assert lines_of(chunk_document(document(text, path))) == [(1, 1), (2, 2), (3, 4)]
    assert lines_of(chunk_document(document(text, f"memory/{path}"))) == [(1, 4)]


@pytest.mark.parametrize("text", ["", "\n", " \n\t\r\n\u3000"])
def test_blank_documents_have_no_chunks(text: str) -> None:
    assert chunk_document(document(text)) == []


def test_chunks_that_would_share_an_id_are_kept_once() -> None:
    chunks = chunk_document(document("a" * 16_000), overlap=0)
    assert [len(chunk.text) for chunk in chunks] == [1600]


def test_chunking_can_be_cancelled() -> None:
    cancelled = Mock(side_effect=[False, False, True])
    with pytest.raises(Cancelled):
        chunk_document(document("word " * 100_000), cancelled=cancelled)
    assert cancelled.call_count == 3


CHARS = st.one_of(
    st.sampled_from("ab é·\t\r-#"),
    st.sampled_from("你好。ｱ龦한\u1100\ufe10"),
    st.sampled_from("😀𠀀\U00030001\U0001d360\U0001f200"),
    st.characters(exclude_categories=["Cs"]),
)
LINES = st.one_of(
    st.text(CHARS, max_size=30),
    st.builds(lambda text, times: text * times, st.text(CHARS, max_size=6), st.integers(0, 60)),
)
TEXTS = st.lists(LINES, max_size=20).map("\n".join)
TOKENS = st.integers(1, 40)
OVERLAPS = st.integers(0, 45)

Line = tuple[str, int]


def slow_segments(line: str, budget: int) -> list[str]:
    """Cut one character at a time: every `budget` units, and by weight what weighs more."""
    coarse = [""]
    for char in line:
        if utf16_length(coarse[-1] + char) > budget:
            coarse.append("")
        coarse[-1] += char
    fine: list[str] = []
    for piece in coarse:
        part = ""
        for char in piece:
            if size_estimate(part + char) > budget:
                fine.append(part)
                part = ""
            part += char
        fine.append(part)
    return fine


def slow_carry(held: list[Line], room: int) -> list[Line]:
    kept: list[Line] = []
    for text, number in reversed(held):
        left = room - sum(size_estimate(line) + 1 for line, _ in kept)
        if left <= 0:
            break
        if size_estimate(text) + 1 > left:
            tail = text
            while size_estimate(tail) > max(0, left - 1):
                tail = tail[1:]
            return kept if kept or not tail else [(tail, number)]
        kept.insert(0, (text, number))
    return kept


def slow_chunks(text: str, tokens: int, overlap: int) -> list[tuple[int, int, str]]:
    budget = max(32, 4 * tokens)
    chunks: list[list[Line]] = []
    held: list[Line] = []
    for number, line in enumerate(text.split("\n"), start=1):
        for segment in slow_segments(line, budget):
            cost = size_estimate(segment) + 1
            if held and sum(size_estimate(kept) + 1 for kept, _ in held) + cost > budget:
                chunks.append(held)
                held = slow_carry(held, min(4 * overlap, max(0, budget - cost)))
            held = [*held, (segment, number)]
    chunks.append(held)
    return [(lines[0][1], lines[-1][1], "\n".join(line for line, _ in lines)) for lines in chunks]


@given(TEXTS, TOKENS, OVERLAPS)
@example("a" + "😀" * 40, 8, 3)
@example("a" + "𠀀" * 40, 8, 3)
@example("你" * 100 + "\n\n\n" + "b" * 50, 10, 20)
def test_chunks_follow_the_rules(text: str, tokens: int, overlap: int) -> None:
    chunks = chunk_text(text, tokens=tokens, overlap=overlap)
    made = [(chunk.start_line, chunk.end_line, chunk.text) for chunk in chunks]
    assert made == slow_chunks(text, tokens, overlap)


@given(TEXTS, TOKENS, OVERLAPS)
def test_entries_are_chunked_one_by_one(text: str, tokens: int, overlap: int) -> None:
    made = chunk_text(text, tokens=tokens, overlap=overlap, per_entry=True)
    expected: list[str] = []
    entry: list[str] = []
    for line in text.split("\n"):
        rest = line.lstrip("#")
        heading = 1 <= len(line) - len(rest) <= 6 and not rest[:1].strip()
        start = heading or line.startswith("- ")
        if entry and start:
            expected += [
                c.text for c in chunk_text("\n".join(entry), tokens=tokens, overlap=overlap)
            ]
            entry = []
        entry.append(line)
    expected += [c.text for c in chunk_text("\n".join(entry), tokens=tokens, overlap=overlap)]
    assert [chunk.text for chunk in made] == expected


class CountedText(str):
    """Text that counts the characters it hands out, so that copying the rest of a line shows."""

    copied: ClassVar[int] = 0
    __slots__ = ()

    def __getitem__(self, key: SupportsIndex | slice) -> CountedText:
        part = CountedText(super().__getitem__(key))
        CountedText.copied += len(part)
        return part

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        parts: list[str] = [CountedText(part) for part in super().split(sep, maxsplit)]
        CountedText.copied += len(self)
        return parts


def cost(text: str, tokens: int) -> int:
    """Count the lines of memtui's code that run, and the characters copied, while chunking."""
    executed = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal executed
        if "memtui" not in frame.f_code.co_filename:
            return None
        executed += event == "line"
        return trace

    CountedText.copied = 0
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        list(chunk_text(CountedText(text), tokens=tokens, overlap=tokens // 5))
    finally:
        sys.settrace(before)
    return executed + CountedText.copied


@pytest.mark.parametrize(
    ("piece", "tokens"),
    [
        *product(["a", "word ", "\n", "line of text\n", "记忆搜索", "a你😀𠀀", "- \n"], [400]),
        # Every blank line is carried over again and again: smaller chunks, and more of them.
        ("x" * 400 + "\n" * 80, 100),
    ],
)
def test_twice_the_text_costs_twice_the_work(piece: str, tokens: int) -> None:
    times = (4_000 if tokens < 400 else 12_000) // len(piece)
    single, double = cost(piece * times, tokens), cost(piece * times * 2, tokens)
    assert double <= 2.1 * single


@given(TEXTS, TOKENS, OVERLAPS, st.sets(st.integers(0, 20)))
def test_stopping_between_any_lines_changes_nothing(
    text: str, tokens: int, overlap: int, stops: set[int]
) -> None:
    packer = Packer(tokens, overlap)
    chunks: list[ChunkSpan] = []
    for number, line in enumerate(text.split("\n"), start=1):
        chunks += packer.pack([(number, line)])
        before = packer.pending
        beginning = "\n".join(text.split("\n")[:number])
        whole = chunk_text(beginning, tokens=tokens, overlap=overlap)
        assert chunks + packer.finish() == list(whole)
        assert packer.pending == before
        if number in stops:
            packer = Packer(tokens, overlap, json.loads(json.dumps(before)))
    assert chunks + packer.finish() == list(chunk_text(text, tokens=tokens, overlap=overlap))


@given(TEXTS, TEXTS, TOKENS, OVERLAPS)
def test_a_cut_shares_nothing(first: str, second: str, tokens: int, overlap: int) -> None:
    packer = Packer(tokens, overlap)
    chunks: list[ChunkSpan] = []
    for text in (first, second):
        chunks += packer.pack(enumerate(text.split("\n"), start=1))
        chunks += packer.cut()
    assert chunks == [
        chunk
        for text in (first, second)
        for chunk in chunk_text(text, tokens=tokens, overlap=overlap)
    ]
    assert packer.pending == []
    assert packer.finish() == packer.cut() == []


doubles = arrays.arrays(
    np.float64,
    st.tuples(st.integers(0, 5), st.integers(1, 16)),
    elements=st.floats(width=64, allow_nan=True, allow_infinity=True),
)
singles = arrays.arrays(
    np.float32,
    st.tuples(st.integers(1, 5), st.integers(1, 16)),
    elements=st.floats(-100, 100, width=32, allow_subnormal=False),
)


@given(doubles)
def test_rows_are_finite_and_of_length_one_or_zero(vectors: NDArray[np.float64]) -> None:
    cleaned = clean_vectors(vectors)
    assert cleaned.shape == vectors.shape
    assert cleaned.dtype == np.float32
    assert np.isfinite(cleaned).all()
    lengths = np.linalg.norm(cleaned.astype(np.float64), axis=-1)
    assert all(length == 0.0 or abs(length - 1.0) < 1e-6 for length in lengths)
    # Neither neighbours nor cleaning twice make a difference.
    for row, vector in zip(cleaned, vectors, strict=True):
        np.testing.assert_array_equal(row, clean_vectors(vector))
    np.testing.assert_allclose(clean_vectors(cleaned), cleaned, atol=2e-7)


@given(singles)
def test_directions_are_kept(vectors: NDArray[np.float32]) -> None:
    cleaned = clean_vectors(vectors).astype(np.float64)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    visible = (lengths > 1e-9)[:, 0]
    np.testing.assert_allclose((cleaned * lengths)[visible], vectors[visible], rtol=1e-5, atol=1e-5)
    assert not cleaned[(lengths < 1e-11)[:, 0]].any()
