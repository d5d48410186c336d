"""Choosing a provider, saying honestly which one answers, and cleaning what it gives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from memtui.embedding import minilm, registry
from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.provider import Provider, clean_vectors
from memtui.embedding.registry import (
    Availability,
    Registration,
    create_provider,
    provider_identity,
)
from memtui.errors import Cancelled, ProviderError, SettingsError
from memtui.model import Failure, ProviderState, Reason
from tests.support.embedding import HashedProvider, hashed_identity, registered_hashed


@pytest.fixture
def hashed() -> Iterator[HashedProvider]:
    with registered_hashed() as shared:
        yield shared


HERE = Availability(True, "made for tests")
MISSING = Availability(False, "not there", failure=Failure.NOT_INSTALLED)
NAMES = "auto, minilm, use-multilingual, wordllama, gguf, openai, gemini, voyage, mistral, ollama"


def refuse(choice: EmbeddingChoice) -> Provider:
    raise ProviderError("it cannot start", hint="try later")


def test_none_is_keyword_search_by_wish() -> None:
    chosen, state = create_provider(EmbeddingChoice(provider="none"))
    assert chosen is None
    assert state == ProviderState(
        "none", None, None, None, Reason.DISABLED, "keyword search only, as configured"
    )
    assert provider_identity(EmbeddingChoice(provider="none")) is None


def test_a_provider_that_cannot_start_leaves_keyword_search(
    hashed: HashedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Registration("hashed", True, refuse, lambda choice: HERE, hashed_identity)
    monkeypatch.setitem(registry._registered, "hashed", broken)
    chosen, state = create_provider(EmbeddingChoice(provider="hashed"))
    assert chosen is None
    assert state == ProviderState(
        requested="hashed",
        actual=None,
        model="hashed-trigrams",
        dimensions=64,
        state=Reason.PROVIDER_FAILED,
        detail="it cannot start (try later)",
        remote=True,
        failure=Failure.MODEL_FAILED,
        hint="try later",
    )


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("minlm", "minilm"), ("MINILM", "minilm"), ("non", "none"), ("atuo", "auto")],
)
def test_an_unknown_name_names_the_nearest(name: str, nearest: str) -> None:
    choice = EmbeddingChoice(provider=name)
    for ask in (create_provider, provider_identity):
        with pytest.raises(SettingsError, match=f'did you mean "{nearest}"') as caught:
            ask(choice)
        assert f"valid: {NAMES}, none" in str(caught.value)


def test_a_name_like_nothing_lists_the_valid_ones() -> None:
    with pytest.raises(SettingsError, match="valid: auto") as caught:
        create_provider(EmbeddingChoice(provider="zzzzqqq"))
    assert "did you mean" not in str(caught.value)


def test_auto_takes_the_embedded_model() -> None:
    identity = provider_identity(EmbeddingChoice())
    assert identity is not None
    assert identity.name == "minilm"


def test_auto_never_takes_what_was_only_registered(
    hashed: HashedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = Registration("minilm", False, refuse, lambda choice: MISSING, minilm.identity)
    monkeypatch.setitem(registry._registered, "minilm", absent)
    chosen, state = create_provider(EmbeddingChoice())
    assert chosen is None
    assert (state.requested, state.actual, state.model) == ("auto", None, minilm.MODEL)
    assert state.detail.startswith("it cannot start")


def test_clean_vectors_keeps_directions_and_drops_what_is_none() -> None:
    raw = np.array([[3.0, 4.0], [np.nan, -2.0], [np.inf, -np.inf], [1e-11, 0.0], [1e300, 1e300]])
    half = np.sqrt(0.5)
    expected = [[0.6, 0.8], [0.0, -1.0], [0.0, 0.0], [0.0, 0.0], [half, half]]
    cleaned = clean_vectors(raw)
    assert cleaned.dtype == np.float32
    np.testing.assert_allclose(cleaned, expected, atol=1e-7)
    assert np.isnan(raw[1, 0])


def test_clean_vectors_takes_one_vector_and_none() -> None:
    np.testing.assert_allclose(clean_vectors(np.array([0.0, 5.0])), [0.0, 1.0])
    assert clean_vectors(np.zeros((0, 4))).shape == (0, 4)


class TestHashedProvider:
    """The provider that other tests use does what they rely on."""

    def test_alike_texts_have_alike_vectors(self) -> None:
        near, far, query = HashedProvider().embed_documents(
            ["the gateway router configuration", "banana bread recipe", "gateway router"]
        )
        assert query @ near > 0.5 > query @ far

    def test_queries_and_documents_agree(self) -> None:
        hashed = HashedProvider()
        alone = hashed.embed_query("one text")
        np.testing.assert_array_equal(alone, hashed.embed_documents(["other", "one text"])[1])
        np.testing.assert_allclose(np.linalg.norm(alone), 1.0, atol=1e-6)

    def test_fails_as_often_as_told(self) -> None:
        hashed = HashedProvider(fail_next=2)
        for _ in range(2):
            with pytest.raises(ProviderError):
                hashed.embed_query("x")
        hashed.embed_query("x")
        assert (hashed.calls, hashed.texts) == (3, 1)

    @pytest.mark.parametrize(("answer", "zero"), [("normal", False), ("zero", True)])
    def test_answers(self, answer: str, zero: bool) -> None:
        vector = HashedProvider(answer=answer).embed_query("some text")
        assert (not vector.any()) is zero

    def test_numbers_that_are_not_finite_are_cleaned(self) -> None:
        assert np.isfinite(HashedProvider(answer="nan").embed_query("some text")).all()

    def test_can_be_cancelled_and_closed(self) -> None:
        hashed = HashedProvider()
        with pytest.raises(Cancelled):
            hashed.embed_documents(["x"], cancelled=lambda: True)
        hashed.close()
        with pytest.raises(ProviderError):
            hashed.embed_query("x")

    def test_reads_what_it_is_told_to(self) -> None:
        assert HashedProvider().reads("любой")
        assert not HashedProvider(readable=str.isascii).reads("любой")
