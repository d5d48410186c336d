"""What a program asked of the system, by strace: every write by name, every use of a socket."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.unit.test_local_offline import unplugged

_OPEN = ("open", "openat", "openat2", "creat")
_BY_PATH = (
    *("rename", "link", "unlink", "mkdir", "rmdir", "mknod", "truncate", "chmod", "chown"),
    *("lchown", "utime", "utimes", "setxattr", "lsetxattr", "removexattr", "lremovexattr"),
)
_BY_FOLDER = (
    *("renameat", "renameat2", "linkat", "unlinkat", "mkdirat", "mknodat", "fchmodat"),
    *("fchmodat2", "fchownat", "utimensat", "futimesat"),
)
_BY_HANDLE = ("fchmod", "fchown", "fsetxattr", "fremovexattr", "utimensat")
_LINKS = ("symlink", "symlinkat")
_SOCKETS = ("socket", "connect", "bind", "listen", "sendto", "sendmsg", "sendmmsg")
_SURPRISES = ("chdir", "fchdir", "io_uring_setup")
"""Calls after which the others would not tell all; none is expected."""

_TRACED = sorted(
    {*_OPEN, *_BY_PATH, *_BY_FOLDER, *_BY_HANDLE, *_LINKS, *_SOCKETS, *_SURPRISES, "execve"}
)
_CALL = re.compile(r"(\w+)\((.*)", re.DOTALL)
_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_STRING = re.compile(_QUOTED)
_IN_FOLDER = re.compile(r"(?:AT_FDCWD|\d+)<([^<>]*)[^,]*>, " + _QUOTED)
_HANDLE = re.compile(r"\d+<([^<>]*)")
_WRITES = re.compile(r"\bO_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)\b")
_FAMILY = re.compile(r"\b[AP]F_(\w+)")
_KIND = re.compile(r"\d+<([A-Z]+)")
_ADDRESS = re.compile(r"sun_path=@?" + _QUOTED)
_DEVICES = re.compile(r"/dev/(?:null|tty|ptmx|pts/\d+)")


@dataclass(frozen=True, slots=True)
class Trace:
    """The calls of one run of the program with all its processes and threads."""

    calls: int = 0
    programs: tuple[str, ...] = ()
    """The programs that were run, in any order."""
    writes: tuple[tuple[str, str], ...] = ()
    """(call, absolute path): a file opened for writing, made, renamed, removed or changed."""
    sockets: tuple[tuple[str, str, str], ...] = ()
    """(call, family, address): every socket made, connected, bound or sent to."""
    surprises: tuple[str, ...] = ()
    """What could not be read, or would make the rest incomplete."""

    def outside(self, own: Iterable[Path]) -> list[str]:
        """The writes to what lies below none of these folders and is no terminal."""
        folders = [str(folder) for folder in own]
        return [
            f"{call} {path}"
            for call, path in self.writes
            if not _DEVICES.fullmatch(path)
            and not any(path == folder or path.startswith(f"{folder}/") for folder in folders)
        ]

    def connections(self) -> list[str]:
        """The uses of sockets that could leave this machine."""
        return [
            f"{call} {family} {address}".strip()
            for call, family, address in self.sockets
            if family not in {"UNIX", "LOCAL"}
        ]

    def local(self) -> list[str]:
        """The connections to other programs of this machine, by the name of their socket."""
        return [address for call, _, address in self.sockets if call == "connect" and address]


@dataclass
class _Reading:
    """A trace while it is read."""

    cwd: str
    calls: int = 0
    programs: list[str] = field(default_factory=list)
    writes: list[tuple[str, str]] = field(default_factory=list)
    sockets: list[tuple[str, str, str]] = field(default_factory=list)
    surprises: list[str] = field(default_factory=list)

    def take(self, name: str, rest: str) -> None:
        """Note one call."""
        self.calls += 1
        if name in _SOCKETS:
            self.sockets.append(_socket(name, rest))
        elif name == "execve":
            self.programs.append(_unquoted(_STRING.findall(rest)[0]))
        elif name in _SURPRISES:
            self.surprises.append(f"{name}({rest}")
        elif name not in _OPEN or name == "creat" or _WRITES.search(_without_strings(rest)):
            paths = list(self._paths(name, rest))
            self.writes += [(name, path) for path in paths]
            if not paths:
                self.surprises.append(f"{name}({rest}")

    def _paths(self, name: str, rest: str) -> Iterator[str]:
        if name.endswith("at") or name in {"openat2", "renameat2", "fchmodat2"}:
            for folder, path in _IN_FOLDER.findall(rest):
                yield os.path.normpath(os.path.join(folder, _unquoted(path)))
            if name not in _BY_HANDLE or _STRING.search(rest):
                return
        if name in _BY_HANDLE:
            yield from (found[1] for found in [_HANDLE.match(rest)] if found)
            return
        found = _STRING.findall(rest)
        names = {"rename": 2, "link": 2}.get(name, 1)
        for path in found[1:2] if name == "symlink" else found[:names]:
            yield os.path.normpath(os.path.join(self.cwd, _unquoted(path)))


def watched(trace: Path) -> list[str]:
    """The command to put before a program: no network interface, and its calls in files `trace.*`.

    Raises AssertionError where strace or namespaces are missing.
    """
    assert shutil.which("strace"), "tests of privacy need strace: apt-get install strace"
    without_network = unplugged()
    assert without_network, "tests of privacy need a network namespace: unshare -n"
    what = ["-e", f"trace={','.join(f'?{name}' for name in _TRACED)}", "-e", "signal=none"]
    return [
        *without_network,
        *("strace", "-ff", "--seccomp-bpf", "-yy", "-qq", "-s", "4096", *what, "-o", str(trace)),
    ]


def read_trace(trace: Path, cwd: Path) -> Trace:
    """Read the files `trace.*` of a program that was started in the folder `cwd`."""
    reading = _Reading(str(cwd))
    for path in sorted(trace.parent.glob(f"{trace.name}.*")):
        for line in path.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            call = _CALL.match(line)
            if call is not None:
                reading.take(call[1], call[2])
            elif line.strip():
                reading.surprises.append(line)
    return Trace(
        reading.calls,
        tuple(reading.programs),
        tuple(reading.writes),
        tuple(reading.sockets),
        tuple(reading.surprises),
    )


def under_umask(mask: str, command: Sequence[str] = ()) -> list[str]:
    """The command to put before a program that is to start with a umask."""
    return ["sh", "-c", f'umask {mask}; exec "$@"', "sh", *command]


def _socket(name: str, rest: str) -> tuple[str, str, str]:
    address = _ADDRESS.search(rest)
    shown = _unquoted(address[1]) if address else ""
    if name in {"socket", "connect", "bind"}:
        family = _FAMILY.search(rest)
        return name, family[1] if family else "unknown", shown
    kind = _KIND.match(rest)
    return name, kind[1] if kind else "unknown", shown


def _without_strings(text: str) -> str:
    return _STRING.sub('""', text)


def _unquoted(text: str) -> str:
    """A path as strace quotes it, with its escapes resolved."""
    raw = text.encode("utf-8", "surrogateescape").decode("latin-1")
    return os.fsdecode(raw.encode("latin-1").decode("unicode_escape").encode("latin-1"))
