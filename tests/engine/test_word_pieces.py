"""The word pieces that an index keeps beside the vectors: made once, cached, switched off."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memtui.index import pieces
from memtui.index.database import Recipe
from memtui.index.generations import LiveIndex
from memtui.index.index_rows import counts
from memtui.memory.passages import passages
from memtui.retrieval.passages import fetch_pieces
from tests.support.embedding import HashedProvider
from tests.support.indexing import Workspace

NOTE = "# Trunk\n\nThe uplink carries a trunk. VLAN 20 is for cameras.\n\n- a spare port\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    made = Workspace(tmp_path / "notes", tmp_path / "index", HashedProvider(word_pieces=True))
    made.write("a.md", NOTE)
    made.write("b.md", "Bravo.\n")
    made.write("c.md", "...\n")
    yield made
    made.close()


def switch(workspace: Workspace, *, on: bool) -> None:
    identity = dataclasses.replace(workspace.provider.identity, word_pieces=on)
    workspace.recipe = Recipe(identity)


def kept(workspace: Workspace) -> dict[str, list[list[int]]]:
    """The numbers of the words' letters, by the text of the chunk, for each passage."""
    live = LiveIndex(workspace.folder)
    connection = live.connection()
    texts = {
        int(str(row)): str(text) for row, text in connection.execute("SELECT id, text FROM chunks")
    }
    made = fetch_pieces(connection, {row: len(passages(text)) for row, text in texts.items()})
    told = counts(connection)
    size = connection.execute("SELECT sum(length(pieces)) FROM pieces").get
    assert (told["pieces"], told["piece_bytes"]) == (len(made), size or 0)
    live.close()
    return {
        texts[row]: [np.nonzero(rows)[1].tolist() for rows in parts] for row, parts in made.items()
    }


def test_each_passage_keeps_its_pieces(workspace: Workspace) -> None:
    workspace.sync()
    assert kept(workspace) == {
        NOTE: [[1, 5, 3, 6, 7, 1, 6], [4, 2, 2, 3, 8, 1], [1, 5, 4]],
        "Bravo.\n": [[6]],
        "...\n": [],
    }
    # A changed note takes its own with it.
    workspace.write("b.md", "Bravo bravo.\n")
    workspace.sync()
    assert kept(workspace)["Bravo bravo.\n"] == [[5, 6]]
    assert len(kept(workspace)) == 3


def test_they_are_made_once(workspace: Workspace) -> None:
    workspace.sync()
    before, cut = kept(workspace), workspace.provider.cut
    for on in (False, True):
        switch(workspace, on=on)
        workspace.sync()
        assert kept(workspace) == (before if on else {})
    workspace.rebuild()
    assert (kept(workspace), workspace.provider.cut) == (before, cut)


def test_vectors_of_a_cache_without_pieces_get_them(workspace: Workspace) -> None:
    switch(workspace, on=False)
    workspace.sync()
    calls = workspace.provider.calls
    switch(workspace, on=True)
    workspace.rebuild()
    assert len(kept(workspace)) == 3
    assert workspace.provider.calls == calls


def test_a_large_index_keeps_none(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.sync()
    monkeypatch.setattr(pieces, "MOST_CHUNKS", 3)
    workspace.sync()
    assert len(kept(workspace)) == 3
    workspace.write("d.md", "Delta.\n")
    workspace.sync()
    assert kept(workspace) == {}


def test_pieces_of_other_passages_are_made_anew(workspace: Workspace) -> None:
    """The cache may hold those of another version's passages, or damaged ones."""
    workspace.sync()
    before, identity = kept(workspace), workspace.provider.identity
    hashes = [
        str(row[0])
        for row in LiveIndex(workspace.folder).connection().execute("SELECT hash FROM chunks")
    ]
    cached = workspace.cache.get_pieces(identity, hashes)
    workspace.cache.put_pieces(identity, {name: one[:-1] + b"!" for name, one in cached.items()})
    cut = workspace.provider.cut
    workspace.rebuild()
    assert kept(workspace) == before
    assert workspace.provider.cut == cut + 3
