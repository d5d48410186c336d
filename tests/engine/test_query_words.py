"""Words put into a query or taken out of it: what is suggested was searched, and does it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memtui.engine import Engine
from memtui.engine.what_if import MOST_SEARCHES, MOST_WORDS, WordsToTry, word_changes
from memtui.memory.workspace import demo_root
from memtui.model import Chunk, Leg, LegState, LegStatus, Ranked, Ranking, Reason
from memtui.model.inquiry import Place, WordChanges
from memtui.settings.schema import Settings
from memtui.text.tokens import STOP_WORDS

NOW = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, indexed_demo: Path) -> Iterator[Engine]:
    data = tmp_path_factory.mktemp("words") / "data"
    shutil.copytree(indexed_demo, data)
    with Engine.open(demo_root(), Settings(), data_dir=data, now=lambda: NOW) as opened:
        yield opened


class Counting:
    """An engine whose searches are counted; after `lose` of them the vector leg fails."""

    def __init__(self, engine: Engine, *, lose: int = 1000) -> None:
        self.engine = engine
        self.queries: list[str] = []
        self._lose = lose

    def search(self, text: str, *, ranking: Ranking | None = None, typing: bool = False) -> Ranked:
        """Count, and search."""
        self.queries.append(text)
        ranked = self.engine.search.ask(text, ranking=ranking, typing=typing)
        if len(self.queries) <= self._lose:
            return ranked
        failed = LegState(LegStatus.FAILED, Reason.PROVIDER_FAILED)
        states = {**ranked.pool.states, Leg.VECTOR: failed}
        return replace(ranked, pool=replace(ranked.pool, states=states))

    def words_to_try(self, ranked: Ranked, chunk_id: str) -> WordsToTry:
        """Those of the engine."""
        return self.engine.explain.words_to_try(ranked, chunk_id)


def missed(
    engine: Engine, query: str, path: str, ranking: Ranking, *, typing: bool = False
) -> tuple[Ranked, Chunk]:
    ranked = engine.search.ask(query, ranking=ranking, typing=typing)
    found = engine.explain.inquire_at(ranked, Place(path))
    assert found.chunk is not None
    assert not found.shown
    return ranked, found.chunk


def tried(
    engine: Engine, query: str, path: str, *, typing: bool = False
) -> tuple[WordChanges, Counting, Chunk]:
    wanted = engine.ranking
    ranked, chunk = missed(engine, query, path, wanted, typing=typing)
    counting = Counting(engine)
    terms = engine.explain.inquire(ranked, chunk.id).terms
    return (
        word_changes(counting.search, counting.words_to_try, ranked, wanted, chunk, terms),
        counting,
        chunk,
    )


@pytest.mark.parametrize("typing", [False, True])
@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("router config", "USER.md"),
        ("router config", "memory/2026-01-20.md"),
        ("who runs the standup", "memory/home/network.md"),
        ("train tickets path:memory", "memory/home/network.md"),
        ("京都 旅行", "memory/home/network.md"),
    ],
)
def test_every_suggestion_was_searched_and_shows_the_chunk(
    engine: Engine, query: str, path: str, typing: bool
) -> None:
    found, counting, chunk = tried(engine, query, path, typing=typing)
    assert found.changes
    assert found.reason is Reason.OK
    assert found.tried == len(counting.queries) <= MOST_SEARCHES
    assert len(set(counting.queries)) == len(counting.queries)
    for change in found.changes:
        assert change.query in counting.queries
        again = engine.search.ask(change.query, typing=typing)
        assert again.hits[change.rank_after - 1].chunk.id == chunk.id
        for word in change.added:
            assert word.lower() not in STOP_WORDS
            assert word in change.query.split()
            assert word.lower() in chunk.text.lower()
    sizes = [(len(c.added) + len(c.removed), c.rank_after) for c in found.changes]
    assert sizes == sorted(sizes)


def test_a_word_that_a_phrase_requires_is_taken_out(engine: Engine) -> None:
    shown = engine.search.ask("router vlan").hits[0].chunk
    query = 'router vlan "no note says this"'
    ranked = engine.search.ask(query)
    assert not ranked.hits
    terms = engine.explain.inquire(ranked, shown.id).terms
    assert terms is not None
    found = word_changes(
        engine.search.ask, engine.explain.words_to_try, ranked, engine.ranking, shown, terms
    )
    assert found.changes[0].removed == ("no note says this",)
    assert found.changes[0].query == "router vlan"


def test_a_search_without_a_leg_of_the_first_counts_for_nothing(engine: Engine) -> None:
    ranked, chunk = missed(engine, "router config", "USER.md", engine.ranking)
    counting = Counting(engine, lose=0)
    found = word_changes(
        counting.search, counting.words_to_try, ranked, engine.ranking, chunk, None
    )
    assert found.changes == ()
    assert found.reason is Reason.PROVIDER_FAILED
    assert found.tried == len(counting.queries) > 0


def test_the_words_to_try_are_rare_and_new(engine: Engine) -> None:
    ranked, chunk = missed(engine, "router config", "USER.md", engine.ranking)
    words = engine.explain.words_to_try(ranked, chunk.id).words
    assert 0 < len(words) <= MOST_WORDS
    holding = [len(engine.search.ask(w).pool.hits[Leg.KEYWORD]) for w in words if not w.isdigit()]
    assert holding == sorted(holding)
    assert all(len(word) > 1 for word in words)
    assert not {"router", "routers", "config"} & {word.lower() for word in words}
    assert engine.explain.words_to_try(ranked, "nothing").words == ()
