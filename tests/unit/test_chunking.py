"""Chunks, sizes, ids and remapped lines against what three OpenClaw releases produced."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from memtui.errors import Cancelled
from memtui.memory.chunking import (
    chunk_document,
    chunk_id,
    chunk_text,
    size_estimate,
)
from memtui.model import ChunkSpan, Document, SourceFile

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "chunking.json").read_text("utf-8")
)
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


def utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def document(text: str, path: str = "memory/note.md") -> Document:
    file = SourceFile(path, Path("/nowhere") / path, "memory", len(text), 0, 0)
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


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("你😀", 6),
        ("你𠀀好", 24),
        ("\U00030000", 16),
        ("ｺﾝﾆﾁﾊ", 40),
        ("\u1112\u1161\u11ab", 36),
        ("\ufe10\uffe0", 16),
        ("\u2e80\u3400\ua000\uf900", 48),
        ("\U0001d360", 12),
        ("\U0001b001\U0001f200", 32),
        ("hello，world", 14),
        ("é\u0301", 2),
    ],
)
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
    asked: list[int] = []

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) == 3

    with pytest.raises(Cancelled):
        chunk_document(document("word " * 100_000), cancelled=cancelled)
    assert len(asked) == 3
