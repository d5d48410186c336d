"""Failures that are planted: commands short of memory, and commands of which one write fails.

Promised is: nothing is lost, one line says what failed, the exit code is a documented one, and the
next command works. Each command works in a home folder of its own, in which a memory was indexed
and then edited; what it may leave there is what was there, or what an unharmed run leaves.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from ctypes import CFUNCTYPE, c_char_p, c_int, c_int64, c_size_t, c_ssize_t, c_void_p, cast
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import apsw

from memtui.settings.files import StateFolder
from tests.support.command_line import call
from tests.support.conversations import Homes, began, said
from tests.support.embedding import registered_hashed
from tests.support.interrupted import Ended, run_forked, run_python
from tests.support.openclaw import hash_tree
from tests.support.recorded import build
from tests.trials.crash import check_database
from tests.trials.file_changes import Change, Perform, observe
from tests.trials.frame import Case, Options
from tests.trials.privacy import Stage

get_context("forkserver").set_forkserver_preload([__name__])

_SECONDS = 60
_ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)
_COMMANDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_STEPS, _STEP = 64, 10 * 2**20
_SHORT_OF_MEMORY = """
import resource, sys
from memtui.cli.main import run
from memtui.__main__ import main
with open("/proc/self/statm") as file:
    most = int(file.read().split()[0]) * resource.getpagesize() + int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_AS, (most, most))
