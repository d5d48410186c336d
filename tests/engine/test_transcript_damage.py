"""Planted transcripts of every program with every damage: the index holds the known answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from memtui.index.schema import Recipe
from memtui.model.conversations import TranscriptKind
from tests.support.conversations import Homes
from tests.support.indexing import Workspace
from tests.support.transcript_corpus import LIMIT, Damage, Planted, plant


def put(homes: Homes, planted: Planted, data: bytes) -> Path:
    match planted.kind:
        case TranscriptKind.OPENCLAW:
            return homes.openclaw(planted.name, data)
        case TranscriptKind.CLAUDE_CODE:
            return homes.claude(planted.name, data)
        case TranscriptKind.CODEX:
            return homes.codex(planted.name, data)


def said(workspace: Workspace) -> list[str]:
    """The lines of the index; its chunks do not overlap."""
    chunks = workspace.contents().chunks.values()
    ordered = sorted(chunks, key=lambda row: (row[1], row[2]))
    return [text for row in ordered for text in str(row[3]).split("\n")]


@pytest.mark.parametrize("kind", list(TranscriptKind))
@pytest.mark.parametrize("pieces", [1, 9])
def test_what_was_planted_is_what_the_index_holds(
    tmp_path: Path, kind: TranscriptKind, pieces: int
) -> None:
    """Read at once, or while it is written piece by piece with a sync after each."""
    planted = plant(kind, 7, turns=30, damage=tuple(Damage))
    homes = Homes(tmp_path / "homes")
    root = tmp_path / "notes"
    scope = homes.scope(root, "openclaw", "claude-code", "codex", max_line_bytes=LIMIT)
    recipe = Recipe(None, chunk_tokens=400, chunk_overlap=0)
    workspace = Workspace(root, tmp_path / "index", recipe=recipe, transcripts=scope)
    file = put(homes, planted, b"")
    step = -(-len(planted.data) // pieces)
    for start in range(0, len(planted.data), step):
        with file.open("ab") as stream:
            stream.write(planted.data[start : start + step])
        workspace.sync()
    assert said(workspace) == [text for _, text, _ in planted.lines]
    (row,) = workspace.contents().transcripts.values()
    facts = row.facts
    assert facts.kind is kind
    assert facts.messages == planted.messages
    assert dict(facts.left_out) == dict(planted.dropped)
    assert facts.malformed == planted.malformed + planted.too_long
    # One that is recorded twice is counted where it stands.
    assert facts.calls >= len(planted.calls) > 0
    times = [when for _, _, when in planted.lines if when]
    assert facts.started_ms <= min(times) <= max(times) <= facts.ended_ms
    workspace.close()
    held = b"".join(path.read_bytes() for path in (tmp_path / "index").rglob("*") if path.is_file())
    assert planted.secrets
    assert not [secret for secret in planted.secrets if secret.encode() in held]
