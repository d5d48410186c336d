"""A folder of notes and conversations with hostile names and contents."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.bench.programs import Program, Screen
from tests.e2e.terminal import private_environment
from tests.support.conversations import answered, asked, began, claude, codex, codex_began, said
from tests.support.hostile import ATTACKS
from tests.trials.frame import Case, Options

TABLES: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
MARKER: Final = "PWNED"
SEQUENCES: Final = (
    *TABLES["hostile"],
    "e" + "\u0301" * 400,
    "👩‍👩‍👧‍👦" * 30 + "家族" * 30,
    "a" * 5000,
)
WORD: Final = "heron"
"""In every note, so that one query finds them all."""


def make_notes(root: Path) -> int:
    """Write the folder; the number of notes."""
    memory = root / "memory"
    memory.mkdir(parents=True)
    texts = [*SEQUENCES, *ATTACKS]
    for number, text in enumerate(texts):
        day = f"2026-11-{1 + number % 20:02d}"
        body = f"# {WORD} {text}\n\n- {text} {WORD} note {number}\n\n```sh\n{text}\n```\n\n[{text}]({text})\n"
        name = text.replace("/", "_").replace("\0", "")[:60]
        # A file with NUL would not be taken for text.
        data = body.replace("\0", "").encode("utf-8", "surrogatepass")
        with suppress(OSError, UnicodeEncodeError):
            _write(memory, f"{day}-{name}.md", data)
        _write(memory, f"{day}-{number}.md", data + b"\xff\xfe \x80 not UTF-8\n")
    _write(memory, b"line\nbreak-\x1b]2;PWNED\x07-\xff.md", f"{WORD} in a name\n".encode())
    (root / "MEMORY.md").write_text(f"# Memory\n\n- {WORD} \x1b]2;{MARKER}\x07\n", encoding="utf-8")
    return sum(1 for _ in memory.iterdir())


def _write(folder: Path, name: str | bytes, data: bytes) -> None:
    raw = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    with open(os.path.join(os.fsencode(folder), raw[:240]), "wb") as file:
        file.write(data)


def make_sessions(folder: Path) -> None:
    """Write a conversation of each program whose every text is hostile."""
    folder.mkdir(parents=True)
    talks: dict[str, list[bytes]] = {
        "openclaw.jsonl": [began(f"s-{MARKER}\x1b]2;x\x07")],
        "claude-code.jsonl": [],
        "rollout-codex.jsonl": [codex_began()],
    }
    for number, text in enumerate(SEQUENCES):
        for role, spoken in (("user", f"{WORD} {text}"), ("assistant", f"{text} {WORD}")):
            talks["openclaw.jsonl"].append(said(role, spoken, number))
            talks["claude-code.jsonl"].append(claude(role, spoken, 2 * number + (role == "user")))
            talks["rollout-codex.jsonl"].append(codex(role, spoken, number))
        talks["openclaw.jsonl"] += [asked(text, f"c{number}"), answered(text, call=f"c{number}")]
    for name, lines in talks.items():
        (folder / name).write_bytes(b"".join(lines))


TOKEN: Final = re.compile(TABLES["token"], re.VERBOSE)
FROM_TEXTUAL: Final = re.compile(TABLES["from Textual"], re.VERBOSE)
"""Every sequence that Textual's driver for Linux writes, and no other."""
COPIED: Final = re.compile(r"\x1b\]52;c;[A-Za-z0-9+/]*={0,2}\x07")
"""What copies a text, in base64: only after the key that asks for it."""
_COLOURS: Final = re.compile(r"\x1b\[(?:(?:\d+(?:;\d+)*)?m|K)")
"""Colours, and the end of a line of progress taken away."""
LINES: Final = frozenset("\r\n")
HIDDEN: Final = re.compile("[\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def tokens(data: bytes) -> Iterator[tuple[str, str]]:
    """The kind and the text of everything in a stream, in order; a broken byte is `invalid`."""
    text = data.decode("utf-8", "surrogateescape")
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            yield "broken", text[at : at + 20]
            at += 1
            continue
        yield str(found.lastgroup), found[0]
        at = found.end()


def wrong_in(data: bytes, *, copies: bool = False, marker: str = "PWNED") -> list[str]:
    """What of a screen's stream a terminal should never have been sent, each kind once."""
    wrong: Counter[str] = Counter()
    for kind, text in tokens(data):
        if kind == "text":
            if hidden := HIDDEN.search(text):
                wrong[f"U+{ord(hidden[0]):04X} in text"] += 1
        elif kind == "control":
            if text not in LINES:
                wrong[f"the control U+{ord(text):04X}"] += 1
        elif not FROM_TEXTUAL.fullmatch(text) and not (copies and COPIED.fullmatch(text)):
            wrong[f"the sequence {text[:40]!r}"] += 1
        if kind != "text" and marker in text:
            wrong[f"a payload in {text[:40]!r}"] += 1
    return [f"{what}, {count} times" for what, count in wrong.items()]


def wrong_in_output(data: bytes, *, colours: bool) -> list[str]:
    """The same of a command's output: text, tabs and line ends; on a terminal colours."""
    wrong: Counter[str] = Counter()
    for kind, text in tokens(data):
        if kind == "csi" and colours and _COLOURS.fullmatch(text):
            continue
        if kind == "control" and text in "\r\n\t":
            continue
        if kind != "text":
            wrong[f"{kind} {text[:40]!r}"] += 1
        elif hidden := HIDDEN.search(text):
            wrong[f"U+{ord(hidden[0]):04X}"] += 1
    return [f"{what}, {count} times" for what, count in wrong.items()]


def shown_characters(data: bytes) -> int:
    """How many characters of text are in a stream."""
    return sum(
        sum(not unicodedata.category(one).startswith("Z") for one in text)
        for kind, text in tokens(data)
        if kind == "text"
    )


SIZE: Final = (24, 80)
_QUIET_SECONDS: Final = 0.4
_LONGEST_SECONDS: Final = 20.0
ESCAPE: Final = "\x1b"
KEYS: Final[Mapping[str, str]] = TABLES["named keys"]
"""What a terminal sends for keys that have names."""
SCENES: Final[Mapping[str, Sequence[str]]] = TABLES["scenes"]
"""The keys that are pressed, one after the other, by what they show."""
COPYING: Final = frozenset({"configuration"})
"""Scenes with a key that copies: `Y`, the parameters as an agent's configuration."""
COMMANDS: Final[Mapping[str, str]] = TABLES["commands"]


class Recorded(Screen):
    """A screen that keeps what it was fed."""

    data = b""

    def feed(self, data: bytes) -> None:
        self.data += data
        super().feed(data)


class Terminal(Program):
    """The program in a terminal of 80x24 whose bytes are kept."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.screen: Recorded = Recorded(*SIZE)
        super().__init__(command, env, self.screen)

    def __enter__(self) -> Terminal:
        super().__enter__()
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


def scenes(root: Path, env: Mapping[str, str], wanted: Sequence[str]) -> Iterator[Case]:
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
                program.press(KEYS.get(key, key))
                program.settle()
            yield _outcome(name, program)
        program.press("\x11")
        end = b"\x1b[?1049l"
        program.until(lambda screen: isinstance(screen, Recorded) and end in screen.data, 20.0)
        yield _outcome("end", program)


def _outcome(name: str, program: Terminal) -> Case:
    data, program.screen.data = program.screen.data, b""
    wrong = tuple(
        f"{name}: {line}" for line in wrong_in(data, copies=name in COPYING, marker=MARKER)
    )
    facts = {"bytes": len(data), "characters": shown_characters(data)}
    if not data:
        wrong = (f"{name}: nothing was written",)
    return Case(f"terminal, {name}", wrong, facts, len(data))


def commands(
    root: Path, env: Mapping[str, str], wanted: Sequence[str], *, ends: Sequence[str]
) -> Iterator[Case]:
    """Run commands, whose output goes to a terminal, a pipe or both."""
    for name in wanted:
        for end in ends:
            words = shlex.split(COMMANDS[name])
            command = [sys.executable, "-m", "memtui", "--root", str(root), *words]
            run = in_pty if end == "terminal" else in_pipe
            data = run(command, env)
            wrong = wrong_in_output(data, colours=end == "terminal")
            wrong += ["nothing was written"] if not data else []
            lines = tuple(f"{name} to a {end}: {line}" for line in wrong)
            told = f"terminal, {name} to a {end}"
            yield Case(told, lines, {"bytes": len(data)}, len(data))


def in_pipe(command: Sequence[str], env: Mapping[str, str]) -> bytes:
    """What a command writes to pipes, both of them."""
    run = subprocess.run(command, env=dict(env), capture_output=True, timeout=120, check=False)
    return run.stdout + run.stderr


def in_pty(command: Sequence[str], env: Mapping[str, str]) -> bytes:
    """What a command writes to a terminal."""
    return in_pipe(["script", "-qec", shlex.join(command), "/dev/null"], env)


def run(options: Options) -> Iterator[Case]:
    """Every scene, then every command at both ends."""
    root, env = prepare(options.place), environment(options.place)
    for command in (("index",), ("--json", "index")):
        in_pipe([sys.executable, "-m", "memtui", "--root", str(root), *command], env)
    yield from scenes(root, env, list(SCENES))
    yield from commands(root, env, list(COMMANDS), ends=("terminal", "pipe"))
