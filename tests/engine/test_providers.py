"""A provider that fails is replaced, and taken back when it works; a text that is refused is not."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memtui.bus import IndexChanged, SearchReady, SyncFinished
from memtui.embedding.provider import TextsRefused, Vectors, bisect_rejected
from memtui.engine import Engine
from memtui.engine.providers.failover import FIRST_PROBE_SECONDS, LAST_PROBE_SECONDS
from memtui.errors import Cancelled, ProviderError, SettingsError
from memtui.index.database import SCHEMA_VERSION, open_database, write_meta
from memtui.index.job import MOST_TRIES
from memtui.model import Failure, IndexState, Leg, LegStatus, Reason
from memtui.settings.schema import EmbeddingSettings
from tests.support.indexing import EventQueue
from tests.support.provider_scenes import (
    NOTES,
    WAIT,
    Scene,
    opened_scene,
    ring,
    seconds_left,
    settled,
    until,
    vector_leg,
)
from tests.support.services import DOWN, KEY_REFUSED, Service, registered
from tests.support.small_memory import indexer_of, own_index


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with opened_scene(tmp_path) as made:
        yield made


def test_a_provider_that_cannot_be_loaded_is_replaced(scene: Scene) -> None:
    scene.first.unloadable = ProviderError(
        "no key was found", hint="set FIRST_KEY", failure=Failure.NO_KEY
    )
    with scene.synced(
        model="large", dimensions=12, base_url="https://first.example/v1", key_env="FIRST"
    ) as engine:
        state = engine.index.status().provider
        assert (state.requested, state.actual, state.state) == ("first", "spare", Reason.FALLBACK)
        assert (state.model, state.failure, state.hint) == (
            "model-two",
            Failure.NO_KEY,
            "set FIRST_KEY",
        )
        assert state.detail == (
            "first: no key was found; spare answers instead; tried again in 60 s (set FIRST_KEY)"
        )
        assert engine.index.status().state is IndexState.READY
        assert vector_leg(engine).facts["model"] == "model-two"
    assert scene.first.texts == []
    assert len(scene.spare.texts) == len(NOTES)
    assert scene.meta()["provider"] == "spare"
    # A model name of one provider, sent to another, is an error of its own.
    (asked,) = {choice.provider: choice for choice in scene.spare.choices}.values()
    assert (asked.provider, asked.model, asked.dimensions) == ("spare", None, None)
    assert (asked.base_url, asked.key_env) == (None, None)


@pytest.mark.parametrize("calls", ["-", "--", "--+--+", "---", "+---"])
def test_three_passing_failures_in_a_row_are_an_outage(scene: Scene, calls: str) -> None:
    with scene.synced() as engine:
        for number, call in enumerate(calls):
            scene.first.refusal = DOWN if call == "-" else None
            assert (vector_leg(engine, f"query {number}").status is LegStatus.OK) == (call == "+")
        scene.first.refusal = None
        if "---" not in calls:
            assert engine.index.status().provider.state is Reason.OK
            assert vector_leg(engine, "another").status is LegStatus.OK
            assert scene.spare.texts == []
        else:
            settled(engine, "spare")
            assert engine.index.status().provider.failure is Failure.SERVICE_DOWN


def test_a_provider_does_not_take_over_from_itself(scene: Scene) -> None:
    scene.spare.unloadable = KEY_REFUSED
    with scene.synced(provider="spare") as engine:
        state = engine.index.status().provider
        assert (state.actual, state.state) == (None, Reason.PROVIDER_FAILED)
        assert not any(each.is_fallback or each.is_actual for each in engine.providers.available())
    with scene.open(provider="spare") as engine:
        engine.index.refresh_status()
        assert engine.index.status().provider.failure is Failure.KEY_REFUSED, "it was noted"


def test_the_first_is_taken_back_without_a_restart_and_for_free(scene: Scene) -> None:
    with scene.synced() as engine:
        sent = list(scene.first.texts)
        assert sorted(sent) == sorted(set(sent))
        scene.first.refusal = KEY_REFUSED
        vector_leg(engine)
        settled(engine, "spare")
        assert scene.meta()["provider"] == "spare"
        scene.first.refusal = None
        ring(engine, scene.clock, FIRST_PROBE_SECONDS - 1)
        assert engine.index.status().provider.actual == "spare"
        assert "tried again in 1 s" in engine.index.status().provider.detail
        ring(engine, scene.clock, 1)
        settled(engine, "first")
        assert engine.index.status().provider.state is Reason.OK
        assert scene.meta()["provider"] == "first"
        assert vector_leg(engine, "router").facts["model"] == "model-one"
        assert scene.first.texts == sent, "a text was sent twice"
        assert scene.first.queries.count("memory") == 1
        # One that answers and fails at work is not switched to and fro.
        scene.first.refusal = KEY_REFUSED
        vector_leg(engine, "again")
        settled(engine, "spare")
        assert seconds_left(engine) == 2 * FIRST_PROBE_SECONDS


def test_a_first_that_stays_away_is_asked_ever_more_seldom(scene: Scene) -> None:
    scene.first.refusal = KEY_REFUSED
    with scene.synced() as engine:
        settled(engine, "spare")
        delays = []
        for _ in range(6):
            left = seconds_left(engine)
            assert left is not None
            delays.append(left)
            ring(engine, scene.clock, left)
        assert delays == [60, 120, 240, 480, LAST_PROBE_SECONDS, LAST_PROBE_SECONDS]
        assert engine.index.status().provider.actual == "spare"


def test_a_wish_to_sync_has_the_first_asked_at_once(scene: Scene) -> None:
    with scene.synced() as engine:
        scene.first.refusal = DOWN
        for query in ("one", "two", "three"):
            vector_leg(engine, query)
        settled(engine, "spare")
        scene.first.refusal = None
        engine.index.sync()
        settled(engine, "first")
        assert sorted(scene.first.texts) == sorted(set(scene.first.texts))


def test_chunks_without_vectors_are_asked_for_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bad answers among good ones are no outage, and need no wish of the user to be repeated."""
    bad = ProviderError("not a number", failure=Failure.BAD_ANSWER)
    refusals = iter([None, bad, bad])

    def fail_twice() -> None:
        scene.first.refusal = next(refusals, None)

    for number in range(16):
        path = scene.root / f"memory/new-{number}.md"
        path.write_text(f"Another note, number {number}.\n", encoding="utf-8")
    scene.first.before = fail_twice
    monkeypatch.setattr("memtui.index.indexer.FIRST_RETRY_SECONDS", 0.5)
    with scene.open() as engine:
        done = EventQueue(engine.bus, SyncFinished)
        engine.index.sync(wait=True)
        status = engine.index.status()
        assert status.provider.state is Reason.OK
        assert status.state is IndexState.DEGRADED
        assert status.chunks - status.vectors == 2 * scene.first.batch_size
        assert done.get(timeout=WAIT) is not None
        until(lambda: engine.index.status().vectors == status.chunks)
    assert sorted(scene.first.texts) == sorted(set(scene.first.texts))


