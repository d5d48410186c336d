"""The provider `gguf`: tiny models of llama.cpp's own format, in a process of their own."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.gguf import process as process_module
from memtui.embedding.gguf import provider as gguf
from memtui.embedding.gguf.process import ModelProcess
from memtui.embedding.gguf.provider import GgufProvider
from memtui.embedding.gguf.worker import BEGINNING, read_beginning, read_frame
from memtui.embedding.provider import identity_of
from memtui.embedding.registry import create_provider, provider_identity, resolve
from memtui.errors import Cancelled, ProviderError, SettingsError
from memtui.model import Failure, Reason
from tests.support.gguf_writer import CONTEXT, DIMENSIONS, tiny_bert, tiny_llama

TEXTS = (
    "the backup is on the disk",
    "nightly copies saved to the server drive",
    "bake bread in the oven",
    "we keep a note on the budget meeting",
)


def choice_for(path: Path, **settings: object) -> EmbeddingChoice:
    known: dict[str, object] = {"provider": "gguf", "model_path": str(path), "threads": 1}
    return EmbeddingChoice(**(known | settings))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_bert(folder / "bert.gguf")
    tiny_llama(folder / "llama.gguf")
    return folder


@pytest.fixture(scope="module")
def providers(folder: Path) -> Iterator[dict[str, GgufProvider]]:
    made = {name: gguf.create(choice_for(folder / f"{name}.gguf")) for name in ("bert", "llama")}
    yield made
    for provider in made.values():
        provider.close()


@pytest.fixture
def own(folder: Path) -> Iterator[GgufProvider]:
    """A provider whose process a test may stop or kill."""
    provider = gguf.create(choice_for(folder / "bert.gguf"))
    yield provider
    provider.close()


def process_of(provider: GgufProvider) -> subprocess.Popen[bytes]:
    assert provider._loaded is not None
    return provider._loaded._process


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_vectors_are_those_of_the_bare_library(
    name: str, folder: Path, providers: dict[str, GgufProvider]
) -> None:
    pooling = {"bert": 1, "llama": 3}[name]
    program = (
        "import json, sys, llama_cpp\n"
        "path, pooling, texts = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])\n"
        f"model = llama_cpp.Llama(path, embedding=True, n_ctx={CONTEXT}, n_batch={CONTEXT}, "
        "pooling_type=pooling, verbose=False)\n"
        "print(json.dumps([model.embed(text, normalize=True) for text in texts]))\n"
    )
    command = [sys.executable, "-c", program, str(folder / f"{name}.gguf"), str(pooling)]
    run = subprocess.run([*command, json.dumps(TEXTS)], capture_output=True, text=True, check=True)
    vectors = providers[name].embed_documents(TEXTS)
    assert vectors.shape == (len(TEXTS), DIMENSIONS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(vectors, json.loads(run.stdout), atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_a_vector_does_not_depend_on_its_neighbours(
    name: str, providers: dict[str, GgufProvider]
) -> None:
    provider = providers[name]
    together = provider.embed_documents(TEXTS)
    backwards = provider.embed_documents(TEXTS[::-1])[::-1]
    alone = np.stack([provider.embed_query(text) for text in TEXTS])
    np.testing.assert_array_equal(together, backwards)
    np.testing.assert_array_equal(together, alone)
    assert provider.embed_documents([]).shape == (0, DIMENSIONS)


def test_many_threads_may_ask_at_once(providers: dict[str, GgufProvider]) -> None:
    provider = providers["bert"]
    expected = provider.embed_documents(TEXTS)
    with ThreadPoolExecutor(4) as pool:
        documents = [pool.submit(provider.embed_documents, TEXTS) for _ in range(3)]
        query = pool.submit(provider.embed_query, TEXTS[2])
        for answer in documents:
            np.testing.assert_array_equal(answer.result(), expected)
        np.testing.assert_array_equal(query.result(), expected[2])


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_hostile_texts_are_embedded(name: str, providers: dict[str, GgufProvider]) -> None:
    texts = ["", " ", "a" * 1_000_000, "\x00\x1b[31m", "\ud800", "[SEP][CLS]</s>", "💥" * 300]
    vectors = providers[name].embed_documents(texts)
    lengths = np.linalg.norm(vectors, axis=1)
    assert np.isfinite(vectors).all()
    assert all(abs(length - 1.0) < 1e-5 or length == 0.0 for length in lengths)


@pytest.mark.parametrize(("name", "special"), [("bert", 2), ("llama", 2)])
def test_a_long_text_is_cut_by_tokens_and_keeps_its_end_token(
    name: str, special: int, providers: dict[str, GgufProvider]
) -> None:
    """Letters are single tokens of both vocabularies; two places are for the special ones."""
    provider = providers[name]
    fits = " ".join("abcdefgh"[number % 8] for number in range(CONTEXT - special))
    before = provider.usage().tokens
    whole, more = provider.embed_query(fits), provider.embed_query(fits + " z z z z z")
    assert provider.usage().tokens - before == 2 * CONTEXT
    np.testing.assert_array_equal(whole, more)


def test_it_knows_itself_without_loading(folder: Path, providers: dict[str, GgufProvider]) -> None:
    told = provider_identity(choice_for(folder / "bert.gguf"))
    assert told is not None
    assert told._replace(input_bytes=None) == identity_of(providers["bert"])
    assert told[:3] == ("gguf", "bert.gguf", DIMENSIONS)
    # Four bytes for each of its 64 tokens; a model for long texts gets 2048.
    assert told.input_bytes == 4 * CONTEXT
    assert told.fingerprint != identity_of(providers["llama"]).fingerprint
    assert (providers["bert"].remote, providers["bert"].address) == (False, "")
    assert providers["bert"].reads("数据库")


def test_other_weights_or_settings_are_another_identity(folder: Path, tmp_path: Path) -> None:
    choices = [
        choice_for(folder / "bert.gguf"),
        choice_for(tiny_bert(tmp_path / "bert.gguf", seed=2)),
        choice_for(folder / "bert.gguf", query_prefix="query: "),
        choice_for(folder / "bert.gguf", document_prefix="query: "),
        choice_for(folder / "bert.gguf", dimensions=16),
    ]
    assert len({gguf.identity(choice).fingerprint for choice in choices}) == len(choices)
    renamed = gguf.identity(choice_for(folder / "bert.gguf", model="My model"))
    assert renamed.model == "My model"


def test_vectors_can_be_cut(folder: Path, providers: dict[str, GgufProvider]) -> None:
    cut = gguf.create(choice_for(folder / "bert.gguf", dimensions=16))
    whole = providers["bert"].embed_documents(TEXTS)[:, :16]
    whole = whole / np.linalg.norm(whole, axis=1, keepdims=True)
    np.testing.assert_allclose(cut.embed_documents(TEXTS), whole, atol=1e-6)
    cut.close()
    with pytest.raises(SettingsError, match="has 32"):
        create_provider(choice_for(folder / "bert.gguf", dimensions=33))


def test_prefixes_are_those_of_the_family_unless_they_are_set(
    tmp_path: Path, providers: dict[str, GgufProvider]
) -> None:
    path = tiny_bert(tmp_path / "nomic-embed-text-v1.5.Q8_0.gguf")
    family = gguf.create(choice_for(path))
    plain = providers["bert"]
    text = TEXTS[0]
    np.testing.assert_array_equal(
        family.embed_query(text), plain.embed_query(f"search_query: {text}")
    )
    np.testing.assert_array_equal(
        family.embed_documents([text])[0], plain.embed_query(f"search_document: {text}")
    )
    family.close()
    chosen = gguf.create(choice_for(path, query_prefix="", document_prefix="note: "))
    np.testing.assert_array_equal(chosen.embed_query(text), plain.embed_query(text))
    np.testing.assert_array_equal(
        chosen.embed_documents([text])[0], plain.embed_query(f"note: {text}")
    )
    chosen.close()


def test_the_family_is_told_by_the_name_inside_the_file_too(tmp_path: Path) -> None:
    plain = tiny_bert(tmp_path / "one.gguf", name="Tiny")
    named = tiny_bert(tmp_path / "two.gguf", name="Nomic Embed Text v1.5")
    prefixes = [gguf._plan(choice_for(path)).prefixes.query for path in (plain, named)]
    assert prefixes == ["", "search_query: "]


def test_cancelled_within_a_tenth_of_a_second_while_the_model_works(own: GgufProvider) -> None:
    expected = own.embed_query(TEXTS[1])
    os.kill(process_of(own).pid, signal.SIGSTOP)
    looks: list[int] = []

    def cancelled() -> bool:
        looks.append(1)
        return len(looks) > 1

    with pytest.raises(Cancelled):
        own.embed_documents([TEXTS[0]], cancelled=cancelled)
    assert len(looks) == 2
    os.kill(process_of(own).pid, signal.SIGCONT)
    # The answer that nobody waited for is not taken for that of the next text.
    np.testing.assert_array_equal(own.embed_query(TEXTS[1]), expected)


def test_cancelled_while_another_text_is_in_the_model(own: GgufProvider) -> None:
    os.kill(process_of(own).pid, signal.SIGSTOP)
    asked = threading.Event()

    def first_cancelled() -> bool:
        asked.set()
        return gave_up.is_set()

    gave_up = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(own.embed_documents, TEXTS, cancelled=first_cancelled)
        assert asked.wait(10)
        with pytest.raises(Cancelled):
            own.embed_query(TEXTS[1], cancelled=lambda: True)
        gave_up.set()
        assert isinstance(first.exception(10), Cancelled)
    os.kill(process_of(own).pid, signal.SIGCONT)
    assert own.embed_query(TEXTS[1]).any()


def test_cancelled_before_anything(own: GgufProvider) -> None:
    with pytest.raises(Cancelled):
        own.embed_query(TEXTS[0], cancelled=lambda: True)


def test_closed_while_a_text_is_embedded(own: GgufProvider) -> None:
    os.kill(process_of(own).pid, signal.SIGSTOP)
    asked = threading.Event()
    caught: list[ProviderError] = []

    def cancelled() -> bool:
        asked.set()
        return False

    def embed() -> None:
        with pytest.raises(ProviderError) as error:
            own.embed_documents(TEXTS, cancelled=cancelled)
        caught.append(error.value)

    thread = threading.Thread(target=embed)
    thread.start()
    assert asked.wait(10)
    process = process_of(own)
    own.close()
    thread.join(10)
    assert [error.failure for error in caught] == [Failure.CLOSED]
    assert process.returncode == -signal.SIGKILL
    with pytest.raises(ProviderError, match="closed"):
        own.embed_query("x")


def test_a_process_that_dies_is_a_provider_error(own: GgufProvider) -> None:
    process_of(own).kill()
    for _ in range(2):
        with pytest.raises(ProviderError, match="Killed") as caught:
            own.embed_documents(TEXTS)
        assert caught.value.failure == Failure.MODEL_FAILED
        assert "\n" not in str(caught.value)


def test_an_answer_is_never_that_of_the_text_before(own: GgufProvider) -> None:
    expected = own.embed_query(TEXTS[1])
    looks = [False]

    def cancelled() -> bool:
        return looks.pop()  # the second look fails

    process = process_of(own)
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(IndexError):
        own.embed_query(TEXTS[0], cancelled=cancelled)
    os.kill(process.pid, signal.SIGCONT)
    np.testing.assert_array_equal(own.embed_query(TEXTS[1]), expected)


def test_what_is_printed_before_the_process_begins_is_passed_over(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('R\\0\\0\\0\\0hello')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    provider = gguf.create(choice_for(folder / "bert.gguf"))
    try:
        assert provider.embed_query(TEXTS[0]).shape == (DIMENSIONS,)
    finally:
        provider.close()


def test_what_is_no_frame_is_the_end() -> None:
    stream = io.BytesIO(b"noise" + BEGINNING + b"Vabcd" + b"x" * 100)
    assert read_beginning(stream)
    assert read_frame(stream) is None
    assert not read_beginning(io.BytesIO(b"noise"))


def test_a_process_without_a_temporary_folder_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> None:
        raise FileNotFoundError(2, "No usable temporary directory")

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    detail, hint, _ = failure(choice_for(folder / "bert.gguf"))
    assert "no temporary file: No usable temporary directory" in detail
    assert "temporary folder" in hint


def test_a_name_that_is_no_utf_8_can_be_loaded(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"of\nmine-\xff.gguf")
    path.write_bytes((folder / "bert.gguf").read_bytes())
    provider = gguf.create(choice_for(path))
    provider.close()
    assert "\n" not in provider.model


def test_a_file_that_is_replaced_while_it_loads_is_not_taken_for_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny_bert(tmp_path / "model.gguf")
    other = tiny_bert(tmp_path / "other.gguf", seed=2)
    # Same size and time: only the content tells.
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))

    class Slow(ModelProcess):
        def __init__(self, *args: Any, **options: Any) -> None:
            other.replace(path)
            super().__init__(*args, **options)

    monkeypatch.setattr(process_module, "ModelProcess", Slow)
    detail, _, kind = failure(choice_for(path))
    assert "was changed while it was in use" in detail
    assert kind is Failure.BROKEN_FILE


def test_a_file_that_is_written_to_gives_no_more_vectors(tmp_path: Path) -> None:
    path = tiny_bert(tmp_path / "model.gguf")
    provider = gguf.create(choice_for(path))
    try:
        first = provider.embed_query(TEXTS[0])
        # Another file in its place leaves the one that is loaded as it was.
        path.rename(tmp_path / "kept.gguf")
        tiny_bert(path, seed=2)
        np.testing.assert_array_equal(provider.embed_query(TEXTS[0]), first)
        (tmp_path / "kept.gguf").replace(path)
        os.utime(path, ns=(1, 1))
        np.testing.assert_array_equal(provider.embed_query(TEXTS[0]), first)
        with path.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"?")
        with pytest.raises(ProviderError, match="was changed while it was in use"):
            provider.embed_documents(TEXTS)
    finally:
        provider.close()


def test_the_process_ends_with_the_one_that_started_it(folder: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from memtui.embedding.gguf import provider as gguf\n"
        "from memtui.embedding.choice import EmbeddingChoice\n"
        "provider = gguf.create(EmbeddingChoice('gguf', model_path=sys.argv[1]))\n"
        "print(provider._loaded._process.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(folder / "bert.gguf")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        worker = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    ended, _, _ = select.select([worker], [], [], 10)
    os.close(worker)
    assert ended == [worker]


def failure(choice: EmbeddingChoice) -> tuple[str, str, Failure | None]:
    """Expect the provider to fail; return what its state says."""
    provider, state = create_provider(choice)
    assert provider is None
    assert state.state is Reason.PROVIDER_FAILED
    assert "\n" not in state.detail
    return state.detail, state.hint, state.failure


@pytest.mark.parametrize("name", ["cut", "twice", "unknown"])
def test_a_file_that_llama_cpp_cannot_load_is_told(
    name: str, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = (folder / "bert.gguf").read_bytes()
    changed = {
        "cut": whole[:-4096],
        # A word that is in the vocabulary twice, on which llama.cpp ends its process.
        "twice": whole.replace("▁server".encode(), "▁budget".encode(), 1),
        "unknown": whole.replace(b"bert", b"bart"),
    }[name]
    path = tmp_path / "model.gguf"
    path.write_bytes(changed)
    detail, hint, kind = failure(choice_for(path))
    assert kind is Failure.BROKEN_FILE
    assert str(path) in detail
    assert hint
    expected = {"cut": "cannot be loaded", "twice": "GGML_ASSERT", "unknown": "bart"}[name]
    assert expected in detail
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("changed", "value"), [("pooling_type", 4), ("block_count", 3), ("attention.head_count", 0)]
)
def test_a_file_that_says_what_it_is_not_is_told(
    changed: str, value: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tiny_bert(tmp_path / "model.gguf", changed={changed: value})
    detail, hint, kind = failure(choice_for(path))
    assert kind in {Failure.NO_MODEL, Failure.BROKEN_FILE}
    assert str(path) in detail
    assert hint
    assert capfd.readouterr() == ("", "")


def test_without_a_file_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HOME", "USERPROFILE", "OPENCLAW_HOME", "OPENCLAW_STATE_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    choices = [EmbeddingChoice(provider="gguf"), choice_for(tmp_path / "missing.gguf")]
    for choice in choices:
        detail, hint, kind = failure(choice)
        seen = gguf.look(choice)
        assert kind is seen.failure is Failure.NO_FILE
        assert (seen.works, seen.detail, seen.hint) == (
            False,
            detail.removesuffix(f" ({hint})"),
            hint,
        )
        assert "embedding.model_path" in hint
        told = gguf.identity(choice)
        assert told.dimensions is None
    assert gguf.identity(choices[1]).model == "missing.gguf"


def test_without_the_package_it_says_how_to_install_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = choice_for(folder / "bert.gguf")
    assert gguf.look(choice).works
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None)
    _, hint, kind = failure(choice)
    seen = gguf.look(choice)
    assert (seen.works, seen.hint, seen.failure) == (False, hint, Failure.NOT_INSTALLED)
    assert kind is Failure.NOT_INSTALLED
    assert "pip install 'memtui[gguf]'" in hint


def test_a_library_that_does_not_load_is_told(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "llama_cpp.py").write_text("raise RuntimeError('no\\nlibrary')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    detail, hint, kind = failure(choice_for(folder / "bert.gguf"))
    assert kind is Failure.NOT_INSTALLED
    assert "llama-cpp-python cannot be loaded: no library" in detail
    assert "memtui[gguf]" in hint


def test_auto_takes_a_configured_model_whose_file_is_there(folder: Path, tmp_path: Path) -> None:
    for path, expected in ((folder / "bert.gguf", "gguf"), (tmp_path / "missing", "minilm")):
        registration = resolve(EmbeddingChoice(provider="auto", model_path=str(path)))
        assert registration is not None
        assert registration.name == expected


def test_the_terminal_hears_nothing(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    provider = gguf.create(choice_for(folder / "llama.gguf"))
    provider.embed_documents(TEXTS)
    provider.close()
    assert capfd.readouterr() == ("", "")
