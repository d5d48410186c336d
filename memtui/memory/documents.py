"""Reading one file into a document: its text, hash and date, and what was wrong with it."""

from __future__ import annotations

import codecs
import errno
import hashlib
import math
import os
import re
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import partial, reduce
from operator import or_
from pathlib import Path

from msgspec import Struct

from memtui.errors import undone_on_error
from memtui.model import Document, Reason, SourceFile
from memtui.settings.containment import is_inside, parts_below
from memtui.text.ecmascript import well_formed
from memtui.text.sanitize import counted

MAX_FILE_BYTES = 64 * 2**20
"""Larger files are not read."""
_PIECE_BYTES = 2**16

_FLAGS = ("O_CLOEXEC", "O_NONBLOCK", "O_NOFOLLOW", "O_NOCTTY", "O_BINARY")
_OPEN = reduce(or_, (getattr(os, name, 0) for name in _FLAGS), os.O_RDONLY)
# A folder that may be searched need not be readable.
_FOLDER_FLAGS = ("O_CLOEXEC", "O_DIRECTORY", "O_PATH")
_OPEN_FOLDER = reduce(or_, (getattr(os, name, 0) for name in _FOLDER_FLAGS), os.O_RDONLY)
_REPLACEMENT = "\ufffd"
_BYTE_ORDER_MARK = "\ufeff"

_MARKED = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_NO_TEXT_SHARE = 1 / 3
"""Latin-1 letters are a smaller part of a text than this; bytes that cannot be decoded are a larger
one of an image, and of Cyrillic or Japanese in an encoding of its own."""


def read_document(
    file: SourceFile, *, max_bytes: int = MAX_FILE_BYTES, any_bytes: bool = False
) -> Document:
    """Read and decode a file that discovery found.

    The text is the file's UTF-8, or UTF-16 where a byte order mark says so, without the mark. Bytes
    that are neither become U+FFFD, one for one, and are named in the warnings; line ends stay as
    they are, so line numbers are those of the file. With `any_bytes` every file is text, as
    OpenClaw reads it: UTF-8, and NUL becomes U+FFFD. Never blocks on a pipe and never follows a
    link.

    Raises `OSError`: `reason_of` says which reason it stands for.
    """
    raw = bytearray()
    with open(open_regular(file.absolute, file.base), "rb", buffering=0) as stream:
        while piece := stream.read(min(_PIECE_BYTES, max_bytes + 1 - len(raw))):
            raw += piece
    if len(raw) > max_bytes:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), file.place)
    text, warning, bad_line, no_text = _decoded(raw, any_bytes)
    if no_text and not any_bytes:
        raise OSError(errno.EILSEQ, f"no text: {no_text}", file.place)
    text = text.removeprefix(_BYTE_ORDER_MARK).replace("\0", _REPLACEMENT)
    matter = front_matter(text)
    day, day_from = day_of_path(file.path), Reason.FILE_NAME
    if day is None:
        day, day_from = matter.day, Reason.FRONT_MATTER
    return Document(
        file=file,
        text=text,
        hash=text_hash(text),
        day=day,
        day_from=day_from if day is not None else None,
        importance=matter.importance,
        warnings=(warning,) if warning else (),
        bad_line=bad_line,
    )


def _decoded(raw: bytearray, any_bytes: bool) -> tuple[str, str, int, str]:
    """Return the text, a warning with its line where bytes were replaced, and why it is none."""
    marked = (name for mark, name in _MARKED if raw.startswith(mark) and not any_bytes)
    encoding, warning, line, no_text = next(marked, "utf-8"), "", 0, ""
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        text = raw.decode(encoding, errors="replace")
        bad = text.count(_REPLACEMENT) - raw.count(_REPLACEMENT.encode(encoding))
        line = raw[: error.start].decode(encoding).count("\n") + 1
        sequences = counted(bad, "bad sequence")
        warning = f"not {encoding.upper()}: {sequences} shown as U+FFFD, first on line {line}"
        if bad > len(text) * _NO_TEXT_SHARE:
            no_text = f"{sequences} in {counted(len(text), 'character')}"
    before, nul, _ = text.partition("\0")
    if nul:
        first = before.count("\n") + 1
        no_text = f"{counted(text.count(nul), 'NUL byte')}, first on line {first}"
    return text, warning, line, no_text


