"""Whatever happens to transcripts, one sync makes the index what a fresh one would be."""

from __future__ import annotations

import os
import tempfile
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memtui.index.database import Recipe
from tests.support.conversations import (
    Homes,
    append,
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


class Step(NamedTuple):
    """Something that is done to a transcript, to an agent's database or to the index."""

    action: str
    path: str = ""
    content: bytes = b""
    number: int = 0


def take(step: Step, workspace: Workspace, homes: Homes) -> None:
    """Do one step; what takes a file is left out where there is none."""
    target, number = homes.folder / step.path, step.number
    match step.action:
        case "write":
            homes.write(step.path, step.content)
        case "append":
            # Perhaps without the end of the last line.
            target.parent.mkdir(parents=True, exist_ok=True)
            append(target, step.content[: len(step.content) - number])
        case "truncate" if target.exists():
            os.truncate(target, min(number, target.stat().st_size))
        case "flip" if target.exists() and target.stat().st_size:
            content = bytearray(target.read_bytes())
            content[number % len(content)] ^= 1
            with target.open("r+b") as stream:
                stream.write(content)
        case "rotate" if target.exists():
            # Another file with the same content and more takes its place.
            before = target.read_bytes()
            target.unlink()
            target.write_bytes(before + said("user", "after the rotation"))
        case "remove":
            target.unlink(missing_ok=True)
        case "record" | "record packed":
            # Over the events that are there from the number on.
            is_packed = step.action == "record packed"
            events = step.content.splitlines()
            homes.events(*events, start=number, packed=lambda _: is_packed, session="e1")
        case "sync":
            workspace.sync()
        case "rebuild":
            workspace.rebuild()


cuts = st.sampled_from([0, 0, 0, 1, 5])
recordings = st.sampled_from(["record", "record packed"])
steps = st.one_of(
    st.builds(Step, st.just("append"), files, several, cuts),
    st.builds(Step, st.just("append"), st.just(FILES[0]), several, cuts),
    st.builds(Step, st.just("write"), files, many),
    st.builds(Step, st.just("truncate"), files, number=st.integers(0, 3000)),
    st.builds(Step, st.just("flip"), files, number=st.integers(0, 5000)),
    st.builds(Step, st.just("rotate"), files),
    st.builds(Step, st.just("remove"), files),
    st.builds(Step, recordings, content=several, number=st.sampled_from([1, 5, 9])),
    st.sampled_from([Step("sync"), Step("sync"), Step("rebuild")]),
    st.just(Step("sync")),
)


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=14), st.sampled_from([16, 60]))
def test_a_sync_after_any_steps_equals_a_fresh_index(taken: list[Step], tokens: int) -> None:
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
        made = Workspace(folder / "notes", folder / "index", recipe=recipe, transcripts=scope)
        with closing(made) as workspace:
            workspace.write("MEMORY.md", "# The garden\n")
            for step in taken:
                take(step, workspace, homes)
            workspace.sync()
            assert workspace.contents() == workspace.fresh(folder / "fresh")
