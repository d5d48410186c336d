"""Switching the provider: the old index answers with its own model until the new one is made."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from memtui.bus import FileIndexed, SearchReady
from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.registry import provider_names
from memtui.errors import ProviderError, SettingsError
from memtui.model import Failure, IndexState, Leg, LegStatus, Reason
from memtui.retrieval.vector import WHEN_ASKED
from tests.support.provider_scenes import (
    NOTES,
    WAIT,
    Scene,
    opened_scene,
    settled,
    until,
    vector_leg,
)
from tests.support.services import DOWN, KEY_REFUSED, Service, registered


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with opened_scene(tmp_path) as made:
        yield made


def test_the_old_index_answers_with_its_own_model_until_the_new_one_is_there(
    scene: Scene,
) -> None:
    third = Service("third", model="model-three", dimensions=8)
    with registered(third), scene.open() as engine:
        engine.index.sync(wait=True)
        third.hanging.set()
        engine.providers.switch(EmbeddingChoice("third"))
        assert third.entered.wait(WAIT)
        status = engine.index.status()
        assert (status.provider.requested, status.provider.actual) == ("third", "third")
        assert status.state is IndexState.INDEXING
        assert status.progress is not None
        state = vector_leg(engine, "a new query")
        assert (state.status, state.facts["model"]) == (LegStatus.OK, "model-one")
        assert scene.first.queries == ["a new query"]
        third.hanging.clear()
        settled(engine, "third")
        assert vector_leg(engine, "another query").facts["model"] == "model-three"
        assert engine.index.status().provider.dimensions == 8
        assert scene.first.queries == ["a new query"]
        assert scene.first.open == 0, "the model that nobody asks is let go of"
    assert (third.open, scene.first.open) == (0, 0)
    assert len(third.texts) == len(NOTES)


def test_a_switch_back_sends_no_text_again(scene: Scene) -> None:
    with scene.open() as engine:
        engine.index.sync(wait=True)
        engine.providers.switch(EmbeddingChoice("spare"))
        settled(engine, "spare")
        engine.providers.switch(EmbeddingChoice("first"))
        settled(engine, "first")
        assert scene.meta()["provider"] == "first"
        stats = engine.index.status().last_sync
        assert stats is not None
        assert vector_leg(engine, "lotus").status is LegStatus.OK
    assert len(scene.first.texts) == len(scene.spare.texts) == len(NOTES)


def test_changed_settings_after_a_restart_do_the_same(scene: Scene) -> None:
    with scene.open() as engine:
        engine.index.sync(wait=True)
    scene.spare.hanging.set()
    with scene.open(provider="spare", fallback="none") as engine:
        # Nobody has loaded the former model; a local one is found by what the index says.
        engine.index.sync()
        assert scene.spare.entered.wait(WAIT)
        assert vector_leg(engine, "router").facts["model"] == "model-one"
        scene.spare.hanging.clear()
        settled(engine, "spare")
        assert vector_leg(engine, "router").facts["model"] == "model-two"
    assert scene.first.open == 0


def test_no_text_goes_to_a_service_that_is_no_longer_chosen(scene: Scene) -> None:
    scene.first.remote = True
    with scene.open() as engine:
        engine.index.sync(wait=True)
    with registered(scene.first), scene.open(provider="spare") as engine:
        state = vector_leg(engine, "router")
        assert (state.status, state.reason) == (LegStatus.SKIPPED, Reason.NO_VECTORS)
        assert "first model-one" in state.detail
    assert scene.first.queries == []


def test_a_switch_while_a_rebuild_runs_begins_anew(scene: Scene) -> None:
    third = Service("third", model="model-three")
    with registered(third), scene.open() as engine:
        engine.index.sync(wait=True)
        scene.spare.hanging.set()
        engine.providers.switch(EmbeddingChoice("spare"))
        assert scene.spare.entered.wait(WAIT)
        engine.providers.switch(EmbeddingChoice("third"))
        settled(engine, "third")
        assert scene.meta()["provider"] == "third"
        assert not engine.index.status().errors
    assert scene.spare.texts == []


def test_a_switch_to_one_that_fails_falls_back_and_keeps_the_index(scene: Scene) -> None:
    third = Service("third", model="model-three", refusal=KEY_REFUSED)
    with registered(third), scene.open(provider="spare") as engine:
        engine.index.sync(wait=True)
        generation = engine.index.status().generation
        engine.providers.switch(EmbeddingChoice("third"))
        settled(engine, "spare")
        state = engine.index.status().provider
        assert (state.requested, state.state) == ("third", Reason.FALLBACK)
        assert engine.index.status().generation == generation
        assert vector_leg(engine).status is LegStatus.OK
    assert len(scene.spare.texts) == len(NOTES)


@pytest.mark.parametrize("refusal", [KEY_REFUSED, DOWN])
def test_nothing_is_read_for_a_service_that_does_not_answer(
    scene: Scene, refusal: ProviderError
) -> None:
    third = Service("third", model="model-three", refusal=refusal, remote=True)
    with registered(third), scene.open(provider="spare") as engine:
        engine.index.sync(wait=True)
        read = engine.bus.queue(FileIndexed)
        engine.providers.switch(EmbeddingChoice("third"))
        until(lambda: engine.index.status().provider.state is Reason.FALLBACK)
        assert engine.wait_idle()
        assert read.get(timeout=0) is None
        assert engine.index.status().generation == 1


def test_a_name_that_does_not_exist_changes_nothing(scene: Scene) -> None:
    with scene.open() as engine:
        engine.index.sync(wait=True)
        for ask in (engine.providers.switch, engine.providers.cost, engine.providers.probe):
            with pytest.raises(SettingsError, match="nobody"):
                ask(EmbeddingChoice("nobody"))
        assert engine.index.status().provider.actual == "first"
        assert vector_leg(engine).status is LegStatus.OK


def test_keyword_search_alone_can_be_chosen(scene: Scene) -> None:
    with scene.open() as engine:
        engine.index.sync(wait=True)
        engine.providers.switch(EmbeddingChoice("none"))
        until(lambda: engine.wait_idle() and scene.meta()["provider"] == "none")
        assert vector_leg(engine).reason is Reason.DISABLED
        assert engine.index.status().provider.actual is None
        assert engine.search.ask("heron").hits


def test_the_cost_counts_what_is_not_in_the_cache(scene: Scene) -> None:
    scene.spare.remote = True
    with registered(scene.spare), scene.open() as engine:
        assert engine.providers.cost(EmbeddingChoice("spare")).chunks == 0
        engine.index.sync(wait=True)
        lengths = sum(-(-len(text) // 4) for text in NOTES.values())
        cost = engine.providers.cost(EmbeddingChoice("spare", price=2.0))
        assert (cost.files, cost.chunks, cost.cached) == (len(NOTES), len(NOTES), 0)
        assert cost.tokens_estimate == lengths
        assert cost.price == pytest.approx(lengths * 2.0 / 1e6)
        assert (cost.provider, cost.model, cost.remote) == ("spare", "model-two", True)
        assert engine.providers.cost(EmbeddingChoice("spare")).price is None, "not known: not free"
        same = engine.providers.cost(EmbeddingChoice("first"))
        assert (same.cached, same.tokens_estimate) == (len(NOTES), 0)
        assert replace(same, price=None) == replace(engine.index.rebuild_cost(), price=None)
        scene.spare.input_bytes = 20
        split = engine.providers.cost(EmbeddingChoice("spare"))
        assert split.chunks > len(NOTES)
    assert scene.spare.texts == []


def test_a_probe_tells_latency_and_dimensions_and_lets_go(scene: Scene) -> None:
    with scene.open() as engine:
        found = engine.providers.probe(EmbeddingChoice("spare"))
        assert (found.name, found.works, found.dimensions) == ("spare", True, 16)
        assert found.milliseconds is not None
        scene.spare.refusal = KEY_REFUSED
        refused = engine.providers.probe(EmbeddingChoice("spare"))
        assert (refused.works, refused.failure) == (False, Failure.KEY_REFUSED)
        assert (refused.hint, refused.milliseconds) == ("check the key", None)
        scene.spare.unloadable = ProviderError("no file", failure=Failure.NO_FILE)
        assert engine.providers.probe(EmbeddingChoice("spare")).failure is Failure.NO_FILE
    assert scene.spare.open == 0
    assert scene.spare.queries == ["memory"]


def test_closing_stops_a_probe_that_hangs(scene: Scene) -> None:
    scene.spare.hanging.set()
    with ThreadPoolExecutor(1) as pool:
        with scene.open() as engine:
            asked = pool.submit(engine.providers.probe, EmbeddingChoice("spare"))
            assert scene.spare.entered.wait(WAIT)
        found = asked.result(timeout=1)
    assert (found.works, found.detail) == (False, "stopped")
    assert scene.spare.open == 0


def test_every_provider_is_listed_with_its_part(scene: Scene) -> None:
    scene.first.unloadable = KEY_REFUSED
    with scene.open() as engine:
        engine.index.sync(wait=True)
        listed = {listing.name: listing for listing in engine.providers.available()}
    assert list(listed) == [name for name in provider_names() if name not in ("auto", "none")]
    first, spare = listed["first"], listed["spare"]
    assert (first.is_requested, first.is_actual, first.is_fallback) == (True, False, False)
    assert (spare.is_requested, spare.is_actual, spare.is_fallback) == (False, True, True)
    assert [name for name, one in listed.items() if one.is_actual] == ["spare"]
    assert listed["openai"].address == "api.openai.com"
    assert (listed["openai"].remote, listed["ollama"].remote) == (True, False)
    assert listed["minilm"].works
    assert listed["minilm"].dimensions == 384


def test_a_service_is_asked_when_the_query_is_finished(scene: Scene) -> None:
    scene.first.remote = True
    with registered(scene.first), scene.open() as engine:
        engine.index.sync(wait=True)
        typed = engine.search.ask("her", typing=True).pool.states[Leg.VECTOR]
        assert (typed.status, typed.reason) == (LegStatus.PENDING, Reason.PENDING)
        assert typed.detail == WHEN_ASKED
        assert scene.first.queries == []
        assert vector_leg(engine, "heron").status is LegStatus.OK
        assert scene.first.queries == ["heron"]
        again = engine.search.ask("heron", typing=True).pool.states[Leg.VECTOR]
        assert again.status is LegStatus.OK, "an answer that is known costs nothing"
        assert scene.first.queries == ["heron"]


def test_a_service_on_this_machine_is_asked_while_typing(scene: Scene) -> None:
    with scene.open() as engine:
        engine.index.sync(wait=True)
        typed = engine.search.ask("her", typing=True).pool.states[Leg.VECTOR]
        assert typed.status is LegStatus.OK
        assert scene.first.queries == ["her"]


def test_a_superseded_search_leaves_a_hanging_provider_at_once(scene: Scene) -> None:
    with scene.open() as engine:
        engine.index.sync(wait=True)
        ready = engine.bus.queue(SearchReady)
        scene.first.hanging.set()
        engine.search.submit("heron", typing=False)
        assert scene.first.entered.wait(WAIT)
        began = time.monotonic()
        sequence = engine.search.submit("router", typing=False)
        scene.first.hanging.clear()
        while not (isinstance(event := ready.get(timeout=WAIT), SearchReady) and event.complete):
            assert event is not None
        assert event.sequence == sequence
        assert time.monotonic() - began < 0.5
        assert "heron" not in scene.first.queries


def test_the_last_sync_tells_what_the_provider_was_asked_for(scene: Scene) -> None:
    with scene.open() as engine:
        engine.index.sync(wait=True)
        stats = engine.index.status().last_sync
        assert stats is not None
        assert stats.usage.texts == stats.chunks_embedded == len(NOTES)
        assert stats.usage.requests == -(-len(NOTES) // scene.first.batch_size)
        engine.index.sync(wait=True)
        again = engine.index.status().last_sync
        assert again is not None
        assert (again.usage.requests, again.usage.texts) == (0, 0)


def test_dimensions_that_only_an_answer_tells(scene: Scene) -> None:
    scene.first.knows_dimensions = False
    with registered(scene.first), scene.open() as engine:
        engine.index.sync(wait=True)
        assert vector_leg(engine, "kyoto").status is LegStatus.OK
        assert scene.meta()["dimensions"] == "16"
    with registered(scene.first), scene.open() as engine:
        # An index of before, and a provider that has not answered yet.
        assert vector_leg(engine, "kyoto").status is LegStatus.OK
        engine.index.sync(wait=True)
        assert engine.index.status().generation == 1


def test_no_sentence_of_a_note_goes_to_a_service_to_illustrate_it(scene: Scene) -> None:
    scene.first.remote = True
    with registered(scene.first), scene.open() as engine:
        engine.index.sync(wait=True)
        ranked = engine.search.ask("heron")
        sent = (list(scene.first.texts), list(scene.first.queries))
        passages = engine.explain.passages(ranked, ranked.hits[0].chunk.id)
        assert passages.model == "model-two"
        assert passages.found
        assert (scene.first.texts, scene.first.queries) == sent
    with registered(scene.first), scene.open(fallback="none") as engine:
        ranked = engine.search.ask("heron")
        passages = engine.explain.passages(ranked, ranked.hits[0].chunk.id)
        assert (passages.found, passages.reason) == ((), Reason.DISABLED)
    assert scene.first.texts == sent[0]


def test_passages_are_never_compared_with_a_vector_of_another_model(scene: Scene) -> None:
    with scene.open() as engine:
        engine.index.sync(wait=True)
        scene.spare.hanging.set()
        engine.providers.switch(EmbeddingChoice("spare"))
        assert scene.spare.entered.wait(WAIT)
        ranked = engine.search.ask("heron")
        assert ranked.pool.states[Leg.VECTOR].facts["model"] == "model-one"
        scene.spare.hanging.clear()
        passages = engine.explain.passages(ranked, ranked.hits[0].chunk.id)
        assert passages.model == "model-two"
        assert "heron" in scene.spare.queries
        settled(engine, "spare")


def test_keyword_hits_do_not_wait_for_a_service(scene: Scene) -> None:
    scene.first.remote = True
    with registered(scene.first), scene.open() as engine:
        engine.index.sync(wait=True)
        engine.search.ask("garden")
        engine.search.ask("her", typing=True)
        ready = engine.bus.queue(SearchReady)
        scene.first.hanging.set()
        sequence = engine.search.submit("heron", typing=False)
        first = ready.get(timeout=WAIT)
        assert isinstance(first, SearchReady)
        assert (first.sequence, first.complete) == (sequence, False)
        assert first.ranked.hits[0].chunk.path == "memory/heron.md"
        assert first.ranked.pool.states[Leg.VECTOR].status is LegStatus.PENDING
        scene.first.hanging.clear()
        second = ready.get(timeout=WAIT)
        assert isinstance(second, SearchReady)
        assert second.complete
        assert second.ranked.pool.states[Leg.VECTOR].status is LegStatus.OK


def test_under_many_switches_a_text_is_always_nearest_to_itself(scene: Scene) -> None:
    """A vector of one model, compared with those of another, would say anything but 1."""
    queries = {}
    for path in NOTES:
        name = Path(path).stem
        queries[path] = f"a note about the {name} and nothing but the {name}"
        (scene.root / path).write_text(queries[path] + "\n", encoding="utf-8")
    chosen = [EmbeddingChoice(name) for name in ("spare", "first", "none")]
    pick = random.Random(5)
    seen: Counter[str] = Counter()
    with scene.open(fallback="none") as engine:
        engine.index.sync(wait=True)
        for number in range(150):
            if number % 7 == 0:
                engine.providers.switch(chosen[number % 3])
            if number % 14 == 3:
                assert engine.wait_idle()
            path = pick.choice(list(queries))
            ranked = engine.search.ask(queries[path])
            state = ranked.pool.states[Leg.VECTOR]
            if state.status is not LegStatus.OK:
                assert state.reason in (Reason.DISABLED, Reason.NO_VECTORS), state
                continue
            seen[str(state.facts["model"])] += 1
            nearest = ranked.pool.hits[Leg.VECTOR][0]
            assert nearest.raw == pytest.approx(1.0, abs=1e-5)
            assert ranked.pool.chunks[nearest.chunk_id].path == path
        assert engine.wait_idle()
        assert not engine.index.status().errors
    assert set(seen) == {"model-one", "model-two"}
    assert set(Counter(scene.first.texts + scene.spare.texts).values()) == {2}, "once by each"
