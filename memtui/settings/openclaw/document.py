"""Where OpenClaw keeps its state and its configuration, and how its files are read.

The places are those of `src/config/paths.ts`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from memtui.settings.files import read_bytes

STATE_FOLDERS: Final = (".openclaw", ".clawdbot", ".moldbot", ".moltbot")
"""The state folder in the home folder under its name of today and those it had before."""
STATE_VARIABLES: Final = ("OPENCLAW_STATE_DIR", "CLAWDBOT_STATE_DIR")
CONFIG_NAMES: Final = ("openclaw.json", "clawdbot.json", "moldbot.json", "moltbot.json")
_UNSET: Final = frozenset({"", "undefined", "null"})


def variable(env: Mapping[str, str], *names: str) -> str:
    """Return the first of some variables that is set, without blanks around it."""
    values = (env.get(name, "").strip() for name in names)
    return next((value for value in values if value not in _UNSET), "")


def home_of(env: Mapping[str, str], home: Path) -> Path:
    """Return the home folder that OpenClaw works with: `$OPENCLAW_HOME`, else the user's."""
    named = variable(env, "OPENCLAW_HOME")
    return expanded(named, home) if named else home


def expanded(path: str, home: Path) -> Path:
    """Return a path as OpenClaw reads it: absolute, `~` at its start is the home folder."""
    path = path.strip().replace("\0", "")
    if path == "~" or path.startswith(("~/", "~\\")):
        path = str(home) + path[1:]
    return Path(os.path.abspath(path))


def state_dir_of(env: Mapping[str, str], home: Path) -> Path:
    """Return the state folder: `$OPENCLAW_STATE_DIR`, else the first that is there, newest name."""
    base = home_of(env, home)
    if named := variable(env, *STATE_VARIABLES):
        return expanded(named, base)
    folders = [base / name for name in STATE_FOLDERS]
    return next((folder for folder in folders if os.path.isdir(folder)), folders[0])


def config_candidates(
    env: Mapping[str, str], home: Path, state_dir: Path | None = None
) -> tuple[Path, ...]:
    """Return the places of the configuration, first one first; a named file is the only one.

    With `state_dir`, only that folder is looked at: the environment speaks of another one.
    """
    base = home_of(env, home)
    folders = [state_dir_of(env, home), *(base / name for name in STATE_FOLDERS)]
    if state_dir is not None:
        folders = [state_dir]
    elif named := variable(env, "OPENCLAW_CONFIG_PATH", "CLAWDBOT_CONFIG_PATH"):
        return (expanded(named, base),)
    return tuple(folder / name for folder in dict.fromkeys(folders) for name in CONFIG_NAMES)


def config_file(env: Mapping[str, str], home: Path, state_dir: Path | None = None) -> Path | None:
    """Return the configuration that OpenClaw reads, `None` when there is none.

    A file that `$OPENCLAW_CONFIG_PATH` names and that is not there counts as none, as it does for
    the program, which then starts with its defaults.
    """
    places = config_candidates(env, home, state_dir)
    return next((path for path in places if os.path.lexists(path)), None)


# --- one file ---------------------------------------------------------------------------------

MAX_BYTES: Final = 2 * 2**20
"""Largest file that is read; also OpenClaw's limit for an included one."""
MAX_DEPTH: Final = 200
"""Objects and lists inside one another."""

_POSITION = re.compile(r"(?: starting)? near (\d+)")
_CODE_POINT = re.compile(r"U\+([0-9A-Fa-f]{4,6})")
_NAMED = re.compile(r"b'([^']*)'")


class Unreadable(Exception):
    """A file that cannot be used; the message is one line with place, cause and position."""


