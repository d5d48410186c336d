"""No connection, no write outside its own folders, nothing for others to read, no history kept."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from memtui.memory.workspace import demo_root
from tests.e2e.terminal import Terminal, private_environment, terminal
from tests.trust.privacy_trace import Trace, read_trace, under_umask, watched
from tests.trust.report import Options, Outcome

REPEAT = "python -m tests.trust privacy"
QUERY = "zebrafinch router"
"""What is typed: its first word is in no note."""

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
_MAY_END_WITH = {0, 1}
"""`care`, `replay` and `agents` end with 1 for what they find."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A memory and the folders that the program may write to."""

    place: Path
    memory: Path
    home: Path

    @property
    def own(self) -> tuple[Path, ...]:
        """The program's folders: data, state, configuration, cache, and the temporary ones."""
        folders = [self.home / kind / "memtui" for kind in ("data", "state", "config", "cache")]
        return *folders, self.temporary

    @property
    def temporary(self) -> Path:
        """The folder for temporary files."""
        return self.place / "tmp"

    @property
    def environment(self) -> dict[str, str]:
        """What the program is told of its surroundings."""
        return {
            **private_environment(self.home),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "TMPDIR": str(self.temporary),
            # Compiling belongs to the installation; an installed program is compiled.
            "PYTHONDONTWRITEBYTECODE": "1",
        }


def run(options: Options) -> Iterator[Outcome]:
    """Trace commands and the terminal interface, then look at modes and at what was kept."""
    yield _commands(stage_at(options.place / "commands", demo_root()))
    yield _interface(stage_at(options.place / "interface"))
    yield _modes(stage_at(options.place / "modes"))
    yield _private(stage_at(options.place / "private"))


def stage_at(place: Path, memory: Path | None = None) -> Stage:
    """Make empty folders, and a memory of a few notes or a copy of one."""
    stage = Stage(place, place / "memory", place / "home")
    if memory is not None:
        shutil.copytree(memory, stage.memory)
    else:
        (stage.memory / "memory").mkdir(parents=True)
        for name, text in _NOTES.items():
            (stage.memory / name).write_text(text, encoding="utf-8")
    for folder in ("data", "state", "config", "cache"):
        (stage.home / folder).mkdir(parents=True)
    stage.temporary.mkdir()
    return stage


def all_of(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Everything below a folder: mode, size, time of change, content."""
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        seen = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(seen.st_mode) else b""
        found[str(path)] = (seen.st_mode, seen.st_size, seen.st_mtime_ns, content)
    return found


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
    window.press("F2")
    window.shows("MMR λ 0.70")
    window.press("F3")
    window.shows("decay t½ 30d")
    _explain(window)
    window.press("C-s")
    window.shows("saved ")
    window.press("Escape")
    window.until(lambda shown: "other results" not in shown, "the explanation closed")
    # Escape and a key at once would be that key with Alt.
    window.press("Escape")
    window.shows(" m MMR")
    window.press("2")
    window.shows("filter files")
    window.press("3")
    window.shows("filter the conversations")
    window.press("4")
    window.until(lambda shown: "writer" in shown.lower(), "the index screen")
    window.press("1", "R")
    window.shows("ready")
    window.press("C-q")


def search_and_leave(window: Terminal) -> None:
    """Search, explain what is found, quit."""
    window.shows("ready")
    window.type(QUERY)
    window.shows("SHOWN at rank")
    _explain(window)
    window.press("Escape")
    window.until(lambda shown: "other results" not in shown, "the explanation closed")
    window.press("C-q")


def _explain(window: Terminal) -> None:
    window.press("F4")
    window.shows("other results")


def _commands(stage: Stage) -> Outcome:
    before, failed, calls, writes = all_of(stage.memory), [], 0, 0
    for number, command in enumerate(_COMMANDS):
        log = stage.place / f"trace-{number}"
        ended = _run(stage, command, before=watched(log))
        if ended.returncode not in _MAY_END_WITH:
            failed.append(f"{' '.join(command)} ended with {ended.returncode}: {ended.stderr}")
        trace = read_trace(log, stage.place)
        failed += [f"{' '.join(command)}: {found}" for found in complaints(stage, trace)]
        calls, writes = calls + trace.calls, writes + len(trace.writes)
    if all_of(stage.memory) != before:
        failed.append("the memory folder is not as it was")
    facts = {"calls read": calls, "writes": writes, "connections": 0 if not failed else "see below"}
    return Outcome("privacy, commands traced", len(_COMMANDS), tuple(failed), facts, REPEAT)


def _interface(stage: Stage) -> Outcome:
    before, log = all_of(stage.memory), stage.place / "trace-interface"
    failed = _in_terminal(stage, look_around, before=watched(log))
    trace = read_trace(log, Path.cwd())
    failed += complaints(stage, trace)
    if all_of(stage.memory) != before:
        failed.append("the memory folder is not as it was")
    facts: dict[str, float | int | str] = {
        "calls read": trace.calls,
        "writes": len(trace.writes),
        "sockets": len(trace.sockets),
        "programs": ", ".join(sorted({Path(name).name for name in trace.programs})),
    }
    return Outcome("privacy, terminal interface traced", 1, tuple(failed), facts, REPEAT)


def _modes(stage: Stage) -> Outcome:
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
    return Outcome(
        "privacy, modes", looked, tuple(failed), {"folders": "0700", "files": "0600"}, REPEAT
    )


def _private(stage: Stage) -> Outcome:
    """The words of a query are kept without `--private`, and are nowhere with it."""
    failed = []
    for option, kept in (((), True), (("--private",), False)):
        shutil.rmtree(stage.home / "state" / "memtui", ignore_errors=True)
        failed += _in_terminal(stage, search_and_leave, *option)
        holders = holding(stage, QUERY.split()[0])
        if bool(holders) is not kept:
            failed.append(f"with {option or 'no option'} the query is in {holders or 'no file'}")
    return Outcome("privacy, --private keeps no query", 2, tuple(failed), {}, REPEAT)


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


def _run(
    stage: Stage, command: Sequence[str], *, before: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, sys.executable, "-m", "memtui", *command, "--root", str(stage.memory)],
        env=stage.environment,
        cwd=stage.place,
        capture_output=True,
        text=True,
    )
