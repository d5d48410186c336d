"""Whatever happens to transcripts, one sync makes the index what a fresh one would be."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memtui.index.schema import Recipe
from tests.support.conversations import (
    Homes,
    asked,
    began,
    claude,
    codex,
    codex_began,
    dreaming,
    line,
    reset,
    said,
)
from tests.support.dice import examples
from tests.support.indexing import Workspace

Operation = Callable[[Workspace, Homes], None]

FILES = (
    "openclaw/agents/main/sessions/a.jsonl",
    "openclaw/agents/main/sessions/a.jsonl.reset.2026-10-01T10-00-00Z",
    "claude/projects/-garden/c.jsonl",
    "codex/sessions/2026/10/01/rollout-2026-10-01T10-00-00-x.jsonl",
    "logs/any.jsonl",
)

texts = st.sampled_from(["the gate code is 4711", "x" * 900, "路由器の設定 " * 40, "NO_REPLY", ""])
records = st.one_of(
    st.builds(said, st.sampled_from(["user", "assistant"]), texts),
    st.builds(claude, st.sampled_from(["user", "assistant"]), texts, st.integers(0, 9)),
    st.builds(codex, st.sampled_from(["user", "assistant"]), texts),
    st.sampled_from([began(), codex_began(), reset(), dreaming(), asked("gate"), b"\n", b"{cut\n"]),
    st.sampled_from(
        [b"\xff\xfe\n", b"\0\0\n", b"[1]\n", line({"type": "message"}), b"3" * 3000 + b"\n"]
    ),
)
"""One line each, most of them of one of the programs."""
several = st.lists(records, max_size=8).map(b"".join)
many = st.lists(records, max_size=30).map(b"".join)
files = st.sampled_from(FILES)


def writing(path: str, content: bytes) -> Operation:
    def apply(workspace: Workspace, homes: Homes) -> None:
        homes.write(path, content)

    return apply


def appending(path: str, content: bytes, cut: int) -> Operation:
    """Append, perhaps without the end of the last line."""

    def apply(workspace: Workspace, homes: Homes) -> None:
        target = homes.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("ab") as stream:
            stream.write(content[: len(content) - cut] if cut else content)

    return apply


def truncating(path: str, size: int) -> Operation:
    def apply(workspace: Workspace, homes: Homes) -> None:
        target = homes.folder / path
        if target.exists():
            os.truncate(target, min(size, target.stat().st_size))

    return apply


def flipping(path: str, place: int) -> Operation:
    """Change one byte in the middle."""

    def apply(workspace: Workspace, homes: Homes) -> None:
        target = homes.folder / path
        if target.exists() and target.stat().st_size:
            content = bytearray(target.read_bytes())
            content[place % len(content)] ^= 1
            with target.open("r+b") as stream:
                stream.write(content)

    return apply


def rotating(path: str) -> Operation:
    """Put another file with the same content, or more of it, in its place."""

    def apply(workspace: Workspace, homes: Homes) -> None:
        target = homes.folder / path
        if target.exists():
            content = target.read_bytes()
            target.unlink()
            target.write_bytes(content + said("user", "after the rotation"))

    return apply


def removing(path: str) -> Operation:
    return lambda workspace, homes: (homes.folder / path).unlink(missing_ok=True)


def recording(content: bytes, start: int, packed: bool) -> Operation:
    """Write events into the agent's database, over those that are there from `start` on."""
    events = content.splitlines()

    def apply(workspace: Workspace, homes: Homes) -> None:
        homes.events(*events, start=start, packed=lambda number: packed, session="e1")

    return apply


def syncing(workspace: Workspace, homes: Homes) -> None:
    workspace.sync()


def rebuilding(workspace: Workspace, homes: Homes) -> None:
    workspace.rebuild()


operations = st.one_of(
    st.builds(appending, files, several, st.sampled_from([0, 0, 0, 1, 5])),
    st.builds(appending, st.just(FILES[0]), several, st.sampled_from([0, 0, 0, 1, 5])),
    st.builds(writing, files, many),
    st.builds(truncating, files, st.integers(0, 3000)),
    st.builds(flipping, files, st.integers(0, 5000)),
    st.builds(rotating, files),
    st.builds(removing, files),
    st.builds(recording, several, st.sampled_from([1, 5, 9]), st.booleans()),
    st.sampled_from([syncing, syncing, rebuilding]),
    st.just(syncing),
)


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(operations, max_size=14), st.sampled_from([16, 60]))
def test_a_sync_after_any_operations_equals_a_fresh_index(
    steps: list[Operation], tokens: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        homes = Homes(folder / "homes")
        scope = homes.scope(
            folder / "notes",
            *("openclaw", "claude-code", "codex"),
            paths=(str(homes.folder / "logs"),),
            max_line_bytes=2048,
        )
        recipe = Recipe(None, chunk_tokens=tokens, chunk_overlap=tokens // 4)
        workspace = Workspace(folder / "notes", folder / "index", recipe=recipe, transcripts=scope)
        try:
            workspace.write("MEMORY.md", "# The garden\n")
            for step in steps:
                step(workspace, homes)
            workspace.sync()
            assert workspace.contents() == workspace.fresh(folder / "fresh")
        finally:
            workspace.close()