def test_a_request_that_the_service_failed_is_made_again_in_the_same_sync(scene: Scene) -> None:
    refusals = iter([DOWN, DOWN])

    def fail_twice() -> None:
        scene.first.refusal = next(refusals, None)

    scene.first.before = fail_twice
    with scene.synced() as engine:
        assert (engine.index.status().state, engine.index.status().vectors) == (
            IndexState.READY,
            len(NOTES),
        )
    assert sorted(scene.first.texts) == sorted(set(scene.first.texts))
    assert scene.spare.texts == []


def test_when_both_fail_both_are_named(scene: Scene) -> None:
    scene.first.unloadable = KEY_REFUSED
    scene.spare.unloadable = ProviderError("the model is damaged", failure=Failure.BROKEN_FILE)
    with scene.synced() as engine:
        state = engine.index.status().provider
        assert (state.requested, state.actual) == ("first", None)
        assert state.state is Reason.PROVIDER_FAILED
        assert "HTTP 401" in state.detail
        assert "spare: the model is damaged" in state.detail
        assert engine.search.ask("heron").hits
        scene.first.unloadable = None
        ring(engine, scene.clock, FIRST_PROBE_SECONDS)
        settled(engine, "first")
        assert vector_leg(engine).status is LegStatus.OK


def test_a_search_alone_never_begins_to_index(scene: Scene) -> None:
    scene.synced().close()
    scene.first.refusal = KEY_REFUSED
    with scene.open() as engine:
        swapped = EventQueue(engine.bus, IndexChanged)
        for query in ("heron", "garden"):
            assert vector_leg(engine, query).reason is Reason.PROVIDER_FAILED
        assert engine.index.status().provider.actual == "spare"
        assert engine.wait_idle()
        assert swapped.get(timeout=0.05) is None
    assert scene.spare.texts == scene.spare.queries == []


