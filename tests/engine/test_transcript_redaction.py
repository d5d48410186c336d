"""Which credentials the index has masked, by setting and profile; what is shown has more masked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from memtui.cli.browse import masked_record
from memtui.engine import Engine
from memtui.errors import Cancelled
from memtui.memory.transcripts.generated import normalise
from memtui.memory.transcripts.openclaw_files import RULES
from memtui.model import Ranked
from memtui.ranking.mmr import snippet_text
from memtui.ranking.profiles import PROFILES
from memtui.report.json_text import document_text
from memtui.report.search_json import hit_entry
from memtui.settings.schema import Settings
from tests.support.conversations import Homes, codex, codex_began, said
from tests.support.indexing import Workspace
from tests.support.known import load

AWS = "AKIAIOSFODNN7EXAMPLE"
MASKED_AWS = "AKIAIO…MPLE"
LINE = f"the harbor key is {AWS} and OPENAI_API_KEY=sk-1234567890abcdef"
RELEASE = f"User: the harbor key is {AWS} and OPENAI_API_KEY=sk-123…cdef"
KNOWN = load("sessions")


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(tmp_path / "homes")


@contextmanager
def opened(
    tmp_path: Path, homes: Homes, profile: str = "memtui", redaction: str = "auto"
) -> Iterator[Engine]:
    (tmp_path / "notes").mkdir(exist_ok=True)
    settings = Settings.parse(
        {
            "embedding": {"provider": "none"},
            "ranking": {"profile": profile},
            "transcripts": {"sources": ["openclaw", "codex"], "redaction": redaction},
        }
    )
    data = tmp_path / "data"
    with Engine.open(tmp_path / "notes", settings, data_dir=data, homes=homes.homes) as engine:
        engine.index.sync(wait=True)
        yield engine


def held(tmp_path: Path) -> dict[str, str]:
    """The text of every transcript as the index itself holds it, by name of the file."""
    (file,) = (tmp_path / "data").rglob("index-*.db")
    connection = apsw.Connection(str(file), apsw.SQLITE_OPEN_READONLY)
    try:
        rows = connection.execute(
            "SELECT f.path, c.text FROM chunks c JOIN files f ON f.id = c.file_id ORDER BY c.id"
        ).fetchall()
    finally:
        connection.close()
    return {str(path).rpartition("/")[2]: str(text) for path, text in rows}


def shown(ranked: Ranked) -> str:
    """Everything that is shown of a list, as JSON."""
    entries = [hit_entry(hit) for hit in ranked.hits]
    return document_text({"hits": entries, "texts": [hit.chunk.text for hit in ranked.hits]})


@pytest.mark.parametrize("profile", ["openclaw-2026.4", "openclaw-2026.9"])
def test_the_index_of_a_release_holds_exactly_its_text(
    tmp_path: Path, homes: Homes, profile: str
) -> None:
    wanted: dict[str, str] = {}
    for number, case in enumerate(KNOWN["entry_cases"]):
        name = case.get("file", "x.jsonl").replace("x.jsonl", "").partition(".jsonl")[2]
        name = f"case-{number}.jsonl{name}"
        homes.openclaw(name, [json.dumps(record).encode() + b"\n" for record in case["records"]])
        is_later = case.get("since") is not None and profile == "openclaw-2026.4"
        is_archive = ".reset." in name or ".deleted." in name
        if case["content"] and not (is_later and is_archive):
            wanted[name] = case["content"]
    for number, case in enumerate(KNOWN["redaction_2026_4_26"]):
        homes.openclaw(f"masked-{number}.jsonl", said("user", case["input"]))
        # A key on lines of its own is on one line by then.
        folded = normalise(case["input"]) == case["input"]
        wanted[f"masked-{number}.jsonl"] = f"User: {case['output'] if folded else '***'}"
    with opened(tmp_path, homes, profile) as engine:
        assert not engine.index.status().errors
        assert held(tmp_path) == wanted


@pytest.mark.parametrize(
    ("profile", "redaction", "is_exact"),
    [
        ("openclaw-2026.7", "auto", True),
        ("openclaw-2026.7", "wide", False),
        ("memtui", "auto", False),
        ("memtui", "openclaw", True),
    ],
)
def test_what_a_release_lets_through_is_in_its_index_and_never_shown(
    tmp_path: Path, homes: Homes, profile: str, redaction: str, is_exact: bool
) -> None:
    homes.openclaw("a.jsonl", said("user", LINE))
    homes.codex("rollout-x.jsonl", [codex_began(), codex("user", f"harbor code {AWS}")])
    with opened(tmp_path, homes, profile, redaction) as engine:
        texts = held(tmp_path)
        assert texts["a.jsonl"] == (RELEASE if is_exact else RELEASE.replace(AWS, MASKED_AWS))
        assert AWS not in texts["rollout-x.jsonl"], "other programs have no list of their own"
        ranked = engine.search.ask("harbor")
        assert len(ranked.hits) == 2
        assert MASKED_AWS in shown(ranked)
        assert AWS not in shown(ranked)
        chunk = next(hit.chunk for hit in ranked.hits if "OPENAI" in hit.chunk.text)
        assert snippet_text(chunk) == texts["a.jsonl"], "MMR compares what the index holds"
        record = engine.browse.chunk_record(chunk.id)
        assert record is not None
        assert AWS not in document_text({"record": masked_record(record)})
        (homes.folder / "openclaw/agents/main/sessions/a.jsonl").unlink()
        assert AWS not in "".join(engine.browse.source(chunk.path).lines)


def test_another_list_has_conversations_read_anew(tmp_path: Path, homes: Homes) -> None:
    homes.openclaw("a.jsonl", said("user", LINE))
    with opened(tmp_path, homes, "openclaw-2026.7") as engine:
        before = held(tmp_path)["a.jsonl"]
        for profile in ("memtui", "openclaw-2026.7"):
            ranked = engine.search.ask("harbor", ranking=PROFILES[profile])
            assert AWS not in shown(ranked)
        engine.index.sync(wait=True)
        assert held(tmp_path)["a.jsonl"] == before, "what is chosen on screen reads nothing anew"
    with opened(tmp_path, homes, "openclaw-2026.7") as engine:
        stats = engine.index.status().last_sync
        assert stats is not None
        assert stats.chunks_written == 0
    with opened(tmp_path, homes, "openclaw-2026.7", "wide") as engine:
        assert held(tmp_path)["a.jsonl"] == RELEASE.replace(AWS, MASKED_AWS)
        assert engine.search.ask(AWS).hits == ()
    with opened(tmp_path, homes, "openclaw-2026.7") as engine:
        assert held(tmp_path)["a.jsonl"] == before
        assert AWS not in shown(engine.search.ask("harbor"))


def test_a_change_of_lists_that_was_stopped_leaves_nothing_mixed(
    tmp_path: Path, homes: Homes
) -> None:
    for number in range(6):
        homes.openclaw(f"{number}.jsonl", said("user", f"{LINE} {number}"))
    exact, wide = (
        homes.scope(
            tmp_path / "notes", "openclaw", rules=replace(RULES["openclaw-2026.9"], masks_more=more)
        )
        for more in (False, True)
    )
    workspace = Workspace(tmp_path / "notes", tmp_path / "index", transcripts=exact)
    workspace.sync()
    before = workspace.contents()
    workspace.transcripts = wide
    with pytest.raises(Cancelled):
        workspace.sync(lambda: masked_files(workspace) >= 2)
    assert 0 < masked_files(workspace) < 6
    workspace.transcripts = exact
    workspace.sync()
    assert workspace.contents().chunks.keys() == before.chunks.keys()
    workspace.close()


def masked_files(workspace: Workspace) -> int:
    """How many chunks have the wide list's mask."""
    return sum(MASKED_AWS in str(row[3]) for row in workspace.contents().chunks.values())
