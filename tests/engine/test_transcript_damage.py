"""Damaged transcripts of every program: the index and the screen hold the known answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from memtui.engine import Engine
from memtui.index.schema import Recipe
from memtui.memory.transcripts.formats import SHOWN
from memtui.model.conversations import TranscriptKind
from memtui.settings.schema import Settings
from tests.support.conversations import LIMIT, Homes, planted
from tests.support.indexing import Workspace


@pytest.mark.parametrize("kind", list(TranscriptKind))
@pytest.mark.parametrize("pieces", [1, 9])
def test_what_was_planted_is_what_the_index_holds(
    tmp_path: Path, kind: TranscriptKind, pieces: int
) -> None:
    """Read at once, or while it is written piece by piece with a sync after each."""
    data, known = planted(kind)
    homes = Homes(tmp_path / "homes")
    root = tmp_path / "notes"
    scope = homes.scope(root, "openclaw", "claude-code", "codex", max_line_bytes=LIMIT)
    recipe = Recipe(None, chunk_tokens=400, chunk_overlap=0)
    workspace = Workspace(root, tmp_path / "index", recipe=recipe, transcripts=scope)
    step = -(-len(data) // pieces)
    homes.plant(kind, b"")
    (file,) = homes.folder.rglob(known["name"])
    for start in range(0, len(data), step):
        with file.open("ab") as stream:
            stream.write(data[start : start + step])
        workspace.sync()
    # The chunks do not overlap.
    chunks = sorted(workspace.contents().chunks.values(), key=lambda row: (row[1], row[2]))
    assert [text for row in chunks for text in str(row[3]).split("\n")] == [
        text for _, text in known["lines"]
    ]
    (row,) = workspace.contents().transcripts.values()
    facts = row.facts
    assert (facts.kind, facts.messages) == (kind, known["messages"])
    assert dict(facts.left_out) == known["dropped"]
    assert facts.malformed == known["malformed"] + known["too_long"]
    # One that is recorded twice is counted where it stands.
    assert facts.calls >= len(known["calls"]) > 0
    assert facts.started_ms <= known["started_ms"] <= known["ended_ms"] <= facts.ended_ms
    workspace.close()
    held = b"".join(path.read_bytes() for path in (tmp_path / "index").rglob("*") if path.is_file())
    assert not [secret for secret in known["secrets"] if secret.encode() in held]


@pytest.mark.parametrize("kind", list(TranscriptKind))
def test_what_was_planted_is_what_is_shown(tmp_path: Path, kind: TranscriptKind) -> None:
    known, homes = planted(kind)[1], Homes(tmp_path / "homes")
    path = homes.plant(kind)
    (tmp_path / "notes").mkdir()
    chosen = {"embedding": {"provider": "none"}, "transcripts": {"max_line_bytes": LIMIT}}
    settings, data = Settings.parse(chosen), tmp_path / "data"
    with Engine.open(tmp_path / "notes", settings, data_dir=data, homes=homes.homes) as engine:
        calls = sorted(engine.conversations.memory_calls(), key=lambda call: call.line)
        (listing,) = engine.conversations.listings()
        conversation = engine.conversations.read(path)
        wholes = list(conversation.wholes())
    assert conversation.listing == listing
    assert [
        [
            *(call.line, call.tool, call.query, call.answer_line),
            None if call.returned is None else [place.path for place in call.returned],
        ]
        for call in calls
    ] == known["calls"]
    assert listing.calls == len(calls)
    assert (
        len(conversation.malformed) == listing.malformed == known["malformed"] + known["too_long"]
    )
    assert [turn.text[:SHOWN] for turn in wholes] == [turn.text for turn in conversation.turns]
    assert [turn.line for turn in wholes] == sorted(turn.line for turn in wholes)
    shown = repr([calls, listing, conversation.turns, wholes, conversation.malformed])
    assert not [secret for secret in known["secrets"] if secret in shown]