def test_closing_does_not_wait_for_a_provider_that_hangs(scene: Scene) -> None:
    engine = scene.open()
    scene.first.hanging.set()
    engine.index.sync()
    assert scene.first.entered.wait(WAIT)
    began = time.monotonic()
    engine.close()
    assert time.monotonic() - began < 1.0
    assert (scene.first.open, scene.spare.open) == (0, 0)


def test_another_program_is_told_why_the_index_is_of_another_model(scene: Scene) -> None:
    scene.first.refusal = KEY_REFUSED
    with scene.synced() as engine:
        settled(engine, "spare")
    (note,) = scene.data.glob("*/provider.json")
    assert note.stat().st_mode & 0o077 == 0
    with scene.open() as engine:
        # Nothing is loaded and nobody is asked only to look.
        engine.index.refresh_status()
        state = engine.index.status().provider
        assert (state.requested, state.actual, state.state) == ("first", "spare", Reason.FALLBACK)
        assert (state.failure, state.hint) == (Failure.KEY_REFUSED, "check the key")
        assert state.detail.startswith("first: HTTP 401 from api.example")
        assert "tried again" not in state.detail
    with scene.open(provider="spare") as engine:
        assert engine.index.status().provider.state is Reason.OK
    scene.first.refusal = None
    with scene.synced() as engine:
        assert engine.index.status().provider.state is Reason.OK
    assert not note.exists()


@pytest.mark.parametrize("damaged", ["", "{}", "[1]", '{"requested": "first"}', "\x00"])
def test_a_damaged_note_of_the_provider_says_nothing(scene: Scene, damaged: str) -> None:
    scene.synced().close()
    folder = next(scene.data.iterdir())
    (folder / "provider.json").write_text(damaged, encoding="utf-8")
    with scene.open() as engine:
        assert engine.index.status().provider.state is Reason.OK


@pytest.mark.parametrize("refusal", [DOWN, KEY_REFUSED])
@pytest.mark.parametrize("remote", [True, False])
def test_an_index_with_vectors_stays_while_nobody_makes_those_of_the_new_one(
    scene: Scene, refusal: ProviderError, remote: bool
) -> None:
    scene.first.remote = remote
    with scene.synced(provider="spare", fallback="none") as engine:
        if remote:
            scene.first.refusal = refusal
        else:
            scene.first.unloadable = refusal
        engine.providers.switch(EmbeddingSettings(provider="first"))
        assert indexer_of(engine).wait_idle(WAIT)
        (scene.root / "memory/late.md").write_text("A note about a zeppelin.\n", encoding="utf-8")
        engine.index.sync(wait=True)
        status = engine.index.status()
        assert (status.provider.actual, status.state) == (None, IndexState.DEGRADED)
        assert (status.generation, status.files) == (1, len(NOTES) + 1)
        assert status.vectors == len(NOTES)
        leg = vector_leg(engine)
        assert (leg.status, leg.facts["provider"]) == (LegStatus.OK, "spare")
        assert engine.search.ask("zeppelin").hits[0].chunk.path == "memory/late.md"
        assert scene.meta()["provider"] == "spare"
        scene.first.refusal = scene.first.unloadable = None
        ring(engine, scene.clock, FIRST_PROBE_SECONDS)
        settled(engine, "first")
        until(lambda: engine.index.status().vectors == len(NOTES) + 1)
        assert scene.meta()["provider"] == "first"
        assert vector_leg(engine).facts["provider"] == "first"


