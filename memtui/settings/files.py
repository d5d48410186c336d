"""Files of memtui: their places, reading and writing them, and what can be wrong with settings.

Folders are for their owner alone; a file that is there is replaced whole, or stays as it is.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import re
import secrets
import stat
import tomllib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
import platformdirs
from msgspec import Struct

from memtui.errors import SettingsError, undone_on_error
from memtui.settings.toml import key_lines
from memtui.text.sanitize import safe_line

T = TypeVar("T")

ProblemCode: TypeAlias = Literal[
    "unreadable",
    "syntax",
    "unknown_key",
    "wrong_value",
    "contradiction",
    "protected",
    "shadowed_file",
]


class Problem(Struct, frozen=True):
    """One thing that is wrong: where, which key, what, and what to do."""

    code: ProblemCode
    place: str
    """`file:line`, `$VARIABLE` or a flag."""
    key: str
    message: str
    hint: str = ""

    @property
    def fatal(self) -> bool:
        """True if it stops every command; those of `unknown_key` fail `config validate` alone."""
        return self.code not in {"unknown_key", "protected", "shadowed_file"}

    def __str__(self) -> str:
        # Who gave an option is told of that, and not of the key that it stands for.
        key = "" if self.place.startswith("-") else self.key
        text = ": ".join(filter(None, (self.place, key, self.message)))
        hint = f" ({self.hint})" if self.hint else ""
        return " ".join(f"{text}{hint}".splitlines())


class SettingsProblems(SettingsError):
    """Settings that cannot be used; `problems` holds every one of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


APPLICATION: Final = "memtui"
CONFIG_VARIABLE: Final = "MEMTUI_CONFIG"
PROJECT_FILE: Final = ".memtui.toml"
PROJECT_TABLE_FILE: Final = "pyproject.toml"


def user_config_file(env: Mapping[str, str]) -> Path:
    """The user's configuration file: `$MEMTUI_CONFIG`, else the platform's place for it."""
    if env.get(CONFIG_VARIABLE):
        return Path(os.path.expanduser(env[CONFIG_VARIABLE]))
    return _folder(platformdirs.user_config_path) / "config.toml"


def state_dir() -> Path:
    """The folder for history, window choices and trusted files."""
    return _folder(platformdirs.user_state_path)


def data_dir() -> Path:
    """The folder that holds one index folder for each workspace."""
    return _folder(platformdirs.user_data_path)


def demo_data_dir() -> Path:
    """The folder for the index of the demo, apart from those of real memories."""
    return data_dir() / "demo"


def _folder(find: Callable[..., Path]) -> Path:
    """One of the platform's folders; raises `SettingsError` for who has no home folder."""
    try:
        folder = find(APPLICATION, appauthor=False)
    except RuntimeError:
        folder = Path()
    # A relative place would be below the current folder, which may be the memory.
    if folder.is_absolute():
        return folder
    raise SettingsError(
        "there is no home folder for configuration, state and indexes",
        hint="set HOME, or XDG_CONFIG_HOME, XDG_STATE_HOME and XDG_DATA_HOME, to an absolute path",
    )


MAX_CONFIG_BYTES: Final = 1_000_000
# Reading such a key takes time that grows with the square of its parts.
_KEY_PART = r"""(?:[\w-]{1,200}+|"(?:[^"\\\n]|\\.){0,200}+"|'[^'\n]{0,200}+')"""
_DEEP_KEY = re.compile(rf"(?<![\w-])(?:{_KEY_PART}[ \t]*+\.[ \t]*+){{200}}")
_LINE = re.compile(r"\(at line (\d+), column (\d+)\)\Z")


class ConfigFile(Struct, frozen=True, dict=True):
    """A configuration file, and the table in it that is memtui's."""

    path: Path
    text: str = ""
    sha256: str = ""
    """Of the bytes; empty for a file that is not there."""
    table: Mapping[str, Any] = {}
    prefix: tuple[str, ...] = ()
    """The way to the table: `("tool", "memtui")` in a pyproject.toml."""

    @property
    def is_new(self) -> bool:
        """True if it is not there yet."""
        return not self.sha256

    @cached_property
    def _lines(self) -> Mapping[tuple[str, ...], int]:
        return key_lines(self.text)

    def place(self, path: tuple[str, ...]) -> str:
        """Return the place of a key, as `file:line`; the file alone where there is no line."""
        full = (*self.prefix, *path)
        for length in range(len(full), len(self.prefix), -1):
            if (line := self._lines.get(full[:length])) is not None:
                return f"{self.path}:{line}"
        return str(self.path)


