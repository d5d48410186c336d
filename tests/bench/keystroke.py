"""From a key, or a saved note, to the rows on a screen; programs run in a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from types import TracebackType
from typing import TypeAlias

from memtui.index.events import WatchedFolder, start_events
from memtui.settings import Settings
from tests.bench.corpus import CHUNKS_A_FILE, Corpus, copy, folder
from tests.bench.measure import (
    MILLISECONDS,
    Judged,
    Limit,
    Measurement,
    Plan,
    Series,
    environment,
    percentile,
)
from tests.bench.stores import Store

ROWS, COLUMNS = 40, 120
PATIENCE = 60.0
_TOKEN = re.compile(
    r"\x1b\[(?P<numbers>[0-?]*)[ -/]*(?P<final>[@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[ -/]*[0-Z\\-~]|(?P<text>[^\x00-\x1f\x7f]+)|(?P<control>[\x00-\x1a\x1c-\x1f\x7f])"
)

_BROKEN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*|[ -/]*)\Z")
"""A sequence whose end has not come yet."""


class Screen:
    """What a terminal shows after a stream of bytes: characters alone, each one cell wide.

    Only what Textual writes is understood: the cursor is moved, text is written, the rest is
    passed over. The rows of wide characters are therefore longer than they look.
    """

    def __init__(self, rows: int = ROWS, columns: int = COLUMNS) -> None:
        self._columns = columns
        self._cells = [[" "] * columns for _ in range(rows)]
        self._row = self._column = 0
        self._rest = ""
        self._bytes = b""

    def feed(self, data: bytes) -> None:
        """Take what the program wrote; the end of a broken sequence may come later."""
        self._bytes += data
        text = self._bytes.decode("utf-8", "ignore")
        self._bytes = _unfinished(self._bytes)
        text = self._rest + text
        broken = _BROKEN.search(text)
        end = broken.start() if broken else len(text)
        self._rest = text[end:]
        for token in _TOKEN.finditer(text, 0, end):
            if token["text"]:
                self._write(token["text"])
            elif token["control"]:
                self._control(token["control"])
            elif token["final"] in ("H", "f"):
                self._move(token["numbers"])

    def rows(
        self, first: int = 0, last: int | None = None, columns: int | None = None
    ) -> list[str]:
        """The text of some rows, up to a column, without blanks at their ends."""
        return ["".join(row[:columns]).rstrip() for row in self._cells[first:last]]

    def _write(self, text: str) -> None:
        row = self._cells[min(self._row, len(self._cells) - 1)]
        cells = list(text)[: max(self._columns - self._column, 0)]
        row[self._column : self._column + len(cells)] = cells
        self._column += len(cells)

    def _control(self, control: str) -> None:
        if control == "\r":
            self._column = 0
        elif control == "\n":
            self._row = min(self._row + 1, len(self._cells) - 1)

    def _move(self, numbers: str) -> None:
        row, _, column = numbers.partition(";")
        self._row = min(int(row or 1), len(self._cells)) - 1
        self._column = min(int(column or 1), self._columns) - 1


def _unfinished(data: bytes) -> bytes:
    """The bytes at the end that are the beginning of a character."""
    for length in range(1, min(4, len(data) + 1)):
        first = data[-length]
        if first >= 0xC0:
            wanted = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
            return data[-length:] if length < wanted else b""
        if first < 0x80:
            return b""
    return b""


def _take_terminal() -> None:
    """Let the terminal be the one of the process, so that both end with whoever started it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Program:
    """A program in a terminal of its own; ended by SIGKILL when the block is left."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.screen = Screen()
        self._command = command
        self._env = {**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self._master = -1
        self._process: subprocess.Popen[bytes] | None = None
        self.began = 0.0
        """When it was started, by `perf_counter`."""

    def __enter__(self) -> Program:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.began = perf_counter()
        self._process = subprocess.Popen(
            self._command, env=self._env, stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True, preexec_fn=_take_terminal,
        )  # fmt: skip
        os.close(slave)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        os.close(self._master)

    def cpu(self) -> float:
        """Seconds of CPU time that its threads, as they are now, have taken; 0 without Linux."""
        assert self._process is not None
        spent = 0
        for file in Path(f"/proc/{self._process.pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # a thread that ended meanwhile
                spent += int(file.read_text().split()[0])
        return spent / 1e9

    def press(self, text: str) -> float:
        """Type; returns when."""
        at = perf_counter()
        os.write(self._master, text.encode())
        return at

    def until(self, shown: Callable[[Screen], bool], seconds: float = PATIENCE) -> float | None:
        """When the screen came to show something; `None` when it did not in that time.

        The time is that of the bytes, before they were understood.
        """
        deadline = perf_counter() + seconds
        if shown(self.screen):
            return perf_counter()
        while (left := deadline - perf_counter()) > 0:
            at = self._read(left)
            if at is not None and shown(self.screen):
                return at
        return None

    def wait_for(self, text: str, seconds: float = PATIENCE) -> float:
        """When the screen came to show a text; raises `RuntimeError` when it never did."""
        at = self.until(lambda screen: any(text in row for row in screen.rows()), seconds)
        if at is None:
            shown = "\n".join(self.screen.rows())
            raise RuntimeError(f"never seen: {text}; on screen:\n{shown}")
        return at

    def watch(self, seconds: float) -> None:
        """Take what is written for so long, at least what is there already."""
        deadline = perf_counter() + seconds
        while self._read(max(deadline - perf_counter(), 0.0)) is not None:
            if perf_counter() > deadline + 1.0:
                return

    def written(self, seconds: float = PATIENCE) -> float | None:
        """When anything was written; `None` when nothing was in that time."""
        return self._read(seconds)

    def _read(self, seconds: float) -> float | None:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return None
        try:
            data = os.read(self._master, 1 << 16)
        except OSError as error:
            assert self._process is not None
            code = self._process.wait()
            shown = "\n".join(self.screen.rows())
            raise RuntimeError(f"the program ended with {code}; on screen:\n{shown}") from error
        at = perf_counter()
        self.screen.feed(data)
        return at


CHUNKS = 100_000
MOST_MS = 50.0
NEW_NOTES = 1200
"""Written while keys are typed: the embedded model needs longer for them than the typing takes."""

_ECHO = """
from textual.app import App, ComposeResult
from textual.widgets import Input

