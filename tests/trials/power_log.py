"""The log of everything that was done to a folder, and what a loss of power leaves of it.

The model: a write, or a new size, is kept when the file was synced after it; else each may be
kept, lost, or torn, that is kept in some of its 512-byte sectors only, whatever became of others
before and after it. A new name, a renaming or a removal is kept when the folder was synced after
it; else each may be kept or lost as well.
"""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.trials.survival import Change, Kind, Perform

SECTOR = 512
_SHM_BYTES = 32768
_CHANCES = (0.0, 0.1, 0.5, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The cache has said that it holds these texts' vectors."""

    hashes: tuple[str, ...]


Entry = Change | Acknowledged


class Recorder:
    """Writes down every change of files, in its order, with what was written."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._lock = threading.RLock()
        self._by_sqlite: set[str] = set()
        self._plain: dict[str, bytes] = {}

    def around(self, change: Change, perform: Perform) -> None:
        """Let a change happen and write it down."""
        with self._lock:
            if change.by_sqlite:
                self._by_sqlite.add(change.path)
            elif change.kind in (Kind.SYNC, Kind.RENAME) and change.path not in self._by_sqlite:
                self._note_content(change.path)
            perform(change)
            self.entries.append(change)

    def acknowledge(self, hashes: list[str]) -> None:
        """Write down that vectors were taken."""
        with self._lock:
            self.entries.append(Acknowledged(tuple(hashes)))

    def save(self, path: Path) -> None:
        """Keep the log in a file."""
        path.write_bytes(pickle.dumps(self.entries))

    def _note_content(self, path: str) -> None:
        """Python's own files are written unseen: what they hold is noted before it matters."""
        content = Path(path).read_bytes()
        if self._plain.get(path) != content:
            self._plain[path] = content
            self.entries.append(Change(Kind.WRITE, path, 0, content))


def load(path: Path) -> list[Entry]:
    """Read a log that a recorder kept."""
    entries: list[Entry] = pickle.loads(path.read_bytes())
    return entries


@dataclass(slots=True)
class _Content:
    """A file, whatever its name: what is safe, and what was done to it since."""

    safe: bytearray = field(default_factory=bytearray)
    since: list[Change] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Naming:
    """A name that is given or taken away."""

    name: str
    content: _Content | None
    former: str = ""


class Disk:
    """A folder as a disk holds it: what is safe, and what a loss of power may undo."""

    def __init__(self, start: Path) -> None:
        self._safe = {path.name: _Content(bytearray(path.read_bytes())) for path in start.iterdir()}
        self._names = dict(self._safe)
        self._renamed: list[_Naming] = []

    def apply(self, change: Change) -> None:
        """Do what the log says."""
        name = Path(change.path).name
        match change.kind:
            case Kind.CREATE:
                self._name(_Naming(name, _Content()))
            case Kind.WRITE:
                self._names[name].since.append(change)
            case Kind.TRUNCATE:
                self._names[name].since.append(change)
            case Kind.SYNC:
                content = self._names[name]
                for one in content.since:
                    _do(content.safe, one)
                content.since.clear()
            case Kind.RENAME:
                self._name(_Naming(Path(change.target).name, self._names[name], name))
            case Kind.REMOVE:
                self._name(_Naming(name, None))
            case Kind.SYNC_FOLDER:
                self._safe = dict(self._names)
                self._renamed.clear()
            case Kind.MAKE_FOLDER:
                pass

    def _name(self, naming: _Naming) -> None:
        self._renamed.append(naming)
        _give(self._names, naming)

    def lose_power(self, target: Path, rng: random.Random) -> None:
        """Write into `target` what one of the possible losses leaves."""
        names = dict(self._safe)
        for naming in _kept_namings(self._renamed, rng):
            _give(names, naming)
        chance = rng.choice(_CHANCES)
        for name, content in names.items():
            _write(target / name, _remaining(content, chance, rng))
            if name.endswith((".db", ".building")) and rng.random() < 0.3:
                # The shared memory of the log is never synced: anything may be in it.
                _write(target / f"{name}-shm", bytearray(rng.randbytes(_SHM_BYTES)))


def _kept_namings(pending: list[_Naming], rng: random.Random) -> list[_Naming]:
    match rng.randrange(3):
        case 0:
            # As a file system with a journal does it: what came first is kept first.
            return pending[: rng.randint(0, len(pending))]
        case 1:
            # One alone is lost, a renaming where there is one: what builds on it is worst off.
            renamed = [naming for naming in pending if naming.former]
            lost = rng.choice(renamed or pending) if pending else None
            return [naming for naming in pending if naming is not lost]
    return [naming for naming in pending if rng.random() < 0.5]


def _give(names: dict[str, _Content], naming: _Naming) -> None:
    if naming.content is None:
        names.pop(naming.name, None)
        return
    names[naming.name] = naming.content
    if naming.former:
        names.pop(naming.former, None)


def _remaining(content: _Content, chance: float, rng: random.Random) -> bytearray:
    """What is safe of a file, and of what was done since, as much as luck has it."""
    found = bytearray(content.safe)
    for change in content.since:
        if rng.random() < chance:
            _do(found, change)
        elif change.kind is Kind.WRITE and rng.random() < 0.3:
            _do_sectors(found, change, lambda: rng.random() < 0.5)
    return found


def _do(found: bytearray, change: Change) -> None:
    if change.kind is Kind.TRUNCATE:
        del found[change.offset :]
        found.extend(bytes(change.offset - len(found)))
        return
    if change.offset > len(found):
        found.extend(bytes(change.offset - len(found)))
    found[change.offset : change.offset + len(change.data)] = change.data


def _do_sectors(found: bytearray, change: Change, is_kept: Callable[[], bool]) -> None:
    """Write some sectors of the disk only."""
    end = change.offset + len(change.data)
    for start in range(change.offset // SECTOR * SECTOR, end, SECTOR):
        first, last = max(start, change.offset), min(start + SECTOR, end)
        if is_kept():
            piece = change.data[first - change.offset : last - change.offset]
            _do(found, Change(Kind.WRITE, change.path, first, piece))


def _write(path: Path, content: bytearray) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
