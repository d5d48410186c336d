"""A provider that fails is replaced by another, and taken back when it answers again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memtui.bus import IndexSwapped, SyncFinished
from memtui.engine.providers.failover import FIRST_PROBE_SECONDS, LAST_PROBE_SECONDS
from memtui.errors import ProviderError
from memtui.model import Failure, IndexState, LegStatus, Reason
from tests.support.provider_scenes import (
    NOTES,
    WAIT,
    Scene,
    opened_scene,
    ring,
    settled,
    until,
    vector_leg,
)
from tests.support.services import DOWN, KEY_REFUSED
from tests.support.small_memory import own_index, writer_of


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with opened_scene(tmp_path) as made:
        yield made


def test_a_provider_that_cannot_be_loaded_is_replaced(scene: Scene) -> None:
    scene.first.unloadable = ProviderError(
        "no key was found", hint="set FIRST_KEY", failure=Failure.NO_KEY
    )
    with scene.open() as engine:
        engine.index.sync(wait=True)
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


def test_the_fallback_gets_nothing_that_was_set_for_the_first(scene: Scene) -> None:
    """A model name of one provider, sent to another, is an error of its own."""
    scene.first.unloadable = KEY_REFUSED
    with scene.open(
        model="large",
        dimensions=12,
        base_url="https://first.example/v1",
        key_env="FIRST",
        query_prefix="query: ",
    ) as engine:
        engine.index.sync(wait=True)
    (asked,) = {choice.provider: choice for choice in scene.spare.choices}.values()
    assert (asked.provider, asked.model, asked.dimensions) == ("spare", None, None)
    assert (asked.base_url, asked.keys.variable, asked.query_prefix) == ("", "", None)


def test_a_failure_for_good_is_replaced_at_once(scene: Scene) -> None:
    scene.first.refusal = KEY_REFUSED
    with scene.open() as engine:
        engine.index.sync(wait=True)
        settled(engine, "spare")
        assert engine.index.status().provider.failure is Failure.KEY_REFUSED
        assert "HTTP 401" in engine.index.status().provider.detail
        assert vector_leg(engine).status is LegStatus.OK
    assert len(scene.spare.texts) == len(NOTES)


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_three_passing_failures_in_a_row_are_an_outage(scene: Scene, failures: int) -> None:
    with scene.open() as engine:
        engine.index.sync(wait=True)
        scene.first.refusal = DOWN
        for query in ("one", "two", "three")[:failures]:
            assert vector_leg(engine, query).reason is Reason.PROVIDER_FAILED
        scene.first.refusal = None
        if failures < 3:
            assert engine.index.status().provider.state is Reason.OK
            assert vector_leg(engine, "four").status is LegStatus.OK
            assert scene.spare.texts == []
        else:
            settled(engine, "spare")
            assert engine.index.status().provider.failure is Failure.SERVICE_DOWN


def test_an_answer_between_failures_begins_the_count_again(scene: Scene) -> None:
    with scene.open() as engine:
        engine.index.sync(wait=True)
        for number in range(6):
            scene.first.refusal = DOWN if number % 3 else None
            vector_leg(engine, f"query {number}")
        assert engine.index.status().provider.actual == "first"


def test_the_first_is_taken_back_without_a_restart_and_for_free(scene: Scene) -> None:
    with scene.open() as engine:
        engine.index.sync(wait=True)
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


def test_a_first_that_stays_away_is_asked_ever_more_seldom(scene: Scene) -> None:
    scene.first.refusal = KEY_REFUSED
    with scene.open() as engine:
        engine.index.sync(wait=True)
        settled(engine, "spare")
        alarm = own_index(engine).providers.timer
        delays = []
        for _ in range(6):
            left = alarm.left()
            assert left is not None
            delays.append(left)
            ring(engine, scene.clock, left)
            until(lambda: bool(alarm.left()))
        assert delays == [60, 120, 240, 480, LAST_PROBE_SECONDS, LAST_PROBE_SECONDS]
        assert engine.index.status().provider.actual == "spare"


def test_a_first_that_answers_and_fails_at_work_is_not_switched_to_and_fro(scene: Scene) -> None:
    with scene.open() as engine:
        engine.index.sync(wait=True)
        scene.first.refusal = KEY_REFUSED
        vector_leg(engine)
        settled(engine, "spare")
        scene.first.refusal = None
        ring(engine, scene.clock, FIRST_PROBE_SECONDS)
        settled(engine, "first")
        scene.first.refusal = KEY_REFUSED
        vector_leg(engine, "again")
        settled(engine, "spare")
        assert own_index(engine).providers.timer.left() == 2 * FIRST_PROBE_SECONDS


def test_a_wish_to_sync_has_the_first_asked_at_once(scene: Scene) -> None:
    with scene.open() as engine:
        engine.index.sync(wait=True)
        scene.first.refusal = DOWN
        for query in ("one", "two", "three"):
            vector_leg(engine, query)
        settled(engine, "spare")
        scene.first.refusal = None
        engine.index.sync()
        settled(engine, "first")
        assert sorted(scene.first.texts) == sorted(set(scene.first.texts))


def test_vectors_of_two_models_are_never_compared(scene: Scene) -> None:
    """Both have 16 numbers, so that only the names tell them apart."""
    with scene.open() as engine:
        engine.index.sync(wait=True)
        before = vector_leg(engine, "router")
        assert before.facts["model"] == "model-one"
        # While the spare is still making its vectors, nothing of it is asked for a query.
        scene.spare.hanging.set()
        scene.first.refusal = KEY_REFUSED
        vector_leg(engine, "heron")
        assert scene.spare.entered.wait(WAIT)
        state = vector_leg(engine, "garden")
        assert (state.status, state.reason) == (LegStatus.FAILED, Reason.PROVIDER_FAILED)
        assert scene.meta()["provider"] == "first"
        assert scene.spare.queries == []
        assert engine.search.ask("garden").hits
        scene.spare.hanging.clear()
        settled(engine, "spare")
        assert vector_leg(engine, "garden").facts["model"] == "model-two"
        assert engine.search.ask("garden").hits[0].chunk.path == "memory/garden.md"


@pytest.mark.parametrize("refusal", [KEY_REFUSED, DOWN])
def test_none_means_none_also_while_indexing(scene: Scene, refusal: ProviderError) -> None:
    with scene.open(fallback="none") as engine:
        engine.index.sync(wait=True)
        before = scene.meta()
        scene.first.refusal = refusal
        for number in range(16):
            path = scene.root / f"memory/new-{number}.md"
            path.write_text(f"A later note, number {number}.\n", encoding="utf-8")
        engine.index.sync(wait=True)
        status = engine.index.status()
        assert (status.provider.actual, status.provider.state) == (None, Reason.PROVIDER_FAILED)
        assert status.state is IndexState.DEGRADED
        assert (status.chunks, status.vectors) == (len(NOTES) + 16, len(NOTES))
        assert scene.meta() == before
        assert engine.search.ask("later").hits
        assert vector_leg(engine, "later").reason is Reason.PROVIDER_FAILED
        assert scene.spare.choices == []
        scene.first.refusal = None
        ring(engine, scene.clock, FIRST_PROBE_SECONDS)
        settled(engine, "first")
        until(lambda: engine.index.status().vectors == len(NOTES) + 16)
        assert engine.index.status().state is IndexState.READY


@pytest.mark.parametrize("refusal", [DOWN, KEY_REFUSED])
def test_a_memory_of_a_single_batch_gets_its_vectors_from_another(
    scene: Scene, refusal: ProviderError
) -> None:
    scene.first.batch_size = 100
    scene.first.refusal = refusal
    with scene.open() as engine:
        engine.index.sync(wait=True)
        status = engine.index.status()
        assert status.provider.state is Reason.FALLBACK
        assert status.vectors == status.chunks
    assert scene.meta()["provider"] == "spare"


def test_batches_that_failed_are_asked_for_again_in_the_same_run(scene: Scene) -> None:
    refusals = iter([None, DOWN])

    def fail_once() -> None:
        scene.first.refusal = next(refusals, None)

    scene.first.before = fail_once
    with scene.open() as engine:
        engine.index.sync(wait=True)
        status = engine.index.status()
        assert (status.state, status.vectors) == (IndexState.READY, len(NOTES))
        stats = status.last_sync
        assert stats is not None
        assert stats.chunks_embedded == len(NOTES)
        assert status.cache_misses == len(NOTES)
    assert sorted(scene.first.texts) == sorted(set(scene.first.texts))


def test_chunks_without_vectors_are_asked_for_again(scene: Scene) -> None:
    """Bad answers among good ones are no outage, and need no wish of the user to be repeated."""
    bad = ProviderError("not a number", failure=Failure.BAD_ANSWER)
    refusals = iter([None, bad, bad])

    def fail_twice() -> None:
        scene.first.refusal = next(refusals, None)

    for number in range(16):
        path = scene.root / f"memory/new-{number}.md"
        path.write_text(f"Another note, number {number}.\n", encoding="utf-8")
    scene.first.before = fail_twice
    with scene.open() as engine:
        done = engine.bus.queue(SyncFinished)
        engine.index.sync(wait=True)
        status = engine.index.status()
        assert status.provider.state is Reason.OK
        assert status.state is IndexState.DEGRADED
        assert status.chunks - status.vectors == 2 * scene.first.batch_size
        assert done.get(timeout=WAIT) is not None
        assert writer_of(engine).pending.timer.left() == 30
        scene.clock.now += 30
        writer_of(engine).pending.timer.look()
        assert done.get(timeout=WAIT) is not None
        assert engine.index.status().vectors == status.chunks
        assert writer_of(engine).pending.timer.left() is None
    assert sorted(scene.first.texts) == sorted(set(scene.first.texts))


def test_when_both_fail_both_are_named(scene: Scene) -> None:
    scene.first.unloadable = KEY_REFUSED
    scene.spare.unloadable = ProviderError("the model is damaged", failure=Failure.BROKEN_FILE)
    with scene.open() as engine:
        engine.index.sync(wait=True)
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
    with scene.open() as engine:
        engine.index.sync(wait=True)
    scene.first.refusal = KEY_REFUSED
    with scene.open() as engine:
        swapped = engine.bus.queue(IndexSwapped)
        assert vector_leg(engine).reason is Reason.PROVIDER_FAILED
        assert engine.index.status().provider.actual == "spare"
        assert engine.wait_idle()
        assert swapped.get(timeout=0.05) is None
    assert scene.spare.texts == []


def test_closing_does_not_wait_for_a_provider_that_hangs(scene: Scene) -> None:
    engine = scene.open()
    scene.first.hanging.set()
    engine.index.sync()
    assert scene.first.entered.wait(WAIT)
    began = time.monotonic()
    engine.close()
    assert time.monotonic() - began < 1.0
    assert (scene.first.open, scene.spare.open) == (0, 0)


def test_a_probe_that_hangs_holds_nobody_up(scene: Scene) -> None:
    scene.first.refusal = KEY_REFUSED
    engine = scene.open()
    engine.index.sync(wait=True)
    settled(engine, "spare")
    scene.first.hanging.set()
    ring(engine, scene.clock, FIRST_PROBE_SECONDS)
    assert scene.first.entered.wait(WAIT)
    assert vector_leg(engine).status is LegStatus.OK
    began = time.monotonic()
    engine.close()
    assert time.monotonic() - began < 1.0


def test_another_program_is_told_why_the_index_is_of_another_model(scene: Scene) -> None:
    scene.first.refusal = KEY_REFUSED
    with scene.open() as engine:
        engine.index.sync(wait=True)
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
    with scene.open() as engine:
        engine.index.sync(wait=True)
        assert engine.index.status().provider.state is Reason.OK
    assert not note.exists()


@pytest.mark.parametrize("damaged", ["", "{}", "[1]", '{"requested": "first"}', "\x00"])
def test_a_damaged_note_of_the_provider_says_nothing(scene: Scene, damaged: str) -> None:
    with scene.open() as engine:
        engine.index.sync(wait=True)
    folder = next(scene.data.iterdir())
    (folder / "provider.json").write_text(damaged, encoding="utf-8")
    with scene.open() as engine:
        assert engine.index.status().provider.state is Reason.OK


def test_the_price_of_the_first_is_not_that_of_the_fallback(scene: Scene) -> None:
    scene.first.unloadable = KEY_REFUSED
    with scene.open(price=3.0) as engine:
        engine.index.sync(wait=True)
        (scene.root / "memory/new.md").write_text("Another note.\n", encoding="utf-8")
        cost = engine.index.rebuild_cost()
        assert (cost.provider, cost.price) == ("spare", None)
