"""Notes that change all the time, each telling in every line whose it is and of which round."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

PARTS = 3
TOKENS = "24"
"""The size of a chunk, in tokens, with which every line of a note is a chunk of its own."""
_WORDS = (
    "anchor barley candle drawer engine falcon garden harbor island jacket kettle ladder "
    "meadow needle orchard pepper quarry ribbon saddle timber velvet window"
).split()
_LINE = re.compile(r"(nest\d+) (\d+) (\d) ")


def line(name: str, round_: int, part: int) -> str:
    """One line of a note; each is a chunk. The same name, round and part give the same line."""
    chosen = random.Random(f"{name} {round_} {part}").sample(_WORDS, 9)
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
