"""Reading files: decoding, warnings, dates, and files that are not what they were."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
from datetime import date
from pathlib import Path

import pytest

from memtui.memory.documents import (
    NotRegularFile,
    read_document,
    reason_of,
    split_lines,
    text_hash,
)
from memtui.model import Document, Reason, SourceFile


def source_file(path: Path, name: str = "memory/note.md") -> SourceFile:
    return SourceFile(name, path, "memory", 0, 0, 0)


def read(folder: Path, content: bytes, name: str = "memory/note.md") -> Document:
    path = folder / "note.md"
    path.write_bytes(content)
    return read_document(source_file(path, name))


def test_plain_text(tmp_path: Path) -> None:
    document = read(tmp_path, "# Ghi chú\n東京 😀\n".encode())
    assert document.text == "# Ghi chú\n東京 😀\n"
    assert document.hash == hashlib.sha256(document.text.encode()).hexdigest()
    assert document.warnings == ()
    assert (document.day, document.day_from, document.importance) == (None, None, None)


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfmarked",
        b"\xef\xbb\xbf\xef\xbb\xbf",
        b"\xef\xbf\xbd is a character",
        b"\xef\xbf\xbd is one, \xef\xbf is none",
        b"\xe2\xef\xbf\xbd",
        b"nul \0",
        b"\xed\xa0\x80",
        "東京 😀 \ufeff\r\n".encode(),
    ],
)
def test_the_hash_is_that_of_the_text(tmp_path: Path, content: bytes) -> None:
    document = read(tmp_path, content)
    assert document.hash == hashlib.sha256(document.text.encode()).hexdigest()


def test_an_empty_file(tmp_path: Path) -> None:
    document = read(tmp_path, b"")
    assert (document.text, document.hash) == ("", hashlib.sha256(b"").hexdigest())


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    document = read(tmp_path, b"\xef\xbb\xbf---\ndate: 2026-02-10\n---\n")
    assert document.text.startswith("---")
    assert document.day == date(2026, 2, 10)
    assert document.warnings == ()


def test_only_the_first_byte_order_mark_goes(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbf\xef\xbb\xbfx").text == "\ufeffx"


def test_line_ends_stay(tmp_path: Path) -> None:
    document = read(tmp_path, b"one\r\ntwo\rthree\n")
    assert document.text == "one\r\ntwo\rthree\n"
    assert split_lines(document.text) == ["one", "two\rthree", ""]


def test_bytes_that_are_not_utf8_are_counted_and_placed(tmp_path: Path) -> None:
    document = read(tmp_path, b"fine \xef\xbf\xbd\ncaf\xe9\n\xff\xfe end\xc3")
    assert document.text == "fine \ufffd\ncaf\ufffd\n\ufffd\ufffd end\ufffd"
    assert document.warnings == ("not UTF-8: 4 bad sequences shown as U+FFFD, first on line 2",)


def test_surrogates_cannot_come_in(tmp_path: Path) -> None:
    document = read(tmp_path, "a\ud800b".encode("utf-8", "surrogatepass"))
    assert document.text == "a\ufffd\ufffd\ufffdb"
    assert document.text.encode()


def test_nul_bytes_are_replaced_and_named(tmp_path: Path) -> None:
    document = read(tmp_path, b"a\nb\0c\0")
    assert document.text == "a\nb\ufffdc\ufffd"
    assert document.warnings == ("2 NUL bytes shown as U+FFFD, first on line 2",)


@pytest.mark.parametrize("at", range(-3, 2))
def test_characters_across_read_pieces_stay_whole(tmp_path: Path, at: int) -> None:
    text = "a" * (2**20 + at) + "😀\n" + "é" * 2**20
    document = read(tmp_path, text.encode())
    assert document.text == text
    assert document.warnings == ()
    assert document.hash == hashlib.sha256(text.encode()).hexdigest()


def test_a_bad_byte_behind_the_first_piece_is_placed(tmp_path: Path) -> None:
    document = read(tmp_path, b"line\n" * 300_000 + "é".encode() + b"\n\xff")
    assert document.warnings == ("not UTF-8: 1 bad sequence shown as U+FFFD, first on line 300002",)


def test_the_day_of_the_name_comes_before_that_of_the_front_matter(tmp_path: Path) -> None:
    content = b"---\ndate: 2025-01-01\nimportance: 7\n---\n"
    named = read(tmp_path, content, "memory/2026-02-10.md")
    assert (named.day, named.day_from) == (date(2026, 2, 10), Reason.FILE_NAME)
    assert named.importance == 0.7
    unnamed = read(tmp_path, content)
    assert (unnamed.day, unnamed.day_from) == (date(2025, 1, 1), Reason.FRONT_MATTER)


def test_reading_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "big.md"
    path.write_bytes(b"x" * 1000)
    assert read_document(source_file(path), max_bytes=1000).text == "x" * 1000
    with pytest.raises(OSError, match="File too large") as raised:
        read_document(source_file(path), max_bytes=999)
    assert reason_of(raised.value) is Reason.TOO_LARGE


def test_a_file_that_grows_without_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.md"
    path.write_bytes(b"x")
    monkeypatch.setattr(os, "read", lambda _descriptor, size: b"x" * size)
    with pytest.raises(OSError, match="File too large"):
        read_document(source_file(path), max_bytes=5 * 2**20)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        read_document(source_file(tmp_path / "gone.md"))
    assert reason_of(raised.value) is Reason.VANISHED


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_place_of_the_file_does_not_hang(tmp_path: Path) -> None:
    path = tmp_path / "note.md"
    os.mkfifo(path)
    with pytest.raises(NotRegularFile) as raised:
        read_document(source_file(path))
    assert reason_of(raised.value) is Reason.NOT_REGULAR


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs Unix sockets")
def test_a_socket_in_place_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("note.md")
        with pytest.raises(OSError, match=r".") as raised:
            read_document(source_file(tmp_path / "note.md"))
    assert reason_of(raised.value) is Reason.NOT_REGULAR


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r".") as raised:
        read_document(source_file(tmp_path))
    assert reason_of(raised.value) in {Reason.NOT_REGULAR, Reason.UNREADABLE}


def test_a_link_in_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "real.md").write_text("x")
    (tmp_path / "note.md").symlink_to("real.md")
    with pytest.raises(OSError, match=r".") as raised:
        read_document(source_file(tmp_path / "note.md"))
    assert reason_of(raised.value) is Reason.SYMLINK


def test_reading_leaves_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("x")
    probe = os.open(tmp_path / "note.md", os.O_RDONLY)
    os.close(probe)
    read_document(source_file(tmp_path / "note.md"))
    with pytest.raises(NotRegularFile):
        read_document(source_file(tmp_path)) if os.name != "nt" else None
    again = os.open(tmp_path / "note.md", os.O_RDONLY)
    os.close(again)
    assert again == probe


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.EACCES, Reason.UNREADABLE),
        (errno.EIO, Reason.UNREADABLE),
        (errno.ENOTDIR, Reason.VANISHED),
    ],
)
def test_reasons_of_errors(code: int, reason: Reason) -> None:
    assert reason_of(OSError(code, os.strerror(code))) is reason


def test_hashing_treats_a_lone_surrogate_as_replaced() -> None:
    assert text_hash("a\ud800") == text_hash("a\ufffd")