main()
"""
"""The program, which gets so many bytes of addresses more than it has once it has started."""


_CALLS = {
    "open": (c_int, c_char_p, c_int, c_int),
    "unlink": (c_int, c_char_p),
    "write": (c_ssize_t, c_int, c_void_p, c_size_t),
    "pwrite64": (c_ssize_t, c_int, c_void_p, c_size_t, c_int64),
    "ftruncate": (c_int, c_int, c_int64),
}
"""What SQLite asks of the system to change a file, with the types of the answer and arguments."""


class PlantedFailure:
    """Lets one change of a file fail, the n-th one of this process, with an error of the system.

    Those of SQLite fail below it, as the system's answer to its call.
    """

    def __init__(self, place: Path, number: int, code: int) -> None:
        self.failed = ""
        """The change that failed."""
        self._place, self._code = os.fsencode(place), code
        self._left = number
        self._lock = threading.RLock()
        self._names: dict[int, bytes] = {}
        observe(str(place), self._around, sqlite=False)
        self._system = apsw.VFS("planted", base="unix")
        self._calls = [self._replaced(name, *types) for name, types in _CALLS.items()]

    def _around(self, change: Change, perform: Perform) -> None:
        if self._fails(change.kind, change.path):
            raise OSError(self._code, os.strerror(self._code), change.path)
        perform(change)

    def _replaced(self, name: str, *types: Any) -> object:
        form = CFUNCTYPE(*types, use_errno=True)
        usual = form(self._system.xGetSystemCall(name) or 0)

        def call(first: Any, *others: Any) -> int:
            path = first if isinstance(first, bytes) else self._names.get(first, b"")
            is_change = name != "open" or (others[0] & os.O_CREAT and not os.path.exists(path))
            is_below = path.startswith(self._place)
            if is_below and is_change and self._fails(f"sqlite {name}", os.fsdecode(path)):
                ctypes.set_errno(self._code)
                return -1
            answer = int(usual(first, *others))
            if name == "open":
                self._names[answer] = path
            return answer

        replacement = form(call)
        address = cast(replacement, c_void_p).value
        assert address is not None
        self._system.xSetSystemCall(name, address)
        return replacement

    def _fails(self, kind: str, path: str) -> bool:
        with self._lock:
            self._left -= 1
            if self._left != -1:
                return False
        self.failed = f"{kind} {re.sub(r'(?<=[.]memtui-).*', '…', Path(path).name)}"
        return True


def _words(stage: Stage, command: str) -> list[str]:
    words = [word.replace("HOME", str(stage.home)) for word in (*command.split(), "--json")]
    has_place = {"--demo", "--index", "--root"} & {*words}
    return words if has_place else [*words, "--root", str(stage.memory)]


def _call(stage: Stage, command: str) -> Ended:
    with registered_hashed():
        return call(_words(stage, command), environment=stage.environment, folder=stage.place)


def call_failing(stage: Stage, command: str, number: int, code: int) -> tuple[Ended, str]:
    """Call the program in this process, whose n-th change of a file fails; which one that was."""
    signal.alarm(_SECONDS)
    planted = PlantedFailure(stage.home, number, code)
    return _call(stage, command), planted.failed


def keep_failing(place: Path, name: str, number: int, code: int) -> tuple[str, str]:
    """Keep a value in the state folder at `place`, with the n-th change failing: which, and how."""
    signal.alarm(_SECONDS)
    planted, told = PlantedFailure(place, number, code), ""
    try:
        StateFolder(place).write_json(name, ["heron"])
    except OSError as error:
        told = error.strerror or ""
    return planted.failed, told


class Ground:
    """A memory that was indexed and then edited, with what commands answer before and after."""

    def __init__(self, place: Path, provider: str) -> None:
        self.stage = stage = Stage(place)
        home, self._start = stage.home, place / "start"
        for folder in ("config/memtui", "other"):
            (home / folder).mkdir()
        settings = f"[embedding]\nprovider = '{provider}'\n"
        (home / "config/memtui/config.toml").write_text(settings, "utf-8")
        (home / "other/MEMORY.md").write_text("# Other\n", "utf-8")
        (home / "other/.memtui.toml").write_text("[embedding]\nkey_env = 'NAME'\n", "utf-8")
        Homes(home / ".openclaw").write(
            "agents/main/sessions/s1.jsonl", [began(), said("user", "Hi")]
        )
        build("2026.4.26", home / "agent.sqlite")
        for command in ("index", "profiles save other --decay"):
            assert _call(stage, command).returncode == 0
        self.before = self._answers()
        (stage.memory / "memory/heron.md").write_text("# Heron\n\nTwo herons came.\n", "utf-8")
        (stage.memory / "memory/more.md").write_text("# More\n\nAnother heron.\n", "utf-8")
        shutil.copytree(home, self._start)
        self.notes, self.kept = hash_tree(stage.memory), self._files()
        assert _call(stage, "index").returncode == 0
        self.after = self._answers()

    def put_back(self) -> None:
        """Make the home folder as it was before the command."""
        shutil.rmtree(self.stage.home)
        shutil.copytree(self._start, self.stage.home)

    def unharmed(self, command: str) -> dict[str, bytes]:
        """The files of settings and state that the command leaves."""
        self.put_back()
        ended = _call(self.stage, command)
        assert '"error"' not in ended.stdout, ended
        return self._files()

    def _answers(self) -> list[tuple[str, str]]:
        hits = json.loads(_call(self.stage, "search heron").stdout)["hits"]
        return [(hit["citation"], hit["snippet"]) for hit in hits if hit["source"] == "memory"]

    def _files(self) -> dict[str, bytes]:
        """Every file but those of the index, without the digits, of which some are times."""
        home = self.stage.home
        return {
            str(path.relative_to(home)): path.read_bytes().translate(None, b"0123456789")
            for path in home.rglob("*")
            if path.is_file() and home / "data" not in path.parents
        }

    def wrong_after(self, ended: Ended | None, unharmed: Mapping[str, bytes]) -> list[str]:
        """What is wrong with what a command said, if it could, and with what it left."""
        wrong, files = [], self._files()
        if ended is not None:
            error = re.search(
                r'"error": {\s+"code": "(?!internal)\w+".*: ([0-5])\s', ended.stdout, re.S
            )
            codes = {int(error[1]) if error else 0}
            # An index without vectors is one, and its document says why it has none.
            codes |= {4} if not error and '"state": "provider_failed"' in ended.stdout else set()
            if "Traceback" in ended.stderr or ended.returncode not in codes:
                wrong.append("what happened is not said in words, with a documented code")
        if hash_tree(self.stage.memory) != self.notes:
            wrong.append("the notes are not as they were")
        for name, data in files.items() - self.kept.items():
            # What is exported says that a leg failed, too, and is whole.
            if unharmed.get(name) != data and not (name == "why.json" and data.endswith(b"}\n")):
                wrong.append(f"{name} is neither as before nor as it was to be")
        wrong += [f"{name} is gone" for name in self.kept.keys() - files.keys()]
        for path in (self.stage.home / "data").rglob("*.db"):
            wrong += [f"{path.name}: {line}" for line in check_database(path)]
        answers, before, after = {*self._answers()}, {*self.before}, {*self.after}
        if not before & after <= answers <= before | after:
            wrong.append("the next search answers something else")
        if _call(self.stage, "index").returncode or self._answers() != self.after:
            wrong.append("after one sync a search answers otherwise than on a fresh index")
        return [f"{line}: {ended}"[:500] for line in wrong]


def writes(
    options: Options, names: Iterable[str] = _COMMANDS["writes"], *, every: int = 1
) -> Iterator[Case]:
    """Let each write of commands fail once with each error; or every n-th of these only."""
    ground = Ground(options.place / "ground", "hashed")
    for name in names:
        command = _COMMANDS["writes"][name]
        unharmed = ground.unharmed(command)
        for turn in count(0, every):
            number, code = turn // len(_ERRORS), _ERRORS[turn % len(_ERRORS)]
            ground.put_back()
            answer, signalled = run_forked(call_failing, ground.stage, command, number, code)
            ended, failed = answer or (Ended([], signalled, "", ""), "nothing")
            if not failed:
                break
            wrong = ground.wrong_after(ended, unharmed)
            where = f"{name}, {errno.errorcode[code]} at {number}, {failed}"
            facts = {"with an error": int(ended.returncode != 0)}
            yield Case("planted, a write fails", [f"{where}: {line}" for line in wrong], facts)


def memory(options: Options, names: Iterable[str] = _COMMANDS["memory"]) -> Iterator[Case]:
    """Run commands with so many limits of their memory, from almost none to plenty."""
    ground = Ground(options.place / "ground", "minilm")
    steps = options.runs or _STEPS
    for name in names:
        command = _COMMANDS["memory"][name]
        unharmed = ground.unharmed(command)
        for step in range(steps):
            ground.put_back()
            most = (1 + step * _STEPS // steps) * _STEP
            ended = _call_short_of_memory(ground.stage, command, most)
            wrong = ground.wrong_after(ended, unharmed)
            facts = {"with an error": int(ended is None or ended.returncode != 0)}
            facts["ended by a library"] = int(ended is None)
            where = f"{name}, {most:,} bytes"
            yield Case("planted, too little memory", [f"{where}: {line}" for line in wrong], facts)


def _call_short_of_memory(stage: Stage, command: str, most: int) -> Ended | None:
    """Run the program; `None` when a library or the interpreter ended it for want of memory."""
    try:
        words = ("-c", _SHORT_OF_MEMORY, str(most), *_words(stage, command))
        ended = run_python(*words, env=stage.environment, cwd=stage.place, timeout=_SECONDS)
    except subprocess.TimeoutExpired as stuck:
        # The interpreter may lose a lock of its own for want of memory, and says so.
        is_lost = b"lost sys.stderr" in (stuck.stderr or b"")
        return None if is_lost else Ended([], -signal.SIGALRM, "", "")
    is_native = ended.returncode and not ended.stdout and "Traceback" not in ended.stderr
    return None if is_native else ended
