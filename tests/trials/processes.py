"""Two interfaces, a command that indexes and one that searches, on notes that never rest."""

from __future__ import annotations

import json
import os
import random
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from memtui.embedding.registry import registration_of
from memtui.index.database import damage, open_database
from memtui.index.generations import IndexFolder, WriterLock
from memtui.memory.chunking import chunk_id
from memtui.memory.documents import text_hash
from memtui.memory.workspace import workspace_id
from memtui.settings.schema import EmbeddingSettings
from tests.e2e.terminal import Terminal, private_environment, terminal
from tests.support.interrupted import Ended, run_python
from tests.trials.frame import Case, Options

PROVIDER = "wordllama"
ERRORS = re.compile(
    r"Traceback|should not have happened|[1-9]\d* errors|✗ failed|[Ee]rror: |is locked|stayed locked"
    r"|damaged|last error (?!none)|search failed"
)
"""What is on no screen while all is well."""
_EXPECTED_FILES = re.compile(
    r"index-\d+\.db(-wal|-shm)?|cache\.db(-wal|-shm)?|CURRENT|writer\.lock|provider\.json"
)
_MOST_IN_FRONT, _ESCAPE_SECONDS = 4, 0.4
_EDIT_SECONDS = 0.8
_LIKE = 1e-4
_WRITER_MAY_END_WITH = {0, 5}
"""5: an interface holds the lock, as it may."""
_READER_MAY_END_WITH = {0, 1}
_KEYS = "m d x Escape n [ ] { } r R R 1 2 3 4 5 1 j".split()
_WORDS = ("nest7", "nest21 garden", "velvet window", "harbor", "barley nest40", "engine falcon")


