"""What is said of the index is so at every moment: whose vectors it holds, and what is wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.provider import Provider
from memtui.embedding.registry import unregister
from memtui.engine import Engine
from memtui.engine.providers.failover import FIRST_PROBE_SECONDS
from memtui.errors import IndexMissing, ProviderError, SettingsError
from memtui.index.database import Connection
from memtui.index.schema import Recipe
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
from tests.support.services import DOWN, KEY_REFUSED, registered
from tests.support.small_memory import own_index, writer_of


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with opened_scene(tmp_path) as made:
        yield made


@pytest.mark.parametrize("refusal", [DOWN, KEY_REFUSED])
@pytest.mark.parametrize("remote", [True, False])
def test_an_index_with_vectors_stays_while_nobody_makes_those_of_the_new_one(
    scene: Scene, refusal: ProviderError, remote: bool
) -> None:
    scene.first.remote = remote
    with scene.open(provider="spare", fallback="none") as engine:
        engine.index.sync(wait=True)
        if remote:
            scene.first.refusal = refusal
        else:
            scene.first.unloadable = refusal
        engine.providers.switch(EmbeddingChoice("first"))
        assert writer_of(engine).indexer.wait_idle(WAIT)
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
        writer_of(follower).indexer._poll_seconds = 0.02
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


def test_a_model_that_changes_its_dimensions_behind_its_name(scene: Scene) -> None:
    scene.first.knows_dimensions = False
    with scene.open(fallback="none") as writer:
        writer.index.sync(wait=True)
    scene.first.dimensions = 8
    with scene.open(fallback="none") as engine:
        assert vector_leg(engine).reason is Reason.DIMENSIONS_DIFFER
        (scene.root / "memory/late.md").write_text("A later note.\n", encoding="utf-8")
        engine.index.sync(wait=True)
        # The index has changed, so that its vectors are looked at again.
        found = engine.search.ask("later")
        assert found.hits[0].chunk.path == "memory/late.md"


def test_a_rebuild_cures_vectors_of_other_dimensions_though_the_cache_has_them(
    scene: Scene,
) -> None:
    scene.first.knows_dimensions = False
    with scene.open(fallback="none") as engine:
        engine.index.sync(wait=True)
    scene.first.dimensions = 8
    with scene.open(fallback="none") as engine:
        (scene.root / "memory/late.md").write_text("A later note.\n", encoding="utf-8")
        engine.index.sync(wait=True)
        assert "a rebuild makes all of them anew" in engine.index.status().errors[0].message
        engine.index.rebuild(wait=True)
        assert vector_leg(engine).status is LegStatus.OK
        status = engine.index.status()
        assert (status.state, status.vectors) == (IndexState.READY, len(NOTES) + 1)
    assert scene.meta()["dimensions"] == "8"


def test_settings_that_no_longer_fit_the_model_are_an_outage(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(choice: EmbeddingChoice) -> Provider:
        raise SettingsError("512 dimensions of 384", hint="leave it empty")

    with scene.open() as engine:
        engine.index.sync(wait=True)
    monkeypatch.setattr(scene.first, "create", create)
    unregister("first")
    with registered(scene.first), scene.open() as engine:
        assert engine.search.ask("heron").hits, "the keyword search goes on"
        engine.index.sync(wait=True)
        settled(engine, "spare")
        state = engine.index.status().provider
        assert state.failure is Failure.BAD_SETTING
        assert state.detail.startswith("first: 512 dimensions of 384; spare answers instead")


def test_a_cache_that_cannot_shrink_is_no_failure_of_the_index(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: EmbeddingCache, limit: int) -> bool:
        raise OSError("database or disk is full")

    monkeypatch.setattr(EmbeddingCache, "is_above", full)
    with scene.open() as engine:
        engine.index.sync(wait=True)
        status = engine.index.status()
        assert status.state is IndexState.READY
        (record,) = status.errors
        assert (record.where, record.message) == (
            "cache",
            "cannot be kept within its bound: OSError: database or disk is full",
        )


def test_a_provider_that_is_let_go_of_in_mid_call_is_not_out_of_order(scene: Scene) -> None:
    closed = ProviderError("the provider is closed", failure=Failure.CLOSED)
    with scene.open() as engine:
        engine.index.sync(wait=True)
        scene.first.refusal = closed
        for query in ("one", "two", "three", "four"):
            assert vector_leg(engine, query).status is LegStatus.FAILED
        assert engine.index.status().provider.state is Reason.OK
        assert scene.spare.choices == []


def test_of_two_changes_at_once_the_later_one_counts(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recipe that is worked out first and handed on last would be that of nobody who answers."""
    with scene.open() as engine:
        engine.index.sync(wait=True)
        use, first, gone_on = writer_of(engine).indexer.use, threading.Event(), threading.Event()

        def slow_at_first(recipe: Recipe) -> None:
            if not first.is_set():
                first.set()
                gone_on.wait(0.3)
            use(recipe)

        monkeypatch.setattr(writer_of(engine).indexer, "use", slow_at_first)
        scene.first.model = "model-three"
        one = threading.Thread(target=_switch, args=(engine, "first"))
        one.start()
        assert first.wait(WAIT)
        two = threading.Thread(target=_switch, args=(engine, "spare"))
        two.start()
        two.join(0.15)
        gone_on.set()
        one.join(WAIT)
        two.join(WAIT)
        settled(engine, "spare")
        assert scene.meta()["provider"] == "spare"


def test_a_question_that_closing_interrupts_says_that_the_index_is_closed(scene: Scene) -> None:
    with scene.open() as engine:
        engine.index.sync(wait=True)
        begun = threading.Event()

        def begin(*arguments: object) -> int:
            begun.set()
            return 1

        def endless(connection: Connection) -> object:
            # An interrupt before the statement runs would be lost.
            connection.create_scalar_function("begin", begin, 0)
            counted = "WITH RECURSIVE c(x) AS (SELECT begin() UNION ALL SELECT x + 1 FROM c)"
            return connection.execute(f"{counted} SELECT count(*) FROM c").fetchall()

        with ThreadPoolExecutor() as threads:
            asked = threads.submit(own_index(engine).read_rows, endless)
            assert begun.wait(WAIT)
            engine.close()
            with pytest.raises(IndexMissing, match="closed"):
                asked.result(WAIT)


def _switch(engine: Engine, name: str) -> None:
    engine.providers.switch(EmbeddingChoice(name))