def open_regular(path: Path, base: str = "") -> int:
    """Open a file for reading, and give its descriptor: never blocks, never follows a link.

    No component of the path below `base`, the folder that holds the file by default, may be a link:
    a folder may be swapped for one after it was listed. A file that was replaced meanwhile, as
    editors save, is opened as it is now. Raises `OSError`, too for a pipe, a socket, a device or a
    folder.
    """
    parts = parts_below(str(path), base) if base else None
    if not parts:
        base, parts = str(path.parent), (path.name,)
    is_walk = os.open in os.supports_dir_fd
    descriptor = _open_below(base, parts, path) if is_walk else _open_compared(path, base)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.ENXIO, "not a regular file", str(path))


def _open_compared(path: Path, base: str) -> int:
    """Open a file where there is no walk: it must be what lies there then, and inside of `base`."""
    descriptor = os.open(path, _OPEN)
    with undone_on_error(partial(os.close, descriptor)):
        is_there = os.path.samestat(os.fstat(descriptor), os.lstat(path))
        if not (is_there and is_inside(str(path), base)):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return descriptor


def _open_below(base: str, parts: Sequence[str], path: Path) -> int:
    """Open a file from folder to folder, each by its name in the one before."""
    folder = os.open(base, _OPEN_FOLDER)
    try:
        for name in parts[:-1]:
            inner = os.open(name, _OPEN_FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(name := parts[-1], _OPEN, dir_fd=folder)
    except OSError as error:
        number = error.errno or 0
        if number == errno.ENOTDIR:
            is_link = stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
            number = errno.ELOOP if is_link else number
        raise OSError(number, os.strerror(number), str(path)) from None
    finally:
        os.close(folder)


def reason_of(error: OSError) -> Reason:
    """Say why a file is not indexed, from the error that reading or listing it gave."""
    return {
        errno.ENOENT: Reason.VANISHED,
        errno.ENOTDIR: Reason.VANISHED,
        errno.ELOOP: Reason.SYMLINK,
        errno.EFBIG: Reason.TOO_LARGE,
        errno.EILSEQ: Reason.NOT_TEXT,
        errno.ENXIO: Reason.NOT_REGULAR,
    }.get(error.errno or 0, Reason.UNREADABLE)


def utc_time(seconds: float) -> datetime | None:
    """Return a time of a file in UTC; `None` for 0, and for one outside the calendar."""
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds else None
    except (OverflowError, ValueError, OSError):
        return None


def text_hash(text: str) -> str:
    """Hash text: sha256 hex of its UTF-8 form, a lone surrogate counting as U+FFFD."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = well_formed(text).encode()
    return hashlib.sha256(data).hexdigest()


def split_lines(text: str) -> list[str]:
    """Split text into the lines that line numbers count: at line feeds only, each ends a line.

    The carriage return of a CRLF is taken off, as it is no part of what the line shows.
    """
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


_DAY = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)", re.ASCII)
_FENCE_MARK = "---"
_FENCE = re.compile(rf"{_FENCE_MARK}[ \t]*\r?")
_END_FENCE = re.compile(r"(?:---|\.\.\.)[ \t]*\r?")
_ENTRY = re.compile(r"([A-Za-z]{1,16})[ \t]*:[ \t]*(.*)")
_NUMBER = re.compile(r"\d{1,3}(?:\.\d{1,9})?", re.ASCII)
_DAY_KEYS = ("date", "day", "created")
_TAG_KEYS = ("tags", "tag")
_NAME_KEYS = ("aliases", "alias", "title")
_TAG = re.compile(r"(?<![^\s(\[,;])#([\w/-]*[^\W\d_][\w/-]*)")
_CODE = re.compile(r"^```.*?(?:^```|\Z)", re.MULTILINE | re.DOTALL)
_MAX_LINES = 200
_MAX_LINE_CHARS = 2000
_SCALE_TOP = 10.0


class FrontMatter(Struct, frozen=True):
    """The front matter; `end_line` is the 1-based line that closes it, 0 without one."""

    day: date | None = None
    importance: float | None = None
    """0 to 1."""
    end_line: int = 0
    tags: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """The title and the aliases."""


def day_of_path(path: str) -> date | None:
    """Find the first valid YYYY-MM-DD in the file name (not in the folders) of a path."""
    return _first_day(_DAY.finditer(path.rsplit("/", 1)[-1]))


def front_matter(text: str) -> FrontMatter:
    """Read the block between `---` lines that starts a text, for the keys that a search uses.

    `date`, `day` or `created` (in this order of precedence) begins with a YYYY-MM-DD; `importance`
    is a number from 0 to 1, or above 1 to 10 and then divided by ten; `tags` or `tag` are words,
    with or without brackets and commas, or the items below; so are `title`, `alias` and `aliases`,
    in commas. Of a key given twice the first counts.
    What cannot be read is left out; nothing is raised. A block is at most 200 lines.
    """
    if not text.startswith(_FENCE_MARK):
        return FrontMatter()
    first, *lines = text.split("\n", _MAX_LINES)[:_MAX_LINES]
    values: dict[str, str] = {}
    key = ""
    for number, whole in enumerate(lines if _FENCE.fullmatch(first) else (), start=2):
        # No date and no number is as long as that.
        line = whole[:_MAX_LINE_CHARS]
        if _END_FENCE.fullmatch(line):
            day = _first_day(_DAY.match(_bare(values.get(key, ""))) for key in _DAY_KEYS)
            written = _NUMBER.fullmatch(_bare(values.get("importance", "")))
            value = float(written[0]) if written is not None else math.inf
            importance = value / _SCALE_TOP if value > 1 else value
            listed = " ".join(values.get(name, "") for name in _TAG_KEYS)
            tags = tuple(re.sub(r"[\[\],\"'#]", " ", listed).split())
            titles = [values.get(name, "").strip("[]") for name in _NAME_KEYS]
            names = (one.strip(" \t\r\"'") for one in ",".join(titles).split(","))
            weight = importance if importance <= 1 else None
            return FrontMatter(day, weight, number, tags, tuple(filter(None, names)))
        entry = _ENTRY.match(line)
        if entry:
            key = entry[1].lower()
            values.setdefault(key, entry[2])
        elif key in {*_TAG_KEYS, *_NAME_KEYS} and line.lstrip().startswith("- "):
            values[key] += f",{line.lstrip()[2:]}"
    return FrontMatter()


def tags_of(text: str) -> frozenset[str]:
    """Return the tags of a text, without case: those of its front matter, and each `#tag`.

    A tag has a letter, and may be in parts, as `#home/network`; code in fences has none.
    """
    written = _TAG.findall(_CODE.sub("", text)) if "#" in text else ()
    return frozenset(map(str.casefold, (*front_matter(text).tags, *written)))


def _first_day(matches: Iterable[re.Match[str] | None]) -> date | None:
    for match in matches:
        with suppress(ValueError):
            if match is not None:
                return date.fromisoformat(match[0])
    return None


def _bare(value: str) -> str:
    """Take a value out of its quotes, or off the comment behind it."""
    value = value.strip()
    if value[:1] in {'"', "'"}:
        return value[1:].partition(value[0])[0].strip()
    return re.split(r"[ \t]#", value, maxsplit=1)[0].strip()
