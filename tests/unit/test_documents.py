"""Reading files: decoding, warnings, dates, and files that are not what they were."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from memtui.memory.documents import (
    day_of_path,
    front_matter,
    read_document,
    reason_of,
    split_lines,
    text_hash,
)
from memtui.model import Document, Reason, SourceFile
from tests.support.known import load


def source_file(path: Path, name: str = "memory/note.md") -> SourceFile:
    return SourceFile(name, str(path), "memory", 0, 0, 0)


def read(folder: Path, content: bytes, name: str = "memory/note.md") -> Document:
    path = folder / "note.md"
    path.write_bytes(content)
    return read_document(source_file(path, name))


MARK = b"\xef\xbb\xbf"
LINES = "line\n" * 300_000


@pytest.mark.parametrize(
    ("content", "encoding", "text", "warning"),
    [
        *load("reading")["bytes of notes"],
        pytest.param(
            f"{LINES}\xc3\xa9\n\xff",
            "latin-1",
            f"{LINES}é\n\ufffd",
            "not UTF-8: 1 bad sequence shown as U+FFFD, first on line 300002",
            id="300,000 lines",
        ),
    ],
)
def test_text_warnings_and_the_hash_of_the_text(
    tmp_path: Path, content: str, encoding: str, text: str, warning: str
) -> None:
    document = read(tmp_path, content.encode(encoding, "surrogatepass"))
    assert document.text == text
    assert document.warnings == ((warning,) if warning else ())
    assert document.hash == hashlib.sha256(text.encode()).hexdigest()
    assert (document.day, document.day_from, document.importance) == (None, None, None)


@pytest.mark.parametrize(("text", "encoding", "why"), load("reading")["bytes that are no text"])
def test_bytes_that_are_no_text_are_told_but_where_the_agent_reads_them(
    tmp_path: Path, text: str, encoding: str, why: str
) -> None:
    content = text.encode(encoding)
    with pytest.raises(OSError, match=r".") as raised:
        read(tmp_path, content)
    assert (raised.value.strerror, reason_of(raised.value)) == (why, Reason.NOT_TEXT)
    as_utf8 = content.decode(errors="replace").replace("\0", "\ufffd")
    file = source_file(tmp_path / "note.md")
    assert read_document(file, any_bytes=True).text == as_utf8


def test_lines_are_split_at_line_feeds_only_and_surrogates_hash_as_replaced() -> None:
    assert split_lines("one\r\ntwo\rthree\n\n") == ["one", "two\rthree", ""]
    assert text_hash("a\ud800") == text_hash("a\ufffd")


@pytest.mark.parametrize("at", range(-3, 2))
def test_characters_across_read_pieces_stay_whole(tmp_path: Path, at: int) -> None:
    text = "a" * (2**20 + at) + "😀\n" + "é" * 2**20
    document = read(tmp_path, text.encode())
    assert document.text == text
    assert document.warnings == ()
    assert document.hash == text_hash(text) == hashlib.sha256(text.encode()).hexdigest()


def test_the_day_of_the_name_comes_before_that_of_the_front_matter(tmp_path: Path) -> None:
    content = MARK + b"---\ndate: 2025-01-01\nimportance: 7\n---\n"
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


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)


@pytest.mark.skipif(os.name != "posix", reason="needs pipes, sockets and links")
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, Reason.VANISHED),
        (os.mkfifo, Reason.NOT_REGULAR),
        (make_socket, Reason.NOT_REGULAR),
        (Path.mkdir, Reason.NOT_REGULAR),
        (lambda path: path.symlink_to(__file__), Reason.SYMLINK),
    ],
    ids=["nothing", "pipe", "socket", "folder", "link"],
)
def test_what_took_the_place_of_a_file_is_named_and_not_kept_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object], reason: Reason
) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "note.md")
    probe = os.open(__file__, os.O_RDONLY)
    os.close(probe)
    with pytest.raises(OSError, match=r".") as raised:
        read_document(source_file(tmp_path / "note.md"))
    assert reason_of(raised.value) is reason
    again = os.open(__file__, os.O_RDONLY)
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


DAY = date(2026, 2, 10)


@pytest.mark.parametrize(("path", "day"), load("reading")["days of file names"])
def test_day_of_path(path: str, day: str | None) -> None:
    assert day_of_path(path) == (date.fromisoformat(day) if day else None)


@pytest.mark.parametrize(("text", "expected"), load("reading")["front matter"])
def test_front_matter(text: str, expected: list[Any]) -> None:
    day, importance, end_line = expected
    day = date.fromisoformat(day) if day else None
    found = front_matter(text)
    assert (found.day, found.importance, found.end_line) == (day, importance, end_line)


@pytest.mark.parametrize(("value", "importance"), load("reading")["importance"])
def test_importance(value: str, importance: float | None) -> None:
    assert front_matter(f"---\nimportance: {value}\n---\n").importance == importance


@pytest.mark.parametrize(
    "text",
    [
        "---\n" + "a: b\n" * 1_000_000,
        "---\n" + "date:" + " " * 5_000_000,
        "---\n" + "x" * 5_000_000 + "\n---\n",
        "---" + " " * 5_000_000,
        "---\ndate: " + "2026-02-1" * 500_000 + "\n---\n",
        "---\nimportance: '" + '"' * 1_000_000 + "\n---\n",
    ],
    ids=["no end", "blanks", "long line", "long fence", "almost dates", "quotes"],
)
def test_hostile_front_matter_costs_nothing(text: str) -> None:
    started = time.process_time()
    found = front_matter(text)
    assert found.day is None
    assert found.importance is None
    assert time.process_time() - started < 1
