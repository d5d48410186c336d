"""Browsing the index that the real OpenClaw made: what it holds is told, and no trace is left."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memtui.engine import Engine
from memtui.engine.foreign import find_target
from memtui.index.foreign.opening import open_foreign
from memtui.model import Chunk, Reason
from memtui.model.browsing import CareRule, FileState
from tests.support.openclaw import (
    RELEASES,
    State,
    edit,
    make_state,
)

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


@pytest.fixture(params=RELEASES)
def state(tmp_path: Path, request: pytest.FixtureRequest) -> State:
    return make_state(tmp_path / ".openclaw", str(request.param))


def opened(state: State, workspace: Path | None = None) -> Engine:
    target = find_target(
        agent="main",
        index=None,
        workspace=workspace,
        env={"OPENCLAW_STATE_DIR": str(state.folder)},
        home=state.folder.parent,
    )
    return Engine.open_agent(target, now=lambda: NOW, env={}, examine=False)


@pytest.fixture
def engine(state: State) -> Iterator[Engine]:
    with opened(state) as found:
        yield found


def all_chunks(engine: Engine) -> list[Chunk]:
    return [chunk for file in engine.browse.files() for chunk in engine.browse.chunks_of(file.path)]


def test_what_changed_is_told_file_by_file(state: State) -> None:
    note = state.workspace / "memory/router.md"
    note.write_text("# Router\n\nAnother text.\n", "utf-8")
    (state.workspace / "memory/auth.md").unlink()
    (state.workspace / "memory/new.md").write_text("# New\n\nNot indexed.\n", "utf-8")
    (state.workspace / "memory/link.md").symlink_to(note)
    with opened(state) as engine:
        files = {file.path: file for file in engine.browse.files()}
    assert files["memory/router.md"].state is FileState.CHANGED
    assert files["memory/auth.md"].state is FileState.STALE
    new, link = files["memory/new.md"], files["memory/link.md"]
    assert (new.state, new.reason) == (FileState.NOT_INDEXED, Reason.NOT_YET_INDEXED)
    assert (link.state, link.reason) == (FileState.NOT_INDEXED, Reason.SYMLINK)
    assert files["memory/router.md"].detail


def test_without_a_workspace_the_rules_over_notes_say_so(state: State) -> None:
    moved = state.folder.parent / "alone.sqlite"
    moved.write_bytes(state.database.read_bytes())
    target = find_target(agent=None, index=moved, workspace=None, env={}, home=state.folder)
    with Engine.open_agent(target, now=lambda: NOW, env={}, examine=False) as engine:
        files, report = engine.browse.files(), engine.browse.care()
        assert engine.browse.file_of(files[0].path) is None
        assert len(engine.browse.chunks_of(files[0].path)) == files[0].chunks
    assert all("workspace is not known" in file.detail for file in files)
    assert set(report.skipped) == set(CareRule) - {CareRule.NEAR_DUPLICATE}
    assert report.looked_at[CareRule.NEAR_DUPLICATE] > 0


def test_a_chunk_without_a_vector_says_so(state: State) -> None:
    with opened(state) as engine:
        chunk = all_chunks(engine)[0]
    empty = "'[]'" if _table(state) == "chunks" else "x''"
    edit(state.database, f"UPDATE {_table(state)} SET embedding = {empty}")
    with opened(state) as engine:
        record, near = engine.browse.chunk_record(chunk.id), engine.browse.neighbours(chunk.id)
    assert record is not None
    assert (record.norm, record.vector_state) == (None, Reason.NO_VECTOR)
    assert (near.by_vector, near.vector_state) == ((), Reason.NO_VECTOR)
    assert near.by_words


def _table(state: State) -> str:
    found = open_foreign(state.database)
    try:
        return found.layout.chunks
    finally:
        found.close()
