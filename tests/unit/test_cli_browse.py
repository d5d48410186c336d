"""`memtui care`, `memtui chunk`, and the filters of `memtui search` as options."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memtui.memory.workspace import workspace_id
from memtui.settings.storage import StateFolder, history_name
from tests.support.command_line import Run, command_line, own_home, set_up
from tests.support.embedding import registered_hashed
from tests.support.openclaw import RELEASES, hash_tree, make_state

SECRET = "sk-Zk81QpX0vT7mWb42LdYc9"
COPIED = "The pump in the cellar starts when the water in the shaft is above the float switch.\n"
NOTES = {
    "MEMORY.md": "# Memory\n\nThe router is in the hall.\n",
    "memory/2026-11-01.md": f"# November\n\n{COPIED}",
    "memory/2026-11-05.md": "# Five\n\nThe router was moved to the attic.\n",
    "memory/keys.md": f"# Keys\n\nOPENAI_API_KEY={SECRET}\n\nSee [gone](gone.md).\n",
    "memory/pump.md": f"# Pump\n\n{COPIED}\n",
    "memory/hostile.md": "# H\x1b[31m\u202e\n\nSee [[No\x1b[2Jwhere\u202e]] today.\n",
}


@pytest.fixture
def memtui(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    own_home(tmp_path, monkeypatch)
    set_up(monkeypatch, provider="hashed", fallback="none")
    root = tmp_path / "notes"
    for name, text in NOTES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.setenv("MEMTUI_ROOT", str(root))
    with registered_hashed():
        call = command_line(capsys)
        assert call("index").code == 0
        yield call


def test_a_chunk_is_shown_from_every_side_and_masked(memtui: Run, tmp_path: Path) -> None:
    document = memtui("chunk", "memory/keys.md:3", "--json").document
    record = document["record"]
    assert record["chunk"]["path"] == "memory/keys.md"
    assert (record["dimensions"], record["vector_state"]) == (64, "ok")
    assert SECRET.removeprefix("sk-").lower() not in json.dumps(document).lower()
    assert record["tokens"] == sum(term["count"] for term in record["terms"])
    assert "***" in {term["term"] for term in record["terms"]}
    by_id = memtui("chunk", record["chunk"]["id"], "--json").document
    assert by_id == document
    assert SECRET.removeprefix("sk-").lower() not in memtui("chunk", "memory/keys.md").out.lower()


def test_a_chunk_names_the_queries_of_the_history_it_answers(memtui: Run, tmp_path: Path) -> None:
    name = history_name(workspace_id(tmp_path / "notes"))
    StateFolder().write_json(name, ["pump in the cellar", "zzz unknown words", 7, ""])
    document = memtui("chunk", "memory/pump.md", "--queries", "--json").document
    assert {one["query"]: one["rank"] for one in document["queries"]}["pump in the cellar"] <= 2
    assert "pump in the cellar" in memtui("chunk", "memory/pump.md", "--queries").out


def test_an_agents_index_is_only_read(
    memtui: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MEMTUI_ROOT")
    state = make_state(tmp_path / ".openclaw", RELEASES[-1])
    before = hash_tree(state.folder)
    care = memtui("care", "--agent", "main", "--rule", "near_duplicate", "--json")
    assert care.code == 1
    assert care.document["findings"][0]["other"]["path"]
    chunk = memtui("chunk", "--agent", "main", "memory/router.md:1", "--json").document
    assert chunk["record"]["provider"]
    masked = memtui("search", "--agent", "main", "router", "--path", "router.md", "--json")
    assert {hit["path"] for hit in masked.document["hits"]} == {"memory/router.md"}
    assert hash_tree(state.folder) == before
