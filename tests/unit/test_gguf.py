"""The provider `gguf`: tiny models of llama.cpp's own format, in a process of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import struct
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest import mock
from unittest.mock import Mock

import numpy as np
import pytest
from msgspec.structs import replace

from memtui.embedding import gguf
from memtui.embedding.gguf import ModelFile, describe_file, file_names, find_model
from memtui.embedding.provider import LocalProvider
from memtui.errors import Cancelled, ProviderError, SettingsError
from memtui.model import Failure
from memtui.settings.schema import EmbeddingSettings
from tests.support.embedding import check_alone_and_together, created, failure, provider_identity
from tests.support.interrupted import assert_ended, running_python
from tests.support.known import DATA, cases

MODELS = DATA / "models"
"""An encoder and a decoder of one layer each, in llama.cpp's format, with random weights."""
DIMENSIONS, CONTEXT = 32, 64
TEXTS = (
    "the backup is on the disk",
    "nightly copies saved to the server drive",
    "bake bread in the oven",
    "we keep a note on the budget meeting",
)


def choice_for(path: Path, **settings: object) -> EmbeddingSettings:
    known: dict[str, object] = {"provider": "gguf", "model_path": str(path), "threads": 1}
    return EmbeddingSettings(**(known | settings))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name in ("bert.gguf", "llama.gguf"):
        shutil.copy(MODELS / name, folder)
    return folder


@pytest.fixture(scope="module")
def providers(folder: Path) -> Iterator[dict[str, LocalProvider]]:
    made = {name: gguf.create(choice_for(folder / f"{name}.gguf")) for name in ("bert", "llama")}
    yield made
    for provider in made.values():
        provider.close()


@pytest.fixture
def own(folder: Path) -> Iterator[LocalProvider]:
    """A provider whose process a test may stop or kill."""
    with closing(gguf.create(choice_for(folder / "bert.gguf"))) as provider:
        yield provider