def test_who_only_follows_says_whose_vectors_it_searches(scene: Scene) -> None:
    """Its own provider works, and is not the one that made the index."""
    with scene.open() as writer, scene.open() as follower:
        indexer_of(follower).poll_seconds = 0.02
        writer.index.sync(wait=True)
        until(lambda: follower.index.status().generation == writer.index.status().generation)
        assert vector_leg(follower).facts["provider"] == "first"
        scene.first.refusal = KEY_REFUSED
        vector_leg(writer, "garden")
        settled(writer, "spare")
        scene.first.refusal = None
        until(lambda: follower.index.status().generation == writer.index.status().generation)
        assert vector_leg(follower, "router").facts["provider"] == "spare"
        until(lambda: follower.index.status().provider.state is Reason.FALLBACK)
        state = follower.index.status().provider
        assert (state.requested, state.actual, state.model) == ("first", "spare", "model-two")
        assert "HTTP 401" in state.detail
        ring(writer, scene.clock, FIRST_PROBE_SECONDS)
        settled(writer, "first")
        until(lambda: follower.index.status().generation == writer.index.status().generation)
        assert vector_leg(follower, "kyoto").facts["provider"] == "first"
        until(lambda: follower.index.status().provider.state is Reason.OK)


def test_a_rebuild_cures_vectors_of_other_dimensions_though_the_cache_has_them(
    scene: Scene,
) -> None:
    scene.first.knows_dimensions = False
    scene.synced(fallback="none").close()
    scene.first.dimensions = 8
    with scene.open(fallback="none") as engine:
        (scene.root / "memory/late.md").write_text("A later note.\n", encoding="utf-8")
        engine.index.sync(wait=True)
        assert "a rebuild makes all of them anew" in engine.index.status().errors[0].message
        engine.index.sync(rebuild=True, wait=True)
        assert vector_leg(engine).status is LegStatus.OK
        status = engine.index.status()
        assert (status.state, status.vectors) == (IndexState.READY, len(NOTES) + 1)
    assert scene.meta()["dimensions"] == "8"


def test_a_provider_that_is_let_go_of_in_mid_call_is_not_out_of_order(scene: Scene) -> None:
    closed = ProviderError("the provider is closed", failure=Failure.CLOSED)
    with scene.synced() as engine:
        scene.first.refusal = closed
        for query in ("one", "two", "three", "four"):
            assert vector_leg(engine, query).status is LegStatus.FAILED
        assert engine.index.status().provider.state is Reason.OK
        assert scene.spare.choices == []


def test_the_old_index_answers_with_its_own_model_until_the_new_one_is_there(scene: Scene) -> None:
    third = Service("third", model="model-three", dimensions=8)
    with registered(third), scene.synced() as engine:
        third.hanging.set()
        engine.providers.switch(EmbeddingSettings(provider="third"))
        assert third.entered.wait(WAIT)
        status = engine.index.status()
        assert (status.provider.requested, status.provider.actual) == ("third", "third")
        assert status.state is IndexState.INDEXING
        assert status.progress is not None
        state = vector_leg(engine, "a new query")
        assert (state.status, state.facts["model"]) == (LegStatus.OK, "model-one")
        assert scene.first.queries == ["a new query"]
        engine.index.cancel()
        third.hanging.clear()
        until(lambda: engine.index.status().state is IndexState.STALE)
        engine.index.sync()
        settled(engine, "third")
        assert vector_leg(engine, "another query").facts["model"] == "model-three"
        assert engine.index.status().provider.dimensions == 8
        assert scene.first.queries == ["a new query"]
        assert scene.first.open == 0, "the model that nobody asks is let go of"
    assert (third.open, scene.first.open) == (0, 0)
    assert len(third.texts) == len(NOTES)


