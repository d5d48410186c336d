"""A process that indexes transcripts and prints by how many bytes it grew, and the chunks.

python -m tests.support.measured_sync FOLDER
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from memtui.index.schema import Recipe
from tests.support.conversations import Homes, said
from tests.support.indexing import Workspace


def main(folder: Path) -> None:
    """Index a small transcript first, so that what is loaded once does not count."""
    small = Homes(folder / "small")
    small.openclaw("a.jsonl", said("user", "hello"))
    _sync(folder, small)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    chunks = _sync(folder, Homes(folder / "homes"))
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, chunks)


def _sync(folder: Path, homes: Homes) -> int:
    scope = homes.scope(folder / "notes", "openclaw")
    index = folder / f"index-{homes.folder.name}"
    workspace = Workspace(folder / "notes", index, recipe=Recipe(None), transcripts=scope)
    workspace.sync()
    workspace.close()
    return len(workspace.contents().chunks)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
