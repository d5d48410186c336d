"""From a key to the painted rows of its answer, in a terminal, while notes are being indexed."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from tests.bench.corpus import CHUNKS_A_FILE, Corpus
from tests.bench.folders import copy, folder
from tests.bench.limits import Judged, Limit
from tests.bench.measure import MILLISECONDS, Measurement, Plan, Series, percentile
from tests.bench.processes import environment
from tests.bench.screens import Program, Screen
from tests.bench.stores import Store

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