def read_config(path: Path, prefix: tuple[str, ...] = ()) -> ConfigFile | None:
    """Read a TOML file; `None` when it does not exist or holds nothing below `prefix`.

    Raises `SettingsProblems` for a file that is not regular, too large, not UTF-8 or not TOML. A
    file with a prefix belongs to other programs too: when it is broken and does not speak of the
    prefix, it is none of memtui's business.
    """
    try:
        return parse_config(path, read_bytes(path), prefix)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        message = f"cannot be read: {cause_of(error)}"
        problem = Problem("unreadable", str(path), "", message)
        raise SettingsProblems([problem]) from None


def parse_config(path: Path, data: bytes, prefix: tuple[str, ...] = ()) -> ConfigFile | None:
    """Parse what a file holds, as `read_config` does; `path` is only named."""
    try:
        text = data.decode("utf-8-sig")
        if deep := _DEEP_KEY.search(text):
            line = text.count("\n", 0, deep.start()) + 1
            raise ValueError(f"a key of too many parts (at line {line}, column 1)")
        table: Any = tomllib.loads(text)
        for part in prefix:
            table = table.get(part) if isinstance(table, dict) else None
        if isinstance(table, dict):
            return ConfigFile(path, text, hashlib.sha256(data).hexdigest(), table, prefix)
        if table is None:
            return None
        key, message = ".".join(prefix), "must be a table"
        raise SettingsProblems([Problem("wrong_value", str(path), key, message)])
    except UnicodeDecodeError as error:
        line, message = data.count(b"\n", 0, error.start) + 1, "not UTF-8"
    except RecursionError:
        line, message = 0, "nested too deeply"
    except ValueError as error:
        cause = str(error).partition(" (at ")[0]
        at = _LINE.search(str(error))
        line = int(at[1]) if at else text.count("\n") + 1
        message = f"broken TOML: {cause}{f', column {at[2]}' if at else ''}"
    if prefix and ".".join(prefix).encode() not in data:
        return None
    place = f"{path}:{line}" if line else str(path)
    raise SettingsProblems([Problem("syntax", place, "", message)])


