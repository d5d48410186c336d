"""A damaged index of memtui's own: every command tells it with the cure, and the cure heals it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from memtui.cli.main import run
from memtui.errors import IndexUnusable
from memtui.model import IndexState
from tests.support.command_line import Opened, command_line, own_home
from tests.support.conversations import began, said
from tests.support.embedding import HashedProvider, registered_hashed
from tests.support.known import load
from tests.support.small_memory import SmallMemory, make_small_memory

DAMAGES = load("damages")
CURE = "memtui index --force"
COMMANDS = {
    "search": "search router config",
    "explain": "explain router config --rank 1",
    "chunk": "chunk memory/2026-02-07.md:1",
    "care": "care",
    "sessions": "sessions",
    "status": "status",
    "doctor": "doctor --deep",
}


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallMemory]:
    home = own_home(tmp_path, monkeypatch)
    made, talk = make_small_memory(home), home / "talk.jsonl"
    talk.write_bytes(began() + said("user", "What is on the trunk port of the switch?"))
    settings = home / "config" / "memtui" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        '[embedding]\nprovider = "hashed"\nfallback = "none"\n'
        f'[index]\nwatch = false\ndata_dir = "{made.data}"\n[transcripts]\npaths = ["{talk}"]\n'
    )
    with registered_hashed(HashedProvider(word_pieces=True)):
        assert run(["index", "--root", str(made.root)], Opened()) == 0
        yield made


def damage(memory: SmallMemory, statement: str) -> None:
    """Change rows as a broken disk does, whatever the tables allow."""
    path = str(next(memory.data.glob("*/index-*.db")))
    with closing(apsw.Connection(path)) as connection:
        listed = "SELECT sql, name FROM sqlite_master WHERE name IN ('files', 'chunks', 'vectors')"
        tables = connection.execute(listed).fetchall()
    loose = [
        (str(sql).replace(" NOT NULL", "").replace(") STRICT", ")"), name) for sql, name in tables
    ]
    for schema, change in ((loose, statement), (tables, "")):
        with closing(apsw.Connection(path)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.executemany("UPDATE sqlite_master SET sql = ? WHERE name = ?", schema)
        with closing(apsw.Connection(path)) as connection:
            connection.execute(change)


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_told_with_its_cure_and_healed(
    name: str, memory: SmallMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    call, entry = command_line(capsys), DAMAGES[name]

    def memtui(command: str) -> Any:
        return call("--root", str(memory.root), *COMMANDS.get(command, command).split())

    capsys.readouterr()
    before = {command: memtui(command).out for command in ("search", "chunk")}
    damage(memory, entry["statement"])
    # The first search tells it, and so does the second.
    for command in (*entry["told_by"][:1], *entry["told_by"], "doctor"):
        if command == "browse":
            with memory.open(write=False) as engine:
                with pytest.raises(IndexUnusable, match=CURE):
                    engine.index.files.entries(bool)
                assert engine.index.status().state is IndexState.ERROR
                assert CURE in engine.index.status().errors[-1].message
            continue
        answer = memtui(command)
        told = answer.out + answer.err
        assert CURE in told, (command, told)
        assert "is damaged: " in told or "changed: " in told, (command, told)
        # A leg that can read the index answers.
        assert command in ("search", "explain") or answer.code == 3, (command, told)
    assert memtui("index --force").code == 0
    assert {command: memtui(command).out for command in before} == before
    healed = memtui("doctor")
    assert "texts, words, vectors of 15 chunks are whole" in healed.out
    assert "problem" not in healed.out.partition("PROVIDERS")[0], healed.out
