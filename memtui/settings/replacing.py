"""Putting a text in the place of a configuration file's: whole or not at all."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from memtui.errors import SettingsError
from memtui.settings.files import MAX_CONFIG_BYTES, read_bytes

_BOM: Final = b"\xef\xbb\xbf"


class FileChanged(SettingsError):
    """A file that another program wrote after it was read; nothing of it was changed."""


def digest_of(path: Path) -> str | None:
    """The SHA-256 of what a file holds, `None` when there is none, as `replace_text` wants it.

    Raises `SettingsError` for a file that `replace_text` could not write either.
    """
    try:
        return _digest(_present(Path(os.path.realpath(path))))
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error) from error


def replace_text(path: Path, text: str, digest: str | None) -> str:
    """Write a file and return the SHA-256 of what it holds now.

    `digest` is that of the bytes that `text` was made from, `None` for a file that was not there:
    its folder is made. A link stays one, its target is written; mode, owner and byte order mark
    stay as they are. Raises `FileChanged` for other bytes, `SettingsError` for a file that cannot
    be written; then it is as it was.
    """
    target = Path(os.path.realpath(path))
    try:
        before = _present(target)
        data = (_BOM if before is not None and before.startswith(_BOM) else b"") + text.encode()
        if len(data) > MAX_CONFIG_BYTES:
            raise ValueError(f"larger than {MAX_CONFIG_BYTES} bytes")
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, target, data, digest)
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error) from error
    return hashlib.sha256(data).hexdigest()


def _cannot_write(path: Path, error: OSError | ValueError) -> SettingsError:
    why = error.strerror if isinstance(error, OSError) else None
    return SettingsError(f"cannot write {path}: {why or error}")


def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _present(target: Path) -> bytes | None:
    """What a file holds; `None` when there is none. Raises OSError for one that is read-only."""
    try:
        if not stat.S_ISREG(target.stat().st_mode):
            raise ValueError("not a regular file")
    except FileNotFoundError:
        return None
    if not os.access(target, os.W_OK):
        raise PermissionError(None, "it is read-only")
    return read_bytes(target)


def _replace(path: Path, target: Path, data: bytes, digest: str | None) -> None:
    temporary = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        # A file that others cannot read must not lie open beside itself, however shortly.
        mode = 0o666 if digest is None else 0o600
        with os.fdopen(os.open(temporary, flags, mode), "wb", buffering=0) as file:
            _fill(file, data)
        # Compared at the last moment: an editor may have saved while the text was looked at.
        before = _present(target)
        if digest != _digest(before):
            raise FileChanged(
                f"{path} was changed by another program", hint="nothing was written; look again"
            )
        if before is not None and _is_bound(target, temporary):
            _overwrite(target, before, data)
            temporary.unlink()
            return
        if before is not None:
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise


def _is_bound(target: Path, temporary: Path) -> bool:
    """Whether a file in its place would be another one: it has more names, or another owner."""
    held, made = target.stat(), temporary.stat()
    return held.st_nlink > 1 or (held.st_uid, held.st_gid) != (made.st_uid, made.st_gid)


def _overwrite(target: Path, before: bytes, data: bytes) -> None:
    """Write into a file that has to stay itself; what it held comes back when that fails."""
    with target.open("r+b", buffering=0) as file:
        try:
            _fill(file, data)
        except OSError:
            _fill(file, before)
            raise


def _fill(file: BinaryIO, data: bytes) -> None:
    """Make a file hold these bytes and no others."""
    file.seek(0)
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
    file.truncate()
    os.fsync(file.fileno())
