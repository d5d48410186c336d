"""Hostile notes in a real terminal: every byte that the program writes is looked at.

The program is led through every screen over notes, names and conversations that hold escape
sequences; an own reading of the stream knows what Textual writes and tells everything else.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.bench.screens import Program, Screen
from tests.e2e.terminal import private_environment
from tests.trust.report import Options, Outcome
from tests.trust.terminal_notes import MARKER, WORD, make_notes, make_sessions
from tests.trust.terminal_stream import shown_characters, wrong_in, wrong_in_output

SIZE: Final = (24, 80)
_QUIET_SECONDS: Final = 0.4
_LONGEST_SECONDS: Final = 20.0
REPEAT: Final = "python -m tests.trust terminal"
F1, F2, F4, F8, F9 = "\x1bOP", "\x1bOQ", "\x1bOS", "\x1b[19~", "\x1b[20~"
ESCAPE, ENTER, DOWN = "\x1b", "\r", "\x1b[B"
SCENES: Final[Mapping[str, tuple[str, ...]]] = {
    "results": (DOWN, DOWN, DOWN, "n", "o", "v", "v", "v", "T", "T"),
    "explanation": ("x", DOWN, DOWN, ENTER, ESCAPE),
    "chunk": ("K", DOWN, DOWN, ESCAPE),
    "comparing": ("p", "c", ESCAPE, "S", ESCAPE, "t", ESCAPE, "D", ESCAPE),
    "browse": ("b", DOWN, DOWN, DOWN, ENTER, DOWN, DOWN, "w", "w", "c", DOWN, DOWN, ENTER, ESCAPE),
    "sessions": ("3", DOWN, ENTER, DOWN, DOWN, DOWN, "n", "n", ESCAPE, DOWN, ENTER, ESCAPE),
    "index": ("4", DOWN, DOWN, ESCAPE, "1"),
    "settings": ("1", "w", ESCAPE, "C", ESCAPE, F9, DOWN, ESCAPE, "P", "P"),
    "help": ("?", DOWN, DOWN, ESCAPE, F1, ESCAPE),
    "history": ("\x12", DOWN, ESCAPE),
}
"""The keys that are pressed, one after the other, by what they show."""
COPYING: Final = frozenset({"settings"})
"""Scenes with a key that copies: `C`, the parameters as an agent's configuration."""
COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "search": ("search", WORD, "-n", "40"),
    "search with a hostile query": ("search", f"{WORD} \x1b]2;{MARKER}\x07 \u202e"),
    "search --json": ("--json", "search", WORD, "-n", "40"),
    "explain": ("explain", WORD),
    "explain --json": ("--json", "explain", WORD),
    "care": ("care",),
    "care --json": ("--json", "care"),
    "sessions": ("sessions",),
    "sessions --json": ("--json", "sessions"),
    "status": ("status",),
    "doctor": ("doctor",),
    "an error": ("search", WORD, "--profile", f"\x1b]2;{MARKER}\x07"),
    "an option": (f"--\x1b]2;{MARKER}\x07",),
}


class Recorded(Screen):
    """A screen that keeps what it was fed."""

    def __init__(self) -> None:
        super().__init__(*SIZE)
        self.data = b""

    def feed(self, data: bytes) -> None:
        self.data += data
        super().feed(data)


