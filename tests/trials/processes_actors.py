"""The four processes: two terminal interfaces, a command that indexes, one that searches."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from memtui.embedding.provider import Provider
from memtui.embedding.registry import registration_of
from memtui.memory.chunking import chunk_id
from memtui.memory.documents import text_hash
from memtui.settings.schema import EmbeddingSettings
from tests.e2e.terminal import Terminal, private_environment, terminal
from tests.trials.processes_notes import TOKENS, told_by

PROVIDER = "wordllama"
ERRORS = re.compile(
    r"Traceback|should not have happened|[1-9]\d* errors|✗ failed|[Ee]rror: |is locked|stayed locked"
    r"|damaged|last error (?!none)|search failed"
)
"""What is on no screen while all is well."""

_MOST_IN_FRONT, _ESCAPE_SECONDS = 4, 0.4
_LIKE = 1e-4
_WRITER_MAY_END_WITH = {0, 5}
"""5: an interface holds the lock, as it may."""
_READER_MAY_END_WITH = {0, 1}
_KEYS = [
    "m",
    "d",
    "x",
    "Escape",
    "n",
    "[",
    "]",
    "{",
    "}",
    "r",
    "R",
    "R",
    "1",
    "2",
    "3",
    "4",
    "1",
    "j",
]
_WORDS = ("nest7", "nest21 garden", "velvet window", "harbor", "barley nest40", "engine falcon")


@dataclass(frozen=True, slots=True)
class Place:
    """The memory, and the folder below which the program keeps everything."""

    root: Path
    home: Path

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

    def memtui(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the memory to its end."""
        return subprocess.run(
            [sys.executable, "-m", "memtui", *command, "--root", str(self.root)],
            env=self.environment,
            cwd=self.root,
            capture_output=True,
            text=True,
        )


@dataclass
class Actor(threading.Thread):
    """Somebody who goes on with something until told to stop, and notes what went wrong."""

    place: Place
    seed: int
    stopping: threading.Event
    failed: list[str] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        super().__init__(name=type(self).__name__, daemon=True)
        self.random = random.Random(f"{self.seed} {type(self).__name__}")

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        """Act until told to stop; an exception is a failure, too."""
        while not self.stopping.is_set():
            try:
                self.act()
            except Exception as error:
                told = str(error).splitlines()[0] if str(error) else ""
                print(error, file=sys.stderr)
                self.failed.append(f"{self.name}: {type(error).__name__}: {told}")

    def act(self) -> None:
        """Do it once."""
        raise NotImplementedError


class Writer(Actor):
    """`memtui index` again and again, anew from the files at times."""

    def act(self) -> None:
        """Index once."""
        force = ["--force"] if self.random.random() < 0.25 else []
        ended = self.place.memtui("index", "--json", *force)
        self.counted[f"index ended with {ended.returncode}"] += 1
        if ended.returncode not in _WRITER_MAY_END_WITH:
            said = (ended.stdout[-300:] + ended.stderr[-300:]).strip()
            self.failed.append(f"index ended with {ended.returncode}: {said}")
        self.stopping.wait(self.random.uniform(0, 2))


