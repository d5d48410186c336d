"""Words that a search left out are read behind it, and take part in the next one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memtui.bus import SearchFailed, SearchReady
from memtui.engine import Engine
from memtui.model import Leg
from memtui.retrieval import postings, term_plan
from memtui.settings import EmbeddingSettings, IndexSettings, Settings

SETTINGS = Settings(embedding=EmbeddingSettings(provider="none"), index=IndexSettings(watch=False))
QUERY = "router vlan omada gateway"
NOTES = {
    "one": "router vlan omada gateway",
    "two": "router vlan omada",
    "three": "router vlan",
    "four": "garden tea",
}


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    for name in ("MIN_BUDGET", "BUDGET_SHARE"):
        monkeypatch.setattr(term_plan, name, 0)
    monkeypatch.setattr(postings, "SHORT", -1)
    folder = tmp_path / "workspace" / "memory"
    folder.mkdir(parents=True)
    for name, text in NOTES.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    with Engine.open(folder.parent, SETTINGS, data_dir=tmp_path / "data") as opened:
        opened.index.sync(wait=True)
        yield opened


def submitted(engine: Engine, text: str) -> object:
    queue = engine.bus.queue((SearchReady, SearchFailed))
    sequence = engine.search.submit(text, typing=False)
    while event := queue.get(timeout=20):
        assert not isinstance(event, SearchFailed)
        if isinstance(event, SearchReady) and event.sequence == sequence and event.complete:
            return event.ranked.pool.states[Leg.KEYWORD].facts["pruned"]
    raise AssertionError("no answer came")


def test_a_typed_search_finds_what_the_one_before_it_left_out(engine: Engine) -> None:
    assert submitted(engine, QUERY) == "router vlan"
    assert engine.wait_idle()
    assert submitted(engine, QUERY) == ""


def test_a_search_that_may_be_the_only_one_leaves_nothing_to_do(engine: Engine) -> None:
    for has_more in (True, False):
        engine.search.ask(QUERY)
        assert engine.wait_idle()
        assert engine.machine._retriever.can_prepare is has_more


def test_an_explanation_is_of_the_words_that_took_part(engine: Engine) -> None:
    engine.search.ask(QUERY)
    engine.search.ask(QUERY)
    assert engine.wait_idle()
    ranked = engine.search.ask(QUERY)
    match = ranked.pool.states[Leg.KEYWORD].facts["match"]
    assert match == '"router" OR "vlan" OR "omada" OR "gateway"'
    best = ranked.hits[0]
    told = engine.explain.keyword_terms(ranked, best.chunk.id)
    assert told is not None
    assert (told.match, told.pruned) == (match, ())
    assert told.score == best.legs[Leg.KEYWORD].raw
    assert [term.text for term in told.terms] == list(best.legs[Leg.KEYWORD].terms)
