"""A search for one command answers what an engine answers, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memtui.engine import Engine
from memtui.engine.once import OneSearch
from memtui.errors import IndexMissing
from memtui.model import IndexState, IndexStatus, Leg, LegStatus, Ranked
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


def as_told(ranked: Ranked) -> Ranked:
    """Without what differs from run to run."""
    return replace(ranked, elapsed_ms=0.0, pool=replace(ranked.pool, elapsed_ms=0.0))


def leg_states(ranked: Ranked) -> dict[Leg, LegStatus]:
    return {leg: state.status for leg, state in ranked.pool.states.items()}


def by_engine(
    root: Path, data: Path, settings: Settings, question: str
) -> tuple[Ranked, IndexStatus]:
    opened = Engine.open(root, settings, data_dir=data, now=lambda: NOW, write=False)
    with opened as engine:
        ranked = engine.search.ask(question)
        engine.index.refresh_status()
        return ranked, engine.index.status()


def once(root: Path, data: Path, settings: Settings, question: str) -> tuple[Ranked, IndexStatus]:
    with closing(OneSearch(root, settings, data_dir=data, now=lambda: NOW)) as opened:
        with Engine.open(root, settings, data_dir=data, write=False) as engine:
            ranking = engine.ranking
        ranked = opened.search(question, ranking=ranking)
        opened.refresh_status()
        return ranked, opened.status()


@pytest.mark.parametrize("provider", ["hashed", "none"])
def test_it_answers_what_an_engine_answers(root: Path, data: Path, provider: str) -> None:
    settings = Settings(
        embedding=EmbeddingSettings(provider=provider, fallback="none"), index=SETTINGS.index
    )
    for question in QUESTIONS:
        ours, theirs = (ask(root, data, settings, question) for ask in (once, by_engine))
        assert as_told(ours[0]).hits == as_told(theirs[0]).hits
        assert leg_states(ours[0]) == leg_states(theirs[0])
        assert ours[1] == theirs[1]


def test_it_tells_of_a_note_that_changed(root: Path, data: Path) -> None:
    (root / "MEMORY.md").write_text("Something else.\n", "utf-8")
    (root / "memory/new.md").write_text("Never indexed.\n", "utf-8")
    ranked, status = once(root, data, SETTINGS, "router")
    assert ranked.hits
    assert status.state is IndexState.STALE
    assert status.pending == ("MEMORY.md", "memory/new.md")


def test_a_change_between_two_looks_is_seen(root: Path, data: Path) -> None:
    with closing(OneSearch(root, SETTINGS, data_dir=data)) as opened:
        opened.refresh_status()
        assert opened.status().pending_count == 0
        (root / "memory/new.md").write_text("Never indexed.\n", "utf-8")
        opened.refresh_status()
        assert opened.status().pending == ("memory/new.md",)


def test_without_an_index_it_says_so_and_makes_none(root: Path, tmp_path: Path) -> None:
    data = tmp_path / "nowhere"
    with Engine.open(root, SETTINGS, data_dir=tmp_path / "other", write=False) as engine:
        ranking = engine.ranking
    with closing(OneSearch(root, SETTINGS, data_dir=data)) as opened:
        with pytest.raises(IndexMissing):
            opened.search("router", ranking=ranking)
        opened.refresh_status()
        assert opened.status().state is IndexState.NO_INDEX
        assert opened.status().pending_count == 4
    assert not data.exists()
