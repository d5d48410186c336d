"""The vector leg beside the keyword leg: the same answers, and never two searches at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memtui.bus import Bus, SearchFailed, SearchReady
from memtui.embedding.provider import Vector
from memtui.engine import Engine
from memtui.engine.beside import Beside
from memtui.engine.retriever import Retriever
from memtui.errors import Cancelled, ProviderError
from memtui.index.database import DatabaseError
from memtui.model import CandidatePool, Leg, LegStatus, Reason
from memtui.retrieval.keyword import KeywordLeg
from tests.engine.test_engine import NOW, SETTINGS, answer, write_notes
from tests.engine.test_engine_faults import create_with
from tests.support.embedding import HashedProvider, registered_hashed

QUERIES = (
    "omada router vlan",
    "lotus tea",
    "清水寺",
    "gateway path:memory/*",
    "router -vlan",
    '"iot"',
)
BESIDE = "memtui-vectors"


class Watched(HashedProvider):
    """Notes on which thread it is asked, and can be made to wait or to fail."""

    threads: list[str]

    def __init__(self) -> None:
        super().__init__()
        self.threads = []
        self.gate = threading.Event()
        self.gate.set()
        self.asked = threading.Event()
        self.fails = False

    def embed_query(self, text: str, *, cancelled: Callable[[], bool] | None = None) -> Vector:
        self.threads.append(threading.current_thread().name)
        self.asked.set()
        assert self.gate.wait(20)
        if self.fails:
            raise ProviderError("it does not feel like it")
        return super().embed_query(text, cancelled=cancelled)


@pytest.fixture
def provider() -> Iterator[Watched]:
    with registered_hashed():
        made = Watched()
        create_with(lambda choice: made)
        yield made


@pytest.fixture
def engine(provider: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine that was searched once, and takes its vector leg for the slower one."""
    write_notes(tmp_path / "workspace")
    with Engine.open(
        tmp_path / "workspace", SETTINGS, data_dir=tmp_path / "data", now=lambda: NOW, bus=Bus()
    ) as opened:
        opened.index.sync(wait=True)
        opened.search.ask("first of all")
        expected = {Leg.KEYWORD: 0.001, Leg.VECTOR: 0.01}
        monkeypatch.setattr(Retriever, "_expectations", lambda *_: expected)
        provider.threads.clear()
        yield opened


def found(pool: CandidatePool) -> dict[Leg, list[tuple[str, float]]]:
    return {leg: [(hit.chunk_id, hit.raw) for hit in hits] for leg, hits in pool.hits.items()}


def test_the_answers_are_those_of_one_leg_after_the_other(
    engine: Engine, provider: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = [engine.search.ask(query) for query in QUERIES]
    names = provider.threads[:]
    assert names
    assert all(name.startswith(BESIDE) for name in names)
    monkeypatch.setattr(Retriever, "_search_beside", lambda *_: None)
    for query, ranked in zip(QUERIES, beside, strict=True):
        alone = engine.search.ask(query)
        assert found(alone.pool) == found(ranked.pool)
        assert [hit.score for hit in alone.hits] == [hit.score for hit in ranked.hits]
        assert alone.pool.states[Leg.VECTOR].status is ranked.pool.states[Leg.VECTOR].status


def test_a_model_that_fails_there_fails_its_leg_alone(engine: Engine, provider: Watched) -> None:
    provider.fails = True
    states = engine.search.ask("omada router").pool.states
    assert states[Leg.VECTOR].reason is Reason.PROVIDER_FAILED
    assert states[Leg.KEYWORD].status is LegStatus.OK


def test_a_keyword_leg_that_fails_leaves_the_vectors(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **more: object) -> None:
        raise DatabaseError("disk I/O error")

    monkeypatch.setattr(KeywordLeg, "search", fail)
    pool = engine.search.ask("omada router").pool
    assert pool.states[Leg.KEYWORD].reason is Reason.INDEX_FAILED
    assert pool.hits[Leg.VECTOR]


def test_a_newer_search_begins_when_the_older_one_is_over(
    engine: Engine, provider: Watched
) -> None:
    answered: list[int] = []
    engine.bus.subscribe(SearchReady, lambda event: answered.append(event.sequence))
    queue = engine.bus.queue((SearchReady, SearchFailed))
    provider.gate.clear()
    provider.asked.clear()
    engine.search.submit("omada")
    assert provider.asked.wait(20)
    newest = engine.search.submit("omada router")
    assert len(provider.threads) == 1
    provider.gate.set()
    assert answer(queue, newest).ranked.hits
    assert set(answered) == {newest}


def test_what_runs_is_over_when_its_block_is_left() -> None:
    beside = Beside()
    started, left, ended = threading.Event(), threading.Event(), threading.Event()

    def search() -> None:
        started.set()
        assert left.wait(20)
        ended.set()

    def leave() -> None:
        with beside.running(search):
            assert started.wait(20)
            assert not ended.is_set()
            left.set()
            raise Cancelled

    with pytest.raises(Cancelled):
        leave()
    assert ended.is_set()
    beside.close()
    beside.close()


def test_what_it_raises_comes_with_the_answer() -> None:
    beside = Beside()

    def search() -> int:
        raise Cancelled

    with beside.running(search) as running:
        assert running is not None
        with pytest.raises(Cancelled):
            running.result(20)
    beside.close()


def test_nothing_runs_where_there_is_nothing_to_search() -> None:
    beside = Beside()
    none: Callable[[], int] | None = None
    with beside.running(none) as running:
        assert running is None
    beside.close()
