"""The state folders of OpenClaw that the pictures show, and the engine over each of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, get_args

from memtui.bus import Bus
from memtui.engine import Engine
from memtui.engine.foreign.query_vectors import load_given
from memtui.index.foreign.agents import find_target
from memtui.memory.documents import split_lines
from tests.support import recorded
from tests.support.openclaw import SIDECAR, edit, make_state
from tests.support.small_memory import write_notes

Scene = Literal["agent", "changed", "drifted"]
SCENES: tuple[Scene, ...] = get_args(Scene)
"""All as indexed; the same with one note changed since; a small index that drifted in every way."""

RELEASE = "2026.9.6"
PRESENT = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
CHANGED = "MEMORY.md"
_NEW = "memory/2026-11-16.md"
_REMOVED = "memory/database.md"
_OLDER = "memory/router.md"
_CONFIG: Mapping[Scene, str] = {
    "agent": "{memory: {search: {provider: 'openai-compatible', model: 'text-embedding-3-small'}}}",
    "changed": "{memory: {search: {provider: 'openai-compatible', model: 'text-embedding-3-small'}}}",
    "drifted": "{agents: {defaults: {memorySearch: {provider: 'ollama', model: 'bge-m3'}}}}",
}


class AgentStage:
    """Lays a scene out as `~/.openclaw`; `home` is the home folder."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._state = home / ".openclaw"
        self._given = load_given(recorded.QUERY_VECTORS)

    def open(self, scene: Scene, bus: Bus) -> Engine:
        """Lay the scene out and open the engine over it, at a clock that stands still."""
        shutil.rmtree(self._state, ignore_errors=True)
        if scene == "drifted":
            self._drifted()
        else:
            self._recorded(changed=scene == "changed")
        (self._state / "openclaw.json").write_text(_CONFIG[scene], encoding="utf-8")
        target = find_target(agent="main", index=None, workspace=None, env={}, home=self._home)
        return Engine.open_agent(target, bus=bus, env={}, vectors=self._given, now=lambda: PRESENT)

    def _recorded(self, *, changed: bool) -> None:
        """The recorded index with the notes that it was made of."""
        folder = self._state / "agents" / "main" / "agent"
        recorded.build(RELEASE, folder / "openclaw-agent.sqlite")
        rows = recorded.rows_of(RELEASE)
        for path, _, _, mtime, _ in rows["files"]:
            lines: dict[int, str] = {}
            for chunk in sorted(rows["chunks"], key=lambda chunk: -chunk[3]):
                if chunk[1] == path:
                    lines.update(enumerate(chunk[7].split("\n"), start=chunk[3]))
            text = "\n".join(lines[number] for number in range(1, max(lines) + 1))
            write_notes(self._state / "workspace", {path: text}, mtime / 1000)
        if changed:
            _edit(self._state / "workspace" / CHANGED)

    def _drifted(self) -> None:
        """The small index: a note changed, one new, one gone, a file left over, another model."""
        state = make_state(self._state, SIDECAR)
        for note in state.workspace.rglob("*.md"):
            os.utime(note, (PRESENT.timestamp() - 86_400, PRESENT.timestamp() - 86_400))
        _edit(state.workspace / CHANGED)
        write_notes(state.workspace, {_NEW: "# 2026-11-16 Monday\n"}, PRESENT.timestamp())
        (state.workspace / _REMOVED).unlink()
        edit(
            state.database,
            f"UPDATE chunks SET model = 'text-embedding-ada-002' WHERE path = '{_OLDER}'",
        )
        left = state.beside(".tmp-5f1c2a90")
        shutil.copyfile(state.database, left)
        # Its age is counted by the real clock.
        seconds = (datetime.now(UTC) - timedelta(days=3, hours=1)).timestamp()
        os.utime(left, (seconds, seconds))


def _edit(note: Path) -> None:
    """Change a note as its writer would: two lines reworded, one gone, one new, a new section."""
    lines = split_lines(note.read_text(encoding="utf-8"))
    bullets = [at for at, line in enumerate(lines) if line.startswith("- ")]
    lines[bullets[0]] = lines[bullets[0]].replace("Configured", "Set up", 1)
    lines[bullets[1]] = lines[bullets[1]].replace("the office subnet", "VLAN 20", 1)
    lines += ["", "## Later", "- The runbook was tried out on Sunday: one page is enough."]
    lines.insert(
        bullets[6], "- Decided on Monday: every follow-up has one owner, named in the note."
    )
    del lines[bullets[5]]
    write_notes(note.parent, {note.name: "\n".join(lines)}, PRESENT.timestamp() - 3_600)
