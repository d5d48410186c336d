"""An engine that only reads answers what one that writes answers, and writes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from memtui.errors import IndexMissing
from memtui.model import IndexState
from tests.support.embedding import registered_hashed
from tests.support.small_memory import SmallMemory, make_small_memory

QUESTIONS = ("router password", "Omada -vault", "京都駅", "when was the birthday of Mai", "xyzzy")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SmallMemory]:
    with registered_hashed():
        yield make_small_memory(tmp_path)


def test_reading_answers_what_writing_answers(memory: SmallMemory) -> None:
    with memory.open(write=False) as reader:
        answers = [reader.search.ask(question).hits for question in QUESTIONS]
    with registered_hashed(), memory.open() as writer:
        assert [writer.search.ask(question).hits for question in QUESTIONS] == answers


def test_a_change_between_two_looks_is_seen(memory: SmallMemory) -> None:
    with memory.open(write=False) as engine:
        engine.index.refresh_status()
        assert engine.index.status().pending_count == 0
        (memory.root / "MEMORY.md").write_text("Something else.\n", "utf-8")
        (memory.root / "memory/new.md").write_text("Never indexed.\n", "utf-8")
        engine.index.refresh_status()
        assert engine.index.status().state is IndexState.STALE
        assert engine.index.status().pending == ("MEMORY.md", "memory/new.md")


def test_who_writes_is_told_to_who_reads(memory: SmallMemory) -> None:
    with memory.open(write=False) as reader:
        for brief, name in ((True, "none"), (False, f"process {os.getpid()}")):
            with memory.open():
                reader.index.refresh_status(brief=brief)
            assert reader.index.status().writer == name


def test_without_an_index_it_says_so_and_makes_none(memory: SmallMemory, tmp_path: Path) -> None:
    with make_small_memory(tmp_path / "other", indexed=False).open(
        write=False, warm=True
    ) as engine:
        with pytest.raises(IndexMissing):
            engine.search.ask("router")
        engine.index.refresh_status()
        assert engine.index.status().state is IndexState.NO_INDEX
        assert engine.index.status().pending_count == 12
    assert not (tmp_path / "other/data").exists()