class Echo(App[None]):
    def compose(self) -> ComposeResult:
        line = Input(placeholder="type here")
        line.cursor_blink = False
        yield line

Echo().run()
"""
_LIST = """
from textual.app import App, ComposeResult
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

WORDS = "a heron stood in the pond behind the old mill and waited for the morning fog".split()

class Bare(App[None]):
    def compose(self) -> ComposeResult:
        line = Input(placeholder="type here")
        line.cursor_blink = False
        yield line
        yield OptionList()

    def on_input_changed(self, event: Input.Changed) -> None:
        turned = len(event.value) % len(WORDS)
        words = " ".join(WORDS[turned:] + WORDS[:turned])
        self.query_one(OptionList).set_options(
            Option(Content.assemble(
                (f"{row:2} memory/2026-11-{row + 10}.md ", "bold"), ("#" * row, "green"),
                f"\\n{words} ", (WORDS[turned], "yellow"), f"\\n{words}",
            ))
            for row in range(10)
        )

Bare().run()
"""
"""Ten rows of three lines, new with every key: what a list of results is without a search."""
Typed: TypeAlias = tuple[Series, Series, Series, int]
"""From a key to rows, to its echo, to the rows of a bare list; keys that changed no row."""
_QUESTIONS_A_ROUND = 2
_BETWEEN_KEYS = 0.2
"""Seconds from an answer to the next key: a quick writer's pace."""
_PATIENCE = 5.0
_FIRST_ROW, _LAST_ROW, _LIST_COLUMNS = 3, 30, 70
"""Where the list of results is."""