def test_no_text_goes_to_a_service_that_is_no_longer_chosen(scene: Scene) -> None:
    scene.first.remote = True
    scene.synced().close()
    with registered(scene.first), scene.open(provider="spare") as engine:
        state = vector_leg(engine, "router")
        assert (state.status, state.reason) == (LegStatus.SKIPPED, Reason.NO_VECTORS)
        assert "first model-one" in state.detail
    assert scene.first.queries == []


def test_a_name_that_does_not_exist_changes_nothing(scene: Scene) -> None:
    with scene.synced() as engine:
        nobody = EmbeddingSettings(provider="nobody")
        for ask in (engine.providers.switch, engine.providers.cost):
            with pytest.raises(SettingsError, match="nobody"):
                ask(nobody)
        probed = engine.providers.probe(nobody)
        assert (probed.works, probed.failure) == (False, None)
        assert "nobody" in probed.detail
        assert engine.index.status().provider.actual == "first"
        assert vector_leg(engine).status is LegStatus.OK


def test_the_cost_counts_what_is_not_in_the_cache(scene: Scene) -> None:
    scene.spare.remote = True
    with registered(scene.spare), scene.open() as engine:
        assert engine.providers.cost(EmbeddingSettings(provider="spare")).chunks == 0
        engine.index.sync(wait=True)
        lengths = sum(-(-len(text) // 4) for text in NOTES.values())
        cost = engine.providers.cost(EmbeddingSettings(provider="spare", price=2.0))
        assert (cost.files, cost.chunks, cost.cached) == (len(NOTES), len(NOTES), 0)
        assert cost.tokens_estimate == lengths
        assert cost.price == pytest.approx(lengths * 2.0 / 1e6)
        assert (cost.provider, cost.model, cost.remote) == ("spare", "model-two", True)
        assert engine.providers.cost(EmbeddingSettings(provider="spare")).price is None, (
            "not known: not free"
        )
        listed, batch = (
            engine.providers.cost(EmbeddingSettings(provider="openai", batch=batch)).price
            for batch in (False, True)
        )
        assert listed is not None
        assert batch == listed, "fewer texts than the minimum go without a batch"
        many = EmbeddingSettings(provider="openai", batch=True, batch_minimum=1)
        assert engine.providers.cost(many).price == pytest.approx(listed / 2)
        same = engine.providers.cost(EmbeddingSettings(provider="first"))
        assert (same.cached, same.tokens_estimate) == (len(NOTES), 0)
        assert replace(same, price=None) == replace(engine.providers.cost(), price=None)
        scene.spare.input_bytes = 20
        split = engine.providers.cost(EmbeddingSettings(provider="spare"))
        assert split.chunks > len(NOTES)
    assert scene.spare.texts == []


def test_a_probe_tells_latency_and_dimensions_and_lets_go(scene: Scene) -> None:
    with scene.open() as engine:
        found = engine.providers.probe(EmbeddingSettings(provider="spare"))
        assert (found.name, found.works, found.dimensions) == ("spare", True, 16)
        assert found.milliseconds is not None
        scene.spare.refusal = KEY_REFUSED
        refused = engine.providers.probe(EmbeddingSettings(provider="spare"))
        assert (refused.works, refused.failure) == (False, Failure.KEY_REFUSED)
        assert (refused.hint, refused.milliseconds) == ("check the key", None)
        scene.spare.unloadable = ProviderError("no file", failure=Failure.NO_FILE)
        assert (
            engine.providers.probe(EmbeddingSettings(provider="spare")).failure is Failure.NO_FILE
        )
    assert scene.spare.open == 0
    assert scene.spare.queries == ["memory"]


def test_closing_stops_a_probe_that_hangs(scene: Scene) -> None:
    scene.spare.hanging.set()
    with ThreadPoolExecutor(1) as pool:
        with scene.open() as engine:
            asked = pool.submit(engine.providers.probe, EmbeddingSettings(provider="spare"))
            assert scene.spare.entered.wait(WAIT)
        found = asked.result(timeout=1)
    assert (found.works, found.detail) == (False, "stopped")
    assert scene.spare.open == 0


def test_a_superseded_search_leaves_a_hanging_provider_at_once(scene: Scene) -> None:
    with scene.synced() as engine:
        ready = EventQueue(engine.bus, SearchReady)
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


def test_under_many_switches_a_text_is_always_nearest_to_itself(scene: Scene) -> None:
    """A vector of one model, compared with those of another, would say anything but 1."""
    queries = {}
    for path in NOTES:
        name = Path(path).stem
        queries[path] = f"a note about the {name} and nothing but the {name}"
        (scene.root / path).write_text(queries[path] + "\n", encoding="utf-8")
    chosen = [EmbeddingSettings(provider=name) for name in ("spare", "first", "none")]
    pick = random.Random(5)
    seen: Counter[str] = Counter()
    with scene.synced(fallback="none") as engine:
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


def test_an_index_of_an_older_memtui_is_made_anew_from_the_cache(scene: Scene) -> None:
    """Nobody is asked for a vector, and no other provider takes over for one that is down."""
    scene.first.remote = True
    scene.synced().close()
    with closing(open_database(next(scene.data.iterdir()) / "index-1.db")) as connection:
        write_meta(connection, {"schema_version": str(SCHEMA_VERSION - 1)})
    scene.first.texts.clear()
    scene.first.queries.clear()
    scene.first.refusal = DOWN
    with scene.synced() as engine:
        status = engine.index.status()
        assert (status.generation, status.vectors) == (2, status.chunks)
        assert status.provider.actual == "first"
    assert scene.meta()["provider"] == "first"
    assert scene.first.texts == scene.first.queries == scene.spare.texts == []


def test_what_breaks_because_it_is_closed_was_stopped(scene: Scene) -> None:
    with scene.open() as engine:
        provider, _ = own_index(engine).providers.get()
        assert provider is not None
        with pytest.raises(Cancelled):
            provider.embed_documents(["one"], cancelled=lambda: True)
    with pytest.raises(Cancelled):
        provider.embed_query("one")


TOO_LONG = ProviderError(
    "HTTP 400 from api.example: the text is too long for it",
    hint="use another model",
    failure=Failure.TOO_LARGE,
)
BAD = ProviderError("HTTP 400 from api.example", failure=Failure.BAD_REQUEST)
Alter = Callable[[Sequence[str], Vectors], Vectors]


def refusing(word: str, error: ProviderError = TOO_LONG) -> Alter:
    def answer(texts: Sequence[str], vectors: Vectors) -> Vectors:
        if any(word in text for text in texts):
            raise error
        return vectors

    return answer


def sent(scene: Scene, word: str) -> int:
    """How often a text with a word was sent by itself."""
    return sum(word in text for text in scene.first.texts)


def is_tried_again(engine: Engine) -> bool:
    problem = indexer_of(engine).snapshot().problem
    return problem is not None and problem.passes


def sync_by_itself(engine: Engine) -> None:
    indexer_of(engine).sync()
    assert indexer_of(engine).wait_idle(WAIT)


@pytest.mark.parametrize("error", [TOO_LONG, BAD])
@pytest.mark.parametrize("batch_size", [4, 100])
def test_the_other_texts_of_the_batch_get_their_vectors(
    scene: Scene, error: ProviderError, batch_size: int
) -> None:
    scene.first.batch_size = batch_size
    scene.first.alter = refusing("kyoto", error)
    with scene.synced() as engine:
        status = engine.index.status()
        assert (status.chunks, status.vectors) == (len(NOTES), len(NOTES) - 1)
        assert (status.state, status.provider.state) == (IndexState.DEGRADED, Reason.OK)
        expected = f"no vector for memory/kyoto.md:1-4: {error}"
        assert [record.message for record in status.errors] == [expected]
        assert status.warnings == (expected,)
        assert vector_leg(engine).status is LegStatus.OK
        assert own_index(engine).providers.primary.misses == 0
        scene.first.alter = None
        engine.index.sync(wait=True)
        assert engine.index.status().state is IndexState.READY
        assert engine.index.status().warnings == ()


def test_a_refused_text_alone_never_lets_the_fallback_answer(scene: Scene) -> None:
    """Also after a restart, where it is the only text that is sent."""
    scene.first.alter = refusing("kyoto")
    for _ in range(2):
        with scene.open() as engine:
            for _ in range(5):
                engine.index.sync(wait=True)
            assert engine.index.status().provider.actual == "first"
            assert engine.index.status().vectors == len(NOTES) - 1
    assert scene.spare.choices == []


def test_it_is_not_sent_at_every_sync(scene: Scene) -> None:
    scene.first.alter = refusing("kyoto")
    with scene.open() as engine:
        sync_by_itself(engine)
        scene.first.texts.clear()
        for _ in range(MOST_TRIES - 1):
            assert is_tried_again(engine)
            sync_by_itself(engine)
        assert not is_tried_again(engine)
        tries = sent(scene, "kyoto")
        assert tries == MOST_TRIES - 1
        done = EventQueue(engine.bus, SyncFinished)
        (scene.root / "memory/new.md").write_text("A new note.\n", encoding="utf-8")
        sync_by_itself(engine)
        assert done.get(timeout=WAIT) is not None
        status = engine.index.status()
        assert (status.vectors, status.chunks) == (len(NOTES), len(NOTES) + 1)
        assert status.state is IndexState.DEGRADED
        assert "memory/kyoto.md:1-4" in status.warnings[0]
        assert sent(scene, "kyoto") == tries
        engine.index.sync(wait=True)
        assert sent(scene, "kyoto") == tries + 1, "the user asked for work"


def test_a_service_that_refuses_everything_is_replaced(scene: Scene) -> None:
    scene.first.refusal = BAD
    with scene.synced() as engine:
        status = engine.index.status()
        assert status.provider.state is Reason.FALLBACK
        assert status.vectors == status.chunks
    assert scene.meta()["provider"] == "spare"


@given(st.lists(st.booleans(), min_size=1, max_size=40).filter(lambda bad: any(bad)))
def test_exactly_the_refused_ones_are_left_out(bad: list[bool]) -> None:
    texts = [f"text {place}" for place in range(len(bad))]
    refused = {text for text, is_bad in zip(texts, bad, strict=True) if is_bad}
    calls: list[int] = []

    def embed(some: Sequence[str]) -> Vectors:
        calls.append(len(some))
        if refused & set(some):
            raise TOO_LONG
        numbers = ("".join(filter(str.isdecimal, text)) for text in some)
        return np.array([[float(number or 0)] for number in numbers], dtype=np.float32)

    apart = bisect_rejected(embed, texts, BAD)
    assert isinstance(apart, TextsRefused)
    assert set(apart.refused) == {place for place, is_bad in enumerate(bad) if is_bad}
    assert {place: row[0] for place, row in apart.made.items()} == {
        place: place for place, is_bad in enumerate(bad) if not is_bad
    }
    assert len(calls) <= 2 * len(texts) - 1