class Terminal(Program):
    """The program in a terminal of 80x24 whose bytes are kept."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        super().__init__(command, env)
        self.screen: Recorded = Recorded()

    def __enter__(self) -> Terminal:
        super().__enter__()
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        return self

    def settle(self) -> None:
        """Take what is written until nothing has come for a moment."""
        for _ in range(int(_LONGEST_SECONDS / _QUIET_SECONDS)):
            if self.written(_QUIET_SECONDS) is None:
                return


def environment(place: Path) -> dict[str, str]:
    """A home of its own, with conversations to read and no provider."""
    env = private_environment(place / "home") | {"MEMTUI_EMBEDDING__PROVIDER": "none"}
    # The editor writes to the terminal by itself.
    env["EDITOR"] = env["VISUAL"] = "true"
    env["MEMTUI_TRANSCRIPTS__PATHS"] = json.dumps([str(place / "sessions")])
    return env


def prepare(place: Path) -> Path:
    """Write the notes and the conversations; the folder of the notes."""
    (place / "home").mkdir()
    make_sessions(place / "sessions")
    make_notes(place / "notes")
    return place / "notes"


def scenes(root: Path, env: Mapping[str, str], wanted: Sequence[str]) -> Iterator[Outcome]:
    """Lead the program through scenes in one terminal; an outcome for each."""
    command = [sys.executable, "-m", "memtui", str(root)]
    with Terminal(command, env) as program:
        program.wait_for("ready")
        program.settle()
        yield _outcome("start", program)
        for name in wanted:
            # From wherever the last scene ended back to the results.
            for key in (ESCAPE, ESCAPE, ESCAPE, "1", "/", "\x15"):
                program.press(key)
                program.settle()
            program.press(WORD)
            program.settle()
            program.press(ESCAPE)
            program.settle()
            for key in SCENES[name]:
                program.press(key)
                program.settle()
            yield _outcome(name, program)
        program.press("\x11")
        program.until(lambda screen: isinstance(screen, Recorded) and _ended(screen), 20.0)
        yield _outcome("end", program)


def _ended(screen: Recorded) -> bool:
    return b"\x1b[?1049l" in screen.data


def _outcome(name: str, program: Terminal) -> Outcome:
    data, program.screen.data = program.screen.data, b""
    wrong = tuple(
        f"{name}: {line}" for line in wrong_in(data, copies=name in COPYING, marker=MARKER)
    )
    facts = {"bytes": len(data), "characters": shown_characters(data)}
    if not data:
        wrong = (f"{name}: nothing was written",)
    return Outcome(f"terminal, {name}", len(data), wrong, facts, REPEAT)


def commands(
    root: Path, env: Mapping[str, str], wanted: Sequence[str], *, ends: Sequence[str]
) -> Iterator[Outcome]:
    """Run commands, whose output goes to a terminal, a pipe or both."""
    for name in wanted:
        for end in ends:
            command = [sys.executable, "-m", "memtui", "--root", str(root), *COMMANDS[name]]
            run = in_pty if end == "terminal" else in_pipe
            data = run(command, env)
            wrong = wrong_in_output(data, colours=end == "terminal")
            wrong += ["nothing was written"] if not data else []
            lines = tuple(f"{name} to a {end}: {line}" for line in wrong)
            told = f"terminal, {name} to a {end}"
            yield Outcome(told, len(data), lines, {"bytes": len(data)}, REPEAT)


def in_pipe(command: Sequence[str], env: Mapping[str, str]) -> bytes:
    """What a command writes to pipes, both of them."""
    run = subprocess.run(command, env=dict(env), capture_output=True, timeout=120, check=False)
    return run.stdout + run.stderr


def in_pty(command: Sequence[str], env: Mapping[str, str]) -> bytes:
    """What a command writes to a terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    process = subprocess.Popen(command, env=dict(env), stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    data = b""
    try:
        while piece := os.read(master, 1 << 16):
            data += piece
    except OSError:
        # Linux says so when the last writer has closed the terminal.
        process.wait(120)
    finally:
        os.close(master)
    return data


def run(options: Options) -> Iterator[Outcome]:
    """Every scene, then every command at both ends."""
    root, env = prepare(options.place), environment(options.place)
    for command in (("index",), ("--json", "index")):
        in_pipe([sys.executable, "-m", "memtui", "--root", str(root), *command], env)
    yield from scenes(root, env, list(SCENES))
    yield from commands(root, env, list(COMMANDS), ends=("terminal", "pipe"))
