"""Compare the screens of scenes with the program, or write them anew."""

from __future__ import annotations

import asyncio
import difflib
import os
import sys
from collections.abc import Sequence

from tests.tui.golden import FOLDER, play, scenes_in


def main(arguments: Sequence[str]) -> int:
    """Play the scenes that are named, all without a name; 1 when a screen differs."""
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    update = "--update" in arguments
    words = [word for word in arguments if not word.startswith("-")]
    differing = 0
    for path in sorted(FOLDER.glob("*.txt")):
        scenes = scenes_in(path)
        for scene in scenes:
            if words and not any(word in f"{path.stem} {scene.name}" for word in words):
                continue
            before = scene.text()
            scene.screens = asyncio.run(play(scene))
            if scene.text() != before:
                differing += 1
                lines = (before.splitlines(), scene.text().splitlines())
                print(
                    f"{path.stem}: {scene.name}",
                    *difflib.unified_diff(*lines, lineterm="", n=1),
                    sep="\n",
                )
        if update:
            path.write_text("\n".join(scene.text() for scene in scenes), encoding="utf-8")
    return int(bool(differing) and not update)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