@dataclass(slots=True)
class World:
    """The memory, the folder below which the program keeps everything, and what was seen."""

    root: Path
    home: Path
    stopping: threading.Event = field(default_factory=threading.Event)
    failed: list[str] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.home.mkdir(exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        """Settings for small chunks, a quick model and quick answers to changes."""
        return {
            **private_environment(self.home),
            "MEMTUI_EMBEDDING__PROVIDER": PROVIDER,
            "MEMTUI_CHUNKING__TOKENS": TOKENS,
            "MEMTUI_CHUNKING__OVERLAP": "0",
            "MEMTUI_INDEX__DEBOUNCE_SECONDS": "0.3",
            # A key that is pressed by chance may open it.
            "EDITOR": "true",
        }

    @property
    def index(self) -> IndexFolder:
        return IndexFolder(self.home / "data" / "memtui" / workspace_id(self.root))

    def memtui(self, *command: str) -> Ended:
        """Run a command on the memory to its end."""
        words = ("-m", "memtui", *command, "--root", str(self.root))
        return run_python(*words, env=self.environment, cwd=self.root)

    def opened(self) -> Any:
        """The interface in a terminal of its own."""
        return terminal(str(self.root), home=self.home, size=(120, 40), more=self.environment)

    def leave(self, window: Terminal) -> None:
        """Close what is open in front and quit; any other exit code than 0 is a failure."""
        for _ in range(_MOST_IN_FRONT):
            # With the next key at once, Escape would be Alt.
            window.press("Escape")
            threading.Event().wait(_ESCAPE_SECONDS)
        window.press("C-q")
        if code := window.wait_for_end():
            self.failed.append(f"an interface ended with {code}: {window.screen().strip()[-500:]}")


def run(options: Options) -> Iterator[Case]:
    """Let all act for some minutes; then everything has to agree and nobody may hold anything."""
    root = options.place / "workspace"
    world, nests = World(root, options.place / "home"), Nests(root, options.seed)
    began = world.memtui("index")
    if began.returncode:
        world.failed.append(f"the first index ended with {began.returncode}: {began.stderr}")
    reader = Reader(world)
    actors: dict[str, Callable[[random.Random], None]] = {
        "editor": partial(edit, world, nests),
        "one interface": partial(use_interface, world),
        "the other interface": partial(use_interface, world),
        "writer": partial(write_index, world),
        "reader": reader.search,
    }
    threads = [
        threading.Thread(target=_act, args=(world, name, act, options.seed), daemon=True)
        for name, act in actors.items()
    ]
    for thread in threads:
        thread.start()
    world.stopping.wait(options.minutes * 60)
    world.stopping.set()
    for thread in threads:
        thread.join()
    facts = {**world.counted, "generations seen": len({*reader.generations})}
    yield Case("four processes, errors shown", world.failed, facts, tried=4)
    yield _converging(options.place, root)


def _act(world: World, name: str, act: Callable[[random.Random], None], seed: int) -> None:
    """Act until told to stop; an exception is a failure, too."""
    rng = random.Random(f"{seed} {name}")
    while not world.stopping.is_set():
        try:
            act(rng)
        except Exception as error:
            print(error, file=sys.stderr)
            first = str(error).partition("\n")[0]
            world.failed.append(f"{name}: {type(error).__name__}: {first}")


def edit(world: World, nests: Nests, rng: random.Random) -> None:
    """Change the notes once."""
    nests.change()
    world.counted["edits"] += 1
    world.stopping.wait(rng.uniform(0, _EDIT_SECONDS))


def write_index(world: World, rng: random.Random) -> None:
    """`memtui index`, anew from the files at times."""
    force = ["--force"] if rng.random() < 0.25 else []
    ended = world.memtui("index", "--json", *force)
    world.counted[f"index ended with {ended.returncode}"] += 1
    if ended.returncode not in _WRITER_MAY_END_WITH:
        said = (ended.stdout[-300:] + ended.stderr[-300:]).strip()
        world.failed.append(f"index ended with {ended.returncode}: {said}")
    world.stopping.wait(rng.uniform(0, 2))


def use_interface(world: World, rng: random.Random) -> None:
    """Open the interface, type for a while, quit, and stay away for a while."""
    with world.opened() as window:
        window.until(lambda shown: " files " in shown, "the index on the status line")
        for _ in range(rng.randrange(10, 60)):
            if world.stopping.is_set():
                break
            if rng.random() < 0.4:
                window.press("1")
                window.press("/")
                window.press("C-u")
                window.type(rng.choice(_WORDS))
                window.press("Escape")
            else:
                key = rng.choice(_KEYS)
                window.press(key)
                if key == "R":
                    # It asks before it begins.
                    window.press("R")
            world.counted["keys or queries"] += 1
            world.stopping.wait(rng.uniform(0, 0.6))
            shown = window.screen()
            if (error := ERRORS.search(shown)) is not None:
                lines = [line.strip() for line in shown.splitlines() if error[0] in line]
                world.failed.append(f"on a screen: {lines[0]}")
        world.leave(window)
    world.counted["sessions"] += 1
    # Long enough for nobody to hold the lock at times.
    world.stopping.wait(rng.uniform(0, 15))


class Reader:
    """`memtui search --json` again and again; every answer is held against itself."""

    def __init__(self, world: World) -> None:
        self.generations: list[int] = []
        self._world = world
        choice = EmbeddingSettings(provider=PROVIDER)
        self._provider = registration_of(PROVIDER).create(choice)

    def search(self, rng: random.Random) -> None:
        """Search once and check the answer."""
        world, query = self._world, rng.choice(_WORDS)
        ended = world.memtui("search", query, "--json", "-n", "12")
        world.counted[f"search ended with {ended.returncode}"] += 1
        if ended.returncode not in _READER_MAY_END_WITH:
            world.failed.append(f"search ended with {ended.returncode}: {ended.stdout[-300:]}")
            return
        document = json.loads(ended.stdout)
        world.failed += [f"search {query!r}: {wrong}" for wrong in self.contradictions(document)]
        world.counted["hits checked"] += len(document["hits"])
        if document["index"]["generation"] != document["generation"]:
            world.counted["swapped while it was searched"] += 1

    def contradictions(self, document: Mapping[str, Any]) -> Iterator[str]:
        """What in an answer can only come from two generations, or from two states of one file."""
        generation = document["generation"]
        if self.generations and generation < self.generations[-1]:
            yield f"generation {generation} after {self.generations[-1]}"
        self.generations.append(generation)
        query = self._provider.embed_query(document["query"])
        of_file: dict[str, set[tuple[str, int]]] = {}
        for hit in document["hits"]:
            if hit["path"] == "MEMORY.md":
                continue
            text = hit["snippet"].strip()
            written = parse_line(text)
            if written is None:
                yield f"{hit['citation']} is no line that was written: {hit['snippet']!r}"
                continue
            of_file.setdefault(hit["path"], set()).add(written[:2])
            # The last line of a file ends with a line break, which belongs to its chunk.
            texts = [text, f"{text}\n"]
            place = (hit["source"], hit["path"], hit["start_line"], hit["end_line"])
            ids = {chunk_id(*place, text_hash(one), hit["model"]) for one in texts}
            if hit["chunk_id"] not in ids or hit["start_line"] != written[2] + 1:
                yield f"{hit['citation']}: id and text are of different chunks"
            vector = hit["legs"].get("vector")
            if vector is not None:
                made = np.asarray(self._provider.embed_documents(texts))
                cosines = [float(np.dot(query, one)) for one in made]
                if min(abs(cosine - vector["raw"]) for cosine in cosines) > _LIKE:
                    yield f"{hit['citation']}: cosine {vector['raw']:.4f}, not {cosines}"
        for path, rounds in of_file.items():
            if len(rounds) > 1:
                yield f"{path} is shown in two states: {sorted(rounds)}"


def _converging(place: Path, root: Path) -> Case:
    """After the last edit: both screens, the command line and a fresh index agree."""
    fresh = World(root, place / "fresh")
    made = fresh.memtui("index")
    last = World(root, place / "home")
    failed = last.failed
    if made.returncode:
        failed.append(f"a fresh index ended with {made.returncode}: {made.stderr}")
    wanted = _content(fresh.index)
    files = len({row[0] for row in wanted})
    total = f"{files} files {len(wanted)} chunks"
    with ExitStack() as stack:
        windows = [stack.enter_context(last.opened()) for _ in range(2)]
        for window in windows:
            try:
                window.until(lambda shown: total in shown and "ready" in shown, total)
            except AssertionError as error:
                failed.append(f"a screen does not say {total}: {error}")
        status = last.memtui("status").stdout
        if total.replace(" files ", " files, ") not in status:
            failed.append(f"the command line does not say {total}: {status}")
        for window in windows:
            last.leave(window)
    index = last.memtui("index")
    if index.returncode or "no file changed" not in index.stdout:
        failed.append(f"there was something left to index: {index.stdout}")
    failed += _left_behind(last.index, wanted)
    return Case("four processes, converged", failed, {"files": files, "chunks": len(wanted)})


def _left_behind(folder: IndexFolder, wanted: Mapping[tuple[Any, ...], bytes]) -> Iterator[str]:
    """What is wrong with an index that nobody has open."""
    lock = WriterLock(folder)
    if not lock.try_acquire():
        yield f"a lock is left: {lock.refusal()}"
    lock.release()
    if folder.owner_path.exists():
        yield "writer.json is left"
    live = folder.path(folder.current() or 0)
    for path in sorted(folder.folder.iterdir()):
        if not _EXPECTED_FILES.fullmatch(path.name):
            yield f"{path.name} is left"
        elif path.match("index-*.db") and path != live:
            yield f"{path.name} is left of an older generation"
    if _content(folder) != wanted:
        yield "the index is not what a fresh one is"
    for path in (live, folder.cache_path):
        with closing(open_database(path, readonly=True)) as connection:
            if (wrong := damage(connection)) is not None:
                yield f"{path.name}: {wrong}"


def _content(folder: IndexFolder) -> dict[tuple[Any, ...], bytes]:
    """Every chunk with its vector: (path, chunk id, lines, text) -> the vector's bytes."""
    with closing(open_database(folder.path(folder.current() or 0), readonly=True)) as connection:
        rows = connection.execute(
            "SELECT f.path, c.chunk_id, c.start_line, c.end_line, c.text, c.passages, v.vector "
            "FROM chunks c JOIN files f ON f.id = c.file_id LEFT JOIN vectors v ON v.id = c.id"
        ).fetchall()
    return {tuple(key): vector if isinstance(vector, bytes) else b"" for *key, vector in rows}


PARTS = 3
TOKENS = "24"
"""The size of a chunk, in tokens, with which every line of a note is a chunk of its own."""
_VOCABULARY = (
    "anchor barley candle drawer engine falcon garden harbor island jacket kettle ladder "
    "meadow needle orchard pepper quarry ribbon saddle timber velvet window"
).split()
_LINE = re.compile(r"(nest\d+) (\d+) (\d) ")


def line(name: str, round_: int, part: int) -> str:
    """One line of a note; each is a chunk. The same name, round and part give the same line."""
    chosen = random.Random(f"{name} {round_} {part}").sample(_VOCABULARY, 9)
    return f"{name} {round_} {part} {' '.join(chosen)}"


def parse_line(text: str) -> tuple[str, int, int] | None:
    """Name, round and part of a line; `None` when it is not as it was written."""
    match = _LINE.match(text)
    if match is None:
        return None
    named = match[1], int(match[2]), int(match[3])
    return named if text.strip() == line(*named) else None


class Nests:
    """A folder of notes that are created, edited, renamed, swapped and deleted by chance."""

    def __init__(self, root: Path, seed: int, notes: int = 60) -> None:
        self._folder, self._notes, self._round = root / "memory", notes, 0
        self._random = random.Random(seed)
        self._folder.mkdir(parents=True, exist_ok=True)
        (root / "MEMORY.md").write_text("- The nests are numbered.\n", encoding="utf-8")
        for number in range(notes):
            self._write(self._folder / f"nest{number}.md", f"nest{number}")

    def edit(self) -> None:
        """Write a note anew, into the file itself."""
        number = self._random.randrange(self._notes)
        self._write(self._folder / f"nest{number}.md", f"nest{number}")

    def query(self) -> str:
        """Something to search for; it hardly ever comes again."""
        words = line("nest", self._random.randrange(10**6), 0).split()
        return " ".join(self._random.sample(words, 3))

    def change(self) -> None:
        """Make one edit of any kind."""
        present = sorted(self._folder.glob("*.md"))
        one, other = (self._random.choice(present) if present else None for _ in range(2))
        kind = self._random.choice("eeeeeesrwdm")
        if kind == "e" or one is None or other is None:
            self.edit()
        elif kind == "m":  # many at once, as a `git checkout` does
            for _ in range(20):
                self.edit()
        elif kind == "s":  # beside the note and then in its place, as editors do
            beside = one.with_name(f".{one.name}.swp")
            self._write(beside, one.stem)
            os.replace(beside, one)
        elif kind == "r":  # another name, perhaps one that is taken
            os.replace(one, self._folder / f"nest{self._random.randrange(self._notes)}.md")
        elif kind == "w" and one != other:  # two notes change their places
            beside = one.with_name(".swapping")
            os.replace(one, beside)
            os.replace(other, one)
            os.replace(beside, other)
        elif kind == "d":
            one.unlink()

    def _write(self, path: Path, name: str) -> None:
        self._round += 1
        lines = [line(name, self._round, part) for part in range(PARTS)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
