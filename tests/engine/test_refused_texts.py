"""A text that a service refuses costs its own vector and no other, and is not sent for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.bus import SyncFinished
from memtui.embedding.provider import TextsRefused, Vectors, bisect_rejected
from memtui.engine import Engine
from memtui.errors import ProviderError
from memtui.index.job import MOST_TRIES
from memtui.model import Failure, IndexState, LegStatus, Reason
from tests.support.events import collect
from tests.support.provider_scenes import NOTES, WAIT, Scene, opened_scene, vector_leg
from tests.support.small_memory import own_index, writer_of

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


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with opened_scene(tmp_path) as made:
        yield made


def sent(scene: Scene, word: str) -> int:
    """How often a text with a word was sent by itself."""
    return sum(word in text for text in scene.first.texts)


def is_tried_again(engine: Engine) -> bool:
    problem = writer_of(engine).indexer.snapshot().problem
    return problem is not None and problem.passes


def sync_by_itself(engine: Engine) -> None:
    writer_of(engine).indexer.sync()
    assert writer_of(engine).indexer.wait_idle(WAIT)


@pytest.mark.parametrize("error", [TOO_LONG, BAD])
@pytest.mark.parametrize("batch_size", [4, 100])
def test_the_other_texts_of_the_batch_get_their_vectors(
    scene: Scene, error: ProviderError, batch_size: int
) -> None:
    scene.first.batch_size = batch_size
    scene.first.alter = refusing("kyoto", error)
    with scene.open() as engine:
        engine.index.sync(wait=True)
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
        done = collect(engine.bus, SyncFinished)
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
    with scene.open() as engine:
        engine.index.sync(wait=True)
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
        return np.array([[float(text.split()[1])] for text in some], dtype=np.float32)

    apart = bisect_rejected(embed, texts, BAD, "text 99")
    assert isinstance(apart, TextsRefused)
    assert set(apart.refused) == {place for place, is_bad in enumerate(bad) if is_bad}
    assert {place: row[0] for place, row in apart.made.items()} == {
        place: place for place, is_bad in enumerate(bad) if not is_bad
    }
    assert len(calls) <= 2 * len(texts) - 1


def test_where_nothing_harmless_passes_no_text_is_to_blame() -> None:
    asked: list[Sequence[str]] = []

    def embed(texts: Sequence[str]) -> Vectors:
        asked.append(texts)
        raise BAD

    with pytest.raises(ProviderError) as raised:
        bisect_rejected(embed, [str(number) for number in range(1000)], TOO_LONG, "ok")
    assert raised.value is TOO_LONG
    assert asked == [["ok"]]