class Reader(Actor):
    """`memtui search --json` again and again; every answer is held against itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        choice = EmbeddingSettings(provider=PROVIDER)
        self._provider: Provider = registration_of(PROVIDER).create(choice)
        self.generations: list[int] = []

    def act(self) -> None:
        """Search once and check the answer."""
        query = self.random.choice(_WORDS)
        ended = self.place.memtui("search", query, "--json", "-n", "12")
        self.counted[f"search ended with {ended.returncode}"] += 1
        if ended.returncode not in _READER_MAY_END_WITH:
            self.failed.append(f"search ended with {ended.returncode}: {ended.stdout[-300:]}")
            return
        document = json.loads(ended.stdout)
        self.failed += [f"search {query!r}: {wrong}" for wrong in self.contradictions(document)]
        self.counted["hits checked"] += len(document["hits"])
        if document["index"]["generation"] != document["generation"]:
            self.counted["swapped while it was searched"] += 1

    def contradictions(self, document: Mapping[str, Any]) -> list[str]:
        """What in an answer can only come from two generations, or from two states of one file."""
        wrong = []
        generation = document["generation"]
        if self.generations and generation < self.generations[-1]:
            wrong.append(f"generation {generation} after {self.generations[-1]}")
        self.generations.append(generation)
        query = self._provider.embed_query(document["query"])
        of_file: dict[str, set[tuple[str, int]]] = {}
        for hit in document["hits"]:
            told = told_by(hit["snippet"].strip())
            if hit["path"] == "MEMORY.md":
                continue
            if told is None:
                wrong.append(f"{hit['citation']} is no line that was written: {hit['snippet']!r}")
                continue
            of_file.setdefault(hit["path"], set()).add(told[:2])
            wrong += self._mixed(hit, told, query)
        for path, rounds in of_file.items():
            if len(rounds) > 1:
                wrong.append(f"{path} is shown in two states: {sorted(rounds)}")
        return wrong

    def _mixed(self, hit: Mapping[str, Any], told: tuple[str, int, int], query: Any) -> list[str]:
        """Whether id, lines, text and vector of a result belong to one row."""
        wrong = []
        text = hit["snippet"].strip()
        # The last line of a file ends with a line break, which belongs to its chunk.
        texts = {text, f"{text}\n"}
        ids = {
            chunk_id(
                hit["source"],
                hit["path"],
                hit["start_line"],
                hit["end_line"],
                text_hash(one),
                hit["model"],
            )
            for one in texts
        }
        if hit["chunk_id"] not in ids or hit["start_line"] != told[2] + 1:
            wrong.append(f"{hit['citation']}: id and text are of different chunks")
        vector = hit["legs"].get("vector")
        if vector is not None:
            made = self._provider.embed_documents(sorted(texts))
            cosines = [float(np.dot(query, one)) for one in np.asarray(made)]
            if min(abs(cosine - vector["raw"]) for cosine in cosines) > _LIKE:
                wrong.append(f"{hit['citation']}: cosine {vector['raw']:.4f}, not {cosines}")
        return wrong


class Interface(Actor):
    """A terminal interface with somebody who types, and leaves and comes back at times."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.pace = threading.Event()
        """Never set: a pause between two keys, as a person makes it."""

    def act(self) -> None:
        """Open it, type for a while, quit."""
        with self.opened() as window:
            window.until(lambda shown: " files " in shown, "the index on the status line")
            for _ in range(self.random.randrange(10, 60)):
                if self.stopping.is_set():
                    break
                self.type_something(window)
            self.leave(window)
        self.counted["sessions"] += 1
        # Long enough for nobody to hold the lock at times.
        self.stopping.wait(self.random.uniform(0, 15))

    def opened(self) -> Any:
        """The program in a terminal of its own."""
        more = self.place.environment
        return terminal(str(self.place.root), home=self.place.home, size=(120, 40), more=more)

    def type_something(self, window: Terminal) -> None:
        """Type a query or press some keys, and look at the screen."""
        if self.random.random() < 0.4:
            window.press("1")
            window.press("/")
            window.press("C-u")
            window.type(self.random.choice(_WORDS))
            window.press("Escape")
        else:
            key = self.random.choice(_KEYS)
            window.press(key)
            if key == "R":
                # It asks before it begins.
                window.press("y")
        self.counted["keys or queries"] += 1
        self.stopping.wait(self.random.uniform(0, 0.6))
        self.look(window.screen())

    def look(self, shown: str) -> None:
        """Note an error that is on the screen."""
        self.counted["screens looked at"] += 1
        found = ERRORS.search(shown)
        if found is not None:
            lines = [one.strip() for one in shown.splitlines() if found[0] in one]
            self.failed.append(f"on a screen: {lines[0]}")

    def leave(self, window: Terminal) -> None:
        """Close what is open in front and quit; any other exit code than 0 is a failure."""
        for _ in range(_MOST_IN_FRONT):
            # With the next key at once, Escape would be Alt.
            window.press("Escape")
            self.pace.wait(_ESCAPE_SECONDS)
        window.press("C-q")
        code = window.wait_for_end()
        if code:
            self.failed.append(f"an interface ended with {code}: {window.screen().strip()[-500:]}")
