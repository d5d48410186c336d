"""A chunk that a model does not take whole is split, and every part keeps the chunk's lines."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtui.embedding.limits import byte_size
from memtui.embedding.provider import identity_of
from memtui.engine.own_reading import indexed_note
from memtui.index.database import open_database
from memtui.index.reader import LiveIndex
from memtui.index.schema import INPUT_BYTES, Recipe
from memtui.index.writer import within_limit
from memtui.memory.documents import text_hash
from memtui.model import ChunkSpan
from tests.support.embedding import HashedProvider
from tests.support.indexing import Workspace

LIMIT = 100
TEXT = "\n".join(f"line {number} of 京都の長いノート about the garden" for number in range(20))


def span(text: str, start: int = 3, end: int = 9) -> ChunkSpan:
    return ChunkSpan(start, end, text, text_hash(text))


def limited(limit: int | None = LIMIT) -> Recipe:
    return Recipe(identity_of(HashedProvider())._replace(input_bytes=limit))


@given(st.text(max_size=300), st.integers(4, 60))
def test_parts_are_within_the_limit_and_lose_nothing(text: str, limit: int) -> None:
    parts = within_limit([span(text)], limit)
    assert all(byte_size(part.text) <= limit for part in parts)
    assert all((part.start_line, part.end_line) == (3, 9) for part in parts)
    assert all(part.hash == text_hash(part.text) for part in parts)
    assert len({part.hash for part in parts}) == len(parts)
    if byte_size(text) <= limit:
        assert parts == [span(text)]
    for part in parts:
        assert part.text in text


def test_without_a_limit_nothing_is_split() -> None:
    assert within_limit([span(TEXT)], None) == [span(TEXT)]


def test_blank_and_equal_parts_are_left_out() -> None:
    assert [part.text for part in within_limit([span("ab" * 4 + " " * 8)], 4)] == ["abab"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def test_an_index_holds_the_parts_as_rows_of_their_own(folder: Path) -> None:
    workspace = Workspace(folder / "notes", folder / "index", recipe=limited())
    try:
        workspace.write("long.md", TEXT)
        workspace.write("short.md", "short\n")
        workspace.sync()
        contents = workspace.contents()
        parts = [row for row in contents.chunks.values() if row[0] == "long.md"]
        assert len(parts) == len(within_limit([span(TEXT)], LIMIT)) > 9
        assert {row[1:3] for row in parts} == {(1, 20)}
        assert len(contents.vectors) == len(contents.chunks) == len(parts) + 1
        live = LiveIndex(workspace.folder)
        assert indexed_note(live.connection(), "long.md")[1] == TEXT
        live.close()
    finally:
        workspace.close()


def test_another_limit_makes_the_index_anew_and_an_older_index_has_none(folder: Path) -> None:
    workspace = Workspace(folder / "notes", folder / "index", recipe=limited(None))
    try:
        workspace.write("long.md", TEXT)
        workspace.sync()
        generation = workspace.folder.current()
        assert generation is not None
        connection = open_database(workspace.folder.path(generation))
        connection.execute("DELETE FROM meta WHERE key = ?", (INPUT_BYTES,))
        connection.close()
        workspace.sync()
        assert workspace.folder.current() == generation, "nothing has changed for this model"
        workspace.recipe = limited()
        workspace.sync()
        assert workspace.folder.current() != generation
        assert len(workspace.contents().chunks) > 1
    finally:
        workspace.close()


notes = st.dictionaries(
    st.sampled_from(["a.md", "b.md", "MEMORY.md"]),
    st.one_of(
        st.integers(0, 12).map(lambda count: "long line of 京都 text\n" * count),
        st.text(st.characters(codec="utf-8"), max_size=200),
        st.integers(1, 3).map(lambda count: "x" * count * 900),
    ),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(notes, min_size=1, max_size=3))
def test_a_sync_makes_what_a_rebuild_would(states: list[dict[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workspace = Workspace(folder / "notes", folder / "index", recipe=limited())
        try:
            for state in states:
                for path in workspace.root.glob("*.md"):
                    path.unlink()
                for path_name, text in state.items():
                    workspace.write(path_name, text)
                workspace.sync()
            assert workspace.contents() == workspace.fresh(folder / "fresh")
        finally:
            workspace.close()