def measure_keystroke(plan: Plan) -> Iterator[Measurement]:
    """Type questions into memtui and into a program that only echoes, key by key in turns."""
    chunks = max([size for size in plan.sizes if size <= CHUNKS], default=CHUNKS)
    made = folder(Corpus(), chunks, plan.place)
    asked = (one.text for one in Corpus().questions(100) if one.text.isascii())
    questions = list(islice(asked, _QUESTIONS_A_ROUND * plan.rounds))
    for indexing in (False, True):
        painted, echoed, listed, silent = _typed(made, questions, indexing=indexing)
        what = "while indexing" if indexing else "at rest"
        yield Measurement(
            f"keystroke to painted rows, {what}", painted, "ms", "echo", echoed,
            aim=f"p95 <= {MOST_MS:.0f} ms",
            limit=Limit(MOST_MS, Judged.P95),
            size=chunks,
            note=f"{len(painted.wall)} keys, echo p95 {percentile(echoed.wall, 0.95):.0f} ms; "
            f"{silent} more keys changed no row",
        )  # fmt: skip
        yield Measurement(
            f"  a bare Textual list, {what}", listed, "ms", "echo", echoed, size=chunks,
            note="ten rows of three lines painted anew by each key, without any search",
        )  # fmt: skip


def _typed(made: Store, questions: Sequence[str], *, indexing: bool) -> Typed:
    with tempfile.TemporaryDirectory(prefix="memtui-keys-") as temporary:
        place = Path(temporary)
        taken = copy(made, place / "index")
        env = environment(place / "home", MEMTUI_INDEX__DATA_DIR=str(taken.data))
        new = made.root / "memory" / "new"
        ours = Program([sys.executable, "-m", "memtui", str(made.root)], env)
        echo = Program([sys.executable, "-c", _ECHO], env)
        bare = Program([sys.executable, "-c", _LIST], env)
        try:
            with ours, echo, bare:
                echo.wait_for("type here")
                bare.wait_for("type here")
                ours.wait_for("ready")
                # Closes the greeting, and loads what the first answer needs.
                ours.press("warm")
                ours.watch(2.0)
                if indexing:
                    _write_new(new)
                    ours.wait_for("indexing")
                return _all(ours, echo, bare, questions)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def _write_new(place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    number = 0
    for notes, _ in Corpus(seed=3).notes(NEW_NOTES * CHUNKS_A_FILE):
        for note in notes:
            number += 1
            text = "\n".join(note.pieces)
            (place / f"new-{number}.md").write_text(text, encoding="utf-8")


def _all(ours: Program, echo: Program, bare: Program, questions: Sequence[str]) -> Typed:
    painted, echoed, listed, silent = Series(), Series(), Series(), 0
    for question in questions:
        for program in (ours, echo, bare):
            # To the end and back, whatever is there is cleared.
            program.press("\x05\x15")
        ours.watch(0.5)
        echo.watch(0.1)
        bare.watch(0.1)
        for key in question:
            if key == " ":
                # Asks for nothing: what changes the rows after it is no answer to it.
                silent += 1
                ours.press(key)
                ours.watch(_BETWEEN_KEYS)
                continue
            took = _painted(ours, key)
            repeated = _echoed(echo, key)
            rows = _changed(bare, key)
            if took is None:
                silent += 1
            else:
                painted.add(*took)
                echoed.add(*repeated)
                listed.add(*rows)
            ours.watch(_BETWEEN_KEYS)
    return painted, echoed, listed, silent


def _painted(program: Program, key: str) -> tuple[float, float] | None:
    """Milliseconds from a key to changed rows, and of CPU time; `None` for the same rows."""
    rows, count = _list(program.screen), _count(program.screen)
    spent = program.cpu()
    began = program.press(key)

    def answered(screen: Screen) -> bool:
        now = _count(screen)
        return _list(screen) != rows or (now != count and not now.endswith("…"))

    at = program.until(answered, _PATIENCE)
    if at is None or _list(program.screen) == rows:
        return None
    return (at - began) * MILLISECONDS, (program.cpu() - spent) * MILLISECONDS


def _changed(program: Program, key: str) -> tuple[float, float]:
    """The same of a program that paints other rows for every key."""
    program.watch(0.0)
    rows, spent = _list(program.screen), program.cpu()
    began = program.press(key)
    at = program.until(lambda screen: _list(screen) != rows, _PATIENCE)
    if at is None:
        raise RuntimeError(f"no other rows for {key!r}")
    return (at - began) * MILLISECONDS, (program.cpu() - spent) * MILLISECONDS


def _list(screen: Screen) -> list[str]:
    return screen.rows(_FIRST_ROW, _LAST_ROW, _LIST_COLUMNS)


def _count(screen: Screen) -> str:
    """How many results of how many candidates in what time; ends with … for an older answer."""
    return screen.rows(0, 1)[0][-34:].strip()


def _echoed(program: Program, key: str) -> tuple[float, float]:
    """Milliseconds from a key to its echo, which is all that the program ever writes."""
    program.watch(0.0)
    spent = program.cpu()
    began = program.press(key)
    at = program.written(_PATIENCE)
    if at is None:
        raise RuntimeError(f"never echoed: {key!r}")
    return (at - began) * MILLISECONDS, (program.cpu() - spent) * MILLISECONDS


OVER_MS = 150.0
SAVING_CHUNKS = 10_000
_REPETITIONS = 3
_SAVING_PATIENCE = 60.0
_ASKED = "zzsaved"


def measure_saving(plan: Plan) -> Iterator[Measurement]:
    """Save a note with a word that is asked for, against the watcher's event and the debounce."""
    made = folder(Corpus(), min(max(plan.sizes), SAVING_CHUNKS), plan.place)
    with tempfile.TemporaryDirectory(prefix="memtui-saving-") as temporary:
        taken = copy(made, Path(temporary) / "index")
        env = environment(Path(temporary) / "home", MEMTUI_INDEX__DATA_DIR=str(taken.data))
        shown, seen = _saved(plan, made.root / "memory", made.root, env)
    yield Measurement(
        "save to result on screen", shown, "ms", "event + debounce", seen,
        aim=f"<= +{OVER_MS:.0f} ms",
        limit=Limit(OVER_MS, Judged.OVER),
        size=made.chunks,
    )  # fmt: skip


def _saved(plan: Plan, notes: Path, root: Path, env: Mapping[str, str]) -> tuple[Series, Series]:
    shown, seen = Series(), Series()
    debounce = Settings().index.debounce_seconds
    noticed: SimpleQueue[tuple[str, float]] = SimpleQueue()
    events = start_events(
        [WatchedFolder(str(notes), str(notes), True)],
        lambda change: noticed.put((change.path, perf_counter())),
    )
    with Program([sys.executable, "-m", "memtui", str(root)], env) as program:
        program.wait_for("ready")
        program.wait_for("  watching")
        program.press(_ASKED)
        program.watch(3.0)
        for number in range(_REPETITIONS * plan.rounds + plan.warm):
            path = notes / f"saved-{number}.md"
            began = perf_counter()
            _save(path, f"# number{number}x\n\n{_ASKED} number{number}x\n")
            at = program.wait_for(f"number{number}x", _SAVING_PATIENCE)
            event = next(at for name, at in iter(noticed.get, None) if name == str(path))
            if number >= plan.warm:
                shown.wall.append((at - began) * MILLISECONDS)
                seen.wall.append((event - began + debounce) * MILLISECONDS)
            path.unlink()
            # Each save is over before the next: bursts are another matter.
            program.until(partial(_is_gone, f"number{number}x"), _SAVING_PATIENCE)
    events.stop()
    return shown, seen


def _is_gone(text: str, screen: Screen) -> bool:
    return not any(text in row for row in screen.rows())


def _save(path: Path, text: str) -> None:
    """Write as editors do: a new file beside it, then over it."""
    beside = path.with_suffix(".tmp")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)