def read_bytes(path: Path, limit: int = MAX_CONFIG_BYTES) -> bytes:
    """Read a regular file; raises OSError, `ValueError` when it is none or above `limit` bytes."""
    if str(path) == os.devnull:
        return b""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("not a regular file")
        with open(handle, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(handle)
    if len(data) > limit:
        raise ValueError(f"larger than {limit} bytes")
    return data


def cause_of(error: Exception) -> str:
    """Return in a few words why a file cannot be read or written."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


MAX_BYTES: Final = 64 * 2**20
_GZIP: Final = b"\x1f\x8b"


def read_json(
    path: Path, subject: str, form: str, parse: Callable[[Any], T], limit: int = MAX_BYTES
) -> T:
    """Read a JSON file, compressed with gzip or not, and `parse` what it holds.

    At most `limit` bytes, unpacked as well. Raises `SettingsError` of one line for a file that
    cannot be read and for a `ValueError` of `parse`: that the `subject` cannot be used, where and
    why; `form` says what the file must hold.
    """
    place = safe_line(str(path))
    try:
        data = read_bytes(path, limit)
        if data.startswith(_GZIP):
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                data = file.read(limit + 1)
            if len(data) > limit:
                raise ValueError(f"larger than {limit} bytes once unpacked")
        return parse(json.loads(data.decode("utf-8-sig"), parse_int=_integer))
    except (EOFError, gzip.BadGzipFile, zlib.error):
        cause = "broken gzip"
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        place, cause = f"{place}:{line}", "not UTF-8"
    except json.JSONDecodeError as error:
        place += f":{error.lineno}"
        cause = f"broken JSON: {error.msg}, column {error.colno}"
    except RecursionError:
        cause = "broken JSON: it holds what cannot be read"
    except msgspec.ValidationError as error:
        cause = in_words(error)
    except (OSError, ValueError) as error:
        cause = cause_of(error)
    raise SettingsError(f"cannot use the {subject} in {place}: {cause}", hint=form)


def _integer(digits: str) -> float:
    # Python converts no more than some thousand digits; as a float it is infinite, like 1e999.
    return int(digits) if len(digits) < 400 else float(digits)


def value_in(content: object, path: str) -> Any:
    """Return what stands at a dotted path in parsed JSON; `None` where it is not there."""
    for name in path.split("."):
        content = content.get(name) if isinstance(content, Mapping) else None
    return content


def in_words(error: msgspec.ValidationError) -> str:
    """Return what is wrong behind its place: `query 3, result 1, score: expected …`."""
    problem, _, path = str(error).partition(" - at `$")

    def numbered(match: re.Match[str]) -> str:
        name = re.sub("ies$", "y", match[1]).removesuffix("s") or ", value"
        return f"{name} {int(match[2]) + 1}"

    steps = re.sub(r"(?<!\w)(\w*)\[(\d+)\]", numbered, path.strip("`.")).split(".")
    words = ", ".join(steps).removeprefix(", ")
    return f"{words}: {problem}" if words else problem


_OTHERS = 0o077


def make_private(folder: Path) -> None:
    """Make a folder for the user alone, and take what is in it from others; raises OSError."""
    make_folder(folder)
    narrow(folder)


def make_folder(folder: Path) -> None:
    """Make a folder, with those above it, for the user alone; raises OSError."""
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)


def narrow(folder: Path) -> None:
    """Take the rights of others from a folder and all below it; follows no link."""
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


class FileStamp(NamedTuple):
    """The identity of a file, its size in bytes, and when it changed, in ns since 1970."""

    device: int
    inode: int
    size: int
    mtime_ns: int

    def continues(self, before: FileStamp) -> bool:
        """Tell whether this is the file of `before` and still has all of it."""
        return self[:2] == before[:2] and self.size >= before.size


NO_FILE = FileStamp(0, 0, 0, 0)


def file_stamp(path: Path) -> FileStamp:
    """Look at a file; `NO_FILE` where there is none that can be looked at."""
    try:
        state = os.stat(path)
    except OSError:
        return NO_FILE
    return FileStamp(state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)


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
        make_private(self.path)
        with written_beside(self.path / name, text.encode()) as temporary:
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


VIEW: Final = "view.json"
"""The file of the state folder that keeps what was chosen of the look."""
MOST: Final = 500


def remove_view(folder: Path) -> bool:
    """Remove what is kept of the look; tell whether there was any. Raises OSError."""
    is_there = (folder / VIEW).exists()
    (folder / VIEW).unlink(missing_ok=True)
    return is_there


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
    its folder is made, both for the user alone; `None` for whatever is there. A link stays one, its
    target is written; mode, owner and byte order mark stay as they are. Raises `FileChanged` for
    other bytes, `SettingsError` for a file that cannot be written; then it is as it was.
    """
    target = Path(os.path.realpath(path))
    try:
        before, digest_before = _present(target)
        digest = digest_before if digest is None else digest
        data = (_BOM if before.startswith(_BOM) else b"") + text.encode()
        if len(data) > MAX_CONFIG_BYTES:
            raise ValueError(f"larger than {MAX_CONFIG_BYTES} bytes")
        make_folder(target.parent)
        with written_beside(target, data) as temporary:
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
    """Return what a file that can be written holds, and its SHA-256; both empty without one."""
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
def written_beside(target: Path, data: bytes) -> Iterator[Path]:
    """Yield a synced file beside a target to put in its place, and remove it at the end."""
    # The name of the target may be as long as names can be.
    temporary = target.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    write_new(temporary, data)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def write_new(path: Path, data: bytes) -> None:
    """Write a file of mode 0600 that is not there yet, whole or not at all; raises OSError."""
    opener = partial(os.open, mode=0o600)
    with open(path, "xb", buffering=0, opener=opener) as file, undone_on_error(path.unlink):
        _fill(file, data)


def _fill(file: IO[bytes], data: bytes) -> None:
    """Make a file hold these bytes and no others."""
    file.seek(0)
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
    file.truncate()
    os.fsync(file.fileno())
