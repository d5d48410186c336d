"""Writing files: folders for their owner alone, state, and files that are replaced whole."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from memtui.errors import SettingsError
from memtui.settings.files import MAX_CONFIG_BYTES, cause_of, read_bytes, state_dir

_OTHERS = 0o077


def make_private(folder: Path) -> None:
    """Make a folder of mode 0700, with those above it; take what is in it away from others.

    Raises OSError when the folder cannot be made.
    """
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
    narrow(folder)


def narrow(folder: Path) -> None:
    """Give a folder mode 0700 and all files below it 0600, where there is one.

    No right is added, no link is followed; what belongs to another user stays as it is.
    """
    if os.name == "nt":
        return
    for place, _, names in os.walk(os.path.realpath(folder)):
        for path in (Path(place), *(Path(place, name) for name in names)):
            # Another memtui may replace or remove a file meanwhile.
            with suppress(FileNotFoundError, PermissionError):
                mode = path.lstat().st_mode
                if mode & _OTHERS and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    os.chmod(path, stat.S_IMODE(mode) & ~_OTHERS)


# What file systems answer that cannot sync a folder: names last there as long as they do.
_UNKNOWN = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})


def sync_folder(folder: Path) -> None:
    """Have the disk hold the names in a folder as they are now; raises `OSError`.

    A file that is synced keeps its content; the name it was given only lasts with its folder.
    """
    # Windows cannot open a folder, and makes a replaced name durable by itself.
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
    finally:
        os.close(descriptor)


class FileState(NamedTuple):
    """The identity of a file, and its size in bytes."""

    device: int
    inode: int
    size: int

    def continues(self, before: FileState) -> bool:
        """Tell whether this is the file of `before` and still has all of it."""
        return self[:2] == before[:2] and self.size >= before.size


NO_FILE = FileState(0, 0, 0)


def file_state(path: Path) -> FileState:
    """Look at a file; `NO_FILE` where there is none that can be looked at."""
    try:
        state = os.stat(path)
    except OSError:
        return NO_FILE
    return FileState(state.st_dev, state.st_ino, state.st_size)


TEMPORARY = ".memtui-"
"""The beginning of names of files that replace others once they are written."""


class StateFolder:
    """History, window choices and trusted files, readable by their owner alone.

    Files have mode 0600 in a folder of mode 0700; a write replaces the whole file at once, so a
    reader never sees half of one. Names are plain file names.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = state_dir() if path is None else path

    def write_text(self, name: str, text: str) -> None:
        """Replace a file; raises OSError when the folder cannot be written."""
        if not re.fullmatch(r"(?!\.\.?\Z)[^/\\:\0]+", name):
            raise ValueError(f"not a plain file name: {name!r}")
        make_private(self.path)
        with written_beside(self.path / name, text.encode(), 0o600) as temporary:
            os.replace(temporary, self.path / name)

    def read_json(self, name: str) -> Any:
        """Return the value of a JSON file; `None` when there is none or it is not JSON."""
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None

    def write_json(self, name: str, value: Any) -> None:
        """Replace a file by a value as JSON; raises OSError when it cannot be written."""
        self.write_text(name, json.dumps(value, ensure_ascii=True, indent=1) + "\n")


MOST: Final = 500


def history_name(workspace: str) -> str:
    """Return the file's name in the state folder, by the id of the workspace."""
    return f"history-{workspace}.json"


def queries_in(folder: StateFolder, workspace: str) -> list[str]:
    """Return the queries of a workspace, newest first, without what is no query."""
    value = folder.read_json(history_name(workspace))
    queries = value if isinstance(value, list) else []
    return [query for query in queries if isinstance(query, str) and query.strip()][:MOST]


_BOM: Final = b"\xef\xbb\xbf"


class FileChanged(SettingsError):
    """A file that another program wrote after it was read; nothing of it was changed."""


def replace_text(path: Path, text: str, digest: str | None) -> str:
    """Write a file and return the SHA-256 of what it holds now.

    `digest` is that of the bytes that `text` was made from, empty for a file that was not there:
    its folder is made; `None` for whatever is there. A link stays one, its target is written;
    mode, owner and byte order mark stay as they are. Raises `FileChanged` for other bytes,
    `SettingsError` for a file that cannot be written; then it is as it was.
    """
    target = Path(os.path.realpath(path))
    try:
        before, digest_before = _present(target)
        digest = digest_before if digest is None else digest
        data = (_BOM if before.startswith(_BOM) else b"") + text.encode()
        if len(data) > MAX_CONFIG_BYTES:
            raise ValueError(f"larger than {MAX_CONFIG_BYTES} bytes")
        target.parent.mkdir(parents=True, exist_ok=True)
        # A file that others cannot read must not lie open beside itself, however shortly.
        with written_beside(target, data, 0o600 if digest else 0o666) as temporary:
            # Compared at the last moment: an editor may have saved while the text was looked at.
            before, digest_now = _present(target)
            if digest != digest_now:
                raise FileChanged(
                    f"{path} was changed by another program", hint="nothing was written; look again"
                )
            if digest:
                there, new = target.stat(), temporary.stat()
                os.chmod(temporary, stat.S_IMODE(there.st_mode))
                is_owned = (there.st_uid, there.st_gid) == (new.st_uid, new.st_gid)
                if there.st_nlink > 1 or not is_owned:
                    # A file in its place would be another one: with fewer names or another owner.
                    with target.open("r+b", buffering=0) as file:
                        try:
                            _fill(file, data)
                        except OSError:
                            _fill(file, before)
                            raise
                    return hashlib.sha256(data).hexdigest()
            os.replace(temporary, target)
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot write {path}: {cause_of(error)}") from error
    return hashlib.sha256(data).hexdigest()


def _present(target: Path) -> tuple[bytes, str]:
    """Return what a file holds and its SHA-256, both empty when there is none.

    Raises OSError for one that is read-only, `ValueError` for one that is not regular.
    """
    try:
        if not stat.S_ISREG(target.stat().st_mode):
            raise ValueError("not a regular file")
    except FileNotFoundError:
        return b"", ""
    if not os.access(target, os.W_OK):
        raise PermissionError(None, "it is read-only")
    data = read_bytes(target)
    return data, hashlib.sha256(data).hexdigest()


@contextmanager
def written_beside(target: Path, data: bytes, mode: int) -> Iterator[Path]:
    """Yield a synced file beside a target to put in its place, and remove it at the end."""
    # The name of the target may be as long as names can be.
    temporary = target.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    write_new(temporary, data, mode)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that is not there yet, synced; when that fails, nothing is left of it.

    Raises OSError, of these `FileExistsError` for one that is there, whoever made it.
    """
    with open(path, "xb", buffering=0, opener=partial(os.open, mode=mode)) as file:
        try:
            _fill(file, data)
        except BaseException:
            path.unlink()
            raise


def _fill(file: IO[bytes], data: bytes) -> None:
    """Make a file hold these bytes and no others."""
    file.seek(0)
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
    file.truncate()
    os.fsync(file.fileno())
