"""Where OpenClaw keeps its indexes, and the agents that are found there."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from fnmatch import translate
from pathlib import Path
from typing import Final

from memtui.errors import Cancelled, IndexMissing, IndexUnusable, MemtuiError
from memtui.index.foreign import rows
from memtui.index.foreign.findings import Code, finding
from memtui.index.foreign.opening import IndexChanged, NotRecognised, Opened, open_foreign
from memtui.index.foreign.rows import parse_vector
from memtui.memory.discover import spellings
from memtui.memory.paths import parts_below
from memtui.model.status import Finding, ForeignAgent
from memtui.settings.openclaw import MemorySearchConfig, effective, known_release
from memtui.settings.openclaw.document import expanded
from memtui.text.sanitize import safe_line

DEFAULT_AGENT: Final = "main"
_STATE_VARIABLES: Final = ("OPENCLAW_STATE_DIR", "CLAWDBOT_STATE_DIR")
_STATE_NAMES: Final = (".openclaw", ".clawdbot", ".moldbot", ".moltbot")
_UNSET: Final = frozenset({"", "undefined", "null"})
_AGENT_DATABASE: Final = Path("agent", "openclaw-agent.sqlite")
_SUFFIX: Final = ".sqlite"
_REINDEX_PREFIX: Final = "memory-reindex-"
_LOCK_SUFFIX: Final = ".reindex-lock.sqlite"
_NEWEST_ROWS: Final = 64
_EARLIEST_MS: Final = 0
_LATEST_MS: Final = 253_402_300_799_000
_SHOWN_AGENTS: Final = 8

PathOf = Callable[[Path, str], Path | None]
"""Tells a path that the configuration of a state folder gives an agent; `None`: it gives none."""


@dataclass(frozen=True, slots=True)
class Databases:
    """The databases of one agent; `None`: there is no such file."""

    sidecar: Path | None
    """Of generation 1."""
    agent: Path | None
    """The agent's own database, of generations 2 and 3."""
    read: Path | None
    """The one that the program would read."""
    left_over: Path | None
    """A memory index that the program does not read any more."""
    reason: str
    """Why it is that one, in one line."""