def workers() -> list[int]:
    """The processes of models that this one has started, the newest last."""
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    pids = sorted(int(pid) for task in tasks for pid in task.read_text().split())
    return [pid for pid in pids if b"gguf_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_vectors_are_those_of_the_weights(providers: dict[str, LocalProvider]) -> None:
    """The numbers are those of the model's one layer written out in numpy, in double precision."""
    vectors = providers["bert"].embed_documents([TEXTS[0], TEXTS[2]])
    assert vectors.shape == (2, DIMENSIONS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    expected = [
        [-0.18607162, -0.03701294, 0.10002044, -0.02289924],
        [-0.17065936, -0.16572502, 0.01661121, -0.20060897],
    ]
    np.testing.assert_allclose(vectors[:, :4], expected, atol=2e-4)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_a_vector_does_not_depend_on_its_neighbours(
    name: str, providers: dict[str, LocalProvider]
) -> None:
    provider = providers[name]
    check_alone_and_together(provider, TEXTS)
    assert provider.embed_documents([]).shape == (0, DIMENSIONS)


@pytest.mark.parametrize(("name", "special"), [("bert", 2), ("llama", 2)])
def test_a_long_text_is_cut_by_tokens_and_keeps_its_end_token(
    name: str, special: int, providers: dict[str, LocalProvider]
) -> None:
    """Letters are single tokens of both vocabularies; two places are for the special ones."""
    provider = providers[name]
    fits = " ".join("abcdefgh"[number % 8] for number in range(CONTEXT - 1 - special))
    before = provider.usage().tokens
    whole, more = provider.embed_query(fits), provider.embed_query(fits + " z z z z z")
    assert provider.usage().tokens - before == 2 * (CONTEXT - 1)
    np.testing.assert_array_equal(whole, more)


def test_it_knows_itself_without_loading(folder: Path, providers: dict[str, LocalProvider]) -> None:
    told = provider_identity(choice_for(folder / "bert.gguf"))
    assert told is not None
    assert told == providers["bert"].identity
    assert (told.name, told.model, told.dimensions) == ("gguf", "bert.gguf", DIMENSIONS)
    # Four bytes for each of its 64 tokens; a model for long texts gets 2048.
    assert told.input_bytes == 4 * CONTEXT
    assert told.fingerprint != providers["llama"].identity.fingerprint
    assert (providers["bert"].remote, providers["bert"].address) == (False, "")
    assert providers["bert"].reads("数据库")


def test_a_query_and_a_document_have_prefixes_of_their_own(
    folder: Path, providers: dict[str, LocalProvider]
) -> None:
    choice = choice_for(folder / "bert.gguf", query_prefix="bake ", document_prefix="copies ")
    prefixed, plain = gguf.create(choice), providers["bert"]
    np.testing.assert_array_equal(prefixed.embed_query("bread"), plain.embed_query("bake bread"))
    (document,) = prefixed.embed_documents(["bread"])
    np.testing.assert_array_equal(document, plain.embed_query("copies bread"))
    prefixed.close()


def test_vectors_can_be_cut(folder: Path, providers: dict[str, LocalProvider]) -> None:
    with closing(gguf.create(choice_for(folder / "bert.gguf", dimensions=16))) as cut:
        whole = providers["bert"].embed_documents(TEXTS)[:, :16]
        whole = whole / np.linalg.norm(whole, axis=1, keepdims=True)
        np.testing.assert_allclose(cut.embed_documents(TEXTS), whole, atol=1e-6)
    with pytest.raises(SettingsError, match="has 32"):
        created(choice_for(folder / "bert.gguf", dimensions=33))


def test_cancelled_within_a_tenth_of_a_second_while_the_model_works(own: LocalProvider) -> None:
    expected = own.embed_query(TEXTS[1])
    os.kill(workers()[-1], signal.SIGSTOP)
    cancelled = Mock(side_effect=[False, True])
    with pytest.raises(Cancelled):
        own.embed_documents([TEXTS[0]], cancelled=cancelled)
    assert cancelled.call_count == 2
    os.kill(workers()[-1], signal.SIGCONT)
    # The answer that nobody waited for is not taken for that of the next text.
    np.testing.assert_array_equal(own.embed_query(TEXTS[1]), expected)


def test_closed_while_a_text_is_embedded(own: LocalProvider) -> None:
    os.kill(workers()[-1], signal.SIGSTOP)
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
    others = workers()[:-1]
    own.close()
    thread.join(10)
    assert [error.failure for error in caught] == [Failure.CLOSED]
    assert workers() == others
    with pytest.raises(ProviderError, match="closed"):
        own.embed_query("x")


def test_the_process_ends_with_the_one_that_started_it(folder: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from memtui.embedding import gguf\n"
        "from memtui.settings.schema import EmbeddingSettings\n"
        "provider = gguf.create(EmbeddingSettings(provider='gguf', model_path=sys.argv[1]))\n"
        "print(open(f'/proc/self/task/{os.getpid()}/children').read(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with running_python("-c", program, str(folder / "bert.gguf")) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
    assert_ended(worker)


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
    expected = {"cut": "corrupted|to load", "twice": "GGML_ASSERT", "unknown": "bart"}[name]
    assert re.search(expected, detail)  # llama.cpp may drop the first line of its log
    assert capfd.readouterr() == ("", "")


def test_without_a_file_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HOME", "USERPROFILE", "OPENCLAW_HOME", "OPENCLAW_STATE_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    choices = [EmbeddingSettings(provider="gguf"), choice_for(tmp_path / "missing.gguf")]
    for choice in choices:
        detail, hint, kind = failure(choice)
        assert kind is Failure.NO_FILE
        with pytest.raises(ProviderError, match=re.escape(detail)):
            gguf.check(choice)
        assert "embedding.model_path" in hint
        told = gguf.identity(choice)
        assert told.dimensions is None
    assert gguf.identity(choices[1]).model == "missing.gguf"


DEFAULT = "hf_ggml-org_embeddinggemma-300m-qat-Q8_0.gguf"
FIRST = "hf_ggml-org_embeddinggemma-300M-Q8_0.gguf"


def refused(path: Path) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        describe_file(path)
    assert "\n" not in str(caught.value)
    assert str(path) in caught.value.message
    assert caught.value.hint
    return caught.value


def test_a_header_tells_what_an_embedding_model_is(tmp_path: Path) -> None:
    hostile = (MODELS / "llama.gguf").read_bytes().replace(b"Tiny Llama", b"\x1b[2J\nnames")
    (tmp_path / "two").write_bytes(hostile)
    one, two = MODELS / "bert.gguf", tmp_path / "two"
    assert [replace(describe_file(path), digest="") for path in (one, two)] == [
        ModelFile(one, "", "bert", "Tiny Bert", DIMENSIONS, CONTEXT, pooling=1),
        # It sees only what came before, so the last token stands for the text.
        ModelFile(two, "", "llama", "\u241b[2J names", DIMENSIONS, CONTEXT, pooling=3),
    ]


@pytest.mark.parametrize(
    ("architecture", "length", "context", "said"),
    [
        ("", 384, 512, "architecture"),
        ("llama", 384, 512, "how long"),
        *(("bert", length, 512, "how long") for length in (0, 1 << 20)),
        *(("bert", 384, context, "how long") for context in (0, 1 << 30)),
    ],
)
def test_a_header_that_does_not_say_enough(
    architecture: str, length: int, context: int, said: str, tmp_path: Path
) -> None:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    pairs = [text("general.architecture") + struct.pack("<I", 8) + text(architecture)]
    for name, number in (("embedding_length", length), ("context_length", context)):
        pairs.append(text(f"bert.{name}") + struct.pack("<II", 4, number))
    path = tmp_path / "model.gguf"
    path.write_bytes(header(0, 3, *pairs))
    error = refused(path)
    assert error.failure == Failure.BROKEN_FILE
    assert said in error.message


def header(tensors: int, pairs: int, *values: bytes, version: int = 3, order: str = "<") -> bytes:
    return b"GGUF" + struct.pack(f"{order}IQQ", version, tensors, pairs) + b"".join(values)


def pair(kind: int, form: str, *numbers: int) -> bytes:
    return struct.pack("<Q", 1) + b"k" + struct.pack("<I", kind) + struct.pack(f"<{form}", *numbers)


HOSTILE = {
    "empty": b"",
    "short": b"GG",
    "web page": b"<!DOCTYPE html>" * 100,
    "version 1": header(0, 0, version=1),
    "big-endian": header(0, 0, order=">"),
    "no pairs": header(0, 0),
    "many pairs": header(0, 2**63),
    "many tensors": header(2**63, 1),
    "long key": header(0, 1, struct.pack("<Q", 2**62), b"x" * 1000),
    "long text": header(0, 1, pair(8, "Q", 2**64 - 1)),
    "unknown kind": header(0, 1, pair(77, "")),
    "long list": header(0, 1, pair(9, "IQ", 4, 2**61)),
    "list of texts": header(0, 1, pair(9, "IQ", 8, 2**20)),
    "many texts": header(0, 1, pair(9, "IQ", 8, 2**21 + 1)),
    "list in a list": header(0, 1, pair(9, "IQIQ", 9, 1, 9, 1)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_headers_are_refused_in_one_line_and_little_memory(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(HOSTILE[name])
    tracemalloc.start()
    try:
        error = refused(path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert error.failure == Failure.BROKEN_FILE
    assert most < 1_000_000


def told_or_refused(path: Path, data: bytes) -> bool:
    """Read what `data` says; anything but a header or a `ProviderError` fails the test."""
    path.write_bytes(data)
    refusal: ProviderError | None = None
    try:
        header = describe_file(path)
    except ProviderError as error:
        refusal = error
    if refusal is None:
        assert header.dimensions >= 1
        assert header.context_length >= 1
        return True
    assert refusal.failure == Failure.BROKEN_FILE
    assert "\n" not in str(refusal)
    return False


def test_a_header_that_is_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = (MODELS / "bert.gguf").read_bytes()
    needed = whole.index(b"tokenizer.ggml.model") + len("tokenizer.ggml.model")
    read = [told_or_refused(tmp_path / "cut.gguf", whole[:end]) for end in range(needed)]
    assert not any(read)
    assert told_or_refused(tmp_path / "cut.gguf", whole[:needed])


def test_what_is_no_readable_file_is_told(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    for path, said in (
        (tmp_path / "missing.gguf", "No such file"),
        (tmp_path, "not a regular file"),
        (pipe, "not a regular file"),
    ):
        error = refused(path)
        assert error.failure == Failure.NO_FILE
        assert said in error.message
    with pytest.raises(ProviderError, match="path cannot be used"):
        describe_file(Path("nul\0.gguf"))


def test_a_large_file_is_told_from_samples(tmp_path: Path) -> None:
    path = Path(shutil.copy(MODELS / "bert.gguf", tmp_path / "large.gguf"))
    with path.open("r+b") as file:
        file.truncate(600 << 20)
        first = describe_file(path).digest
        assert describe_file(path).digest == first
        assert describe_file(path).dimensions == DIMENSIONS
        seen = [first]
        for place in (60_000, (600 << 20) // 64 * 7, (600 << 20) - 1):
            file.seek(place)
            file.write(b"?")
            file.flush()
            seen.append(describe_file(path).digest)
        file.truncate((600 << 20) + 1)
        seen.append(describe_file(path).digest)
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(("address", "names"), cases("services", "fetched_files"))
def test_names_of_fetched_files(address: str, names: list[str]) -> None:
    assert list(file_names(address)) == names


def found(home: Path, model_path: str = "") -> tuple[Path | None, str]:
    with mock.patch.dict(os.environ, {"HOME": str(home)}, clear=True):
        return find_model(EmbeddingSettings(provider="gguf", model_path=model_path))


def test_the_default_model_is_found_where_openclaw_keeps_it(tmp_path: Path) -> None:
    assert found(tmp_path)[0] is None
    folder = tmp_path / ".node-llama-cpp" / "models"
    folder.mkdir(parents=True)
    (folder / FIRST).touch()
    assert found(tmp_path)[0] == folder / FIRST
    (folder / DEFAULT).touch()
    assert found(tmp_path)[0] == folder / DEFAULT
    assert "OpenClaw" in found(tmp_path)[1]


def test_the_model_that_openclaw_is_configured_for_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "hf_someone_own-model.gguf").touch()
    (folder / DEFAULT).touch()
    local = {"modelPath": "hf:someone/own-model-GGUF/own-model.gguf", "modelCacheDir": "~/models"}
    configuration = {"agents": {"defaults": {"memorySearch": {"local": local}}}}
    (tmp_path / ".openclaw").mkdir()
    (tmp_path / ".openclaw" / "openclaw.json").write_text(json.dumps(configuration))
    place = found(tmp_path)
    assert place == (folder / "hf_someone_own-model.gguf", "OpenClaw's configuration")
    assert found(tmp_path, DEFAULT)[0] == folder / DEFAULT
    (folder / "hf_someone_own-model.gguf").unlink()
    assert found(tmp_path)[0] is None


def test_a_configured_file_is_the_only_one(tmp_path: Path) -> None:
    assert found(tmp_path, "~/one.gguf") == (tmp_path / "one.gguf", "embedding.model_path")
    assert found(tmp_path, "/models/one.gguf")[0] == Path("/models/one.gguf")
    assert found(tmp_path, "hf:someone/model-GGUF/model.gguf")[0] is None
