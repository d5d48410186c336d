"""Notes that change all the time, each telling in every line whose it is and of which round."""

from __future__ import annotations

import os
import random
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path

PARTS = 3
TOKENS = "24"
"""The size of a chunk, in tokens, with which every line of a note is a chunk of its own."""

_WORDS = [
    "anchor",
    "barley",
    "candle",
    "drawer",
    "engine",
    "falcon",
    "garden",
    "harbor",
    "island",
    "jacket",
    "kettle",
    "ladder",
    "meadow",
    "needle",
    "orchard",
    "pepper",
    "quarry",
    "ribbon",
    "saddle",
    "timber",
    "velvet",
    "window",
]
_LINE = re.compile(r"(nest\d+) (\d+) (\d) ")
_PAUSE = 0.4


def line(name: str, round_: int, part: int) -> str:
    """One line of a note; each is a chunk. The same name, round and part give the same line."""
    chosen = random.Random(f"{name} {round_} {part}").sample(_WORDS, 9)
    return f"{name} {round_} {part} {' '.join(chosen)}"


def told_by(text: str) -> tuple[str, int, int] | None:
    """Name, round and part of a line; `None` when it is not as it was written."""
    found = _LINE.match(text)
    if found is None:
        return None
    told = found[1], int(found[2]), int(found[3])
    return told if text.strip() == line(*told) else None


@dataclass
class Editor(threading.Thread):
    """Creates, edits, renames, swaps and deletes notes until it is told to stop."""

    root: Path
    seed: int
    stopping: threading.Event
    notes: int = 60
    done: dict[str, int] = field(default_factory=dict)
    """How often each kind of edit was made."""

    def __post_init__(self) -> None:
        super().__init__(name="editor", daemon=True)
        self._random = random.Random(self.seed)
        self._round = 0
        (self.root / "memory").mkdir(parents=True, exist_ok=True)
        (self.root / "MEMORY.md").write_text("- The nests are numbered.\n", encoding="utf-8")
        for number in range(self.notes):
            self._write(self._path(number), f"nest{number}")

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        """Edit at random intervals."""
        kinds = (self.edit, self.edit, self.save_as_editors_do, self.rename, self.swap, self.delete)
        while not self.stopping.wait(self._random.uniform(0, 2 * _PAUSE)):
            kind = self._random.choice((*kinds, *(self.create,) * 4, self.edit_many))
            kind()
            self.done[kind.__name__] = self.done.get(kind.__name__, 0) + 1

    def create(self) -> None:
        """Write a note where one may be or not."""
        number = self._random.randrange(self.notes)
        self._write(self._path(number), f"nest{number}")

    def edit(self) -> None:
        """Write a note anew, into the file itself."""
        path = self._any()
        if path is not None:
            self._write(path, f"nest{self._random.randrange(self.notes)}")

    def edit_many(self) -> None:
        """Write many notes at once, as a `git checkout` does."""
        for _ in range(20):
            self.edit()

    def save_as_editors_do(self) -> None:
        """Write beside a note and put that in its place."""
        path = self._any()
        if path is not None:
            beside = path.with_name(f".{path.name}.swp")
            self._write(beside, path.stem)
            os.replace(beside, path)

    def rename(self) -> None:
        """Give a note another name, perhaps one that is taken."""
        path = self._any()
        if path is not None:
            os.replace(path, self._path(self._random.randrange(self.notes)))

    def swap(self) -> None:
        """Let two notes change their places."""
        one, other = self._any(), self._any()
        if one is not None and other is not None and one != other:
            beside = one.with_name(".swapping")
            os.replace(one, beside)
            os.replace(other, one)
            os.replace(beside, other)

    def delete(self) -> None:
        """Remove a note."""
        path = self._any()
        if path is not None:
            path.unlink()

    def _any(self) -> Path | None:
        present = sorted((self.root / "memory").glob("*.md"))
        return self._random.choice(present) if present else None

    def _path(self, number: int) -> Path:
        return self.root / "memory" / f"nest{number}.md"

    def _write(self, path: Path, name: str) -> None:
        self._round += 1
        lines = [line(name, self._round, part) for part in range(PARTS)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
