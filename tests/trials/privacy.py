"""What a program asked of the system, by strace: every write by name, every use of a socket."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memtui.data import DEMO_ROOT
from tests.e2e.terminal import Terminal, private_environment, terminal, unplugged
from tests.support.interrupted import Ended, run_python
from tests.support.openclaw import hash_tree
from tests.support.small_memory import write_notes
from tests.trials.frame import Case, Options

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


@dataclass(slots=True)
class Trace:
    """The calls of one run of the program with all its processes and threads."""

    cwd: str = ""
    """The folder the program was started in."""
    calls: int = 0
    programs: list[str] = field(default_factory=list)
    """The programs that were run, in any order."""
    writes: list[tuple[str, str]] = field(default_factory=list)
    """(call, absolute path): a file opened for writing, made, renamed, removed or changed."""
    sockets: list[tuple[str, str, str]] = field(default_factory=list)
    """(call, family, address): every socket made, connected, bound or sent to."""
    surprises: list[str] = field(default_factory=list)
    """What could not be read, or would make the rest incomplete."""

    def take(self, line: str) -> None:
        """Note one line of a trace."""
        call = _CALL.match(line)
        if call is None:
            self.surprises += [line] if line.strip() else []
            return
        name, rest = call[1], call[2]
        self.calls += 1
        if name in _SOCKETS:
            address, kind = _ADDRESS.search(rest), _KIND.match(rest)
            if name in {"socket", "connect", "bind"}:
                kind = _FAMILY.search(rest)
            shown = _unquoted(address[1]) if address else ""
            self.sockets.append((name, kind[1] if kind else "unknown", shown))
        elif name == "execve":
            self.programs.append(_unquoted(_STRING.findall(rest)[0]))
        elif name in _SURPRISES:
            self.surprises.append(line)
        elif name not in _OPEN or name == "creat" or _WRITES.search(_STRING.sub('""', rest)):
            paths = list(self._paths(name, rest))
            self.writes += [(name, path) for path in paths]
            self.surprises += [] if paths else [line]

    def _paths(self, name: str, rest: str) -> Iterator[str]:
        if name.endswith("at") or name in {"openat2", "renameat2", "fchmodat2"}:
            for folder, path in _IN_FOLDER.findall(rest):
                yield os.path.normpath(os.path.join(folder, _unquoted(path)))
            if name not in _BY_HANDLE or _STRING.search(rest):
                return
        if name in _BY_HANDLE:
            yield from (handle[1] for handle in [_HANDLE.match(rest)] if handle)
            return
        strings = _STRING.findall(rest)
        names = {"rename": 2, "link": 2}.get(name, 1)
        for path in strings[1:2] if name == "symlink" else strings[:names]:
            yield os.path.normpath(os.path.join(self.cwd, _unquoted(path)))

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
    read = Trace(str(cwd))
    for path in sorted(trace.parent.glob(f"{trace.name}.*")):
        for line in path.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            read.take(line)
    return read


def under_umask(mask: str, command: Sequence[str] = ()) -> list[str]:
    """The command to put before a program that is to start with a umask."""
    return ["sh", "-c", f'umask {mask}; exec "$@"', "sh", *command]


def _unquoted(text: str) -> str:
    """A path as strace quotes it, with its escapes resolved."""
    raw = text.encode("utf-8", "surrogateescape").decode("latin-1")
    return os.fsdecode(raw.encode("latin-1").decode("unicode_escape").encode("latin-1"))


QUERY = "zebrafinch router"
"""What is typed: its first word is in no note."""
EXPLAINED = "╭─ Explain "

_COMMANDS: tuple[tuple[str, ...], ...] = (
    *(("index",), ("index", "--force"), ("index", "--dry-run"), ("search", "router config")),
    *(("search", "router", "--json"), ("search", "nothing at all", "--mmr", "--zero-ok")),
    *(("explain", "router"), ("status", "--deep"), ("care", "--json"), ("sessions",)),
    *(("chunk", "MEMORY.md:1"), ("replay", "--limit", "2"), ("providers",), ("doctor",)),
    *(("config", "show"), ("config", "validate"), ("profiles",), ("agents",)),
)
_NOTES = {
    "MEMORY.md": "# Memory\n\nThe router of the house stands in the hall.\n",
    "memory/2026-11-18.md": "# Wednesday\n\nGave the router a new name, and a new password.\n",
    "memory/heron.md": "# Heron\n\nThe heron comes to the pond before the router restarts.\n",
}
_KINDS = ("data", "state", "config", "cache")
_MAY_END_WITH = {0, 1}
"""`care`, `replay` and `agents` end with 1 for what they find."""


class Stage:
    """A memory and the folders that the program may write to."""

    def __init__(self, place: Path, memory: Path | None = None) -> None:
        """Make empty folders, and a memory of a few notes or a copy of one."""
        self.place, self.memory, self.home = place, place / "memory", place / "home"
        if memory is not None:
            shutil.copytree(memory, self.memory)
        else:
            write_notes(self.memory, _NOTES)
        kinds, temporary = [self.home / kind for kind in _KINDS], place / "tmp"
        for folder in (*kinds, temporary):
            folder.mkdir(parents=True)
        self.own = (*(kind / "memtui" for kind in kinds), temporary)
        """The program's folders: data, state, configuration, cache, and the temporary ones."""
        self.environment = {
            **private_environment(self.home),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "TMPDIR": str(temporary),
            # Compiling belongs to the installation; an installed program is compiled.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        """What the program is told of its surroundings."""


def run(options: Options) -> Iterator[Case]:
    """Trace commands and the terminal interface, then look at modes and at what was kept."""
    yield _commands(Stage(options.place / "commands", DEMO_ROOT))
    yield _interface(Stage(options.place / "interface"))
    yield _modes(Stage(options.place / "modes"))
    yield _private(Stage(options.place / "private"))


def complaints(stage: Stage, trace: Trace) -> list[str]:
    """What a traced run did that it must not do."""
    return [
        *(f"wrote outside its folders: {found}" for found in trace.outside(stage.own)),
        *(f"used the network: {found}" for found in trace.connections()),
        *(f"connected to a program of this machine: {found}" for found in trace.local()),
        *(f"not understood: {found}" for found in trace.surprises),
    ]


def open_to_others(stage: Stage) -> list[str]:
    """What in the folders of data and state has another mode than 0700 or 0600."""
    wrong = []
    for folder in (stage.home / "data" / "memtui", stage.home / "state" / "memtui"):
        for path in sorted([folder, *folder.rglob("*")]):
            found = path.lstat().st_mode
            mode, wanted = stat.S_IMODE(found), 0o700 if stat.S_ISDIR(found) else 0o600
            if mode != wanted:
                wrong.append(f"{path.relative_to(stage.home)} has mode {mode:04o}")
    return wrong


def look_around(window: Terminal) -> None:
    """Search, toggle, explain, take a picture, and open every screen."""
    window.shows("ready")
    window.type(QUERY)
    window.shows("SHOWN at rank")
    window.press("F2", shows="MMR λ 0.70")
    window.press("F3", shows="decay half-life 30 d")
    explain(window)
    window.press("C-s", shows="saved ")
    # Escape and a key at once would be that key with Alt.
    window.press("Escape", shows=" m MMR")
    window.press("2", shows="filter files")
    window.press("3", shows="filter by title")
    window.press("4", shows="Credentials")
    window.press("5")
    window.until(lambda shown: "writer" in shown.lower(), "the index screen")
    window.press("1", "R", shows="rebuild the index")
    window.press("R", shows="ready")
    window.press("C-q")


def search_and_leave(window: Terminal) -> None:
    """Search, explain what is found, quit."""
    window.shows("ready")
    window.type(QUERY)
    window.shows("SHOWN at rank")
    explain(window)
    window.press("C-q")


def explain(window: Terminal) -> None:
    """Open and close the explanation of a result."""
    window.press("F4", shows=EXPLAINED)
    window.press("Escape")
    window.until(lambda shown: EXPLAINED not in shown, "the explanation closed")


def _commands(stage: Stage) -> Case:
    before, failed, calls, writes = hash_tree(stage.memory), [], 0, 0
    for number, command in enumerate(_COMMANDS):
        log = stage.place / f"trace-{number}"
        ended = _run(stage, command, before=watched(log))
        if ended.returncode not in _MAY_END_WITH:
            failed.append(f"{' '.join(command)} ended with {ended.returncode}: {ended.stderr}")
        trace = read_trace(log, stage.place)
        failed += [f"{' '.join(command)}: {found}" for found in complaints(stage, trace)]
        calls, writes = calls + trace.calls, writes + len(trace.writes)
    if hash_tree(stage.memory) != before:
        failed.append("the memory folder is not as it was")
    facts = {"calls read": calls, "writes": writes, "connections": 0 if not failed else "see below"}
    return Case("privacy, commands traced", failed, facts, len(_COMMANDS))


def _interface(stage: Stage) -> Case:
    before, log = hash_tree(stage.memory), stage.place / "trace-interface"
    failed = _in_terminal(stage, look_around, before=watched(log))
    trace = read_trace(log, Path.cwd())
    failed += complaints(stage, trace)
    if hash_tree(stage.memory) != before:
        failed.append("the memory folder is not as it was")
    facts: dict[str, float | int | str] = {
        "calls read": trace.calls,
        "writes": len(trace.writes),
        "sockets": len(trace.sockets),
        "programs": ", ".join(sorted({Path(name).name for name in trace.programs})),
    }
    return Case("privacy, terminal interface traced", failed, facts)


def _modes(stage: Stage) -> Case:
    """Under a umask that takes nothing away, and after somebody opened everything to others."""
    failed: list[str] = []
    looked = 0
    for moment in ("made under umask 000", "opened wide, then used again"):
        if looked:
            _open_wide(stage)
        failed += _in_terminal(stage, look_around, before=under_umask("000"))
        _run(stage, ("index", "--force"), before=under_umask("000"))
        failed += [f"{moment}: {found}" for found in open_to_others(stage)]
        looked += len(list(stage.home.rglob("*")))
    return Case("privacy, modes", failed, {"folders": "0700", "files": "0600"}, looked)


def _private(stage: Stage) -> Case:
    """The words of a query are kept without `--private`, and are nowhere with it."""
    failed = []
    for option, kept in (((), True), (("--private",), False)):
        shutil.rmtree(stage.home / "state" / "memtui", ignore_errors=True)
        failed += _in_terminal(stage, search_and_leave, *option)
        holders = holding(stage, QUERY.split()[0])
        if bool(holders) is not kept:
            failed.append(f"with {option or 'no option'} the query is in {holders or 'no file'}")
    return Case("privacy, --private keeps no query", failed, tried=2)


def holding(stage: Stage, word: str) -> list[str]:
    """The files of the program that hold a word, in any case of its letters."""
    wanted = word.lower().encode()
    files = [path for folder in stage.own for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if wanted in path.read_bytes().lower()]


def _in_terminal(
    stage: Stage, act: Callable[[Terminal], None], *option: str, before: Sequence[str] = ()
) -> list[str]:
    """Open the memory in a terminal and act; what went wrong."""
    command = (*option, str(stage.memory))
    more = {**stage.environment, "MEMTUI_EMBEDDING__PROVIDER": "auto"}
    with terminal(*command, home=stage.home, size=(120, 40), more=more, before=before) as window:
        try:
            act(window)
            code = window.wait_for_end()
        except AssertionError as error:
            print(error, file=sys.stderr)
            return [str(error).splitlines()[0]]
    return [] if code == 0 else [f"the terminal interface ended with {code}"]


def _open_wide(stage: Stage) -> None:
    """Give everybody every right to the folders of indexes and of state, and all in them."""
    for folder in [*(stage.home / "data" / "memtui").iterdir(), stage.home / "state" / "memtui"]:
        for path in [folder, *folder.rglob("*")]:
            os.chmod(path, 0o777 if path.is_dir() else 0o666)


def _run(stage: Stage, command: Sequence[str], *, before: Sequence[str]) -> Ended:
    words = ("-m", "memtui", *command, "--root", str(stage.memory))
    return run_python(*words, before=before, env=stage.environment, cwd=stage.place)
