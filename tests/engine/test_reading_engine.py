"""An engine that only reads answers what one that writes answers, and writes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memtui.engine import Engine
from memtui.errors import IndexMissing
from memtui.model import IndexState
from memtui.settings import EmbeddingSettings, IndexSettings, Settings
from tests.support.embedding import registered_hashed

NOW = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
SETTINGS = Settings(
    embedding=EmbeddingSettings(provider="hashed", fallback="none"),
    index=IndexSettings(watch=False),
)
QUESTIONS = ("router password", "Omada -vault", "京都駅", "when was the birthday of Mai", "xyzzy")


@pytest.fixture(autouse=True)
def hashed() -> Iterator[None]:
    with registered_hashed():
        yield


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("The router password lives in the vault.\n", "utf-8")
    (folder / "memory/2026-11-18.md").write_text("The Omada router: VLAN 20.\n", "utf-8")
    (folder / "memory/mai.md").write_text("Birthday of Mai: the third of May.\n", "utf-8")
    (folder / "memory/kyoto.md").write_text("京都駅から清水寺まではバスで行く。\n", "utf-8")
    return folder


@pytest.fixture
def data(root: Path, tmp_path: Path) -> Path:
    with Engine.open(root, SETTINGS, data_dir=tmp_path / "data", now=lambda: NOW) as engine:
        engine.index.sync(wait=True)
    return tmp_path / "data"


def test_reading_answers_what_writing_answers(root: Path, data: Path) -> None:
    for question in QUESTIONS:
        with Engine.open(root, SETTINGS, data_dir=data, now=lambda: NOW, write=False) as reader:
            found = reader.search.ask(question)
        with Engine.open(root, SETTINGS, data_dir=data, now=lambda: NOW) as writer:
            assert writer.search.ask(question).hits == found.hits


def test_a_change_between_two_looks_is_seen(root: Path, data: Path) -> None:
    with Engine.open(root, SETTINGS, data_dir=data, write=False) as engine:
        engine.index.refresh_status()
        assert engine.index.status().pending_count == 0
        (root / "MEMORY.md").write_text("Something else.\n", "utf-8")
        (root / "memory/new.md").write_text("Never indexed.\n", "utf-8")
        engine.index.refresh_status()
        assert engine.index.status().state is IndexState.STALE
        assert engine.index.status().pending == ("MEMORY.md", "memory/new.md")


def test_who_writes_is_told_to_who_reads(root: Path, data: Path) -> None:
    with Engine.open(root, SETTINGS, data_dir=data, write=False) as reader:
        for brief, name in ((True, "none"), (False, f"process {os.getpid()}")):
            with Engine.open(root, SETTINGS, data_dir=data):
                reader.index.refresh_status(brief=brief)
            assert reader.index.status().writer == name


def test_without_an_index_it_says_so_and_makes_none(root: Path, tmp_path: Path) -> None:
    data = tmp_path / "nowhere"
    with Engine.open(root, SETTINGS, data_dir=data, write=False, warm=True) as engine:
        with pytest.raises(IndexMissing):
            engine.search.ask("router")
        engine.index.refresh_status()
        assert engine.index.status().state is IndexState.NO_INDEX
        assert engine.index.status().pending_count == 4
    assert not data.exists()
