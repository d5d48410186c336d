"""Lines of a transcript out of files of every condition, in bounded memory."""

from __future__ import annotations

import io
import os
import socket
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from memtui.memory.documents import NotRegularFile, reason_of
from memtui.memory.transcripts.stream import (
    RawLine,
    open_transcript,
    raw_lines,
    skip_to,
    text_of,
    unpacked,
)
from memtui.model import Reason


def lines_of(data: bytes, **options: int) -> list[RawLine]:
    return list(raw_lines(io.BytesIO(data), **options))


def told(data: bytes, **options: int) -> list[tuple[int, int, int, bytes | None, bool]]:
    return [
        (raw.number, raw.offset, raw.length, raw.data, raw.complete)
        for raw in lines_of(data, **options)
    ]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n", [(1, 0, 1, b"", True)]),
        (b"a", [(1, 0, 1, b"a", False)]),
        (b"a\r\nb\n", [(1, 0, 3, b"a\r", True), (2, 3, 2, b"b", True)]),
        (b"12345\nx\n", [(1, 0, 6, b"12345", True), (2, 6, 2, b"x", True)]),
        (b"123456\nx\n", [(1, 0, 7, None, True), (2, 7, 2, b"x", True)]),
        (b"12345", [(1, 0, 5, b"12345", False)]),
        (b"123456", [(1, 0, 6, None, False)]),
        (b"\0\0\n\xff\n", [(1, 0, 3, b"\0\0", True), (2, 3, 2, b"\xff", True)]),
    ],
)
def test_lines_of_at_most_five_bytes(
    data: bytes, expected: list[tuple[int, int, int, bytes | None, bool]]
) -> None:
    assert told(data, limit=5) == expected


@given(st.lists(st.binary(max_size=12), max_size=8).map(b"\n".join), st.integers(0, 9))
def test_reading_begins_at_any_line(data: bytes, first: int) -> None:
    whole = lines_of(data, limit=6)
    assert sum(raw.length for raw in whole) == len(data)
    at = min(first, len(whole))
    offset = sum(raw.length for raw in whole[:at])
    stream = io.BytesIO(data)
    skip_to(stream, offset)
    assert list(raw_lines(stream, offset=offset, number=at + 1, limit=6)) == whole[at:]
    for raw in whole:
        piece = data[raw.offset : raw.offset + raw.length]
        assert raw.data is None or raw.data == piece.removesuffix(b"\n")
        assert raw.complete == piece.endswith(b"\n")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xef\xbb\xbf{}\r\n", "{}"),
        (b"a\xffb\n", "a\ufffdb"),
        (b"\xed\xa0\x80\n", "\ufffd\ufffd\ufffd"),
        (b"a\0b", "a\0b"),
        ("日本\r".encode(), "日本"),
    ],
)
def test_texts(data: bytes, text: str) -> None:
    assert text_of(lines_of(data)[0]) == text


def test_a_mark_is_taken_off_where_a_file_begins_only() -> None:
    assert [text_of(raw) for raw in lines_of(b"a\n\xef\xbb\xbfb\n")] == ["a", "\ufeffb"]
    assert text_of(RawLine(1, 0, 9, None, True)) == ""


def test_a_huge_line_takes_no_memory() -> None:
    class Endless(io.RawIOBase):
        left = 40 * 2**20

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
            count = min(len(buffer), self.left)
            buffer[:count] = b"x" * count
            self.left -= count
            return count

    tracemalloc.start()
    stream = io.BufferedReader(Endless())  # type: ignore[type-var]
    found = list(raw_lines(stream, limit=1 << 16))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(raw.length, raw.data) for raw in found] == [(40 * 2**20, None)]
    assert peak < 2**20


# --- files ------------------------------------------------------------------------------------


def packed(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def test_packed_files_are_read_by_what_they_begin_with(tmp_path: Path) -> None:
    text = b"".join(b'{"n": %d}\n' % n for n in range(50_000))
    path = tmp_path / "a.jsonl"
    for data in (text, packed(text), packed(text[:9]) + packed(b"") + packed(text[9:])):
        path.write_bytes(data)
        with open_transcript(path) as stream:
            assert b"".join(raw.data + b"\n" for raw in raw_lines(stream) if raw.data) == text
        with open_transcript(path) as stream:
            skip_to(stream, 9)
            assert next(raw_lines(stream, offset=9, number=2)).data == b'{"n": 1}'


@pytest.mark.parametrize("data", [b"", b"(", b"\x28\xb5\x2f", b"{}\n"])
def test_short_files(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(data)
    with open_transcript(path) as stream:
        assert stream.read() == data


@pytest.mark.parametrize(
    "broken",
    [
        packed(b"text\n" * 99)[:-3],
        packed(b"text\n" * 99)[:5],
        packed(b"text\n") + b"tail",
        b"\x28\xb5\x2f\xfd" + b"\xff" * 40,
    ],
)
def test_broken_packed_files_are_one_clear_error(tmp_path: Path, broken: bytes) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(broken)
    with open_transcript(path) as stream, pytest.raises(OSError, match="Zstandard") as caught:
        list(raw_lines(stream))
    assert caught.value.filename == str(path)
    assert "\n" not in str(caught.value)
    assert reason_of(caught.value) is Reason.UNREADABLE
    with pytest.raises(OSError, match="Zstandard"):
        unpacked(broken, name="the database")


def test_what_unpacks_to_a_gigabyte_is_read_in_bounded_memory(tmp_path: Path) -> None:
    def zeros() -> Iterator[bytes]:
        compressor = zstandard.ZstdCompressor().compressobj()
        for _ in range(1 << 8):
            yield compressor.compress(bytes(1 << 20))
        yield compressor.flush()

    bomb = b"".join(zeros())
    assert len(bomb) < 1 << 16
    assert unpacked(bomb, limit=1000) is None
    path = tmp_path / "bomb"
    path.write_bytes(bomb)
    tracemalloc.start()
    with open_transcript(path) as stream:
        first = next(raw_lines(stream, limit=1 << 16))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (first.length, first.data) == (1 << 28, None)
    assert peak < 40 * 2**20


def test_unpacking_from_memory() -> None:
    assert unpacked(packed(b"event"), limit=5) == b"event"
    assert unpacked(packed(b"events"), limit=5) is None


def test_only_files_are_opened(tmp_path: Path) -> None:
    target = tmp_path / "real.jsonl"
    target.write_text("{}\n")
    (tmp_path / "link.jsonl").symlink_to(target)
    with pytest.raises(OSError, match=r"link\.jsonl") as caught:
        open_transcript(tmp_path / "link.jsonl")
    assert reason_of(caught.value) is Reason.SYMLINK
    os.mkfifo(tmp_path / "pipe.jsonl")
    for name in ("pipe.jsonl", "."):
        with pytest.raises(NotRegularFile):
            open_transcript(tmp_path / name)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        with pytest.raises(OSError, match="/s") as caught:
            open_transcript(tmp_path / "s")
        assert reason_of(caught.value) is Reason.NOT_REGULAR
    with pytest.raises(FileNotFoundError):
        open_transcript(tmp_path / "none")