def parse(path: Path) -> Any:
    """Read a JSON5 file; raises `Unreadable`.

    Only the position and the kind of an error are repeated, never the text around it: the file
    holds secrets.
    """
    import pyjson5

    try:
        data = read_bytes(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        why = (error.strerror or type(error).__name__) if isinstance(error, OSError) else error
        raise Unreadable(f"{path}: cannot be read: {why}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"{path}:{line}: not UTF-8") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise Unreadable(f"{path}:{line}: holds a NUL character, so it is no text")
    try:
        return pyjson5.decode(text, maxdepth=MAX_DEPTH)
    except pyjson5.Json5Exception as error:
        raise Unreadable(_explained(path, text, str(error.args[0]))) from None
    except (ValueError, OverflowError, RecursionError):
        raise Unreadable(f"{path}: broken JSON5: holds what cannot be read") from None


def _explained(path: Path, text: str, message: str) -> str:
    """Return `file:line:column: broken JSON5: what`, from a message with its character offset.

    Its offsets count from 1; only that of extra data is the end of what came before it.
    """

    def character(match: re.Match[str]) -> str:
        written = chr(min(int(match[1], 16), 0x10FFFF))
        return repr(written) if written.isprintable() else match[0]

    position = _POSITION.search(message)
    what = _POSITION.sub("", message)
    what = _NAMED.sub(r"\1", _CODE_POINT.sub(character, what))
    offset = max(0, int(position[1]) - 1) if position else 0
    if message.startswith("Extra data"):
        offset += 1
        while offset < len(text) and text[offset].isspace():
            offset += 1
    offset = min(offset, len(text))
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return f"{path}:{line}:{column}: broken JSON5: {what[:1].lower()}{what[1:]}"


# --- files that include others ----------------------------------------------------------------

MAX_INCLUDES: Final = 10
"""Includes inside one another, as OpenClaw has it."""
MAX_FILES: Final = 100
"""Included files altogether."""
INCLUDE: Final = "$include"


def read_sections(path: Path, names: Sequence[str]) -> tuple[Any, list[str]]:
    """Read a file with the includes of some sections done, and say what is wrong with those.

    Raises `Unreadable`.
    """
    includes = _Includes(path)
    document = includes.resolved(parse(path), (path,), deep=False)
    if isinstance(document, dict):
        for name in (name for name in names if name in document):
            document[name] = includes.resolved(document[name], (path,))
    return document, includes.problems


class _Includes:
    """Puts the content of included files in the place of `$include`.

    A file outside the folder of the configuration, one that includes itself, more than ten inside
    one another and files that cannot be read are problems; the keys beside the include still hold.
    """

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root.parent)
        self._files = 0
        self.problems: list[str] = []

    def resolved(self, value: Any, chain: tuple[Path, ...], *, deep: bool = True) -> Any:
        """Return a value with its includes done, in itself and, if `deep`, in all below it.

        `chain` are the files on the way here, the one that holds the value last. Included files
        are always done as a whole: their includes are relative to themselves.
        """
        if isinstance(value, list) and deep:
            return [self.resolved(item, chain) for item in value]
        if not isinstance(value, dict):
            return value
        rest = {
            name: self.resolved(item, chain) if deep else item
            for name, item in value.items()
            if name != INCLUDE
        }
        if INCLUDE not in value:
            return rest
        merged: Any = {}
        names = [value[INCLUDE]] if isinstance(value[INCLUDE], str) else value[INCLUDE]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self.problems.append(f"{chain[-1]}: {INCLUDE} must be a path or a list of paths")
            names = []
        for name in names:
            merged = merge(merged, self._file(name, chain))
        if rest and not isinstance(merged, dict):
            self.problems.append(f"{chain[-1]}: {INCLUDE} beside other keys must name an object")
            return rest
        return merge(merged, rest) if rest else merged

    def _file(self, name: str, chain: tuple[Path, ...]) -> Any:
        path = Path(os.path.normpath(chain[-1].parent / name))
        self._files += 1
        try:
            is_inside = os.path.commonpath([self._root, os.path.realpath(path)]) == self._root
        except (ValueError, OSError):
            is_inside = False
        if not is_inside:
            problem = "leads out of the folder of the configuration"
        elif path in chain:
            problem = "includes itself"
        elif len(chain) > MAX_INCLUDES:
            problem = f"is more than {MAX_INCLUDES} includes deep"
        elif self._files > MAX_FILES:
            problem = f"is left out: more than {MAX_FILES} included files"
        else:
            try:
                return self.resolved(parse(path), (*chain, path))
            except Unreadable as error:
                problem = f"is not usable: {error}"
        self.problems.append(f"{chain[-1]}: {INCLUDE} {name[:200]!r} {problem}")
        return {}


def merge(base: Any, over: Any) -> Any:
    """Merge as OpenClaw merges includes: lists one after the other, objects key by key."""
    if isinstance(base, list) and isinstance(over, list):
        return [*base, *over]
    if isinstance(base, dict) and isinstance(over, dict):
        both = {name: merge(base[name], over[name]) for name in base.keys() & over.keys()}
        return {**base, **over, **both}
    return over


# --- values that name variables ---------------------------------------------------------------

_VARIABLE = re.compile(r"(\$?)\$\{([A-Z_][A-Z0-9_]*)\}")


def filled(text: str, env: Mapping[str, str]) -> str:
    """Return a text with `${NAME}` replaced from `env`, `$${NAME}` by `${NAME}` itself.

    Raises `ValueError` for a variable that is not set or empty. Only names in capitals count.
    """

    def value(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        if not env.get(match[2]):
            raise ValueError(f"names ${{{match[2]}}}, which is not set here")
        return env[match[2]]

    return _VARIABLE.sub(value, text)
