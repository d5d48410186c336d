"""Browsing the index that the real OpenClaw made: what it holds is told, and no trace is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from memtui.engine import Engine
from memtui.engine.foreign import find_target
from memtui.index.foreign.opening import open_foreign
from memtui.index.foreign.rows import read_vectors
from memtui.model import Chunk, Reason
from memtui.model.browsing import CareRule, FileState
from tests.support.openclaw import (
    CHUNKS,
    DIMS,
    FILES,
    RELEASES,
    State,
    edit,
    hash_tree,
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


def test_everything_is_told_and_nothing_is_changed(state: State) -> None:
    before = hash_tree(state.folder)
    with opened(state) as engine:
        files, chunks = engine.browse.files(), all_chunks(engine)
        assert len(files) == FILES
        assert {file.state for file in files} == {FileState.CURRENT}
        assert sum(file.chunks for file in files) == len(chunks) in CHUNKS.values()
        assert [file.path for file in files] == sorted(file.path for file in files)
        for file in files:
            assert engine.browse.file_of(file.path) == state.workspace / file.path
        days = engine.browse.days()
        assert sum(len(day.paths) for day in days) == sum(file.day is not None for file in files)
        record = engine.browse.chunk_record(chunks[0].id)
        assert record is not None
        assert (record.dimensions, record.vector_state) == (DIMS, Reason.OK)
        assert engine.browse.neighbours(chunks[0].id, 3).by_vector
        assert engine.browse.recalled(["OAuth refresh token"])
        engine.browse.care()
        assert engine.browse.chunk_record("0" * 64) is None
    assert hash_tree(state.folder) == before


def test_vectors_and_terms_are_those_of_the_tables(engine: Engine, state: State) -> None:
    found = open_foreign(state.database)
    table = found.layout.chunks
    held = found.connection.execute(f"SELECT rowid, id FROM {table}").fetchall()
    rows = {int(str(rowid)): str(name) for rowid, name in held}
    vectors = {
        rows[int(rowid)]: vector
        for batch in read_vectors(found.connection, found.layout)
        for rowid, vector in zip(batch.rowids, batch.vectors, strict=True)
    }
    found.close()
    chunks = all_chunks(engine)
    for chunk in chunks[::9]:
        record, near = engine.browse.chunk_record(chunk.id), engine.browse.neighbours(chunk.id, 4)
        assert record is not None
        own = vectors[chunk.id]
        assert record.norm == pytest.approx(float(np.linalg.norm(own)))
        cosines = sorted(
            (
                float(own @ other / np.linalg.norm(own) / np.linalg.norm(other))
                for name, other in vectors.items()
                if name != chunk.id
            ),
            reverse=True,
        )
        expected = [max(0.0, cosine) for cosine in cosines[:4]]
        assert [one.score for one in near.by_vector] == pytest.approx(expected, abs=1e-5)
        assert record.tokens == sum(term.count for term in record.terms)
    texts = [chunk.text.lower() for chunk in chunks]
    record = engine.browse.chunk_record(chunks[0].id)
    assert record is not None
    rare = Counter({term.term: term.document_frequency for term in record.terms})
    for term in [term for term in rare if term.isascii() and term.isalpha()][:20]:
        holding = sum(term in text.replace("_", " ").replace("-", " ").split() for text in texts)
        assert rare[term] >= holding >= 0


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