def state_dirs(env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """List the state folders that exist, the one that the program would use first.

    `$OPENCLAW_STATE_DIR`, then `.openclaw`, the folders of its profiles (`.openclaw-<profile>`)
    and the older names in the home folder (`$OPENCLAW_HOME` before `home`).
    """
    other_home = env.get("OPENCLAW_HOME", "").strip()
    if other_home not in _UNSET:
        home = _expanded(other_home, home)
    named = (env.get(variable, "").strip() for variable in _STATE_VARIABLES)
    folders = [_expanded(value, home) for value in named if value not in _UNSET]
    profile = env.get("OPENCLAW_PROFILE", "").strip()
    if profile and profile.lower() != "default":
        folders.append(home / f"{_STATE_NAMES[0]}-{profile}")
    folders.append(home / _STATE_NAMES[0])
    profiles = [name for name in _names(home)[0] if name.startswith(f"{_STATE_NAMES[0]}-")]
    folders += [home / name for name in (*sorted(profiles), *_STATE_NAMES[1:])]
    found: dict[str, Path] = {}
    for folder in folders:
        if os.path.isdir(folder):
            found.setdefault(os.path.realpath(folder), folder)
    return tuple(found.values())


def _expanded(text: str, home: Path) -> Path:
    rest = text.removeprefix("~")
    if rest != text and rest[:1] in ("", "/", os.sep):
        return home / rest.lstrip("/" + os.sep)
    return Path(os.path.abspath(text))


def find_agents(
    env: Mapping[str, str],
    home: Path,
    *,
    workspace_of: PathOf | None = None,
    store_of: PathOf | None = None,
) -> tuple[ForeignAgent, ...]:
    """Describe every agent of every state folder, by name; each index is opened once or twice.

    `workspace_of` and `store_of` tell what the configuration says: the workspace, and the file
    (`store.path`) that stands in for the sidecar.

    What cannot be read has its `problem` and does not keep the others from the list. `name` is
    the raw file name: sanitise it before it is shown.
    """
    return tuple(
        agent
        for state_dir in state_dirs(env, home)
        for agent in _agents_of(state_dir, workspace_of or _none, store_of or _none)
    )


def find_agent(
    name: str,
    env: Mapping[str, str],
    home: Path,
    *,
    workspace_of: PathOf | None = None,
    store_of: PathOf | None = None,
) -> ForeignAgent:
    """Describe the agent of that name in the first state folder that has it.

    Raises `IndexMissing` when there is none; the hint names those that are there.
    """
    others: list[str] = []
    for state_dir in state_dirs(env, home):
        names, _ = _agent_names(state_dir)
        if name in names:
            return describe(state_dir, name, workspace_of or _none, store_of or _none)
        others += [other for other in sorted(names) if other not in others]
    shown = ", ".join(safe_line(other) for other in others[:_SHOWN_AGENTS])
    raise IndexMissing(
        f"there is no OpenClaw agent {safe_line(name)!r} on this machine",
        hint=f"there are: {shown}" if others else "set OPENCLAW_STATE_DIR to its state folder",
    )


def _agents_of(state_dir: Path, workspace_of: PathOf, store_of: PathOf) -> list[ForeignAgent]:
    names, problems = _agent_names(state_dir)
    agents = [describe(state_dir, name, workspace_of, store_of) for name in sorted(names)]
    return agents + [ForeignAgent("?", state_dir, problem=problem) for problem in problems]


def _agent_names(state_dir: Path) -> tuple[set[str], list[str]]:
    sidecars, sidecar_problem = _names(state_dir / "memory")
    folders, folder_problem = _names(state_dir / "agents")
    names = {
        name.removesuffix(_SUFFIX)
        for name in sidecars
        if name.endswith(_SUFFIX)
        and not name.startswith((_REINDEX_PREFIX, "."))
        and not name.endswith(_LOCK_SUFFIX)
    }
    names |= {
        name
        for name in folders
        if not name.startswith(".") and os.path.isdir(state_dir / "agents" / name)
    }
    return names, [problem for problem in (sidecar_problem, folder_problem) if problem]


def _names(folder: Path) -> tuple[list[str], str]:
    try:
        return os.listdir(folder), ""
    except (FileNotFoundError, NotADirectoryError):
        return [], ""
    except OSError as error:
        return [], f"{safe_line(str(folder))} cannot be read: {error.strerror}"


def _none(state_dir: Path, name: str) -> Path | None:
    return None


def workspace_by_default(state_dir: Path, name: str) -> Path | None:
    """Find the workspace that an agent has without configuration; `None`: no such folder."""
    folder = state_dir / ("workspace" if name == DEFAULT_AGENT else f"workspace-{name}")
    return folder if os.path.isdir(folder) else None


def database_of(state_dir: Path, name: str, store: Path | None = None) -> Databases:
    """Find the databases of an agent and tell which of them its program would read.

    The agent's own database, as soon as it has memory tables with content; else the sidecar.
    `store` is where the configuration puts the sidecar (`store.path`).
    """
    sidecar = _present(store or state_dir / "memory" / f"{name}{_SUFFIX}")
    agent = _present(state_dir / "agents" / name / _AGENT_DATABASE)
    if agent is None or sidecar is None:
        only = agent or sidecar
        return Databases(sidecar, agent, only, None, "the only index" if only else "no index")
    try:
        opened = open_foreign(agent)
        try:
            with opened.errors():
                filled = _has_rows(opened)
        finally:
            opened.close()
    except NotRecognised:
        reason = "the agent's own database has no memory tables"
        return Databases(sidecar, agent, sidecar, None, reason)
    except (IndexUnusable, IndexMissing) as error:
        reason = f"the agent's own database comes first, but {error.message}"
        return Databases(sidecar, agent, agent, sidecar, reason)
    if not filled:
        reason = "the memory tables of the agent's own database are empty"
        return Databases(sidecar, agent, sidecar, None, reason)
    reason = "the agent's own database has the memory; the older file is left over"
    return Databases(sidecar, agent, agent, sidecar, reason)


def _present(path: Path) -> Path | None:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        # Something is there that may not be looked at; opening it says what.
        return path
    return path


def _has_rows(opened: Opened) -> bool:
    layout = opened.layout
    query = f"SELECT EXISTS(SELECT 1 FROM {layout.chunks}) OR EXISTS(SELECT 1 FROM {layout.files})"
    return bool(opened.connection.execute(query).fetchall()[0][0])


def describe(state_dir: Path, name: str, workspace_of: PathOf, store_of: PathOf) -> ForeignAgent:
    """Describe one agent: opens its index, counts, and closes it again."""
    agent = ForeignAgent(
        name,
        state_dir,
        workspace=workspace_of(state_dir, name) or workspace_by_default(state_dir, name),
    )
    try:
        database = database_of(state_dir, name, store_of(state_dir, name)).read
        if database is None:
            return replace(agent, problem="has no memory index yet")
        agent = replace(agent, database=database)
        try:
            return _counted(agent, database)
        except IndexChanged:
            return _counted(agent, database)
    except MemtuiError as error:
        return replace(agent, problem=error.message)


def _counted(agent: ForeignAgent, database: Path) -> ForeignAgent:
    opened = open_foreign(database)
    connection, layout = opened.connection, opened.layout
    try:
        with opened.errors():
            stored = rows.identity(connection, layout)
            model, dims, changed = _newest(opened)
            return replace(
                agent,
                generation=layout.generation,
                provider=stored.identity.provider,
                model=stored.identity.model or model,
                dimensions=stored.identity.vector_dims or layout.vec_dims or dims,
                files=sum(rows.file_counts(connection, layout).values()),
                chunks=sum(rows.chunk_counts(connection, layout).values()),
                changed=changed or _changed_on_disk(opened),
                problem=stored.problems[0] if stored.problems else "",
            )
    finally:
        opened.close()


def _newest(opened: Opened) -> tuple[str | None, int | None, datetime | None]:
    """Model, vector length and time of the chunks written last.

    The latest of the rows with the highest rowids: the time stands behind the vector, and the
    maximum over all rows would read the whole file.
    """
    found = opened.connection.execute(
        "SELECT model, embedding, updated_at"
        f" FROM {opened.layout.chunks} ORDER BY rowid DESC LIMIT {_NEWEST_ROWS}"
    ).fetchall()
    if not found:
        return None, None, None
    times = [time for _, _, time in found if isinstance(time, int)]
    latest = max(times, default=-1)
    changed = None
    if _EARLIEST_MS < latest <= _LATEST_MS:
        changed = datetime.fromtimestamp(latest / 1000, UTC)
    model, stored, _ = found[0]
    try:
        dims = parse_vector(stored).size or None
    except ValueError:
        dims = None
    return (model if isinstance(model, str) else None), dims, changed


def _changed_on_disk(opened: Opened) -> datetime | None:
    stamps = (opened.fingerprint.database, opened.fingerprint.log)
    times = [stamp.mtime_ns for stamp in stamps if stamp is not None]
    return datetime.fromtimestamp(max(times) / 1e9, UTC) if times else None


ROOT_FILE: Final = "MEMORY.md"
LOWER_CASE: Final = "memory.md"
USER_FILE: Final = "USER.md"
MEMORY_FOLDER: Final = "memory"
REPAIR_FOLDER: Final = ".openclaw-repair"
_NOTE_LIKE: Final = (".md", ".markdown", ".mdx", ".mdown", ".mkd", ".txt", ".rst", ".org")
_MEDIA: Final = {
    "image": (".jpg", ".jpeg", ".png", ".webp", ".gif", ".heic", ".heif"),
    "audio": (".mp3", ".wav", ".ogg", ".opus", ".m4a", ".aac", ".flac"),
}


class Why(StrEnum):
    """Why something on disk is left out, as a phrase."""

    LINK = "a link, which the program never follows"
    NOT_MARKDOWN = "its name does not end in .md"
    REPAIR = "below .openclaw-repair, which the program does not enter"
    LOWER_CASE = "this release indexes only a file named exactly MEMORY.md"
    NOT_YET = "this release does not index USER.md"
    OUTSIDE = "outside memory/ and the extra paths"
    PATTERN = "outside the pattern of its extra path"
    DUPLICATE = "reached before under another path"
    NOT_REGULAR = "not a regular file"
    UNREADABLE = "cannot be read"
    TOO_LARGE = "larger than multimodal.maxFileBytes"
    SOURCE_OFF = "its source is not enabled"


@dataclass(frozen=True, slots=True)
class Found:
    """A file that belongs to the index; `mtime_ms` in ms since the epoch, `size` in bytes."""

    path: str
    """As the index would store it."""
    absolute: str
    root: str
    """What brought it in: the root file, `memory/` or the extra path as it is written."""
    size: int
    mtime_ms: float
    media: bool = False


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something on disk that the rules leave out."""

    path: str
    why: Why
    detail: str = ""

    @property
    def reason(self) -> str:
        """The reason as one phrase."""
        return f"{self.why.value} ({self.detail})" if self.detail else self.why.value


@dataclass(slots=True)
class Listing:
    """What the disk holds: files by stored path, what was left out, and what is odd about it."""

    found: dict[str, Found] = field(default_factory=dict)
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    problem: str = ""
    """Why the workspace itself cannot be listed."""


@dataclass(frozen=True, slots=True)
class _Root:
    label: str
    media: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    base: str = ""


def list_memory(
    workspace: Path,
    config: MemorySearchConfig | None,
    release: str,
    *,
    home: Path | None = None,
    only: str | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Listing:
    """List the notes of a workspace as `release` finds them (OPENCLAW.md section 1).

    Without a configuration no extra path is known. With `only`, an absolute path, folders that do
    not lead to it are not entered. Raises `Cancelled` when `cancelled()` turns true, `ValueError`
    for a release without a profile.
    """
    search = _Search(workspace, config, release, home, cancelled, only)
    if search.root_files():
        search.memory_folder()
        search.extra_paths()
    return search.listing


def as_stored(path: str) -> str:
    """Write a path as the program does: `/` between parts, bytes that are no UTF-8 as U+FFFD."""
    text = path.replace(os.sep, "/") if os.sep != "/" else path
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _Search:
    def __init__(
        self,
        workspace: Path,
        config: MemorySearchConfig | None,
        release: str,
        home: Path | None,
        cancelled: Callable[[], bool] | None,
        only: str | None,
    ) -> None:
        self.listing = Listing()
        self._only = None if only is None else spellings(only)
        self._release = known_release(release)
        self._workspace = os.path.abspath(workspace)
        self._config = effective(config, release).search if config is not None else None
        self._home = home
        self._cancelled = cancelled
        self._seen: set[str] = set()
        self._reals: dict[str, str] = {}
        self._media_suffixes = self._suffixes()

    def _suffixes(self) -> tuple[str, ...]:
        if self._config is None or not self._config.multimodal_enabled:
            return ()
        kinds = self._config.multimodal_modalities
        return tuple(suffix for kind in kinds for suffix in _MEDIA.get(kind, ()))

    def root_files(self) -> bool:
        """Look at the workspace itself; False when it cannot be listed."""
        try:
            with os.scandir(self._workspace) as entries:
                top = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self.listing.problem = error.strerror or str(error)
            return False
        order = (ROOT_FILE, LOWER_CASE, USER_FILE)
        for entry in sorted(top, key=lambda entry: (entry.name not in order, entry.name)):
            self._root_entry(entry)
        return True

    def _root_entry(self, entry: os.DirEntry[str]) -> None:
        name = entry.name
        refusal = self._root_refusal(name)
        if refusal is None:
            self._entry(entry, "", _Root(f"root file {name}"))
        elif name.endswith(".md") and entry.is_file(follow_symlinks=False):
            self._leave(as_stored(name), refusal)

    def _root_refusal(self, name: str) -> Why | None:
        if name == ROOT_FILE:
            return None
        if name == USER_FILE:
            return None if self._release == "2026.9" else Why.NOT_YET
        if name == LOWER_CASE and self._release == "2026.2":
            return None
        return Why.LOWER_CASE if name.lower() == LOWER_CASE else Why.OUTSIDE

    def memory_folder(self) -> None:
        """Walk `memory/`, unless it is a link."""
        media = () if self._release in {"2026.2", "2026.9"} else self._media_suffixes
        path = os.path.join(self._workspace, MEMORY_FOLDER)
        if os.path.islink(path):
            self._leave(MEMORY_FOLDER, Why.LINK, _target(path))
        elif os.path.isdir(path):
            self._walk(path, f"{MEMORY_FOLDER}/", _Root(f"{MEMORY_FOLDER}/", media))

    def extra_paths(self) -> None:
        """Look at every extra path once."""
        config = self._config
        if config is None:
            return
        patterns = dict(config.extra_path_patterns)
        media = () if self._release == "2026.2" else self._media_suffixes
        seen: set[tuple[str, str]] = set()
        for written in config.extra_paths:
            text = written.strip()
            pattern = patterns.get(written, "")
            path = self._resolved(text)
            if text and (path, pattern) not in seen:
                seen.add((path, pattern))
                compiled = _compiled(pattern) if pattern else None
                self._extra(text, path, _Root(f"extra path {text}", media, compiled, path))

    def _resolved(self, text: str) -> str:
        if self._release == "2026.9" and text.startswith("~") and self._home is not None:
            return str(expanded(text, self._home))
        return os.path.abspath(os.path.join(self._workspace, text))

    def _extra(self, text: str, path: str, root: _Root) -> None:
        try:
            state = os.lstat(path)
        except (OSError, ValueError) as error:
            self._extra_error(text, path, error)
            return
        stored = as_stored(os.path.relpath(path, self._workspace))
        if stat.S_ISLNK(state.st_mode):
            self._note(
                Code.EXTRA_PATH_LINK,
                f"extra path {text} is a link ({_target(path)}): the program skips it, nothing"
                " below it is indexed; name the folder that it leads to",
                text,
            )
            self._leave(stored, Why.LINK, _target(path))
        elif stat.S_ISDIR(state.st_mode):
            self._walk(path, "" if stored == "." else f"{stored}/", root)
        elif stat.S_ISREG(state.st_mode) and self._wanted(path, root):
            self._file(path, stored, root, state)
        else:
            self._leave(stored, Why.NOT_MARKDOWN)
            message = f"extra path {text} is neither a folder nor a .md file: it adds nothing"
            self._note(Code.EXTRA_PATH_SKIPPED, message, text)

    def _extra_error(self, text: str, path: str, error: Exception) -> None:
        if text.startswith("~") and self._release != "2026.9":
            message = (
                f"extra path {text} is looked for at {path}: this release does not expand ~;"
                " write the whole path"
            )
            self._note(Code.EXTRA_PATH_TILDE, message, text)
        else:
            said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            message = f"extra path {text} adds nothing: {path}: {said.lower()}"
            self._note(Code.EXTRA_PATH_MISSING, message, text)

    def _note(self, code: Code, message: str, name: str) -> None:
        self.listing.findings.append(finding(code, message, [name]))

    def _walk(self, folder: str, prefix: str, root: _Root) -> None:
        waiting = [(folder, prefix)]
        while waiting:
            place, stored = waiting.pop()
            for entry in self._list(place, stored):
                if self._entry(entry, stored, root):
                    waiting.append((entry.path, f"{stored}{as_stored(entry.name)}/"))

    def _list(self, folder: str, prefix: str) -> list[os.DirEntry[str]]:
        if self._cancelled is not None and self._cancelled():
            raise Cancelled
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self._leave(prefix.rstrip("/") or ".", Why.UNREADABLE, (error.strerror or "").lower())
            return []
        if self._only is None:
            return found
        asked = self._only
        return [e for e in found if any(parts_below(o, e.path) is not None for o in asked)]

    def _entry(self, entry: os.DirEntry[str], prefix: str, root: _Root) -> bool:
        """Take an entry in or leave it out; True for a folder to enter."""
        name, stored = entry.name, prefix + as_stored(entry.name)
        try:
            if entry.is_symlink():
                if name.lower().endswith(_NOTE_LIKE) or entry.is_dir():
                    self._leave(stored, Why.LINK, _target(entry.path))
                return False
            if entry.is_dir(follow_symlinks=False):
                if name == REPAIR_FOLDER and self._release != "2026.2":
                    self._leave(stored, Why.REPAIR)
                    return False
                return True
            if self._wanted(entry.path, root):
                self._file(entry.path, stored, root, entry.stat(follow_symlinks=False))
            elif name.lower().endswith(_NOTE_LIKE):
                self._leave(stored, Why.NOT_MARKDOWN)
        except OSError as error:
            self._leave(stored, Why.UNREADABLE, (error.strerror or "").lower())
        return False

    def _wanted(self, path: str, root: _Root) -> bool:
        return path.endswith((".md", *root.media))

    def _file(self, path: str, stored: str, root: _Root, state: os.stat_result) -> None:
        media = not path.endswith(".md")
        refusal = self._refusal(path, root, state, media)
        folder, name = os.path.split(path)
        if folder not in self._reals:
            self._reals[folder] = os.path.realpath(folder)
        real = os.path.join(self._reals[folder], name)
        if refusal is not None:
            self._leave(stored, refusal)
        elif real in self._seen:
            if stored not in self.listing.found:
                self._leave(stored, Why.DUPLICATE)
        else:
            self._seen.add(real)
            self.listing.left_out.pop(stored, None)
            self.listing.found[stored] = Found(
                stored, path, root.label, state.st_size, state.st_mtime_ns / 1e6, media
            )

    def _refusal(self, path: str, root: _Root, state: os.stat_result, media: bool) -> Why | None:
        if not stat.S_ISREG(state.st_mode):
            return Why.NOT_REGULAR
        if root.pattern is not None:
            below = as_stored(os.path.relpath(path, root.base))
            if root.pattern.fullmatch(below) is None:
                return Why.PATTERN
        exact = self._release != "2026.2"
        if exact and path == os.path.join(self._workspace, LOWER_CASE):
            return Why.LOWER_CASE
        limit = self._config.multimodal_max_file_bytes if self._config is not None else 0
        if media and state.st_size > limit:
            return Why.TOO_LARGE
        if not state.st_mode & stat.S_IROTH and not _may_read(path):
            return Why.UNREADABLE
        return None

    def _leave(self, stored: str, why: Why, detail: str = "") -> None:
        if stored not in self.listing.found:
            self.listing.left_out[stored] = LeftOut(stored, why, detail)


def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a POSIX glob relative to its folder: `**` is any number of folders.

    What stands between two `**` is looked for once, as near to the beginning as it is: what fits
    the rest behind a later place does so behind that one. So the time is linear in the path.
    """
    runs: list[list[str]] = [[]]
    for part in pattern.strip("/").split("/"):
        if part == "**":
            runs.append([])
        else:
            runs[-1].append(_of_name(part))
    if len(runs) == 1:
        return re.compile("/".join(runs[0]))
    text = "".join(f"{name}/" for name in runs[0])
    for names in filter(None, runs[1:-1]):
        text += f"(?>(?:[^/]+/)*?{''.join(f'{name}/' for name in names)})"
    return re.compile(text + (f"(?:[^/]+/)*{'/'.join(runs[-1])}" if runs[-1] else ".+"))


def _of_name(part: str) -> str:
    """A glob of one name: fnmatch knows no folders, its "any character" must stop at the slash."""
    return translate(part).removeprefix("(?s:").rpartition(")")[0].replace(".*", "[^/]*")


def _may_read(path: str) -> bool:
    return os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids)


def _target(path: str) -> str:
    try:
        return f"to {as_stored(os.readlink(path))}"
    except OSError as error:
        return (error.strerror or "not readable").lower()
